//! The pipeline of the live tests, with frames encoded through RKNN on one lane.

use std::path::PathBuf;

use hw::engine::EngineError;
use hw::generate::Preset;
use hw::live::{Live, LiveOptions, Models, SetupError};
use hw::rig::{Options, Rig};
use sim::spec::model::StageKind;
use sim::world::{LaneId, World};

use super::common::{
    STREAMS_FEW, Scratch, generated, in_time_of, run_checked, runtime, started, world_of_threads,
};
use super::{Script, standin};

const NPU: LaneId = LaneId(2);

/// 16 rows and columns; a number for each token and more.
const TOWER: &str = "input 1 2 1 16 16 3\noutput 2 40\n";

fn world() -> World {
    world_of_threads("policy.round_robin = {}", STREAMS_FEW)
}

/// The other lanes' towers are ONNX.
fn live(scratch: &Scratch, world: &World, device: String) -> Result<Live, SetupError> {
    let vit = Preset::named("vit-tiny").unwrap();
    let vision = scratch.path("vit-tiny.onnx");
    vit.write(vit.storage(Some("f32")).unwrap(), 1, &vision)
        .unwrap();
    let models = Models {
        language: generated(scratch, "q8_0", 1),
        vision: Some(vision),
        onnx_runtime: runtime(),
    };
    let options = LiveOptions {
        context_tokens: 256,
        devices: [("npu".to_owned(), device)].into(),
        ..LiveOptions::default()
    };
    Live::new(world, models, options)
}

fn device(model: Option<&PathBuf>) -> String {
    let library = format!("rknn:cores=0,library={}", standin(false).display());
    model.map_or(library.clone(), |file| {
        format!("{library},model={}", file.display())
    })
}

#[test]
fn answers_to_what_the_npu_saw_equal_the_serial_reference() {
    in_time_of(300, || {
        let script = Script::new("rig", TOWER);
        let world = world();
        let live = live(&script.scratch, &world, device(Some(&script.file))).unwrap();
        let (records, outcome) = run_checked(&world, live.engines(), &Options::default());
        assert_eq!(outcome.failures, []);
        assert_eq!(outcome.answers.len(), 7);
        let frames = started(&world, &records, StageKind::Encode);
        let frames = frames.iter().filter(|&&lane| lane == NPU).count();
        assert!(frames > 0);
        let calls = script.calls();
        assert_eq!(
            calls.iter().filter(|call| *call == "run").count(),
            1 + frames,
            "warm-up first"
        );
        assert_eq!(calls[..2], ["init", "mask 1"]);
        assert_eq!(calls.last().unwrap(), "destroy");
        assert_eq!(live.reference().check(&outcome).unwrap(), []);
        assert!(
            script.calls().iter().any(|call| call == "run"),
            "the reference asks it again"
        );
    });
}

#[test]
fn frames_of_an_npu_that_fails_are_encoded_elsewhere() {
    in_time_of(300, || {
        // The first run is the warm-up.
        let script = Script::new("rig-fails", &format!("{TOWER}fail run 2 -2\n"));
        let world = world();
        let live = live(&script.scratch, &world, device(Some(&script.file))).unwrap();
        let (records, outcome) = run_checked(&world, live.engines(), &Options::default());
        let [failure] = &outcome.failures[..] else {
            panic!("{:?}", outcome.failures);
        };
        assert_eq!(failure.lane, NPU);
        let EngineError::Backend(says) = &failure.error else {
            panic!("{failure:?}");
        };
        assert!(
            says.contains("rknn_run returned RKNN_ERR_TIMEOUT (-2)"),
            "{says}"
        );
        let lanes = started(&world, &records, StageKind::Encode);
        assert_eq!(
            lanes.iter().filter(|&&lane| lane == NPU).count(),
            1,
            "it gets no more work"
        );
        assert_eq!(outcome.answers.len(), 7, "all are answered");
        assert_eq!(live.reference().check(&outcome).unwrap(), []);
    });
}

#[test]
fn what_is_wrong_with_the_npu_is_told_before_a_run() {
    let script = Script::new("setup", &format!("{TOWER}init -13\n"));
    let world = world();
    let set = live(&script.scratch, &world, device(Some(&script.file))).unwrap();
    let error = Rig::start(&world, set.engines(), &Options::default()).map(|_| ());
    let error = error.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("RKNN_ERR_TARGET_PLATFORM_UNMATCH"),
        "{error}: {cause}"
    );

    // Without a file of its own it would get the others' ONNX.
    let error = live(&script.scratch, &world, device(None))
        .unwrap_err()
        .to_string();
    for says in [
        "engine `npu`",
        "vit-tiny.onnx",
        "hw/models/to-rknn",
        "rknn:model=FILE",
    ] {
        assert!(error.contains(says), "{error}");
    }
    let error = live(&script.scratch, &world, "rknn:cores=4".into())
        .unwrap_err()
        .to_string();
    assert!(error.contains("0_1_2"), "{error}");
}
