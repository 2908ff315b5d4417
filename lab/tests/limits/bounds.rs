//! Bounds hold whatever is simulated, and are met where nothing is in the way.

use std::fmt::Write as _;

use lab::bounds;
use proptest::prelude::*;
use validation::inline::Inline;

use crate::scenario::scenario;
use crate::{SCRIPTS, config, scripted};

/// What rounding to nanoseconds, once a stage and once a change of rates, may add up to, s.
const ROUNDING_S: f64 = 1e-6;

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn no_run_beats_its_bounds(scenario in scenario()) {
        let Some(inputs) = scenario.inputs() else {
            return Err(TestCaseError::reject("does not load"));
        };
        let own = inputs.world().map_err(|faults| TestCaseError::fail(faults.to_string()))?;
        // Another script in every case.
        let scripts = scripted(&inputs);
        let script = scripts.get(scenario.setting.seed as usize % SCRIPTS.len());
        for world in [Some(&own), script].into_iter().flatten() {
            // A script may need a parameter that nothing gives.
            let Ok(run) = bounds::run(world, 0) else { continue };
            for request in &run.requests {
                prop_assert!(request.ttft_s >= request.ttft_bound_s - ROUNDING_S, "{request:?}");
                prop_assert!(request.completion_s >= request.completion_bound_s - ROUNDING_S, "{request:?}");
            }
            if let (Some(rate), Some(bound)) = (run.throughput_rps, run.throughput_bound_rps) {
                prop_assert!(rate <= bound * (1.0 + 1e-6), "{rate} answers/s of at most {bound}");
            }
        }
    }
}

/// Two lanes, each twice as fast at its own stage, which share the memory where `mu` is above half.
fn two(port: f64, policy: &str) -> sim::world::World {
    let soc = format!(
        "name = 'toy'\norigin = 'o'\n[origins.o]\nkind = 'assumed'\nnote = 'test'\n\
         [memory]\ncapacity_bytes = 1e9\nreserved_bytes = 1e6\nbandwidth_gbps = 1.0\n[cpu]\ncores = 8\n\
         [engines.a]\nkind = 'gpu'\nport_gbps = {port}\nweight = 1.0\n\
         [engines.b]\nkind = 'npu'\nport_gbps = {port}\nweight = 1.0\n\
         [lanes.a]\nengine = 'a'\n[lanes.b]\nengine = 'b'\n"
    );
    let model = "name = 'vlm'\norigin = 'o'\nweights_bytes = 1e6\nkv_bytes_per_token = 1\n\
         visual_tokens_per_frame = 10\nmax_context_tokens = 4096\n\
         [origins.o]\nkind = 'assumed'\nnote = 'test'\n\
         [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\n\
         [[query_stages]]\nname = 'prefill'\nkind = 'query_prefill'\n\
         [[query_stages]]\nname = 'decode'\nkind = 'decode'\nafter = ['prefill']\n";
    // A decode of 100 tokens takes 1 s and streams at the port's rate all the time.
    let bytes = port * 1e9 / 100.0;
    let mut costs = "soc = 'toy'\nmodel = 'vlm'\norigin = 'o'\n\
         [origins.o]\nkind = 'assumed'\nnote = 'test'\n"
        .to_owned();
    for engine in ["a", "b"] {
        _ = write!(
            costs,
            "[engines.{engine}]\n[engines.{engine}.stages]\n\
             decode = {{ per_token_s = 0.01, bytes_per_token = {bytes} }}\n\
             prefill = {{ per_token_s = 1e-6, bytes_per_token = 0.0 }}\n\
             ingest = {{ per_token_s = 1e-6, bytes_per_token = 0.0 }}\n\
             reconstruct = {{ per_token_s = 1e-6, bytes_per_token = 0.0 }}\n"
        );
    }
    let scenario = format!(
        "title = 'two'\nsoc = 'toy'\nmodel = 'vlm'\npolicy = '{policy}'\ncontention = 'water_filling'\n\
         [modes]\nstate_transfer = 'reconstruct'\n\
         [[streams]]\nname = 's'\n[streams.queries]\narrivals = {{ times_s = [{}] }}\n\
         prompt_tokens = 1\noutput_tokens = 101\n",
        ["0.0"; 20].join(", ")
    );
    let library = Inline {
        soc,
        model: model.to_owned(),
        costs,
        files: vec![],
    };
    library.world(&scenario).expect("the world is right")
}

#[test]
fn the_throughput_bound_is_met_where_nothing_is_in_the_way() {
    // 20 decodes of 1 s on two lanes: 10 s without contention; with all of the memory's bandwidth taken by
    // each, 20 s whichever way.
    for (port, secs) in [(0.4, 10.0), (1.0, 20.0)] {
        let run = bounds::run(&two(port, "idle_first"), 0).expect("runs");
        assert!((run.work_s - secs).abs() < 0.01, "{port}: {} s", run.work_s);
        let rate = run.throughput_rps.expect("answers came");
        let bound = run.throughput_bound_rps.expect("has a bound");
        assert!(
            (rate / bound - 1.0).abs() < 0.01,
            "{port}: {rate} of {bound}"
        );
    }
}

#[test]
fn a_lone_request_meets_its_latency_bound() {
    let run = bounds::run(&two(0.4, "serial"), 0).expect("runs");
    let first = run.requests[0];
    assert!(
        (first.completion_s - first.completion_bound_s).abs() < 1e-6,
        "{first:?}"
    );
    assert!((first.completion_bound_s - 1.0).abs() < 1e-5, "{first:?}");
}
