use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use countersign_llm::{Answer, Script};

use crate::fault::Fault;
use crate::http1::{Incoming, Outgoing};
use crate::{chat_rules, messages, messages_rules};

/// What a [`ScriptedServer`] does.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub script: Script,
    /// 0: any free port.
    pub port: u16,
    /// The key that `Authorization: Bearer`, or `x-api-key`, must carry. None: it is not looked at.
    pub key: Option<String>,
    /// Refuse, with a 400, what a strict vendor refuses: a request whose messages do not extend those of the one before
    /// byte for byte, or whose calls and results do not pair; on the Messages wire also unknown fields, roles that do not
    /// alternate, blank text and changed signatures. For one conversation at a time.
    pub strict: bool,
    /// Faults by call number, from 0.
    pub faults: BTreeMap<u64, Fault>,
}

impl ServerOptions {
    /// A server that plays `script` on a free port to anybody.
    #[must_use]
    pub const fn new(script: Script) -> Self {
        Self { script, port: 0, key: None, strict: false, faults: BTreeMap::new() }
    }
}

/// One request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A script played over HTTP on 127.0.0.1, as OpenAI Chat Completions or as Anthropic Messages by the path that is asked
/// for. The entry is chosen by counting the calls, retries included. Dropping it closes every connection and ends its
/// threads.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    options: ServerOptions,
    state: Mutex<State>,
    /// Woken when the server stops, so that stalls and delays end.
    stopping: Condvar,
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    requests: Vec<Recorded>,
    violations: Vec<String>,
    chat: chat_rules::Validator,
    messages: messages_rules::Validator,
    connections: Vec<TcpStream>,
    workers: Vec<JoinHandle<()>>,
    stopped: bool,
}

/// The wire that a request speaks, by the end of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Chat,
    Messages,
}

impl Wire {
    fn of(request: &Incoming) -> Option<Self> {
        let wire = [("/chat/completions", Self::Chat), (messages::ENDPOINT, Self::Messages)];
        let (_, wire) = wire.into_iter().find(|(end, _)| request.path.ends_with(end))?;
        (request.method == "POST").then_some(wire)
    }

    /// The vendor of the second wire takes its key in either header, and in one of them.
    fn has_key(self, request: &Incoming, key: &str) -> bool {
        let bearer = request.header("authorization").map(|given| given == format!("Bearer {key}"));
        let own = request.header("x-api-key").map(|given| given == key);
        match self {
            Self::Chat => bearer == Some(true),
            Self::Messages => matches!((bearer, own), (Some(true), None) | (None, Some(true))),
        }
    }

    fn error(self, status: u16, code: &str, message: &str) -> Outgoing {
        match self {
            Self::Chat => Outgoing::error(status, code, message),
            Self::Messages => messages::error(status, message),
        }
    }
}

