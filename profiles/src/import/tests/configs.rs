//! What a configuration tells of weights, and what it is no configuration of.

use super::super::{Kind, NoteKind, Options};
use super::run;

fn plain(kind: Kind, name: &str, text: &str) -> super::Done {
    run(kind, &Options::default(), &[(name, text)])
}

#[test]
fn encoders_are_no_decoders() {
    let shape = r#""hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "torch_dtype": "float32""#;
    for (what, reason) in [
        (r#""model_type": "bert""#, "does not attend causally"),
        (
            r#""model_type": "own", "architectures": ["OwnForMaskedLM"]"#,
            "does not attend causally",
        ),
        (r#""model_type": "t5""#, "an encoder and a decoder"),
        (
            r#""model_type": "own", "is_encoder_decoder": true"#,
            "an encoder and a decoder",
        ),
    ] {
        let done = plain(
            Kind::HfConfig,
            "toy/config.json",
            &format!("{{{what}, {shape}}}"),
        );
        assert!(done.files.is_empty(), "{what}");
        done.says(NoteKind::Refused, reason);
    }
    for what in [
        r#""model_type": "bert", "is_decoder": true"#,
        r#""model_type": "llama", "is_encoder_decoder": false"#,
    ] {
        let done = plain(
            Kind::HfConfig,
            "toy/config.json",
            &format!("{{{what}, {shape}}}"),
        );
        assert_eq!(done.files.len(), 1, "{what}\n{}", done.said());
    }
}

#[test]
fn a_quantised_configuration_has_the_bits_that_it_stores() {
    let shape = r#""model_type": "llama", "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 1000, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "max_position_embeddings": 4096"#;
    let layers = 2.0 * (4.0 * 256.0 * 256.0 + 3.0 * 256.0 * 1024.0 + 2.0 * 256.0);
    let table = 256.0 * 1000.0;
    for (stated, linear, embedding, head) in [
        (
            r#""quantization_config": {"quant_method": "fp8"}"#,
            8.0,
            16.0,
            16.0,
        ),
        (
            r#""quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}"#,
            4.5,
            16.0,
            16.0,
        ),
        (
            r#""quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": false, "load_in_8bit": true}"#,
            8.0,
            16.0,
            16.0,
        ),
        (
            r#""quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}"#,
            4.0 + 20.0 / 128.0,
            16.0,
            16.0,
        ),
        (
            r#""quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": -1, "lm_head": true}"#,
            4.0,
            16.0,
            4.0,
        ),
        (
            r#""quantization": {"group_size": 64, "bits": 4}"#,
            4.5,
            4.5,
            4.5,
        ),
        (
            r#""quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}"#,
            4.25,
            4.25,
            4.25,
        ),
        (r#""rope_scaling": null"#, 16.0, 16.0, 16.0),
    ] {
        let done = plain(
            Kind::HfConfig,
            "toy/config.json",
            &format!("{{{shape}, {stated}}}"),
        );
        let bytes: f64 = (layers * linear + table * (embedding + head)) / 8.0;
        assert_eq!(
            done.number("weights_bytes"),
            bytes.round(),
            "{stated}\n{}",
            done.file()
        );
    }
    for stated in [
        r#""quantization_config": {"quant_method": "mxfp4"}"#,
        r#""quantization_config": {"quant_method": "gptq", "bits": 0}"#,
        r#""quantization": {"group_size": 64, "bits": 4, "model.layers.0": {"bits": 8}}"#,
    ] {
        let done = plain(
            Kind::HfConfig,
            "toy/config.json",
            &format!("{{{shape}, {stated}}}"),
        );
        done.says(
            NoteKind::Missing,
            "`weights_bytes`: the bits of a weight do not follow",
        );
    }
}

#[test]
fn a_flat_tower_has_its_gate_and_its_merger() {
    let rest = r#""visual_patch_size": 14, "visual_temporal_patch_size": 2, "visual_spatial_merge_size": 2, "visual_depth": 32,
        "hidden_size": 2048, "intermediate_size": 11008, "num_attention_heads": 16, "num_hidden_layers": 36, "vocab_size": 1000,
        "torch_dtype": "bfloat16", "max_position_embeddings": 4096"#;
    let patches = 3.0 * 14.0 * 14.0 * 2.0 * 1280.0;
    let merger = 5120.0 * 5120.0 + 5120.0 * 2048.0;
    for (family, keys, mlp) in [
        (
            "Qwen2_5VL",
            r#""visual_hidden_size": 1280, "visual_intermediate_size": 3420, "visual_out_hidden_size": 2048"#,
            3.0 * 3420.0,
        ),
        (
            "Qwen2_5VL",
            r#""visual_hidden_size": 1280, "visual_intermediate_size": 3420"#,
            3.0 * 3420.0,
        ),
        (
            "Qwen2VL",
            r#""visual_embed_dim": 1280, "visual_mlp_ratio": 4"#,
            2.0 * 5120.0,
        ),
    ] {
        let text = format!(
            "{{\"architectures\": [\"{family}ForConditionalGeneration\"], {keys}, {rest}}}"
        );
        let done = plain(Kind::HfConfig, "toy/config.json", &text);
        let layers = 32.0 * (4.0 * 1280.0 * 1280.0 + mlp * 1280.0);
        assert_eq!(
            done.number("vision_weights_bytes"),
            2.0 * (layers + patches + merger),
            "{family}"
        );
    }
}

#[test]
fn keys_that_a_configuration_leaves_out_are_the_library_s() {
    let text = r#"{"model_type": "gemma3", "mm_tokens_per_image": 256, "torch_dtype": "bfloat16",
        "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024},
        "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14}}"#;
    let done = plain(Kind::HfConfig, "gemma-3-4b/config.json", text);
    done.says(NoteKind::Warning, "`num_key_value_heads` is not stated: 4");
    // Every sixth of 34 layers: 5 x 2 x 4 heads x 256 x 2 bytes.
    assert_eq!(done.number("kv_bytes_per_token"), 5.0 * 4096.0);
    assert_eq!(done.number("kv_bytes_per_token.high"), 34.0 * 4096.0);
    // 3.88e9 parameters of the language model.
    assert!(
        (done.number("weights_bytes") / 2.0 / 3.88e9 - 1.0).abs() < 0.01,
        "{}",
        done.file()
    );
}

/// One rule whether the language model has a table of its own or not, and the file's own word first.
#[test]
fn a_head_that_is_not_stated_is_the_family_s() {
    let shape = r#""hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 1000, "max_position_embeddings": 4096"#;
    let said = "`tie_word_embeddings` is not stated: what transformers 5.24 takes for `";
    for (family, root, tied, stated) in [
        ("llama", "", false, false),
        ("qwen3", "", false, false),
        ("qwen3_5", "", false, false),
        ("gemma2", "", true, false),
        ("llama", r#""tie_word_embeddings": true,"#, true, true),
        ("gemma2", r#""tie_word_embeddings": false,"#, false, true),
    ] {
        let model = format!("\"model_type\": \"{family}\", {shape}");
        for text in [
            format!("{{{root} \"torch_dtype\": \"bfloat16\", {model}}}"),
            format!(
                "{{{root} \"torch_dtype\": \"bfloat16\", \"model_type\": \"toy_vl\", \"text_config\": {{{model}}}}}"
            ),
        ] {
            let done = plain(Kind::HfConfig, "toy/config.json", &text);
            let word = if tied {
                ", tied embedding"
            } else {
                ", untied embedding"
            };
            assert!(done.file().contains(word), "{text}\n{}", done.file());
            assert_eq!(
                !done.file().contains(said),
                stated,
                "{text}\n{}",
                done.file()
            );
        }
    }
}

/// The class of the whole comes first; of a family that nobody knows it is an assumption. To see it fail, ask the
/// language model's class first.
#[test]
fn a_head_goes_with_the_whole_model_s_class() {
    let import = |root: &str, inner: &str| {
        let text = format!(
            r#"{{"model_type": "{root}", "torch_dtype": "bfloat16", "text_config": {{"model_type": "{inner}", "hidden_size": 256,
            "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000,
            "max_position_embeddings": 4096}}}}"#
        );
        plain(Kind::HfConfig, "toy/config.json", &text)
            .file()
            .to_owned()
    };
    let whole = import("qwen3_vl_moe", "qwen3_vl_moe_text");
    assert!(whole.contains(", untied embedding"), "{whole}");
    assert!(whole.contains("takes for `qwen3_vl_moe`"), "{whole}");
    let unknown = import("toy_vl", "toy");
    assert!(
        unknown.contains("assumed as in transformers 4"),
        "{unknown}"
    );
}

#[test]
fn a_key_that_cannot_be_read_is_no_absent_key() {
    let config = |key: &str, value: &str| {
        format!(
            "{{\"model_type\": \"own\",\n \"vision_config\": {{\"head_dim\": 8}},\n \"text_config\": {{\n  \"{key}\": {value},\n  \
             \"hidden_size\": 56, \"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 14,\n  \
             \"vocab_size\": 100, \"torch_dtype\": \"float32\"}}}}"
        )
    };
    for (key, value) in [
        ("num_key_value_heads", "0"),
        ("num_key_value_heads", "-2"),
        ("num_key_value_heads", "\"2\""),
        ("num_key_value_heads", "[2, 2]"),
        ("num_key_value_heads", "3"),
        ("num_key_value_heads", "28"),
        ("head_dim", "-64"),
        ("head_dim", "\"x\""),
        ("sliding_window", "-5"),
        ("sliding_window", "1.5"),
        ("num_kv_shared_layers", "-1"),
        ("num_kv_shared_layers", "\"1\""),
    ] {
        let done = plain(Kind::HfConfig, "toy/config.json", &config(key, value));
        assert!(done.files.is_empty(), "{key} {value}: {}", done.said());
        // Its own line, not that of the vision tower's key of the same name.
        done.says(
            NoteKind::Refused,
            &format!("toy/config.json:4: `text_config.{key}` is "),
        );
    }
    for (key, value) in [
        ("num_key_value_heads", "2"),
        ("num_key_value_heads", "null"),
        ("head_dim", "4.0"),
        ("sliding_window", "null"),
        ("num_kv_shared_layers", "0"),
    ] {
        let done = plain(Kind::HfConfig, "toy/config.json", &config(key, value));
        assert_eq!(done.files.len(), 1, "{key} {value}: {}", done.said());
    }
}

/// To see it fail, count no shared expert.
#[test]
fn llama_4_has_a_shared_expert_and_mlps_between() {
    let import = |step: u32| {
        let text = format!(
            r#"{{"model_type": "llama4_text", "hidden_size": 256, "intermediate_size": 512, "intermediate_size_mlp": 1024, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 1000, "num_local_experts": 16, "num_experts_per_tok": 1,
            "interleave_moe_layer_step": {step}, "attention_chunk_size": 512, "torch_dtype": "bfloat16", "tie_word_embeddings": false, "max_position_embeddings": 4096}}"#
        );
        plain(Kind::HfConfig, "toy/config.json", &text).number("weights_bytes")
    };
    let around = 4.0 * 256.0 * 256.0 + 2.0 * 256.0;
    let experts = 3.0 * 256.0 * 512.0 * 17.0 + 16.0 * 256.0;
    let dense = 3.0 * 256.0 * 1024.0;
    let tables = 2.0 * 256.0 * 1000.0;
    for (step, expected) in [
        (1, 4.0 * (around + experts) + tables),
        (2, 2.0 * (2.0 * around + experts + dense) + tables),
    ] {
        let counted = import(step) / 2.0;
        assert!(
            (counted / expected - 1.0).abs() < 1e-3,
            "{step}: {counted}, not {expected}"
        );
    }
}

