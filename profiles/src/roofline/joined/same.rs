//! Whether measured costs are of the chip, the model and the runtime that are asked, and of the same as each other.

use std::collections::BTreeSet;

use super::super::chip::{APIS, Chip, Engine};
use super::super::profile::{Asked, family};
use super::super::{rows, soc};
use super::LANGUAGE;
use super::file::File;
use crate::import::Identity;
use crate::import::costs::{NAMED, named};
use crate::import::text::size_bytes;

/// How far parameters or sizes of one model may lie apart: benchmarks round them, and norms are not counted.
const ROUNDED: f64 = 0.03;
/// Keys that say nothing of what was measured on.
const OF_FILE: [&str; 6] = ["section", "file", "input", "engine", "params", "size"];
/// Keys that belong to the board, whatever the engine.
const OF_BOARD: [&str; 7] = [
    "soc", "board", "device", "clock", "governor", "memory", "dram",
];

/// What of a file is not of what is asked, and what it does not say.
pub(super) fn as_asked(
    file: &File,
    of: &Asked<'_>,
    chips: &[Chip],
    faults: &mut Vec<String>,
    remarks: &mut Vec<String>,
) {
    let mut fault = |what: String| faults.push(format!("`{}`: {what}", file.name));
    let key = &of.chip.key;
    if file.soc != *key {
        fault(format!(
            "measured on `{}`, and the chip is `{key}`: if that is the same, `crossinfer import … --soc {key}` says so",
            file.soc
        ));
    }
    if file.model != of.key {
        fault(format!(
            "measured with `{}`, and the model is `{}`: if that is the same, `crossinfer import … --model {}` or `--key {}` says so",
            file.model, of.key, of.key, file.model
        ));
    }
    for name in file.engines.keys() {
        if !of.chip.engines.contains_key(name) {
            let known: Vec<&str> = of.chip.engines.keys().map(String::as_str).collect();
            fault(format!(
                "measured on engine `{name}`, and the datasheet of {key} has {}: `crossinfer import … --engine NAME` names it, or a datasheet with it is given by `--chips`",
                known.join(", ")
            ));
        }
    }
    if file.identities.is_empty() {
        remarks.push(format!(
            "`{}` does not say on what board, clock, runtime and quantisation it was measured: it is taken as of this one",
            file.name
        ));
    }
    for (name, identity) in &file.identities {
        let Some(engine) = of.chip.engines.get(name) else {
            continue;
        };
        let stages = file.engines.get(name).map(|engine| &engine.stages);
        // A vision tower has weights of its own, whatever the language model's are.
        let language =
            stages.is_some_and(|stages| LANGUAGE.iter().any(|stage| stages.contains_key(*stage)));
        for what in [
            board(identity, of, chips),
            clock(identity, engine),
            threads(identity, engine),
            runtime(identity, of, engine),
            language.then(|| quantisation(identity, of)).flatten(),
            language.then(|| size(identity, of)).flatten(),
            language.then(|| architecture(identity, of)).flatten(),
        ]
        .into_iter()
        .flatten()
        {
            fault(format!("engine `{name}`: {what}"));
        }
        if let Some(section) = identity.get("section")
            && heading(section, of)
        {
            remarks.push(format!(
                "`{}`, engine `{name}`, was measured under `{section}`, of which the datasheet says nothing: it is taken as of {key}",
                file.name
            ));
        }
        if language && let Some(doubt) = another_family(identity, of) {
            remarks.push(format!("`{}`, engine `{name}`: {doubt}", file.name));
        }
        if language && rows::datatype(identity).is_none() {
            remarks.push(format!(
                "`{}`, engine `{name}`, does not say the quantisation: it is taken as {}",
                file.name, of.datatype
            ));
        }
    }
}

/// Whether a heading names a board that is not known to be this one, or a setting.
fn heading(section: &str, of: &Asked<'_>) -> bool {
    let [boards, _, settings, ..] = named(section);
    let own = |name: &String| Chip::find(std::slice::from_ref(of.chip), name).is_some();
    (!boards.is_empty() && !boards.iter().any(own)) || !settings.is_empty()
}

