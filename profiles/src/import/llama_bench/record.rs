//! The measurement of a result with named fields, whatever format it came in.

use super::super::note::Notes;
use super::super::row::{Identity, Place, Row, Spread, Test};
use super::super::stats::mean;
use super::super::text::{BYTES_MAX, misspelt, nearest, point, short, unknown_for};
use super::fields::{Field, KNOWN};
use super::{place, tokens};

/// Fields of a measurement rather than of what was measured.
const RESULT: [&str; 10] = [
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
];

/// Keys of an identity that are had from fields of other names.
const OWN: [&str; 11] = [
    "backend", "engine", "fa", "file", "input", "model", "ngl", "params", "section", "size",
    "threads",
];

/// Share by which two numbers of one row may differ: more than their digits round away.
const CONTRADICT: f64 = 0.02;
/// Share by which a mean of rates may differ from the rate of the mean time where nothing says how the runs scatter.
const UNKNOWN: f64 = 0.5;

/// The measurement of a record.
pub(super) fn row(
    file: &str,
    line: u64,
    block: u64,
    fields: Vec<(String, Field)>,
    notes: &mut Notes,
) -> Option<Row> {
    let record = Record { fields };
    match record.row(file, line, block) {
        Ok(row) => Some(row),
        Err(reason) => {
            notes.skip(file, line, reason);
            None
        }
    }
}

struct Record {
    fields: Vec<(String, Field)>,
}

impl Record {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|(known, field)| match field {
            Field::Text(text) if known == name && !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
    }

