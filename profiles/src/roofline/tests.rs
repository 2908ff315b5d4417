//! Laws of the roofline, on chips and models made up here.

mod bandwidth;
mod joined;
mod reach;
mod tower;
mod written;

use std::collections::BTreeMap;

use super::chip::{self, Chip};
use super::efficiency::{Case, Efficiencies, Factors, Family, Phase};
use super::holdout::{self, Holdout, Prediction};
use super::profile;
use super::shape::{self, Dimensions, Shape, bits};
use super::soc;
use super::stage::{self, Placed, Refusal};
use crate::import::{Identity, Place, Row, Spread, Test};

fn shape() -> Shape {
    Shape::dense(
        "toy",
        &Dimensions {
            layers: 10.0,
            hidden: 512.0,
            heads: 8.0,
            kv_heads: 2.0,
            head: 64.0,
            inner: 2048.0,
            vocabulary: 32000.0,
            tied: true,
        },
    )
}

/// An NPU and a CPU behind a memory of `gbps`.
fn toy(key: &str, gbps: f64, gops: f64) -> Chip {
    let text = format!(
        "[[chip]]\nkey = \"{key}\"\nname = \"Toy\"\ncalled = [\"{key}\"]\ncapacity_gb = 16\npeak_gbps = {gbps}\nhost_gflops = 20\nsource = \"made up\"\n\
         [chip.engines.npu]\nkind = \"npu\"\npeak_gops = {{ int8 = {gops}, fp16 = {} }}\nport_gbps = 48\ntypes = [\"w8a8\"]\naddress_limit_gib = 4\n\
         [chip.engines.cpu]\nkind = \"cpu\"\nisa = \"neon\"\ntypes = [\"*\"]\ncores = [{{ count = 4, ghz = 2, int8 = 64, fp16 = 32 }}, {{ count = 4, ghz = 1, int8 = 64, fp16 = 32 }}]\n",
        gops / 2.0
    );
    chip::parse(&text).expect("the chip is right").remove(0)
}

/// Efficiencies that nobody measured.
fn made_up() -> Efficiencies {
    let mut all = Efficiencies::default();
    all.spread.insert("encode by prefill".to_owned(), 1.0);
    for (phase, bounds) in [
        (Phase::Prefill, [1.0, 1.0 / 0.9, 10.0, 0.0]),
        (Phase::Decode, [0.0, 1.2, 0.0, 0.001]),
    ] {
        all.spread.insert(phase.name().to_owned(), 0.3);
        let factors = Factors {
            bounds,
            chips: vec!["a".to_owned(), "b".to_owned()],
            ..Factors::default()
        };
        let family = all.family.entry("rkllm/npu".to_owned()).or_default();
        family.insert(phase.name().to_owned(), factors);
    }
    all
}

#[test]
fn shipped_data_are_read() {
    let chips = chip::parse(include_str!("chips.toml")).expect("the file is right");
    assert!(chips.len() >= 10);
    assert_eq!(chip::shipped().len(), chips.len());
    assert!(shape::known("Qwen3 0.6B").is_some());
    assert!(shape::tower("SmolVLM-256M", 512.0, 512.0).is_some());
    let fitted: Efficiencies =
        toml::from_str(include_str!("efficiency.toml")).expect("the file is right");
    for (family, phases) in &fitted.family {
        for (phase, factors) in phases {
            assert!(
                factors.chips.len() >= 2,
                "{family}, {phase}: one chip explains it"
            );
        }
    }
    assert!(!fitted.from.is_empty() && fitted.spread.values().all(|spread| *spread > 0.0));
}

#[test]
fn parameters_are_those_of_the_published_models() {
    // Totals of the models' cards, in 1e9.
    for (name, billions) in [
        ("Qwen2 0.5B", 0.494),
        ("qwen2.5-1.5b", 1.54),
        ("Qwen3 0.6B", 0.596),
        ("TinyLLAMA 1.1B", 1.10),
        ("Gemma2 2B", 2.61),
        ("Phi3 3.8B", 3.82),
        ("llama3.1-8b", 8.03),
        ("smollm2-1.7b", 1.71),
    ] {
        let shape = shape::known(name).expect(name);
        let all = shape.stored + shape.head * if shape.tied { 1.0 } else { 2.0 };
        assert!((all / 1e9 / billions - 1.0).abs() < 0.01, "{name}: {all}");
    }
}