fn board(identity: &Identity, of: &Asked<'_>, chips: &[Chip]) -> Option<String> {
    let names = ["soc", "gpu", "cpu", "device"];
    let stated = names.iter().filter_map(|key| identity.get(*key).cloned());
    let [boards, ..] = identity
        .get("section")
        .map(|text| named(text))
        .unwrap_or_default();
    stated.chain(boards).find_map(|name| {
        let name = name.as_str();
        // The chip's own names come first: a folder of datasheets may have it twice.
        let own = Chip::find(std::slice::from_ref(of.chip), name).is_some();
        let other = Chip::find(chips, name).filter(|chip| !own && chip.key != of.chip.key)?;
        Some(format!(
            "measured on `{name}`, which is {}, not {}",
            other.key, of.chip.key
        ))
    })
}

fn clock(identity: &Identity, engine: &Engine) -> Option<String> {
    let section = identity.get("section")?;
    let [_, clocks, ..] = named(section);
    let cores: Vec<f64> = engine.cores.iter().map(|core| 1000.0 * core.ghz).collect();
    let stated: Vec<f64> = clocks.iter().filter_map(|mhz| mhz.parse().ok()).collect();
    let near = |mhz: &f64| cores.iter().any(|core| (mhz / core - 1.0).abs() < ROUNDED);
    (!cores.is_empty() && !stated.is_empty() && !stated.iter().any(near)).then(|| {
        let cores: Vec<String> = cores.iter().map(|core| format!("{core:.0}")).collect();
        format!(
            "measured at {} MHz (`{section}`), and the datasheet's cores run at {}: what is derived beside it would be of another clock",
            clocks.join(", "),
            cores.join(", ")
        )
    })
}

fn threads(identity: &Identity, engine: &Engine) -> Option<String> {
    let threads: u32 = identity.get("threads")?.parse().ok()?;
    let cores = soc::cores(engine);
    (engine.kind == "cpu" && cores > 0 && (threads > cores || threads == 0))
        .then(|| format!("measured on {threads} threads, and the datasheet has {cores} cores"))
}

/// The runtime of an NPU, and the interface of a GPU: what is derived beside it has factors of one.
fn runtime(identity: &Identity, of: &Asked<'_>, engine: &Engine) -> Option<String> {
    if engine.kind == "npu" {
        let stated = identity.get("runtime")?;
        let same = stated.eq_ignore_ascii_case(of.runtime);
        return (!same).then(|| {
            format!(
                "measured with `{stated}`, and `--runtime` is `{}`: give the one that was measured",
                of.runtime
            )
        });
    }
    let backend = identity.get("backend")?.to_lowercase();
    let own = family(of, engine).key;
    let other = APIS
        .iter()
        .find(|api| backend.contains(**api) || (**api == "metal" && backend.contains("mtl")))?;
    (!own.ends_with(other)).then(|| {
        format!(
            "measured with `{backend}`, and the datasheet's engine is {}",
            engine.api.as_deref().unwrap_or(&engine.kind)
        )
    })
}

fn quantisation(identity: &Identity, of: &Asked<'_>) -> Option<String> {
    let plain = |name: &str| {
        let name = name.to_lowercase().replace([' ', '-'], "");
        let name = name.strip_prefix("all").unwrap_or(&name).to_owned();
        match name.as_str() {
            "fp16" => "f16".to_owned(),
            "fp32" => "f32".to_owned(),
            _ => name,
        }
    };
    let stated = rows::datatype(identity)?;
    (plain(&stated) != plain(of.datatype)).then(|| {
        format!(
            "measured with weights in {stated}, and these are {}",
            of.datatype
        )
    })
}

/// Another architecture than the GGUF file's, which llama-bench calls by the same words.
fn architecture(identity: &Identity, of: &Asked<'_>) -> Option<String> {
    let (stated, own) = (
        rows::architecture(identity)?,
        of.shape.architecture.as_ref()?,
    );
    (!stated.eq_ignore_ascii_case(own)).then(|| {
        format!("measured with a model of architecture `{stated}`, and the GGUF file's is `{own}`")
    })
}

