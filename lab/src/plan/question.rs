//! Questions in files: a scenario, targets and what is made as large as possible.

use serde::Deserialize;

/// A question.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Path of the scenario, relative to the question's file.
    pub scenario: String,
    /// Targets, as on the command line.
    pub targets: Vec<String>,
    /// The load that is made as large as possible.
    pub maximise: String,
}

impl Question {
    /// The question of a text, if its top has a `scenario`; a scenario itself has none.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with its line.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        let table: toml_edit::DocumentMut = text.parse().ok()?;
        table.get("scenario")?;
        Some(toml::from_str(text).map_err(|error| error.to_string()))
    }
}
