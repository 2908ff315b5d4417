//! What is written: SoCs and costs as the simulator reads them.

use super::*;

fn costs_of(chip: &Chip, shape: &Shape, datatype: &str, all: &Efficiencies) -> profile::Costs {
    let of = profile::Asked {
        chip,
        key: "m",
        shape,
        datatype,
        runtime: "rkllm",
    };
    profile::costs(&of, &BTreeMap::new(), all)
}

fn said(costs: &profile::Costs) -> String {
    let remarks = costs.remarks.iter();
    let list: Vec<String> = remarks
        .map(|(name, text)| format!("{name}: {text}"))
        .collect();
    list.join("; ")
}

#[test]
fn profiles_of_a_datasheet_are_right() {
    let chip = toy("toy", 34.0, 6000.0);
    let soc = soc::soc(&chip, &BTreeMap::new());
    sim::load::check_soc("toy", &soc).unwrap_or_else(|faults| panic!("{faults}\n{soc}"));
    let costs = costs_of(&chip, &shape(), "w8a8", &made_up());
    assert_eq!(costs.able, 1, "{:?}", costs.remarks);
    sim::load::check_costs("m", &costs.toml)
        .unwrap_or_else(|faults| panic!("{faults}\n{}", costs.toml));
    let none = costs_of(&chip, &shape(), "w8a8", &Efficiencies::default());
    assert_eq!(none.able, 0);
    assert!(
        none.remarks
            .iter()
            .all(|(_, remark)| remark.contains("no prediction"))
    );
    sim::load::check_costs("m", &none.toml)
        .unwrap_or_else(|faults| panic!("{faults}\n{}", none.toml));
}

/// To see it fail, always say that other chips were measured.
#[test]
fn a_chip_that_was_measured_itself_is_not_told_of_others() {
    let costs = costs_of(&toy("a", 34.0, 6000.0), &shape(), "w8a8", &made_up());
    let note = "fitted on measured chips, this one among them";
    assert!(costs.toml.contains(note), "{}", costs.toml);
}

/// To see it fail, let a prefill read what a token reads.
#[test]
fn a_mixture_of_experts_is_read_whole_by_a_prefill() {
    let chip = toy("toy", 34.0, 6000.0);
    let mixture = Shape {
        stored: 4.0 * shape().stored,
        ..shape()
    };
    let costs = costs_of(&chip, &mixture, "w8a8", &made_up());
    let file: toml::Value = toml::from_str(&costs.toml).expect("it is TOML");
    let stages = &file["engines"]["npu"]["stages"];
    let number = |stage: &str, key: &str| stages[stage][key]["value"].as_float().expect("a number");
    let engine = &chip.engines["npu"];
    let placed = Placed::new(&chip, "npu", engine, &mixture, "w8a8", None).expect("fits");
    let streamed = placed.prefill(1.0, 0.0).stream * 34e9;
    let (chunk, token) = (
        number("ingest", "bytes"),
        number("decode", "bytes_per_token"),
    );
    assert!((chunk / streamed - 1.0).abs() < 1e-6, "{chunk} {streamed}");
    assert!(chunk > 2.0 * token, "{chunk} {token}");
}

