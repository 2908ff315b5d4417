//! A context with its versions, and copies of them that nobody has to wait for.

use std::sync::Arc;

use parking_lot::{FairMutex, FairMutexGuard, Mutex};
use sim::world::EngineId;

use crate::llama::{Context, LlamaError, Token};

/// A version in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Tokens up to its end.
    pub(super) end: u32,
    /// Processor that computed its last item. State that is copied keeps it.
    pub(super) by: EngineId,
}

/// The state of versions that follow each other.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) versions: Vec<Version>,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// Copies of a context's versions, in their order, from the first on without a gap. It may end before the context
/// does: what it lacks has to be copied out of the context.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<State>>);

impl Kept {
    /// Appends what follows its first `before` versions, if it has those.
    fn push(&self, before: usize, copy: State) {
        let mut copies = self.0.lock();
        let has: usize = copies.iter().map(|copy| copy.versions.len()).sum();
        if has == before {
            copies.push(copy);
        }
    }

    /// Forgets all but the first `versions`.
    fn cut(&self, versions: usize) {
        let mut left = versions;
        self.0.lock().retain(|copy| {
            let keeps = copy.versions.len() <= left;
            left = if keeps { left - copy.versions.len() } else { 0 };
            keeps
        });
    }

    /// Versions `from..to`, if copies begin and end there.
    fn between(&self, from: usize, to: usize) -> Option<Vec<State>> {
        let mut at = 0;
        let mut found = Vec::new();
        for copy in self.0.lock().iter() {
            if at == to {
                break;
            }
            if at >= from {
                found.push(copy.clone());
            } else if at + copy.versions.len() > from {
                return None;
            }
            at += copy.versions.len();
        }
        (at == to).then_some(found)
    }
}

/// A context with what it holds. Fair, so that a lane which takes it for one computation after the other
/// lets a waiting reader in between.
#[derive(Debug)]
pub(super) struct Slot {
    held: FairMutex<Held>,
    kept: Arc<Kept>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) context: Context,
    /// Each version that is complete: version 0, the system prompt, and so on. Without one, every context
    /// holds version 0 from the start.
    versions: Vec<Version>,
    /// The answer's last token, of a request's context.
    pub(super) last: Option<Token>,
    kept: Arc<Kept>,
}

impl Slot {
    /// A context that holds these versions.
    pub(super) fn new(context: Context, versions: Vec<Version>) -> Self {
        let kept = Arc::new(Kept::default());
        if versions.last().is_some_and(|version| version.end == 0) {
            // Without a system prompt version 0 has no state.
            let bytes = Arc::default();
            let versions = versions.clone();
            kept.push(0, State { versions, bytes });
        }
        Self {
            held: FairMutex::new(Held {
                context,
                versions,
                last: None,
                kept: kept.clone(),
            }),
            kept,
        }
    }

    pub(super) fn lock(&self) -> FairMutexGuard<'_, Held> {
        self.held.lock()
    }

    pub(super) fn into_context(self) -> Context {
        self.held.into_inner().context
    }

    /// A copy of the versions `from..to`, or of those of them that it has. `None`: it has no version at all.
    ///
    /// One copy out of the context where nobody computes in it at the moment. Else those that were made when
    /// its versions were complete: a computation takes hundreds of times as long as a copy, and a
    /// published version is there to be read meanwhile. Without such copies this waits.
    pub(super) fn copy(&self, from: usize, to: usize) -> Result<Option<Vec<State>>, LlamaError> {
        let mut held = match self.held.try_lock() {
            Some(held) => held,
            None => match self.kept.between(from, to) {
                Some(copies) => return Ok(Some(copies)),
                None => self.held.lock(),
            },
        };
        if held.versions.is_empty() {
            return Ok(None);
        }
        let to = to.min(held.versions.len());
        if from >= to {
            return Ok(Some(Vec::new()));
        }
        Ok(Some(vec![held.copy_out(from, to)?]))
    }
}

impl Held {
    /// The newest version that it holds.
    pub(super) fn version(&self) -> Option<u32> {
        self.versions.len().checked_sub(1).map(|last| last as u32)
    }

    /// Tokens of a version, if it is held.
    pub(super) fn end_of(&self, version: u32) -> Option<u32> {
        Some(self.versions.get(version as usize)?.end)
    }

    /// Tokens of the newest version; whatever comes after it is forgotten.
    pub(super) fn newest(&mut self) -> Result<u32, LlamaError> {
        let end = self.end_before(self.versions.len());
        self.context.truncate(end)?;
        Ok(end)
    }

    /// Forgets everything after a version that is held.
    pub(super) fn cut(&mut self, version: u32, tokens: u32) -> Result<(), LlamaError> {
        self.forget(version as usize + 1, tokens)
    }

    fn forget(&mut self, versions: usize, tokens: u32) -> Result<(), LlamaError> {
        self.versions.truncate(versions);
        self.kept.cut(versions);
        self.context.truncate(tokens)
    }

    /// What a processor appended since the last version is the next one. `keep`: it is copied, for others to
    /// read while this context is computed in.
    pub(super) fn complete(&mut self, by: EngineId, keep: bool) -> Result<(), LlamaError> {
        let before = self.versions.len();
        let end = self.context.len();
        self.versions.push(Version { end, by });
        if keep {
            let copy = self.copy_out(before, before + 1)?;
            self.kept.push(before, copy);
        }
        Ok(())
    }

