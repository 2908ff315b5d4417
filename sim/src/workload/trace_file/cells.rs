//! The cells of a row, and what they may hold.

use std::borrow::Cow;
use std::ops::Range;

/// Times that do not fit 64 bits of nanoseconds are refused from here on, s (317 years).
const TIME_MAX_S: f64 = 1e10;

/// The cells that are read of a row.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) time: Cell<'a>,
    pub(super) prompt: Cell<'a>,
    pub(super) output: Cell<'a>,
    /// The row's place.
    pub(super) span: Range<usize>,
}

/// A cell.
#[derive(Clone, Debug)]
pub(super) enum Cell<'a> {
    /// Its text.
    Text(Place<'a>),
    /// The row has no such cell: the row's place.
    Absent(Range<usize>),
}

/// A text and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) span: Range<usize>,
}

/// What is wrong with a cell.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) label: &'static str,
    pub(super) help: Option<String>,
}

impl Cell<'_> {
    /// A number of tokens.
    pub(super) fn tokens(&self, column: &str) -> Result<u32, Fault> {
        let text = self.text(column)?;
        // Nearly all cells are plain whole numbers.
        if let Ok(tokens) = text.parse() {
            return Ok(tokens);
        }
        let tokens = self.number(column)?;
        if tokens.fract() != 0.0 {
            return Err(self.fault(column, "must be a whole number of tokens", None));
        }
        if tokens > f64::from(u32::MAX) {
            return Err(self.fault(column, "must be below 2^32 tokens", None));
        }
        Ok(tokens as u32)
    }

    /// A time of `per_second` units to the second, ns.
    pub(super) fn time(&self, column: &str, per_second: f64) -> Result<i128, Fault> {
        let secs = self.number(column)? / per_second;
        if secs >= TIME_MAX_S {
            return Err(self.fault(column, "must be below 10^10 s", None));
        }
        Ok(i128::from(crate::time::Duration::from_secs_f64(secs).0))
    }

    /// A date and time of day, ns since 1970 in UTC or, without an offset, in its own clock.
    pub(super) fn date_time(&self, column: &str) -> Result<i128, Fault> {
        date_time(self.text(column)?.trim()).ok_or_else(|| {
            let help = "write `2023-11-16 18:17:03.9799600`".to_owned();
            self.fault(column, "must be a date and time", Some(help))
        })
    }

    /// Where it stands, and what stands there.
    pub(super) fn place(&self) -> Place<'_> {
        match self {
            Self::Text(place) => place.clone(),
            Self::Absent(span) => Place {
                text: Cow::Borrowed(""),
                span: span.clone(),
            },
        }
    }

    fn text(&self, column: &str) -> Result<&str, Fault> {
        match self {
            Self::Text(place) if !place.text.trim().is_empty() => Ok(&place.text),
            Self::Text(_) | Self::Absent(_) => Err(Fault {
                span: self.place().span,
                message: format!("`{column}` is missing"),
                label: "needs a value",
                help: None,
            }),
        }
    }

    /// A finite number that is not negative.
    fn number(&self, column: &str) -> Result<f64, Fault> {
        let text = self.text(column)?.trim();
        let Ok(number) = text.parse::<f64>() else {
            let with_point = text.replace(',', ".");
            let help = (with_point != text && with_point.parse::<f64>().is_ok())
                .then(|| with_comma(text, &with_point));
            return Err(self.fault(column, "must be a number", help));
        };
        if !number.is_finite() {
            return Err(self.fault(column, "must be finite", None));
        }
        if number < 0.0 {
            return Err(self.fault(column, "must not be negative", None));
        }
        Ok(number)
    }

    fn fault(&self, column: &str, label: &'static str, help: Option<String>) -> Fault {
        let Place { text, span } = self.place();
        // A cell may hold anything: quote no more than tells it.
        let shown: String = text.chars().take(40).collect();
        let dots = if shown.len() < text.len() { "…" } else { "" };
        Fault {
            span,
            message: format!("`{column}` is `{shown}{dots}`"),
            label,
            help,
        }
    }
}

/// `YYYY-MM-DD hh:mm:ss`, with `T` for the space, a fraction of any length and `Z` or an offset
/// `±hh:mm` allowed.
fn date_time(text: &str) -> Option<i128> {
    let (date, clock) = text.split_once([' ', 'T'])?;
    let [year, month, day] = numbers(date, '-')?;
    let (clock, offset_min) = match clock.find(['Z', '+', '-']) {
        None => (clock, 0),
        Some(at) if &clock[at..] == "Z" => (&clock[..at], 0),
        Some(at) => {
            let (clock, offset) = clock.split_at(at);
            let [hours, minutes] = numbers(offset.get(1..)?, ':')?;
            let size = 60 * hours + minutes;
            let valid = hours < 24 && minutes < 60;
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            (clock, valid.then_some(sign * size)?)
        }
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':')?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let valid = (1..=12).contains(&month)
        && (1..=days_in_month).contains(&day)
        // So that the time between two dates fits 64 bits of nanoseconds.
        && (1900..2200).contains(&year)
        && (hour < 24 && minute < 60 && second < 61);
    let secs = valid.then(|| {
        days_since_1970(year, month, day) * 86_400
            + hour * 3600
            + (minute - offset_min) * 60
            + second
    })?;
    // Nanoseconds, further digits cut off.
    let all_digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let digits = all_digits
        .then_some(fraction)?
        .bytes()
        .chain([b'0'; 9])
        .take(9);
    let nanos = digits.fold(0, |sum, digit| 10 * sum + i128::from(digit - b'0'));
    Some(i128::from(secs) * 1_000_000_000 + nanos)
}

/// As many whole numbers of one to four digits as asked for.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for number in &mut numbers {
        let part = parts.next()?;
        let plain = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = plain.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March have their leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

/// What to write for a number with a comma; before exactly three digits it may part thousands as well.
fn with_comma(text: &str, with_point: &str) -> String {
    let ends = text.rsplit(',').next().is_some_and(|end| end.len() == 3);
    if ends {
        let joined = text.replace(',', "");
        format!(
            "write `{joined}` where the comma parts thousands, `{with_point}` where it is a point"
        )
    } else {
        format!("write `{with_point}`, with a point")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_1970() {
        let ns = 1_000_000_000;
        for (text, expected) in [
            ("1970-01-01 00:00:00", 0),
            ("2000-03-01 00:00:00", 951_868_800 * ns),
            ("2024-02-29T12:30:15Z", 1_709_209_815 * ns),
            ("2024-02-29 14:30:15+02:00", 1_709_209_815 * ns),
            ("2024-02-29 12:00:15-00:30", 1_709_209_815 * ns),
            (
                "2023-11-16 18:17:03.9799600",
                1_700_158_623 * ns + 979_960_000,
            ),
            ("1969-12-31 23:59:59.5", -500_000_000),
        ] {
            assert_eq!(date_time(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2023-11-16",
            "2023-11-16 18:17",
            "2023-02-29 00:00:00",
            "2023-13-01 00:00:00",
            "2023-11-16 24:00:00",
            "2023-11-16 18:17:03.",
            "2023-11-16 18:17:03.x",
            "2023-11-16 18:17:03+1",
            "2023-11-16 18:17:03+é",
            "x-11-16 18:17:03",
            "5",
        ] {
            assert_eq!(date_time(text), None, "{text}");
        }
    }
}
