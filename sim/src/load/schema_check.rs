//! Checks a file against its shape and collects everything that does not fit, so that reading it into the
//! raw types afterwards succeeds.

use std::collections::BTreeMap;
use std::ops::Range;

use super::document::{Place, Value};
use super::schema_words::{example, last, mended, reason, unit, whole_example};
use super::shape::{Bounds, Choice, Field, Shape};
use super::suggest;
use crate::diag::Diagnostic;

/// A number of a profile and where it says it came from.
#[derive(Debug)]
pub(super) struct Number {
    /// Dotted path.
    pub(super) path: String,
    /// Bytes that say it: the number, or the table that holds it.
    pub(super) span: Range<usize>,
    /// Bytes of the number alone.
    pub(super) digits: Range<usize>,
    /// The number.
    pub(super) value: f64,
    /// Its interval, as far as given.
    pub(super) interval: (Option<f64>, Option<f64>),
    /// Origin key with its bytes: its own, or the nearest enclosing table's.
    pub(super) origin: Option<(String, Range<usize>)>,
}

/// How a file can be read in spite of a fault, for the faults of what else it says.
#[derive(Clone, Debug)]
pub(super) struct Cure {
    /// Dotted path of the value.
    pub(super) path: String,
    /// Bytes that are at fault.
    pub(super) span: Range<usize>,
    /// What is done.
    pub(super) by: By,
}

/// What is done to a value.
#[derive(Clone, Debug)]
pub(super) enum By {
    /// It is left out.
    Leaving,
    /// Its key is taken for this one.
    Renaming(String),
    /// Any number within the bounds takes its place.
    Number(Bounds),
}

/// What a check found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Everything that does not fit.
    pub(super) faults: Vec<Diagnostic>,
    /// For each of them, if it has one.
    pub(super) cures: Vec<Cure>,
    /// Numbers that need an origin.
    pub(super) numbers: Vec<Number>,
}

/// Checks `place` against `shape`.
pub(super) fn check(place: &Place<'_>, shape: &Shape) -> Findings {
    let mut checker = Checker {
        findings: Findings::default(),
        optional: false,
    };
    checker.check(place, shape, None);
    checker.findings
}

/// Origin that holds in a table.
type Origin<'o> = Option<&'o (String, Range<usize>)>;

struct Checker {
    findings: Findings,
    /// Whether what is looked at may be left out.
    optional: bool,
}

impl Checker {
    fn fault(&mut self, fault: Diagnostic) {
        self.findings.faults.push(fault);
    }

    fn curable(&mut self, fault: Diagnostic, place: &Place<'_>, by: By) {
        self.findings.cures.push(Cure {
            path: place.path().to_owned(),
            span: fault.span.clone(),
            by,
        });
        self.fault(fault);
    }

    fn check(&mut self, place: &Place<'_>, shape: &Shape, origin: Origin<'_>) {
        let Some(value) = place.value() else {
            return;
        };
        // What is in here is asked for by what is around it, unless a table says otherwise.
        let optional = std::mem::take(&mut self.optional);
        match (shape, value) {
            (Shape::Text | Shape::Scalar, Value::Text(_))
            | (Shape::Flag | Shape::Scalar, Value::Boolean)
            | (Shape::Scalar, Value::Integer(Some(_))) => {}
            (Shape::Integer(bounds), Value::Integer(Some(value))) => {
                self.bounds(place, *bounds, *value as f64);
            }
            (
                Shape::Integer(bounds) | Shape::Number(bounds) | Shape::Quantity(bounds),
                Value::Integer(None),
            ) => self.beyond(place, *bounds),
            (Shape::Scalar, Value::Integer(None)) => self.beyond(place, Bounds::default()),
            (Shape::Scalar, Value::Float(_)) => _ = self.number(place, Bounds::default()),
            (Shape::Number(bounds), Value::Integer(_) | Value::Float(_)) => {
                self.optional = optional;
                self.number(place, *bounds);
            }
            (Shape::Quantity(bounds), Value::Integer(_) | Value::Float(_)) => {
                self.optional = optional;
                if let Some(value) = self.number(place, *bounds) {
                    self.record(place, value, (None, None), origin.cloned());
                }
            }
            (Shape::Quantity(bounds), Value::Table(_)) => self.quantity(place, *bounds, origin),
            (Shape::List { item, len, numbers }, Value::Array(items)) => {
                if let Some(len) = len
                    && items.len() != *len
                {
                    self.fault(
                        place
                            .fault(
                                format!(
                                    "{} has {}",
                                    place.quoted(),
                                    suggest::counted(items.len(), "item")
                                ),
                                format!("expected {len} items"),
                            )
                            .help(example(place, shape)),
                    );
                }
                for index in 0..items.len() {
                    let item_place = place.index(index);
                    self.check(&item_place, item, origin);
                    if *numbers {
                        self.measured(&item_place, origin);
                    }
                }
            }
            (Shape::Map(shape), Value::Table(_)) => {
                for key in place.keys() {
                    self.check(&place.key(key), shape, origin);
                }
            }
            (Shape::Table(fields), Value::Table(_)) => self.table(place, fields, origin),
            (Shape::Choice(choice), _) => self.choice(place, choice, shape, origin),
            _ => self.wrong_type(place, shape),
        }
    }

