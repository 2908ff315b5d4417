//! The rows of each shape of table: a model a row, a stage a row, a back end a row.

use super::super::llama_bench::engine;
use super::super::markdown::with_deviation;
use super::super::note::NoteKind;
use super::super::row::{ENCODE_CORES, ENCODE_QUANT, Identity, Test};
use super::super::stats::stated_cv;
use super::super::text::{duration_s, leading_number, point, positive, short};
use super::encoder;
use super::whole::chips;
use super::{PASSED_OVER, Reader, Table};

/// Times of two chips in one stage that are not to be believed.
const APART: f64 = 100.0;

/// Whether a stage is the vision tower's.
fn is_encoder(stage: &str) -> bool {
    let word = stage.split([' ', ',']).next().unwrap_or("");
    ["img-encoder", "image-encoder", "encoder", "vision"].contains(&word)
}

/// Whether a column says how many cores there were.
fn is_cores(column: &str) -> bool {
    let mut words = column.split([' ', '_']);
    words.any(|word| word == "core" || word == "cores")
}

/// Whether a column has the time of the vision tower on a frame, `vision infer time(s)`.
pub(super) fn is_vision_time(column: &str) -> bool {
    vision_unit_s(column).is_some()
}

/// The unit of such a column, s.
fn vision_unit_s(column: &str) -> Option<f64> {
    let unit = column.strip_prefix("vision infer time")?.trim();
    match unit {
        "(s)" => Some(1.0),
        "(ms)" => Some(1e-3),
        _ => None,
    }
}

/// Width and height of an input, `(1, 3, 392, 392)`: batch and channels come first, or the channels last; or `392x392`.
fn input_size(text: &str) -> Option<(u64, u64)> {
    let plain = text.trim_matches(['(', ')', '[', ']', ' ']);
    let sides: Option<Vec<u64>> = plain
        .split([',', 'x', '*', '×'])
        .map(|side| side.trim().parse().ok().filter(|side| *side > 0))
        .collect();
    match sides?[..] {
        [_, 1 | 3, height, width] | [_, height, width, 1 | 3] | [height, width] => {
            Some((width, height))
        }
        _ => None,
    }
}

/// The cores that a part of a column's head states, `3 cores`.
fn cores(part: &str) -> Option<String> {
    let mut identity = Identity::new();
    encoder::stated(&part.to_lowercase(), &mut identity);
    identity.remove(ENCODE_CORES)
}

