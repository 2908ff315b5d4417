//! The headings of Markdown that a line stands under.

use super::markdown::unquoted;

/// Headings by level, from the outermost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headings(Vec<(usize, String)>);

impl Headings {
    /// Takes a line; whether it is a heading (`## Rock 5B`).
    pub(crate) fn take(&mut self, line: &str) -> bool {
        let line = unquoted(line).trim_end();
        let level = line.chars().take_while(|c| *c == '#').count();
        let text = line.trim_matches('#').trim();
        if !(1..=6).contains(&level) || text.is_empty() || !line[level..].starts_with(' ') {
            return false;
        }
        self.0.retain(|(other, _)| *other < level);
        self.0.push((level, text.to_owned()));
        true
    }

    /// All of them as one text, but those that say no more than `known` does; none where there are none.
    pub(crate) fn path(&self, known: Option<&str>) -> Option<String> {
        let own = |text: &&String| known.is_none_or(|known| !text.eq_ignore_ascii_case(known));
        let texts = self.0.iter().map(|(_, text)| text).filter(own);
        let texts: Vec<String> = texts.map(|text| text.replace(" = ", "=")).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}
