//! What the summary refers its rates and shares to, what counts as missing from an answer, and which
//! runs count as overloaded.

use sim::metrics::{LoadVerdict, Summary};
use sim::simulation::Simulation;

use crate::toy::{Toy, toy};

fn summary(toy: &Toy) -> Summary {
    let world = toy.world();
    let mut simulation = Simulation::new(&world);
    simulation.run(0).expect("no policy stops");
    simulation.summary()
}

/// Everything on `a`, which ingests a frame in 10 ms and answers in 22 ms; the newest 4 frames stay.
fn on_a(horizon_s: u32) -> Toy {
    toy()
        .set("policy = { single = { lane = 'a' } }")
        .table(&format!("[run]\nhorizon_s = {horizon_s}.0"))
        .table("[context]\nbinding = 'published'\nkeep = { window = { frames = 4 } }")
}

/// A stream of periodic frames and queries.
fn camera(frames_hz: f64, queries: &str) -> String {
    format!(
        "[[streams]]\nname = 'cam'\n\
         frames = {{ clock = {{ periodic = {{ rate_hz = {frames_hz:?} }} }} }}\n\
         queries = {{ arrivals = {queries}, prompt_tokens = 2, output_tokens = 3 }}"
    )
}

#[test]
fn refused_frames_are_behind_too() {
    let toy = toy()
        .set("policy = { single = { lane = 'a' } }")
        .table("[context]\nbinding = 'published'\n[limits]\nmax_pending_frames = 1")
        .stream("cam", &[0, 2, 5], &[12]);
    let summary = summary(&toy);
    assert_eq!(summary.frames_behind, Some(2.0));
    assert_eq!(summary.frames_refused, 2);
    assert_eq!(summary.frames_refused_by, [("frames_pending", 2)]);
}

#[test]
fn shares_are_of_the_whole_run_though_answers_end_early() {
    let summary = summary(&on_a(1000).table(&camera(1.0, "{ times_s = [50.0, 100.0] }")));
    // 1000 frames of 10 ms and 2 answers of 22 ms in some 999 s; the second is asked as a frame comes.
    assert!(
        (summary.window_s - 100.0).abs() < 0.1,
        "{}",
        summary.window_s
    );
    assert!((summary.run_s - 999.0).abs() < 0.1, "{}", summary.run_s);
    // Before each answer, 10 ms rebuild a frame that the window has dropped meanwhile.
    let want = (1000.0 * 0.010 + 2.0 * (0.010 + 0.022)) / summary.run_s;
    assert!((summary.engines[0].busy - want).abs() < 1e-9, "{summary:?}");
}

#[test]
fn an_overloaded_lane_answers_as_fast_after_a_warm_up_as_before() {
    // Asked every 10 ms, answered every 22 ms: the warm-up ends amid queries that came long before.
    let text = "[[streams]]\nname = 'cam'\n\
                queries = { arrivals = { periodic = { period_s = 0.01 } }, prompt_tokens = 2, output_tokens = 3 }";
    let warm =
        |warm_up_s: u32| {
            let toy = toy().set("policy = { single = { lane = 'a' } }").table(&format!(
            "[run]\nhorizon_s = 30.0\nwarm_up_s = {warm_up_s}.0\n[limits]\nmax_requests = 10000"
        ));
            summary(&toy.table(text))
        };
    for warm_up_s in [0, 15] {
        let summary = warm(warm_up_s);
        for (got, each) in [
            (summary.throughput_rps.expect("time passes"), 1.0),
            (summary.tokens_per_s.expect("time passes"), 3.0),
            (summary.open_rps.expect("nobody waits for answers"), 1.0),
        ] {
            let want = each / 0.022;
            assert!(
                (got / want - 1.0).abs() < 0.002,
                "{warm_up_s}: {got} of {want}"
            );
        }
        assert_eq!(summary.window_s, 30.0 - f64::from(warm_up_s));
        // Latencies and counts are of those that arrived after it.
        assert_eq!(summary.completed, summary.arrived);
        assert_eq!(summary.completed, (30 - u64::from(warm_up_s)) * 100);
    }
}