impl Reader<'_> {
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

    pub(super) fn benchmark(&mut self, line: u64, table: &Table, mut cells: Vec<String>) {
        let filled = [
            "model",
            "llm model",
            "multimodal model",
            "model size",
            "image input size",
        ];
        self.fill(table, &mut cells, &filled);
        let cell = |wanted: &[&str]| table.column(wanted).map(|index| cells[index].as_str());
        let mut identity = self.identity();
        let mut pairs = vec![("quant", cell(&["dtype", "llm model dtype", "quantization"]))];
        let platform = cell(&["platform", "soc"]);
        if platform.is_some() {
            pairs.push(("soc", platform));
        }
        for (key, value) in pairs {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                identity.insert(key.to_owned(), value.to_owned());
            }
        }
        let model = [
            cell(&["model", "llm model", "multimodal model"]),
            cell(&["model size"]),
        ];
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
        self.vision(line, table, &cells, identity);
    }

    /// The vision tower's time, where a row of a model has it.
    fn vision(&mut self, line: u64, table: &Table, cells: &[String], mut identity: Identity) {
        let columns = table.names.iter().zip(cells);
        let timed = columns.clone().find_map(|(name, cell)| {
            let unit = vision_unit_s(name)?;
            Some((name, cell, unit))
        });
        let Some((name, cell, unit)) = timed else {
            return;
        };
        let of = |wanted: &str| {
            let found = columns.clone().find(|(name, _)| *name == wanted);
            found
                .map(|(_, cell)| cell.as_str())
                .filter(|cell| !cell.is_empty())
        };
        if let Some(precision) = of("vision model dtype") {
            identity.insert(ENCODE_QUANT.to_owned(), precision.to_lowercase());
        }
        let size = of("image input size");
        let pixels = size.and_then(input_size);
        if let (Some(size), None) = (size, pixels) {
            let text = format!(
                "`image input size` is `{}`, not as `(1, 3, 392, 392)`: the encode is of a frame of unknown size",
                short(size)
            );
            self.notes
                .add(NoteKind::Warning, self.file, Some(line), text);
        }
        match positive(cell) {
            Ok(time) => {
                let shown = format!("{cell} {}", if unit < 1.0 { "ms" } else { "s" });
                self.push(
                    line,
                    &identity,
                    Test::Encode { pixels },
                    time * unit,
                    shown,
                    None,
                );
            }
            Err(reason) => {
                let text = format!("`{name}`: {reason}");
                self.notes.skip(self.file, line, text);
            }
        }
    }

    /// Columns of no known meaning tell rows apart.
    fn extra(table: &Table, cells: &[String], identity: &mut Identity) {
        const KNOWN: [&str; 19] = [
            "model",
            "llm model",
            "multimodal model",
            "image input size",
            "vision model dtype",
            "llm model dtype",
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
            let known = KNOWN.contains(&name.as_str())
                || PASSED_OVER.contains(&name.as_str())
                || is_vision_time(name);
            if !known && !cell.is_empty() {
                identity.insert(name.replace(' ', "_"), cell.clone());
            }
        }
    }

    pub(super) fn stages(
        &mut self,
        line: u64,
        table: &Table,
        mut cells: Vec<String>,
        first: usize,
    ) {
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
        let mut timed_at: Vec<(String, String, f64)> = Vec::new();
        for index in first..cells.len() {
            let (head, cell) = (&table.header[index], &cells[index]);
            if table.names[index] == "model" || is_cores(&table.names[index]) {
                continue;
            }
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
                // `(w8a8, 3 cores)`
                let parts = rest.trim_end_matches([')', ' ']).split(',');
                for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
                    let key = cores(part).map_or("quant", |_| "cores");
                    let value = cores(part).unwrap_or_else(|| part.to_owned());
                    identity.insert(key.to_owned(), value);
                }
            }
            for (at, (column, cell)) in table.names.iter().zip(&cells).enumerate() {
                let key = if is_cores(column) {
                    "cores".to_owned()
                } else {
                    column.replace(' ', "_")
                };
                let told = at < first || key == "cores";
                if told && column != "model" && column != "stage" && !cell.is_empty() {
                    identity.insert(key, cell.clone());
                }
            }
            if is_encoder(&what) {
                encoder::stated(&stage, &mut identity);
            }
            let timed = self.stage(&what, inside.as_deref(), cell, &identity);
            match timed {
                Ok((test, secs)) => {
                    timed_at.push((head.clone(), cell.clone(), secs));
                    self.push(line, &identity, test, secs, cell.clone(), None);
                }
                Err(reason) => {
                    self.notes.skip(
                        self.file,
                        line,
                        format!("`{}` {}: {reason}", short(&cells[first - 1]), head),
                    );
                }
            }
        }
        self.far_apart(line, &timed_at);
    }

    /// Warns where two chips are further apart in one stage than chips are: a unit is likely a slip.
    fn far_apart(&mut self, line: u64, timed: &[(String, String, f64)]) {
        let least = timed.iter().min_by(|a, b| a.2.total_cmp(&b.2));
        let most = timed.iter().max_by(|a, b| a.2.total_cmp(&b.2));
        if let (Some(least), Some(most)) = (least, most)
            && most.2 > APART * least.2
        {
            let text = format!(
                "{} of {} is {:.0} times {} of {}: if a unit is wrong, so is what comes of it",
                short(&most.1),
                most.0,
                most.2 / least.2,
                short(&least.1),
                least.0
            );
            self.notes
                .add(NoteKind::Warning, self.file, Some(line), text);
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
            encoder if is_encoder(encoder) => {
                let pixels = inside.and_then(|inside| {
                    let (width, height) = inside.split_once(['*', 'x', '×'])?;
                    // `392*392, 3 cores`
                    let height = height.trim_start();
                    let end = height.find(|c: char| !c.is_ascii_digit());
                    let height = &height[..end.unwrap_or(height.len())];
                    Some((width.trim().parse().ok()?, height.parse().ok()?))
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
                let tokens = unit.starts_with("tok") || unit.starts_with("t/s");
                if !tokens || rate <= 0.0 {
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

    pub(super) fn backends(&mut self, line: u64, table: &Table, mut cells: Vec<String>) {
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
                let deviation = deviation.and_then(|text| text.parse::<f64>().ok());
                let rate = positive(&rate)?;
                Ok((rate, deviation.map(|sd| stated_cv(sd, rate)).transpose()?))
            };
            match read() {
                Ok((rate, cv)) => {
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
}
