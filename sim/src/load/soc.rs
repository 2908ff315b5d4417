//! The SoC profile: engines, lanes, memory, power and what contention is computed from.

use super::contention::{self, ContentionData};
use super::document::Place;
use super::file::File;
use super::{heat, names, suggest};
use crate::diag::Diagnostic;
use crate::spec::soc::{EngineKind, SocFile};
use crate::world::{
    ENGINES_MAX, Engine, EngineId, EnginePower, HeatPlan, LANES_MAX, Lane, LaneId, PowerPlan,
};

/// A SoC, checked.
#[derive(Debug)]
pub(super) struct Soc {
    /// By [`EngineId`]; `kv_budget` is the profile's, or all there is.
    pub(super) engines: Vec<Engine>,
    /// By [`LaneId`].
    pub(super) lanes: Vec<Lane>,
    /// Contention model and its parameters.
    pub(super) contention: ContentionData,
    /// Power, if all of it is stated.
    pub(super) power: Option<PowerPlan>,
    /// Heat, if stated.
    pub(super) heat: Option<HeatPlan>,
    /// What to tell the user.
    pub(super) warnings: Vec<String>,
}

impl Soc {
    /// The engine called `name`.
    pub(super) fn engine(&self, name: &str) -> Option<EngineId> {
        let at = self.engines.iter().position(|engine| engine.name == name)?;
        Some(EngineId(at as u8))
    }

    /// The lane called `name`.
    pub(super) fn lane(&self, name: &str) -> Option<LaneId> {
        let at = self.lanes.iter().position(|lane| lane.name == name)?;
        Some(LaneId(at as u8))
    }

    /// Names of the engines.
    pub(super) fn engine_names(&self) -> Vec<&str> {
        self.engines.iter().map(|e| e.name.as_str()).collect()
    }

    /// Names of the lanes.
    pub(super) fn lane_names(&self) -> Vec<&str> {
        self.lanes.iter().map(|lane| lane.name.as_str()).collect()
    }

    /// Whether `engine` has a lane.
    pub(super) fn has_lane(&self, engine: EngineId) -> bool {
        self.lanes.iter().any(|lane| lane.engine == engine)
    }
}

/// The port behind which costs were measured, GB/s.
fn measured_port(engine: &crate::spec::soc::Engine) -> f64 {
    let other = engine.measured_port_gbps.as_ref();
    other.unwrap_or(&engine.port_gbps).value
}

/// Compute rate ÷ that with which costs were measured.
fn compute_ratio(engine: &crate::spec::soc::Engine) -> f64 {
    let ratio = engine.compute_ratio.as_ref();
    ratio.map_or(1.0, |ratio| ratio.value)
}

/// Checks the profile; what is at fault is left out of the result.
pub(super) fn lower(file: &File<SocFile>, faults: &mut Vec<Diagnostic>) -> Soc {
    let raw = &file.raw;
    let root = file.root();
    let engines_place = root.key("engines");
    limit(
        &engines_place,
        "engines",
        raw.engines.len(),
        ENGINES_MAX,
        faults,
    );
    limit(
        &root.key("lanes"),
        "lanes",
        raw.lanes.len(),
        LANES_MAX,
        faults,
    );
    check_memory(file, faults);

    let mut missing_power = Vec::new();
    if raw.power.is_none() {
        missing_power.push("power.base_w".to_owned());
    }
    let mut engines = Vec::new();
    for (name, engine) in &raw.engines {
        let place = engines_place.key(name);
        names::check(&place, "engine", name, faults);
        for (key, given) in [("idle_w", &engine.idle_w), ("active_w", &engine.active_w)] {
            if given.is_none() {
                missing_power.push(format!("engines.{name}.{key}"));
            }
        }
        let power = engine.idle_w.as_ref().zip(engine.active_w.as_ref());
        if let Some((idle, active)) = power
            && active.value < idle.value
        {
            faults.push(place.key("active_w").fault(
                format!("engine `{name}` draws less while active than while idle"),
                format!("must be at least {} W", idle.value),
            ));
        }
        if let Some(peak) = &raw.memory.peak_gbps
            && engine.port_gbps.value > peak.value
        {
            faults.push(place.key("port_gbps").fault(
                format!("engine `{name}` streams faster than the memory's peak"),
                format!("must be at most {} GB/s", peak.value),
            ));
        }
        engines.push(Engine {
            name: name.clone(),
            kind: engine.kind,
            port_bytes_per_s: engine.port_gbps.value * 1e9,
            measured_port_bytes_per_s: measured_port(engine) * 1e9,
            compute_ratio: compute_ratio(engine),
            weight: engine.weight.value,
            kv_budget: engine
                .kv_budget_bytes
                .as_ref()
                .map_or(u64::MAX, |bytes| bytes.value as u64),
            power: power.map(|(idle, active)| EnginePower {
                idle_w: idle.value,
                active_w: active.value,
            }),
        });
    }

    let mut warnings = Vec::new();
    let wanted = 1 + 2 * raw.engines.len();
    let mut power = raw.power.as_ref().map(|power| PowerPlan {
        base_w: power.base_w.value,
        joules_per_byte: power.joules_per_gb.as_ref().map_or(0.0, |j| j.value * 1e-9),
    });
    if !missing_power.is_empty() {
        power = None;
        if missing_power.len() < wanted {
            warnings.push(format!(
                "energy is not reported: {} lacks {}",
                file.name(),
                suggest::quoted_list(missing_power.iter().map(String::as_str))
            ));
        }
    }
    for name in raw.engines.keys() {
        if !raw.lanes.values().any(|lane| lane.engine == *name) {
            warnings.push(format!(
                "engine `{name}` of {} has no lane: it runs nothing, and of its numbers only its idle power counts",
                file.name()
            ));
        }
    }
    let contention = contention::lower(file, faults);
    Soc {
        heat: heat::lower(file, &engines, power, faults),
        lanes: lower_lanes(file, faults),
        engines,
        contention,
        power,
        warnings,
    }
}

