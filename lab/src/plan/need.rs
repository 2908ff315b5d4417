//! The least of each resource that a load needs, the others as they are.

use super::beyond;
use super::length::{self, Rise};
use super::probe::{Probe, Verdict};
use super::scale::Resource;
use super::search::Look;
use super::target::Target;
use super::{Case, Doubt, Ends, PlanError, doubt, scale};
use sim::load::Kind;

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
    /// Times that meet all with stage times at one end of their intervals, `None` where none was found; absent where no
    /// stage time has an interval.
    pub doubtful: Option<Ends<Option<f64>>>,
    /// Texts of the SoC's profile with these, in the same order.
    pub socs: (Option<String>, Option<String>),
    /// Why more of it alone does not help, what comes with more of it, or where between the ends nothing is told.
    pub remark: Option<String>,
    /// What was simulated, with times of the resource as its load, rising; the two ends as on the fresh draws that
    /// confirmed them.
    pub probes: Vec<Probe>,
    /// Targets whose metrics rise with the length of the runs, at the end that meets, else at the other.
    pub rises: Vec<Rise>,
}

/// What a scenario needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// What tells it from others: a SoC, a model.
    pub title: String,
    /// What differs from the defaults or is assumed, in words.
    pub conditions: Vec<String>,
    /// What of the stage times is not known.
    pub doubt: Doubt,
    /// What is to be said of all of them.
    pub remarks: Vec<String>,
    /// What was asked.
    pub targets: Vec<Target>,
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
    let inputs = case.inputs()?;
    let doubt = Doubt::of(&world, &inputs);
    let mut list = Vec::new();
    let mut remarks_of_all = Vec::new();
    for resource in [
        Resource::Bandwidth,
        Resource::Compute(None),
        Resource::Memory,
    ] {
        let mut looks = Looks::default();
        let verdict = |times: f64, look: Look| {
            let probe = case.probe(None, Some((&resource, times)), targets, look);
            let probe = probe.map_err(PlanError::Stopped)?;
            match probe.refused {
                // Weights that a memory does not hold are an answer; a profile that cannot be is none.
                Some(why) if resource != Resource::Memory => Err(PlanError::Question(why)),
                _ => Ok(looks.add(
                    Probe {
                        load: times,
                        ..probe
                    },
                    look,
                )),
            }
        };
        let (between, remark) = least(verdict)?;
        let mut remarks: Vec<String> = remark.into_iter().collect();
        if resource == Resource::Bandwidth && between.1.is_some_and(|times| times > 1.0) {
            remarks.push("every engine's port grows with it".to_owned());
        }
        remarks.extend(untold(between));
        remarks.extend(looks.doubted());
        if let Some((probe, _)) = looks.list.iter().find(|(probe, _)| probe.load == 1.0) {
            remarks_of_all = beyond::remarks(&world, probe);
        }
        let soc = |times: Option<f64>| {
            let text = inputs.file(Kind::Soc).1;
            times
                .map(|times| scale::soc(text, &world, &resource, times))
                .transpose()
        };
        let rises = match between.1.or(between.0) {
            Some(times) => length::rises_at(case, None, Some((&resource, times)), targets)
                .map_err(PlanError::Stopped)?,
            None => Vec::new(),
        };
        let doubtful = (doubt.numbers.0 > 0)
            .then(|| doubt::least(case, &resource, targets))
            .transpose()?;
        list.push(Need {
            doubtful,
            now: match resource {
                Resource::Bandwidth => Some((world.memory.bandwidth / 1e9, "GB/s")),
                Resource::Memory => Some((world.memory.capacity as f64 / 1e9, "GB")),
                Resource::Compute(_) => None,
            },
            socs: (soc(between.0)?, soc(between.1)?),
            between,
            remark: (!remarks.is_empty()).then(|| remarks.join("; ")),
            probes: looks.probes(),
            rises,
            resource,
        });
    }
    let mut conditions = reports::facts::conditions_of(&world);
    conditions.extend(doubt.condition());
    Ok(Needs {
        title: title.to_owned(),
        doubt,
        conditions,
        remarks: remarks_of_all,
        targets: targets.to_vec(),
        list,
    })
}

/// What was simulated on the way: of each place the deepest look.
#[derive(Default)]
struct Looks {
    list: Vec<(Probe, Look)>,
    /// Places whose verdict fresh draws denied.
    denied: Vec<f64>,
}

