//! Faults that people met, each by the thread in which they told of it.

mod onnx;
mod rockchip;

use std::fmt::Write as _;

use super::super::{Kind, NoteKind, Options};
use super::{number, run};

const HEAD: &str = "| model | size | params | backend | threads | test | t/s |\n| --- | ---: | ---: | --- | ---: | ---: | ---: |\n";

/// By the thread's name.
const CASES: &[(&str, fn())] = &[
    ("ggml-org/llama.cpp#13169", header_only),
    ("ggml-org/llama.cpp#15554", json_within_a_log),
    ("ggml-org/llama.cpp#22682", backtrace_after_the_header),
    ("ggml-org/llama.cpp#10444", throttling_samples),
    ("ggml-org/llama.cpp#16634", hundred_times_the_same_test),
    ("ggml-org/llama.cpp#6008", gpu_slower_than_cpu),
    ("ggml-org/llama.cpp#13206", bigger_chip_slower),
    ("geerlingguy/sbc-reviews#85", cut_row),
    ("microsoft/vidur#72", extra_columns),
    ("microsoft/vidur#54", missing_column),
    ("microsoft/vidur#53", onnx::nested_events),
    ("casys-kaist/LLMServingSim#24", hole_in_a_table),
    ("microsoft/onnxruntime#17013", onnx::profiler_stops),
    ("microsoft/onnxruntime#11046", onnx::comma_before_a_bracket),
    (
        "community FastVLM MLX export (config.json)",
        empty_vision_config,
    ),
    ("alibaba/MNN skills/opencl-optimize", cold_and_warm),
    ("airockchip/rknn-llm#247", rockchip::encode_by_core_count),
    ("airockchip/rknn-llm#298", rockchip::prefill_at_two_lengths),
    ("airockchip/rknn-llm#380", rockchip::one_slow_encode),
    ("airockchip/rknn-llm#409", rockchip::half_the_memory_width),
    ("airockchip/rknn-llm#513", onnx::gap_in_the_timeline),
    ("qualcomm/ai-hub-models#281", no_float_on_the_npu),
];

