//! One small file of each layout: what comes out of it, and the text that the fuzzer changes.

use std::fmt::Write as _;

use super::super::{Kind, NoteKind, Options};
use super::{number, run, run_bytes};

pub(super) const TABLE: &str = "ggml_opencl: device: 'TOY(TM) 740'\n\nmaster:\n\
    | model | size | params | backend | ngl | fa | test | t/s |\n\
    | --- | ---: | ---: | --- | --: | -: | ---: | ---: |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | pp512 | 128.00 ± 0.50 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | pp512 @ d4096 | 64.00 ± 0.17 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | tg128 | 16.00 ± 0.16 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | tg128 @ d4096 | 12.00 ± 0.16 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | pp512+tg128 | 53.50 ± 0.16 |\n\n\
    build: abc123 (4000)\n";

const OLD_TABLE: &str = "| model | backend | ngl | test | t/s |\n| --- | --- | --: | --- | ---: |\n\
    | toy 7B mostly Q4_0 | Metal | 1 | pp 512 | 256.00 ± 1.00 |\n| toy 7B mostly Q4_0 | Metal | 1 | tg 64 | 32.00 ± 0.00 |\n";

const CSV: &str = "build_commit,build_number,cuda,opencl,metal,gpu_blas,blas,cpu_info,gpu_info,model_filename,model_type,model_size,model_n_params,n_batch,n_threads,f16_kv,n_gpu_layers,main_gpu,mul_mat_q,tensor_split,n_prompt,n_gen,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts\n\
    \"ab12\",\"1275\",\"1\",\"0\",\"0\",\"1\",\"1\",\"Toy CPU\",\"Toy GPU, 8 GB\",\"m/7B/q.gguf\",\"toy 7B mostly Q4_0\",\"3825065984\",\"6738415616\",\"512\",\"16\",\"1\",\"99\",\"0\",\"1\",\"0.00\",\"512\",\"0\",\"2023-09-23T12:09:01Z\",\"256000000\",\"2560000\",\"2000\",\"20\"\n\
    \"ab12\",\"1275\",\"1\",\"0\",\"0\",\"1\",\"1\",\"Toy CPU\",\"Toy GPU, 8 GB\",\"m/7B/q.gguf\",\"toy 7B mostly Q4_0\",\"3825065984\",\"6738415616\",\"512\",\"16\",\"1\",\"99\",\"0\",\"1\",\"0.00\",\"0\",\"128\",\"2023-09-23T12:09:02Z\",\"1280000000\",\"2728399\",\"100\",\"0.3\"\n";

const SQL: &str = "CREATE TABLE IF NOT EXISTS llama_bench (\n  build_commit TEXT,\n  n_gen INTEGER\n);\n\n\
    INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_type, model_size, n_threads, n_prompt, n_gen, n_depth, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('ab12', '9', 'Toy''s CPU', '', 'CPU', 'toy 1B Q4_0', '600000000', '2', '64', '0', '0', '640000000', '6400000', '100', '1');\n\
    INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_type, model_size, n_threads, n_prompt, n_gen, n_depth, avg_ns, stddev_ns, avg_ts, stddev_ts)\n VALUES ('ab12', '9', 'Toy''s CPU', '', 'CPU', 'toy 1B Q4_0', '600000000', '2', '0', '16', '0', '1600000000', '1', '10', '1');\n";

const JSONL: &str = "{\"build_commit\": \"ab12\", \"build_number\": 9, \"cpu_info\": \"Toy\", \"gpu_info\": \"\", \"backends\": \"CPU\", \"model_type\": \"toy 1B Q4_0\", \"model_size\": 600000000, \"n_threads\": 2, \"n_prompt\": 64, \"n_gen\": 0, \"n_depth\": 0, \"avg_ns\": 640000000, \"stddev_ns\": 10, \"samples_ns\": [ 630000000, 650000000 ],\"samples_ts\": [ 100, 100 ]}\n\
    {\"build_commit\": \"ab12\", \"build_number\": 9, \"cpu_info\": \"Toy\", \"gpu_info\": \"\", \"backends\": \"CPU\", \"model_type\": \"toy 1B Q4_0\", \"model_size\": 600000000, \"n_threads\": 2, \"n_prompt\": 0, \"n_gen\": 16, \"n_depth\": 0, \"avg_ns\": 1600000000, \"stddev_ns\": 10, \"samples_ns\": [ 1600000000, 1600000000 ]}\n";

