//! The system-call filter of jobs and of the guest: a deny list, because what compilers and test suites need cannot be
//! listed, with everything denied that reaches beyond the namespaces or has a history of kernel escapes.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::error::{JailError, Result};

/// Fail with EPERM whatever the arguments are.
const DENIED: &[libc::c_long] = &[
    // Kernel interfaces with a large attack surface that no build or test needs.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // Key rings are shared by uid, not by namespace.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // Files by handle ignore the directory tree.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_fanotify_init,
    libc::SYS_nfsservctl,
    libc::SYS_uselib,
    libc::SYS_modify_ldt,
];

/// Socket families that stay: network namespaces confine these, and no others (AF_VSOCK reaches the host from any).
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// New namespaces of any kind but a time-neutral fork: user namespaces would give back every capability.
const NEW_NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// System call numbers with this bit are the x32 ABI, which a filter on x86_64 numbers would miss.
const X32_BIT: u32 = 0x4000_0000;

/// The compiled filters, made once per cell.
#[derive(Debug)]
pub struct Filters {
    programs: Vec<BpfProgram>,
    /// With the host's network come the host's abstract sockets, which no file permission guards.
    host_network: bool,
}

impl Filters {
    pub fn compile(host_network: bool) -> Result<Self> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|nr| (*nr, vec![])).collect();
        let foreign = FAMILIES.iter().map(|f| condition(0, Op::Ne, *f)).collect::<Result<Vec<_>>>()?;
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            rules.insert(call, vec![rule(foreign.clone())?]);
        }
        let mut namespaces = vec![];
        for bit in (0..u32::BITS).map(|n| 1_u64 << n).filter(|bit| *bit & mask(NEW_NAMESPACES) != 0) {
            namespaces.push(rule(vec![
                SeccompCondition::new(0, Len::Dword, Op::MaskedEq(bit), bit).map_err(|e| bug(&e))?,
            ])?);
        }
        rules.insert(libc::SYS_clone, namespaces.clone());
        rules.insert(libc::SYS_unshare, namespaces);
        // Terminal input could be pushed into whatever terminal a descriptor leads to.
        let inject = [libc::TIOCSTI, libc::TIOCLINUX];
        let inject = inject.iter().map(|request| {
            rule(vec![SeccompCondition::new(1, Len::Dword, Op::Eq, *request).map_err(|e| bug(&e))?])
        });
        rules.insert(libc::SYS_ioctl, inject.collect::<Result<Vec<_>>>()?);
        let eperm = program(rules, libc::EPERM)?;
        // clone3 hides its flags in memory; ENOSYS makes libc fall back to clone, whose flags can be seen.
        let enosys = program([(libc::SYS_clone3, vec![])].into(), libc::ENOSYS)?;
        Ok(Self { programs: vec![x32(), enosys, eperm], host_network })
    }

    /// Sets no_new_privs and puts the filters on this process for ever.
    pub fn apply(&self) -> std::io::Result<()> {
        if self.host_network {
            hide_abstract_sockets();
        }
        for filter in &self.programs {
            seccompiler::apply_filter(filter).map_err(std::io::Error::other)?;
        }
        Ok(())
    }
}

/// Landlock is an extra: kernels before ABI 6 cannot do this, and nothing is claimed.
fn hide_abstract_sockets() {
    use landlock::{Ruleset, RulesetAttr, Scope};
    let ruleset = Ruleset::default().scope(Scope::AbstractUnixSocket).and_then(Ruleset::create);
    drop(ruleset.and_then(landlock::RulesetCreated::restrict_self));
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram> {
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, action, TargetArch::x86_64).map_err(|e| bug(&e))?;
    filter.try_into().map_err(|e: seccompiler::BackendError| bug(&e))
}

/// `if nr >= X32_BIT return ENOSYS; return ALLOW`
fn x32() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_GE: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const RET_ALLOW: u32 = 0x7fff_0000;
    const RET_ERRNO: u32 = 0x0005_0000;
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_GE, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: RET_ERRNO | libc::ENOSYS.unsigned_abs() },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: RET_ALLOW },
    ]
}

fn condition(arg: u8, op: Op, value: libc::c_int) -> Result<SeccompCondition> {
    SeccompCondition::new(arg, Len::Dword, op, mask(value)).map_err(|e| bug(&e))
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(|e| bug(&e))
}

fn mask(bits: libc::c_int) -> u64 {
    u64::from(bits.cast_unsigned())
}

fn bug(error: &seccompiler::BackendError) -> JailError {
    JailError::Protocol(format!("the system-call filter does not compile: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile() {
        let filters = Filters::compile(false).unwrap();
        assert_eq!(filters.programs.len(), 3);
        assert!(filters.programs.iter().all(|p| !p.is_empty()));
    }
}
