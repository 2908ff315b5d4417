//! Keys of the files of a scenario, and setting them.

use std::fmt;

use sim::load::Kind;
use toml_edit::{DocumentMut, Item, TableLike};

use super::Error;
use super::axis::Value;

/// Which file a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A key of a file.
    File(Kind),
    /// The policy, as the command line takes it.
    Policy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Place(usize),
}

/// A key: `run.horizon_s`, `streams.door.queries.deadline_s` or `streams[0].…` of the scenario,
/// `soc:memory.bandwidth_gbps` and the like of a profile, or `policy`. A name that is not plain stands in quotes, as in
/// TOML: `streams."door, left".…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Which file it is of.
    pub kind: KeyKind,
    steps: Vec<Step>,
    text: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Key {
    /// Reads a key.
    ///
    /// # Errors
    ///
    /// An empty part, a quote without its end, or a place that is no number.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (kind, path) = match text.split_once(':') {
            // A colon within the name of a stream, which stands in quotes, is its own.
            Some((word, _)) if word.contains(QUOTES) => (Kind::Scenario, text),
            Some(("scenario", path)) => (Kind::Scenario, path),
            Some(("soc", path)) => (Kind::Soc, path),
            Some(("model", path)) => (Kind::Model, path),
            Some(("costs", path)) => (Kind::Costs, path),
            Some((other, _)) => {
                return Err(Error::asked(
                    format!("`{text}`: there is no file `{other}`"),
                    "write `soc:`, `model:` or `costs:` before a key of a profile; a name with a colon stands in \
                     quotes, as `streams.\"door: left\".queries.deadline_s`",
                ));
            }
            None => (Kind::Scenario, text),
        };
        let kind = if text == "policy" {
            KeyKind::Policy
        } else {
            KeyKind::File(kind)
        };
        let steps = steps(path).ok_or_else(|| {
            Error::asked(
                format!("`{text}` is no key"),
                "write it with points between, as `run.horizon_s` or `streams.door.queries.deadline_s`; a name that is \
                 not plain stands in quotes, as `streams.\"door, left\".queries.deadline_s`, or its place for it, as \
                 `streams[0].queries.deadline_s`",
            )
        })?;
        Ok(Self {
            kind,
            steps,
            text: text.to_owned(),
        })
    }

    /// Whether it may be the same key as another, which names a stream where this gives its place.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        let alike = |(one, other): (&Step, &Step)| {
            one == other
                || matches!(
                    (one, other),
                    (Step::Name(_), Step::Place(_)) | (Step::Place(_), Step::Name(_))
                )
        };
        self.kind == other.kind
            && self.steps.len() == other.steps.len()
            && self.steps.iter().zip(&other.steps).all(alike)
    }

    /// Whether a change of it may change which files are read.
    pub fn names_files(&self) -> bool {
        let first = match self.steps.first() {
            Some(Step::Name(name)) => name.as_str(),
            _ => "",
        };
        let trace = |step: &Step| matches!(step, Step::Name(name) if name == "trace");
        self.kind == KeyKind::File(Kind::Scenario)
            && (["soc", "model", "costs", "beliefs"].contains(&first)
                || self.steps.iter().any(trace)
                || matches!(self.steps.last(), Some(Step::Name(name)) if ["arrivals", "clock", "frames", "queries", "script", "streams"].contains(&name.as_str())))
    }

    /// Sets it in a document.
    ///
    /// # Errors
    ///
    /// A step that is not there: a stream of no such name, a place beyond the end, a key within a number.
    pub fn set(&self, document: &mut DocumentMut, value: &Value) -> Result<(), String> {
        let mut item = document.as_item_mut();
        for step in &self.steps {
            item = self.step(item, step)?;
        }
        let new = toml(value)?;
        // A number with its origin keeps it, but not the interval in which another value was believed to lie.
        let long = item
            .as_table_like_mut()
            .filter(|table| table.contains_key("value"));
        match (long, value) {
            (Some(table), Value::Int(_) | Value::Float(_)) => {
                table.insert("value", Item::Value(new));
                for end in ["low", "high"] {
                    table.remove(end);
                }
            }
            _ => *item = Item::Value(new),
        }
        Ok(())
    }

    fn step<'i>(&self, item: &'i mut Item, step: &Step) -> Result<&'i mut Item, String> {
        match step {
            Step::Place(place) => {
                let there = match item {
                    Item::ArrayOfTables(list) => list.len(),
                    Item::Value(toml_edit::Value::Array(list)) => list.len(),
                    _ => return Err(format!("`{self}`: `[{place}]` is of no list")),
                };
                item.get_mut(*place)
                    .ok_or_else(|| format!("`{self}`: the list has {there} entries, from [0] on"))
            }
            Step::Name(name) => {
                if let Item::ArrayOfTables(list) = item {
                    let named = |table: &toml_edit::Table| {
                        table.get("name").and_then(Item::as_str) == Some(name)
                    };
                    let at = list.iter().position(named);
                    let names: Vec<_> = list
                        .iter()
                        .filter_map(|table| {
                            table.get("name")?.as_str().map(|name| format!("`{name}`"))
                        })
                        .collect();
                    let at = at.ok_or_else(|| {
                        format!("`{self}`: there is no `{name}`, only {}", names.join(", "))
                    })?;
                    return item
                        .get_mut(at)
                        .ok_or_else(|| format!("`{self}`: there is no `{name}`"));
                }
                if item.is_none() {
                    *item =
                        Item::Value(toml_edit::Value::InlineTable(toml_edit::InlineTable::new()));
                }
                let table: &mut dyn TableLike = item
                    .as_table_like_mut()
                    .ok_or_else(|| format!("`{self}`: there is no `{name}` in what is no table"))?;
                Ok(table.entry(name).or_insert(Item::None))
            }
        }
    }
}

