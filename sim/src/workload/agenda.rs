//! The pending arrival of each source, in order of (time, source).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time of a source that has ended.
pub(super) const NEVER: u64 = u64::MAX;

/// Sources up to which a linear minimum beats a heap.
const SLOTS: usize = 8;

/// Time and source in one integer, so that one comparison orders both.
#[inline]
pub(super) fn key(time: u64, source: u32) -> u128 {
    u128::from(time) << 64 | u128::from(source)
}

/// The time of a key.
#[inline]
pub(super) fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

/// The source of a key.
#[inline]
pub(super) fn source_of(key: u128) -> usize {
    key as u32 as usize
}

/// At most one pending arrival per source.
#[derive(Clone, Debug)]
pub(super) enum Agenda {
    /// Few sources: one slot each.
    Slots(Box<[u64]>),
    /// Many.
    Heap(BinaryHeap<Reverse<u128>>),
}

impl Agenda {
    /// An empty agenda for this many sources.
    pub(super) fn new(sources: usize) -> Self {
        if sources <= SLOTS {
            Self::Slots(vec![NEVER; sources].into())
        } else {
            Self::Heap(BinaryHeap::with_capacity(sources))
        }
    }

    /// Forgets everything, keeps the memory.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Slots(times) => times.fill(NEVER),
            Self::Heap(heap) => heap.clear(),
        }
    }

    /// Adds a source that is not pending.
    pub(super) fn add(&mut self, time: u64, source: u32) {
        match self {
            Self::Slots(times) => times[source as usize] = time,
            Self::Heap(heap) if time < NEVER => heap.push(Reverse(key(time, source))),
            Self::Heap(_) => {}
        }
    }

    /// Gives `source`, which must be the first, a new time; [`NEVER`] removes it.
    #[inline]
    pub(super) fn renew_first(&mut self, time: u64, source: u32) {
        match self {
            Self::Slots(times) => times[source as usize] = time,
            Self::Heap(heap) => {
                if time == NEVER {
                    heap.pop();
                } else if let Some(mut top) = heap.peek_mut() {
                    // One sift down instead of a pop and a push.
                    *top = Reverse(key(time, source));
                }
            }
        }
    }

    /// The key of the earliest arrival, the lower source first among equals; its time is [`NEVER`]
    /// if there is none.
    #[inline]
    pub(super) fn first(&self) -> u128 {
        match self {
            Self::Slots(times) => {
                let (mut least, mut at) = (NEVER, 0);
                for (slot, &time) in (0..).zip(times) {
                    if time < least {
                        (least, at) = (time, slot);
                    }
                }
                key(least, at)
            }
            Self::Heap(heap) => heap.peek().map_or(key(NEVER, 0), |top| top.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use priority_queue::PriorityQueue;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Slots and heap against the `priority-queue` crate: same order, ties included.
        #[test]
        fn order_is_that_of_a_priority_queue(
            first in prop::collection::vec(0..20_u64, 1..20),
            gaps in prop::collection::vec(prop::option::weighted(0.9, 0..5_u64), 0..200),
        ) {
            let mut agenda = Agenda::new(first.len());
            let mut oracle = PriorityQueue::<_, _, RandomState>::with_default_hasher();
            for (source, &time) in (0..).zip(&first) {
                agenda.add(time, source);
                oracle.push(source, Reverse((time, source)));
            }
            for gap in gaps {
                let head = agenda.first();
                let Some((&source, &Reverse((time, _)))) = oracle.peek() else {
                    prop_assert_eq!(time_of(head), NEVER);
                    break;
                };
                prop_assert_eq!((time_of(head), source_of(head)), (time, source as usize));
                if let Some(gap) = gap {
                    agenda.renew_first(time + gap, source);
                    oracle.change_priority(&source, Reverse((time + gap, source)));
                } else {
                    agenda.renew_first(NEVER, source);
                    oracle.pop();
                }
            }
        }
    }
}
