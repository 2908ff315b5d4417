//! Costs of a chip and a model that nobody has measured together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::chip::{Chip, Engine};
use super::efficiency::{Efficiencies, Family, Phase, Predicted};
use super::fitted::{Elsewhere, Fitted, behind, within};
use super::rows;
use super::shape::{Shape, Vision};
use super::soc;
use super::stage::{self, Placed, Work};
use sim::cost::{Cost, Time};
use sim::memory::Weights;

/// A number in TOML.
pub(super) fn number(value: f64) -> String {
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

pub(super) fn text(value: &str) -> String {
    toml::Value::String(value.to_owned()).to_string()
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

/// A cost profile, and what of it could not be predicted.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// The file; where no engine can run the language model it says why of each, and perhaps what a vision tower takes.
    pub toml: String,
    /// Of each engine how the language model's times were predicted, or why they were not.
    pub remarks: Vec<(String, String)>,
    /// How many engines run the language model.
    pub able: usize,
}

/// What is to be predicted, of what.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The chip.
    pub chip: &'a Chip,
    /// Key of the model.
    pub key: &'a str,
    /// The model.
    pub shape: &'a Shape,
    /// Data type of its weights.
    pub datatype: &'a str,
    /// Runtime of NPUs.
    pub runtime: &'a str,
}

/// The costs of a model on a chip: every engine's stages, or why it has none. `threads` are those of engines that were
/// measured on so many.
pub fn costs(
    of: &Asked<'_>,
    threads: &BTreeMap<String, u32>,
    efficiencies: &Efficiencies,
) -> Costs {
    let Asked {
        chip,
        shape,
        datatype,
        ..
    } = *of;
    let mut done = Costs::default();
    let mut out = String::new();
    let mut near = Vec::new();
    let mut elsewhere = Vec::new();
    let mut isas = Vec::new();
    let mut own = false;
    for (name, engine) in &chip.engines {
        let (family, fitted) = fitted(of, engine, efficiencies);
        let one = Predictor {
            chip,
            name,
            engine,
            threads: soc::threads(name, engine, threads),
            datatype,
            family: &family.key,
            fitted: &fitted,
            efficiencies,
        };
        let (text, able) = one.stages(shape);
        if text.contains("_s = ") {
            own |= fitted.own;
            let list = match fitted.elsewhere {
                Some(Elsewhere::Maker(_)) => &mut elsewhere,
                Some(Elsewhere::Isa(_)) => &mut isas,
                None => &mut near,
            };
            list.push(format!("{name}: {fitted}"));
        }
        out += &text;
        let remark = match able {
            Ok(()) => {
                done.able += 1;
                format!("predicted with {fitted}")
            }
            Err(reason) => reason,
        };
        done.remarks.push((name.clone(), remark));
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
    let note = format!("{roofline}, with efficiencies {}", behind(own, &near));
    origin("roofline", "derived", true, &note);
    let note = format!(
        "{roofline}{}: that this NPU comes as near its peak is assumed, the interval is as wide as the factors of prefills missed encodes, and no share of chips is known to lie in it",
        within(&elsewhere)
    );
    origin("elsewhere", "assumed", true, &note);
    let note = format!(
        "{roofline}{}: that this CPU comes as near its peak is assumed, and the interval is as wide as factors of one instruction set missed chips of another",
        within(&isas)
    );
    origin("another-isa", "assumed", true, &note);
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
        "Roofline of the tower at 16 bits, on one core of an NPU, with the efficiency of encodes that were measured; of a runtime whose encodes nobody measured with that of its prefills, and an interval as wide as those missed encodes",
    );
    done.toml = format!(
        "soc = {}\nmodel = {}\n\n{}\n",
        text(&chip.key),
        text(of.key),
        out.trim_end()
    );
    done
}

/// The family of an engine under the runtime that it has here.
pub(super) fn family(of: &Asked<'_>, engine: &Engine) -> Family {
    let (runtime, backend) = match engine.kind.as_str() {
        "npu" => (of.runtime, ""),
        "gpu" => ("llama.cpp", engine.api.as_deref().unwrap_or("")),
        _ => ("llama.cpp", ""),
    };
    rows::family(runtime, backend, engine)
}

