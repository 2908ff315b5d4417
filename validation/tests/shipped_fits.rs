//! The shipped profiles are what the shipped fits find.
//!
//! The measurements are not part of this repository: where `CROSSINFER_MEASUREMENTS` names them (or they lie in
//! `shared/paper/` beside the checkout), every fit is run again. `UPDATE_FITS=1` writes the profiles.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the fits are what a reader wants to see, and a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sim::load::{Kind, check_costs, check_soc, detect_kind};
use sim::spec::quantity::OriginKind;
use sim::world::Provenance;
use validation::fit::{Fit, Spec, fit, read_spec};
use validation::folder::Checkout;
use validation::published::{
    Draws, Lab, Measurements, Predicted, Role, compare, read_measurements,
};
use validation::report;

/// How well each shipped fit must explain its rows, per cent.
const EXPLAINED: f64 = 5.0;
/// How near the shipped numbers must be to those of the fit: as a part of the interval, or of the value.
const NEAR: (f64, f64) = (0.05, 1e-3);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn measurements() -> Option<Measurements> {
    let path = std::env::var_os("CROSSINFER_MEASUREMENTS").map_or_else(
        || root().join("../shared/paper/measurements.toml"),
        PathBuf::from,
    );
    let text = std::fs::read_to_string(&path).ok()?;
    Some(read_measurements("measurements.toml", &text).unwrap_or_else(|faults| panic!("{faults}")))
}

fn specs() -> Vec<Spec> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fits");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let specs = files.iter().map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        read_spec(name, &text).unwrap_or_else(|faults| panic!("{faults}"))
    });
    specs.collect()
}

/// Numbers of a profile by path.
fn numbers(name: &str, text: &str) -> BTreeMap<String, Provenance> {
    let all = match detect_kind(text) {
        Some(Kind::Soc) => check_soc(name, text),
        _ => check_costs(name, text),
    };
    let all = all.unwrap_or_else(|faults| panic!("{faults}"));
    all.into_iter()
        .map(|number| (number.path.clone(), number))
        .collect()
}

#[test]
fn what_a_fit_covers_says_so_and_carries_its_spread() {
    let specs = specs();
    assert!(specs.len() >= 8, "{} fits", specs.len());
    for spec in &specs {
        for target in spec.free.iter().flat_map(|free| &free.sets) {
            let path = root().join(format!("profiles/{}.toml", target.profile));
            let text = std::fs::read_to_string(path).unwrap();
            let number = &numbers(&target.profile, &text)[&target.path];
            let place = format!("{}: {}", target.profile, target.path);
            assert_eq!(number.kind, OriginKind::Fitted, "{place}");
            assert_eq!(number.origin, spec.origin(), "{place}");
            let (low, high) = number
                .interval
                .unwrap_or_else(|| panic!("{place} has no spread"));
            assert!(low <= number.value && number.value <= high, "{place}");
            assert!(low < high, "{place}");
        }
    }
}

#[test]
fn every_shipped_fit_finds_the_shipped_profile() {
    let Some(file) = measurements() else {
        println!("no published measurements here: set CROSSINFER_MEASUREMENTS to fit");
        return;
    };
    let stock = Checkout::new(&root());
    let update = std::env::var_os("UPDATE_FITS").is_some();
    let (mut differ, mut fits) = (Vec::new(), Vec::new());
    let specs = specs();
    let find = |spec: &Spec| fit(&stock, spec, &file).unwrap_or_else(|faults| panic!("{faults}"));
    // All at once, but one after the other where a fit is to read what the last one wrote.
    let mut found: Vec<Option<Fit>> = if update {
        specs.iter().map(|_| None).collect()
    } else {
        std::thread::scope(|scope| {
            let runs = specs.iter().map(|spec| scope.spawn(|| find(spec)));
            let runs: Vec<_> = runs.collect();
            let fits = runs.into_iter().map(|run| Some(run.join().unwrap()));
            fits.collect()
        })
    };
    for (spec, found) in specs.iter().zip(&mut found) {
        let fit = found.take().unwrap_or_else(|| find(spec));
        println!("{}", report::document(&fit.title, &report::fit(&fit)));
        assert!(fit.worst() < EXPLAINED, "{}: {} %", spec.name, fit.worst());
        assert!(fit.rows.iter().all(|row| row.row.role == Role::Calibration));
        let written = fit
            .profiles(&stock)
            .unwrap_or_else(|faults| panic!("{faults}"));
        assert!(!written.is_empty(), "{}", spec.name);
        fits.push(fit);
        for profile in written {
            let path = root().join("profiles").join(profile.place());
            let shipped = std::fs::read_to_string(&path).unwrap();
            let name = format!("{}, {}", spec.name, profile.place());
            differ.extend(differences(&name, &shipped, &profile.text));
            if update {
                std::fs::write(&path, &profile.text).unwrap();
            }
        }
    }
    assert!(
        update || differ.is_empty(),
        "the shipped profiles are not what their fits find; `UPDATE_FITS=1 cargo test -p crossinfer-validation \
         --test shipped_fits` writes them:\n{}",
        differ.join("\n")
    );
    // The report says it too, and what a fit leaves open.
    let mut lab = Lab::new(&stock, Draws { count: 0, seed: 0 });
    let comparison = compare(&mut lab, &file).unwrap_or_else(|faults| panic!("{faults}"));
    let section = report::fitted(&fits, &["other.toml".to_owned()], &comparison).body;
    for says in [
        "none of their rows: other.toml.",
        "bounded from above alone",
        "none left: as many numbers as rows",
    ] {
        assert!(section.contains(says), "{section}\nlacks {says}");
    }
    assert!(
        update || !section.contains("HOLDS OTHER VALUES"),
        "{section}"
    );
    assert!(!section.contains("not found anew here"), "{section}");
    let some = report::fitted(&fits[..1], &[], &comparison).body;
    assert!(
        some.contains("not found anew here: m4max/qwen2.5-vl-3b-q4.toml"),
        "{some}"
    );
}

