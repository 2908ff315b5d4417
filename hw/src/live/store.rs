//! A processor's KV: a llama.cpp context for each stream and for each running request.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sim::world::{EngineId, StreamId};

use super::Setup;
use super::content::{self, Texts};
use super::slot::{Held, Slot, State, Version};
use crate::engine::{CancelToken, EngineError, Item, Owner};
use crate::llama::{Context, ContextOptions, LlamaError, Model, ModelOptions, Token};
use crate::registry::{Block, Exported, KvStore};

/// What is fed to a context.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// Text.
    Tokens(Vec<Token>),
    /// Visual tokens.
    Embeddings(Arc<[f32]>),
}

/// What is there once the language model is loaded.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) model: Arc<Model>,
    pub(super) texts: Texts,
    threads: u32,
}

/// A processor's store; the processor of a vision tower has one without language.
#[derive(Debug)]
pub(super) struct Store {
    engine: EngineId,
    setup: Arc<Setup>,
    device: Option<String>,
    loading: Mutex<()>,
    loaded: OnceLock<Loaded>,
    slots: Mutex<BTreeMap<Owner, Arc<Slot>>>,
    free: Mutex<Vec<Context>>,
    /// Contexts that were made for streams.
    made: Mutex<usize>,
    /// The items that each stream has published.
    published: Mutex<Vec<Vec<Item>>>,
}

impl Store {
    pub(super) fn new(engine: EngineId, setup: Arc<Setup>, device: Option<String>) -> Self {
        Self {
            engine,
            device,
            loading: Mutex::default(),
            loaded: OnceLock::new(),
            slots: Mutex::default(),
            free: Mutex::default(),
            made: Mutex::default(),
            published: Mutex::new(vec![Vec::new(); setup.streams]),
            setup,
        }
    }

    /// Whether a device other than the CPU computes.
    pub(super) fn on_device(&self) -> bool {
        self.device.is_some()
    }

    pub(super) fn error(&self, error: LlamaError) -> EngineError {
        error.into_engine(self.setup.kv_bytes_per_token)
    }

    /// Takes over the model that another store has loaded, if it has.
    pub(super) fn take_over(&self, other: &Self) {
        if let Some(loaded) = other.loaded.get() {
            let _first = self.loaded.set(loaded.clone());
        }
    }

    /// Loads the model if no lane of this processor has, makes contexts for all streams, and warms up.
    pub(super) fn enter(&self, threads: u32) -> Result<(), EngineError> {
        let _one = self.loading.lock();
        if self.loaded.get().is_none() {
            let loaded = self.load(threads).map_err(|error| self.error(error))?;
            let _first = self.loaded.set(loaded);
        }
        let loaded = self.loaded()?;
        let token = CancelToken::standalone();
        let tokens = loaded.texts.system(self.setup.options.chunk.min(16));
        // First use pages in the weights, and lays out the context's memory on its device.
        let warm = |mut context: Context| {
            for part in [&tokens[..], &tokens[..1]] {
                context
                    .push_tokens(part, true, &token)
                    .map_err(|error| self.error(error))?;
            }
            self.recycle(context)
        };
        let width = self.width()?;
        if *self.setup.width.get_or_init(|| width) != width {
            return Err(EngineError::Backend(
                "two language models of different widths in one rig".into(),
            ));
        }
        let mut made = self.made.lock();
        while *made < self.setup.streams {
            warm(self.new_context()?)?;
            *made += 1;
        }
        drop(made);
        // One more, for this lane's requests.
        warm(self.new_context()?)
    }

    fn load(&self, threads: u32) -> Result<Loaded, LlamaError> {
        let options = ModelOptions {
            device: self.device.clone(),
        };
        let model = Arc::new(Model::load(&self.setup.models.language, &options)?);
        let texts = Texts::new(&model)?;
        Ok(Loaded {
            model,
            texts,
            threads,
        })
    }