    /// A finite number, if there is one; what is no number is told.
    fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = point(text).and_then(|plain| {
            let number = plain.parse::<f64>();
            number.map_err(|_| "not a number".to_owned())
        });
        let number = number.map_err(|why| format!("`{name}` is `{}`: {why}", short(text)))?;
        Ok(Some(number).filter(|number| number.is_finite()))
    }

    fn count(&self, name: &str) -> Result<u64, String> {
        let Some(text) = self.text(name) else {
            let names = self.fields.iter().map(|(name, _)| name.as_str());
            let near = nearest(name, names)
                .map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
            return Err(format!("column `{name}` is missing{near}"));
        };
        text.parse::<u32>()
            .map(u64::from)
            .map_err(|_| format!("`{name}` is `{}`, not a number of tokens", short(text)))
    }

    /// Refuses a field that is likely meant for one of those that shape a row: as if it were absent, another thing would
    /// be told.
    fn misspelt(&self) -> Result<(), String> {
        const SHAPING: [&str; 6] = [
            "n_depth",
            "samples_ns",
            "stddev_ns",
            "model_size",
            "model_type",
            "backends",
        ];
        let names = || self.fields.iter().map(|(name, _)| name.as_str());
        let missing = SHAPING
            .iter()
            .filter(|key| names().all(|name| name != **key));
        let unknown = names().filter(|name| !KNOWN.contains(name));
        match unknown_for(unknown, &missing.copied()) {
            None => Ok(()),
            Some((name, key)) => Err(format!("column {}", misspelt(key, name))),
        }
    }

    fn row(&self, file: &str, line: u64, block: u64) -> Result<Row, String> {
        self.misspelt()?;
        let depth = if self.text("n_depth").is_some() {
            self.count("n_depth")?
        } else {
            0
        };
        let test = match (self.count("n_prompt")?, self.count("n_gen")?) {
            (0, 0) => return Err("neither prompt nor generation was timed".to_owned()),
            (tokens, 0) => Test::Prefill { tokens, depth },
            (0, tokens) => Test::Decode { tokens, depth },
            (prompt, tokens) => Test::Both {
                prompt,
                tokens,
                depth,
            },
        };
        let samples: Vec<f64> = self
            .fields
            .iter()
            .find_map(|(name, field)| match field {
                Field::List(list) if name == "samples_ns" => {
                    Some(list.iter().map(|ns| ns * 1e-9).collect())
                }
                _ => None,
            })
            .unwrap_or_default();
        let sound = |secs: f64| secs.is_finite() && (1e-9..=1e9).contains(&secs);
        if samples.iter().any(|secs| !sound(*secs)) {
            return Err("`samples_ns` has a time that is not positive".to_owned());
        }
        let secs = if samples.is_empty() {
            match (self.number("avg_ns")?, self.number("avg_ts")?) {
                (Some(ns), _) if ns > 0.0 => ns * 1e-9,
                (None, Some(rate)) if rate > 0.0 => tokens(&test) as f64 / rate,
                (None, None) => {
                    return Err("column `avg_ns` is missing, and so is `avg_ts`".to_owned());
                }
                _ => return Err("the time is not positive".to_owned()),
            }
        } else {
            mean(&samples)
        };
        if !sound(secs) {
            return Err("the time is out of all bounds".to_owned());
        }
        self.agrees(&test, secs, &samples)?;
        let spread = match samples.len() {
            0 => match (self.number("stddev_ns")?, self.number("avg_ns")?) {
                (Some(sd), Some(mean)) if sd > 0.0 && mean > 0.0 => Spread::Cv(sd / mean),
                _ => Spread::Unknown,
            },
            1 => Spread::Unknown,
            _ => Spread::Samples(samples),
        };
        let weights = self.number("model_size")?.filter(|bytes| *bytes > 0.0);
        if weights.is_some_and(|bytes| bytes > BYTES_MAX) {
            return Err("`model_size` is out of all bounds".to_owned());
        }
        let identity = self.identity()?;
        let shown = format!("{} s", super::super::toml_text::number(secs));
        Ok(Row {
            identity,
            test,
            secs,
            spread,
            cold_s: None,
            stated: true,
            weights_bytes: weights,
            place: Place {
                file: file.to_owned(),
                line,
            },
            shown,
            block,
        })
    }

    /// Refuses a row whose times and rates contradict each other: which of them was measured cannot be told.
    fn agrees(&self, test: &Test, secs: f64, samples: &[f64]) -> Result<(), String> {
        let apart = |a: f64, b: f64, by: f64| (a / b - 1.0).abs() > by;
        let shown = |value: f64| super::super::toml_text::number(value);
        let mean_ns = self.number("avg_ns")?.filter(|ns| *ns > 0.0);
        if let Some(ns) = mean_ns.filter(|ns| apart(ns * 1e-9, secs, CONTRADICT)) {
            return Err(format!(
                "`avg_ns` is {} s, but `samples_ns` have a mean of {} s: they contradict each other",
                shown(ns * 1e-9),
                shown(secs)
            ));
        }
        let Some(rate) = self.number("avg_ts")?.filter(|rate| *rate > 0.0) else {
            return Ok(());
        };
        // A mean of rates is above the rate of the mean time by about the square of the variation. That of times is
        // not enough: llama-bench's overflows where runs take seconds.
        let cv = |sd: Option<f64>, mean: Option<f64>| {
            let (sd, mean) = (sd.filter(|sd| *sd >= 0.0)?, mean?);
            Some(sd / mean)
        };
        let times = cv(self.number("stddev_ns")?, mean_ns);
        let rates = cv(self.number("stddev_ts")?, Some(rate));
        let spread = match (times, rates) {
            (None, None) => UNKNOWN,
            (times, rates) => 3.0 * times.unwrap_or(0.0).max(rates.unwrap_or(0.0)).powi(2),
        };
        let count = tokens(test) as f64;
        let (wanted, by) = if samples.is_empty() {
            (count / secs, CONTRADICT + spread)
        } else {
            let rates: Vec<f64> = samples.iter().map(|secs| count / secs).collect();
            (mean(&rates), CONTRADICT)
        };
        if apart(rate, wanted, by) {
            return Err(format!(
                "`avg_ts` is {} tokens/s, but {count} tokens in {} s are {}: they contradict each other",
                shown(rate),
                shown(secs),
                shown(wanted)
            ));
        }
        Ok(())
    }

    fn identity(&self) -> Result<Identity, String> {
        let mut identity = Identity::new();
        for (name, field) in &self.fields {
            let Field::Text(value) = field else {
                continue;
            };
            if RESULT.contains(&name.as_str()) || value.is_empty() {
                continue;
            }
            let key = match name.as_str() {
                // `soc` and `build` are joined with what llama-bench itself says of them.
                "build_commit" | "build_number" | "cpu_info" | "gpu_info" | "soc" | "build" => {
                    continue;
                }
                "backends" => "backend",
                "model_type" => "model",
                // Files of one type and name may hold different models.
                "model_size" => "size",
                "model_n_params" => "params",
                "n_threads" => "threads",
                "n_gpu_layers" => "ngl",
                "flash_attn" => "fa",
                name => name,
            };
            // A column of somebody's own must not take the place of what is read from another.
            let key = if OWN.contains(&name.as_str()) {
                format!("column {key}")
            } else {
                key.to_owned()
            };
            let value = if key == "model_filename" {
                value.rsplit(['/', '\\']).next().unwrap_or(value).to_owned()
            } else {
                value.clone()
            };
            identity.insert(key, value);
        }
        if !identity.contains_key("model") {
            return Err("column `model_type` is missing".to_owned());
        }
        let commit = self.text("build_commit").map(|commit| {
            let number = self.text("build_number").unwrap_or("?");
            format!("{commit} ({number})")
        });
        let stated = self.text("build").map(str::to_owned);
        let build: Vec<String> = stated.into_iter().chain(commit).collect();
        if !build.is_empty() {
            identity.insert("build".to_owned(), build.join(", "));
        }
        self.backend(&mut identity);
        // The CPU is the board's even where the GPU computes.
        let devices: Vec<&str> = ["soc", "gpu_info", "cpu_info"]
            .iter()
            .filter_map(|key| self.text(key))
            .collect();
        if !devices.is_empty() {
            identity.insert("soc".to_owned(), devices.join(", "));
        }
        place(&mut identity)?;
        Ok(identity)
    }

    /// The back end of builds that said it by flags (2023).
    fn backend(&self, identity: &mut Identity) {
        if identity.contains_key("backend") {
            return;
        }
        let flags = [
            ("cuda", "CUDA"),
            ("opencl", "OpenCL"),
            ("vulkan", "Vulkan"),
            ("kompute", "Kompute"),
            ("metal", "Metal"),
            ("sycl", "SYCL"),
            ("blas", "BLAS"),
        ];
        let set = |name: &str| matches!(self.text(name), Some("1" | "true"));
        if flags.iter().all(|(name, _)| self.text(name).is_none()) {
            return;
        }
        let backend = flags
            .iter()
            .find(|(name, _)| set(name))
            .map_or("CPU", |(_, backend)| backend);
        for (name, _) in flags {
            identity.remove(name);
        }
        identity.remove("gpu_blas");
        identity.insert("backend".to_owned(), backend.to_owned());
    }
}
