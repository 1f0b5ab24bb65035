//! What a reviewer wants to be told of a change besides its verdict. The guest looks; nothing here stops a success.

use std::os::fd::OwnedFd;

use countersign_cell::Cell;
use countersign_guest::protocol::{HygieneFinding, PatchChange, Reply, Request};
use countersign_tree::Located;
use serde::{Deserialize, Serialize};

use crate::cells::{self, Fail};

/// What was found in a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) findings: Vec<HygieneFinding>,
    /// Findings that are not in the list.
    pub(crate) more: u64,
}

/// Looks over the changes in a cell that no later judgement uses. `Err` says why nothing is known; None: nobody asked.
pub(crate) async fn look(
    cell: &dyn Cell,
    changes: Vec<PatchChange>,
    located: Vec<Located>,
    fds: Vec<OwnedFd>,
) -> Result<Option<Vec<u8>>, String> {
    let request = Request::ScanHygiene { changes, located };
    match cells::ask(cell, &request, fds).await {
        Ok(Reply::Hygiene { findings, more }) => {
            serde_json::to_vec(&Looked { findings, more }).map(Some).map_err(|e| e.to_string())
        }
        Ok(_) => Err("the guest gave another kind of answer".to_owned()),
        Err(Fail::Failed { message, .. }) => Err(message),
        Err(Fail::Interrupted) => Err("it was interrupted".to_owned()),
    }
}
