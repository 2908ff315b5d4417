//! The serial reference: one thing at a time, every item on one given processor.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::world::{EngineId, StreamId};

use super::store::{Part, Piece, Store, feed, most_likely, tokens_of};
use super::vision::Tower;
use super::{Placed, Setup, TowerKind, content};
use crate::engine::{CancelToken, EngineError, Item};
use crate::llama::{Context, LlamaError};
use crate::rig::{Answer, Outcome};

/// An answer that differs from its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Its stream.
    pub stream: StreamId,
    /// The query's number within the stream.
    pub index: u32,
    /// The first token that differs, from 0.
    pub at: usize,
    /// By how much the reference preferred its token there to the live one: difference of its logits. Small
    /// against their spread: a near tie, which rounding decides.
    pub gap: f32,
    /// The live answer.
    pub live: Vec<u32>,
    /// The reference's.
    pub reference: Vec<u32>,
}

impl Mismatch {
    /// A line about some of a run's answers; `None`: they are none.
    pub fn tell(differ: &[Self], answers: usize) -> Option<String> {
        let first = differ.first()?;
        let earliest = differ.iter().map(|answer| answer.at).min()?;
        let widest = differ.iter().map(|answer| answer.gap).fold(0.0, f32::max);
        Some(format!(
            "{} of {answers} answers differ, the first of them query {} of stream {}, from its token {} on; \
             earliest at token {earliest}; the reference preferred its own token by a logit of {widest:.3} at most",
            differ.len(),
            first.index,
            first.stream.0,
            first.at
        ))
    }
}

/// Plays a run's answers again, serially.
#[derive(Debug)]
pub struct Reference {
    setup: Arc<Setup>,
    stores: Vec<Arc<Store>>,
    /// `None`: each item where it was computed in the run.
    alone: Option<EngineId>,
    towers: Vec<(TowerKind, Tower)>,
}

/// A stream's context on one processor.
#[derive(Debug)]
struct Replica {
    context: Context,
    /// Its versions: who computed each, and the tokens up to its end.
    versions: Vec<(EngineId, u32)>,
}

/// A stream's contexts.
#[derive(Debug)]
struct Stream<'o> {
    id: StreamId,
    items: &'o [Item],
    outcome: &'o Outcome,
    copies: BTreeMap<EngineId, Replica>,
}

impl Reference {
    pub(super) fn new(setup: Arc<Setup>, stores: &[Arc<Store>], alone: Option<EngineId>) -> Self {
        Self {
            setup,
            stores: stores.to_vec(),
            alone,
            towers: Vec::new(),
        }
    }

    /// The answers of a run that differ from the reference.
    ///
    /// Each stream's items are prefilled in order, cut into the same chunks; at each version its queries are
    /// asked, and the context is cut back after each. Where the next item belongs to another processor,
    /// the state is copied there: a copy is exact, so the numbers are those of the run.
    pub fn check(&mut self, outcome: &Outcome) -> Result<Vec<Mismatch>, EngineError> {
        let mut streams: BTreeMap<StreamId, (Vec<Item>, Vec<&Answer>)> = BTreeMap::new();
        for &(stream, item) in &outcome.published {
            streams.entry(stream).or_default().0.push(item);
        }
        for answer in &outcome.answers {
            let stream = answer.completion.stream;
            streams.entry(stream).or_default().1.push(answer);
        }
        let mut differ = Vec::new();
        for (id, (items, mut answers)) in streams {
            answers.sort_by_key(|answer| (answer.completion.version, answer.completion.index));
            let mut stream = Stream {
                id,
                items: &items,
                outcome,
                copies: BTreeMap::new(),
            };
            for answer in answers {
                differ.extend(self.check_answer(&mut stream, answer)?);
            }
        }
        Ok(differ)
    }

