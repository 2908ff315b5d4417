//! A real model's state: what is copied out and in again gives the same bits as what was never copied.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use hw::engine::CancelToken;
use hw::llama::{Context, ContextOptions, LlamaError, Model, ModelOptions, Token, devices};

const CHUNK: u32 = 16;

fn model() -> Arc<Model> {
    let folder = hw::devices::cache_folder().unwrap();
    let path = folder.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(
        path.exists(),
        "{} is not there: run hw/models/fetch",
        path.display()
    );
    Arc::new(Model::load(&path, &ModelOptions::default()).unwrap())
}

fn context(model: &Arc<Model>) -> Context {
    context_with(model, false)
}

fn context_with(model: &Arc<Model>, flash_attention: bool) -> Context {
    let options = ContextOptions {
        tokens: 256,
        chunk: CHUNK,
        threads: 1,
        offload: false,
        flash_attention,
    };
    Context::new(model, options).unwrap()
}

fn push(context: &mut Context, tokens: &[Token]) {
    let token = CancelToken::standalone();
    for chunk in tokens.chunks(CHUNK as usize) {
        context.push_tokens(chunk, true, &token).unwrap();
    }
}

/// Visual tokens that mean nothing, and are not all alike.
fn picture(model: &Model, tokens: usize) -> Vec<f32> {
    let width = model.embedding();
    (0..tokens * width)
        .map(|i| 0.1 * ((i * 7919 % 1000) as f32 / 500.0 - 1.0))
        .collect()
}

fn look(context: &mut Context, numbers: &[f32], model: &Model) {
    let token = CancelToken::standalone();
    for chunk in numbers.chunks(CHUNK as usize * model.embedding()) {
        context.push_embeddings(chunk, &token).unwrap();
    }
}

