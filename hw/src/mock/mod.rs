//! Engines that only pretend: they wait as long as the cost table says, and keep the books of a real one.
//!
//! A mock's KV is the row of items that it was fed, its tokens are a hash of what it read. So it finds
//! out if it is told to read what it does not hold, and its answers equal [`answer_tokens`] of the serial
//! run's digest only if every import, reconstruction and fork was right.
//!
//! ```
//! # fn example(world: &sim::world::World) {
//! use hw::mock::{Fault, Mocks};
//! use hw::rig::{Options, Rig};
//! use sim::world::LaneId;
//!
//! let engines = Mocks::new(world).fault(LaneId(0), 3, Fault::Panic).engines();
//! let rig = Rig::start(world, engines, &Options::default());
//! # }
//! ```

mod store;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use sim::cost::{CostTable, StageCosts};
use sim::dispatch::{answer_digest, frame_digest, joined_digest, stream_digest};
use sim::rng;
use sim::spec::model::StageKind;
use sim::spec::scenario::Keep;
use sim::time::Duration;
use sim::world::{EngineId, LaneId, StageId, StreamId, World};

use self::store::{Books, Store, items_of};
use crate::engine::{CancelToken, Done, Engine, EngineError, Item, Notice, Order, Owner};
use crate::registry::{Exported, Registry};

/// The tokens that a mock answers with, `count` of them: a function of the answer's digest.
pub fn answer_tokens(digest: u64, count: u32) -> Vec<u32> {
    (0..count)
        .map(|position| answer_digest(digest, position, 0) as u32)
        .collect()
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It panics half-way.
    Panic,
    /// It returns an error half-way.
    Error,
    /// It has no memory for the task.
    OutOfMemory,
    /// It does not return until it is cancelled.
    Hang,
    /// It looks at no token and returns after this real time.
    Deaf(std::time::Duration),
}

/// Mock engines for the lanes of a world.
#[derive(Debug)]
pub struct Mocks {
    facts: Arc<Facts>,
    registry: Arc<Registry>,
    stores: Vec<Arc<Store>>,
    lanes: Vec<Plan>,
}

#[derive(Debug)]
struct Plan {
    engine: EngineId,
    /// Times of the first tasks; then as the cost table says.
    spans: VecDeque<Duration>,
    faults: BTreeMap<u32, Fault>,
}

impl Mocks {
    /// Mocks that take the time that the world's cost table gives, alone, and never fail.
    pub fn new(world: &World) -> Self {
        let facts = Arc::new(Facts::of(world));
        let registry = Arc::new(Registry::new());
        let stores: Vec<_> = (0..world.engines.len())
            .map(|index| {
                let store = Arc::new(Store {
                    engine: EngineId(index as u8),
                    books: Mutex::new(Books::new(world.streams.len())),
                });
                registry.add_store(store.engine, store.clone());
                store
            })
            .collect();
        let lanes = world.lanes.iter().map(|lane| Plan {
            engine: lane.engine,
            spans: VecDeque::new(),
            faults: BTreeMap::new(),
        });
        Self {
            lanes: lanes.collect(),
            facts,
            registry,
            stores,
        }
    }

    /// Something goes wrong in the `nth` task (from 0) of a lane.
    #[must_use]
    pub fn fault(mut self, lane: LaneId, nth: u32, fault: Fault) -> Self {
        self.lanes[lane.0 as usize].faults.insert(nth, fault);
        self
    }

    /// Gives the times of a lane's first tasks; further ones take what the cost table says.
    #[must_use]
    pub fn script(mut self, lane: LaneId, spans: impl IntoIterator<Item = Duration>) -> Self {
        self.lanes[lane.0 as usize].spans.extend(spans);
        self
    }

    /// Where the engines find each other's contexts and embeddings.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    /// One engine a lane.
    pub fn engines(self) -> Vec<Box<dyn Engine>> {
        let Self {
            facts,
            registry,
            stores,
            lanes,
        } = self;
        lanes
            .into_iter()
            .map(|plan| -> Box<dyn Engine> {
                Box::new(Mock {
                    store: stores[plan.engine.0 as usize].clone(),
                    plan,
                    count: 0,
                    facts: facts.clone(),
                    registry: registry.clone(),
                })
            })
            .collect()
    }
}

