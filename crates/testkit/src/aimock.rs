//! The npm package `@copilotkit/aimock` (checked with 1.43) as an independent Chat Completions server.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use countersign_llm::{Answer, Script, ScriptedUsage};
use serde_json::{Value, json};

/// A running aimock. Dropping it ends the process.
#[derive(Debug)]
pub struct Aimock {
    pub port: u16,
    pub child: Child,
}

impl Aimock {
    /// What `--base-url` takes.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

impl Aimock {
    /// How many requests it has answered, by its own journal.
    pub fn requests(&self) -> io::Result<usize> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"GET /__aimock/journal HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let body = text.split_once("\r\n\r\n").map(|(_, body)| serde_json::from_str::<Value>(body));
        let Some(Ok(Value::Array(entries))) = body else {
            return Err(io::Error::other(format!("aimock's journal is no array: {text}")));
        };
        Ok(entries.len())
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The words by which aimock says where it listens.
const LISTENING: &str = "aimock server listening on http://127.0.0.1:";

/// The oldest Node that aimock takes, major and minor number.
const OLDEST_NODE: (u32, u32) = (20, 15);

/// How long a start of node may take on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The script as an aimock fixture file: entry k answers the k-th call, whatever it says.
///
/// Delays are left out: aimock knows a pause between streamed pieces only. Its usage is made up where the script gives
/// none, and its call ids are its own.
#[must_use]
pub fn fixtures(script: &Script) -> Value {
    let entries = (0..).map_while(|call| script.entry(call));
    let fixtures: Vec<Value> = entries
        .enumerate()
        .map(|(index, entry)| {
            // Equal criteria share one counter, so `sequenceIndex` counts the calls.
            json!({"match": {"endpoint": "chat", "sequenceIndex": index}, "response": response(&entry.answer)})
        })
        .collect();
    json!({ "fixtures": fixtures })
}

fn response(answer: &Answer) -> Value {
    match answer {
        Answer::Error { status, retry_after } => {
            let mut response =
                json!({"error": {"message": "the script says so", "type": "scripted"}, "status": status});
            if let Some(wait) = retry_after {
                response["retryAfter"] = json!(wait.0.div_ceil(1000));
            }
            response
        }
        Answer::Reply { text, calls, usage } => {
            let mut response = json!({});
            if let Some(text) = text {
                response["content"] = json!(text);
            }
            if !calls.is_empty() {
                let calls = calls.iter().map(|call| json!({"name": call.tool, "arguments": call.args.get()}));
                response["toolCalls"] = calls.collect();
            }
            if let Some(ScriptedUsage { input: Some(input), output: Some(output) }) = usage {
                response["usage"] = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
            }
            response
        }
    }
}

/// The Node for aimock: `COUNTERSIGN_NODE`, else the one on `PATH`.
///
/// # Errors
/// It is missing or too old: a test says so and is skipped.
pub fn node() -> io::Result<PathBuf> {
    let node = std::env::var_os("COUNTERSIGN_NODE").map_or_else(|| PathBuf::from("node"), PathBuf::from);
    let output =
        Command::new(&node).arg("--version").stdin(Stdio::null()).output().map_err(|why| {
            io::Error::new(why.kind(), format!("{} cannot be started: {why}", node.display()))
        })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut numbers = said.trim().trim_start_matches('v').split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Err(io::Error::other(format!("{} does not say its version", node.display())));
    };
    if (major, minor) < OLDEST_NODE {
        let (wanted, least) = OLDEST_NODE;
        let text = format!("{} is {}, and aimock needs {wanted}.{least}", node.display(), said.trim());
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    Ok(node)
}

/// Starts aimock from `dir`, which holds a `node_modules` with the package, on a free port with `script`. The fixture file
/// is written into `scratch`. It runs on [`node`].
///
/// # Errors
/// Those of [`node`]; the fixture file cannot be written; aimock does not say where it listens.
pub fn start(dir: &Path, script: &Script, scratch: &Path) -> io::Result<Aimock> {
    let file: PathBuf = scratch.join("aimock-fixtures.json");
    std::fs::write(&file, serde_json::to_vec(&fixtures(script))?)?;
    let mut child = Command::new(node()?)
        .arg(dir.join("node_modules/@copilotkit/aimock/dist/cli.js"))
        .args(["--host", "127.0.0.1", "--port", "0", "--strict", "--validate-on-load", "--log-level", "info"])
        .arg("--fixtures")
        .arg(&file)
        .current_dir(scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let stdout = child.stdout.take();
    let mut aimock = Aimock { port: 0, child };
    let lines = BufReader::new(stdout.ok_or_else(|| io::Error::other("aimock has no stdout"))?);
    let (said, hear) = mpsc::channel();
    // Reads on after the port is known: a full pipe would stop aimock.
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            // Nobody listens any more once the port is known.
            let _ = said.send(line);
        }
    });
    let mut seen = String::new();
    let began = Instant::now();
    loop {
        let line = hear.recv_timeout(START_LIMIT.saturating_sub(began.elapsed())).map_err(|why| {
            io::Error::other(format!("aimock did not say where it listens ({why}); it said: {seen}"))
        })?;
        if let Some((_, port)) = line.split_once(LISTENING) {
            let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
            aimock.port = digits.parse().map_err(|_| io::Error::other(format!("no port in: {line}")))?;
            return Ok(aimock);
        }
        seen.push_str(&line);
        seen.push('\n');
    }
}
