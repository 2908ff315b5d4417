//! The forms that the cost of a stage may have.

use super::costs::Reader;
use super::document::Place;
use super::suggest;
use crate::cost::{Cost, Time};
use crate::diag::Diagnostic;
use crate::spec::costs::{StageCost, TimeTable};
use crate::spec::model::StageKind;
use crate::spec::quantity::{OriginKind, Quantity};

impl Reader<'_, '_> {
    /// The cost of a stage of kind `kind`, if that is known. It is also given where there are faults, so
    /// that the stage does not seem to have none.
    pub(super) fn cost(
        &mut self,
        place: &Place<'_>,
        raw: &StageCost,
        kind: Option<StageKind>,
    ) -> Cost {
        let time = self.time(place, raw, kind);
        if let Some(kind) = kind {
            self.check_size(place, raw, kind);
        }
        let measured_tokens = self.range(place, "measured_tokens", raw.measured_tokens);
        let measured_context = self.range(place, "measured_context", raw.measured_context);
        let measured_tokens = measured_tokens.or(match &time {
            Time::Table { size, .. } => size.first().copied().zip(size.last().copied()),
            _ => None,
        });
        if let Some(kind) = kind {
            self.require_ranges(place, raw, kind, measured_tokens.is_some());
        }
        let everywhere = (0.0, f64::INFINITY);
        Cost {
            time,
            context_block: raw.context_block.map_or(0.0, f64::from),
            secs_per_context: value(raw.per_context_s.as_ref()),
            bytes_fixed: value(raw.bytes.as_ref()),
            bytes_per_token: value(raw.bytes_per_token.as_ref()),
            bytes_per_token_context: value(raw.bytes_per_token_context.as_ref()),
            bytes_per_context: value(raw.bytes_per_context.as_ref()),
            bytes_per_s_at_most: f64::INFINITY,
            rescale: None,
            measured_tokens: measured_tokens.unwrap_or(everywhere),
            measured_context: measured_context.unwrap_or(everywhere),
        }
    }

    /// The time in exactly one of its forms.
    fn time(&mut self, place: &Place<'_>, raw: &StageCost, kind: Option<StageKind>) -> Time {
        let StageCost {
            fixed_s: fixed,
            per_token_s: per_token,
            per_token_context_s: per_token_context,
            ..
        } = raw;
        let [fixed, per_token, per_token_context] =
            [fixed, per_token, per_token_context].map(|quantity| value(quantity.as_ref()));
        let mut both = |key: &str, form: &str, help: &str| {
            let place = place.key(key);
            if place.is_present() {
                self.faults.push(
                    place
                        .key_fault(
                            format!("`{key}` beside `{form}`"),
                            format!("has no effect with a `{form}`"),
                        )
                        .help(help),
                );
            }
        };
        if let Some(table) = &raw.table {
            both("fixed_s", "table", "add it to the table's times");
            both(
                "per_token_s",
                "table",
                "remove it: the table holds the time by size",
            );
            both("gbps", "table", "remove one of the two");
            check_table(&place.key("table"), table, self.faults);
            return Time::Table {
                size: table.size.clone(),
                secs: table.time_s.clone(),
                per_token_context,
            };
        }
        if let Some(rate) = &raw.gbps {
            if kind.is_some_and(|kind| !is_transfer(kind)) {
                self.faults.push(
                    place
                        .key("gbps")
                        .key_fault("`gbps` of a stage that is no transfer", "has no effect here")
                        .help("only `import` and `export` have a size in bytes; use `fixed_s`, `per_token_s` or `table`"),
                );
            }
            if kind.is_none_or(is_transfer) {
                return Time::Transfer {
                    fixed,
                    bytes_per_s: rate.value * 1e9,
                };
            }
            return Time::Linear {
                fixed,
                per_token: 0.0,
                per_token_context: 0.0,
            };
        }
        let once = value(raw.per_context_s.as_ref());
        if fixed + per_token + per_token_context + once <= 0.0 {
            self.faults.push(
                place
                    .key_fault(
                        format!("{} takes no time", place.quoted()),
                        "states no time",
                    )
                    .help(match kind {
                        Some(kind) if is_transfer(kind) => "add `gbps = 10.0` or `fixed_s = 0.01`",
                        _ => "add `fixed_s`, `per_token_s` or a `table`",
                    }),
            );
        }
        Time::Linear {
            fixed,
            per_token,
            per_token_context,
        }
    }

