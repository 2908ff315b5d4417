//! Samples as lines of text, so that an interrupted measurement goes on where it was.

use sim::spec::model::StageKind;

use super::bench::Timed;
use super::point::kind_name;
use super::point::{Measured, Point};

/// A sample as one line, without its end: fields parted by tabs.
pub fn line(point: &Point, timed: &Timed) -> String {
    let what = match point {
        Point::Stage {
            engine,
            kind,
            size,
            context,
        } => format!("stage\t{engine}\t{}\t{size}\t{context}", kind_name(*kind)),
        Point::Cold {
            engine,
            kind,
            size,
            context,
        } => format!("cold\t{engine}\t{}\t{size}\t{context}", kind_name(*kind)),
        Point::Group { victim, does, busy } => {
            format!("group\t{victim}\t{}\t{busy}", kind_name(*does))
        }
        Point::Prefix {
            from,
            to,
            tokens,
            imported,
        } => format!("prefix\t{from}\t{to}\t{tokens}\t{imported}"),
        Point::Clock { lane } => format!("clock\t{lane}"),
        Point::Pair {
            victim,
            does,
            aggressor,
            beside,
            busy,
        } => format!(
            "pair\t{victim}\t{}\t{aggressor}\t{}\t{busy}",
            kind_name(*does),
            kind_name(*beside)
        ),
        Point::Stream { lane, together } => format!("stream\t{lane}\t{together}"),
    };
    let cpu = timed
        .cpu_s
        .map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:e}"));
    format!("{what}\t{:e}\t{cpu}", timed.wall_s)
}

/// Reads lines back; the number of the first that is none, from 1, as the error. A last line without
/// its end, of a process that was killed, is left out.
pub fn read(text: &str) -> Result<Measured, usize> {
    let mut measured = Measured::default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (index, line) in whole.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (point, timed) = parse(line).ok_or(index + 1)?;
        measured.add(point, timed);
    }
    Ok(measured)
}

fn parse(line: &str) -> Option<(Point, Timed)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [.., wall, cpu] = fields[..] else {
        return None;
    };
    let timed = Timed {
        wall_s: wall.parse().ok().filter(|wall: &f64| wall.is_finite())?,
        cpu_s: match cpu {
            "-" => None,
            cpu => Some(cpu.parse().ok()?),
        },
    };
    let point = match fields[..fields.len() - 2] {
        ["stage", engine, kind, size, context] => Point::Stage {
            engine: engine.to_owned(),
            kind: kind_of(kind)?,
            size: size.parse().ok()?,
            context: context.parse().ok()?,
        },
        ["cold", engine, kind, size, context] => Point::Cold {
            engine: engine.to_owned(),
            kind: kind_of(kind)?,
            size: size.parse().ok()?,
            context: context.parse().ok()?,
        },
        ["group", victim, does, busy] => Point::Group {
            victim: victim.to_owned(),
            does: kind_of(does)?,
            busy: busy.parse().ok()?,
        },
        ["prefix", from, to, tokens, imported] => Point::Prefix {
            from: from.to_owned(),
            to: to.to_owned(),
            tokens: tokens.parse().ok()?,
            imported: imported.parse().ok()?,
        },
        ["clock", lane] => Point::Clock {
            lane: lane.to_owned(),
        },
        ["pair", victim, does, aggressor, beside, busy] => Point::Pair {
            victim: victim.to_owned(),
            does: kind_of(does)?,
            aggressor: aggressor.to_owned(),
            beside: kind_of(beside)?,
            busy: busy.parse().ok()?,
        },
        ["stream", lane, together] => Point::Stream {
            lane: lane.to_owned(),
            together: together.parse().ok()?,
        },
        _ => return None,
    };
    Some((point, timed))
}

fn kind_of(name: &str) -> Option<StageKind> {
    [
        StageKind::Encode,
        StageKind::Project,
        StageKind::Ingest,
        StageKind::QueryPrefill,
        StageKind::Decode,
        StageKind::Export,
        StageKind::Import,
        StageKind::Reconstruct,
        StageKind::Custom,
    ]
    .into_iter()
    .find(|&kind| kind_name(kind) == name)
}
