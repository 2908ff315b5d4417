//! Samples to a profile.

use hw::calibrate::bench::Timed;
use hw::calibrate::profile::{Provenance, Quality, profile};
use hw::calibrate::{Measured, Point, journal};
use sim::load::{check_costs, check_soc};
use sim::spec::model::StageKind;
use sim::world::World;

use crate::common::{self, SOC, world};
use crate::truth;

fn provenance() -> Provenance {
    Provenance {
        date: "1 January 2026".into(),
        host: "a machine".into(),
        versions: "mock".into(),
        weights_copy_bytes: Some(123),
    }
}

/// What a machine would measure that is as the table says, but for 2 % of noise in each sample.
fn ideal(world: &World) -> Measured {
    of_machine(world, |point, round| [0.98, 1.0, 1.02][(point + round) % 3])
}

/// The same of a machine that takes `factor` of the table's time, by point, counted among those of
/// its stage, and round.
fn of_machine(world: &World, factor: impl Fn(usize, usize) -> f64) -> Measured {
    let mut measured = Measured::default();
    let mut add = |engine: &str, kind, size: u64, context| {
        let point = Point::Stage {
            engine: engine.into(),
            kind,
            size,
            context,
        };
        let wall_s = truth(world, &point);
        let alike = |other: &&Point| matches!(other, Point::Stage { engine: on, kind: of, .. } if *on == engine && *of == kind);
        let nth = measured.series.keys().filter(alike).count();
        for round in 0..3 {
            let timed = Timed {
                wall_s: factor(nth, round) * wall_s,
                cpu_s: Some(wall_s),
            };
            measured.add(point.clone(), timed);
        }
    };
    for engine in ["cpu", "gpu"] {
        add(engine, StageKind::Encode, 1, 0);
        for size in [8, 49, 98] {
            add(engine, StageKind::Project, size, 0);
            for context in [5, 200, 700] {
                add(engine, StageKind::Ingest, size, context);
                add(engine, StageKind::QueryPrefill, size, context);
                add(engine, StageKind::Decode, size, context);
            }
            add(engine, StageKind::Export, size * 10_000, 0);
            add(engine, StageKind::Import, size * 10_000, 0);
        }
    }
    add("npu", StageKind::Encode, 1, 0);
    for (busy, wall_s) in [(false, 0.1), (true, 0.125)] {
        for beside in [StageKind::Decode, StageKind::QueryPrefill] {
            let point = Point::Pair {
                victim: "cpu".into(),
                does: StageKind::Decode,
                aggressor: "gpu".into(),
                beside,
                busy,
            };
            measured.add(
                point,
                Timed {
                    wall_s,
                    cpu_s: None,
                },
            );
        }
    }
    let point = Point::Stream {
        lane: "cpu".into(),
        together: false,
    };
    let timed = Timed {
        wall_s: 17.5,
        cpu_s: None,
    };
    measured.add(point, timed);
    measured
}

/// To see it fail, write the slowdown alone.
#[test]
fn a_slowdown_has_the_interval_that_its_turns_leave() {
    let world = world("");
    // Turns alone take 0.1 s.
    let cell = |beside: [f64; 3]| {
        let mut measured = ideal(&world);
        for (point, series) in &mut measured.series {
            match point {
                Point::Pair { busy: true, .. } => series.wall = beside.to_vec(),
                Point::Pair { busy: false, .. } => series.wall = vec![0.1; 3],
                _ => {}
            }
        }
        let profile = profile(&world, &measured, None, SOC, &provenance()).unwrap();
        let soc = check_soc("soc.toml", &profile.soc).unwrap_or_else(|faults| panic!("{faults}"));
        let mut cells = soc.iter().filter(|it| it.path.ends_with("slowdown[0][0]"));
        let cell = cells.next().expect("there is one");
        (cell.value, cell.interval)
    };
    let near = |interval: Option<(f64, f64)>, ends: (f64, f64)| {
        let (low, high) = interval.expect("it has one");
        assert!(
            (low - ends.0).abs() < 1e-3 && (high - ends.1).abs() < 1e-3,
            "{low}, {high}"
        );
    };
    // Student's t of two degrees of freedom, 4.30, times 0.05 ÷ √3.
    let (value, ends) = cell([0.120, 0.125, 0.130]);
    assert!((value - 1.25).abs() < 1e-12);
    near(ends, (1.1259, 1.3741));
    // One that may be none, and one that is less than none.
    near(cell([0.098, 0.101, 0.104]).1, (1.0, 1.0845));
    assert_eq!(cell([0.088, 0.091, 0.094]), (1.0, None));
}

#[test]
fn a_machine_that_is_slower_at_one_time_makes_no_stage_vary_within_a_run() {
    let world = world("");
    let drifts = of_machine(&world, |_, round| [0.9, 1.0, 1.1][round]);
    let profile = profile(&world, &drifts, None, SOC, &provenance()).unwrap();
    for quality in &profile.quality {
        // One point's samples do not tell what they have in common.
        if quality.fit.points > 1 {
            assert!(quality.cv < 1e-6, "{quality:?}");
            assert!((quality.drift.cv - 0.1).abs() < 1e-6, "{quality:?}");
        }
    }
}

