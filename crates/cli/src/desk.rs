//! What a person asks of a session that another process may be driving: `approve`, `pause`, `cancel`, `revoke`. Each is
//! recorded in their name; a driver takes it in at its next look.

use countersign_engine::{Asked, Desk};
use countersign_kernel::{Command, Session, StopHow};
use countersign_types::SessionId;

use crate::args::{ApproveArgs, ControlArgs, Format, RevokeArgs, TextOrJson};
use crate::home::Home;
use crate::ports::{MachineClock, MachineIds};
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::{self, session};
use crate::status::{self, Status};
use crate::{evidence, exit, grants, lease, render, sweep, terminal};

pub(crate) fn approve(args: &ApproveArgs) -> u8 {
    told(args.format, || {
        let home = Home::open()?;
        run::runtime()?.block_on(async {
            let (session, task) = open(&home, &args.id).await?;
            let digest = session.contract.digest().map_err(|error| Refusal::bug(error.to_string()))?;
            if args.contract.is_some_and(|meant| meant != digest) {
                return Err(Refusal::usage(format!(
                    "--contract names another contract: that of session {} is {}",
                    args.id, digest
                )));
            }
            if args.format == TextOrJson::Text {
                for line in grants::lines(&session.contract, &task) {
                    terminal::err_line(&line);
                }
            }
            ask(&home, &args.id, &Command::Approve, args.reason.as_deref()).await?;
            status::of(&home, &args.id).await
        })
    })
}

pub(crate) fn pause(args: &ControlArgs) -> u8 {
    control(&args.id, args.format, &Command::Drain(StopHow::Request), args.reason.as_deref())
}

pub(crate) fn cancel(args: &ControlArgs) -> u8 {
    control(&args.id, args.format, &Command::Cancel(StopHow::Request), args.reason.as_deref())
}

pub(crate) fn revoke(args: &RevokeArgs) -> u8 {
    control(&args.id, args.format, &Command::Revoke(args.capability), args.reason.as_deref())
}

fn control(id: &SessionId, format: TextOrJson, command: &Command, why: Option<&str>) -> u8 {
    told(format, || {
        let home = Home::open()?;
        run::runtime()?.block_on(async {
            open(&home, id).await?;
            ask(&home, id, command, why).await?;
            if matches!(command, Command::Cancel(_)) {
                finish(&home, id).await?;
            }
            status::of(&home, id).await
        })
    })
}

fn told(format: TextOrJson, act: impl FnOnce() -> Result<Status, Refusal>) -> u8 {
    match (act(), format) {
        (Ok(status), TextOrJson::Json) => status::machine(&status),
        (Ok(status), TextOrJson::Text) => {
            terminal::out_line(&status.line());
            exit::DONE
        }
        (Err(refusal), format) => {
            render::refused(if format == TextOrJson::Json { Format::Json } else { Format::Text }, &refusal)
        }
    }
}

/// The session and its task, where there is still something to ask of it.
async fn open(home: &Home, id: &SessionId) -> Result<(Session, String), Refusal> {
    session::known(home, id).await?;
    let view = countersign_engine::view(home.store.as_ref(), id).await?;
    let Some(session) = view.session else {
        return Err(Refusal::usage(format!("session {id} was refused before it began: run its task again")));
    };
    if let Some(ending) = session.turn.as_ref().and_then(|turn| turn.ending) {
        return Err(Refusal::usage(format!(
            "session {id} has ended as {} ({}): nothing more can be asked of it",
            ending.outcome, ending.reason
        )));
    }
    Ok((session, view.input))
}

/// Asking for what is so already is fine.
async fn ask(home: &Home, id: &SessionId, command: &Command, why: Option<&str>) -> Result<Asked, Refusal> {
    let desk = desk(home);
    let (_, principal) = session::owner();
    Ok(desk.ask(id, &principal, command, why).await?)
}

fn desk(home: &Home) -> Desk<'_> {
    Desk { store: home.store.as_ref(), ids: &MachineIds, clock: &MachineClock }
}

/// A canceled session that nobody drives ends here, with its evidence and without what its cells left.
async fn finish(home: &Home, id: &SessionId) -> Result<(), Refusal> {
    if lease::held(home, id) {
        return Ok(());
    }
    desk(home).settle(id, &session::holder()).await?;
    let view = countersign_engine::view(home.store.as_ref(), id).await?;
    if view
        .session
        .as_ref()
        .and_then(|session| session.turn.as_ref())
        .is_some_and(|turn| turn.ending.is_some())
    {
        let mut result = RunResult::of(&view, &home.session(id));
        evidence::attach(home, &mut result).await;
        for note in &result.degraded {
            terminal::err_line(&format!("note: {}", crate::text::safe(note)));
        }
        sweep::leftovers(home).await;
    }
    Ok(())
}