impl ScriptedServer {
    pub fn start(options: ServerOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { options, state: Mutex::default(), stopping: Condvar::new() });
        let for_acceptor = shared.clone();
        let acceptor = std::thread::Builder::new().name("scripted-accept".into()).spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                if !for_acceptor.serve(stream) {
                    break;
                }
            }
        })?;
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// What `--base-url` takes.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every request so far, refused ones included.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().requests.clone()
    }

    /// What strict checking found.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.shared.lock().violations.clone()
    }

    /// Waits until the server is stopped from elsewhere, which for a process of its own is never.
    pub fn wait(mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            // A panic of the acceptor has been printed; there is nothing left to serve.
            let _ = acceptor.join();
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        let workers = {
            let mut state = self.shared.lock();
            state.stopped = true;
            for connection in state.connections.drain(..) {
                let _ = connection.shutdown(Shutdown::Both);
            }
            std::mem::take(&mut state.workers)
        };
        self.shared.stopping.notify_all();
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        for thread in self.acceptor.take().into_iter().chain(workers) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection on. False: the server has stopped.
    fn serve(self: &Arc<Self>, stream: TcpStream) -> bool {
        let mut state = self.lock();
        if state.stopped {
            return false;
        }
        let Ok(kept) = stream.try_clone() else { return true };
        let shared = self.clone();
        let worker = std::thread::Builder::new().name("scripted-serve".into()).spawn(move || {
            // A client that goes away, or stops us, is no event of ours.
            let _ = shared.talk(&stream);
            let _ = stream.shutdown(Shutdown::Both);
        });
        if let Ok(worker) = worker {
            state.connections.push(kept);
            state.workers.push(worker);
        }
        true
    }

    fn talk(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream.try_clone()?;
        loop {
            let request = match Incoming::read(&mut reader) {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    Outgoing::error(400, "bad_request", &error.to_string()).write(&mut writer)?;
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let (response, fault) = self.answer(request);
            match fault {
                None => response.write(&mut writer)?,
                Some(fault) => {
                    if !self.misbehave(&fault, &response, &mut writer)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The response to a request, and what is to go wrong with it.
    fn answer(&self, request: Incoming) -> (Outgoing, Option<Fault>) {
        let mut state = self.lock();
        state.requests.push(Recorded {
            method: request.method.clone(),
            path: request.path.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
        });
        let Some(wire) = Wire::of(&request) else {
            let text = "only POST …/chat/completions and POST …/v1/messages are served here";
            return (Outgoing::error(404, "not_found", text), None);
        };
        if self.options.key.as_ref().is_some_and(|key| !wire.has_key(&request, key)) {
            return (wire.error(401, "invalid_api_key", "the key is not the expected one"), None);
        }
        let version = request.header("anthropic-version").unwrap_or_default();
        if wire == Wire::Messages && !messages::VERSIONS.contains(&version) {
            return (wire.error(400, "", "anthropic-version: header is required"), None);
        }
        let call = state.calls;
        state.calls += 1;
        if self.options.strict
            && let Err(what) = match wire {
                Wire::Chat => state.chat.check(&request.body),
                Wire::Messages => state.messages.check(&request.body),
            }
        {
            state.violations.push(format!("call {call}: {what}"));
            return (wire.error(400, "invalid_transcript", &what), None);
        }
        let fault = self.options.faults.get(&call).cloned();
        let response = match self.options.script.entry(call) {
            None => wire.error(400, "script_ended", "the script has no entry for this call"),
            Some(entry) => {
                let response = match &entry.answer {
                    Answer::Error { status, retry_after } => {
                        let mut response = wire.error(*status, "scripted", "the script says so");
                        if let Some(wait) = retry_after {
                            response.headers.push(("Retry-After".into(), seconds(wait.duration())));
                        }
                        response
                    }
                    Answer::Reply { .. } => {
                        let (script, model) = (&self.options.script, model_of(&request.body));
                        let body = match wire {
                            Wire::Chat => script.response_body(call, &model).unwrap_or_default(),
                            Wire::Messages => {
                                messages::body(script, call, &model, &request.body).unwrap_or_default()
                            }
                        };
                        match wire {
                            Wire::Chat => state.chat.answered(&body),
                            Wire::Messages => state.messages.answered(&body),
                        }
                        Outgoing::json(200, body)
                    }
                };
                self.pause(state, entry.delay.duration());
                response
            }
        };
        (response, fault)
    }

    /// Lets `wait` pass unless the server stops.
    fn pause(&self, state: MutexGuard<'_, State>, wait: Duration) {
        if !wait.is_zero() {
            let _ = self.stopping.wait_timeout_while(state, wait, |state| !state.stopped);
        }
    }

    fn stall(&self) {
        drop(self.stopping.wait_while(self.lock(), |state| !state.stopped));
    }

    fn stopped(&self) -> bool {
        self.lock().stopped
    }

    /// True: the connection is still good.
    fn misbehave(&self, fault: &Fault, response: &Outgoing, writer: &mut TcpStream) -> io::Result<bool> {
        let half = |writer: &mut TcpStream| {
            let bytes = response.bytes();
            writer.write_all(&bytes[..bytes.len() - response.body.len().div_ceil(2)])
        };
        match fault {
            Fault::Response { status, headers, body } => {
                Outgoing { status: *status, headers: headers.clone(), body: body.clone() }.write(writer)?;
                return Ok(true);
            }
            Fault::StallBeforeHead => self.stall(),
            Fault::StallMidBody => {
                half(writer)?;
                self.stall();
            }
            Fault::CloseBeforeHead => {}
            Fault::CloseMidBody => half(writer)?,
            Fault::CloseAfter => response.write(writer)?,
            Fault::SlowDrip { piece, pause } => {
                for bytes in response.bytes().chunks((*piece).max(1)) {
                    writer.write_all(bytes)?;
                    self.pause(self.lock(), *pause);
                }
                return Ok(true);
            }
            Fault::Garbage(bytes) => writer.write_all(bytes)?,
            Fault::HugeBody(size) => {
                writer.write_all(&response.head(*size))?;
                let mut left = *size;
                while left > 0 {
                    let piece = left.min(FILL.len() as u64);
                    writer.write_all(&FILL[..usize::try_from(piece).unwrap_or(FILL.len())])?;
                    left -= piece;
                }
            }
            Fault::EndlessBody => {
                writer.write_all(
                    b"HTTP/1.1 200 \r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
                )?;
                while !self.stopped() {
                    writer.write_all(&FILL)?;
                }
            }
            Fault::EndlessHead => {
                writer.write_all(b"HTTP/1.1 200 \r\n")?;
                while !self.stopped() {
                    writer
                        .write_all(b"X-More: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")?;
                }
            }
        }
        Ok(false)
    }
}

/// White space, which JSON ignores: only a bound ends it.
static FILL: [u8; 64 * 1024] = [b' '; 64 * 1024];

fn seconds(wait: Duration) -> String {
    if wait.subsec_nanos() == 0 { wait.as_secs().to_string() } else { format!("{:.3}", wait.as_secs_f64()) }
}

/// The model's name as the request gives it, as real servers echo it.
fn model_of(body: &[u8]) -> String {
    let request: Result<serde_json::Value, _> = serde_json::from_slice(body);
    let name = request.ok().and_then(|request| request.get("model")?.as_str().map(str::to_owned));
    name.unwrap_or_else(|| "scripted".to_owned())
}
