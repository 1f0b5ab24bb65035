//! What an implementation of [`crate::Store`] in another crate is made of, so that all of them write the same lines,
//! refuse the same appends and keep payloads alike. Callers of a store need nothing of it.

pub use crate::admit::Head;
pub use crate::blobs::Blobs;
pub use crate::kinds::KindSet;
pub use crate::line::{ChainReader, LINE_FORMAT, RawLine, Sealed, check, genesis};
pub use crate::payload::{DROPPED, IN_BLOB, IN_DATABASE, Named, Stored, has_large, put_large, reveal};
