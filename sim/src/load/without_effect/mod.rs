//! Keys that a scenario sets and that change nothing. The rule:
//!
//! - A key about something that is not there (frames, queries, a stage) is a fault of the file (`structure`, and what is
//!   checked beside each table).
//! - A key that changes nothing with the values of others (`values`) or under the policy (`policy`) is a warning in that
//!   world, and a fault if it changes nothing in any world that was asked for ([`Inputs::read_by`](super::Inputs::read_by)):
//!   so policies can be compared, and keys be varied, over one file.
//! - `seed` and `replications` of what draws nothing at random are a warning only.
//!
//! What the policy decides is judged for values other than the default, which say what happens anyway.

mod policy;
mod structure;
mod values;

pub(super) use structure::check;

use super::compile::Parts;
use super::document::Place;
use crate::diag::Diagnostic;
use crate::world::World;

/// A key that is set, and why it changes nothing in a world.
pub(super) struct Idle<'d> {
    pub(super) place: Place<'d>,
    why: String,
    help: &'static str,
}

impl<'d> Idle<'d> {
    fn whatever_the_policy(place: Place<'d>, why: String) -> Self {
        let help = "leave the key out";
        Self { place, why, help }
    }

    fn under_the_policy(place: Place<'d>, why: String) -> Self {
        let help = "leave the key out, or choose a policy that reads it";
        Self { place, why, help }
    }

    fn title(&self) -> String {
        format!("{} has no effect", self.place.quoted())
    }

    /// The warning of one world.
    fn warning(&self) -> String {
        format!("{}: {}", self.title(), self.why)
    }

    /// The fault where it changes nothing in any world that is asked for.
    pub(super) fn fault(&self) -> Diagnostic {
        let fault = self.place.key_fault(self.title(), self.why.clone());
        fault.help(self.help)
    }
}

/// Keys that change nothing in a world, each once.
pub(super) fn of<'d>(parts: &Parts<'d>, world: &World) -> Vec<Idle<'d>> {
    let mut found = values::of(parts, world);
    for unread in policy::of(parts, world) {
        let known = |idle: &Idle<'_>| idle.place.path() == unread.place.path();
        if !found.iter().any(known) {
            found.push(unread);
        }
    }
    found
}

/// A word on each of them, and on a policy that has nothing to decide.
pub(super) fn warnings(parts: &Parts<'_>, world: &World) -> Vec<String> {
    let idle = of(parts, world);
    let mut found: Vec<String> = idle.iter().map(Idle::warning).collect();
    if world.streams.iter().any(|stream| stream.queries.is_some()) {
        found.extend(policy::undecided(&parts.scenario.root(), world));
    }
    found
}
