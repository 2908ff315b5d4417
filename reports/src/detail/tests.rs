//! Laws of the detail, on whole runs.

use super::*;
use crate::toy;

fn run(text: &str, rows: usize) -> (Run, sim::metrics::Summary) {
    let (mut detail, summary) = toy::detail(text, rows);
    (detail.runs.remove(0), summary)
}

#[test]
fn the_parts_of_every_answer_add_up() {
    for rate in [0.2, 2.0] {
        let (run, summary) = run(&toy::scenario(rate), 100_000);
        let rows = &run.requests;
        let mut answers = 0;
        let mut total = 0.0;
        let mut slowed = 0;
        for row in 0..rows.len() {
            let Some(waiting) = rows.waiting[row] else {
                continue;
            };
            let (Some(preparing), Some(slowdown), Some(service)) =
                (rows.preparing[row], rows.slowdown[row], rows.service[row])
            else {
                panic!("an answer has all parts");
            };
            let took = rows.ended[row] - rows.arrived[row];
            assert_eq!(
                (waiting + preparing + service).cast_signed() + slowdown,
                took.cast_signed()
            );
            assert!(slowdown >= -1, "co-running speeds nothing up: {slowdown}");
            assert!(rows.waiting_for_version[row].is_none_or(|part| part <= waiting));
            slowed += usize::from(slowdown > 1_000_000);
            if rows.arrived[row] >= run.warm_up_ns {
                answers += 1;
                total += took as f64 / 1e9;
            }
        }
        assert!(slowed > 0, "something ran beside something");
        assert_eq!(answers, summary.completed);
        let parts = run.parts_s.expect("there are answers");
        let sum = parts.waiting + parts.preparing + parts.slowdown + parts.service;
        let mean = summary.completion_s.mean.expect("there are answers");
        assert!((sum / mean - 1.0).abs() < 1e-9);
        assert!((total / answers as f64 / mean - 1.0).abs() < 1e-9);
    }
}

#[test]
fn stages_alone_are_as_long_as_they_ran_where_nothing_contends() {
    let text = toy::scenario(0.5).replace("[context]", "[policy.serial]\n[context]");
    let (run, _) = run(&text, 100_000);
    assert!(!run.slices.cut() && !run.slices.is_empty());
    for (alone, length) in run.slices.alone.iter().zip(&run.slices.length) {
        assert_eq!(*alone, Some(*length));
    }
    assert!(run.engines.iter().all(|share| share.corun == 0.0));
}

#[test]
fn curves_integrate_to_the_numbers_of_the_summary() {
    let text = toy::scenario(0.5).replace("warm_up_s = 10.0", "warm_up_s = 0.0");
    let (run, summary) = run(&text, 10);
    let integral = |bins: &Bins| {
        let width = bins.width_ns;
        let bins = bins.mean.iter().enumerate().map(|(bin, mean)| {
            let from = bin as u64 * width;
            mean * (run.end_ns.min(from + width) - from) as f64 / 1e9
        });
        bins.sum::<f64>()
    };
    let close = |got: f64, want: f64, what: &str| {
        assert!((got / want - 1.0).abs() < 1e-4, "{what}: {got} for {want}");
    };
    let energy = summary.energy_j.expect("the profile has power");
    close(
        integral(run.series.watts.as_ref().expect("it has power")),
        energy,
        "energy",
    );
    close(
        integral(&run.series.bytes_per_s),
        summary.mean_bandwidth_gbps * 1e9 * summary.run_s,
        "bytes",
    );
    for (lane, engine) in run.series.busy.iter().zip(&summary.engines) {
        let busy: f64 = lane.iter().map(integral).sum();
        close(busy, engine.busy * summary.run_s, "busy time");
    }
    // Little's law, exactly: everything that came has gone.
    let in_system = integral(&run.series.waiting) + integral(&run.series.answering);
    let mean = summary.completion_s.mean.expect("there are answers");
    close(in_system, mean * summary.completed as f64, "time in system");
    for (share, engine) in run.engines.iter().zip(&summary.engines) {
        close(share.active, engine.busy, "one lane an engine");
        assert!(share.corun <= share.active);
    }
}

