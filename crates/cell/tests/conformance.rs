//! What every tier promises, run against every tier that this machine has. A tier that cannot be had is reported as
//! skipped by name.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests: what fails here fails the test")]

mod support;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use countersign_cell::{CellError, CellSpec, Cells};
use countersign_types::{CellId, JobEnd, LimitHit, Millis, Mount, MountKind, RunAs, Tier, TierProperty};
use support::{Case, Opened, exited, job, open, sh, text};

/// Runs a case once per tier: `case!(name, async |cell| { … })`.
macro_rules! every_tier {
    ($($name:ident($cell:ident) $body:block)+) => {$(
        mod $name {
            use super::*;
            async fn case($cell: &Opened) $body
            #[test]
            fn native() { Case { name: stringify!($name), tier: Tier::Native }.run(async |cell| case(cell).await); }
            #[test]
            fn host() { Case { name: stringify!($name), tier: Tier::Host }.run(async |cell| case(cell).await); }
        }
    )+};
}

/// Runs a case in the native tier only.
macro_rules! native_only {
    ($($name:ident($cell:ident) $body:block)+) => {$(
        #[test]
        fn $name() {
            async fn case($cell: &Opened) $body
            Case { name: stringify!($name), tier: Tier::Native }.run(async |cell| case(cell).await);
        }
    )+};
}

