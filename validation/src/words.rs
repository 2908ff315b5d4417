//! Numbers in words and texts.

/// All its digits; an exponent where there would be many.
pub(crate) fn exact(x: f64) -> String {
    let text = format!("{x:?}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// As it was given, with a proper minus; no more than nine digits.
pub(crate) fn plain(x: f64) -> String {
    let rounded: f64 = format!("{x:.8e}").parse().unwrap_or(x);
    minus(&exact(rounded))
}

/// With one decimal; an exponent where there would be many digits.
pub(crate) fn tenths(x: f64) -> String {
    minus(&if x.abs() < 1e7 {
        format!("{x:.1}")
    } else {
        format!("{x:.1e}")
    })
}

/// A proper minus, but in exponents.
pub(crate) fn minus(number: &str) -> String {
    number.replace('-', "−").replace("e−", "e-")
}

/// A number with its unit; that of a bare number, `1`, is not written.
pub(crate) fn with_unit(number: &str, unit: &str) -> String {
    match unit {
        "1" => number.to_owned(),
        _ => format!("{number} {unit}"),
    }
}

/// So many, in words.
pub(crate) fn count(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_stay_short() {
        for (x, text) in [
            (0.0, "0"),
            (910.0, "910"),
            (-68.61, "−68.61"),
            (0.1 + 0.2, "0.3"),
            (123_456_789_012.0, "123456789000"),
            (1e300, "1e300"),
            (-2.5e-300, "−2.5e-300"),
        ] {
            assert_eq!(plain(x), text);
        }
        assert_eq!(exact(-3.0), "-3");
        assert_eq!(exact(0.1 + 0.2), "0.30000000000000004");
        assert_eq!(tenths(-4.25), "−4.2");
        assert_eq!(tenths(1.5e300), "1.5e300");
        assert_eq!(with_unit("0.99", "1"), "0.99");
        assert_eq!(with_unit("99", "%"), "99 %");
    }
}
