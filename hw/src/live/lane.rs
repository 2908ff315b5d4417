//! The worker of one lane.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::spec::model::StageKind;
use sim::world::StreamId;

use super::store::{Piece, Store};
use super::vision::Tower;
use super::{Placed, Plan, Setup, content};
use crate::affinity;
use crate::engine::{CancelToken, Done, Engine, EngineError, Item, Notice, Order, Owner};
use crate::llama::Context;

#[derive(Debug)]
pub(super) struct LiveLane {
    plan: Plan,
    setup: Arc<Setup>,
    store: Arc<Store>,
    tower: Option<Tower>,
    /// What the lane computes a token in while it has nothing to do.
    idle: Option<Context>,
}

/// How long a lane waits before it computes a token for nothing; that takes a GPU about 2 ms, so that it is at
/// work half of the time. At a fifth of it, an H200 took 12 % more for a token than at work all the time.
const IDLE: Duration = Duration::from_millis(2);
/// How long a lane computes for nothing before a run: an H200 that had rested took 1 s to its full clock, and
/// its first prefills 2.3 times their time.
const SETTLE: Duration = Duration::from_secs(1);
/// Tokens of a context that is used for nothing.
const IDLE_TOKENS: u32 = 64;

impl LiveLane {
    pub(super) fn new(plan: Plan, setup: Arc<Setup>, store: Arc<Store>) -> Self {
        Self {
            plan,
            setup,
            store,
            tower: None,
            idle: None,
        }
    }

    fn llama<T>(&self, result: Result<T, crate::llama::LlamaError>) -> Result<T, EngineError> {
        result.map_err(|error| self.store.error(error))
    }

    fn width(&self) -> Result<usize, EngineError> {
        self.setup.width.get().copied().ok_or_else(|| {
            EngineError::Contract("no lane has a language model to project for".into())
        })
    }

    /// Encodes one frame, and projects it if asked to.
    fn encode(
        &mut self,
        stream: StreamId,
        frame: u32,
        tokens: u32,
        project: bool,
    ) -> Result<(), EngineError> {
        let tower = self.tower.as_mut().ok_or_else(|| {
            EngineError::Contract(format!("lane `{}` has no vision tower", self.plan.name))
        })?;
        let output = tower.encode(&self.setup.frames, stream, frame)?;
        let embedding = if project {
            content::project(&output, tokens, self.width()?)
        } else {
            output
        };
        let kind = self.plan.tower();
        self.setup.encoded.lock().insert((stream, frame), kind);
        self.setup
            .registry
            .put_embedding(stream, frame, embedding.into());
        Ok(())
    }

    fn encodes(&mut self, order: &Order, token: &CancelToken) -> Result<(), EngineError> {
        let stream = order.task.stream;
        if let Item::Frame { index, tokens } = order.item {
            // Projected too, unless that is a stage of its own.
            return self.encode(stream, index, tokens, !self.setup.projects);
        }
        let items = self.store.items(stream, order.reads)?;
        let frames: Vec<_> = items
            .into_iter()
            .rev()
            .filter_map(|item| match item {
                Item::Frame { index, tokens } => Some((index, tokens)),
                _ => None,
            })
            .take(order.task.size as usize)
            .collect();
        for (index, tokens) in frames.into_iter().rev() {
            token.check()?;
            // A preparation has no stage for it.
            self.encode(stream, index, tokens, true)?;
        }
        Ok(())
    }

    fn project(&self, order: &Order) -> Result<(), EngineError> {
        let Item::Frame { index, tokens } = order.item else {
            return Ok(());
        };
        let stream = order.task.stream;
        let output = self.setup.registry.embedding(stream, index);
        let output = output.ok_or_else(|| {
            EngineError::Contract(format!(
                "frame {index} of stream {} was not encoded",
                stream.0
            ))
        })?;
        let embedding = content::project(&output, tokens, self.width()?);
        self.setup
            .registry
            .put_embedding(stream, index, embedding.into());
        Ok(())
    }

