//! Vision towers: what a frame takes, and whether the whole model fits.

use super::*;

/// Encodes on two made-up chips that follow one law exactly.
#[test]
fn a_frame_is_predicted_from_frames_on_other_chips() {
    let chips = [toy("toy0", 20.0, 2000.0), toy("toy1", 45.0, 8000.0)];
    let rows = |times: f64| -> Vec<Row> {
        let all = chips.iter().zip([1.0, times]);
        let rows = all.flat_map(|(chip, times)| {
            ["Qwen2-VL-2B", "SmolVLM-256M"].map(|model| {
                let vision = shape::tower(model, 392.0, 392.0).expect("it is known");
                let work = stage::encode(chip, &chip.engines["npu"], &vision, None);
                let work = work.expect("it has an FP16 rate");
                let secs = work.compute + work.stream / 0.9 + 40.0 * work.feed;
                let frame = Test::Encode {
                    pixels: Some((392, 392)),
                };
                row_of(&[("soc", &chip.key), ("model", model)], frame, secs * times)
            })
        });
        rows.collect()
    };
    let held = |rows: Vec<Row>| {
        let mut held = Holdout::default();
        holdout::of(&[("rkllm", rows)], &chips, &mut held);
        held
    };
    let fitted = held(rows(1.0)).efficiencies;
    let factors = &fitted.family["rkllm/npu"]["encode"];
    assert!((factors.bounds[2] - 40.0).abs() < 1e-6, "{factors:?}");
    // A chip slower than the law: the interval of the next one knows.
    let apart = held(rows(2.0)).efficiencies;
    let width = |of: &Efficiencies| of.spread["encode"];
    assert!(width(&fitted) < 1e-6 && width(&apart) > 0.5, "{apart:?}");
}

#[test]
fn a_tower_runs_on_one_core_of_an_npu() {
    let vision = shape::tower("Qwen3-VL-2B", 448.0, 448.0).expect("it is known");
    let one = toy("toy", 34.0, 6000.0);
    let mut three = one.clone();
    let engine = three.engines.get_mut("npu").expect("it has one");
    engine.units = Some(3);
    let of = |chip: &Chip| {
        stage::encode(chip, &chip.engines["npu"], &vision, None).expect("it computes in FP16")
    };
    let (one, three) = (of(&one), of(&three));
    assert!((three.compute / one.compute - 3.0).abs() < 1e-9);
    assert!((three.feed / one.feed - 3.0).abs() < 1e-9);
    assert_eq!(three.stream, one.stream);
    // Mergers go over four patches at once.
    assert!(vision.ops() < 2.0 * vision.parameters * vision.patches);
    assert_eq!(vision.tokens, 196.0);
}

#[test]
fn where_no_frame_was_measured_the_interval_is_that_of_a_stand_in() {
    let mut all = made_up();
    let work = super::super::Work {
        compute: 1.0,
        stream: 0.0,
        feed: 0.0,
        host: 0.0,
    };
    let stood_in = all
        .encode("rkllm/npu", work)
        .expect("the prefill's factors");
    assert!((stood_in.high / stood_in.secs - 1.0_f64.exp()).abs() < 1e-9);
    let own = Factors {
        bounds: [2.0, 0.0, 0.0, 0.0],
        ..Factors::default()
    };
    let family = all.family.get_mut("rkllm/npu").expect("it is there");
    family.insert("encode".to_owned(), own);
    all.spread.insert("encode".to_owned(), 0.1);
    let own = all.encode("rkllm/npu", work).expect("its own factors");
    assert!((own.secs - 2.0).abs() < 1e-9 && own.high < 2.3);
    assert!(all.encode("other", work).is_none());
}

/// Of four layers of width 10 one attends to all of 100 patches and three within windows of 25. To see it fail, leave the
/// windows out.
#[test]
fn layers_within_windows_attend_to_their_window() {
    let mut vision = shape::Vision {
        parameters: 0.0,
        patches: 100.0,
        tiles: 2.0,
        merging: 0.0,
        merged: 1.0,
        hidden: 10.0,
        depth: 4.0,
        windowed: 3.0,
        window: 25.0,
        tokens: 100.0,
    };
    // Scores and sums, of two pictures.
    assert_eq!(vision.ops(), 2.0 * 40.0 * 100.0 * (100.0 + 3.0 * 25.0));
    // A picture smaller than a window has no more than itself.
    vision.patches = 16.0;
    assert_eq!(vision.ops(), 2.0 * 40.0 * 16.0 * 4.0 * 16.0);
    // Qwen2.5-VL at 1344 pixels: 96 x 96 patches, four layers of 32 attend to all, the others to 8 x 8.
    let known = shape::tower("Qwen2.5-VL-3B", 1344.0, 1344.0).expect("it is known");
    let all = shape::Vision {
        windowed: 0.0,
        ..known.clone()
    };
    let apart = 4.0 * 1280.0 * 9216.0 * 28.0 * (9216.0 - 64.0);
    assert!((all.ops() - known.ops() - apart).abs() < 1e-6 * apart);
}

/// 16 GB of memory, of which a tenth is reserved, and 4 GiB of addresses. To see it fail, leave the tower or what is
/// reserved out.
#[test]
fn what_fits_is_counted_with_the_tower_and_what_is_reserved() {
    let chip = toy("toy", 34.0, 6000.0);
    let refusal = |engine: &str, language: f64, tower: f64, encodes: bool| {
        let of = &chip.engines[engine];
        let weights = sim::memory::Weights { language, tower };
        let fits = stage::fits(&chip, engine, of, weights, [true, encodes]);
        fits.err().map(|refusal| refusal.to_string())
    };
    assert_eq!(refusal("cpu", 13e9, 1.3e9, true), None);
    let said = refusal("cpu", 13e9, 1.4e9, true).expect("nothing is left");
    assert_eq!(
        said,
        "does not fit memory: 14.40 GB of weights (1.40 GB of them the vision tower's) and 1.60 GB reserved, of 16.00 GB"
    );
    assert_eq!(refusal("npu", 4e9, 0.5e9, false), None);
    let said = refusal("npu", 4e9, 0.5e9, true).expect("too many");
    assert!(
        said.starts_with(
            "does not fit this engine's address space: 4.50 GB of weights (0.50 GB of them"
        ),
        "{said}"
    );
    // And the costs say so, with the tower's own stage where that alone fits.
    let mut shape = shape();
    shape.tower_bytes = 1e9;
    shape.weights_bytes = Some(15e9);
    let of = profile::Asked {
        chip: &chip,
        key: "m",
        shape: &shape,
        datatype: "q8_0",
        runtime: "rkllm",
    };
    let costs = profile::costs(&of, &BTreeMap::new(), &made_up());
    assert_eq!(costs.able, 0);
    let said = &costs
        .remarks
        .iter()
        .find(|(name, _)| name == "cpu")
        .expect("it is there")
        .1;
    assert!(
        said.contains("does not fit memory: 16.00 GB of weights"),
        "{said}"
    );
}
