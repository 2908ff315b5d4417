//! A search finds what there is to find, and reports it on a seed that it has not seen.

use lab::robustness::{Disturbance, disturb};
use lab::sweep::{Axis, Study};
use lab::tune::{self, Objective};
use sim::load::Inputs;
use sim::world::World;
use validation::inline::Inline;

/// Two engines, the second a little slower.
pub(crate) fn library() -> Inline {
    Inline {
        soc: "name = 'toy'\norigin = 'o'\n[origins.o]\nkind = 'assumed'\nnote = 'test'\n\
              [memory]\ncapacity_bytes = 1e9\nreserved_bytes = 1e6\nbandwidth_gbps = 1.0\n[cpu]\ncores = 8\n\
              [engines.a]\nkind = 'gpu'\nport_gbps = 0.4\nweight = 1.0\n\
              [engines.b]\nkind = 'npu'\nport_gbps = 0.4\nweight = 1.0\n\
              [lanes.a]\nengine = 'a'\n[lanes.b]\nengine = 'b'\n"
            .into(),
        model: "name = 'vlm'\norigin = 'o'\nweights_bytes = 1e6\nkv_bytes_per_token = 1\n\
                visual_tokens_per_frame = 10\nmax_context_tokens = 4096\n\
                [origins.o]\nkind = 'assumed'\nnote = 'test'\n\
                [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\n\
                [[query_stages]]\nname = 'prefill'\nkind = 'query_prefill'\n\
                [[query_stages]]\nname = 'decode'\nkind = 'decode'\nafter = ['prefill']\n"
            .into(),
        costs: ["a", "b"].iter().zip([0.01, 0.012]).fold(
            "soc = 'toy'\nmodel = 'vlm'\norigin = 'o'\n[origins.o]\nkind = 'assumed'\nnote = 'test'\n".into(),
            |text, (engine, per_token)| {
                format!(
                    "{text}[engines.{engine}]\n[engines.{engine}.stages]\n\
                     decode = {{ per_token_s = {per_token}, bytes_per_token = 1e5 }}\n\
                     prefill = {{ per_token_s = 0.001, bytes_per_token = 1e5 }}\n\
                     ingest = {{ per_token_s = 0.1, bytes_per_token = 1e5 }}\n\
                     reconstruct = {{ per_token_s = 0.001, bytes_per_token = 1e5 }}\n"
                )
            },
        ),
        files: vec![],
    }
}

/// A camera and questions, of which the camera's phase matters: an answer waits for the newest frame.
fn inputs() -> (Inputs, Inline) {
    let library = library();
    let scenario = "title = 'tune'\nsoc = 'toy'\nmodel = 'vlm'\nreplications = 4\n[run]\nhorizon_s = 200\n\
        [modes]\nstate_transfer = 'reconstruct'\n[context]\nkeep = { window = { frames = 2 } }\n\
        [[streams]]\nname = 's'\n[streams.frames]\nclock = { periodic = { rate_hz = 0.25 } }\nstart_s = 1.5\n\
        [streams.queries]\narrivals = { periodic = { period_s = 4.0 } }\nstart_s = 2.0\nprompt_tokens = 10\n\
        output_tokens = { uniform = { low = 20, high = 60 } }\n";
    let inputs = library.inputs(scenario).expect("the scenario is right");
    (inputs, library)
}

#[test]
fn the_best_phase_is_found_and_held_out() {
    let (inputs, library) = inputs();
    let prepare = |_: &mut World| {};
    let study = Study::new(&inputs, &library, &library, &prepare).expect("is a study");
    let axes = [
        "streams.s.frames.start_s=0..3.9",
        "limits.max_requests=int:1..40",
    ]
    .map(|text| Axis::parse(text).expect("is an axis"));
    for keys in [&axes[..1], &axes[..]] {
        let objective = Objective::parse("ttft").expect("is one");
        let found = tune::search(&study, keys, &objective, 60, 1, &|| ()).expect("is found");
        let again = tune::search(&study, keys, &objective, 60, 1, &|| ()).expect("is found");
        assert_eq!(found, again);
        // With the frame ingested before the question comes, only the prefill of 10 ms is left; the
        // scenario's own phase leaves half a second of the ingest to wait for.
        let [held_out, own] = [found.held_out, found.own].map(|e| e.expect("has a value").mean);
        assert!(held_out < 0.05 && own > 0.4, "{found:?}");
        assert!(found.holds);
        let text = tune::text(&found, keys, &objective);
        assert!(text.contains("held-out seed"), "{text}");
    }
}

#[test]
fn limits_that_nothing_keeps_are_said() {
    let (inputs, library) = inputs();
    let prepare = |_: &mut World| {};
    let study = Study::new(&inputs, &library, &library, &prepare).expect("is a study");
    let axes = [Axis::parse("streams.s.frames.start_s=0..3.9").expect("is an axis")];
    let objective = Objective::parse("throughput:completion<=0.01").expect("is one");
    let found = tune::search(&study, &axes, &objective, 20, 1, &|| ()).expect("is found");
    assert!(!found.holds);
}

#[test]
fn beliefs_are_as_wrong_as_asked_and_put_back() {
    let (inputs, _) = inputs();
    let mut worlds = [inputs.world().expect("is right")];
    let before = format!("{:?} {:?}", worlds[0].prediction, worlds[0].believed_costs);
    let disturbed = disturb(&mut worlds, &Disturbance::ALL).expect("runs");
    assert_eq!(
        format!("{:?} {:?}", worlds[0].prediction, worlds[0].believed_costs),
        before
    );
    assert_eq!(worlds[0].queue_delay, sim::time::Duration(0));
    for one in &disturbed[0] {
        let accuracy = one.rank_accuracy.expect("lengths differ");
        let wanted = match one.by {
            Disturbance::ExactLengths => 1.0,
            Disturbance::Lengths(accuracy) => accuracy,
            Disturbance::Costs(_) | Disturbance::Queues(_) | Disturbance::MeanLengths => 0.5,
        };
        assert!((accuracy - wanted).abs() < 0.05, "{:?}: {accuracy}", one.by);
    }
}