impl Looks {
    /// Adds a look; returns its verdict.
    fn add(&mut self, mut probe: Probe, look: Look) -> Verdict {
        let verdict = probe.verdict;
        let depth = |look: Look| match look {
            Look::First => 0,
            Look::Deep => 1,
            Look::Fresh => 2,
        };
        let known = self.list.iter().position(|(one, _)| one.load == probe.load);
        if let Some(at) = known {
            let (before, was) = &self.list[at];
            if depth(*was) > depth(look) {
                return verdict;
            }
            if look == Look::Fresh && before.verdict != verdict {
                self.denied.push(probe.load);
                probe.verdict = Verdict::Unclear;
            }
            self.list[at] = (probe, look);
        } else {
            self.list.push((probe, look));
        }
        verdict
    }

    fn doubted(&self) -> Option<String> {
        let least = self.denied.iter().copied().reduce(f64::min)?;
        let most = self.denied.iter().copied().fold(least, f64::max);
        let shown = if most > least {
            format!("{} looks from {least:.3} to {most:.3}", self.denied.len())
        } else {
            format!("{least:.3}")
        };
        Some(format!(
            "fresh draws do not confirm by a margin, so unclear: {shown} times"
        ))
    }

    fn probes(self) -> Vec<Probe> {
        let mut list: Vec<Probe> = self.list.into_iter().map(|(probe, _)| probe).collect();
        list.sort_by(|a, b| a.load.total_cmp(&b.load));
        list
    }
}

/// Where two ends are further apart than the search would leave them.
fn untold((low, high): (Option<f64>, Option<f64>)) -> Option<String> {
    let apart = high? / low? > (1.0 + CLOSE) * (1.0 + CLOSE);
    apart.then(|| "between them replications do not tell (--replications)".to_owned())
}

/// Times that miss and times that meet, with what is to be said of them.
type Least = ((Option<f64>, Option<f64>), Option<String>);

/// The least times of a resource that meet the targets, and the greatest below that miss one. Both are seen twice,
/// the second time on fresh draws: among the many that are looked at, one near the edge may come out well by chance.
pub(super) fn least<E>(
    mut verdict: impl FnMut(f64, Look) -> Result<Verdict, E>,
) -> Result<Least, E> {
    let (mut low, mut high) = (1.0, 1.0);
    if verdict(1.0, Look::First)? == Verdict::Meets {
        loop {
            low = (low / 2.0_f64).max(TIMES.0);
            if verdict(low, Look::First)? != Verdict::Meets {
                break;
            }
            high = low;
            if low <= TIMES.0 {
                let enough = format!("1/{:.0} of it is enough still", 1.0 / TIMES.0);
                return Ok(((None, Some(high)), Some(enough)));
            }
        }
    } else {
        loop {
            high = (high * 2.0_f64).min(TIMES.1);
            if verdict(high, Look::First)? == Verdict::Meets {
                break;
            }
            low = high;
            if high >= TIMES.1 {
                let scarce = format!(
                    "{:.0} times as much is not enough: something else limits",
                    TIMES.1
                );
                return Ok(((None, None), Some(scarce)));
            }
        }
    }
    while high / low > 1.0 + CLOSE {
        let middle = (low * high).sqrt();
        // Near the end a few runs cannot tell.
        let look = if high / low < 1.2 {
            Look::Deep
        } else {
            Look::First
        };
        match verdict(middle, look)? {
            Verdict::Meets => high = middle,
            Verdict::Misses => low = middle,
            Verdict::Unclear => {
                // Neither: the interval stays as wide as what is not known.
                high = narrow(&mut verdict, middle, high, Verdict::Meets)?;
                low = narrow(&mut verdict, middle, low, Verdict::Misses)?;
                break;
            }
        }
    }
    let low = confirmed(&mut verdict, low, TIMES.0, Verdict::Misses)?;
    let high = confirmed(&mut verdict, high, TIMES.1, Verdict::Meets)?;
    let doubt = (low.is_none() || high.is_none())
        .then(|| "an end was not confirmed on fresh draws, however far away".to_owned());
    Ok(((low, high), doubt))
}

/// The place nearest to `from`, on the way to `most`, whose verdict holds on more replications, and by a margin on fresh
/// draws.
fn confirmed<E>(
    verdict: &mut impl FnMut(f64, Look) -> Result<Verdict, E>,
    from: f64,
    most: f64,
    wanted: Verdict,
) -> Result<Option<f64>, E> {
    let (mut at, mut step) = (from, 1.0 + CLOSE);
    loop {
        if verdict(at, Look::Deep)? == wanted && verdict(at, Look::Fresh)? == wanted {
            return Ok(Some(at));
        }
        if at == most {
            return Ok(None);
        }
        at = if most > from {
            (at * step).min(most)
        } else {
            (at / step).max(most)
        };
        step *= step;
    }
}

