//! How fast a lane's cores read memory, a bound on what its engine draws; and how fast they count, which
//! tells whether their clock stays.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Numbers that each thread reads, at least: 64 MiB, past what its share of any cache is.
const EACH: usize = 1 << 23;
/// Numbers that all threads read, at least: 256 MiB.
const ALL: usize = 1 << 25;
/// Passes; the fastest counts.
const PASSES: usize = 5;

/// Best rate of reading memory on every core that the calling thread may run on, GB/s: a lane's thread is
/// pinned to the cores that its engine computes on.
pub fn read_gbps() -> f64 {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let count = (ALL / threads).max(EACH);
    let begin = Barrier::new(threads);
    let read = || {
        // Each has numbers of its own, and was the first to touch them.
        let data = vec![1_u64; count];
        let mut spans = [(Instant::now(), Instant::now()); PASSES];
        for span in &mut spans {
            begin.wait();
            let start = Instant::now();
            black_box(sums(black_box(&data)));
            *span = (start, Instant::now());
        }
        spans
    };
    let spans: Vec<_> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(read)).collect();
        let mut spans = vec![read()];
        spans.extend(others.into_iter().filter_map(|other| other.join().ok()));
        spans
    });
    let gigabytes = (spans.len() * count * size_of::<u64>()) as f64 / 1e9;
    let pass = |pass: usize| {
        let first = spans.iter().map(|spans| spans[pass].0).min();
        let last = spans.iter().map(|spans| spans[pass].1).max();
        let secs = last
            .zip(first)
            .map(|(last, first)| (last - first).as_secs_f64());
        secs.map_or(0.0, |secs| gigabytes / secs)
    };
    (0..PASSES).map(pass).fold(0.0, f64::max)
}

/// Eight independent sums, which compilers turn into vector loads; additions keep up with memory easily.
fn sums(data: &[u64]) -> [u64; 8] {
    let mut sums = [0_u64; 8];
    for part in data.as_chunks::<8>().0 {
        for (sum, value) in sums.iter_mut().zip(part) {
            *sum = sum.wrapping_add(*value);
        }
    }
    sums
}

/// Turns of the loop.
const TURNS: u64 = 1 << 25;

/// Turns of a fixed loop of dependent additions and multiplications on the calling thread, 10⁹ a second. It
/// touches no memory: a fall between two calls is the clock's, or another's who had the core.
pub fn turns_per_ns() -> f64 {
    let start = Instant::now();
    let mut value = black_box(1_u64);
    for turn in 0..TURNS {
        value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(turn);
    }
    black_box(value);
    TURNS as f64 / start.elapsed().as_nanos() as f64
}
