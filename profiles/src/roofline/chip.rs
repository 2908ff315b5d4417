//! Datasheet figures of chips.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

/// The chips that come with the project.
const CHIPS: &str = include_str!("chips.toml");

/// What programs of GPUs are written in: each has efficiencies of its own.
pub const APIS: [&str; 5] = ["metal", "vulkan", "cuda", "opencl", "rocm"];

/// A chip, as its datasheet has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chip {
    /// Key of its profile.
    pub key: String,
    /// Name for people.
    pub name: String,
    /// What benchmarks call it, in small letters.
    #[serde(default)]
    pub called: Vec<String>,
    /// Memory of the board, GB.
    pub capacity_gb: f64,
    /// Data rate of the DRAM times its width, GB/s.
    pub peak_gbps: f64,
    /// FP32 operations a second of one fast CPU core, 1e9: what feeds the other engines.
    pub host_gflops: f64,
    /// Where the figures stand.
    pub source: String,
    /// Engines by name.
    pub engines: BTreeMap<String, Engine>,
}

/// An engine of a chip.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// `cpu`, `gpu` or `npu`.
    pub kind: String,
    /// What a GPU's programs are written in, of [`APIS`]; of a GPU alone, and of every one.
    pub api: Option<String>,
    /// Instruction set of a CPU, which decides which kernels run.
    pub isa: Option<String>,
    /// Operations a second by data type of the arithmetic, 1e9 (a multiply-add is two).
    #[serde(default)]
    pub peak_gops: BTreeMap<String, f64>,
    /// What the engine's own cores can fetch and store, GB/s; absent: as much as the DRAM gives.
    pub port_gbps: Option<f64>,
    /// Arbitration weight against the other engines; absent: in proportion to the ports.
    pub weight: Option<f64>,
    /// Data types of weights that it takes; `*` is any.
    pub types: Vec<String>,
    /// GiB that it can address.
    pub address_limit_gib: Option<f64>,
    /// Cores of an NPU that share its peak and its port; absent: one.
    pub units: Option<u32>,
    /// Cores of a CPU, fastest first.
    #[serde(default)]
    pub cores: Vec<Cores>,
}

/// Equal cores of a CPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// How many.
    pub count: u32,
    /// Clock, GHz.
    pub ghz: f64,
    /// INT8 operations a cycle.
    pub int8: f64,
    /// FP16 operations a cycle.
    pub fp16: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    chip: Vec<toml::Spanned<Chip>>,
}

/// Instruction sets that decide which kernels of llama.cpp a CPU runs.
const ISAS: [&str; 12] = [
    "neon",
    "dotprod",
    "i8mm",
    "sve",
    "sve2",
    "sme",
    "avx2",
    "avx_vnni",
    "avx512",
    "avx512_vnni",
    "amx",
    "rvv",
];

/// Most GB of a board's memory, and most of any rate: what is beyond is a slip.
const MOST_GB: f64 = 1e5;
const MOST: f64 = 1e9;

/// Whether a key is a plain name of a folder on every system.
pub fn plain_key(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    key.starts_with(plain)
        && key.chars().all(|c| plain(c) || ".-_".contains(c))
        && !key.ends_with('.')
}

/// The line of a chip's `key`, or else of the chip, whose table starts at `start`.
fn key_line(text: &str, start: usize, key: &str) -> usize {
    let first = text.get(..start).unwrap_or("").matches('\n').count() + 1;
    let rest = text.get(start..).unwrap_or("");
    let own = rest.lines().position(|line| {
        let value = line.trim_start().strip_prefix("key");
        value.is_some_and(|value| value.trim_start().starts_with('=') && value.contains(key))
    });
    first + own.unwrap_or(0)
}

/// Chips of a text in the layout of `chips.toml`.
///
/// # Errors
///
/// What is wrong, with its line; a figure that is not above zero.
pub fn parse(text: &str) -> Result<Vec<Chip>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut chips: Vec<Chip> = Vec::new();
    for spanned in file.chip {
        let start = spanned.span().start.min(text.len());
        let chip = spanned.into_inner();
        let line = key_line(text, start, &chip.key);
        if !plain_key(&chip.key) {
            return Err(format!(
                "line {line}: `{}` is no key of a chip, which names its folder: write letters a to z, digits, `.`, `-` and `_`, beginning with a letter or digit, as `rk3588`",
                chip.key.escape_debug()
            ));
        }
        if chips.iter().any(|other| other.key == chip.key) {
            return Err(format!(
                "line {line}: another chip has the key `{}` already: keys must differ",
                chip.key
            ));
        }
        chip.check()
            .map_err(|fault| format!("line {line}: {fault}"))?;
        chips.push(chip);
    }
    Ok(chips)
}

/// The chips that come with the project.
pub fn shipped() -> &'static [Chip] {
    static CHIPS_READ: OnceLock<Vec<Chip>> = OnceLock::new();
    CHIPS_READ.get_or_init(|| {
        // A test reads it too, so it is never empty because of a fault.
        parse(CHIPS).unwrap_or_default()
    })
}

