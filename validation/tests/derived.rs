//! Numbers that a shipped profile derives from another profile are what these now give, and no surer than they are.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sim::load::{check_costs, check_soc};
use sim::spec::quantity::OriginKind;
use sim::world::Provenance;

/// How near a number must be to what its parents give, relatively: three digits are stated.
const NEAR: f64 = 5e-3;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles")
}

/// The numbers of a profile such as `rk3588/soc`, by path.
fn numbers(profile: &str) -> BTreeMap<String, Provenance> {
    let name = format!("{profile}.toml");
    let text = std::fs::read_to_string(folder().join(&name)).unwrap();
    let all = if profile.ends_with("/soc") {
        check_soc(&name, &text)
    } else {
        check_costs(&name, &text)
    };
    let all = all.unwrap_or_else(|faults| panic!("{faults}"));
    all.into_iter()
        .map(|number| (number.path.clone(), number))
        .collect()
}

/// A number with the ends of what is believed of it.
#[derive(Clone, Copy, Debug)]
struct Spread {
    value: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(profile: &str, path: &str) -> Self {
        let number = &numbers(profile)[path];
        let (low, high) = number.interval.unwrap_or((number.value, number.value));
        Self {
            value: number.value,
            low,
            high,
        }
    }

    fn times(self, by: f64) -> Self {
        Self {
            value: self.value * by,
            low: self.low * by,
            high: self.high * by,
        }
    }

    /// `x` over it.
    fn under(self, x: f64) -> Self {
        Self {
            value: x / self.value,
            low: x / self.high,
            high: x / self.low,
        }
    }
}

const FP16: &str = "m4max/qwen2.5-vl-3b-fp16";
const Q4: &str = "m4max/qwen2.5-vl-3b-q4";
const SMALL: &str = "rk3588/onevision-0.5b-int4";
const LARGE: &str = "rk3588/onevision-7b-int4";
const QCS_SMALL: &str = "qcs6490/onevision-0.5b-int4";
const QCS_LARGE: &str = "qcs6490/fastvlm-1.5b-int4";
const GPU_ENCODE: &str = "engines.gpu.stages.encode.fixed_s";
const ANE_ENCODE: &str = "engines.ane.stages.encode.fixed_s";

/// Parameters of the vision towers, 10^9 (`profiles/models`): of Qwen2.5-VL, and of Qwen3.5 with their profiles.
const TOWER: f64 = 0.67;
const TOWERS: [(&str, f64); 4] = [
    ("m4max/qwen3.5-0.8b", 0.1),
    ("m4max/qwen3.5-2b", 0.33),
    ("m4max/qwen3.5-4b", 0.33),
    ("m4max/qwen3.5-9b", 0.456),
];
/// Patches of a frame at 448 px, of one of two that share a set, and of that set.
const PATCHES: (f64, f64, f64) = (784.0, 720.0, 1440.0);

/// Operations of a tower, 10^12: two a patch and parameter.
fn teraflop(patches: f64, parameters: f64) -> f64 {
    2e-3 * patches * parameters
}

/// Seconds of an encode on the ANE for a tower of so many parameters: the least squares line of the four that are
/// known, its slope scaled by the patches. What their own spread makes of it.
fn by_line(parameters: f64, patches: f64) -> Spread {
    let known = TOWERS.map(|(profile, size)| (size, Spread::of(profile, ANE_ENCODE)));
    let line = |y: fn(&Spread) -> f64| {
        let n = known.len() as f64;
        let x = known.iter().map(|(x, _)| x).sum::<f64>() / n;
        let mean = known.iter().map(|(_, all)| y(all)).sum::<f64>() / n;
        let over = known.iter().map(|(at, all)| (at - x) * (y(all) - mean));
        let under = known.iter().map(|(at, _)| (at - x).powi(2));
        let slope = over.sum::<f64>() / under.sum::<f64>();
        mean - slope * x + slope * parameters * patches / PATCHES.0
    };
    Spread {
        value: line(|all| all.value),
        low: line(|all| all.low),
        high: line(|all| all.high),
    }
}

