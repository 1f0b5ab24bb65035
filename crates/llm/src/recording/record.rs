use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_types::Digest;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::header::HeaderMap;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::SendError;
use crate::http::HttpAnswer;
use crate::recording::{
    Answered, Asked, Attempt, End, Header, KEPT_HEADERS, KEPT_PREFIXES, MAX_HEADER_VALUE, MAX_HEADERS,
    MAX_RECORDING, RECORDING_FORMAT, RecordedModel, RecordingError, Redact, Role, Total,
};
use crate::transport::Transport;

/// Writes a recording. It stands under a passing name beside its place until [`Recorder::finish`]; dropped before that, it
/// leaves nothing. A failure of writing is kept for `finish` and never disturbs a call.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    redact: Redact,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None once it is finished or given up.
    file: Option<NamedTempFile>,
    written: u64,
    attempts: u64,
    failed: Option<String>,
}

impl Recorder {
    /// Begins a recording that will stand at `path`, readable for its owner only.
    ///
    /// # Errors
    /// Something is there already, or the directory takes no file.
    pub fn create(
        path: &Path,
        models: Vec<RecordedModel>,
        redact: Redact,
    ) -> Result<Arc<Self>, RecordingError> {
        let fail = |what: String| RecordingError::new(path, what);
        if path.symlink_metadata().is_ok() {
            return Err(fail("exists already: name a new file".to_owned()));
        }
        let Some(name) = path.file_name() else { return Err(fail("names no file".to_owned())) };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".partial-");
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(dir)
            .map_err(|error| fail(format!("cannot be made: {error}")))?;
        let state = State { file: Some(file), written: 0, attempts: 0, failed: None };
        let recorder = Self { path: path.to_owned(), redact, state: Mutex::new(state) };
        recorder.line(&Header { format: RECORDING_FORMAT.to_owned(), models }, 0);
        let failed = recorder.lock().failed.take();
        failed.map_or_else(|| Ok(Arc::new(recorder)), |what| Err(fail(what)))
    }

    /// Puts the whole file in its place, durably. Says how many attempts it holds.
    ///
    /// # Errors
    /// It could not be written whole, or something came into its place; then there is no recording.
    pub fn finish(&self) -> Result<u64, RecordingError> {
        let attempts = self.lock().attempts;
        self.line(&End { end: Total { attempts } }, 0);
        let mut state = self.lock();
        let fail = |what: String| RecordingError::new(&self.path, what);
        if let Some(what) = state.failed.take() {
            state.file = None;
            return Err(fail(what));
        }
        let Some(file) = state.file.take() else { return Err(fail("is finished already".to_owned())) };
        file.as_file().sync_all().map_err(|error| fail(format!("cannot be made durable: {error}")))?;
        file.persist_noclobber(&self.path)
            .map_err(|error| fail(format!("cannot be put in its place: {}", error.error)))?;
        Ok(attempts)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, and `attempts` to their count.
    fn line<T: Serialize>(&self, value: &T, attempts: u64) {
        let bytes = serde_json::to_vec(value).map(|mut bytes| {
            bytes.push(b'\n');
            bytes
        });
        let mut guard = self.lock();
        let state = &mut *guard;
        let (None, Some(file)) = (&state.failed, &mut state.file) else { return };
        let written = bytes.map_err(|error| format!("cannot be written: {error}")).and_then(|bytes| {
            let size = state.written.saturating_add(bytes.len() as u64);
            if size > MAX_RECORDING {
                return Err(format!("would be larger than {MAX_RECORDING} bytes"));
            }
            file.write_all(&bytes).map_err(|error| format!("cannot be written: {error}"))?;
            Ok(size)
        });
        match written {
            Ok(size) => {
                state.written = size;
                state.attempts += attempts;
            }
            Err(what) => state.failed = Some(what),
        }
    }

    fn attempt(&self, role: Role, call: u64, request: &[u8], got: &Result<HttpAnswer, SendError>) {
        let (answer, error) = match got {
            Ok(answer) => (Some(self.answered(answer)), None),
            Err(error) => {
                let message = self.redact.text(&error.message);
                (None, Some(SendError { message, ..error.clone() }))
            }
        };
        let body = String::from_utf8_lossy(&self.redact.bytes(request)).into_owned();
        let request = Asked { sha256: Digest::of(request).hex(), body };
        self.line(&Attempt { role, call, request, answer, error }, 1);
    }

    fn answered(&self, answer: &HttpAnswer) -> Answered {
        let body = self.redact.bytes(&answer.body);
        let (body, body_base64) = match String::from_utf8(body) {
            Ok(body) => (Some(body), None),
            Err(error) => (None, Some(BASE64_STANDARD.encode(error.as_bytes()))),
        };
        Answered { status: answer.status, headers: self.headers(&answer.headers), body, body_base64 }
    }

    fn headers(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let kept = headers.iter().filter(|(name, _)| {
            KEPT_HEADERS.contains(&name.as_str())
                || KEPT_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
        });
        let readable = kept.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        readable
            .filter(|(_, value)| value.len() <= MAX_HEADER_VALUE)
            .take(MAX_HEADERS)
            .map(|(name, value)| (name.to_owned(), self.redact.text(value)))
            .collect()
    }
}

/// Another transport, with everything written down.
#[derive(Debug)]
pub(crate) struct Recording {
    inner: Arc<dyn Transport>,
    recorder: Arc<Recorder>,
    role: Role,
}

impl Recording {
    pub(crate) fn new(inner: Arc<dyn Transport>, recorder: Arc<Recorder>, role: Role) -> Self {
        Self { inner, recorder, role }
    }
}

impl Transport for Recording {
    fn exchange(&self, call: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<HttpAnswer, SendError>> {
        async move {
            let got = self.inner.exchange(call, Arc::clone(&request)).await;
            self.recorder.attempt(self.role, call, &request, &got);
            got
        }
        .boxed()
    }
}
