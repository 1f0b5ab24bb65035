//! `openai:` over TLS: only a certificate that a trusted root signed for this very name is spoken to.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use countersign_llm::{
    ApiKey, BaseUrl, Conversation, ErrorClass, HttpConfig, HttpLimits, Message, Provider, Reply, SendError,
    SystemTimer, Wired,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

const ANSWER: &str =
    r#"{"choices":[{"message":{"role":"assistant","content":"over tls"},"finish_reason":"stop"}]}"#;

/// A server with a certificate of its own for `name`: its port, the certificate, and how many bytes of plain text it saw.
async fn server(name: &str) -> (u16, Vec<u8>, tokio::task::JoinHandle<usize>) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return 0 };
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        // The request's body ends with the bracket of its messages.
        while !seen.ends_with(b"]}") {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(n) => seen.extend_from_slice(&piece[..n]),
            }
        }
        if seen.is_empty() {
            return 0;
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{ANSWER}", ANSWER.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        seen.len()
    });
    (port, certificate.to_vec(), served)
}

async fn send(host: &str, port: u16, roots: Vec<Vec<u8>>) -> Result<Reply, SendError> {
    let url: BaseUrl = format!("https://{host}:{port}/v1").parse().unwrap();
    let key = Some(ApiKey::new("sk-tls", &url).unwrap());
    let config = HttpConfig {
        extra_roots: roots,
        limits: HttpLimits::default(),
        ..HttpConfig::new("openai:m".parse().unwrap(), url, key)
    };
    let provider = Wired::http(config, Arc::new(SystemTimer)).unwrap();
    let talk = Conversation { messages: vec![Message::user("go")], ..Conversation::default() };
    provider.send(0, provider.encode(&talk).unwrap().into()).await
}

#[tokio::test]
async fn a_trusted_certificate_for_this_name_is_spoken_to() {
    let (port, certificate, served) = server("localhost").await;
    let reply = send("localhost", port, vec![certificate]).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("over tls"));
    assert!(served.await.unwrap() > 0);
}

#[tokio::test]
async fn an_unknown_certificate_sees_no_byte_of_the_request() {
    let (port, _, served) = server("localhost").await;
    let error = send("localhost", port, Vec::new()).await.unwrap_err();
    assert_eq!((error.class, error.maybe_billed), (ErrorClass::Transport, false), "{error}");
    assert!(error.message.contains("TLS"), "{error}");
    assert_eq!(served.await.unwrap(), 0);
}

#[tokio::test]
async fn a_trusted_certificate_for_another_name_sees_no_byte_either() {
    let (port, certificate, served) = server("other.example").await;
    let error = send("localhost", port, vec![certificate]).await.unwrap_err();
    assert_eq!((error.class, error.maybe_billed), (ErrorClass::Transport, false), "{error}");
    assert_eq!(served.await.unwrap(), 0);
}
