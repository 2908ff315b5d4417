//! What stands around a table and says on what its rows were measured: build and device lines, headings, a line right
//! above it, the command that printed it.

use super::super::row::Identity;
use super::command::{self, Command, Ran};

/// Longest line that may be a heading without a mark.
const HEADING_MAX: usize = 80;

/// HTML's tags around a heading.
const HEADINGS: [&str; 6] = ["summary", "h1", "h2", "h3", "h4", "b"];
/// Neither a board's setting nor a build: moving about, looking.
const NEUTRAL: [&str; 7] = ["cd", "ls", "pwd", "clear", "history", "exit", "cat"];
/// Level of a heading that Markdown's `#` does not mark.
pub(super) const BOLD: usize = 7;
/// Longest section, characters; of a longer one the line is a part of the name, so that no two look alike.
const SECTION_MAX: usize = 160;

/// What stood around a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    /// The build that was named before it.
    pub(super) build: Option<String>,
    /// The device that llama.cpp's log named.
    pub(super) device: Option<String>,
    /// The headings that it stands under, each with its level, from the outermost.
    headings: Vec<(usize, String)>,
    /// Lines that are no sentence right before it, and cells of tables that are no results.
    lines: Vec<String>,
    /// The last command since the table before.
    command: Option<Command>,
    /// The line of the last of these.
    at: u64,
    /// Whether a table has been read since: what comes next speaks of another one.
    spent: bool,
}

/// What a line that is no table is.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// Nothing, or a program's log: it says nothing of what comes next.
    Passing,
    /// The device that llama.cpp's log names.
    Device(String),
    /// A command that runs llama-bench.
    Command(Command),
    /// A heading by its mark, and its level.
    Heading(usize, String),
    /// Short and no sentence, or one that ends in a colon.
    Title(String),
    /// Prose.
    Prose,
}

/// What a line is, without the signs that quote it.
pub(super) fn line(text: &str) -> Line {
    if let Some(device) = device(text) {
        return Line::Device(device);
    }
    match command::read(text) {
        Some(Ran::Bench(command)) => return Line::Command(command),
        Some(Ran::Other(name, _)) if NEUTRAL.contains(&name.as_str()) => return Line::Passing,
        Some(Ran::Other(_, text)) => return Line::Title(text),
        None => {}
    }
    let plain = untagged(text);
    let plain = plain.trim();
    let bare = plain.trim_matches(|c: char| c.is_whitespace() || "#*_:=-`".contains(c));
    if bare.is_empty() || text.starts_with("```") || is_log(plain) {
        return Line::Passing;
    }
    let unended = plain.trim_end_matches(':');
    let bold = ["**", "__"].iter().any(|mark| {
        let inner = unended
            .strip_prefix(mark)
            .and_then(|rest| rest.strip_suffix(mark));
        inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(mark))
    });
    let tagged = HEADINGS
        .iter()
        .any(|tag| text.starts_with('<') && text.ends_with(&format!("</{tag}>")));
    if plain.starts_with('#') || bold || tagged {
        let marks = plain.chars().take_while(|c| *c == '#').count();
        let tag = text.strip_prefix("<h").and_then(|rest| rest.chars().next());
        let level = match (marks, tag.and_then(|digit| digit.to_digit(10))) {
            (0, Some(level)) => level as usize,
            (0, None) => BOLD,
            (marks, _) => marks.min(BOLD - 1),
        };
        return Line::Heading(level, bare.to_owned());
    }
    let sentence = plain.ends_with(['.', '!', '?', ',', ';'])
        || [". ", "! ", "? "].iter().any(|end| plain.contains(end));
    if plain.len() < HEADING_MAX && (plain.ends_with(':') || !sentence) {
        return Line::Title(bare.to_owned());
    }
    Line::Prose
}

