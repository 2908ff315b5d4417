//! RKLLM: Rockchip's benchmark tables by release, its multimodal stage tables, tables of the llama.cpp port for
//! the RKNPU, and the runtime's own performance log.

mod demo;
mod encoder;
mod loaded;
mod shapes;
mod whole;

use super::costs::SECTION;
use super::headings::Headings;
use super::markdown::{cells, is_rule, unquoted};
use super::note::{NoteKind, Notes};
use super::row::{Identity, Place, Row, Spread, Test};
use super::text::{lines, nearest, out_of_bounds, positive, short};
use super::toml_text::number;
use demo::Demo;
use encoder::Encoders;
use loaded::Loaded;
use whole::{chips, common, lengths};

/// Columns that say nothing of time.
const PASSED_OVER: [&str; 11] = [
    "vision memory(mb)",
    "llm memory(g)",
    "memory",
    "memory(mb)",
    "memory(g)",
    "memory(gb)",
    "perplexity",
    "power (w)",
    "status",
    "notes",
    "max_context",
];

/// Rows of the text of one file.
pub fn read(file: &str, text: &str, notes: &mut Notes) -> Vec<Row> {
    let before = notes.list.len();
    let mut reader = Reader {
        file,
        notes,
        common: common(file, text),
        lengths: lengths(text),
        platform: None,
        headings: Headings::default(),
        titles: lines(text)
            .filter(|(_, line)| unquoted(line).starts_with("# "))
            .count(),
        table: None,
        loaded: Loaded::default(),
        demo: Demo::default(),
        encoders: Encoders::default(),
        previous: Vec::new(),
        rows: Vec::new(),
        block: 0,
    };
    let all: Vec<(u64, &str)> = lines(text).collect();
    for (index, &(number, line)) in all.iter().enumerate() {
        let next = all.get(index + 1).map_or("", |(_, line)| line);
        reader.line(number, line, next);
    }
    let Reader {
        encoders, mut rows, ..
    } = reader;
    encoders.put_into(&mut rows, file, notes);
    if rows.is_empty() {
        let said = notes.list[before..]
            .iter()
            .any(|note| !note.file.is_empty());
        notes.refuse(
            file,
            Some(1),
            if said {
                "no rows that can be used"
            } else {
                "no table or log of RKLLM here"
            },
        );
    }
    rows
}

#[derive(Clone, Debug)]
enum Shape {
    /// One model a row.
    Benchmark,
    /// One stage a row, platforms in columns.
    Stages { first: usize },
    /// Back ends of one model below each other, rates in columns.
    Backends,
    /// Not readable; said so.
    Nothing,
}

#[derive(Clone, Debug)]
struct Table {
    shape: Shape,
    names: Vec<String>,
    header: Vec<String>,
    /// Whether a bar closes its header, so that a row without one is cut off.
    closed: bool,
}

impl Table {
    fn column(&self, wanted: &[&str]) -> Option<usize> {
        self.names
            .iter()
            .position(|name| wanted.iter().any(|want| name == want))
    }
}

struct Reader<'a> {
    file: &'a str,
    notes: &'a mut Notes,
    common: Identity,
    lengths: (Option<u64>, Option<u64>),
    platform: Option<String>,
    headings: Headings,
    /// Titles (`# …`) of the file.
    titles: usize,
    table: Option<Table>,
    loaded: Loaded,
    demo: Demo,
    encoders: Encoders,
    /// Cells of the row above: a blank cell means the same as above.
    previous: Vec<String>,
    rows: Vec<Row>,
    block: u64,
}