/// A serial period tells the sum of two stages, an overlapped one the larger: which of them it was, it does not.
#[test]
fn two_explanations_are_both_in_the_interval() {
    let stock = Checkout::new(&root());
    let rows = |serial: f64, overlap: f64| {
        let row = |config: &str, value: f64| {
            format!(
                "[[measurement]]\nid = 'table5'\nplatform = 'm4max'\nmodel = 'Qwen3.5-2B'\n\
                 setting = '32-token answers'\nconfig = '{config}'\nmetric = 'throughput'\nunit = 'req/s'\n\
                 value = {value:?}\nrole = 'calibration'\n"
            )
        };
        let text = format!(
            "source = 'made up'\n{}{}",
            row("serial", serial),
            row("overlap", overlap)
        );
        read_measurements("m.toml", &text).unwrap()
    };
    let guess = rows(1.0, 1.0);
    let mut lab = Lab::new(&stock, Draws { count: 0, seed: 0 });
    let values = guess
        .rows
        .iter()
        .map(|row| match lab.predict(&guess, row).unwrap() {
            Predicted::Value(prediction) => prediction.value,
            Predicted::Not(why) => panic!("{why}"),
        });
    let values: Vec<f64> = values.collect();
    let free = |name: &str, low: f64, high: f64, paths: &str| {
        format!(
            "[[parameters]]\nname = '{name}'\nlow = {low:?}\nhigh = {high:?}\nscale = 'log'\n\
             sets = [{{ profile = 'm4max/qwen3.5-2b', paths = [{paths}] }}]\n"
        )
    };
    let text = format!(
        "title = 'Two stages'\nstarts = 6\nrelative_error = 0.005\n[[rows]]\nid = 'table5'\n{}{}",
        free("encode", 0.05, 0.5, "'engines.ane.stages.encode.fixed_s'"),
        free(
            "prefill",
            1e-5,
            1e-2,
            "'engines.gpu.stages.ingest.per_token_s', 'engines.gpu.stages.query_prefill.per_token_s'"
        ),
    );
    let spec = read_spec("two.toml", &text).unwrap_or_else(|faults| panic!("{faults}"));
    let found = fit(&stock, &spec, &rows(values[0], values[1])).unwrap_or_else(|f| panic!("{f}"));
    assert!(found.apart > 0, "{:?}", found.starts);
    let encode = &found.parameters[0];
    let (serial, overlap) = (1.0 / values[0], 1.0 / values[1]);
    for holds in [overlap, serial - overlap] {
        assert!(
            (0.97 * encode.low..1.03 * encode.high).contains(&holds),
            "{encode:?} lacks {holds}"
        );
    }
    let text = report::document("", &report::fit(&found));
    assert!(
        text.contains("to another that explains the rows nearly as well"),
        "{text}"
    );
}

/// Numbers in which two texts of a profile differ by more than a fit resolves.
fn differences(name: &str, shipped: &str, found: &str) -> Vec<String> {
    let (shipped, found) = (numbers(name, shipped), numbers(name, found));
    assert_eq!(
        shipped.keys().collect::<Vec<_>>(),
        found.keys().collect::<Vec<_>>(),
        "{name}"
    );
    let pairs = shipped.values().zip(found.values());
    let differ = pairs.filter(|(shipped, found)| {
        let ends = |number: &Provenance| number.interval.unwrap_or((number.value, number.value));
        let (a, b) = (ends(shipped), ends(found));
        let room = f64::max(NEAR.0 * (b.1 - b.0), NEAR.1 * found.value.abs());
        let numbers = [(shipped.value, found.value), (a.0, b.0), (a.1, b.1)];
        let near = numbers.iter().all(|(a, b)| (a - b).abs() <= room);
        let says =
            |number: &Provenance| (number.origin.clone(), number.kind, number.source.clone());
        !near || says(shipped) != says(found)
    });
    differ
        .map(|(shipped, found)| {
            format!(
                "{name}: {} is {} {:?} ({}), its fit finds {} {:?} ({})",
                found.path,
                shipped.value,
                shipped.interval,
                shipped.origin,
                found.value,
                found.interval,
                found.origin
            )
        })
        .collect()
}
