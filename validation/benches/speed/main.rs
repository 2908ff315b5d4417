//! How fast the simulator is.
//!
//! `cargo bench -p crossinfer-validation --bench speed` prints, for one core:
//! - requests and handled events a second, by time elapsed and by CPU time, on a steady load of a million
//!   requests (512 prompt and 128 answer tokens, two lanes, two streams, water-filling contention and
//!   metrics on, trace off), and the memory that this takes at its peak;
//! - whole simulations a second of the published two-stream RK3588 experiment (loaded once);
//! - the time from the start of the process's work to the first event.
//!
//! An *event* is one input (arrival, end of a task) taken off the agenda and fully handled. Records are
//! inputs and effects together, each of which the executor and the metrics handle.
//! Clocks vary with the machine's load; for counts that do not, run
//! `valgrind --tool=callgrind` on this program with `-- steady N` for two `N` and take the difference.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::Instant;

use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::load::{Files, Inputs, Kind, Library, Source};
use sim::simulation::Simulation;
use sim::world::World;
use validation::folder::{Disk, Folder};

/// The script that does what the built-in policy does, for `-- steady N script:state_aware.rhai`.
const SCRIPTED: &str = "script:state_aware.rhai";

struct Bench;

impl Library for Bench {
    fn soc(&self, _: &str) -> Option<Source> {
        Some(source("soc.toml", include_str!("soc.toml")))
    }
    fn model(&self, _: &str) -> Option<Source> {
        Some(source("model.toml", include_str!("model.toml")))
    }
    fn costs(&self, _: &str, _: &str) -> Option<Source> {
        Some(source("costs.toml", include_str!("costs.toml")))
    }
    fn names(&self, _: Kind) -> Vec<String> {
        Vec::new()
    }
}

impl Files for Bench {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("the benchmark reads no file, not even {path}"))
    }
}

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.into(),
        text: text.into(),
    }
}

fn steady(requests: u64, policy: &str) -> World {
    let text = include_str!("steady.toml").replace("500000", &(requests / 2).to_string());
    load(
        Inputs::read("steady.toml", &text, &Bench, &Bench).map_err(|faults| faults.to_string()),
        policy,
    )
}

fn two_streams() -> World {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let path = format!("{root}/scenarios/published/table12.toml");
    let inputs = std::fs::read_to_string(&path)
        .map_err(|error| error.to_string())
        .and_then(|text| {
            Inputs::read(
                &path,
                &text,
                &Folder::new(format!("{root}/profiles")),
                &Disk,
            )
            .map_err(|faults| faults.to_string())
        });
    load(inputs, "")
}

fn load(inputs: Result<Inputs, String>, policy: &str) -> World {
    let world = inputs.and_then(|inputs| {
        if policy == SCRIPTED {
            let source = source(
                "state_aware.rhai",
                include_str!("../../../scenarios/policies/state_aware.rhai"),
            );
            let inputs = inputs
                .with_script(source)
                .map_err(|faults| faults.to_string())?;
            inputs.with_policy_text(policy)
        } else if policy.is_empty() {
            inputs.world().map_err(|faults| faults.to_string())
        } else {
            inputs.with_policy_text(policy)
        }
    });
    match world {
        Ok(world) => world,
        Err(message) => panic!("the benchmark's scenario does not load: {message}"),
    }
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["steady", requests] => run_steady(requests.parse().expect("a number"), ""),
        ["steady", requests, policy] => run_steady(requests.parse().expect("a number"), policy),
        ["streams", runs] => bench_streams(runs.parse().expect("a number")),
        _ => {
            bench_start();
            bench_steady(1_000_000);
            bench_script(100_000);
            bench_streams(100_000);
        }
    }
}

fn bench_start() {
    let start = Instant::now();
    let world = two_streams();
    let mut simulation = Simulation::new(&world);
    let loaded = start.elapsed();
    simulation.run(0).expect("no policy stops");
    println!(
        "start: {:.2} ms from no file read to the first event",
        loaded.as_secs_f64() * 1e3
    );
}

/// Counts effects.
struct Count(u64);

impl Sink for Count {
    fn input(&mut self, _: sim::time::Instant, _: &Input) {}
    fn effect(&mut self, _: sim::time::Instant, _: &Effect) {
        self.0 += 1;
    }
}

