//! The simulator held against closed forms, measurements and live runs, and fitted to them.

pub mod corun;
pub mod fit;
pub mod folder;
pub mod inline;
pub mod live;
pub mod oracles;
pub mod published;
pub mod report;

use sim::diag::Diagnostic;

/// What the TOML reader says of a file, as a fault of it.
fn toml_fault(name: &str, text: &str, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let end = span.end.min(text.len());
    let message = error.message().replace('\n', ", ");
    Diagnostic::new(name, span.start.min(end)..end, message, "here")
}
