//! What is measured, in which order and how often.

use std::cell::RefCell;

use hw::calibrate::check::checks;
use hw::calibrate::{Event, Measured, Measurer, Plan, Point, journal};
use hw::mock::Mocks;
use sim::spec::model::StageKind;
use sim::world::World;

use crate::common::{self, in_time, world};
use crate::truth;

fn small() -> Plan {
    Plan {
        frames: vec![8, 4, 16],
        queries: vec![(4, 3), (8, 2)],
        encodes: 2,
        streams: false,
        pairs: false,
        checks: false,
        beside: (2, 3),
        rest_s: 0.0,
        least: 2,
        most: 2,
        narrow: 0.0,
        turns: 2,
        turns_s: 60.0,
    }
}

/// Measures a world's mocks by a plan, and goes on from what was measured `earlier`.
fn measure<'w>(
    world: &'w World,
    plan: Plan,
    earlier: Measured,
    listener: impl FnMut(&Event) + 'w,
) -> Measured {
    let mocks = Mocks::new(world);
    let registry = mocks.registry();
    let measurer = Measurer::start(world, mocks.engines(), registry, plan, earlier, listener);
    measurer.unwrap().measure().unwrap()
}

#[test]
fn a_walk_measures_every_stage_and_no_contract_is_broken() {
    in_time(|| {
        let world = world("");
        let lines = RefCell::new(String::new());
        let listener = |event: &Event| {
            if let Event::Sample { point, timed } = event {
                let mut lines = lines.borrow_mut();
                lines.push_str(&journal::line(point, timed));
                lines.push('\n');
            }
        };
        let measured = measure(&world, small(), Measured::default(), listener);
        assert_eq!(journal::read(&lines.borrow()), Ok(measured.clone()));
        let mut cold = 0;
        for (point, series) in &measured.series {
            let Point::Stage { kind, .. } = point else {
                let known = matches!(point, Point::Cold { .. } | Point::Clock { .. });
                assert!(known, "{point:?} was not asked for");
                cold += usize::from(matches!(point, Point::Cold { .. }));
                continue;
            };
            assert!(series.wall.len() >= 2, "{point:?}");
            // A mock's export takes no time of its own: its import waits for both.
            if matches!(kind, StageKind::Export | StageKind::Import) {
                continue;
            }
            let truth = truth(&world, point);
            for &wall in &series.wall {
                // A sleep may be late, never early; 2 s is more than any machine oversleeps.
                assert!(wall >= 0.999 * truth, "{point:?} {wall} {truth}");
                assert!(wall < truth + 2.0, "{point:?} {wall} {truth}");
            }
        }
        // The first of each size: encodes of three engines; of two, ingests and projections of three sizes each, and
        // prefills and decodes of two.
        assert_eq!(cold, 23);
        // Ingest by 3 frames, queries of 2 sizes at 3 depths, and 2 language engines.
        let count = |wanted: StageKind| {
            let points = measured.series.keys();
            points
                .filter(|point| matches!(point, Point::Stage { kind, .. } if *kind == wanted))
                .count()
        };
        assert_eq!(count(StageKind::Encode), 3);
        assert_eq!(count(StageKind::Ingest), 6);
        assert_eq!(count(StageKind::QueryPrefill), 12);
        assert_eq!(count(StageKind::Decode), 12);
        // 4 and 16 tokens added; 8, 12 and 28 whole, with the system prompt's.
        assert_eq!(count(StageKind::Import), 10);

        // Going on from what is there measures nothing again.
        let again = |event: &Event| match event {
            Event::Sample {
                point: Point::Clock { .. },
                ..
            }
            | Event::Part { .. } => {}
            Event::Sample { .. } => panic!("{event:?}"),
        };
        let mut same = measure(&world, small(), measured.clone(), again);
        same.series
            .retain(|point, _| !matches!(point, Point::Clock { .. }));
        let mut before = measured;
        before
            .series
            .retain(|point, _| !matches!(point, Point::Clock { .. }));
        assert_eq!(same, before);
    });
}

#[test]
fn lanes_take_turns_walk_by_walk() {
    in_time(|| {
        let world = world("");
        let order = RefCell::new(Vec::new());
        let listener = |event: &Event| {
            if let Event::Part { what, .. } = event
                && let Some(lane) = what.strip_prefix("stages on ")
            {
                order.borrow_mut().push(lane.to_owned());
            }
        };
        measure(&world, small(), Measured::default(), listener);
        let order = order.borrow();
        // Each at least three times, of which the first is cold.
        assert!(order.len() >= 9, "{order:?}");
        for round in order.chunks(3).take(3) {
            assert_eq!(round, ["cpu", "gpu", "npu"], "{order:?}");
        }
    });
}

