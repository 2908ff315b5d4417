//! What comes out of one small file of each layout.

use std::fmt::Write as _;

use super::super::{Kind, NoteKind, Options};
use super::samples::{
    AZURE, CONFIG, HUB, JSONL, MOONCAKE, OLD_HUB, OLD_TABLE, OVO, RATES, RKLLAMA, RKLLM, RKLOG,
    SBC, SQL, STREAM, STREAMING, SWEEP, TABLE, frontiers, gguf, samples,
};
use super::{number, run, run_bytes};

fn plain(kind: Kind, name: &str, text: &str) -> super::Done {
    run(kind, &Options::default(), &[(name, text)])
}

#[test]
fn every_layout_gives_a_file() {
    for (kind, name, text) in samples() {
        let done = plain(kind, name, &text);
        assert!(!done.files.is_empty(), "{name}\n{}", done.said());
    }
}

#[test]
fn the_five_formats_say_the_same() {
    let array = format!("[\n{}\n]\n", JSONL.trim_end().replace('\n', ",\n"));
    let csv = "build_commit,build_number,cpu_info,gpu_info,backends,model_type,model_size,n_threads,n_prompt,n_gen,n_depth,avg_ns,stddev_ns\n\
        \"ab12\",\"9\",\"Toy\",\"\",\"CPU\",\"toy 1B Q4_0\",\"600000000\",\"2\",\"64\",\"0\",\"0\",\"640000000\",\"6400000\"\n\
        \"ab12\",\"9\",\"Toy\",\"\",\"CPU\",\"toy 1B Q4_0\",\"600000000\",\"2\",\"0\",\"16\",\"0\",\"1600000000\",\"1\"\n";
    let table = "| model | size | params | backend | threads | test | t/s |\n|-|-|-|-|-|-|-|\n\
        | toy 1B Q4_0 | 0.60 GB | 1 B | CPU | 2 | pp64 | 100.00 ± 1.00 |\n| toy 1B Q4_0 | 0.60 GB | 1 B | CPU | 2 | tg16 | 10.00 ± 1.00 |\n\nbuild: ab12 (9)\n";
    for (name, text) in [
        ("t.jsonl", JSONL),
        ("t.json", &array),
        ("t.csv", csv),
        ("t.sql", SQL),
        ("t.md", table),
    ] {
        let done = plain(Kind::LlamaBench, name, text);
        assert_eq!(
            done.number("engines.cpu.stages.query_prefill.per_token_s"),
            0.01,
            "{name}"
        );
        assert_eq!(
            done.number("engines.cpu.stages.decode.per_token_s"),
            0.1,
            "{name}"
        );
        assert_eq!(
            done.number("engines.cpu.stages.decode.bytes_per_token"),
            6e8,
            "{name}"
        );
        assert!(
            done.file().contains("build = ab12 (9)"),
            "{name}\n{}",
            done.file()
        );
    }
}

#[test]
fn depths_become_a_context_slope_and_a_combined_row_is_predicted() {
    let done = plain(Kind::LlamaBench, "t.md", TABLE);
    // 512 tokens took 4 s on an empty context and 8 s on one of 4096.
    let of = |key: &str| done.number(&format!("engines.gpu.stages.ingest.{key}"));
    let at = |depth: f64| {
        512.0 * of("per_token_s")
            + of("per_token_context_s") * (512.0 * depth + 512.0 * 511.0 / 2.0)
    };
    assert!((at(0.0) / 4.0 - 1.0).abs() < 1e-4 && (at(4096.0) / 8.0 - 1.0).abs() < 1e-4);
    done.says(NoteKind::Read, "the separate rows predict");
    assert!(done.file().contains("TOY(TM) 740"), "{}", done.file());
}

