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
            .all(|(_, remark)| remark.contains("fewer than two chips"))
    );
    sim::load::check_costs("m", &none.toml)
        .unwrap_or_else(|faults| panic!("{faults}\n{}", none.toml));
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
                let mut check = |stage: &str, phase, work, n: f64, c: f64| {
                    let wanted = all.predict(&family.key, phase, work, datatype);
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
