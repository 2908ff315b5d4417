//! Points of the unit cube by their number: Sobol and Latin hypercube. Nothing is stored, so that memory
//! does not grow with the sample and every shard finds the same points.

use sim::rng::mix;

/// Dimensions of the Sobol sequence.
pub(super) const SOBOL_DIMENSIONS: usize = 21;

/// Degree, inner coefficients and first direction numbers of dimensions 2 to 21: Joe and Kuo 2008,
/// `new-joe-kuo-6.21201`.
const JOE_KUO: [(u32, u32, &[u32]); SOBOL_DIMENSIONS - 1] = [
    (1, 0, &[1]),
    (2, 1, &[1, 3]),
    (3, 1, &[1, 3, 1]),
    (3, 2, &[1, 1, 1]),
    (4, 1, &[1, 1, 3, 3]),
    (4, 4, &[1, 3, 5, 13]),
    (5, 2, &[1, 1, 5, 5, 17]),
    (5, 4, &[1, 1, 5, 5, 5]),
    (5, 7, &[1, 1, 7, 11, 19]),
    (5, 11, &[1, 1, 5, 1, 1]),
    (5, 13, &[1, 1, 1, 3, 11]),
    (5, 14, &[1, 3, 5, 5, 31]),
    (6, 1, &[1, 3, 3, 9, 7, 49]),
    (6, 13, &[1, 1, 1, 15, 21, 21]),
    (6, 16, &[1, 3, 1, 13, 27, 49]),
    (6, 19, &[1, 1, 1, 15, 7, 5]),
    (6, 22, &[1, 3, 1, 15, 13, 25]),
    (6, 25, &[1, 1, 5, 5, 19, 61]),
    (7, 1, &[1, 3, 7, 11, 23, 15, 103]),
    (7, 4, &[1, 3, 7, 13, 13, 15, 69]),
];

/// Direction numbers of a dimension.
fn directions(dimension: usize) -> [u32; 32] {
    let mut v = [0; 32];
    let Some(&(degree, inner, first)) = dimension.checked_sub(1).and_then(|at| JOE_KUO.get(at))
    else {
        for (bit, v) in v.iter_mut().enumerate() {
            *v = 1 << (31 - bit);
        }
        return v;
    };
    let degree = degree as usize;
    for bit in 0..32 {
        v[bit] = if bit < degree {
            first[bit] << (31 - bit)
        } else {
            let mut x = v[bit - degree] ^ (v[bit - degree] >> degree);
            for k in 1..degree {
                if inner >> (degree - 1 - k) & 1 != 0 {
                    x ^= v[bit - k];
                }
            }
            x
        };
    }
    v
}

/// A Sobol sequence, each dimension shifted by its own digits of the seed (a digital shift keeps what
/// makes the points even, and moves none of them to 0). Seed 0 shifts nothing.
#[derive(Clone, Debug)]
pub(super) struct Sobol {
    dimensions: Vec<([u32; 32], u32)>,
}

impl Sobol {
    pub(super) fn new(dimensions: usize, seed: u64) -> Self {
        let shift = |dimension: usize| match seed {
            0 => 0,
            seed => (mix(mix(seed).wrapping_add(dimension as u64)) >> 32) as u32,
        };
        Self {
            dimensions: (0..dimensions)
                .map(|dimension| (directions(dimension), shift(dimension)))
                .collect(),
        }
    }

    /// Coordinate of point `index` in a dimension, within [0, 1).
    pub(super) fn unit(&self, index: u32, dimension: usize) -> f64 {
        let (v, shift) = &self.dimensions[dimension];
        let x = (0..32)
            .filter(|bit| index >> bit & 1 != 0)
            .fold(*shift, |x, bit| x ^ v[bit]);
        f64::from(x) / 4_294_967_296.0
    }
}

