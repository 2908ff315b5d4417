//! The SoC profile of a datasheet.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::chip::{Chip, Engine};
use super::profile::{number, text};

/// Threads that a lane of a CPU has where nothing was measured on it.
pub(super) const THREADS: u32 = 4;

/// Cores of a CPU that its datasheet states.
pub(super) fn cores(engine: &Engine) -> u32 {
    engine.cores.iter().map(|cores| cores.count).sum()
}

/// Threads of an engine's lane: those that it was measured on, else up to four of its cores; none but of a CPU.
pub(super) fn threads(
    name: &str,
    engine: &Engine,
    measured: &BTreeMap<String, u32>,
) -> Option<u32> {
    let own = match cores(engine) {
        0 => THREADS,
        count => count.clamp(1, THREADS),
    };
    (engine.kind == "cpu").then(|| measured.get(name).copied().unwrap_or(own))
}

/// Bytes of the memory that the profile reserves.
pub(super) fn reserved(chip: &Chip) -> f64 {
    (chip.capacity_gb * 1e9 / 10.0).round()
}

/// Bytes that an engine can address.
pub(super) fn address_limit(engine: &Engine) -> Option<f64> {
    let limit = engine.address_limit_gib?;
    Some((limit * 1_073_741_824.0).round())
}

/// The SoC profile of a datasheet; `measured` has the threads that engines were measured on.
pub fn soc(chip: &Chip, measured: &BTreeMap<String, u32>) -> String {
    let mut out = format!(
        "name = {}\norigin = \"datasheet\"\n\n[memory]\ncapacity_bytes = {}\nreserved_bytes = {{ value = {}, origin = \"reserved\", low = {}, high = {} }}\n\
         bandwidth_gbps = {{ value = {}, origin = \"sustained\", low = {}, high = {} }}\npeak_gbps = {}\n\n",
        text(&chip.name),
        number((chip.capacity_gb * 1e9).round()),
        number(reserved(chip)),
        number((chip.capacity_gb * 1e9 / 20.0).round()),
        number((chip.capacity_gb * 1e9 / 5.0).round()),
        number(chip.sustained_gbps()),
        number(0.7 * chip.peak_gbps),
        number(chip.peak_gbps),
        number(chip.peak_gbps),
    );
    let stated: u32 = chip.engines.values().map(cores).sum();
    let most = measured.values().copied().fold(THREADS, u32::max);
    _ = writeln!(
        out,
        "[cpu]\ncores = {{ value = {}, origin = \"cores\" }}\n",
        if stated == 0 { most } else { stated }
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
        if let Some(limit) = address_limit(engine) {
            // To the byte: a model of 4 GiB fits 4 GiB.
            _ = writeln!(out, "address_limit_bytes = {limit:?}");
        }
        out.push('\n');
    }
    for (name, engine) in &chip.engines {
        _ = writeln!(out, "[lanes.{name}]\nengine = \"{name}\"");
        if let Some(threads) = threads(name, engine, measured) {
            let origin = if measured.contains_key(name) {
                "threads"
            } else {
                "cores"
            };
            _ = writeln!(
                out,
                "cores = {{ value = {threads}, origin = \"{origin}\" }}"
            );
        }
        out.push('\n');
    }
    out += "[contention]\noverlap_exponent = { value = 3, origin = \"exponents\" }\nburst_exponent = { value = 0.25, origin = \"exponents\" }\n\n";
    origins(&mut out, chip);
    out
}

/// The origins that the text names.
fn origins(out: &mut String, chip: &Chip) {
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
        (
            "threads",
            "derived",
            "the threads of the measured costs (`crossinfer roofline --measured`)",
        ),
    ] {
        // One that no number names is a fault.
        if !out.contains(&format!("origin = \"{key}\"")) {
            continue;
        }
        _ = writeln!(
            out,
            "[origins.{key}]\nkind = \"{kind}\"\nnote = {}\n",
            text(note)
        );
    }
}

fn port(chip: &Chip, engine: &Engine) -> f64 {
    let own = engine.port_gbps.unwrap_or(f64::MAX);
    own.min(chip.sustained_gbps())
}
