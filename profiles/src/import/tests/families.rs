//! Families have their own names for the same shape. What cannot be found is named; nothing has 0 layers.

use super::super::{Kind, NoteKind, Options};
use super::run;

fn import(text: &str) -> super::Done {
    let options = Options {
        weight_bits: Some(16.0),
        ..Options::default()
    };
    run(Kind::HfConfig, &options, &[("toy/config.json", text)])
}

#[test]
fn a_shape_has_many_names() {
    // Layers, KV bytes, parameters of the layers: 4 h² of attention, the MLP, norms.
    for (config, layers, kv, context) in [
        (
            r#""model_type": "bloom", "n_layer": 3, "n_head": 4, "n_embed": 64, "seq_length": 512"#,
            3.0 * (4.0 * 4096.0 + 8.0 * 4096.0 + 128.0),
            3.0 * 256.0,
            512.0,
        ),
        (
            r#""model_type": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 64, "n_inner": null, "n_ctx": 512"#,
            3.0 * (4.0 * 4096.0 + 8.0 * 4096.0 + 128.0),
            3.0 * 256.0,
            512.0,
        ),
        (
            r#""model_type": "mpt", "n_layers": 3, "n_heads": 4, "d_model": 64, "expansion_ratio": 2, "max_seq_len": 512, "attn_config": {"attn_type": "multiquery_attention"}"#,
            3.0 * (2.5 * 4096.0 + 4.0 * 4096.0 + 128.0),
            3.0 * 64.0,
            512.0,
        ),
        (
            r#""model_type": "dbrx", "n_layers": 3, "n_heads": 4, "d_model": 64, "max_seq_len": 512, "attn_config": {"kv_n_heads": 2, "clip_qkv": 8},
               "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}"#,
            3.0 * (3.0 * 4096.0 + 4.0 * 3.0 * 64.0 * 32.0 + 4.0 * 64.0 + 128.0),
            3.0 * 128.0,
            512.0,
        ),
        (
            r#""model_type": "opt", "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 64, "ffn_dim": 256, "max_position_embeddings": 512"#,
            3.0 * (4.0 * 4096.0 + 8.0 * 4096.0 + 128.0),
            3.0 * 256.0,
            512.0,
        ),
        // What it states holds the gate and the matrix beside it.
        (
            r#""model_type": "qwen", "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 512, "seq_length": 512"#,
            3.0 * (4.0 * 4096.0 + 12.0 * 4096.0 + 128.0),
            3.0 * 256.0,
            512.0,
        ),
    ] {
        let language = format!(r#"{config}, "vocab_size": 100, "tie_word_embeddings": true"#);
        // Alone, and as the language model of another.
        for text in [
            format!("{{{language}}}"),
            format!(r#"{{"model_type": "pair", "text_config": {{{language}}}}}"#),
        ] {
            let done = import(&text);
            done.says(NoteKind::Read, ", 3 layers");
            assert_eq!(done.number("kv_bytes_per_token"), kv, "{text}");
            assert_eq!(done.number("max_context_tokens"), context, "{text}");
            let weights = 2.0 * (layers + 6400.0);
            assert_eq!(done.number("weights_bytes"), weights, "{text}");
            assert!(!done.notes.any(NoteKind::Warning), "{}", done.said());
        }
    }
}

/// Mllama: what sees a picture is attended to from beside the context.
#[test]
fn pictures_that_are_no_part_of_the_context_are_told() {
    let config = |cross: &str| {
        format!(
            r#"{{"model_type": "mllama", "text_config": {{"model_type": "mllama_text_model", "num_hidden_layers": 4, "num_attention_heads": 4,
                "hidden_size": 64, "vocab_size": 100{cross}}}, "vision_config": {{"image_size": 28, "patch_size": 14}}}}"#
        )
    };
    let told = "a frame's tokens are no part of the context";
    let done = import(&config(r#", "cross_attention_layers": [1]"#));
    done.says(NoteKind::Warning, told);
    let done = import(&config(""));
    assert!(!done.said().contains(told), "{}", done.said());
}

#[test]
fn a_shape_that_is_not_there_is_named() {
    let rest = r#""n_heads": 4, "d_model": 64, "vocab_size": 100"#;
    for (config, said) in [
        (
            format!(r#"{{"num_layer": 3, {rest}}}"#),
            "toy/config.json:1: `num_hidden_layers` is missing, as are its other names `n_layer`, `num_layers`, `n_layers`; the nearest key is `num_layer`",
        ),
        (
            format!("{{\n\"n_layers\": 0,\n{rest}}}"),
            "toy/config.json:2: `n_layers` is 0: it must be a whole number from 1",
        ),
        (
            format!("{{\n\"n_layers\": \"3\",\n{rest}}}"),
            "toy/config.json:2: `n_layers` is \"3\": it must be",
        ),
        (
            "{\"text_config\": {\n\"n_layers\": 3, \"n_heads\": 4}}".to_owned(),
            "`text_config.hidden_size` is missing, as are its other names `n_embd`, `n_embed`, `d_model`, `dim`",
        ),
        (
            "{\"n_layers\": 3, \"hidden_size\": 64}".to_owned(),
            "`num_attention_heads` is missing, as are its other names `n_head`, `n_heads`, `num_heads`",
        ),
    ] {
        let done = import(&config);
        assert!(done.files.is_empty(), "{config}");
        done.says(NoteKind::Refused, said);
    }
}