    /// A context as the processor's lanes use it, empty.
    pub(super) fn new_context(&self) -> Result<Context, EngineError> {
        let loaded = self.loaded()?;
        let options = ContextOptions {
            tokens: self.setup.context_tokens,
            chunk: self.setup.options.chunk,
            threads: loaded.threads,
            offload: self.device.is_some(),
            flash_attention: self.setup.flash_attention(),
        };
        Context::new(&loaded.model, options).map_err(|error| self.error(error))
    }

    pub(super) fn loaded(&self) -> Result<&Loaded, EngineError> {
        self.loaded.get().ok_or_else(|| {
            EngineError::Contract(format!(
                "engine {} has no language model: its costs list no language stage",
                self.engine.0
            ))
        })
    }

    /// An empty context, used before or new.
    fn context(&self) -> Result<Context, EngineError> {
        if let Some(context) = self.free.lock().pop() {
            return Ok(context);
        }
        self.new_context()
    }

    fn recycle(&self, mut context: Context) -> Result<(), EngineError> {
        context.truncate(0).map_err(|error| self.error(error))?;
        self.free.lock().push(context);
        Ok(())
    }

    /// A context of an owner; a new one is empty.
    pub(super) fn slot(&self, owner: Owner) -> Result<Arc<Slot>, EngineError> {
        if let Some(slot) = self.slots.lock().get(&owner) {
            return Ok(slot.clone());
        }
        let versions = if self.setup.system_tokens == 0 {
            let by = self.engine;
            vec![Version { end: 0, by }]
        } else {
            Vec::new()
        };
        let slot = Arc::new(Slot::new(self.context()?, versions));
        Ok(self.slots.lock().entry(owner).or_insert(slot).clone())
    }

    /// Drops an owner's context, if it has one.
    pub(super) fn drop_slot(&self, owner: Owner) -> Result<(), EngineError> {
        let slot = self.slots.lock().remove(&owner);
        // Somebody who still reads it has the last word.
        match slot.and_then(Arc::into_inner) {
            Some(slot) => self.recycle(slot.into_context()),
            None => Ok(()),
        }
    }

    /// A context of the request's own that holds what `owner`'s holds at `version`.
    pub(super) fn fork(
        &self,
        owner: Owner,
        version: u32,
        ticket: u32,
    ) -> Result<Arc<Slot>, EngineError> {
        let own = Owner::Request(ticket);
        let source = self.slot(owner)?;
        if own == owner {
            let mut held = source.lock();
            let end = self.end(&held, owner, version)?;
            held.cut(version, end).map_err(|error| self.error(error))?;
            drop(held);
            return Ok(source);
        }
        let fail = |error| self.error(error);
        let all = version as usize + 1;
        let copies = source.copy(0, all).map_err(fail)?.unwrap_or_default();
        let copied: usize = copies.iter().map(|copy| copy.versions.len()).sum();
        if copied < all {
            return Err(self.not_resident(owner, version));
        }
        let slot = Arc::new(Slot::new(self.context()?, Vec::new()));
        slot.lock().append(0, &copies, false).map_err(fail)?;
        // It may have begun once before, on a lane that failed.
        self.drop_slot(own)?;
        self.slots.lock().insert(own, slot.clone());
        Ok(slot)
    }

    pub(super) fn end(&self, held: &Held, owner: Owner, version: u32) -> Result<u32, EngineError> {
        held.end_of(version)
            .ok_or_else(|| self.not_resident(owner, version))
    }

    fn not_resident(&self, owner: Owner, version: u32) -> EngineError {
        EngineError::NotResident {
            owner,
            version,
            engine: self.engine,
        }
    }

    /// What a lane appended to a context since its last version is the next one. A stream's is copied where
    /// another processor may want it.
    pub(super) fn complete(&self, owner: Owner, slot: &Slot) -> Result<(), EngineError> {
        let done = slot.lock().complete(self.engine, self.keeps(owner));
        done.map_err(|error| self.error(error))
    }