    /// A whole number that 64 bits cannot hold.
    fn beyond(&mut self, place: &Place<'_>, bounds: Bounds) {
        let fault = place.fault(
            format!("{} is out of range", place.quoted()),
            format!(
                "a whole number of TOML is within {} and {}",
                i64::MIN,
                i64::MAX
            ),
        );
        self.curable(fault, place, By::Number(bounds));
    }

    /// The number that is here, if it is one that may be here.
    fn number(&mut self, place: &Place<'_>, bounds: Bounds) -> Option<f64> {
        if let Some(Value::Integer(None)) = place.value() {
            self.beyond(place, bounds);
        }
        let value = number_at(place)?;
        if !value.is_finite() {
            self.curable(
                place
                    .fault(
                        format!("{} is not a finite number", place.quoted()),
                        "must be finite",
                    )
                    .help(if self.optional {
                        format!("write a number, or leave `{}` out", last(place))
                    } else {
                        format!("write a number, for example {:?}", bounds.example())
                    }),
                place,
                By::Number(bounds),
            );
            return None;
        }
        self.bounds(place, bounds, value).then_some(value)
    }

    fn bounds(&mut self, place: &Place<'_>, bounds: Bounds, value: f64) -> bool {
        let Some(right) = bounds.broken_by(value) else {
            return true;
        };
        let unit = unit(place.path());
        let unit = if unit.is_empty() || right.contains("whole") {
            String::new()
        } else if right.ends_with(" 1") {
            format!(
                " {}",
                unit.strip_suffix('s')
                    .filter(|u| !u.is_empty())
                    .unwrap_or(unit)
            )
        } else {
            format!(" {unit}")
        };
        let mut fault = place.fault(
            format!("{} is {}", place.quoted(), place.source()),
            format!("must be {right}{unit}"),
        );
        if let Some(why) = reason(last(place))
            && bounds.most.is_some_and(|most| value > most)
        {
            fault = fault.help(why);
        }
        self.curable(fault, place, By::Number(bounds));
        false
    }

    fn quantity(&mut self, place: &Place<'_>, bounds: Bounds, origin: Origin<'_>) {
        let fields = ["value", "origin", "low", "high"];
        for key in place.keys().filter(|key| !fields.contains(key)) {
            self.unknown_key(place, key, fields.iter().copied(), None);
        }
        let value_place = place.key("value");
        if !value_place.is_present() {
            self.fault(
                place
                    .fault(format!("{} lacks `value`", place.quoted()), "required")
                    .help("add `value = 1.0`: the number, in the unit of the key"),
            );
        }
        let mut numbers = [None; 3];
        for (key, number) in ["value", "low", "high"].into_iter().zip(&mut numbers) {
            let inner = place.key(key);
            self.optional = key != "value";
            match inner.value() {
                None => {}
                // An interval may reach down to nothing, even where the value may not be nothing.
                Some(Value::Integer(_) | Value::Float(_)) if key == "low" => {
                    let open = Bounds {
                        above: None,
                        least: bounds.least.or(bounds.above),
                        ..bounds
                    };
                    *number = self.number(&inner, open);
                }
                Some(Value::Integer(_) | Value::Float(_)) => *number = self.number(&inner, bounds),
                Some(_) => self.wrong_type(&inner, &Shape::Number(bounds)),
            }
        }
        let own = place.key("origin");
        let mut key = origin.cloned();
        match own.value() {
            None => {}
            Some(Value::Text(text)) => key = Some((text.clone(), own.fault("", "").span)),
            Some(_) => self.wrong_type(&own, &Shape::Text),
        }
        let [value, low, high] = numbers;
        let Some(value) = value else {
            return;
        };
        if low.is_some_and(|low| low > value) {
            let fault = place.key("low").fault(
                format!("{} has a `low` above its `value`", place.quoted()),
                format!("must be at most {value}"),
            );
            self.curable(fault, &place.key("low"), By::Leaving);
        }
        if high.is_some_and(|high| high < value) {
            let fault = place.key("high").fault(
                format!("{} has a `high` below its `value`", place.quoted()),
                format!("must be at least {value}"),
            );
            self.curable(fault, &place.key("high"), By::Leaving);
        }
        self.record(place, value, (low, high), key);
    }

