//! One small file of each layout, which the tests read and the fuzzer changes.

use std::fmt::Write as _;

use super::super::Kind;

pub(super) const TABLE: &str = "ggml_opencl: device: 'TOY(TM) 740'\n\nmaster:\n\
    | model | size | params | backend | ngl | fa | test | t/s |\n\
    | --- | ---: | ---: | --- | --: | -: | ---: | ---: |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | pp512 | 128.00 ± 0.50 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | pp512 @ d4096 | 64.00 ± 0.17 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | tg128 | 16.00 ± 0.16 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | tg128 @ d4096 | 12.00 ± 0.16 |\n\
    | toy 1B Q8_0 | 1.50 GiB | 1.54 B | OpenCL | 99 | 1 | pp512+tg128 | 53.50 ± 0.16 |\n\n\
    build: abc123 (4000)\n";

pub(super) const OLD_TABLE: &str = "| model | backend | ngl | test | t/s |\n| --- | --- | --: | --- | ---: |\n\
    | toy 7B mostly Q4_0 | Metal | 1 | pp 512 | 256.00 ± 1.00 |\n| toy 7B mostly Q4_0 | Metal | 1 | tg 64 | 32.00 ± 0.00 |\n";

pub(super) const CSV: &str = "build_commit,build_number,cuda,opencl,metal,gpu_blas,blas,cpu_info,gpu_info,model_filename,model_type,model_size,model_n_params,n_batch,n_threads,f16_kv,n_gpu_layers,main_gpu,mul_mat_q,tensor_split,n_prompt,n_gen,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts\n\
    \"ab12\",\"1275\",\"1\",\"0\",\"0\",\"1\",\"1\",\"Toy CPU\",\"Toy GPU, 8 GB\",\"m/7B/q.gguf\",\"toy 7B mostly Q4_0\",\"3825065984\",\"6738415616\",\"512\",\"16\",\"1\",\"99\",\"0\",\"1\",\"0.00\",\"512\",\"0\",\"2023-09-23T12:09:01Z\",\"256000000\",\"2560000\",\"2000\",\"20\"\n\
    \"ab12\",\"1275\",\"1\",\"0\",\"0\",\"1\",\"1\",\"Toy CPU\",\"Toy GPU, 8 GB\",\"m/7B/q.gguf\",\"toy 7B mostly Q4_0\",\"3825065984\",\"6738415616\",\"512\",\"16\",\"1\",\"99\",\"0\",\"1\",\"0.00\",\"0\",\"128\",\"2023-09-23T12:09:02Z\",\"1280000000\",\"2728399\",\"100\",\"0.3\"\n";

pub(super) const SQL: &str = "CREATE TABLE IF NOT EXISTS llama_bench (\n  build_commit TEXT,\n  n_gen INTEGER\n);\n\n\
    INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_type, model_size, n_threads, n_prompt, n_gen, n_depth, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('ab12', '9', 'Toy''s CPU', '', 'CPU', 'toy 1B Q4_0', '600000000', '2', '64', '0', '0', '640000000', '6400000', '100', '1');\n\
    INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_type, model_size, n_threads, n_prompt, n_gen, n_depth, avg_ns, stddev_ns, avg_ts, stddev_ts)\n VALUES ('ab12', '9', 'Toy''s CPU', '', 'CPU', 'toy 1B Q4_0', '600000000', '2', '0', '16', '0', '1600000000', '1', '10', '1');\n";

pub(super) const JSONL: &str = "{\"build_commit\": \"ab12\", \"build_number\": 9, \"cpu_info\": \"Toy\", \"gpu_info\": \"\", \"backends\": \"CPU\", \"model_type\": \"toy 1B Q4_0\", \"model_size\": 600000000, \"n_threads\": 2, \"n_prompt\": 64, \"n_gen\": 0, \"n_depth\": 0, \"avg_ns\": 640000000, \"stddev_ns\": 10, \"samples_ns\": [ 630000000, 650000000 ],\"samples_ts\": [ 100, 100 ]}\n\
    {\"build_commit\": \"ab12\", \"build_number\": 9, \"cpu_info\": \"Toy\", \"gpu_info\": \"\", \"backends\": \"CPU\", \"model_type\": \"toy 1B Q4_0\", \"model_size\": 600000000, \"n_threads\": 2, \"n_prompt\": 0, \"n_gen\": 16, \"n_depth\": 0, \"avg_ns\": 1600000000, \"stddev_ns\": 10, \"samples_ns\": [ 1600000000, 1600000000 ]}\n";

