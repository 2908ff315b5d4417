//! Versioned contexts: their items and windows, and what of a version a resident lacks.
//!
//! A stream's context is a row of *items*: its frames and, if asked, its answers, in order. Version v
//! is the context after the first v items. It keeps the items after `low(v)`, and the attention sinks.

use std::collections::VecDeque;

use super::residency::Resident;
use super::state::JobId;
use crate::spec::scenario::Keep;
use crate::time::Instant;

/// One item of a context, and the version that it completes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextItem {
    /// Tokens of all items up to this one, the system prompt included.
    pub(crate) total: u64,
    /// Items up to this one are dropped from this version, but for the sinks.
    pub(crate) low: u32,
    /// Frames among the items up to this one (refused ones are in no item).
    pub(crate) frames: u32,
    /// Arrival of the newest frame among them.
    pub(crate) newest_frame: Option<Instant>,
    /// Hash chain over the items up to this one.
    pub(crate) digest: u64,
}

/// What becomes of a question among the answers that join its stream's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is in the system.
    Open,
    /// It is answered, and adds so many tokens once no earlier question is open.
    Joins(u32),
    /// It adds nothing.
    Passed,
}

/// A stream's context, its pending frames and waiting queries.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// Versions `base..`, the first being `items[0]`.
    pub(crate) items: VecDeque<ContextItem>,
    pub(crate) base: u32,
    /// Newest version that any accepted item makes.
    pub(crate) accepted: u32,
    /// Newest published version.
    pub(crate) published: u32,
    /// Versions that frames (not answers) made, newest last, as far as a window needs them.
    recent_frames: VecDeque<u32>,
    /// Items up to this one are sinks: the first frames, and the answers that joined before the last of them.
    sinks: u32,
    /// Tokens up to the last sink item.
    sink_total: u64,
    /// Jobs of the unpublished items, in order.
    pub(crate) pending: VecDeque<JobId>,
    /// Queries whose version is not published yet.
    pub(crate) waiting: Vec<JobId>,
    /// Where answers join: questions by number from the first that is open on, so that answers join in order
    /// of their questions, whichever is given first; and the tokens of those that wait for their turn.
    pub(crate) turns: VecDeque<(u32, Turn)>,
    pub(crate) unjoined: u64,
    /// Queries that could start, have not, and would be delayed by ingestion.
    pub(crate) ready_answers: u32,
    /// Queries of this stream that hold a lane.
    pub(crate) answering: u32,
    /// Frame stages and rebuilds of this stream that hold a lane.
    pub(crate) ingesting: u32,
    /// Frames that arrived, refused ones included, and when the first did.
    pub(crate) frames: u32,
    pub(crate) first_frame: Option<Instant>,
    /// Frames accepted but not yet published.
    pub(crate) pending_frames: u32,
}

