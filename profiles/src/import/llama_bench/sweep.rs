//! Tables of `llama-batched-bench` and `llama-sweep-bench`, and the CSV of `ds4-bench`: prompt and answer of one row,
//! timed apart.

use super::super::note::Notes;
use super::super::row::{Identity, Place, Row, Spread, Test};
use super::super::text::{positive, short};
use super::context::Context;

/// A table whose header has been read.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    width: usize,
    prompt: usize,
    answer: usize,
    filled: usize,
    prompt_time: usize,
    answer_time: usize,
    /// Column of the number of sequences at once, which `llama-batched-bench` has.
    batch: Option<usize>,
    context: Context,
    block: u64,
}

impl Sweep {
    /// The table under this header, if it is one of these.
    pub(super) fn new(cells: &[String], context: &Context, block: u64) -> Option<Self> {
        let at = |name: &str| {
            cells
                .iter()
                .position(|cell| cell.eq_ignore_ascii_case(name))
        };
        Some(Self {
            width: cells.len(),
            prompt: at("PP")?,
            answer: at("TG")?,
            filled: at("N_KV")?,
            prompt_time: at("T_PP s")?,
            answer_time: at("T_TG s")?,
            batch: at("B"),
            context: context.clone(),
            block,
        })
    }

    /// The two measurements of a row.
    pub(super) fn row(
        &self,
        file: &str,
        line: u64,
        cells: &[String],
        notes: &mut Notes,
    ) -> Vec<Row> {
        if cells.len() != self.width {
            let text = format!(
                "the row has {} cells, the header {}",
                cells.len(),
                self.width
            );
            notes.skip(file, line, text);
            return Vec::new();
        }
        let count = |index: usize| {
            let tokens = cells[index].parse::<u32>().map(u64::from);
            tokens.map_err(|_| format!("`{}` is no count", short(&cells[index])))
        };
        let read = || -> Result<[(Test, f64); 2], String> {
            if let Some(batch) = self.batch
                && count(batch)? != 1
            {
                return Err(
                    "several sequences at once, which is the cost of no single one".to_owned(),
                );
            }
            let (prompt, answer) = (count(self.prompt)?, count(self.answer)?);
            // A batched run counts the context after the row and answers on top of its prompt. A sweep counts the one
            // before the row, at which it times the answer, and only then the prompt, each on its own.
            let (depth, answered) = if self.batch.is_some() {
                (0, prompt)
            } else {
                let filled = count(self.filled)?;
                (filled, filled)
            };
            let prefill = positive(&cells[self.prompt_time])?;
            let decode = positive(&cells[self.answer_time])?;
            if prompt == 0 || answer == 0 || prefill > 1e9 || decode > 1e9 {
                return Err("no prompt, no answer, or a time out of all bounds".to_owned());
            }
            let prefilled = Test::Prefill {
                tokens: prompt,
                depth,
            };
            let decoded = Test::Decode {
                tokens: answer,
                depth: answered,
            };
            Ok([(prefilled, prefill.max(1e-9)), (decoded, decode.max(1e-9))])
        };
        let timed = match read() {
            Ok(timed) => timed,
            Err(reason) => {
                notes.skip(file, line, reason);
                return Vec::new();
            }
        };
        let mut identity = Identity::new();
        self.context.put_into(&mut identity);
        let rows = timed.into_iter().map(|(test, secs)| Row {
            identity: identity.clone(),
            test,
            secs,
            spread: Spread::Unknown,
            cold_s: None,
            stated: true,
            weights_bytes: None,
            place: Place {
                file: file.to_owned(),
                line,
            },
            shown: format!("{secs} s"),
            block: self.block,
        });
        rows.collect()
    }
}

/// The CSV of `ds4-bench`: rates by context, of the tokens that fill it up and of an answer on top.
#[derive(Clone, Debug)]
pub(super) struct Frontiers {
    names: Vec<String>,
    block: u64,
}

impl Frontiers {
    /// The table under this header, if it is one.
    pub(super) fn new(header: &str, block: u64) -> Option<Self> {
        let names: Vec<String> = header
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect();
        let needed = [
            "ctx_tokens",
            "prefill_tokens",
            "prefill_tps",
            "gen_tokens",
            "gen_tps",
        ];
        let there = needed
            .iter()
            .all(|name| names.iter().any(|known| known == name));
        there.then_some(Self { names, block })
    }

    /// The two measurements of a line.
    pub(super) fn row(&self, file: &str, line: u64, text: &str, notes: &mut Notes) -> Vec<Row> {
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != self.names.len() {
            let text = format!(
                "the row has {} cells, the header {}",
                cells.len(),
                self.names.len()
            );
            notes.skip(file, line, text);
            return Vec::new();
        }
        let cell = |name: &str| {
            let at = self.names.iter().position(|known| known == name);
            at.map_or("", |at| cells[at])
        };
        let count = |name: &str| match cell(name).parse::<u32>() {
            Ok(tokens) if tokens > 0 => Ok(u64::from(tokens)),
            _ => Err(format!(
                "`{name}` is `{}`, not a number of tokens",
                short(cell(name))
            )),
        };
        let read = || -> Result<[(Test, f64); 2], String> {
            let (context, prompt, answer) = (
                count("ctx_tokens")?,
                count("prefill_tokens")?,
                count("gen_tokens")?,
            );
            let depth = context
                .checked_sub(prompt)
                .ok_or("more tokens were prefilled than the context holds")?;
            let prefill = prompt as f64 / positive(cell("prefill_tps"))?;
            let decode = answer as f64 / positive(cell("gen_tps"))?;
            let timed = [
                (
                    Test::Prefill {
                        tokens: prompt,
                        depth,
                    },
                    prefill,
                ),
                (
                    Test::Decode {
                        tokens: answer,
                        depth: context,
                    },
                    decode,
                ),
            ];
            if timed.iter().any(|(_, secs)| !(1e-9..=1e9).contains(secs)) {
                return Err("a rate is out of all bounds".to_owned());
            }
            Ok(timed)
        };
        let timed = match read() {
            Ok(timed) => timed,
            Err(reason) => {
                notes.skip(file, line, reason);
                return Vec::new();
            }
        };
        let rows = timed.into_iter().map(|(test, secs)| Row {
            identity: Identity::new(),
            test,
            secs,
            spread: Spread::Unknown,
            cold_s: None,
            stated: true,
            weights_bytes: None,
            place: Place {
                file: file.to_owned(),
                line,
            },
            shown: format!("{} s", super::super::toml_text::number(secs)),
            block: self.block,
        });
        rows.collect()
    }
}