impl Reader<'_> {
    fn line(&mut self, number: u64, line: &str, next: &str) {
        let Some((cells, closed)) = cells(line) else {
            self.table = None;
            if self.demo(number, line) {
                return;
            }
            self.encoders.line(number, line);
            let heading = unquoted(line);
            // The only title is the whole document's, and tells nothing apart.
            let title = heading.starts_with("# ") && self.titles == 1;
            if title || self.headings.take(heading) {
                let named = chips(heading);
                self.platform = match named.as_slice() {
                    [chip] => Some(chip.clone()),
                    _ => None,
                };
            }
            self.log(number, line);
            return;
        };
        if is_rule(&cells) {
            return;
        }
        let rule_next = super::markdown::cells(next).is_some_and(|(cells, _)| is_rule(&cells));
        if rule_next || self.table.is_none() {
            self.block += 1;
            self.previous.clear();
            let table = self.header(number, cells, rule_next, closed);
            self.table = Some(table);
            return;
        }
        let Some(table) = self.table.clone() else {
            return;
        };
        if cells.len() != table.names.len() {
            if !matches!(table.shape, Shape::Nothing) {
                let cut = if closed { "" } else { ": it is cut off" };
                let text = format!(
                    "the row has {} cells, the header {}{cut}",
                    cells.len(),
                    table.names.len()
                );
                self.notes.skip(self.file, number, text);
            }
            return;
        }
        if table.closed && !closed && !matches!(table.shape, Shape::Nothing) {
            self.notes.skip(self.file, number, super::markdown::CUT);
            return;
        }
        match table.shape {
            Shape::Benchmark => self.benchmark(number, &table, cells),
            Shape::Stages { first } => self.stages(number, &table, cells, first),
            Shape::Backends => self.backends(number, &table, cells),
            Shape::Nothing => {}
        }
    }

    fn header(&mut self, line: u64, header: Vec<String>, rule: bool, closed: bool) -> Table {
        let names: Vec<String> = header.iter().map(|cell| cell.to_lowercase()).collect();
        let mut table = Table {
            shape: Shape::Nothing,
            names,
            header,
            closed,
        };
        if !rule {
            let text = "a row without a header: what its columns mean is unknown";
            self.notes.skip(self.file, line, text);
            return table;
        }
        let ttft = table.column(&["ttft(ms)", "ttft (ms)"]).is_some();
        let length = table.column(&["seqlen", "seq_len"]).is_some();
        let stage = table.column(&["stage"]);
        let rates =
            table.column(&["pp (tok/s)"]).is_some() && table.column(&["tg (tok/s)"]).is_some();
        if ttft && length {
            table.shape = Shape::Benchmark;
            if table.names.iter().any(|name| shapes::is_vision_time(name)) {
                self.encoders.table(self.block);
            }
        } else if let Some(stage) = stage {
            table.shape = Shape::Stages { first: stage + 1 };
            self.encoders.table(self.block);
        } else if rates && table.column(&["backend"]).is_some() {
            table.shape = Shape::Backends;
        } else {
            let near = nearest("ttft(ms)", table.names.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
            let text = format!(
                "a table without `Seqlen` and `TTFT(ms)`, without stages and without PP and TG rates by back end, so what was timed is unknown (columns: {}){near}",
                short(&table.header.join(", "))
            );
            self.notes.skip(self.file, line, text);
        }
        if !matches!(table.shape, Shape::Nothing) {
            let unused = |name: &&String| PASSED_OVER.contains(&name.to_lowercase().as_str());
            let columns: Vec<&str> = table
                .header
                .iter()
                .filter(unused)
                .map(String::as_str)
                .collect();
            if !columns.is_empty() {
                let text = format!("no time, so not used: {}", columns.join(", "));
                self.notes.skip(self.file, line, text);
            }
        }
        table
    }

    /// `I rkllm:  Prefill  442.40  14  31.60  31.65`, of the runtime's log: total ms, tokens.
    fn log(&mut self, line: u64, text: &str) {
        let Some((_, rest)) = text.split_once("rkllm:") else {
            return;
        };
        if self.loaded.says(rest) {
            return;
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [stage @ ("Prefill" | "Generate"), ms, tokens, ..] = words.as_slice() else {
            return;
        };
        let parsed = positive(ms).and_then(|ms| {
            let tokens = tokens.parse::<u32>().ok().filter(|tokens| *tokens > 0);
            Ok((
                ms * 1e-3,
                u64::from(tokens.ok_or("the number of tokens is missing")?),
            ))
        });
        let (secs, tokens) = match parsed {
            Ok(parsed) => parsed,
            Err(reason) => {
                self.notes
                    .skip(self.file, line, format!("`{stage}`: {reason}"));
                return;
            }
        };
        let test = if *stage == "Prefill" {
            self.block += 1;
            Test::Prefill { tokens, depth: 0 }
        } else {
            let above = self.rows.last().map(|row| (&row.test, row.block));
            match above {
                Some((Test::Prefill { tokens: depth, .. }, block)) if block == self.block => {
                    Test::Decode {
                        tokens,
                        depth: *depth,
                    }
                }
                _ => {
                    self.notes.skip(
                        self.file,
                        line,
                        "`Generate` without its `Prefill` before it: its context is unknown",
                    );
                    return;
                }
            }
        };
        let mut identity = self.identity();
        self.loaded.put_into(&mut identity);
        self.push(
            line,
            &identity,
            test,
            secs,
            format!("{} s", number(secs)),
            None,
        );
    }

    fn identity(&self) -> Identity {
        let mut identity = self.common.clone();
        if let Some(chip) = &self.platform {
            identity.insert("soc".to_owned(), chip.clone());
        }
        if let Some(section) = self.headings.path(self.platform.as_deref()) {
            identity.insert(SECTION.to_owned(), section);
        }
        identity.insert("engine".to_owned(), "npu".to_owned());
        identity.insert("runtime".to_owned(), "RKLLM".to_owned());
        identity
    }

    fn push(
        &mut self,
        line: u64,
        identity: &Identity,
        test: Test,
        secs: f64,
        shown: String,
        cv: Option<f64>,
    ) {
        if !(1e-9..=1e9).contains(&secs) {
            self.notes.add(
                NoteKind::Skipped,
                self.file,
                Some(line),
                format!("`{test}`: {}", out_of_bounds(secs)),
            );
            return;
        }
        let cv = cv.filter(|cv| cv.is_finite() && *cv > 0.0);
        // No table times a single token: it stands for a rate of no stated length.
        let stated = !matches!(test, Test::Decode { tokens: 1, .. });
        self.rows.push(Row {
            identity: identity.clone(),
            test,
            secs,
            spread: cv.map_or(Spread::Unknown, Spread::Cv),
            cold_s: None,
            stated,
            weights_bytes: None,
            place: Place {
                file: self.file.to_owned(),
                line,
            },
            shown,
            block: self.block,
        });
    }
}
