//! Faults that people met, each by the thread in which they told of it.

use std::fmt::Write as _;

use super::super::fit::{Point, fit};
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
    ("microsoft/vidur#53", nested_events),
    ("casys-kaist/LLMServingSim#24", hole_in_a_table),
    ("microsoft/onnxruntime#17013", profiler_stops),
    ("microsoft/onnxruntime#11046", comma_before_a_bracket),
    ("FastVLM MLX export", empty_vision_config),
    ("alibaba/MNN opencl-optimize", cold_and_warm),
    ("airockchip/rknn-llm#247", encode_by_core_count),
    ("airockchip/rknn-llm#298", prefill_at_two_lengths),
    ("airockchip/rknn-llm#380", one_slow_encode),
    ("airockchip/rknn-llm#513", gap_in_the_timeline),
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

/// An event of a profile.
fn event(cat: &str, name: &str, ts: u64, dur: u64, provider: &str) -> String {
    let args = if provider.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{\"provider\" : \"{provider}\"}}")
    };
    format!(
        "{{\"cat\" : \"{cat}\",\"pid\" :1,\"tid\" :1,\"dur\" :{dur},\"ts\" :{ts},\"ph\" : \"X\",\"name\" :\"{name}\",\"args\" : {args}}}"
    )
}

fn profile(events: &[String]) -> String {
    format!("[\n{}\n]\n", events.join(",\n"))
}

/// A run of two nodes, of which the second encloses a node of its subgraph.
fn nested_run(start: u64) -> Vec<String> {
    vec![
        event(
            "Node",
            "a_kernel_time",
            start + 10,
            300,
            "CPUExecutionProvider",
        ),
        event(
            "Node",
            "inner_kernel_time",
            start + 420,
            400,
            "CPUExecutionProvider",
        ),
        event(
            "Node",
            "If_kernel_time",
            start + 400,
            500,
            "CPUExecutionProvider",
        ),
        event("Session", "SequentialExecutor::Execute", start + 5, 950, ""),
        event("Session", "model_run", start, 1000, ""),
    ]
}

