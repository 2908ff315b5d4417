//! What the search for the best schedule takes: `cargo bench -p crossinfer-lab --bench oracle`.
//!
//! Eight requests of 10 to 90 answer tokens on three lanes, the second 1.2 and the third 2 times as slow as the first.
//! Each lane alone streams at 0.4 GB/s, so a memory of 1.0 GB/s slows three of them, one of 0.6 any two, and at 0.4
//! any one takes all of it.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::env;
use std::time::Instant;

use lab::oracle::{self, Objective, REPLAYS_MAX};
use sim::world::World;
use validation::inline::Inline;

const SOC: &str = "name = 'toy'\norigin = 'o'\n[origins.o]\nkind = 'assumed'\nnote = 'benchmark'\n\
    [memory]\ncapacity_bytes = 1e9\nreserved_bytes = 1e6\nbandwidth_gbps = BANDWIDTH\n[cpu]\ncores = 8\n\
    [engines.a]\nkind = 'gpu'\nport_gbps = 0.4\nweight = 1.0\n[lanes.a]\nengine = 'a'\n\
    [engines.b]\nkind = 'npu'\nport_gbps = 0.4\nweight = 1.0\n[lanes.b]\nengine = 'b'\n\
    [engines.c]\nkind = 'cpu'\nport_gbps = 0.4\nweight = 1.0\n[lanes.c]\nengine = 'c'\ncores = 4\n";

const MODEL: &str = "name = 'vlm'\norigin = 'o'\nweights_bytes = 1e6\nkv_bytes_per_token = 1\n\
    visual_tokens_per_frame = 10\nmax_context_tokens = 4096\n\
    [origins.o]\nkind = 'assumed'\nnote = 'benchmark'\n\
    [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\n\
    [[query_stages]]\nname = 'prefill'\nkind = 'query_prefill'\n\
    [[query_stages]]\nname = 'decode'\nkind = 'decode'\nafter = ['prefill']\n";

fn costs() -> String {
    let head = "soc = 'toy'\nmodel = 'vlm'\norigin = 'o'\n[origins.o]\nkind = 'assumed'\nnote = 'benchmark'\n";
    let lanes = [("a", 0.01), ("b", 0.012), ("c", 0.02)].map(|(engine, per_token)| {
        let bytes = 0.4e9 * per_token;
        format!(
            "[engines.{engine}]\n[engines.{engine}.stages]\n\
             decode = {{ per_token_s = {per_token}, bytes_per_token = {bytes:e} }}\n\
             prefill = {{ per_token_s = 0.001, bytes_per_token = 1e5 }}\n\
             ingest = {{ per_token_s = 0.001, bytes_per_token = 1e5 }}\n\
             reconstruct = {{ per_token_s = 0.001, bytes_per_token = 1e5 }}\n"
        )
    });
    head.to_owned() + &lanes.concat()
}

fn worlds(bandwidth: &str, gap_s: f64, seed: u32) -> Vec<World> {
    let library = Inline {
        soc: SOC.replace("BANDWIDTH", bandwidth),
        model: MODEL.to_owned(),
        costs: costs(),
        files: vec![],
    };
    let times: Vec<String> = (0..8)
        .map(|index| format!("{:?}", f64::from(index) * gap_s))
        .collect();
    let scenario = format!(
        "title = 'eight'\nsoc = 'toy'\nmodel = 'vlm'\ncontention = 'water_filling'\nseed = {seed}\n\
         [modes]\nstate_transfer = 'reconstruct'\n[[streams]]\nname = 's'\n[streams.queries]\n\
         arrivals = {{ times_s = [{}] }}\nprompt_tokens = 10\n\
         output_tokens = {{ uniform = {{ low = 10, high = 90 }} }}\n",
        times.join(", ")
    );
    let inputs = library.inputs(&scenario).expect("the scenario is right");
    ["state_aware", "idle_first", "shortest_job_first"]
        .iter()
        .map(|policy| inputs.with_policy_text(policy).expect("can serve it"))
        .collect()
}

fn main() {
    // `cargo test --benches` only sees that it runs.
    let measured = env::args().any(|argument| argument == "--bench");
    let (seeds, most) = if measured { (3, REPLAYS_MAX) } else { (1, 100) };
    for bandwidth in ["1.0", "0.6", "0.4"] {
        for gap_s in [0.0, 0.1] {
            for objective in [Objective::Completion, Objective::Ttft] {
                for seed in 1..=seeds {
                    let worlds = worlds(bandwidth, gap_s, seed);
                    let start = Instant::now();
                    let best = oracle::optimum(&worlds, 0, objective, most).expect("runs");
                    let best = best.expect("is found");
                    println!(
                        "{bandwidth} GB/s, {gap_s} s apart, seed {seed}, {objective:?}: {:.6} s{}, {} replays, {:.1} s",
                        best.value_s,
                        if best.exact { "" } else { " or less" },
                        best.replays,
                        start.elapsed().as_secs_f64()
                    );
                }
            }
        }
    }
}
