//! What stands around a table and says on what its rows were measured: build and device lines, headings, a line right
//! above it, the command that printed it.

use super::super::row::Identity;

/// Longest line that may be a heading without a mark.
const HEADING_MAX: usize = 80;

/// HTML's tags around a heading.
const HEADINGS: [&str; 6] = ["summary", "h1", "h2", "h3", "h4", "b"];
/// Commands that may stand before a program.
const BEFORE: [&str; 8] = [
    "taskset", "numactl", "sudo", "nice", "time", "chrt", "adb", "env",
];
/// Parts of commands that change how fast a board is.
const TUNE: [&str; 6] = [
    "governor",
    "cpupower",
    "cpufreq",
    "max_freq",
    "nvpmodel",
    "jetson_clocks",
];

/// What stood around a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    /// The build that was named before it.
    pub(super) build: Option<String>,
    /// The device that llama.cpp's log named.
    pub(super) device: Option<String>,
    /// The last heading since the table before.
    heading: Option<String>,
    /// A line that is no sentence right before it.
    line: Option<String>,
    /// What stood before the program in the last command since the table before.
    command: Option<String>,
}

/// What a line that is no table is.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// Nothing, or a program's log: it says nothing of what comes next.
    Passing,
    /// The device that llama.cpp's log names.
    Device(String),
    /// A command; what stands before the program: its user and machine, the CPUs it is bound to, its environment.
    Command(String),
    /// A heading by its mark.
    Heading(String),
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
    if let Some(command) = command(text) {
        return command;
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
        return Line::Heading(bare.to_owned());
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

/// What a command is, if the line is one.
fn command(text: &str) -> Option<Line> {
    let line = text.trim_matches('`').trim();
    let prompted = line
        .split_once("$ ")
        .or_else(|| line.split_once("# ").filter(|(host, _)| host.contains('@')))
        .map(|(host, rest)| (host.trim_end(), rest))
        .filter(|(host, _)| host.is_empty() || (host.contains('@') && !host.contains(' ')));
    let (host, rest) = prompted.unwrap_or(("", line));
    let words: Vec<&str> = rest.split_whitespace().collect();
    // A sentence may speak of the program; a command gives it options, and begins with it or what may stand before.
    let runs = |at: usize| {
        let name = words[at].rsplit(['/', '\\']).next().unwrap_or(words[at]);
        let options = words.get(at + 1).is_none_or(|next| next.starts_with('-'));
        name.trim_end_matches(".exe") == "llama-bench" && options
    };
    let first = words.first()?;
    let program = (0..words.len()).find(|at| runs(*at));
    let starts = program == Some(0) || first.contains('=') || BEFORE.contains(first);
    let Some(program) = program.filter(|_| prompted.is_some() || starts) else {
        prompted?;
        let tunes = TUNE.iter().any(|part| rest.contains(part));
        return Some(if tunes {
            Line::Title(rest.to_owned())
        } else {
            Line::Passing
        });
    };
    let host = host.split(':').next().unwrap_or("");
    let before = words[..program].iter().copied();
    let parts: Vec<&str> = std::iter::once(host)
        .chain(before)
        .filter(|word| !["", "sudo", "time"].contains(word))
        .collect();
    Some(Line::Command(parts.join(" ")))
}

impl Context {
    /// Takes what a line that is no table says.
    pub(super) fn take(&mut self, line: Line) {
        match line {
            Line::Passing => {}
            Line::Device(device) => self.device = Some(device),
            Line::Command(before) => {
                self.command = Some(before).filter(|before| !before.is_empty());
            }
            Line::Heading(text) => {
                self.heading = Some(text);
                self.line = None;
            }
            Line::Title(text) => self.line = Some(text),
            Line::Prose => self.line = None,
        }
    }

    /// Forgets what spoke of one table only: it has been read.
    pub(super) fn used(&mut self) {
        self.heading = None;
        self.line = None;
        self.command = None;
    }

    /// The section that the next table is: its heading, its title, and where it ran.
    fn section(&self) -> Option<String> {
        let parts = [&self.heading, &self.line, &self.command];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Puts it into an identity.
    pub(super) fn put_into(&self, identity: &mut Identity) {
        let pairs = [
            ("build", self.build.clone()),
            ("soc", self.device.clone()),
            ("section", self.section()),
        ];
        for (key, value) in pairs {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                identity.entry(key.to_owned()).or_insert(value);
            }
        }
    }
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
        let heading = |text: &str| Line::Heading(text.to_owned());
        let title = |text: &str| Line::Title(text.to_owned());
        let command = |text: &str| Line::Command(text.to_owned());
        for (text, wanted) in [
            ("## Pixel 8 Pro", heading("Pixel 8 Pro")),
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
                command("taskset -c 4-7"),
            ),
            ("A=1 ./build/bin/llama-bench -p 512", command("A=1")),
            ("./llama-bench -m a.gguf -p 512", command("")),
            ("pi@pi5:~/llama.cpp $ ./llama-bench", command("pi@pi5")),
            ("pi@pi5:~/llama.cpp$ ./llama-bench", command("pi@pi5")),
            ("$ cd build", Line::Passing),
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
