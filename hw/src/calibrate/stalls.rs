//! Pauses of the machine among the samples of a stage.
//!
//! A stage that takes 0.14 s eighty times and 0.63 s once was interrupted: by the system, by whoever shares the
//! machine. As scatter, one such sample would make every stage vary by 40 %, and every p95 wrong by it.

use sim::spec::model::StageKind;

use super::point::Series;

/// Interquartile ranges beyond the upper quartile: "far out" of J. W. Tukey, Exploratory Data Analysis, 1977. Of normal
/// values one in a million is.
const FAR_OUT: f64 = 3.0;

/// The greatest part of a stage's samples that are pauses; more than that is how the stage is.
const RARE: f64 = 0.05;

/// What was taken from the samples of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Samples that stalled.
    pub count: usize,
    /// The greatest time over that of the middle sample of its point, s.
    pub longest_s: f64,
    /// Those times together, as a part of all that the stage took: the mean with them is greater by this.
    pub share: f64,
}

/// Takes the samples that stalled from a stage's series, one for each point. Copies keep theirs: an interruption is
/// as long as a copy, and nothing tells one from the other.
pub(super) fn take(kind: StageKind, series: &mut [Series]) -> Stalls {
    if matches!(kind, StageKind::Export | StageKind::Import) {
        return Stalls::default();
    }
    let middles: Vec<_> = series.iter().map(Series::median).collect();
    let over = series.iter().zip(&middles).flat_map(|(series, middle)| {
        let middle = middle.filter(|&middle| middle > 0.0);
        let walls = series.wall.iter();
        walls.filter_map(move |wall| Some((wall / middle?).ln()))
    });
    let mut over: Vec<f64> = over.collect();
    over.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (over.get(over.len() / 4), over.get(3 * over.len() / 4)) else {
        return Stalls::default();
    };
    let fence = high + FAR_OUT * (high - low);
    let far = over.iter().filter(|&&over| over > fence).count();
    if far == 0 || far as f64 > RARE * over.len() as f64 {
        return Stalls::default();
    }
    let (mut stalls, mut lost_s, mut all_s) = (Stalls::default(), 0.0, 0.0);
    for (series, middle) in series.iter_mut().zip(middles) {
        let Some(middle) = middle.filter(|&middle| middle > 0.0) else {
            continue;
        };
        let taken = std::mem::take(series);
        for (wall, cpu) in taken.wall.into_iter().zip(taken.cpu) {
            if (wall / middle).ln() > fence {
                let extra_s = wall - middle;
                stalls.count += 1;
                stalls.longest_s = stalls.longest_s.max(extra_s);
                lost_s += extra_s;
                all_s += middle;
            } else {
                all_s += wall;
                series.wall.push(wall);
                series.cpu.push(cpu);
            }
        }
    }
    stalls.share = lost_s / all_s;
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of a stage, twenty samples each within 4 % of their point's time.
    fn quiet() -> Vec<Series> {
        let point = |size: usize| {
            let wall = (0..20).map(|index| {
                let noise = 0.04 * (2.9 * f64::from(index) + size as f64).sin();
                0.1 * size as f64 * (1.0 + noise)
            });
            Series {
                wall: wall.collect(),
                cpu: vec![None; 20],
            }
        };
        vec![point(1), point(2)]
    }

    #[test]
    fn a_pause_is_taken_and_nothing_else() {
        let mut series = quiet();
        assert_eq!(
            take(StageKind::QueryPrefill, &mut series),
            Stalls::default()
        );
        assert_eq!(series, quiet());
        let middle = series[0].median().expect("samples");
        series[0].wall[7] = middle + 0.48;
        let stalls = take(StageKind::QueryPrefill, &mut series);
        assert_eq!((stalls.count, series[0].wall.len()), (1, 19));
        assert!((stalls.longest_s - 0.48).abs() < 1e-12);
        // 2 s of the one point and 4 s of the other.
        assert!((stalls.share - 0.08).abs() < 0.001, "{stalls:?}");
        assert_eq!(series[1], quiet()[1]);
    }

    #[test]
    fn what_happens_often_is_no_pause_and_a_copy_has_none() {
        let mut often = quiet();
        for index in 0..3 {
            often[0].wall[5 * index] += 0.48;
        }
        let before = often.clone();
        assert_eq!(take(StageKind::Decode, &mut often), Stalls::default());
        assert_eq!(often, before);
        let mut copies = quiet();
        copies[0].wall[7] += 0.48;
        assert_eq!(take(StageKind::Import, &mut copies), Stalls::default());
        assert_eq!(take(StageKind::Decode, &mut []), Stalls::default());
    }
}
