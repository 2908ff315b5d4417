//! What tests of real engines share.

use std::path::PathBuf;

use hw::engine::CancelToken;
use hw::generate::Preset;
use hw::llama::{Context, Token};
use sim::dispatch::Effect;
use sim::spec::model::StageKind;
use sim::trace::Record;
use sim::world::{LaneId, World};

use super::{Records, Scratch};

/// Few and short, since a real engine takes as long as it takes: 7 queries.
pub(crate) const STREAMS_FEW: &str = r#"
[[streams]]
name = "door"
frames = { clock = { periodic = { rate_hz = 2 } }, count = 3 }
[streams.queries]
arrivals = { poisson = { rate_hz = 3 } }
start_s = 0.3
count = 4
prompt_tokens = 6
output_tokens = { uniform = { low = 1, high = 5 } }

[[streams]]
name = "yard"
frames = { clock = { periodic = { rate_hz = 1 } }, start_s = 0.2, count = 2 }
[streams.queries]
arrivals = { closed_loop = { users = 1, think_s = 0.1 } }
count = 3
prompt_tokens = 4
output_tokens = { uniform = { low = 2, high = 5 } }
"#;

/// How many effects of a run are such ones.
pub(crate) fn count(records: &Records, wanted: impl Fn(&Effect) -> bool) -> usize {
    let effects = records.iter().filter_map(|(_, record)| match record {
        Record::Effect(effect) => Some(effect),
        Record::Input(_) => None,
    });
    effects.filter(|effect| wanted(effect)).count()
}

/// On which lanes tasks of a kind were started, one after the other.
pub(crate) fn started(world: &World, records: &Records, kind: StageKind) -> Vec<LaneId> {
    let lanes = records.iter().filter_map(|(_, record)| match record {
        Record::Effect(Effect::Start { lane, task }) => {
            (world.stages[task.stage.0 as usize].kind == kind).then_some(*lane)
        }
        _ => None,
    });
    lanes.collect()
}

/// A language model of random weights, small enough for anything.
pub(crate) fn generated(scratch: &Scratch, store: &str, seed: u64) -> PathBuf {
    let mini = Preset::named("mini").unwrap();
    let path = scratch.path(&format!("mini-{store}.gguf"));
    mini.write(mini.storage(Some(store)).unwrap(), seed, &path)
        .unwrap();
    path
}

/// ONNX Runtime's library.
pub(crate) fn runtime() -> Option<PathBuf> {
    hw::live::Models::cached().unwrap().onnx_runtime
}

/// Appends tokens, in chunks as large as the context takes, with logits after the last.
pub(crate) fn push(context: &mut Context, tokens: &[Token]) {
    let token = CancelToken::standalone();
    let chunk = context.options().chunk as usize;
    for chunk in tokens.chunks(chunk) {
        context.push_tokens(chunk, true, &token).unwrap();
    }
}

/// An image that is not all alike, of as many rows as columns.
pub(crate) fn image(side: usize) -> Vec<f32> {
    let numbers = 0..3 * side * side;
    numbers
        .map(|i| (i * 7919 % 1000) as f32 / 300.0 - 1.6)
        .collect()
}