#[test]
fn a_run_that_stops_answering_is_not_faster() {
    // 4094 tokens are 408 frames of 10, a prompt and an answer: from then on queries are refused.
    let full = toy()
        .model("4096", "4094")
        .set("policy = { single = { lane = 'a' } }")
        .table("[run]\nhorizon_s = 1000.0\n[context]\nbinding = 'published'")
        .table(&camera(1.0, "{ periodic = { period_s = 1.0 } }"));
    let full = summary(&full);
    assert!((400..420).contains(&full.completed), "{}", full.completed);
    assert!(full.makespan_s < 1000.0);
    assert_eq!(full.window_s, 1000.0);
    assert_eq!(full.throughput_rps, Some(full.completed as f64 / 1000.0));
    assert_eq!(full.frames_refused_by[0].0, "context_too_long");
    // Half of the run is of another load than the rest.
    assert_eq!(full.load, LoadVerdict::Saturated);
    assert_eq!(full.overload, ["context_full", "queries_never_fit"]);
}

#[test]
fn frames_that_pile_up_are_an_overload() {
    let queries = "{ periodic = { period_s = 0.5 } }";
    let calm = summary(&on_a(30).table(&camera(10.0, queries)));
    assert_eq!(calm.load, LoadVerdict::Steady);
    assert!(calm.overload.is_empty());
    // Frames come faster than they are ingested.
    let text = camera(120.0, queries);
    let wait = on_a(30).table("[limits]\nmax_pending_frames = 1000000");
    let wait = summary(&wait.table(&text));
    assert_eq!(wait.load, LoadVerdict::Saturated);
    assert_eq!(wait.overload, ["frames_wait"]);
    assert!(wait.frames_index.expect("is read") > 0.9, "{wait:?}");
    assert!(wait.busiest_lane > 0.98 && wait.busiest_lane <= 1.0);
    // Few may wait: the backlog is level, and the rest is refused.
    let refused = on_a(30).table("[limits]\nmax_pending_frames = 4");
    let refused = summary(&refused.table(&text));
    assert_eq!(refused.load, LoadVerdict::Saturated);
    assert_eq!(refused.overload, ["frames_refused"]);
}

#[test]
fn queries_refused_by_a_full_queue_are_an_overload() {
    let toy = on_a(30).table("[limits]\nmax_requests = 3");
    let summary = summary(&toy.table(&camera(1.0, "{ periodic = { period_s = 0.01 } }")));
    assert_eq!(summary.load, LoadVerdict::Saturated);
    // Queries go first, so frames wait for ever.
    assert_eq!(summary.overload, ["queries_refused", "frames_wait"]);
}

#[test]
fn what_is_refused_while_lanes_are_idle_is_not_steady() {
    // Queries come in pairs, of which one finds the only place taken; the lane is half idle.
    let half = "{ gamma = { rate_hz = 20.0, cv = 3.0 } }";
    let one = on_a(30).table("[limits]\nmax_requests = 1");
    let one = summary(&one.table(&camera(1.0, half)));
    assert!(one.busiest_lane < 0.9, "{}", one.busiest_lane);
    let refused: u64 = one.refused.iter().map(|(_, count)| count).sum();
    assert!(refused * 4 > one.arrived, "{refused} of {}", one.arrived);
    assert_eq!(one.load, LoadVerdict::Saturated);
    assert_eq!(one.overload, ["queries_refused"]);
    // With room for all of them it is steady.
    let all = summary(&on_a(30).table(&camera(1.0, half)));
    assert_ne!(all.load, LoadVerdict::Saturated);
}

#[test]
fn what_finds_no_memory_has_a_verdict() {
    // Five frames of 10 fill 50 tokens; no sixth fits, and no query (5) beside more than four.
    let text = camera(1.0, "{ periodic = { period_s = 0.5 } }");
    let toy = toy()
        .set("policy = { single = { lane = 'a' } }")
        .table("[run]\nhorizon_s = 30.0\n[context]\nbinding = 'published'")
        .table("[limits]\nkv_budget_bytes = 50000");
    let full = summary(&toy.clone().table(&text));
    assert_eq!(full.load, LoadVerdict::Saturated);
    assert_eq!(full.overload, ["memory_full", "queries_never_fit"]);
    assert_eq!(full.frames_refused_by, [("never_fits", 25)]);
    // Users who wait are told as well.
    let waits = camera(1.0, "{ closed_loop = { users = 1, think_s = 0.5 } }");
    assert_eq!(summary(&toy.table(&waits)).overload, full.overload);
}

