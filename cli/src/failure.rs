//! Why a command ends without success, and what it says and exits with then.

use std::fmt::Display;
use std::io::{self, Write};

use sim::diag::Faults;

use crate::render;

/// Why a command ends without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer is no; it has been printed.
    No,
    /// Bad input that has been reported.
    Reported,
    /// Faults in the user's files.
    Faults(Faults),
    /// Bad usage, or a file that cannot be read, with what to do.
    Usage { message: String, help: String },
    /// A result that cannot be written.
    Write(String),
    /// Something that the user did not cause.
    Internal(String),
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            help: help.into(),
        }
    }

    pub(crate) fn internal(cause: impl Display) -> Self {
        Self::Internal(cause.to_string())
    }

    /// A file could not be written; one that is there already is the user's to decide on.
    pub(crate) fn write(what: impl Display, error: &io::Error) -> Self {
        let message = format!("`{what}` cannot be written: {error}");
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Self::usage(message, "choose another place");
        }
        Self::Write(message)
    }

    /// Exit status.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::No => 1,
            Self::Reported | Self::Faults(_) | Self::Usage { .. } => 2,
            Self::Write(_) | Self::Internal(_) => 3,
        }
    }

    /// Says it on standard error.
    pub(crate) fn report(&self) {
        match self {
            Self::No | Self::Reported => {}
            Self::Faults(faults) => show(&render::faults(faults)),
            Self::Usage { message, help } => show(&render::message(message, help)),
            Self::Write(message) => show(&render::message(
                message,
                "check that the folder exists, that it is yours and that the disk has room",
            )),
            Self::Internal(message) => say(&format!("error: internal: {message}")),
        }
    }
}

/// Prints a remark to standard error, within the width of a screen but for paths.
pub(crate) fn say(text: &str) {
    for line in text.lines() {
        show(&screen::hanging(line, 0));
    }
}

/// Prints lines to standard error; where that fails there is nobody to tell.
fn show(text: &str) {
    _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}

/// Prints a result to standard output. A reader that has seen enough changes no verdict.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::write("standard output", &error))
        }
        _ => Ok(()),
    }
}
