//! Targets, loads and resources.

use super::target::targets;

fn one(text: &str) -> Result<super::Target, String> {
    super::Target::parse(text)
}

#[test]
fn targets_have_units() {
    for (text, bound) in [
        ("ttft_p95 <= 2s", 2.0),
        ("ttft_p95<=2000ms", 2.0),
        ("staleness_p95 ≤ 1 s", 1.0),
        ("energy <= 5 W", 5.0),
        ("memory <= 6GiB", 6.0 * 1_073_741_824.0),
        ("memory <= 6e9 B", 6e9),
        ("throughput >= 30 req/min", 0.5),
        ("refused <= 1 %", 0.01),
    ] {
        let target = one(text).expect(text);
        assert!(
            (target.bound / bound - 1.0).abs() < 1e-12,
            "{text}: {}",
            target.bound
        );
    }
}

#[test]
fn what_is_no_target_says_what_would_be_right() {
    for (text, says) in [
        ("ttft_p95 <= 2", "a unit is missing: one of s, ms"),
        ("ttft_p95 <= 2 W", "`W` is no unit of `ttft_p95`"),
        ("ttft_p59 <= 2s", "did you mean `ttft_p95`"),
        ("ttft_p95 >= 2s", "is bounded with `<=`"),
        ("throughput <= 2 req/s", "is bounded with `>=`"),
        ("ttft_p95 < 2s", "a bound is `<=`"),
        ("ttft_p95", "no `<=`"),
        ("ttft_p95 <= 2,5s", "not a comma"),
        ("ttft_p95 <= fast", "does not start with a number"),
        ("ttft_p95 <= -1s", "finite and not negative"),
        ("ttft_p95 <= 1e999s", "finite and not negative"),
        ("", "no `<=`"),
        ("<= 2s", "unknown metric"),
    ] {
        let fault = one(text).expect_err(text);
        assert!(fault.contains(says), "{text}: {fault}");
    }
}

#[test]
fn two_bounds_of_one_metric_contradict() {
    let texts = ["ttft_p95 <= 2s and ttft_p95 <= 1s".to_owned()];
    let faults = targets(&texts).expect_err("two bounds");
    assert!(faults[0].contains("bound the same metric"), "{faults:?}");
    assert!(targets(&[]).is_err());
}
