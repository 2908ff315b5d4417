//! Profiles of a chip and a model that nobody has measured together.

use std::fmt::Write as _;

use super::chip::{Chip, Engine};
use super::efficiency::{Efficiencies, Phase, Predicted, STAND_IN};
use super::fitted::Fitted;
use super::rows;
use super::shape::Shape;
use super::stage::{self, Placed, Work};
use sim::cost::{Cost, Time};

/// A number in TOML.
fn number(value: f64) -> String {
    let text = format!("{value:.6e}");
    // Trailing zeros of the mantissa say nothing.
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            if exponent == "0" {
                mantissa.to_owned()
            } else {
                format!("{mantissa}e{exponent}")
            }
        }
        None => text,
    }
}

fn quantity(of: &Predicted) -> String {
    format!(
        "{{ value = {}, low = {}, high = {} }}",
        number(of.secs),
        number(of.low),
        number(of.high)
    )
}

fn text(value: &str) -> String {
    toml::Value::String(value.to_owned()).to_string()
}

/// The SoC profile of a datasheet.
pub fn soc(chip: &Chip) -> String {
    let mut out = format!(
        "name = {}\norigin = \"datasheet\"\n\n[memory]\ncapacity_bytes = {}\nreserved_bytes = {{ value = {}, origin = \"reserved\", low = {}, high = {} }}\n\
         bandwidth_gbps = {{ value = {}, origin = \"sustained\", low = {}, high = {} }}\npeak_gbps = {}\n\n",
        text(&chip.name),
        number((chip.capacity_gb * 1e9).round()),
        number((chip.capacity_gb * 1e9 / 10.0).round()),
        number((chip.capacity_gb * 1e9 / 20.0).round()),
        number((chip.capacity_gb * 1e9 / 5.0).round()),
        number(chip.sustained_gbps()),
        number(0.7 * chip.peak_gbps),
        number(chip.peak_gbps),
        number(chip.peak_gbps),
    );
    let cores: u32 = chip
        .engines
        .values()
        .flat_map(|engine| &engine.cores)
        .map(|cores| cores.count)
        .sum();
    _ = writeln!(
        out,
        "[cpu]\ncores = {{ value = {}, origin = \"cores\" }}\n",
        if cores == 0 { 4 } else { cores }
    );
    let most = chip
        .engines
        .values()
        .map(|engine| port(chip, engine))
        .fold(0.0, f64::max);
    for (name, engine) in &chip.engines {
        let port = port(chip, engine);
        let weight = engine.weight.unwrap_or(port / most);
        _ = writeln!(
            out,
            "[engines.{name}]\nkind = \"{}\"\nport_gbps = {{ value = {}, origin = \"sustained\" }}\nweight = {{ value = {}, origin = \"weight\", low = {}, high = {} }}",
            engine.kind,
            number(port),
            number(weight),
            number(weight),
            number(weight * if engine.kind == "gpu" { 3.0 } else { 1.5 }),
        );
        if let Some(limit) = engine.address_limit_gib {
            _ = writeln!(
                out,
                "address_limit_bytes = {}",
                number((limit * 1_073_741_824.0).round())
            );
        }
        out.push('\n');
    }
    for (name, engine) in &chip.engines {
        _ = writeln!(out, "[lanes.{name}]\nengine = \"{name}\"");
        if engine.kind == "cpu" {
            _ = writeln!(
                out,
                "cores = {{ value = {}, origin = \"cores\" }}",
                cores.clamp(1, 4)
            );
        }
        out.push('\n');
    }
    out += "[contention]\noverlap_exponent = { value = 3, origin = \"exponents\" }\nburst_exponent = { value = 0.25, origin = \"exponents\" }\n\n";
    _ = writeln!(
        out,
        "[origins.datasheet]\nkind = \"published\"\nsource = {}\n",
        text(&chip.source)
    );
    for (key, kind, note) in [
        (
            "sustained",
            "derived",
            "nine tenths of the DRAM's peak, or the engine's own port where that is less",
        ),
        ("reserved", "assumed", "a tenth of the memory"),
        (
            "cores",
            "derived",
            "the datasheet's cores, or four where it states none; a CPU lane takes the fastest four",
        ),
        (
            "weight",
            "assumed",
            "in proportion to the ports; a GPU has been seen with up to three times that",
        ),
        (
            "exponents",
            "assumed",
            "as where nothing was measured (docs/contention.md)",
        ),
    ] {
        _ = writeln!(
            out,
            "[origins.{key}]\nkind = \"{kind}\"\nnote = {}\n",
            text(note)
        );
    }
    out
}

