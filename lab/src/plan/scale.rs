//! More or less of a resource: the numbers of the profiles that say how much there is.

use std::collections::BTreeMap;
use std::fmt;

use sim::load::Numbers;
use sim::world::{Provenance, World};

/// A resource of a SoC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// The memory's bandwidth, with every engine's port.
    Bandwidth,
    /// The arithmetic of one engine, or of all.
    Compute(Option<String>),
    /// The memory's capacity.
    Memory,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bandwidth => f.write_str("bandwidth"),
            Self::Compute(None) => f.write_str("compute"),
            Self::Compute(Some(engine)) => write!(f, "compute of {engine}"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// Overlap of compute and memory time within a stage where the profile states none (`DESIGN`'s water-filling).
const OVERLAP: f64 = 3.0;
/// Coefficients of a stage's time, and of the bytes that go with each.
const TIMES: [(&str, &str); 3] = [
    ("fixed_s", "bytes"),
    ("per_token_s", "bytes_per_token"),
    ("per_token_context_s", "bytes_per_token_context"),
];

/// The numbers with `times` of a resource.
///
/// Bandwidth multiplies that of the memory and of every port; compute divides the arithmetic part of an engine's
/// times. A stage's time `t` with bytes `V` behind a port of `b` splits into memory time `m = V/b` and compute time
/// `C = (t^q − m^q)^(1/q)`, as in the contention model, and is put together again from the scaled parts; so for each
/// coefficient of a form. Tables of times have no bytes by size and count as arithmetic.
pub fn numbers(world: &World, resource: &Resource, times: f64) -> Numbers {
    let mut numbers = Numbers::default();
    let q = world
        .provenance
        .iter()
        .find(|number| number.path == "contention.overlap_exponent")
        .map_or(OVERLAP, |number| number.value.max(1.0));
    let mut ports: BTreeMap<&str, f64> = BTreeMap::new();
    for number in &world.provenance {
        if let Some(engine) = engine_of(&number.path)
            && number.path.ends_with(".port_gbps")
        {
            ports.insert(engine, number.value * 1e9);
        }
    }
    for number in &world.provenance {
        let path = number.path.as_str();
        match resource {
            Resource::Memory if path == "memory.capacity_bytes" => {
                numbers.set(number, (number.value * times).round());
            }
            Resource::Bandwidth
                if path == "memory.bandwidth_gbps"
                    || path == "memory.peak_gbps"
                    || path.ends_with(".port_gbps") =>
            {
                numbers.set(number, number.value * times);
            }
            Resource::Memory => {}
            Resource::Bandwidth | Resource::Compute(_) => {
                let Some(engine) = engine_of(path) else {
                    continue;
                };
                if let Resource::Compute(Some(only)) = resource
                    && only != engine
                {
                    continue;
                }
                let Some(time) = scaled(world, number, engine, &ports, q, resource, times) else {
                    continue;
                };
                numbers.set(number, time);
            }
        }
    }
    numbers
}

fn engine_of(path: &str) -> Option<&str> {
    path.strip_prefix("engines.")?.split('.').next()
}

/// A time of a cost file with more of the resource; `None` if the number is no such time.
fn scaled(
    world: &World,
    number: &Provenance,
    engine: &str,
    ports: &BTreeMap<&str, f64>,
    q: f64,
    resource: &Resource,
    times: f64,
) -> Option<f64> {
    let (stage, key) = number.path.rsplit_once('.')?;
    // What is lost beside others is a ratio of these.
    if !stage.contains(".stages.") {
        return None;
    }
    // What copies KV is bound by the memory alone.
    if key == "gbps" {
        return (*resource == Resource::Bandwidth).then_some(number.value * times);
    }
    if stage.rsplit('.').next() == Some("table") || key.starts_with("time_s") {
        let is = key.starts_with("time_s") && *resource != Resource::Bandwidth;
        return is.then_some(number.value / times);
    }
    let (_, bytes) = TIMES.iter().find(|(time, _)| *time == key)?;
    let bytes = world
        .provenance
        .iter()
        .find(|other| {
            other.file == number.file
                && other
                    .path
                    .strip_prefix(stage)
                    .is_some_and(|rest| rest.strip_prefix('.') == Some(bytes))
        })
        .map_or(0.0, |bytes| bytes.value);
    let port = ports.get(engine).copied().unwrap_or(f64::INFINITY);
    let memory = (bytes / port).min(number.value);
    let compute = compute_part(number.value, memory, q);
    let (memory, compute) = match resource {
        Resource::Bandwidth => (memory / times, compute),
        _ => (memory, compute / times),
    };
    Some(overlapped(compute, memory, q))
}

/// `(t^q − m^q)^(1/q)`, by ratios: powers of the times themselves leave the range of numbers where overlap is near
/// perfect.
fn compute_part(time: f64, memory: f64, q: f64) -> f64 {
    if time == 0.0 {
        return 0.0;
    }
    time * (1.0 - (memory / time).powf(q)).max(0.0).powf(1.0 / q)
}

/// `(C^q + m^q)^(1/q)`, as [`compute_part`].
fn overlapped(compute: f64, memory: f64, q: f64) -> f64 {
    let longer = compute.max(memory);
    if longer == 0.0 {
        return 0.0;
    }
    let (compute, memory) = (compute / longer, memory / longer);
    longer * (compute.powf(q) + memory.powf(q)).powf(1.0 / q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// To see it fail, take the powers of the times themselves.
        #[test]
        fn a_time_split_and_joined_is_the_same(
            time in -12.0..9.0_f64,
            share in 0.0..=1.0_f64,
            q in 0.0..4.0_f64,
        ) {
            let (time, q) = (10_f64.powf(time), 10_f64.powf(q));
            let memory = share * time;
            let compute = compute_part(time, memory, q);
            prop_assert!((0.0..=time).contains(&compute), "{compute}");
            let joined = overlapped(compute, memory, q);
            prop_assert!((joined / time - 1.0).abs() < 1e-9, "{joined} of {time}");
            // More of one resource never takes longer, nor less than the other part.
            let faster = overlapped(compute, memory / 2.0, q);
            prop_assert!(faster <= joined * (1.0 + 1e-12) && faster >= compute, "{faster}");
        }
    }

    #[test]
    fn without_overlap_the_parts_add_up() {
        assert_eq!(compute_part(5.0, 2.0, 1.0), 3.0);
        assert_eq!(overlapped(3.0, 1.0, 1.0), 4.0);
        assert_eq!(
            (compute_part(0.0, 0.0, 3.0), overlapped(0.0, 0.0, 3.0)),
            (0.0, 0.0)
        );
        // Near perfect overlap: the longer of the two.
        assert_eq!(overlapped(1e-5, 2e-5, 1e4), 2e-5);
    }
}
