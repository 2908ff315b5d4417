//! Over the shared samples, where they are: each imports into files without fault, or is refused with a reason and a
//! place. They are other people's, and no copy of them is part of the project.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use profiles::import::{Kind, NoteKind, Options, Sink, Source, import};
use profiles::roofline::efficiency::{Efficiencies, Phase};
use profiles::roofline::{chip, holdout};
use sim::load;

#[derive(Default)]
struct Memory(Vec<(String, Vec<u8>)>);

impl Sink for Memory {
    fn many(&self) -> bool {
        true
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + '_>> {
        self.0.push((name.to_owned(), Vec::new()));
        let (_, bytes) = self.0.last_mut().expect("it was just added");
        Ok(Box::new(bytes))
    }

    fn discard(&mut self, name: &str) -> io::Result<()> {
        self.0.retain(|(known, _)| known != name);
        Ok(())
    }
}

fn shared() -> Option<PathBuf> {
    let named = std::env::var_os("CROSSINFER_SHARED").map(PathBuf::from);
    let root = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let samples = root.join("samples");
    samples.is_dir().then_some(samples)
}

fn files(folder: &Path, list: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, list);
        } else {
            list.push(path);
        }
    }
    list.sort();
}

fn kind(folder: &str) -> Option<Kind> {
    Some(match folder {
        "llama-bench" | "apple" => Kind::LlamaBench,
        "rkllm" => Kind::Rkllm,
        "qaihub" => Kind::AiHub,
        "ort-profile" => Kind::OrtProfile,
        "gguf" => Kind::Gguf,
        "hf-config" => Kind::HfConfig,
        "traces" => Kind::Trace,
        "membw" => Kind::Bandwidth,
        _ => return None,
    })
}

/// What `crossinfer check` would say.
fn check(kind: Kind, name: &str, text: &str) {
    if kind == Kind::Trace {
        sim::workload::trace_file::parse(name, text)
            .unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
    } else if !text.contains("# missing: ") {
        let checked = match kind {
            Kind::Gguf | Kind::HfConfig => load::check_model(name, text),
            Kind::Bandwidth => load::check_soc(name, text),
            _ => load::check_costs(name, text),
        };
        checked.unwrap_or_else(|faults| panic!("{name}: {faults:?}\n{text}"));
    }
}

#[test]
fn every_sample_imports_or_is_refused_with_a_place() {
    let Some(samples) = shared() else {
        return;
    };
    let mut list = Vec::new();
    files(&samples, &mut list);
    let mut imported = 0;
    for path in &list {
        let folder = path
            .strip_prefix(&samples)
            .expect("it is below")
            .components()
            .next();
        let folder = folder
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .unwrap_or_default();
        let Some(kind) = kind(&folder) else {
            continue;
        };
        let name = path.to_string_lossy();
        let file = BufReader::new(File::open(path).expect("it can be read"));
        let mut memory = Memory::default();
        let sources = vec![Source::new(name.clone(), file)];
        let notes = import(kind, sources, &Options::default(), &mut memory)
            .expect("memory takes everything");
        if memory.0.is_empty() {
            let placed = notes.list.iter().any(|note| {
                note.kind == NoteKind::Refused
                    && note.file == name
                    && (note.line.is_some() || kind == Kind::Gguf)
            });
            assert!(
                placed,
                "{name} came to nothing without a place and a reason: {:?}",
                notes.list
            );
        }
        imported += usize::from(!memory.0.is_empty());
        for (output, bytes) in memory.0 {
            check(
                kind,
                &output,
                &String::from_utf8(bytes).expect("it is text"),
            );
        }
    }
    assert!(
        list.is_empty() || imported * 2 > list.len(),
        "{imported} of {}",
        list.len()
    );
}

/// A number of a stage on the only engine of a profile; 0 where it is not there.
fn coefficient(text: &str, stage: &str, key: &str) -> f64 {
    let table: toml::Table = text.parse().expect("it is TOML");
    let engines = table
        .get("engines")
        .and_then(toml::Value::as_table)
        .expect("it has engines");
    let (_, engine) = engines.iter().next().expect("it has an engine");
    let value = engine
        .get("stages")
        .and_then(|stages| stages.get(stage)?.get(key)?.get("value"));
    value.map_or(0.0, |value| {
        value
            .as_float()
            .unwrap_or_else(|| value.as_integer().unwrap_or(0) as f64)
    })
}