    /// Records the numbers of nested lists.
    fn measured(&mut self, place: &Place<'_>, origin: Origin<'_>) {
        if let Some(value) = number_at(place) {
            self.record(place, value, (None, None), origin.cloned());
        }
        for index in 0..place.len() {
            self.measured(&place.index(index), origin);
        }
    }

    fn record(
        &mut self,
        place: &Place<'_>,
        value: f64,
        interval: (Option<f64>, Option<f64>),
        origin: Option<(String, Range<usize>)>,
    ) {
        let long = matches!(place.value(), Some(Value::Table(_)));
        self.findings.numbers.push(Number {
            path: place.path().to_owned(),
            span: place.fault("", "").span,
            digits: if long {
                place.key("value")
            } else {
                place.clone()
            }
            .fault("", "")
            .span,
            value,
            interval,
            origin,
        });
    }

    fn table(&mut self, place: &Place<'_>, fields: &BTreeMap<String, Field>, outer: Origin<'_>) {
        let absent = || {
            let names = fields.keys().map(String::as_str);
            names.filter(|field| !place.key(field).is_present())
        };
        // A misspelt one is one fault, not one for each number.
        let mut unknown = place.keys().filter(|key| !fields.contains_key(*key));
        let misspelt = unknown.find(|key| suggest::nearest(key, absent()) == Some("origin"));
        let origin_place = place.key(misspelt.unwrap_or("origin"));
        let own = origin_place
            .text()
            .filter(|_| fields.contains_key("origin"))
            .map(|text| (text.to_owned(), origin_place.fault("", "").span));
        let origin = own.as_ref().or(outer);
        let mut meant = Vec::new();
        for key in place.keys() {
            if let Some(field) = fields.get(key) {
                self.optional = !field.required;
                self.check(&place.key(key), &field.shape, origin);
            } else {
                let other = suggest::nearest(key, absent());
                meant.extend(other);
                let by = other.map_or_else(
                    || is_plain(&place.key(key)).then_some(By::Leaving),
                    |other| fits_well(&place.key(key), &fields[other].shape, other),
                );
                self.unknown_key(place, key, fields.keys().map(String::as_str), by);
            }
        }
        for (key, field) in fields {
            if field.required && !place.key(key).is_present() && !meant.contains(&key.as_str()) {
                self.fault(
                    place
                        .key_fault(format!("{} lacks `{key}`", place.quoted()), "required")
                        .help(match whole_example(&place.key(key)) {
                            Some(example) => format!("{example}: {}", field.summary),
                            None => format!(
                                "add `{key} = {}`: {}",
                                field.shape.example(),
                                field.summary
                            ),
                        }),
                );
            }
        }
    }

    fn choice(&mut self, place: &Place<'_>, choice: &Choice, shape: &Shape, origin: Origin<'_>) {
        match place.value() {
            Some(Value::Text(word)) if !choice.words.is_empty() || !choice.tagged.is_empty() => {
                if choice.words.contains(word) {
                    return;
                }
                let fault = place.fault(
                    format!("unknown value `{word}` of {}", place.quoted()),
                    "not one of its values",
                );
                let Some(inner) = choice.tagged.get(word).or(choice.wide.get(word)) else {
                    let names = choice.names();
                    let hint = suggest::hint(word, "one of", names.iter().copied());
                    self.fault(fault.help(hint));
                    return;
                };
                let mut fault = fault.help(if choice.wide.contains_key(word) {
                    format!("write `{} = {}`", last(place), inner.example())
                } else {
                    format!(
                        "write `{} = {{ {word} = {} }}`",
                        last(place),
                        inner.example()
                    )
                });
                fault.message = format!("`{word}` of {} needs a table", place.quoted());
                "its parameters are missing".clone_into(&mut fault.label);
                self.fault(fault);
            }
            Some(Value::Table(_)) if !choice.tagged.is_empty() => {
                self.tagged(place, choice, origin);
            }
            _ => match &choice.plain {
                Some(plain) if fits(place, plain) => self.check(place, plain, origin),
                _ => self.wrong_type(place, shape),
            },
        }
    }

