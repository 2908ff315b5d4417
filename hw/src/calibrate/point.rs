//! What is measured, and the samples of it.

use std::collections::BTreeMap;

use sim::spec::model::StageKind;

use super::bench::Timed;

/// What a series of samples is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A stage alone.
    Stage {
        /// Engine, by name.
        engine: String,
        /// Kind of stage.
        kind: StageKind,
        /// Size: tokens, or bytes of a copy.
        size: u64,
        /// Tokens of context before it.
        context: u32,
    },
    /// The first run of a stage of a size on an engine in a process, after the engine warmed up. Not part of
    /// any fit.
    Cold {
        /// Engine, by name.
        engine: String,
        /// Kind of stage.
        kind: StageKind,
        /// Size, as above.
        size: u64,
        /// Tokens of context before it.
        context: u32,
    },
    /// A stage of one lane, with or without another lane busy.
    Pair {
        /// Engine that is watched.
        victim: String,
        /// What it does.
        does: StageKind,
        /// Engine beside it.
        aggressor: String,
        /// What that does.
        beside: StageKind,
        /// Whether that is busy in this series.
        busy: bool,
    },
    /// A stage of one lane, with or without one lane of every other engine busy. A check: part of no fit.
    Group {
        /// Engine that is watched.
        victim: String,
        /// What it does; the others are busy with what [`super::Measurer`] picks for them.
        does: StageKind,
        /// Whether they are busy in this series.
        busy: bool,
    },
    /// A prefix brought to an engine that has none of it. A check: part of no fit.
    Prefix {
        /// Engine that has it.
        from: String,
        /// Engine that is to have it.
        to: String,
        /// Its tokens.
        tokens: u32,
        /// Whether its KV is imported; else it is prefilled again.
        imported: bool,
    },
    /// Turns of a fixed loop of arithmetic on a lane's cores, 10⁹ a second: falls with the clock.
    Clock {
        /// Lane, by name.
        lane: String,
    },
    /// Reading memory, GB/s.
    Stream {
        /// Lane, by name.
        lane: String,
        /// Whether all lanes with cores of their own read at once.
        together: bool,
    },
}

/// Samples of one point, in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// By the clock, s (rates of [`Point::Stream`] and [`Point::Clock`]).
    pub wall: Vec<f64>,
    /// CPU time of the lane's thread, s, where known.
    pub cpu: Vec<Option<f64>>,
}

impl Series {
    /// The middle one; `None` of nothing.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.wall.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            length if length % 2 == 1 => Some(sorted[middle]),
            _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
        }
    }

    /// The mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        let count = self.wall.len() as f64;
        (count > 0.0).then(|| self.wall.iter().sum::<f64>() / count)
    }

    /// Mean and standard deviation; `None` of fewer than two.
    pub fn moments(&self) -> Option<(f64, f64)> {
        let count = self.wall.len() as f64;
        if self.wall.len() < 2 {
            return None;
        }
        let mean = self.wall.iter().sum::<f64>() / count;
        let square: f64 = self.wall.iter().map(|x| (x - mean).powi(2)).sum();
        Some((mean, (square / (count - 1.0)).sqrt()))
    }

    /// Half the 95 % interval of the mean, by Student's t, as a share of the mean.
    pub fn half_width(&self) -> Option<f64> {
        // Two-sided 95 % quantiles of 1 to 10 degrees of freedom; 2.23 falls to 1.96 beyond.
        const T: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
        let (mean, deviation) = self.moments()?;
        let freedom = self.wall.len() - 1;
        let t = T.get(freedom - 1).copied().unwrap_or(2.1);
        Some(t * deviation / (self.wall.len() as f64).sqrt() / mean)
    }

    /// Samples whose thread waited for more than 5 % of the time, and samples of which that is known.
    pub fn disturbed(&self) -> (usize, usize) {
        let known = self.wall.iter().zip(&self.cpu);
        let known = known.filter_map(|(wall, cpu)| Some((*wall, (*cpu)?)));
        known.fold((0, 0), |(disturbed, all), (wall, cpu)| {
            (disturbed + usize::from(wall > 1.05 * cpu), all + 1)
        })
    }
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Series by point.
    pub series: BTreeMap<Point, Series>,
}

impl Measured {
    /// Adds a sample.
    pub fn add(&mut self, point: Point, timed: Timed) {
        let series = self.series.entry(point).or_default();
        series.wall.push(timed.wall_s);
        series.cpu.push(timed.cpu_s);
    }

    /// Samples of the `engines` that were disturbed by other load, and samples of which that is known.
    pub fn disturbed(&self, engines: impl Fn(&str) -> bool) -> (usize, usize) {
        self.series
            .iter()
            .filter(|(point, _)| match point {
                // What a copy takes is hardly more than what sending it takes.
                Point::Stage { engine, kind, .. } => {
                    engines(engine) && !matches!(kind, StageKind::Export | StageKind::Import)
                }
                _ => false,
            })
            .map(|(_, series)| series.disturbed())
            .fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Time beside ÷ time alone, turn by turn.
    pub fn turns(&self, alone: &Point, busy: &Point) -> Series {
        let wall = |point| {
            self.series
                .get(point)
                .map_or(&[][..], |series| &series.wall)
        };
        let turns = wall(busy).iter().zip(wall(alone));
        Series {
            wall: turns.map(|(busy, alone)| busy / alone).collect(),
            cpu: Vec::new(),
        }
    }

    /// The widest interval of a stage's mean, as a share of it.
    pub(super) fn widest(&self, wanted: impl Fn(&Point) -> bool) -> f64 {
        self.series
            .iter()
            .filter(|(point, _)| wanted(point))
            .map(|(_, series)| series.half_width().unwrap_or(f64::INFINITY))
            .fold(0.0, f64::max)
    }
}

/// Name of a kind, as in files.
pub fn kind_name(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Encode => "encode",
        StageKind::Project => "project",
        StageKind::Ingest => "ingest",
        StageKind::QueryPrefill => "query_prefill",
        StageKind::Decode => "decode",
        StageKind::Export => "export",
        StageKind::Import => "import",
        StageKind::Reconstruct => "reconstruct",
        StageKind::Custom => "custom",
    }
}
