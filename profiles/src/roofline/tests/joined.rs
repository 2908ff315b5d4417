//! Measured costs beside derived ones.

use super::super::joined::Measured;
use super::super::profile::Asked;
use super::*;

/// Costs of a CPU as an importer writes them: by key, which a test changes.
fn measured(changed: &[(&str, &str)]) -> String {
    let mut text = "# What was measured, as far as the files say:\n\
         # backend = CPU; build = abc (1); engine = cpu; model = toy 54M Q8_0; params = 54.39 M; section = BASE; threads = 2\n\
         soc = \"toy\"\nmodel = \"m\"\n\n\
         [engines.cpu.stages.ingest]\nper_token_s = { value = 0.01, origin = \"cpu_prefill\" }\nmeasured_tokens = [512, 512]\nmeasured_context = [0, 0]\n\n\
         [engines.cpu.stages.query_prefill]\nper_token_s = { value = 0.01, origin = \"cpu_prefill\" }\nmeasured_tokens = [512, 512]\nmeasured_context = [0, 0]\n\n\
         [engines.cpu.stages.decode]\nper_token_s = { value = 0.05, origin = \"bytes\" }\nmeasured_tokens = [128, 128]\nmeasured_context = [0, 128]\nbytes_per_token = { value = 5e7, origin = \"bytes\" }\n\n\
         [origins.cpu_prefill]\nkind = \"published\"\nsource = \"a table\"\n\n\
         [origins.bytes]\nkind = \"published\"\nsource = \"another table\"\n"
        .to_owned();
    for (from, to) in changed {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

fn asked<'a>(chip: &'a Chip, shape: &'a Shape) -> Asked<'a> {
    Asked {
        chip,
        key: "m",
        shape,
        datatype: "q8_0",
        runtime: "rkllm",
    }
}

/// A chip whose NPU takes what the CPU does.
fn board() -> Chip {
    let mut chip = toy("toy", 34.0, 6000.0);
    for engine in chip.engines.values_mut() {
        engine.types = vec!["*".to_owned()];
    }
    chip
}

fn join(texts: &[String]) -> Result<(String, Measured), Vec<String>> {
    let (chip, shape) = (board(), shape());
    let of = asked(&chip, &shape);
    let names = ["a.toml", "b.toml"];
    let files: Vec<(String, String)> = names
        .iter()
        .zip(texts)
        .map(|(name, text)| ((*name).to_owned(), text.clone()))
        .collect();
    let measured = Measured::read(&files, &of, chip::shipped())?;
    let derived = profile::costs(&of, measured.threads(), &made_up());
    let joined = measured.join(derived, &of)?;
    sim::load::check_costs("m", &joined.toml)
        .unwrap_or_else(|faults| panic!("{faults}\n{}", joined.toml));
    assert_eq!(joined.able, 2, "{:?}", joined.remarks);
    Ok((joined.toml, measured))
}

/// To see it fail, let what is derived win, or take a measured file's origins under the names of the derived ones.
#[test]
fn what_was_measured_wins_and_each_number_keeps_its_origin() {
    let (text, measured) = join(&[measured(&[])]).expect("they are of one thing");
    let file: toml::Value = toml::from_str(&text).expect("it is TOML");
    let origin = |engine: &str, stage: &str, key: &str| {
        let table = &file["engines"][engine]["stages"][stage];
        let own = table[key].get("origin").or(table.get("origin"));
        let key = own.and_then(toml::Value::as_str).expect("an origin");
        let origin = &file["origins"][key];
        let of = |name: &str| origin.get(name).and_then(toml::Value::as_str).unwrap_or("");
        (of("kind").to_owned(), of("source").to_owned())
    };
    let table = |name: &str| ("published".to_owned(), name.to_owned());
    assert_eq!(origin("cpu", "ingest", "per_token_s"), table("a table"));
    assert_eq!(
        origin("cpu", "decode", "per_token_s"),
        table("another table")
    );
    assert_eq!(
        origin("cpu", "decode", "bytes_per_token"),
        table("another table")
    );
    for (engine, stage, key) in [
        ("cpu", "decode", "bytes_per_token_context"),
        ("cpu", "ingest", "bytes"),
        ("npu", "decode", "bytes_per_token"),
    ] {
        assert_eq!(
            origin(engine, stage, key).0,
            "derived",
            "{engine} {stage} {key}"
        );
    }
    assert_eq!(
        file["engines"]["cpu"]["stages"]["decode"]["per_token_s"]["value"].as_float(),
        Some(0.05)
    );
    // Nobody measured an NPU of this maker.
    assert_eq!(origin("npu", "decode", "per_token_s").0, "assumed");
    // The lane is what the measurement ran on.
    assert_eq!(measured.threads().get("cpu"), Some(&2));
    let soc = soc::soc(&board(), measured.threads());
    assert!(
        soc.contains("cores = { value = 2, origin = \"threads\" }"),
        "{soc}"
    );
    sim::load::check_soc("toy", &soc).unwrap_or_else(|faults| panic!("{faults}\n{soc}"));
}

/// To see it fail, let what is derived win.
#[test]
fn what_was_measured_takes_the_place_of_what_is_derived() {
    let text = measured(&[
        ("engines.cpu", "engines.npu"),
        ("engine = cpu", "engine = npu; runtime = RKLLM"),
        ("backend = CPU; ", ""),
    ]);
    let (chip, shape) = (board(), shape());
    let of = asked(&chip, &shape);
    let costs = |files: &[(String, String)]| {
        let measured = Measured::read(files, &of, chip::shipped()).expect("of one thing");
        let derived = profile::costs(&of, measured.threads(), &made_up());
        measured.join(derived, &of).expect("no conflict")
    };
    let decode = |costs: &profile::Costs| {
        let file: toml::Value = toml::from_str(&costs.toml).expect("it is TOML");
        let time = &file["engines"]["npu"]["stages"]["decode"]["per_token_s"]["value"];
        time.as_float().expect("a number")
    };
    let derived = decode(&costs(&[]));
    assert!((derived - 0.05).abs() > 0.01, "{derived}");
    let joined = costs(&[("a.toml".to_owned(), text.clone())]);
    assert_eq!(decode(&joined), 0.05);
    let remark = joined.remarks.iter().find(|(name, _)| name == "npu");
    let remark = remark.map_or("", |(_, text)| text.as_str());
    assert!(
        remark.starts_with(
            "decode, ingest, query_prefill measured (a.toml); no row is at another context"
        ),
        "{remark}"
    );
    assert!(remark.ends_with("; export, import derived"), "{remark}");
    // What a longer context adds nobody measured; rows at depths tell it, even if that is nothing.
    let growth = |text: String| {
        let joined = costs(&[("a.toml".to_owned(), text)]);
        let file: toml::Value = toml::from_str(&joined.toml).expect("it is TOML");
        let stages = &file["engines"]["npu"]["stages"];
        ["ingest", "decode"].map(|stage| {
            let growth = stages[stage].get("per_token_context_s");
            growth.map(|growth| {
                file["origins"][growth["origin"].as_str().expect("a key")]["kind"].clone()
            })
        })
    };
    let assumed = Some(toml::Value::from("assumed"));
    assert_eq!(growth(text.clone()), [assumed.clone(), assumed.clone()]);
    let deep = text.replace(
        "measured_context = [0, 128]",
        "measured_context = [0, 4224]",
    );
    assert_eq!(growth(deep), [assumed.clone(), None]);
    let sizes = text.replace(
        "measured_tokens = [512, 512]",
        "measured_tokens = [128, 512]",
    );
    assert_eq!(growth(sizes), [None, assumed]);
    // What is derived has the factors of one runtime.
    let other = text.replace("RKLLM", "QNN");
    let faults = Measured::read(&[("a.toml".to_owned(), other)], &of, chip::shipped());
    let faults = faults.expect_err("another runtime");
    assert!(faults[0].contains("measured with `QNN`, and `--runtime` is `rkllm`"));
}

/// To see it fail, leave one of the checks out.
#[test]
fn what_was_measured_of_another_thing_is_refused() {
    for (change, said) in [
        (
            ("soc = \"toy\"", "soc = \"other\""),
            "`crossinfer import … --soc toy`",
        ),
        (("model = \"m\"", "model = \"n\""), "the model is `m`"),
        (("engines.cpu", "engines.dsp"), "has cpu, npu"),
        (
            ("threads = 2", "threads = 2; soc = RK3588"),
            "which is rk3588, not toy",
        ),
        (
            ("section = BASE", "section = at 1.5 GHz"),
            "the datasheet's cores run at 2000, 1000",
        ),
        (("threads = 2", "threads = 16"), "the datasheet has 8 cores"),
        (
            ("backend = CPU", "backend = Vulkan"),
            "measured with `vulkan`",
        ),
        (
            ("54M Q8_0", "54M Q4_K - Medium"),
            "measured with weights in q4_k_m, and these are q8_0",
        ),
        (
            ("params = 54.39 M", "params = 1.1 B"),
            "1.100 billion parameters",
        ),
        (
            ("source = \"a table\"", "note = \"Roofline of it\""),
            "is a roofline",
        ),
        (("per_token_s", "per_tokens"), "unknown field"),
        (
            ("soc = \"toy\"", "# First runs only, before\nsoc = \"toy\""),
            "without `-cold`",
        ),
    ] {
        let faults = join(&[measured(&[change])]).expect_err(said);
        assert!(
            faults.iter().any(|fault| fault.contains(said)),
            "{said}: {faults:?}"
        );
        assert!(
            faults.iter().all(|fault| fault.starts_with("`a.toml`")),
            "{faults:?}"
        );
    }
}

/// To see it fail, hold a tower to the language model's weights.
#[test]
fn a_tower_was_measured_beside_whatever_language_model() {
    let (chip, shape) = (board(), shape());
    let of = asked(&chip, &shape);
    let tower = "# What was measured, as far as the files say:\n\
         # engine = npu; model = other; params = 3 B; quant = w4a16; runtime = RKLLM\n\
         soc = \"toy\"\nmodel = \"m\"\n\n\
         [engines.npu.stages.encode]\nfixed_s = { value = 0.3, origin = \"encode\" }\n\n\
         [origins.encode]\nkind = \"published\"\nsource = \"a table\"\n";
    let files = [("t.toml".to_owned(), tower.to_owned())];
    let measured = Measured::read(&files, &of, chip::shipped());
    assert!(measured.is_ok_and(|measured| measured.remarks.is_empty()));
}

/// To see it fail, compare nothing between files.
#[test]
fn files_of_different_things_are_not_put_together() {
    for (a, b, said) in [
        (
            "threads = 2",
            "threads = 4",
            "`threads` is 2 in `a.toml` and 4 in `b.toml`",
        ),
        ("abc (1)", "def (2)", "`build` is abc (1)"),
        ("section = BASE", "section = Rock 5B", ""),
    ] {
        let own = [measured(&[]), measured(&[(a, b)])];
        match join(&own) {
            Err(faults) => assert!(faults[0].contains(said) && !said.is_empty(), "{faults:?}"),
            // One of the two names no board.
            Ok(_) => assert!(said.is_empty(), "{said}"),
        }
    }
    let board = |name: &str| measured(&[("section = BASE", name)]);
    let faults = join(&[board("section = Rock 5B"), board("section = Orange Pi 5")]);
    let faults = faults.expect_err("two boards");
    assert!(faults[0].contains("board is rock 5b"), "{faults:?}");
}

/// To see it fail, take the first of two values, or their mean.
#[test]
fn two_values_for_one_thing_are_shown_and_neither_is_taken() {
    assert!(
        join(&[measured(&[]), measured(&[])]).is_ok(),
        "the same twice is one"
    );
    let other = measured(&[("value = 0.05", "value = 0.07")]);
    let conflicts = join(&[measured(&[]), other]).expect_err("they contradict");
    assert_eq!(
        conflicts,
        ["engine `cpu`, decode: `per_token_s` is 0.05 in a.toml and 0.07 in b.toml"]
    );
    let other = measured(&[]);
    let (head, _) = other
        .split_once("[engines.cpu.stages.ingest]")
        .expect("a stage");
    let none = format!("{head}[engines.cpu.unsupported]\ndecode = \"it hangs\"\n");
    let conflicts = join(&[measured(&[]), none]).expect_err("they contradict");
    assert!(
        conflicts[0].contains("unsupported in b.toml (it hangs)"),
        "{conflicts:?}"
    );
}

/// What is asked of one engine leaves the others as they are.
#[test]
fn a_vision_tower_runs_where_the_language_model_does_not() {
    let chip = toy("toy", 34.0, 6000.0);
    let mut shape = shape();
    shape.vision = shape::tower("qwen2-vl-2b", 448.0, 448.0);
    let of = asked(&chip, &shape);
    let files = [("a.toml".to_owned(), measured(&[]))];
    let measured = Measured::read(&files, &of, chip::shipped()).expect("of one thing");
    let derived = profile::costs(&of, measured.threads(), &made_up());
    let joined = measured.join(derived, &of).expect("no conflict");
    let file: toml::Value = toml::from_str(&joined.toml).expect("it is TOML");
    assert!(file["engines"]["npu"]["stages"].get("encode").is_some());
    let why = file["engines"]["npu"]["unsupported"]["decode"].as_str();
    assert!(why.is_some_and(|why| why.contains("data type not supported")));
    assert_eq!(joined.able, 1);
    sim::load::check_costs("m", &joined.toml)
        .unwrap_or_else(|faults| panic!("{faults}\n{}", joined.toml));
}

/// To see it fail, let no heading name a board.
#[test]
fn a_heading_names_the_board() {
    let under = |heading: &str| {
        join(&[measured(&[(
            "section = BASE",
            &format!("section = {heading}"),
        )])])
    };
    let faults = under("RK3576 board").map(|_| ()).expect_err("another chip");
    assert!(faults[0].contains("measured on `rk3576`"), "{faults:?}");
    for (heading, told) in [
        ("Raspberry Pi 5", true),
        ("governor powersave", true),
        ("Toy, two cores", false),
    ] {
        let (_, measured) = under(heading).expect("it is no known other");
        let says = |remark: &String| remark.contains(&format!("under `{heading}`"));
        assert_eq!(
            measured.remarks.iter().any(says),
            told,
            "{heading}: {:?}",
            measured.remarks
        );
    }
}

/// To see it fail, compare parameters and sizes alone.
#[test]
fn another_architecture_of_the_same_size_does_not_join() {
    let chip = board();
    let read = |architecture: Option<&str>, model_type: Option<&str>| {
        let shape = Shape {
            architecture: architecture.map(str::to_owned),
            model_type: model_type.map(str::to_owned),
            ..shape()
        };
        let files = [("a.toml".to_owned(), measured(&[]))];
        Measured::read(&files, &asked(&chip, &shape), chip::shipped())
            .map(|measured| measured.remarks.join("; "))
            .map_err(|faults| faults.join("; "))
    };
    assert!(read(Some("toy"), Some("other")).is_ok_and(|said| !said.contains("architecture")));
    let fault = read(Some("qwen2"), None).expect_err("another");
    assert!(
        fault.contains("of architecture `toy`, and the GGUF file's is `qwen2`"),
        "{fault}"
    );
    assert!(read(None, Some("toy_text")).is_ok_and(|said| !said.contains("architecture")));
    let doubt = read(None, Some("qwen2")).expect("told, not refused");
    assert!(doubt.contains("and `model_type` is `qwen2`"), "{doubt}");
}

/// To see it fail, take any number.
#[test]
fn what_no_measurement_has_is_refused() {
    let decode = "per_token_s = { value = 0.05,";
    for (number, says) in [
        ("nan", "`per_token_s` is NaN"),
        ("inf", "`per_token_s` is inf"),
        ("-0.076", "`per_token_s` is -0.076"),
        ("0", "it takes 0 s"),
        ("1e-300", "it takes"),
        ("1e300", "`per_token_s` is 1"),
    ] {
        let to = format!("per_token_s = {{ value = {number},");
        let faults = join(&[measured(&[(decode, &to)])]).expect_err(number);
        assert!(
            faults[0].contains("engine `cpu`, decode") && faults[0].contains(says),
            "{number}: {faults:?}"
        );
    }
}
