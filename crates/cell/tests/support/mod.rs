//! Opens cells for the conformance suite and looks at the host from outside.

use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use countersign_cell::{Binaries, Cell, CellError, CellSpec, Cells, Host, Native};
use countersign_types::{CellId, JobEnd, JobLimits, JobReceipt, JobSpec, Millis, Mount, RunAs, Tier};

/// A condition that becomes true soon or never.
const SOON: Duration = Duration::from_secs(20);

pub struct Case {
    pub name: &'static str,
    pub tier: Tier,
}

pub struct Opened {
    pub cell: Arc<dyn Cell>,
    pub tier: Tier,
    pub state_dir: tempfile::TempDir,
}

impl Case {
    pub fn run(self, body: impl AsyncFnOnce(&Opened)) {
        self.run_with(vec![], body);
    }

    pub fn run_with(self, mounts: Vec<Mount>, body: impl AsyncFnOnce(&Opened)) {
        block_on(async {
            match open(self.tier, binaries(), mounts).await {
                Ok(cell) => {
                    body(&cell).await;
                    // As the cell's root, because this user may not remove what the cell's user made.
                    drop(cell.cell.end(true).await);
                }
                Err(CellError::Unavailable { why, fix, .. })
                    if std::env::var_os("COUNTERSIGN_TEST_REQUIRE_NATIVE").is_none() =>
                {
                    skipped(self.name, &format!("{} tier not available: {why} (fix: {fix})", self.tier));
                }
                Err(error) => panic!("{}: {error:?}", self.name),
            }
        });
    }
}

pub fn skipped(name: &str, why: &str) {
    let told = writeln!(std::io::stderr(), "SKIPPED: {name}: {why}");
    drop(told);
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

pub async fn open(tier: Tier, binaries: &Binaries, mounts: Vec<Mount>) -> Result<Opened, CellError> {
    let state_dir = tempfile::tempdir().unwrap();
    let spec = CellSpec {
        id: CellId::new("test").unwrap(),
        state_dir: state_dir.path().into(),
        mounts,
        host_network: false,
    };
    let cell = match tier {
        Tier::Host => Host::new(binaries.clone()).open(spec).await?,
        _ => Native::new(binaries.clone()).open(spec).await?,
    };
    Ok(Opened { cell, tier, state_dir })
}

impl Opened {
    /// Runs a job with this cell's HOME, and in its workspace when no directory was asked for.
    pub async fn run(&self, job: JobSpec) -> JobReceipt {
        self.cell.run(self.fitted(job)).await.unwrap()
    }

    /// For jobs that are started without `Opened::run`.
    pub fn fitted(&self, mut job: JobSpec) -> JobSpec {
        let local = |text: &str, path: PathBuf| text.replace("@", &path.display().to_string());
        if job.cwd == "@" {
            job.cwd = local(&job.cwd, self.cell.workspace());
        }
        if let Some(home) = job.env.get_mut("HOME") {
            *home = local(home, self.cell.home());
        }
        job
    }

    /// The launcher of this cell: the one whose state directory lies open to it is found by its environment-free
    /// command line and its parent, this process.
    pub fn launcher(&self) -> i32 {
        let me = std::process::id().to_string();
        let mut found = vec![];
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
            if stat.contains("(countersign-jai") && fields[1] == me && fields[0] != "Z" {
                found.push(entry.file_name().to_str().unwrap().parse().unwrap());
            }
        }
        assert_eq!(found.len(), 1, "run each test in its own process (nextest), or with --test-threads=1");
        found[0]
    }

    pub fn launcher_peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.launcher())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

pub fn job(id: &str) -> JobSpec {
    let limits = JobLimits {
        wall: Millis::from_secs(60),
        output_head: 64 * 1024,
        output_tail: 64 * 1024,
        output_total: None,
        memory: None,
        processes: None,
    };
    let env =
        [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "@")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    JobSpec {
        job: id.parse().unwrap(),
        argv: vec![],
        cwd: "@".to_owned(),
        env: env.into(),
        run_as: RunAs::User,
        limits,
        stdin: Vec::new(),
    }
}

