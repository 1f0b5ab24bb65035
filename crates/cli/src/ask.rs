//! Questions to a person. They go to the terminal device and never to standard input, which may be a task or a pipe of
//! somebody else's; without a terminal nobody is asked, and nobody waits.

use std::fs::File;
use std::io::{Read as _, Write as _};

use rustix::fs::{Mode, OFlags};
use rustix::termios::{QueueSelector, tcflush};

/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 1024;

/// The terminal that controls this process.
#[derive(Debug)]
pub(crate) struct Terminal(File);

impl Terminal {
    /// None: there is no terminal, and nobody to ask.
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::open("/dev/tty", flags, Mode::empty()).ok().map(|fd| Self(File::from(fd)))
    }

    /// Writes `text` and a newline.
    pub(crate) fn say(&mut self, text: &str) {
        // A terminal that went away gives no answer either.
        let _gone = self.0.write_all(format!("{text}\n").as_bytes());
    }

    /// Asks and reads one line, trimmed. None: the terminal went away, or the answer is no text or too long. What was
    /// typed before the question is no answer to it.
    pub(crate) fn ask(&mut self, question: &str) -> Option<String> {
        tcflush(&self.0, QueueSelector::IFlush).ok()?;
        self.0.write_all(format!("{question} ").as_bytes()).ok()?;
        let mut line = Vec::new();
        let mut byte = [0];
        // The device gives whole lines, one byte of them at a time here: nothing behind the line is taken.
        while self.0.read(&mut byte).ok()? == 1 {
            if byte[0] == b'\n' {
                return String::from_utf8(line).ok().map(|line| line.trim().to_owned());
            }
            line.push(byte[0]);
            if line.len() > MAX_ANSWER {
                return None;
            }
        }
        None
    }

    /// Asks for a yes. Everything else is a no.
    pub(crate) fn agrees(&mut self, question: &str) -> bool {
        self.ask(&format!("{question} [y/N]"))
            .is_some_and(|answer| matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}
