//! Real engines for a world: language models through llama.cpp, vision towers through ONNX Runtime or RKNN.
//!
//! [`Live`] makes an engine for each lane. A processor whose costs list language stages loads the language
//! model, once for all of its lanes, and keeps a context of its own for each stream and each running
//! request; one whose costs list `encode` loads the vision tower in each of its lanes. Lanes are pinned
//! to the cores that the profile names, and use as many threads.

mod content;
mod frames;
mod lane;
mod reference;
mod slot;
mod store;
mod vision;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sim::spec::model::StageKind;
use sim::spec::scenario::Keep;
use sim::world::{EngineId, LaneId, StageId, StreamId, World};

use crate::devices;
use crate::engine::{Engine, EngineError};
use crate::registry::Registry;
use frames::Frames;
use lane::LiveLane;
pub use reference::{Mismatch, Reference};
use store::Store;
use vision::Tower;
pub use vision::VisionDevice;

/// The files that live engines load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Models {
    /// The language model, GGUF.
    pub language: PathBuf,
    /// The vision tower; needed where the model's frame graph has an `encode`. ONNX, but for engines on Rockchip's NPU,
    /// which take it from a `.rknn` file: this one or their device's.
    pub vision: Option<PathBuf>,
    /// ONNX Runtime's library; `None`: what `ORT_DYLIB_PATH` names, or the system's.
    pub onnx_runtime: Option<PathBuf>,
}

impl Models {
    /// What `hw/models/fetch` keeps in [`devices::cache_folder`]; `None` if that is not known.
    pub fn cached() -> Option<Self> {
        let folder = devices::cache_folder()?;
        let library = folder.join(devices::LIBRARY);
        let named = std::env::var_os("ORT_DYLIB_PATH").is_some_and(|path| !path.is_empty());
        Some(Self {
            language: folder.join(devices::LANGUAGE),
            vision: Some(folder.join(devices::VISION)),
            onnx_runtime: (!named && library.exists()).then_some(library),
        })
    }
}

/// How live engines work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// Tokens that each context has room for; 0: as many as the model's longest context. Their memory is
    /// taken at the start.
    pub context_tokens: u32,
    /// Most tokens of one computation of a prefill. Between two of them a lane of the same processor may use the
    /// context; a small one costs throughput.
    pub chunk: u32,
    /// Device of a processor, by its name in the profile: in llama.cpp's words (`Vulkan0`), or what
    /// [`VisionDevice`] reads (`qnn:htp_arch=68`). Others compute on the CPU.
    pub devices: BTreeMap<String, String>,
    /// Folder of pictures that are the frames, in order of their names; `None`: synthetic frames.
    pub frames: Option<PathBuf>,
    /// Whether attention is fused, on all processors alike, since state moves between them. `None`: if a
    /// language model computes on a device, from which unfused state is slow to copy.
    pub flash_attention: Option<bool>,
    /// Whether language models on devices compute a token now and then while they have nothing to do. A GPU
    /// whose clocks fell computes at half speed for a while; so how long a stage takes would depend on how
    /// long nothing happened before it.
    pub keep_warm: bool,
}

impl LiveOptions {
    /// Versions of what computes with these options, for whoever reads numbers later.
    pub fn versions(&self) -> String {
        let named = |name: &String| VisionDevice::named(name)?.ok();
        let mut versions = vec![
            crate::llama::BINDINGS.to_owned(),
            VisionDevice::default().version(),
        ];
        for device in self.devices.values().filter_map(named) {
            let version = device.version();
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        versions.join(", ")
    }
}

impl Default for LiveOptions {
    /// Contexts as long as the model's longest, chunks of 32 tokens, everything on the CPU.
    fn default() -> Self {
        Self {
            context_tokens: 0,
            chunk: 32,
            devices: BTreeMap::new(),
            frames: None,
            flash_attention: None,
            keep_warm: false,
        }
    }
}

/// Why a world cannot be run on live engines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The model's graph has stages that live engines do not know.
    #[error("stage `{0}` is a custom one, which no live engine knows; only simulated runs have it")]
    Custom(String),
    /// The scenario lets contexts slide.
    #[error("live engines keep whole contexts: remove `context.keep`, or simulate only")]
    Keep,
    /// A vision tower is needed.
    #[error(
        "the model has an `encode` stage, but no vision tower (ONNX, or RKNN where that computes it) was given"
    )]
    NoTower,
    /// A device was named for a processor that the profile has not.
    #[error("a device is given for engine `{0}`, which the profile does not have")]
    Engine(String),
    /// A device was named that cannot do what its processor does.
    #[error("engine `{engine}` cannot use device `{device}`: {says}")]
    Device {
        /// The processor.
        engine: String,
        /// What was named.
        device: String,
        /// Why not.
        says: String,
    },
    /// A folder of frames without frames.
    #[error("`{path}` gives no frames: {says}")]
    Frames {
        /// The folder.
        path: String,
        /// Why not.
        says: String,
    },
}

