use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hyper::Uri;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a provider's API lives: `https://host[:port][/path]`, or `http` on a loopback host.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    tls: bool,
    /// Lower case, without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Without a trailing slash; empty for the root.
    path: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the base URL {0}; write for example https://api.openai.com/v1 or http://127.0.0.1:8080/v1")]
pub struct BaseUrlError(&'static str);

/// Bytes of a base URL, at most.
const MAX_URL: usize = 2048;

impl BaseUrl {
    /// OpenAI's own.
    #[must_use]
    pub fn openai() -> Self {
        Self { tls: true, host: "api.openai.com".to_owned(), port: 443, path: "/v1".to_owned() }
    }

    /// Anthropic's own.
    #[must_use]
    pub fn anthropic() -> Self {
        Self { tls: true, host: "api.anthropic.com".to_owned(), port: 443, path: String::new() }
    }

    /// Scheme, host and port: what a key is bound to.
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Whether the host is this machine by its name or address. No name is looked up.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    pub(crate) const fn is_tls(&self) -> bool {
        self.tls
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// The `Host` header: the port only where it is not the scheme's own.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Without a trailing slash; empty for the root.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The request target for `suffix`, which begins with a slash.
    pub(crate) fn target(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.path)
    }
}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        if text.len() > MAX_URL {
            return Err(BaseUrlError("is too long"));
        }
        // The parser below drops a fragment in silence and cannot tell an empty query from none.
        if text.contains(['#', '?']) {
            return Err(BaseUrlError("may hold no query and no fragment"));
        }
        if text.contains('@') {
            return Err(BaseUrlError(
                "may hold no user name or password: give the key by file or environment",
            ));
        }
        let uri: Uri = text.parse().map_err(|_| BaseUrlError("cannot be read"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(BaseUrlError("must begin with https:// or http://")),
            None => return Err(BaseUrlError("has no scheme")),
        };
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host).to_owned();
        if host.is_empty() {
            return Err(BaseUrlError("names no host"));
        }
        let port = match uri
            .authority()
            .map(|authority| authority.as_str().rsplit_once(']').map_or(authority.as_str(), |(_, port)| port))
        {
            Some(rest) if rest.contains(':') => match uri.port_u16() {
                Some(port) if port > 0 => port,
                _ => return Err(BaseUrlError("has a port that is not a number from 1 to 65535")),
            },
            _ if tls => 443,
            _ => 80,
        };
        let path = uri.path().trim_end_matches('/');
        if path.ends_with("/chat/completions") || path.ends_with("/v1/messages") {
            return Err(BaseUrlError(
                "names the endpoint itself: leave off /chat/completions or /v1/messages",
            ));
        }
        if path.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(BaseUrlError("holds a `.` or `..` in its path"));
        }
        let url = Self { tls, host, port, path: path.to_owned() };
        if !tls && !url.is_loopback() {
            return Err(BaseUrlError(
                "is http to another machine, which would show the key and the code on the way: use https",
            ));
        }
        Ok(url)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for BaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_has_one_form() {
        for (text, shown, origin, target) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1", "https://api.openai.com", "/v1/x"),
            (
                "https://API.openai.com:443/v1///",
                "https://api.openai.com/v1",
                "https://api.openai.com",
                "/v1/x",
            ),
            ("https://h:8443", "https://h:8443", "https://h:8443", "/x"),
            ("http://127.0.0.1:80/", "http://127.0.0.1", "http://127.0.0.1", "/x"),
            ("http://127.9.9.9:1/a/b", "http://127.9.9.9:1/a/b", "http://127.9.9.9:1", "/a/b/x"),
            ("http://[::1]:8080/v1", "http://[::1]:8080/v1", "http://[::1]:8080", "/v1/x"),
            ("HTTP://LocalHost:8080", "http://localhost:8080", "http://localhost:8080", "/x"),
        ] {
            let url: BaseUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (url.to_string().as_str(), url.origin().as_str(), url.target("/x").as_str()),
                (shown, origin, target)
            );
            assert_eq!(shown.parse::<BaseUrl>().unwrap(), url);
        }
        assert_eq!(BaseUrl::openai(), "https://api.openai.com/v1".parse().unwrap());
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "api.openai.com/v1",
            "/v1",
            "https://",
            "https:///v1",
            "ftp://h/",
            "file:///etc/passwd",
            "http://example.com/v1",
            "http://10.0.0.1/v1",
            "http://127.0.0.1.evil.example/v1",
            "http://localhost.evil.example/v1",
            "http://0.0.0.0/v1",
            "https://user:pass@h/v1",
            "http://localhost@evil.example/",
            "https://h/v1?x=1",
            "https://h/v1?",
            "https://h/v1#f",
            "https://h:0/v1",
            "https://h:99999/v1",
            "https://h:x/v1",
            "https://h:/v1",
            "https://h/a/../b",
            "https://h/v1\r\nX: y",
            "https://h/v1 x",
            "https://h/v1/chat/completions",
            "https://h/v1/messages/",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
        assert!(format!("https://h/{}", "a".repeat(3000)).parse::<BaseUrl>().is_err());
    }
}