#[test]
fn every_case_is_handled() {
    let failed: Vec<&str> = CASES
        .iter()
        .filter(|(_, case)| std::panic::catch_unwind(case).is_err())
        .map(|(name, _)| *name)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn plain(kind: Kind, files: &[(&str, &str)]) -> super::Done {
    run(kind, &Options::default(), files)
}

fn header_only() {
    let done = plain(Kind::LlamaBench, &[("a.md", HEAD)]);
    assert!(done.files.is_empty());
    done.says(NoteKind::Skipped, "a.md:1: no rows");
    done.says(NoteKind::Refused, "no rows");
}

/// A record of llama-bench's JSON.
fn record(soc: &str, fields: &str) -> String {
    format!(
        "{{\"build_commit\": \"ab12\", \"build_number\": 7, \"cpu_info\": \"{soc}\", \"backends\": \"CPU\", \
         \"model_type\": \"toy 1B Q4_0\", \"model_size\": 600000000, \"n_threads\": 4, \"n_depth\": 0, {fields}}}"
    )
}

fn json_within_a_log() {
    let text = format!(
        "ggml_vulkan: Found 1 Vulkan devices:\nggml_vulkan: 0 = Toy GPU (drv) | uma: 1\n[\n  {},\n  {}\n]\n[1]    1234 segmentation fault  ./llama-bench\n",
        record(
            "Toy",
            "\"n_prompt\": 64, \"n_gen\": 0, \"avg_ns\": 1000000000, \"stddev_ns\": 0"
        ),
        record(
            "Toy",
            "\"n_prompt\": 0, \"n_gen\": 10, \"avg_ns\": 2000000000, \"stddev_ns\": 0"
        ),
    );
    let done = plain(Kind::LlamaBench, &[("log.json", &text)]);
    assert_eq!(
        done.number("engines.cpu.stages.ingest.per_token_s"),
        0.015_625
    );
    assert_eq!(done.number("engines.cpu.stages.decode.per_token_s"), 0.2);
    assert!(done.file().contains("log.json line 4"), "{}", done.file());
}

fn backtrace_after_the_header() {
    let text = format!(
        "> ./llama-bench -m toy.gguf\nggml_vulkan: 0 = Toy | uma: 1\n{HEAD}/opt/libggml.so(+0x15d30) [0xffff]\nAborted\n"
    );
    let done = plain(Kind::LlamaBench, &[("crash.log", &text)]);
    assert!(done.files.is_empty());
    done.says(NoteKind::Skipped, "crash.log:3: no rows");
}

fn throttling_samples() {
    let text = record(
        "Toy",
        "\"n_prompt\": 0, \"n_gen\": 1, \"avg_ns\": 14000000, \"stddev_ns\": 4000000, \"samples_ns\": [10000000, 11000000, 13000000, 16000000, 20000000]",
    );
    let done = plain(Kind::LlamaBench, &[("t.json", &format!("[{text}]"))]);
    done.says(
        NoteKind::Trend,
        "a mean of 0.01 s in the first third, of 0.02 s in the last (+100 %)",
    );
    assert!(
        !done.file().contains("samples_s"),
        "a drift is no noise\n{}",
        done.file()
    );
    assert!(!done.file().contains("cv ="));
    assert_eq!(
        done.number("engines.cpu.stages.decode.per_token_s.low"),
        0.01
    );
    assert_eq!(
        done.number("engines.cpu.stages.decode.per_token_s.high"),
        0.02
    );
}

fn hundred_times_the_same_test() {
    let mut text = HEAD.to_owned();
    for index in 0..100 {
        let rate = 400.0 - f64::from(index);
        _ = writeln!(
            text,
            "| toy 1B Q4_0 | 1.00 GiB | 1.00 B | Metal | 4 | pp512 | {rate:.2} ± 0.50 |"
        );
    }
    let done = plain(Kind::LlamaBench, &[("t.md", &text)]);
    done.says(NoteKind::Read, "100 times in a row");
    done.says(NoteKind::Trend, "over 100 repeats");
    assert!(!done.notes.any(NoteKind::Conflict), "{}", done.said());
}

fn gpu_slower_than_cpu() {
    let text = format!(
        "{HEAD}| toy 7B Q4_0 | 3.56 GiB | 6.74 B | CPU | 4 | pp512 | 20.00 ± 0.10 |\n| toy 7B Q4_0 | 3.56 GiB | 6.74 B | CPU | 4 | tg128 | 4.00 ± 0.01 |\n\
         | toy 7B Q4_0 | 3.56 GiB | 6.74 B | OpenCL | 4 | pp512 | 5.00 ± 0.10 |\n| toy 7B Q4_0 | 3.56 GiB | 6.74 B | OpenCL | 4 | tg128 | 1.00 ± 0.01 |\n"
    );
    let done = plain(Kind::LlamaBench, &[("t.md", &text)]);
    for stage in ["ingest", "decode"] {
        let of =
            |engine: &str| done.number(&format!("engines.{engine}.stages.{stage}.per_token_s"));
        assert!((of("gpu") / of("cpu") - 4.0).abs() < 1e-4, "{stage}");
    }
}

fn bigger_chip_slower() {
    let rows = |soc: &str, ns: u64| {
        format!(
            "[{}]",
            record(
                soc,
                &format!("\"n_prompt\": 0, \"n_gen\": 10, \"avg_ns\": {ns}, \"stddev_ns\": 0")
            )
        )
    };
    let done = plain(
        Kind::LlamaBench,
        &[
            ("big.json", &rows("Big", 4_000_000_000)),
            ("small.json", &rows("Small", 2_000_000_000)),
        ],
    );
    assert_eq!(done.files.len(), 2, "two boards never meet in one profile");
    let of = |index: usize| {
        number(
            &done.files[index].1,
            "engines.cpu.stages.decode.per_token_s",
        )
    };
    assert_eq!((of(0), of(1)), (0.4, 0.2));
}

fn cut_row() {
    let text = format!(
        "{HEAD}| toy 3B Q4_0 | 1.87 GiB | 3.21 B | CPU | 8 | pp512 | 8.76 ± 0.13 |\n| toy 3B Q4_0 | 1.87 GiB |"
    );
    let done = plain(Kind::LlamaBench, &[("post.md", &text)]);
    done.says(
        NoteKind::Skipped,
        "post.md:4: the row has 2 cells, the header 7",
    );
    assert!((done.number("engines.cpu.stages.ingest.per_token_s") - 1.0 / 8.76).abs() < 1e-6);
    // Cut within the last cell.
    let text = format!("{HEAD}| toy 3B Q4_0 | 1.87 GiB | 3.21 B | CPU | 8 | pp512 | 8.76 ±");
    let done = plain(Kind::LlamaBench, &[("post.md", &text)]);
    assert!(done.files.is_empty());
    done.says(NoteKind::Skipped, "post.md:3:");
    // Cut where a number still reads as one.
    for rest in ["1", "10.0", "10.00 ± 3"] {
        let text = format!(
            "{HEAD}| toy 3B Q4_0 | 1.87 GiB | 3.21 B | CPU | 8 | pp512 | 8.76 ± 0.13 |\n| toy 3B Q4_0 | 1.87 GiB | 3.21 B | CPU | 8 | tg128 | {rest}"
        );
        let done = plain(Kind::LlamaBench, &[("post.md", &text)]);
        done.says(NoteKind::Skipped, "post.md:4: the row is cut off");
        assert!(!done.file().contains("stages.decode"), "{}", done.file());
    }
    // A table that closes no row says all that it has.
    let open = HEAD.replace(" |\n", "\n");
    let text = format!("{open}| toy 3B Q4_0 | 1.87 GiB | 3.21 B | CPU | 8 | tg128 | 10.0\n");
    let done = plain(Kind::LlamaBench, &[("post.md", &text)]);
    assert_eq!(done.number("engines.cpu.stages.decode.per_token_s"), 0.1);
}

fn extra_columns() {
    let text = "kv_cache_save,n_gen,backends,n_prompt,model_type,build_commit,n_threads,avg_ns,n_depth\n\
                \"1\",\"0\",\"CPU\",\"64\",\"toy 1B Q4_0\",\"ab\",\"2\",\"640000000\",\"0\"\n";
    let done = plain(Kind::LlamaBench, &[("new.csv", text)]);
    done.says(NoteKind::Warning, "column `kv_cache_save` is unknown");
    assert_eq!(done.number("engines.cpu.stages.ingest.per_token_s"), 0.01);
    let trace =
        "pd_ratio,num_decode_tokens,arrived_at,num_prefill_tokens,kv_cache_save\n1,20,0.5,100,1\n";
    let done = plain(Kind::Trace, &[("t.csv", trace)]);
    done.says(NoteKind::Warning, "kv_cache_save");
    assert_eq!(
        done.file(),
        "time_s,prompt_tokens,output_tokens\n0.5,100,20\n"
    );
}

fn missing_column() {
    let text = "build_commit,backends,model_type,n_prompts,n_gen,n_threads,avg_ns,n_depth\n\"ab\",\"CPU\",\"toy\",\"64\",\"0\",\"2\",\"640000000\",\"0\"\n";
    let done = plain(Kind::LlamaBench, &[("old.csv", text)]);
    assert!(done.files.is_empty());
    done.says(
        NoteKind::Skipped,
        "old.csv:2: column `n_prompt` is missing; the nearest is `n_prompts`",
    );
    let done = plain(
        Kind::Trace,
        &[("t.csv", "num_prefill_tokens,num_decode_tokens\n10,20\n")],
    );
    assert!(done.files.is_empty());
    done.says(NoteKind::Refused, "t.csv:1: the trace has no time column");
    let done = plain(
        Kind::Trace,
        &[(
            "t.csv",
            "arrived_at,num_prefil_tokens,num_decode_tokens\n0,10,20\n",
        )],
    );
    assert!(done.files.is_empty());
    done.says(
        NoteKind::Refused,
        "t.csv:1: column `num_prefill_tokens` is missing; the nearest is `num_prefil_tokens`",
    );
}

fn hole_in_a_table() {
    // Depths 0 to 2048 have prompt and answer, 4096 only the prompt.
    let mut text = HEAD.to_owned();
    for depth in [0.0, 1024.0, 2048.0, 4096.0] {
        let prefill = 512.0 / (0.01 * 512.0 + 1e-6 * (512.0 * depth + 512.0 * 511.0 / 2.0));
        _ = writeln!(
            text,
            "| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | pp512 @ d{depth} | {prefill:.4} |"
        );
        if depth < 4096.0 {
            let decode = 128.0 / (0.1 * 128.0 + 1e-6 * (128.0 * depth + 128.0 * 127.0 / 2.0));
            _ = writeln!(
                text,
                "| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | tg128 @ d{depth} | {decode:.6} |"
            );
        }
    }
    let done = plain(Kind::LlamaBench, &[("t.md", &text)]);
    let slope = done.number("engines.cpu.stages.decode.per_token_context_s");
    assert!(
        (slope / 1e-6 - 1.0).abs() < 0.02,
        "the hole is no zero: {slope}"
    );
    // Beyond what was measured, results say so.
    assert!(
        done.file().contains("measured_context = [0, 2176]"),
        "{}",
        done.file()
    );
}

fn empty_vision_config() {
    let text = r#"{"model_type": "llava_qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
        "num_hidden_layers": 24, "num_key_value_heads": 2, "max_position_embeddings": 32768, "vocab_size": 151936,
        "sliding_window": 32768, "use_sliding_window": false, "torch_dtype": "bfloat16", "tie_word_embeddings": true,
        "mm_vision_tower": "mobileclip_l_1024", "vision_config": {}}"#;
    let done = plain(Kind::HfConfig, &[("toy/config.json", text)]);
    assert_eq!(done.number("visual_tokens_per_frame"), 256.0);
    // 24 layers x 2 x 2 KV heads x 64 x 2 bytes: the window is switched off.
    assert_eq!(done.number("kv_bytes_per_token"), 12288.0);
}

