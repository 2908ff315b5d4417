//! Two truly different backends: llama.cpp on the CPU and through Vulkan, on a GPU or a driver in software.
//!
//! State moves between them exactly, arithmetic does not agree exactly. So with weights of 32 bits tokens
//! must be equal; with quantized ones, where the CPU rounds activations and Vulkan does not, what must hold is
//! that the same placement gives the same tokens, and how far the two are apart is printed.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stderr, reason = "what differs is reported")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use common::{
    STREAMS_FEW, Scratch, generated, in_time_of, push, run_checked, runtime, started,
    world_of_threads,
};
use hw::generate::Preset;
use hw::live::{Live, LiveOptions, Mismatch, Models};
use hw::llama::{
    Context, ContextOptions, DeviceKind, Model, ModelOptions, Token, WeightType, convert, devices,
};
use hw::rig::{Options, Outcome};
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

/// One test after another: each has the driver in software compute on all cores.
fn in_turn(seconds: u64, test: impl FnOnce() + Send + 'static) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    in_time_of(seconds, test);
    #[cfg(target_os = "linux")]
    assert!(buffers::kept() > 0, "llama.cpp destroys buffers elsewhere");
}

/// Buffers outlive their destruction here, since Mesa's driver in software would else use them after it.
///
/// llama.cpp's descriptor sets have room for 12 buffers, and a set keeps naming those that its last shader did
/// not replace, also when they are gone: Vulkan allows that for what a shader does not use. Mesa 22.3 (Debian 12)
/// counts references to all that a set names with each dispatch, in memory that was freed: a run in two ended in
/// "corrupted double-linked list" or a segmentation fault. Memory is freed as it is without this; what stays is
/// the driver's description of a buffer, half a kilobyte.
#[cfg(target_os = "linux")]
mod buffers {
    #![expect(unsafe_code, reason = "stands between llama.cpp and Vulkan's loader")]

    use std::ffi::{CStr, c_char, c_void};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    type GetProcAddr = unsafe extern "C" fn(*mut c_void, *const c_char) -> *const c_void;

    static LOADER: LazyLock<libloading::Library> = LazyLock::new(|| {
        // SAFETY: the system's loader, which llama.cpp is linked to: nothing runs that would not anyway.
        unsafe { libloading::Library::new("libvulkan.so.1") }.unwrap()
    });
    static KEPT: AtomicUsize = AtomicUsize::new(0);

    /// How many there are.
    pub(crate) fn kept() -> usize {
        KEPT.load(Ordering::Relaxed)
    }

    /// In place of the loader's function of this name, by which llama.cpp gets at all others.
    ///
    /// # Safety
    ///
    /// As Vulkan says: a valid instance or null, and a terminated string.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn vkGetInstanceProcAddr(
        instance: *mut c_void,
        name: *const c_char,
    ) -> *const c_void {
        // SAFETY: as the caller promises.
        if unsafe { CStr::from_ptr(name) } == c"vkDestroyBuffer" {
            return destroy_buffer as *const c_void;
        }
        // SAFETY: Vulkan's declaration of it; the arguments are the caller's.
        unsafe {
            let real = LOADER.get::<GetProcAddr>(b"vkGetInstanceProcAddr\0");
            real.unwrap()(instance, name)
        }
    }

    /// Vulkan's `vkDestroyBuffer`, which does not.
    extern "C" fn destroy_buffer(_: *mut c_void, _: u64, _: *const c_void) {
        KEPT.fetch_add(1, Ordering::Relaxed);
    }
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
            tokens: 64,
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

/// By how much the likeliest token is ahead of the second.
fn lead(row: &[f32]) -> f32 {
    let (first, second) = row.iter().fold((f32::MIN, f32::MIN), |(a, b), &x| {
        (a.max(x), b.max(x.min(a)))
    });
    first - second
}

/// The closest choice of an answer.
fn closest(answer: &(Vec<Token>, Vec<Vec<f32>>)) -> f32 {
    answer
        .1
        .iter()
        .map(|row| lead(row))
        .fold(f32::MAX, f32::min)
}

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
        "{name}: {same} of {} tokens equal, the closest choice by {:.4}, logits within {apart:.4}{}",
        a.0.len(),
        closest(a),
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
        if equal {
            assert!(2.0 * apart < closest(&serial), "{placed:?}: a near tie");
            assert_eq!(answer.0, serial.0, "{placed:?}");
        }
        if placed == (true, true) {
            assert!(apart > 0.0, "the backend is another");
        }
    }
}

#[test]
fn exact_weights_give_equal_tokens_wherever_they_are_computed() {
    in_turn(600, || {
        let scratch = Scratch::new("vulkan-exact");
        // Of random weights these have no near tie here: among 39 seeds the closest choices were the clearest.
        let model = generated(&scratch, "f32", 31);
        for fused in [false, true] {
            check(&model, fused, 6, true, 0.05);
        }
    });
}

