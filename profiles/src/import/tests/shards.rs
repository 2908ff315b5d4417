//! A model in several GGUF files is one model; a part of it is said to be one.

use super::super::{Kind, NoteKind, Options};
use super::run_bytes;

/// A shard of a model of two tensors a shard; the first has the model's keys.
fn shard(number: u16, count: u16, total: u32, tensors: &[&str]) -> Vec<u8> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let text = |text: &str| {
        let mut out = (text.len() as u64).to_le_bytes().to_vec();
        out.extend(text.as_bytes());
        out
    };
    let mut key = |name: &str, kind: u32, value: Vec<u8>| {
        keys.push([text(name), kind.to_le_bytes().to_vec(), value].concat());
    };
    key("split.no", 2, number.to_le_bytes().to_vec());
    key("split.count", 2, count.to_le_bytes().to_vec());
    key("split.tensors.count", 5, total.to_le_bytes().to_vec());
    if number == 0 {
        key("general.architecture", 8, text("toy"));
        for (name, value) in [
            ("block_count", 2_u32),
            ("context_length", 4096),
            ("embedding_length", 64),
            ("attention.head_count", 2),
        ] {
            key(&format!("toy.{name}"), 4, value.to_le_bytes().to_vec());
        }
    }
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((keys.len() as u64).to_le_bytes());
    out.extend(keys.concat());
    for name in tensors {
        out.extend(text(name));
        out.extend(2_u32.to_le_bytes());
        out.extend(64_u64.to_le_bytes());
        out.extend(100_u64.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
        out.extend(0_u64.to_le_bytes());
    }
    out
}

fn import(files: &[(&str, &[u8])]) -> super::Done {
    run_bytes(Kind::Gguf, &Options::default(), files, true)
}

#[test]
fn shards_are_summed_in_any_order() {
    let parts = [
        shard(0, 3, 4, &["token_embd.weight"]),
        shard(1, 3, 4, &["a", "b"]),
        shard(2, 3, 4, &["output.weight"]),
    ];
    let names = [1, 2, 3].map(|n| format!("dir/toy-0000{n}-of-00003.gguf"));
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let files = order.map(|at| (names[at].as_str(), parts[at].as_slice()));
        let done = import(&files);
        // 4 tensors of 64 x 100 16-bit numbers.
        assert_eq!(done.number("weights_bytes"), 51200.0, "{}", done.said());
        done.says(NoteKind::Read, "the headers of 3 shards");
        done.says(NoteKind::Read, "beside an output head of its own");
        assert!(done.file().contains("name = \"toy\"\n"), "{}", done.file());
    }
    // Under names of any kind as well.
    let files = [2, 0, 1].map(|at| (["a", "b", "c"][at], parts[at].as_slice()));
    assert_eq!(import(&files).number("weights_bytes"), 51200.0);
}

#[test]
fn a_missing_shard_is_named() {
    let first = shard(0, 3, 4, &["token_embd.weight"]);
    let second = shard(1, 3, 4, &["a", "b"]);
    let one = ("m/toy-00001-of-00003.gguf", first.as_slice());
    let two = ("m/toy-00002-of-00003.gguf", second.as_slice());
    let done = import(&[one, two]);
    done.says(
        NoteKind::Missing,
        "of 3 shards 2 are given; missing: `toy-00003-of-00003.gguf`",
    );
    assert!(!done.file().contains("\nweights_bytes"), "{}", done.file());
    assert_eq!(done.number("kv_bytes_per_token"), 512.0);
    let done = import(&[two]);
    assert!(done.files.is_empty());
    done.says(
        NoteKind::Refused,
        "is shard 2 of 3 and holds tensors alone; the first has the model's keys. Missing: `toy-00001-of-00003.gguf`, `toy-00003-of-00003.gguf`",
    );
    import(&[("x", &second)]).says(NoteKind::Refused, "Missing: shard 1 of 3, shard 3 of 3");
    import(&[("m/toy-00003-of-00003.gguf", &second)]).says(
        NoteKind::Refused,
        "its name says that it is shard 3 of 3, and its keys (`split.no`, `split.count`) that it is shard 2 of 3",
    );
}

#[test]
fn shards_that_do_not_fit_together_have_no_weights() {
    let first = shard(0, 2, 4, &["token_embd.weight"]);
    let one = ("toy-00001-of-00002.gguf", first.as_slice());
    let few = shard(1, 2, 4, &["a"]);
    let done = import(&[one, ("toy-00002-of-00002.gguf", &few)]);
    done.says(
        NoteKind::Missing,
        "its 2 shards have 2 tensors and `split.tensors.count` is 4",
    );
    let same = shard(1, 2, 4, &["a", "b", "token_embd.weight"]);
    let done = import(&[one, ("toy-00002-of-00002.gguf", &same)]);
    done.says(
        NoteKind::Refused,
        "tensor `token_embd.weight` is in another",
    );
    let done = import(&[("a", &first), ("b", &first)]);
    done.says(NoteKind::Refused, "b: is shard 1 of 2, as `a` is");
    for (number, count) in [(2, 2), (9, 3)] {
        let done = import(&[("a", &shard(number, count, 4, &["a"]))]);
        done.says(NoteKind::Refused, "shards are numbered from 0");
    }
}