/// What mocks know of the world.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Facts {
    costs: CostTable,
    export: StageId,
    kv_bytes_per_token: f64,
    system_tokens: u32,
    joules_per_byte: f64,
    active_w: Vec<f64>,
    megapixels: Vec<f64>,
    digests: Vec<u64>,
    noise: bool,
    encodes: bool,
    embedding_cache: bool,
    keeps_all: bool,
}

impl Facts {
    fn of(world: &World) -> Self {
        Self {
            costs: world.costs.clone(),
            export: world.transfer.export,
            kv_bytes_per_token: world.model.kv_bytes_per_token as f64,
            system_tokens: world.model.system_tokens,
            joules_per_byte: world.power.map_or(0.0, |power| power.joules_per_byte),
            active_w: world
                .engines
                .iter()
                .map(|engine| engine.power.map_or(0.0, |power| power.active_w))
                .collect(),
            megapixels: world
                .streams
                .iter()
                .map(|stream| {
                    stream
                        .frames
                        .as_ref()
                        .map_or(1.0, |frames| frames.megapixels)
                })
                .collect(),
            digests: world
                .streams
                .iter()
                .map(|stream| stream_digest(&stream.name))
                .collect(),
            noise: world.noise,
            encodes: world
                .frame_graph
                .stages
                .iter()
                .any(|stage| world.stages[stage.0 as usize].kind == StageKind::Encode),
            embedding_cache: world.modes.embedding_cache,
            keeps_all: world.keep == Keep::All,
        }
    }

    fn costs(&self, engine: EngineId, order: &Order) -> Result<&StageCosts, EngineError> {
        self.costs.get(engine, order.task.stage).ok_or_else(|| {
            EngineError::Contract(format!(
                "stage {} does not run on engine {}",
                order.task.stage.0, engine.0
            ))
        })
    }

    /// Time and bytes of a task alone, as simulated.
    fn alone(&self, engine: EngineId, order: &Order) -> Result<(Duration, f64), EngineError> {
        let task = &order.task;
        let costs = self.costs(engine, order)?;
        let (n, times) = match order.kind {
            StageKind::Encode => (
                self.megapixels[task.stream.0 as usize],
                f64::from(task.size),
            ),
            StageKind::Decode => (f64::from(decoded(order)), 1.0),
            StageKind::Import => (f64::from(task.size) * self.kv_bytes_per_token, 1.0),
            _ => (f64::from(task.size), 1.0),
        };
        let at = costs.alone.at(n, task.context.into());
        let (mut secs, mut bytes) = (at.secs * times, at.bytes * times);
        if order.kind == StageKind::Import
            && let Some(out) = self.costs.get(task.source, self.export)
        {
            let out = out.alone.at(n, 0.0);
            secs += out.secs;
            bytes += out.bytes;
        }
        if self.noise {
            secs *= rng::factor(order.noise, task.stage.0, &costs.noise);
        }
        Ok((Duration::from_secs_f64(secs), bytes))
    }

    /// Tokens of a context that holds `items`.
    fn tokens(&self, items: &[Item]) -> u32 {
        let own = |item: &Item| match *item {
            Item::Frame { tokens, .. } | Item::Answer { tokens, .. } => tokens,
            Item::Query { .. } => 0,
        };
        self.system_tokens + items.iter().map(own).sum::<u32>()
    }

    /// The digest of a context that holds `items`.
    fn digest(&self, stream: StreamId, items: &[Item]) -> u64 {
        let empty = self.digests[stream.0 as usize];
        items.iter().fold(empty, |digest, item| match *item {
            Item::Frame { index, tokens } => frame_digest(digest, index, tokens),
            Item::Answer { query, tokens } => joined_digest(digest, query, tokens),
            Item::Query { .. } => digest,
        })
    }
}

/// Tokens that a decode generates.
fn decoded(order: &Order) -> u32 {
    match order.item {
        Item::Query { output, .. } => output.saturating_sub(1).min(order.task.size),
        _ => 0,
    }
}

