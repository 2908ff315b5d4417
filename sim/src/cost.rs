//! What a stage costs on an engine, alone: time and DRAM bytes by size and context.

use crate::contention::Overlap;
use crate::world::{Engine, EngineId, STAGES_MAX, StageId, TransferStages};

/// Costs by engine and stage.
#[derive(Clone, Debug, Default)]
pub struct CostTable {
    /// Row per engine, column per stage; `None`: the engine cannot run it.
    pub rows: Vec<[Option<StageCosts>; STAGES_MAX]>,
    /// By engine: the engines, a bit each, whose busy lanes bring its costs beside others about; 0
    /// where it has none.
    pub corun_beside: Vec<u16>,
}

/// A stage's costs on an engine: alone, and by how much they differ while another lane is busy.
#[derive(Clone, Debug)]
pub struct StageCosts {
    /// Alone.
    pub alone: Cost,
    /// Time while a lane of an engine in [`CostTable::corun_beside`] is busy ÷ time alone, contention left
    /// out; at least 1.
    pub corun_ratio: f64,
    /// Spread of the time.
    pub noise: Noise,
    /// CPU cores kept busy beside the engine: what it presses on others with.
    pub host_cores: f64,
    /// Share of the time alone that is serial CPU work: what of it is slower where cores are short.
    pub host_share: f64,
    /// W while it runs; `None`: the engine's.
    pub active_w: Option<f64>,
}

/// Spread of a stage's time.
#[derive(Clone, Debug, PartialEq)]
pub enum Noise {
    /// None.
    None,
    /// A log-normal factor with mean 1.
    LogNormal {
        /// Coefficient of variation.
        cv: f64,
    },
    /// A factor drawn from measured ones (sample ÷ mean).
    Empirical(Vec<f64>),
}

/// Time and bytes by size and context.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Seconds.
    pub time: Time,
    /// Seconds per token of context before it, whatever the size: of what is done once over the context.
    pub secs_per_context: f64,
    /// Tokens of a block, if contexts are read in whole blocks; 0: token by token.
    pub context_block: f64,
    /// Bytes whatever the size.
    pub bytes_fixed: f64,
    /// Bytes per token.
    pub bytes_per_token: f64,
    /// Bytes per token and token of context before it.
    pub bytes_per_token_context: f64,
    /// Bytes per token of context before it, whatever the size: of what a chunk reads once.
    pub bytes_per_context: f64,
    /// Bytes per second of the time alone that count at most: what the engine's port carries. A few tokens' time may
    /// be less than the weights that their bytes hold take, where the time was measured at other sizes.
    pub bytes_per_s_at_most: f64,
    /// What differs between this SoC and the one on which the times were taken; `None`: nothing.
    pub rescale: Option<Rescale>,
    /// Sizes within which it was measured.
    pub measured_tokens: (f64, f64),
    /// Contexts within which it was measured.
    pub measured_context: (f64, f64),
}

/// Another memory, port or compute rate than times were taken with: a what-if, such as a memory that carries less than
/// an engine's port, since times alone are measured where the port is filled.
///
/// Of a stage's time alone t and memory time m = bytes ÷ port, compute time is `(t^q − m^q)^(1/q)`, and memory time
/// becomes bytes ÷ what is carried now: water-filling's step 4 (see [`crate::contention::WaterFilling`]) with the whole
/// bandwidth for a share.
#[derive(Clone, Copy, Debug)]
pub struct Rescale {
    /// Rate of the port behind which the times were taken ÷ what port and memory carry now.
    stretch: f64,
    /// Compute rate now ÷ that with which the times were taken.
    faster: f64,
    overlap: Overlap,
}

