//! One POST over HTTP/1.1: no redirect, no proxy, no retry, nothing from the environment, and a bound on everything.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use countersign_types::{ByteSize, Millis};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::{BaseUrl, ErrorClass, SendError};

/// How long and how much a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Looking up the name, connecting and the TLS handshake together.
    pub connect: Millis,
    /// Between two pieces of the answer, once it has begun. Before it begins only `total` counts: without streaming a
    /// model that thinks for minutes sends nothing while it does.
    pub idle: Millis,
    /// The whole call.
    pub total: Millis,
    /// The body of a success.
    pub response: ByteSize,
    /// The part of a failure's body that is read.
    pub error_body: ByteSize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Millis::from_secs(5),
            idle: Millis::from_secs(120),
            total: Millis::from_secs(600),
            response: ByteSize::mib(16),
            error_body: ByteSize::kib(64),
        }
    }
}

/// Header bytes that a server may send.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// How long an unused connection is trusted. A router on the way forgets idle ones without telling either end, and a
/// request into such a hole would wait for the whole limit.
const KEEP_IDLE: Duration = Duration::from_secs(30);

/// An answer, whatever its status. The body is cut at the error limit where the status is not a success.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// A connection to one origin, made when it is first needed and kept while the server keeps it.
pub(crate) struct Http {
    url: BaseUrl,
    limits: HttpLimits,
    /// Certificates that a person trusts beside the public ones.
    extra_roots: Vec<rustls::pki_types::CertificateDer<'static>>,
    tls: OnceLock<Arc<ClientConfig>>,
    idle: Mutex<Option<Connection>>,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    /// When it was last used.
    used: Instant,
}

impl Drop for Connection {
    /// A call that is given up must not go on in the background.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").field("url", &self.url).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Http {
    pub(crate) const fn new(
        url: BaseUrl,
        limits: HttpLimits,
        extra_roots: Vec<rustls::pki_types::CertificateDer<'static>>,
    ) -> Self {
        Self { url, limits, extra_roots, tls: OnceLock::new(), idle: Mutex::new(None) }
    }

