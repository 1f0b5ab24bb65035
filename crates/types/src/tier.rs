use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! closed_words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or_else(|| {
                    let all: Vec<_> = Self::ALL.iter().map(|v| v.as_str()).collect();
                    format!("expected one of {}", all.join(", "))
                })
            }
        }
    };
}

closed_words!(
    /// A property that a canary inside a cell observes. A tier is a set of these.
    TierProperty {
        /// The job runs under a uid that is neither the runner's nor root's.
        OtherUid = "other_uid",
        /// A user namespace whose map holds neither host uid 0 nor the runner's uid.
        Userns = "userns",
        /// A pid namespace: no process of the host can be seen or signalled.
        Pidns = "pidns",
        /// A network namespace with nothing but a loopback device.
        Netns = "netns",
        /// Only declared paths of the host can be seen.
        FsConfined = "fs_confined",
        /// A system-call filter is on (AF_VSOCK, io_uring, keyrings, ptrace and nested user namespaces denied).
        Seccomp = "seccomp",
        NoNewPrivs = "no_new_privs",
        MemoryLimit = "memory_limit",
        PidsLimit = "pids_limit",
        DiskLimit = "disk_limit",
        /// A kernel of its own stands between the job and the host's.
        SeparateKernel = "separate_kernel",
        HardwareVirtualised = "hardware_virtualised",
    }
);

closed_words!(
    /// A named preset of properties.
    Tier {
        Host = "host",
        Native = "native",
        Container = "container",
        Gvisor = "gvisor",
        Vm = "vm",
    }
);

closed_words!(
    /// How far the operator trusts the repository and the task. Sets floors that a flag can only raise.
    Trust {
        TrustedLocal = "trusted-local",
        Reviewed = "reviewed",
        Untrusted = "untrusted",
    }
);

/// A set of properties, observed or demanded.
pub type TierProperties = BTreeSet<TierProperty>;

impl Tier {
    /// The properties that this preset demands. What a machine adds to them is recorded, never demanded.
    #[must_use]
    pub fn demands(self) -> TierProperties {
        use TierProperty as P;
        let native = [P::OtherUid, P::Userns, P::Pidns, P::Netns, P::FsConfined, P::Seccomp, P::NoNewPrivs];
        match self {
            Self::Host => TierProperties::new(),
            Self::Native => native.into(),
            Self::Container => native.into_iter().chain([P::MemoryLimit, P::PidsLimit]).collect(),
            Self::Gvisor => native.into_iter().chain([P::SeparateKernel]).collect(),
            Self::Vm => native.into_iter().chain([P::SeparateKernel, P::MemoryLimit, P::DiskLimit]).collect(),
        }
    }
}

impl Trust {
    /// The properties that every cell must have under this trust.
    #[must_use]
    pub fn floor(self) -> TierProperties {
        match self {
            Self::TrustedLocal => TierProperties::new(),
            Self::Reviewed => Tier::Native.demands(),
            Self::Untrusted => Tier::Gvisor.demands(),
        }
    }
}
