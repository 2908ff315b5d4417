//! The assignment bound of jobs on unrelated lanes.

/// Time of a job on a lane that cannot run it, ns: a sum of a few stays in range.
pub(super) const UNABLE: i64 = 1 << 56;

/// The least sum of `cost(job, lane, place)` in which each of the jobs has a lane, and a place on it, of its own.
/// Places count from the last, the last being 0.
///
/// The k-th job from the last of a lane delays k jobs by its own time, so with those costs no order of the jobs on
/// lanes has a smaller sum of ends (Horn 1973; Bruno, Coffman and Sethi 1974). Solved by successive shortest paths
/// (the Hungarian method).
pub(super) fn least(jobs: usize, lanes: usize, cost: impl Fn(usize, usize, i64) -> i64) -> i64 {
    let columns = jobs * lanes;
    let cost =
        |job: usize, column: usize| cost(job, column / jobs, (column % jobs).cast_signed() as i64);
    // Potentials of rows and columns, and the row of each column; 0 is nobody.
    let (mut rows_at, mut columns_at) = (vec![0_i64; jobs + 1], vec![0_i64; columns + 1]);
    let mut row_of = vec![0_usize; columns + 1];
    for row in 1..=jobs {
        row_of[0] = row;
        let mut least = vec![i64::MAX; columns + 1];
        let mut before = vec![0_usize; columns + 1];
        let mut seen = vec![false; columns + 1];
        let mut at = 0;
        while row_of[at] != 0 {
            seen[at] = true;
            let (of, mut delta, mut next) = (row_of[at], i64::MAX, 0);
            for column in (1..=columns).filter(|&column| !seen[column]) {
                let reduced = cost(of - 1, column - 1) - rows_at[of] - columns_at[column];
                if reduced < least[column] {
                    (least[column], before[column]) = (reduced, at);
                }
                if least[column] < delta {
                    (delta, next) = (least[column], column);
                }
            }
            for column in 0..=columns {
                if seen[column] {
                    rows_at[row_of[column]] += delta;
                    columns_at[column] -= delta;
                } else {
                    least[column] = least[column].saturating_sub(delta);
                }
            }
            at = next;
        }
        while at != 0 {
            row_of[at] = row_of[before[at]];
            at = before[at];
        }
    }
    let chosen = (1..=columns).filter(|&column| row_of[column] != 0);
    chosen
        .map(|column| cost(row_of[column] - 1, column - 1))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least sum of ends over every order of every parting of the jobs.
    fn by_trying(times: &[Vec<i64>], free: &mut Vec<i64>, left: u32) -> i64 {
        let jobs = (0..times.len()).filter(|job| left >> job & 1 != 0);
        let mut best = if left == 0 { 0 } else { i64::MAX };
        for job in jobs {
            for lane in 0..free.len() {
                let end = free[lane] + times[job][lane];
                let before = std::mem::replace(&mut free[lane], end);
                best = best.min(end + by_trying(times, free, left & !(1 << job)));
                free[lane] = before;
            }
        }
        best
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

        #[test]
        fn it_is_what_trying_everything_finds(
            times in prop::collection::vec(prop::collection::vec(1..50_i64, 2..3), 1..6),
            free in prop::collection::vec(0..40_i64, 2..3),
        ) {
            let found = least(times.len(), 2, |job, lane, place| {
                free[lane] + (place + 1) * times[job][lane]
            });
            let all = (1_u32 << times.len()) - 1;
            prop_assert_eq!(found, by_trying(&times, &mut free.clone(), all));
        }
    }
}
