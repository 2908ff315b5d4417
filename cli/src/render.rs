//! Faults as text: the source line, a caret and what would be right. Plain unless a person looks at a
//! terminal that may have colours.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use sim::diag::{Diagnostic, Faults};

/// Every fault, in order, and how many there are.
pub(crate) fn faults(faults: &Faults) -> String {
    let renderer = renderer();
    let mut text = String::new();
    for fault in &faults.list {
        text += &renderer.render(&report(fault, faults.source(&fault.file)));
        text += "\n\n";
    }
    if faults.list.len() > 1 {
        _ = write!(text, "{} faults", faults.list.len());
    }
    text
}

/// A message without a place.
pub(crate) fn message(message: &str, help: &str) -> String {
    let line = |title| renderer().render(&[Group::with_title(title)]);
    let mut text = line(Level::ERROR.primary_title(message));
    if !help.is_empty() {
        text.push('\n');
        text += &line(Level::HELP.secondary_title(help));
    }
    text
}

fn report<'f>(fault: &'f Diagnostic, source: &'f str) -> Vec<Group<'f>> {
    let title = Level::ERROR.primary_title(fault.message.as_str());
    let mut end = fault.span.end.min(source.len());
    let mut start = fault.span.start.min(end);
    while !source.is_char_boundary(start) {
        start -= 1;
    }
    while !source.is_char_boundary(end) {
        end += 1;
    }
    let primary = title.element(
        Snippet::source(source)
            .path(fault.file.as_str())
            .annotation(
                AnnotationKind::Primary
                    .span(start..end)
                    .label(fault.label.as_str()),
            ),
    );
    let mut groups = vec![primary];
    if let Some(help) = &fault.help {
        groups.push(Group::with_title(
            Level::HELP.secondary_title(help.as_str()),
        ));
    }
    groups
}

fn renderer() -> Renderer {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stderr().is_terminal() && !no_color {
        Renderer::styled()
    } else {
        Renderer::plain()
    }
}
