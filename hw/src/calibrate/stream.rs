//! How fast a lane's cores read memory, a bound on what its engine draws; and how fast they count, which
//! tells whether their clock stays.

use std::hint::black_box;
use std::time::Instant;

/// Numbers read: 256 MiB, past any cache of these machines.
const COUNT: usize = 1 << 25;
/// Passes; the fastest counts.
const PASSES: usize = 5;

/// Best rate of reading memory on the calling thread, GB/s.
///
/// Eight independent sums, which compilers turn into vector loads; additions keep up with memory easily.
pub fn read_gbps() -> f64 {
    let data = vec![1_u64; COUNT];
    let mut best: f64 = 0.0;
    for _ in 0..PASSES {
        let start = Instant::now();
        let mut sums = [0_u64; 8];
        for part in black_box(&data).as_chunks::<8>().0 {
            for (sum, value) in sums.iter_mut().zip(part) {
                *sum = sum.wrapping_add(*value);
            }
        }
        black_box(sums);
        let gigabytes = (COUNT * size_of::<u64>()) as f64 / 1e9;
        best = best.max(gigabytes / start.elapsed().as_secs_f64());
    }
    best
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
