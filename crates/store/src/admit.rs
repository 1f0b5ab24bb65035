use countersign_types::{Digest, TenantId};

use crate::kinds::KindSet;
use crate::line::{Sealed, seal};
use crate::{Append, Appended, Authority, Fence, KnownKinds, StoreError};

/// What decides about an append, as it stands in the transaction that would make it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    pub tenant: &'a TenantId,
    pub seq: u64,
    pub head: Digest,
    pub fence: Fence,
    pub kinds: &'a KindSet,
}

impl Head<'_> {
    /// Everything that can refuse a checked append, in the order that callers rely on; else its lines, at least one.
    pub fn admit(&self, append: &Append, known: &KnownKinds) -> Result<(Vec<Sealed>, Appended), StoreError> {
        if let Authority::Lease(presented) = append.authority
            && presented != self.fence
        {
            let (session, current) = (append.session.clone(), self.fence);
            return Err(StoreError::Fenced { session, presented, current });
        }
        if append.expected_seq != self.seq {
            let (session, expected) = (append.session.clone(), append.expected_seq);
            return Err(StoreError::Moved { session, expected, actual: self.seq });
        }
        let unknown = self.kinds.unknown(known);
        if !unknown.is_empty() {
            return Err(StoreError::ReadOnlySession { session: append.session.clone(), unknown });
        }
        let sealed = seal(append, self.tenant, self.seq, self.head)?;
        let end = sealed.last().map(|last| Appended { seq: last.seq, head: last.digest });
        let end = end.ok_or_else(|| StoreError::Invalid("it holds no events".into()))?;
        Ok((sealed, end))
    }
}
