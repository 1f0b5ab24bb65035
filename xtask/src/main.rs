use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match xtask::cli::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            xtask::sh::say(&format!("xtask: {error}"));
            ExitCode::FAILURE
        }
    }
}