    fn keeps(&self, owner: Owner) -> bool {
        self.setup.speakers > 1 && matches!(owner, Owner::Stream(_))
    }

    /// Appends a piece, letting others at the context between two computations. `logits`: those after the
    /// last token are wanted; the most likely next token is returned.
    pub(super) fn push(
        &self,
        slot: &Slot,
        piece: &Piece,
        logits: bool,
        token: &CancelToken,
    ) -> Result<Option<Token>, EngineError> {
        let mut next = None;
        feed(
            piece,
            logits,
            self.setup.options.chunk,
            self.width()?,
            |part, last| {
                token.check()?;
                let mut held = slot.lock();
                let context = &mut held.context;
                let done = match part {
                    Part::Tokens(tokens) => context.push_tokens(tokens, last, token),
                    Part::Embeddings(numbers) => context.push_embeddings(numbers, token),
                };
                done.map_err(|error| self.error(error))?;
                if last {
                    next = context.logits().map(most_likely);
                }
                Ok(())
            },
        )?;
        Ok(next)
    }

    fn width(&self) -> Result<usize, EngineError> {
        Ok(self.loaded()?.model.embedding())
    }

    /// What an item puts into a context.
    pub(super) fn piece(&self, stream: StreamId, item: &Item) -> Result<Piece, EngineError> {
        match *item {
            Item::Frame { index, tokens } => {
                let width = self.width()?;
                if !self.setup.encodes {
                    let embeddings = content::blind(stream, index, tokens, width);
                    return Ok(Piece::Embeddings(embeddings.into()));
                }
                let embedding = self.setup.registry.embedding(stream, index);
                let embedding = embedding.ok_or_else(|| {
                    EngineError::Contract(format!(
                        "frame {index} of stream {} has no embedding",
                        stream.0
                    ))
                })?;
                if embedding.len() != tokens as usize * width {
                    return Err(EngineError::Contract(format!(
                        "frame {index} of stream {} has {} numbers, {tokens} tokens of {width} take {}",
                        stream.0,
                        embedding.len(),
                        tokens as usize * width
                    )));
                }
                Ok(Piece::Embeddings(embedding))
            }
            Item::Query { index, prompt, .. } => {
                let texts = &self.loaded()?.texts;
                Ok(Piece::Tokens(texts.prompt(stream, index, prompt)))
            }
            Item::Answer { query, tokens } => {
                let said = self.setup.answers.as_ref();
                let said = said.and_then(|said| said.lock().get(&(stream, query)).cloned());
                said.filter(|said| said.len() == tokens as usize)
                    .map(Piece::Tokens)
                    .ok_or_else(|| {
                        EngineError::Contract(format!(
                            "answer {query} of stream {} is not known as {tokens} tokens",
                            stream.0
                        ))
                    })
            }
        }
    }

    /// The first items that a stream has published.
    pub(super) fn items(&self, stream: StreamId, version: u32) -> Result<Vec<Item>, EngineError> {
        let published = self.published.lock();
        let items = published[stream.0 as usize].get(..version as usize);
        items
            .map(<[Item]>::to_vec)
            .ok_or_else(|| self.not_resident(Owner::Stream(stream), version))
    }

    pub(super) fn publish(
        &self,
        stream: StreamId,
        version: u32,
        item: Item,
    ) -> Result<(), EngineError> {
        let mut published = self.published.lock();
        let items = &mut published[stream.0 as usize];
        items.push(item);
        if items.len() == version as usize {
            return Ok(());
        }
        Err(EngineError::Contract(format!(
            "version {version} of stream {} was published after {}",
            stream.0,
            items.len() - 1
        )))
    }

