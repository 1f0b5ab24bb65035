//! Makes requests ready: their bytes are what an intent is bound to. Nothing here acts.

use countersign_kernel::{EffectKind, Intent, Reservation, Session, Step, Turn};
use countersign_llm::{Conversation, ToolSchema};
use countersign_tools::ToolCallSpec;
use countersign_types::{Digest, EffectId, canonical_json};
use serde_json::json;

use crate::error::EngineError;
use crate::prompt;
use crate::transcript::call_index;
use crate::workshop::Workshop;

/// The output clamp of a call where the contract names none; what a reservation counts.
const DEFAULT_OUTPUT_TOKENS: u64 = 8192;

/// Bytes of request text per token at the least: a reservation must not be too small.
const BYTES_PER_TOKEN: u64 = 3;

impl Workshop<'_> {
    /// Makes requests ready: their bytes are what the intent is bound to.
    pub(crate) fn prepare(&mut self, session: &Session, steps: &[Step]) -> Result<Vec<Intent>, EngineError> {
        let Some(turn) = &session.turn else {
            return Err(EngineError::Bug("there is no turn to prepare for".to_owned()));
        };
        steps.iter().map(|step| self.prepare_one(turn, *step)).collect()
    }

    pub(crate) fn prepare_one(&mut self, turn: &Turn, step: Step) -> Result<Intent, EngineError> {
        let Step { effect, kind } = step;
        let (request, reserve) = match kind {
            EffectKind::ModelCall => {
                let conversation = self.conversation();
                let bytes = self
                    .ports
                    .provider
                    .encode(&conversation)
                    .map_err(|e| EngineError::Bug(format!("the request cannot be written: {e}")))?;
                self.bound(effect, bytes, self.max_output_tokens())
            }
            EffectKind::ReviewCall { call } => {
                let bytes = self.review_request(turn, call)?;
                let limit = self.contract.review.as_ref().and_then(|terms| terms.model.max_output_tokens);
                self.bound(effect, bytes, limit)
            }
            EffectKind::Tool { .. } => {
                let spec = self.spec_of(turn, effect)?;
                (spec.planned.arguments, Reservation::default())
            }
            _ => (self.request_digest(turn, kind)?, Reservation::default()),
        };
        Ok(Intent { effect, kind, request, reserve })
    }

    /// Keeps a model request's bytes for its sending. What it may use at most: its measured input and its clamped output.
    fn bound(&mut self, effect: EffectId, bytes: Vec<u8>, limit: Option<u32>) -> (Digest, Reservation) {
        let output = limit.map_or(DEFAULT_OUTPUT_TOKENS, u64::from);
        let tokens = (bytes.len() as u64 / BYTES_PER_TOKEN).saturating_add(output);
        let digest = self.hide(Digest::of(&bytes));
        self.encoded.insert(effect, bytes.into());
        (digest, Reservation { tokens })
    }

    pub(crate) fn spec_of(&mut self, turn: &Turn, effect: EffectId) -> Result<ToolCallSpec, EngineError> {
        if let Some(spec) = self.calls.get(&effect) {
            return Ok(spec.clone());
        }
        let call = self.transcript().call(call_index(effect)).cloned();
        let Some(call) = call else {
            return Err(EngineError::Bug(format!("the call of {effect} is not in the transcript")));
        };
        let spec = self.parse(&call);
        if turn.call_of(effect).is_some_and(|planned| planned.arguments != spec.planned.arguments) {
            return Err(EngineError::Bug(format!("the call of {effect} is not the one that was planned")));
        }
        self.calls.insert(effect, spec.clone());
        Ok(spec)
    }

    /// What an effect without bytes of its own is bound to: its kind, the terms, and the tree that it works on.
    pub(crate) fn request_digest(&self, turn: &Turn, kind: EffectKind) -> Result<Digest, EngineError> {
        let contract = self.contract.digest().map_err(|e| EngineError::Bug(e.to_string()))?;
        let tree = turn.sealed.map(|sealed| sealed.tree).or(turn.head);
        let request = json!({ "kind": kind, "contract": contract, "tree": tree });
        let bytes = canonical_json(&request).map_err(|e| EngineError::Bug(e.to_string()))?;
        Ok(self.hide(Digest::of(&bytes)))
    }

    pub(crate) fn conversation(&mut self) -> Conversation {
        let tools = self
            .offered
            .iter()
            .map(|schema| ToolSchema {
                name: schema.tool.as_str().to_owned(),
                description: schema.description.to_owned(),
                parameters: schema.parameters.clone(),
            })
            .collect();
        Conversation {
            system: prompt::system(&self.contract),
            tools,
            messages: self.transcript().messages().to_vec(),
            max_output_tokens: self.max_output_tokens(),
            effort: None,
        }
    }

    fn max_output_tokens(&self) -> Option<u32> {
        self.contract.model.as_ref().and_then(|model| model.max_output_tokens)
    }
}
