use std::fmt;
use std::path::Path;

use crate::BaseUrl;
use crate::file::{Links, read_regular};

/// An API key or another value that must not reach a log, an error text or the disk.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that sends it and for the redactor that looks for it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// Bytes of a key file, at most.
pub const MAX_KEY_FILE: u64 = 4096;

/// An API key together with the only origin that may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    secret: Secret,
    origin: String,
}

/// Why there is no key. The text never holds any of it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    #[error("the key file `{file}` is of no use: {what}")]
    File { file: String, what: String },
    #[error("the API key is empty")]
    Empty,
    #[error("the API key holds a space, a control character or a letter outside ASCII")]
    NotPrintable,
    #[error("{0} needs an API key: give --api-key-file or set the vendor's variable")]
    Missing(String),
    #[error("the API key belongs to {bound} and would be sent to {asked}")]
    OtherOrigin { bound: String, asked: String },
}

impl ApiKey {
    /// A key that the caller has, for example from the environment. White space around it is dropped.
    pub fn new(value: &str, url: &BaseUrl) -> Result<Self, KeyError> {
        let value = value.trim_matches([' ', '\t', '\r', '\n']);
        if value.is_empty() {
            return Err(KeyError::Empty);
        }
        if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyError::NotPrintable);
        }
        Ok(Self { secret: Secret::new(value.to_owned()), origin: url.origin() })
    }

    /// A key from a regular file of at most [`MAX_KEY_FILE`] bytes that is not a symbolic link.
    pub fn from_file(path: &Path, url: &BaseUrl) -> Result<Self, KeyError> {
        let fail = |what: String| KeyError::File { file: path.display().to_string(), what };
        let bytes =
            read_regular(path, MAX_KEY_FILE, Links::Refuse).map_err(|error| fail(error.to_string()))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| fail(KeyError::NotPrintable.to_string()))?;
        Self::new(text, url).map_err(|error| fail(error.to_string()))
    }

    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Scheme, host and port that may see the key.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_bound_and_never_shown() {
        let url = BaseUrl::openai();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "sk-secret-1\r\n").unwrap();
        let key = ApiKey::from_file(&path, &url).unwrap();
        assert_eq!(key.secret().expose(), "sk-secret-1");
        assert_eq!(key.origin(), "https://api.openai.com");
        assert!(!format!("{key:?}").contains("sk-secret"));
        for bad in ["", "  \n", "a b", "a\nb", "é", "a\0b"] {
            std::fs::write(&path, bad).unwrap();
            let text = ApiKey::from_file(&path, &url).unwrap_err().to_string();
            assert!(text.contains("key`"), "{text}");
        }
        std::fs::write(&path, [b'k'; 4097]).unwrap();
        assert!(ApiKey::from_file(&path, &url).unwrap_err().to_string().contains("4096"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(ApiKey::from_file(&link, &url).unwrap_err().to_string().contains("symbolic link"));
    }
}
