//! `gate`: judges finished work that anyone made. The same session, engine and result as `run`, without an agent.

use countersign_config::GATE;

use crate::args::{AgentArgs, CommonArgs, Format, GateArgs, ProjectArgs, TaskArgs, TraceMode};
use crate::run::{self, Wish};

pub(crate) fn gate(args: &GateArgs) -> u8 {
    let what = TaskArgs { text: None, task: None, task_file: None };
    let common = common(args);
    let judging = Wish::judging(&GATE, &what, &common, &args.judge);
    let wish = Wish { work: Some(&args.work), review: Some(&args.review), ..judging };
    run::command(&wish, common.format)
}

/// A project that is only looked at.
pub(crate) fn judging(project: &ProjectArgs, base: Option<String>) -> CommonArgs {
    CommonArgs {
        trust: project.trust,
        model: None,
        base_url: None,
        api_key_file: None,
        agent: AgentArgs::default(),
        repo: project.repo.clone(),
        base,
        include_dirty: false,
        sandbox: None,
        network: None,
        max_turns: None,
        max_tokens: None,
        max_cost: None,
        deadline: None,
        format: Format::Text,
        trace: TraceMode::Off,
        report: None,
        config: project.config.clone(),
    }
}

/// What an agent would need stays empty.
fn common(args: &GateArgs) -> CommonArgs {
    CommonArgs {
        trust: args.trust,
        model: None,
        base_url: None,
        api_key_file: None,
        agent: AgentArgs::default(),
        repo: args.repo.clone(),
        base: args.base.clone(),
        include_dirty: false,
        sandbox: args.sandbox,
        network: args.network,
        max_turns: None,
        max_tokens: None,
        max_cost: None,
        deadline: None,
        format: args.format.into(),
        trace: args.trace,
        report: args.report.clone(),
        config: args.config.clone(),
    }
}