/// From a place that is unclear towards one that is not, as far as the verdict holds.
fn narrow<E>(
    verdict: &mut impl FnMut(f64, Look) -> Result<Verdict, E>,
    unclear: f64,
    known: f64,
    wanted: Verdict,
) -> Result<f64, E> {
    let (mut near, mut far) = (unclear, known);
    while (far / near).max(near / far) > 1.0 + CLOSE {
        let middle = (near * far).sqrt();
        if verdict(middle, Look::Deep)? == wanted {
            far = middle;
        } else {
            near = middle;
        }
    }
    Ok(far)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn found(verdict: impl FnMut(f64, Look) -> Result<Verdict, Infallible>) -> Least {
        match least(verdict) {
            Ok(found) => found,
            Err(never) => match never {},
        }
    }

    fn above(edge: f64, times: f64) -> Verdict {
        if times >= edge {
            Verdict::Meets
        } else {
            Verdict::Misses
        }
    }

    #[test]
    fn both_ends_lie_at_the_edge() {
        for edge in [0.013, 0.4, 1.0, 3.3, 40.0] {
            let ((low, high), remark) = found(|times, _| Ok(above(edge, times)));
            let (low, high) = (low.expect("it misses"), high.expect("it meets"));
            assert!(low < edge && edge <= high && high / low < 1.03, "{edge}");
            assert_eq!(remark, None);
        }
    }

    #[test]
    fn an_end_that_fresh_draws_deny_moves_until_they_agree() {
        // Few runs put the edge at 0.5, draws that are fresh at 0.6.
        let ((low, high), _) = found(|times, look| {
            let edge = if look == Look::Fresh { 0.6 } else { 0.5 };
            Ok(above(edge, times))
        });
        let (low, high) = (low.expect("it misses"), high.expect("it meets"));
        assert!(low < 0.5 && low > 0.48, "{low}");
        assert!((0.6..0.7).contains(&high), "{high}");
    }

    /// To see it fail, say nothing of ends that lie apart.
    #[test]
    fn ends_between_which_nothing_is_told_are_said_to_be() {
        let ((low, high), _) = found(|times, _| {
            Ok(match times {
                0.4..0.7 => Verdict::Unclear,
                times => above(0.5, times),
            })
        });
        let ends = (low, high);
        assert!(low.is_some_and(|low| low < 0.41) && high.is_some_and(|high| high > 0.69));
        assert!(untold(ends).is_some_and(|said| said.contains("replications do not tell")));
        let (near, _) = found(|times, _| Ok(above(0.5, times)));
        assert_eq!(untold(near), None, "{near:?}");
        assert_eq!(untold((None, high)), None);
    }

    /// To see it fail, keep the first look, or what fresh draws denied as it was.
    #[test]
    fn the_deepest_look_is_kept_and_what_fresh_draws_deny_is_unclear() {
        let probe = |verdict: Verdict| Probe {
            verdict,
            ..Probe::refused(0.5, String::new())
        };
        let mut looks = Looks::default();
        looks.add(probe(Verdict::Meets), Look::First);
        looks.add(probe(Verdict::Meets), Look::Deep);
        assert_eq!(looks.doubted(), None);
        assert_eq!(
            looks.add(probe(Verdict::Misses), Look::Fresh),
            Verdict::Misses
        );
        looks.add(probe(Verdict::Meets), Look::First);
        assert!(
            looks
                .doubted()
                .is_some_and(|said| said.ends_with("unclear: 0.500 times"))
        );
        let kept = looks.probes();
        assert_eq!((kept.len(), kept[0].verdict), (1, Verdict::Unclear));
    }

    #[test]
    fn what_is_never_confirmed_is_not_stated() {
        let ((low, high), remark) = found(|times, look| {
            Ok(match look {
                Look::Fresh => Verdict::Misses,
                _ => above(0.5, times),
            })
        });
        assert!(low.is_some() && high.is_none());
        assert!(remark.is_some_and(|remark| remark.contains("fresh draws")));
    }

    #[test]
    fn what_is_out_of_reach_is_said() {
        let ((low, high), remark) = found(|_, _| Ok(Verdict::Misses));
        assert_eq!((low, high), (None, None));
        assert!(remark.is_some_and(|remark| remark.contains("not enough")));
        let ((low, high), remark) = found(|_, _| Ok(Verdict::Meets));
        assert_eq!((low, high), (None, Some(TIMES.0)));
        assert!(remark.is_some_and(|remark| remark.contains("enough still")));
    }
}
