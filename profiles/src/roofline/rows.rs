//! From benchmark rows to cases: which chip, engine, model and data type a row is of, or why that cannot be told.

use super::chip::{APIS, Chip, Engine};
use super::efficiency::{Case, Family, Phase, TOWER, Written};
use super::shape::{self, Shape};
use super::stage::{self, Placed};
use crate::import::{Identity, Row, Test};

/// The case of a row, or why there is none.
///
/// # Errors
///
/// What is not known of the row, or why the chip's datasheet refuses what was measured.
pub fn case(row: &Row, chips: &[Chip], runtime: &str) -> Result<Case, String> {
    let of = |key: &str| row.identity.get(key).map(String::as_str);
    let (phase, tokens, depth) = match row.test {
        Test::Prefill { tokens, depth } => (Phase::Prefill, tokens, depth),
        Test::Decode { tokens, depth } => (Phase::Decode, tokens, depth),
        // Pixels in place of tokens.
        Test::Encode {
            pixels: Some((width, height)),
        } => (Phase::Encode, width, height),
        Test::Encode { pixels: None } => {
            return Err("an encode of a picture of unknown size".to_owned());
        }
        _ => return Err("neither a prefill, a decode nor an encode".to_owned()),
    };
    let names = ["soc", "gpu", "cpu", "device"];
    let chip = names
        .iter()
        .filter_map(|key| of(key))
        .find_map(|name| Chip::find(chips, name))
        .ok_or_else(|| {
            let shown: Vec<&str> = names.iter().filter_map(|key| of(key)).collect();
            if shown.is_empty() {
                "the file names no chip".to_owned()
            } else {
                format!("no datasheet of `{}`", shown.join("`, `"))
            }
        })?;
    let backend = of("backend").unwrap_or("").to_lowercase();
    let name = match of("engine") {
        Some(name) => name,
        None if runtime == "rkllm" => "npu",
        None => return Err("the row does not say which engine computed".to_owned()),
    };
    let engine = chip
        .engines
        .get(name)
        .ok_or_else(|| format!("the datasheet of {} has no peak of its {name}", chip.key))?;
    let family = family(runtime, &backend, engine);
    let case = |datatype: String, work, written| Case {
        family,
        chip: chip.key.clone(),
        datatype,
        phase,
        work,
        written,
        secs: row.secs,
        place: row.place.to_string(),
    };
    if phase == Phase::Encode {
        let name = of("model").ok_or("the row names no model")?;
        let vision = shape::tower(name, tokens as f64, depth as f64)
            .ok_or_else(|| format!("no published vision tower of `{name}`"))?;
        let work = stage::encode(chip, engine, &vision, None)
            .ok_or_else(|| format!("the datasheet of {} has no FP16 rate", chip.key))?;
        return Ok(case(TOWER.to_owned(), work, Written::Once));
    }
    let (model, datatype) = model(row)?;
    let threads = of("threads").and_then(|threads| threads.parse().ok());
    let placed = Placed::new(chip, name, engine, &model, &datatype, threads)
        .map_err(|refusal| refusal.to_string())?;
    let (tokens, depth) = (tokens as f64, depth as f64);
    let ends = [0.0, 1.0];
    let (work, written) = if phase == Phase::Prefill {
        let points = ends.map(|n| ends.map(|c| placed.prefill(n, c)));
        let written = Written::Prefill(points, tokens, depth);
        (placed.prefill(tokens, depth), written)
    } else {
        let points = ends.map(|c| placed.decode(1.0, c));
        let written = Written::Decode(points, tokens, depth);
        (placed.decode(tokens, depth), written)
    };
    Ok(case(datatype, work, written))
}

/// The family of a runtime's back end on an engine.
pub fn family(runtime: &str, backend: &str, engine: &Engine) -> Family {
    let backend = backend.rsplit('/').next().unwrap_or("").trim();
    let part = match engine.kind.as_str() {
        "cpu" => match &engine.isa {
            Some(isa) => format!("cpu+{isa}"),
            None => "cpu".to_owned(),
        },
        "gpu" => {
            let api = if backend.contains("mtl") {
                Some(&"metal")
            } else {
                APIS.iter().find(|api| backend.contains(**api))
            };
            api.unwrap_or(&"gpu").to_string()
        }
        _ if backend.is_empty() || backend == "npu" => "npu".to_owned(),
        _ => backend.to_owned(),
    };
    Family {
        key: format!("{runtime}/{part}"),
        kind: engine.kind.clone(),
    }
}