/// One time less another, which cannot be negative.
fn less(a: &Predicted, b: &Predicted) -> Predicted {
    Predicted {
        secs: (a.secs - b.secs).max(0.0),
        low: (a.low - b.low).max(0.0),
        high: (a.high - b.high).max(0.0),
    }
}

/// Seconds as they stand in a file.
fn stands(of: &Predicted) -> f64 {
    number(of.secs).parse().unwrap_or(f64::NAN)
}

/// The form of a written prefill: linear in tokens, in context and in pairs of the two, as its bounds are. It reads the
/// KV before it once, and attends to it with every token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefill {
    fixed: Predicted,
    per_token: Predicted,
    per_token_context: Predicted,
    per_context: Predicted,
}

impl Prefill {
    /// From two points of each of tokens and context.
    pub(super) fn of<E>(time: impl Fn(f64, f64) -> Result<Predicted, E>) -> Result<Self, E> {
        let fixed = time(0.0, 0.0)?;
        let one = time(1.0, 0.0)?;
        let behind = time(0.0, 1.0)?;
        let (per_token, per_context) = (less(&one, &fixed), less(&behind, &fixed));
        let deep = less(&time(1.0, 1.0)?, &one);
        Ok(Self {
            fixed,
            per_token,
            per_token_context: less(&deep, &per_context),
            per_context,
        })
    }

    /// What the simulator makes of it as it is written, s.
    pub(super) fn secs(&self, tokens: f64, context: f64) -> f64 {
        let written = Time::Linear {
            fixed: stands(&self.fixed),
            per_token: stands(&self.per_token),
            per_token_context: stands(&self.per_token_context),
        };
        Cost::timed(written, stands(&self.per_context))
            .at(tokens, context)
            .secs
    }
}

/// The form of a written decode: linear in tokens and in pairs of tokens and what is before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decode {
    per_token: Predicted,
    per_token_context: Predicted,
}

impl Decode {
    /// From two points of the context.
    pub(super) fn of<E>(time: impl Fn(f64, f64) -> Result<Predicted, E>) -> Result<Self, E> {
        let per_token = time(1.0, 0.0)?;
        Ok(Self {
            per_token_context: less(&time(1.0, 1.0)?, &per_token),
            per_token,
        })
    }

    /// What the simulator makes of it as it is written, s.
    pub(super) fn secs(&self, tokens: f64, context: f64) -> f64 {
        let written = Time::Linear {
            fixed: 0.0,
            per_token: stands(&self.per_token),
            per_token_context: stands(&self.per_token_context),
        };
        Cost::timed(written, 0.0).at(tokens, context).secs
    }
}

fn port(chip: &Chip, engine: &Engine) -> f64 {
    let own = engine.port_gbps.unwrap_or(f64::MAX);
    own.min(chip.sustained_gbps())
}

/// A cost profile, and what of it could not be predicted.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// The file; empty where no engine can run the model.
    pub toml: String,
    /// Engines with a prediction, and those without, with the reason.
    pub remarks: Vec<String>,
    /// How many engines run the language model.
    pub able: usize,
}

