//! Memory bandwidth as benchmarks print it: sbc-bench (reports and its list of boards), tinymembench, mbw, STREAM,
//! `BabelStream`, and JSON of rates by buffer size.
//!
//! What a program copies it reads and writes: `memcpy` at 8 GB/s is 16 GB/s of traffic. STREAM's own rates count
//! both. A rate of one core bounds the chip's bandwidth from below.

mod boards;
mod by_size;
mod programs;
mod reports;
mod stream;
mod unit;

use std::fmt::Write as _;

use super::markdown;
use super::note::{NoteKind, Notes};
use super::row::Place;
use super::text::{self, slug};
use super::toml_text::{comment, number, origin, quantity, string};
use super::{Options, Output, Source};
use reports::read;

/// What moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flow {
    Read,
    Write,
    Both,
}

/// A rate.
#[derive(Clone, Debug)]
struct Rate {
    flow: Flow,
    /// Traffic, GB/s.
    gbps: f64,
    /// How it was measured.
    what: String,
    place: Place,
}

/// A board and its rates.
#[derive(Clone, Debug, Default)]
struct Board {
    name: String,
    file: String,
    chip: Option<String>,
    about: Vec<String>,
    cores: u64,
    /// Threads that STREAM says its rates are of.
    threads: Option<u32>,
    engine: &'static str,
    /// The headings that its rates stand under.
    section: Option<String>,
    rates: Vec<Rate>,
}

/// SoC profiles, as far as bandwidth goes.
pub(crate) fn import(sources: Vec<Source>, options: &Options, notes: &mut Notes) -> Vec<Output> {
    let mut boards = Vec::new();
    for source in sources {
        let file = source.name.clone();
        let Some(text) = text::whole(source, notes) else {
            continue;
        };
        let mut found = read(&file, &markdown::framed(&text), notes);
        found.retain_mut(|board| {
            board.rates.retain(|rate| is_sane(rate, notes));
            !board.rates.is_empty()
        });
        if found.is_empty() {
            notes.refuse(&file, Some(1), "no memory bandwidth here that can be used: neither of sbc-bench, tinymembench, mbw, STREAM, BabelStream nor of a list of rates by buffer size");
        }
        boards.extend(found);
    }
    let chosen = |board: &Board| {
        options.only.iter().all(|(key, value)| match key.as_str() {
            "board" => board.name.eq_ignore_ascii_case(value),
            "threads" => board
                .threads
                .is_some_and(|threads| *value == threads.to_string()),
            "soc" => board.chip.as_ref().is_some_and(|chip| is_chip(chip, value)),
            _ => false,
        })
    };
    let mut outputs: Vec<Output> = Vec::new();
    for board in boards.iter().filter(|board| chosen(board)) {
        let mut output = output(board, options, notes);
        let stem = output.name.clone();
        let mut number = 2;
        // Boards of one chip are different things.
        while outputs.iter().any(|other| other.name == output.name) {
            output.name = stem.replace("/soc.toml", &format!("-{number}/soc.toml"));
            number += 1;
        }
        outputs.push(output);
    }
    if outputs.is_empty() && !boards.is_empty() {
        notes.refuse(
            "",
            None,
            "no board that `--only` chooses (`board=NAME`, `soc=NAME`, `threads=N`)",
        );
    }
    outputs
}

/// Traffic that a memory may have, GB/s.
const GBPS: std::ops::RangeInclusive<f64> = 1e-3..=1e5;

/// Whether a rate is one of a memory; one that is not is told.
fn is_sane(rate: &Rate, notes: &mut Notes) -> bool {
    let sane = GBPS.contains(&rate.gbps);
    if !sane {
        let text = format!(
            "`{}` is out of all bounds: a memory moves {:e} to {:e} GB/s",
            text::short(&rate.what),
            GBPS.start(),
            GBPS.end()
        );
        notes.skip(&rate.place.file, rate.place.line, text);
    }
    sane
}

/// Whether a chip is called so: `RK3588` is `Rockchip RK3588`.
fn is_chip(chip: &str, name: &str) -> bool {
    let mut words = chip.split([' ', ',', '(', ')']);
    chip.eq_ignore_ascii_case(name) || words.any(|word| word.eq_ignore_ascii_case(name))
}