    /// Adds to a context what was copied out of another processor's.
    pub(super) fn import(
        &self,
        owner: Owner,
        stream: StreamId,
        exported: &Exported,
    ) -> Result<(), EngineError> {
        let items = self.items(stream, exported.version)?;
        let slot = self.slot(owner)?;
        let mut held = slot.lock();
        if held.version() >= Some(exported.version) {
            return Ok(());
        }
        // Without anything before it, it begins with the system prompt.
        let (before, mut end, from) = match exported.after {
            Some(after) => (after as usize + 1, self.end(&held, owner, after)?, after),
            None => (0, 0, 0),
        };
        let mut ends = Vec::new();
        if before == 0 {
            end = self.setup.system_tokens;
            ends.push(end);
        }
        ends.extend(items.iter().skip(from as usize).map(|item| {
            end += tokens_of(item);
            end
        }));
        let blocks = exported.blocks.iter();
        let copied: usize = blocks.map(|block| block.versions as usize).sum();
        if ends.len() != exported.by.len() || ends.len() != copied {
            return Err(EngineError::Contract(format!(
                "{} versions were to be copied, {copied} were, and of {} it is known who computed them",
                ends.len(),
                exported.by.len()
            )));
        }
        let mut versions = ends.into_iter().zip(&exported.by);
        let copies: Vec<State> = exported
            .blocks
            .iter()
            .map(|block| State {
                versions: (&mut versions)
                    .take(block.versions as usize)
                    .map(|(end, &by)| Version { end, by })
                    .collect(),
                bytes: block.state.clone(),
            })
            .collect();
        held.append(before, &copies, self.keeps(owner))
            .map_err(|error| self.error(error))
    }
}

/// Tokens that an item adds to a context.
pub(super) fn tokens_of(item: &Item) -> u32 {
    match *item {
        Item::Frame { tokens, .. } | Item::Answer { tokens, .. } => tokens,
        Item::Query { .. } => 0,
    }
}

/// The first of the greatest.
pub(super) fn most_likely(logits: &[f32]) -> Token {
    let mut best = 0;
    for (index, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = index;
        }
    }
    // A vocabulary is counted by the same type.
    Token::try_from(best).unwrap_or(Token::MAX)
}

/// A part of a piece: what one computation takes.
pub(super) enum Part<'p> {
    Tokens(&'p [Token]),
    Embeddings(&'p [f32]),
}

/// Cuts a piece into chunks, the same whoever feeds it. `each` learns whether logits are wanted.
pub(super) fn feed(
    piece: &Piece,
    logits: bool,
    chunk: u32,
    width: usize,
    mut each: impl FnMut(Part<'_>, bool) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let chunk = chunk.max(1) as usize;
    match piece {
        Piece::Tokens(tokens) => {
            let chunks = tokens.len().div_ceil(chunk);
            for (index, part) in tokens.chunks(chunk).enumerate() {
                each(Part::Tokens(part), logits && index + 1 == chunks)?;
            }
        }
        Piece::Embeddings(numbers) => {
            for part in numbers.chunks(chunk * width.max(1)) {
                each(Part::Embeddings(part), false)?;
            }
        }
    }
    Ok(())
}

impl KvStore for Store {
    fn export(
        &self,
        owner: Owner,
        version: u32,
        held: Option<u32>,
    ) -> Result<Exported, EngineError> {
        let missing = || self.not_resident(owner, version);
        let slot = self.slots.lock().get(&owner).cloned();
        let from = held.map_or(0, |held| held as usize + 1);
        let copies = slot
            .ok_or_else(missing)?
            .copy(from, version as usize + 1)
            .map_err(|error| self.error(error))?
            .ok_or_else(missing)?;
        let copied = copies.iter().flat_map(|copy| &copy.versions);
        let by: Vec<_> = copied.map(|version| version.by).collect();
        let blocks = copies.iter().map(|copy| Block {
            versions: copy.versions.len() as u32,
            state: copy.bytes.clone(),
        });
        Ok(Exported {
            // Something was copied, or else it is what the importer holds.
            version: (from + by.len()).saturating_sub(1) as u32,
            after: held,
            blocks: blocks.collect(),
            by,
        })
    }
}