/// A text without HTML's tags.
fn untagged(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        plain += before;
        // A lone `<` is no tag.
        let Some((tag, behind)) = after.split_once('>') else {
            plain.push('<');
            rest = after;
            continue;
        };
        let named = tag
            .trim_start_matches('/')
            .starts_with(|c: char| c.is_ascii_alphabetic());
        if !named {
            plain.push('<');
            rest = after;
            continue;
        }
        rest = behind;
    }
    plain + rest
}

/// Whether a line is a program's own: `ggml_vulkan: …`, `load_backend: …`, a backtrace, a debugger's thread.
fn is_log(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or("");
    let identifier = !name.is_empty()
        && name.len() < text.len()
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let known = ["main", "warning", "error", "info", "note"].contains(&name) || name.contains('_');
    let frame = |mark: &str| {
        let rest = text.strip_prefix(mark);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    (identifier && known)
        || frame("#")
        || frame("0x")
        || text.starts_with(['[', '/', '!'])
        || text.starts_with("WARNING")
        || text.starts_with("Aborted")
}

impl Context {
    /// Takes what a line that is no table says.
    pub(super) fn take(&mut self, number: u64, what: Line) {
        if matches!(what, Line::Passing | Line::Device(_)) {
            if let Line::Device(device) = what {
                self.device = Some(device);
            }
            return;
        }
        let spent = std::mem::take(&mut self.spent);
        if spent {
            self.lines.clear();
            self.command = None;
        }
        self.at = number;
        match what {
            Line::Passing | Line::Device(_) => {}
            Line::Command(command) => self.command = Some(command),
            Line::Heading(level, text) => {
                if level < BOLD {
                    self.lines.clear();
                }
                // Bold lines that follow each other have no order among them.
                self.headings.retain(|(other, _)| {
                    *other < level || (*other == level && level == BOLD && !spent)
                });
                self.headings.push((level, text));
            }
            Line::Title(text) => self.lines.push(text),
            Line::Prose => self.lines.clear(),
        }
    }

    /// What comes next speaks of another table: this one has been read.
    pub(super) fn used(&mut self) {
        self.spent = true;
    }

    /// The headings that the next line stands under.
    pub(super) fn headings(&self) -> Option<String> {
        section(self.headings.iter().map(|(_, text)| text.clone()), self.at)
    }

    /// The section that rows of this identity are in: headings, titles, and what was run where, as far as the rows'
    /// own columns do not state it.
    pub(super) fn section(&self, identity: &Identity) -> Option<String> {
        let headings = self.headings.iter().map(|(_, text)| text.clone());
        let command = self.command.as_ref().map(|command| command.parts(identity));
        let parts = headings
            .chain(self.lines.iter().cloned())
            .chain(command.into_iter().flatten());
        section(parts, self.at)
    }

    /// Puts it into an identity.
    pub(super) fn put_into(&self, identity: &mut Identity) {
        let pairs = [
            ("build", self.build.clone()),
            ("soc", self.device.clone()),
            ("section", self.section(identity)),
        ];
        for (key, value) in pairs {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                identity.entry(key.to_owned()).or_insert(value);
            }
        }
    }
}

/// One text of several.
fn section(parts: impl Iterator<Item = String>, at: u64) -> Option<String> {
    let mut text = String::new();
    for part in parts.filter(|part| !part.is_empty()) {
        if text.is_empty() {
            text = part;
        } else {
            // A cost file has its identity as `key = value; key = value`.
            text += "; ";
            text += &part.replace(" = ", "=");
        }
    }
    if text.chars().count() > SECTION_MAX {
        let start: String = text.chars().take(SECTION_MAX).collect();
        text = format!("{start}… (to line {at})");
    }
    (!text.is_empty()).then_some(text)
}