/// rknn-llm issue 409: a board with half the DRAM width has half the decode, and the same prefill.
#[test]
fn half_the_memory_width_halves_decode_and_leaves_prefill() {
    let shape = shape();
    let (whole, half) = (toy("whole", 34.0, 6000.0), toy("half", 17.0, 6000.0));
    let efficiencies = made_up();
    let time = |chip: &Chip, phase: Phase| {
        let engine = &chip.engines["npu"];
        let placed = Placed::new(chip, "npu", engine, &shape, "w8a8", None).expect("it fits");
        let work = match phase {
            Phase::Prefill => placed.prefill(2048.0, 0.0),
            _ => placed.decode(64.0, 128.0),
        };
        let predicted = efficiencies.predict("rkllm/npu", phase, work, "w8a8");
        predicted.expect("the family is there").secs
    };
    let decode = time(&half, Phase::Decode) / time(&whole, Phase::Decode);
    let prefill = time(&half, Phase::Prefill) / time(&whole, Phase::Prefill);
    // What the CPU does for every layer does not depend on the memory.
    assert!((1.6..2.0).contains(&decode), "{decode}");
    assert!((1.0..1.05).contains(&prefill), "{prefill}");
    // And with the factors that come with the project, on the chip itself.
    let Some(rk3588) = Chip::find(chip::shipped(), "rk3588") else {
        panic!("its datasheet is there");
    };
    let mut narrow = rk3588.clone();
    narrow.peak_gbps /= 2.0;
    let model = shape::known("Qwen3 0.6B").expect("its shape is known");
    let rate = |chip: &Chip| {
        let placed = Placed::new(chip, "npu", &chip.engines["npu"], &model, "w8a8", None);
        let placed = placed.expect("it fits");
        let shipped = Efficiencies::shipped();
        let decode = shipped.predict(
            "rkllm/npu",
            Phase::Decode,
            placed.decode(64.0, 128.0),
            "w8a8",
        );
        let prefill = shipped.predict(
            "rkllm/npu",
            Phase::Prefill,
            placed.prefill(128.0, 0.0),
            "w8a8",
        );
        (decode.expect("fitted").secs, prefill.expect("fitted").secs)
    };
    let (slow, fast) = (rate(&narrow), rate(rk3588));
    assert!((1.4..2.0).contains(&(slow.0 / fast.0)), "{slow:?} {fast:?}");
    assert!(slow.1 / fast.1 < 1.15, "{slow:?} {fast:?}");
}

#[test]
fn what_does_not_go_is_an_answer() {
    let shape = shape();
    let chip = toy("toy", 34.0, 6000.0);
    let npu = &chip.engines["npu"];
    let place = |shape: &Shape, datatype: &str| {
        Placed::new(&chip, "npu", npu, shape, datatype, None).expect_err("it does not go")
    };
    // Every name that is listed is known, and the list is part of what is said of one that is not.
    for name in shape::DATA_TYPES.split([',', ' ', '(', ')']) {
        let name = name.trim();
        let is_name = name.contains(|c: char| c.is_ascii_digit());
        assert!(!is_name || bits(name).is_some(), "{name}");
    }
    let refusal = place(&shape, "foo");
    assert!(
        !matches!(refusal, Refusal::UnknownType { .. }) || refusal.to_string().contains("q4_k_m")
    );
    let refusal = place(&shape, "f16");
    assert!(matches!(refusal, Refusal::DataType { .. }), "{refusal}");
    assert!(refusal.to_string().starts_with("data type not supported"));
    // 4.5 GB with a 4 GiB limit on a board of 16 GB.
    let mut large = shape.clone();
    large.weights_bytes = Some(4.5e9);
    let refusal = place(&large, "w8a8");
    assert!(
        refusal
            .to_string()
            .starts_with("does not fit this engine's address space"),
        "{refusal}"
    );
    let mut huge = shape.clone();
    huge.weights_bytes = Some(17e9);
    let cpu = &chip.engines["cpu"];
    let refusal = Placed::new(&chip, "cpu", cpu, &huge, "q4_0", None).expect_err("too large");
    assert!(
        refusal.to_string().starts_with("does not fit memory"),
        "{refusal}"
    );
    let refusal = Placed::new(&chip, "cpu", cpu, &shape, "q9_x", None).expect_err("no such type");
    assert!(matches!(refusal, Refusal::UnknownType { .. }), "{refusal}");
}