/// Tokens by stream and query.
type Said = BTreeMap<(StreamId, u32), Vec<i32>>;

/// Which processors an answer comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    /// Those that computed each version of its context, the system prompt first.
    versions: Vec<EngineId>,
    /// The one that read the prompt and wrote the answer.
    answer: EngineId,
}

/// What all lanes of a rig share.
#[derive(Debug)]
struct Setup {
    models: Models,
    options: LiveOptions,
    registry: Arc<Registry>,
    /// Numbers of a token's embedding, known when the language model is loaded.
    width: OnceLock<usize>,
    system_tokens: u32,
    kv_bytes_per_token: u64,
    context_tokens: u32,
    encodes: bool,
    projects: bool,
    embedding_cache: bool,
    streams: usize,
    /// Processors with language. Of several, one may want what another has published.
    speakers: usize,
    /// Tokens of answers that may join a context, by stream and query; `None`: none do.
    answers: Option<Mutex<Said>>,
    /// Where each answer was computed, by stream and query.
    placed: Mutex<BTreeMap<(StreamId, u32), Placed>>,
    /// What encoded each frame last.
    encoded: Mutex<BTreeMap<(StreamId, u32), TowerKind>>,
    frames: Frames,
}

/// What may make a difference in the last bits of what a tower says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TowerKind {
    device: VisionDevice,
    threads: u32,
}

/// Stages that need the language model.
const LANGUAGE: &[StageKind] = &[
    StageKind::Ingest,
    StageKind::QueryPrefill,
    StageKind::Decode,
    StageKind::Reconstruct,
];

/// Whether a processor has costs of a stage of these kinds.
fn runs(world: &World, engine: EngineId, kinds: &[StageKind]) -> bool {
    world.stages.iter().enumerate().any(|(index, stage)| {
        let cost = || world.costs.get(engine, StageId(index as u8));
        kinds.contains(&stage.kind) && cost().is_some()
    })
}

impl Setup {
    fn flash_attention(&self) -> bool {
        let language = |device: &String| VisionDevice::named(device).is_none();
        let by_device = || self.options.devices.values().any(language);
        self.options.flash_attention.unwrap_or_else(by_device)
    }

    fn tower(&self, kind: &TowerKind) -> Result<Tower, EngineError> {
        Tower::load(&kind.device, &self.models, kind.threads)
    }
}

/// Live engines for a world.
#[derive(Debug)]
pub struct Live {
    setup: Arc<Setup>,
    lanes: Vec<Plan>,
    stores: Vec<Arc<Store>>,
}

/// What a lane is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    name: String,
    engine: EngineId,
    cores: Vec<u32>,
    threads: u32,
    language: bool,
    vision: bool,
    /// Of the vision tower.
    device: VisionDevice,
}

impl Live {
    /// Checks that the world can be run, and loads nothing yet: lanes do, when the rig starts.
    pub fn new(world: &World, models: Models, options: LiveOptions) -> Result<Self, SetupError> {
        if let Some(stage) = world
            .stages
            .iter()
            .find(|stage| stage.kind == StageKind::Custom)
        {
            return Err(SetupError::Custom(stage.name.clone()));
        }
        if world.keep != Keep::All {
            return Err(SetupError::Keep);
        }
        let known = |name: &String| world.engines.iter().any(|engine| engine.name == *name);
        if let Some(name) = options.devices.keys().find(|name| !known(name)) {
            return Err(SetupError::Engine(name.clone()));
        }
        let has = |kind| {
            let stages = world.frame_graph.stages.iter();
            stages
                .map(|stage| world.stages[stage.0 as usize].kind)
                .any(|other| other == kind)
        };
        let setup = Arc::new(Setup {
            registry: Arc::new(Registry::new()),
            width: OnceLock::new(),
            system_tokens: world.model.system_tokens,
            kv_bytes_per_token: world.model.kv_bytes_per_token,
            context_tokens: match options.context_tokens {
                0 => world.model.max_context_tokens,
                tokens => tokens,
            },
            encodes: has(StageKind::Encode),
            projects: has(StageKind::Project),
            embedding_cache: world.modes.embedding_cache,
            streams: world.streams.len(),
            speakers: (0..world.engines.len())
                .filter(|&engine| runs(world, EngineId(engine as u8), LANGUAGE))
                .count(),
            answers: world.answers_join_history.then(Mutex::default),
            placed: Mutex::default(),
            encoded: Mutex::default(),
            frames: Frames::open(options.frames.as_deref(), world.streams.len())?,
            models,
            options,
        });
        let lanes: Vec<Plan> = (0..world.lanes.len())
            .map(|index| Plan::of(world, LaneId(index as u8), &setup))
            .collect::<Result<_, _>>()?;
        let mut eyes = lanes.iter().filter(|plan| plan.vision);
        if setup.encodes && eyes.any(|plan| plan.device.file(&setup.models).is_none()) {
            return Err(SetupError::NoTower);
        }
        let stores = (0..world.engines.len())
            .map(|index| {
                let id = EngineId(index as u8);
                let device = setup.options.devices.get(&world.engines[index].name);
                let device = device.filter(|name| VisionDevice::named(name).is_none());
                let store = Arc::new(Store::new(id, setup.clone(), device.cloned()));
                setup.registry.add_store(id, store.clone());
                store
            })
            .collect();
        Ok(Self {
            setup,
            lanes,
            stores,
        })
    }