const TIMINGS: &str = "common_perf_print: prompt eval time =    1500.00 ms /    30 tokens (   50.00 ms per token,    20.00 tokens per second)\n\
    common_perf_print:        eval time =   10000.00 ms /   100 runs   (  100.00 ms per token,     10.00 tokens per second)\n\
    llama_memory_breakdown_print: |   - HTP0 (Hexagon)     |  2048 = 2048 + ( 522 =   522 +       0 +       0) + 17592186043894 |\n";

const POCKET: &str = r#"{"version": "1.1", "device": "toy-phone", "soc": "Toy 6899", "commit": "5f0f", "bench": {"pp": 256, "tg": 64, "pl": 1, "nr": 3},
  "runs": [
    {"model_id": "toy-1.5b", "quant": "q4_0", "effective_backend": "cpu", "pp_avg": 16.0, "tg_avg": 8.0, "status": "ok"},
    {"model_id": "toy-1.5b", "quant": "q4_0", "effective_backend": "hexagon", "pp_avg": 64.0, "tg_avg": 4.0, "status": "ok"},
    {"model_id": "toy-1.5b", "quant": "q2_k", "effective_backend": "cpu", "pp_avg": null, "tg_avg": null, "status": "failed"}
  ]}"#;

const SWEEP: &str = "| PP | TG | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |\n|---|---|---|---|---|---|---|\n\
    | 512 | 128 | 0 | 2.000 | 256.00 | 8.000 | 16.00 |\n| 512 | 128 | 2048 | 4.000 | 128.00 | 10.000 | 12.80 |\n";

const RKLLM: &str = "- collected based on the maximum CPU and NPU frequencies\n\n### RK3588\n\n\
    | Model | Model Size | Dtype | Seqlen | New_tokens | TTFT(ms) | Tokens/s | memory(MB) |\n| :-- | :-: | :-: | :-: | :-: | :-: | :-: | :-: |\n\
    | Toy | 0.5B | w8a8 | 128 | 64 | 256.00 | 32.00 | 669.56 |\n| | 2B | w8a8 | 128 | 64 | 512.00 | 16.00 | 2121.91 |\n\n### Multimodal\n\n\
    | model | Stage | RK3588(w8a8) | RK3576(w4a16) |\n| :-- | :-: | :-: | :-: |\n| Toy-VL-2B | img-encoder(392*392) | 3.28s | 3.55s |\n\
    | | Prefill(len=196) | 632.6ms | 1234.9ms |\n| | Decode | 16.0 tokens/s | 10.5tokens/s |\n";

const RKLLAMA: &str = "Commands: llama-bench (pp512/tg128) on an RK3588.\n\n| Model | Type | Backend | Perplexity | PP (tok/s) | TG (tok/s) | Power (W) |\n\
    | :--- | :--- | :--- | :--- | :--- | :--- | :--- |\n| **Toy 350M** | F16 | CPU | 🟢 20.73±0.74 | 🔴 128.0±0.1 | 🟢 16.0±0.1 | 🔴 6.4±0.4 |\n\
    | | | NPU | 🟢 20.74±0.74 | 🟢 256.0±0.6 | 🟡 32.0±0.4 | 🟢 3.2±0.2 |\n";

const RKLOG: &str = "I rkllm: rkllm-runtime version: 1.2.1, rknpu driver version: 0.9.8, platform: RK3588\n\
    I rkllm:  Stage         Total Time (ms)  Tokens    Time per Token (ms)      Tokens per Second\n\
    I rkllm:  Prefill       640.00           64        10.00                    100.00\n\
    I rkllm:  Generate      2000.00          20        100.00                   10.00\n";