/// Another family than the `model_type` of a config.json, which llama.cpp's words follow but not to the letter.
fn another_family(identity: &Identity, of: &Asked<'_>) -> Option<String> {
    let (stated, own) = (rows::architecture(identity)?, of.shape.model_type.as_ref()?);
    let plain = |name: &str| {
        let name = name.to_lowercase().replace(['_', '-', '.'], "");
        let name = name.trim_end_matches("text");
        let name = name.trim_end_matches("moe").trim_end_matches("vl");
        match name {
            // llama.cpp runs these as one.
            "mistral" | "mistral3" | "ministral" | "mixtral" | "smollm" => "llama".to_owned(),
            "qwen25" => "qwen2".to_owned(),
            _ => name.to_owned(),
        }
    };
    (of.shape.architecture.is_none() && plain(&stated) != plain(own)).then(|| {
        format!(
            "measured with a model of architecture `{stated}`, and `model_type` is `{own}`: it is taken as of this model, which the model's GGUF file would tell"
        )
    })
}

fn size(identity: &Identity, of: &Asked<'_>) -> Option<String> {
    let shape = of.shape;
    let tables = if shape.tied { 1.0 } else { 2.0 };
    let counted = shape.stored + tables * shape.head;
    if let Some(parameters) = rows::parameters(identity)
        && (parameters / counted - 1.0).abs() > ROUNDED
    {
        return Some(format!(
            "measured with a model of {:.3} billion parameters, and this one has {:.3}",
            parameters / 1e9,
            counted / 1e9
        ));
    }
    let stated = size_bytes(identity.get("size")?).ok()??;
    let own = shape.weights_bytes?;
    ((stated / own - 1.0).abs() > ROUNDED).then(|| {
        format!(
            "measured with a file of {:.3} GB, and the model's has {:.3} GB",
            stated / 1e9,
            own / 1e9
        )
    })
}

/// What of files differs that must not: of one engine everything that both state, of two what is the board's.
pub(super) fn among(files: &[File], faults: &mut Vec<String>, remarks: &mut Vec<String>) {
    let all: Vec<(&File, &str, &Identity)> = files
        .iter()
        .flat_map(|file| {
            let list = file.identities.iter();
            list.map(move |(engine, identity)| (file, engine.as_str(), identity))
        })
        .collect();
    for (at, &(file, engine, identity)) in all.iter().enumerate() {
        for &(other, of, there) in &all[..at] {
            let same = engine == of;
            let who = |key: &str, a: &str, b: &str| {
                let on = if same {
                    format!("engine `{engine}`, ")
                } else {
                    String::new()
                };
                format!(
                    "{on}{key} is {b} in `{}` and {a} in `{}`: they are not of one thing",
                    other.name, file.name
                )
            };
            let keys: BTreeSet<&String> = identity.keys().chain(there.keys()).collect();
            let mut unsaid = Vec::new();
            for key in keys {
                let counts = if same {
                    !OF_FILE.contains(&key.as_str())
                } else {
                    OF_BOARD.contains(&key.as_str())
                };
                match (identity.get(key), there.get(key)) {
                    (Some(a), Some(b)) if counts && !a.eq_ignore_ascii_case(b) => {
                        faults.push(who(&format!("`{key}`"), a, b));
                    }
                    (Some(_), None) | (None, Some(_)) if counts => unsaid.push(format!("`{key}`")),
                    _ => {}
                }
            }
            let section = |identity: &Identity| identity.get("section").map(|text| named(text));
            if let (Some(a), Some(b)) = (section(identity), section(there)) {
                for ((what, a), b) in NAMED.iter().zip(a).zip(b) {
                    // The build and what a program was bound to are an engine's own.
                    let counts = same || !["build", "binding"].contains(what);
                    if counts && !a.is_empty() && !b.is_empty() && a != b {
                        faults.push(who(what, &a.join(" "), &b.join(" ")));
                    }
                }
            }
            if !unsaid.is_empty() {
                remarks.push(format!(
                    "of `{}` and `{}` only one says {}: they are taken as of one thing",
                    other.name,
                    file.name,
                    unsaid.join(", ")
                ));
            }
        }
    }
}