    fn check_answer(
        &mut self,
        stream: &mut Stream<'_>,
        answer: &Answer,
    ) -> Result<Option<Mismatch>, EngineError> {
        let done = &answer.completion;
        let placed = self.placed(stream, answer)?;
        self.bring(stream, placed.answer, &placed.versions)?;
        let prompt =
            self.store(placed.answer)
                .loaded()?
                .texts
                .prompt(stream.id, done.index, done.prompt);
        let mut piece = Piece::Tokens(prompt);
        let context = self.held(stream, placed.answer)?;
        let end = context.context.len();
        let mut tokens: Vec<u32> = Vec::new();
        let mut first = None;
        for at in 0..done.output as usize {
            let logits = self.push(placed.answer, &mut context.context, &piece, true)?;
            let next = most_likely(&logits);
            tokens.push(next.cast_unsigned());
            let live = answer.tokens.get(at).copied();
            if first.is_none() && live != Some(next.cast_unsigned()) {
                let logit = |token: u32| logits.get(token as usize).copied();
                let gap = live.and_then(logit).zip(logit(next.cast_unsigned()));
                first = Some((at, gap.map_or(f32::NAN, |(live, own)| own - live)));
            }
            piece = Piece::Tokens(vec![next]);
        }
        let error = |error| self.store(placed.answer).error(error);
        context.context.truncate(end).map_err(error)?;
        if first.is_none() && answer.tokens.len() > tokens.len() {
            first = Some((tokens.len(), f32::NAN));
        }
        Ok(first.map(|(at, gap)| Mismatch {
            stream: stream.id,
            index: done.index,
            at,
            gap,
            live: answer.tokens.clone(),
            reference: tokens,
        }))
    }

    /// Where the answer is computed here.
    fn placed(&self, stream: &Stream<'_>, answer: &Answer) -> Result<Placed, EngineError> {
        let done = &answer.completion;
        let versions = done.version as usize + 1;
        if done.version as usize > stream.items.len() {
            return Err(EngineError::Contract(format!(
                "an answer reads version {} of stream {}, which was never published",
                done.version, stream.id.0
            )));
        }
        if let Some(engine) = self.alone {
            return Ok(Placed {
                versions: vec![engine; versions],
                answer: engine,
            });
        }
        let placed = self.setup.placed.lock();
        let placed = placed.get(&(stream.id, done.index)).cloned();
        placed
            .filter(|placed| placed.versions.len() == versions)
            .ok_or_else(|| {
                EngineError::Contract(format!(
                    "it is not known where answer {} of stream {} was computed",
                    done.index, stream.id.0
                ))
            })
    }

    fn store(&self, engine: EngineId) -> &Arc<Store> {
        &self.stores[engine.0 as usize]
    }