const HUB: &str = "supported_devices:\n- Toy QRD\nprecisions:\n  w4a16:\n    components:\n      Toy-1B:\n        performance_metrics:\n          Toy QRD:\n            genie:\n              llm_metrics:\n                - context_length: 4096\n                  time_to_first_token_range_milliseconds:\n                    min: 32.0\n                    max: 1024.0\n                  tokens_per_second: 50.0\n  float:\n    components:\n      ToyEncoder:\n        performance_metrics:\n          Toy QRD:\n            tflite:\n              inference_time_milliseconds: 20.5\n              primary_compute_unit: NPU\n              job_status: Passed\n              layer_counts:\n                total: 10\n                npu: 8\n                cpu: 2\n              tool_versions:\n                qairt: 2.42.0\n";

const OLD_HUB: &str = "models:\n- name: ToyEncoder\n  performance_metrics:\n  - torchscript_onnx_qnn:\n      inference_time: 20500.0\n      throughput: 48.0\n      primary_compute_unit: NPU\n      precision: fp16\n      job_status: Passed\n    torchscript_onnx:\n      inference_time: 'null'\n      job_status: Passed\n    reference_device_info:\n      name: Toy S24\n      chipset: Toy 8 Gen 3\n    timestamp: '2024-10-16T00:32:42Z'\n";

const ORT: &str = "[\n{\"cat\" : \"Session\",\"pid\" :1,\"tid\" :1,\"dur\" :5736,\"ts\" :18,\"ph\" : \"X\",\"name\" :\"model_loading_uri\",\"args\" : {}},\n\
    {\"cat\" : \"Node\",\"pid\" :1,\"tid\" :1,\"dur\" :400,\"ts\" :7010,\"ph\" : \"X\",\"name\" :\"a_kernel_time\",\"args\" : {\"input_type_shape\" : [{\"int32\":[2]}],\"provider\" : \"CPUExecutionProvider\"}},\n\
    {\"cat\" : \"Session\",\"pid\" :1,\"tid\" :1,\"dur\" :900,\"ts\" :7000,\"ph\" : \"X\",\"name\" :\"model_run\",\"args\" : {}},\n\
    {\"cat\" : \"Node\",\"pid\" :1,\"tid\" :1,\"dur\" :400,\"ts\" :8010,\"ph\" : \"X\",\"name\" :\"a_kernel_time\",\"args\" : {\"provider\" : \"CPUExecutionProvider\"}},\n\
    {\"cat\" : \"Session\",\"pid\" :1,\"tid\" :1,\"dur\" :500,\"ts\" :8000,\"ph\" : \"X\",\"name\" :\"model_run\",\"args\" : {}}\n]\n";

const CONFIG: &str = r#"{"architectures": ["ToyForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": true,
  "text_config": {"dtype": "bfloat16", "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 262144,
    "num_attention_heads": 16, "num_hidden_layers": 4, "num_key_value_heads": 8, "vocab_size": 151936, "full_attention_interval": 4,
    "linear_num_key_heads": 2, "linear_key_head_dim": 64, "linear_num_value_heads": 4, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4},
  "vision_config": {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "out_hidden_size": 2048, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}}"#;

const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8";

const MOONCAKE: &str = "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n{\"timestamp\": 1500, \"input_length\": 10, \"output_length\": 4, \"hash_ids\": [0]}\n";

const STREAMING: &str = r#"[{"questions": [{"question": "What?", "time_stamp": "00:01:52"}, {"question": "Who?", "time_stamp": "0:00:50"}], "video_path": "./videos/sample_2.mp4"},
  {"questions": [{"question": "Why?", "time_stamp": "soon"}], "video_path": "./videos/sample_3.mp4"}]"#;

const OVO: &str = r#"[{"id": 0, "task": "EPM", "video": "a/1.mp4", "question": "?", "realtime": 12.5},
  {"id": 1, "task": "CRR", "video": "a/1.mp4", "ask_time": 3, "test_info": [{"realtime": 4, "type": 0}]},
  {"id": 2, "task": "REC", "video": "a/2.mp4", "test_info": [{"realtime": 4}, {"realtime": 6}]}]"#;

