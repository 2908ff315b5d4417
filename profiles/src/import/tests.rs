//! Laws of all importers: what they write is valid, whatever is done to their input nothing panics, hangs, or comes
//! out as a cost that is none.

mod apart;
mod bad_rows;
mod cases;
mod configs;
mod contradict;
mod drift;
mod events;
mod exact;
mod families;
mod fuzz;
mod headers;
mod hybrids;
mod kinds;
mod lines;
mod loaded;
mod opened;
mod own_rows;
mod pasted;
mod published;
mod rates;
mod said;
mod samples;
mod setups;
mod shards;
mod slips;
mod towers;

use std::io::{self, Cursor, Write};

use sim::load;

use super::{Kind, Note, NoteKind, Notes, Options, Sink, Source, import};

/// Results in memory.
struct Memory {
    many: bool,
    files: Vec<(String, Vec<u8>)>,
}

impl Sink for Memory {
    fn many(&self) -> bool {
        self.many
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + '_>> {
        self.files.push((name.to_owned(), Vec::new()));
        let (_, bytes) = self.files.last_mut().expect("it was just added");
        Ok(Box::new(bytes))
    }

    fn discard(&mut self, name: &str) -> io::Result<()> {
        self.files.retain(|(known, _)| known != name);
        Ok(())
    }
}

/// What came of an import.
struct Done {
    notes: Notes,
    files: Vec<(String, String)>,
}

impl Done {
    /// The notes as text.
    fn said(&self) -> String {
        let lines: Vec<String> = self.notes.list.iter().map(Note::to_string).collect();
        lines.join("\n")
    }

    /// The only file.
    fn file(&self) -> &str {
        let mut main = self
            .files
            .iter()
            .filter(|(name, _)| !name.ends_with("-cold.toml"));
        let (_, text) = main
            .next()
            .unwrap_or_else(|| panic!("no file\n{}", self.said()));
        assert!(
            main.next().is_none(),
            "one file is expected\n{}",
            self.said()
        );
        text
    }

    /// A number of the only file, by its path.
    fn number(&self, path: &str) -> f64 {
        number(self.file(), path)
    }

    fn says(&self, kind: NoteKind, part: &str) {
        let found = self
            .notes
            .list
            .iter()
            .any(|note| note.kind == kind && note.to_string().contains(part));
        assert!(found, "no note {kind:?} with `{part}` in\n{}", self.said());
    }
}

/// A number of a profile by its dotted path.
fn number(text: &str, path: &str) -> f64 {
    let table: toml::Table = text.parse().expect("it is TOML");
    let mut value = &toml::Value::Table(table);
    for key in path.split('.') {
        value = value
            .get(key)
            .unwrap_or_else(|| panic!("no `{key}` of `{path}` in\n{text}"));
    }
    let value = value.get("value").unwrap_or(value);
    value
        .as_float()
        .or_else(|| value.as_integer().map(|number| number as f64))
        .expect("it is a number")
}

fn run_bytes(kind: Kind, options: &Options, files: &[(&str, &[u8])], many: bool) -> Done {
    let sources = files
        .iter()
        .map(|(name, bytes)| Source::new(*name, Cursor::new(bytes.to_vec())));
    let mut memory = Memory {
        many,
        files: Vec::new(),
    };
    let notes =
        import(kind, sources.collect(), options, &mut memory).expect("memory takes everything");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what is written is text");
    let files: Vec<(String, String)> = memory
        .files
        .into_iter()
        .map(|(name, bytes)| (name, text(bytes)))
        .collect();
    let done = Done { notes, files };
    valid(kind, &done);
    done
}

fn run(kind: Kind, options: &Options, files: &[(&str, &str)]) -> Done {
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, text)| (*name, text.as_bytes()))
        .collect();
    run_bytes(kind, options, &files, true)
}

/// What `crossinfer check` would say of the files; and that nothing came out in silence.
fn valid(kind: Kind, done: &Done) {
    assert_eq!(done.notes.wrote, done.files.len(), "{}", done.said());
    if done.files.is_empty() {
        let told = done.notes.any(NoteKind::Refused) || done.notes.any(NoteKind::Conflict);
        assert!(
            told,
            "nothing came out and nothing says why\n{}",
            done.said()
        );
    }
    for (name, text) in &done.files {
        if kind != Kind::Trace {
            intervals(text);
        }
        match kind {
            Kind::Trace => {
                sim::workload::trace_file::parse(name, text)
                    .unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
            }
            // Told to be incomplete.
            Kind::Gguf | Kind::HfConfig | Kind::Bandwidth if text.contains("# missing: ") => {
                assert!(done.notes.any(NoteKind::Missing), "{}", done.said());
                text.parse::<toml::Table>()
                    .unwrap_or_else(|fault| panic!("{fault}\n{text}"));
            }
            Kind::Gguf | Kind::HfConfig => drop(
                load::check_model(name, text).unwrap_or_else(|faults| panic!("{faults:?}\n{text}")),
            ),
            Kind::Bandwidth => drop(
                load::check_soc(name, text).unwrap_or_else(|faults| panic!("{faults:?}\n{text}")),
            ),
            _ => drop(
                load::check_costs(name, text).unwrap_or_else(|faults| panic!("{faults:?}\n{text}")),
            ),
        }
    }
}

/// Every number that has an interval lies in it.
fn intervals(text: &str) {
    fn within(value: &toml::Value, text: &str) {
        let get = |key: &str| {
            let number = value.get(key)?;
            number
                .as_float()
                .or_else(|| number.as_integer().map(|number| number as f64))
        };
        if let Some(number) = get("value") {
            let (low, high) = (get("low").unwrap_or(number), get("high").unwrap_or(number));
            assert!(low <= number && number <= high, "{value} in\n{text}");
        }
        match value {
            toml::Value::Table(table) => table.values().for_each(|value| within(value, text)),
            toml::Value::Array(list) => list.iter().for_each(|value| within(value, text)),
            _ => {}
        }
    }
    let table: toml::Table = text.parse().expect("it is TOML");
    within(&toml::Value::Table(table), text);
}
