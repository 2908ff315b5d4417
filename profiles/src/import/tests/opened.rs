//! Compressed files and files in other encodings, of every kind.

use super::super::{Kind, NoteKind, Options};
use super::samples::{AZURE, gguf, samples};
use super::{run, run_bytes};

fn wide(text: &str, unit: fn(u16) -> [u8; 2], mark: bool) -> Vec<u8> {
    let mark = mark.then_some(0xfeff);
    let units = mark.into_iter().chain(text.encode_utf16());
    units.flat_map(unit).collect()
}

#[test]
fn utf16_and_a_mark_change_nothing_of_any_kind() {
    for (kind, name, text) in samples() {
        let options = Options::default();
        let plain = run(kind, &options, &[(name, &text)]);
        let marked = format!("\u{feff}{text}").into_bytes();
        for bytes in [
            marked,
            wide(&text, u16::to_le_bytes, true),
            wide(&text, u16::to_be_bytes, true),
        ] {
            let done = run_bytes(kind, &options, &[(name, &bytes)], true);
            assert_eq!(done.files, plain.files, "{name}");
            assert_eq!(done.said(), plain.said(), "{name}");
        }
    }
}

#[test]
fn utf16_is_read_over_the_ends_of_its_pieces() {
    // Each character takes two units, and one of three bytes more shifts them against the pieces.
    for shift in 0..4 {
        let comment = format!("{}{}", "x".repeat(shift), "😀".repeat(9000));
        let text = format!("time_s,{comment}\n0,a\n1.5,b\n");
        let bytes = wide(&text, u16::to_le_bytes, true);
        let done = run_bytes(Kind::Trace, &Options::default(), &[("t.csv", &bytes)], true);
        assert_eq!(done.file(), "time_s\n0\n1.5\n");
        assert!(done.said().contains(&comment), "{}", done.said());
    }
    let mut bytes = wide(AZURE, u16::to_le_bytes, true);
    bytes.pop();
    let done = run_bytes(Kind::Trace, &Options::default(), &[("t.csv", &bytes)], true);
    done.says(
        NoteKind::Refused,
        "it begins as UTF-16 text and does not go on so in line 3",
    );
}

#[test]
fn an_encoding_that_cannot_be_read_is_named_with_what_converts_it() {
    let refused = |bytes: &[u8], says: &str| {
        let done = run_bytes(
            Kind::Trace,
            &Options::default(),
            &[("my trace.csv", bytes)],
            true,
        );
        assert!(done.files.is_empty());
        done.says(NoteKind::Refused, says);
    };
    refused(
        &wide(AZURE, u16::to_le_bytes, false),
        "my trace.csv: is text in UTF-16 (little-endian) without a byte order mark: save it as UTF-8, or `iconv -f UTF-16LE -t UTF-8 'my trace.csv' | crossinfer import trace -`",
    );
    refused(
        &wide(AZURE, u16::to_be_bytes, false),
        "iconv -f UTF-16BE -t UTF-8",
    );
    let mut wider = vec![0xff, 0xfe, 0, 0];
    wider.extend(AZURE.bytes().flat_map(|byte| [byte, 0, 0, 0]));
    refused(&wider, "is text in UTF-32");
}

#[test]
fn a_compressed_file_is_named_with_the_command_that_unpacks_it() {
    let packed: [(&[u8], &str); 5] = [
        (b"\x1f\x8b\x08\x00rest", "gzip: `gzip -dc "),
        (b"\x28\xb5\x2f\xfdrest", "zstd: `zstd -dc "),
        (b"\xfd7zXZ\x00rest", "xz: `xz -dc "),
        (b"BZh91AY&SYrest", "bzip2: `bzip2 -dc "),
        (b"PK\x03\x04rest", "zip: `unzip -p "),
    ];
    let kinds = [
        Kind::LlamaBench,
        Kind::Rkllm,
        Kind::AiHub,
        Kind::OrtProfile,
        Kind::Gguf,
        Kind::HfConfig,
        Kind::Trace,
        Kind::Bandwidth,
    ];
    for kind in kinds {
        for (bytes, says) in packed {
            let done = run_bytes(kind, &Options::default(), &[("a/it.gz", bytes)], true);
            let says = format!(
                "a/it.gz: is compressed by {says}a/it.gz | crossinfer import {} -`",
                kind.name()
            );
            done.says(NoteKind::Refused, &says);
            assert_eq!(done.notes.list.len(), 1, "{}", done.said());
        }
    }
    // Standard input, a spreadsheet, and text that only begins so.
    let said = |kind: Kind, name: &str, bytes: &[u8]| {
        run_bytes(kind, &Options::default(), &[(name, bytes)], true).said()
    };
    assert_eq!(
        said(Kind::Trace, "-", b"\x1f\x8b\x08"),
        "refused: -: is compressed by gzip: `gzip -dc | crossinfer import trace -`"
    );
    assert!(said(Kind::Trace, "-", b"PK\x03\x04").contains("`unzip -p FILE.zip | "));
    assert!(
        said(Kind::Trace, "a.xlsx", b"PK\x03\x04").contains("is a spreadsheet: save its sheet")
    );
    assert!(!said(Kind::LlamaBench, "t.md", b"BZh is no table").contains("bzip2"));
    // The others of several files are read.
    let header = gguf(3, false);
    let files: [(&str, &[u8]); 2] = [("a.gguf.gz", b"\x1f\x8b\x08"), ("b.gguf", &header)];
    let done = run_bytes(Kind::Gguf, &Options::default(), &files, true);
    assert_eq!(done.files.len(), 1, "{}", done.said());
}
