//! From what people already have to a plan: the walk-through of docs/plan.md, with inputs made up here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("plan")
        .join(name);
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder can be made");
    path
}

fn crossinfer(here: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments)
        .current_dir(here)
        .env("NO_COLOR", "1")
        .output()
        .expect("the command runs")
}

/// What a command that succeeds prints to either stream.
fn done(here: &Path, arguments: &[&str]) -> (String, String) {
    let output = crossinfer(here, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let error = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    (text(&output.stdout), error)
}

/// Words of a text whose lines are broken anywhere.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A GGUF file that ends after its header: a decoder of the shape in `CONFIG`, in `Q4_0`.
fn gguf() -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    let numbers = [
        ("qwen2.block_count", 12),
        ("qwen2.embedding_length", 512),
        ("qwen2.attention.head_count", 8),
        ("qwen2.attention.head_count_kv", 2),
        ("qwen2.feed_forward_length", 2048),
        ("qwen2.context_length", 8192),
        ("qwen2.vocab_size", 32000),
        ("general.file_type", 2),
    ];
    // Blocks of 32 weights, 18 bytes each: Q4_0 is type 2.
    let (attention, kv, inner) = ([512, 512], [512, 128], [512, 2048]);
    let mut tensors = vec![("token_embd.weight".to_owned(), [512, 32000])];
    for layer in 0..12 {
        for (name, shape) in [
            ("attn_q", attention),
            ("attn_output", attention),
            ("attn_k", kv),
            ("attn_v", kv),
            ("ffn_gate", inner),
            ("ffn_up", inner),
            ("ffn_down", [2048, 512]),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), shape));
        }
    }
    out.extend(3_u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((numbers.len() as u64 + 2).to_le_bytes());
    for (key, value) in [("general.architecture", "qwen2"), ("general.name", "Porch")] {
        text(&mut out, key);
        out.extend(8_u32.to_le_bytes());
        text(&mut out, value);
    }
    for (key, value) in numbers {
        text(&mut out, key);
        out.extend(4_u32.to_le_bytes());
        out.extend((value as u32).to_le_bytes());
    }
    let mut offset = 0_u64;
    for (name, shape) in tensors {
        text(&mut out, &name);
        out.extend(2_u32.to_le_bytes());
        for size in shape {
            out.extend((size as u64).to_le_bytes());
        }
        out.extend(2_u32.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += shape[0] as u64 * shape[1] as u64 / 32 * 18;
    }
    out
}

const CONFIG: &str = r#"{
  "architectures": ["Qwen2VLForConditionalGeneration"],
  "model_type": "qwen2_vl",
  "hidden_size": 512,
  "intermediate_size": 2048,
  "num_hidden_layers": 12,
  "num_attention_heads": 8,
  "num_key_value_heads": 2,
  "vocab_size": 32000,
  "max_position_embeddings": 8192,
  "tie_word_embeddings": true,
  "vision_config": {
    "depth": 8,
    "embed_dim": 384,
    "hidden_size": 512,
    "mlp_ratio": 4,
    "num_heads": 6,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2
  }
}
"#;

const POST: &str = "\
Got my board today! Plugged in, 4 big cores:

| model                          |       size |     params | backend    | threads |          test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | ------: | ------------: | -------------------: |
| qwen2 0.06B Q4_0               |  32.70 MiB |    60.92 M | CPU        |       4 |         pp512 |        410.00 ± 2.00 |
| qwen2 0.06B Q4_0               |  32.70 MiB |    60.92 M | CPU        |       4 |         tg128 |         61.00 ± 0.30 |
| qwen2 0.06B Q4_0               |  32.70 MiB |    60.92 M | CPU        |       4 | pp512 @ d4096 |        250.00 ± 3.00 |
| qwen2 0.06B Q4_0               |  32.70 MiB |    60.92 M | CPU        |       4 | tg128 @ d4096 |         40.00 ± 0.40 |

build: 933414c0b (7293)
";

const BOARD: &str = r#"[[chip]]
key = "porch"
name = "Rockchip Porch"
capacity_gb = 4
peak_gbps = 17
host_gflops = 20
source = "made up"

[chip.engines.cpu]
kind = "cpu"
isa = "dotprod"
types = ["*"]
cores = [{ count = 4, ghz = 2.0, int8 = 64, fp16 = 32 }, { count = 4, ghz = 1.8, int8 = 32, fp16 = 16 }]

