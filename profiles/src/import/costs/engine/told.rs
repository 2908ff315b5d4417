//! What a reader is told of an engine's rows: what became of them, what they leave open, what is missing.

use std::collections::BTreeSet;

use super::super::super::fit::{Point, TERMS};
use super::super::super::note::{NoteKind, Notes};
use super::super::super::row::{Row, Test};
use super::super::super::toml_text::number;
use super::{Engine, sources};

/// Contexts that lie nearer to each other tell little of what one of thousands of tokens costs.
const NEAR: u64 = 1024;

impl Engine<'_> {
    /// Says which rows became which stages.
    pub(super) fn said(&self, stages: &[&str], rows: &[&Row], notes: &mut Notes) {
        let Some(first) = rows.first().filter(|_| !self.cold) else {
            return;
        };
        let text = format!(
            "engine `{}`: {} of {}",
            self.name,
            stages.join(" and "),
            sources(rows)
        );
        notes.add(
            NoteKind::Read,
            &first.place.file,
            Some(first.place.line),
            text,
        );
    }

    /// Warns where no row is without a context beyond what it goes through itself: what it costs there is not measured.
    pub(super) fn deep(&self, kind: &str, points: &[Point], rows: &[&Row], notes: &mut Notes) {
        let least = points.iter().map(|p| p.depth).fold(f64::MAX, f64::min);
        let tokens = points.iter().map(|p| p.tokens).fold(0.0, f64::max);
        let Some(first) = rows.first().filter(|_| least > tokens) else {
            return;
        };
        let several = points.iter().any(|point| point.depth > least);
        let text = format!(
            "engine `{}`, {kind}: no row has a context below {least} tokens; there {}: `llama-bench -d 0,{least}` measures it",
            self.name,
            if several {
                "the line through the deeper rows goes on, as nobody measured"
            } else {
                "the cost is taken to be the same, which is more than it is"
            }
        );
        notes.add(
            NoteKind::Warning,
            &first.place.file,
            Some(first.place.line),
            text,
        );
    }

    /// Warns where what a token of context costs comes from two lengths alone that are near each other.
    pub(super) fn near(
        &self,
        kind: &str,
        (points, rows): (&[Point], &[&Row]),
        form: &[f64; TERMS],
        notes: &mut Notes,
    ) {
        // The mean context of a row's tokens.
        let context = |point: &Point| (point.depth + (point.tokens - 1.0) / 2.0).round();
        let lengths: BTreeSet<u64> = points.iter().map(|point| context(point) as u64).collect();
        let list: Vec<u64> = lengths.into_iter().collect();
        let ([short, long], Some(first)) = (list.as_slice(), rows.first()) else {
            return;
        };
        let more = form[2] * (long - short) as f64;
        if form[2] <= 0.0 || long - short >= NEAR {
            return;
        }
        let each = form[1] + form[2] * *short as f64;
        let text = format!(
            "engine `{}`, {kind}: the cost of context comes from two near lengths alone, {short} and {long} tokens on average ({:.1} % of a token's time apart): `llama-bench -d 0,4096` measures it",
            self.name,
            100.0 * more / (each + more)
        );
        notes.add(
            NoteKind::Warning,
            &first.place.file,
            Some(first.place.line),
            text,
        );
    }

    /// Compares prompt and generation timed together with what the separate rows make of it.
    pub(super) fn check_both(
        &self,
        prefill: Option<[f64; TERMS]>,
        decode: Option<[f64; TERMS]>,
        notes: &mut Notes,
    ) {
        for row in &self.rows {
            let Test::Both {
                prompt,
                tokens,
                depth,
            } = row.test
            else {
                continue;
            };
            let (file, line) = (&row.place.file, row.place.line);
            let (Some(prefill), Some(decode)) = (prefill, decode) else {
                notes.skip(
                    file,
                    line,
                    format!("`{}` is prompt and generation in one time; without rows of each it cannot be told apart", row.test),
                );
                continue;
            };
            let at = |tokens: u64, depth: u64, form| {
                let point = Point {
                    tokens: tokens as f64,
                    depth: depth as f64,
                    secs: 1.0,
                };
                point.at(form)
            };
            let predicted = at(prompt, depth, &prefill) + at(tokens, depth + prompt, &decode);
            let text = format!(
                "`{}` is not used; the separate rows predict {} s, measured {} s ({:+.1} %)",
                row.test,
                number(predicted),
                number(row.secs),
                100.0 * (predicted / row.secs - 1.0)
            );
            notes.add(NoteKind::Read, file, Some(line), text);
        }
    }

    /// What the profile lacks, and what would supply it.
    pub(super) fn missing(&self, prefill: bool, decode: bool, notes: &mut Notes) {
        let whole = self.rows.iter().all(|row| matches!(row.test, Test::Run(_)));
        if whole {
            return;
        }
        let depths: BTreeSet<u64> = self
            .rows
            .iter()
            .filter_map(|row| match row.test {
                Test::Prefill { depth, .. } | Test::Decode { depth, .. } => Some(depth),
                _ => None,
            })
            .collect();
        let encode = self
            .rows
            .iter()
            .any(|row| matches!(row.test, Test::Encode { .. }));
        let lacks = [
            (!prefill, "no prefill: `llama-bench -p 512` measures it"),
            (!decode, "no decode: `llama-bench -n 128` measures it"),
            (
                (prefill || decode) && depths.len() < 2,
                "one context length only, so the cost of a longer context is unknown: `llama-bench -d 0,4096` measures it",
            ),
            (
                !encode,
                "no vision tower: `crossinfer import ort-profile` or an `rkllm` multimodal table supplies it",
            ),
        ];
        for (lack, text) in lacks {
            if lack {
                notes.add(
                    NoteKind::Missing,
                    "",
                    None,
                    format!("engine `{}`: {text}", self.name),
                );
            }
        }
    }
}