pub fn sh(script: &str) -> JobSpec {
    JobSpec { argv: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(), ..job("sh") }
}

pub fn python(script: &str) -> JobSpec {
    JobSpec { argv: ["/usr/bin/python3", "-c", script].map(str::to_owned).to_vec(), ..job("python") }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub fn exited(receipt: &JobReceipt, code: i32) {
    assert_eq!(
        receipt.end,
        JobEnd::Exited { code },
        "{} {}",
        text(&receipt.stdout.head),
        text(&receipt.stderr.head)
    );
}

pub fn read_from_start(mut file: &std::fs::File) -> String {
    let mut content = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut content).unwrap();
    content
}

pub fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0).unwrap()
}

/// Living processes of the whole machine that have this text in their command line.
pub fn processes_with(marker: &str) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.parse::<u32>().is_err() || name == std::process::id().to_string() {
            continue;
        }
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) {
            found.push(format!("{name} {line}"));
        }
    }
    found
}

/// Waits for a condition that nothing announces.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn kill(pid: i32) {
    assert!(Command::new("/bin/kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// Starts a controller of its own, kills it with SIGKILL, and waits until nothing of its cell is left.
pub async fn kill_controller(tier: Tier) {
    let marker = format!("{}.375", 8_000_000 + std::process::id());
    let state_dir = tempfile::tempdir().unwrap();
    let command = format!("setsid sleep {marker} & (trap '' TERM HUP; sleep {marker}) & sleep {marker}");
    let mut controller = Command::new(example("controller"))
        .arg(tier.as_str())
        .args([&binaries().jail, &binaries().guest])
        .arg(state_dir.path())
        .arg(command)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until("the job's processes run", || processes_with(&format!("sleep {marker}")).len() >= 3).await;
    let state = state_dir.path().display().to_string();
    controller.kill().unwrap();
    controller.wait().unwrap();
    until("no process is left", || processes_with(&marker).is_empty() && processes_with(&state).is_empty())
        .await;
}

/// Kills controllers at many moments of their life, from before the launcher runs to well into a job.
pub async fn kill_controllers_at_many_moments(tier: Tier) {
    const MOMENTS: u64 = 24;
    const STEP: Duration = Duration::from_millis(3);
    // Programs of their own, so that every process of these cells is known by its executable.
    let programs = tempfile::tempdir().unwrap();
    chmod(programs.path(), 0o755);
    let (jail, guest) = (programs.path().join("countersign-jail"), programs.path().join("guest"));
    std::fs::copy(&binaries().jail, &jail).unwrap();
    std::fs::copy(&binaries().guest, &guest).unwrap();
    let marker = format!("{}.875", 8_000_000 + std::process::id());
    for moment in 0..MOMENTS {
        let state_dir = tempfile::tempdir().unwrap();
        let mut controller = Command::new(example("controller"))
            .arg(tier.as_str())
            .args([&jail, &guest, &state_dir.path().to_owned()])
            .arg(format!("setsid sleep {marker} & sleep {marker}"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(STEP * u32::try_from(moment).unwrap()).await;
        controller.kill().unwrap();
        controller.wait().unwrap();
        let left = || processes_with(&marker).len() + processes_of(programs.path()).len();
        until("no process is left", || left() == 0).await;
    }
}

/// Processes whose executable lies in this directory.
fn processes_of(programs: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let executables = entries.filter_map(|e| std::fs::read_link(e.path().join("exe")).ok());
    executables.filter(|exe| exe.starts_with(programs)).collect()
}

/// Groups that this launcher made and did not remove.
pub fn leftover_cgroups(launcher: i32) -> Vec<String> {
    let mark = format!("-{launcher}-");
    let mut stack = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut found = vec![];
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("countersign-") && name.contains(&mark) {
                    found.push(name);
                }
                stack.push(entry.path());
            }
        }
    }
    found
}

/// The programs under test: from `COUNTERSIGN_TEST_BIN_DIR` (static ones, made by `cargo xtask`), or built now.
pub fn binaries() -> &'static Binaries {
    static BUILT: OnceLock<Binaries> = OnceLock::new();
    BUILT.get_or_init(|| {
        let jail = match std::env::var_os("COUNTERSIGN_TEST_BIN_DIR") {
            Some(directory) => PathBuf::from(directory).join("countersign-jail"),
            None => {
                build(&["--package", "countersign-jail", "--bin", "countersign-jail"], "countersign-jail")
            }
        };
        Binaries { jail, guest: example("stand_in_guest") }
    })
}

