//! Named random generators: the draws of one purpose of one stream depend on the seed, the run and
//! the two names alone, so that adding, removing or permuting streams moves nobody else's draws.
//!
//! Every distribution is sampled by inversion of one uniform number (gamma excepted, which rejects),
//! with the `libm` crate's functions: a generator stays in step when a parameter changes, and the
//! bits depend neither on the platform nor on which features another crate switches on.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

use crate::cost::Noise;

/// Increment of `SplitMix64`: 2⁶⁴ ÷ the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a generator of a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Offsets of frames from their nominal times.
    FrameJitter = 1,
    /// Noise seeds of frames.
    FrameNoise = 2,
    /// Gaps between queries, stays in the states of a modulated process, think times.
    QueryTimes = 3,
    /// Prompt lengths.
    PromptLength = 4,
    /// Answer lengths.
    OutputLength = 5,
    /// Errors of predicted answer lengths.
    Prediction = 6,
    /// Noise seeds of queries.
    QueryNoise = 7,
}

/// The output function of `SplitMix64`: a bijection under which near numbers become unrelated.
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash of a stream's name and a purpose (FNV-1a, mixed): computed once, then combined with the root
/// of each run by [`key`].
pub fn name_key(stream: &str, purpose: Purpose) -> u64 {
    // 0xff never occurs in UTF-8, so no name runs into the purpose that follows it.
    let bytes = stream.bytes().chain([0xff, purpose as u8]);
    mix(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// What all keys of one run have in common.
#[inline]
pub const fn root(seed: u64, run: u32) -> u64 {
    mix(seed.wrapping_add(GOLDEN)).wrapping_add(run as u64)
}

/// The 64-bit key from which the generator with this [`name_key`] is seeded in the run with this
/// [`root`].
#[inline]
pub const fn key(root: u64, name: u64) -> u64 {
    mix(root ^ name)
}

/// A seed in another draw of what it seeds; draw 0 is the seed itself.
#[inline]
pub const fn draw(seed: u64, draw: u32) -> u64 {
    if draw == 0 {
        seed
    } else {
        mix(seed ^ GOLDEN.wrapping_mul(draw as u64))
    }
}

/// `SplitMix64`: one word of state and a few instructions a draw. For 64-bit seeds, not for samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The generator that starts at `key`.
    #[inline]
    pub const fn from_key(key: u64) -> Self {
        Self(key)
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
}

/// A named generator: xoshiro256++, seeded through `SplitMix64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator(Xoshiro256PlusPlus);

impl Generator {
    /// The generator of one purpose of one stream in one run.
    pub fn named(seed: u64, run: u32, stream: &str, purpose: Purpose) -> Self {
        Self::from_key(key(root(seed, run), name_key(stream, purpose)))
    }

    /// The generator of a [`key`].
    #[inline]
    pub fn from_key(key: u64) -> Self {
        let mut words = SplitMix(key);
        let mut seed = [0; 32];
        for word in seed.chunks_exact_mut(8) {
            word.copy_from_slice(&words.next_u64().to_le_bytes());
        }
        Self(Xoshiro256PlusPlus::from_seed(seed))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform on the open interval (0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// Uniform on 0, …, `count` − 1; 0 if `count` is 0.
    #[inline]
    pub fn below(&mut self, count: u64) -> u64 {
        below(self.next_u64(), count)
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Normal with mean 0 and standard deviation 1.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        normal_quantile(self.unit())
    }

    /// Gamma with this shape and scale 1 (Marsaglia and Tsang 2000). Takes a varying number of
    /// draws, so give it a generator of its own.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        // Below 1 the density is unbounded at 0: draw with shape + 1 and bring the result down.
        if shape < 1.0 {
            let lift = libm::pow(self.unit(), 1.0 / shape);
            return self.gamma(shape + 1.0) * lift;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            // Accepts at least 95 draws of 100.
            if libm::log(self.unit()) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
                return d * v;
            }
        }
    }
}

/// The factor by which the time of stage number `stage` of a request deviates from its mean: a
/// log-normal with mean 1, or an entry of the list of measured factors.
///
/// `noise_seed` is drawn when the request arrives; the factor is a function of its arguments alone,
/// so it does not depend on when, where or in which order stages run. Stages are independent.
#[inline]
pub fn factor(noise_seed: u64, stage: u8, noise: &Noise) -> f64 {
    let bits = || mix(noise_seed.wrapping_add(GOLDEN.wrapping_mul(u64::from(stage) + 1)));
    match noise {
        Noise::None => 1.0,
        Noise::LogNormal { cv } => {
            let variance = libm::log1p(cv * cv);
            let normal = normal_quantile(unit(bits()));
            libm::exp(libm::sqrt(variance) * normal - 0.5 * variance)
        }
        Noise::Empirical(factors) => factors
            .get(below(bits(), factors.len() as u64) as usize)
            .copied()
            .unwrap_or(1.0),
    }
}

/// 64 random bits as a number of the open interval (0, 1): the middles of 2⁵² equal cells.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

/// 64 random bits as a whole number below `count`. One draw each: its bias, below `count` ÷ 2⁶⁴, is
/// out of any sample's sight.
#[inline]
fn below(bits: u64, count: u64) -> u64 {
    ((u128::from(bits) * u128::from(count)) >> 64) as u64
}

/// The `p`-quantile of the standard normal distribution, 0 < `p` < 1, to about 1 part in 10¹⁶
/// (Wichura 1988, algorithm AS 241).
#[inline]
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    // The central 85 % need neither logarithm nor root.
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &CENTRE);
    }
    let r = libm::sqrt(-libm::log(if q < 0.0 { p } else { 1.0 - p }));
    let size = if r <= 5.0 {
        ratio(r - 1.6, &SHOULDER)
    } else {
        ratio(r - 5.0, &TAIL)
    };
    if q < 0.0 { -size } else { size }
}

