//! What was guessed at or passed over once: commas, ranges, doubled keys, sizes.

use super::super::fit::{Point, fit};
use super::super::{Kind, NoteKind, Options};
use super::samples::gguf;
use super::{run, run_bytes};

const HEAD: &str = "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n";

fn table(rate: &str) -> String {
    format!("{HEAD}| toy 1B Q8_0 | 1.00 GiB | 1.00 B | CPU | 4 | pp512 | {rate} |\n")
}

#[test]
fn decimal_commas_are_read_where_they_mean_nothing_else() {
    let of = |rate: &str| {
        let text = table(rate);
        run(Kind::LlamaBench, &Options::default(), &[("a.md", &text)])
    };
    let path = "engines.cpu.stages.ingest.per_token_s";
    let plain = of("25.25 ± 0.11").number(path);
    assert_eq!(of("25,25 ± 0,11").number(path), plain);
    assert_eq!(of("0,125 ± 0,001").number(path), 8.0);
    // A thousand and more, or one and a bit.
    let done = of("1,234 ± 0.11");
    assert!(done.files.is_empty());
    done.says(
        NoteKind::Skipped,
        "is 1234 or 1.234: write it without a comma",
    );
    of("1,2,3 ± 0.11").says(NoteKind::Skipped, "is not a number");
}

#[test]
fn a_rate_of_no_stated_length_claims_no_range() {
    let text = "precisions:\n  w4a16:\n    components:\n      Toy-1B:\n        performance_metrics:\n          Toy Board:\n            genie:\n              llm_metrics:\n                - context_length: 4096\n                  time_to_first_token_range_milliseconds:\n                    min: 50.0\n                    max: 1600.0\n                  tokens_per_second: 20.0\n";
    let done = run(Kind::AiHub, &Options::default(), &[("toy.perf.yaml", text)]);
    let file = done.file();
    let decode = file.split("stages.decode]").nth(1).expect("it decodes");
    let decode = decode.split("\n[").next().unwrap_or("");
    assert!(!decode.contains("measured_"), "{decode}");
    assert!(
        file.contains("is not stated, so it has no measured range"),
        "{file}"
    );
}

#[test]
fn a_stage_table_does_not_say_how_many_tokens_were_generated() {
    let text = "### Multimodal\n\n| model | Stage | RK3588(w8a8) |\n| :--- | :---: | :---: |\n| Toy-2B | Prefill(len=196) | 632.6ms |\n|  | Decode | 16.6 tokens/s |\n";
    let done = run(Kind::Rkllm, &Options::default(), &[("t.md", text)]);
    let short = text.replace("tokens/s", "t/s");
    let same = run(Kind::Rkllm, &Options::default(), &[("t.md", &short)]);
    let rate = |done: &super::Done| done.number("engines.npu.stages.decode.per_token_s");
    assert_eq!(rate(&same), rate(&done));
    let decode = done
        .file()
        .split("stages.decode]")
        .nth(1)
        .expect("it decodes");
    let decode = decode.split("\n[").next().unwrap_or("");
    assert!(!decode.contains("measured_"), "{decode}");
    assert!(
        done.file().contains("measured_tokens = [196, 196]"),
        "{}",
        done.file()
    );
}

/// A header of version 3 with these keys and tensors, little-endian.
fn header(keys: &[&str], tensors: &[&str]) -> Vec<u8> {
    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((keys.len() as u64).to_le_bytes());
    for key in keys {
        text(&mut out, key);
        out.extend(4_u32.to_le_bytes());
        out.extend(7_u32.to_le_bytes());
    }
    for tensor in tensors {
        text(&mut out, tensor);
        out.extend(1_u32.to_le_bytes());
        out.extend(32_u64.to_le_bytes());
        out.extend(0_u32.to_le_bytes());
        out.extend(0_u64.to_le_bytes());
    }
    out
}

