//! One varied key with its values, and the text that asks for it.

use std::fmt;

use super::Error;
use super::edit::{Key, KeyKind, split_at};
use super::row::Type;

/// Most values of one key.
const VALUES_MAX: u32 = 1_000_000;

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A switch.
    Bool(bool),
    /// A string.
    Text(String),
    /// Anything else, as TOML.
    Toml(String),
}

/// As a result file holds it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) | Self::Toml(text) => f.write_str(text),
        }
    }
}

/// How numbers between two ends are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
    /// Whole numbers.
    Whole,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    List(Vec<Value>),
    Range(Scale, f64, f64, u32),
    /// Where the sample says.
    Sampled(Scale, f64, f64),
}

/// A varied key.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The key.
    pub key: Key,
    values: Values,
}

impl Axis {
    /// Whether one of its values goes over several lines.
    pub(super) fn breaks_lines(&self) -> bool {
        let Values::List(values) = &self.values else {
            return false;
        };
        values.iter().any(|value| match value {
            Value::Text(text) | Value::Toml(text) => text.contains(['\n', '\r']),
            _ => false,
        })
    }

    /// Reads `KEY=VALUES`. The values are a list (`1,2,5`, `on,off`, `{ a = 1 },{ a = 2 }`), a range of N
    /// values with both ends (`1..10/4`, `log:0.01..1/5`, `int:1..9/5`), or ends between which a sample
    /// chooses (`0.1..0.5`, `log:…`, `int:…`).
    ///
    /// # Errors
    ///
    /// Text that is none of these.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let Some((key, values)) = split_at(text, '=') else {
            return Err(Error::asked(
                format!("`{text}` names no values"),
                "write KEY=VALUES, as `run.horizon_s=60,600` or `background.bandwidth_gbps=0..10/5`",
            ));
        };
        let key = Key::parse(key.trim())?;
        let values = values.trim();
        let wrong = |message: String| {
            Error::asked(
                format!("`{text}`: {message}"),
                "a list `1,2,5`, a range with both ends `1..10/4` or `log:0.01..1/5`, whole numbers \
                 `int:1..9/5`, or, without `/N`, ends between which `--sample` chooses",
            )
        };
        let (scale, rest) = match values.split_once(':') {
            Some(("log", rest)) => (Scale::Log, rest),
            Some(("int", rest)) => (Scale::Whole, rest),
            _ => (Scale::Linear, values),
        };
        let range = ends(rest);
        if range.is_none() && scale != Scale::Linear {
            return Err(wrong("is no range".into()));
        }
        let Some((low, high, count)) = range else {
            return list(&key, values).map_err(wrong).map(|list| Self {
                key,
                values: Values::List(list),
            });
        };
        if key.kind == KeyKind::Policy {
            return Err(wrong("policies have no range".into()));
        }
        if !(low.is_finite() && high.is_finite() && low < high) {
            return Err(wrong("the first end must be below the second".into()));
        }
        if scale == Scale::Log && low <= 0.0 {
            return Err(wrong("a logarithmic range must begin above 0".into()));
        }
        if scale == Scale::Whole && (low.fract() != 0.0 || high.fract() != 0.0) {
            return Err(wrong("the ends must be whole".into()));
        }
        let values = match count {
            None => Values::Sampled(scale, low, high),
            Some(count) => match count.parse::<u32>() {
                Ok(count @ 2..=VALUES_MAX) => Values::Range(scale, low, high, count),
                _ => return Err(wrong(format!("a range has 2 to {VALUES_MAX} values"))),
            },
        };
        Ok(Self { key, values })
    }

    /// How many values; `None` where a sample chooses.
    pub fn count(&self) -> Option<u64> {
        match &self.values {
            Values::List(list) => Some(list.len() as u64),
            Values::Range(_, _, _, count) => Some((*count).into()),
            Values::Sampled(..) => None,
        }
    }

    /// The value at place `at` of a list or range.
    pub fn at(&self, at: u64) -> Value {
        match &self.values {
            Values::List(list) => list[at as usize].clone(),
            Values::Range(scale, low, high, count) => {
                let last = u64::from(count - 1);
                // The ends are themselves, whatever rounding does between them.
                let x = if at == 0 {
                    *low
                } else if at == last {
                    *high
                } else {
                    between(*scale, *low, *high, at as f64 / last as f64)
                };
                number(*scale, x.round_if(*scale))
            }
            Values::Sampled(scale, low, _) => number(*scale, *low),
        }
    }

    /// The value at `unit` within [0, 1) of a sampled axis.
    pub fn sampled(&self, unit: f64) -> Value {
        match &self.values {
            Values::Sampled(Scale::Whole, low, high) => {
                let span = high - low + 1.0;
                Value::Int((low + (unit * span).floor().min(high - low)) as i64)
            }
            Values::Sampled(scale, low, high) => Value::Float(between(*scale, *low, *high, unit)),
            Values::List(_) | Values::Range(..) => self.at(0),
        }
    }

    /// The value at `unit` of the way through all values, within [0, 1].
    pub fn along(&self, unit: f64) -> Value {
        match self.count() {
            Some(count) => self.at(((unit * count as f64) as u64).min(count - 1)),
            None => self.sampled(unit),
        }
    }

    /// The policies among its values, in short text.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        let list: &[Value] = match &self.values {
            Values::List(list) if self.key.kind == KeyKind::Policy => list,
            _ => &[],
        };
        list.iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The type of its column.
    pub fn column_type(&self) -> Type {
        let all = |is: fn(&Value) -> bool| match &self.values {
            Values::List(list) => list.iter().all(is),
            _ => false,
        };
        match &self.values {
            Values::Range(Scale::Whole, ..) | Values::Sampled(Scale::Whole, ..) => Type::Int,
            Values::Range(..) | Values::Sampled(..) => Type::Float,
            Values::List(_) if all(|value| matches!(value, Value::Int(_))) => Type::Int,
            Values::List(_) if all(|value| matches!(value, Value::Int(_) | Value::Float(_))) => {
                Type::Float
            }
            Values::List(_) if all(|value| matches!(value, Value::Bool(_))) => Type::Bool,
            Values::List(_) => Type::Text,
        }
    }
}

