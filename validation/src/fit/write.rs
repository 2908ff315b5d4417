//! The fitted numbers, written into the profiles they came from.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sim::diag::{Diagnostic, Faults};
use sim::load::{Files, Kind, Library, Source};
use toml_edit::{Array, DocumentMut, InlineTable, Item, TableLike, Value};

use super::check::numbers_of;
use super::problem::{Place, plain};
use super::result::{Fit, Identified, Parameter};
use crate::folder::Stock;
use crate::words::{count, plain as number};

/// A profile with fitted numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Name of the file that it was.
    pub file: String,
    /// Its new text.
    pub text: String,
}

impl Written {
    /// Where it belongs in a folder of profiles: the last two parts of its name, as in
    /// `rk3588/soc.toml`.
    pub fn place(&self) -> String {
        let mut parts: Vec<&str> = self.file.rsplit(['/', '\\']).take(2).collect();
        parts.reverse();
        parts.join("/")
    }
}

/// What is in stock, with some profiles as they are written.
pub(super) struct Overlay<'w> {
    pub(super) stock: &'w dyn Stock,
    pub(super) written: &'w [Written],
}

impl Overlay<'_> {
    fn lay(&self, source: Source) -> Source {
        let same = |written: &&Written| plain(&written.file) == plain(&source.name);
        match self.written.iter().find(same) {
            None => source,
            Some(written) => Source {
                text: written.text.clone(),
                ..source
            },
        }
    }
}

impl Stock for Overlay<'_> {
    fn published(&self, key: &str) -> Option<Source> {
        self.stock.published(key)
    }

    fn library(&self, path: &str) -> Box<dyn Library + '_> {
        Box::new(Shelf {
            library: self.stock.library(path),
            overlay: self,
        })
    }

    fn files(&self) -> &dyn Files {
        self
    }
}

impl Files for Overlay<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        let text = self.stock.files().read(path)?;
        let name = path.to_owned();
        Ok(self.lay(Source { name, text }).text)
    }
}

struct Shelf<'w> {
    library: Box<dyn Library + 'w>,
    overlay: &'w Overlay<'w>,
}

impl Library for Shelf<'_> {
    fn soc(&self, key: &str) -> Option<Source> {
        Some(self.overlay.lay(self.library.soc(key)?))
    }

    fn model(&self, key: &str) -> Option<Source> {
        Some(self.overlay.lay(self.library.model(key)?))
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        Some(self.overlay.lay(self.library.costs(soc_key, model_key)?))
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.library.names(kind)
    }
}

/// Writes numbers into the profile `text`, called `name`; comments and layout stay.
pub(super) fn write(
    fit: &Fit,
    name: &str,
    text: &str,
    numbers: &[(&Parameter, &Place)],
) -> Result<Written, Faults> {
    let fail = |list| Faults {
        list,
        sources: vec![(name.to_owned(), text.to_owned())],
    };
    let fault = |place: &Place, message: String| {
        let fault = Diagnostic::new(name, place.number.span.clone(), message, "fitted");
        fail(vec![fault.help("fit a number that is the value of a key")])
    };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        fail(vec![Diagnostic::new(name, 0..0, error.message(), "here")])
    })?;
    let origin = fit.origin.clone();
    let mut used = BTreeSet::from([origin.clone()]);
    let set = |path: &str| numbers.iter().any(|(_, place)| place.number.path == path);
    for number in numbers_of(name, text)?
        .iter()
        .filter(|number| !set(&number.path))
    {
        used.insert(number.origin.clone());
    }
    for (parameter, place) in numbers {
        let Some(item) = find(document.as_item_mut(), &place.number.path) else {
            let message = format!("`{}` cannot carry an origin", place.number.path);
            return Err(fault(place, message));
        };
        put(item, parameter, place.times, &origin);
        if let Some(sizes) = place.measured_tokens
            && let Some((stage, _)) = place.number.path.rsplit_once('.')
            && let Some(stage) = find(document.as_item_mut(), stage)
            && let Some(stage) = stage.as_table_like_mut()
        {
            let sizes: Array = sizes.into_iter().map(i64::from).collect();
            stage.insert("measured_tokens", toml_edit::value(sizes));
        }
    }
    drop_unused(document.as_table_mut(), &used, &origin);
    let origins = document.entry("origins").or_insert_with(toml_edit::table);
    if let Some(origins) = origins.as_table_like_mut() {
        let mut says = toml_edit::Table::new();
        says["kind"] = toml_edit::value("fitted");
        says["source"] = toml_edit::value(source(fit));
        says["note"] = toml_edit::value(note(fit, numbers));
        // Where the last fit of this name stood, else after all others.
        let old = origins.get(&origin).and_then(Item::as_table);
        if let Some(old) = old {
            says.set_position(old.position());
            *says.decor_mut() = old.decor().clone();
        } else {
            says.decor_mut().set_prefix("\n");
        }
        origins.insert(&origin, Item::Table(says));
    }
    let text = document.to_string();
    numbers_of(name, &text)?;
    Ok(Written {
        file: name.to_owned(),
        text,
    })
}

