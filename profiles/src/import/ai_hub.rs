//! Qualcomm AI Hub: `perf.yaml` in both schemas, `info.yaml` for lengths of prompts, and tables of them.
//!
//! The old schema (`models` with `inference_time`) counts µs and bytes, the new one (`precisions`) says its units
//! in its keys.

mod table;

use super::note::{NoteKind, Notes};
use super::row::{Identity, Place, Row, Spread, Test};
use super::text::{misspelt, out_of_bounds, short, unknown_for};
use super::toml_text::number;
use super::yaml::{Node, parse};

/// Keys of a job's metrics.
const KEYS: [&str; 8] = [
    "job_status",
    "llm_metrics",
    "inference_time_milliseconds",
    "inference_time",
    "primary_compute_unit",
    "layer_counts",
    "layer_info",
    "tool_versions",
];

/// Keys of a language model's metrics.
const LANGUAGE_KEYS: [&str; 4] = [
    "context_length",
    "time_to_first_token_range_milliseconds",
    "time_to_first_token_range",
    "tokens_per_second",
];

/// Rows of the text of one file.
pub fn read(file: &str, text: &str, notes: &mut Notes) -> Vec<Row> {
    let before = notes.list.len();
    let mut reader = Reader {
        file,
        notes,
        rows: Vec::new(),
        block: 0,
    };
    if text.lines().next().is_some_and(|line| line.contains('\t')) {
        reader.rows_of(text);
    } else {
        match parse(text) {
            Ok(node) => reader.document(&node),
            Err((line, fault)) => {
                reader
                    .notes
                    .refuse(file, Some(line), format!("no YAML: {fault}"));
            }
        }
    }
    let rows = reader.rows;
    if rows.is_empty()
        && !notes.list[before..]
            .iter()
            .any(|note| note.kind == NoteKind::Refused)
    {
        notes.refuse(file, Some(1), "no time of an inference here");
    }
    rows
}

struct Reader<'a> {
    file: &'a str,
    notes: &'a mut Notes,
    rows: Vec<Row>,
    block: u64,
}

/// What is known of a job before its metrics are read.
struct Job<'a> {
    component: &'a str,
    device: &'a str,
    chip: Option<&'a str>,
    runtime: &'a str,
    precision: Option<&'a str>,
    /// Seconds in the schema's unit of time.
    unit: f64,
}