#[test]
fn quantized_weights_are_deterministic_and_their_difference_is_known() {
    in_turn(600, || {
        let scratch = Scratch::new("vulkan-quantized");
        check(&generated(&scratch, "q8_0", 1), false, 6, false, 0.5);
        check(&generated(&scratch, "q4_0", 1), true, 4, false, 0.5);
    });
}

/// A trained model with weights of 32 bits: what the published file of 4 bits says, to the bit.
fn trained(scratch: &Scratch) -> PathBuf {
    let published = Models::cached().unwrap().language;
    let path = scratch.path("smollm2-f32.gguf");
    convert(&published, &path, WeightType::F32, 2).unwrap();
    path
}

#[test]
fn a_trained_model_says_the_same_on_both() {
    in_turn(900, || {
        let scratch = Scratch::new("vulkan-trained");
        let both = Both::load(&trained(&scratch), true);
        let serial = both.answer(PLACED[0], 2);
        for placed in &PLACED[2..] {
            let answer = both.answer(*placed, 2);
            assert!(apart(&format!("trained, {placed:?}"), &serial, &answer) < 0.1);
            assert_eq!(answer.0, serial.0, "{placed:?}");
        }
    });
}

/// Fewer still, for a model that takes a second for a token: 2 queries about a frame.
const FEWEST: (&str, usize) = (
    r#"
[[streams]]
name = "door"
frames = { clock = { periodic = { rate_hz = 2 } }, count = 1 }
[streams.queries]
arrivals = { poisson = { rate_hz = 3 } }
start_s = 2
count = 2
prompt_tokens = 3
output_tokens = 2
"#,
    2,
);

/// Those with a language model: the CPU's and the GPU's.
const LANES: [LaneId; 2] = [LaneId(0), LaneId(1)];

/// The pipeline of the live tests, with one of its processors on Vulkan. `fused`: attention; `None`: as it is where
/// a processor is a device.
fn rig_of_both(
    scratch: &Scratch,
    language: PathBuf,
    (streams, queries): (&str, usize),
    transfer: &str,
    fused: Option<bool>,
) -> (Live, Outcome) {
    let tower = Preset::named("vit-tiny").unwrap();
    let vision = scratch.path("vit-tiny.onnx");
    tower
        .write(tower.storage(None).unwrap(), 1, &vision)
        .unwrap();
    let settings = format!("policy.round_robin = {{}}\nmodes.state_transfer = \"{transfer}\"");
    let world = world_of_threads(&settings, streams);
    let models = Models {
        language,
        vision: Some(vision),
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
    let (records, outcome) = run_checked(&world, live.engines(), &rig);
    assert_eq!(outcome.failures, []);
    assert_eq!(outcome.answers.len(), queries);
    let mut stages = world.stages.iter();
    let kind = stages.find(|stage| stage.name == transfer).unwrap().kind;
    let to = started(&world, &records, kind);
    let answers = outcome.answers.iter().map(|answer| answer.completion);
    let by: Vec<_> = answers.map(|done| (done.lane, done.version)).collect();
    eprintln!("{transfer}, fused {fused:?}: to {to:?}; lanes and versions of answers {by:?}");
    assert!(!to.is_empty(), "state goes from one to the other");
    for lane in LANES {
        assert!(by.iter().any(|(other, _)| *other == lane), "both answer");
    }
    (live, outcome)
}

/// Answers that are others where all is computed on one lane, and a line about them.
fn differ_from_alone(live: &Live, outcome: &Outcome) -> Vec<Mismatch> {
    let alone = LANES.into_iter().flat_map(|lane| {
        let differ = live.reference_on(lane).check(outcome).unwrap();
        let told = Mismatch::tell(&differ, outcome.answers.len());
        let told = told.as_deref().unwrap_or("equal");
        eprintln!("all on lane {}: {told}", lane.0);
        differ
    });
    alone.collect()
}

#[test]
fn a_rig_of_both_answers_as_either_alone_with_exact_weights() {
    in_turn(900, || {
        let scratch = Scratch::new("vulkan-rig-exact");
        let model = trained(&scratch);
        let (live, outcome) = rig_of_both(&scratch, model, FEWEST, "import", None);
        assert_eq!(differ_from_alone(&live, &outcome), []);
    });
}

#[test]
fn a_rig_of_both_answers_as_the_serial_reference_of_the_same_placement() {
    in_turn(900, || {
        let scratch = Scratch::new("vulkan-rig");
        let model = generated(&scratch, "q8_0", 1);
        for (transfer, fused) in [
            ("import", None),
            ("import", Some(false)),
            ("reconstruct", None),
        ] {
            let streams = (STREAMS_FEW, 7);
            let (live, outcome) = rig_of_both(&scratch, model.clone(), streams, transfer, fused);
            let differ = live.reference().check(&outcome).unwrap();
            assert_eq!(differ, [], "{transfer}, fused {fused:?}");
            // What either alone says may differ: weights are quantized, and being random have near ties.
            _ = differ_from_alone(&live, &outcome);
        }
    });
}
