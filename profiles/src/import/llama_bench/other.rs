//! What other programs make of llama.cpp's timings: its own log, `PocketPal`, `normiebench`, `anemll-bench`.

use serde_json::Value;

use super::super::note::Notes;
use super::super::row::{Identity, Place, Row, Spread, Test};
use super::super::text::{BYTES_MAX, Lines, leading_number};
use super::context::Context;
use super::{engine, test, tokens};

/// `prompt eval time` and `eval time` of llama.cpp's log, under any of its prefixes.
#[derive(Debug, Default)]
pub(super) struct Timings {
    found: Vec<Timing>,
}

/// One of them.
#[derive(Debug)]
struct Timing {
    line: u64,
    is_prompt: bool,
    secs: f64,
    count: u64,
    /// The headings that it stands under.
    section: Option<String>,
}

impl Timings {
    /// Whether the line is a timing.
    pub(super) fn line(&mut self, number: u64, line: &str, context: &Context) -> bool {
        let Some((prefix, rest)) = line.split_once(':') else {
            return false;
        };
        if ![
            "llama_print_timings",
            "llama_perf_context_print",
            "common_perf_print",
        ]
        .contains(&prefix)
        {
            return false;
        }
        let rest = rest.trim();
        let prompt = rest.strip_prefix("prompt eval time");
        let Some(value) = prompt.or_else(|| rest.strip_prefix("eval time")) else {
            return true;
        };
        let parts = value.trim_start_matches([' ', '=']).split_once('/');
        let parsed = parts.and_then(|(time, count)| {
            // The log's own numbers have points.
            let (ms, unit) = leading_number(time).ok()??;
            let (count, _) = leading_number(count).ok()??;
            (unit.starts_with("ms") && ms > 0.0 && count >= 1.0)
                .then_some((ms * 1e-3, count as u64))
        });
        if let Some((secs, count)) = parsed {
            self.found.push(Timing {
                line: number,
                is_prompt: prompt.is_some(),
                secs,
                count,
                section: context.headings(),
            });
        }
        true
    }

    /// The rows of one log.
    pub(super) fn rows(
        self,
        file: &str,
        block: u64,
        context: &Context,
        notes: &mut Notes,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut depth = None;
        for timing in self.found {
            let Timing {
                line,
                is_prompt,
                secs,
                count,
                section,
            } = timing;
            let test = if is_prompt {
                depth = Some(count);
                Test::Prefill {
                    tokens: count,
                    depth: 0,
                }
            } else {
                let Some(depth) = depth.take() else {
                    notes.skip(file, line, "`eval time` without the `prompt eval time` before it: its context is unknown");
                    continue;
                };
                Test::Decode {
                    tokens: count,
                    depth,
                }
            };
            let mut identity = Identity::new();
            context.put_into(&mut identity);
            identity.remove("section");
            identity.extend(section.map(|section| ("section".to_owned(), section)));
            let at = Place {
                file: file.to_owned(),
                line,
            };
            rows.push(plain(identity, test, secs, at, block));
        }
        rows
    }
}

/// A row of a mean time alone.
fn plain(identity: Identity, test: Test, secs: f64, place: Place, block: u64) -> Row {
    Row {
        identity,
        test,
        secs,
        spread: Spread::Unknown,
        cold_s: None,
        stated: true,
        weights_bytes: None,
        place,
        shown: format!("{} s", super::super::toml_text::number(secs)),
        block,
    }
}

/// Rows of a JSON document.
pub(super) fn document(file: &str, text: &str, value: &Value, notes: &mut Notes) -> Vec<Row> {
    let reader = Document {
        file,
        text,
        places: Lines::of(text),
    };
    match (value.get("runs"), value.get("results")) {
        (Some(Value::Array(runs)), _) => reader.pocketpal(value, runs, notes),
        (Some(Value::Object(runs)), _) => {
            let mut rows = Vec::new();
            for (model, run) in runs {
                rows.extend(reader.normiebench(value, model, run, notes));
            }
            rows
        }
        (_, Some(Value::Array(results))) => reader.anemll(value, results, notes),
        _ => {
            let keys: Vec<&str> = value
                .as_object()
                .into_iter()
                .flat_map(|object| object.keys().map(String::as_str))
                .take(8)
                .collect();
            let text = format!(
                "a JSON object with neither `n_prompt`, `runs` nor `results` (keys: {})",
                keys.join(", ")
            );
            notes.skip(file, 1, text);
            Vec::new()
        }
    }
}

