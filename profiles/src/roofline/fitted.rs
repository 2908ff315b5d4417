//! On what an engine's factors were fitted, and whether that speaks for it.

use std::collections::BTreeSet;
use std::fmt;

use super::chip::{self, Chip};
use super::efficiency::{ANOTHER_ISA, Efficiencies, Family, STAND_IN};

/// Where the factors of an engine come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    /// Runtime and kind of engine.
    family: String,
    /// Keys of the chips behind them.
    chips: BTreeSet<String>,
    /// Whether the chip itself is one of them.
    pub(super) own: bool,
    /// Why they do not speak for this engine, where they do not.
    pub(super) elsewhere: Option<Elsewhere>,
}

/// Why factors do not speak for an engine: that it comes as near its peak is assumed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Elsewhere {
    /// Of an NPU, the maker of the chip, which is none of theirs: NPUs of two makers have nothing in common.
    Maker(String),
    /// Of a CPU, the instruction set, which decides on its kernels.
    Isa(String),
}

impl Elsewhere {
    /// Key of the spread of such predictions.
    pub(super) fn spread(&self) -> &'static str {
        match self {
            Self::Maker(_) => STAND_IN,
            Self::Isa(_) => ANOTHER_ISA,
        }
    }

    /// Key of their origin.
    pub(super) fn origin(&self) -> &'static str {
        match self {
            Self::Maker(_) => "elsewhere",
            Self::Isa(_) => "another-isa",
        }
    }
}

/// A chip's maker: the first word of its name.
fn maker(chip: &Chip) -> String {
    chip.name.split(' ').next().unwrap_or("").to_lowercase()
}

impl Fitted {
    /// Of an engine of this family on a chip.
    pub(super) fn of(chip: &Chip, family: &Family, efficiencies: &Efficiencies) -> Self {
        let phases = efficiencies.family.get(&family.key);
        let chips: BTreeSet<String> = phases
            .iter()
            .flat_map(|phases| phases.values())
            .flat_map(|factors| factors.chips.iter().cloned())
            .collect();
        let known = |key: &String| *key == chip.key && family.kind == "npu";
        let same = chips.iter().any(|key| {
            let one = Chip::find(chip::shipped(), key);
            known(key) || one.is_some_and(|one| maker(one) == maker(chip))
        });
        let word = chip.name.split(' ').next().unwrap_or("").to_owned();
        Self {
            family: family.key.clone(),
            elsewhere: (family.kind == "npu" && !chips.is_empty() && !same)
                .then_some(Elsewhere::Maker(word)),
            own: chips.contains(&chip.key),
            chips,
        }
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chips: Vec<&str> = self.chips.iter().map(String::as_str).collect();
        write!(f, "factors of {} on {}", self.family, chips.join(", "))?;
        match &self.elsewhere {
            Some(Elsewhere::Maker(maker)) => write!(f, ", none of them of {maker}"),
            Some(Elsewhere::Isa(isa)) => write!(f, ", which do not compute by {isa} as this one"),
            None => Ok(()),
        }
    }
}

/// On what the factors of measured chips were fitted, and how sure they are; `own`: the chip is one of them.
pub(super) fn behind(own: bool, families: &[String]) -> String {
    let chips = if own {
        "measured chips, this one among them"
    } else {
        "other chips"
    };
    format!(
        "fitted on {chips}{}; the interval holds 90 % of chips that were left out (crossinfer validate roofline)",
        within(families)
    )
}

/// What stands in brackets behind a text; nothing for nothing.
pub(super) fn within(list: &[String]) -> String {
    if list.is_empty() {
        String::new()
    } else {
        format!(" ({})", list.join("; "))
    }
}
