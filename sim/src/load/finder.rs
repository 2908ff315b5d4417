//! Finds what a scenario names: profiles and models by key or path, traces and scripts by path.

use std::sync::Arc;

use super::compile::Keys;
use super::file::{File, Ledger};
use super::inputs::{Files, Library, Source};
use super::policy::Scripts;
use super::trace::{self, Traces};
use super::{Kind, suggest};
use crate::diag::Diagnostic;
use crate::dispatch::policy::script::Program;
use crate::spec::scenario::{Policy, ScenarioFile};
use crate::workload::trace_file;

/// Where the files that a scenario names are looked for.
pub(super) struct Finder<'f> {
    /// The scenario's name.
    pub(super) scenario: &'f str,
    /// Profiles and models by key.
    pub(super) library: &'f dyn Library,
    /// Files by path.
    pub(super) files: &'f dyn Files,
}

pub(super) type Span = std::ops::Range<usize>;

impl Finder<'_> {
    /// A SoC profile or model by key or path.
    pub(super) fn profile(&self, kind: Kind, key: &str, at: &Span) -> Result<Source, Diagnostic> {
        if is_path(key) {
            return self.path(key, at);
        }
        let (found, what) = match kind {
            Kind::Soc => (self.library.soc(key), "SoC"),
            _ => (self.library.model(key), "model"),
        };
        found.ok_or_else(|| {
            let names = self.library.names(kind);
            let list = suggest::quoted_list(names.iter().map(String::as_str));
            let mut help = match suggest::nearest(key, names.iter().map(String::as_str)) {
                Some(name) => format!("did you mean `{name}`? there are {list}"),
                None if names.is_empty() => "the library is empty".to_owned(),
                None => format!("there are {list}"),
            };
            help.push_str("; a path to a file of your own ends in `.toml`");
            Diagnostic::new(
                self.scenario,
                at.clone(),
                format!("unknown {what} `{key}`"),
                "not in the library",
            )
            .help(help)
        })
    }

    /// The library's costs.
    pub(super) fn costs(&self, keys: &Keys, at: &Span) -> Result<Source, Diagnostic> {
        let Keys { soc, model, .. } = keys;
        self.library.costs(soc, model).ok_or_else(|| {
            let names = self.library.names(Kind::Costs);
            let mut help = format!(
                "write a cost file and name it with `costs = \"path.toml\"`; costs of `{soc}`: "
            );
            let prefix = format!("{soc}/");
            let of_soc: Vec<&str> = names
                .iter()
                .filter(|name| name.starts_with(&prefix))
                .map(String::as_str)
                .collect();
            if of_soc.is_empty() {
                help.push_str("none");
            } else {
                help.push_str(&suggest::quoted_list(of_soc));
            }
            Diagnostic::new(
                self.scenario,
                at.clone(),
                format!("no costs of model `{model}` on SoC `{soc}`"),
                "not in the library",
            )
            .help(help)
        })
    }

    /// The trace files that the scenario names.
    pub(super) fn traces(&self, scenario: &File<ScenarioFile>, ledger: &mut Ledger) -> Traces {
        let mut traces = Traces::new();
        for (path, place) in trace::named(scenario) {
            if traces.contains_key(path) {
                continue;
            }
            match self.path(path, &place.fault("", "").span) {
                Err(fault) => ledger.faults.push(fault),
                Ok(Source { name, text }) => match trace_file::parse(&name, &text) {
                    Ok(trace) => {
                        traces.insert(path.to_owned(), trace);
                        ledger.keep(name, text);
                    }
                    Err(faults) => ledger.blame(name, text, faults),
                },
            }
        }
        traces
    }

    /// The script that is the scenario's policy.
    pub(super) fn script(&self, scenario: &File<ScenarioFile>, ledger: &mut Ledger) -> Scripts {
        let mut scripts = Scripts::new();
        if let Policy::Script { script, .. } = &scenario.raw.policy {
            let place = scenario.root().key("policy").key("script");
            match self.path(script, &place.fault("", "").span) {
                Err(fault) => {
                    scripts.insert(script.clone(), None);
                    ledger.faults.push(fault);
                }
                Ok(source) => read_script(script, source, &mut scripts, ledger),
            }
        }
        scripts
    }

    /// A file by its path relative to the scenario.
    pub(super) fn path(&self, path: &str, at: &Span) -> Result<Source, Diagnostic> {
        let name = beside(self.scenario, path);
        match self.files.read(&name) {
            Ok(text) => Ok(Source { name, text }),
            Err(error) => Err(Diagnostic::new(
                self.scenario,
                at.clone(),
                format!("`{name}` cannot be read"),
                error,
            )
            .help("paths are relative to the scenario file")),
        }
    }
}

/// Whether a key is the path of a file of the user's own.
pub(super) fn is_path(key: &str) -> bool {
    std::path::Path::new(key)
        .extension()
        .is_some_and(|extension| extension == "toml")
}

/// `path` relative to the folder of `scenario`.
pub(super) fn beside(scenario: &str, path: &str) -> String {
    let folder = std::path::Path::new(scenario).parent();
    match folder {
        Some(folder) if !folder.as_os_str().is_empty() => {
            folder.join(path).to_string_lossy().into_owned()
        }
        _ => path.to_owned(),
    }
}

/// The key of a profile: of a file `x/soc.toml` its folder, of another its stem.
pub(super) fn key_of(key: &str) -> String {
    if !is_path(key) {
        return key.to_owned();
    }
    let path = std::path::Path::new(key);
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().and_then(|parent| parent.file_name());
    match folder {
        Some(folder) if stem == "soc" => folder.to_string_lossy().into_owned(),
        _ => stem.to_string_lossy().into_owned(),
    }
}

/// Reads a script that policies name by `path`.
pub(super) fn read_script(path: &str, source: Source, scripts: &mut Scripts, ledger: &mut Ledger) {
    let Source { name, text } = source;
    match Program::new(&name, &text) {
        Ok(program) => {
            scripts.insert(path.to_owned(), Some(Arc::new(program)));
            ledger.keep(name, text);
        }
        Err(fault) => {
            scripts.insert(path.to_owned(), None);
            ledger.blame(name, text, vec![fault]);
        }
    }
}