fn bench_steady(requests: u64) {
    let world = steady(requests, "");
    let mut simulation = Simulation::new(&world);
    let start = Clocks::now();
    simulation.run(0).expect("no policy stops");
    let (secs, cpu) = start.elapsed();
    let summary = simulation.summary();
    let mut effects = Count(0);
    simulation
        .run_into(0, &mut effects)
        .expect("no policy stops");
    let records = effects.0;
    println!(
        "steady: {} requests, {} events in {secs:.3} s, {cpu:.3} s of CPU; peak memory {} MiB",
        summary.completed,
        summary.events,
        peak_mib().map_or("unknown".into(), |mib| format!("{mib:.1}")),
    );
    for (what, secs) in [("elapsed", secs), ("CPU", cpu)] {
        println!(
            "        by {what} time: {:.2} M requests/s, {:.2} M events/s, {:.2} M records/s",
            summary.completed as f64 / secs / 1e6,
            summary.events as f64 / secs / 1e6,
            (summary.events + records) as f64 / secs / 1e6,
        );
    }
    println!(
        "        (simulated: {:.3} requests/s, busiest lane {:.0} %, mean TTFT {:.2} s)",
        summary.throughput_rps.unwrap_or(f64::NAN),
        summary.busiest_lane * 100.0,
        summary.ttft_s.mean.unwrap_or(f64::NAN)
    );
}

/// The same load under the built-in policy and under the script that does the same.
fn bench_script(requests: u64) {
    let timed = |policy: &str| {
        let world = steady(requests, policy);
        let mut simulation = Simulation::new(&world);
        simulation.run(0).expect("no policy stops");
        let start = Clocks::now();
        let events = simulation.run(0).expect("no policy stops").events();
        (events, start.elapsed().1)
    };
    let ((events, built_in), (same, script)) = (timed("state_aware"), timed(SCRIPTED));
    assert_eq!(events, same, "the script does the same");
    let per_request = |secs: f64| secs / requests as f64 * 1e6;
    println!(
        "script: {:.2} µs of CPU a request, {:.2} µs under the built-in policy: {:.1} times",
        per_request(script),
        per_request(built_in),
        script / built_in
    );
}

/// One run and nothing else, for counts of instructions.
fn run_steady(requests: u64, policy: &str) {
    let world = steady(requests, policy);
    let mut simulation = Simulation::new(&world);
    let start = Clocks::now();
    let events = simulation.run(0).expect("no policy stops").events();
    let (secs, cpu) = start.elapsed();
    println!(
        "steady: {events} events in {secs:.3} s, {cpu:.3} s of CPU: {:.2} M events/s, {:.2} M by CPU time",
        events as f64 / secs / 1e6,
        events as f64 / cpu / 1e6
    );
}

fn bench_streams(runs: u32) {
    let world = two_streams();
    let mut simulation = Simulation::new(&world);
    let mut events = 0;
    let start = Clocks::now();
    for run in 0..runs {
        events += simulation.run(run).expect("no policy stops").events();
    }
    let (secs, cpu) = start.elapsed();
    println!(
        "streams: {runs} simulations of the two-stream RK3588 experiment in {secs:.3} s, {cpu:.3} s of CPU: {:.0} a second, {:.0} by CPU time ({} events each)",
        f64::from(runs) / secs,
        f64::from(runs) / cpu,
        events / u64::from(runs.max(1)),
    );
}

/// Time elapsed, and time for which this thread had a core: less where other programs want it too.
struct Clocks {
    elapsed: Instant,
    cpu_s: Option<f64>,
}

impl Clocks {
    fn now() -> Self {
        Self {
            elapsed: Instant::now(),
            cpu_s: cpu_s(),
        }
    }

    /// Seconds of both since; where the system does not count CPU time, both are of time elapsed.
    fn elapsed(&self) -> (f64, f64) {
        let secs = self.elapsed.elapsed().as_secs_f64();
        let cpu = cpu_s().zip(self.cpu_s).map(|(now, then)| now - then);
        (secs, cpu.unwrap_or(secs))
    }
}

/// CPU time of this process's first thread, seconds (Linux).
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let ns: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns / 1e9)
}

/// Peak resident memory of this process, MiB (Linux).
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
