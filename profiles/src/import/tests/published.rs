//! Towers whose weights the models' cards state, towers that files only name, and what loaders take for keys left out.

use super::super::{Kind, NoteKind, Options, hf_config};
use super::run;

const TEXT: &str = r#""num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 512, "vocab_size": 1000, "torch_dtype": "bfloat16", "max_position_embeddings": 8192"#;

fn import(frame: Option<(u32, u32)>, text: &str) -> super::Done {
    let options = Options {
        frame,
        ..Options::default()
    };
    run(Kind::HfConfig, &options, &[("toy/config.json", text)])
}

/// Counted without norms and biases, at 16 bits. GLM-4.1V-9B has 10 292 777 472 parameters and Llama 3.2 11B Vision
/// 10 670 220 835 by their cards; less the language models' this is what stays for the towers:
///
/// - GLM: 10 292 777 472 − (40 × 203 969 024 + 2 × 151 552 × 4096 + 4096) = 892 498 432, of which norms and biases are
///   90 624.
/// - Mllama: 10 670 220 835 − (40 × 218 112 000 + 8 × 258 + (2 × 128 256 + 8) × 4096 + 4096) = 895 028 755, of which norms,
///   biases and gates are 40 × 11 520 + 4 × 1280 + 4096 + 19.
#[test]
fn towers_have_the_weights_of_the_models_cards() {
    let glm = format!(
        r#"{{"model_type": "glm4v", "text_config": {{"model_type": "glm4v_text", {TEXT}}},
        "vision_config": {{"model_type": "glm4v", "depth": 24, "hidden_size": 1536, "hidden_act": "silu", "image_size": 336, "patch_size": 14, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "out_hidden_size": 4096, "intermediate_size": 13696}}}}"#
    );
    let own = 10_292_777_472.0 - (40.0 * 203_969_024.0 + 2.0 * 151_552.0 * 4096.0 + 4096.0);
    let done = import(Some((448, 448)), &glm);
    assert_eq!(done.number("vision_weights_bytes"), 2.0 * (own - 90_624.0));
    let text = TEXT.replace("\"hidden_size\": 256", "\"hidden_size\": 4096");
    let pairs = ["[1, 1]"; 8].join(", ");
    let mllama = format!(
        r#"{{"model_type": "mllama", "text_config": {{"model_type": "mllama_text_model", {text}}},
        "vision_config": {{"model_type": "mllama_vision_model", "num_hidden_layers": 32, "num_global_layers": 8, "hidden_size": 1280, "hidden_act": "gelu", "image_size": 560,
        "patch_size": 14, "intermediate_size": 5120, "vision_output_dim": 7680, "max_num_tiles": 4, "supported_aspect_ratios": [{pairs}]}}}}"#
    );
    let own = 10_670_220_835.0
        - (40.0 * 218_112_000.0 + 8.0 * 258.0 + (2.0 * 128_256.0 + 8.0) * 4096.0 + 4096.0);
    let small = 40.0 * 11_520.0 + 4.0 * 1280.0 + 4096.0 + 19.0;
    let done = import(None, &mllama);
    assert_eq!(done.number("vision_weights_bytes"), 2.0 * (own - small));
    // A frame fills four tiles of 40 x 40 patches that attend to each other, and takes a row or two of the tables.
    let shape = hf_config::shape("config.json", &mllama, None, &Options::default());
    let shape = shape.expect("it is whole");
    let vision = shape.vision.expect("it has a tower");
    assert_eq!((vision.patches, vision.tiles), (6400.0, 1.0));
    let tables = (1601.0 * 37.0 + 73.0) * 1280.0;
    assert_eq!(vision.parameters, own - small - tables);
    assert_eq!(shape.tower_bytes, 2.0 * (own - small));
    // Neither a folder nor the file says a name.
    assert_eq!(shape.name, "mllama");
    let named = hf_config::shape("toy-11b/config.json", &mllama, None, &Options::default());
    assert_eq!(named.expect("it is whole").name, "toy-11b");
}

