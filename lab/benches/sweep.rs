//! Cells of the two-camera scenario a second, on one thread and on two: `cargo bench -p crossinfer-lab`.
//!
//! `CELLS=100000` sets how many cells; the default is 4000.

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs};

use lab::sweep::{Axis, Plan, Sampling, Shard, Study};
use sim::load::{Files, Inputs, Kind, Library, Source};
use sim::world::World;

/// The repository's folders.
struct Disk(PathBuf);

impl Disk {
    fn source(&self, name: &str) -> Option<Source> {
        let text = fs::read_to_string(self.0.join("profiles").join(name)).ok()?;
        Some(Source {
            name: name.to_owned(),
            text,
        })
    }
}

impl Library for Disk {
    fn soc(&self, key: &str) -> Option<Source> {
        self.source(&format!("{key}/soc.toml"))
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.source(&format!("models/{key}.toml"))
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        self.source(&format!("{soc_key}/{model_key}.toml"))
    }

    fn names(&self, _: Kind) -> Vec<String> {
        Vec::new()
    }
}

impl Files for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

fn main() {
    // `cargo test --benches` only sees that it runs.
    let measured = env::args().any(|argument| argument == "--bench");
    let cells = env::var("CELLS").ok().and_then(|text| text.parse().ok());
    let cells: u32 = cells.unwrap_or(if measured { 4000 } else { 8 });
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let disk = Disk(root.clone());
    let name = "scenarios/two-cameras-rk3588.toml";
    let text = fs::read_to_string(root.join(name)).expect("the scenario is there");
    let inputs = Inputs::read(name, &text, &disk, &disk).expect("the scenario is right");
    for (title, keys) in [
        (
            "keys of the scenario",
            [
                "streams.door.queries.arrivals.poisson.rate_hz=log:0.01..0.2",
                "streams.yard.queries.arrivals.poisson.rate_hz=log:0.01..0.2",
            ],
        ),
        (
            "a key of the SoC as well",
            [
                "streams.door.queries.arrivals.poisson.rate_hz=log:0.01..0.2",
                "soc:memory.bandwidth_gbps=20..33",
            ],
        ),
    ] {
        let mut one = 0.0;
        for threads in [1, 2] {
            let axes = keys
                .map(|key| Axis::parse(key).expect("is an axis"))
                .to_vec();
            let plan = Plan::new(axes, Some(Sampling::Sobol(cells)), 1).expect("is a plan");
            let prepare = |world: &mut World| world.replications = 1;
            let study = Study::new(&inputs, &disk, &disk, &prepare).expect("is a study");
            let out =
                env::temp_dir().join(format!("crossinfer-bench-{}-{threads}", std::process::id()));
            _ = fs::remove_dir_all(&out);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.expect("threads can be started");
            let begin = Instant::now();
            let outcome = pool.install(|| {
                lab::sweep::run(&plan, &study, &out, Shard::WHOLE, "", (&|_| (), &|| ()))
            });
            let secs = begin.elapsed().as_secs_f64();
            let outcome = outcome.expect("the sweep runs");
            assert_eq!(outcome.failed, 0, "{:?}", outcome.why);
            _ = fs::remove_dir_all(&out);
            let rate = f64::from(cells) / secs;
            if threads == 1 {
                one = rate;
            }
            #[expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
            {
                println!(
                    "{title}: {cells} cells on {threads} thread(s): {secs:.1} s, {rate:.0} cells/s, ×{:.2}",
                    rate / one
                );
            }
        }
    }
}