#[test]
fn users_who_wait_are_judged_by_those_who_do_not() {
    let user = "{ closed_loop = { users = 1, think_s = 0.1 } }";
    let text = camera(1.0, user);
    let alone = summary(&on_a(30).table(&text));
    assert_eq!(alone.load, LoadVerdict::Finite);
    assert_eq!(alone.saturation_index, None);
    let other = "[[streams]]\nname = 'other'\n\
                 queries = { arrivals = { periodic = { period_s = 0.5 } }, prompt_tokens = 2, output_tokens = 3 }";
    let mixed = summary(&on_a(30).table(&text).table(other));
    assert_eq!(mixed.load, LoadVerdict::Steady);
    // Of the answers, those of the stream that asks on its own, two a second.
    let open = mixed.open_rps.expect("one stream does not wait");
    assert!((open - 2.0).abs() < 0.1, "{open}");
    let all = mixed.throughput_rps.expect("time passes");
    assert!(all > open + 1.0, "{mixed:?}");
    assert_eq!(alone.open_rps, None);
}

/// To see it fail, let only sources without a count ask until the horizon.
#[test]
fn a_count_that_is_not_reached_changes_nothing() {
    let stream = |count: &str| {
        let text = format!(
            "[[streams]]\nname = 'cam'\nqueries = {{ arrivals = {{ poisson = {{ rate_hz = 0.03 }} }}, prompt_tokens = 2, output_tokens = 3{count} }}"
        );
        let toy = toy().set("policy = { single = { lane = 'a' } }");
        summary(&toy.table("[run]\nhorizon_s = 100.0").table(&text))
    };
    let endless = stream("");
    assert_eq!(endless.window_s, 100.0);
    assert_eq!(endless, stream(", count = 1000"));
    // One that is reached ends the window with its last answer.
    let few = stream(", count = 1");
    assert!(few.window_s < 100.0 && few.completed == 1, "{few:?}");
}

#[test]
fn what_does_not_exist_after_the_warm_up_is_absent() {
    let toy = toy()
        .set("policy = { single = { lane = 'a' } }")
        .table("[run]\nwarm_up_s = 50.0\nhorizon_s = 100.0");
    let text = "[[streams]]\nname = 'cam'\n\
                queries = { arrivals = { times_s = [1.0, 2.0] }, prompt_tokens = 2, output_tokens = 3 }";
    let summary = summary(&toy.table(text));
    assert_eq!((summary.window_s, summary.answers_in_window), (0.0, 0));
    assert_eq!(summary.throughput_rps, None);
    assert_eq!((summary.tokens_per_s, summary.open_rps), (None, None));
    assert_eq!((summary.energy_j, summary.mean_power_w), (None, None));
}

/// To see it fail, count what an answer lacks in `Dispatcher::begin_answer`, or leave `missed_frame` empty.
#[test]
fn an_answer_without_frames_is_as_old_as_the_first_that_came() {
    let toy = |frames: &[u32]| {
        toy()
            .set("policy = { single = { lane = 'a' } }")
            .table("[context]\nbinding = 'published'")
            .stream("cam", frames, &[6])
    };
    // It is bound to version 0 at 6 ms and begins at 10; the third frame comes before its first token at 12.
    let late = summary(&toy(&[0, 5, 11]));
    assert_eq!(late.frames_behind, Some(3.0));
    assert_eq!(
        (late.staleness_s.count, late.staleness_s.mean),
        (1, Some(0.012))
    );
    // Here no frame has come by its first token, at 8 ms: there was nothing to know.
    let early = summary(&toy(&[9, 20]));
    assert_eq!((early.frames_behind, early.staleness_s.count), (None, 0));
}