/// To see it fail, know none of these keys.
#[test]
fn what_families_call_otherwise_or_leave_out_is_known() {
    let import = |family: &str, keys: &str| {
        let text = format!(
            r#"{{"model_type": "{family}", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 64,
            "vocab_size": 1000, "torch_dtype": "bfloat16", "tie_word_embeddings": true, "max_position_embeddings": 4096, {keys}}}"#
        );
        plain(Kind::HfConfig, "toy/config.json", &text)
    };
    let kv = |done: &super::Done| done.number("kv_bytes_per_token");
    let layer = 2.0 * 4.0 * 64.0 * 2.0;
    // Every other layer of Gemma 2 has the window.
    let windowed = r#""sliding_window": 512"#;
    assert_eq!(kv(&import("gemma2", windowed)), 2.0 * layer);
    // Windows alone: the number is of the time until they are full.
    let all = import("mistral", windowed);
    assert_eq!(kv(&all), 4.0 * layer);
    assert!(
        all.file().contains("until the window is full"),
        "{}",
        all.file()
    );
    assert!(!all.file().contains("not in this number"), "{}", all.file());
    let groups = r#""attn_config": {"kv_n_heads": 2}"#;
    assert_eq!(kv(&import("dbrx", groups)), 4.0 * layer / 2.0);
}

/// To see it fail, say of every time that is none that it is missing.
#[test]
fn a_time_of_ai_hub_that_is_none_is_said_as_it_stands() {
    for (stated, says) in [
        ("0", "is `0`, which is no time"),
        ("-5.0", "is `-5.0`, which is no time"),
        (".inf", "is `.inf`, which is no time"),
        ("null", "missing or null"),
    ] {
        let text = format!(
            "precisions:\n  float:\n    components:\n      Toy:\n        performance_metrics:\n          Toy Board:\n            qnn_dlc:\n              inference_time_milliseconds: {stated}\n              primary_compute_unit: NPU\n"
        );
        let done = plain(Kind::AiHub, "toy.perf.yaml", &text);
        done.says(NoteKind::Skipped, says);
    }
}
