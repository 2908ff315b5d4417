//! Contention models against co-run matrices: made by a known model, and the public one where present.

#![expect(clippy::print_stderr, reason = "a test says that it was skipped")]

use std::path::PathBuf;
use std::{env, fs};

use sim::contention::{ContentionModel as _, Load, Ports, Shape, WaterFilling};
use sim::world::EngineId;
use validation::corun::{CorunError, Matrix, Score, Splits, best_filling, compare};
use validation::report;

/// The matrix that a water-filling model gives, of ten demands each.
fn made(bandwidth: f64, share: f64, shape: Shape) -> Matrix {
    let axis = |port: f64| -> Vec<f64> { (1..=10).map(|at| port * f64::from(at) / 10.0).collect() };
    let (own, external) = (axis(90.0), axis(110.0));
    let ports = Ports {
        port: vec![90e9, 110e9],
        weight: vec![share, 1.0 - share],
        bandwidth: bandwidth * 1e9,
        background: 0.0,
    };
    let model = WaterFilling::with_shape(ports, shape, vec![]).expect("it is a model");
    let mut achieved = Vec::new();
    for own in &own {
        for external in &external {
            let running = [(0, own / 90.0), (1, external / 110.0)].map(|(engine, mu)| Load {
                engine: EngineId(engine),
                mu,
            });
            let mut slowdowns = [1.0; 2];
            model.slowdowns(&running, &mut slowdowns);
            achieved.push(own / slowdowns[0]);
        }
    }
    Matrix {
        own,
        external,
        achieved,
    }
}

fn few() -> Splits {
    Splits {
        count: 2,
        ..Splits::default()
    }
}

fn of<'s>(scores: &'s [Score], model: &str) -> &'s Score {
    let found = scores.iter().find(|score| score.model == model);
    found.expect("the model is scored")
}

/// The value that was fitted to all points.
fn fitted(score: &Score, name: &str) -> f64 {
    let found = score.fitted.iter().find(|fitted| fitted.name == name);
    found.expect("the number is fitted").value
}

#[test]
fn the_right_model_recovers_its_numbers() {
    let matrix = made(130.0, 0.4, Shape::default());
    let scores = compare(&matrix, few()).expect("it is compared");
    let plain = of(&scores, "water_filling");
    assert!(plain.in_sample < 0.05, "{plain:?}");
    assert!(plain.out_worst < 0.5, "{plain:?}");
    assert!(
        (fitted(plain, "bandwidth_gbps") - 130.0).abs() < 1.0,
        "{plain:?}"
    );
    assert!((fitted(plain, "share") - 0.4).abs() < 0.01, "{plain:?}");
    assert!(
        of(&scores, "none").in_sample > 5.0,
        "contention is there to be seen"
    );
}

#[test]
fn queueing_is_told_from_plain_filling() {
    let shape = Shape {
        overlap_exponent: 6.0,
        occupancy_exponent: 0.6,
        latency_loss: 0.05,
        ..Shape::default()
    };
    let scores = compare(&made(130.0, 0.4, shape), few()).expect("it is compared");
    let (plain, queueing) = (
        of(&scores, "water_filling"),
        of(&scores, "water_filling, queueing"),
    );
    assert!(queueing.in_sample < 0.1, "{queueing:?}");
    assert!(plain.in_sample > 5.0 * queueing.in_sample, "{plain:?}");
    assert!(
        (fitted(queueing, "occupancy_exponent") - 0.6).abs() < 0.05,
        "{queueing:?}"
    );
    assert!(
        (fitted(queueing, "latency_loss") - 0.05).abs() < 0.01,
        "{queueing:?}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let small = Matrix {
        own: vec![1.0, 2.0],
        external: vec![1.0, 2.0],
        achieved: vec![1.0; 4],
    };
    assert_eq!(compare(&small, few()), Err(CorunError::TooFew(4)));
    let matrix = made(130.0, 0.4, Shape::default());
    for (peak, says) in [
        (100.0, "100"),
        (-5.0, "-5"),
        (1e300, "1e300"),
        (f64::INFINITY, "inf"),
        (f64::NAN, "NaN"),
    ] {
        let splits = Splits {
            peak_gbps: Some(peak),
            ..few()
        };
        let error = compare(&matrix, splits).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the memory's peak is {says} GB/s, must be above the largest demand, 110, and at most 1000000"
            )
        );
    }
}

/// Rows that are slowed less than any memory with this peak slows them: a free bandwidth explains them better.
#[test]
fn a_bandwidth_without_a_peak_is_said_to_be_free() {
    let matrix = made(160.0, 0.4, Shape::default());
    let of_peak = |peak_gbps: Option<f64>| {
        let splits = Splits { peak_gbps, ..few() };
        let scores = compare(&matrix, splits).expect("it is compared");
        let body = report::corun(&scores, peak_gbps, ("m.csv", &[])).body;
        (scores, body)
    };
    let (free, free_body) = of_peak(None);
    let (bound, bound_body) = of_peak(Some(136.5));
    let plain = |scores: &[Score]| fitted(of(scores, "water_filling"), "bandwidth_gbps");
    assert!(plain(&free) > 150.0 && plain(&bound) <= 136.5);
    assert!(of(&free, "water_filling").in_sample < of(&bound, "water_filling").in_sample);
    assert!(free_body.contains("free, up to 200.0 GB/s"), "{free_body}");
    assert!(
        free_body.contains(" (free: no peak given), share"),
        "{free_body}"
    );
    assert!(
        bound_body.contains("peak, 136.5 GB/s") && !bound_body.contains("free"),
        "{bound_body}"
    );
}

/// The public 10 × 10 matrix of a Xavier's GPU, whose memory peaks at 136.5 GB/s.
#[test]
fn xavier() {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = env::var_os("CROSSINFER_SHARED").map_or_else(beside, PathBuf::from);
    let file = folder.join("samples/membw/xavier_gpu_corun_10x10.csv");
    let Ok(text) = fs::read_to_string(file) else {
        eprintln!("skipped: the public co-run matrix is not here");
        return;
    };
    let matrix = Matrix::read(&text).expect("it is a matrix");
    let splits = Splits {
        peak_gbps: Some(136.5),
        ..Splits::default()
    };
    let scores = compare(&matrix, splits).expect("it is compared");
    let least = scores.iter().map(|score| score.out_of_sample);
    let least = least.fold(f64::INFINITY, f64::min);
    assert!(best_filling(&scores) < least + 1.5, "{scores:#?}");
    insta::assert_snapshot!(
        "corun_xavier",
        report::corun(&scores, splits.peak_gbps, ("m.csv", &[])).body
    );
}