    fn tagged(&mut self, place: &Place<'_>, choice: &Choice, origin: Origin<'_>) {
        let names = choice.names();
        let keys: Vec<&str> = place.keys().collect();
        if keys.is_empty() {
            self.fault(
                place
                    .fault(
                        format!("{} is empty", place.quoted()),
                        "must name one variant",
                    )
                    .help(format!(
                        "one of: {}",
                        suggest::quoted_list(names.iter().copied())
                    )),
            );
        }
        if let Some(shape) = keys.iter().find_map(|key| choice.wide.get(*key)) {
            return self.check(place, shape, origin);
        }
        let known: Vec<&str> = keys
            .iter()
            .copied()
            .filter(|key| choice.tagged.contains_key(*key))
            .collect();
        for key in &keys {
            match choice.tagged.get(*key) {
                Some(shape) => self.check(&place.key(key), shape, origin),
                None => self.fault(
                    place
                        .key(key)
                        .key_fault(
                            format!("unknown variant `{key}` of {}", place.quoted()),
                            "not one of its variants",
                        )
                        .help(suggest::hint(key, "one of", names.iter().copied())),
                ),
            }
        }
        for second in known.iter().skip(1) {
            self.fault(
                place
                    .key(second)
                    .key_fault(
                        format!("{} has both `{}` and `{second}`", place.quoted(), known[0]),
                        "only one variant may be given",
                    )
                    .help(format!("remove `{}` or `{second}`", known[0])),
            );
        }
    }

    fn unknown_key<'n>(
        &mut self,
        place: &Place<'_>,
        key: &str,
        known: impl IntoIterator<Item = &'n str> + Clone,
        cure: Option<By>,
    ) {
        let help = if known.clone().into_iter().next().is_none() {
            format!("{} takes no keys", place.quoted())
        } else {
            suggest::hint(key, "known keys", known)
        };
        let place_of_key = place.key(key);
        let fault = place_of_key
            .key_fault(
                format!("unknown key `{key}` in {}", place.quoted()),
                "not a key here",
            )
            .help(help);
        match cure {
            Some(by) => self.curable(fault, &place_of_key, by),
            None => self.fault(fault),
        }
    }

    fn wrong_type(&mut self, place: &Place<'_>, shape: &Shape) {
        let found = match place.value() {
            Some(Value::Text(_)) => "a string",
            Some(Value::Integer(_)) => "a whole number",
            Some(Value::Float(_)) => "a number with a point",
            Some(Value::Boolean) => "a boolean",
            Some(Value::Datetime) => "a date or time",
            Some(Value::Array(_)) => "a list",
            Some(Value::Table(_)) => "a table",
            None => "missing",
        };
        let fault = place
            .fault(
                format!("{} is {found}", place.quoted()),
                format!("expected {}", shape.expected()),
            )
            .help(mended(place, shape).unwrap_or_else(|| example(place, shape)));
        match shape {
            Shape::Number(bounds) | Shape::Integer(bounds) | Shape::Quantity(bounds) => {
                self.curable(fault, place, By::Number(*bounds));
            }
            _ => self.fault(fault),
        }
    }
}

/// Whether a value is no table, nor a list of them: without it the rest means the same.
fn is_plain(place: &Place<'_>) -> bool {
    !matches!(place.value(), Some(Value::Table(_) | Value::Array(_)))
}

/// Another name for the key of a value that is right under it.
fn fits_well(place: &Place<'_>, shape: &Shape, name: &str) -> Option<By> {
    let faults = check(place, shape).faults;
    faults.is_empty().then(|| By::Renaming(name.to_owned()))
}

/// Whether the type of the value is the shape's, whatever the value.
fn fits(place: &Place<'_>, shape: &Shape) -> bool {
    matches!(
        (shape, place.value()),
        (Shape::Text, Some(Value::Text(_)))
            | (Shape::Flag, Some(Value::Boolean))
            | (Shape::Integer(_), Some(Value::Integer(_)))
            | (
                Shape::Number(_) | Shape::Quantity(_),
                Some(Value::Integer(_) | Value::Float(_))
            )
            | (Shape::List { .. }, Some(Value::Array(_)))
            | (
                Shape::Map(_) | Shape::Table(_) | Shape::Quantity(_),
                Some(Value::Table(_))
            )
    )
}

fn number_at(place: &Place<'_>) -> Option<f64> {
    match place.value() {
        Some(Value::Integer(Some(value))) => Some(*value as f64),
        Some(Value::Float(value)) => Some(*value),
        _ => None,
    }
}
