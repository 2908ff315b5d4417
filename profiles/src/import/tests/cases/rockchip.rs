//! Faults met with Rockchip's NPU.

use std::fmt::Write as _;

use super::super::super::fit::Point;
use super::super::super::{Kind, NoteKind};
use super::super::number;
use super::plain;
use crate::roofline::efficiency::{Efficiencies, Phase};
use crate::roofline::{Chip, Placed, chip, shape};

pub(super) fn encode_by_core_count() {
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

/// Wherever a table says how many cores there were, one and three are two things.
#[test]
fn cores_are_told_apart_wherever_a_table_states_them() {
    const RULE: &str = "| - | - | - | - |\n";
    let cells = format!(
        "| model | Stage | RK3588(w8a8) |\n{}| Toy-2B | img-encoder(392*392), 1 core | 6.0s |\n| | img-encoder(392*392, 3 cores) | 3.28s |\n| | Prefill(len=196) | 600ms |\n",
        &RULE[4..]
    );
    let heads = format!(
        "| model | Stage | RK3588(w8a8, one core) | RK3588(w8a8, 3 cores) |\n{RULE}| Toy-2B | img-encoder(392*392) | 6.0s | 3.28s |\n| | Prefill(len=196) | 600ms | 600ms |\n"
    );
    let column = format!(
        "| model | Stage | NPU cores | RK3588(w8a8) |\n{RULE}| Toy-2B | img-encoder(392*392) | 1 | 6.0s |\n| | img-encoder(392*392) | 3 | 3.28s |\n| | Prefill(len=196) | 3 | 600ms |\n"
    );
    for text in [cells, heads, column] {
        let text = text + "\n- The img-encoder runs with FP16.\n";
        let done = plain(Kind::Rkllm, &[("b.md", &text)]);
        assert_eq!(done.files.len(), 2, "{}", done.said());
        for (cores, secs) in [("on 1 core of", 6.0), ("on 3 cores of", 3.28)] {
            let of = |(_, text): &&(String, String)| text.contains(cores);
            let (_, text) = done.files.iter().find(of).expect("it is there");
            assert_eq!(number(text, "engines.npu.stages.encode.fixed_s"), secs);
            assert!(text.contains("; quant = w8a8;") && text.contains("in fp16"));
        }
        assert!(!done.said().contains("not stated"), "{}", done.said());
        assert!(!done.notes.any(NoteKind::Skipped), "{}", done.said());
    }
}

#[test]
fn stages_are_read_in_any_order_of_columns_and_units_that_slip_are_told() {
    let text = "| Stage | RK3588(w8a8) | model | RK3576(w4a16) |\n| - | - | - | - |\n| img-encoder(392*392) | 2.09s | Toy-2B | 2.27ms |\n| Prefill(len=196) | 600ms | | 900ms |\n";
    let done = plain(Kind::Rkllm, &[("b.md", text)]);
    assert_eq!(done.files.len(), 2, "{}", done.said());
    assert!(!done.notes.any(NoteKind::Skipped), "{}", done.said());
    done.says(
        NoteKind::Warning,
        "b.md:3: 2.09s of RK3588(w8a8) is 921 times 2.27ms of RK3576(w4a16)",
    );
    let text = "| model | Type | Backend | PP (tok/s) | TG (tok/s) |\n| - | - | - | - | - |\n| toy | Q8_0 | CPU | 1e-320 | 5 |\n\npp512, tg128\n";
    let done = plain(Kind::Rkllm, &[("b.md", text)]);
    done.says(
        NoteKind::Skipped,
        "a time beyond all numbers is out of all bounds",
    );
}

pub(super) fn prefill_at_two_lengths() {
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

pub(super) fn one_slow_encode() {
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

/// A board with half the DRAM width: decode is planned by its bandwidth, prefill is not; and its times are never put
/// together with those of the other.
pub(super) fn half_the_memory_width() {
    let whole = Chip::find(chip::shipped(), "rk3588").expect("its datasheet is there");
    let mut half = whole.clone();
    half.peak_gbps /= 2.0;
    let model = shape::known("Qwen3 0.6B").expect("its shape is known");
    let times = |chip: &Chip| {
        let placed = Placed::new(chip, "npu", &chip.engines["npu"], &model, "w8a8", None);
        let placed = placed.expect("it fits");
        let secs = |phase, work| {
            let predicted = Efficiencies::shipped().predict("rkllm/npu", phase, work, "w8a8");
            predicted.expect("it is fitted").secs
        };
        (
            secs(Phase::Decode, placed.decode(64.0, 128.0)),
            secs(Phase::Prefill, placed.prefill(128.0, 0.0)),
        )
    };
    let (slow, fast) = (times(&half), times(whole));
    // What the CPU does for every layer is the rest.
    assert!(
        (1.4..=2.0).contains(&(slow.0 / fast.0)),
        "{slow:?} {fast:?}"
    );
    assert!(
        (1.0..1.15).contains(&(slow.1 / fast.1)),
        "{slow:?} {fast:?}"
    );
    let table = |rate: f64| {
        format!(
            "### RK3588\n\n| Model | Model Size | Dtype | Seqlen | New_tokens | TTFT(ms) | Tokens/s |\n| - | - | - | - | - | - | - |\n\
             | Toy | 0.6B | w8a8 | 128 | 64 | 213.5 | {rate} |\n"
        )
    };
    let (fast, slow) = (table(32.16), table(11.29));
    let done = plain(
        Kind::Rkllm,
        &[("a_v1.2.0.md", &fast), ("b_v1.2.0.md", &slow)],
    );
    done.says(NoteKind::Conflict, "tg64");
    assert!(!done.file().contains("stages.decode]"), "{}", done.file());
}

/// To see it fail, take the table for one of language models alone.
#[test]
fn a_multimodal_table_of_one_model_a_row_has_its_encodes() {
    let text = "| multimodal model | image input size | vision model dtype | vision infer time(s) | vision memory(MB) | llm model dtype | seqlen | max_context | new_tokens | TTFT(ms) | Tokens/s | llm memory(G) | platform |\n\
                |-|-|-|-|-|-|-|-|-|-|-|-|-|\n\
                | Toy-VL-2B | (1, 3, 392, 448) | fp16 | 3.55 | 1436 | w4a16 | 256 | 384 | 128 | 2560 | 12.8 | 1.75 | RK3576 |\n\
                | | | fp16 | 3.28 | 1436 | w8a8 | 256 | 384 | 128 | 1280 | 16.0 | 2.47 | RK3588 |\n\
                | Toy-V | big | int8 | none | 9 | w8a8 | 256 | 384 | 128 | 1280 | 16.0 | 2.47 | RK3588 |\n";
    let done = plain(Kind::Rkllm, &[("t_v1.1.0.md", text)]);
    assert_eq!(done.files.len(), 3, "{}", done.said());
    for (at, encode, prefill) in [(0, 3.55, 0.01), (1, 3.28, 0.005)] {
        let file = &done.files[at].1;
        assert_eq!(number(file, "engines.npu.stages.encode.fixed_s"), encode);
        assert_eq!(
            number(file, "engines.npu.stages.ingest.per_token_s"),
            prefill
        );
        assert!(file.contains("encode_quant = fp16"), "{file}");
    }
    done.says(NoteKind::Read, "`encode 448x392` 3.55 s");
    done.says(NoteKind::Skipped, "t_v1.1.0.md:5: `vision infer time(s)`:");
    done.says(
        NoteKind::Warning,
        "t_v1.1.0.md:5: `image input size` is `big`",
    );
    done.says(
        NoteKind::Warning,
        "on how many NPU cores the encoder ran is not stated",
    );
    done.says(
        NoteKind::Skipped,
        "no time, so not used: vision memory(MB), max_context, llm memory(G)",
    );
}

/// To see it fail, pass over the line.
#[test]
fn the_demo_s_log_has_the_time_of_a_frame() {
    let log = |time: &str| {
        format!(
            "I rkllm: rkllm-runtime version: 1.2.1, rknpu driver version: 0.9.8, platform: RK3588\n\
             I rkllm: loading rkllm model from toy.rkllm\n\
             I rkllm: target_platform: RK3588, max_context_limit: 4096, npu_core_num: 3, model_dtype: W8A8\n\
             main: ImgEnc Model loaded in 1934.41 ms\nmodel input height=392, width=448, channel=3\n\
             main: ImgEnc Model inference took {time}\n\
             I rkllm:  Prefill  442.40  14  31.60  31.65\nI rkllm:  Generate  1000.00  10  100.00  10.00\n"
        )
    };
    let done = plain(Kind::Rkllm, &[("log.txt", &log("2934.41 ms"))]);
    assert_eq!(done.number("engines.npu.stages.encode.fixed_s"), 2.93441);
    assert!(done.number("engines.npu.stages.decode.per_token_s") > 0.0);
    done.says(
        NoteKind::Skipped,
        "log.txt:4: `main: ImgEnc Model loaded in 1934.41 ms`",
    );
    done.says(
        NoteKind::Warning,
        "log.txt:6: in which precision and on how many NPU cores",
    );
    assert!(
        done.file().contains("a number of cores that is not stated"),
        "{}",
        done.file()
    );
    for (time, why) in [
        ("2934.41", "has no unit"),
        ("-1 ms", "no time"),
        ("soon", "no time"),
    ] {
        let done = plain(Kind::Rkllm, &[("log.txt", &log(time))]);
        done.says(
            NoteKind::Skipped,
            &format!("log.txt:6: the encoder's time: `{time}"),
        );
        assert!(done.said().contains(why), "{time}: {}", done.said());
    }
}