/// The costs of a model on a chip: every engine's stages, or why it has none.
pub fn costs(
    chip: &Chip,
    model_key: &str,
    shape: &Shape,
    datatype: &str,
    runtime: &str,
    efficiencies: &Efficiencies,
) -> Costs {
    let mut done = Costs::default();
    let mut out = String::new();
    let mut near = Vec::new();
    let mut elsewhere = Vec::new();
    for (name, engine) in &chip.engines {
        match stages(chip, name, engine, shape, datatype, runtime, efficiencies) {
            Ok((stages, fitted)) => {
                out += &stages;
                done.able += 1;
                done.remarks
                    .push(format!("{name}: predicted with {fitted}"));
                let list = if fitted.elsewhere.is_some() {
                    &mut elsewhere
                } else {
                    &mut near
                };
                list.push(format!("{name}: {fitted}"));
            }
            Err(reason) => {
                _ = writeln!(out, "[engines.{name}.unsupported]");
                for stage in ["encode", "ingest", "query_prefill", "decode"] {
                    _ = writeln!(out, "{stage} = {}", text(&reason));
                }
                out.push('\n');
                done.remarks.push(format!("{name}: {reason}"));
            }
        }
    }
    let mut origin = |key: &str, kind: &str, source: bool, note: &str| {
        // One that no number names is a fault.
        if !out.contains(&format!("origin = \"{key}\"")) {
            return;
        }
        _ = writeln!(out, "[origins.{key}]\nkind = \"{kind}\"");
        if source {
            _ = writeln!(out, "source = {}", text(&chip.source));
        }
        _ = writeln!(out, "note = {}\n", text(note));
    };
    let roofline = format!(
        "Roofline of the datasheet and the shape of {} in {datatype}",
        shape.name
    );
    let note = format!(
        "{roofline}, with efficiencies fitted on other chips{}; the interval holds 90 % of chips that were left out (crossinfer validate roofline)",
        within(&near)
    );
    origin("roofline", "derived", true, &note);
    let note = format!(
        "{roofline}{}: that this NPU comes as near its peak is assumed, the interval is as wide as the factors of prefills missed encodes, and no share of chips is known to lie in it",
        within(&elsewhere)
    );
    origin("elsewhere", "assumed", true, &note);
    origin(
        "bytes",
        "derived",
        false,
        "weights that a stage or a token of an answer reads, the KV before it once, and 16-bit activations once",
    );
    origin(
        "copies",
        "assumed",
        false,
        "a quarter of what the memory sustains, as state copies of llama.cpp do",
    );
    origin(
        "encode",
        "derived",
        true,
        "Roofline of the tower at 16 bits, on one core of an NPU, with the efficiency of encodes measured on other chips; of a runtime whose encodes nobody measured with that of its prefills, and an interval as wide as those missed encodes",
    );
    if done.able > 0 {
        let first = if near.is_empty() {
            "elsewhere"
        } else {
            "roofline"
        };
        done.toml = format!(
            "soc = {}\nmodel = {}\norigin = \"{first}\"\n\n{}\n",
            text(&chip.key),
            text(model_key),
            out.trim_end()
        );
    }
    done
}

/// What stands in brackets behind a text; nothing for nothing.
fn within(list: &[String]) -> String {
    if list.is_empty() {
        String::new()
    } else {
        format!(" ({})", list.join("; "))
    }
}

