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
mod tests {
    use super::*;

    fn linear(fixed: f64, per_token: f64, per_token_context: f64) -> Cost {
        Cost {
            time: Time::Linear {
                fixed,
                per_token,
                per_token_context,
            },
            secs_per_context: 0.0,
            context_block: 0.0,
            bytes_fixed: 0.0,
            bytes_per_token: 2.0,
            bytes_per_token_context: 1.0,
            bytes_per_context: 0.0,
            bytes_per_s_at_most: f64::INFINITY,
            rescale: None,
            measured_tokens: (1.0, 1024.0),
            measured_context: (0.0, 4096.0),
        }
    }

    #[test]
    fn bytes_count_up_to_what_the_port_carries() {
        let mut cost = linear(0.0, 0.01, 0.0);
        cost.bytes_fixed = 1000.0;
        cost.bytes_per_token_context = 0.0;
        cost.bytes_per_s_at_most = 2000.0;
        // 10 tokens take 0.1 s, in which 200 bytes pass; 100 take 1 s, and want 1200.
        assert!((cost.at(10.0, 0.0).bytes - 200.0).abs() < 1e-9);
        assert!((cost.at(100.0, 0.0).bytes - 1200.0).abs() < 1e-9);
        assert!((cost.too_fast(10.0) - 1020.0 / 200.0).abs() < 1e-9);
        assert!((cost.too_fast(100.0) - 0.6).abs() < 1e-9);
    }

    #[test]
    fn closed_form_equals_the_sum_over_tokens() {
        let cost = linear(0.0, 0.01, 1e-5);
        let whole = cost.at(100.0, 500.0);
        let mut secs = 0.0;
        let mut bytes = 0.0;
        for k in 0..100 {
            let step = cost.at(1.0, 500.0 + f64::from(k));
            secs += step.secs;
            bytes += step.bytes;
        }
        assert!((whole.secs - secs).abs() < 1e-9);
        assert!((whole.bytes - bytes).abs() < 1e-6);
    }

    #[test]
    fn whole_blocks_are_read_by_each_token() {
        for (n, context) in [
            (1_u32, 0_u32),
            (1, 255),
            (1, 256),
            (16, 250),
            (300, 100),
            (7, 512),
        ] {
            let sum: u32 = (1..=n).map(|k| 256 * (context + k).div_ceil(256)).sum();
            let closed = context_read(n.into(), context.into(), 256.0);
            assert!(
                (closed - f64::from(sum)).abs() < 1e-6,
                "{n} {context}: {closed} {sum}"
            );
        }
        // Flat within a block, and a step between two.
        let cost = Cost {
            context_block: 256.0,
            ..linear(0.0, 0.01, 1e-5)
        };
        let at = |context: f64| cost.at(1.0, context).secs;
        assert!((at(10.0) - at(255.0)).abs() < 1e-12);
        assert!((at(256.0) - at(255.0) - 256e-5).abs() < 1e-12);
    }

    #[test]
    fn what_is_done_once_over_the_context_does_not_depend_on_the_size() {
        let bare = linear(0.1, 0.01, 1e-5);
        let copying = Cost {
            secs_per_context: 2e-5,
            ..bare.clone()
        };
        for (n, context) in [(1.0, 0.0), (1.0, 500.0), (64.0, 500.0), (64.0, 2000.0)] {
            let reading = Cost {
                bytes_per_context: 3.0,
                ..bare.clone()
            };
            let read = reading.at(n, context).bytes - bare.at(n, context).bytes;
            assert!((read - 3.0 * context).abs() < 1e-6, "{n} {context} {read}");
            let more = copying.at(n, context).secs - bare.at(n, context).secs;
            assert!(
                (more - 2e-5 * context).abs() < 1e-12,
                "{n} {context} {more}"
            );
        }
    }

    #[test]
    fn tables_interpolate_in_time_and_say_when_they_extrapolate() {
        // 292 tokens at 663 tok/s, 4132 at 266.92 tok/s: linear in time, not in tok/s.
        let mut cost = linear(0.0, 0.0, 0.0);
        cost.time = Time::Table {
            size: vec![292.0, 4132.0],
            secs: vec![292.0 / 663.0, 4132.0 / 266.92],
            per_token_context: 0.0,
        };
        cost.measured_tokens = (292.0, 4132.0);
        let middle = cost.at(2212.0, 0.0);
        assert!((middle.secs - 0.5 * (292.0 / 663.0 + 4132.0 / 266.92)).abs() < 1e-12);
        assert!(middle.measured);
        let beyond = cost.at(8192.0, 0.0);
        assert!(beyond.secs > 4132.0 / 266.92 && !beyond.measured);
    }

    fn table(size: &[f64], secs: &[f64]) -> Cost {
        let time = Time::Table {
            size: size.to_vec(),
            secs: secs.to_vec(),
            per_token_context: 0.0,
        };
        Cost {
            time,
            ..linear(0.0, 0.0, 0.0)
        }
    }