trait Whole {
    fn round_if(self, scale: Scale) -> Self;
}

impl Whole for f64 {
    fn round_if(self, scale: Scale) -> Self {
        if scale == Scale::Whole {
            self.round()
        } else {
            self
        }
    }
}

fn number(scale: Scale, x: f64) -> Value {
    match scale {
        Scale::Whole => Value::Int(x as i64),
        Scale::Linear | Scale::Log => Value::Float(x),
    }
}

/// `share` of the way from `low` to `high`. The logarithm is `libm`'s, so that bits are the same everywhere.
fn between(scale: Scale, low: f64, high: f64, share: f64) -> f64 {
    match scale {
        Scale::Linear | Scale::Whole => low + (high - low) * share,
        Scale::Log => low * libm::exp(share * libm::log(high / low)),
    }
}

/// `A..B` or `A..B/N`.
fn ends(text: &str) -> Option<(f64, f64, Option<&str>)> {
    let (low, rest) = text.split_once("..")?;
    let (high, count) = match rest.split_once('/') {
        Some((high, count)) => (high, Some(count.trim())),
        None => (rest, None),
    };
    Some((low.trim().parse().ok()?, high.trim().parse().ok()?, count))
}

fn list(key: &Key, text: &str) -> Result<Vec<Value>, String> {
    let mut list = Vec::new();
    for item in split(text)? {
        let item = item.trim();
        if item.is_empty() {
            return Err("a value is missing".into());
        }
        let value = if key.kind == KeyKind::Policy {
            Value::Text(item.to_owned())
        } else {
            value(item)?
        };
        if list.contains(&value) {
            return Err(format!("`{value}` is there twice"));
        }
        list.push(value);
    }
    Ok(list)
}

/// A TOML value; a bare word is a string.
fn value(item: &str) -> Result<Value, String> {
    match item.parse::<toml_edit::Value>() {
        Ok(toml_edit::Value::Integer(value)) => Ok(Value::Int(*value.value())),
        Ok(toml_edit::Value::Float(value)) if value.value().is_finite() => {
            Ok(Value::Float(*value.value()))
        }
        Ok(toml_edit::Value::Boolean(value)) => Ok(Value::Bool(*value.value())),
        Ok(toml_edit::Value::String(value)) => Ok(Value::Text(value.value().clone())),
        Ok(_) => Ok(Value::Toml(item.to_owned())),
        Err(_) if item.contains(['{', '}', '[', ']', '"', '\'', '=', '\n']) => {
            Err(format!("`{item}` is no TOML value"))
        }
        Err(_) => Ok(Value::Text(item.to_owned())),
    }
}

/// Splits at commas outside of brackets and quotes.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0i32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth != 0 || quote.is_some() {
        return Err("a bracket or quote is not closed".into());
    }
    parts.push(&text[from..]);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        let axis = Axis::parse(text).expect("is read");
        let count = axis.count().expect("is no sample");
        (0..count).map(|at| axis.at(at).to_string()).collect()
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(values("seed=1,2,5"), ["1", "2", "5"]);
        assert_eq!(values("noise=true,false"), ["true", "false"]);
        assert_eq!(
            values("context.keep={ window = { frames = 2 } },all"),
            ["{ window = { frames = 2 } }", "all"]
        );
        assert_eq!(
            values("policy=state_aware:w+p,serial"),
            ["state_aware:w+p", "serial"]
        );
        assert_eq!(values("run.horizon_s=1..2/3"), ["1.0", "1.5", "2.0"]);
        assert_eq!(values("replications=int:1..9/5"), ["1", "3", "5", "7", "9"]);
        let log = values("run.horizon_s=log:0.01..1/3");
        assert_eq!((log[0].as_str(), log[2].as_str()), ("0.01", "1.0"));
        assert!((log[1].parse::<f64>().expect("a number") - 0.1).abs() < 1e-15);
    }

    #[test]
    fn samples_stay_within_their_ends() {
        let axis = Axis::parse("replications=int:1..3").expect("is read");
        let all: Vec<_> = [0.0, 0.34, 0.67, 0.999_999]
            .map(|u| axis.sampled(u))
            .to_vec();
        assert_eq!(all, [1, 2, 3, 3].map(Value::Int));
        assert_eq!(axis.count(), None);
    }

    #[test]
    fn wrong_text_says_what_would_be_right() {
        for text in [
            "seed",
            "seed=",
            "seed=1,,2",
            "seed=1,1",
            "seed=2..1/3",
            "seed=1..2/1",
            "seed=log:0..1/3",
            "seed=int:0.5..2/3",
            "seed=log:3",
            "seed={ a = 1",
            "seed=[1}",
            "=1",
            "a..b=1",
            "policy=1..2/3",
        ] {
            let error = Axis::parse(text).expect_err(text);
            assert!(matches!(error, Error::Asked { .. }), "{text}");
        }
    }
}