every_tier! {
    argv_is_verbatim(cell) {
        let mut spec = job("j");
        let odd = ["/usr/bin/printf", "[%s]", "a b", "", "$HOME", "'\"\\", "ü\n", "-n", "*"];
        spec.argv = odd.map(str::to_owned).to_vec();
        let receipt = cell.run(spec).await;
        assert_eq!(receipt.end, JobEnd::Exited { code: 0 });
        assert_eq!(text(&receipt.stdout.head), "[a b][][$HOME]['\"\\][ü\n][-n][*]");
    }
    environment_is_exactly_what_was_given(cell) {
        let mut spec = job("j");
        spec.argv = vec!["/usr/bin/env".to_owned()];
        spec.env = BTreeMap::from([("A".to_owned(), "1 2".to_owned()), ("B".to_owned(), String::new())]);
        assert_eq!(text(&cell.run(spec).await.stdout.head), "A=1 2\nB=\n");
    }
    program_is_found_in_the_jobs_path(cell) {
        let mut spec = job("j");
        spec.argv = vec!["printf".to_owned(), "x".to_owned()];
        assert_eq!(text(&cell.run(spec.clone()).await.stdout.head), "x");
        spec.env = BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]);
        let end = cell.run(spec).await.end;
        assert!(matches!(end, JobEnd::NotStarted { errno: 2, .. }), "{end:?}");
    }
    directory_exit_code_and_signal_are_told(cell) {
        let mut spec = sh("pwd; exit 7");
        spec.cwd = "/usr/bin".to_owned();
        let receipt = cell.run(spec).await;
        assert_eq!((receipt.end, text(&receipt.stdout.head)), (JobEnd::Exited { code: 7 }, "/usr/bin\n".to_owned()));
        assert_eq!(cell.run(sh("kill -TERM $$")).await.end, JobEnd::Signaled { signal: 15 });
        let mut lost = sh("true");
        lost.cwd = "/nowhere".to_owned();
        let end = cell.run(lost).await.end;
        assert!(matches!(end, JobEnd::NotStarted { errno: 2, .. }), "{end:?}");
    }
    standard_input_is_empty(cell) {
        let receipt = cell.run(sh("cat; echo end")).await;
        assert_eq!((receipt.end, text(&receipt.stdout.head)), (JobEnd::Exited { code: 0 }, "end\n".to_owned()));
    }
    standard_input_is_what_was_given_and_cannot_be_changed(cell) {
        let mut spec = sh("cat | wc -c; printf x 2>/dev/null >/proc/self/fd/0 || echo sealed");
        spec.stdin = [vec![b'a'; 1 << 20], b"\nend".to_vec()].concat();
        let receipt = cell.run(spec).await;
        assert_eq!((receipt.end, text(&receipt.stdout.head)), (JobEnd::Exited { code: 0 }, format!("{}\nsealed\n", (1 << 20) + 4)));
        // The next job does not see it.
        assert_eq!(text(&cell.run(sh("cat")).await.stdout.head), "");
    }
    nothing_is_inherited(cell) {
        let receipt = cell.run(sh("ls /proc/self/fd; umask; ulimit -c; trap; cat /proc/self/status | grep -E 'SigIgn|SigBlk'")).await;
        // 3 is the directory that ls itself reads.
        assert_eq!(text(&receipt.stdout.head), "0\n1\n2\n3\n0022\n0\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    }
    both_streams_are_kept_apart(cell) {
        let receipt = cell.run(sh("echo out; echo err >&2")).await;
        assert_eq!((text(&receipt.stdout.head), text(&receipt.stderr.head)), ("out\n".to_owned(), "err\n".to_owned()));
    }
    output_keeps_head_and_tail_and_counts_the_rest(cell) {
        let mut spec = sh("seq 1 100000");
        (spec.limits.output_head, spec.limits.output_tail) = (10, 14);
        let receipt = cell.run(spec).await;
        assert_eq!(text(&receipt.stdout.head), "1\n2\n3\n4\n5\n");
        assert_eq!(text(&receipt.stdout.tail), "\n99999\n100000\n");
        let total = (1..=100_000_u64).map(|n| n.to_string().len() as u64 + 1).sum::<u64>();
        assert_eq!((receipt.stdout.total, receipt.stdout.omitted), (total, total - 24));
    }
    too_much_output_ends_the_job(cell) {
        let mut spec = sh("yes");
        spec.limits.output_total = Some(1 << 20);
        let receipt = cell.run(spec).await;
        assert_eq!(receipt.end, JobEnd::Limit { which: LimitHit::Output });
        assert!(receipt.stdout.total > 1 << 20);
    }
    a_flood_is_counted_in_bounded_memory(cell) {
        let receipt = cell.run(sh("head -c 200000000 /dev/zero")).await;
        assert_eq!((receipt.end, receipt.stdout.total), (JobEnd::Exited { code: 0 }, 200_000_000));
        let peak = cell.launcher_peak_kib();
        assert!(peak < 60 * 1024, "the launcher used {peak} KiB");
    }
    a_timeout_kills_the_whole_tree(cell) {
        let marker = format!("{}.5", 7_000_000 + std::process::id());
        let mut spec = sh(&format!("setsid sleep {marker} & (trap '' TERM HUP INT; sleep {marker}) & sleep {marker}"));
        spec.limits.wall = Millis(300);
        let receipt = cell.run(spec).await;
        assert_eq!(receipt.end, JobEnd::Limit { which: LimitHit::Timeout });
        assert_eq!(support::processes_with(&marker), Vec::<String>::new());
    }
    what_outlives_the_command_is_killed_and_counted(cell) {
        let marker = format!("{}.25", 7_000_000 + std::process::id());
        let receipt = cell.run(sh(&format!("setsid sleep {marker} >/dev/null 2>&1 & sleep {marker} & sleep {marker} & exit 4"))).await;
        assert_eq!((receipt.end, receipt.killed), (JobEnd::Exited { code: 4 }, 3));
        assert_eq!(support::processes_with(&marker), Vec::<String>::new());
        assert_eq!(cell.run(sh("true")).await.killed, 0);
    }
    cancel_ends_a_job_and_says_so(cell) {
        let mut spec = sh("echo started; sleep 1000");
        spec.job = "to-cancel".parse().unwrap();
        let id = spec.job.clone();
        let (receipt, ()) = tokio::join!(cell.run(spec), async {
            // Requests are served in order, so the job has been started when it is cancelled.
            tokio::task::yield_now().await;
            cell.cell.cancel(&id);
        });
        assert_eq!(receipt.end, JobEnd::Canceled);
    }
    dropping_the_future_cancels_the_job(cell) {
        let marker = format!("{}.75", 7_000_000 + std::process::id());
        let run = cell.cell.run(cell.fitted(sh(&format!("sleep {marker}"))));
        tokio::select! {
            ended = run => panic!("it ended by itself: {ended:?}"),
            () = support::until("the job runs", || !support::processes_with(&marker).is_empty()) => {}
        }
        support::until("the dropped job is dead", || support::processes_with(&marker).is_empty()).await;
        exited(&cell.run(sh("true")).await, 0);
    }
    two_jobs_run_side_by_side(cell) {
        // Each waits for the other's file: neither could end alone.
        let meet = |mine: &str, other: &str| sh(&format!("touch {mine}; until [ -e {other} ]; do sleep 0.01; done"));
        let (mut a, mut b) = (meet("a", "b"), meet("b", "a"));
        (a.job, b.job) = ("a".parse().unwrap(), "b".parse().unwrap());
        let (a, b) = tokio::join!(cell.run(a), cell.run(b));
        exited(&a, 0);
        exited(&b, 0);
    }
    workspace_and_home_are_writable_and_kept_between_jobs(cell) {
        exited(&cell.run(sh("echo kept > file && mkdir dir && echo x > $HOME/y")).await, 0);
        let receipt = cell.run(sh("cat file $HOME/y; [ -O file ] && echo own; rmdir dir")).await;
        assert_eq!(text(&receipt.stdout.head), "kept\nx\nown\n");
        let seen = std::fs::read_to_string(cell.state_dir.path().join("workspace/file")).unwrap();
        assert_eq!(seen, "kept\n");
    }
    the_guest_answers_and_takes_descriptors(cell) {
        let files: Vec<std::fs::File> = (0..3).map(|_| tempfile::tempfile().unwrap()).collect();
        let fds = files.iter().map(|f| OwnedFd::from(f.try_clone().unwrap())).collect();
        let reply = text(&cell.cell.guest(b"hello".to_vec(), fds).await.unwrap());
        assert!(reply.starts_with("fds 3\n") && reply.ends_with("hello"), "{reply}");
        for (index, file) in files.iter().enumerate() {
            assert_eq!(support::read_from_start(file), format!("fd {index}"));
        }
        let big = vec![b'x'; 5 << 20];
        let reply = cell.cell.guest(big.clone(), vec![]).await.unwrap();
        assert!(reply.ends_with(&big) && reply.starts_with(b"fds 0\n"));
    }
    a_dead_guest_is_a_typed_error(cell) {
        let died = cell.cell.guest(b"die".to_vec(), vec![]).await;
        let told = |what: &str| what.contains("exit code 3") && what.contains(r"last words \u{1b}[31m");
        assert!(matches!(&died, Err(CellError::Died(what)) if told(what)), "{died:?}");
        let again = cell.cell.guest(b"hello".to_vec(), vec![]).await;
        assert!(matches!(again, Err(CellError::Died(_))), "{again:?}");
    }
    a_reply_beyond_the_bound_is_refused(cell) {
        let huge = cell.cell.guest(b"huge".to_vec(), vec![]).await;
        assert!(matches!(huge, Err(CellError::Protocol(_))), "{huge:?}");
    }
    end_kills_running_jobs_and_deletes(cell) {
        let marker = format!("{}.125", 7_000_000 + std::process::id());
        exited(&cell.run(sh("mkdir -p a/b/c && touch a/b/c/d && ln -s / a/root && chmod 000 a/b && mkdir $'odd\\n' .x")).await, 0);
        let run = cell.cell.run(cell.fitted(sh(&format!("echo x; sleep {marker}"))));
        let (receipt, ended) = tokio::join!(run, async {
            support::until("the job runs", || !support::processes_with(&format!("sleep {marker}")).is_empty()).await;
            cell.cell.end(true).await
        });
        ended.unwrap();
        assert_eq!(receipt.unwrap().end, JobEnd::Canceled);
        assert_eq!(support::processes_with(&marker), Vec::<String>::new());
        // The directory itself may be gone too.
        assert_eq!(std::fs::read_dir(cell.state_dir.path()).map_or(0, Iterator::count), 0);
        let after = cell.cell.run(sh("true")).await;
        assert!(matches!(after, Err(CellError::Died(_))), "{after:?}");
    }
    a_killed_controller_leaves_no_process(cell) {
        support::kill_controller(cell.tier).await;
    }
    a_controller_killed_at_any_moment_leaves_no_process(cell) {
        support::kill_controllers_at_many_moments(cell.tier).await;
    }
    a_killed_launcher_leaves_no_process(cell) {
        let marker = format!("{}.625", 7_000_000 + std::process::id());
        let launcher = cell.launcher();
        let run = cell.cell.run(cell.fitted(sh(&format!("setsid sleep {marker} & sleep {marker}"))));
        let (receipt, ()) = tokio::join!(run, async {
            support::until("the job runs", || support::processes_with(&marker).len() >= 2).await;
            support::kill(launcher);
        });
        assert!(matches!(receipt, Err(CellError::Died(_))), "{receipt:?}");
        support::until("everything is dead", || support::processes_with(&marker).is_empty()).await;
    }
}

native_only! {
    the_canary_saw_every_property_that_native_demands(cell) {
        let observation = cell.cell.observation().await;
        assert!(Tier::Native.demands().is_subset(&observation.properties), "{observation:?}");
    }
    jobs_are_uid_1000_without_capabilities(cell) {
        let receipt = cell.run(sh("id -u; id -g; id -G; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; cat /proc/self/uid_map")).await;
        let said = text(&receipt.stdout.head);
        let zero = "0".repeat(16);
        let expected = format!("1000\n1000\n1000\nCapEff:{zero}\nCapBnd:{zero}\nNoNewPrivs:1\nSeccomp:2\n");
        assert!(said.starts_with(&expected), "{said}");
        let map: Vec<u64> = said.lines().last().unwrap().split_ascii_whitespace().map(|n| n.parse().unwrap()).collect();
        assert!(map[0] == 0 && map[1] >= 1 && map[2] == 65_536, "{map:?}");
    }
    jobs_see_only_their_own_processes(cell) {
        let receipt = cell.run(sh("kill -9 -1; kill -9 1; echo alive")).await;
        assert_eq!((receipt.end, text(&receipt.stdout.head)), (JobEnd::Exited { code: 0 }, "alive\n".to_owned()));
        let receipt = cell.run(sh("echo /proc/[0-9]*")).await;
        assert_eq!(text(&receipt.stdout.head), "/proc/1 /proc/2\n");
    }
    the_network_is_absent_and_loopback_works(cell) {
        let receipt = cell.run(sh("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '; exec 3<>/dev/tcp/192.0.2.1/80")).await;
        assert_eq!(text(&receipt.stdout.head), "lo\n");
        assert_ne!(receipt.end, JobEnd::Exited { code: 0 });
        exited(&cell.run(support::python("import socket; s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(); c=socket.create_connection(s.getsockname())")).await, 0);
    }
    the_hosts_files_are_absent(cell) {
        let secret = cell.state_dir.path().join("secret");
        std::fs::write(&secret, "s").unwrap();
        let script = format!("for f in {} /sys /boot /etc/shadow /root/.ssh /var; do [ -e $f ] && echo leaked $f; done; ls /", secret.display());
        let said = text(&cell.run(sh(&script)).await.stdout.head);
        assert!(!said.contains("leaked"), "{said}");
        exited(&cell.run(sh("! touch /x 2>/dev/null && ! touch /usr/x 2>/dev/null && ! touch /etc/x 2>/dev/null && touch /tmp/x /dev/shm/x")).await, 0);
    }
    dangerous_system_calls_are_denied(cell) {
        // Sockets are only made, never connected.
        let probe = "import ctypes, os, socket, errno\n\
            libc = ctypes.CDLL(None, use_errno=True)\n\
            def call(nr, *a):\n  r = libc.syscall(nr, *a)\n  return 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]\n\
            for name, nr, args in [('vsock', 41, (40, 1, 0)), ('packet', 41, (17, 3, 0)), ('alg', 41, (38, 5, 0)), ('unshare', 272, (0x10000000,)), \
            ('clone3', 435, (0, 0)), ('io_uring', 425, (1, 0)), ('keyctl', 250, (0, 0)), ('add_key', 248, (0, 0, 0, 0, 0)), ('ptrace', 101, (0, 0, 0, 0)), \
            ('bpf', 321, (0, 0, 0)), ('perf', 298, (0, 0, 0, 0, 0)), ('userfaultfd', 323, (0,)), ('mount', 165, (0, 0, 0, 0, 0)), ('open_tree', 428, (0, 0, 0)), \
            ('setns', 308, (0, 0)), ('handle', 304, (0, 0, 0)), ('tiocsti', 16, (0, 0x5412, 0)), ('x32', 0x40000000 + 39, ())]:\n  print(name, call(nr, *args))\n\
            try:\n  open('/proc/sys/kernel/core_pattern', 'w'); print('core_pattern ok')\n\
            except OSError as e: print('core_pattern', errno.errorcode[e.errno])\n";
        let said = text(&cell.run(support::python(probe)).await.stdout.head);
        let expected: String = ["vsock", "packet", "alg", "unshare", "clone3 ENOSYS", "io_uring", "keyctl", "add_key", "ptrace", "bpf", "perf",
            "userfaultfd", "mount", "open_tree", "setns", "handle", "tiocsti", "x32 ENOSYS", "core_pattern EACCES"]
            .iter().map(|n| if n.contains(' ') { format!("{n}\n") } else { format!("{n} EPERM\n") }).collect();
        assert_eq!(said, expected);
    }
    threads_and_subprocesses_still_work(cell) {
        exited(&cell.run(support::python("import threading, subprocess\nt=threading.Thread(target=lambda: subprocess.check_call(['/bin/true'])); t.start(); t.join()")).await, 0);
    }
    running_out_of_memory_is_typed(cell) {
        if !cell.cell.observation().await.properties.contains(&TierProperty::MemoryLimit) {
            support::skipped("running_out_of_memory_is_typed", "no writable memory cgroup");
            return;
        }
        let mut spec = support::python("b = bytearray(400 << 20)");
        spec.limits.memory = Some(64 << 20);
        assert_eq!(cell.run(spec).await.end, JobEnd::Limit { which: LimitHit::Oom });
    }
    a_fork_bomb_meets_its_limit(cell) {
        if !cell.cell.observation().await.properties.contains(&TierProperty::PidsLimit) {
            support::skipped("a_fork_bomb_meets_its_limit", "no writable pids cgroup");
            return;
        }
        let mut spec = support::python("import os,time\nwhile True:\n  if os.fork() == 0: time.sleep(1000)");
        spec.limits.processes = Some(30);
        let receipt = cell.run(spec).await;
        assert_eq!(receipt.end, JobEnd::Limit { which: LimitHit::Pids });
        assert!((20..=30).contains(&receipt.killed), "{}", receipt.killed);
        assert_eq!(support::leftover_cgroups(cell.launcher()), Vec::<String>::new());
    }
    tmp_is_bounded(cell) {
        let receipt = cell.run(sh("df --output=size,target -B1M /tmp /dev/shm | tail -n +2 | tr -s ' '")).await;
        assert_eq!(text(&receipt.stdout.head), " 2048 /tmp\n 2048 /dev/shm\n");
    }
    root_of_the_cell_reads_everything_and_owns_no_more(cell) {
        exited(&cell.run(sh("echo s > private; chmod 000 private")).await, 0);
        let mut spec = sh("cat private; id -u; grep CapEff /proc/self/status; mount -t tmpfs x /tmp; echo x > /proc/sys/kernel/hostname");
        spec.run_as = RunAs::Root;
        let receipt = cell.run(spec).await;
        let said = text(&receipt.stdout.head);
        assert!(said.starts_with("s\n0\n") && said.contains("000000000000000f\n"), "{said}");
        assert_ne!(receipt.end, JobEnd::Exited { code: 0 });
    }
    the_guest_is_confined_too(cell) {
        let reply = text(&cell.cell.guest(b"x".to_vec(), vec![]).await.unwrap());
        for fact in ["CapEff: 000000000000000f", "Seccomp: 2", "NoNewPrivs: 1"] {
            assert!(reply.contains(fact), "{reply}");
        }
    }
}

#[test]
fn layers_are_read_only_and_root_only_layers_are_private() {
    let host = tempfile::tempdir().unwrap();
    let (layer, git) = (host.path().join("layer"), host.path().join("git"));
    for directory in [&layer, &git] {
        std::fs::create_dir(directory).unwrap();
        std::fs::write(directory.join("f"), "inside").unwrap();
    }
    support::chmod(&git.join("f"), 0o600);
    support::chmod(&git, 0o700);
    support::chmod(host.path(), 0o755);
    let mount = |kind, source: &std::path::Path, target: &str| Mount {
        kind,
        source: source.into(),
        target: target.into(),
    };
    let mounts = vec![
        mount(MountKind::ReadOnly, &layer, "/workspace/.venv"),
        mount(MountKind::ReadOnly, &layer, "/root/.rustup/toolchains/x"),
        mount(MountKind::ReadOnly, &layer.join("f"), "/opt/file"),
        mount(MountKind::RootOnly, &git, "/countersign/git"),
    ];
    Case { name: "layers_are_read_only_and_root_only_layers_are_private", tier: Tier::Native }.run_with(mounts, async |cell| {
        let script = "cat .venv/f /root/.rustup/toolchains/x/f /opt/file; \
            touch .venv/g 2>&1; rm -rf .venv 2>&1; cat /countersign/git/f 2>&1; ls /countersign 2>&1; ls -ld .venv/.. | cut -c1-10";
        let said = text(&cell.run(sh(script)).await.stdout.head);
        assert!(said.starts_with("insideinsideinside"), "{said}");
        assert!(said.contains("Read-only file system") && said.matches("Permission denied").count() == 2, "{said}");
        let mut spec = sh("cat /countersign/git/f; touch /countersign/git/x");
        spec.run_as = RunAs::Root;
        let receipt = cell.run(spec).await;
        assert_ne!(receipt.end, JobEnd::Exited { code: 0 });
        if support::is_root() {
            assert_eq!(text(&receipt.stdout.head), "inside");
            let reply = text(&cell.cell.guest(b"read /countersign/git/f".to_vec(), vec![]).await.unwrap());
            assert!(reply.contains("content inside\n"), "{reply}");
        }
    });
}

#[test]
fn a_mount_point_that_the_agent_replaced_by_a_link_is_refused() {
    Case { name: "a_mount_point_that_the_agent_replaced_by_a_link_is_refused", tier: Tier::Native }.run(async |cell| {
        exited(&cell.run(sh("ln -s /tmp .venv")).await, 0);
        cell.cell.end(false).await.unwrap();
        let mount = Mount { kind: MountKind::ReadOnly, source: "/usr".into(), target: "/workspace/.venv/x".into() };
        let spec = CellSpec { id: CellId::new("again").unwrap(), state_dir: cell.state_dir.path().into(), mounts: vec![mount], host_network: false };
        let opened = countersign_cell::Native::new(support::binaries().clone()).open(spec).await;
        assert!(matches!(&opened, Err(CellError::Unavailable { why, .. }) if why.contains("/workspace/.venv")), "{opened:?}");
    });
}

#[test]
fn a_missing_or_foreign_launcher_is_a_typed_error() {
    support::block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let mut binaries = support::binaries().clone();
        for (name, text) in [
            ("missing", None),
            ("foreign", Some("#!/bin/sh\necho other 1\n")),
            ("silent", Some("#!/bin/sh\nexit 0\n")),
        ] {
            binaries.jail = directory.path().join(name);
            if let Some(text) = text {
                std::fs::write(&binaries.jail, text).unwrap();
                support::chmod(&binaries.jail, 0o755);
            }
            let checked = binaries.check().await;
            assert!(matches!(checked, Err(CellError::Unavailable { .. })), "{name}: {checked:?}");
            let opened = open(Tier::Native, &binaries, vec![]).await.map(|_| ());
            let fine = matches!(
                opened,
                Err(CellError::Unavailable { .. }
                    | CellError::Died(_)
                    | CellError::Io { .. }
                    | CellError::Protocol(_))
            );
            assert!(fine, "{name}: {opened:?}");
        }
    });
}