#[test]
fn a_pause_of_the_machine_changes_no_cost() {
    let world = world("");
    let mut stalls = ideal(&world);
    let point = Point::Stage {
        engine: "cpu".into(),
        kind: StageKind::QueryPrefill,
        size: 49,
        context: 200,
    };
    stalls.series.get_mut(&point).unwrap().wall[1] += 0.48;
    let quiet = profile(&world, &ideal(&world), None, SOC, &provenance()).unwrap();
    let stalled = profile(&world, &stalls, None, SOC, &provenance()).unwrap();
    for (quiet, stalled) in quiet.quality.iter().zip(&stalled.quality) {
        assert!(
            (stalled.mean / quiet.mean - 1.0).abs() < 0.002,
            "{stalled:?}"
        );
        assert!((stalled.cv - 0.02).abs() < 0.002, "{stalled:?}");
        let of = stalled.engine == "cpu" && stalled.kind == StageKind::QueryPrefill;
        assert_eq!(stalled.stalls.count, usize::from(of));
    }
    assert!(
        stalled.costs.contains("1 more stalled, 0.48"),
        "{}",
        stalled.costs
    );
}

/// An import's own time is a difference of two measurements: on a busy machine it may come out as less than nothing.
/// To see it fail, divide each point's deviation by the mean of its samples.
#[test]
fn copies_whose_samples_cancel_out_have_a_spread_that_can_be_used() {
    let world = world("");
    let mut measured = ideal(&world);
    let point = Point::Stage {
        engine: "cpu".into(),
        kind: StageKind::Import,
        size: 490_000,
        context: 0,
    };
    let series = measured.series.get_mut(&point).unwrap();
    let middle = series.wall[1];
    series.wall = vec![-1.9999 * middle, middle, middle];
    let profile = profile(&world, &measured, None, SOC, &provenance()).unwrap();
    check_costs("costs.toml", &profile.costs).unwrap_or_else(|faults| panic!("{faults}"));
    let import = |quality: &&Quality| quality.engine == "cpu" && quality.kind == StageKind::Import;
    let import = profile.quality.iter().find(import).unwrap();
    assert!(import.cv < 2.0, "{import:?}");
}

#[test]
fn a_profile_gives_back_the_costs_that_were_measured() {
    let world = world("");
    let measured = ideal(&world);
    let profile = profile(&world, &measured, None, SOC, &provenance()).unwrap();
    check_costs("costs.toml", &profile.costs).unwrap_or_else(|faults| panic!("{faults}"));
    let soc = check_soc("soc.toml", &profile.soc).unwrap_or_else(|faults| panic!("{faults}"));
    let port = soc.iter().find(|number| number.path.contains("port_gbps"));
    assert_eq!(port.unwrap().value, 17.5);
    assert!(profile.soc.contains("1.25, 1.25"), "{}", profile.soc);

    let calibrated = common::world_with("", &profile.soc, &profile.costs);
    for (point, series) in &measured.series {
        if matches!(point, Point::Stage { .. }) {
            let (now, was) = (truth(&calibrated, point), series.median().unwrap());
            assert!((now / was - 1.0).abs() < 1e-6, "{point:?}: {now} of {was}");
        }
    }
    for quality in &profile.quality {
        let cv = quality.cv;
        assert!((cv - 0.02).abs() < 1e-9, "{cv}: samples scatter by 2 %");
    }
    let measured_numbers = calibrated.provenance.iter().filter(|number| {
        number
            .note
            .as_ref()
            .is_some_and(|note| note.contains("a machine"))
    });
    assert!(measured_numbers.count() > 20);
}

/// To see it fail, leave out that the form is scaled.
#[test]
fn what_is_measured_later_moves_each_stage_by_as_much() {
    let world = world("");
    let measured = ideal(&world);
    let mut later = Measured::default();
    for (point, series) in &measured.series {
        let Point::Stage { engine, kind, .. } = point else {
            continue;
        };
        // The processor is faster now, and copies on the other scatter about what they were.
        let times: &[f64] = match (engine.as_str(), kind) {
            ("cpu", _) => &[0.79, 0.81],
            ("gpu", StageKind::Export) => &[0.4, 1.7],
            _ => &[],
        };
        for &times in times {
            let timed = Timed {
                wall_s: times * series.median().unwrap(),
                cpu_s: None,
            };
            later.add(point.clone(), timed);
        }
    }
    let profile = profile(&world, &measured, Some(&later), SOC, &provenance()).unwrap();
    let calibrated = common::world_with("", &profile.soc, &profile.costs);
    for (point, series) in &measured.series {
        if let Point::Stage { engine, .. } = point {
            let ratio = truth(&calibrated, point) / series.median().unwrap();
            let expected = if engine == "cpu" { 0.8 } else { 1.0 };
            assert!((ratio - expected).abs() < 1e-3, "{point:?}: {ratio}");
        }
    }
    for quality in &profile.quality {
        let samples = quality.refreshed.map(|now| now.samples);
        let of_gpu = (quality.engine == "gpu", quality.kind);
        assert_eq!(
            samples.is_some(),
            quality.engine == "cpu" || of_gpu == (true, StageKind::Export)
        );
    }
    assert!(
        profile
            .costs
            .contains("since 18 samples taken later are 0.800"),
        "{}",
        profile.costs
    );
}

#[test]
fn a_profile_is_not_made_of_nothing() {
    let world = world("");
    let mut measured = ideal(&world);
    measured.series.retain(|point, _| {
        !matches!(point, Point::Stage { kind: StageKind::Decode, engine, .. } if engine == "gpu")
    });
    let error = profile(&world, &measured, None, SOC, &provenance()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no sample of `decode` on engine `gpu`: its cost cannot be given"
    );
}

#[test]
fn a_journal_is_read_to_its_last_whole_line() {
    let text = "# started\nstage\tcpu\tingest\t8\t5\t1e-2\t-\nstage\tcpu\tinge";
    let measured = journal::read(text).unwrap();
    assert_eq!(measured.series.len(), 1);
    assert_eq!(journal::read("stage\tcpu\twhat\t8\t5\t1e-2\t-\n"), Err(1));
    assert_eq!(
        journal::read("\nstage\tcpu\tingest\t8\t5\tNaN\t-\n"),
        Err(2)
    );
}