/// The shape and the data type of what was run.
fn model(row: &Row) -> Result<(Shape, String), String> {
    let of = |key: &str| row.identity.get(key).map(String::as_str);
    let name = of("model").ok_or("the row names no model")?;
    if let Some(datatype) = of("quant") {
        let shape = shape::known(name).ok_or_else(|| format!("no published shape of `{name}`"))?;
        let shape = Shape {
            weights_bytes: row.weights_bytes,
            ..shape
        };
        return Ok((shape, datatype.to_lowercase()));
    }
    let (family, size, datatype) = named(name)?;
    if family.contains("moe") || size.contains(".A") {
        return Err(format!(
            "`{name}` is a mixture of experts, of which the row does not say how many a token reads"
        ));
    }
    let parameters = of("params").and_then(count);
    let weights = row.weights_bytes;
    if let Some(shape) = shape::known(&format!("{family} {size}")) {
        // Names are coarse: the row's own parameters must agree.
        let all = shape.stored + shape.head * if shape.tied { 1.0 } else { 2.0 };
        if parameters.is_none_or(|parameters| (parameters / all - 1.0).abs() < 0.02) {
            return Ok((
                Shape {
                    weights_bytes: weights,
                    ..shape
                },
                datatype,
            ));
        }
    }
    let (Some(parameters), Some(weights)) = (parameters, weights) else {
        return Err(format!(
            "no published shape of `{name}`, and the row states no size and parameters"
        ));
    };
    // From size and parameters alone: no attention, no activations; enough where neither is a bound.
    let shape = Shape {
        name: name.to_owned(),
        layers: 1.0,
        attending: 0.0,
        hidden: 0.0,
        query: 0.0,
        kv: 0.0,
        inner: 0.0,
        active: parameters,
        stored: parameters,
        head: 0.0,
        tied: true,
        weights_bytes: Some(weights),
        max_context: None,
        vision: None,
        tower_bytes: 0.0,
        model_type: None,
        architecture: None,
    };
    Ok((shape, datatype))
}

/// Family, size and data type of a model as llama-bench names it, `llama 8B Q4_K - Medium`.
fn named(name: &str) -> Result<(&str, &str, String), String> {
    let mut words = name.split_whitespace();
    let (Some(family), Some(size)) = (words.next(), words.next()) else {
        return Err(format!("`{name}` says neither size nor data type"));
    };
    let rest: Vec<&str> = words.filter(|word| *word != "mostly").collect();
    let datatype = rest
        .join("")
        .replace("-Medium", "_M")
        .replace("-Small", "_S");
    if datatype.is_empty() {
        return Err(format!("`{name}` says no data type"));
    }
    let plain = datatype.split("-4.25bpw").next().unwrap_or("");
    Ok((family, size, plain.to_lowercase()))
}

/// The data type of the weights that an identity states.
pub(super) fn datatype(identity: &Identity) -> Option<String> {
    match identity.get("quant") {
        Some(quant) => Some(quant.to_lowercase()),
        None => named(identity.get("model")?)
            .ok()
            .map(|(.., datatype)| datatype),
    }
}

/// Architecture of the model as llama-bench names it; `None` of other runtimes' names.
pub(super) fn architecture(identity: &Identity) -> Option<String> {
    if identity.contains_key("quant") {
        return None;
    }
    let (family, ..) = named(identity.get("model")?).ok()?;
    Some(family.to_owned())
}

/// Parameters of the model that an identity states.
pub(super) fn parameters(identity: &Identity) -> Option<f64> {
    identity.get("params").and_then(|params| count(params))
}

/// Parameters as text: `8.03 B`, `494.03 M`, or a whole number.
fn count(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => (text[..at].trim(), text[at..].trim()),
        None => (text, ""),
    };
    let scale = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "B" => 1e9,
        _ => return None,
    };
    let value = number.parse::<f64>().ok()? * scale;
    (value.is_finite() && value > 0.0).then_some(value)
}
