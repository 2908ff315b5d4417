//! Policies in Rhai (<https://rhai.rs>): a script with the same view as a built-in policy.
//!
//! The text comes with the scenario and is compiled once ([`Program`]); a policy is a program with its
//! parameters and the state that the script keeps in `this`. A script sees numbers and names only, has no way to
//! files, clocks or random numbers, and works within bounds (`engine.rs`), so the same inputs give the same
//! effects. An error in it ends the run through [`View::stop`]. The guide for users is docs/policies.md.

mod alike;
mod engine;
mod facts;
#[cfg(test)]
mod fuzz;
mod program;
mod values;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use rhai::{Dynamic, ImmutableString};

use self::facts::{Facts, Names};
pub use self::program::Program;
use self::program::{Choice, Function};
use self::values::{CandidateValue, Params, RequestValue, Verdict, ViewValue};
use super::{Decision, Policy, Request, View};
use crate::diag::{Diagnostic, Faults};
use crate::spec::scenario::Param;
use crate::time::Duration;
use crate::world::{LaneId, World};

/// A script as a policy.
#[derive(Debug)]
pub(crate) struct Scripted {
    program: Option<Arc<Program>>,
    names: Arc<Names>,
    params: Params,
    /// What the script keeps between calls: `this`.
    state: RefCell<Dynamic>,
}

/// What went wrong beside the script's own errors: what it returned cannot be used.
struct Unusable {
    message: String,
    help: &'static str,
}

const SCORES: &str =
    "return a number, the lowest wins, or `()` where the lane is out of the question";
const DECISIONS: &str = "return `place(candidate)`, `place(candidate, busy_ns)`, `wait()` or `wait_all()`, a candidate, or its place in the list from 0";

impl Scripted {
    pub(crate) fn new(world: &World, params: &BTreeMap<String, Param>) -> Self {
        let value = |param: &Param| match param {
            Param::Flag(flag) => Dynamic::from(*flag),
            Param::Int(number) => Dynamic::from(*number),
            Param::Float(number) => Dynamic::from(*number),
            Param::Text(text) => Dynamic::from(ImmutableString::from(text.as_str())),
        };
        let params = params
            .iter()
            .map(|(name, param)| (name.as_str().into(), value(param)));
        let program = world.script.clone();
        Self {
            names: Arc::new(Names::of(world, program.as_deref())),
            program,
            params: Params(Arc::new(params.collect())),
            state: RefCell::new(engine::empty()),
        }
    }

    /// Calls a function of the script; an error ends the run.
    fn call(
        &self,
        view: &View<'_>,
        request: Request,
        function: Function,
        arguments: impl rhai::FuncArgs,
    ) -> Option<Dynamic> {
        let program = self.program.as_ref()?;
        let mut state = self.state.borrow_mut();
        let result = program.call(function, &mut state, self.params.clone(), arguments);
        match result {
            Ok(value) => Some(value),
            Err(fault) => {
                self.stop(view, request, fault);
                None
            }
        }
    }

    fn stop(&self, view: &View<'_>, request: Request, mut fault: Diagnostic) {
        let Some(program) = &self.program else {
            return;
        };
        let stream = &view.world().streams[view.stream(request).0 as usize].name;
        fault.label = format!(
            "{} {} of `{stream}`, {} s",
            facts::kind(view.state.job(request.0).class),
            view.index(request),
            view.now().as_secs_f64()
        );
        view.stop(Faults {
            list: vec![fault],
            sources: vec![(program.name().to_owned(), program.text().to_owned())],
        });
    }

    /// What a function returned, read by `read`; what cannot be read ends the run.
    fn returned<T>(
        &self,
        view: &View<'_>,
        request: Request,
        function: Function,
        value: Option<Dynamic>,
        read: impl FnOnce(&Dynamic) -> Result<T, Unusable>,
    ) -> Option<T> {
        let unusable = match read(&value?) {
            Ok(value) => return Some(value),
            Err(unusable) => unusable,
        };
        if let Some(program) = &self.program {
            let message = format!("`{}` returned {}", function.name(), unusable.message);
            let fault = program.fault_of(function, message);
            self.stop(view, request, fault.help(unusable.help));
        }
        None
    }

    fn facts(
        &self,
        view: &View<'_>,
        request: Request,
        lanes: impl Iterator<Item = LaneId>,
    ) -> Arc<Facts> {
        Arc::new(Facts::of(view, request, lanes, &self.names))
    }

    /// The candidate of the lowest score; ties go to the first.
    fn best(&self, view: &View<'_>, request: Request) -> Option<Decision> {
        let facts = self.facts(view, request, view.answer_lanes());
        let asked = RequestValue(Arc::clone(&facts));
        let all = ViewValue(Arc::clone(&facts));
        let mut best: Option<(Score, u8)> = None;
        for at in 0..facts.candidates.len() as u8 {
            let candidate = CandidateValue(Arc::clone(&facts), at);
            let arguments = (asked.clone(), candidate, all.clone());
            let value = self.call(view, request, Function::Score, arguments);
            let score = self.returned(view, request, Function::Score, value, score)?;
            if let Some(score) = score
                && best.is_none_or(|(least, _)| score.is_below(least))
            {
                best = Some((score, at));
            }
        }
        let Some((_, at)) = best else {
            return Some(Decision::Wait);
        };
        let lane = facts.candidates[at as usize].lane;
        if !self.has(Function::Busy) {
            return Some(Decision::Place(lane));
        }
        let candidate = CandidateValue(Arc::clone(&facts), at);
        let value = self.call(view, request, Function::Busy, (asked, candidate, all));
        let busy = self.returned(view, request, Function::Busy, value, busy)?;
        Some(Decision::PlaceFor(lane, busy))
    }