/// The family whose factors an engine has, and what is behind them: of a CPU whose own kernels nobody measured with the
/// data type, those of another instruction set.
fn fitted(of: &Asked<'_>, engine: &Engine, efficiencies: &Efficiencies) -> (Family, Fitted) {
    let mut family = family(of, engine);
    let other = efficiencies.another_isa(&family.key, of.datatype);
    if let (Some(other), Some(isa)) = (other, &engine.isa) {
        family.key = other.to_owned();
        let mut fitted = Fitted::of(of.chip, &family, efficiencies);
        fitted.elsewhere = Some(Elsewhere::Isa(isa.clone()));
        return (family, fitted);
    }
    let fitted = Fitted::of(of.chip, &family, efficiencies);
    (family, fitted)
}

/// DRAM bytes of the stages of a language model, each with the keys that state them.
pub(super) fn bytes(of: &Placed<'_>) -> [(&'static str, Vec<(&'static str, f64)>); 3] {
    let (read, activations, kv) = (
        of.read_bytes(),
        of.shape().activation_bytes(),
        of.shape().kv_bytes(),
    );
    let prefill = vec![
        ("bytes", of.chunk_bytes()),
        ("bytes_per_token", activations + kv),
        ("bytes_per_context", kv),
    ];
    let decode = vec![("bytes_per_token", read), ("bytes_per_token_context", kv)];
    [
        ("ingest", prefill.clone()),
        ("query_prefill", prefill),
        ("decode", decode),
    ]
}

/// Predicts the stages of one engine.
struct Predictor<'a> {
    chip: &'a Chip,
    name: &'a str,
    engine: &'a Engine,
    threads: Option<u32>,
    datatype: &'a str,
    family: &'a str,
    fitted: &'a Fitted,
    efficiencies: &'a Efficiencies,
}