fn output(board: &Board, options: &Options, notes: &mut Notes) -> Output {
    let key = options.soc.clone().unwrap_or_else(|| slug(&board.name));
    let most = board.rates.iter().max_by(|a, b| a.gbps.total_cmp(&b.gbps));
    let kind = if options.ours {
        "measured"
    } else {
        "published"
    };
    let mut text = String::new();
    for about in &board.about {
        text += &comment(about);
    }
    let name = board.chip.as_ref().map_or_else(
        || board.name.clone(),
        |chip| format!("{} ({chip})", board.name),
    );
    _ = writeln!(text, "name = {}\n\n[memory]", string(&name));
    let mut origins = String::new();
    let mut missing = Vec::new();
    let lacks = |text: &mut String, missing: &mut Vec<&str>, key: &'static str, from: &str| {
        _ = writeln!(text, "# missing: {key}: {from}");
        missing.push(key);
    };
    lacks(
        &mut text,
        &mut missing,
        "capacity_bytes",
        "the board's data sheet",
    );
    lacks(
        &mut text,
        &mut missing,
        "reserved_bytes",
        "`free -b` on the idle board",
    );
    if let Some(rate) = most {
        _ = writeln!(
            text,
            "bandwidth_gbps = {}",
            quantity(rate.gbps, "bandwidth", None)
        );
        said("bandwidth_gbps", rate, notes);
        let source = format!("{} {}", rate.place, rate.what);
        let note = "Traffic of the fastest of these programs, reads and writes together: a lower bound of what all engines reach together";
        origins += &origin("bandwidth", kind, &source, note);
    }
    text += "\n[cpu]\n";
    if board.cores > 0 {
        _ = writeln!(
            text,
            "cores = {}",
            quantity(board.cores as f64, "cores", None)
        );
        origins += &origin(
            "cores",
            kind,
            &board.file,
            "The rows of the report's CPU topology",
        );
    } else {
        lacks(&mut text, &mut missing, "cores", "`nproc` on the board");
    }
    engine(board, kind, &mut text, &mut origins, notes);
    let note = format!(
        "{}: {} and the other engines: this file tells of one engine's memory bandwidth only",
        board.name,
        missing.join(", ")
    );
    notes.add(NoteKind::Missing, &board.file, None, note);
    for rate in &board.rates {
        origins += &comment(&format!(
            "{}: {}, {} GB/s of traffic",
            rate.place,
            rate.what,
            number(rate.gbps)
        ));
    }
    Output {
        name: format!("{}/soc.toml", slug(&key)),
        identity: match board.threads {
            Some(threads) => format!("board={} threads={threads}", board.name),
            None => format!("board={}", board.name),
        },
        text: text + &origins,
        aside: false,
    }
}

/// Says what a number was had from.
fn said(name: &str, rate: &Rate, notes: &mut Notes) {
    let text = format!("`{name}` {}: {}", number(rate.gbps), rate.what);
    notes.add(
        NoteKind::Read,
        &rate.place.file,
        Some(rate.place.line),
        text,
    );
}

/// The only engine that such a file tells of.
fn engine(board: &Board, kind: &str, text: &mut String, origins: &mut String, notes: &mut Notes) {
    // Each is a lower bound, so the highest is the nearest; a search such as memchr computes as well.
    let port = board.rates.iter().max_by(|a, b| a.gbps.total_cmp(&b.gbps));
    let engine = board.engine;
    _ = writeln!(text, "\n[engines.{engine}]\nkind = \"{engine}\"");
    if let Some(rate) = port {
        said("port_gbps", rate, notes);
        _ = writeln!(text, "port_gbps = {}", quantity(rate.gbps, "port", None));
        let source = format!("{} {}", rate.place, rate.what);
        let note = match rate.flow {
            Flow::Read => "The fastest read of one core or program; more cores may reach more",
            Flow::Both => "Bytes read and written of a copy, the most that is measured here",
            Flow::Write => "Bytes written, the most that is measured here",
        };
        *origins += &origin("port", kind, &source, note);
    }
    _ = writeln!(text, "weight = {}", quantity(1.0, "weight", None));
    *origins += &origin(
        "weight",
        "derived",
        "",
        "The only engine here, to which others would be relative",
    );
    _ = writeln!(text, "\n[lanes.{engine}]\nengine = \"{engine}\"");
}