[chip.engines.npu]
kind = "npu"
peak_gops = { int8 = 3000, fp16 = 1500 }
port_gbps = 24
units = 2
types = ["w8a8"]
"#;

const SCENARIO: &str = r#"title = "A porch"
notes = ["Made up"]
soc = "porch"
model = "porch-vlm"
seed = 1
replications = 10

[run]
horizon_s = 120
warm_up_s = 20

[context]
keep = { window = { frames = 8 } }
binding = "published"

[[streams]]
name = "door"

[streams.frames]
clock = { periodic = { rate_hz = 0.5 } }

[streams.queries]
arrivals = { poisson = { rate_hz = 0.05 } }
prompt_tokens = 24
output_tokens = 24
max_output_tokens = 24
"#;

/// The four files that an engineer has, and the scenario.
fn given(name: &str) -> PathBuf {
    let here = folder(name);
    fs::write(here.join("model.gguf"), gguf()).expect("a file can be written");
    for (file, text) in [
        ("config.json", CONFIG),
        ("post.md", POST),
        ("board.toml", BOARD),
        ("porch.toml", SCENARIO),
    ] {
        fs::write(here.join(file), text).expect("a file can be written");
    }
    here
}

const IMPORT: [&str; 9] = [
    "import",
    "llama-bench",
    "post.md",
    "--soc",
    "porch",
    "--model",
    "porch-vlm",
    "--out",
    "measured",
];

const JOIN: [&str; 13] = [
    "roofline",
    "porch",
    "config.json",
    "model.gguf",
    "--chips",
    "board.toml",
    "--key",
    "porch-vlm",
    "--frame",
    "224x224",
    "--measured=measured/porch/porch-vlm.toml",
    "--out",
    "profiles",
];

