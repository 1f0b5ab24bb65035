//! A PostgreSQL server of a test's own: made by `initdb` in a fresh directory, reached by a socket in it and by no port,
//! and gone with its handle. The machine's own servers are never touched.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Where Debian puts the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The server refuses to run as root; this user comes with the package.
const USER: &str = "postgres";

/// How long a new server may take until it answers.
const START: Duration = Duration::from_secs(60);

/// The shell waits for a word on its standard input and then stops the server by its process id. When this process dies,
/// however it does, the input ends, and the server is stopped as well.
const KEEPER: &str = r#"
"$@" </dev/null &
server=$!
read -r signal || signal=QUIT
kill -"$signal" "$server"
wait "$server"
"#;

/// Sent to stop it: finish what is being done (`INT`), or let go at once as after a loss of power (`QUIT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Fast,
    Immediate,
}

/// A running server. It stops when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// None while it is stopped.
    keeper: Option<Child>,
    programs: PathBuf,
    user: Option<User>,
    // Last, so that the directory outlives the server.
    dir: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct User {
    uid: u32,
    gid: u32,
}

impl Server {
    /// Makes a database cluster and starts its server with these settings (`name=value`) besides the defaults.
    ///
    /// # Errors
    /// Says why there is none: the text is for a line that a test was skipped.
    pub fn start(settings: &[&str]) -> Result<Self, String> {
        let programs = programs().ok_or("PostgreSQL is not here: run cargo xtask setup")?;
        let user = other_user()?;
        let dir = tempfile::Builder::new()
            .prefix("countersign-pg-")
            .tempdir()
            .map_err(|e| format!("no directory for a PostgreSQL server: {e}"))?;
        if let Some(User { uid, gid }) = user {
            chown(dir.path(), Some(uid), Some(gid))
                .map_err(|e| format!("{} cannot be given to {USER}: {e}", dir.path().display()))?;
        }
        let mut server = Self { keeper: None, programs, user, dir };
        server.init(settings)?;
        server.launch()?;
        Ok(server)
    }

    fn init(&self, settings: &[&str]) -> Result<(), String> {
        let mut initdb = self.command("initdb");
        initdb.arg("-D").arg(self.data()).args(["-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        said(initdb.args(["--no-sync"]).output())?;
        let mut text = format!(
            "\nlisten_addresses = ''\nunix_socket_directories = '{}'\nmax_connections = 100\n",
            self.socket_dir().display()
        );
        for setting in settings {
            text.push_str(setting);
            text.push('\n');
        }
        let path = self.data().join("postgresql.conf");
        let append = || -> io::Result<()> {
            fs::OpenOptions::new().append(true).open(&path)?.write_all(text.as_bytes())
        };
        append().map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Starts it again after [`Self::stop`] or [`Self::crash`], on the same data.
    ///
    /// # Errors
    /// Says what its log says.
    pub fn launch(&mut self) -> Result<(), String> {
        let log = self.dir.path().join("log");
        let file = fs::OpenOptions::new().create(true).append(true).open(&log);
        let file = file.map_err(|e| format!("{}: {e}", log.display()))?;
        let mut keeper = Command::new("/bin/sh");
        self.as_user(&mut keeper);
        keeper
            .args(["-c", KEEPER, "keeper"])
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(self.data())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(file);
        self.keeper = Some(keeper.spawn().map_err(|e| format!("the server's shell: {e}"))?);
        let start = Instant::now();
        while !self.answers() {
            if start.elapsed() > START {
                let text = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("PostgreSQL did not start; its log:\n{text}"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        let mut ready = self.command("pg_isready");
        ready.args(["-q", "-h"]).arg(self.socket_dir());
        ready.status().is_ok_and(|status| status.success())
    }

    /// Stops it as an administrator does: what is being done is broken off, what was committed is written.
    pub fn stop(&mut self) {
        self.end(Stop::Fast);
    }

    /// Every one of its processes ends at once, as with a loss of power: the next start recovers from its log.
    pub fn crash(&mut self) {
        self.end(Stop::Immediate);
    }

    fn end(&mut self, how: Stop) {
        if let Some(mut keeper) = self.keeper.take() {
            let word = match how {
                Stop::Fast => "INT\n",
                Stop::Immediate => "QUIT\n",
            };
            if let Some(mut stdin) = keeper.stdin.take() {
                // A keeper that is gone has stopped its server.
                let _ = stdin.write_all(word.as_bytes());
            }
            let _ = keeper.wait();
        }
    }

    /// Makes an empty database and gives the string to connect to it with.
    ///
    /// # Errors
    /// Says what the server says.
    pub fn database(&self, name: &str) -> Result<String, String> {
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(name))
    }

    /// The string to connect to a database with.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        Self::url_at(&self.socket_dir(), database)
    }

    /// The same at another directory that holds a socket of that name, such as a proxy's.
    #[must_use]
    pub fn url_at(socket_dir: &Path, database: &str) -> String {
        format!("host={} user={USER} dbname={database}", socket_dir.display())
    }

    /// Where its socket is; the socket's name is `.s.PGSQL.5432`.
    #[must_use]
    pub fn socket_dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Runs SQL by `psql`, beside the client under test, and gives what it prints, one row a line.
    ///
    /// # Errors
    /// Says what the server says.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = self.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-h"]);
        psql.arg(self.socket_dir()).args(["-d", database, "-c", sql]);
        said(psql.output())
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        self.as_user(&mut command);
        command.stdin(Stdio::null());
        command
    }

    fn as_user(&self, command: &mut Command) {
        // Its own directory also because the caller's may be closed to the user.
        command.current_dir(self.dir.path()).env("LC_ALL", "C");
        if let Some(User { uid, gid }) = self.user {
            command.uid(uid).gid(gid);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crash();
    }
}

fn said(output: io::Result<Output>) -> Result<String, String> {
    let output = output.map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// The directory of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let version = |dir: &PathBuf| dir.file_name()?.to_str()?.parse::<u32>().ok();
    let debian = fs::read_dir(DEBIAN).ok().and_then(|listing| {
        let versions = listing.filter_map(Result::ok).map(|entry| entry.path());
        versions.filter(|dir| dir.join("bin/initdb").is_file()).max_by_key(version)
    });
    debian.map(|dir| dir.join("bin")).or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
    })
}

/// Whom the server has to run as; None: as whoever we are.
fn other_user() -> Result<Option<User>, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    if uid != Some("0") {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(|e| e.to_string())?;
    let user = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == USER).then_some(())?;
        Some(User { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    });
    user.map(Some).ok_or_else(|| format!("PostgreSQL does not run as root, and there is no user {USER}"))
}