fn nested_events() {
    let events: Vec<String> = (0..4).flat_map(|run| nested_run(run * 2000)).collect();
    let done = plain(Kind::OrtProfile, &[("p.json", &profile(&events))]);
    assert!((done.number("engines.cpu.stages.run.fixed_s") - 0.001).abs() < 1e-9);
    // 300 + 500 of 1000 µs: the inner 400 are part of the 500.
    done.says(NoteKind::Read, "CPUExecutionProvider 80 %; 20 % outside");
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

fn profiler_stops() {
    let mut events: Vec<String> = Vec::new();
    for run in 0..6_u64 {
        let start = run * 2000;
        // Nodes of the first four runs, and half of the fifth's.
        let nodes = match run {
            0..=3 => 4,
            4 => 2,
            _ => 0,
        };
        for node in 0..nodes {
            events.push(event(
                "Node",
                "n_kernel_time",
                start + 100 * node,
                90,
                "CPUExecutionProvider",
            ));
        }
        let wall = if run < 4 { 500 } else { 5000 };
        events.push(event("Session", "model_run", start * 10, wall, "").replace(
            &format!("\"ts\" :{}", start * 10),
            &format!("\"ts\" :{start}"),
        ));
    }
    let done = plain(Kind::OrtProfile, &[("p.json", &profile(&events))]);
    done.says(NoteKind::Skipped, "the last 2 of 6 runs");
    assert!((done.number("engines.cpu.stages.run.fixed_s") - 0.0005).abs() < 1e-9);
}

fn comma_before_a_bracket() {
    let events: Vec<String> = (0..3).flat_map(|run| nested_run(run * 2000)).collect();
    let text = profile(&events).replace(
        "\"args\" : {\"provider\"",
        "\"args\" : {\"input_type_shape\" : [{\"float\":[1,3]},] ,\"provider\"",
    );
    assert!(text.contains(",]"));
    let done = plain(Kind::OrtProfile, &[("p.json", &text)]);
    done.says(NoteKind::Warning, "commas before a closing bracket");
    assert!((done.number("engines.cpu.stages.run.fixed_s") - 0.001).abs() < 1e-9);
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

fn encode_by_core_count() {
    let text = "### Multimodal\n\n| model | cores | Stage | RK3588(w8a8) |\n| :- | - | :-: | :-: |\n\
                | Toy-VL-2B | 1 | img-encoder(392*392) | 6.0s |\n| Toy-VL-2B | 3 | img-encoder(392*392) | 3.28s |\n";
    let done = plain(Kind::Rkllm, &[("b.md", text)]);
    assert_eq!(done.files.len(), 2, "{}", done.said());
    let of = |index: usize| number(&done.files[index].1, "engines.npu.stages.encode.fixed_s");
    assert_eq!((of(0), of(1)), (6.0, 3.28));
}

/// The same table by what is said below it of its encoder.
fn multimodal(remark: &str) -> String {
    format!(
        "### Multimodal\n\n| model | Stage | RK3588(w8a8) |\n| :- | :-: | :-: |\n| Toy-VL-2B | img-encoder(392*392) | {} |\n\
         | | Prefill(len=196) | 600ms |\n| | Decode | 16 tokens/s |\n{remark}",
        if remark.contains("one") {
            "6.0s"
        } else {
            "3.28s"
        }
    )
}

#[test]
fn an_encoder_has_its_own_precision_and_cores() {
    let all = multimodal("\n- The img-encoder runs on RKNN with FP16, using all NPU cores.");
    let done = plain(Kind::Rkllm, &[("t_v1.2.0.md", &all)]);
    let text = done.file();
    assert!(
        text.contains("encode_cores = 3; encode_quant = fp16;"),
        "{text}"
    );
    assert!(text.contains("in fp16, on 3 cores of the NPU"), "{text}");
    assert!(!done.said().contains("is not stated"), "{}", done.said());
    for stage in ["encode.fixed_s", "ingest.per_token_s", "decode.per_token_s"] {
        assert!(done.number(&format!("engines.npu.stages.{stage}")) > 0.0);
    }
    // One core and three are two things, each with the language model, and never a third of the other.
    let one = multimodal("\n* The img-encoder runs on RKNN with FP16, tested with one NPU core\n");
    let both = plain(Kind::Rkllm, &[("t_v1.2.0.md", &all), ("u_v1.2.0.md", &one)]);
    assert_eq!(both.files.len(), 2, "{}", both.said());
    assert!(!both.notes.any(NoteKind::Conflict), "{}", both.said());
    for (name, text) in &both.files {
        let secs = if name.contains("cores-1") { 6.0 } else { 3.28 };
        assert_eq!(
            number(text, "engines.npu.stages.encode.fixed_s"),
            secs,
            "{name}"
        );
        assert!(text.contains("stages.decode]"), "{text}");
    }
    // Where nothing is said, that is said; where nothing is understood, too.
    let done = plain(Kind::Rkllm, &[("t.md", &multimodal(""))]);
    done.says(
        NoteKind::Warning,
        "t.md:5: in which precision and on how many NPU cores the encoder ran is not stated",
    );
    assert!(
        done.file().contains("in a precision that is not stated"),
        "{}",
        done.file()
    );
    let done = plain(
        Kind::Rkllm,
        &[("t.md", &multimodal("\n- The img-encoder is fast.\n"))],
    );
    done.says(
        NoteKind::Skipped,
        "t.md:9: `- The img-encoder is fast.` is of the encoder, and",
    );
    // Of another chip, or contradicting.
    let done = plain(
        Kind::Rkllm,
        &[(
            "t.md",
            &multimodal("\n- On RK3576 the encoder has two cores, FP16.\n"),
        )],
    );
    assert!(!done.file().contains("encode_cores"), "{}", done.file());
    let two = multimodal("\n- The encoder: FP16, 3 cores.\n- The encoder: INT8, 3 cores.\n");
    let done = plain(Kind::Rkllm, &[("t.md", &two)]);
    done.says(
        NoteKind::Warning,
        "t.md:9: what this line and line 10 say of the encoder",
    );
    assert!(!done.file().contains("encode_quant"), "{}", done.file());
}

fn prefill_at_two_lengths() {
    let text = "### RK3588\n\n| Model | Dtype | Seqlen | New_tokens | TTFT(ms) | Tokens/s |\n| - | - | - | - | - | - |\n\
                | Toy-1.5B | w8a8 | 292 | 64 | 440.42 | 15 |\n| | w8a8 | 4132 | 64 | 15480.29 | 10 |\n";
    let done = plain(Kind::Rkllm, &[("b.md", text)]);
    let at = |tokens: f64| {
        let of = |key: &str| done.number(&format!("engines.npu.stages.ingest.{key}"));
        let form = [0.0, of("per_token_s"), of("per_token_context_s")];
        Point {
            tokens,
            depth: 0.0,
            secs: 1.0,
        }
        .at(&form)
    };
    assert!((at(292.0) / 0.44042 - 1.0).abs() < 1e-4 && (at(4132.0) / 15.48029 - 1.0).abs() < 1e-4);
    // In time: below the chord of the two times, and above what the chord of the two rates gives.
    let chord = 0.44042 + (2048.0 - 292.0) / (4132.0 - 292.0) * (15.48029 - 0.44042);
    let rate = 663.0 + (2048.0 - 292.0) / (4132.0 - 292.0) * (266.92 - 663.0);
    assert!(
        at(2048.0) < chord && at(2048.0) > 2048.0 / rate,
        "{}",
        at(2048.0)
    );
    // Faster than in proportion.
    assert!(at(8192.0) > 2.5 * at(4132.0), "{}", at(8192.0));
    assert!(
        done.file().contains("measured_tokens = [292, 4132]"),
        "{}",
        done.file()
    );
}

fn one_slow_encode() {
    let mut text = "| model | Stage | RK3588(w8a8) |\n| :- | :-: | :-: |\n".to_owned();
    for index in 0..10 {
        let time = if index == 6 { 8.0 } else { 3.5 };
        _ = writeln!(text, "| Toy-VL-2B | img-encoder(392*392) | {time}s |");
    }
    let done = plain(Kind::Rkllm, &[("b.md", &text)]);
    done.says(NoteKind::Read, "p50 3.5 s, p99 8 s");
    assert!(
        done.file().contains("8,") && done.file().contains("samples_s = ["),
        "{}",
        done.file()
    );
    assert!((done.number("engines.npu.stages.encode.fixed_s") - 3.95).abs() < 1e-9);
}

fn gap_in_the_timeline() {
    let mut events = Vec::new();
    for run in 0..3_u64 {
        let start = run * 20_000;
        events.push(event(
            "Node",
            "conv_kernel_time",
            start + 100,
            1000,
            "QNNExecutionProvider",
        ));
        events.push(event(
            "Node",
            "scan_kernel_time",
            start + 9500,
            400,
            "CPUExecutionProvider",
        ));
        events.push(event("Session", "model_run", start, 10_000, ""));
    }
    let done = plain(Kind::OrtProfile, &[("p.json", &profile(&events))]);
    done.says(
        NoteKind::Warning,
        "QNNExecutionProvider 10 %, CPUExecutionProvider 4 %; 86 % outside",
    );
    assert!(
        (done.number("engines.npu.stages.run.fixed_s") - 0.01).abs() < 1e-9,
        "the wall, not the sum"
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

#[test]
fn fits_recover_what_made_the_times() {
    let made = [0.05, 0.004, 2e-6];
    let points: Vec<Point> = [
        (32.0, 0.0),
        (512.0, 0.0),
        (512.0, 4096.0),
        (2048.0, 1024.0),
        (128.0, 8192.0),
    ]
    .into_iter()
    .map(|(tokens, depth)| {
        let point = Point {
            tokens,
            depth,
            secs: 1.0,
        };
        Point {
            secs: point.at(&made),
            ..point
        }
    })
    .collect();
    let (form, worst) = fit(&points, [true; 3]).expect("there is one");
    assert!(worst < 1e-6, "{worst}");
    for (found, made) in form.iter().zip(made) {
        assert!((found / made - 1.0).abs() < 1e-4, "{found} {made}");
    }
}
