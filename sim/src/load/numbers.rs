//! Other values for the numbers of files that have been checked.

use std::collections::BTreeMap;

use crate::world::Provenance;

/// Changes of one file: first byte of a number, its end and the new value.
pub(super) type Changes = BTreeMap<usize, (usize, f64)>;

/// Other values for numbers of profiles, for fits and for intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers(BTreeMap<String, Changes>);

impl Numbers {
    /// Gives a number, as some world's `provenance` lists it, another value. The value must be one that
    /// the file could state: finite, and within the bounds that its schema gives, for they are not
    /// checked again.
    ///
    /// # Panics
    ///
    /// If the value is not finite.
    pub fn set(&mut self, number: &Provenance, value: f64) {
        assert!(value.is_finite(), "{} set to {value}", number.path);
        let changes = self.0.entry(number.file.clone()).or_default();
        changes.insert(number.span.start, (number.span.end, value));
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn of(&self, file: &str) -> Option<&Changes> {
        self.0.get(file)
    }
}
