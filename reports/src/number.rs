//! Numbers as text: three significant digits, and an interval in the digits of its mean.

use crate::interval::Estimate;

/// Stands where a number does not exist.
pub const ABSENT: &str = "–";

/// Digits after the point that show `x` with `digits` significant ones.
fn places(x: f64, digits: i32) -> usize {
    if x == 0.0 || !x.is_finite() {
        return (digits - 1) as usize;
    }
    let exponent = x.abs().log10().floor() as i32;
    (digits - 1 - exponent).clamp(0, 12) as usize
}

/// Sizes that are written out; what is smaller or larger has an exponent.
const WRITTEN_OUT: std::ops::Range<f64> = 1e-6..1e6;

/// The power of ten that stands behind a number of this size; 0 for what is written out.
fn power(x: f64) -> i32 {
    let size = x.abs();
    // 999 999.6 would round to 1 000 000.
    if size == 0.0 || !size.is_finite() || (WRITTEN_OUT.start..0.999_5e6).contains(&size) {
        return 0;
    }
    // Below the least normal number a power of ten would be 0.
    let exponent = (size.log10().floor() as i32).max(f64::MIN_10_EXP);
    if size / ten_to(exponent) >= 9.995 {
        exponent + 1
    } else {
        exponent
    }
}

fn ten_to(power: i32) -> f64 {
    // Unlike `powi`, the same on every machine.
    format!("1e{power}").parse().unwrap_or(f64::NAN)
}

/// Three significant digits: `0.0123`, `1.23`, `123`, `1234`; from a million on, and below a millionth, with
/// an exponent: `1.23e6`.
pub fn short(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if power(x) != 0 {
        return format!("{x:.2e}");
    }
    let text = format!("{x:.0$}", places(x, 3));
    // Rounding may have added a digit: 9.996 → 10.00 → 10.0.
    let rounded: f64 = text.parse().unwrap_or(x);
    format!("{rounded:.0$}", places(rounded, 3))
}

/// A number as it was given, in all its digits; with an exponent where it would else have more than 16 before the
/// point, or a millionth is not reached: `0.25`, `1e300`.
pub fn given(x: f64) -> String {
    if x == 0.0 || !x.is_finite() || (WRITTEN_OUT.start..1e16).contains(&x.abs()) {
        format!("{x}")
    } else {
        format!("{x:e}")
    }
}

/// Three significant digits with a unit: `1.23 s`. Seconds below one are in ms or µs, so that small times
/// stay readable.
pub fn quantity(x: f64, unit: &str) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let fitting = units.iter().find(|(size, _)| x.abs() >= 0.9995 * size);
    match fitting.or(units.last()) {
        Some((size, name)) if unit == "s" && x != 0.0 => format!("{} {name}", short(x / size)),
        _ => format!("{} {unit}", short(x)),
    }
}

/// A mean of counts: `33`, or with one digit after the point, `7.5`.
pub fn count(estimate: Option<Estimate>) -> String {
    match estimate {
        None => ABSENT.into(),
        Some(Estimate { mean, .. }) if mean.fract() == 0.0 => format!("{mean}"),
        Some(Estimate { mean, .. }) => format!("{mean:.1}"),
    }
}

/// A mean, with its interval where it has one: `1.23 ± 0.04`.
pub fn estimate(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else {
        return ABSENT.into();
    };
    let Some(half) = estimate.half_width else {
        return short(estimate.mean);
    };
    let (mean, half) = (normal(estimate.mean), normal(half));
    let exponent = power(mean.abs().max(half));
    let (mean, half) = (mean / ten_to(exponent), half / ten_to(exponent));
    let digits = interval_places(mean, half);
    let behind = behind(exponent);
    format!("{mean:.digits$}{behind} ± {half:.digits$}{behind}")
}

/// A difference with its sign and interval: `+1.23 ± 0.04`, to one digit more than the three that show
/// `scale`, the number that it is a difference to.
pub fn difference(estimate: Option<Estimate>, scale: f64) -> String {
    let Some(estimate) = estimate else {
        return ABSENT.into();
    };
    let mean = estimate.mean;
    let Some(half) = estimate.half_width else {
        return if mean == 0.0 {
            "0".into()
        } else {
            format!("{}{}", sign(mean), short(mean.abs()))
        };
    };
    let [mean, half, scale] = [mean, half, scale].map(normal);
    if mean == 0.0 && half == 0.0 {
        return "0".into();
    }
    let exponent = power(mean.abs().max(half).max(scale.abs()));
    let [size, half, scale] = [mean.abs(), half, scale].map(|x| x / ten_to(exponent));
    let digits = interval_places(size, half).min(places(scale, 3) + 1);
    let behind = behind(exponent);
    format!(
        "{}{size:.digits$}{behind} ± {half:.digits$}{behind}",
        sign(mean)
    )
}

/// Beside a power of ten, numbers below the least that have all their digits (2e-308) are none.
fn normal(x: f64) -> f64 {
    if x.is_subnormal() { 0.0 } else { x }
}

/// A power of ten as it is written behind a number.
fn behind(power: i32) -> String {
    if power == 0 {
        String::new()
    } else {
        format!("e{power}")
    }
}

fn sign(x: f64) -> &'static str {
    if x < 0.0 { "−" } else { "+" }
}