/// Examples are built together with the tests, and lie beside their directory.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(path.is_file(), "{} is not built: run the whole test build", path.display());
    path
}

fn build(arguments: &[&str], name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    let target = profile.parent().unwrap();
    // Every test is a process of its own under nextest; the first of a run builds for all.
    let run = std::env::var("NEXTEST_RUN_ID").ok();
    let stamp = std::fs::File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(profile.join(format!("{name}.run")));
    let mut stamp = stamp.unwrap();
    stamp.lock().unwrap();
    if run.is_none() || run != Some(read_from_start(&stamp)) {
        let cargo = Command::new(env!("CARGO"))
            .arg("build")
            .args(arguments)
            .arg("--target-dir")
            .arg(target)
            .output()
            .unwrap();
        assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
        stamp.set_len(0).unwrap();
        stamp.rewind().unwrap();
        stamp.write_all(run.unwrap_or_default().as_bytes()).unwrap();
    }
    profile.join(name)
}

/// Runs this whole test program again as an ordinary user with a range of 65,536 ids, in a mount namespace that has
/// such a user. Needs root, to become somebody else.
pub fn suite_without_root(name: &str) {
    let tools = ["/usr/bin/newuidmap", "/usr/bin/newgidmap", "/usr/bin/unshare", "/usr/bin/setpriv"];
    let missing = tools.iter().find(|tool| !Path::new(tool).exists());
    if let Some(why) = missing
        .map(|tool| format!("{tool} is missing"))
        .or_else(|| (!is_root()).then(|| "not root".to_owned()))
    {
        skipped(name, &why);
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    for directory in ["tests/deps", "tests/examples", "tmp"] {
        std::fs::create_dir_all(at(directory)).unwrap();
    }
    std::fs::copy(std::env::current_exe().unwrap(), at("tests/deps/conformance")).unwrap();
    std::fs::copy(&binaries().jail, at("countersign-jail")).unwrap();
    for example_name in ["stand_in_guest", "controller"] {
        std::fs::copy(example(example_name), at("tests/examples").join(example_name)).unwrap();
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    std::fs::write(at("passwd"), format!("{passwd}somebody:x:{SOMEBODY}:{SOMEBODY}::/:/bin/sh\n")).unwrap();
    std::fs::write(at("ids"), "somebody:300000:65536\n").unwrap();
    let script = format!(
        "set -e; cd {home}; mount --bind passwd /etc/passwd; mount --bind ids /etc/subuid; mount --bind ids /etc/subgid; \
         chown -R {SOMEBODY}:{SOMEBODY} .; \
         exec setpriv --reuid {SOMEBODY} --regid {SOMEBODY} --clear-groups env TMPDIR=$PWD/tmp \
         COUNTERSIGN_TEST_BIN_DIR=$PWD COUNTERSIGN_TEST_REQUIRE_NATIVE=1 \
         tests/deps/conformance --test-threads=1 --skip {name} --skip doctor",
        home = home.path().display()
    );
    let ran = Command::new("/usr/bin/unshare").args(["-m", "/bin/sh", "-c", &script]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("test result: ok"), "{out}\n{err}");
}

/// A uid that nobody has.
const SOMEBODY: u32 = 54_321;