#[test]
fn doctor_reports_every_tier_and_leaves_nothing() {
    support::block_on(async {
        let scratch = tempfile::tempdir().unwrap();
        let reports = countersign_cell::report(support::binaries(), scratch.path()).await;
        let mut tiers: Vec<Tier> = reports.iter().map(|r| r.tier).collect();
        tiers.sort();
        assert_eq!(tiers, Tier::ALL);
        for report in &reports {
            assert_eq!(report.available, report.why_not.is_none(), "{report:?}");
            assert!(report.available || report.fix.is_some(), "{report:?}");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    });
}

#[test]
fn the_hosts_network_is_there_only_when_asked_for() {
    support::block_on(async {
        let state_dir = tempfile::tempdir().unwrap();
        let id = CellId::new("net").unwrap();
        let spec = CellSpec { id, state_dir: state_dir.path().into(), mounts: vec![], host_network: true };
        let cell = match countersign_cell::Native::new(support::binaries().clone()).open(spec).await {
            Err(CellError::Unavailable { why, .. }) => {
                return support::skipped("the_hosts_network_is_there_only_when_asked_for", &why);
            }
            other => other.unwrap(),
        };
        let devices = || std::fs::read_to_string("/proc/net/dev").unwrap().lines().count().to_string();
        let mut spec = sh("wc -l < /proc/net/dev");
        spec.cwd = "/".to_owned();
        let receipt = cell.run(spec).await.unwrap();
        // The host's abstract sockets are in its network namespace; Landlock keeps jobs off them where it can.
        let name = format!("countersign-test-{}", std::process::id());
        let address =
            <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name)
                .unwrap();
        let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        let mut spec =
            support::python(&format!("import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')"));
        spec.cwd = "/".to_owned();
        let connected = cell.run(spec).await.unwrap();
        if cell.observation().await.landlock_abi >= Some(6) {
            assert!(text(&connected.stderr.head).contains("PermissionError"), "{connected:?}");
        } else {
            support::skipped("abstract sockets with the host's network", "Landlock ABI 6 is not available");
        }
        let seen = cell.observation().await.properties.contains(&TierProperty::Netns);
        cell.end(true).await.unwrap();
        assert_eq!(text(&receipt.stdout.head).trim(), devices());
        // A host with nothing but a loopback device looks the same from inside; the claim is then still true.
        assert!(!seen || devices() == "3");
    });
}

#[test]
fn the_suite_passes_without_root() {
    support::suite_without_root("the_suite_passes_without_root");
}
