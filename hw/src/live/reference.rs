//! The serial reference: one context a stream, one thing at a time, nothing copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::world::{EngineId, StreamId};

use super::store::{Part, Piece, Store, feed, most_likely, tokens_of};
use super::{Setup, content};
use crate::engine::{CancelToken, EngineError, Item};
use crate::llama::{Context, ContextOptions, LlamaError};
use crate::onnx::Tower;
use crate::rig::{Answer, Outcome};

/// An answer that differs from its reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its stream.
    pub stream: StreamId,
    /// The query's number within the stream.
    pub index: u32,
    /// The first token that differs, from 0.
    pub at: usize,
    /// The live answer.
    pub live: Vec<u32>,
    /// The reference's.
    pub reference: Vec<u32>,
}

/// Plays a run's answers again, serially.
#[derive(Debug)]
pub struct Reference {
    setup: Arc<Setup>,
    threads: u32,
    store: Arc<Store>,
    tower: Option<Tower>,
}

impl Reference {
    pub(super) fn new(
        setup: Arc<Setup>,
        threads: u32,
        engine: EngineId,
        stores: &[Arc<Store>],
    ) -> Self {
        Self {
            setup,
            threads,
            store: stores[engine.0 as usize].clone(),
            tower: None,
        }
    }

    /// The answers of a run that differ from the reference.
    ///
    /// Each stream's items are prefilled in order into one context, cut into the same chunks; at each
    /// version its queries are asked, and the context is cut back after each.
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
        for (stream, (items, mut answers)) in streams {
            answers.sort_by_key(|answer| (answer.completion.version, answer.completion.index));
            self.check_stream(stream, &items, &answers, outcome, &mut differ)?;
        }
        Ok(differ)
    }

    fn check_stream(
        &mut self,
        stream: StreamId,
        items: &[Item],
        answers: &[&Answer],
        outcome: &Outcome,
        differ: &mut Vec<Mismatch>,
    ) -> Result<(), EngineError> {
        let mut context = self.context()?;
        let system = self.store.loaded()?.texts.system(self.setup.system_tokens);
        self.push(&mut context, &Piece::Tokens(system), false)?;
        let mut answers = answers.iter().peekable();
        for version in 0..=items.len() {
            if let Some(item) = version.checked_sub(1).and_then(|last| items.get(last)) {
                let piece = self.piece(stream, item, outcome)?;
                self.push(&mut context, &piece, false)?;
            }
            let end = context.len();
            while let Some(answer) =
                answers.next_if(|answer| answer.completion.version as usize == version)
            {
                let done = &answer.completion;
                let prompt = self
                    .store
                    .loaded()?
                    .texts
                    .prompt(stream, done.index, done.prompt);
                let mut tokens = Vec::new();
                let mut piece = Piece::Tokens(prompt);
                for _ in 0..done.output {
                    let next = self.push(&mut context, &piece, true)?.unwrap_or(0);
                    tokens.push(next.cast_unsigned());
                    piece = Piece::Tokens(vec![next]);
                }
                context
                    .truncate(end)
                    .map_err(|error| self.store.error(error))?;
                if tokens != answer.tokens {
                    let same = tokens.iter().zip(&answer.tokens);
                    differ.push(Mismatch {
                        stream,
                        index: done.index,
                        at: same.take_while(|(a, b)| a == b).count(),
                        live: answer.tokens.clone(),
                        reference: tokens,
                    });
                }
            }
        }
        match answers.next() {
            None => Ok(()),
            Some(answer) => Err(EngineError::Contract(format!(
                "an answer reads version {} of stream {}, which was never published",
                answer.completion.version, stream.0
            ))),
        }
    }

    fn context(&self) -> Result<Context, EngineError> {
        let options = ContextOptions {
            tokens: self.setup.context_tokens,
            chunk: self.setup.options.chunk,
            threads: self.threads,
            offload: false,
        };
        Context::new(&self.store.loaded()?.model, options).map_err(|error| self.store.error(error))
    }

    fn push(
        &self,
        context: &mut Context,
        piece: &Piece,
        logits: bool,
    ) -> Result<Option<i32>, EngineError> {
        let token = CancelToken::standalone();
        let width = self.store.loaded()?.model.embedding();
        let mut next = None;
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
                done.map_err(|error| self.store.error(error))?;
                if last {
                    next = context.logits().map(most_likely);
                }
                Ok(())
            },
        )?;
        Ok(next)
    }

    /// What an item put into a context; frames are encoded anew.
    fn piece(
        &mut self,
        stream: StreamId,
        item: &Item,
        outcome: &Outcome,
    ) -> Result<Piece, EngineError> {
        let width = self.store.loaded()?.model.embedding();
        match *item {
            Item::Frame { index, tokens } if self.setup.encodes => {
                let error = |error: crate::onnx::OnnxError| EngineError::Backend(error.to_string());
                if self.tower.is_none()
                    && let Some(path) = &self.setup.models.vision
                {
                    let library = self.setup.models.onnx_runtime.as_deref();
                    let tower = Tower::load(path, library, 1, super::lane::SIDE);
                    self.tower = Some(tower.map_err(error)?);
                }
                let Some(tower) = &mut self.tower else {
                    return Err(EngineError::Contract("there is no vision tower".into()));
                };
                let image = content::image(stream, index, tower.size());
                let output = tower.encode(&image).map_err(error)?;
                let embeddings = content::project(&output, tokens, width);
                Ok(Piece::Embeddings(embeddings.into()))
            }
            Item::Answer { query, .. } => {
                let answer = outcome.answers.iter().find(|answer| {
                    (answer.completion.stream, answer.completion.index) == (stream, query)
                });
                let answer = answer.ok_or_else(|| {
                    EngineError::Contract(format!("answer {query} joined without being given"))
                })?;
                let texts = &self.store.loaded()?.texts;
                let mut tokens = texts.prompt(stream, query, answer.completion.prompt);
                tokens.extend(answer.tokens.iter().map(|&token| token.cast_signed()));
                debug_assert_eq!(tokens.len() as u32, tokens_of(item));
                Ok(Piece::Tokens(tokens))
            }
            Item::Frame { .. } | Item::Query { .. } => self.store.piece(stream, item),
        }
    }
}
