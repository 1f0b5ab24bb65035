//! `gate`: judges finished work that anyone made. The same session, engine and result as `run`, without an agent.

use countersign_config::GATE;

use crate::args::{CommonArgs, GateArgs, TaskArgs};
use crate::run::{self, Wish};

pub(crate) fn gate(args: &GateArgs) -> u8 {
    let what = TaskArgs { text: None, task: None, task_file: None };
    let common = common(args);
    let wish = Wish {
        preset: &GATE,
        what: &what,
        common: &common,
        check: &args.check,
        check_argv: &args.check_argv,
        expect: args.expect,
        check_timeout: args.check_timeout,
        repeats: args.repeats,
        deps: args.deps,
        attempts: None,
        no_check: false,
        scope: &args.scope,
        protect: &args.protect,
        allow: &args.allow,
        setup: args.setup.as_deref(),
        probe: args.probe.as_deref(),
        require_verified: args.require.is_some(),
        min_strength: args.min_strength,
        mutants: args.mutants,
        work: Some(&args.work),
    };
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