/// To see it fail, take any NPU for one of the makers that were measured.
#[test]
fn factors_of_another_maker_s_npus_are_said_and_have_a_wider_interval() {
    let of = |key: &str| {
        let chip = toy(key, 34.0, 6000.0);
        let costs = costs_of(&chip, &shape(), "w8a8", &made_up());
        let file: toml::Value = toml::from_str(&costs.toml).expect("it is TOML");
        sim::load::check_costs("m", &costs.toml)
            .unwrap_or_else(|faults| panic!("{faults}\n{}", costs.toml));
        let time = &file["engines"]["npu"]["stages"]["decode"]["per_token_s"];
        let number = |key: &str| time[key].as_float().expect("a number");
        let origin = file["engines"]["npu"]["stages"]["decode"]["origin"]
            .as_str()
            .expect("a key");
        let note = file["origins"][origin]["note"].as_str().expect("text");
        let wide = (number("high") / number("value")).ln();
        (wide, note.to_owned(), said(&costs))
    };
    // Factors of chips `a` and `b`.
    let (wide, note, remarks) = of("a");
    assert!((wide - 0.3).abs() < 1e-3, "{wide}");
    assert!(note.contains("npu: factors of rkllm/npu on a, b") && note.contains("holds 90 %"));
    assert!(!remarks.contains("none of them"), "{remarks}");
    let (wide, note, remarks) = of("toy");
    assert!((wide - 1.0).abs() < 1e-3, "{wide}");
    assert!(note.contains("on a, b, none of them of Toy") && !note.contains("90 %"));
    assert!(
        remarks.contains("on a, b, none of them of Toy"),
        "{remarks}"
    );
    // Of those that come with the project, Rockchip's are the ones that were measured.
    for (key, elsewhere) in [("rk3562", false), ("qcs6490", true)] {
        let chip = Chip::find(chip::shipped(), key).expect(key);
        let all = Efficiencies::shipped();
        let costs = costs_of(chip, &shape(), "w8a8", all);
        let said = costs.toml.contains("origin = \"elsewhere\"");
        assert_eq!(said, elsewhere, "{key}: {:?}", costs.remarks);
    }
}

/// To see it fail, predict nothing of a CPU whose kernels nobody measured, or take another's factors as its own.
#[test]
fn factors_of_another_instruction_set_are_assumed_with_a_wide_interval() {
    let mut all = made_up();
    for (phase, factor) in [("prefill", 5.0), ("decode", 15.0)] {
        let factors = Factors {
            bounds: [0.0, 1.1, 0.0, 0.0],
            compute: BTreeMap::from([("q4_0".to_owned(), factor)]),
            chips: vec!["c".to_owned(), "d".to_owned()],
        };
        let family = all
            .family
            .entry("llama.cpp/cpu+other".to_owned())
            .or_default();
        family.insert(phase.to_owned(), factors);
    }
    let chip = toy("toy", 34.0, 6000.0);
    // Without knowing how far such factors miss there is no prediction.
    let costs = costs_of(&chip, &shape(), "q4_0", &all);
    assert!(
        said(&costs).contains("no CPU with neon has been measured with q4_0"),
        "{}",
        said(&costs)
    );
    all.spread.insert("cpu by another isa".to_owned(), 1.2);
    let costs = costs_of(&chip, &shape(), "q4_0", &all);
    let told = said(&costs);
    assert!(told.contains("cpu: predicted with factors of llama.cpp/cpu+other on c, d, which do not compute by neon"), "{told}");
    sim::load::check_costs("m", &costs.toml)
        .unwrap_or_else(|faults| panic!("{faults}\n{}", costs.toml));
    let file: toml::Value = toml::from_str(&costs.toml).expect("it is TOML");
    let stage = &file["engines"]["cpu"]["stages"]["decode"];
    let number = |key: &str| stage["per_token_s"][key].as_float().expect("a number");
    assert!(((number("high") / number("value")).ln() - 1.2).abs() < 1e-3);
    let origin = stage["origin"].as_str().expect("a key");
    assert_eq!(file["origins"][origin]["kind"].as_str(), Some("assumed"));
    // Its own factors come first, and what an NPU's weights are is no type of llama.cpp.
    let own = all.family["llama.cpp/cpu+other"].clone();
    all.family.insert("llama.cpp/cpu+neon".to_owned(), own);
    let costs = costs_of(&chip, &shape(), "q4_0", &all);
    assert!(
        said(&costs).contains("factors of llama.cpp/cpu+neon on c, d; npu"),
        "{}",
        said(&costs)
    );
    let costs = costs_of(&chip, &shape(), "w4a16", &all);
    assert!(
        said(&costs).contains("llama.cpp has no weights in w4a16"),
        "{}",
        said(&costs)
    );
    // Of those that come with the project: the CPU of the RK3588 by the phones' kernels.
    let chip = Chip::find(chip::shipped(), "rk3588").expect("it is known");
    let costs = costs_of(chip, &shape(), "q4_0", Efficiencies::shipped());
    assert!(
        said(&costs).contains("cpu: predicted with factors of llama.cpp/cpu+i8mm"),
        "{}",
        said(&costs)
    );
}

