//! Rates and variation of the arrival processes.

use super::*;

/// Checks rate and coefficient of variation of the gaps over 100 runs of about 2,000 queries.
#[track_caller]
fn check_moments(arrivals: QueryTimes, rate_hz: f64, cv: f64) {
    let plans = [asking("s", queries(arrivals))];
    let horizon_s = 2000.0 / rate_hz;
    let mut workload = Workload::new(&plans, 2024, 0, at(horizon_s), LengthPrediction::Mean);
    let (mut rates, mut squares) = (Vec::new(), Vec::new());
    for run in 0..100 {
        workload.reset(run);
        let times: Vec<f64> = std::iter::from_fn(|| workload.pop())
            .map(|(now, _)| now.as_secs_f64())
            .collect();
        rates.push(times.len() as f64 / horizon_s);
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        squares.push(gaps.map(|gap| gap * gap).sum::<f64>() / (times.len() - 1) as f64);
    }
    let (rate, error) = interval(&rates);
    assert!(
        (rate - rate_hz).abs() < error,
        "rate {rate} ± {error}, not {rate_hz}"
    );
    // E gap² = (1 + cv²) ÷ rate².
    let (square, error) = interval(&squares);
    let expected = (1.0 + cv * cv) / (rate_hz * rate_hz);
    assert!(
        (square - expected).abs() < error,
        "gap² {square} ± {error}, not {expected}"
    );
}

#[test]
fn poisson_gaps_are_exponential() {
    check_moments(QueryTimes::Poisson { rate_hz: 0.1 }, 0.1, 1.0);
}

#[test]
fn gamma_gaps_have_their_rate_and_variation() {
    for cv in [0.3, 1.0, 2.5] {
        check_moments(QueryTimes::Gamma { rate_hz: 4.0, cv }, 4.0, cv);
    }
}

#[test]
fn an_interrupted_poisson_process_has_its_rate_and_variation() {
    // On for 2 s at 6 /s, off for 4 s: cv² = 1 + 2λγ ÷ (γ + ω)², Kuczura 1973.
    let arrivals = QueryTimes::Mmpp {
        rates_hz: vec![6.0, 0.0],
        mean_stay_s: vec![2.0, 4.0],
    };
    let cv = (1.0 + 2.0 * 6.0 * 0.5 / (0.75 * 0.75_f64)).sqrt();
    check_moments(arrivals, 2.0, cv);
}

#[test]
fn a_modulated_process_of_equal_rates_is_poisson() {
    let arrivals = QueryTimes::Mmpp {
        rates_hz: vec![3.0, 3.0, 3.0],
        mean_stay_s: vec![0.1, 1.0, 10.0],
    };
    check_moments(arrivals, 3.0, 1.0);
}