/// The mock engine of a lane.
#[derive(Debug)]
struct Mock {
    plan: Plan,
    count: u32,
    facts: Arc<Facts>,
    registry: Arc<Registry>,
    store: Arc<Store>,
}

impl Engine for Mock {
    fn run(&mut self, order: &Order, token: &CancelToken) -> Result<Done, EngineError> {
        let fault = self.plan.faults.remove(&self.count);
        self.count += 1;
        let (alone, bytes) = self.facts.alone(self.store.engine, order)?;
        let span = self.plan.spans.pop_front().unwrap_or(alone);
        self.check_context(order)?;
        // The source is pinned until the import ends, but the copy is made while it lasts.
        let imported = self.read_source(order)?;
        match fault {
            None => token.sleep(span)?,
            Some(fault) => return Err(fail(fault, span, bytes, token)),
        }
        token.check()?;
        let tokens = self.commit(order, imported)?;
        Ok(Done {
            tokens,
            bytes: (bytes + 0.5) as u64,
            nanojoules: self.nanojoules(order, span, bytes)?,
        })
    }

    fn notice(&mut self, notice: &Notice) -> Result<(), EngineError> {
        let mut books = self.store.books();
        match *notice {
            Notice::Published {
                stream,
                version,
                item,
            } => {
                let published = &mut books.published[stream.0 as usize];
                published.push(item);
                if published.len() != version as usize {
                    return Err(EngineError::Contract(format!(
                        "version {version} of stream {} was published after {}",
                        stream.0,
                        published.len() - 1
                    )));
                }
            }
            Notice::Evicted { stream } => {
                books.contexts.remove(&Owner::Stream(stream));
            }
            Notice::Ended {
                stream,
                ticket,
                item,
            } => {
                books.contexts.remove(&Owner::Request(ticket));
                if let Item::Frame { index, .. } = item {
                    self.registry.drop_embedding(stream, index);
                }
            }
        }
        Ok(())
    }
}

/// Lets a fault happen.
fn fail(fault: Fault, span: Duration, bytes: f64, token: &CancelToken) -> EngineError {
    let half = Duration(span.0 / 2);
    match fault {
        Fault::OutOfMemory => {
            return EngineError::OutOfMemory {
                bytes: bytes as u64,
            };
        }
        Fault::Hang => return token.hang(),
        Fault::Deaf(span) => {
            CancelToken::ignore_for(span);
            return EngineError::Backend("it heard nothing".into());
        }
        Fault::Panic | Fault::Error => {}
    }
    if let Err(error) = token.sleep(half) {
        return error;
    }
    assert!(fault != Fault::Panic, "a fault was asked for");
    EngineError::Backend("a fault was asked for".into())
}

impl Mock {
    /// Whether the scheduler and the store agree on how long the context is.
    fn check_context(&self, order: &Order) -> Result<(), EngineError> {
        if !self.facts.keeps_all {
            return Ok(());
        }
        let books = self.store.books();
        let task = &order.task;
        let (items, said) = match order.kind {
            StageKind::Ingest | StageKind::QueryPrefill => {
                let items = self.store.prefix(&books, order.owner, order.reads)?;
                (items, task.context)
            }
            StageKind::Reconstruct => {
                let published = &books.published[task.stream.0 as usize];
                let items = published.get(..order.reads as usize);
                (items.unwrap_or(published), task.context + task.size)
            }
            _ => return Ok(()),
        };
        let held = self.facts.tokens(items);
        if held == said {
            return Ok(());
        }
        Err(EngineError::Contract(format!(
            "{:?} of version {} was ordered on {said} tokens, there are {held}",
            order.kind, order.reads
        )))
    }

    fn read_source(&self, order: &Order) -> Result<Option<Exported>, EngineError> {
        if order.kind != StageKind::Import {
            return Ok(None);
        }
        let held = self.store.books().held(order.owner).len() as u32;
        let source = self.registry.store(order.task.source).ok_or_else(|| {
            EngineError::Contract(format!("engine {} has no store", order.task.source.0))
        })?;
        source
            .export(order.owner, order.reads, Some(held))
            .map(Some)
    }