/// The time that a written stage states, as the simulator evaluates it.
fn written(stage: &toml::Value) -> sim::cost::Cost {
    let of = |key: &str| {
        let value = stage.get(key).map(|quantity| &quantity["value"]);
        value.map_or(0.0, |value| {
            let whole = value.as_integer().map(|whole| whole as f64);
            value.as_float().or(whole).expect("a number")
        })
    };
    let time = sim::cost::Time::Linear {
        fixed: of("fixed_s"),
        per_token: of("per_token_s"),
        per_token_context: of("per_token_context_s"),
    };
    sim::cost::Cost {
        bytes_fixed: of("bytes"),
        bytes_per_token: of("bytes_per_token"),
        bytes_per_token_context: of("bytes_per_token_context"),
        bytes_per_context: of("bytes_per_context"),
        ..sim::cost::Cost::timed(time, of("per_context_s"))
    }
}

/// What is written costs what the bounds say, at every size and depth; a chunk reads the KV before it once.
#[test]
fn written_stages_cost_what_is_predicted() {
    let (all, mut seen) = (Efficiencies::shipped(), 0);
    for chip in chip::shipped() {
        for (model, datatype) in [
            ("qwen3-0.6b", "w8a8"),
            ("tinyllama 1.1b", "w4a16"),
            ("qwen2.5-1.5b", "w8a8"),
            ("llama 3b", "q4_0"),
        ] {
            let shape = shape::known(model).expect(model);
            let costs = costs_of(chip, &shape, datatype, all);
            if costs.able == 0 {
                continue;
            }
            let file: toml::Value = toml::from_str(&costs.toml).expect("it is TOML");
            for (name, engine) in &chip.engines {
                let stages = file["engines"][name].get("stages");
                let Some(stages) = stages.filter(|stages| stages.get("decode").is_some()) else {
                    continue;
                };
                let threads = (engine.kind == "cpu").then_some(4);
                let placed = Placed::new(chip, name, engine, &shape, datatype, threads);
                let placed = placed.expect("it has stages");
                let (runtime, backend) = match engine.kind.as_str() {
                    "npu" => ("rkllm", ""),
                    "gpu" => ("llama.cpp", engine.api.as_deref().unwrap_or("")),
                    _ => ("llama.cpp", ""),
                };
                let family = super::super::rows::family(runtime, backend, engine);
                let other = all.another_isa(&family.key, datatype);
                let family = other.unwrap_or(&family.key);
                let mut check = |stage: &str, phase, work, n: f64, c: f64| {
                    let wanted = all.predict(family, phase, work, datatype);
                    let wanted = wanted.expect("it has stages").secs;
                    let cost = written(&stages[stage]).at(n, c);
                    let off = cost.secs / wanted - 1.0;
                    assert!(
                        off.abs() < 1e-3,
                        "{} {name} {model} {stage} of {n} on {c}: {off}",
                        chip.key
                    );
                    seen += 1;
                };
                for n in [1.0, 64.0, 256.0, 1024.0] {
                    for c in [0.0, 64.0, 1000.0, 4000.0] {
                        check("ingest", Phase::Prefill, placed.prefill(n, c), n, c);
                        check("query_prefill", Phase::Prefill, placed.prefill(n, c), n, c);
                        check("decode", Phase::Decode, placed.decode(n, c), n, c);
                    }
                }
                // A chunk reads each token's KV before it once, however long it is.
                for n in [1.0, 64.0, 777.0] {
                    let bytes = |context: f64| written(&stages["ingest"]).at(n, context).bytes;
                    let read = (bytes(1000.0) - bytes(0.0)) / (1000.0 * shape.kv_bytes());
                    assert!((read - 1.0).abs() < 1e-6, "{n}: {read}");
                }
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

/// A scenario of what a roofline wrote, with a model of these weights.
struct Written {
    soc: String,
    model: String,
    costs: String,
}

impl Written {
    fn of(chip: &Chip, weights: sim::memory::Weights) -> Self {
        let model = format!(
            "name = \"m\"\norigin = \"given\"\nweights_bytes = {:?}\nvision_weights_bytes = {:?}\nkv_bytes_per_token = 1000\nvisual_tokens_per_frame = 100\n\
             system_tokens = 10\nmax_context_tokens = 4096\nframe_stages = [{{ name = \"ingest\", kind = \"ingest\" }}]\nquery_stages = [{{ name = \"query_prefill\", \
             kind = \"query_prefill\" }}, {{ name = \"decode\", kind = \"decode\", after = [\"query_prefill\"] }}]\n[origins.given]\nkind = \"assumed\"\nnote = \"made up\"\n",
            weights.language, weights.tower
        );
        Self {
            soc: soc::soc(chip, &BTreeMap::new()),
            model,
            costs: costs_of(chip, &shape(), "w8a8", &made_up()).toml,
        }
    }

    /// What the simulator says of it, as `crossinfer check` does.
    fn checked(&self) -> Vec<String> {
        let scenario = "title = \"t\"\nsoc = \"toy\"\nmodel = \"m\"\nseed = 1\n[run]\nhorizon_s = 100\n[context]\nkeep = { window = { frames = 6 } }\nbinding = \"arrived\"\n\
                        [[streams]]\nname = \"door\"\n[streams.frames]\nclock = { periodic = { rate_hz = 0.1 } }\n\
                        [streams.queries]\narrivals = { poisson = { rate_hz = 0.05 } }\nprompt_tokens = 24\noutput_tokens = 8\n";
        let inputs = sim::load::Inputs::read("s.toml", scenario, self, self);
        match inputs.and_then(|inputs| inputs.world()) {
            Ok(_) => Vec::new(),
            Err(faults) => faults.list.into_iter().map(|f| f.message).collect(),
        }
    }
}

fn source(name: &str, text: &str) -> sim::load::Source {
    let (name, text) = (name.to_owned(), text.to_owned());
    sim::load::Source { name, text }
}

impl sim::load::Library for Written {
    fn soc(&self, _: &str) -> Option<sim::load::Source> {
        Some(source("soc.toml", &self.soc))
    }
    fn model(&self, _: &str) -> Option<sim::load::Source> {
        Some(source("model.toml", &self.model))
    }
    fn costs(&self, _: &str, _: &str) -> Option<sim::load::Source> {
        Some(source("costs.toml", &self.costs))
    }
    fn names(&self, _: sim::load::Kind) -> Vec<String> {
        Vec::new()
    }
}

impl sim::load::Files for Written {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("no {path}"))
    }
}

/// A roofline and `check` count alike and say so in the same words. To see it fail, count either by a rule
/// of its own.
#[test]
fn what_does_not_fit_is_told_as_check_tells_it() {
    let chip = toy("toy", 34.0, 6000.0);
    let limit = 4.0 * 1_073_741_824.0;
    // The toy's tower has no stage here, so no engine's addresses hold it.
    for (language, tower) in [
        (4e9, 9.4e9),
        (4e9, 10.4e9),
        (limit, 0.0),
        (limit + 1.0, 0.0),
    ] {
        let weights = sim::memory::Weights { language, tower };
        let npu = &chip.engines["npu"];
        let fits = stage::fits(&chip, "npu", npu, weights, [true, false]);
        let told = Written::of(&chip, weights).checked();
        match fits {
            Ok(()) => assert_eq!(told, Vec::<String>::new()),
            Err(refusal) => assert_eq!(told, [format!("model `m` on `toy` {refusal}")]),
        }
    }
}