fn limit(place: &Place<'_>, what: &str, count: usize, most: usize, faults: &mut Vec<Diagnostic>) {
    if count == 0 || count > most {
        faults.push(place.key_fault(
            format!("a SoC with {count} {what}"),
            format!("must be 1 to {most}"),
        ));
    }
}

fn check_memory(file: &File<SocFile>, faults: &mut Vec<Diagnostic>) {
    let memory = &file.raw.memory;
    let place = file.root().key("memory");
    if memory.reserved_bytes.value >= memory.capacity_bytes.value {
        faults.push(place.key("reserved_bytes").fault(
            "the reserved memory leaves nothing",
            format!("must be less than {} bytes", memory.capacity_bytes.value),
        ));
    }
    if let Some(peak) = &memory.peak_gbps
        && memory.bandwidth_gbps.value > peak.value
    {
        faults.push(place.key("bandwidth_gbps").fault(
            "the sustained bandwidth is above the peak",
            format!("must be at most {} GB/s", peak.value),
        ));
    }
}

fn lower_lanes(file: &File<SocFile>, faults: &mut Vec<Diagnostic>) -> Vec<Lane> {
    let raw = &file.raw;
    let lanes_place = file.root().key("lanes");
    let mut lanes = Vec::new();
    for (name, lane) in &raw.lanes {
        let place = lanes_place.key(name);
        names::check(&place, "lane", name, faults);
        let Some((index, (_, engine))) = raw
            .engines
            .iter()
            .enumerate()
            .find(|(_, (engine, _))| **engine == lane.engine)
        else {
            faults.push(
                place
                    .key("engine")
                    .fault(
                        format!("lane `{name}` is on unknown engine `{}`", lane.engine),
                        "no such engine",
                    )
                    .help(suggest::hint(
                        &lane.engine,
                        "engines",
                        raw.engines.keys().map(String::as_str),
                    )),
            );
            continue;
        };
        let on_cpu = engine.kind == EngineKind::Cpu;
        let cores_place = place.key("cores");
        match &lane.cores {
            Some(_) if !on_cpu => faults.push(
                cores_place
                    .fault(
                        format!("lane `{name}` is not on a CPU"),
                        "`cores` has no effect here",
                    )
                    .help("state CPU work beside an engine as `host_cores` in the cost file"),
            ),
            Some(cores) if cores.value > raw.cpu.cores.value => faults.push(cores_place.fault(
                format!("lane `{name}` needs more cores than there are"),
                format!("must be at most {}", raw.cpu.cores.value),
            )),
            None if on_cpu => faults.push(
                place
                    .key_fault(
                        format!("lane `{name}` is on a CPU and lacks `cores`"),
                        "required on a CPU",
                    )
                    .help("add `cores = 4`: the cores that its own work keeps busy"),
            ),
            _ => {}
        }
        let pins = lane.pin_cores.clone().unwrap_or_default();
        for (index, pin) in pins.iter().enumerate() {
            if pins[..index].contains(pin) {
                faults.push(place.key("pin_cores").index(index).fault(
                    format!("lane `{name}` is pinned to core {pin} twice"),
                    "has no effect",
                ));
            }
        }
        lanes.push(Lane {
            name: name.clone(),
            engine: EngineId(index as u8),
            cores: lane.cores.as_ref().map_or(0.0, |cores| cores.value),
            pin_cores: pins,
        });
    }
    lanes
}