fn stages(
    chip: &Chip,
    name: &str,
    engine: &Engine,
    shape: &Shape,
    datatype: &str,
    runtime: &str,
    efficiencies: &Efficiencies,
) -> Result<(String, Fitted), String> {
    // A lane of a CPU is its four fastest cores.
    let threads = (engine.kind == "cpu").then(|| {
        let cores: u32 = engine.cores.iter().map(|cores| cores.count).sum();
        cores.clamp(1, 4)
    });
    let placed = Placed::new(chip, name, engine, shape, datatype, threads)
        .map_err(|refusal| refusal.to_string())?;
    let backend = match engine.kind.as_str() {
        "gpu" => engine.api.as_deref().unwrap_or(""),
        _ => "",
    };
    let runtime = if engine.kind == "npu" {
        runtime
    } else {
        "llama.cpp"
    };
    let family = rows::family(runtime, backend, engine);
    let fitted = Fitted::of(chip, &family, efficiencies);
    // How far factors of one maker miss another's NPU nobody knows.
    let least = match fitted.elsewhere {
        Some(_) => efficiencies.spread.get(STAND_IN).copied().ok_or_else(|| {
            format!(
                "no prediction: no NPU of this maker has been measured in {}",
                family.key
            )
        })?,
        None => 0.0,
    };
    let predict = |phase, work: Work| {
        efficiencies
            .predict(&family.key, phase, work, datatype)
            .map(|time| time.widened(least))
            .ok_or_else(|| {
                format!(
                    "no prediction: fewer than two chips have been measured with {datatype} in {}",
                    family.key
                )
            })
    };
    let prefill =
        Prefill::of(|tokens, context| predict(Phase::Prefill, placed.prefill(tokens, context)))?;
    let decode =
        Decode::of(|tokens, context| predict(Phase::Decode, placed.decode(tokens, context)))?;
    let (all, encoded) = match fitted.elsewhere {
        Some(_) => ("elsewhere", "elsewhere"),
        None => ("roofline", "encode"),
    };
    let mut out = format!("[engines.{name}]\norigin = \"{all}\"\n\n");
    let time = shape
        .vision
        .as_ref()
        .and_then(|vision| stage::encode(chip, engine, vision, threads))
        .and_then(|work| efficiencies.encode(&family.key, work))
        .map(|time| time.widened(least));
    out += &encode(name, shape, encoded, time.as_ref());
    let kv = shape.kv_bytes();
    for stage in ["ingest", "query_prefill"] {
        _ = writeln!(
            out,
            "[engines.{name}.stages.{stage}]\nfixed_s = {}\nper_token_s = {}\nper_token_context_s = {}\nper_context_s = {}\nbytes = {{ value = {}, origin = \"bytes\" }}\nbytes_per_token = {{ value = {}, origin = \"bytes\" }}\nbytes_per_context = {{ value = {}, origin = \"bytes\" }}\n",
            quantity(&prefill.fixed),
            quantity(&prefill.per_token),
            quantity(&prefill.per_token_context),
            quantity(&prefill.per_context),
            number(placed.read_bytes()),
            number(shape.activation_bytes() + kv),
            number(kv),
        );
    }
    _ = writeln!(
        out,
        "[engines.{name}.stages.decode]\nper_token_s = {}\nper_token_context_s = {}\nbytes_per_token = {{ value = {}, origin = \"bytes\" }}\nbytes_per_token_context = {{ value = {}, origin = \"bytes\" }}\n",
        quantity(&decode.per_token),
        quantity(&decode.per_token_context),
        number(placed.read_bytes()),
        number(kv),
    );
    for stage in ["export", "import"] {
        _ = writeln!(
            out,
            "[engines.{name}.stages.{stage}]\ngbps = {{ value = {}, origin = \"copies\", low = {}, high = {} }}\nbytes_per_token = {{ value = 2, origin = \"bytes\" }}\n",
            number(chip.sustained_gbps() / 4.0),
            number(chip.sustained_gbps() / 10.0),
            number(chip.sustained_gbps() / 2.0),
        );
    }
    Ok((out, fitted))
}

/// The encode stage, or why there is none; nothing of a model without a vision tower.
fn encode(name: &str, shape: &Shape, origin: &str, time: Option<&Predicted>) -> String {
    let Some(vision) = &shape.vision else {
        return String::new();
    };
    let Some(time) = time else {
        let why = "no prediction: the datasheet states no FP16 rate, or too few chips have been measured with f16";
        return format!("[engines.{name}.unsupported]\nencode = {}\n\n", text(why));
    };
    let bytes = 2.0 * vision.parameters + vision.activation_bytes();
    format!(
        "[engines.{name}.stages.encode]\norigin = \"{origin}\"\nfixed_s = {}\nbytes = {{ value = {}, origin = \"bytes\" }}\n\n",
        quantity(time),
        number(bytes)
    )
}
