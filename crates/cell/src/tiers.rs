use std::sync::Arc;

use countersign_types::Tier;
use futures::future::BoxFuture;

use crate::{Binaries, Cell, CellError, CellSpec, Cells, supervised};

/// Namespaces, a sub-uid range, a system-call filter: the tier that runs on any recent Linux.
#[derive(Clone, Debug)]
pub struct Native {
    binaries: Binaries,
}

/// No isolation at all: jobs run as the user on the host, in the state directory. Only their processes are kept
/// together. For work that the operator trusts as much as their own shell.
#[derive(Clone, Debug)]
pub struct Host {
    binaries: Binaries,
}

impl Native {
    #[must_use]
    pub const fn new(binaries: Binaries) -> Self {
        Self { binaries }
    }
}

impl Host {
    #[must_use]
    pub const fn new(binaries: Binaries) -> Self {
        Self { binaries }
    }
}

impl Cells for Native {
    fn tier(&self) -> Tier {
        Tier::Native
    }
    fn open(&self, spec: CellSpec) -> BoxFuture<'_, Result<Arc<dyn Cell>, CellError>> {
        Box::pin(supervised::open(Tier::Native, &self.binaries, spec))
    }
}

impl Cells for Host {
    fn tier(&self) -> Tier {
        Tier::Host
    }
    fn open(&self, spec: CellSpec) -> BoxFuture<'_, Result<Arc<dyn Cell>, CellError>> {
        Box::pin(supervised::open(Tier::Host, &self.binaries, spec))
    }
}
