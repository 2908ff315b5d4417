//! What a steady workload asks for again and again, remembered exactly: by all that it depends on.

use std::cell::Cell;

use crate::contention::{ContentionModel, Load};
use crate::world::EngineId;

/// Slots, a power of two.
const MEMO_SLOTS: usize = 64;

/// Slowdowns of two and three loads, remembered exactly: a steady workload asks the same again. Those of
/// more are computed each time.
#[derive(Debug)]
pub(crate) struct SlowdownMemo {
    pairs: Slots<2>,
    triples: Slots<3>,
}

impl SlowdownMemo {
    pub(crate) fn new() -> Self {
        Self {
            pairs: Slots::new(),
            triples: Slots::new(),
        }
    }

    /// As [`ContentionModel::slowdowns`].
    #[inline]
    pub(crate) fn slowdowns(&self, model: &dyn ContentionModel, loads: &[Load], out: &mut [f64]) {
        match *loads {
            [] => {}
            [_] => out[0] = 1.0,
            [a, b] => out.copy_from_slice(&self.pairs.slowdowns(model, [a, b])),
            [a, b, c] => out.copy_from_slice(&self.triples.slowdowns(model, [a, b, c])),
            _ => model.slowdowns(loads, out),
        }
    }
}

/// Slowdowns of `N` loads.
#[derive(Debug)]
struct Slots<const N: usize>(Vec<Cell<Slot<N>>>);

#[derive(Clone, Copy, Debug)]
struct Slot<const N: usize> {
    loads: [Load; N],
    slowdowns: [f64; N],
}

impl<const N: usize> Slots<N> {
    fn new() -> Self {
        // No load equals one whose intensity is not a number.
        let nothing = Load {
            mu: f64::NAN,
            ..Load::NONE
        };
        let empty = Slot {
            loads: [nothing; N],
            slowdowns: [1.0; N],
        };
        Self(vec![Cell::new(empty); MEMO_SLOTS])
    }

    #[inline]
    fn slowdowns(&self, model: &dyn ContentionModel, loads: [Load; N]) -> [f64; N] {
        let hash = loads.iter().fold(0u64, |hash, load| {
            (hash.rotate_left(23) ^ load.mu.to_bits() ^ u64::from(load.engine.0))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let slot = &self.0[(hash >> 58) as usize % MEMO_SLOTS];
        let found = slot.get();
        if found.loads == loads {
            return found.slowdowns;
        }
        Self::slowdowns_anew(slot, model, loads)
    }

    #[cold]
    #[inline(never)]
    fn slowdowns_anew(
        slot: &Cell<Slot<N>>,
        model: &dyn ContentionModel,
        loads: [Load; N],
    ) -> [f64; N] {
        let mut slowdowns = [1.0; N];
        model.slowdowns(&loads, &mut slowdowns);
        slot.set(Slot { loads, slowdowns });
        slowdowns
    }
}

/// A request's stages on an engine alone, as believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// Query prefill, ns.
    pub(crate) prefill: u64,
    /// Query prefill and decode, ns.
    pub(crate) alone: u64,
    /// Memory intensities of the two.
    pub(crate) prefill_mu: f64,
    pub(crate) decode_mu: f64,
}

impl Service {
    pub(crate) const NONE: Self = Self {
        prefill: 0,
        alone: 0,
        prefill_mu: 0.0,
        decode_mu: 0.0,
    };
}

/// What a service depends on: engine, prompt, predicted answer, context.
pub(super) type ServiceKey = (EngineId, u32, u32, u32);

/// Services of recent sizes, remembered exactly.
#[derive(Debug)]
pub(crate) struct ServiceMemo {
    slots: [Cell<(ServiceKey, Service)>; MEMO_SLOTS],
}

impl ServiceMemo {
    pub(crate) fn new() -> Self {
        // No engine has this id.
        let none = (EngineId(u8::MAX), 0, 0, 0);
        Self {
            slots: std::array::from_fn(|_| Cell::new((none, Service::NONE))),
        }
    }

    /// The service of these sizes, which is computed where it is not remembered.
    #[inline(always)]
    pub(super) fn get(&self, key: ServiceKey, anew: impl FnOnce() -> Service) -> Service {
        let (engine, prompt, predicted, context) = key;
        let hash =
            (prompt ^ predicted.rotate_left(11) ^ context.rotate_left(21) ^ u32::from(engine.0))
                .wrapping_mul(0x9e37_79b9);
        let slot = &self.slots[(hash >> 26) as usize % MEMO_SLOTS];
        let (known, service) = slot.get();
        if known == key {
            return service;
        }
        let service = anew();
        slot.set((key, service));
        service
    }
}