/// Marks around a name that is not plain, as in TOML.
const QUOTES: [char; 2] = ['"', '\''];

/// The names and places of a path.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        let (name, after) = if rest.starts_with(QUOTES) {
            let end = quoted(rest)?;
            let text: toml_edit::Value = rest[..end].parse().ok()?;
            (text.as_str()?.to_owned(), &rest[end..])
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        if name.is_empty() || !rest.starts_with(QUOTES) && name.contains(QUOTES) {
            return None;
        }
        steps.push(Step::Name(name));
        rest = after;
        while let Some(place) = rest.strip_prefix('[') {
            let (place, after) = place.split_once(']')?;
            steps.push(Step::Place(place.parse().ok()?));
            rest = after;
        }
        if rest.is_empty() {
            return Some(steps);
        }
        rest = rest.strip_prefix('.')?;
    }
}

/// Where the quoted text ends that `text` begins with.
fn quoted(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    let (_, open) = chars.next()?;
    let mut escaped = false;
    for (at, c) in chars {
        if c == open && !escaped {
            return Some(at + c.len_utf8());
        }
        escaped = open == '"' && c == '\\' && !escaped;
    }
    None
}

/// Splits `text` at the first `mark` outside of quotes.
pub(super) fn split_at(text: &str, mark: char) -> Option<(&str, &str)> {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c == mark {
            return Some((&text[..at], &text[at + c.len_utf8()..]));
        }
        // A quote that never ends is none.
        let quote = QUOTES.contains(&c).then(|| quoted(&text[at..])).flatten();
        at += quote.unwrap_or(c.len_utf8());
    }
    None
}

