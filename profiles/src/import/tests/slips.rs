//! Keys that are likely misspelt, where without the one that is meant another thing would be told.

use super::super::{Kind, NoteKind, Options, hf_config};
use super::run;
use super::samples::{CONFIG, HUB};

#[test]
fn a_misspelt_key_of_a_configuration_is_told_and_one_that_is_new_is_not() {
    let import = |text: &str| run(Kind::HfConfig, &Options::default(), &[("c.json", text)]);
    let plain = import(CONFIG);
    for (right, wrong) in [
        ("num_key_value_heads", "num_key_value_head"),
        ("num_key_value_heads", "num-key-value-heads"),
        ("num_key_value_heads", "numKeyValueHeads"),
        ("num_key_value_heads", "num_key_vlaue_heads"),
        ("head_dim", "head_dimm"),
        ("full_attention_interval", "full_attention_intervals"),
        ("num_hidden_layers", "num_hiden_layers"),
        ("vision_config", "vision_confg"),
        ("spatial_merge_size", "spatial_merg_size"),
        ("tie_word_embeddings", "tie_word_embedding"),
    ] {
        let text = CONFIG.replace(&format!("\"{right}\""), &format!("\"{wrong}\""));
        assert_ne!(text, CONFIG);
        let done = import(&text);
        assert!(done.files.is_empty(), "{wrong}\n{}", done.said());
        let line = 1 + text
            .lines()
            .position(|line| line.contains(wrong))
            .expect("it is there");
        let says =
            format!("c.json:{line}: `{right}` is missing; the nearest is `{wrong}`: rename it");
        done.says(NoteKind::Refused, &says);
        let shape = hf_config::shape("c.json", &text, None, &Options::default());
        assert!(shape.is_err_and(|why| why.contains(&says)), "{wrong}");
    }
    for (key, new) in [
        ("\"head_dim\"", "\"v_head_dim\": 64, \"head_dim\""),
        (
            "\"num_key_value_heads\"",
            "\"num_key_value_head\": 2, \"num_key_value_heads\"",
        ),
        (
            "\"vocab_size\"",
            "\"hidden_sizes\": [2], \"colour\": 3, \"vocab_size\"",
        ),
    ] {
        let done = import(&CONFIG.replacen(key, new, 1));
        assert_eq!(
            done.files.len(),
            plain.files.len(),
            "{new}\n{}",
            done.said()
        );
    }
}

#[test]
fn a_misspelt_key_of_a_job_is_told() {
    let import = |text: &str| run(Kind::AiHub, &Options::default(), &[("toy.perf.yaml", text)]);
    for (right, wrong) in [
        ("components", "component"),
        ("performance_metrics", "performance_metric"),
        ("job_status", "job_satus"),
        ("llm_metrics", "llm_metric"),
        ("inference_time_milliseconds", "inference_time_millisecond"),
        ("primary_compute_unit", "primary_compute_units"),
        ("context_length", "context_lenght"),
        ("tokens_per_second", "token_per_second"),
        ("layer_counts", "layer_count"),
    ] {
        let text = HUB.replace(&format!("{right}:"), &format!("{wrong}:"));
        assert_ne!(text, HUB);
        import(&text).says(
            NoteKind::Skipped,
            &format!("`{right}` is missing; the nearest is `{wrong}`: rename it"),
        );
    }
    let text = HUB.replace("components:", "parts:");
    import(&text).says(
        NoteKind::Skipped,
        "toy.perf.yaml:5: w4a16: `components` is missing",
    );
    assert!(!import(HUB).said().contains("missing; the nearest"));
    // The file beside it, whose keys are many, is named for what it is.
    let keys = [
        "name",
        "id",
        "status",
        "headline",
        "domain",
        "use_case",
        "tags",
        "description",
    ];
    let keys = keys.map(|key| format!("{key}: x\n")).concat() + "a: x\nb: x\n";
    let info = import(&format!("{keys}technical_details:\n  Model size: 1\n"));
    info.says(
        NoteKind::Refused,
        "this is an `info.yaml`, which holds no times",
    );
    import("precision:\n  float: {}\n").says(NoteKind::Refused, "the nearest is `precision`");
}