impl Predictor<'_> {
    /// The stages as text, and why those of the language model are not among them.
    fn stages(&self, shape: &Shape) -> (String, Result<(), String>) {
        let name = self.name;
        let placed = Placed::new(
            self.chip,
            name,
            self.engine,
            shape,
            self.datatype,
            self.threads,
        );
        let mut out = String::new();
        let mut unsupported = Vec::new();
        let all = Weights {
            language: shape.weights(self.datatype).unwrap_or(0.0),
            tower: shape.tower_bytes,
        };
        let fits = |runs| {
            stage::fits(self.chip, name, self.engine, all, runs)
                .map_err(|refusal| refusal.to_string())
        };
        let mut encodes = false;
        if let Some(vision) = &shape.vision {
            match fits([false, true]).and_then(|()| self.encode(vision)) {
                Ok(text) => {
                    encodes = true;
                    out += &text;
                }
                Err(reason) => unsupported.push(("encode", reason)),
            }
        }
        let language = placed
            .map_err(|refusal| refusal.to_string())
            .and_then(|placed| fits([true, encodes]).map(|()| placed))
            .and_then(|placed| self.language(&placed));
        let able = match language {
            Ok(text) => {
                out += &text;
                Ok(())
            }
            Err(reason) => {
                for stage in ["ingest", "query_prefill", "decode"] {
                    unsupported.push((stage, reason.clone()));
                }
                Err(reason)
            }
        };
        for stage in ["export", "import"] {
            _ = writeln!(
                out,
                "[engines.{name}.stages.{stage}]\ngbps = {{ value = {}, origin = \"copies\", low = {}, high = {} }}\nbytes_per_token = {{ value = 2, origin = \"bytes\" }}\n",
                number(self.chip.sustained_gbps() / 4.0),
                number(self.chip.sustained_gbps() / 10.0),
                number(self.chip.sustained_gbps() / 2.0),
            );
        }
        if !unsupported.is_empty() {
            _ = writeln!(out, "[engines.{name}.unsupported]");
            for (stage, reason) in unsupported {
                _ = writeln!(out, "{stage} = {}", text(&reason));
            }
            out.push('\n');
        }
        (out, able)
    }

    /// How far factors of other makers or instruction sets miss nobody knows well: the least half-width of an interval's
    /// logarithm.
    fn least(&self) -> Result<f64, String> {
        let Some(elsewhere) = &self.fitted.elsewhere else {
            return Ok(0.0);
        };
        let spread = self.efficiencies.spread.get(elsewhere.spread()).copied();
        spread.ok_or_else(|| match elsewhere {
            Elsewhere::Maker(_) => format!(
                "no prediction: no NPU of this maker has been measured in {}",
                self.family
            ),
            Elsewhere::Isa(isa) => format!(
                "no prediction: no CPU with {isa} has been measured with {}",
                self.datatype
            ),
        })
    }

    /// Why there is no prediction, and what would make one.
    fn unknown(&self) -> String {
        let datatype = self.datatype;
        if self.engine.kind != "npu" && datatype.starts_with('w') {
            return format!(
                "no prediction: llama.cpp has no weights in {datatype}, which are an NPU's; of its own types `--type q8_0` or `q4_0` are as wide"
            );
        }
        format!(
            "no prediction: fewer than two chips have been measured with {datatype} in {}: measured on this one, `--measured` takes it",
            self.family
        )
    }

    fn language(&self, placed: &Placed<'_>) -> Result<String, String> {
        let (name, datatype) = (self.name, self.datatype);
        let least = self.least()?;
        let predict = |phase, work: Work| {
            self.efficiencies
                .predict(self.family, phase, work, datatype)
                .map(|time| time.widened(least))
                .ok_or_else(|| self.unknown())
        };
        let prefill = Prefill::of(|tokens, context| {
            predict(Phase::Prefill, placed.prefill(tokens, context))
        })?;
        let decode =
            Decode::of(|tokens, context| predict(Phase::Decode, placed.decode(tokens, context)))?;
        let elsewhere = self.fitted.elsewhere.as_ref();
        let origin = elsewhere.map_or("roofline", Elsewhere::origin);
        let mut out = String::new();
        for (stage, bytes) in bytes(placed) {
            let times = if stage == "decode" {
                format!(
                    "per_token_s = {}\nper_token_context_s = {}\n",
                    quantity(&decode.per_token),
                    quantity(&decode.per_token_context)
                )
            } else {
                format!(
                    "fixed_s = {}\nper_token_s = {}\nper_token_context_s = {}\nper_context_s = {}\n",
                    quantity(&prefill.fixed),
                    quantity(&prefill.per_token),
                    quantity(&prefill.per_token_context),
                    quantity(&prefill.per_context)
                )
            };
            _ = write!(
                out,
                "[engines.{name}.stages.{stage}]\norigin = \"{origin}\"\n{times}"
            );
            for (key, value) in bytes {
                let value = number(value);
                _ = writeln!(out, "{key} = {{ value = {value}, origin = \"bytes\" }}");
            }
            out.push('\n');
        }
        Ok(out)
    }

    /// A frame through the vision tower, in 16 bits whatever the language model's weights are.
    fn encode(&self, vision: &Vision) -> Result<String, String> {
        let least = self.least()?;
        let time = stage::encode(self.chip, self.engine, vision, self.threads)
            .and_then(|work| self.efficiencies.encode(self.family, work))
            .map(|time| time.widened(least))
            .ok_or(
                "no prediction: the datasheet states no FP16 rate, or too few chips have been measured with f16",
            )?;
        let elsewhere = self.fitted.elsewhere.as_ref();
        let origin = elsewhere.map_or("encode", Elsewhere::origin);
        let bytes = 2.0 * vision.parameters + vision.activation_bytes();
        Ok(format!(
            "[engines.{}.stages.encode]\norigin = \"{origin}\"\nfixed_s = {}\nbytes = {{ value = {}, origin = \"bytes\" }}\n\n",
            self.name,
            quantity(&time),
            number(bytes)
        ))
    }
}