#[test]
fn plans_go_as_deep_as_the_workload() {
    // Ten frames of 10 tokens after a system prompt of 5.
    let world = world("");
    let depth = |plan: &Plan| 5 + plan.frames.iter().sum::<u32>();
    let quick = Plan::quick(&world);
    assert_eq!(quick.frames[..5], [10, 4, 20, 10, 30]);
    assert_eq!(depth(&quick), 105);
    assert_eq!(quick.frames.last(), Some(&10));
    let warm_up = Plan::warm_up(&world);
    assert_eq!(warm_up.frames, [10, 10, 25, 10, 35, 10]);
    assert_eq!(depth(&warm_up), 105);
    // What contexts keep bounds their depth.
    let kept = common::world("context.keep = { window = { frames = 3 } }");
    assert_eq!(Plan::quick(&kept).frames.len(), 5);
    assert_eq!(Plan::warm_up(&kept).frames, [10, 10]);
}

#[test]
fn pairs_are_measured_in_turns() {
    in_time(|| {
        let world = world("");
        let plan = Plan {
            pairs: true,
            least: 1,
            most: 1,
            frames: vec![2],
            queries: vec![(1, 2)],
            encodes: 1,
            beside: (1, 2),
            ..small()
        };
        let measured = measure(&world, plan, Measured::default(), |_| {});
        let pairs = measured
            .series
            .keys()
            .filter(|point| matches!(point, Point::Pair { busy: true, .. }));
        // Three kinds on two lanes, one on the third: 9 + 9 + 4 × 3.
        assert_eq!(pairs.count(), 30);
    });
}

/// To see it fail, take the least turns for enough.
#[test]
fn a_slowdown_has_turns_until_it_is_narrow() {
    in_time(|| {
        let world = world("");
        let plan = |narrow, turns_s| Plan {
            pairs: true,
            frames: vec![2],
            queries: vec![(1, 2)],
            encodes: 1,
            beside: (1, 2),
            turns: 5,
            narrow,
            turns_s,
            ..small()
        };
        let counts = |plan| {
            let measured = measure(&world, plan, Measured::default(), |_| {});
            let pairs = measured.series.into_iter();
            let pairs = pairs.filter(|(point, _)| matches!(point, Point::Pair { .. }));
            pairs
                .map(|(_, series)| series.wall.len())
                .collect::<Vec<_>>()
        };
        let all = |counts: Vec<usize>, count| counts.iter().all(|&is| is == count);
        assert!(all(counts(plan(0.0, 60.0)), 5), "none is as narrow as that");
        assert!(all(counts(plan(f64::INFINITY, 60.0)), 2), "any is");
        assert!(all(counts(plan(0.0, 0.0)), 2), "there is no time");
    });
}

#[test]
fn checks_are_measured_and_held_against_the_profile() {
    in_time(|| {
        let world = world("");
        let plan = Plan {
            checks: true,
            least: 1,
            most: 1,
            frames: vec![2, 2],
            queries: vec![(1, 2)],
            encodes: 1,
            beside: (1, 2),
            ..small()
        };
        let measured = measure(&world, plan.clone(), Measured::default(), |_| {});
        let checks = checks(&world, &plan, &measured);
        let engines: Vec<&str> = checks.groups.iter().map(|group| &*group.victim).collect();
        assert_eq!(engines, ["cpu", "gpu", "npu"]);
        for group in &checks.groups {
            // Without contention, and with cores enough.
            assert_eq!((group.engines, group.predicted), (3, 1.0));
            assert!(group.measured > 0.0);
        }
        let ways: Vec<(&str, &str)> = checks
            .prefixes
            .iter()
            .map(|prefix| (&*prefix.from, &*prefix.to))
            .collect();
        assert_eq!(ways, [("cpu", "gpu"), ("gpu", "cpu")]);
        for prefix in &checks.prefixes {
            assert_eq!(prefix.tokens, 7);
            // 7 tokens again by the table, and 7 kB at 0.1 GB/s out and in, 1 ms each.
            let again = if prefix.to == "gpu" {
                0.003 + 7.0 * 0.0007
            } else {
                0.004 + 7.0 * 0.0017
            };
            let predicted = again / (2.0 * (0.001 + 7e3 / 1e8));
            assert!(
                (prefix.predicted / predicted - 1.0).abs() < 1e-9,
                "{prefix:?}"
            );
        }
    });
}