impl Chip {
    fn check(&self) -> Result<(), String> {
        let positive = |what: &str, value: f64| {
            if value.is_finite() && value > 0.0 && value <= MOST {
                Ok(())
            } else {
                Err(format!(
                    "chip `{}`: {what} is {value}: give a number above 0, and no more than {MOST:e}",
                    self.key
                ))
            }
        };
        if !(self.capacity_gb > 0.0 && self.capacity_gb <= MOST_GB) {
            return Err(format!(
                "chip `{}`: `capacity_gb` is {}: give a number above 0, and no more than {MOST_GB:e}",
                self.key, self.capacity_gb
            ));
        }
        positive("`peak_gbps`", self.peak_gbps)?;
        positive("`host_gflops`", self.host_gflops)?;
        for (name, engine) in &self.engines {
            if !["cpu", "gpu", "npu"].contains(&engine.kind.as_str()) {
                return Err(format!(
                    "chip `{}`: the kind of engine `{name}` is `{}`: give cpu, gpu or npu",
                    self.key, engine.kind
                ));
            }
            let apis = || APIS.join(", ");
            match (&engine.api, engine.kind == "gpu") {
                (None, true) => {
                    return Err(format!(
                        "chip `{}`: engine `{name}` is a GPU without `api`, what its programs are written in: give one of {}",
                        self.key,
                        apis()
                    ));
                }
                (Some(api), true) if !APIS.contains(&api.as_str()) => {
                    return Err(format!(
                        "chip `{}`: `api` of engine `{name}` is `{api}`: give one of {}",
                        self.key,
                        apis()
                    ));
                }
                (Some(_), false) => {
                    return Err(format!(
                        "chip `{}`: `api` of engine `{name}`, which is no GPU, has no effect",
                        self.key
                    ));
                }
                _ => {}
            }
            if let Some(isa) = &engine.isa
                && !ISAS.contains(&isa.as_str())
            {
                return Err(format!(
                    "chip `{}`: `isa` of engine `{name}` is `{isa}`: give one of {}",
                    self.key,
                    ISAS.join(", ")
                ));
            }
            if engine.types.is_empty() {
                return Err(format!(
                    "chip `{}`: engine `{name}` takes no `types` of weights: name them, or `*`",
                    self.key
                ));
            }
            if engine.cores.is_empty() && engine.peak_gops.is_empty() {
                return Err(format!(
                    "chip `{}`: engine `{name}` has neither `peak_gops` nor `cores`",
                    self.key
                ));
            }
            for (datatype, rate) in &engine.peak_gops {
                positive(&format!("`engines.{name}.peak_gops.{datatype}`"), *rate)?;
            }
            for core in &engine.cores {
                positive(
                    &format!("`engines.{name}.cores.count`"),
                    f64::from(core.count),
                )?;
                positive(&format!("`engines.{name}.cores.ghz`"), core.ghz)?;
                positive(&format!("`engines.{name}.cores.int8`"), core.int8)?;
                positive(&format!("`engines.{name}.cores.fp16`"), core.fp16)?;
            }
            for (what, value) in [
                ("units", engine.units.map(f64::from)),
                ("port_gbps", engine.port_gbps),
                ("weight", engine.weight),
                ("address_limit_gib", engine.address_limit_gib),
            ] {
                if let Some(value) = value {
                    positive(&format!("`engines.{name}.{what}`"), value)?;
                }
            }
        }
        Ok(())
    }

    /// The chip of this key or name.
    pub fn find<'a>(chips: &'a [Self], name: &str) -> Option<&'a Self> {
        let name = name.trim().to_lowercase();
        let is = |chip: &&Self, name: &str| {
            chip.key == name || chip.called.iter().any(|called| called == name)
        };
        // Benchmarks list a device for each part of the program: "Apple M4 Pro, Accelerate, Apple M4 Pro".
        std::iter::once(name.as_str())
            .chain(name.split(", "))
            .find_map(|part| chips.iter().find(|chip| is(chip, part)))
    }

    /// What all engines together can draw, GB/s: nine tenths of the peak.
    pub fn sustained_gbps(&self) -> f64 {
        0.9 * self.peak_gbps
    }
}

impl Engine {
    /// Operations a second in this arithmetic on `threads` of the cores (the fastest first; all if absent), 1e9.
    ///
    /// Cores of different speed get equal shares of each matrix, and the fast ones wait: the rate is the number of
    /// threads times the harmonic mean of their rates, between equal shares without stealing (the slowest counts)
    /// and perfect stealing (the sum).
    pub fn peak_gops(&self, arithmetic: &str, threads: Option<u32>) -> Option<f64> {
        if self.cores.is_empty() {
            return self.peak_gops.get(arithmetic).copied();
        }
        let rates: Vec<f64> = self
            .cores
            .iter()
            .flat_map(|core| {
                let a_cycle = if arithmetic == "int8" {
                    core.int8
                } else {
                    core.fp16
                };
                std::iter::repeat_n(a_cycle * core.ghz, core.count as usize)
            })
            .collect();
        let count = threads.map_or(rates.len(), |threads| threads as usize);
        if count == 0 || count > rates.len() {
            return None;
        }
        let slowness: f64 = rates[..count].iter().map(|rate| 1.0 / rate).sum();
        Some(count as f64 * count as f64 / slowness)
    }

    /// Whether it takes weights of this data type.
    pub fn takes(&self, datatype: &str) -> bool {
        let datatype = datatype.to_lowercase();
        self.types
            .iter()
            .any(|known| known == "*" || *known == datatype)
    }
}

/// The arithmetic that weights of this data type are computed in.
///
/// Float weights in FP16; integer weights in INT8 where the activations are quantised too (`w8a8`, and llama.cpp's
/// kernels for CPUs), else in FP16 (`w4a16`, and GPUs, which unpack them).
pub fn arithmetic(datatype: &str, kind: &str) -> &'static str {
    let datatype = datatype.to_lowercase();
    let float = ["f16", "fp16", "f32", "fp32", "bf16"].contains(&datatype.as_str());
    if float || kind == "gpu" || datatype.contains("a16") {
        "fp16"
    } else {
        "int8"
    }
}
