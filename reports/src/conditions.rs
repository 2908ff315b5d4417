//! The conditions of a run beside its workload, in words: what differs from the defaults, and what the
//! profile assumes of the SoC's surroundings.

use std::fmt::Write as _;

use sim::cost::Noise;
use sim::spec::scenario::{LengthPrediction, Policy};
use sim::world::{
    EngineId, HeatPlan, LaneId, MAX_PENDING_FRAMES_DEFAULT, MAX_REQUESTS_DEFAULT, StageId, World,
};

use crate::number::{bytes, percent, short};

/// One phrase for each kind of condition that is not the default; none where all are.
pub(crate) fn of(world: &World) -> Vec<String> {
    [
        background(world),
        limits(world),
        placement(world),
        streams(world),
        exclusive(world),
        beliefs(world),
        noise(world),
        world.heat.as_ref().map(|heat| self::heat(world, heat)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Those that all worlds have, then what further ones each policy has. The worlds differ in their policy.
pub(crate) fn of_all(worlds: &[World]) -> Vec<String> {
    let lists: Vec<Vec<String>> = worlds.iter().map(of).collect();
    let common = |text: &String| lists.iter().all(|list| list.contains(text));
    let mut all: Vec<String> = lists.iter().take(1).flatten().cloned().collect();
    all.retain(common);
    for (world, list) in worlds.iter().zip(&lists) {
        let own: Vec<&str> = list
            .iter()
            .filter(|text| !common(text))
            .map(String::as_str)
            .collect();
        if !own.is_empty() {
            all.push(format!("under {}: {}", world.policy, own.join("; ")));
        }
    }
    all
}

/// `head: a, b`; `None` without parts.
fn phrase(head: &str, parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| format!("{head} {}", parts.join(", ")))
}

/// Load of other software.
fn background(world: &World) -> Option<String> {
    let (memory, cpu) = (&world.memory, &world.cpu);
    let mut parts = Vec::new();
    if memory.background > 0 {
        parts.push(format!("holds {}", bytes(memory.background as f64)));
    }
    if memory.background_bandwidth > 0.0 {
        parts.push(format!(
            "draws {} of {} GB/s",
            short(memory.background_bandwidth / 1e9),
            short(memory.bandwidth / 1e9)
        ));
    }
    if cpu.background_cores > 0.0 {
        parts.push(format!(
            "keeps {} of {} CPU cores busy",
            cpu.background_cores, cpu.cores
        ));
    }
    phrase("other software", &parts)
}

/// What the scheduler may hold.
fn limits(world: &World) -> Option<String> {
    let counted = |count: u32, noun: &str, nouns: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {nouns}"),
    };
    let mut parts = Vec::new();
    if world.max_requests != MAX_REQUESTS_DEFAULT {
        let queries = counted(world.max_requests, "query", "queries");
        parts.push(format!("{queries} in the system"));
    }
    if world.max_pending_frames != MAX_PENDING_FRAMES_DEFAULT {
        let frames = counted(world.max_pending_frames, "frame", "frames");
        parts.push(format!("{frames} of a stream that wait"));
    }
    let memory = &world.memory;
    if memory.kv_budget < memory.capacity.saturating_sub(memory.taken) {
        parts.push(format!("{} of KV", bytes(memory.kv_budget as f64)));
    }
    for engine in &world.engines {
        if engine.kv_budget < memory.kv_budget {
            let most = bytes(engine.kv_budget as f64);
            parts.push(format!("{most} of KV on {}", engine.name));
        }
    }
    phrase("at most", &parts)
}

/// Stages that are fixed to lanes.
fn placement(world: &World) -> Option<String> {
    let stages = world.stages.iter().zip(&world.placement);
    let parts: Vec<String> = stages
        .filter_map(|(stage, lane)| {
            Some(format!("{} on {}", stage.name, lane_name(world, (*lane)?)))
        })
        .collect();
    phrase("fixed:", &parts)
}

/// Streams that the policy is told to keep on lanes.
fn streams(world: &World) -> Option<String> {
    let Policy::Fixed { lanes } = &world.policy else {
        return None;
    };
    let lanes = lanes.iter();
    let parts: Vec<String> = lanes
        .map(|(stream, lane)| format!("{stream} on {lane}"))
        .collect();
    phrase("streams fixed:", &parts)
}

fn lane_name(world: &World, lane: LaneId) -> &str {
    &world.lanes[lane.0 as usize].name
}

/// Stages that never run at the same time.
fn exclusive(world: &World) -> Option<String> {
    let groups = (0..u32::BITS).map(|bit| group(world, bit));
    let groups: Vec<String> = groups.filter(|group| !group.is_empty()).collect();
    phrase("never at the same time:", &groups)
}

/// The members of an exclusion; a stage that all its engines have in it stands for them.
fn group(world: &World, bit: u32) -> String {
    let mut members = Vec::new();
    for (index, stage) in world.stages.iter().enumerate() {
        let engines = || (0..world.engines.len() as u8).map(EngineId);
        let runs =
            engines().filter(|&engine| world.costs.get(engine, StageId(index as u8)).is_some());
        let within: Vec<EngineId> = engines()
            .filter(|engine| world.exclusive[engine.0 as usize][index] & (1 << bit) != 0)
            .collect();
        if within.len() > 1 && within == runs.collect::<Vec<_>>() {
            members.push(stage.name.clone());
            continue;
        }
        let names = within
            .iter()
            .map(|engine| &world.engines[engine.0 as usize].name);
        members.extend(names.map(|engine| format!("{}@{engine}", stage.name)));
    }
    members.join(" and ")
}

/// What the policy believes that is not so, or that no policy could know.
fn beliefs(world: &World) -> Option<String> {
    let mut parts = Vec::new();
    if world.believed_costs.is_some() {
        parts.push("costs of its own".to_owned());
    }
    match world.prediction {
        LengthPrediction::Mean => {}
        LengthPrediction::Exact => parts.push("the true length of every answer".to_owned()),
        LengthPrediction::Noisy { cv } => parts.push(format!(
            "the true length of every answer times a log-normal error, cv {}",
            short(cv)
        )),
    }
    phrase("the policy believes", &parts)
}

/// A spread that the costs have and the run leaves out.
fn noise(world: &World) -> Option<String> {
    let mut costs = world.costs.rows.iter().flatten().flatten();
    let spread = costs.any(|costs| costs.noise != Noise::None);
    (!world.noise && spread).then(|| "stage times are their means, without noise".to_owned())
}

fn heat(world: &World, heat: &HeatPlan) -> String {
    let mut text = format!(
        "heat: {} °C around, {} K/W, time constant {} s, {} °C at the start",
        short(heat.ambient_c),
        short(heat.kelvin_per_watt),
        short(heat.time_constant_s),
        short(heat.start_c)
    );
    for step in &heat.steps {
        let slower = world.engines.iter().zip(step.speed);
        let slower: Vec<String> = slower
            .filter(|(_, speed)| *speed < 1.0)
            .map(|(engine, speed)| format!("{} at {}", engine.name, percent(speed)))
            .collect();
        _ = write!(
            text,
            ", from {} °C down to {} °C {} of full speed",
            short(step.from_c),
            short(step.until_c),
            slower.join(" and ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::html;
    use crate::interval::Replicated;
    use crate::{json, table, toy};

    const SET: &str = "
exclusive = [[\"encode\", \"decode@cpu\"]]
policy = { fixed = { lanes = { front-1 = \"npu\" } } }
[background]
memory_bytes = 1.5e9
bandwidth_gbps = 3.0
cpu_cores = 2.0
[limits]
max_requests = 1
max_pending_frames = 7
kv_budget_bytes = 2e9
engine_kv_budget_bytes = { npu = 1e9 }
[placement]
encode = \"npu\"
[beliefs]
output_tokens = { noisy = { cv = 0.25 } }
";

    /// Nothing differs from the defaults unless it is set, and then each is told.
    #[test]
    fn what_differs_is_told_and_nothing_else() {
        let text = toy::scenario(0.2);
        assert_eq!(of(&toy::world(&text)), Vec::<String>::new());
        let set = text.replacen("[run]", &format!("{SET}[run]"), 1);
        let mut world = toy::world(&set);
        assert_eq!(
            of(&world),
            [
                "other software holds 1.50 GB, draws 3.00 of 20.0 GB/s, keeps 2 of 8 CPU cores busy",
                "at most 1 query in the system, 7 frames of a stream that wait, 2.00 GB of KV, 1.00 GB of KV on npu",
                "fixed: encode on npu",
                "streams fixed: front-1 on npu",
                "never at the same time: encode and decode@cpu",
                "the policy believes the true length of every answer times a log-normal error, cv 0.250",
            ]
        );
        world.prediction = LengthPrediction::Exact;
        world.heat = Some(HeatPlan {
            ambient_c: 25.0,
            kelvin_per_watt: 8.0,
            time_constant_s: 60.0,
            start_c: 30.0,
            idle_w: 1.7,
            steps: vec![sim::world::HeatStep {
                from_c: 80.0,
                until_c: 70.0,
                speed: [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            }],
        });
        let list = of(&world);
        assert_eq!(
            list[5],
            "the policy believes the true length of every answer"
        );
        assert_eq!(
            list[6],
            "heat: 25.0 °C around, 8.00 K/W, time constant 60.0 s, 30.0 °C at the start, from 80.0 °C down to 70.0 °C \
             cpu at 50 % of full speed"
        );
    }

    #[test]
    fn what_policies_share_is_told_once() {
        let set = toy::scenario(0.2).replacen("[run]", &format!("{SET}[run]"), 1);
        let fixed = toy::world(&set);
        let mut serial = toy::world(&set);
        serial.policy = Policy::Serial;
        let shared: Vec<String> = of(&serial);
        let own = "under fixed: streams fixed: front-1 on npu".to_owned();
        for worlds in [[&serial, &fixed], [&fixed, &serial]] {
            let worlds = worlds.map(|world| {
                let mut copy = toy::world(&set);
                copy.policy = world.policy.clone();
                copy
            });
            let expected = [&shared[..], std::slice::from_ref(&own)].concat();
            assert_eq!(of_all(&worlds), expected);
        }
        assert_eq!(of_all(&[fixed]), of(&toy::world(&set)));
    }

    #[test]
    fn every_output_shows_them() {
        let set = toy::scenario(0.2).replacen("[run]", &format!("{SET}[run]"), 1);
        let world = toy::world(&set);
        let (facts, list) = (Facts::of(&world, "toy.toml"), of(&world));
        let runs = Replicated {
            summaries: vec![sim::metrics::Summary::default()],
        };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let run = words(&table::run(&facts, &runs));
        let both = [("a".to_owned(), runs.clone())];
        let comparison = words(&table::comparison(&facts, &both, &table::Extras::default()));
        let document = json::summary(&facts, &runs);
        let text = document.to_string();
        let folder = html::Folder::read("toy", ("summary.json", &text), None);
        let page = html::page(&[folder.expect("it can be read")]).expect("it can be drawn");
        for text in &list {
            assert!(run.contains(text), "{text}\n{run}");
            assert!(comparison.contains(text), "{text}\n{comparison}");
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(document["conditions"], serde_json::json!(list));
    }
}
