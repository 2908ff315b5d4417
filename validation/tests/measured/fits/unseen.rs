//! Numbers that no row sees or that rows tell only together: they keep their values, and that is said.

use validation::fit::{Identified, fit};
use validation::report;

use super::{four, parameter, spec, stage};
use crate::board::{Board, GUESS, WANTED, measure};

#[test]
fn what_the_rows_do_not_tell_is_said() {
    // The CPU's prompts are all of one length, so its fixed time and its time a token are one number;
    // a lane alone never reaches the GPU's port.
    let mut parameters = four()[..2].to_vec();
    parameters.push(parameter(
        "fixed",
        "board/vlm",
        "engines.cpu.stages.query_prefill.fixed_s",
        (1e-3, 1.0),
    ));
    parameters.push(parameter(
        "port",
        "board/soc",
        "engines.gpu.port_gbps",
        (16.0, 28.0),
    ));
    let board = Board::new(GUESS);
    let spec = spec(&parameters, "config = ['single:cpu']");
    let fit = fit(&board, &spec, &measure(&WANTED, 1.0)).unwrap();
    let of = |name: &str| fit.parameters.iter().find(|p| p.name == name).unwrap();
    assert_eq!(of("decode").identified, Identified::Both);
    assert_eq!(of("port").identified, Identified::No);
    assert_eq!((of("port").low, of("port").high), (16.0, 28.0));
    let fixed = of("fixed");
    assert!(fixed.identified != Identified::Both, "{fixed:?}");
    assert!(fixed.low <= 1.001e-3, "{fixed:?}");
    let directions = &fit.weak;
    let moves = |names: &[&str]| {
        directions.iter().any(|direction| {
            let mut moved = direction.weights.iter().map(|(name, _)| name.as_str());
            names.iter().all(|name| moved.any(|moved| moved == *name))
        })
    };
    // The port is in none: no row sees it.
    assert!(moves(&["fixed"]) && !moves(&["port"]), "{directions:?}");
    assert!(!moves(&["decode"]), "{directions:?}");
    let text = report::document(&fit.title, &report::fit(&fit));
    assert!(text.contains("NO ROW SEES IT"), "{text}");
    // What no row sees keeps its value, and the profile as it was.
    assert!(!of("port").seen);
    assert!((of("port").value - 24.0).abs() < 1e-9, "{:?}", of("port"));
    let written = fit.profiles(&Board::new(GUESS)).unwrap();
    let files: Vec<&str> = written.iter().map(|w| w.file.as_str()).collect();
    assert_eq!(files, ["profiles/board/vlm.toml"]);
}

/// It is no part of the fit: not of its degrees of freedom, its origin's text or the range of its predictions, which say
/// how far it moves them by itself.
#[test]
fn a_number_that_no_row_sees_counts_in_nothing() {
    let measured = measure(&WANTED, 1.0);
    let board = Board::new(GUESS);
    let of = |parameters: &[String]| {
        let spec = spec(parameters, "config = ['single:cpu']");
        fit(&board, &spec, &measured).unwrap()
    };
    let two = four()[..2].to_vec();
    let mut three = two.clone();
    three.push(stage("gpu decode", "gpu", "decode"));
    let (without, with) = (of(&two), of(&three));
    assert_eq!((without.freedom, with.freedom), (2, 2));
    assert!((with.misfit / without.misfit - 1.0).abs() < 1e-6);
    assert_eq!(with.parameters[2].name, "gpu decode");
    assert_eq!((with.seen().count(), with.unseen().count()), (2, 1));
    let text = &with.profiles(&board).unwrap()[0].text;
    assert!(
        text.contains("The desk: 2 numbers fitted to 4 rows"),
        "{text}"
    );
    let report = report::document("", &report::fit(&with));
    assert!(
        report.contains("2 numbers, fitted to 4 calibration rows"),
        "{report}"
    );
    let says =
        "Not fitted, since no row changes with them within their bounds: gpu decode, 0.05000.";
    assert!(report.contains(says), "{report}");
    let mut hidden = 0;
    for held in &with.predicted {
        let Some(found) = &held.hidden else { continue };
        hidden += 1;
        assert_eq!(found.parameters, ["gpu decode"]);
        // From 0.1 ms to half a second a token: far beyond what the fit leaves open.
        let (range, all) = (held.high - held.low, found.high - found.low);
        assert!(found.low <= held.low && held.high <= found.high, "{held:?}");
        assert!(all > 10.0 * range && range < 0.1 * held.value, "{held:?}");
        // The same as without it, but for where walks happened to look.
        let twin = without.predicted.iter().find(|twin| twin.row == held.row);
        if let Some(twin) = twin {
            assert!(
                (held.low / twin.low - 1.0).abs() < 1e-3,
                "{held:?} {twin:?}"
            );
            assert!(
                (held.high / twin.high - 1.0).abs() < 1e-3,
                "{held:?} {twin:?}"
            );
        }
    }
    assert!(hidden > 0, "{:?}", with.predicted);
    let says = "with gpu decode (0.05000 in the profile, 0.0001000 … 0.5000 by its bounds)";
    assert!(report.contains(says), "{report}");
    assert!(with.json()["predicted"][0]["with_unseen"]["parameters"][0] == "gpu decode");
}

/// It would keep the profile's value, which the bounds do not allow.
#[test]
fn a_number_that_no_row_sees_and_the_bounds_leave_out_is_a_fault() {
    let mut parameters = four()[..2].to_vec();
    let port = ("engines.gpu.port_gbps", (26.0, 28.0));
    parameters.push(parameter("port", "board/soc", port.0, port.1));
    let board = Board::new(GUESS);
    let spec = spec(&parameters, "config = ['single:cpu']");
    let faults = fit(&board, &spec, &measure(&WANTED, 1.0)).unwrap_err();
    let text = faults.to_string();
    assert!(text.contains("no row sees `port`"), "{text}");
    assert!(text.contains("24"), "{text}");
}

/// One that no row sees, beside another that ends at a bound: each by itself.
#[test]
fn each_number_that_no_row_sees_keeps_its_value() {
    let mut parameters = four()[..2].to_vec();
    parameters.push(stage("gpu decode", "gpu", "decode"));
    parameters.push(stage("gpu prefill", "gpu", "query_prefill"));
    // With its time a token this is one number: a direction along which nothing changes.
    parameters.push(parameter(
        "fixed",
        "board/vlm",
        "engines.cpu.stages.query_prefill.fixed_s",
        (0.049, 0.051),
    ));
    let board = Board::new(GUESS);
    let fit = fit(
        &board,
        &spec(&parameters, "config = ['single:cpu']"),
        &measure(&WANTED, 1.0),
    )
    .unwrap();
    for parameter in &fit.parameters {
        let own = match parameter.name.as_str() {
            "gpu decode" => GUESS.decode[1],
            "gpu prefill" => GUESS.prefill[1],
            // Not identified within bounds so near to each other: the profile's, while the others make up for it.
            "fixed" => 0.05,
            _ => {
                assert_eq!(parameter.identified, Identified::Both, "{parameter:?}");
                continue;
            }
        };
        assert_eq!(parameter.identified, Identified::No, "{parameter:?}");
        assert!((parameter.value / own - 1.0).abs() < 1e-9, "{parameter:?}");
        assert_eq!(parameter.seen, parameter.name == "fixed");
    }
    let text = &fit.profiles(&Board::new(GUESS)).unwrap()[0].text;
    let gpu = text.split("[engines.gpu]").nth(1).unwrap();
    assert!(
        gpu.contains("per_token_s = 0.05\n") && text.contains("not identified by the rows"),
        "{text}"
    );
}