#[test]
fn sweeps_have_the_context_before_each_row() {
    let options = Options {
        engine: Some("cpu".into()),
        ..Options::default()
    };
    let done = run(Kind::LlamaBench, &options, &[("sweep.md", SWEEP)]);
    let of = |key: &str| done.number(&format!("engines.cpu.stages.ingest.{key}"));
    let at = |depth: f64| {
        512.0 * of("per_token_s")
            + of("per_token_context_s") * (512.0 * depth + 512.0 * 511.0 / 2.0)
    };
    assert!((at(0.0) / 2.0 - 1.0).abs() < 1e-4 && (at(2048.0) / 4.0 - 1.0).abs() < 1e-4);
    assert!(
        done.file().contains("measured_context = [0, 2176]"),
        "{}",
        done.file()
    );
    // `llama-sweep-bench` times the answer first: `TG 128, N_KV 0` is `tg128 @ d0`.
    let of = |key: &str| done.number(&format!("engines.cpu.stages.decode.{key}"));
    let at = |depth: f64| {
        128.0 * of("per_token_s")
            + of("per_token_context_s") * (128.0 * depth + 128.0 * 127.0 / 2.0)
    };
    assert!((at(0.0) / 8.0 - 1.0).abs() < 1e-4 && (at(2048.0) / 10.0 - 1.0).abs() < 1e-4);
    // Several sequences at once are the cost of no single one.
    let batched = "| PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |\n|-|-|-|-|-|-|-|-|\n| 128 | 128 | 1 | 256 | 1.0 | 128 | 4.0 | 32 |\n| 128 | 128 | 4 | 1024 | 3.0 | 170 | 8.0 | 64 |\n";
    let done = run(Kind::LlamaBench, &options, &[("b.md", batched)]);
    done.says(NoteKind::Skipped, "b.md:4: several sequences at once");
    assert!((done.number("engines.cpu.stages.ingest.per_token_s") - 1.0 / 128.0).abs() < 1e-9);
}

#[test]
fn long_contexts_follow_from_short_ones() {
    let options = Options {
        engine: Some("gpu".into()),
        ..Options::default()
    };
    let done = run(Kind::LlamaBench, &options, &[("m.csv", &frontiers(8192))]);
    let long = run(Kind::LlamaBench, &options, &[("m.csv", &frontiers(65536))]);
    for path in [
        "ingest.per_token_s",
        "ingest.per_token_context_s",
        "decode.per_token_s",
        "decode.per_token_context_s",
    ] {
        let path = format!("engines.gpu.stages.{path}");
        assert!(
            (done.number(&path) / long.number(&path) - 1.0).abs() < 0.01,
            "{path}"
        );
    }
}

#[test]
fn a_name_is_of_one_thing() {
    let named = |soc: Option<&str>, only: &[(&str, &str)]| Options {
        soc: soc.map(str::to_owned),
        only: only
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..Options::default()
    };
    let done = run(Kind::Rkllm, &named(Some("board"), &[]), &[("b.md", RKLLM)]);
    assert!(done.files.is_empty());
    done.says(NoteKind::Refused, "RK3576; RK3588");
    let done = run(
        Kind::Rkllm,
        &named(Some("board"), &[("soc", "rk3576")]),
        &[("b.md", RKLLM)],
    );
    assert!(done.file().contains("soc = \"board\""), "{}", done.file());
}

#[test]
fn names_that_make_the_same_key_stay_apart() {
    let other = SQL.replacen("'CPU'", "'CPU+'", 1);
    let done = plain(Kind::LlamaBench, "t.sql", &other);
    assert!(!done.files.is_empty());
    let text = HUB.replace("      ToyEncoder:", "      Toy.Encoder:\n        performance_metrics:\n          Toy QRD:\n            tflite:\n              inference_time_milliseconds: 10.5\n              primary_compute_unit: NPU\n              tool_versions:\n                qairt: 2.42.0\n      Toy-Encoder:");
    let done = plain(Kind::AiHub, "toy.perf.yaml", &text);
    let (_, text) = done
        .files
        .iter()
        .find(|(_, text)| text.contains("quant = float"))
        .expect("it is there");
    assert_eq!(
        number(text, "engines.npu.stages.toy_encoder.fixed_s"),
        0.0105
    );
    assert_eq!(
        number(text, "engines.npu.stages.toy_encoder_2.fixed_s"),
        0.0205
    );
}