const SBC: &str = "# Toy Board\n\nTested with sbc-bench v0.9.72 on Mon, 29 Sep 2025. Full info: [x](y)\n\n    Toyrock RK9999, Kernel: aarch64, Userland: arm64\n\n\
     CPU    cluster  policy   speed  speed   core type\n      0        0        0      300    1958   Cortex-A55\n      1        0        0      300    1958   Cortex-A55\n\n\
    \x20 * cpu0 (Cortex-A55): memcpy: 3593.8 MB/s, memchr: 2928.1 MB/s, memset: 19355.6 MB/s\n  * cpu1 (Cortex-A78): memcpy: 8000.0 MB/s, memchr: 20000.0 MB/s, memset: 19571.6 MB/s\n";

const STREAM: &str = "STREAM version $Revision: 5.10 $\nFunction    Best Rate MB/s  Avg time     Min time     Max time\nCopy:           12000.0     0.013    0.013    0.013\nTriad:          15000.0     0.017    0.016    0.017\n";

const RATES: &str = r#"{"framework": "pytorch_mps", "benchmarks": {"bandwidth": [
  {"name": "sequential_read", "size_gb": 0.1, "bandwidth_gbs": 300.0}, {"name": "sequential_read", "size_gb": 2.0, "bandwidth_gbs": 200.0},
  {"name": "copy", "size_gb": 2.0, "bandwidth_gbs": 220.0}]}}"#;

/// One file of each layout.
pub(super) fn samples() -> Vec<(Kind, &'static str, String)> {
    let array = format!(
        "log line\n[\n{}\n]\n",
        JSONL.trim_end().replace('\n', ",\n")
    );
    let csv = frontiers(8192);
    let list: [(Kind, &str, &str); 25] = [
        (Kind::LlamaBench, "ds4.csv", &csv),
        (Kind::LlamaBench, "sweep.md", SWEEP),
        (Kind::LlamaBench, "t.md", TABLE),
        (Kind::LlamaBench, "old.md", OLD_TABLE),
        (Kind::LlamaBench, "t.csv", CSV),
        (Kind::LlamaBench, "t.sql", SQL),
        (Kind::LlamaBench, "t.jsonl", JSONL),
        (Kind::LlamaBench, "t.json", &array),
        (Kind::LlamaBench, "t.log", TIMINGS),
        (Kind::LlamaBench, "pocket.json", POCKET),
        (Kind::Rkllm, "b_v1.2.3.md", RKLLM),
        (Kind::Rkllm, "npu.md", RKLLAMA),
        (Kind::Rkllm, "r.log", RKLOG),
        (Kind::AiHub, "toy.perf.yaml", HUB),
        (Kind::AiHub, "old.perf.yaml", OLD_HUB),
        (Kind::OrtProfile, "p.json", ORT),
        (Kind::HfConfig, "toy/config.json", CONFIG),
        (Kind::Trace, "a.csv", AZURE),
        (Kind::Trace, "m.jsonl", MOONCAKE),
        (Kind::Trace, "s.json", STREAMING),
        (Kind::Trace, "o.json", OVO),
        (Kind::Bandwidth, "sbc.md", SBC),
        (Kind::Bandwidth, "stream.txt", STREAM),
        (Kind::Bandwidth, "rates.json", RATES),
        (
            Kind::Trace,
            "own.csv",
            "time_s,prompt_tokens,output_tokens\n0,1,2\n0.5,3,4\n",
        ),
    ];
    list.into_iter()
        .map(|(kind, name, text)| (kind, name, text.to_owned()))
        .collect()
}