/// All logits of a few greedy steps after a prompt.
fn steps(context: &mut Context, prompt: &[Token]) -> Vec<Vec<u32>> {
    push(context, prompt);
    let mut all = Vec::new();
    for _ in 0..6 {
        let logits = context.logits().unwrap().to_vec();
        let best =
            (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
        all.push(logits.iter().map(|logit| logit.to_bits()).collect());
        push(context, &[Token::try_from(best).unwrap()]);
    }
    all
}

const TEXT: &str = "You are a helpful assistant. A camera looks at a door, day and night, and you are \
    told what it sees. Answer briefly. The door is green, and a dog sleeps in front of it.";

#[test]
fn state_that_was_copied_gives_the_same_bits() {
    let model = model();
    let unfused = copies_are_exact(&model, false);
    let fused = copies_are_exact(&model, true);
    assert!(unfused != fused, "attention is computed in another way");
    // Values lie transposed in one of them.
    let mut from = context_with(&model, false);
    push(&mut from, &[1, 2, 3]);
    let state = from.export(0..3).unwrap();
    let error = context_with(&model, true).import(0..3, &state).unwrap_err();
    assert!(matches!(error, LlamaError::State { .. }), "{error}");
}

/// Copies state every way, and gives the logits, which must not depend on it.
fn copies_are_exact(model: &Arc<Model>, fused: bool) -> Vec<Vec<u32>> {
    let context = |model: &Arc<Model>| context_with(model, fused);
    let text = model.tokenize(TEXT, true).unwrap();
    let image = picture(model, 20);
    let prompt = model.tokenize("What colour is the door?", false).unwrap();
    let before = text.len() as u32;

    let mut serial = context(model);
    push(&mut serial, &text);
    look(&mut serial, &image, model);
    let end = serial.len();
    assert_eq!(end, before + 20);
    let whole = serial.export(0..end).unwrap();
    let delta = serial.export(before..end).unwrap();
    // The KV formula: 30 layers, key and value of 3 heads of 64 numbers of 2 bytes, and a header.
    let expected = 23_040 * end as usize;
    assert!((expected..expected + 40 * end as usize + 4096).contains(&whole.len()));
    assert!(delta.len() < whole.len() / 2);

    // The writer goes on before its older version is copied out, and other sequences come and go.
    let mut ahead = context(model);
    push(&mut ahead, &text);
    look(&mut ahead, &image, model);
    look(&mut ahead, &picture(model, 33), model);
    let older = ahead.export(0..end).unwrap();
    assert_eq!(older, whole, "versions are immutable");

    let mut copied = context(model);
    copied.import(0..end, &whole).unwrap();
    let mut appended = context(model);
    push(&mut appended, &text);
    appended.import(before..end, &delta).unwrap();
    let mut used = context(model);
    push(&mut used, &prompt);
    used.truncate(0).unwrap();
    used.import(0..end, &older).unwrap();

    let expected = steps(&mut serial, &prompt);
    assert_eq!(expected.len(), 6);
    for (name, context) in [
        ("whole", &mut copied),
        ("delta", &mut appended),
        ("into a used context", &mut used),
    ] {
        assert!(steps(context, &prompt) == expected, "{name}");
    }
    // Cut back, and asked again.
    ahead.truncate(end).unwrap();
    assert!(steps(&mut ahead, &prompt) == expected);
    // The picture is not ignored.
    let mut blind = context(model);
    push(&mut blind, &text);
    assert!(steps(&mut blind, &prompt) != expected);
    expected
}

#[test]
fn what_cannot_be_right_is_refused() {
    let model = model();
    let text = model.tokenize(TEXT, true).unwrap();
    let mut context = context(&model);
    let token = CancelToken::standalone();
    let error = context.push_tokens(&text, false, &token).unwrap_err();
    assert!(matches!(error, LlamaError::Invalid(_)), "{error}");
    push(&mut context, &text);
    let length = context.len();
    let state = context.export(0..length).unwrap();
    assert!(context.export(0..length + 1).is_err());
    assert!(context.import(0..length, &state).is_err(), "not at its end");
    context.truncate(0).unwrap();
    let error = context.import(0..length, &state[..100]).unwrap_err();
    assert!(matches!(error, LlamaError::State { .. }), "{error}");
    let error = context.import(0..length - 1, &state).unwrap_err();
    assert!(matches!(error, LlamaError::State { .. }), "{error}");
    assert!(context.is_empty());
    context.import(0..length, &state).unwrap();
    let room = 256 - length;
    for _ in 0..room {
        push(&mut context, &text[..1]);
    }
    let error = context.push_tokens(&text[..1], false, &token).unwrap_err();
    assert_eq!(error, LlamaError::Full { tokens: 1 });
    let error = context.push_embeddings(&[0.0; 7], &token).unwrap_err();
    assert!(matches!(error, LlamaError::Invalid(_)), "{error}");

    let missing = Model::load("/no/such.gguf".as_ref(), &ModelOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("/no/such.gguf"), "{missing}");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let wrong = Model::load(manifest.as_ref(), &ModelOptions::default()).unwrap_err();
    assert!(matches!(wrong, LlamaError::Load { .. }), "{wrong}");
    let device = Some("Abacus0".into());
    let path = manifest.as_ref();
    let wrong = Model::load(path, &ModelOptions { device }).unwrap_err();
    assert!(wrong.to_string().contains("CPU"), "{wrong}");
}

#[test]
fn a_computation_that_is_cancelled_stops_and_leaves_the_context_as_it_was() {
    let model = model();
    let text = model.tokenize(TEXT, true).unwrap();
    let chunk: Vec<_> = text.iter().cycle().take(200).copied().collect();
    let options = ContextOptions {
        tokens: 256,
        chunk: 200,
        threads: 1,
        offload: false,
        flash_attention: false,
    };
    let mut context = Context::new(&model, options).unwrap();
    let token = CancelToken::standalone();
    context.push_tokens(&text, false, &token).unwrap();
    let length = context.len();

    let begin = Instant::now();
    context.push_tokens(&chunk, false, &token).unwrap();
    let whole = begin.elapsed();
    context.truncate(length).unwrap();

    let other = token.clone();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        other.cancel();
    });
    let begin = Instant::now();
    let error = context.push_tokens(&chunk, false, &token).unwrap_err();
    let stopped = begin.elapsed();
    canceller.join().unwrap();
    assert_eq!(error, LlamaError::Aborted);
    assert!(stopped < whole, "{stopped:?} of {whole:?}");
    assert_eq!(context.len(), length);

    let prompt = &text[3..9];
    let fresh = CancelToken::standalone();
    context.push_tokens(prompt, true, &fresh).unwrap();
    let after: Vec<u32> = context
        .logits()
        .unwrap()
        .iter()
        .map(|x| x.to_bits())
        .collect();
    let mut other = Context::new(&model, options).unwrap();
    other.push_tokens(&text, false, &fresh).unwrap();
    other.push_tokens(prompt, true, &fresh).unwrap();
    let expected: Vec<u32> = other
        .logits()
        .unwrap()
        .iter()
        .map(|x| x.to_bits())
        .collect();
    assert!(after == expected);
}

#[test]
fn the_cpu_is_a_device() {
    let found = devices();
    assert!(found.iter().any(|device| device.name == "CPU"), "{found:?}");
}
