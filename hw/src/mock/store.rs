//! A mock's KV: the row of items that it was fed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sim::world::EngineId;

use crate::engine::{EngineError, Item, Owner};
use crate::registry::{Block, Exported, KvStore};

/// Bytes of an item in an exported state.
const ITEM_BYTES: usize = 9;

/// What a processor holds.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) engine: EngineId,
    pub(super) books: Mutex<Books>,
}

#[derive(Debug)]
pub(super) struct Books {
    /// The items that each context holds: version n is the first n.
    pub(super) contexts: BTreeMap<Owner, Vec<Item>>,
    /// The items that each stream has published.
    pub(super) published: Vec<Vec<Item>>,
}

impl Books {
    pub(super) fn new(streams: usize) -> Self {
        Self {
            contexts: BTreeMap::new(),
            published: vec![Vec::new(); streams],
        }
    }

    pub(super) fn held(&self, owner: Owner) -> &[Item] {
        self.contexts.get(&owner).map_or(&[], Vec::as_slice)
    }

    /// Makes a context hold `items`, and what it holds beyond them.
    pub(super) fn extend(&mut self, owner: Owner, items: Vec<Item>) {
        let held = self.contexts.entry(owner).or_default();
        if held.len() < items.len() {
            *held = items;
        }
    }
}

impl Store {
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first `version` items of a context, if it holds them.
    pub(super) fn prefix<'b>(
        &self,
        books: &'b Books,
        owner: Owner,
        version: u32,
    ) -> Result<&'b [Item], EngineError> {
        books
            .held(owner)
            .get(..version as usize)
            .ok_or(EngineError::NotResident {
                owner,
                version,
                engine: self.engine,
            })
    }
}

impl KvStore for Store {
    fn export(
        &self,
        owner: Owner,
        version: u32,
        held: Option<u32>,
    ) -> Result<Exported, EngineError> {
        let books = self.books();
        let items = books.held(owner);
        let items = &items[..items.len().min(version as usize)];
        let after = held.filter(|&held| held as usize <= items.len());
        let mut state = Vec::new();
        for item in &items[after.unwrap_or(0) as usize..] {
            let (kind, number, tokens) = match *item {
                Item::Frame { index, tokens } => (0, index, tokens),
                Item::Answer { query, tokens } => (1, query, tokens),
                Item::Query { index, prompt, .. } => (2, index, prompt),
            };
            state.push(kind);
            state.extend_from_slice(&number.to_le_bytes());
            state.extend_from_slice(&tokens.to_le_bytes());
        }
        Ok(Exported {
            version: items.len() as u32,
            after,
            blocks: vec![Block {
                versions: items.len() as u32 - after.unwrap_or(0),
                state: Arc::new(state),
            }],
            by: Vec::new(),
        })
    }
}

/// Reads what [`Store::export`] wrote.
pub(super) fn items_of(state: &[u8]) -> Result<Vec<Item>, EngineError> {
    let (records, rest) = state.as_chunks::<ITEM_BYTES>();
    let bad = || EngineError::Contract("the imported state is not a mock's".into());
    if !rest.is_empty() {
        return Err(bad());
    }
    records
        .iter()
        .map(|&[kind, a, b, c, d, e, f, g, h]| {
            let number = u32::from_le_bytes([a, b, c, d]);
            let tokens = u32::from_le_bytes([e, f, g, h]);
            match kind {
                0 => Ok(Item::Frame {
                    index: number,
                    tokens,
                }),
                1 => Ok(Item::Answer {
                    query: number,
                    tokens,
                }),
                _ => Err(bad()),
            }
        })
        .collect()
}