/// Coefficients of numerator and denominator, highest power first.
type Ratio = [[f64; 8]; 2];

#[inline]
fn ratio(x: f64, [above, below]: &Ratio) -> f64 {
    let horner = |coefficients: &[f64; 8]| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    horner(above) / horner(below)
}

const CENTRE: Ratio = [
    [
        2_509.080_928_730_122_7,
        33_430.575_583_588_13,
        67_265.770_927_008_7,
        45_921.953_931_549_87,
        13_731.693_765_509_46,
        1_971.590_950_306_551_3,
        133.141_667_891_784_38,
        3.387_132_872_796_366_5,
    ],
    [
        5_226.495_278_852_854,
        28_729.085_735_721_943,
        39_307.895_800_092_71,
        21_213.794_301_586_597,
        5_394.196_021_424_751,
        687.187_007_492_057_9,
        42.313_330_701_600_91,
        1.0,
    ],
];

const SHOULDER: Ratio = [
    [
        7.745_450_142_783_414e-4,
        0.022_723_844_989_269_184,
        0.241_780_725_177_450_6,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        0.015_198_666_563_616_457,
        0.148_103_976_427_480_08,
        0.689_767_334_985_1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
];

const TAIL: Ratio = [
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        0.001_242_660_947_388_078_4,
        0.026_532_189_526_576_124,
        0.296_560_571_828_504_87,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        0.014_875_361_290_850_615,
        0.136_929_880_922_735_8,
        0.599_832_206_555_888,
        1.0,
    ],
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Probability below `x` of a standard normal.
    fn normal_cdf(x: f64) -> f64 {
        0.5 * libm::erfc(-x / core::f64::consts::SQRT_2)
    }

    /// Mean and standard deviation of `count` draws.
    fn moments(count: u32, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let draws: Vec<f64> = (0..count).map(|_| draw()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(count);
        let square = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        (mean, (square / f64::from(count - 1)).sqrt())
    }

    proptest! {
        #[test]
        fn normal_quantile_inverts_the_distribution(exponent in 0.0..35.0_f64, upper: bool) {
            let tail = 0.5 * libm::exp(-exponent);
            let x = normal_quantile(tail);
            prop_assert!((normal_cdf(x) / tail - 1.0).abs() < 1e-12);
            if upper && tail > 1e-10 {
                // 1 − tail carries its rounding into the quantile.
                prop_assert!((normal_quantile(1.0 - tail) + x).abs() < 1e-5);
            }
        }

        #[test]
        fn units_are_inside_and_wholes_below(bits: u64, count in 1..u64::MAX) {
            prop_assert!(unit(bits) > 0.0 && unit(bits) < 1.0);
            prop_assert!(below(bits, count) < count);
        }

        #[test]
        fn names_are_told_apart(
            seed: u64, run: u32, a in ".{0,12}", b in ".{0,12}",
        ) {
            let first = |seed, run, name: &str, purpose| {
                Generator::named(seed, run, name, purpose).next_u64()
            };
            let here = first(seed, run, &a, Purpose::QueryTimes);
            prop_assert_eq!(here, first(seed, run, &a, Purpose::QueryTimes));
            prop_assert_ne!(here, first(seed, run, &a, Purpose::QueryNoise));
            prop_assert_ne!(here, first(seed, run.wrapping_add(1), &a, Purpose::QueryTimes));
            prop_assert_ne!(here, first(seed.wrapping_add(1), run, &a, Purpose::QueryTimes));
            prop_assert_eq!(a == b, here == first(seed, run, &b, Purpose::QueryTimes));
        }
    }

    #[test]
    fn extreme_bits_stay_finite() {
        for bits in [0, u64::MAX] {
            assert!(normal_quantile(unit(bits)).is_finite());
            assert!(libm::log(unit(bits)).is_finite());
        }
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        const COUNT: u32 = 100_000;
        // The twelve bounds hold together with 99 % probability: 3.34 standard errors each.
        const Z: f64 = 3.34;
        let close = |(mean, sd): (f64, f64), mean_true: f64, sd_true: f64, kurtosis: f64| {
            let n = f64::from(COUNT);
            assert!(
                (mean - mean_true).abs() < Z * sd_true / n.sqrt(),
                "mean {mean}"
            );
            let sd_error = sd_true * ((kurtosis - 1.0) / (4.0 * n)).sqrt();
            assert!((sd - sd_true).abs() < Z * sd_error, "sd {sd}");
        };
        let mut rng = Generator::named(1, 0, "moments", Purpose::QueryTimes);
        close(
            moments(COUNT, || rng.unit()),
            0.5,
            (1.0_f64 / 12.0).sqrt(),
            1.8,
        );
        close(moments(COUNT, || rng.exponential()), 1.0, 1.0, 9.0);
        close(moments(COUNT, || rng.normal()), 0.0, 1.0, 3.0);
        for shape in [0.25_f64, 1.0, 4.0] {
            let draws = moments(COUNT, || rng.gamma(shape));
            close(draws, shape, shape.sqrt(), 3.0 + 6.0 / shape);
        }
    }

    #[test]
    fn factors_have_mean_one_and_stages_are_independent() {
        const COUNT: u64 = 100_000;
        let noise = Noise::LogNormal { cv: 0.2 };
        let mut seeds = SplitMix::from_key(7);
        let (mut sum, mut square, mut product) = (0.0, 0.0, 0.0);
        for _ in 0..COUNT {
            let seed = seeds.next_u64();
            let (a, b) = (factor(seed, 0, &noise) - 1.0, factor(seed, 1, &noise) - 1.0);
            sum += a;
            square += a * a;
            product += a * b;
        }
        let n = COUNT as f64;
        assert!((sum / n).abs() < 2.576 * 0.2 / n.sqrt());
        assert!(((square / n).sqrt() - 0.2).abs() < 0.002);
        assert!((product / n / 0.04).abs() < 2.576 / n.sqrt());

        let measured = Noise::Empirical(vec![0.5, 1.5]);
        let low = (0..COUNT)
            .filter(|&seed| factor(seed, 3, &measured) == 0.5)
            .count();
        assert!((low as f64 / n - 0.5).abs() < 2.576 * 0.5 / n.sqrt());
        assert_eq!(factor(9, 3, &Noise::Empirical(vec![])), 1.0);
        assert_eq!(factor(9, 3, &Noise::None), 1.0);
    }

    /// A change of these changes every published result: it is a breaking change.
    #[test]
    fn draws_are_pinned() {
        let mut rng = Generator::named(42, 3, "front", Purpose::OutputLength);
        let draws = [
            rng.next_u64(),
            rng.next_u64(),
            rng.unit().to_bits(),
            rng.exponential().to_bits(),
            rng.normal().to_bits(),
            rng.gamma(0.5).to_bits(),
            factor(42, 5, &Noise::LogNormal { cv: 0.1 }).to_bits(),
        ];
        assert_eq!(
            draws,
            [
                0xcb2e_9eb9_0920_f659,
                0xbb88_86fb_e2e7_faa1,
                0x3fe2_f953_c352_e159,
                0x3fd0_eca6_fb2d_2e9b,
                0x3ff2_13c3_6494_2483,
                0x3f7f_538c_0ee9_4a35,
                0x3ff1_cc89_bcac_aa04
            ]
        );
    }
}
