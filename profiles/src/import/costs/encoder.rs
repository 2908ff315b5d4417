//! An encoder has a precision and cores of its own. The language model beside it is the same whatever they are.

use std::collections::{BTreeMap, BTreeSet};

use super::super::row::{ENCODE_CORES, ENCODE_QUANT, Identity, Row, Test};

/// Keys that are the encoder's alone.
const OF_ENCODER: [&str; 2] = [ENCODE_QUANT, ENCODE_CORES];

/// Rows of language models, once beside each way in which their encoder ran, so that one profile has both and no
/// profile has two encoders.
pub(super) fn beside(rows: Vec<Row>) -> Vec<Row> {
    let without = |row: &Row| {
        let mut identity = row.identity.clone();
        identity.retain(|key, _| !OF_ENCODER.contains(&key.as_str()));
        identity
    };
    let mut ways: BTreeMap<Identity, BTreeSet<Identity>> = BTreeMap::new();
    for row in &rows {
        if matches!(row.test, Test::Encode { .. }) {
            let ways = ways.entry(without(row)).or_default();
            ways.insert(row.identity.clone());
        }
    }
    let mut result = Vec::new();
    for row in rows {
        let ways = ways.get(&without(&row));
        match ways.filter(|_| !matches!(row.test, Test::Encode { .. })) {
            Some(ways) => result.extend(ways.iter().map(|identity| Row {
                identity: identity.clone(),
                ..row.clone()
            })),
            None => result.push(row),
        }
    }
    result
}
