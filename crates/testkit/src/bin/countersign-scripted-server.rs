//! Plays a script as an OpenAI Chat Completions server on loopback until it is killed.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use countersign_llm::Script;
use countersign_testkit::{ScriptedServer, ServerOptions};

const USAGE: &str = "usage: countersign-scripted-server --script FILE [--port N] [--key KEY] [--strict]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            // Nobody is left to tell when stderr is closed.
            let _ = writeln!(std::io::stderr(), "{what}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let (mut script, mut port, mut key, mut strict) = (None, 0, None, false);
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"));
        match flag.as_str() {
            "--script" => script = Some(PathBuf::from(value()?)),
            "--port" => port = value()?.parse().map_err(|_| format!("--port takes 0 to 65535\n{USAGE}"))?,
            "--key" => key = Some(value()?),
            "--strict" => strict = true,
            other => return Err(format!("unknown argument `{other}`\n{USAGE}")),
        }
    }
    let script = script.ok_or_else(|| format!("--script is missing\n{USAGE}"))?;
    let script = Script::open(&script).map_err(|error| error.to_string())?;
    let options = ServerOptions { port, key, strict, ..ServerOptions::new(script) };
    let server =
        ScriptedServer::start(options).map_err(|error| format!("cannot listen on port {port}: {error}"))?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on 127.0.0.1:{}", server.port())
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("cannot say where it listens: {error}"))?;
    server.wait();
    Ok(())
}