/// The item at a dotted path; `None` in a list.
fn find<'i>(item: &'i mut Item, path: &str) -> Option<&'i mut Item> {
    let mut item = item;
    for key in path.split('.') {
        item = item.as_table_like_mut()?.get_mut(key)?;
    }
    Some(item)
}

fn put(item: &mut Item, parameter: &Parameter, times: f64, origin: &str) {
    let value = rounded(parameter.value * times);
    let numbers = [
        ("value", value),
        ("low", rounded(parameter.low * times).min(value)),
        ("high", rounded(parameter.high * times).max(value)),
    ];
    if let Some(table) = item.as_table_like_mut() {
        fill(table, &numbers, origin);
        return;
    }
    let mut table = InlineTable::new();
    fill(&mut table, &numbers, origin);
    let mut new = Value::InlineTable(table);
    if let Some(old) = item.as_value() {
        *new.decor_mut() = old.decor().clone();
    }
    *item = Item::Value(new);
}

fn fill(table: &mut dyn TableLike, numbers: &[(&str, f64)], origin: &str) {
    let mut insert = |&(key, number): &(&str, f64)| {
        table.insert(key, Item::Value(short(number)));
    };
    let (value, ends) = numbers.split_at(1);
    value.iter().for_each(&mut insert);
    ends.iter().for_each(&mut insert);
    table.insert("origin", toml_edit::value(origin));
}

/// A number in its shortest form, with an exponent where that is shorter.
fn short(x: f64) -> Value {
    format!("{x:?}").parse().unwrap_or_else(|_| x.into())
}

/// Six significant digits: more than any fit knows.
fn rounded(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

/// Takes out the origins that no number names any more; a table whose numbers took one takes the new.
fn drop_unused(root: &mut toml_edit::Table, used: &BTreeSet<String>, origin: &str) {
    if let Some(origins) = root.get_mut("origins").and_then(Item::as_table_like_mut) {
        let names: Vec<String> = origins.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names.iter().filter(|name| !used.contains(*name)) {
            origins.remove(name);
        }
    }
    rename(root, used, origin);
}

fn rename(table: &mut dyn TableLike, used: &BTreeSet<String>, origin: &str) {
    for (key, item) in table.iter_mut() {
        if key == "origin" {
            let unused = item.as_str().is_some_and(|name| !used.contains(name));
            if unused && let Some(value) = item.as_value_mut() {
                let decor = value.decor().clone();
                *value = origin.into();
                *value.decor_mut() = decor;
            }
        } else if let Some(inner) = item.as_table_like_mut() {
            rename(inner, used, origin);
        }
    }
}

/// Whose rows: the measurements and each table or series with its configurations.
fn source(fit: &Fit) -> String {
    let file = std::path::Path::new(&fit.measurements).file_name();
    let file = file.unwrap_or_default().to_string_lossy();
    let mut tables: Vec<(String, Vec<&str>)> = Vec::new();
    let mut who: Vec<&str> = Vec::new();
    for row in fit.rows.iter().map(|fitted| &fitted.row) {
        let by = row.source.as_deref().unwrap_or(&file);
        if !who.contains(&by) {
            who.push(by);
        }
        let words = [row.id.as_str(), row.model.as_str()];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let table = words.join(" ");
        let at = tables.iter().position(|(known, _)| *known == table);
        let at = at.unwrap_or_else(|| {
            tables.push((table, Vec::new()));
            tables.len() - 1
        });
        if !tables[at].1.contains(&row.config.as_str()) {
            tables[at].1.push(&row.config);
        }
    }
    let tables = tables.iter();
    let tables: Vec<String> = tables
        .map(|(table, configs)| format!("{table} ({})", configs.join(", ")))
        .collect();
    format!("{}: {}", who.join("; "), tables.join("; "))
}

fn note(fit: &Fit, numbers: &[(&Parameter, &Place)]) -> String {
    let mut note = format!(
        "{}: {} fitted to {} by weighted least squares, worst residual {:.1} %; low and high \
         are the 95 % interval of the profile likelihood",
        fit.title,
        count(fit.seen().count(), "number"),
        count(fit.rows.len(), "row"),
        fit.worst(),
    );
    if fit.assumed() > 0 {
        _ = write!(
            note,
            "; {} of the rows without a spread of their own, taken as known to {} %",
            fit.assumed(),
            number(fit.assumed_error * 100.0)
        );
    }
    let open = |identified: Identified| {
        let of = numbers
            .iter()
            .filter(|(parameter, _)| parameter.identified == identified);
        let mut names: Vec<&str> = of.map(|(parameter, _)| parameter.name.as_str()).collect();
        names.dedup();
        names.join(", ")
    };
    for (identified, says) in [
        (
            Identified::No,
            "not identified by the rows, so within its bounds only",
        ),
        (Identified::Below, "bounded from below alone"),
        (Identified::Above, "bounded from above alone"),
    ] {
        let names = open(identified);
        if !names.is_empty() {
            _ = write!(note, "; {says}: {names}");
        }
    }
    note
}