    #[test]
    fn below_a_table_no_token_is_faster_than_at_its_least_size() {
        let at = |cost: &Cost, n: f64| cost.at(n, 0.0).secs;
        // Grows faster than its size: the line would be at 0 s for 48 tokens already.
        let steep = table(&[128.0, 512.0], &[0.5, 2.9]);
        assert!((at(&steep, 24.0) - 0.5 * 24.0 / 128.0).abs() < 1e-12);
        // Has a fixed part of 0.2 s: the line keeps it.
        let flat = table(&[128.0, 512.0], &[0.456, 1.224]);
        assert!((at(&flat, 24.0) - (0.2 + 24.0 * 0.002)).abs() < 1e-12);
        // Falls at its end, as noise has it: no more tokens in less time.
        let noisy = table(&[128.0, 512.0], &[1.0, 0.9]);
        assert!((at(&noisy, 8192.0) - 0.9).abs() < 1e-12 && at(&noisy, 24.0) > 1.0);
        // One size alone, and one of nothing.
        let one = table(&[100.0], &[0.5]);
        assert!((at(&one, 20.0) - 0.1).abs() < 1e-12 && (at(&one, 400.0) - 2.0).abs() < 1e-12);
        assert!((at(&table(&[0.0], &[0.5]), 7.0) - 0.5).abs() < 1e-12);
        for cost in [steep, flat, noisy, one] {
            let times: Vec<f64> = (1..2000).map(|n| at(&cost, f64::from(n))).collect();
            assert!(times.iter().all(|&secs| secs > 0.0));
            for (n, pair) in (1..).zip(times.windows(2)) {
                let jump = (pair[1] - pair[0]).abs();
                assert!(jump < 0.02, "{jump} s between {n} and the next");
            }
        }
    }

    #[test]
    fn a_memory_narrower_than_the_port_stretches_what_it_cannot_carry() {
        for overlap in [1.0, 3.0, 8.0] {
            let mut cost = linear(0.0, 0.01, 0.0);
            cost.bytes_per_token_context = 0.0;
            cost.bytes_per_token = 90.0;
            cost.bytes_per_s_at_most = 10_000.0;
            let on_port = cost.at(100.0, 0.0);
            cost.rescale = Some(Rescale {
                stretch: 5.0,
                faster: 1.0,
                overlap: Overlap::new(overlap),
            });
            let at = cost.at(100.0, 0.0);
            // 1 s alone, of which 0.9 s is memory time that becomes 4.5 s; the compute time stays.
            let compute = 1.0 - 0.9_f64.powf(overlap);
            let secs = (compute + 4.5_f64.powf(overlap)).powf(1.0 / overlap);
            assert!((at.secs - secs).abs() < 1e-9, "{overlap}: {}", at.secs);
            assert!(at.bytes == on_port.bytes && at.bytes / at.secs <= 2000.0);
            // What moves nothing is as fast as ever.
            cost.bytes_per_token = 0.0;
            assert!((cost.at(100.0, 0.0).secs - on_port.secs).abs() < 1e-12);
        }
    }

    /// To see it fail, let a stretch below 1 change nothing.
    #[test]
    fn a_wider_port_and_more_compute_shorten_each_its_part() {
        for overlap in [1.0, 3.0, 8.0] {
            let mut cost = linear(0.0, 0.01, 0.0);
            cost.bytes_per_token_context = 0.0;
            cost.bytes_per_token = 90.0;
            cost.bytes_per_s_at_most = 10_000.0;
            let mut secs = |stretch: f64, faster: f64| {
                let overlap = Overlap::new(overlap);
                cost.rescale = Some(Rescale {
                    stretch,
                    faster,
                    overlap,
                });
                cost.at(100.0, 0.0).secs
            };
            // 1 s alone, of which 0.9 s is memory time.
            let compute = 1.0 - 0.9_f64.powf(overlap);
            let joined =
                |memory: f64, compute: f64| (compute + memory.powf(overlap)).powf(1.0 / overlap);
            let wide = secs(0.5, 1.0);
            assert!(
                (wide - joined(0.45, compute)).abs() < 1e-9,
                "{overlap}: {wide}"
            );
            let fast = secs(1.0, 2.0);
            let halved = compute / 2.0_f64.powf(overlap);
            assert!(
                (fast - joined(0.9, halved)).abs() < 1e-9,
                "{overlap}: {fast}"
            );
            // Twice the SoC takes half the time.
            assert!((secs(0.5, 2.0) - 0.5).abs() < 1e-9, "{overlap}");
            assert!((secs(2.0, 0.5) - 2.0).abs() < 1e-9, "{overlap}");
        }
        // What copies has no compute time.
        let mut copy = linear(0.0, 0.0, 0.0);
        copy.time = Time::Transfer {
            fixed: 0.0,
            bytes_per_s: 100.0,
        };
        copy.bytes_per_s_at_most = 1000.0;
        copy.rescale = Some(Rescale {
            stretch: 1.0,
            faster: 2.0,
            overlap: Overlap::new(3.0),
        });
        assert!((copy.at(100.0, 0.0).secs - 1.0).abs() < 1e-12);
    }
}