    fn ingest(&self, order: &Order, token: &CancelToken) -> Result<(), EngineError> {
        let piece = self.store.piece(order.task.stream, &order.item)?;
        let slot = self.store.slot(order.owner)?;
        {
            let mut held = slot.lock();
            let end = self.store.end(&held, order.owner, order.reads)?;
            Self::agrees(order, end, order.task.context)?;
            self.llama(held.cut(order.reads, end))?;
        }
        self.store.push(&slot, &piece, false, token)?;
        self.store.complete(order.owner, &slot)?;
        if let Item::Frame { index, .. } = order.item
            && !self.setup.embedding_cache
        {
            self.setup.registry.drop_embedding(order.task.stream, index);
        }
        Ok(())
    }

    fn reconstruct(&self, order: &Order, token: &CancelToken) -> Result<(), EngineError> {
        let stream = order.task.stream;
        let items = self.store.items(stream, order.reads)?;
        let slot = self.store.slot(order.owner)?;
        let held = {
            let mut held = slot.lock();
            let end = self.llama(held.newest())?;
            Self::agrees(order, end, order.task.context)?;
            held.version()
        };
        if held.is_none() {
            let texts = &self.store.loaded()?.texts;
            let system = Piece::Tokens(texts.system(self.setup.system_tokens));
            self.store.push(&slot, &system, false, token)?;
            self.store.complete(order.owner, &slot)?;
        }
        for item in items.iter().skip(held.unwrap_or(0) as usize) {
            let piece = self.store.piece(stream, item)?;
            self.store.push(&slot, &piece, false, token)?;
            self.store.complete(order.owner, &slot)?;
        }
        Ok(())
    }

    /// Whether the scheduler and the store agree on how long the context is.
    fn agrees(order: &Order, held: u32, said: u32) -> Result<(), EngineError> {
        if held == said {
            return Ok(());
        }
        Err(EngineError::Contract(format!(
            "{:?} of version {} was ordered on {said} tokens, there are {held}",
            order.kind, order.reads
        )))
    }

    fn import(&self, order: &Order) -> Result<(), EngineError> {
        let held = self.store.slot(order.owner)?.lock().version();
        let source = self
            .setup
            .registry
            .store(order.task.source)
            .ok_or_else(|| {
                EngineError::Contract(format!("engine {} has no store", order.task.source.0))
            })?;
        let exported = source.export(order.owner, order.reads, held)?;
        self.store.import(order.owner, order.task.stream, &exported)
    }

    fn query_prefill(&self, order: &Order, token: &CancelToken) -> Result<Vec<u32>, EngineError> {
        let ticket = order.task.ticket;
        let piece = self.store.piece(order.task.stream, &order.item)?;
        let slot = self.store.fork(order.owner, order.reads, ticket)?;
        let held = slot.lock().context.len();
        Self::agrees(order, held, order.task.context)?;
        let next = self.store.push(&slot, &piece, true, token)?;
        let first = next.ok_or_else(|| {
            EngineError::Contract("a prompt without tokens has no next token".into())
        })?;
        {
            let mut held = slot.lock();
            held.last = Some(first);
            if let Item::Query { index, .. } = order.item {
                let placed = Placed {
                    versions: held.computed_by(),
                    answer: self.plan.engine,
                };
                let key = (order.task.stream, index);
                self.setup.placed.lock().insert(key, placed);
            }
        }
        if let Piece::Tokens(prompt) = piece {
            self.say(order, prompt, true);
        }
        self.say(order, vec![first], false);
        Ok(vec![first.cast_unsigned()])
    }

    /// Keeps what was said, where answers join the context.
    fn say(&self, order: &Order, tokens: Vec<i32>, anew: bool) {
        if let (Some(answers), Item::Query { index, .. }) = (&self.setup.answers, order.item) {
            let mut answers = answers.lock();
            let said = answers.entry((order.task.stream, index)).or_default();
            if anew {
                said.clear();
            }
            said.extend(tokens);
        }
    }