/// Digits for a mean and its half-width: three of the larger, and up to three more where the half-width
/// would else show as nothing. One that still would is that of replications which agree but for rounding.
fn interval_places(mean: f64, half: f64) -> usize {
    let digits = places(mean.abs().max(half), 3);
    let needed = if half > 0.0 { places(half, 1) } else { 0 };
    if needed > digits + 3 {
        digits
    } else {
        digits.max(needed)
    }
}

/// Bytes in the largest unit that leaves at least 1: `12.3 MB`.
pub fn bytes(count: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.iter().find(|(size, _)| count >= *size) {
        Some((size, name)) => format!("{} {name}", short(count / size)),
        None => format!("{count:.0} B"),
    }
}

/// A share as a whole percentage: `63 %`; what is not quite all or nothing is not rounded to it, and what is more than
/// a million has an exponent.
pub fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if share > 0.0 && value < 0.5 {
        "<1 %".into()
    } else if share < 1.0 && value >= 99.5 {
        ">99 %".into()
    } else if power(value) > 0 {
        format!("{} %", short(value))
    } else {
        format!("{value:.0} %")
    }
}

/// A bar of `width` cells for a share within [0, 1].
pub fn bar(share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits() {
        for (x, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1_234.0, "1234"),
            (999_499.0, "999499"),
            (999_600.0, "1.00e6"),
            (1_234_567.0, "1.23e6"),
            (1_500_000_008.0, "1.50e9"),
            (-9_996_000.0, "-1.00e7"),
            (0.000_001_5, "0.00000150"),
            (5e-8, "5.00e-8"),
            (1e300, "1.00e300"),
            (-f64::MAX, "-1.80e308"),
            (1e-300, "1.00e-300"),
            // The least of all.
            (5e-324, "4.94e-324"),
        ] {
            assert_eq!(short(x), text);
        }
    }

    #[test]
    fn intervals_take_the_digits_of_their_mean() {
        let of = |mean, half_width| {
            Some(Estimate {
                mean,
                half_width,
                n: 2,
            })
        };
        assert_eq!(estimate(of(1.2345, Some(0.0456))), "1.23 ± 0.05");
        assert_eq!(estimate(of(1.2345, Some(0.0004))), "1.2345 ± 0.0004");
        assert_eq!(estimate(of(1.2345, None)), "1.23");
        // Replications that agree but for the rounding of sums.
        for half in [0.0, 3e-18, 1e-9] {
            assert_eq!(estimate(of(0.019_804, Some(half))), "0.0198 ± 0.0000");
        }
        assert_eq!(estimate(of(0.486_231, Some(1e-17))), "0.486 ± 0.000");
        assert_eq!(estimate(of(0.0, Some(0.0))), "0.00 ± 0.00");
        assert_eq!(estimate(of(1_500_000_008.0, Some(2e7))), "1.50e9 ± 0.02e9");
        assert_eq!(difference(of(-3e7, Some(2e6)), 1e9), "−0.030e9 ± 0.002e9");
        assert_eq!(estimate(None), ABSENT);
        assert_eq!(difference(of(-0.5, Some(0.25)), 1.0), "−0.500 ± 0.250");
        assert_eq!(difference(of(0.0, Some(0.0)), 1.0), "0");
        assert_eq!(difference(of(2e-5, Some(7e-5)), 0.1), "+0.0000 ± 0.0001");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        for (x, text) in [
            (0.0, "0 s"),
            (1.0, "1.00 s"),
            (0.9996, "1.00 s"),
            (0.742, "742 ms"),
            (0.000_012_34, "12.3 µs"),
            (-0.5, "-500 ms"),
            (5e-8, "0.0500 µs"),
        ] {
            assert_eq!(quantity(x, "s"), text);
        }
        assert_eq!(quantity(0.012, "W"), "0.0120 W");
    }

    #[test]
    fn shares_are_not_rounded_to_all_or_nothing() {
        assert_eq!(percent(0.001), "<1 %");
        assert_eq!(percent(0.999), ">99 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(1e300), "1.00e302 %");
        assert_eq!(bar(0.5, 4), "██░░");
    }

    #[test]
    fn no_size_makes_a_number_long() {
        for exponent in -330..=307 {
            let x: f64 = format!("7.7e{exponent}").parse().expect("is a number");
            let of = |half_width| {
                Some(Estimate {
                    mean: x,
                    half_width,
                    n: 3,
                })
            };
            for text in [
                short(x),
                given(x),
                quantity(x, "s"),
                quantity(x, "W"),
                bytes(x),
                // A share of its hundredth at most: the largest numbers have no percentage.
                percent(x / 100.0),
                estimate(of(Some(x / 7.0))),
                difference(of(Some(x / 7.0)), x),
            ] {
                assert!(text.chars().count() <= 30, "{x:e}: {text}");
                assert!(
                    !text.contains("inf") && !text.contains("NaN"),
                    "{x:e}: {text}"
                );
            }
        }
        assert_eq!(
            [1e300, 0.25, 1e16, 2.0].map(given),
            ["1e300", "0.25", "1e16", "2"]
        );
        assert_eq!([-1e-7, 0.0].map(given), ["-1e-7", "0"]);
    }
}