#[test]
fn rows_are_bounded_and_thinned_evenly() {
    let (all, _) = run(&toy::scenario(1.0), 100_000);
    let (few, _) = run(&toy::scenario(1.0), 20);
    assert_eq!(few.slices.len(), 20);
    assert!(few.slices.cut());
    assert_eq!(few.slices.total, all.slices.total);
    assert_eq!(few.slices.start[..], all.slices.start[..20]);
    assert!(few.requests.len() <= 20);
    assert_eq!(few.requests.total, all.requests.len() as u64);
    let stride = few.requests.stride as usize;
    let every: Vec<u64> = all.requests.ended.iter().copied().step_by(stride).collect();
    assert_eq!(few.requests.ended, every);
    assert_eq!(few.series, all.series);
    assert_eq!(few.parts_s, all.parts_s);
}

#[test]
fn it_is_read_as_it_was_written() {
    let (detail, _) = toy::detail(&toy::scenario(0.5), 100);
    let text = serde_json::to_string(&detail).expect("it can be written");
    let read: Detail = serde_json::from_str(&text).expect("it can be read");
    let (run, of) = (&read.runs[0], &detail.runs[0]);
    assert!(run.slices == of.slices && run.versions == of.versions && run.requests == of.requests);
    assert_eq!(run.series.busy[0][0].mean, of.series.busy[0][0].mean);
    assert_eq!(read.check(), Ok(()));
    let mut wrong = read.clone();
    wrong.runs[0].slices.lane[3] = 9;
    assert_eq!(wrong.check(), Err("there is no lane 9".into()));
    wrong.runs[0].slices.lane.pop();
    assert!(
        wrong
            .check()
            .is_err_and(|cause| cause.contains("`slices` differ in length"))
    );
}

#[test]
fn commands_are_quoted_for_a_shell() {
    assert_eq!(quoted("a/b.toml"), "a/b.toml");
    assert_eq!(quoted("it's here"), r"'it'\''s here'");
    assert_eq!(quoted(""), "''");
    let of = Reproduce::new(&[], &[("a".into(), "abc".into())]);
    // The digest of FIPS 180-4's example.
    assert!(
        of.inputs[0]
            .sha256
            .starts_with("ba7816bf8f01cfea414140de5dae2223")
    );
}

#[test]
fn watching_a_run_changes_nothing() {
    let text = toy::scenario(0.5);
    let world = toy::world(&text);
    let mut simulation = sim::simulation::Simulation::new(&world);
    simulation.run(0).expect("no policy stops");
    assert_eq!(toy::detail(&text, 10).1, simulation.summary());
}

/// To see it fail, count what an ingest made before older frames go.
#[test]
fn contexts_never_take_more_than_the_peak() {
    for frames in [1, 4] {
        for rate in [0.02, 0.5] {
            let window = format!("window = {{ frames = {frames} }}");
            let text = toy::scenario(rate).replace("window = { frames = 4 }", &window);
            // One engine: no older copy stays on another.
            let text = text.replace("[context]", "[policy.single]\nlane = \"npu\"\n[context]");
            let (run, summary) = run(&text, 100_000);
            let most = run.series.context_bytes.mean.iter().copied();
            let most = most.fold(0.0, f64::max);
            assert!(
                0.0 < most && most <= summary.peak_kv_bytes as f64,
                "{frames}, {rate}: {most} of {}",
                summary.peak_kv_bytes
            );
        }
    }
}

/// To see it fail, leave the size as it was when the stage began.
#[test]
fn a_decode_is_as_large_as_what_it_generated() {
    let (mut detail, _) = toy::detail(&toy::scenario(0.2), 100_000);
    let run = detail.runs.remove(0);
    let (slices, requests) = (&run.slices, &run.requests);
    let mut seen = 0;
    for row in 0..slices.len() {
        if detail.stage_kinds[usize::from(slices.stage[row])] != StageKind::Decode {
            continue;
        }
        let of = (
            slices.stream[row],
            slices.query[row].expect("it serves a query"),
        );
        let found = (0..requests.len()).find(|&r| (requests.stream[r], requests.index[r]) == of);
        let output = requests.output[found.expect("it ended")].expect("it was answered");
        // The prefill gives the first token.
        assert_eq!(slices.size[row], output - 1, "{of:?}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}