    fn decode(&self, order: &Order, token: &CancelToken) -> Result<Vec<u32>, EngineError> {
        let Item::Query { output, .. } = order.item else {
            return Err(EngineError::Contract("only queries are answered".into()));
        };
        let slot = self.store.slot(order.owner)?;
        let missing = || EngineError::Contract("decode without a query prefill".into());
        let mut last = slot.lock().last.ok_or_else(missing)?;
        let mut said = Vec::new();
        for _ in 0..output.saturating_sub(1).min(order.task.size) {
            let piece = Piece::Tokens(vec![last]);
            let next = self.store.push(&slot, &piece, true, token)?;
            last = next.ok_or_else(missing)?;
            said.push(last);
        }
        slot.lock().last = Some(last);
        self.say(order, said.clone(), false);
        Ok(said.into_iter().map(i32::cast_unsigned).collect())
    }
}

impl Engine for LiveLane {
    fn enter(&mut self) -> Result<(), EngineError> {
        affinity::pin(&self.plan.cores)?;
        // A graph without `encode` needs no tower, whatever the costs list.
        if self.plan.vision && self.plan.device.file(&self.setup.models).is_some() {
            let mut tower = self.setup.tower(&self.plan.tower())?;
            // Warms it up.
            tower.encode(&self.setup.frames, StreamId(0), 0)?;
            self.tower = Some(tower);
        }
        if self.plan.language {
            self.store.enter(self.plan.threads)?;
            if self.setup.options.keep_warm && self.store.on_device() {
                self.idle = Some(self.store.new_context()?);
                let began = Instant::now();
                while began.elapsed() < SETTLE {
                    self.keep_warm()?;
                }
            }
        }
        Ok(())
    }

    fn idles_for(&self) -> Option<Duration> {
        self.idle.is_some().then_some(IDLE)
    }

    fn keep_warm(&mut self) -> Result<(), EngineError> {
        let Some(context) = &mut self.idle else {
            return Ok(());
        };
        let texts = &self.store.loaded()?.texts;
        let keep = if context.len() >= IDLE_TOKENS {
            0
        } else {
            context.len()
        };
        let token = CancelToken::standalone();
        context
            .truncate(keep)
            .and_then(|()| context.push_tokens(&texts.system(1), true, &token))
            .map_err(|error| self.store.error(error))
    }

    fn run(&mut self, order: &Order, token: &CancelToken) -> Result<Done, EngineError> {
        token.check()?;
        let mut done = Done::default();
        match order.kind {
            StageKind::Encode => self.encodes(order, token)?,
            StageKind::Project => self.project(order)?,
            StageKind::Ingest => self.ingest(order, token)?,
            StageKind::Import => self.import(order)?,
            StageKind::Reconstruct => self.reconstruct(order, token)?,
            StageKind::QueryPrefill => done.tokens = self.query_prefill(order, token)?,
            StageKind::Decode => done.tokens = self.decode(order, token)?,
            StageKind::Export | StageKind::Custom => {
                return Err(EngineError::Contract(format!(
                    "a live engine was told to {:?}",
                    order.kind
                )));
            }
        }
        Ok(done)
    }

    fn notice(&mut self, notice: &Notice) -> Result<(), EngineError> {
        match *notice {
            Notice::Published {
                stream,
                version,
                item,
            } => self.store.publish(stream, version, item),
            Notice::Evicted { stream } => self.store.drop_slot(Owner::Stream(stream)),
            Notice::Ended {
                stream,
                ticket,
                item,
            } => {
                if let Item::Frame { index, .. } = item {
                    self.setup.registry.drop_embedding(stream, index);
                }
                self.store.drop_slot(Owner::Request(ticket))
            }
        }
    }
}
