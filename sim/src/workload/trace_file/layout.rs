//! The columns of each known kind of trace.

/// The columns of one kind of trace.
#[derive(Debug)]
pub(super) struct Layout {
    /// Whose it is.
    pub(super) name: &'static str,
    /// Column of times.
    pub(super) time: &'static str,
    /// What its numbers count.
    pub(super) unit: Unit,
    /// Whether times count from the first row.
    pub(super) relative: bool,
    /// Column of prompt lengths, tokens.
    pub(super) prompt: &'static str,
    /// Column of answer lengths, tokens.
    pub(super) output: &'static str,
    /// Whether the time column is enough to know the layout by.
    time_suffices: bool,
    /// Columns that it usually has and that mean nothing here.
    passed_over: &'static [&'static str],
}

/// What a time column counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    /// Date and time of day.
    DateTime,
    /// This many to the second.
    PerSecond(f64),
}

/// Known layouts; the first that fits is taken.
pub(super) const LAYOUTS: [Layout; 6] = [
    Layout {
        name: "crossinfer",
        time: "time_s",
        unit: Unit::PerSecond(1.0),
        relative: false,
        prompt: "prompt_tokens",
        output: "output_tokens",
        time_suffices: true,
        passed_over: &[],
    },
    Layout {
        name: "Azure LLM inference",
        time: "TIMESTAMP",
        unit: Unit::DateTime,
        relative: true,
        prompt: "ContextTokens",
        output: "GeneratedTokens",
        time_suffices: false,
        passed_over: &[],
    },
    Layout {
        name: "BurstGPT",
        time: "Timestamp",
        unit: Unit::PerSecond(1.0),
        relative: true,
        prompt: "Request tokens",
        output: "Response tokens",
        time_suffices: false,
        passed_over: &[
            "Session ID",
            "Elapsed time",
            "Model",
            "Total tokens",
            "Log Type",
        ],
    },
    Layout {
        name: "Mooncake",
        time: "timestamp",
        unit: Unit::PerSecond(1e3),
        relative: false,
        prompt: "input_length",
        output: "output_length",
        time_suffices: false,
        passed_over: &["hash_ids"],
    },
    Layout {
        name: "Vidur",
        time: "arrived_at",
        unit: Unit::PerSecond(1.0),
        relative: false,
        prompt: "num_prefill_tokens",
        output: "num_decode_tokens",
        time_suffices: false,
        passed_over: &["num_total_tokens", "pd_ratio"],
    },
    Layout {
        name: "LLMServingSim",
        time: "arrival_time_ns",
        unit: Unit::PerSecond(1e9),
        relative: false,
        prompt: "input_toks",
        output: "output_toks",
        time_suffices: false,
        passed_over: &["input_tok_ids", "output_tok_ids"],
    },
];

/// Similarity (Jaro–Winkler) from which one name is taken for a slip of the other.
const SIMILAR: f64 = 0.85;

impl Layout {
    /// Whether these columns are of this kind.
    pub(super) fn fits(&self, names: &[&str]) -> bool {
        names.contains(&self.time)
            && (self.time_suffices || names.contains(&self.prompt) || names.contains(&self.output))
    }

    /// Whether the column is one of this layout's.
    pub(super) fn knows(&self, name: &str) -> bool {
        [self.time, self.prompt, self.output].contains(&name) || self.passed_over.contains(&name)
    }

    /// What to say of a column that is not.
    pub(super) fn warning(&self, name: &str) -> String {
        let guess = self
            .guess(name)
            .map_or_else(String::new, |column| format!("; did you mean `{column}`?"));
        format!("column `{name}` is not used{guess}")
    }

    /// The column that this one is likely a slip of.
    pub(super) fn guess(&self, name: &str) -> Option<&'static str> {
        [self.time, self.prompt, self.output]
            .into_iter()
            .map(|column| (similarity(name, column), column))
            .filter(|(similarity, _)| *similarity >= SIMILAR)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, column)| column)
    }
}

/// Label and help for columns that fit no layout.
pub(super) fn missing(names: &[&str]) -> (String, Option<String>) {
    // Lengths of a known layout tell which time column to expect.
    let sibling = LAYOUTS.iter().find(|layout| {
        !names.contains(&layout.time)
            && (names.contains(&layout.prompt) || names.contains(&layout.output))
    });
    let wanted = sibling.map_or("time_s", |layout| layout.time);
    let label = format!("needs `{wanted}`");
    let nearest = names
        .iter()
        .map(|name| (similarity(name, wanted), name))
        .filter(|&(similarity, _)| similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let help = match nearest {
        Some((_, name)) if wanted == "time_s" => {
            format!("if `{name}` is in seconds, rename it to `time_s`")
        }
        Some((_, name)) if unit(name) != unit(wanted) => {
            format!("give the times of `{name}` as `{wanted}`, in its unit")
        }
        Some((_, name)) => format!("rename `{name}` to `{wanted}`"),
        None if wanted == "time_s" => {
            "add a column `time_s` with the time of each arrival in seconds".to_owned()
        }
        None => format!("these are lengths without arrivals: add the column `{wanted}`"),
    };
    (label, Some(help))
}

/// Unit of time that a name ends in, if it does.
fn unit(name: &str) -> Option<&str> {
    let end = name.rsplit('_').next()?;
    ["s", "ms", "us", "ns"]
        .into_iter()
        .find(|&unit| unit == end)
}

/// Likeness of two names, case aside, from 0 to 1.
fn similarity(a: &str, b: &str) -> f64 {
    strsim::jaro_winkler(&a.to_lowercase(), &b.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::missing;

    /// Renaming microseconds to nanoseconds would be wrong by a thousand.
    #[test]
    fn a_column_in_another_unit_is_not_to_be_renamed() {
        let help = |time| {
            missing(&[time, "input_toks", "output_toks"])
                .1
                .unwrap_or_default()
        };
        assert!(help("arrival_times_ns").starts_with("rename `arrival_times_ns` to"));
        assert!(help("arrival_time_us").contains("in its unit"));
    }
}
