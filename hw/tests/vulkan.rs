//! Two truly different backends: llama.cpp on the CPU and through Vulkan, on a GPU or a driver in software.
//!
//! State moves between them exactly, arithmetic does not agree exactly. So with weights of 32 bits tokens
//! must be equal; with quantized ones, where the CPU rounds activations and Vulkan does not, what must hold is
//! that the same placement gives the same tokens, and how far the two are apart is printed.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stderr, reason = "what differs is reported")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{STREAMS_FEW, Scratch, in_time_of, push, run_checked, runtime, world_of_threads};
use hw::generate::Preset;
use hw::live::{Live, LiveOptions, Mismatch, Models};
use hw::llama::{
    Context, ContextOptions, DeviceKind, Model, ModelOptions, Token, WeightType, convert, devices,
};
use hw::rig::Options;
use sim::time::Duration;
use sim::world::LaneId;

/// The Vulkan device, in llama.cpp's words.
fn device() -> String {
    let found = devices();
    let gpu = found.iter().find(|device| device.kind == DeviceKind::Gpu);
    let gpu = gpu.unwrap_or_else(|| {
        panic!("no Vulkan device in {found:?}: install mesa-vulkan-drivers and set GGML_VK_VISIBLE_DEVICES=0")
    });
    gpu.name.clone()
}

/// A model's copies on both.
struct Both {
    cpu: Arc<Model>,
    gpu: Arc<Model>,
    flash_attention: bool,
}

impl Both {
    fn load(path: &Path, flash_attention: bool) -> Self {
        let load = |device| Arc::new(Model::load(path, &ModelOptions { device }).unwrap());
        Self {
            cpu: load(None),
            gpu: load(Some(device())),
            flash_attention,
        }
    }

    fn context(&self, on_gpu: bool) -> Context {
        let model = if on_gpu { &self.gpu } else { &self.cpu };
        let options = ContextOptions {
            tokens: 128,
            chunk: 16,
            threads: 1,
            offload: on_gpu,
            flash_attention: self.flash_attention,
        };
        Context::new(model, options).unwrap()
    }

