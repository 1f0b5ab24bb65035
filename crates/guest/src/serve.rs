//! From a request to its reply.

use std::fs::File;
use std::path::Path;

use countersign_types::MAX_FRAME;

use crate::channel::Channel;
use crate::fault::Outcome;
use crate::protocol::{
    Fault, GUEST_PROTOCOL, REPORT_DIR, Reply, Report, ReportFormat, Request, VERIFIER_DIR,
};
use crate::segment::Segments;
use crate::state::{Guest, first_file};
use crate::{
    fence, git, go_canary, hygiene, identity, layers, materialise, mutate, overlay, plain, project, report,
    review, seal, tools, touch,
};

/// Bytes of a runner's report that are read.
const MAX_REPORT: u64 = 32 << 20;

impl Guest {
    /// Serves requests until the other side closes the channel.
    ///
    /// # Errors
    /// The channel's: a torn or overlong frame cannot be answered.
    pub fn serve(&mut self, channel: &mut Channel) -> std::io::Result<()> {
        while let Some(frame) = channel.receive()? {
            let reply = match serde_json::from_slice::<Request>(&frame.bytes) {
                Ok(request) => self.answer(request, &frame.files),
                Err(e) => Reply::Error(Fault::bad_request(format!("the request is not understood: {e}"))),
            };
            let encode = |reply: &Reply| serde_json::to_vec(reply).map_err(std::io::Error::from);
            let mut bytes = encode(&reply)?;
            if bytes.len() > MAX_FRAME {
                let text = "the reply does not fit into a frame: the tree has too many files";
                bytes = encode(&Reply::Error(Fault::bad_request(text)))?;
            }
            channel.send(&bytes, &[])?;
        }
        Ok(())
    }

    /// Answers one request. `files` are the descriptors that came with it.
    pub fn answer(&mut self, request: Request, files: &[File]) -> Reply {
        self.try_answer(request, files).unwrap_or_else(Reply::Error)
    }

    fn try_answer(&mut self, request: Request, files: &[File]) -> Outcome<Reply> {
        match request {
            Request::Hello => {
                Ok(Reply::Hello { protocol: GUEST_PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() })
            }
            Request::ImportGit { git_dir, rev, write_workspace } => {
                git::git(self, Path::new(&git_dir), &rev, write_workspace, files).map(Reply::Imported)
            }
            Request::ResolveGit { git_dir, rev } => {
                git::resolve(Path::new(&git_dir), &rev).map(|commit| Reply::Resolved { commit })
            }
            Request::ImportDirty { git_dir, work_tree, rev, write_workspace } => {
                let places = (Path::new(&git_dir), Path::new(&work_tree));
                git::dirty(self, places, &rev, write_workspace, files).map(Reply::Imported)
            }
            Request::ImportDir { source, write_workspace } => {
                plain::import(self, Path::new(&source), write_workspace, files).map(Reply::Imported)
            }
            Request::Materialise { entries, located, clear } => {
                materialise::materialise(self, entries, &located, clear, files)
            }
            Request::Seal { verdict, scratch, live } => seal::seal(self, verdict, live, &scratch, files),
            Request::SealDirectory { source, scratch, modules } => {
                seal::directory(Path::new(&source), &self.home, (&scratch, modules), files)
            }
            Request::ApplyPatch { base, patch, located } => git::apply_patch(&base, &patch, &located, files),
            Request::Watch => touch::watch(self),
            Request::InitPrivateGit { git_dir, commit } => {
                let git_dir = git_dir.as_deref().map(Path::new);
                git::init_private(self, git_dir, commit.as_deref()).map(|()| Reply::Done)
            }
            Request::MakePatch { changes, located } => git::make_patch(&changes, &located, files),
            Request::ScanFence { files: changed, located } => {
                let segments = Segments::new(files, &located);
                Ok(Reply::Fence { findings: fence::scan(&changed, &|digest| segments.read(digest)) })
            }
            Request::ReadCalled { files: called, goals, located } => {
                let segments = Segments::new(files, &located);
                Ok(Reply::Called { names: fence::called(&called, &goals, &|digest| segments.read(digest)) })
            }
            Request::ReadProject { files: project, located } => project::read(&project, &located, files),
            Request::ScanHygiene { changes, located } => hygiene::scan(&changes, &located, files),
            Request::PlaceOverlay { mut files, report, go_canary } => {
                let owner = self.root.owner();
                if let Some(canary) = &go_canary {
                    files.extend(go_canary::files(self, canary));
                }
                overlay::place(Path::new(VERIFIER_DIR), &files, None)?;
                overlay::make_report_dir(Path::new(REPORT_DIR), &report, owner).map(|()| Reply::Done)
            }
            Request::ReadReport {
                path,
                format: format @ (ReportFormat::CargoTest | ReportFormat::GoTest),
            } => {
                let files = tools::read_report_dir(&path, MAX_REPORT);
                let report = files.map(|files| report::read_files(&files, format));
                Ok(Reply::Report(report.unwrap_or_default()))
            }
            Request::ReadReport { path, format } => {
                let bytes = tools::read_report(self, &path, MAX_REPORT)?;
                Ok(Reply::Report(bytes.map_or_else(Report::default, |bytes| report::read(&bytes, format))))
            }
            Request::ReadOutput { format } => {
                let bytes = overlay::read_all(first_file(files)?, MAX_REPORT)?;
                Ok(Reply::Report(report::read(&bytes, format)))
            }
            Request::Tool { call, bounds, guard, base, located } => {
                let base = base.map(|base| tools::KnownBase::read(base, &Segments::new(files, &located)));
                let rules = tools::Rules { guard: &guard, base: base.transpose()? };
                Ok(Reply::Tool(tools::call(self, &call, &bounds, &rules)))
            }
            Request::ListSetupPaths { scratch } => layers::list_setup_paths(self, &scratch),
            Request::Mutate { files: sources, most, located } => {
                mutate::mutants(&sources, most, &located, files)
            }
            Request::ReviewMaterial { changes, located } => review::material(&changes, &located, files),
            Request::FindQuotes { quotes, located } => review::find_quotes(&quotes, &located, files),
            Request::HashPaths { paths } => layers::hash_paths(&paths),
            Request::SeeEnvironment { layers, within } => {
                identity::see([&self.workspace, &self.home], &layers, within)
            }
        }
    }
}
