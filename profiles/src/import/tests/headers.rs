//! GGUF headers of a test's own keys: Llama 4's chunks, projectors whose tokens are not known, files without tokens.

use super::super::{Kind, NoteKind, Options, Source, gguf};
use super::run_bytes;

/// A header of version 3 with one tensor of 32 numbers; a value that is no number is a text.
fn header(keys: &[(&str, &str)]) -> Vec<u8> {
    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend(1_u64.to_le_bytes());
    out.extend((keys.len() as u64).to_le_bytes());
    for (key, value) in keys {
        text(&mut out, key);
        if let Ok(number) = value.parse::<u32>() {
            out.extend(4_u32.to_le_bytes());
            out.extend(number.to_le_bytes());
        } else {
            out.extend(8_u32.to_le_bytes());
            text(&mut out, value);
        }
    }
    text(&mut out, "token_embd.weight");
    out.extend(1_u32.to_le_bytes());
    out.extend(32_u64.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(0_u64.to_le_bytes());
    out
}

/// Eight layers of two KV heads of 16.
fn model(architecture: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let own: Vec<(String, &str)> = [
        ("block_count", "8"),
        ("embedding_length", "64"),
        ("feed_forward_length", "128"),
        ("context_length", "4096"),
        ("attention.head_count", "4"),
        ("attention.head_count_kv", "2"),
    ]
    .iter()
    .chain(more)
    .map(|(key, value)| (format!("{architecture}.{key}"), *value))
    .collect();
    let mut keys = vec![
        ("general.architecture", architecture),
        ("general.name", "Toy"),
        ("general.file_type", "2"),
    ];
    keys.extend(own.iter().map(|(key, value)| (key.as_str(), *value)));
    header(&keys)
}

/// The same as of its config.json, whose `attention_chunk_size` is 8192: the last of every four layers grows.
#[test]
fn llama_4_attends_within_chunks() {
    let layer = 2.0 * 2.0 * 16.0 * 2.0;
    let kv = |architecture: &str, more: &[(&str, &str)]| {
        let bytes = model(architecture, more);
        let options = Options {
            tokens_per_frame: Some(1),
            ..Options::default()
        };
        let done = run_bytes(Kind::Gguf, &options, &[("m.gguf", &bytes)], true);
        done.number("kv_bytes_per_token")
    };
    assert_eq!(kv("llama4", &[]), 2.0 * layer);
    assert_eq!(
        kv("llama4", &[("attention.sliding_window", "0")]),
        8.0 * layer
    );
    assert_eq!(kv("llama", &[]), 8.0 * layer);
}

#[test]
fn what_a_projector_lacks_is_said_whatever_the_frame_is() {
    let model = model("toy", &[]);
    for (kind, more, frame, says) in [
        (
            "resampler",
            "clip.vision.patch_size",
            None,
            "the projector `resampler`",
        ),
        (
            "resampler",
            "clip.vision.patch_size",
            Some((448, 448)),
            "the projector `resampler`",
        ),
        (
            "mlp",
            "clip.vision.patch_size",
            Some((448, 448)),
            "lacks `clip.vision.image_size`",
        ),
        (
            "qwen2vl_merger",
            "clip.vision.patch_size",
            None,
            "`--frame 448x448`",
        ),
        (
            "lfm2",
            "clip.vision.patch_size",
            Some((448, 448)),
            "the projector `lfm2`",
        ),
    ] {
        let tower = header(&[
            ("general.architecture", "clip"),
            ("clip.vision.projector_type", kind),
            (more, "14"),
        ]);
        let options = Options {
            frame,
            ..Options::default()
        };
        let files = [("lm.gguf", &model[..]), ("mm.gguf", &tower[..])];
        let done = run_bytes(Kind::Gguf, &options, &files, true);
        done.says(NoteKind::Missing, says);
        assert_eq!(
            done.said().contains("--frame 448x448"),
            kind.starts_with("qwen"),
            "{kind}"
        );
    }
}

#[test]
fn a_file_without_tokens_has_the_vocabulary_of_its_config() {
    let shape = |vocabulary| {
        let bytes = model("toy", &[]);
        gguf::shape(
            Source::new("m.gguf", std::io::Cursor::new(bytes)),
            vocabulary,
        )
    };
    let fault = shape(None).expect_err("it has none");
    assert!(
        fault.contains("give the model's config.json too"),
        "{fault}"
    );
    let (own, _) = shape(Some(1000.0)).expect("the config's");
    assert_eq!(own.head, 64_000.0);
    assert_eq!(own.architecture.as_deref(), Some("toy"));
    // A plain `config.json` has no name: the file's is taken.
    let config = crate::roofline::Shape {
        name: "config".to_owned(),
        architecture: None,
        ..own.clone()
    };
    let both = config.with_weights_of(&own).expect("they are of one model");
    assert_eq!(
        (both.name.as_str(), both.architecture.as_deref()),
        ("Toy", Some("toy"))
    );
    let family = crate::roofline::Shape {
        name: "toy_vl".to_owned(),
        model_type: Some("toy_vl_text".to_owned()),
        ..own.clone()
    };
    let both = family.with_weights_of(&own).expect("they are of one model");
    assert_eq!(both.name, "Toy");
}