#[test]
fn time_grows_with_work_and_falls_with_peaks() {
    let shape = shape();
    let (slow, fast) = (toy("slow", 20.0, 1000.0), toy("fast", 40.0, 2000.0));
    let place = |chip| -> Vec<f64> {
        let chip: &Chip = chip;
        let placed =
            Placed::new(chip, "npu", &chip.engines["npu"], &shape, "w8a8", None).expect("fits");
        let all = [placed.prefill(64.0, 0.0), placed.decode(8.0, 100.0)];
        all.iter()
            .flat_map(|work| [work.compute, work.stream])
            .collect()
    };
    for (slow, fast) in place(&slow).into_iter().zip(place(&fast)) {
        assert!((slow / fast - 2.0).abs() < 1e-9, "{slow} {fast}");
    }
    let placed =
        Placed::new(&slow, "npu", &slow.engines["npu"], &shape, "w8a8", None).expect("fits");
    assert!(placed.prefill(128.0, 0.0).compute > placed.prefill(64.0, 0.0).compute);
    assert!(placed.prefill(64.0, 1000.0).compute > placed.prefill(64.0, 0.0).compute);
    assert!(placed.decode(8.0, 1000.0).stream > placed.decode(8.0, 0.0).stream);
}

#[test]
fn threads_on_slow_cores_are_waited_for() {
    let chip = toy("toy", 34.0, 6000.0);
    let cpu = &chip.engines["cpu"];
    let peak = |threads| {
        cpu.peak_gops("int8", Some(threads))
            .expect("it has so many")
    };
    assert_eq!(peak(4), 512.0);
    // Eight: twice the threads at the harmonic mean of 128 and 64.
    assert!((peak(8) - 8.0 * 2.0 / (1.0 / 128.0 + 1.0 / 64.0)).abs() < 1e-9);
    assert_eq!(cpu.peak_gops("int8", Some(9)), None);
    assert_eq!(cpu.peak_gops("int8", Some(0)), None);
}

#[test]
fn bits_follow_from_names() {
    for (name, wanted) in [
        ("w8a8", Some(8.0)),
        ("w4a16_g128", Some(4.125)),
        ("Q8_0", Some(8.5)),
        ("f16", Some(16.0)),
        ("w", None),
        ("wa16", None),
        ("w4a16_g0", None),
        ("", None),
    ] {
        assert_eq!(bits(name), wanted, "{name}");
    }
}

/// A row that was measured nowhere.
fn row_of(identity: &[(&str, &str)], test: Test, secs: f64) -> Row {
    Row {
        identity: identity
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect::<Identity>(),
        test,
        secs,
        spread: Spread::Unknown,
        cold_s: None,
        stated: true,
        weights_bytes: None,
        place: Place {
            file: "toy".to_owned(),
            line: 1,
        },
        shown: String::new(),
        block: 1,
    }
}

/// Rows of made-up chips that follow one law exactly: every chip must be predicted from the others.
#[test]
fn a_chip_that_follows_the_law_is_predicted_without_its_rows() {
    let chips: Vec<Chip> = [(20.0, 2000.0), (30.0, 4000.0), (45.0, 8000.0)]
        .iter()
        .enumerate()
        .map(|(at, (gbps, gops))| toy(&format!("toy{at}"), *gbps, *gops))
        .collect();
    let factors = [
        (Phase::Prefill, [1.0, 1.0 / 0.9, 30.0, 0.0]),
        (Phase::Decode, [0.0, 1.3, 0.0, 0.01]),
    ];
    let row = |chip: &Chip, model: &str, test: Test, times: f64| {
        let shape = shape::known(model).expect("it is known");
        let placed = Placed::new(chip, "npu", &chip.engines["npu"], &shape, "w8a8", None);
        let placed = placed.expect("it fits");
        let (work, bounds) = match test {
            Test::Prefill { tokens, .. } => (placed.prefill(tokens as f64, 0.0), factors[0].1),
            _ => (placed.decode(64.0, 128.0), factors[1].1),
        };
        let secs = work
            .terms()
            .iter()
            .zip(bounds)
            .map(|(a, b)| a * b)
            .sum::<f64>();
        row_of(
            &[("soc", &chip.key), ("model", model), ("quant", "w8a8")],
            test,
            secs * times,
        )
    };
    let rows = |times: f64| -> Vec<Row> {
        chips
            .iter()
            .enumerate()
            .flat_map(|(at, chip)| {
                let times = if at == 2 { times } else { 1.0 };
                ["Qwen2 0.5B", "TinyLLAMA 1.1B", "Gemma2 2B"]
                    .into_iter()
                    .flat_map(move |model| {
                        [
                            row(
                                chip,
                                model,
                                Test::Prefill {
                                    tokens: 128,
                                    depth: 0,
                                },
                                times,
                            ),
                            row(
                                chip,
                                model,
                                Test::Decode {
                                    tokens: 64,
                                    depth: 128,
                                },
                                times,
                            ),
                        ]
                    })
            })
            .collect()
    };
    let mut held = Holdout::default();
    holdout::of(&[("rkllm", rows(1.0))], &chips, &mut held);
    assert_eq!(held.predictions.len(), 18, "{:?}", held.left_out);
    for one in &held.predictions {
        assert!(one.error().abs() < 1e-6, "{one:?}");
    }
    // A chip that is half as fast as the law says is off by that, and its own rows do not hide it.
    let mut held = Holdout::default();
    holdout::of(&[("rkllm", rows(2.0))], &chips, &mut held);
    let own: Vec<f64> = held
        .predictions
        .iter()
        .filter(|one| one.chip == "toy2")
        .map(Prediction::error)
        .collect();
    assert_eq!(own.len(), 6);
    for error in own {
        assert!((error - 1.0).abs() < 1e-6, "{error}");
    }
}