fn toml(value: &Value) -> Result<toml_edit::Value, String> {
    Ok(match value {
        Value::Int(value) => (*value).into(),
        // As TOML's own writer has it, 1e300 is 301 digits, which a message would quote.
        Value::Float(value) => format!("{value:?}")
            .parse()
            .unwrap_or_else(|_| (*value).into()),
        Value::Bool(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Toml(text) => text
            .parse()
            .map_err(|_| format!("`{text}` is no TOML value"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, key: &str, value: &Value) -> Result<String, String> {
        let mut document: DocumentMut = text.parse().expect("is TOML");
        Key::parse(key)
            .expect("is a key")
            .set(&mut document, value)?;
        let text = document.to_string();
        // What is written can be read.
        text.parse::<DocumentMut>().expect("is TOML");
        Ok(text)
    }

    #[test]
    fn keys_are_set_where_they_are_and_made_where_they_are_not() {
        let of = |text, key, value| set(text, key, &value).expect("is set");
        assert_eq!(of("a = 1\n", "a", Value::Int(2)), "a = 2\n");
        assert_eq!(
            of("a = 1\n", "b.c", Value::Bool(true)),
            "a = 1\nb = { c = true }\n"
        );
        assert_eq!(
            of(
                "[[streams]]\nname = \"x\"\nq = { p = { r = 1 } }\n",
                "streams.x.q.p.r",
                Value::Float(0.5)
            ),
            "[[streams]]\nname = \"x\"\nq = { p = { r = 0.5 } }\n"
        );
        assert_eq!(
            of("[[s]]\nk = 1\n", "s[0].k", Value::Int(3)),
            "[[s]]\nk = 3\n"
        );
        assert_eq!(
            of(
                "p = { value = 1, high = 2, origin = \"x\" }\n",
                "p",
                Value::Int(3)
            ),
            "p = { value = 3, origin = \"x\" }\n"
        );
        assert_eq!(of("a = [1, 2]\n", "a[1]", Value::Int(3)), "a = [1, 3]\n");
        for (value, text) in [
            (1e300, "1e300"),
            (-1.5e-300, "-1.5e-300"),
            (2.0, "2.0"),
            (0.1, "0.1"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
        ] {
            let set = of("a = 1\n", "a", Value::Float(value));
            assert_eq!(set, format!("a = {text}\n"));
        }
    }

    /// Whatever a stream is called, its keys can be named.
    #[test]
    fn names_that_are_not_plain_stand_in_quotes() {
        let names = [
            "<script>alert(\"x\")&'</script>",
            "front, left",
            "a|b",
            "正門",
            "a.b[0]:c=d",
            "it's",
            "back\\slash",
        ];
        for name in names {
            let mut stream = toml_edit::Table::new();
            stream.insert("name", toml_edit::value(name));
            stream.insert("k", toml_edit::value(1));
            let mut list = toml_edit::ArrayOfTables::new();
            list.push(stream);
            let mut document = DocumentMut::new();
            document.insert("streams", Item::ArrayOfTables(list));
            let basic = name.replace('\\', "\\\\").replace('"', "\\\"");
            let mut keys = vec![format!("streams.\"{basic}\".k")];
            if !name.contains('\'') {
                keys.push(format!("streams.'{name}'.k"));
            }
            for key in keys {
                let text = format!("{key}=2,3");
                let axis =
                    crate::sweep::Axis::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
                assert_eq!(axis.count(), Some(2), "{text}");
                assert_eq!(axis.key.to_string(), key);
                axis.key.set(&mut document, &Value::Int(7)).expect(&key);
                assert_eq!(document["streams"][0]["k"].as_integer(), Some(7), "{key}");
                document["streams"][0]["k"] = toml_edit::value(1);
                let grid = format!("{key},seed,completion_s.mean");
                assert!(crate::sweep::Grid::parse(&grid).is_ok(), "{grid}");
                let fixed = crate::sweep::fixed(&text);
                assert_eq!(fixed, Ok((key, "2,3".to_owned())));
            }
        }
        for key in ["a.\"b", "a.\"b\"c", "a.\"\"", "a.b\"c", "a.'b.c"] {
            Key::parse(key).expect_err(key);
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        for (text, key) in [
            ("a = 1\n", "a.b"),
            ("[[streams]]\nname = \"x\"\n", "streams.y.k"),
            ("[[streams]]\nname = \"x\"\n", "streams[1].k"),
            ("a = 1\n", "a[0]"),
        ] {
            let message = set(text, key, &Value::Int(1)).expect_err(key);
            assert!(message.contains(key), "{message}");
        }
        for key in ["", "a..b", "a[x]", "a[0", "a[0]b", "disk:a"] {
            Key::parse(key).expect_err(key);
        }
    }
}
