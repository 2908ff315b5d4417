//! Policies by name, as scenario files and the command line give them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::Place;
use super::graph::Stages;
use super::soc::Soc;
use super::suggest;
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::dispatch::policy::script::Program;
use crate::spec::scenario::{Policy, Terms};
use crate::workload::StreamPlan;
use crate::world::LaneId;

/// Names of the policies.
const NAMES: [&str; 11] = [
    "state_aware",
    "single",
    "serial",
    "naive",
    "idle_first",
    "reuse_first",
    "fixed",
    "round_robin",
    "shortest_job_first",
    "earliest_deadline_first",
    "script",
];

/// Scripts by the path that the scenario (or the command line) gives; `None`: it has faults, which are told.
pub(super) type Scripts = BTreeMap<String, Option<Arc<Program>>>;

/// The path of a policy in short text, if that is a script: `script:my_policy.rhai`.
pub fn script_path(text: &str) -> Option<&str> {
    let path = text.trim().strip_prefix("script:")?.trim();
    (!path.is_empty()).then_some(path)
}

/// Reads a policy from short text: `state_aware`, `state_aware:w+p`, `single:cpu`, `serial`,
/// `script:my_policy.rhai`, …
///
/// # Errors
///
/// A message that says what is wrong and what would be right.
pub fn parse_policy(text: &str, lanes: &[&str]) -> Result<Policy, String> {
    let (name, parameter) = match text.split_once(':') {
        Some((name, parameter)) => (name.trim(), Some(parameter.trim())),
        None => (text.trim(), None),
    };
    let policy = match (name, parameter) {
        ("state_aware", None) => Policy::default(),
        ("state_aware", Some(terms)) => Policy::StateAware {
            terms: match terms {
                "w" => Terms::W,
                "w+p" => Terms::Wp,
                "w+p+s" => Terms::Wps,
                _ => {
                    return Err(format!(
                        "unknown terms `{terms}` of policy `state_aware`: one of `w`, `w+p`, `w+p+s`"
                    ));
                }
            },
        },
        ("single", Some(lane)) => {
            if !lanes.contains(&lane) {
                return Err(format!(
                    "unknown lane `{lane}` of policy `single`: {}",
                    suggest::hint(lane, "lanes", lanes.iter().copied())
                ));
            }
            Policy::Single {
                lane: lane.to_owned(),
            }
        }
        ("single", None) => {
            return Err(format!(
                "policy `single` needs a lane, as in `single:{}`",
                lanes.first().unwrap_or(&"cpu")
            ));
        }
        ("script", Some(path)) if !path.is_empty() => Policy::Script {
            script: path.to_owned(),
            params: BTreeMap::new(),
        },
        ("script", _) => {
            return Err("policy `script` needs a file, as in `script:my_policy.rhai`".to_owned());
        }
        ("serial", None) => Policy::Serial,
        ("naive", None) => Policy::Naive,
        ("idle_first", None) => Policy::IdleFirst,
        ("reuse_first", None) => Policy::ReuseFirst,
        ("fixed", None) => Policy::Fixed {
            lanes: BTreeMap::new(),
        },
        ("round_robin", None) => Policy::RoundRobin,
        ("shortest_job_first", None) => Policy::ShortestJobFirst,
        ("earliest_deadline_first", None) => Policy::EarliestDeadlineFirst,
        (name, Some(parameter)) if NAMES.contains(&name) => {
            return Err(format!(
                "policy `{name}` takes no parameter, but `{parameter}` is given: write `{name}`"
            ));
        }
        _ => {
            return Err(format!(
                "unknown policy `{name}`: {}",
                suggest::hint(name, "one of", NAMES)
            ));
        }
    };
    Ok(policy)
}

/// Checks that the lanes and streams a policy names are there and can do the work.
pub(super) fn check(
    policy: &Policy,
    place: &Place<'_>,
    soc: &Soc,
    stages: &Stages,
    table: &CostTable,
    streams: &[StreamPlan],
    faults: &mut Vec<Diagnostic>,
) {
    match policy {
        Policy::Single { lane } => {
            let at = place.key("single").key("lane");
            faults.extend(check_lane(&at, lane, "policy `single`", soc, stages, table));
        }
        Policy::Fixed { lanes } => {
            let lanes_place = place.key("fixed").key("lanes");
            for (stream, lane) in lanes {
                let at = lanes_place.key(stream);
                if !streams.iter().any(|plan| plan.name == *stream) {
                    faults.push(
                        at.key_fault(
                            format!("policy `fixed` names unknown stream `{stream}`"),
                            "no such stream",
                        )
                        .help(suggest::hint(
                            stream,
                            "streams",
                            streams.iter().map(|plan| plan.name.as_str()),
                        )),
                    );
                }
                faults.extend(check_lane(&at, lane, "policy `fixed`", soc, stages, table));
            }
        }
        _ => {}
    }
}

/// Checks that the script of a policy has been read.
pub(super) fn check_script(
    policy: &Policy,
    place: &Place<'_>,
    scripts: &Scripts,
) -> Option<Diagnostic> {
    let Policy::Script { script, .. } = policy else {
        return None;
    };
    (!scripts.contains_key(script)).then(|| {
        let message = format!("the script `{script}` has not been read");
        place
            .key("script")
            .fault(message, "only the scenario's own is")
            .help("name it in the scenario: `policy = { script = \"…\" }`")
    })
}

fn check_lane(
    place: &Place<'_>,
    lane: &str,
    who: &str,
    soc: &Soc,
    stages: &Stages,
    table: &CostTable,
) -> Option<Diagnostic> {
    let Some(id) = soc.lane(lane) else {
        return Some(
            place
                .fault(format!("{who} names unknown lane `{lane}`"), "no such lane")
                .help(suggest::hint(lane, "lanes", soc.lane_names())),
        );
    };
    let stage = cannot_answer(id, soc, stages, table)?;
    Some(place.fault(
        format!("{who} names lane `{lane}`, which cannot answer"),
        format!("its engine has no cost of `{stage}`"),
    ))
}

/// A stage of an answer that the lane's engine cannot run.
pub(super) fn cannot_answer<'s>(
    lane: LaneId,
    soc: &Soc,
    stages: &'s Stages,
    table: &CostTable,
) -> Option<&'s str> {
    let engine = soc.lanes[lane.0 as usize].engine;
    stages
        .bound()
        .into_iter()
        .find(|&stage| table.get(engine, stage).is_none())
        .map(|stage| stages.get(stage).name.as_str())
}
