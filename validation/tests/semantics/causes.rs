//! Where errors of live runs come from: where the machine differs from the profile in one thing, the error is
//! that thing's: all of it for stage costs, at least half of it for transfers and contention.
//!
//! To see these fail, leave out the line of `steps` that puts the cause right.

use sim::dispatch::{Dispatcher, Effects};
use sim::drive::drive;
use sim::metrics::Metrics;
use sim::soc::Soc;
use sim::world::World;
use validation::live::{Bound, Causes, Metric, Pair, Row, StageTimes, compare, expected, steps};

use crate::toy::{Toy, toy};

/// What the profile says: two streams, a lane each, and queries that wait for frames and each other. KV moves
/// in a second stream that asks on the other lane.
fn profile() -> Toy {
    toy()
        .set("policy = { round_robin = {} }")
        .set("modes.state_transfer = 'import'")
        .stream("x", &[0, 40, 90], &[10, 45, 100, 130, 400, 600])
        .stream("y", &[5, 50, 95], &[20, 60, 110, 140, 500, 700])
}

/// The rows of what `machine` does and `profile` predicts.
fn rows(profile: &Toy, machine: &Toy) -> Vec<Row> {
    let (predicted, real): (World, World) = (profile.world(), machine.world());
    // Both are told by the profile's costs.
    let (mut live, mut simulated) = (StageTimes::new(&predicted), StageTimes::new(&predicted));
    let mut soc = Soc::new(&real, 0);
    let mut metrics = Metrics::new(&predicted);
    // The scheduler believes the profile.
    let mut dispatcher = Dispatcher::new(&predicted);
    let mut sink = (&mut metrics, &mut live);
    drive(&mut soc, &mut dispatcher, &mut Effects::new(), &mut sink).expect("no policy stops");
    let pair = Pair {
        policy: predicted.policy.to_string(),
        run: 0,
        live: metrics.summary(dispatcher.peak_kv_bytes(), soc.unmeasured(), soc.warmth()),
        expected: expected(&predicted, 0, Some(&mut simulated)).expect("no policy stops"),
    };
    let mut rows = compare(&[pair], Bound::default()).rows;
    let (live, simulated) = (live.rows(), simulated.rows());
    let steps = steps(predicted, &[0], &live, &simulated, 0.0).expect("no policy stops");
    for row in &mut rows {
        row.causes = steps.causes(row);
    }
    rows
}

/// All of the error, and there is some, is what `of` picks; the rest of it is at most `left` of it.
#[track_caller]
fn is_all(machine: &Toy, left: f64, of: fn(&Causes) -> f64) {
    let rows = rows(&profile(), machine);
    assert_eq!(rows.len(), 4);
    let mut some = 0.0_f64;
    for row in &rows {
        let causes = row.causes.expect("every metric exists");
        let sum =
            causes.stage_cost + causes.transfer + causes.contention + causes.delay + causes.rest;
        assert!((sum - row.error).abs() < 1e-12, "{row:?}");
        let missing = (of(&causes) - row.error).abs();
        // A quantile of a few answers is one of them, and jumps to another.
        let mean = row.metric != Metric::TtftP95;
        assert!(
            !mean || missing <= left * row.error.abs().max(1e-3),
            "{row:?}"
        );
        some = some.max(row.error.abs());
    }
    assert!(some > 0.02, "there is no error to explain: {rows:?}");
}

#[test]
fn what_is_as_predicted_has_no_error() {
    for row in rows(&profile(), &profile()) {
        assert_eq!(row.error, 0.0, "{row:?}");
        let causes = row.causes.expect("every metric exists");
        assert_eq!(causes, Causes::default(), "{row:?}");
    }
}

#[test]
fn a_stage_that_takes_longer_is_a_stage_cost() {
    let machine = profile()
        .costs(
            "decode = { per_token_s = 0.010 }",
            "decode = { per_token_s = 0.013 }",
        )
        .costs(
            "decode = { per_token_s = 0.020 }",
            "decode = { per_token_s = 0.026 }",
        );
    is_all(&machine, 1e-6, |causes| causes.stage_cost);
}

#[test]
fn a_transfer_that_takes_longer_is_a_transfer() {
    let machine = profile()
        .costs(
            "import = { fixed_s = 0.001, gbps = 0.001 }",
            "import = { fixed_s = 0.002, gbps = 0.0005 }",
        )
        .costs(
            "export = { fixed_s = 0.001, gbps = 0.001 }",
            "export = { fixed_s = 0.002, gbps = 0.0005 }",
        );
    // Of the engine whose imports never ran alone, what they took longer counts as contention.
    is_all(&machine, 0.45, |causes| causes.transfer);
}

#[test]
fn what_is_slower_beside_others_is_contention() {
    // A stage that runs beside another for a part of its time only has the mean of such stages put right: not
    // exactly its own.
    let machine = profile().costs(
        "[engines.b.stages]",
        "[engines.a.corun]\ndecode = { ratio = 1.4 }\n[engines.b.stages]",
    );
    is_all(&machine, 0.35, |causes| causes.contention);
}