    /// Live engines for another world of the same profile, over the language models that these have loaded:
    /// nothing else is shared. These must be at rest.
    pub fn again(&self, world: &World) -> Result<Self, SetupError> {
        let models = self.setup.models.clone();
        let next = Self::new(world, models, self.setup.options.clone())?;
        if next.lanes == self.lanes {
            for (store, earlier) in next.stores.iter().zip(&self.stores) {
                store.take_over(earlier);
            }
        }
        Ok(next)
    }

    /// One engine a lane, in the world's order.
    pub fn engines(&self) -> Vec<Box<dyn Engine>> {
        self.lanes
            .iter()
            .map(|plan| -> Box<dyn Engine> {
                let store = self.stores[plan.engine.0 as usize].clone();
                Box::new(LiveLane::new(plan.clone(), self.setup.clone(), store))
            })
            .collect()
    }

    /// Where the engines find each other's contexts and embeddings.
    pub fn registry(&self) -> Arc<Registry> {
        self.setup.registry.clone()
    }

    /// What answers are held against: one thing at a time, every item on the processor that computed it in
    /// the run, its state carried over where another one goes on.
    pub fn reference(&self) -> Reference {
        Reference::new(self.setup.clone(), &self.stores, None)
    }

    /// The same with everything on the processor of one lane, and so without copies. Answers to which
    /// processors of another kind contributed may differ: by how much says how different their arithmetic is.
    pub fn reference_on(&self, lane: LaneId) -> Reference {
        let engine = self.lanes[lane.0 as usize].engine;
        Reference::new(self.setup.clone(), &self.stores, Some(engine))
    }
}

impl Plan {
    fn tower(&self) -> TowerKind {
        TowerKind {
            device: self.device.clone(),
            threads: self.threads,
        }
    }

    fn of(world: &World, id: LaneId, setup: &Setup) -> Result<Self, SetupError> {
        let lane = &world.lanes[id.0 as usize];
        let pinned = lane.pin_cores.len() as u32;
        let runs = |kinds| runs(world, lane.engine, kinds);
        let (language, vision) = (runs(LANGUAGE), runs(&[StageKind::Encode]));
        let engine = &world.engines[lane.engine.0 as usize].name;
        let device = setup.options.devices.get(engine);
        let fail = |says: &str| SetupError::Device {
            engine: engine.clone(),
            device: device.cloned().unwrap_or_default(),
            says: says.into(),
        };
        let eye = device.and_then(|name| VisionDevice::named(name));
        let eye = eye.transpose().map_err(|says| fail(&says))?;
        match (&eye, device) {
            (Some(_), _) if !vision => Err(fail("its costs list no `encode`"))?,
            (None, Some(_)) if !language => Err(fail("its costs list no language stage"))?,
            _ => {}
        }
        let eye = eye.unwrap_or_default();
        eye.takes(&setup.models).map_err(|says| fail(&says))?;
        Ok(Self {
            name: lane.name.clone(),
            engine: lane.engine,
            cores: lane.pin_cores.clone(),
            threads: if pinned > 0 {
                pinned
            } else {
                (lane.cores.ceil() as u32).max(1)
            },
            language,
            vision,
            device: eye,
        })
    }
}