impl Reader<'_> {
    fn document(&mut self, node: &Node) {
        if let Some(precisions) = node.get("precisions") {
            for (precision, of) in precisions.entries() {
                let components = self.table(of, "components", precision);
                for (component, of) in components {
                    let devices = self.table(of, "performance_metrics", component);
                    for (device, runtimes) in devices {
                        for (runtime, metrics) in runtimes.entries() {
                            let job = Job {
                                component,
                                device,
                                chip: None,
                                runtime,
                                precision: Some(precision),
                                unit: 1e-3,
                            };
                            self.job(&job, metrics);
                        }
                    }
                }
            }
        } else if let Some(models) = node.get("models") {
            for model in models.items() {
                let component = model.get("name").and_then(Node::text).unwrap_or("model");
                let devices = model
                    .get("performance_metrics")
                    .map_or(&[][..], Node::items);
                for of in devices {
                    let info = of.get("reference_device_info");
                    let of_info =
                        |key: &str| info.and_then(|info| info.get(key)).and_then(Node::text);
                    let Some(device) = of_info("name") else {
                        self.notes.skip(
                            self.file,
                            of.line,
                            "`reference_device_info.name` is missing: which device ran is unknown",
                        );
                        continue;
                    };
                    for (runtime, metrics) in of.entries() {
                        if matches!(runtime.as_str(), "reference_device_info" | "timestamp") {
                            continue;
                        }
                        let job = Job {
                            component,
                            device,
                            chip: of_info("chipset"),
                            runtime,
                            precision: metrics.get("precision").and_then(Node::text),
                            unit: 1e-6,
                        };
                        self.job(&job, metrics);
                    }
                }
            }
        } else {
            let keys: Vec<&str> = node.entries().iter().map(|(key, _)| key.as_str()).collect();
            let wanted = ["precisions", "models"];
            let near = unknown_for(keys.iter().copied(), &wanted.iter().copied());
            let near = near.map_or_else(String::new, |(near, _)| {
                format!("; the nearest is `{near}`")
            });
            let info = if keys.contains(&"technical_details") {
                ": this is an `info.yaml`, which holds no times; its `perf.yaml` does"
            } else {
                ""
            };
            let text = format!(
                "neither `precisions` nor `models` (keys: {}){near}{info}",
                short(&keys.join(", "))
            );
            self.notes.refuse(self.file, Some(node.line), text);
        }
    }

    /// Entries of the table `key` of a node; says where there is none.
    fn table<'n>(&mut self, node: &'n Node, key: &str, of: &str) -> &'n [(String, Node)] {
        if let Some(table) = node.get(key) {
            return table.entries();
        }
        let names = node.entries().iter().map(|(name, _)| name.as_str());
        let near = unknown_for(names, &std::iter::once(key));
        let text = match near {
            Some((name, key)) => misspelt(key, name),
            None => format!("`{key}` is missing"),
        };
        self.notes
            .skip(self.file, node.line, format!("{of}: {text}"));
        &[]
    }

    /// Whether a node has a key that is likely meant for one of `keys` that is missing; says so.
    fn misspelt(&mut self, node: &Node, keys: &[&str], what: &str) -> bool {
        let names = node.entries().iter().map(|(name, _)| name.as_str());
        let names = names.filter(|name| !KEYS.contains(name) && !LANGUAGE_KEYS.contains(name));
        let missing = keys.iter().filter(|key| node.get(key).is_none());
        let Some((name, key)) = unknown_for(names, &missing.copied()) else {
            return false;
        };
        let line = node.get(name).map_or(node.line, |node| node.line);
        let text = format!("{what}: {}", misspelt(key, name));
        self.notes.skip(self.file, line, text);
        true
    }

    fn job(&mut self, job: &Job<'_>, metrics: &Node) {
        self.block += 1;
        let what = format!("{} on {} by {}", job.component, job.device, job.runtime);
        if self.misspelt(metrics, &KEYS, &what) {
            return;
        }
        let status = metrics.get("job_status").and_then(Node::text);
        if status.is_some_and(|status| status != "Passed") {
            let text = format!("{what}: the job's status is `{}`", status.unwrap_or(""));
            self.notes.skip(self.file, metrics.line, text);
            return;
        }
        if let Some(list) = metrics.get("llm_metrics") {
            for metrics in list.items() {
                self.language(job, metrics, &what);
            }
            return;
        }
        let (key, node) = ["inference_time_milliseconds", "inference_time"]
            .iter()
            .find_map(|key| Some((*key, metrics.get(key)?)))
            .unwrap_or(("inference_time", metrics));
        let Some(time) = node.positive() else {
            let text = match node.text().filter(|_| metrics.get(key).is_some()) {
                Some(stated) if stated != "null" && stated != "~" && !stated.is_empty() => format!(
                    "{what}: `{key}` is `{}`, which is no time above 0: it is left out",
                    short(stated)
                ),
                _ => format!("{what}: `{key}` is missing or null: it was not run, or it failed"),
            };
            self.notes.skip(self.file, node.line, text);
            return;
        };
        // The key's unit counts, whatever the schema around it.
        let unit = if key.ends_with("milliseconds") {
            1e-3
        } else {
            job.unit
        };
        let unit_name = metrics.get("primary_compute_unit").and_then(Node::text);
        let Some(unit_name) = unit_name else {
            let text =
                format!("{what}: `primary_compute_unit` is missing: which engine ran is unknown");
            self.notes.skip(self.file, metrics.line, text);
            return;
        };
        let mut identity = Self::identity(job, metrics);
        identity.insert("engine".to_owned(), unit_name.to_lowercase());
        self.fallback(metrics, unit_name, &what);
        self.push(
            identity,
            Test::Run(job.component.to_owned()),
            time * unit,
            node.line,
        );
    }

    /// Layers that ran elsewhere than most.
    fn fallback(&mut self, metrics: &Node, engine: &str, what: &str) {
        let counts = metrics
            .get("layer_counts")
            .or_else(|| metrics.get("layer_info"));
        let Some(counts) = counts else {
            return;
        };
        let others: Vec<String> = counts
            .entries()
            .iter()
            .filter_map(|(key, node)| {
                let name = key.trim_start_matches("layers_on_");
                let count = node.positive()?;
                let other = !name.contains("total") && !name.eq_ignore_ascii_case(engine);
                other.then(|| format!("{count} on the {name}"))
            })
            .collect();
        if !others.is_empty() {
            let text = format!(
                "{what}: not all layers ran on the {engine}: {}",
                others.join(", ")
            );
            self.notes
                .add(NoteKind::Warning, self.file, Some(counts.line), text);
        }
    }

    /// Metrics of a language model: the time to the first token of a full context, and the rate after it.
    fn language(&mut self, job: &Job<'_>, metrics: &Node, what: &str) {
        if self.misspelt(metrics, &LANGUAGE_KEYS, what) {
            return;
        }
        let mut identity = Self::identity(job, metrics);
        // Genie and context binaries run on the Hexagon NPU.
        let npu = ["genie", "qnn", "geniex"]
            .iter()
            .any(|name| job.runtime.contains(name));
        if !npu {
            let text = format!("{what}: which engine `{}` runs on is unknown", job.runtime);
            self.notes.skip(self.file, metrics.line, text);
            return;
        }
        identity.insert("engine".to_owned(), "npu".to_owned());
        let context = metrics.get("context_length");
        let length = context
            .and_then(Node::text)
            .and_then(|text| text.parse::<u32>().ok())
            .filter(|n| *n > 1);
        let range = metrics
            .get("time_to_first_token_range_milliseconds")
            .map(|node| (node, 1e-3))
            .or_else(|| {
                metrics
                    .get("time_to_first_token_range")
                    .map(|node| (node, job.unit))
            });
        match (range, length) {
            (None, _) => self.notes.skip(
                self.file,
                metrics.line,
                format!("{what}: no time to the first token"),
            ),
            (Some((node, _)), None) => {
                let text = format!(
                    "{what}: `context_length` is missing, so how long the prompts were is unknown"
                );
                self.notes.skip(self.file, node.line, text);
            }
            (Some((node, _)), Some(_)) if let Some((min, text)) = contradiction(node) => {
                self.notes.skip(self.file, min, format!("{what}: {text}"));
            }
            (Some((node, unit)), Some(length)) => {
                if let Some(max) = node.get("max")
                    && let Some(time) = max.positive()
                {
                    let test = Test::Prefill {
                        tokens: u64::from(length),
                        depth: 0,
                    };
                    self.push(identity.clone(), test, time * unit, max.line);
                }
                let (min, max) = (node.get("min"), node.get("max"));
                if let Some(min) = min
                    && min.positive() != max.and_then(Node::positive)
                {
                    let text = format!(
                        "{what}: the shortest prompt's time, whose length is not stated here"
                    );
                    self.notes.skip(self.file, min.line, text);
                }
            }
        }
        let Some(node) = metrics.get("tokens_per_second") else {
            let text = format!("{what}: no `tokens_per_second`");
            self.notes.skip(self.file, metrics.line, text);
            return;
        };
        let Some(rate) = node.positive() else {
            let text = format!("{what}: `tokens_per_second` is not positive");
            self.notes.skip(self.file, node.line, text);
            return;
        };
        let most = length.map_or_else(String::new, |length| {
            format!("; up to {length} tokens are possible")
        });
        let text = format!(
            "{what}: the context at which {rate} tokens/s were reached is not stated{most}"
        );
        self.notes
            .add(NoteKind::Warning, self.file, Some(node.line), text);
        let test = Test::Decode {
            tokens: 1,
            depth: 0,
        };
        self.push(identity, test, 1.0 / rate, node.line);
        if let Some(row) = self.rows.last_mut() {
            row.stated = false;
        }
    }

    fn identity(job: &Job<'_>, metrics: &Node) -> Identity {
        let tools: Vec<String> = metrics
            .get("tool_versions")
            .map_or(&[][..], Node::entries)
            .iter()
            .filter_map(|(tool, node)| Some(format!("{tool} {}", node.text()?)))
            .collect();
        let text = |text: &str| Some(text.to_owned());
        let pairs = [
            ("soc", job.chip.map_or_else(|| text(job.device), text)),
            ("device", text(job.device)),
            ("runtime", text(job.runtime)),
            ("quant", job.precision.and_then(text)),
            ("build", (!tools.is_empty()).then(|| tools.join(", "))),
            (
                "context",
                metrics
                    .get("context_length")
                    .and_then(Node::text)
                    .and_then(text),
            ),
        ];
        let there = pairs
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        there.collect()
    }

    fn push(&mut self, mut identity: Identity, test: Test, secs: f64, line: u64) {
        if !(1e-9..=1e9).contains(&secs) {
            self.notes.skip(self.file, line, out_of_bounds(secs));
            return;
        }
        // Components of a model are stages of one profile; the file does not name the whole.
        let stem = self
            .file
            .rsplit(['/', '\\'])
            .next()
            .and_then(|name| name.split('.').next());
        if let Some(stem) = stem.filter(|stem| !stem.is_empty() && *stem != "perf" && *stem != "-")
        {
            identity
                .entry("model".to_owned())
                .or_insert_with(|| stem.to_owned());
        }
        self.rows.push(Row {
            identity,
            test,
            secs,
            spread: Spread::Unknown,
            cold_s: None,
            stated: true,
            weights_bytes: None,
            place: Place {
                file: self.file.to_owned(),
                line,
            },
            shown: format!("{} s", number(secs)),
            block: self.block,
        });
    }
}

/// The line of a least time that is above the greatest, with what to say of it.
fn contradiction(range: &Node) -> Option<(u64, String)> {
    let min = range.get("min")?;
    let (least, most) = (min.positive()?, range.get("max")?.positive()?);
    let text = format!(
        "the least time to the first token, {least}, is above the greatest, {most}: they contradict each other"
    );
    (least > most).then_some((min.line, text))
}
