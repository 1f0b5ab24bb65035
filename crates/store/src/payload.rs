//! Where the bytes of a payload are, and whether they are what its event committed to.

use countersign_types::SessionId;

use crate::blobs::Blobs;
use crate::line::commitment;
use crate::{Append, MAX_INLINE_PAYLOAD, PayloadRef, Revealed, StoreError};

/// Column `place`: in the row itself.
pub const IN_DATABASE: i64 = 0;
/// Column `place`: in the blob named by the commitment, whose bytes are `salt || payload`.
pub const IN_BLOB: i64 = 1;
/// Column `place`: gone for good.
pub const DROPPED: i64 = 2;

/// Stores the payloads that are too long for the database, each as a blob of `salt || bytes`: its name is the
/// commitment, no name tells what the bytes are, and dropping one can never remove another's. When the append is
/// then refused they stay behind, unnamed by any event, and the same append finds them again.
pub fn put_large(blobs: &Blobs, append: &Append) -> Result<(), StoreError> {
    for payload in append.events.iter().flat_map(|e| &e.payloads) {
        if payload.bytes.len() > MAX_INLINE_PAYLOAD {
            blobs.put(&[&payload.salt, &payload.bytes])?;
        }
    }
    Ok(())
}

/// Whether [`put_large`] has anything to do.
#[must_use]
pub fn has_large(append: &Append) -> bool {
    append.events.iter().flat_map(|e| &e.payloads).any(|p| p.bytes.len() > MAX_INLINE_PAYLOAD)
}

/// The name of a payload, for errors.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub session: &'a SessionId,
    pub seq: u64,
    pub name: &'a str,
}

impl Named<'_> {
    #[must_use]
    pub fn missing(&self) -> StoreError {
        let (session, seq, name) = self.owned();
        StoreError::NoSuchPayload { session, seq, name }
    }

    fn damaged(&self, what: &str) -> StoreError {
        let (session, seq, name) = self.owned();
        StoreError::PayloadDamaged { session, seq, name, what: what.to_owned() }
    }

    fn owned(&self) -> (SessionId, u64, String) {
        (self.session.clone(), self.seq, self.name.to_owned())
    }
}

/// A payload's row.
#[derive(Debug)]
pub struct Stored {
    pub place: i64,
    pub salt: Option<Vec<u8>>,
    pub bytes: Option<Vec<u8>>,
}

/// Fetches what a row names, and believes it only when it is what the event promised.
pub fn reveal(
    named: Named<'_>,
    promised: PayloadRef,
    stored: Option<Stored>,
    blobs: &Blobs,
) -> Result<Revealed, StoreError> {
    let damaged = |what: &str| named.damaged(what);
    let (salt, bytes) = match stored {
        None => return Err(damaged("its row is gone")),
        Some(Stored { place: DROPPED, .. }) => {
            let (session, seq, name) = named.owned();
            return Err(StoreError::PayloadDropped { session, seq, name });
        }
        Some(Stored { place: IN_BLOB, salt: Some(salt), .. }) => {
            let mut salted = blobs.get(&promised.commitment).map_err(|e| match e {
                StoreError::NoSuchBlob(_) => damaged("its file in blobs/ is gone"),
                StoreError::BlobDamaged { what, .. } => damaged(&what),
                other => other,
            })?;
            if !salted.starts_with(&salt) {
                return Err(damaged("its salt differs"));
            }
            salted.drain(..salt.len());
            (salt, salted)
        }
        Some(Stored { salt: Some(salt), bytes: Some(bytes), .. }) => (salt, bytes),
        Some(_) => return Err(damaged("its row is incomplete")),
    };
    if commitment(&salt, &bytes) != promised.commitment || bytes.len() as u64 != promised.len {
        return Err(damaged("its bytes changed"));
    }
    Ok(Revealed { salt, bytes })
}