/// 112 pixels are 8 patches a side; two of eight layers see all. SAM states its window in patches.
#[test]
fn windows_of_towers_are_read() {
    let vision = |more: &str| {
        let text = format!(
            r#"{{"model_type": "qwen2_5_vl", {TEXT}, "vision_config": {{"depth": 8, "hidden_size": 64, "num_heads": 4, "intermediate_size": 128, "patch_size": 14,
            "spatial_merge_size": 2, "out_hidden_size": 256{more}}}}}"#
        );
        let options = Options {
            frame: Some((1344, 1344)),
            ..Options::default()
        };
        let shape = hf_config::shape("config.json", &text, None, &options).expect("it is whole");
        let vision = shape.vision.expect("it has a tower");
        (vision.windowed, vision.window)
    };
    assert_eq!(
        vision(r#", "window_size": 112, "fullatt_block_indexes": [3, 7]"#),
        (6.0, 64.0)
    );
    assert_eq!(
        vision(r#", "window_size": 14, "global_attn_indexes": [3, 7]"#),
        (6.0, 196.0)
    );
    assert_eq!(vision(""), (0.0, 0.0));
}

#[test]
fn a_tower_that_is_only_named_is_told() {
    for more in [
        r#""model_type": "molmo""#,
        r#""model_type": "molmo2", "vit_config": {"hidden_size": 64}"#,
        r#""model_type": "phi4mm", "embd_layer": {"image_embd_layer": {}}, "img_processor": null"#,
        r#""model_type": "qwen", "visual": {"width": 64, "layers": 2, "patch_size": 14}"#,
        r#""model_type": "ovis2", "visual_tokenizer_config": {}"#,
    ] {
        let done = import(Some((448, 448)), &format!("{{{more}, {TEXT}}}"));
        done.says(NoteKind::Read, "with a vision tower");
        done.says(NoteKind::Warning, "does not state the vision tower's shape");
        // A frame's size was given: it is not asked for again.
        done.says(
            NoteKind::Missing,
            "in a way that is known here: `--tokens-per-frame N`",
        );
        assert!(!done.said().contains("without vision"), "{}", done.said());
        assert!(
            !done.said().contains("`--frame 448x448`, or"),
            "{}",
            done.said()
        );
    }
}

#[test]
fn a_processor_of_another_class_is_not_said_to_be_absent() {
    let text = format!(
        r#"{{"model_type": "own_vl", {TEXT}, "vision_config": {{"depth": 2, "hidden_size": 64, "patch_size": 14, "spatial_merge_size": 2}}}}"#
    );
    let options = Options {
        frame: Some((448, 448)),
        ..Options::default()
    };
    let processor = r#"{"image_processor_type": "OwnImageProcessor", "size": {"shortest_edge": 3136, "longest_edge": 156800}}"#;
    let files = [
        ("toy/config.json", text.as_str()),
        ("toy/preprocessor_config.json", processor),
    ];
    let done = run(Kind::HfConfig, &options, &files);
    assert!(
        done.file().contains("(OwnImageProcessor) states none"),
        "{}",
        done.file()
    );
    assert!(!done.file().contains("not beside"), "{}", done.file());
}

/// Two layers would be 32: all that is left out is what `MistralConfig` takes.
#[test]
fn mistral_s_defaults_are_the_loader_s() {
    let done = import(
        None,
        r#"{"model_type": "llava_next", "torch_dtype": "bfloat16", "text_config": {"model_type": "mistral", "num_key_value_heads": 8, "sliding_window": null, "vocab_size": 32064, "tie_word_embeddings": false}}"#,
    );
    done.says(NoteKind::Warning, "`num_attention_heads` is not stated: 32");
    // 32 layers, 8 heads of 128, keys and values of 2 bytes.
    assert_eq!(done.number("kv_bytes_per_token"), 32.0 * 2.0 * 1024.0 * 2.0);
    let layer = 4096.0 * (2.0 * 4096.0 + 2.0 * 1024.0) + 3.0 * 4096.0 * 14336.0 + 2.0 * 4096.0;
    let all = 32.0 * layer + 2.0 * 32064.0 * 4096.0;
    assert_eq!(done.number("weights_bytes"), 2.0 * all);
}

#[test]
fn tables_within_tables_are_read_or_named() {
    let omni = format!(
        r#"{{"model_type": "qwen2_5_omni", "thinker_config": {{"text_config": {{"model_type": "qwen2_5_omni_text", {TEXT}}}}}}}"#
    );
    let done = import(None, &omni);
    assert_eq!(done.number("kv_bytes_per_token"), 2.0 * 2.0 * 256.0 * 2.0);
    let nvila =
        format!(r#"{{"model_type": "llava_llama", "llm_cfg": {{"model_type": "own", {TEXT}}}}}"#);
    let done = import(None, &nvila);
    assert_eq!(done.number("kv_bytes_per_token"), 2.0 * 2.0 * 256.0 * 2.0);
    let done = import(
        None,
        r#"{"model_type": "llava_llama", "llm_cfg": {"model_type": "own"}}"#,
    );
    done.says(NoteKind::Refused, "`llm_cfg.num_hidden_layers` is missing");
}