    fn decision(&self, view: &View<'_>, request: Request) -> Option<Decision> {
        let facts = self.facts(view, request, view.answer_lanes());
        let arguments = (
            RequestValue(Arc::clone(&facts)),
            values::candidates(&facts),
            ViewValue(Arc::clone(&facts)),
        );
        let value = self.call(view, request, Function::Decide, arguments);
        let verdict = self.returned(view, request, Function::Decide, value, |value| {
            verdict(&facts, value)
        })?;
        let lane = |at: u8| facts.candidates[at as usize].lane;
        Some(match verdict {
            Verdict::Place(at, None) => Decision::Place(lane(at)),
            Verdict::Place(at, Some(busy)) => Decision::PlaceFor(lane(at), busy),
            Verdict::Wait => Decision::Wait,
            Verdict::WaitAll => Decision::WaitAll,
        })
    }

    fn has(&self, function: Function) -> bool {
        self.program
            .as_ref()
            .is_some_and(|program| program.has(function))
    }
}

impl Policy for Scripted {
    fn rank(&self, view: &View<'_>, request: Request) -> u64 {
        if !self.has(Function::Rank) {
            return 0;
        }
        let facts = self.facts(view, request, std::iter::empty());
        let arguments = (RequestValue(Arc::clone(&facts)), ViewValue(facts));
        let value = self.call(view, request, Function::Rank, arguments);
        let rank = self.returned(view, request, Function::Rank, value, |value| {
            value.as_int().map_err(|kind| Unusable {
                message: format!("a value of type `{}`", engine::kind(kind)),
                help: "return a whole number: of ready requests the lowest is asked about first",
            })
        });
        // Signed order as unsigned order.
        rank.map_or(0, |rank| rank as u64 ^ 1 << 63)
    }

    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        let Some(program) = &self.program else {
            view.stop(Faults {
                list: vec![Diagnostic::new("", 0..0, "the world lacks its script", "")],
                sources: Vec::new(),
            });
            return Decision::WaitAll;
        };
        let decision = match program.choice() {
            Choice::Score => self.best(view, request),
            Choice::Decide => self.decision(view, request),
        };
        decision.unwrap_or(Decision::WaitAll)
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        if !self.has(Function::Ingest) {
            return view.earliest_ingest(item);
        }
        let facts = self.facts(view, item, view.ingest_lanes());
        if facts.candidates.is_empty() {
            return None;
        }
        let arguments = (
            RequestValue(Arc::clone(&facts)),
            values::candidates(&facts),
            ViewValue(Arc::clone(&facts)),
        );
        let value = self.call(view, item, Function::Ingest, arguments);
        let at = self.returned(view, item, Function::Ingest, value, |value| {
            match verdict(&facts, value)? {
                Verdict::Place(at, None) => Ok(at),
                _ => Err(Unusable {
                    message: "something else than a lane".to_owned(),
                    help: "return one of the candidates, or its place in the list from 0: frames do not wait",
                }),
            }
        });
        match at {
            Some(at) => Some(facts.candidates[at as usize].lane),
            // The run ends; until then it goes on as if the script had no say.
            None => view.earliest_ingest(item),
        }
    }

    fn reset(&mut self) {
        *self.state.borrow_mut() = engine::empty();
    }
}

/// A score. Whole numbers compare exactly with each other, and as floating point with others.
#[derive(Clone, Copy, Debug)]
enum Score {
    Int(i64),
    Float(f64),
}

impl Score {
    fn is_below(self, other: Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a < b,
            (a, b) => a.float() < b.float(),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

fn score(value: &Dynamic) -> Result<Option<Score>, Unusable> {
    if value.is_unit() {
        return Ok(None);
    }
    if let Ok(number) = value.as_int() {
        return Ok(Some(Score::Int(number)));
    }
    let message = match value.as_float() {
        Ok(number) if !number.is_nan() => return Ok(Some(Score::Float(number))),
        Ok(_) => "NaN, which is neither above nor below anything".to_owned(),
        Err(kind) => format!("a value of type `{}`", engine::kind(kind)),
    };
    Err(Unusable {
        message,
        help: SCORES,
    })
}

fn busy(value: &Dynamic) -> Result<Duration, Unusable> {
    let message = match value.as_int() {
        Ok(ns) => match u64::try_from(ns) {
            Ok(ns) => return Ok(Duration(ns)),
            Err(_) => format!("{ns}"),
        },
        Err(kind) => format!("a value of type `{}`", engine::kind(kind)),
    };
    Err(Unusable {
        message,
        help: "return whole nanoseconds from 0: for how long the lane will be busy with the request",
    })
}

fn verdict(facts: &Facts, value: &Dynamic) -> Result<Verdict, Unusable> {
    let wrong = |message: String| Unusable {
        message,
        help: DECISIONS,
    };
    if let Ok(at) = value.as_int() {
        let count = facts.candidates.len();
        return match u8::try_from(at) {
            Ok(at) if usize::from(at) < count => Ok(Verdict::Place(at, None)),
            _ => Err(wrong(format!("{at} where there are {count} candidates"))),
        };
    }
    let kind = engine::kind(value.type_name());
    if let Some(candidate) = value.clone().try_cast::<CandidateValue>() {
        return Ok(Verdict::Place(candidate.1, None));
    }
    value
        .clone()
        .try_cast::<Verdict>()
        .ok_or_else(|| wrong(format!("a value of type `{kind}`")))
}