    /// Keys that multiply a size or context which a stage of this kind does not have.
    fn check_size(&mut self, place: &Place<'_>, raw: &StageCost, kind: StageKind) {
        let mut no_effect: Vec<(&str, &str)> = Vec::new();
        if !has_context(kind) {
            let why = "a stage of this kind has no context";
            no_effect.extend([
                ("per_token_context_s", why),
                ("per_context_s", why),
                ("context_block", why),
                ("bytes_per_token_context", why),
                ("bytes_per_context", why),
                ("measured_context", why),
            ]);
        }
        match kind {
            StageKind::Custom => {
                let why = "the size of a custom stage is always 1";
                no_effect.extend([
                    ("per_token_s", why),
                    ("bytes_per_token", why),
                    ("table", why),
                    ("measured_tokens", why),
                ]);
            }
            StageKind::Import | StageKind::Export => {
                no_effect.push(("per_token_s", "the size of a transfer is in bytes"));
            }
            _ => {}
        }
        if has_context(kind)
            && value(raw.per_token_context_s.as_ref()) + value(raw.bytes_per_token_context.as_ref())
                == 0.0
        {
            let why = "neither time nor bytes are by token of context";
            no_effect.push(("context_block", why));
        }
        for (key, why) in no_effect {
            let place = place.key(key);
            if place.is_present() {
                self.faults
                    .push(place.key_fault(format!("{} has no effect", place.quoted()), why));
            }
        }
    }

    fn range(
        &mut self,
        place: &Place<'_>,
        key: &str,
        range: Option<[f64; 2]>,
    ) -> Option<(f64, f64)> {
        let [low, high] = range?;
        if low < 0.0 || low > high {
            self.faults.push(place.key(key).fault(
                format!("`{key}` from {low} to {high}"),
                "must rise from at least 0",
            ));
        }
        Some((low, high))
    }

    /// A rate that was measured was measured somewhere: beyond that, results must say so.
    fn require_ranges(
        &mut self,
        place: &Place<'_>,
        raw: &StageCost,
        kind: StageKind,
        has_tokens: bool,
    ) {
        let sized = has_context(kind) || kind == StageKind::Project;
        let no_context = has_context(kind) && raw.measured_context.is_none();
        let no_tokens = sized && !has_tokens;
        let missing = [
            (
                "measured_tokens",
                "per_token_s",
                &raw.per_token_s,
                no_tokens,
            ),
            (
                "measured_context",
                "per_token_context_s",
                &raw.per_token_context_s,
                no_context,
            ),
            (
                "measured_context",
                "per_context_s",
                &raw.per_context_s,
                no_context,
            ),
        ];
        for (range, key, rate, lacks) in missing {
            if !lacks || rate.as_ref().is_none_or(|rate| rate.value == 0.0) {
                continue;
            }
            let path = format!("{}.{key}", place.path());
            let kind = self
                .file
                .provenance
                .iter()
                .find(|number| number.path == path);
            if kind.is_some_and(|number| {
                !matches!(number.kind, OriginKind::Derived | OriginKind::Assumed)
            }) {
                self.faults.push(
                    place
                        .key(key)
                        .key_fault(
                            format!("{} was measured, but not where", place.quoted()),
                            format!("lacks `{range}`"),
                        )
                        .help(format!(
                            "add `{range} = [32.0, 1024.0]`: the sizes between which it was measured"
                        )),
                );
            }
        }
    }
}

/// A number that counts as 0 where it is left out.
fn value(quantity: Option<&Quantity>) -> f64 {
    quantity.map_or(0.0, |quantity| quantity.value)
}

fn check_table(place: &Place<'_>, table: &TimeTable, faults: &mut Vec<Diagnostic>) {
    let (sizes, times) = (&table.size, &table.time_s);
    if sizes.is_empty() {
        faults.push(
            place
                .key("size")
                .fault("`size` is empty", "needs at least one size"),
        );
    }
    if sizes.len() != times.len() {
        faults.push(place.key("time_s").fault(
            format!(
                "table has {} and {}",
                suggest::counted(sizes.len(), "size"),
                suggest::counted(times.len(), "time")
            ),
            "one time for each size",
        ));
    }
    for (index, size) in sizes.iter().enumerate() {
        let at = place.key("size").index(index);
        if *size < 0.0 {
            faults.push(at.fault(format!("size {size}"), "must be at least 0"));
        } else if index > 0 && *size <= sizes[index - 1] {
            faults.push(at.fault(
                "table sizes do not rise",
                format!("must be greater than {}", sizes[index - 1]),
            ));
        }
    }
    for (index, time) in times.iter().enumerate().filter(|(_, t)| **t <= 0.0) {
        faults.push(
            place
                .key("time_s")
                .index(index)
                .fault(format!("time of {time} s"), "must be greater than 0 s"),
        );
    }
}

fn is_transfer(kind: StageKind) -> bool {
    matches!(kind, StageKind::Import | StageKind::Export)
}

/// Whether a stage of this kind works on a context, and so has its size in tokens.
fn has_context(kind: StageKind) -> bool {
    matches!(
        kind,
        StageKind::Ingest | StageKind::QueryPrefill | StageKind::Decode | StageKind::Reconstruct
    )
}