/// Form of the time.
#[derive(Clone, Debug)]
pub enum Time {
    /// `fixed + per_token·n + per_token_context·(n·ctx + n(n−1)/2)`, seconds.
    Linear {
        /// s.
        fixed: f64,
        /// s per token.
        per_token: f64,
        /// s per token and token of context.
        per_token_context: f64,
    },
    /// Linear interpolation in time over the size, plus `per_token_context` as above. Beyond its ends the outer
    /// segment goes on, but a time is never less than in proportion to the size below the least, and never less than
    /// the last above the greatest; the time of one size alone goes with the size.
    Table {
        /// Sizes, rising.
        size: Vec<f64>,
        /// Seconds.
        secs: Vec<f64>,
        /// s per token and token of context.
        per_token_context: f64,
    },
    /// `fixed + bytes/rate`, seconds; the size is in bytes.
    Transfer {
        /// s.
        fixed: f64,
        /// Bytes per second.
        bytes_per_s: f64,
    },
}

/// A cost at one size and context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    /// Seconds alone.
    pub secs: f64,
    /// DRAM bytes.
    pub bytes: f64,
    /// Whether size and context lie within what was measured.
    pub measured: bool,
}

impl Cost {
    /// A time alone, without bytes, that holds everywhere.
    pub fn timed(time: Time, secs_per_context: f64) -> Self {
        Self {
            time,
            secs_per_context,
            context_block: 0.0,
            bytes_fixed: 0.0,
            bytes_per_token: 0.0,
            bytes_per_token_context: 0.0,
            bytes_per_context: 0.0,
            bytes_per_s_at_most: f64::INFINITY,
            rescale: None,
            measured_tokens: (0.0, f64::INFINITY),
            measured_context: (0.0, f64::INFINITY),
        }
    }

    /// The cost of size `n` (tokens, bytes for transfers, megapixels for tabled encodes) on `ctx`
    /// tokens of context.
    #[inline]
    pub fn at(&self, n: f64, ctx: f64) -> At {
        let pairs = context_read(n, ctx, self.context_block);
        let on_port = self.secs_on_port(n, ctx, pairs);
        let carried = on_port * self.bytes_per_s_at_most;
        let bytes = self.bytes_stated(n, ctx, pairs).min(carried);
        let secs = match &self.rescale {
            Some(to) if carried > 0.0 => {
                // What copies has no compute time of its own.
                let copies = matches!(self.time, Time::Transfer { .. });
                let faster = if copies { 1.0 } else { to.faster };
                // A port that carries anything in no time.
                let mu = if carried.is_finite() {
                    bytes / carried
                } else {
                    0.0
                };
                on_port * to.overlap.rescaled(mu, to.stretch, faster)
            }
            _ => on_port,
        };
        let measured = n >= self.measured_tokens.0
            && n <= self.measured_tokens.1
            && ctx >= self.measured_context.0
            && ctx <= self.measured_context.1;
        At {
            secs,
            bytes,
            measured,
        }
    }

    /// Seconds alone where the times were taken.
    #[inline]
    fn secs_on_port(&self, n: f64, ctx: f64, pairs: f64) -> f64 {
        let sized = match &self.time {
            Time::Linear {
                fixed,
                per_token,
                per_token_context,
            } => fixed + per_token * n + per_token_context * pairs,
            Time::Table {
                size,
                secs,
                per_token_context,
            } => interpolate(size, secs, n) + per_token_context * pairs,
            Time::Transfer { fixed, bytes_per_s } => fixed + n / bytes_per_s,
        };
        sized + self.secs_per_context * ctx
    }

    /// The bytes that the numbers state for size `n` and so many reads of context, whether they can be carried or not.
    #[inline]
    fn bytes_stated(&self, n: f64, ctx: f64, pairs: f64) -> f64 {
        self.bytes_fixed
            + self.bytes_per_token * n
            + self.bytes_per_token_context * pairs
            + self.bytes_per_context * ctx
    }

    /// Whether it moves any bytes at all.
    pub(crate) fn moves_bytes(&self) -> bool {
        self.bytes_fixed
            + self.bytes_per_token
            + self.bytes_per_token_context
            + self.bytes_per_context
            > 0.0
    }

    /// How many times as fast as at most the stated bytes of size `n` without context move in their time.
    pub(crate) fn too_fast(&self, n: f64) -> f64 {
        let pairs = context_read(n, 0.0, self.context_block);
        let carried = self.secs_on_port(n, 0.0, pairs) * self.bytes_per_s_at_most;
        if carried > 0.0 {
            self.bytes_stated(n, 0.0, pairs) / carried
        } else {
            0.0
        }
    }
}

