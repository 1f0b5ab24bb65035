//! A look at a project before there is a contract: how do its own files say that it is tested? The base is read into the store as
//! at the start of a turn, and a cell reads the few files that say so. Nothing of the project runs.

use std::sync::Arc;

use countersign_gates::profile::{Candidate, candidates, project_files};
use countersign_guest::protocol::{MAX_FDS, ProjectFile, ProjectMark, Reply, Request};
use countersign_kernel::EffectResult;
use countersign_kernel::contract::Contract;
use countersign_tree::Manifest;
use countersign_types::Reason;

use crate::cells::{self, Fail};
use crate::error::EngineError;
use crate::ports::Ports;
use crate::workshop::Workshop;

/// The tree that a contract's source names, and its commit where it is one.
pub async fn base_tree(
    ports: &Ports,
    contract: &Contract,
) -> Result<(Arc<Manifest>, Option<String>), EngineError> {
    let mut shop = Workshop::bare(ports, contract.clone());
    let found = shop.base_alone().await;
    shop.close().await;
    found.map_err(failed)
}

/// Every way of testing that the base's own files name. `contract` says where the base is; its checks may be empty.
pub async fn scout(ports: &Ports, contract: &Contract) -> Result<Vec<Candidate>, EngineError> {
    let mut shop = Workshop::bare(ports, contract.clone());
    let found = shop.scout().await;
    shop.close().await;
    found.map_err(failed)
}

fn failed(fail: Fail) -> EngineError {
    match fail {
        Fail::Failed { failure, message } => EngineError::Scout { reason: failure.reason, message },
        Fail::Interrupted => {
            EngineError::Scout { reason: Reason::Signal, message: "it was interrupted".to_owned() }
        }
    }
}

impl Workshop<'_> {
    async fn base_alone(&mut self) -> Result<(Arc<Manifest>, Option<String>), Fail> {
        let (result, _) = self.import_base(false).await?;
        let commit = match result {
            EffectResult::Import { commit, .. } => commit,
            _ => None,
        };
        Ok((self.facts()?.tree, commit))
    }

    async fn scout(&mut self) -> Result<Vec<Candidate>, Fail> {
        self.import_base(false).await?;
        let base = self.facts()?.tree;
        Ok(candidates(&base, &self.project_marks(&base).await?))
    }

    async fn project_marks(&mut self, base: &Manifest) -> Result<Vec<ProjectMark>, Fail> {
        let files: Vec<ProjectFile> = project_files(base)
            .into_iter()
            .map(|entry| ProjectFile { path: entry.path.clone(), digest: entry.digest })
            .collect();
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let digests: Vec<_> = files.iter().map(|file| file.digest).collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS)?;
        let cells = cells::judging(self.ports);
        let cell = cells::open(self.ports, cells, &self.contract, Vec::new(), None).await?;
        let fds = batch.files.into_iter().map(Into::into).collect();
        let request = Request::ReadProject { files, located: batch.located };
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        match reply? {
            Reply::Project { marks } => Ok(marks),
            _ => Err(cells::unexpected("the project's files")),
        }
    }
}