    /// Makes a task's result visible, and returns the tokens that it generated.
    fn commit(&self, order: &Order, imported: Option<Exported>) -> Result<Vec<u32>, EngineError> {
        let task = &order.task;
        let reads = order.reads as usize;
        let mut books = self.store.books();
        match order.kind {
            StageKind::Encode => {
                // A preparation encodes the newest frames of its version again.
                let published = &books.published[task.stream.0 as usize];
                let frames = published[..reads.min(published.len())].iter().rev();
                let again = frames.filter(|item| matches!(item, Item::Frame { .. }));
                let own = std::slice::from_ref(&order.item);
                let encoded: Vec<&Item> = match order.item {
                    Item::Frame { .. } => own.iter().collect(),
                    _ => again.take(task.size as usize).collect(),
                };
                for item in encoded {
                    if let Item::Frame { index, .. } = *item {
                        let embedding = Arc::from([index as f32]);
                        self.registry.put_embedding(task.stream, index, embedding);
                    }
                }
            }
            StageKind::Project => self.needs_embedding(task.stream, &order.item)?,
            StageKind::Ingest => {
                self.needs_embedding(task.stream, &order.item)?;
                self.store.prefix(&books, order.owner, order.reads)?;
                let context = books.contexts.entry(order.owner).or_default();
                context.truncate(reads);
                context.push(order.item);
                if let Item::Frame { index, .. } = order.item
                    && !self.facts.embedding_cache
                {
                    self.registry.drop_embedding(task.stream, index);
                }
            }
            StageKind::Import => {
                if let Some(Exported { after, blocks, .. }) = imported {
                    let held = books.held(order.owner);
                    let mut items = held[..after.unwrap_or(0) as usize].to_vec();
                    for block in blocks {
                        items.extend(items_of(&block.state)?);
                    }
                    books.extend(order.owner, items);
                }
            }
            StageKind::Reconstruct => {
                let published = &books.published[task.stream.0 as usize];
                let Some(items) = published.get(..reads) else {
                    return Err(EngineError::NotResident {
                        owner: order.owner,
                        version: order.reads,
                        engine: self.store.engine,
                    });
                };
                let items = items.to_vec();
                let held = books.held(order.owner).len();
                for item in items.iter().skip(held) {
                    self.needs_embedding(task.stream, item)?;
                }
                books.extend(order.owner, items);
            }
            StageKind::QueryPrefill => {
                let fork = self
                    .store
                    .prefix(&books, order.owner, order.reads)?
                    .to_vec();
                let own = Owner::Request(task.ticket);
                let digest = self.answer(order, &fork);
                books.contexts.insert(own, fork);
                return Ok(answer_tokens(digest, 1));
            }
            StageKind::Decode => {
                let fork = self.store.prefix(&books, order.owner, order.reads)?;
                let digest = self.answer(order, fork);
                return Ok(answer_tokens(digest, decoded(order) + 1).split_off(1));
            }
            StageKind::Export | StageKind::Custom => {}
        }
        Ok(Vec::new())
    }

    fn answer(&self, order: &Order, items: &[Item]) -> u64 {
        let digest = self.facts.digest(order.task.stream, items);
        match order.item {
            Item::Query { index, prompt, .. } => answer_digest(digest, index, prompt),
            _ => digest,
        }
    }

    fn needs_embedding(&self, stream: StreamId, item: &Item) -> Result<(), EngineError> {
        let Item::Frame { index, .. } = *item else {
            return Ok(());
        };
        if !self.facts.encodes || self.registry.embedding(stream, index).is_some() {
            return Ok(());
        }
        Err(EngineError::Contract(format!(
            "frame {index} of stream {} has no embedding",
            stream.0
        )))
    }

    fn nanojoules(&self, order: &Order, span: Duration, bytes: f64) -> Result<u64, EngineError> {
        let engine = self.store.engine;
        let watts = self
            .facts
            .costs(engine, order)?
            .active_w
            .unwrap_or(self.facts.active_w[engine.0 as usize]);
        let joules = span.as_secs_f64() * watts + self.facts.joules_per_byte * bytes;
        Ok((joules * 1e9 + 0.5) as u64)
    }
}
