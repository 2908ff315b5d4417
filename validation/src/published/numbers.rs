//! The numbers of a world that have an interval, and worlds drawn within all intervals at once.
//!
//! Draws are a Latin hypercube: of `n` draws, each number takes one value in each `n`-th of its
//! interval, in an order of its own. Half of the draws lie below the stated value and half above,
//! evenly each. The order is seeded by the number's place, so a number has the same value in the same
//! draw of every scenario, and ratios of two scenarios vary by what differs between them.

use sim::load::Numbers;
use sim::rng::{SplitMix, mix};
use sim::world::{Provenance, World};

/// A number with an interval, or several that are one: stated alike, with the same origin.
#[derive(Clone, Debug)]
pub(crate) struct Uncertain {
    /// Stated value.
    pub(crate) value: f64,
    /// Ends of its interval.
    pub(crate) ends: (f64, f64),
    /// Seed of its order.
    key: u64,
    /// Where it stands.
    places: Vec<Provenance>,
}

/// The numbers of a world that have an interval.
pub(crate) fn uncertain(world: &World) -> Vec<Uncertain> {
    let mut list: Vec<Uncertain> = Vec::new();
    for number in &world.provenance {
        let Some(ends) = number.interval.filter(|(low, high)| low < high) else {
            continue;
        };
        // What `reconstruct` takes over from `ingest` stands in the file once.
        let stands =
            |place: &Provenance| (&place.file, &place.span) == (&number.file, &number.span);
        if list.iter().any(|known| known.places.iter().any(stands)) {
            continue;
        }
        let same = list.iter_mut().find(|known| {
            let place = &known.places[0];
            (&place.file, &place.origin, place.value, known.ends)
                == (&number.file, &number.origin, number.value, ends)
                && last(&place.path) == last(&number.path)
        });
        match same {
            Some(known) => known.places.push(number.clone()),
            None => list.push(Uncertain {
                value: number.value,
                ends,
                key: key(&number.file, &number.path),
                places: vec![number.clone()],
            }),
        }
    }
    list
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// FNV-1a of the end of the file's path and of the number's: where the files lie does not matter.
fn key(file: &str, path: &str) -> u64 {
    let mut parts: Vec<&str> = file.rsplit(['/', '\\']).take(2).collect();
    parts.push(path);
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    mix(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

impl Uncertain {
    /// Its value in each of `draws` draws.
    pub(crate) fn values(&self, draws: u32, seed: u64) -> Vec<f64> {
        let mut rng = SplitMix::from_key(mix(seed ^ self.key));
        let mut order: Vec<u32> = (0..draws).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
        }
        let (low, high) = self.ends;
        let within = |uniform: f64| {
            if uniform < 0.5 {
                low + (self.value - low) * 2.0 * uniform
            } else {
                self.value + (high - self.value) * (2.0 * uniform - 1.0)
            }
        };
        let cell = order.into_iter().map(|cell| {
            let inside = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            within((f64::from(cell) + inside) / f64::from(draws))
        });
        cell.collect()
    }

    /// Whether both are the same number of the same files.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let first = |number: &Self| (number.places[0].file.clone(), number.places[0].span.clone());
        first(self) == first(other)
    }

    /// Puts a value wherever the number stands.
    pub(crate) fn put(&self, numbers: &mut Numbers, value: f64) {
        // Bytes and tokens are whole; whatever else is stated in whole numbers this large loses nothing.
        let stated = [self.value, self.ends.0, self.ends.1];
        let whole = stated.iter().all(|x| x.fract() == 0.0) && self.value >= 100.0;
        let value = if whole { value.round() } else { value };
        for place in &self.places {
            numbers.set(place, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64, ends: (f64, f64)) -> Uncertain {
        Uncertain {
            value,
            ends,
            key: 7,
            places: Vec::new(),
        }
    }

    #[test]
    fn draws_fill_the_interval_evenly_on_both_sides() {
        let number = number(2.0, (1.0, 10.0));
        let mut values = number.values(64, 1);
        assert_eq!(values, number.values(64, 1));
        assert_ne!(values, number.values(64, 2));
        values.sort_by(f64::total_cmp);
        for (at, value) in values.iter().enumerate() {
            let low = if at < 32 {
                1.0 + at as f64 / 32.0
            } else {
                2.0 + 8.0 * (at as f64 - 32.0) / 32.0
            };
            let width = if at < 32 { 1.0 } else { 8.0 } / 32.0;
            assert!(
                (low..=low + width).contains(value),
                "{value} in cell {at} of {low}"
            );
        }
    }

    #[test]
    fn a_number_is_drawn_alike_wherever_its_file_lies() {
        assert_eq!(
            key("a/rk3588/soc.toml", "x"),
            key("b/c/rk3588/soc.toml", "x")
        );
        assert_ne!(key("a/rk3588/soc.toml", "x"), key("a/m4max/soc.toml", "x"));
        assert_ne!(key("a/rk3588/soc.toml", "x"), key("a/rk3588/soc.toml", "y"));
    }
}