pub(super) const TIMINGS: &str = "common_perf_print: prompt eval time =    1500.00 ms /    30 tokens (   50.00 ms per token,    20.00 tokens per second)\n\
    common_perf_print:        eval time =   10000.00 ms /   100 runs   (  100.00 ms per token,     10.00 tokens per second)\n\
    llama_memory_breakdown_print: |   - HTP0 (Hexagon)     |  2048 = 2048 + ( 522 =   522 +       0 +       0) + 17592186043894 |\n";

pub(super) const POCKET: &str = r#"{"version": "1.1", "device": "toy-phone", "soc": "Toy 6899", "commit": "5f0f", "bench": {"pp": 256, "tg": 64, "pl": 1, "nr": 3},
  "runs": [
    {"model_id": "toy-1.5b", "quant": "q4_0", "effective_backend": "cpu", "pp_avg": 16.0, "tg_avg": 8.0, "status": "ok"},
    {"model_id": "toy-1.5b", "quant": "q4_0", "effective_backend": "hexagon", "pp_avg": 64.0, "tg_avg": 4.0, "status": "ok"},
    {"model_id": "toy-1.5b", "quant": "q2_k", "effective_backend": "cpu", "pp_avg": null, "tg_avg": null, "status": "failed"}
  ]}"#;

pub(super) const SWEEP: &str = "| PP | TG | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |\n|---|---|---|---|---|---|---|\n\
    | 512 | 128 | 0 | 2.000 | 256.00 | 8.000 | 16.00 |\n| 512 | 128 | 2048 | 4.000 | 128.00 | 10.000 | 12.80 |\n";

pub(super) const RKLLM: &str = "- collected based on the maximum CPU and NPU frequencies\n\n### RK3588\n\n\
    | Model | Model Size | Dtype | Seqlen | New_tokens | TTFT(ms) | Tokens/s | memory(MB) |\n| :-- | :-: | :-: | :-: | :-: | :-: | :-: | :-: |\n\
    | Toy | 0.5B | w8a8 | 128 | 64 | 256.00 | 32.00 | 669.56 |\n| | 2B | w8a8 | 128 | 64 | 512.00 | 16.00 | 2121.91 |\n\n### Multimodal\n\n\
    | model | Stage | RK3588(w8a8) | RK3576(w4a16) |\n| :-- | :-: | :-: | :-: |\n| Toy-VL-2B | img-encoder(392*392) | 3.28s | 3.55s |\n\
    | | Prefill(len=196) | 632.6ms | 1234.9ms |\n| | Decode | 16.0 tokens/s | 10.5tokens/s |\n";

pub(super) const RKLLAMA: &str = "Commands: llama-bench (pp512/tg128) on an RK3588.\n\n| Model | Type | Backend | Perplexity | PP (tok/s) | TG (tok/s) | Power (W) |\n\
    | :--- | :--- | :--- | :--- | :--- | :--- | :--- |\n| **Toy 350M** | F16 | CPU | 🟢 20.73±0.74 | 🔴 128.0±0.1 | 🟢 16.0±0.1 | 🔴 6.4±0.4 |\n\
    | | | NPU | 🟢 20.74±0.74 | 🟢 256.0±0.6 | 🟡 32.0±0.4 | 🟢 3.2±0.2 |\n";

pub(super) const RKLOG: &str = "I rkllm: rkllm-runtime version: 1.2.1, rknpu driver version: 0.9.8, platform: RK3588\n\
    I rkllm:  Stage         Total Time (ms)  Tokens    Time per Token (ms)      Tokens per Second\n\
    I rkllm:  Prefill       640.00           64        10.00                    100.00\n\
    I rkllm:  Generate      2000.00          20        100.00                   10.00\n";

pub(super) const HUB: &str = "supported_devices:\n- Toy QRD\nprecisions:\n  w4a16:\n    components:\n      Toy-1B:\n        performance_metrics:\n          Toy QRD:\n            genie:\n              llm_metrics:\n                - context_length: 4096\n                  time_to_first_token_range_milliseconds:\n                    min: 32.0\n                    max: 1024.0\n                  tokens_per_second: 50.0\n  float:\n    components:\n      ToyEncoder:\n        performance_metrics:\n          Toy QRD:\n            tflite:\n              inference_time_milliseconds: 20.5\n              primary_compute_unit: NPU\n              job_status: Passed\n              layer_counts:\n                total: 10\n                npu: 8\n                cpu: 2\n              tool_versions:\n                qairt: 2.42.0\n";

