//! What may have spoilt a measurement: other load, a host that took the cores away, clocks that changed.

use sim::spec::soc::EngineKind;
use sim::world::World;

use super::point::{Measured, Point};
use crate::cpu_time::CpuTime;

/// Part of a time beyond which something is said of it.
const WORTH_SAYING: f64 = 0.03;

/// What the system said when the measurement began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    load: Option<f64>,
    cpu_time: Option<CpuTime>,
}

impl Watch {
    /// Looks at the system.
    pub fn start() -> Self {
        let averages = std::fs::read_to_string("/proc/loadavg");
        Self {
            load: load(&averages.unwrap_or_default()),
            cpu_time: CpuTime::now(),
        }
    }
}

/// The load average of the last minute; `None` where the system does not tell.
fn load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// What to say of a measurement of a world's lanes that began with `watch` and ends now.
pub fn warnings(world: &World, measured: &Measured, watch: &Watch) -> Vec<String> {
    // The thread of a device's lane waits for the device.
    let computes = |name: &str| {
        let mut engines = world.engines.iter();
        engines.any(|engine| engine.name == name && engine.kind == EngineKind::Cpu)
    };
    since(measured, computes, watch, &Watch::start())
}

fn since(
    measured: &Measured,
    computes: impl Fn(&str) -> bool,
    began: &Watch,
    ended: &Watch,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let (disturbed, known) = measured.disturbed(computes);
    if disturbed * 20 > known {
        warnings.push(format!(
            "in {disturbed} of {known} samples the lane's thread had to wait for its core: other software is running, and the profile is slower than the machine"
        ));
    }
    if let Some(load) = began.load.filter(|&load| load > 0.5) {
        warnings.push(format!("the load average was {load} before it began"));
    }
    let looks = began.cpu_time.zip(ended.cpu_time);
    let stolen = looks.and_then(|(before, after)| after.since(before).stolen_share());
    if let Some(stolen) = stolen.filter(|&stolen| stolen > WORTH_SAYING) {
        warnings.push(format!(
            "of the CPU time that was wanted, the host gave {:.0} % to other machines",
            100.0 * stolen
        ));
    }
    for (point, series) in &measured.series {
        let Point::Clock { lane } = point else {
            continue;
        };
        let rates = series.wall.iter().copied();
        let (slowest, fastest) = rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| {
            (low.min(rate), high.max(rate))
        });
        if slowest < (1.0 - WORTH_SAYING) * fastest {
            warnings.push(format!(
                "the cores of lane `{lane}` counted {:.0} % slower at one time than at another: their clock changed, or somebody else had them",
                100.0 * (1.0 - slowest / fastest)
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::super::bench::Timed;
    use sim::spec::model::StageKind;

    use super::*;

    fn watch(load: f64, wanted: u64, stolen: u64) -> Watch {
        Watch {
            load: Some(load),
            cpu_time: Some(CpuTime { wanted, stolen }),
        }
    }

    #[test]
    fn the_system_is_read() {
        assert_eq!(load("0.52 0.58 0.59 1/467 2903"), Some(0.52));
        assert_eq!(load(""), None);
    }

    #[test]
    fn what_disturbs_is_said_and_what_does_not_is_not() {
        let mut measured = Measured::default();
        let mut add = |rate| {
            let point = Point::Clock { lane: "cpu".into() };
            let timed = Timed {
                wall_s: rate,
                cpu_s: None,
            };
            measured.add(point, timed);
        };
        add(1.0);
        add(0.99);
        let quiet = (watch(0.1, 1000, 40), watch(2.0, 2000, 45));
        let all = |_: &str| true;
        assert_eq!(
            since(&measured, all, &quiet.0, &quiet.1),
            Vec::<String>::new()
        );
        let mut slow = measured.clone();
        let timed = Timed {
            wall_s: 0.8,
            cpu_s: None,
        };
        slow.add(Point::Clock { lane: "cpu".into() }, timed);
        let loud = (watch(1.5, 1000, 40), watch(2.0, 2000, 240));
        let said = since(&slow, all, &loud.0, &loud.1);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said[1].contains("20 %") && said[2].contains("20 % slower"),
            "{said:?}"
        );
    }

    #[test]
    fn a_thread_that_waits_for_its_device_is_not_disturbed() {
        let mut measured = Measured::default();
        for engine in ["cpu", "gpu"] {
            for kind in [StageKind::Decode, StageKind::Import] {
                let point = Point::Stage {
                    engine: engine.into(),
                    kind,
                    size: 1,
                    context: 0,
                };
                let timed = Timed {
                    wall_s: 2.0,
                    cpu_s: Some(1.0),
                };
                measured.add(point, timed);
            }
        }
        let quiet = watch(0.1, 1000, 40);
        let said = since(&measured, |engine| engine == "cpu", &quiet, &quiet);
        assert!(
            said.len() == 1 && said[0].contains("in 1 of 1 samples"),
            "{said:?}"
        );
        assert!(since(&measured, |_| false, &quiet, &quiet).is_empty());
    }
}
