//! A quantized encoder on Qualcomm's NPU, or on its simulator where there is none, as a QCS6490's: Hexagon v68.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};

use common::{
    STREAMS_FEW, Scratch, generated, image, in_time_of, run_checked, runtime, started,
    world_of_threads,
};
use hw::generate::Preset;
use hw::live::{Live, LiveOptions, Models};
use hw::onnx::{OnnxError, Provider, Tower};
use hw::rig::Options;
use sim::spec::model::StageKind;
use sim::world::LaneId;

fn tower(path: &Path, provider: &str) -> Result<Tower, OnnxError> {
    let provider = match provider {
        "" => Provider::Cpu,
        name => Provider::named(name).unwrap().unwrap(),
    };
    Tower::load(path, runtime().as_deref(), 1, 64, &provider)
}

const V68: &str = "qnn:soc_model=93,htp_arch=68";

/// A vision tower of random weights.
fn encoder(scratch: &Scratch, store: &str) -> PathBuf {
    let preset = Preset::named("vit-tiny").unwrap();
    let path = scratch.path(&format!("vit-tiny-{store}.onnx"));
    preset
        .write(preset.storage(Some(store)).unwrap(), 1, &path)
        .unwrap();
    path
}

#[test]
fn a_quantized_encoder_runs_on_the_npu_and_an_exact_one_is_refused() {
    let scratch = Scratch::new("qnn");
    let (quantized, exact) = (encoder(&scratch, "qdq"), encoder(&scratch, "f32"));

    // Nothing falls back to the CPU: where it loads, all of it runs there.
    let mut npu = tower(&quantized, V68).unwrap();
    let first = npu.encode(&image(64)).unwrap();
    let second = npu.encode(&image(64)).unwrap();
    assert!(first == second, "it is deterministic");
    let cpu = tower(&quantized, "").unwrap().encode(&image(64)).unwrap();
    assert_eq!(first.len(), cpu.len());
    let apart = first.iter().zip(&cpu).map(|(a, b)| (a - b).abs());
    let apart = apart.fold(0.0, f32::max);
    assert!(apart > 0.0, "another arithmetic");
    assert!(apart < 0.3, "{apart} of numbers with deviation 1");

    let error = tower(&exact, V68).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("QNN"), "v68 has no floating point: {error}");
    // Whose refusal it is: the CPU computes it.
    tower(&exact, "").unwrap().encode(&image(64)).unwrap();
    let error = tower(&quantized, "qnn:folder=/no/such")
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.to_string().contains("hw/models/fetch --qnn"),
        "{error}"
    );
}

/// The pipeline of the live tests, whose frames are encoded there.
#[test]
fn answers_to_what_the_npu_saw_equal_the_serial_reference() {
    in_time_of(300, || {
        let scratch = Scratch::new("qnn-rig");
        let world = world_of_threads("policy.round_robin = {}", STREAMS_FEW);
        let models = Models {
            language: generated(&scratch, "q8_0", 1),
            vision: Some(encoder(&scratch, "qdq")),
            onnx_runtime: runtime(),
        };
        let options = LiveOptions {
            context_tokens: 256,
            devices: [("npu".to_owned(), V68.to_owned())].into(),
            ..LiveOptions::default()
        };
        let live = Live::new(&world, models, options).unwrap();
        let (records, outcome) = run_checked(&world, live.engines(), &Options::default());
        assert_eq!(outcome.failures, []);
        assert_eq!(outcome.answers.len(), 7);
        let npu = LaneId(2);
        assert!(started(&world, &records, StageKind::Encode).contains(&npu));
        assert_eq!(live.reference().check(&outcome).unwrap(), []);
    });
}