/// One step of a hash chain (`SplitMix64`'s finaliser over the sum).
#[inline]
pub(crate) fn chain(digest: u64, item: u64) -> u64 {
    let mut z = digest
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(item)
        .wrapping_add(1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The item of a frame in the hash chain.
#[inline]
pub(crate) fn frame_item(index: u32, tokens: u32) -> u64 {
    (u64::from(index) << 32) | u64::from(tokens)
}

/// The item of an answer in the hash chain: told apart from frames by the top bit.
#[inline]
pub(crate) fn answer_item(query: u32, tokens: u32) -> u64 {
    (1 << 63) | frame_item(query, tokens)
}

impl StreamState {
    /// Empties the context; version 0 holds the system prompt.
    pub(crate) fn reset(&mut self, system_tokens: u32, stream_digest: u64) {
        self.items.clear();
        self.recent_frames.clear();
        self.pending.clear();
        self.waiting.clear();
        self.turns.clear();
        self.unjoined = 0;
        self.items.push_back(ContextItem {
            total: u64::from(system_tokens),
            low: 0,
            frames: 0,
            newest_frame: None,
            digest: stream_digest,
        });
        self.base = 0;
        self.accepted = 0;
        self.published = 0;
        self.sinks = 0;
        self.sink_total = u64::from(system_tokens);
        self.ready_answers = 0;
        self.answering = 0;
        self.ingesting = 0;
        self.frames = 0;
        self.first_frame = None;
        self.pending_frames = 0;
    }

    #[inline(always)]
    pub(crate) fn item(&self, version: u32) -> &ContextItem {
        &self.items[(version - self.base) as usize]
    }

    /// Tokens of the context at `version`.
    #[inline(always)]
    pub(crate) fn tokens(&self, version: u32, keep: Keep) -> u64 {
        let item = self.item(version);
        self.span(item.low, item.total, keep)
    }

    /// Tokens from `low` (exclusive) to a running total, sinks and system prompt included.
    #[inline(always)]
    fn span(&self, low: u32, total: u64, keep: Keep) -> u64 {
        if low == 0 {
            return total;
        }
        match keep {
            Keep::All => total,
            Keep::Window { .. } => total - self.item(low).total + self.sink_total,
            Keep::Sinks { .. } => {
                if low <= self.sinks {
                    total
                } else {
                    total - self.item(low).total + self.sink_total
                }
            }
        }
    }

    /// Tokens that a resident spans.
    pub(crate) fn resident_tokens(&self, resident: &Resident, keep: Keep) -> u64 {
        if resident.present {
            self.span(resident.low, self.item(resident.version).total, keep)
        } else {
            0
        }
    }

    /// Tokens of version `version + 1` if an item of `tokens` were accepted now: an upper bound for
    /// the check against the longest context.
    pub(crate) fn tokens_with(&self, tokens: u32, keep: Keep) -> u64 {
        let newest = self.item(self.accepted);
        match keep {
            Keep::All => newest.total + u64::from(tokens),
            Keep::Window { frames } | Keep::Sinks { recent: frames, .. } => {
                let low = if self.recent_frames.len() >= frames as usize {
                    self.recent_frames.front().copied().unwrap_or(0)
                } else {
                    newest.low
                };
                self.span(low.max(newest.low), newest.total, keep) + u64::from(tokens)
            }
        }
    }

    /// Accepts an item and returns the version that it will make.
    pub(crate) fn accept(
        &mut self,
        frame: Option<Instant>,
        tokens: u32,
        content: u64,
        keep: Keep,
    ) -> u32 {
        let last = *self.item(self.accepted);
        self.accepted += 1;
        let version = self.accepted;
        let mut low = last.low;
        if frame.is_some() {
            let window = match keep {
                Keep::All => None,
                Keep::Window { frames } => Some(frames),
                Keep::Sinks { recent, .. } => Some(recent),
            };
            if let Some(window) = window {
                self.recent_frames.push_back(version);
                while self.recent_frames.len() > window as usize {
                    if let Some(dropped) = self.recent_frames.pop_front() {
                        low = low.max(dropped);
                    }
                }
            }
        }
        let total = last.total + u64::from(tokens);
        if let Keep::Sinks { first, .. } = keep
            && last.frames < first
        {
            self.sinks = version;
            self.sink_total = total;
        }
        self.items.push_back(ContextItem {
            total,
            low,
            frames: last.frames + u32::from(frame.is_some()),
            newest_frame: frame.or(last.newest_frame),
            digest: chain(last.digest, content),
        });
        version
    }

    /// Whether a resident holds all of `version`, seen at a glance; a resident may also hold all that
    /// counts of a version without it, which [`Self::missing`] finds.
    #[inline(always)]
    pub(crate) fn covers(&self, resident: &Resident, version: u32) -> bool {
        resident.present
            && resident.version >= version
            && (resident.low == 0 || resident.low <= self.item(version).low)
    }

    /// Tokens of `version` that a resident lacks.
    #[inline(always)]
    pub(crate) fn missing(&self, resident: &Resident, version: u32, keep: Keep) -> u64 {
        if self.covers(resident, version) {
            return 0;
        }
        self.missing_in_detail(resident, version, keep)
    }

    #[inline(never)]
    fn missing_in_detail(&self, resident: &Resident, version: u32, keep: Keep) -> u64 {
        let item = self.item(version);
        let whole = self.span(item.low, item.total, keep);
        if !resident.present {
            return whole;
        }
        // Tokens of the items after `from` and up to `to`.
        let between = |from: u32, to: u32| {
            if from < to {
                self.item(to).total - self.item(from).total
            } else {
                0
            }
        };
        let sinks = match keep {
            Keep::Sinks { .. } => self.sinks,
            Keep::All | Keep::Window { .. } => 0,
        };
        let held_sinks = sinks.min(resident.version);
        let low = item.low.max(held_sinks);
        // Sinks that it never had, frames that left its window, and what came after it.
        between(held_sinks, sinks.min(item.low))
            + between(low, resident.low.min(version))
            + between(resident.version.max(low), version)
    }

    /// Says what becomes of an open question.
    pub(crate) fn take_turn(&mut self, question: u32, turn: Turn) {
        if let Ok(at) = self
            .turns
            .binary_search_by_key(&question, |&(index, _)| index)
        {
            self.turns[at].1 = turn;
            if let Turn::Joins(tokens) = turn {
                self.unjoined += u64::from(tokens);
            }
        }
    }

    /// The next answer whose turn has come: its question and tokens.
    pub(crate) fn next_to_join(&mut self) -> Option<(u32, u32)> {
        while let Some(&(question, turn)) = self.turns.front() {
            if turn == Turn::Open {
                return None;
            }
            self.turns.pop_front();
            if let Turn::Joins(tokens) = turn {
                self.unjoined -= u64::from(tokens);
                return Some((question, tokens));
            }
        }
        None
    }

    /// Takes back the items after `version`, which will never be published; nor will what waits to join them.
    pub(crate) fn forget_after(&mut self, version: u32) {
        for (_, turn) in &mut self.turns {
            if matches!(turn, Turn::Joins(_)) {
                *turn = Turn::Passed;
            }
        }
        self.unjoined = 0;
        self.items.truncate((version + 1 - self.base) as usize);
        self.recent_frames.retain(|&frame| frame <= version);
        self.accepted = version;
        if self.sinks > version {
            self.sinks = version;
            self.sink_total = self.item(version).total;
        }
    }

    /// Forgets items that no version in use needs: those below `keep_from`.
    pub(crate) fn prune(&mut self, keep_from: u32) {
        while self.base < keep_from && self.items.len() > 1 {
            self.items.pop_front();
            self.base += 1;
        }
    }
}