#[test]
fn files_that_name_no_board_are_not_put_together() {
    let other = OLD_TABLE
        .replace("pp 512", "pp 256")
        .replace("tg 64", "tg 32");
    let done = run(
        Kind::LlamaBench,
        &Options::default(),
        &[("a.md", OLD_TABLE), ("b.md", &other)],
    );
    assert_eq!(done.files.len(), 2);
    let ignore = Options {
        ignore: vec!["file".into()],
        ..Options::default()
    };
    assert_eq!(
        run(
            Kind::LlamaBench,
            &ignore,
            &[("a.md", OLD_TABLE), ("b.md", &other)]
        )
        .files
        .len(),
        1
    );
}

#[test]
fn the_runtime_s_log_and_tables_of_rockchip() {
    let done = plain(Kind::Rkllm, "r.log", RKLOG);
    assert_eq!(done.number("engines.npu.stages.ingest.per_token_s"), 0.01);
    assert_eq!(done.number("engines.npu.stages.decode.per_token_s"), 0.1);
    let done = plain(Kind::Rkllm, "b_v1.2.3.md", RKLLM);
    let of = |name: &str, path: &str| {
        let (_, text) = done
            .files
            .iter()
            .find(|(known, _)| known == name)
            .unwrap_or_else(|| panic!("{name} in {:?}", done.files));
        number(text, path)
    };
    assert_eq!(
        of(
            "rk3588/toy-2b-w8a8.toml",
            "engines.npu.stages.ingest.per_token_s"
        ),
        0.004
    );
    assert_eq!(
        of(
            "rk3576/toy-vl-2b-w4a16.toml",
            "engines.npu.stages.encode.fixed_s"
        ),
        3.55
    );
    assert_eq!(
        of(
            "rk3588/toy-vl-2b-w8a8.toml",
            "engines.npu.stages.decode.per_token_s"
        ),
        0.0625
    );
    // Both engines of one model in one file.
    let done = plain(Kind::Rkllm, "npu.md", RKLLAMA);
    assert_eq!(
        done.number("engines.cpu.stages.ingest.per_token_s"),
        1.0 / 128.0
    );
    assert_eq!(
        done.number("engines.npu.stages.decode.per_token_s"),
        1.0 / 32.0
    );
}

#[test]
fn both_schemas_of_ai_hub_have_their_units() {
    let done = plain(Kind::AiHub, "toy.perf.yaml", HUB);
    let text = |part: &str| {
        &done
            .files
            .iter()
            .find(|(_, text)| text.contains(part))
            .expect("it is there")
            .1
    };
    assert_eq!(
        number(
            text("quant = float"),
            "engines.npu.stages.toyencoder.fixed_s"
        ),
        0.0205
    );
    assert_eq!(
        number(
            text("quant = w4a16"),
            "engines.npu.stages.ingest.per_token_s"
        ),
        0.00025
    );
    done.says(NoteKind::Warning, "2 on the cpu");
    let done = plain(Kind::AiHub, "old.perf.yaml", OLD_HUB);
    assert_eq!(done.number("engines.npu.stages.toyencoder.fixed_s"), 0.0205);
    done.says(NoteKind::Skipped, "missing or null");
}

#[test]
fn headers_of_all_versions_and_byte_orders_say_the_same() {
    let options = Options {
        tokens_per_frame: Some(64),
        ..Options::default()
    };
    for (version, big) in [(1, false), (2, false), (3, false), (3, true)] {
        let bytes = gguf(version, big);
        let done = run_bytes(Kind::Gguf, &options, &[("m.gguf", &bytes)], true);
        // 1000 rows of 640 in Q8_0 (34 bytes of 32), 640 of 1024 in Q4_K (144 of 256).
        assert_eq!(done.number("weights_bytes"), 680_000.0 + 368_640.0);
        // The second layer: 2 heads x (256 + 256) x 2 bytes; two have a window, one no KV at all.
        assert_eq!(done.number("kv_bytes_per_token"), 2048.0);
        assert_eq!(done.number("kv_bytes_per_token.high"), 4096.0);
        assert_eq!(done.number("max_context_tokens"), 32768.0);
    }
    // Cut within the header it says where.
    let bytes = gguf(3, false);
    let done = run_bytes(
        Kind::Gguf,
        &options,
        &[("m.gguf", &bytes[..bytes.len() - 9])],
        true,
    );
    done.says(NoteKind::Refused, "the file ends within its header");
}