#[test]
fn one_chip_explains_nothing() {
    let case = |chip: &str, datatype: &str| Case {
        family: Family {
            key: "x/cpu".to_owned(),
            kind: "cpu".to_owned(),
        },
        chip: chip.to_owned(),
        datatype: datatype.to_owned(),
        phase: Phase::Prefill,
        work: super::Work {
            compute: 1.0,
            stream: 0.1,
            feed: 0.0,
            host: 0.0,
        },
        written: super::efficiency::Written::Once,
        secs: 3.0,
        place: String::new(),
    };
    let alone = Efficiencies::fit(&[case("a", "q4_0"), case("a", "q4_0")]);
    assert!(alone.family.is_empty());
    let both = Efficiencies::fit(&[case("a", "q4_0"), case("b", "q4_0"), case("a", "q8_0")]);
    let factors = &both.family["x/cpu"]["prefill"];
    assert_eq!(factors.compute.keys().collect::<Vec<_>>(), ["q4_0"]);
    assert!(Efficiencies::fit(&[]).family.is_empty());
}

#[test]
fn wrong_datasheets_say_what_is_wrong() {
    for (text, says) in [
        ("", "missing field `chip`"),
        ("chip = 1", "invalid type"),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 0\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\nengines = {}",
            "`capacity_gb` is 0",
        ),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = nan\nhost_gflops = 1\nsource = \"\"\nengines = {}",
            "`peak_gbps` is NaN",
        ),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\n[chip.engines.tpu]\nkind = \"tpu\"\ntypes = []",
            "give cpu, gpu or npu",
        ),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\n[chip.engines.npu]\nkind = \"npu\"\ntypes = [\"w8a8\"]",
            "neither `peak_gops` nor `cores`",
        ),
        (
            "[[chip]]\nkey = \"mine\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\n[chip.engines.gpu]\nkind = \"gpu\"\npeak_gops = { fp16 = 1 }\ntypes = [\"*\"]",
            "is a GPU without `api`",
        ),
        (
            "[[chip]]\nkey = \"mine\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\n[chip.engines.gpu]\nkind = \"gpu\"\napi = \"glide\"\npeak_gops = { fp16 = 1 }\ntypes = [\"*\"]",
            "`api` of engine `gpu` is `glide`: give one of metal, vulkan",
        ),
        (
            "\n[[chip]]\nname = \"x\"\nkey = \"../../x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\nengines = {}",
            "line 4: `../../x` is no key of a chip",
        ),
        (
            "[[chip]]\nkey = \"..\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\nengines = {}",
            "line 2: `..` is no key of a chip",
        ),
        (
            "[[chip]]\nkey = \"a\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\nengines = {}\n[[chip]]\nkey = \"a\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\nengines = {}",
            "line 10: another chip has the key `a` already",
        ),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 1e300\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\nengines = {}",
            "no more than 1e5",
        ),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\n[chip.engines.cpu]\nkind = \"cpu\"\nisa = \"dotpord\"\ntypes = [\"*\"]",
            "`isa` of engine `cpu` is `dotpord`: give one of neon, dotprod",
        ),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\n[chip.engines.cpu]\nkind = \"cpu\"\ntypes = []",
            "takes no `types` of weights",
        ),
        (
            "[[chip]]\nkey = \"x\"\nname = \"x\"\ncapacity_gb = 1\npeak_gbps = 1\nhost_gflops = 1\nsource = \"\"\n[chip.engines.cpu]\nkind = \"cpu\"\ntypes = [\"*\"]\ncores = [{ count = 0, ghz = 1, int8 = 1, fp16 = 1 }]",
            "`engines.cpu.cores.count` is 0",
        ),
    ] {
        let fault = chip::parse(text).expect_err(text);
        assert!(fault.contains(says), "{text}: {fault}");
    }
}