    /// Prefix on one, the rest on another: the greedy tokens and their logits.
    fn answer(&self, placed: (bool, bool), length: usize) -> (Vec<Token>, Vec<Vec<f32>>) {
        let text = "A camera looks at a door.";
        let mut first = self.context(placed.0);
        push(&mut first, &self.cpu.tokenize(text, true).unwrap());
        let mut context = if placed.0 == placed.1 {
            first
        } else {
            let mut second = self.context(placed.1);
            let end = first.len();
            // In two pieces: a delta is as good as the whole.
            for range in [0..end / 2, end / 2..end] {
                let state = first.export(range.clone()).unwrap();
                second.import(range, &state).unwrap();
            }
            let back = second.export(0..end).unwrap();
            assert!(back == first.export(0..end).unwrap(), "a copy is exact");
            second
        };
        let mut next = self.cpu.tokenize("Who?", false).unwrap();
        let (mut tokens, mut logits) = (Vec::new(), Vec::new());
        for _ in 0..length {
            push(&mut context, &next);
            let row = context.logits().unwrap().to_vec();
            let best = (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
            next = vec![Token::try_from(best).unwrap()];
            tokens.push(next[0]);
            logits.push(row);
        }
        (tokens, logits)
    }
}

/// Placements of prefix and answer: true is the GPU.
const PLACED: [(bool, bool); 4] = [(false, false), (true, true), (false, true), (true, false)];

/// Until the first token that differs, inputs are the same: there logits can be compared.
fn apart(name: &str, a: &(Vec<Token>, Vec<Vec<f32>>), b: &(Vec<Token>, Vec<Vec<f32>>)) -> f32 {
    let same = a.0.iter().zip(&b.0).take_while(|(a, b)| a == b).count();
    let rows = (same + 1).min(a.1.len());
    let numbers = a.1[..rows]
        .iter()
        .flatten()
        .zip(b.1[..rows].iter().flatten());
    let apart = numbers.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let tie =
        a.1.get(same)
            .map(|row| row[a.0[same] as usize] - row[b.0[same] as usize]);
    eprintln!(
        "{name}: {same} of {} tokens equal, logits within {apart:.4}{}",
        a.0.len(),
        tie.map_or(String::new(), |tie| format!(
            ", the first that differs by {tie:.4}"
        ))
    );
    apart
}

fn check(path: &Path, fused: bool, length: usize, equal: bool, within: f32) {
    let both = Both::load(path, fused);
    let serial = both.answer(PLACED[0], length);
    for placed in PLACED {
        let answer = both.answer(placed, length);
        let again = both.answer(placed, length);
        assert!(
            answer == again,
            "{placed:?}: the same placement, the same bits"
        );
        let apart = apart(&format!("{placed:?}"), &serial, &answer);
        assert!(apart <= within, "{placed:?}: logits {apart} apart");
        assert!(!equal || answer.0 == serial.0, "{placed:?}");
        if placed == (true, true) {
            assert!(apart > 0.0, "the backend is another");
        }
    }
}

fn generated(scratch: &Scratch, store: &str) -> std::path::PathBuf {
    let mini = Preset::named("mini").unwrap();
    let path = scratch.path(&format!("mini-{store}.gguf"));
    mini.write(mini.storage(Some(store)).unwrap(), 1, &path)
        .unwrap();
    path
}

#[test]
fn exact_weights_give_equal_tokens_wherever_they_are_computed() {
    in_time_of(600, || {
        let scratch = Scratch::new("vulkan-exact");
        let model = generated(&scratch, "f32");
        for fused in [false, true] {
            check(&model, fused, 12, true, 0.05);
        }
    });
}

#[test]
fn quantized_weights_are_deterministic_and_their_difference_is_known() {
    in_time_of(600, || {
        let scratch = Scratch::new("vulkan-quantized");
        check(&generated(&scratch, "q8_0"), false, 12, false, 0.5);
        check(&generated(&scratch, "q4_0"), true, 6, false, 0.5);
    });
}

#[test]
fn a_trained_model_says_the_same_on_both() {
    in_time_of(900, || {
        let scratch = Scratch::new("vulkan-trained");
        let quantized = hw::devices::cache_folder().unwrap();
        let quantized = quantized.join("SmolLM2-135M-Instruct.Q4_1.gguf");
        let exact = scratch.path("smollm2-f32.gguf");
        convert(&quantized, &exact, WeightType::F32, 2).unwrap();
        let both = Both::load(&exact, true);
        let serial = both.answer(PLACED[0], 4);
        for placed in &PLACED[2..] {
            let answer = both.answer(*placed, 4);
            assert!(apart(&format!("trained, {placed:?}"), &serial, &answer) < 0.1);
            assert_eq!(answer.0, serial.0, "{placed:?}");
        }
    });
}

/// The pipeline of the live tests, with one of its processors on Vulkan.
#[test]
fn a_rig_of_both_answers_as_the_serial_reference_of_the_same_placement() {
    in_time_of(900, || {
        let scratch = Scratch::new("vulkan-rig");
        let tower = Preset::named("vit-tiny").unwrap();
        let vision = scratch.path("vit-tiny.onnx");
        tower
            .write(tower.storage(None).unwrap(), 1, &vision)
            .unwrap();
        // Fused attention is what there is unless told otherwise, since one of them is a device.
        // How many answers differ from one backend's alone is told, not asserted: random weights have near ties.
        for (transfer, store, fused) in [
            ("import", "f32", None),
            ("import", "f32", Some(false)),
            ("reconstruct", "q8_0", None),
            ("import", "q8_0", None),
        ] {
            let settings =
                format!("policy.round_robin = {{}}\nmodes.state_transfer = \"{transfer}\"");
            let settings = settings.as_str();
            let world = world_of_threads(settings, STREAMS_FEW);
            let models = Models {
                language: generated(&scratch, store),
                vision: Some(vision.clone()),
                onnx_runtime: runtime(),
            };
            let options = LiveOptions {
                context_tokens: 256,
                chunk: 8,
                flash_attention: fused,
                devices: [("gpu".to_owned(), device())].into(),
                ..LiveOptions::default()
            };
            let rig = Options {
                task_deadline: Duration::from_secs_f64(300.0),
                ..Options::default()
            };
            let live = Live::new(&world, models, options).unwrap();
            let (_, outcome) = run_checked(&world, live.engines(), &rig);
            assert_eq!(outcome.failures, [], "{settings}");
            assert_eq!(outcome.answers.len(), 7, "{settings}");
            let lanes = outcome.answers.iter().map(|answer| answer.completion.lane);
            let lanes: std::collections::BTreeSet<_> = lanes.collect();
            assert!(lanes.len() > 1, "both answer");
            assert_eq!(
                live.reference().check(&outcome).unwrap(),
                [],
                "{settings}, {store}"
            );
            for lane in [LaneId(0), LaneId(1)] {
                let differ = live.reference_on(lane).check(&outcome).unwrap();
                let told = Mismatch::tell(&differ, outcome.answers.len());
                eprintln!(
                    "{store}, all on lane {}: {}",
                    lane.0,
                    told.as_deref().unwrap_or("equal")
                );
            }
        }
    });
}
