//! `llama-bench` in its five formats, from 2023 to today, alone or within posts and logs.
//!
//! A text is read line by line. What a line starts decides who reads on: a table's header, a CSV header, an
//! SQL statement, a JSON array or object, a timing of llama.cpp's own log. Build and device lines around a table
//! become part of its rows' identity; anything else is prose.

mod command;
mod context;
mod fields;
mod json;
mod other;
mod record;
mod scan;
mod sweep;
mod table;

use super::note::Notes;
use super::row::{Identity, Row, Test};

/// Rows of the text of one file.
pub fn read(file: &str, text: &str, notes: &mut Notes) -> Vec<Row> {
    let before = notes.list.len();
    let rows = scan::rows(file, text, notes);
    if rows.is_empty() {
        let said = notes.list[before..]
            .iter()
            .any(|note| !note.file.is_empty());
        let keyed = ["n_prompt", "avg_ns", "avg_ts"];
        let parted = |line: &str| {
            let cells = line.split(';').map(|cell| cell.trim().trim_matches('"'));
            cells.filter(|cell| keyed.contains(cell)).count() > 1
        };
        let text = if said {
            "no rows that can be used"
        } else if text.lines().any(parted) {
            "no rows: the columns are parted by `;`, and llama-bench's CSV has commas: save it with them, and numbers with a point"
        } else {
            "no rows: nothing here is a result of llama-bench (a table with `test` and `t/s`, or its CSV, JSON, JSONL or SQL)"
        };
        notes.refuse(file, Some(1), text);
    }
    rows
}

/// A test by its name: `pp512`, `pp 512`, `tg128 @ d4096`, `pp4096+tg128`.
pub(crate) fn test(name: &str) -> Option<Test> {
    let (what, depth) = match name.split_once('@') {
        Some((what, depth)) => {
            let depth = depth.trim().strip_prefix('d')?.trim().parse().ok()?;
            (what, depth)
        }
        None => (name, 0),
    };
    let count = |part: &str, word: &str| -> Option<u64> {
        let tokens = part.trim().strip_prefix(word)?.trim().parse().ok()?;
        (tokens > 0 && u32::try_from(tokens).is_ok()).then_some(tokens)
    };
    if depth > u64::from(u32::MAX) {
        return None;
    }
    if let Some((prompt, tokens)) = what.split_once('+') {
        return Some(Test::Both {
            prompt: count(prompt, "pp")?,
            tokens: count(tokens, "tg")?,
            depth,
        });
    }
    match (count(what, "pp"), count(what, "tg")) {
        (Some(tokens), _) => Some(Test::Prefill { tokens, depth }),
        (_, Some(tokens)) => Some(Test::Decode { tokens, depth }),
        _ => None,
    }
}

/// Tokens that a test goes through.
pub(crate) fn tokens(test: &Test) -> u64 {
    match test {
        Test::Prefill { tokens, .. } | Test::Decode { tokens, .. } => *tokens,
        Test::Both { prompt, tokens, .. } => prompt + tokens,
        Test::Encode { .. } | Test::Run(_) => 1,
    }
}

/// The engine that a back end of llama.cpp computes on, if it is one.
pub(crate) fn engine(backend: &str) -> Option<&'static str> {
    const NPU: [&str; 7] = ["htp", "hexagon", "rknpu", "rknn", "cann", "qnn", "npu"];
    const GPU: [&str; 13] = [
        "cuda", "rocm", "hip", "vulkan", "opencl", "metal", "mtl", "sycl", "musa", "webgpu",
        "kompute", "gpu", "clblast",
    ];
    const CPU: [&str; 3] = ["cpu", "blas", "zdnn"];
    let mut found = Vec::new();
    for part in backend.split([',', '+', '/']) {
        let part = part.trim().to_lowercase();
        let is = |names: &[&str]| names.iter().any(|name| part.starts_with(name));
        let engine = if is(&NPU) {
            "npu"
        } else if is(&GPU) {
            "gpu"
        } else if is(&CPU) {
            // Runs beside any other back end.
            continue;
        } else {
            return None;
        };
        if !found.contains(&engine) {
            found.push(engine);
        }
    }
    match found.as_slice() {
        [] => Some("cpu"),
        [engine] => Some(engine),
        _ => None,
    }
}

/// Puts the engine into an identity by its back end; why that cannot be done.
fn place(identity: &mut Identity) -> Result<(), String> {
    let Some(backend) = identity.get("backend") else {
        return Ok(());
    };
    let Some(engine) = engine(backend) else {
        // Kept as it is: the user may say by `--engine` what it is.
        let name = backend.to_lowercase();
        identity.insert("engine".to_owned(), name);
        return Ok(());
    };
    let host = identity.get("ngl").is_some_and(|layers| layers == "0");
    if engine != "cpu" && host {
        let text = format!(
            "`ngl` 0 under {backend}: prompts go to the {engine} in batches and the rest to the CPU, which is the cost of no one engine"
        );
        return Err(text);
    }
    identity.insert("engine".to_owned(), engine.to_owned());
    Ok(())
}