    fn held<'s>(
        &self,
        stream: &'s mut Stream<'_>,
        engine: EngineId,
    ) -> Result<&'s mut Replica, EngineError> {
        let entry = stream.copies.entry(engine);
        match entry {
            std::collections::btree_map::Entry::Occupied(there) => Ok(there.into_mut()),
            std::collections::btree_map::Entry::Vacant(free) => Ok(free.insert(Replica {
                context: self.store(engine).new_context()?,
                versions: Vec::new(),
            })),
        }
    }

    /// Makes an engine's context hold versions that were computed by these processors.
    fn bring(
        &mut self,
        stream: &mut Stream<'_>,
        engine: EngineId,
        by: &[EngineId],
    ) -> Result<(), EngineError> {
        let held = self.held(stream, engine)?;
        let alike = held.versions.iter().zip(by);
        let alike = alike.take_while(|((held, _), by)| held == *by).count();
        let end = alike.checked_sub(1).map_or(0, |last| held.versions[last].1);
        held.versions.truncate(alike);
        let error = |error| self.stores[engine.0 as usize].error(error);
        held.context.truncate(end).map_err(error)?;
        let Some((&last, before)) = by.split_last() else {
            return Ok(());
        };
        if alike == by.len() {
            return Ok(());
        }
        if last == engine {
            self.bring(stream, engine, before)?;
            let piece = self.piece(stream, engine, before.len())?;
            let held = self.held(stream, engine)?;
            self.push(engine, &mut held.context, &piece, false)?;
            held.versions.push((engine, held.context.len()));
            return Ok(());
        }
        self.bring(stream, last, by)?;
        // What came before the last version may have been computed here.
        let end = self.held(stream, engine)?.context.len();
        let source = self.held(stream, last)?;
        let (all, versions) = (source.context.len(), source.versions.clone());
        let state = source.context.export(end..all);
        let state = state.map_err(|error| self.store(last).error(error))?;
        let held = self.held(stream, engine)?;
        let taken = held.context.import(end..all, &state);
        taken.map_err(|error| self.store(engine).error(error))?;
        held.versions = versions;
        Ok(())
    }

    /// Appends a piece; the logits after it, if they are wanted.
    fn push(
        &self,
        engine: EngineId,
        context: &mut Context,
        piece: &Piece,
        logits: bool,
    ) -> Result<Vec<f32>, EngineError> {
        let store = self.store(engine);
        let token = CancelToken::standalone();
        let width = store.loaded()?.model.embedding();
        let mut after = Vec::new();
        feed(
            piece,
            logits,
            self.setup.options.chunk,
            width,
            |part, last| {
                let done: Result<(), LlamaError> = match part {
                    Part::Tokens(tokens) => context.push_tokens(tokens, last, &token),
                    Part::Embeddings(numbers) => context.push_embeddings(numbers, &token),
                };
                done.map_err(|error| store.error(error))?;
                if last {
                    after = context.logits().map(<[f32]>::to_vec).unwrap_or_default();
                }
                Ok(())
            },
        )?;
        Ok(after)
    }

    /// What makes a version: the system prompt, or an item; frames are encoded anew.
    fn piece(
        &mut self,
        stream: &Stream<'_>,
        engine: EngineId,
        version: usize,
    ) -> Result<Piece, EngineError> {
        let store = self.store(engine).clone();
        let texts = &store.loaded()?.texts;
        let Some(item) = version.checked_sub(1).map(|item| &stream.items[item]) else {
            return Ok(Piece::Tokens(texts.system(self.setup.system_tokens)));
        };
        let width = store.loaded()?.model.embedding();
        match *item {
            Item::Frame { index, tokens } if self.setup.encodes => {
                let output = self.encode(stream.id, index)?;
                let embeddings = content::project(&output, tokens, width);
                Ok(Piece::Embeddings(embeddings.into()))
            }
            Item::Answer { query, .. } => {
                let answer = stream.outcome.answers.iter().find(|answer| {
                    (answer.completion.stream, answer.completion.index) == (stream.id, query)
                });
                let answer = answer.ok_or_else(|| {
                    EngineError::Contract(format!("answer {query} joined without being given"))
                })?;
                let mut tokens = texts.prompt(stream.id, query, answer.completion.prompt);
                tokens.extend(answer.tokens.iter().map(|&token| token.cast_signed()));
                debug_assert_eq!(tokens.len() as u32, tokens_of(item));
                Ok(Piece::Tokens(tokens))
            }
            Item::Frame { .. } | Item::Query { .. } => store.piece(stream.id, item),
        }
    }

    fn encode(&mut self, stream: StreamId, frame: u32) -> Result<Vec<f32>, EngineError> {
        let encoded = self.setup.encoded.lock();
        let kind = encoded.get(&(stream, frame)).cloned();
        drop(encoded);
        let kind = kind.ok_or_else(|| {
            EngineError::Contract(format!(
                "frame {frame} of stream {} was never encoded",
                stream.0
            ))
        })?;
        let known = self.towers.iter().position(|(other, _)| *other == kind);
        let index = if let Some(index) = known {
            index
        } else {
            let tower = self.setup.tower(&kind)?;
            self.towers.push((kind, tower));
            self.towers.len() - 1
        };
        let tower = &mut self.towers[index].1;
        tower.encode(&self.setup.frames, stream, frame)
    }
}