#[test]
fn a_key_or_a_tensor_that_is_there_twice_is_refused() {
    let refused = |bytes: &[u8], says: &str| {
        let done = run_bytes(Kind::Gguf, &Options::default(), &[("m.gguf", bytes)], true);
        assert!(done.files.is_empty());
        done.says(NoteKind::Refused, says);
    };
    refused(
        &header(&["a.b", "a.c", "a.b"], &[]),
        "key `a.b` is there twice",
    );
    refused(
        &header(&["a.b"], &["t", "u", "t"]),
        "tensor `t` is there twice",
    );
    let done = run_bytes(
        Kind::Gguf,
        &Options::default(),
        &[("m.gguf", &gguf(3, false))],
        true,
    );
    assert!(!done.files.is_empty(), "{}", done.said());
}

#[test]
fn a_key_of_a_header_that_cannot_be_read_is_no_absent_key() {
    let import = |key: &str, value: &[u8], length: usize| {
        let mut bytes = gguf(3, false);
        let at = bytes
            .windows(key.len())
            .position(|window| window == key.as_bytes())
            .expect("the header has the key");
        let from = at + key.len();
        bytes.splice(from..from + length, value.iter().copied());
        run_bytes(Kind::Gguf, &Options::default(), &[("m.gguf", &bytes)], true)
    };
    let text = [&8_u32.to_le_bytes()[..], &1_u64.to_le_bytes(), b"2"].concat();
    let number = |x: u32| [4_u32.to_le_bytes(), x.to_le_bytes()].concat();
    // The list of four: its type, its elements' type, their number and they.
    let (kv, list) = ("toy.attention.head_count_kv", 16 + 4 * 4);
    for (value, says) in [
        (&text, "`toy.attention.head_count_kv` is no number"),
        (&number(8), "is 8 for 4 heads"),
        (&number(3), "is 3 for 4 heads"),
    ] {
        let done = import(kv, value, list);
        assert!(done.files.is_empty(), "{}", done.said());
        done.says(NoteKind::Refused, says);
    }
    let done = import(kv, &number(2), list);
    assert_eq!(done.files.len(), 1, "{}", done.said());
    let length = "toy.attention.key_length";
    for value in [&text, &number(0)] {
        let done = import(length, value, 8);
        assert!(done.files.is_empty(), "{}", done.said());
        done.says(
            NoteKind::Refused,
            "`toy.attention.key_length` must be a whole number from 1",
        );
    }
}

#[test]
fn a_pocketpal_run_tells_the_bytes_of_its_weights() {
    let text = r#"{ "soc": "Toy", "commit": "a1", "bench": { "pp": 256, "tg": 64, "pl": 1 }, "runs": [ {
        "model_id": "toy-1b", "quant": "q4_0", "effective_backend": "cpu", "status": "ok", "pp_avg": 100.0, "tg_avg": 10.0,
        "log_signals": { "memory_buffers": { "weights_total_mib": 512.0 } },
        "effective_init_params": { "n_threads": 4 } } ] }"#;
    let done = run(Kind::LlamaBench, &Options::default(), &[("p.json", text)]);
    let path = "engines.cpu.stages.decode.bytes_per_token";
    assert_eq!(done.number(path), 512.0 * 1_048_576.0);
}

