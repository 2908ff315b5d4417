//! The one loop that serves every executor: simulated, live, replayed, scripted.

use crate::diag::Faults;
use crate::dispatch::{Dispatcher, Effect, Effects, Input};
use crate::time::Instant;

/// Carries out effects and says what happened.
pub trait Executor {
    /// The next thing that happens, and when; times never fall. `None`: nothing more will happen.
    fn next(&mut self) -> Option<(Instant, Input)>;

    /// Carries out an effect at `now`.
    fn apply(&mut self, now: Instant, effect: &Effect);
}

/// Watches a run: metrics, traces, checks. It cannot tell simulated from live.
pub trait Sink {
    /// Something happened.
    fn input(&mut self, now: Instant, input: &Input);
    /// The scheduler asked for something.
    fn effect(&mut self, now: Instant, effect: &Effect);
}

impl Sink for () {
    fn input(&mut self, _: Instant, _: &Input) {}
    fn effect(&mut self, _: Instant, _: &Effect) {}
}

impl<S: Sink + ?Sized> Sink for &mut S {
    #[inline]
    fn input(&mut self, now: Instant, input: &Input) {
        (**self).input(now, input);
    }
    #[inline]
    fn effect(&mut self, now: Instant, effect: &Effect) {
        (**self).effect(now, effect);
    }
}

/// What is not there sees nothing.
impl<S: Sink> Sink for Option<S> {
    #[inline]
    fn input(&mut self, now: Instant, input: &Input) {
        if let Some(sink) = self {
            sink.input(now, input);
        }
    }
    #[inline]
    fn effect(&mut self, now: Instant, effect: &Effect) {
        if let Some(sink) = self {
            sink.effect(now, effect);
        }
    }
}

impl<A: Sink, B: Sink> Sink for (A, B) {
    #[inline]
    fn input(&mut self, now: Instant, input: &Input) {
        self.0.input(now, input);
        self.1.input(now, input);
    }
    #[inline]
    fn effect(&mut self, now: Instant, effect: &Effect) {
        self.0.effect(now, effect);
        self.1.effect(now, effect);
    }
}

/// Runs until nothing more happens, then closes. Returns the time of the last event.
///
/// # Errors
///
/// What the policy stopped the run with (see [`View::stop`](crate::dispatch::policy::View::stop)): an error in a
/// script. Built-in policies never do.
pub fn drive<E: Executor, S: Sink>(
    executor: &mut E,
    dispatcher: &mut Dispatcher<'_>,
    effects: &mut Effects,
    sink: &mut S,
) -> Result<Instant, Faults> {
    let mut last = Instant::ZERO;
    loop {
        let next = executor.next();
        let (now, input) = match &next {
            Some((now, input)) => (*now, input),
            None => (last, &Input::Close),
        };
        debug_assert!(now >= last, "INV-2: time fell from {last} to {now}");
        last = now;
        sink.input(now, input);
        dispatcher.handle(now, *input, effects);
        if let Some(faults) = dispatcher.take_fault() {
            effects.clear();
            return Err(faults);
        }
        for effect in effects.as_slice() {
            sink.effect(now, effect);
            executor.apply(now, effect);
        }
        effects.clear();
        if *input == Input::Close {
            return Ok(last);
        }
    }
}