#[test]
fn hybrid_layers_and_a_tower_of_a_configuration() {
    let options = Options {
        frame: Some((448, 448)),
        ..Options::default()
    };
    let done = run(Kind::HfConfig, &options, &[("toy/config.json", CONFIG)]);
    // One layer in four: 2 x 8 x 128 x 2 bytes.
    assert_eq!(done.number("kv_bytes_per_token"), 4096.0);
    assert_eq!(done.number("visual_tokens_per_frame"), 196.0);
    assert!(done.file().contains("name = \"toy\""), "{}", done.file());
    let without = run(
        Kind::HfConfig,
        &Options::default(),
        &[("toy/config.json", CONFIG)],
    );
    without.says(NoteKind::Missing, "--frame");
}

#[test]
fn traces_keep_times_and_lengths() {
    assert_eq!(
        plain(Kind::Trace, "a.csv", AZURE).file(),
        "time_s,prompt_tokens,output_tokens\n0,4808,10\n0.052,3180,8\n"
    );
    assert_eq!(
        plain(Kind::Trace, "m.jsonl", MOONCAKE).file(),
        "time_s,prompt_tokens,output_tokens\n0,6758,500\n1.5,10,4\n"
    );
    let done = plain(Kind::Trace, "s.json", STREAMING);
    assert_eq!(done.file(), "time_s\n50\n112\n");
    done.says(
        NoteKind::Skipped,
        "s.json:2: `sample_3`: `time_stamp` is \"soon\"",
    );
    let done = plain(Kind::Trace, "o.json", OVO);
    assert_eq!(done.files[0].1, "time_s\n3\n12.5\n");
    assert_eq!(done.files[1].1, "time_s\n4\n6\n");
}

#[test]
fn what_a_trace_of_requests_cannot_choose_by_is_refused() {
    let options = Options {
        only: vec![("video".to_owned(), "sample_2".to_owned())],
        ..Options::default()
    };
    for (name, text) in [("a.csv", AZURE), ("m.jsonl", MOONCAKE)] {
        let done = run(Kind::Trace, &options, &[(name, text)]);
        assert!(done.files.is_empty());
        done.says(
            NoteKind::Refused,
            "`--only video=sample_2`: a trace of requests",
        );
    }
}

#[test]
fn a_long_trace_is_the_same_in_pieces() {
    let mut text =
        String::from("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n");
    let mut expected = String::from("time_s,prompt_tokens,output_tokens\n");
    for row in 0..60_000 {
        _ = writeln!(
            text,
            "{},GPT-4,{},7,8,Conversation log of a length that makes several pieces",
            1000 + row,
            row % 1000 + 1
        );
        _ = writeln!(expected, "{row},{},7", row % 1000 + 1);
    }
    assert!(text.len() > 4 << 20, "several pieces");
    assert!(plain(Kind::Trace, "b.csv", &text).file() == expected);
    // A fault far inside has its line.
    let broken = text.replace("\n51000,GPT-4,1,", "\n51000,GPT-4,x,");
    let done = plain(Kind::Trace, "b.csv", &broken);
    assert!(done.files.is_empty());
    done.says(NoteKind::Refused, "b.csv:50002: `Request tokens` is `x`");
}

#[test]
fn bandwidth_counts_traffic() {
    let done = plain(Kind::Bandwidth, "sbc.md", SBC);
    assert_eq!(done.number("engines.cpu.port_gbps"), 20.0);
    assert_eq!(done.number("cpu.cores"), 2.0);
    assert_eq!(
        plain(Kind::Bandwidth, "stream.txt", STREAM).number("memory.bandwidth_gbps"),
        15.0
    );
    // The largest buffer, not the fastest; of its programs the one that moved most.
    let done = plain(Kind::Bandwidth, "rates.json", RATES);
    assert_eq!(done.number("engines.gpu.port_gbps"), 220.0);
}