/// Time of a stage by the profile of `lines`.
fn time(lines: &[&str], stage: &str, tokens: f64, depth: f64) -> f64 {
    let mut memory = Memory::default();
    let sources = vec![Source::new("short", io::Cursor::new(lines.join("\n")))];
    import(Kind::LlamaBench, sources, &Options::default(), &mut memory)
        .expect("memory takes everything");
    let (_, bytes) = memory.0.first().expect("the short rows make a profile");
    let text = String::from_utf8(bytes.clone()).expect("it is text");
    coefficient(&text, stage, "fixed_s")
        + coefficient(&text, stage, "per_token_s") * tokens
        + coefficient(&text, stage, "per_token_context_s")
            * (tokens * depth + tokens * (tokens - 1.0) / 2.0)
}

#[test]
fn long_contexts_are_predicted_from_short_rows_within_a_tenth() {
    let Some(samples) = shared() else {
        return;
    };
    // Prefill and decode by depth on an M2 Ultra: rows to 16 k, predicted at 64 k.
    if let Ok(text) = fs::read_to_string(samples.join("apple/ds4_speed-bench_m2_ultra.csv")) {
        let lines: Vec<&str> = text.trim_start_matches('\u{feff}').lines().collect();
        let last: Vec<f64> = lines[32]
            .split(',')
            .map(|cell| cell.parse().expect("a number"))
            .collect();
        let short = &lines[..9];
        for (stage, tokens, depth, rate) in [
            ("ingest", last[1], last[0] - last[1], last[2]),
            ("decode", last[3], last[0], last[4]),
        ] {
            let error = time(short, stage, tokens, depth) / (tokens / rate) - 1.0;
            assert!(error.abs() < 0.1, "{stage} {error}");
        }
    }
    // Prefill by size on an M4 Pro: to 16 k, predicted at 64 k.
    if let Ok(text) = fs::read_to_string(samples.join("llama-bench/m4pro_qwen35-27b_build9010.csv"))
    {
        let lines: Vec<&str> = text.lines().collect();
        let error = time(&lines[..4], "ingest", 65536.0, 0.0) / 972.347_175_941 - 1.0;
        assert!(error.abs() < 0.1, "{error}");
    }
}

/// The factors that come with the project are those of the samples; where they are not, these are.
#[test]
fn shipped_efficiencies_are_those_of_the_samples() {
    let Some(samples) = shared() else {
        return;
    };
    let held = holdout::over(&samples, chip::shipped()).expect("the folder is there");
    let (fitted, shipped) = (&held.efficiencies, Efficiencies::shipped());
    let numbers = |of: &Efficiencies| -> Vec<f64> {
        let factors = of.family.values().flat_map(|phases| phases.values());
        let factors = factors.flat_map(|one| one.bounds.iter().chain(one.compute.values()));
        of.spread.values().chain(factors).copied().collect()
    };
    let (own, kept) = (numbers(fitted), numbers(shipped));
    let close = own
        .iter()
        .zip(&kept)
        .all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs());
    assert!(
        fitted.from == shipped.from && own.len() == kept.len() && close,
        "{}",
        fitted.to_toml()
    );
    let encodes: Vec<_> = held
        .predictions
        .iter()
        .filter(|one| one.phase == Phase::Encode)
        .collect();
    let score = holdout::score(encodes.iter().copied()).expect("encodes are judged");
    assert!(score.median <= 0.2 && score.inside >= 0.9, "{score:?}");
}

/// Every fault that people met is a test of its own, of the importers or of the simulator.
#[test]
fn every_listed_case_has_its_test() {
    let Some(samples) = shared() else {
        return;
    };
    let list = fs::read_to_string(samples.join("cases.tsv")).expect("the cases are readable");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = [
        "src/import/tests/cases.rs",
        "../validation/tests/semantics/cases.rs",
    ]
    .map(|path| fs::read_to_string(root.join(path)).expect("it is there"));
    for line in list.lines().skip(1) {
        let name = format!("\"{}\"", line.split('\t').next().unwrap_or(line));
        assert!(tests.iter().any(|test| test.contains(&name)), "{name}");
    }
}
