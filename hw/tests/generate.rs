//! Models of random weights load, compute, and are what their seed says.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Scratch, image, push, runtime};
use hw::generate::{PRESETS, Preset, Storage};
use hw::llama::{Context, ContextOptions, Model, ModelOptions, WeightType, convert};
use hw::onnx::{Provider, Tower};

fn make(scratch: &Scratch, name: &str, store: Option<&str>, seed: u64) -> std::path::PathBuf {
    let preset = Preset::named(name).unwrap();
    let path = scratch.path(&format!("{name}-{}-{seed}", store.unwrap_or("usual")));
    preset
        .write(preset.storage(store).unwrap(), seed, &path)
        .unwrap();
    path
}

fn logits(path: &Path) -> Vec<f32> {
    let model = Arc::new(Model::load(path, &ModelOptions::default()).unwrap());
    let options = ContextOptions {
        tokens: 64,
        chunk: 16,
        threads: 1,
        offload: false,
        flash_attention: false,
    };
    let mut context = Context::new(&model, options).unwrap();
    let text = model.tokenize("a green door", true).unwrap();
    assert_eq!(text.len(), 12, "a token a byte");
    push(&mut context, &text);
    context.logits().unwrap().to_vec()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let square: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    let size: f32 = a.iter().map(|a| a * a).sum();
    (square / size).sqrt()
}

#[test]
fn language_models_of_one_seed_are_one_model_in_every_storage() {
    let scratch = Scratch::new("generate-language");
    let exact = logits(&make(&scratch, "tiny", Some("f32"), 1));
    assert_eq!(exact.len(), 512);
    let spread = exact.iter().map(|x| x * x).sum::<f32>() / 512.0;
    assert!((0.05..5.0).contains(&spread), "{spread}");
    let other = logits(&make(&scratch, "tiny", Some("f32"), 2));
    assert!(distance(&exact, &other) > 0.5, "another seed");
    for (store, far) in [("f16", 0.01), ("q8_0", 0.05), ("q4_1", 0.5), ("q4_0", 0.5)] {
        let distance = distance(&exact, &logits(&make(&scratch, "tiny", Some(store), 1)));
        assert!(distance > 0.0 && distance < far, "{store}: {distance}");
    }
    let [first, second] = [scratch.path("one"), scratch.path("two")];
    let tiny = Preset::named("tiny").unwrap();
    for path in [&first, &second] {
        tiny.write(Storage::Weights(WeightType::Q8_0), 7, path)
            .unwrap();
    }
    assert!(std::fs::read(first).unwrap() == std::fs::read(&second).unwrap());
    // Unpacked, it computes as before but for the rounding of activations.
    let unpacked = scratch.path("unpacked");
    convert(&second, &unpacked, WeightType::F32, 1).unwrap();
    let distance = distance(&logits(&second), &logits(&unpacked));
    assert!(distance > 0.0 && distance < 0.05, "{distance}");
}

#[test]
fn vision_towers_of_one_seed_are_one_tower_in_both_storages() {
    let scratch = Scratch::new("generate-vision");
    let encode = |store, seed| {
        let path = make(&scratch, "vit-tiny", Some(store), seed);
        let library = runtime();
        let mut tower = Tower::load(&path, library.as_deref(), 1, 1, &Provider::Cpu).unwrap();
        assert_eq!(tower.size(), (64, 64));
        tower.encode(&image(64)).unwrap()
    };
    let exact = encode("f32", 1);
    assert_eq!(exact.len(), 17 * 96);
    assert!(distance(&exact, &encode("qdq", 1)) < 0.1);
    assert!(distance(&exact, &encode("f32", 2)) > 0.5, "another seed");
    let mean = exact.iter().sum::<f32>() / exact.len() as f32;
    assert!(mean.abs() < 0.05, "it ends with a norm: {mean}");
}

#[test]
fn shapes_are_those_of_the_published_models() {
    let scratch = Scratch::new("generate-shapes");
    let path = make(&scratch, "mini", None, 1);
    let model = Model::load(&path, &ModelOptions::default()).unwrap();
    assert_eq!((model.vocabulary(), model.embedding()), (4096, 256));
    assert_eq!(model.trained_context(), 4096);
    // 8.5 bits a weight.
    let weights = 4096 * 256 + 4 * (256 * (256 * 2 + 128 * 2) + 3 * 256 * 768);
    let bytes = model.weight_bytes();
    assert!(
        (weights * 17 / 16..weights * 18 / 16).contains(&bytes),
        "{bytes}"
    );
    assert_eq!(PRESETS.len(), 7);
}

#[test]
fn the_shape_of_smollm2_is_as_large_as_the_published_one() {
    let scratch = Scratch::new("generate-smollm2");
    let path = make(&scratch, "smollm2-135m", Some("q4_1"), 1);
    let model = Model::load(&path, &ModelOptions::default()).unwrap();
    assert_eq!((model.vocabulary(), model.embedding()), (49_152, 576));
    // The published one has 134,515,008 weights; 5 bits each here, norms and biases aside.
    let bytes = model.weight_bytes();
    let published = 134_515_008 * 5 / 8;
    assert!(
        (published..published * 101 / 100).contains(&bytes),
        "{bytes}"
    );
}