/// The device that a line of llama.cpp's log names.
fn device(line: &str) -> Option<String> {
    let vulkan = || {
        let rest = line.strip_prefix("ggml_vulkan: ")?;
        let (index, rest) = rest.split_once(" = ")?;
        index.trim().parse::<u32>().ok()?;
        Some(rest.split(" | ").next()?.to_owned())
    };
    let opencl = || {
        let rest = line.strip_prefix("ggml_opencl: ")?;
        let rest = rest
            .strip_prefix("selecting device: ")
            .or_else(|| rest.strip_prefix("device: "))
            .or_else(|| rest.strip_prefix("default device: "))?;
        Some(rest.trim_matches('\'').to_owned())
    };
    let metal = || {
        let (_, name) = line.split_once("picking default device: ")?;
        Some(name.to_owned())
    };
    let cuda = || {
        let (index, rest) = line.strip_prefix("Device ")?.split_once(": ")?;
        index.parse::<u32>().ok()?;
        Some(rest.split(", compute capability").next()?.to_owned())
    };
    vulkan().or_else(opencl).or_else(metal).or_else(cuda)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_look_like() {
        let heading = |text: &str| Line::Heading(BOLD, text.to_owned());
        let marked = |text: &str| Line::Heading(2, text.to_owned());
        let title = |text: &str| Line::Title(text.to_owned());
        let command = |text: &str, options: &[(&str, &str)]| {
            let options = options
                .iter()
                .map(|(flag, value)| ((*flag).to_owned(), (*value).to_owned()));
            Line::Command(Command {
                before: text.to_owned(),
                options: options.collect(),
            })
        };
        for (text, wanted) in [
            ("## Pixel 8 Pro", marked("Pixel 8 Pro")),
            ("**Pixel 8 Pro**", heading("Pixel 8 Pro")),
            ("**Pixel 8 Pro**:", heading("Pixel 8 Pro")),
            ("__Pixel 8 Pro__", heading("Pixel 8 Pro")),
            ("<summary>Pixel 8 Pro</summary>", heading("Pixel 8 Pro")),
            ("Pixel 8 Pro", title("Pixel 8 Pro")),
            ("governor = performance", title("governor = performance")),
            ("then with vulkan:", title("then with vulkan")),
            ("This was measured with a fan.", Line::Prose),
            ("It is fast. Here it is", Line::Prose),
            ("", Line::Passing),
            ("-----", Line::Passing),
            ("<details>", Line::Passing),
            ("```console", Line::Passing),
            ("ggml_vulkan: Found 1 Vulkan devices:", Line::Passing),
            ("load_backend: loaded CPU backend", Line::Passing),
            ("#0  0x0000 in main ()", Line::Passing),
            ("[New LWP 12]", Line::Passing),
            (
                "ggml_vulkan: 0 = Toy | uma: 1",
                Line::Device("Toy".to_owned()),
            ),
            (
                "$ taskset -c 4-7 ./llama-bench -m a.gguf",
                command("taskset -c 4-7", &[("m", "a.gguf")]),
            ),
            ("A=1 ./build/bin/llama-bench -p 512", command("A=1", &[])),
            (
                "./llama-bench -m a.gguf -p 512",
                command("", &[("m", "a.gguf")]),
            ),
            ("pi@pi5:~/llama.cpp $ ./llama-bench", command("pi@pi5", &[])),
            ("pi@pi5:~/llama.cpp$ ./llama-bench", command("pi@pi5", &[])),
            (
                "$ ./llama-bench -m x/a.gguf -t 4 --type-k=q8_0 -ts 1 1 -fa -p 512 | tee a.md",
                command(
                    "",
                    &[
                        ("m", "a.gguf"),
                        ("t", "4"),
                        ("type-k", "q8_0"),
                        ("ts", "1 1"),
                        ("fa", ""),
                    ],
                ),
            ),
            ("$ cd build", Line::Passing),
            ("$ sudo apt install linux", title("sudo apt install linux")),
            (
                "$ cpupower frequency-set -g powersave",
                title("cpupower frequency-set -g powersave"),
            ),
            (
                "llama-bench results on my board",
                title("llama-bench results on my board"),
            ),
        ] {
            assert_eq!(line(text), wanted, "{text}");
        }
    }
}
