use std::time::Duration;

/// What goes wrong with one call. A call with a fault uses up its entry of the script all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A whole response other than the script's.
    Response { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// The request is read and nothing is ever said.
    StallBeforeHead,
    /// The head and half of the body, then nothing while the connection stays open.
    StallMidBody,
    /// The connection is closed without a word.
    CloseBeforeHead,
    /// The head and half of the body, then the connection is closed.
    CloseMidBody,
    /// The script's response, `piece` bytes at a time with a `pause` between.
    SlowDrip { piece: usize, pause: Duration },
    /// These bytes instead of HTTP.
    Garbage(Vec<u8>),
    /// A 200 whose body has this many bytes of white space before it would end.
    HugeBody(u64),
    /// A 200 that never stops sending.
    EndlessBody,
    /// A 200 whose head never ends.
    EndlessHead,
    /// The script's response, after which the server closes the connection although it promised to keep it.
    CloseAfter,
}

impl Fault {
    /// A failure status with a JSON error body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Response {
            status,
            headers: Vec::new(),
            body: br#"{"error":{"message":"injected","type":null,"code":null,"param":null}}"#.to_vec(),
        }
    }

    /// The same with one header more.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        match self {
            Self::Response { status, mut headers, body } => {
                headers.push((name.to_owned(), value.to_owned()));
                Self::Response { status, headers, body }
            }
            other => other,
        }
    }

    /// A 200 with `body`.
    #[must_use]
    pub fn body(body: impl Into<Vec<u8>>) -> Self {
        Self::Response { status: 200, headers: Vec::new(), body: body.into() }
    }
}