    /// Puts copies after its first `before` versions, in place of what was there. `keep`: as in [`Self::complete`].
    pub(super) fn append(
        &mut self,
        before: usize,
        copies: &[State],
        keep: bool,
    ) -> Result<(), LlamaError> {
        let mut end = self.end_before(before);
        self.forget(before, end)?;
        for copy in copies {
            let start = end;
            end = copy.versions.last().map_or(start, |version| version.end);
            self.context.import(start..end, &copy.bytes)?;
            if keep {
                self.kept.push(self.versions.len(), copy.clone());
            }
            self.versions.extend(&copy.versions);
        }
        Ok(())
    }

    /// The processors that computed its versions.
    pub(super) fn computed_by(&self) -> Vec<EngineId> {
        self.versions.iter().map(|version| version.by).collect()
    }

    /// Tokens of the first `versions`.
    fn end_before(&self, versions: usize) -> u32 {
        self.versions[..versions]
            .last()
            .map_or(0, |version| version.end)
    }

    fn copy_out(&mut self, from: usize, to: usize) -> Result<State, LlamaError> {
        let range = self.end_before(from)..self.end_before(to);
        let bytes = self.context.export(range)?;
        Ok(State {
            versions: self.versions[from..to].to_vec(),
            bytes: Arc::new(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::engine::CancelToken;
    use crate::live::Models;
    use crate::llama::{ContextOptions, Model, ModelOptions};

    const A: EngineId = EngineId(0);
    const B: EngineId = EngineId(1);

    /// As many versions as `count` after the first `before`, a token each; the state tells which they are.
    fn made(before: usize, count: usize) -> State {
        let ends = before..before + count;
        State {
            versions: ends
                .clone()
                .map(|end| Version {
                    end: end as u32,
                    by: A,
                })
                .collect(),
            bytes: Arc::new(ends.map(|end| end as u8).collect()),
        }
    }

    /// Whatever was appended and cut: what is found is what was asked for, and nothing is found that was cut.
    #[test]
    fn copies_are_those_that_were_asked_for() {
        const VERSIONS: usize = 7;
        // Appends 1 to 3 versions, or cuts back to 0 to 4.
        const STEPS: usize = 8;
        for course in 0..STEPS.pow(4) {
            let kept = Kept::default();
            // Where copies begin, and where the last ends.
            let mut edges = vec![0];
            for nth in 0..4 {
                let step = course / STEPS.pow(nth) % STEPS;
                let end = *edges.last().unwrap();
                if step < 3 {
                    kept.push(end, made(end, step + 1));
                    // Does not follow.
                    kept.push(end, made(end, step + 1));
                    edges.push(end + step + 1);
                } else {
                    kept.cut(step - 3);
                    edges.retain(|&edge| edge <= step - 3);
                }
            }
            for (from, to) in
                (0..VERSIONS).flat_map(|from| (from + 1..VERSIONS).map(move |to| (from, to)))
            {
                let found = kept.between(from, to).map(|copies| {
                    let states = copies.iter().flat_map(|copy| copy.bytes.to_vec());
                    states.collect::<Vec<_>>()
                });
                let there = edges.contains(&from) && edges.contains(&to);
                let asked = || (from as u8..to as u8).collect::<Vec<_>>();
                assert_eq!(found, there.then(asked), "{from}..{to} of {edges:?}");
            }
        }
    }

    fn context(model: &Arc<Model>) -> Context {
        let options = ContextOptions {
            tokens: 64,
            chunk: 16,
            threads: 1,
            offload: false,
            flash_attention: false,
        };
        Context::new(model, options).unwrap()
    }

    #[test]
    fn what_is_published_is_read_while_the_next_is_computed() {
        let file = Models::cached().unwrap().language;
        let model = Arc::new(Model::load(&file, &ModelOptions { device: None }).unwrap());
        let token = CancelToken::standalone();
        let source = Slot::new(context(&model), vec![Version { end: 0, by: A }]);
        for tokens in [[1, 2, 3], [4, 5, 6]] {
            let mut held = source.lock();
            held.context.push_tokens(&tokens, false, &token).unwrap();
            held.complete(A, true).unwrap();
        }
        let alone = source.copy(0, 3).unwrap().unwrap();
        assert_eq!(alone.len(), 1);

        // It is computed in until the copies are here.
        let computing = source.lock();
        let (copies, wait) = channel();
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| copies.send(source.copy(0, 3).unwrap().unwrap()));
            let beside = wait.recv_timeout(Duration::from_mins(1));
            drop(computing);
            beside
        });
        let beside = beside.expect("the reader does not wait for the context");
        assert_eq!(beside.len(), 3, "one of each version");

        // Either way it is the same state, which a third can have from the second.
        let taken = [alone, beside].map(|copies| {
            let slot = Slot::new(context(&model), Vec::new());
            slot.lock().append(0, &copies, true).unwrap();
            let all = slot.copy(0, 3).unwrap().unwrap().remove(0);
            assert_eq!(slot.lock().computed_by(), [A; 3]);
            all
        });
        assert_eq!(taken[0].bytes, taken[1].bytes);
        assert_eq!(taken[0].versions, taken[1].versions);

        // What is cut off is not to be had any more.
        let mut held = source.lock();
        held.cut(1, 3).unwrap();
        held.context.push_tokens(&[7, 8], false, &token).unwrap();
        held.complete(B, true).unwrap();
        drop(held);
        let anew = source.copy(2, 9).unwrap().unwrap();
        let end = Version { end: 5, by: B };
        assert_eq!(anew[0].versions, [end]);
        assert_ne!(anew[0].bytes, taken[0].bytes);
        let _computing = source.lock();
        assert_eq!(source.kept.between(2, 3).unwrap()[0].versions, [end]);
    }
}
