//! The least of each resource that a load needs, the others as they are.

use super::probe::{Probe, Verdict};
use super::scale::Resource;
use super::search::Look;
use super::target::Target;
use super::{Case, PlanError};

/// Most and least that is tried, in times of the profile's.
const TIMES: (f64, f64) = (1.0 / 256.0, 64.0);
/// Times that lie closer are told apart no further.
const CLOSE: f64 = 0.02;

/// What a load needs of a resource.
#[derive(Clone, Debug)]
pub struct Need {
    /// The resource.
    pub resource: Resource,
    /// What the profile has, and its unit; absent for compute, which is in times.
    pub now: Option<(f64, &'static str)>,
    /// Times of it that were seen to miss a target, and the least that were seen to meet all.
    pub between: (Option<f64>, Option<f64>),
    /// Why more of it alone does not help.
    pub remark: Option<String>,
}

/// What a scenario needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// What tells it from others: a SoC, a model.
    pub title: String,
    /// What differs from the defaults or is assumed, in words.
    pub conditions: Vec<String>,
    /// Of each resource, the others as they are.
    pub list: Vec<Need>,
}

/// What the scenario as it is needs of each resource.
///
/// # Errors
///
/// Faults of the scenario; what a policy's script stopped a run with.
pub fn needs(case: &Case<'_>, title: &str, targets: &[Target]) -> Result<Needs, PlanError> {
    let world = case.own_world()?;
    let mut list = Vec::new();
    for resource in [
        Resource::Bandwidth,
        Resource::Compute(None),
        Resource::Memory,
    ] {
        let look = |times: f64, deep: bool| {
            let look = if deep { Look::Deep } else { Look::First };
            case.probe(None, Some((&resource, times)), targets, look)
                .map_err(PlanError::Stopped)
        };
        let meets = |times: f64, deep: bool| {
            Ok::<_, PlanError>(look(times, deep)?.verdict == Verdict::Meets)
        };
        let mut need = Need {
            now: match resource {
                Resource::Bandwidth => Some((world.memory.bandwidth / 1e9, "GB/s")),
                Resource::Memory => Some((world.memory.capacity as f64 / 1e9, "GB")),
                Resource::Compute(_) => None,
            },
            resource: resource.clone(),
            between: (None, None),
            remark: None,
        };
        let (mut low, mut high) = (1.0, 1.0);
        if meets(1.0, false)? {
            loop {
                low = (low / 2.0_f64).max(TIMES.0);
                if !meets(low, false)? {
                    break;
                }
                high = low;
                if low <= TIMES.0 {
                    need.remark = Some(format!("1/{:.0} of it is enough still", 1.0 / TIMES.0));
                    break;
                }
            }
        } else {
            loop {
                high = (high * 2.0_f64).min(TIMES.1);
                if meets(high, false)? {
                    break;
                }
                low = high;
                if high >= TIMES.1 {
                    need.remark = Some(format!(
                        "{:.0} times as much is not enough: something else limits",
                        TIMES.1
                    ));
                    break;
                }
            }
        }
        if need.remark.is_none() {
            while high / low > 1.0 + CLOSE {
                let middle = (low * high).sqrt();
                // Near the end, where a few runs cannot tell.
                let deep = high / low < 1.2;
                match look(middle, deep)?.verdict {
                    Verdict::Meets => high = middle,
                    Verdict::Misses => low = middle,
                    Verdict::Unclear => {
                        // Neither: the interval stays as wide as what is not known.
                        high = narrow(&look, middle, high, Verdict::Meets)?;
                        low = narrow(&look, middle, low, Verdict::Misses)?;
                        break;
                    }
                }
            }
            need.between = (Some(low), Some(high));
        } else if high < 1.0 {
            need.between = (None, Some(high));
        }
        list.push(need);
    }
    Ok(Needs {
        title: title.to_owned(),
        conditions: reports::facts::conditions_of(&world),
        list,
    })
}

/// From a place that is unclear towards one that is not, as far as the verdict holds.
fn narrow(
    look: &impl Fn(f64, bool) -> Result<Probe, PlanError>,
    unclear: f64,
    known: f64,
    wanted: Verdict,
) -> Result<f64, PlanError> {
    let (mut near, mut far) = (unclear, known);
    while (far / near).max(near / far) > 1.0 + CLOSE {
        let middle = (near * far).sqrt();
        if look(middle, true)?.verdict == wanted {
            far = middle;
        } else {
            near = middle;
        }
    }
    Ok(far)
}
