//! As much of an HTTP/1.1 server as the scripted provider needs.

use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::net::TcpStream;

/// Bytes of a request's head, at most.
const MAX_HEAD: u64 = 64 * 1024;

/// Bytes of a request's body, at most.
const MAX_BODY: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Incoming {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Incoming {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The next request of a connection. None: the peer closed it.
    pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut head = stream.by_ref().take(MAX_HEAD);
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(method), Some(path), Some("HTTP/1.1")) = (words.next(), words.next(), words.next()) else {
            return Err(bad("no HTTP/1.1 request line"));
        };
        let (method, path) = (method.to_owned(), path.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if head.read_line(&mut line)? == 0 {
                return Err(bad("the head is cut or too long"));
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| bad("a header without a colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, path, headers, body: Vec::new() };
        if request.header("transfer-encoding").is_some() {
            return Err(bad("a chunked request body"));
        }
        let length = match request.header("content-length") {
            Some(length) => length.parse().map_err(|_| bad("a content-length that is no number"))?,
            None => 0,
        };
        if length > MAX_BODY {
            return Err(bad("a body that is too large"));
        }
        stream.by_ref().take(length).read_to_end(&mut request.body)?;
        if request.body.len() as u64 != length {
            return Err(bad("a body that is cut"));
        }
        Ok(Some(request))
    }
}

/// A response, written in one piece or bent by a fault.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn json(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    /// An error as OpenAI words it.
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "error": {"message": message, "type": "invalid_request_error", "code": code, "param": null}
        });
        Self::json(status, body.to_string().into_bytes())
    }

    /// The head for a body of `length` bytes.
    pub(crate) fn head(&self, length: u64) -> Vec<u8> {
        // The reason phrase is optional; clients go by the number.
        let mut head = format!("HTTP/1.1 {} \r\n", self.status);
        let given = |name: &str| self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !given("content-type") {
            head.push_str("Content-Type: application/json\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {length}\r\n\r\n"));
        head.into_bytes()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head(self.body.len() as u64);
        bytes.extend_from_slice(&self.body);
        bytes
    }

    pub(crate) fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.bytes())?;
        stream.flush()
    }
}
