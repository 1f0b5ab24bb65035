//! The command line of `cargo xtask`.

use crate::bench::gate::Options as GateOptions;
use crate::bench::{self, Options as BenchOptions};
use crate::setup::{self, For};
use crate::sh::{self, Error, Result};
use crate::suite::{self, Options as SuiteOptions, Size};
use crate::workspace::Workspace;
use crate::{book, build, demo, docs, fuzz, materials};

pub const HELP: &str = "\
cargo xtask COMMAND: the project's chores

  demo [ARGS…]            build, then run `countersign demo ARGS…`
  test [--size small|full] [--skip-setup] [FILTER…]
                          set up, build, lint, test, measure; with FILTER only the tests that match
  bench [NAME…] [--factor N] [--size small|full] [--json]
                          measure and compare with the targets (start, overhead, room, store, postgres, verify); beyond target x N
                          (default 1) it exits with 1
  bench gate [--format text|json|markdown] [--size small|full] [--gate CMD] [--strace] [--only ID]…
                          play the benchmark of false greens against `countersign gate`, or against any command that
                          takes the same arguments, with a naive exit-code gate beside it; exits with 1 where a cheat
                          is verified or honest work refused; with --strace also where the controller executed
                          anything but its launcher or opened a file of the agent's; --keep
                          uses prepared environments again, --write publishes the report as bench/gate/results.json
                          and docs/benchmark.md
  fuzz [TARGET…] [--seconds N]
                          feed each parser that `verify` uses with inputs that reach further into it, for N seconds each
                          (default 3); exits with 1 where one panics, loops or breaks its promise
  build [--release]       build countersign and the static programs that it starts inside cells
  docs [--check DIR|URL]  write docs/cli.md from the program's types, manual pages and the book of all pages into the target
                          directory, and follow every link; with --check compare a deployed copy with the book
  setup                   install what the tests need (as root; else print the line to copy) and download the
                          real-input materials into the target directory
  materials [--verify]    only the downloads; --verify also runs every check on the old and on the fixed sources
  help                    this text

Exit codes: 0 done, 1 not done; the last line on stderr says what to do.
";

/// # Errors
/// When the arguments are not understood or the command fails.
pub fn run(args: &[String]) -> Result<()> {
    let workspace = Workspace::find();
    let Some((command, rest)) = args.split_first() else {
        sh::say(HELP.trim_end());
        return Err(Error::new("no command given"));
    };
    if matches!(command.as_str(), "help" | "--help" | "-h")
        || (command != "demo" && rest.iter().any(|arg| arg == "--help" || arg == "-h"))
    {
        return sh::print(HELP.trim_end());
    }
    match command.as_str() {
        "demo" => demo::demo(&workspace, rest),
        "test" => suite::run(&workspace, &suite_options(rest)?),
        "bench" => match rest.split_first() {
            Some((name, rest)) if name == "gate" => bench::gate::run(&workspace, &GateOptions::parse(rest)?),
            _ => bench::run(&workspace, &bench_options(rest)?),
        },
        "fuzz" => fuzz::run(&workspace, &fuzz_options(rest)?),
        "build" => {
            let release = flag_only(command, rest, "--release")?;
            sh::print(&build::build(&workspace, release)?.display().to_string())
        }
        "docs" => match rest {
            [] => {
                docs::docs(&workspace)?;
                sh::print(&book::build(&workspace)?.display().to_string())
            }
            [flag, copy] if flag == "--check" => book::check(&workspace, copy),
            _ => Err(Error::new("`docs` takes `--check DIR|URL` and nothing else; see `cargo xtask help`")),
        },
        "setup" => {
            no_arguments(command, rest)?;
            setup::setup(&workspace, For::Test)?;
            fuzz::fetch(&workspace)?;
            book::install(&workspace)?;
            materials::prepare(&workspace)
        }
        "materials" => {
            let verify = flag_only(command, rest, "--verify")?;
            materials::prepare(&workspace)?;
            if verify { materials::verify(&workspace) } else { Ok(()) }
        }
        other => Err(Error::new(format!("no command `{other}`; `cargo xtask help` lists them"))),
    }
}

fn no_arguments(command: &str, rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(arg) => {
            Err(Error::new(format!("`{command}` takes no argument `{arg}`; see `cargo xtask help`")))
        }
    }
}

fn flag_only(command: &str, rest: &[String], flag: &str) -> Result<bool> {
    match rest {
        [] => Ok(false),
        [only] if only == flag => Ok(true),
        _ => Err(Error::new(format!("`{command}` takes `{flag}` and nothing else; see `cargo xtask help`"))),
    }
}

fn size(value: Option<&String>) -> Result<Size> {
    match value.map(String::as_str) {
        Some("small") => Ok(Size::Small),
        Some("full") => Ok(Size::Full),
        other => Err(Error::new(format!("--size is `small` or `full`, not `{}`", other.unwrap_or("")))),
    }
}

fn suite_options(rest: &[String]) -> Result<SuiteOptions> {
    let mut options = SuiteOptions::default();
    let mut args = rest.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--skip-setup" => options.skip_setup = true,
            "--size" => options.size = size(args.next())?,
            flag if flag.starts_with('-') => {
                return Err(Error::new(format!("`test` has no flag `{flag}`; see `cargo xtask help`")));
            }
            filter => options.filters.push(filter.to_owned()),
        }
    }
    Ok(options)
}

fn fuzz_options(rest: &[String]) -> Result<fuzz::Options> {
    let mut options = fuzz::Options::default();
    let mut args = rest.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let seconds = args.next().and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0);
                let refuse = || Error::new("--seconds needs a whole number above 0, such as `--seconds 60`");
                options.seconds = Some(seconds.ok_or_else(refuse)?);
            }
            flag if flag.starts_with('-') => {
                return Err(Error::new(format!("`fuzz` has no flag `{flag}`; see `cargo xtask help`")));
            }
            name => options.targets.push(name.to_owned()),
        }
    }
    Ok(options)
}

fn bench_options(rest: &[String]) -> Result<BenchOptions> {
    let mut options = BenchOptions::default();
    let mut args = rest.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => options.json = true,
            "--size" => options.size = size(args.next())?,
            "--factor" => {
                options.factor = args
                    .next()
                    .and_then(|text| text.parse().ok())
                    .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
                    .ok_or_else(|| Error::new("--factor needs a positive number, such as `--factor 2`"))?;
            }
            flag if flag.starts_with('-') => {
                return Err(Error::new(format!("`bench` has no flag `{flag}`; see `cargo xtask help`")));
            }
            name => options.names.push(name.parse()?),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn unknown_words_are_refused_and_named() {
        for line in [
            "tset",
            "test --sise full",
            "bench startt",
            "bench --factor 0",
            "bench gate --sise",
            "bench gate --format xml",
            "build --relase",
            "setup now",
        ] {
            assert!(run(&words(line)).is_err(), "{line}");
        }
        assert!(run(&words("tset")).unwrap_err().to_string().contains("`tset`"));
        assert!(suite_options(&words("--size tiny")).is_err());
        assert!(suite_options(&words("--size")).is_err());
    }

    #[test]
    fn filters_and_flags_mix() {
        let options = suite_options(&words("one --size full two --skip-setup")).unwrap();
        assert_eq!(options.filters, ["one", "two"]);
        assert!(options.skip_setup);
        assert_eq!(options.size, Size::Full);
    }
}
