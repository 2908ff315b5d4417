//! Tables of AI Hub's times, tab-separated.

use super::super::row::{Identity, Test};
use super::super::text::{lines, nearest, positive, short};
use super::Reader;

impl Reader<'_> {
    /// A table of times, tab-separated: `model`, `component`, `device`, `runtime`, `inference_time_ms`.
    pub(super) fn rows_of(&mut self, text: &str) {
        const NEEDED: [&str; 5] = [
            "model",
            "device",
            "runtime",
            "inference_time_ms",
            "primary_compute_unit",
        ];
        let mut all = lines(text);
        let Some((line, header)) = all.next() else {
            return;
        };
        let names: Vec<&str> = header.split('\t').map(str::trim).collect();
        for name in NEEDED {
            if !names.contains(&name) {
                let near = nearest(name, names.iter().copied());
                let near =
                    near.map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
                self.notes.refuse(
                    self.file,
                    Some(line),
                    format!("column `{name}` is missing{near}"),
                );
                return;
            }
        }
        for (line, text) in all.filter(|(_, line)| !line.trim().is_empty()) {
            let cells: Vec<&str> = text.split('\t').map(str::trim).collect();
            if cells.len() != names.len() {
                let text = format!(
                    "the row has {} cells, the header {}",
                    cells.len(),
                    names.len()
                );
                self.notes.skip(self.file, line, text);
                continue;
            }
            let cell = |name: &str| {
                let index = names.iter().position(|known| *known == name);
                index.map_or("", |index| cells[index])
            };
            let time = match positive(cell("inference_time_ms")) {
                Ok(time) => time * 1e-3,
                Err(reason) => {
                    let text = format!("{} by {}: {reason}", short(cell("model")), cell("runtime"));
                    self.notes.skip(self.file, line, text);
                    continue;
                }
            };
            self.block += 1;
            let pairs = [
                ("model", cell("model")),
                ("soc", cell("device")),
                ("device", cell("device")),
                ("runtime", cell("runtime")),
                ("quant", cell("precision")),
            ];
            let mut identity: Identity = pairs
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            identity.insert(
                "engine".to_owned(),
                cell("primary_compute_unit").to_lowercase(),
            );
            let component = if cell("component").is_empty() {
                cell("model")
            } else {
                cell("component")
            };
            self.push(identity, Test::Run(component.to_owned()), time, line);
        }
    }
}
