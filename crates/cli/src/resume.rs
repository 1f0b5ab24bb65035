//! `resume`: goes on with a session that was parked, or whose process died.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_types::{Outcome, Reason, SessionId};

use crate::args::{Format, ResumeArgs};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::session::Prepared;
use crate::run::{self, model, repository, session};
use crate::signals::Signals;
use crate::{render, tiers};

pub(crate) fn resume(args: &ResumeArgs) -> u8 {
    let result = execute(args)
        .unwrap_or_else(|refusal| RunResult::refused(Some(args.id.clone()), None, &[], &refusal));
    render::result(args.format, &result);
    result.code()
}

fn execute(args: &ResumeArgs) -> Result<RunResult, Refusal> {
    let home = Home::open()?;
    let runtime = run::runtime()?;
    let ended = runtime.block_on(async {
        session::known(&home, &args.id).await?;
        let view = countersign_engine::view(home.store.as_ref(), &args.id).await?;
        if view.outcome.is_none_or(|(outcome, _)| outcome == Outcome::Parked) {
            return Ok::<_, Refusal>(None);
        }
        // Its last process may have been stopped before it could clear up.
        crate::sweep::leftovers(&home).await;
        let mut result = RunResult::of(&view, &home.session(&args.id));
        // Or before it could leave its evidence.
        crate::evidence::attach(&home, &mut result).await;
        Ok(Some(result))
    })?;
    if let Some(result) = ended {
        return Ok(result);
    }
    let signals = listen(&runtime, &args.id, args.format)?;
    let prepared = runtime.block_on(prepare(args, home, args.api_key_file.clone(), &signals))?;
    signals.begin();
    let result = runtime.block_on(session::resume(prepared));
    signals.end();
    runtime.shutdown_background();
    Ok(result)
}

fn listen(
    runtime: &tokio::runtime::Runtime,
    id: &SessionId,
    format: Format,
) -> Result<Arc<Signals>, Refusal> {
    let _guard = runtime.enter();
    let id = id.clone();
    let early = move || {
        let refusal = Refusal::new(
            Reason::Signal,
            "stopped by a signal before the session went on; it is still parked",
        );
        let result = RunResult::refused(Some(id.clone()), None, &[], &refusal);
        render::result(format, &result);
        result.code()
    };
    Signals::listen(early)
        .map_err(|error| Refusal::new(Reason::CellDied, format!("signals cannot be listened to: {error}")))
}

async fn prepare(
    args: &ResumeArgs,
    home: Home,
    api_key_file: Option<PathBuf>,
    signals: &Arc<Signals>,
) -> Result<Prepared, Refusal> {
    let Some(contract) = session::contract(&home, &args.id).await? else {
        return Err(Refusal::usage(format!(
            "session {} was refused before it began: run its task again",
            args.id
        )));
    };
    let agent = contract.model.as_ref().map(|terms| (terms, api_key_file));
    let review = contract.review.as_ref();
    let reviewer = review.map(|review| (&review.model, args.review_api_key_file.clone()));
    let model = model::again(agent, reviewer, &run::keys_again(&contract)?)?;
    let candidate = run::work::again(contract.candidate.as_ref())?;
    let cells = tiers::again(contract.sandbox)?;
    let sources = repository::again(&contract.source)?;
    Ok(Prepared {
        id: args.id.clone(),
        contract,
        task: String::new(),
        model,
        home,
        cells,
        sources,
        candidate,
        notes: Vec::new(),
        degraded: Vec::new(),
        format: args.format,
        trace: args.trace,
        signals: Arc::clone(signals),
        settings: None,
    })
}
