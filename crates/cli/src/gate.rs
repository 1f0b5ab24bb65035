//! `gate`: judges finished work that anyone made. The same session, engine and result as `run`, without an agent.

use countersign_config::GATE;

use crate::args::{CommonArgs, GateArgs, TaskArgs};
use crate::run::{self, Wish};

pub(crate) fn gate(args: &GateArgs) -> u8 {
    let what = TaskArgs { text: None, task: None, task_file: None };
    let common = common(args);
    let wish = Wish { work: Some(&args.work), ..Wish::judging(&GATE, &what, &common, &args.judge) };
    run::command(&wish, common.format)
}

/// What an agent would need stays empty.
fn common(args: &GateArgs) -> CommonArgs {
    CommonArgs {
        trust: args.trust,
        model: None,
        base_url: None,
        api_key_file: None,
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
        config: args.config.clone(),
    }
}