struct Document<'a> {
    file: &'a str,
    text: &'a str,
    places: Lines,
}

impl Document<'_> {
    /// Where `needle` stands, from `after` on.
    fn place(&self, needle: &str, after: usize) -> (Place, usize) {
        let from = self.text.get(after..).unwrap_or("");
        let at = from.find(needle).map_or(after, |found| after + found);
        let place = Place {
            file: self.file.to_owned(),
            line: self.places.at(at),
        };
        (place, at)
    }

    /// The value at a path of keys, as text.
    fn at(value: &Value, path: &str) -> Option<String> {
        let found = path
            .split('.')
            .try_fold(value, |value, key| value.get(key))?;
        match found {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    fn identity(pairs: &[(&str, Option<String>)]) -> Identity {
        let there = pairs.iter().filter_map(|(key, value)| {
            let value = value.as_ref().filter(|value| !value.is_empty())?;
            Some(((*key).to_owned(), value.clone()))
        });
        there.collect()
    }

    fn rate(
        &self,
        identity: &Identity,
        test: Test,
        rate: Option<f64>,
        place: &Place,
        block: u64,
        notes: &mut Notes,
    ) -> Option<Row> {
        let rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0);
        let secs = rate.map(|rate| tokens(&test) as f64 / rate);
        let Some(secs) = secs.filter(|secs| (1e-9..=1e9).contains(secs)) else {
            let text = format!("`{test}` has no positive rate");
            notes.skip(self.file, place.line, text);
            return None;
        };
        Some(plain(identity.clone(), test, secs, place.clone(), block))
    }

    /// `PocketPal`'s benchmark: one prompt and one generation length, many models and precisions.
    fn pocketpal(&self, whole: &Value, runs: &[Value], notes: &mut Notes) -> Vec<Row> {
        let length = |key: &str| {
            whole
                .get("bench")?
                .get(key)?
                .as_u64()
                .filter(|n| *n > 0 && *n < 1 << 32)
        };
        let (Some(prompt), Some(generated)) = (length("pp"), length("tg")) else {
            notes.skip(
                self.file,
                1,
                "`bench.pp` and `bench.tg` are missing: how many tokens were timed is unknown",
            );
            return Vec::new();
        };
        let parallel = whole
            .get("bench")
            .and_then(|bench| bench.get("pl"))
            .and_then(Value::as_u64);
        if parallel.is_some_and(|parallel| parallel != 1) {
            notes.skip(
                self.file,
                1,
                "`bench.pl` is not 1: sequences were batched, which is the cost of no single one",
            );
            return Vec::new();
        }
        let mut rows = Vec::new();
        let mut after = 0;
        for (block, run) in (1..).zip(runs) {
            let (place, at) = self.place("\"model_id\"", after);
            after = at + 1;
            let status = Self::at(run, "status");
            if status.as_deref().is_some_and(|status| status != "ok") {
                let text = format!("the run's status is `{}`", status.unwrap_or_default());
                notes.skip(self.file, place.line, text);
                continue;
            }
            let backend = Self::at(run, "effective_backend");
            if backend.is_none() {
                notes.skip(
                    self.file,
                    place.line,
                    "`effective_backend` is missing: which engine computed is unknown",
                );
                continue;
            }
            let engine = backend.as_deref().and_then(engine).map(str::to_owned);
            let identity = Self::identity(&[
                ("soc", Self::at(whole, "soc")),
                ("device", Self::at(whole, "device")),
                ("build", Self::at(whole, "commit")),
                ("runtime", Self::at(whole, "llama_rn_version")),
                ("model", Self::at(run, "model_id")),
                ("quant", Self::at(run, "quant")),
                ("engine", engine.or_else(|| backend.clone())),
                ("backend", backend),
                ("threads", Self::at(run, "effective_init_params.n_threads")),
                ("settings", Self::at(run, "settings_fingerprint")),
            ]);
            let number = |key: &str| run.get(key).and_then(Value::as_f64);
            let prefill = Test::Prefill {
                tokens: prompt,
                depth: 0,
            };
            let decode = Test::Decode {
                tokens: generated,
                depth: 0,
            };
            let weights = Self::at(run, "log_signals.memory_buffers.weights_total_mib")
                .and_then(|mib| mib.parse::<f64>().ok())
                .map(|mib| mib * 1_048_576.0)
                .filter(|bytes| (1.0..=BYTES_MAX).contains(bytes));
            let timed = [(prefill, number("pp_avg")), (decode, number("tg_avg"))];
            for (test, rate) in timed {
                let row = self.rate(&identity, test, rate, &place, block, notes);
                rows.extend(row.map(|row| Row {
                    weights_bytes: weights,
                    ..row
                }));
            }
        }
        rows
    }

    fn normiebench(&self, whole: &Value, model: &str, run: &Value, notes: &mut Notes) -> Vec<Row> {
        let (place, start) = self.place(&format!("\"{model}\""), 0);
        let backend = Self::at(run, "backend");
        let computes = backend.as_deref().and_then(|backend| {
            // "llama.cpp / metal"
            engine(backend.rsplit('/').next()?.trim())
        });
        let identity = Self::identity(&[
            (
                "soc",
                Self::at(whole, "gpu").or_else(|| Self::at(whole, "cpu")),
            ),
            ("device", Self::at(whole, "machineName")),
            ("model", Some(model.to_owned())),
            ("quant", Self::at(run, "quant")),
            (
                "engine",
                computes.map(str::to_owned).or_else(|| backend.clone()),
            ),
            ("backend", backend),
        ]);
        let mut rows = Vec::new();
        for (name, value) in run.as_object().into_iter().flatten() {
            let Some(test) = test(name) else {
                continue;
            };
            let (place, _) = self.place(&format!("\"{name}\""), start);
            rows.extend(self.rate(&identity, test, value.as_f64(), &place, 1, notes));
        }
        if rows.is_empty() {
            notes.skip(
                self.file,
                place.line,
                format!("run `{model}` has no test such as `pp512`"),
            );
        }
        rows
    }

    /// `anemll-bench`: single inferences of networks on the ANE.
    fn anemll(&self, whole: &Value, results: &[Value], notes: &mut Notes) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut after = 0;
        for (block, result) in (1..).zip(results) {
            let (place, at) = self.place("\"model_name\"", after);
            after = at + 1;
            let ms = result.get("inference_time_ms").and_then(Value::as_f64);
            let (Some(ms), Some(model)) = (
                ms.filter(|ms| *ms > 0.0 && *ms < 1e9),
                Self::at(result, "model_name"),
            ) else {
                notes.skip(
                    self.file,
                    place.line,
                    "a result without `model_name` and a positive `inference_time_ms`",
                );
                continue;
            };
            let backend = Self::at(result, "backend");
            let engine = backend.as_deref().map(|backend| match backend {
                "ANE" => "npu".to_owned(),
                other => engine(other).unwrap_or("engine").to_owned(),
            });
            let identity = Self::identity(&[
                ("soc", Self::at(whole, "system_info.cpu.brand")),
                ("device", Self::at(whole, "system_info.mac_model")),
                ("build", Self::at(whole, "system_info.os.version")),
                ("model", Some(model.clone())),
                ("input", Self::at(result, "input_shape")),
                ("engine", engine),
                ("backend", backend),
            ]);
            rows.push(plain(identity, Test::Run(model), ms * 1e-3, place, block));
        }
        rows
    }
}