/// A GGUF file that ends after its header: two layers, of which the second is full, tensors of two types.
pub(super) fn gguf(version: u32, big: bool) -> Vec<u8> {
    struct Bytes(Vec<u8>, u32, bool);
    impl Bytes {
        fn u32(&mut self, x: u32) {
            self.0.extend(if self.2 {
                x.to_be_bytes()
            } else {
                x.to_le_bytes()
            });
        }
        fn u64(&mut self, x: u64) {
            self.0.extend(if self.2 {
                x.to_be_bytes()
            } else {
                x.to_le_bytes()
            });
        }
        fn count(&mut self, x: u64) {
            if self.1 == 1 {
                self.u32(x as u32);
            } else {
                self.u64(x);
            }
        }
        fn text(&mut self, text: &str) {
            self.count(text.len() as u64);
            self.0.extend(text.as_bytes());
        }
        fn number(&mut self, key: &str, x: u32) {
            self.text(key);
            self.u32(4);
            self.u32(x);
        }
    }
    let mut out = Bytes(b"GGUF".to_vec(), version, big);
    out.u32(version);
    out.count(2);
    out.count(12);
    out.text("general.architecture");
    out.u32(8);
    out.text("toy");
    out.text("general.name");
    out.u32(8);
    out.text("Toy 1B");
    for (key, x) in [
        ("general.file_type", 15),
        ("toy.block_count", 4),
        ("toy.context_length", 32768),
        ("toy.embedding_length", 640),
        ("toy.attention.head_count", 4),
        ("toy.attention.key_length", 256),
        ("toy.attention.value_length", 256),
        ("toy.attention.sliding_window", 512),
    ] {
        out.number(key, x);
    }
    out.text("toy.attention.head_count_kv");
    out.u32(9);
    out.u32(5);
    out.count(4);
    for heads in [1, 2, 1, 0] {
        out.u32(heads);
    }
    out.text("toy.attention.sliding_window_pattern");
    out.u32(9);
    out.u32(7);
    out.count(4);
    out.0.extend([1, 0, 1, 0]);
    for (name, dims, kind) in [
        ("token_embd.weight", [640_u64, 1000], 8_u32),
        ("blk.0.ffn_up.weight", [1024, 640], 12),
    ] {
        out.text(name);
        out.u32(2);
        for size in dims {
            out.count(size);
        }
        out.u32(kind);
        out.u64(0);
    }
    out.0
}

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
        done.file().contains("measured_context = [512, 2688]"),
        "{}",
        done.file()
    );
    // Several sequences at once are the cost of no single one.
    let batched = "| PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |\n|-|-|-|-|-|-|-|-|\n| 128 | 128 | 1 | 256 | 1.0 | 128 | 4.0 | 32 |\n| 128 | 128 | 4 | 1024 | 3.0 | 170 | 8.0 | 64 |\n";
    let done = run(Kind::LlamaBench, &options, &[("b.md", batched)]);
    done.says(NoteKind::Skipped, "b.md:4: several sequences at once");
    assert!((done.number("engines.cpu.stages.ingest.per_token_s") - 1.0 / 128.0).abs() < 1e-9);
}

/// A CSV of `ds4-bench` up to a context, made by a form.
fn frontiers(most: u32) -> String {
    let mut text =
        String::from("ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,kvcache_bytes\n");
    for context in (2048..=most).step_by(2048) {
        let depth = f64::from(context - 2048);
        let prefill = 2048.0 * 0.002 + 2e-8 * (2048.0 * depth + 2048.0 * 2047.0 / 2.0);
        let decode = 128.0 * 0.04 + 1e-7 * (128.0 * f64::from(context) + 128.0 * 127.0 / 2.0);
        _ = writeln!(
            text,
            "{context},2048,{},128,{},1",
            2048.0 / prefill,
            128.0 / decode
        );
    }
    text
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
    // The largest buffer, not the fastest.
    let done = plain(Kind::Bandwidth, "rates.json", RATES);
    assert_eq!(done.number("engines.gpu.port_gbps"), 200.0);
}

#[test]
fn utf16_of_a_windows_shell_is_read() {
    let bytes: Vec<u8> = std::iter::once(0xfeff)
        .chain(OLD_TABLE.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let done = run_bytes(
        Kind::LlamaBench,
        &Options::default(),
        &[("w.md", &bytes)],
        true,
    );
    assert_eq!(
        done.number("engines.gpu.stages.decode.per_token_s"),
        1.0 / 32.0
    );
}