/// Coordinate of point `index` of a Latin hypercube of `count` points, within [0, 1): every dimension has
/// one point in each of `count` equal parts.
pub(super) fn latin_hypercube(index: u32, dimension: usize, count: u32, seed: u64) -> f64 {
    let key = mix(mix(seed ^ 0x6c61_7469_6e00_0000).wrapping_add(dimension as u64));
    let place = permuted(index, count, key);
    let within = (mix(key ^ mix(u64::from(index) + 1)) >> 11) as f64 / (1u64 << 53) as f64;
    (f64::from(place) + within) / f64::from(count)
}

/// Place of `index` in a pseudo-random permutation of 0, …, `count` − 1: a Feistel network over the next
/// power of four, walked until it is below `count` (Black and Rogaway 2002).
fn permuted(index: u32, count: u32, key: u64) -> u32 {
    let bits = (32 - count.saturating_sub(1).leading_zeros())
        .max(2)
        .div_ceil(2);
    let mask = (1u64 << bits) - 1;
    let mut x = u64::from(index);
    loop {
        let (mut left, mut right) = (x >> bits, x & mask);
        for round in 0..6 {
            let mixed = mix(key ^ mix(right << 3 | round)) & mask;
            (left, right) = (right, left ^ mixed);
        }
        x = left << bits | right;
        if x < u64::from(count) {
            return x as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_of_primitive_polynomials_and_odd_numbers() {
        let mut seen = Vec::new();
        for (degree, inner, first) in JOE_KUO {
            assert_eq!(first.len(), degree as usize);
            for (bit, m) in first.iter().enumerate() {
                assert!(m % 2 == 1 && *m < 2 << bit, "{first:?}");
            }
            // x has order 2^degree − 1 modulo a primitive polynomial.
            let polynomial = 1 << degree | inner << 1 | 1;
            let mut x = 1u32;
            let order = (1..=1 << degree).find(|_| {
                x <<= 1;
                if x >> degree & 1 != 0 {
                    x ^= polynomial;
                }
                x == 1
            });
            assert_eq!(order, Some((1 << degree) - 1), "{polynomial:b}");
            assert!(!seen.contains(&polynomial));
            seen.push(polynomial);
        }
    }

    #[test]
    fn the_first_points_are_the_published_ones() {
        // Points 1 to 7 in order of their number; Joe and Kuo's program gives them in Gray code order.
        let sobol = Sobol::new(3, 0);
        let point = |index| [0, 1, 2].map(|dimension| sobol.unit(index, dimension));
        let want = [
            [0.0, 0.0, 0.0],
            [0.5, 0.5, 0.5],
            [0.25, 0.75, 0.75],
            [0.75, 0.25, 0.25],
            [0.125, 0.625, 0.375],
            [0.625, 0.125, 0.875],
            [0.375, 0.375, 0.625],
            [0.875, 0.875, 0.125],
        ];
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(point), want);
    }

    #[test]
    fn every_dimension_fills_every_part_once() {
        const COUNT: u32 = 256;
        let sobol = Sobol::new(SOBOL_DIMENSIONS, 7);
        for dimension in 0..SOBOL_DIMENSIONS {
            let parts = |unit: &dyn Fn(u32) -> f64, count: u32| {
                let mut parts: Vec<u32> = (0..count)
                    .map(|index| (unit(index) * f64::from(count)) as u32)
                    .collect();
                parts.sort_unstable();
                assert!(parts.into_iter().eq(0..count), "dimension {dimension}");
            };
            parts(&|index| sobol.unit(index, dimension), COUNT);
            for count in [1, 2, 3, 100, 257] {
                parts(&|index| latin_hypercube(index, dimension, count, 5), count);
            }
        }
    }

    #[test]
    fn seeds_and_dimensions_differ() {
        let points = |seed, dimension| -> Vec<f64> {
            (0..16)
                .map(|index| latin_hypercube(index, dimension, 16, seed))
                .collect()
        };
        assert_ne!(points(1, 0), points(2, 0));
        assert_ne!(points(1, 0), points(1, 1));
        assert_ne!(Sobol::new(1, 1).unit(3, 0), Sobol::new(1, 2).unit(3, 0));
    }
}
