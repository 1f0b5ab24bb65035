//! A panic is a bug of ours: it ends the process with its own exit code, whatever thread it happened in.

use std::panic::PanicHookInfo;

use countersign_types::Outcome;

use crate::args::Format;
use crate::result::RunResult;
use crate::{render, terminal, text};

/// Makes every panic end the process with exit code 70, a message, and one result object where one was asked for.
pub(crate) fn install(format: Format) {
    std::panic::set_hook(Box::new(move |info| {
        let message = describe(info);
        terminal::err_line(&format!(
            "countersign: a bug: {message}\nThis is not your fault. Please report it with the command that you ran."
        ));
        if format != Format::Text {
            render::machine(format, &RunResult::bug(&message));
        }
        std::process::exit(i32::from(Outcome::BUG_EXIT_CODE));
    }));
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let what = info.payload_as_str().unwrap_or("a panic without a message");
    let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
    format!("{}{place}", text::one_line(what, text::LINE))
}
