//! Which layers keep what, in the keys of every family that writes it in its own.

use super::super::{Kind, NoteKind, Options};
use super::run;

/// A configuration of eight query heads of 32 with these keys beside.
fn config(layers: usize, more: &str) -> String {
    format!(
        "{{\"hidden_size\": 256, \"num_attention_heads\": 8, \"num_hidden_layers\": {layers},\n \"intermediate_size\": 512, \"vocab_size\": 1000, \"torch_dtype\": \"bfloat16\", \"max_position_embeddings\": 8192,\n {more}}}"
    )
}

fn import(text: &str) -> super::Done {
    run(
        Kind::HfConfig,
        &Options::default(),
        &[("toy/config.json", text)],
    )
}

/// KV bytes of a token in one layer of two KV heads.
const LAYER: f64 = 2.0 * 2.0 * 32.0 * 2.0;

#[test]
fn only_layers_that_attend_to_all_of_the_context_grow() {
    let gqa = "\"num_key_value_heads\": 2";
    for (layers, more, grows) in [
        (
            4,
            r#""model_type": "nemotron_h", "hybrid_override_pattern": "M-M*""#,
            1,
        ),
        (
            4,
            r#""model_type": "bamba", "attn_layer_indices": [1, 3]"#,
            2,
        ),
        (
            4,
            r#""model_type": "lfm2", "full_attn_idxs": [2], "conv_L_cache": 3"#,
            1,
        ),
        (
            4,
            r#""model_type": "lfm2", "layer_types": ["conv", "conv", "full_attention", "conv"]"#,
            1,
        ),
        (
            4,
            r#""model_type": "minimax", "attn_type_list": [0, 0, 0, 1]"#,
            1,
        ),
        (
            8,
            r#""model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 2"#,
            2,
        ),
        (
            8,
            r#""model_type": "granitemoehybrid", "layer_types": ["mamba", "mamba", "mamba", "attention", "mamba", "mamba", "mamba", "mamba"]"#,
            1,
        ),
        (
            8,
            r#""model_type": "exaone4", "sliding_window": 512, "sliding_window_pattern": "LLLG""#,
            2,
        ),
        (
            8,
            r#""model_type": "llama4_text", "attention_chunk_size": 512"#,
            2,
        ),
        (
            4,
            r#""model_type": "llama4_text", "attention_chunk_size": 512, "no_rope_layers": [1, 0, 0, 1]"#,
            2,
        ),
        (
            4,
            r#""model_type": "mllama_text_model", "cross_attention_layers": [1]"#,
            3,
        ),
        (4, r#""model_type": "falcon_h1", "mamba_d_ssm": 64"#, 4),
        (
            4,
            r#""model_type": "zamba2", "layers_block_type": ["mamba", "hybrid", "mamba", "mamba"]"#,
            1,
        ),
        (4, r#""model_type": "llama""#, 4),
    ] {
        let done = import(&config(layers, &format!("{gqa}, {more}")));
        let kv = done.number("kv_bytes_per_token");
        assert_eq!(kv, LAYER * f64::from(grows), "{more}\n{}", done.file());
        assert!(
            !done.said().contains("looks as if"),
            "{more}\n{}",
            done.said()
        );
    }
    // Windows alone: a token costs while they fill, and nothing then.
    let recurrent = r#""num_key_value_heads": 2, "model_type": "recurrent_gemma", "block_types": ["recurrent", "recurrent", "attention"], "attention_window_size": 2048, "lru_width": 256"#;
    let done = import(&config(7, recurrent));
    assert_eq!(done.number("kv_bytes_per_token"), 2.0 * LAYER);
    assert_eq!(done.number("kv_bytes_per_token.low"), 0.0);
    assert!(
        done.file().contains("a window of 2048 tokens"),
        "{}",
        done.file()
    );
}

#[test]
fn shared_heads_are_counted_as_the_family_writes_them() {
    for (more, heads) in [
        (
            r#""model_type": "chatglm", "multi_query_attention": true, "multi_query_group_num": 2, "kv_channels": 32"#,
            2.0,
        ),
        (
            r#""model_type": "chatglm", "multi_query_attention": false, "multi_query_group_num": 2"#,
            8.0,
        ),
        // Falcon 7B states all heads beside its switch.
        (
            r#""model_type": "falcon", "multi_query": true, "num_kv_heads": 8"#,
            1.0,
        ),
        (r#""model_type": "falcon", "multi_query": false"#, 8.0),
        (
            r#""model_type": "falcon", "new_decoder_architecture": true, "multi_query": true, "num_kv_heads": 4"#,
            4.0,
        ),
        (
            r#""model_type": "falcon", "new_decoder_architecture": true, "n_head_kv": 4"#,
            4.0,
        ),
        (r#""model_type": "gpt_bigcode""#, 1.0),
        (r#""model_type": "gpt_bigcode", "multi_query": false"#, 8.0),
        (r#""model_type": "own", "num_kv_heads": 2"#, 2.0),
        // As in Meta's params.json.
        (r#""model_type": "own", "n_kv_heads": 2"#, 2.0),
        (r#""model_type": "own""#, 8.0),
    ] {
        let done = import(&config(2, more));
        let kv = done.number("kv_bytes_per_token");
        assert_eq!(kv, 2.0 * LAYER / 2.0 * heads, "{more}\n{}", done.file());
    }
    let done = import(&config(2, r#""multi_query_attention": true"#));
    done.says(
        NoteKind::Refused,
        "config.json:3: `multi_query_attention` is on",
    );
}

/// Gemma 4: fewer and wider heads where there is no window.
#[test]
fn layers_without_a_window_may_have_heads_of_their_own() {
    let gemma = r#""model_type": "gemma4_text", "num_key_value_heads": 4, "head_dim": 32, "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"], "global_head_dim": 64"#;
    let done = import(&config(2, gemma));
    assert_eq!(done.number("kv_bytes_per_token"), 2.0 * 4.0 * 64.0 * 2.0);
    done.says(NoteKind::Missing, "weights_bytes");
    let done = import(&config(
        2,
        &format!("{gemma}, \"num_global_key_value_heads\": 1"),
    ));
    assert_eq!(done.number("kv_bytes_per_token"), 2.0 * 64.0 * 2.0);
}

#[test]
fn a_state_has_its_bytes_or_is_said_to_be_unknown() {
    let layers = r#""num_key_value_heads": 2, "layer_types": ["mamba", "attention"]"#;
    let stated = r#""mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_n_groups": 1"#;
    let done = import(&config(2, &format!("{layers}, {stated}")));
    let bytes = 4 * (3072 * 128 + (3072 + 2 * 128) * 3);
    let text = format!("1 keep a state of fixed size, {bytes} bytes a context");
    assert!(done.file().contains(&text), "{}", done.file());
    let done = import(&config(2, layers));
    let text = "1 keep a state of fixed size, whose bytes the file does not tell";
    assert!(done.file().contains(text), "{}", done.file());
    // What such a layer's weights are is not counted, and not left out of the sum either.
    done.says(NoteKind::Missing, "has layers that are not counted here");
    let done = import(&config(
        4,
        r#""num_key_value_heads": 2, "cross_attention_layers": [1]"#,
    ));
    assert!(
        done.file().contains("1 attend to the picture alone"),
        "{}",
        done.file()
    );
}

#[test]
fn a_key_that_tells_layers_apart_and_is_not_known_is_no_absent_key() {
    for more in [
        r#""attn_pattern_by_layer": "LLGG""#,
        r#""global_attn_layer_ids": [0, 3]"#,
        r#""attention_types": ["a", "b", "a", "b"]"#,
        // Zamba2 without `layers_block_type`, and Kimi Linear, which counts from 1.
        r#""hybrid_layer_ids": [1, 3]"#,
        r#""linear_attn_config": {"full_attn_layers": [2, 4], "kda_layers": [1, 3]}"#,
    ] {
        let done = import(&config(4, more));
        assert!(done.files.is_empty(), "{more}");
        done.says(NoteKind::Refused, "toy/config.json:3: `");
        done.says(NoteKind::Refused, "the KV would be a guess");
    }
    let done = import(&config(4, r#""attn_layer_pattern": {"global": 4}"#));
    done.says(
        NoteKind::Warning,
        "toy/config.json:3: `attn_layer_pattern` looks as if it told layers apart",
    );
    for more in [
        r#""layer_norm_type": "rms", "moe_layer_interval": 2, "attention_bias": true"#,
        r#""hybrid_layer_pattern": null, "multi_query_attention": false"#,
    ] {
        let done = import(&config(4, more));
        assert!(!done.said().contains("looks as if"), "{}", done.said());
    }
}

#[test]
fn lists_that_do_not_fit_their_layers_are_refused() {
    for (more, says) in [
        (
            r#""hybrid_override_pattern": "M-M""#,
            "has 3 entries for 4 layers",
        ),
        (
            r#""hybrid_override_pattern": "M-X*""#,
            "has `X`, which is not known",
        ),
        (r#""attn_type_list": [0, 1]"#, "has 2 entries for 4 layers"),
        (r#""attn_layer_indices": [4]"#, "has 4, of 4 layers"),
        (
            r#""attn_layer_period": 2, "attn_layer_offset": 2"#,
            "is no layer of the period",
        ),
        (r#""layer_types": "conv""#, "is no list"),
        (
            r#""sliding_window": 8, "sliding_window_pattern": "LX""#,
            "is no pattern of `L` and `G`",
        ),
    ] {
        let done = import(&config(4, more));
        assert!(done.files.is_empty(), "{more}");
        done.says(NoteKind::Refused, says);
    }
}

#[test]
fn a_key_that_stands_twice_and_heads_that_do_not_divide_are_refused() {
    let done = import(
        "{\"num_hidden_layers\": 2,\n\"text_config\": {\"hidden_size\": 64,\n\"hidden_size\": 128}}",
    );
    done.says(
        NoteKind::Refused,
        "config.json:3: no JSON: `hidden_size` stands twice",
    );
    let odd = |more: &str| {
        import(&format!(
            "{{\"hidden_size\": 100, \"num_attention_heads\": 8, \"num_hidden_layers\": 2{more}}}"
        ))
    };
    let done = odd("");
    assert!(done.files.is_empty());
    done.says(
        NoteKind::Refused,
        "`hidden_size` is 100, which 8 heads do not divide",
    );
    assert_eq!(odd(", \"head_dim\": 16").files.len(), 1);
}

#[test]
fn an_mlp_without_a_gate_has_two_matrices() {
    let attention = 4.0 * 256.0 * 256.0 + 2.0 * 256.0;
    for (more, matrices) in [
        (r#""model_type": "phi", "hidden_act": "gelu_new""#, 2.0),
        (
            r#""model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh""#,
            2.0,
        ),
        (r#""model_type": "own", "hidden_act": "gelu_new""#, 2.0),
        (
            r#""model_type": "gemma", "hidden_act": "gelu_pytorch_tanh""#,
            3.0,
        ),
        (r#""model_type": "llama", "hidden_act": "silu""#, 3.0),
        (r#""model_type": "own""#, 3.0),
    ] {
        let tied = format!("{more}, \"tie_word_embeddings\": true");
        let done = import(&config(2, &tied));
        let all = 2.0 * (attention + matrices * 256.0 * 512.0) + 1000.0 * 256.0;
        assert_eq!(done.number("weights_bytes"), 2.0 * all, "{more}");
    }
}