/// A vision projector's header, of pictures of 448 x 448 in patches of 14.
fn projector(kind: &str, more: &[(&str, u32)]) -> Vec<u8> {
    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend(1_u64.to_le_bytes());
    out.extend((4 + more.len() as u64).to_le_bytes());
    for (key, value) in [
        ("general.architecture", "clip"),
        ("clip.vision.projector_type", kind),
    ] {
        text(&mut out, key);
        out.extend(8_u32.to_le_bytes());
        text(&mut out, value);
    }
    let size = [
        ("clip.vision.image_size", 448_u32),
        ("clip.vision.patch_size", 14),
    ];
    for (key, value) in size.iter().chain(more) {
        text(&mut out, key);
        out.extend(4_u32.to_le_bytes());
        out.extend(value.to_le_bytes());
    }
    text(&mut out, "v.weight");
    out.extend(1_u32.to_le_bytes());
    out.extend(32_u64.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(0_u64.to_le_bytes());
    out
}

#[test]
fn what_a_projector_tells_names_the_projector() {
    let (model, tower) = (gguf(3, false), projector("mlp", &[]));
    let files = [("lm.gguf", &model[..]), ("mm.gguf", &tower[..])];
    let done = run_bytes(Kind::Gguf, &Options::default(), &files, true);
    assert_eq!(done.number("visual_tokens_per_frame"), 1024.0);
    let table: toml::Table = done.file().parse().expect("it is TOML");
    for (key, file) in [
        ("weights_bytes", "lm.gguf"),
        ("kv_bytes_per_token", "lm.gguf"),
        ("visual_tokens_per_frame", "mm.gguf"),
        ("vision_weights_bytes", "mm.gguf"),
    ] {
        let source = table["origins"][key]["source"].as_str();
        assert_eq!(source, Some(file), "{key}");
    }
    done.says(NoteKind::Read, "mm.gguf: `vision_weights_bytes` 128");
}

#[test]
fn a_projector_s_tiles_are_counted_or_said() {
    let scale = ("clip.vision.projector.scale_factor", 4);
    let longest = ("clip.vision.preproc_image_size", 1344);
    for (frame, keys, tokens, said) in [
        (None, &[scale][..], 64.0, "`clip.vision.preproc_image_size`"),
        (None, &[scale, longest], 64.0, "it has up to 10"),
        // 3 x 2 tiles of 448, and the whole.
        (Some((1280, 720)), &[scale, longest], 448.0, ""),
    ] {
        let (model, tower) = (gguf(3, false), projector("idefics3", keys));
        let files = [("lm.gguf", &model[..]), ("mm.gguf", &tower[..])];
        let options = Options {
            frame,
            ..Options::default()
        };
        let done = run_bytes(Kind::Gguf, &options, &files, true);
        assert_eq!(done.number("visual_tokens_per_frame"), tokens, "{frame:?}");
        assert_eq!(done.said().contains("1 tile a frame"), !said.is_empty());
        if !said.is_empty() {
            done.says(NoteKind::Warning, said);
        }
    }
}

/// To see it fail, take any projector.
#[test]
fn a_projector_of_another_model_is_told() {
    for (width, typed, told) in [(640, true, false), (1024, true, true), (768, false, false)] {
        let mut tower = projector("idefics3", &[("clip.vision.projection_dim", width)]);
        if typed {
            tower = with_text(&tower, "general.type", "mmproj");
        }
        let model = gguf(3, false);
        let files = [("lm.gguf", &model[..]), ("mm.gguf", &tower[..])];
        let done = run_bytes(Kind::Gguf, &Options::default(), &files, true);
        let says = "mm.gguf: it makes embeddings of 1024 numbers (`clip.vision.projection_dim`), and lm.gguf takes 640";
        assert_eq!(done.said().contains(says), told, "{}", done.said());
        assert_eq!(
            done.said().contains("makes embeddings"),
            told,
            "{}",
            done.said()
        );
    }
}

/// A header with one more key, the first.
fn with_text(header: &[u8], key: &str, value: &str) -> Vec<u8> {
    let keys = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
    let mut whole = header[..16].to_vec();
    whole.extend((keys + 1).to_le_bytes());
    for (index, text) in [key, value].into_iter().enumerate() {
        if index == 1 {
            whole.extend(8_u32.to_le_bytes());
        }
        whole.extend((text.len() as u64).to_le_bytes());
        whole.extend(text.as_bytes());
    }
    whole.extend(&header[24..]);
    whole
}

/// To see it fail, take the weights for the model's whatever they are of.
#[test]
fn a_file_with_tensors_of_some_layers_is_told() {
    let model = gguf(3, false);
    let done = run_bytes(
        Kind::Gguf,
        &Options::default(),
        &[("lm.gguf", &model[..])],
        true,
    );
    let says = "tensors of 1 of the 4 layers that `toy.block_count` states";
    done.says(NoteKind::Warning, says);
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
