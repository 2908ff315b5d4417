//! Commands in posts: what ran llama-bench, where, and how.

use super::super::row::Identity;

/// Commands that may stand before a program.
const BEFORE: [&str; 8] = [
    "taskset", "numactl", "sudo", "nice", "time", "chrt", "adb", "env",
];
/// Options that choose tests and what is printed: the rows themselves state them.
const TESTS: [&str; 16] = [
    "p",
    "n-prompt",
    "n",
    "n-gen",
    "pg",
    "d",
    "n-depth",
    "r",
    "repetitions",
    "o",
    "output",
    "oe",
    "output-err",
    "v",
    "verbose",
    "progress",
];
/// Keys of identities that options set, under each of their names.
const KEYS: [(&str, &str); 25] = [
    ("m", "model_filename"),
    ("model", "model_filename"),
    ("t", "threads"),
    ("ngl", "ngl"),
    ("n-gpu-layers", "ngl"),
    ("gpu-layers", "ngl"),
    ("fa", "fa"),
    ("flash-attn", "fa"),
    ("ctk", "type_k"),
    ("cache-type-k", "type_k"),
    ("ctv", "type_v"),
    ("cache-type-v", "type_v"),
    ("b", "n_batch"),
    ("batch-size", "n_batch"),
    ("ub", "n_ubatch"),
    ("ubatch-size", "n_ubatch"),
    ("mmp", "mmap"),
    ("sm", "split_mode"),
    ("split-mode", "sm"),
    ("mg", "main_gpu"),
    ("nkvo", "no_kv_offload"),
    ("ts", "tensor_split"),
    ("ncmoe", "n_cpu_moe"),
    ("C", "cpu_mask"),
    ("dev", "devices"),
];

/// A command that runs llama-bench.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Command {
    /// What stands before the program: its user and machine, the CPUs it is bound to, its environment.
    pub(super) before: String,
    /// Its options without their signs, and their values; none of those that choose tests.
    pub(super) options: Vec<(String, String)>,
}

/// What a command runs.
#[derive(Debug, PartialEq)]
pub(super) enum Ran {
    Bench(Command),
    /// Another program, and the whole of the command.
    Other(String, String),
}

impl Command {
    /// What it says that rows of this identity do not: where it ran, and options without a column of their own.
    pub(super) fn parts(&self, identity: &Identity) -> [String; 2] {
        let stated = |flag: &str| {
            let plain = flag.replace('-', "_");
            let keys = KEYS.iter().filter(|(name, _)| *name == flag);
            let mut keys = keys.map(|(_, key)| *key).chain([plain.as_str()]);
            keys.any(|key| identity.contains_key(key))
        };
        let options = self.options.iter().filter(|(flag, _)| !stated(flag));
        let options: Vec<String> = options
            .map(|(flag, value)| format!("-{flag} {value}").trim_end().to_owned())
            .collect();
        [self.before.clone(), options.join(" ")]
    }
}

/// The command that a line is, if it is one.
pub(super) fn read(text: &str) -> Option<Ran> {
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
        return Some(Ran::Other((*first).to_owned(), rest.to_owned()));
    };
    let host = host.split(':').next().unwrap_or("");
    let before = words[..program].iter().copied();
    let parts: Vec<&str> = std::iter::once(host)
        .chain(before)
        .filter(|word| !["", "sudo", "time"].contains(word))
        .collect();
    Some(Ran::Bench(Command {
        before: parts.join(" "),
        options: options(&words[program + 1..]),
    }))
}

/// Options among the words after a program, to where its output is sent.
fn options(words: &[&str]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for word in words {
        if word.starts_with(['|', '>', '&', ';', '#']) || word.starts_with("2>") || *word == "\\" {
            break;
        }
        let flag = word
            .strip_prefix("--")
            .or_else(|| word.strip_prefix('-'))
            .filter(|flag| flag.starts_with(|c: char| c.is_ascii_alphabetic()));
        match (flag, found.last_mut()) {
            (Some(flag), _) => {
                let (flag, value) = flag.split_once('=').unwrap_or((flag, ""));
                found.push((flag.to_owned(), value.to_owned()));
            }
            (None, Some((_, value))) => {
                if !value.is_empty() {
                    value.push(' ');
                }
                *value += word;
            }
            (None, None) => {}
        }
    }
    found.retain(|(flag, _)| !TESTS.contains(&flag.as_str()));
    for (flag, value) in &mut found {
        if ["m", "model"].contains(&flag.as_str()) {
            let name = value.rsplit(['/', '\\']).next().unwrap_or(value);
            *value = name.to_owned();
        }
    }
    found
}
