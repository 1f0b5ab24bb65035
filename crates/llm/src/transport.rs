//! What carries a request to a model and its answer back.

use std::fmt::{self, Debug};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};

use crate::SendError;
use crate::http::{Http, HttpAnswer};

/// One way to a model. An answer of any status is an answer; an error means that none came.
pub(crate) trait Transport: Send + Sync + Debug {
    /// `call` is the number of the call as in [`crate::Provider::send`].
    fn exchange(&self, call: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<HttpAnswer, SendError>>;
}

/// The network.
pub(crate) struct HttpTransport {
    pub http: Http,
    /// The path below the base URL.
    pub endpoint: &'static str,
    /// Those of the wire, the key among them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("http", &self.http).finish_non_exhaustive()
    }
}

impl Transport for HttpTransport {
    fn exchange(&self, _: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<HttpAnswer, SendError>> {
        async move { self.http.post(self.endpoint, &self.headers, Bytes::from_owner(request)).await }.boxed()
    }
}
