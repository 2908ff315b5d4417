//! Where the engines of one rig find each other's contexts and embeddings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use sim::world::{EngineId, StreamId};

use crate::engine::{EngineError, Owner};

/// The KV that a processor holds, as other lanes may read it.
///
/// A store belongs to a processor, not to a lane, and outlives its lanes: the KV of a lane that died
/// while another imports from it is still read. A published version is there to be read while the next is
/// computed: a backend that cannot read a context meanwhile keeps copies of what it published. A llama.cpp
/// context is `Send` but not `Sync`: the lock around it makes the store both.
pub trait KvStore: fmt::Debug + Send + Sync {
    /// Copies out a context up to `version`, or the newest version below it that is held. Of what the
    /// importer says to hold (`held`), a backend that can leaves the copy out.
    fn export(
        &self,
        owner: Owner,
        version: u32,
        held: Option<u32>,
    ) -> Result<Exported, EngineError>;
}

/// KV on its way between two processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Version that it ends with.
    pub version: u32,
    /// Version after which it begins; `None`: it holds everything.
    pub after: Option<u32>,
    /// The state, in the order of its versions.
    pub blocks: Vec<Block>,
    /// Processor that computed each version in it; empty from backends that do not keep account.
    pub by: Vec<EngineId>,
}

/// State of versions that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// How many these are.
    pub versions: u32,
    /// In a form that both sides know.
    pub state: Arc<Vec<u8>>,
}

/// By stream and frame.
type Embeddings = BTreeMap<(StreamId, u32), Arc<[f32]>>;

/// The stores of a rig's processors, and the embeddings of frames.
///
/// Embeddings are kept by stream and frame: the lane that encodes a frame is seldom the one that
/// ingests it. With `modes.embedding_cache` they stay, for contexts to be reconstructed from; else
/// the lane that ingests a frame drops it then. Not when it hears that the version is published: a lane that is
/// busy hears it late, when a request may have encoded the frame again to prefill it.
#[derive(Debug, Default)]
pub struct Registry {
    stores: RwLock<BTreeMap<EngineId, Arc<dyn KvStore>>>,
    embeddings: RwLock<Embeddings>,
}

impl Registry {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a processor's store known.
    pub fn add_store(&self, engine: EngineId, store: Arc<dyn KvStore>) {
        self.stores
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(engine, store);
    }

    /// A processor's store.
    pub fn store(&self, engine: EngineId) -> Option<Arc<dyn KvStore>> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.get(&engine).cloned()
    }

    /// Keeps a frame's embedding.
    pub fn put_embedding(&self, stream: StreamId, frame: u32, embedding: Arc<[f32]>) {
        self.embeddings
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((stream, frame), embedding);
    }

    /// A frame's embedding, if it is kept.
    pub fn embedding(&self, stream: StreamId, frame: u32) -> Option<Arc<[f32]>> {
        let embeddings = self
            .embeddings
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        embeddings.get(&(stream, frame)).cloned()
    }

    /// Drops a frame's embedding.
    pub fn drop_embedding(&self, stream: StreamId, frame: u32) {
        self.embeddings
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&(stream, frame));
    }
}