/// Tokens of context that `n` tokens read after `ctx` others, one after the other: each those before it; with
/// blocks, all of the blocks that hold those and itself.
#[inline]
pub fn context_read(n: f64, ctx: f64, block: f64) -> f64 {
    if block > 0.0 {
        // Of the first m tokens, the k-th block's read k blocks each.
        let first = |m: f64| {
            let whole = (m / block).floor();
            let rest = m - whole * block;
            block * (0.5 * block * whole * (whole + 1.0) + rest * (whole + 1.0))
        };
        first(ctx + n) - first(ctx)
    } else {
        n * ctx + 0.5 * n * (n - 1.0).max(0.0)
    }
}

/// Piecewise linear interpolation of `ys` at rising `xs`, as many and at least one, and beyond the ends what
/// [`Time::Table`] says.
///
/// A line through two times that grow faster than their sizes leads to 0 and below before the size does. No engine
/// works a token off faster because there are fewer of them, so in proportion to the size is the least that a time
/// below the table can be.
pub fn interpolate(xs: &[f64], ys: &[f64], x: f64) -> f64 {
    let (first, last) = (0, xs.len() - 1);
    let in_proportion = || {
        if xs[first] > 0.0 {
            ys[first] * x / xs[first]
        } else {
            ys[first]
        }
    };
    if first == last {
        return in_proportion();
    }
    let segment = xs[1..last].partition_point(|&edge| edge <= x);
    let (x0, x1) = (xs[segment], xs[segment + 1]);
    let (y0, y1) = (ys[segment], ys[segment + 1]);
    let line = y0 + (y1 - y0) * (x - x0) / (x1 - x0);
    if x < xs[first] {
        line.max(in_proportion())
    } else if x > xs[last] {
        line.max(ys[last])
    } else {
        line
    }
}

impl CostTable {
    /// Counts bytes up to what each engine's port carried where the times were taken, and rescales times to this SoC's
    /// ports, compute and a memory of `bandwidth` bytes/s.
    pub(crate) fn bound_bytes(&mut self, engines: &[Engine], bandwidth: f64, overlap: f64) {
        for (row, engine) in self.rows.iter_mut().zip(engines) {
            let measured = engine.measured_port_bytes_per_s;
            let stretch = measured / engine.port_bytes_per_s.min(bandwidth);
            let faster = engine.compute_ratio;
            let rescale = (stretch != 1.0 || faster != 1.0).then(|| Rescale {
                stretch,
                faster,
                overlap: Overlap::new(overlap),
            });
            for costs in row.iter_mut().flatten() {
                costs.alone.bytes_per_s_at_most = measured;
                costs.alone.rescale = rescale;
            }
        }
    }

    /// The costs of a stage on an engine.
    #[inline]
    pub fn get(&self, engine: EngineId, stage: StageId) -> Option<&StageCosts> {
        self.rows[engine.0 as usize][stage.0 as usize].as_ref()
    }

    /// What copying so many bytes of KV from `source` to `engine` costs, out of the one and into the other; `None` where
    /// a side cannot. The importing lane carries it out, so whatever lengthens that lane's stages lengthens all of it.
    pub(crate) fn copy(
        &self,
        transfer: TransferStages,
        source: EngineId,
        engine: EngineId,
        bytes: f64,
    ) -> Option<At> {
        let out = self.get(source, transfer.export)?.alone.at(bytes, 0.0);
        let back = self.get(engine, transfer.import)?.alone.at(bytes, 0.0);
        Some(At {
            secs: back.secs + out.secs,
            bytes: back.bytes + out.bytes,
            measured: back.measured && out.measured,
        })
    }

    /// Whether any engine has costs beside others.
    pub fn corun(&self) -> bool {
        self.corun_beside.iter().any(|&engines| engines != 0)
    }
}

#[cfg(test)]
mod tests;
