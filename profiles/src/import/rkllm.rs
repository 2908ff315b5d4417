//! RKLLM: Rockchip's benchmark tables by release, its multimodal stage tables, tables of the llama.cpp port for
//! the RKNPU, and the runtime's own performance log.

mod whole;

use super::llama_bench::engine;
use super::markdown::{cells, is_rule, with_deviation};
use super::note::{NoteKind, Notes};
use super::row::{Identity, Place, Row, Spread, Test};
use super::text::{duration_s, leading_number, lines, nearest, point, positive, short};
use super::toml_text::number;
use whole::{chips, common, lengths};

/// Columns that say nothing of time.
const PASSED_OVER: [&str; 9] = [
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
        table: None,
        previous: Vec::new(),
        rows: Vec::new(),
        block: 0,
    };
    let all: Vec<(u64, &str)> = lines(text).collect();
    for (index, &(number, line)) in all.iter().enumerate() {
        let next = all.get(index + 1).map_or("", |(_, line)| line);
        reader.line(number, line, next);
    }
    let rows = reader.rows;
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
    table: Option<Table>,
    /// Cells of the row above: a blank cell means the same as above.
    previous: Vec<String>,
    rows: Vec<Row>,
    block: u64,
}

impl Reader<'_> {
    fn line(&mut self, number: u64, line: &str, next: &str) {
        let Some((cells, closed)) = cells(line) else {
            self.table = None;
            let heading = line.trim_start();
            if heading.starts_with('#') {
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
        } else if let Some(stage) = stage {
            table.shape = Shape::Stages { first: stage + 1 };
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

    /// Blank cells of the named columns mean the same as above.
    fn fill(&mut self, table: &Table, cells: &mut [String], wanted: &[&str]) {
        for (index, cell) in cells.iter_mut().enumerate() {
            let inherits = wanted.contains(&table.names[index].as_str());
            if cell.is_empty()
                && inherits
                && let Some(above) = self.previous.get(index)
            {
                cell.clone_from(above);
            }
        }
        self.previous = cells.to_vec();
    }

    fn benchmark(&mut self, line: u64, table: &Table, mut cells: Vec<String>) {
        self.fill(table, &mut cells, &["model", "llm model", "model size"]);
        let cell = |wanted: &[&str]| table.column(wanted).map(|index| cells[index].as_str());
        let mut identity = self.identity();
        let mut pairs = vec![("quant", cell(&["dtype", "quantization"]))];
        let platform = cell(&["platform", "soc"]);
        if platform.is_some() {
            pairs.push(("soc", platform));
        }
        for (key, value) in pairs {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                identity.insert(key.to_owned(), value.to_owned());
            }
        }
        let model = [cell(&["model", "llm model"]), cell(&["model size"])];
        let model: Vec<&str> = model
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        if model.is_empty() {
            self.notes.skip(
                self.file,
                line,
                "the row names no model, nor does one above it",
            );
            return;
        }
        identity.insert("model".to_owned(), model.join(" "));
        Self::extra(table, &cells, &mut identity);
        let count = |wanted: &[&str]| -> Result<u64, String> {
            let text = cell(wanted).unwrap_or("");
            match text.parse::<u32>() {
                Ok(tokens) if tokens > 0 => Ok(u64::from(tokens)),
                _ => Err(format!(
                    "`{}` is `{}`, not a number of tokens",
                    wanted[0],
                    short(text)
                )),
            }
        };
        let prompt = count(&["seqlen", "seq_len"]);
        let prefill = prompt.clone().and_then(|tokens| {
            let text = cell(&["ttft(ms)", "ttft (ms)"]).unwrap_or("");
            Ok((
                Test::Prefill { tokens, depth: 0 },
                positive(text)? * 1e-3,
                format!("{text} ms"),
            ))
        });
        let decode = prompt.and_then(|depth| {
            let tokens = count(&["new_tokens", "new tokens"])?;
            let text = cell(&["tokens/s", "tok/s"]).unwrap_or("");
            let secs = tokens as f64 / positive(text)?;
            Ok((
                Test::Decode { tokens, depth },
                secs,
                format!("{text} tokens/s"),
            ))
        });
        for timed in [prefill, decode] {
            match timed {
                Ok((test, secs, shown)) => self.push(line, &identity, test, secs, shown, None),
                Err(reason) => self.notes.skip(self.file, line, reason),
            }
        }
    }

    /// Columns of no known meaning tell rows apart.
    fn extra(table: &Table, cells: &[String], identity: &mut Identity) {
        const KNOWN: [&str; 15] = [
            "model",
            "llm model",
            "model size",
            "dtype",
            "quantization",
            "seqlen",
            "seq_len",
            "new_tokens",
            "new tokens",
            "ttft(ms)",
            "ttft (ms)",
            "tokens/s",
            "tok/s",
            "platform",
            "soc",
        ];
        for (name, cell) in table.names.iter().zip(cells) {
            let known = KNOWN.contains(&name.as_str()) || PASSED_OVER.contains(&name.as_str());
            if !known && !cell.is_empty() {
                identity.insert(name.replace(' ', "_"), cell.clone());
            }
        }
    }

    fn stages(&mut self, line: u64, table: &Table, mut cells: Vec<String>, first: usize) {
        self.fill(table, &mut cells, &["model"]);
        let stage = cells[first - 1].to_lowercase();
        let model = table
            .column(&["model"])
            .map_or("", |index| cells[index].as_str())
            .to_owned();
        if model.is_empty() {
            self.notes.skip(
                self.file,
                line,
                "the row names no model, nor does one above it",
            );
            return;
        }
        let inside = stage
            .split_once('(')
            .map(|(_, rest)| rest.trim_end_matches(')').to_owned());
        let what = stage.split('(').next().unwrap_or("").trim().to_owned();
        for index in first..cells.len() {
            let (head, cell) = (&table.header[index], &cells[index]);
            let Some(chip) = chips(head).into_iter().next() else {
                if !PASSED_OVER.contains(&table.names[index].as_str()) {
                    self.notes.skip(
                        self.file,
                        line,
                        format!("column `{}` names no chip", short(head)),
                    );
                }
                continue;
            };
            if cell.is_empty() || cell == "-" || cell.eq_ignore_ascii_case("n/a") {
                continue;
            }
            let mut identity = self.identity();
            identity.insert("soc".to_owned(), chip);
            identity.insert("model".to_owned(), model.clone());
            if let Some((_, rest)) = head.split_once('(') {
                identity.insert(
                    "quant".to_owned(),
                    rest.trim_end_matches([')', ' ']).to_owned(),
                );
            }
            for (column, cell) in table.names.iter().zip(&cells).take(first) {
                if column != "model" && column != "stage" && !cell.is_empty() {
                    identity.insert(column.replace(' ', "_"), cell.clone());
                }
            }
            let timed = self.stage(&what, inside.as_deref(), cell, &identity);
            match timed {
                Ok((test, secs)) => self.push(line, &identity, test, secs, cell.clone(), None),
                Err(reason) => {
                    self.notes.skip(
                        self.file,
                        line,
                        format!("`{}` {}: {reason}", short(&cells[first - 1]), head),
                    );
                }
            }
        }
    }

    /// What a stage's cell says.
    fn stage(
        &self,
        what: &str,
        inside: Option<&str>,
        cell: &str,
        identity: &Identity,
    ) -> Result<(Test, f64), String> {
        match what {
            "img-encoder" | "image-encoder" | "encoder" | "vision" => {
                let pixels = inside.and_then(|inside| {
                    let (width, height) = inside.split_once(['*', 'x', '×'])?;
                    Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
                });
                Ok((Test::Encode { pixels }, duration_s(cell)?))
            }
            "prefill" => {
                let tokens = inside
                    .and_then(|inside| inside.split_once('='))
                    .and_then(|(_, tokens)| tokens.trim().parse::<u32>().ok())
                    .filter(|tokens| *tokens > 0)
                    .ok_or("the prompt's length is not stated (`Prefill(len=196)`)")?;
                Ok((
                    Test::Prefill {
                        tokens: u64::from(tokens),
                        depth: 0,
                    },
                    duration_s(cell)?,
                ))
            }
            "decode" => {
                let (rate, unit) =
                    leading_number(cell)?.ok_or_else(|| format!("`{}` is no rate", short(cell)))?;
                if !unit.starts_with("tok") || rate <= 0.0 {
                    return Err(format!("`{}` is no rate in tokens/s", short(cell)));
                }
                // The context is the prefill row above of the same model and chip.
                let above = self.rows.iter().rev().find_map(|row| match row.test {
                    Test::Prefill { tokens, .. }
                        if row.identity == *identity && row.block == self.block =>
                    {
                        Some(tokens)
                    }
                    _ => None,
                });
                let depth = above.ok_or("no prefill above it says how long the context was")?;
                // How many tokens were generated is not said: see `stated`.
                Ok((Test::Decode { tokens: 1, depth }, 1.0 / rate))
            }
            _ => Err("is no stage that is known (img-encoder, Prefill, Decode)".to_owned()),
        }
    }

    fn backends(&mut self, line: u64, table: &Table, mut cells: Vec<String>) {
        self.fill(table, &mut cells, &["model", "type"]);
        let (Some(prompt), Some(generated)) = self.lengths else {
            self.notes.skip(
                self.file,
                line,
                "rates of prompts and answers whose lengths the text does not state once (`pp512`, `tg128`)",
            );
            return;
        };
        let cell = |name: &str| {
            table
                .column(&[name])
                .map_or("", |index| cells[index].as_str())
        };
        let backend = cell("backend").to_owned();
        let Some(engine) = engine(&backend) else {
            self.notes.skip(
                self.file,
                line,
                format!("`{}` is no back end that is known", short(&backend)),
            );
            return;
        };
        let mut identity = self.identity();
        let pairs = [
            ("model", cell("model")),
            ("quant", cell("type")),
            ("backend", &backend),
            ("engine", engine),
            ("runtime", "llama.cpp"),
        ];
        for (key, value) in pairs {
            if value.is_empty() {
                identity.remove(key);
            } else {
                identity.insert(key.to_owned(), value.to_owned());
            }
        }
        let tests = [
            (
                "pp (tok/s)",
                Test::Prefill {
                    tokens: prompt,
                    depth: 0,
                },
                prompt,
            ),
            (
                "tg (tok/s)",
                Test::Decode {
                    tokens: generated,
                    depth: 0,
                },
                generated,
            ),
        ];
        for (name, test, tokens) in tests {
            let (rate, deviation) = with_deviation(cell(name));
            let read = || {
                let deviation = deviation.as_deref().map(point).transpose()?;
                Ok((positive(&rate)?, deviation))
            };
            match read() {
                Ok((rate, deviation)) => {
                    let cv = deviation
                        .and_then(|text| text.parse::<f64>().ok())
                        .map(|sd| sd / rate);
                    let shown = format!("{} tok/s", cell(name));
                    self.push(line, &identity, test, tokens as f64 / rate, shown, cv);
                }
                Err::<_, String>(reason) => {
                    self.notes
                        .skip(self.file, line, format!("`{name}`: {reason}"));
                }
            }
        }
    }

    /// `I rkllm:  Prefill  442.40  14  31.60  31.65`, of the runtime's log: total ms, tokens.
    fn log(&mut self, line: u64, text: &str) {
        let Some((_, rest)) = text.split_once("rkllm:") else {
            return;
        };
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
        let identity = self.identity();
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
                format!("`{test}`: {secs:e} s is out of all bounds"),
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