    /// Sends `body` once and reads the answer.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<HttpAnswer, SendError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(transport("the HTTP transport needs a tokio runtime with I/O and time"));
        }
        let deadline = Instant::now() + self.limits.total.duration();
        let mut kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept = kept.filter(|connection| connection.used.elapsed() < KEEP_IDLE);
        loop {
            let reused = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let request = self.request(path, headers, body.clone())?;
            if reused && !matches!(timeout_at(deadline, connection.sender.ready()).await, Ok(Ok(()))) {
                continue;
            }
            match timeout_at(deadline, connection.sender.try_send_request(request)).await {
                Err(_) => return Err(self.took_too_long()),
                Ok(Ok(response)) => return self.read(connection, response, deadline).await,
                Ok(Err(mut failed)) => {
                    // The server closed a kept connection before it saw a byte of this request: it was not sent yet.
                    if reused && failed.take_message().is_some() {
                        continue;
                    }
                    let text =
                        format!("no answer came from {}: {}", self.url.origin(), chain(failed.error()));
                    return Err(transport(&text).maybe_billed());
                }
            }
        }
    }

    fn request(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        let broken = |what: &str| SendError::new(ErrorClass::BadResponse, what);
        *request.uri_mut() =
            self.url.target(path).parse().map_err(|_| broken("the base URL's path cannot be sent"))?;
        let authority =
            HeaderValue::from_str(&self.url.authority()).map_err(|_| broken("the host cannot be sent"))?;
        request.headers_mut().insert(header::HOST, authority);
        // A decoder for compressed bodies would read hostile data for little gain.
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        for (name, value) in headers {
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }

    async fn read(
        &self,
        mut connection: Connection,
        response: Response<Incoming>,
        deadline: Instant,
    ) -> Result<HttpAnswer, SendError> {
        let (parts, mut body) = response.into_parts();
        let ok = parts.status.is_success();
        let limit = if ok { self.limits.response } else { self.limits.error_body };
        let room = usize::try_from(limit.as_u64()).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        let whole = loop {
            let step = Instant::now() + self.limits.idle.duration();
            let frame = match timeout_at(step.min(deadline), body.frame()).await {
                Err(_) if step < deadline => {
                    let text =
                        format!("the answer from {} stopped for {}", self.url.origin(), self.limits.idle);
                    return Err(transport(&text).maybe_billed());
                }
                Err(_) => return Err(self.took_too_long()),
                Ok(None) => break true,
                Ok(Some(Err(error))) if ok => {
                    let text = format!("the answer from {} was cut: {}", self.url.origin(), chain(&error));
                    return Err(transport(&text).maybe_billed());
                }
                // The status has said what matters.
                Ok(Some(Err(_))) => break false,
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > room {
                if ok {
                    let text = format!("the answer from {} is larger than {limit}", self.url.origin());
                    return Err(SendError::new(ErrorClass::BadResponse, &text).maybe_billed());
                }
                bytes.extend_from_slice(&data[..room - bytes.len()]);
                break false;
            }
            bytes.extend_from_slice(&data);
        };
        if whole && !connection.sender.is_closed() {
            connection.used = Instant::now();
            *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        }
        Ok(HttpAnswer { status: parts.status.as_u16(), headers: parts.headers, body: bytes })
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let all = async {
            let stream = self.tcp().await?;
            if !self.url.is_tls() {
                return handshake(stream).await;
            }
            let name = ServerName::try_from(self.url.host().to_owned()).map_err(|_| {
                transport(&format!("{} is not a name that a certificate can hold", self.url.host()))
            })?;
            let stream = TlsConnector::from(self.tls()?).connect(name, stream).await.map_err(|error| {
                transport(&format!("no TLS connection to {}: {}", self.url.origin(), chain(&error)))
            })?;
            handshake(stream).await
        };
        match timeout(self.limits.connect.duration(), all).await {
            Ok(done) => done,
            Err(_) => {
                let text = format!("no connection to {} within {}", self.url.origin(), self.limits.connect);
                Err(transport(&text))
            }
        }
    }

    async fn tcp(&self) -> Result<TcpStream, SendError> {
        let origin = self.url.origin();
        let found = tokio::net::lookup_host((self.url.host(), self.url.port()))
            .await
            .map_err(|error| transport(&format!("the host of {origin} was not found: {error}")))?;
        // Without TLS only this machine is spoken to, whatever a hosts file says about `localhost`.
        let addresses: Vec<SocketAddr> =
            found.filter(|address| self.url.is_tls() || address.ip().is_loopback()).collect();
        // One dead address must not use up the time of the others.
        let each = self.limits.connect.duration() / u32::try_from(addresses.len().max(1)).unwrap_or(1);
        let mut last = "it has no usable address".to_owned();
        for address in addresses {
            match timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Small requests must not wait for an acknowledgement. A stream that refuses works all the same.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = format!("{address}: {error}"),
                Err(_) => last = format!("{address}: no answer"),
            }
        }
        Err(transport(&format!("no connection to {origin}: {last}")))
    }

    /// Made at the first use: reading the public roots costs milliseconds that a scripted or local run does not owe.
    fn tls(&self) -> Result<Arc<ClientConfig>, SendError> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for certificate in &self.extra_roots {
            roots
                .add(certificate.clone())
                .map_err(|error| transport(&format!("a given root certificate is of no use: {error}")))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| transport(&format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(self.tls.get_or_init(|| Arc::new(config)).clone())
    }

    fn took_too_long(&self) -> SendError {
        let text = format!("the call to {} took longer than {}", self.url.origin(), self.limits.total);
        transport(&text).maybe_billed()
    }
}

const USER_AGENT: &str = concat!("countersign/", env!("CARGO_PKG_VERSION"));

async fn handshake<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: T,
) -> Result<Connection, SendError> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEADER_BYTES)
        // A gathered write has no MSG_NOSIGNAL: in a process that restored SIGPIPE a closed peer would end us.
        .writev(false)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| transport(&format!("no HTTP connection: {}", chain(&error))))?;
    let driver = tokio::spawn(async move {
        // Its error reaches the call that waits for it.
        let _ = connection.await;
    });
    Ok(Connection { sender, driver: driver.abort_handle(), used: Instant::now() })
}

fn transport(message: &str) -> SendError {
    SendError::new(ErrorClass::Transport, message)
}

/// An error with its causes, which is where hyper and rustls say what happened.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