/// A derived number: profile, paths and what it should be.
type Derived = (&'static str, Vec<String>, Spread);

/// Every number that names another profile and can be computed from it, with the key of its origin.
fn derived() -> Vec<(&'static str, Derived)> {
    let mut all = Vec::new();
    let mut add = |origin, profile, paths: &[&str], spread| {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        all.push((origin, (profile, paths, spread)));
    };
    let stages = ["ingest", "query_prefill", "decode"];
    let slopes = |engine: &str| {
        stages.map(|stage| format!("engines.{engine}.stages.{stage}.per_token_context_s"))
    };

    // The FP16 tower reaches so many TFLOP/s on the GPU.
    let encode = Spread::of(FP16, GPU_ENCODE);
    let rate = encode.under(teraflop(PATCHES.1, TOWER));
    for (profile, parameters) in TOWERS {
        let spread = rate.under(teraflop(PATCHES.0, parameters));
        add("gpu_vision", profile, &[GPU_ENCODE], spread);
    }
    add("gpu_vision", Q4, &[GPU_ENCODE], encode.times(2.0));
    // The ANE's mean rate on the towers of more than 0.3e9 parameters, of which two are one.
    let seconds =
        |profile: &str, size: f64| Spread::of(profile, ANE_ENCODE).under(teraflop(PATCHES.0, size));
    let (b, d) = (
        seconds(TOWERS[1].0, TOWERS[1].1),
        seconds(TOWERS[3].0, TOWERS[3].1),
    );
    let mean = Spread {
        value: f64::midpoint(b.value, d.value),
        low: f64::midpoint(b.low, d.low),
        high: f64::midpoint(b.high, d.high),
    };
    let spread = mean.under(teraflop(PATCHES.2, TOWER));
    add("ane_vision", Q4, &[ANE_ENCODE], spread);
    add("ane_vision", FP16, &[ANE_ENCODE], by_line(TOWER, PATCHES.1));

    let prefill = "engines.gpu.stages.query_prefill.per_token_s";
    let ingest = "engines.gpu.stages.ingest.per_token_s";
    add("prefill", FP16, &[ingest, prefill], Spread::of(Q4, prefill));
    let slope = &slopes("gpu")[2];
    add("decode_slope", FP16, &[slope], Spread::of(Q4, slope));
    let decode = Spread::of(FP16, "engines.gpu.stages.decode.per_token_s");
    let fixed = "engines.gpu.stages.query_prefill.fixed_s";
    add("short_prompt", FP16, &[fixed], decode);

    // Attention: layers x heads x head size.
    let large = f64::from(28 * 28 * 128);
    let small = f64::from(24 * 14 * 64);
    for engine in ["cpu", "gpu"] {
        let paths = slopes(engine);
        let spread = Spread::of(SMALL, &paths[2]).times(large / small);
        add(
            "slope",
            LARGE,
            &paths.each_ref().map(String::as_str),
            spread,
        );
        let cv = stages.map(|stage| format!("engines.{engine}.stages.{stage}.cv"));
        let spread = Spread::of(SMALL, &cv[2]);
        add("spread", LARGE, &cv.each_ref().map(String::as_str), spread);
    }
    add("gpu_fixed", LARGE, &[fixed], Spread::of(SMALL, fixed));

    // The weights at the rate of the smaller model, or of the port.
    let decode = "engines.cpu.stages.decode.per_token_s";
    let bytes = |profile: &str, engine: &str, of: &str| {
        Spread::of(profile, &format!("engines.{engine}.stages.decode.{of}")).value
    };
    let weights = bytes(QCS_LARGE, "cpu", "bytes_per_token");
    let ratio = weights / bytes(QCS_SMALL, "cpu", "bytes_per_token");
    let spread = Spread::of(QCS_SMALL, decode).times(ratio);
    add("cpu_decode", QCS_LARGE, &[decode], spread);
    let port = Spread::of("qcs6490/soc", "engines.gpu.port_gbps").times(1e9);
    let gpu_decode = "engines.gpu.stages.decode.per_token_s";
    let spread = port.times(0.95).under(weights);
    add("gpu_decode", QCS_LARGE, &[gpu_decode], spread);
    let kv = bytes(QCS_LARGE, "gpu", "bytes_per_token_context");
    add(
        "gpu_decode",
        QCS_LARGE,
        &[&slopes("gpu")[2]],
        port.under(kv),
    );
    let heads = f64::from(28 * 12 * 128) / small;
    for (engine, stages) in [("cpu", 0..3), ("gpu", 0..2)] {
        let paths = slopes(engine);
        let spread = Spread::of(QCS_SMALL, &paths[0]).times(heads);
        let paths = paths[stages].iter().map(String::as_str);
        add("slope", QCS_LARGE, &paths.collect::<Vec<_>>(), spread);
    }
    all
}

#[test]
fn derived_numbers_are_what_their_parents_give() {
    let mut stale = Vec::new();
    for (origin, (profile, paths, wanted)) in derived() {
        let numbers = numbers(profile);
        for path in paths {
            let number = &numbers[&path];
            assert_eq!(number.origin, origin, "{profile}: {path}");
            let (low, high) = number.interval.unwrap_or((number.value, number.value));
            let near = (number.value / wanted.value - 1.0).abs() <= NEAR;
            // It may be less sure than its parents, not surer.
            let wide = low <= wanted.low * (1.0 + NEAR) && high >= wanted.high * (1.0 - NEAR);
            if !near || !wide {
                stale.push(format!(
                    "{profile}: {path} is {} {low}…{high}, its parents give {:.5e} {:.5e}…{:.5e}",
                    number.value, wanted.value, wanted.low, wanted.high
                ));
            }
        }
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}

/// Origins that name another profile, and of which nothing can be computed.
const NO_FORMULA: [(&str, &str); 7] = [
    ("m4max/qwen3.5-0.8b", "transfer"),
    ("m4max/qwen3.5-2b", "transfer"),
    ("m4max/qwen3.5-4b", "transfer"),
    ("m4max/qwen3.5-9b", "transfer"),
    (FP16, "transfer"),
    (QCS_SMALL, "slope"),
    ("qcs6490/fastvlm-0.5b-int4", "slope"),
];

#[test]
fn every_number_that_names_another_profile_is_computed_here() {
    let known = derived()
        .into_iter()
        .map(|(origin, (profile, ..))| (profile, origin));
    let known: BTreeSet<(&str, &str)> = known.chain(NO_FORMULA).collect();
    let mut seen = 0;
    for soc in ["m4max", "qcs6490", "rk3588"] {
        for entry in std::fs::read_dir(folder().join(soc)).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let profile = format!("{soc}/{stem}");
            for (path, number) in numbers(&profile) {
                let says =
                    [&number.source, &number.note].map(|text| text.clone().unwrap_or_default());
                let names = |text: &String| text.contains("profile") || text.contains("B model");
                if number.kind == OriginKind::Fitted || !says.iter().any(names) {
                    continue;
                }
                seen += 1;
                assert!(
                    known.contains(&(profile.as_str(), number.origin.as_str())),
                    "{profile}: {path} comes from another profile ({}): compute it in `derived`, or list its origin in \
                     `NO_FORMULA`",
                    number.origin
                );
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// A wrong parent shows.
#[test]
fn the_spread_of_a_parent_goes_through_its_formula() {
    let all = Spread {
        value: 2.0,
        low: 1.0,
        high: 4.0,
    };
    let rate = all.under(8.0);
    assert_eq!((rate.value, rate.low, rate.high), (4.0, 2.0, 8.0));
    let back = rate.under(8.0).times(0.5);
    assert_eq!((back.value, back.low, back.high), (1.0, 0.5, 2.0));
}
