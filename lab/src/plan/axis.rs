//! Loads: how a scenario is changed to carry more or less.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sim::metrics::{Metric as Number, Time};
use sim::time::Instant;
use sim::world::World;
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value, value};

use super::target::Metric;

/// What is made as large as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// How many streams: the scenario's, in turn.
    Streams,
    /// Frames a second of every stream.
    FrameRate,
    /// Queries a second of every stream.
    QueryRate,
    /// Frames that a context keeps.
    Context,
}

impl Axis {
    /// All.
    pub const ALL: [Self; 4] = [
        Self::Streams,
        Self::FrameRate,
        Self::QueryRate,
        Self::Context,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::FrameRate => "frame_rate",
            Self::QueryRate => "query_rate",
            Self::Context => "context",
        }
    }

    /// Unit of a load.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::FrameRate => "frames/s a stream",
            Self::QueryRate => "queries/s a stream",
            Self::Context => "frames in context",
        }
    }

    /// The axis of a name.
    ///
    /// # Errors
    ///
    /// All names.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = text.trim().to_lowercase().replace(['-', ' '], "_");
        let found = Self::ALL.into_iter().find(|axis| axis.name() == plain);
        found.ok_or_else(|| {
            format!(
                "`{text}` is no load: one of {}, or model with --models",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }

    /// Whether loads are whole numbers.
    pub fn whole(self) -> bool {
        matches!(self, Self::Streams | Self::Context)
    }

    /// Whether more load can only make a metric worse.
    ///
    /// More frames a second make answers fresher until the engine that ingests is full, and more queries share
    /// what an idle SoC draws and what a deployment must earn: there, a larger load may be right where a smaller
    /// one is wrong.
    pub fn monotone(self, metric: Metric) -> bool {
        match metric {
            Metric::Of(Number::Time(Time::Staleness, _)) => self != Self::FrameRate,
            Metric::Of(Number::EnergyPerRequest) => {
                !matches!(self, Self::QueryRate | Self::Streams)
            }
            Metric::Of(Number::Throughput | Number::TokenThroughput) => {
                !matches!(self, Self::QueryRate | Self::Streams)
            }
            _ => true,
        }
    }

    /// The greatest load that changes anything in a run of the scenario, and why there is none beyond: it would be held
    /// to be met unseen.
    pub fn reach(self, world: &World) -> Option<(f64, String)> {
        if self != Self::Context {
            return None;
        }
        let most = world.most_frames()?;
        let within = if world.horizon == Instant::NEVER {
            "no stream has".to_owned()
        } else {
            format!(
                "within `horizon_s` = {} s no stream has",
                world.horizon.as_secs_f64()
            )
        };
        Some((
            most.saturating_sub(1) as f64,
            format!("{within} more than {most} frames: a longer run would tell of larger contexts"),
        ))
    }

    /// The load of the scenario as it is, where all streams agree; else of its first.
    ///
    /// # Errors
    ///
    /// Why the scenario has none.
    pub fn now(self, text: &str) -> Result<f64, String> {
        let document = read(text)?;
        match self {
            Self::Streams => {
                let all = streams(&document)?.iter().map(copies_of);
                Ok(all.sum::<usize>() as f64)
            }
            Self::Context => document
                .get("context")
                .and_then(|context| context.get("keep")?.get("window")?.get("frames")?.as_integer())
                .map(|frames| frames as f64)
                .ok_or_else(|| {
                    "the scenario keeps no window of frames: set `keep = { window = { frames = 8 } }` in [context]".to_owned()
                }),
            Self::FrameRate => first(&document, |stream| number(clock(stream)?.get("rate_hz")?))
                .ok_or_else(|| "no stream has frames at a rate: its `clock` must be `{ periodic = { rate_hz = … } }`".to_owned()),
            Self::QueryRate => first(&document, |stream| {
                let (kind, law) = law(stream)?;
                match kind {
                    "periodic" => number(law.get("period_s")?).map(|period| 1.0 / period),
                    _ => number(law.get("rate_hz")?),
                }
            })
            .ok_or_else(|| "no stream has queries at a rate: its `arrivals` must be periodic, poisson or gamma".to_owned()),
        }
    }

    /// The scenario at this load.
    ///
    /// # Errors
    ///
    /// Why the scenario cannot be changed so.
    pub fn at(self, text: &str, load: f64) -> Result<String, String> {
        let mut document = read(text)?;
        match self {
            Self::Streams => copies(&mut document, load as usize)?,
            Self::Context => {
                let mut window = InlineTable::new();
                window.insert("frames", (load as i64).into());
                let mut keep = InlineTable::new();
                keep.insert("window", Value::InlineTable(window));
                if !document.contains_key("context") {
                    document.insert("context", Item::Table(Table::new()));
                }
                document["context"]["keep"] = value(keep);
            }
            Self::FrameRate => each(&mut document, |stream| {
                if stream.get("frames").is_none() {
                    return Ok(false);
                }
                let periodic = clock(stream)
                    .is_some()
                    .then(|| {
                        stream
                            .get_mut("frames")?
                            .get_mut("clock")?
                            .get_mut("periodic")
                    })
                    .flatten();
                let Some(periodic) = periodic else {
                    return Err(
                        "its frames have no rate that could be set: `clock` must be periodic",
                    );
                };
                periodic["rate_hz"] = value(load);
                Ok(true)
            })?,
            Self::QueryRate => each(&mut document, |stream| {
                let Some(queries) = stream.get_mut("queries") else {
                    return Ok(false);
                };
                let arrivals = queries
                    .get_mut("arrivals")
                    .and_then(Item::as_table_like_mut);
                let Some(arrivals) = arrivals else {
                    return Ok(false);
                };
                let laws = [
                    ("periodic", "period_s", 1.0 / load),
                    ("poisson", "rate_hz", load),
                    ("gamma", "rate_hz", load),
                ];
                let law = laws.iter().find(|(kind, ..)| arrivals.contains_key(kind));
                let Some((kind, key, to)) = law else {
                    return Err(
                        "its queries have no rate that could be set: `arrivals` must be periodic, poisson or gamma",
                    );
                };
                if let Some(law) = arrivals.get_mut(kind) {
                    law[key] = value(*to);
                }
                Ok(true)
            })?,
        }
        Ok(document.to_string())
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn read(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn streams(document: &DocumentMut) -> Result<&toml_edit::ArrayOfTables, String> {
    document
        .get("streams")
        .and_then(Item::as_array_of_tables)
        .filter(|streams| !streams.is_empty())
        .ok_or_else(|| "the scenario has no [[streams]]".to_owned())
}

/// How many streams an entry stands for.
fn copies_of(stream: &Table) -> usize {
    let copies = stream.get("copies").and_then(Item::as_integer);
    copies.map_or(1, |copies| copies.clamp(1, 65_536) as usize)
}

fn number(item: &Item) -> Option<f64> {
    item.as_float()
        .or_else(|| item.as_integer().map(|whole| whole as f64))
        .filter(|number| number.is_finite() && *number > 0.0)
}

fn clock(stream: &Table) -> Option<&Item> {
    stream.get("frames")?.get("clock")?.get("periodic")
}

fn law(stream: &Table) -> Option<(&'static str, &Item)> {
    let arrivals = stream.get("queries")?.get("arrivals")?;
    ["periodic", "poisson", "gamma"]
        .into_iter()
        .find_map(|kind| Some((kind, arrivals.get(kind)?)))
}

fn first(document: &DocumentMut, get: impl Fn(&Table) -> Option<f64>) -> Option<f64> {
    streams(document).ok()?.iter().find_map(get)
}

/// Changes every stream that has what is changed.
fn each(
    document: &mut DocumentMut,
    mut change: impl FnMut(&mut Table) -> Result<bool, &'static str>,
) -> Result<(), String> {
    streams(document)?;
    let Some(streams) = document
        .get_mut("streams")
        .and_then(Item::as_array_of_tables_mut)
    else {
        return Ok(());
    };
    let mut any = false;
    for stream in streams.iter_mut() {
        let name = stream
            .get("name")
            .and_then(Item::as_str)
            .unwrap_or("?")
            .to_owned();
        any |= change(stream).map_err(|why| format!("stream `{name}`: {why}"))?;
    }
    if any {
        Ok(())
    } else {
        Err("no stream has what this load would change".to_owned())
    }
}

/// The first `count` of the scenario's streams, repeated in turn. A copy has a name of its own, and so draws of its
/// own; its periodic frames start a golden share of the period later, so that cameras do not fire at once.
fn copies(document: &mut DocumentMut, count: usize) -> Result<(), String> {
    let mut originals: Vec<Table> = Vec::new();
    for stream in streams(document)? {
        let mut plain = stream.clone();
        plain.remove("copies");
        for _ in 0..copies_of(stream) {
            originals.push(plain.clone());
        }
    }
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut rounds: BTreeMap<String, u32> = BTreeMap::new();
    let mut list = toml_edit::ArrayOfTables::new();
    for index in 0..count {
        let mut stream = originals[index % originals.len()].clone();
        let name = stream
            .get("name")
            .and_then(Item::as_str)
            .unwrap_or("stream")
            .to_owned();
        let round = rounds.entry(name.clone()).or_default();
        *round += 1;
        let mut own = name.clone();
        if *round > 1 {
            own = format!("{name}-{round}");
            let rate = clock(&stream).and_then(|clock| number(clock.get("rate_hz")?));
            if let (Some(rate), Some(frames)) = (rate, stream.get_mut("frames")) {
                let start = frames.get("start_s").and_then(number).unwrap_or(0.0);
                let share = (f64::from(*round - 1) * 0.618_033_988_75).fract();
                frames["start_s"] = value(start + share / rate);
            }
        }
        while !taken.insert(own.clone()) {
            own.push('x');
        }
        stream.insert("name", value(own));
        unplaced(&mut stream);
        list.push(stream);
    }
    document.remove("streams");
    document.insert("streams", Item::ArrayOfTables(list));
    let names = taken;
    // Lanes of streams that are not there any more would be dangling references.
    // (An item's own `get_mut` makes what it does not find.)
    let lanes = document.get_mut("policy").and_then(|policy| {
        let fixed = policy.as_table_like_mut()?.get_mut("fixed")?;
        let lanes = fixed.as_table_like_mut()?.get_mut("lanes")?;
        lanes.as_table_like_mut()
    });
    if let Some(lanes) = lanes {
        let gone: Vec<String> = lanes
            .iter()
            .map(|(name, _)| name.to_owned())
            .filter(|name| !names.contains(name.as_str()))
            .collect();
        for name in gone {
            lanes.remove(&name);
        }
    }
    Ok(())
}

/// Tables keep their places in the text, which copies would share: those without one follow what is before them.
fn unplaced(table: &mut Table) {
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        if let Item::Table(inner) = item {
            unplaced(inner);
        }
    }
}
