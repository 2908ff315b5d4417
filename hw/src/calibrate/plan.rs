//! Which sizes and depths are measured, and how often.

use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::workload::mean_length;
use sim::world::World;

/// A plan of measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// One walk through a context: it is deepened by frames of these tokens, one after the other.
    pub frames: Vec<u32>,
    /// At each depth, queries of these prompt and answer tokens (the first answer token is the prefill's).
    pub queries: Vec<(u32, u32)>,
    /// Frames encoded in a walk.
    pub encodes: u32,
    /// Whether reading memory is measured.
    pub streams: bool,
    /// Whether pairs of lanes are measured.
    pub pairs: bool,
    /// Whether what no fit uses is measured, to check the profile by: lanes of all engines at once, and
    /// prefixes imported against prefilled again.
    pub checks: bool,
    /// Prompt and answer tokens of a decode whose slowdown beside another lane is measured; a prefill is as
    /// long as the first frame.
    pub beside: (u32, u32),
    /// Seconds that a lane rests before a stage that would begin a piece of work (an encode, an ingest, a
    /// query's prefill, an import) in every second walk: engines are slower after a rest, and a workload
    /// has both.
    pub rest_s: f64,
    /// Walks at least.
    pub least: u32,
    /// Walks at most.
    pub most: u32,
    /// Relative half-width of the 95 % interval of the mean that is narrow enough; of a slowdown too.
    pub narrow: f64,
    /// Turns at most, alone and beside, in which a slowdown is measured that is not narrow; at least `least`.
    pub turns: u32,
    /// Seconds after which no more turns are begun, but the least.
    pub turns_s: f64,
}

impl Plan {
    /// About two minutes for a 135M model on two cores, at the sizes of a world's workload.
    pub fn quick(world: &World) -> Self {
        let (frame, prompt) = sizes(world);
        Self {
            frames: vec![frame, third(frame), 2 * frame, frame, 3 * frame],
            // Half an answer of the workload, where answers are long: what a token takes shows best then.
            queries: vec![(prompt, 9), (2 * prompt, (answer(world) / 2).clamp(17, 65))],
            encodes: 3,
            streams: true,
            pairs: true,
            checks: true,
            beside: (prompt, 32),
            rest_s: 0.25,
            least: 4,
            most: 5,
            narrow: 0.03,
            turns: 16,
            turns_s: 6.0,
        }
        .reaching(world)
        .fitting(world)
    }

    /// As long as it takes: deeper contexts, more sizes, more repeats.
    pub fn thorough(world: &World) -> Self {
        let (frame, prompt) = sizes(world);
        let shapes = [1, 0, 2, 1, 3, 4, 1, 5, 5, 10];
        let tokens = |times: u32| {
            if times == 0 {
                third(frame)
            } else {
                times * frame
            }
        };
        Self {
            frames: shapes.into_iter().map(tokens).collect(),
            queries: vec![(prompt, 9), (2 * prompt, 17), (4 * prompt, 33)],
            encodes: 5,
            beside: (prompt, 64),
            rest_s: 0.5,
            least: 5,
            most: 20,
            narrow: 0.015,
            turns: 40,
            turns_s: 60.0,
            ..Self::quick(world)
        }
        .reaching(world)
        .fitting(world)
    }

    /// Seconds: everything once or twice, to see that it runs. Its numbers are not to be trusted.
    pub fn smoke(world: &World) -> Self {
        let (frame, prompt) = sizes(world);
        Self {
            frames: vec![frame, third(frame)],
            queries: vec![(prompt, 4), (third(prompt), 2)],
            encodes: 1,
            beside: (third(prompt), 4),
            rest_s: 0.0,
            least: 1,
            most: 1,
            turns: 1,
            ..Self::quick(world)
        }
        .fitting(world)
    }

    /// The same stages, two walks of each lane and nothing else: how fast they are now.
    #[must_use]
    pub fn briefly(self) -> Self {
        Self {
            streams: false,
            pairs: false,
            checks: false,
            least: 2,
            most: 2,
            ..self
        }
    }

    /// Each stage of each lane twice at the sizes of a world's workload, and again at depths up to its deepest,
    /// each twice the one before; nothing else. A GPU compiles kernels for sizes and depths that are new to the
    /// process.
    pub fn warm_up(world: &World) -> Self {
        let (frame, prompt) = sizes(world);
        let mut plan = Self {
            frames: vec![frame, frame],
            queries: vec![(prompt, 4), (prompt, 4)],
            encodes: 2,
            streams: false,
            pairs: false,
            checks: false,
            ..Self::smoke(world)
        };
        let depth = depth(world);
        let mut reached = world.model.system_tokens + 2 * frame;
        while reached + frame < depth {
            let leap = reached.min(depth - reached - frame);
            plan.frames.extend([leap, frame]);
            reached += leap + frame;
        }
        plan.fitting(world)
    }

    /// With a leap to the deepest context of a world's workload, and a frame there, unless it goes that far.
    fn reaching(mut self, world: &World) -> Self {
        let frame = sizes(world).0;
        let reached = world.model.system_tokens + self.frames.iter().sum::<u32>();
        let leap = depth(world).saturating_sub(reached + frame);
        if leap > 0 {
            self.frames.extend([leap, frame]);
        }
        self
    }

    /// Without the frames at the end for which the model's context has no room.
    fn fitting(mut self, world: &World) -> Self {
        let query = self.queries.iter().map(|(prompt, output)| prompt + output);
        let beside = (self.beside.0 + self.beside.1).max(self.frames.first().map_or(0, |f| f + 2));
        let query = query.chain([beside]).max().unwrap_or(0);
        let mut room = world.model.max_context_tokens;
        room = room.saturating_sub(world.model.system_tokens + query);
        let mut used = 0_u32;
        self.frames.retain(|tokens| {
            used = used.saturating_add(*tokens);
            used <= room
        });
        self
    }
}

/// Tokens of the longest context that a world's workload publishes, by a simulation with what is known so far.
fn depth(world: &World) -> u32 {
    #[derive(Default)]
    struct Deepest(u32);
    impl Sink for Deepest {
        fn input(&mut self, _: Instant, _: &Input) {}
        fn effect(&mut self, _: Instant, effect: &Effect) {
            if let Effect::Publish { tokens, .. } = effect {
                self.0 = self.0.max(*tokens);
            }
        }
    }
    let mut deepest = Deepest::default();
    // What a script stopped with, the run itself will say.
    let _ = Simulation::new(world).run_into(0, &mut deepest);
    deepest.0
}

/// Visual tokens of a frame and tokens of a prompt in a world's workload, the greatest of the streams';
/// where it has none, those of a usual camera.
fn sizes(world: &World) -> (u32, u32) {
    let frames = world
        .streams
        .iter()
        .filter_map(|stream| stream.frames.as_ref());
    let queries = world
        .streams
        .iter()
        .filter_map(|stream| stream.queries.as_ref());
    let prompts = queries.map(|queries| mean_length(&queries.prompt).round() as u32);
    (
        frames
            .map(|frames| frames.tokens)
            .max()
            .unwrap_or(49)
            .max(1),
        prompts.max().unwrap_or(16).max(1),
    )
}

/// Tokens of an answer in a world's workload, the mean of the stream whose answers are longest.
fn answer(world: &World) -> u32 {
    let queries = world
        .streams
        .iter()
        .filter_map(|stream| stream.queries.as_ref());
    let answers = queries.map(|queries| mean_length(&queries.output).round() as u32);
    answers.max().unwrap_or(0)
}

fn third(tokens: u32) -> u32 {
    tokens.div_ceil(3)
}