pub(super) const OLD_HUB: &str = "models:\n- name: ToyEncoder\n  performance_metrics:\n  - torchscript_onnx_qnn:\n      inference_time: 20500.0\n      throughput: 48.0\n      primary_compute_unit: NPU\n      precision: fp16\n      job_status: Passed\n    torchscript_onnx:\n      inference_time: 'null'\n      job_status: Passed\n    reference_device_info:\n      name: Toy S24\n      chipset: Toy 8 Gen 3\n    timestamp: '2024-10-16T00:32:42Z'\n";

pub(super) const ORT: &str = "[\n{\"cat\" : \"Session\",\"pid\" :1,\"tid\" :1,\"dur\" :5736,\"ts\" :18,\"ph\" : \"X\",\"name\" :\"model_loading_uri\",\"args\" : {}},\n\
    {\"cat\" : \"Node\",\"pid\" :1,\"tid\" :1,\"dur\" :400,\"ts\" :7010,\"ph\" : \"X\",\"name\" :\"a_kernel_time\",\"args\" : {\"input_type_shape\" : [{\"int32\":[2]}],\"provider\" : \"CPUExecutionProvider\"}},\n\
    {\"cat\" : \"Session\",\"pid\" :1,\"tid\" :1,\"dur\" :900,\"ts\" :7000,\"ph\" : \"X\",\"name\" :\"model_run\",\"args\" : {}},\n\
    {\"cat\" : \"Node\",\"pid\" :1,\"tid\" :1,\"dur\" :400,\"ts\" :8010,\"ph\" : \"X\",\"name\" :\"a_kernel_time\",\"args\" : {\"provider\" : \"CPUExecutionProvider\"}},\n\
    {\"cat\" : \"Session\",\"pid\" :1,\"tid\" :1,\"dur\" :500,\"ts\" :8000,\"ph\" : \"X\",\"name\" :\"model_run\",\"args\" : {}}\n]\n";

pub(super) const CONFIG: &str = r#"{"architectures": ["ToyForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": true,
  "text_config": {"dtype": "bfloat16", "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 262144,
    "num_attention_heads": 16, "num_hidden_layers": 4, "num_key_value_heads": 8, "vocab_size": 151936, "full_attention_interval": 4,
    "linear_num_key_heads": 2, "linear_key_head_dim": 64, "linear_num_value_heads": 4, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4},
  "vision_config": {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "out_hidden_size": 2048, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}}"#;

pub(super) const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8";

pub(super) const MOONCAKE: &str = "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n{\"timestamp\": 1500, \"input_length\": 10, \"output_length\": 4, \"hash_ids\": [0]}\n";

pub(super) const STREAMING: &str = r#"[{"questions": [{"question": "What?", "time_stamp": "00:01:52"}, {"question": "Who?", "time_stamp": "0:00:50"}], "video_path": "./videos/sample_2.mp4"},
  {"questions": [{"question": "Why?", "time_stamp": "soon"}], "video_path": "./videos/sample_3.mp4"}]"#;

pub(super) const OVO: &str = r#"[{"id": 0, "task": "EPM", "video": "a/1.mp4", "question": "?", "realtime": 12.5},
  {"id": 1, "task": "CRR", "video": "a/1.mp4", "ask_time": 3, "test_info": [{"realtime": 4, "type": 0}]},
  {"id": 2, "task": "REC", "video": "a/2.mp4", "test_info": [{"realtime": 4}, {"realtime": 6}]}]"#;

pub(super) const SBC: &str = "# Toy Board\n\nTested with sbc-bench v0.9.72 on Mon, 29 Sep 2025. Full info: [x](y)\n\n    Toyrock RK9999, Kernel: aarch64, Userland: arm64\n\n\
     CPU    cluster  policy   speed  speed   core type\n      0        0        0      300    1958   Cortex-A55\n      1        0        0      300    1958   Cortex-A55\n\n\
    \x20 * cpu0 (Cortex-A55): memcpy: 3593.8 MB/s, memchr: 2928.1 MB/s, memset: 19355.6 MB/s\n  * cpu1 (Cortex-A78): memcpy: 8000.0 MB/s, memchr: 20000.0 MB/s, memset: 19571.6 MB/s\n";

pub(super) const STREAM: &str = "STREAM version $Revision: 5.10 $\nFunction    Best Rate MB/s  Avg time     Min time     Max time\nCopy:           12000.0     0.013    0.013    0.013\nTriad:          15000.0     0.017    0.016    0.017\n";

pub(super) const RATES: &str = r#"{"framework": "pytorch_mps", "benchmarks": {"bandwidth": [
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

/// A CSV of `ds4-bench` up to a context, made by a form.
pub(super) fn frontiers(most: u32) -> String {
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
