//! The contract: everything that was asked for and resolved, in the form that the session is bound to.

use std::collections::BTreeMap;

use countersign_config::Resolved;
use countersign_kernel::contract::{
    CONTRACT_SCHEMA, Contract, Detectors, EnvironmentTerms, Limits, ModelTerms, Network, PresetRef,
    ReviewTerms, Source,
};
use countersign_types::{Tier, Trust};

use crate::run::Wish;
use crate::run::checks::Commands;
use crate::run::layers::Layers;

/// What a run is bound to, and `config explain` shows.
pub(super) fn build(
    wish: &Wish<'_>,
    resolved: &Resolved,
    commands: &Commands,
    (model, review): (Option<&ModelTerms>, Option<&ReviewTerms>),
    sandbox: Tier,
    source: &Source,
    layers: &Layers,
) -> Contract {
    let preset = resolved.preset;
    let contract = Contract {
        schema: CONTRACT_SCHEMA.to_owned(),
        preset: PresetRef {
            name: preset.name.to_owned(),
            digest: preset.digest(),
            canonical: resolved.canonical,
        },
        model: model.cloned(),
        trust: resolved.trust.value,
        sandbox,
        floor: resolved.trust.value.floor(),
        network: match resolved.network.value {
            countersign_config::Network::None => Network::None,
            countersign_config::Network::Host => Network::Host,
        },
        source: source.clone(),
        environment: EnvironmentTerms {
            setup: commands.setup.clone(),
            probe: commands.probe.clone(),
            layers: layers.layers.clone(),
            path: layers.path.clone(),
            env: BTreeMap::new(),
        },
        profile: commands.profile.clone(),
        checks: commands.checks.clone(),
        scope: commands.scope.clone(),
        protect: commands.protect.clone(),
        allow: commands.allow.clone(),
        unfenced: wish.no_fence,
        out_of_process: wish.out_of_process,
        // Without a check the outcome claims nothing, and so a run that changed nothing is an answer too.
        change_required: preset.change_required && !commands.checks.is_empty(),
        require_verified: wish.require_verified,
        min_strength: wish.min_strength,
        mutants: wish.mutants,
        attempts: resolved.attempts.value,
        limits: Limits {
            turns: resolved.max_turns.value,
            tokens: resolved.max_tokens.as_ref().map(|limit| limit.value),
            cost: resolved.max_cost.as_ref().map(|limit| limit.value),
            deadline: resolved.deadline.value,
            tool_actions: resolved.tool_actions,
            output_bytes: resolved.output.as_u64(),
            command_timeout: resolved.command_timeout.value,
            model_retries: resolved.model_retries,
        },
        detectors: Detectors::V1,
        candidate: None,
        review: review.cloned(),
        repro_first: wish.repro_first,
        pinned: None,
        tools: Vec::new(),
        deps: commands.deps,
        repository_instructions: resolved.trust.value != Trust::Untrusted,
    };
    Contract { tools: countersign_engine::tools(&contract), ..contract }
}