/// To see it fail, take derived costs where there are measured ones.
#[test]
fn a_posted_table_a_gguf_file_a_config_and_a_datasheet_become_a_plan() {
    let here = given("walk");
    done(&here, &IMPORT);
    let (_, said) = done(&here, &JOIN);
    let said = flat(&said);
    assert!(
        said.contains("cpu: decode, ingest, query_prefill measured (measured/porch/porch-vlm.toml); export, import derived"),
        "{said}"
    );
    assert!(
        said.contains("npu: data type not supported: npu takes w8a8, not q4_0"),
        "{said}"
    );
    let costs = fs::read_to_string(here.join("profiles/porch/porch-vlm.toml"));
    let costs = costs.expect("it is written");
    let file: toml::Value = toml::from_str(&costs).expect("it is TOML");
    let stage = |engine: &str, stage: &str| &file["engines"][engine]["stages"][stage];
    let kind = |table: &toml::Value, key: &str| {
        let own = table[key].get("origin").or(table.get("origin"));
        let origin = own.and_then(toml::Value::as_str).expect("an origin");
        file["origins"][origin]["kind"].as_str().map(str::to_owned)
    };
    // The CPU as measured: 512 tokens at 410 t/s, or at 250 behind 4096; the tower on the NPU as derived.
    let ingest = stage("cpu", "ingest");
    assert_eq!(kind(ingest, "per_token_s").as_deref(), Some("fitted"));
    let number = |table: &toml::Value, key: &str| table[key]["value"].as_float().expect("a number");
    let at = |depth: f64| {
        512.0 * number(ingest, "per_token_s")
            + number(ingest, "per_token_context_s") * (512.0 * depth + 512.0 * 511.0 / 2.0)
    };
    assert!((at(0.0) - 512.0 / 410.0).abs() < 0.01 && (at(4096.0) - 512.0 / 250.0).abs() < 0.01);
    assert_eq!(
        kind(stage("npu", "encode"), "fixed_s").as_deref(),
        Some("derived")
    );
    assert_eq!(kind(ingest, "bytes_per_token").as_deref(), Some("derived"));
    done(
        &here,
        &[
            "check",
            "porch.toml",
            "profiles/porch/porch-vlm.toml",
            "profiles/porch/soc.toml",
            "profiles/models/porch-vlm.toml",
        ],
    );

    let model = fs::read_to_string(here.join("profiles/models/porch-vlm.toml"));
    let model = model.expect("it was written");
    assert!(
        model.contains("the weights' bytes of `model.gguf`") && !model.contains("--weight-bits"),
        "{model}"
    );

    // How many streams, what limits it, how sure it is; and the edge is real.
    let plan = [
        "plan",
        "porch.toml",
        "--slo",
        "ttft_p95 <= 0.4s",
        "--format",
        "json",
        "--edge",
        "edge.toml",
    ];
    let (text, _) = done(&here, &plan);
    let plan: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let plan = &plan["plans"][0];
    let (meets, misses) = (plan["meets"].as_f64(), plan["misses"].as_f64());
    let (meets, misses) = meets.zip(misses).expect("an edge");
    assert!(1.0 <= meets && meets < misses, "{plan:#}");
    assert!(
        plan["limits"]["because"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    );
    assert_eq!(plan["stage_times"]["measured"], true);
    assert!(
        plan["stage_times"]["with_interval"].as_u64() > Some(0),
        "{plan:#}"
    );
    let p95 = |file: &str| {
        let (text, _) = done(&here, &["run", file, "--format", "json"]);
        let run: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        run["ttft_s"]["p95"]["value"].as_f64().expect("a time")
    };
    assert!(p95("edge.toml") <= 0.4);
    let beyond = plan["scenarios"]["misses"].as_str().expect("a scenario");
    fs::write(here.join("beyond.toml"), beyond).expect("a file can be written");
    assert!(p95("beyond.toml") > 0.4);
}

/// To see it fail, put what was measured of something else beside what is derived.
#[test]
fn what_does_not_belong_together_is_refused() {
    let here = given("apart");
    done(&here, &IMPORT);
    let refused = |arguments: &[&str], status: i32, said: &str| {
        let output = crossinfer(&here, arguments);
        let error = flat(&String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{said}: {error}");
        assert!(error.contains(said), "{said}: {error}");
        assert!(!here.join("profiles").exists(), "{said}");
    };
    // Another quantisation, another model, another board.
    let other = [&JOIN[..], &["--type", "q8_0"]].concat();
    refused(
        &other,
        2,
        "`--type q8_0`, and the weights of `model.gguf` are q4_0",
    );
    // Of a config.json alone they are what is asked.
    let shape: Vec<&str> = other
        .iter()
        .filter(|a| **a != "model.gguf")
        .copied()
        .collect();
    refused(
        &shape,
        2,
        "measured with weights in q4_0, and these are q8_0",
    );
    // A key is the name of a file, and no path.
    for key in ["../../esc", "../x", "", "A b"] {
        let other: Vec<&str> = JOIN
            .iter()
            .map(|a| if *a == "porch-vlm" { key } else { a })
            .collect();
        refused(&other, 2, &format!("`--key {key}` is no key of a model"));
    }
    let small = CONFIG.replace("\"num_hidden_layers\": 12", "\"num_hidden_layers\": 8");
    fs::write(here.join("small.json"), small).expect("a file can be written");
    let other: Vec<&str> = JOIN
        .iter()
        .map(|a| if *a == "config.json" { "small.json" } else { a })
        .collect();
    refused(
        &other,
        2,
        "layers 8 in the config.json and 12 in the GGUF file",
    );
    let chips = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles/src/roofline/chips.toml");
    let chips = chips.to_str().expect("it is text");
    let other: Vec<&str> = JOIN
        .iter()
        .map(|a| match *a {
            "porch" => "rk3588",
            "board.toml" => chips,
            a => a,
        })
        .collect();
    refused(&other, 2, "measured on `porch`, and the chip is `rk3588`");
    // A second post of the same things, slower.
    let slower = POST.replace("61.00", "51.00");
    fs::write(here.join("slower.md"), slower).expect("a file can be written");
    let again: Vec<&str> = IMPORT
        .iter()
        .map(|a| match *a {
            "post.md" => "slower.md",
            "measured" => "slower",
            a => a,
        })
        .collect();
    done(&here, &again);
    let both = [&JOIN[..], &["--measured", "slower/porch/porch-vlm.toml"]].concat();
    refused(
        &both,
        1,
        "`per_token_s` is 0.01626 in measured/porch/porch-vlm.toml and 0.0195242 in slower/porch/porch-vlm.toml",
    );
}

/// To see it fail, say nothing of stages that run outside what was measured.
#[test]
fn contexts_beyond_what_was_measured_are_said_with_what_comes_from_there() {
    let here = given("near");
    // Two lengths that lie near each other tell a steep slope, and a window reaches far beyond them.
    fs::write(here.join("post.md"), POST.replace("d4096", "d256")).expect("a file can be written");
    let long = SCENARIO.replace("frames = 8", "frames = 40");
    fs::write(here.join("porch.toml"), long).expect("a file can be written");
    done(&here, &IMPORT);
    done(&here, &JOIN);
    let asked = ["plan", "porch.toml", "--slo", "ttft_p95 <= 8s", "--to", "1"];
    let (text, _) = done(&here, &asked);
    let text = flat(&text);
    let said = "decode@cpu ran outside what was measured (128 to 128 tokens on contexts of 0 to 384), and no interval says how far off its times are there; contexts reach 2560 tokens of frames, where ";
    assert!(text.contains(said), "{text}");
    // By the line through 61 and 40 t/s, a token behind 2560 takes 16.7 + 0.0336·2560 ms: of them 0.0336·2176 beyond.
    let (_, share) = text.split_once(said).expect("it is there");
    let share: f64 = share
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a number");
    assert!((65.0..=76.0).contains(&share), "{share}");

    // Without a depth in the table what a longer context adds is derived; of a CPU that is not predicted nothing tells.
    let one_depth: Vec<&str> = POST
        .lines()
        .filter(|line| !line.contains("d4096"))
        .collect();
    fs::write(here.join("post.md"), one_depth.join("\n")).expect("a file can be written");
    done(&here, &[&IMPORT[..], &["--force"]].concat());
    let join = [&JOIN[..], &["--force"]].concat();
    let (_, said) = done(&here, &join);
    assert!(
        flat(&said).contains("what a longer one adds is derived"),
        "{said}"
    );
    let (text, _) = done(&here, &asked);
    assert!(
        flat(&text).contains("is what a straight line adds beyond that"),
        "{text}"
    );
    let unknown = BOARD.replace("isa = \"dotprod\"\n", "");
    fs::write(here.join("board.toml"), unknown).expect("a file can be written");
    let (_, said) = done(&here, &join);
    assert!(
        !flat(&said).contains("what a longer one adds is derived"),
        "{said}"
    );
    let (text, _) = done(&here, &asked);
    let none =
        "a token is taken to cost no more than there: no row tells what a longer context adds";
    assert!(flat(&text).contains(none), "{text}");

    // The same of the least chip, which lists what it looked at.
    let need = [
        "plan",
        "porch.toml",
        "--slo",
        "ttft_p95 <= 8s",
        "--need",
        "--format",
        "json",
    ];
    let output = crossinfer(&here, &need);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let remarks = document["remarks"].to_string();
    assert!(remarks.contains("decode@cpu ran outside"), "{document:#}");
    for need in document["needs"].as_array().expect("a list") {
        let probes = need["probes"].as_array().expect("a list");
        let times: Vec<f64> = probes
            .iter()
            .filter_map(|one| one["times"].as_f64())
            .collect();
        assert!(times.contains(&1.0) && times.is_sorted(), "{need:#}");
        for (end, verdict) in [("meets_times", "meets"), ("misses_times", "misses")] {
            let Some(at) = need[end].as_f64() else {
                continue;
            };
            let probe = probes
                .iter()
                .find(|one| one["times"] == at)
                .expect("it was looked at");
            assert_eq!(probe["verdict"], verdict, "{need:#}");
        }
    }
}

/// To see it fail, let one that cannot run end the answer of the others, or print a document for each.
#[test]
fn what_several_chips_need_is_one_answer() {
    let here = given("several");
    done(&here, &IMPORT);
    done(&here, &JOIN);
    // A chip without a profile of the model.
    let other = here.join("profiles/bare");
    fs::create_dir(&other).expect("a folder can be made");
    fs::copy(here.join("profiles/porch/soc.toml"), other.join("soc.toml")).expect("it is there");
    let ask = [
        "plan",
        "porch.toml",
        "--slo",
        "ttft_p95 <= 1s",
        "--need",
        "--socs",
        "porch,bare",
    ];
    let (text, _) = done(&here, &[&ask[..], &["--format", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&text).expect("it is one document");
    assert_eq!(document["side_by_side"][0]["title"], "porch");
    assert_eq!(document["refused"][0]["title"], "bare");
    let (text, _) = done(&here, &ask);
    assert!(text.contains("bare: none: "), "{text}");
}
