//! How the SoC warms up: needs the power of everything, and steps that follow each other.

use super::document::Place;
use super::file::File;
use super::suggest;
use crate::diag::Diagnostic;
use crate::spec::soc::SocFile;
use crate::world::{ENGINES_MAX, Engine, HeatPlan, HeatStep, PowerPlan};

/// Checks the profile's heat; `None` where there is none, or it is at fault.
pub(super) fn lower(
    file: &File<SocFile>,
    engines: &[Engine],
    power: Option<PowerPlan>,
    faults: &mut Vec<Diagnostic>,
) -> Option<HeatPlan> {
    let raw = file.raw.heat.as_ref()?;
    let place = file.root().key("heat");
    let Some(power) = power else {
        faults.push(
            place
                .key_fault(
                    "heat without power",
                    "how warm it gets follows from the power",
                )
                .help("add `[power]` with `base_w`, and `idle_w` and `active_w` of every engine"),
        );
        return None;
    };
    let idle_w = engines
        .iter()
        .filter_map(|engine| engine.power)
        .fold(power.base_w, |sum, engine| sum + engine.idle_w);
    let ambient = raw.ambient_c.value;
    let idle_c = ambient + raw.kelvin_per_watt.value * idle_w;
    let start_c = raw.start_c.as_ref().map_or(idle_c, |start| start.value);
    let steps = steps(file, &place, engines, faults);
    if let Some(first) = steps.first()
        && start_c >= first.from_c
    {
        let (at, why) = match &raw.start_c {
            Some(_) => (
                place.key("start_c"),
                format!("a run starts at {start_c} °C"),
            ),
            None => (
                place.key("kelvin_per_watt"),
                format!("the idle SoC, {idle_w} W, settles at {start_c} °C"),
            ),
        };
        faults.push(at.fault(
            why,
            format!("must be below the first step, {} °C", first.from_c),
        ));
    }
    Some(HeatPlan {
        ambient_c: ambient,
        kelvin_per_watt: raw.kelvin_per_watt.value,
        time_constant_s: raw.time_constant_s.value,
        start_c,
        idle_w,
        steps,
    })
}

fn steps(
    file: &File<SocFile>,
    place: &Place<'_>,
    engines: &[Engine],
    faults: &mut Vec<Diagnostic>,
) -> Vec<HeatStep> {
    let raw = file.raw.heat.iter().flat_map(|heat| &heat.steps);
    let mut steps: Vec<HeatStep> = Vec::new();
    for (index, step) in raw.enumerate() {
        let at = place.key("steps").index(index);
        let (from, until) = (step.from_c.value, step.until_c.value);
        if until >= from {
            faults.push(at.key("until_c").fault(
                format!("a step that is taken at {from} °C and left at {until} °C"),
                format!("must be below {from} °C"),
            ));
        }
        let mut speed = [1.0; ENGINES_MAX];
        if let Some(before) = steps.last() {
            speed = before.speed;
            for (key, value, least) in [
                ("from_c", from, before.from_c),
                ("until_c", until, before.until_c),
            ] {
                if value <= least {
                    faults.push(at.key(key).fault(
                        format!("step {} is no hotter than the one before it", index + 1),
                        format!("must be above {least} °C"),
                    ));
                }
            }
        }
        for (name, part) in &step.speed {
            let key = at.key("speed").key(name);
            let Some(engine) = engines.iter().position(|engine| engine.name == *name) else {
                faults.push(
                    key.key_fault(
                        format!("speed of unknown engine `{name}`"),
                        "no such engine",
                    )
                    .help(suggest::hint(
                        name,
                        "engines",
                        engines.iter().map(|engine| engine.name.as_str()),
                    )),
                );
                continue;
            };
            if part.value > speed[engine] {
                faults.push(key.fault(
                    format!("engine `{name}` gets faster as it gets hotter"),
                    format!("must be at most {}, as in the step before", speed[engine]),
                ));
            }
            if part.value == 0.0 {
                faults.push(
                    key.fault(
                        format!("engine `{name}` stands still"),
                        "must be above 0: what it runs would never end",
                    )
                    .help("an engine that nearly stops: 0.01"),
                );
            }
            speed[engine] = part.value;
        }
        steps.push(HeatStep {
            from_c: from,
            until_c: until,
            speed,
        });
    }
    steps
}
