//! Named fields of results, as CSV, SQL, JSON and JSON Lines have them.

use serde_json::Value;

use super::super::note::{NoteKind, Notes};
use super::super::text::short;

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    /// Any scalar as text; truth values as 1 and 0, as the formats without them have it.
    Text(String),
    /// A list of numbers.
    List(Vec<f64>),
}

/// Fields that llama-bench has had.
pub(super) const KNOWN: [&str; 61] = [
    "build_commit",
    "build_number",
    "cuda",
    "opencl",
    "vulkan",
    "kompute",
    "metal",
    "sycl",
    "rpc",
    "gpu_blas",
    "blas",
    "cpu_info",
    "gpu_info",
    "backends",
    "model_filename",
    "model_type",
    "model_size",
    "model_n_params",
    "n_batch",
    "n_ubatch",
    "n_threads",
    "cpu_mask",
    "cpu_strict",
    "poll",
    "type_k",
    "type_v",
    "f16_kv",
    "n_gpu_layers",
    "n_cpu_moe",
    "split_mode",
    "main_gpu",
    "no_kv_offload",
    "mul_mat_q",
    "flash_attn",
    "devices",
    "tensor_split",
    "tensor_buft_overrides",
    "defrag_thold",
    "use_mmap",
    "use_direct_io",
    "load_mode",
    "lazy_mode",
    "embeddings",
    "no_op_offload",
    "no_host",
    "repack",
    "fit_target",
    "fit_min_ctx",
    "no_warmup",
    "numa",
    "n_prompt",
    "n_gen",
    "n_depth",
    "test_time",
    "avg_ns",
    "stddev_ns",
    "avg_ts",
    "stddev_ts",
    "samples_ns",
    "samples_ts",
    "rpc_servers",
];

/// Whether a line is the header of llama-bench's CSV.
pub(super) fn is_header(line: &str) -> bool {
    let names: Vec<&str> = line
        .split(',')
        .map(|name| name.trim().trim_matches('"'))
        .collect();
    let known = names.iter().filter(|name| KNOWN.contains(name)).count();
    names.len() >= 6 && known >= 5 && 2 * known > names.len()
}

/// Whether llama-bench has had a field of this name.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// A CSV whose header has been read.
#[derive(Clone, Debug)]
pub(super) struct Csv {
    names: Vec<String>,
}

impl Csv {
    pub(super) fn new(file: &str, line: u64, header: &str, notes: &mut Notes) -> Option<Self> {
        let names = cells(header)?;
        for name in names.iter().filter(|name| !KNOWN.contains(&name.as_str())) {
            let text = format!(
                "column `{}` is unknown: kept as part of what was measured",
                short(name)
            );
            notes.add(NoteKind::Warning, file, Some(line), text);
        }
        Some(Self { names })
    }

    /// Whether a line without quotes has about as many cells as the header.
    pub(super) fn looks_like_row(&self, line: &str) -> bool {
        let count = line.split(',').count();
        2 * count > self.names.len() && !line.starts_with(['#', '|'])
    }

    pub(super) fn row(
        &self,
        file: &str,
        line: u64,
        text: &str,
        notes: &mut Notes,
    ) -> Option<Vec<(String, Field)>> {
        let Some(cells) = cells(text) else {
            notes.skip(file, line, "the row is no CSV");
            return None;
        };
        if cells.len() != self.names.len() {
            let text = format!(
                "the row has {} cells and the header {}: which is which cannot be told",
                cells.len(),
                self.names.len()
            );
            notes.skip(file, line, text);
            return None;
        }
        Some(
            self.names
                .iter()
                .cloned()
                .zip(cells.into_iter().map(Field::Text))
                .collect(),
        )
    }
}

fn cells(line: &str) -> Option<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(line.as_bytes());
    let record = reader.records().next()?.ok()?;
    Some(record.iter().map(|cell| cell.trim().to_owned()).collect())
}

/// Fields of a JSON object.
pub(super) fn fields(value: &Value) -> Vec<(String, Field)> {
    let Value::Object(object) = value else {
        return Vec::new();
    };
    let fields = object.iter().filter_map(|(name, value)| {
        let field = match value {
            Value::Null | Value::Object(_) => return None,
            Value::Bool(flag) => Field::Text(u8::from(*flag).to_string()),
            Value::Number(number) => Field::Text(number.to_string()),
            Value::String(text) => Field::Text(text.clone()),
            Value::Array(list) => Field::List(list.iter().filter_map(Value::as_f64).collect()),
        };
        Some((name.clone(), field))
    });
    fields.collect()
}

/// The rows of an `INSERT` statement.
pub(super) fn sql(
    file: &str,
    line: u64,
    statement: &str,
    notes: &mut Notes,
) -> Vec<Vec<(String, Field)>> {
    let Some((names, rest)) = list(statement) else {
        notes.skip(file, line, "an INSERT without column names");
        return Vec::new();
    };
    let mut rows = Vec::new();
    let mut rest = rest;
    while let Some((values, after)) = list(rest) {
        rest = after;
        if values.len() == names.len() {
            let values = values.into_iter().map(Field::Text);
            rows.push(names.iter().cloned().zip(values).collect());
        } else {
            let text = format!(
                "the statement has {} values for {} columns",
                values.len(),
                names.len()
            );
            notes.skip(file, line, text);
        }
    }
    if rows.is_empty() && !rest.trim_start().starts_with(';') {
        notes.skip(file, line, "the INSERT has no values, or they are cut off");
    }
    rows
}

/// The next parenthesised list of a statement, and what follows it. A quote within a quoted value is doubled.
fn list(text: &str) -> Option<(Vec<String>, &str)> {
    let open = text.find('(')?;
    let mut items = vec![String::new()];
    let mut quoted = false;
    let mut chars = text[open + 1..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let item = items.last_mut()?;
        match c {
            '\'' if quoted && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                item.push('\'');
                chars.next();
            }
            '\'' => quoted = !quoted,
            ',' if !quoted => items.push(String::new()),
            ')' if !quoted => {
                let items = items
                    .iter()
                    .map(|item| item.trim().trim_matches(['"', '`']).to_owned());
                return Some((items.collect(), &text[open + 1 + at + 1..]));
            }
            c => item.push(c),
        }
    }
    None
}
