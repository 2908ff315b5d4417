//! A quantized encoder on Qualcomm's NPU, or on its simulator where there is none, as a QCS6490's: Hexagon v68.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;

use common::{Scratch, image, runtime};
use hw::generate::Preset;
use hw::onnx::{OnnxError, Provider, Tower};

fn tower(path: &Path, provider: &str) -> Result<Tower, OnnxError> {
    let provider = match provider {
        "" => Provider::Cpu,
        name => Provider::named(name).unwrap().unwrap(),
    };
    Tower::load(path, runtime().as_deref(), 1, 64, &provider)
}

const V68: &str = "qnn:soc_model=93,htp_arch=68";

#[test]
fn a_quantized_encoder_runs_on_the_npu_and_an_exact_one_is_refused() {
    let scratch = Scratch::new("qnn");
    let preset = Preset::named("vit-tiny").unwrap();
    let make = |store| {
        let path = scratch.path(store);
        preset
            .write(preset.storage(Some(store)).unwrap(), 1, &path)
            .unwrap();
        path
    };
    let (quantized, exact) = (make("qdq"), make("f32"));

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
    assert!(error.contains("f32"), "v68 has no floating point: {error}");
    let error = tower(&quantized, "qnn:folder=/no/such")
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.to_string().contains("hw/models/fetch --qnn"),
        "{error}"
    );
}
