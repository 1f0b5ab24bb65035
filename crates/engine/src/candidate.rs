//! Work that was done elsewhere: a revision, a directory or a patch becomes the sealed tree. Nothing of it runs here.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use countersign_guest::protocol::{Imported, MAX_FDS, PatchBase, Reply, Request};
use countersign_kernel::contract::{Candidate, Source};
use countersign_kernel::{EffectResult, Turn};
use countersign_tree::{Durability, Entry, EntryMode, Located, Manifest, NewSegment};
use countersign_types::{Digest, Mount, MountKind, Reason, Tier};
use serde_json::json;

use crate::cells::{self, Fail};
use crate::perform::{Named, Outcome};
use crate::workshop::Workshop;

/// Where a directory that is judged is mounted, for the cell's root only: below the one place that jobs cannot enter.
const DIRECTORY: &str = "/run/countersign/source/candidate";

/// A tree on its way into the store.
#[derive(Default)]
struct Brought {
    tree: Manifest,
    located: Vec<Located>,
    commit: Option<String>,
    /// What no patch can carry.
    unsealable: Vec<String>,
    /// Mode bits and empty directories that a tree does not hold.
    normalised: Vec<String>,
    /// Scratch, which is no part of the work, with its bytes.
    left_out: Vec<(String, u64)>,
}

impl Workshop<'_> {
    /// Every byte of the candidate is read while it is stored, so that what was read is what is judged and delivered.
    pub(crate) async fn candidate(&mut self, turn: &Turn) -> Outcome {
        let Some(candidate) = self.contract.candidate.clone() else {
            return Err(Fail::because(Reason::Config, "the contract has no work to judge"));
        };
        let tier = cells::judging(self.ports).tier();
        let segment = self.ports.objects.new_segment()?;
        let (request, mounts, others) = match candidate {
            Candidate::Head { rev } => {
                let git_dir = cells::git_dir(self.ports, tier);
                let request = Request::ImportGit { git_dir, rev, write_workspace: false };
                (request, cells::source_mounts(self.ports), Vec::new())
            }
            Candidate::Tree { .. } => self.directory_request(tier)?,
            Candidate::Patch { digest } => self.patch_request(turn, tier, digest)?,
        };
        let mut fds = vec![cells::lend(&segment)?];
        fds.extend(others);
        let cells = cells::judging(self.ports);
        let cell = cells::open(self.ports, cells, &self.contract, mounts, None).await?;
        let observed = cell.observation().await.properties;
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        let brought = self.read_reply(reply?)?;
        let (tree, named) = self.store_candidate(segment, &brought)?;
        let result = EffectResult::Candidate {
            tree,
            commit: brought.commit,
            entries: brought.tree.entries().len() as u64,
            unsealable: brought.unsealable.len() as u64,
            tier,
            observed,
        };
        Ok((result, named))
    }

    fn directory_request(&self, tier: Tier) -> Result<(Request, Vec<Mount>, Vec<OwnedFd>), Fail> {
        let Some(path) = self.ports.candidate.clone() else {
            return Err(Fail::because(Reason::Config, "the directory that is judged was not opened"));
        };
        let scratch = self.scratch()?.as_ref().clone();
        let base = self.facts()?.tree;
        let modules: Vec<Entry> =
            base.entries().iter().filter(|entry| entry.mode == EntryMode::Gitlink).cloned().collect();
        // The host tier mounts nothing: there it is the path itself.
        if tier == Tier::Host {
            let source = path.to_string_lossy().into_owned();
            return Ok((Request::SealDirectory { source, scratch, modules }, Vec::new(), Vec::new()));
        }
        let mount = Mount { kind: MountKind::RootOnly, source: path, target: PathBuf::from(DIRECTORY) };
        let request = Request::SealDirectory { source: DIRECTORY.to_owned(), scratch, modules };
        Ok((request, vec![mount], Vec::new()))
    }

    fn patch_request(
        &mut self,
        turn: &Turn,
        tier: Tier,
        patch: Digest,
    ) -> Result<(Request, Vec<Mount>, Vec<OwnedFd>), Fail> {
        let commit = turn.base.as_ref().and_then(|base| base.commit.clone());
        let (base, mounts, mut wanted) = match (&self.contract.source, commit) {
            (Source::Git { include_dirty: false, .. }, Some(commit)) => {
                let base = PatchBase::Commit { git_dir: cells::git_dir(self.ports, tier), commit };
                (base, cells::source_mounts(self.ports), Vec::new())
            }
            // What is no commit is handed over file by file.
            _ => {
                let entries = self.facts()?.tree.entries().to_vec();
                let digests = entries.iter().map(|entry| entry.digest).collect();
                (PatchBase::Files { entries }, Vec::new(), digests)
            }
        };
        wanted.push(patch);
        let batch = self.ports.objects.gather(&wanted, MAX_FDS - 1)?;
        let request = Request::ApplyPatch { base, patch, located: batch.located };
        Ok((request, mounts, batch.files.into_iter().map(OwnedFd::from).collect()))
    }

    fn read_reply(&self, reply: Reply) -> Result<Brought, Fail> {
        Ok(match reply {
            Reply::Imported(Imported { commit, entries, located, skipped, .. }) => Brought {
                tree: Manifest::new(entries),
                located,
                commit,
                unsealable: skipped,
                ..Brought::default()
            },
            Reply::Sealed(sealed) => {
                let tree = Manifest::default().with(&sealed.delta);
                if tree.digest() != sealed.tree {
                    return Err(Fail::because(
                        Reason::CellDied,
                        "the guest's digest of the tree is not the digest of its entries",
                    ));
                }
                Brought {
                    tree,
                    located: sealed.located,
                    commit: None,
                    unsealable: sealed.unsealable,
                    normalised: sealed.normalised,
                    left_out: sealed.scratch,
                }
            }
            Reply::Applied { delta, located } => {
                Brought { tree: self.facts()?.tree.with(&delta), located, ..Brought::default() }
            }
            _ => return Err(cells::unexpected("the work that is judged")),
        })
    }

    fn store_candidate(&mut self, segment: NewSegment, brought: &Brought) -> Result<(Digest, Named), Fail> {
        let objects = &self.ports.objects;
        objects.adopt(segment, &brought.located, Durability::Sync)?;
        let digest = objects.put_manifest(&brought.tree, Durability::Sync)?;
        self.keep(digest, brought.tree.clone());
        let detail = json!({
            "unsealable": brought.unsealable,
            "normalised": brought.normalised,
            "not_delivered": brought.left_out,
        });
        let mut named = vec![("seal", detail.to_string().into_bytes())];
        if !brought.unsealable.is_empty() {
            let text = format!(
                "These paths cannot be part of a tree (a nested .git, a pipe, a socket, a device, another file system, \
                 a file that cannot be read, or a name that a patch cannot carry): {}. Remove them or replace them by \
                 ordinary files, then judge again.",
                brought.unsealable.join(", ")
            );
            named.push(("detail", text.into_bytes()));
        }
        Ok((digest, named))
    }
}