fn cold_and_warm() {
    let text = record(
        "Toy",
        "\"n_prompt\": 64, \"n_gen\": 0, \"avg_ns\": 8600000000, \"stddev_ns\": 1, \"samples_ns\": [32000000000, 800000000, 810000000, 790000000]",
    );
    let done = plain(Kind::LlamaBench, &[("t.json", &format!("[{text}]"))]);
    done.says(NoteKind::Warning, "a cold start, kept apart");
    assert_eq!(done.files.len(), 2);
    let of = |index: usize| {
        number(
            &done.files[index].1,
            "engines.cpu.stages.ingest.per_token_s",
        )
    };
    assert!((of(0) - 0.0125).abs() < 1e-9, "{}", of(0));
    assert!((of(1) - 0.5).abs() < 1e-9, "{}", of(1));
    // Origins cite what was used.
    let (warm, first) = (&done.files[0].1, &done.files[1].1);
    assert!(
        warm.contains("`pp64` 0.8 s without the first run"),
        "{warm}"
    );
    assert!(first.contains("`pp64` 32 s, the first run"), "{first}");
    // Of two runs no one can say.
    let text = record(
        "Toy",
        "\"n_prompt\": 64, \"n_gen\": 0, \"avg_ns\": 15000000000, \"stddev_ns\": 1, \"samples_ns\": [20000000000, 10000000000]",
    );
    let two = plain(Kind::LlamaBench, &[("t.json", &format!("[{text}]"))]);
    two.says(NoteKind::Warning, "a cold start or noise");
    assert_eq!(two.files.len(), 1);
    assert!(
        done.files[1].0.ends_with("-cold.toml"),
        "{}",
        done.files[1].0
    );
}

fn no_float_on_the_npu() {
    let text = "precisions:\n  float:\n    components:\n      Toy:\n        performance_metrics:\n          RB3 Gen 2:\n            qnn_dlc:\n              \
                job_status: Failed\n              inference_time_milliseconds: null\n              primary_compute_unit: NPU\n  w8a16:\n    components:\n      \
                Toy:\n        performance_metrics:\n          RB3 Gen 2:\n            qnn_dlc:\n              job_status: Passed\n              \
                inference_time_milliseconds: 12.5\n              primary_compute_unit: NPU\n";
    let done = plain(Kind::AiHub, &[("toy.perf.yaml", text)]);
    done.says(NoteKind::Skipped, "the job's status is `Failed`");
    assert!(done.file().contains("quant = w8a16"), "{}", done.file());
    assert_eq!(done.number("engines.npu.stages.toy.fixed_s"), 0.0125);
}
