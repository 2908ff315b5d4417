//! The closed forms as a section.

use super::{Section, Table, significant};
use crate::oracles::Outcome;

/// The oracles, each with its interval.
pub fn oracles(outcomes: &[Outcome]) -> Section {
    let mut table = Table::new(&[
        "closed form",
        "from",
        ">theory",
        ">simulated",
        ">± (99 %)",
        ">runs",
        "",
    ]);
    for outcome in outcomes {
        table.row([
            outcome.name.clone(),
            outcome.source.to_owned(),
            significant(outcome.theory),
            significant(outcome.mean),
            significant(outcome.half_width_99),
            outcome.replications.to_string(),
            if outcome.inside { "within" } else { "MISSED" }.to_owned(),
        ]);
    }
    let missed = outcomes.iter().filter(|outcome| !outcome.inside).count();
    let intro = "Queues whose mean is known in closed form, built as scenarios and simulated by the same \
                 code as everything else. Each is held against the 99 % interval of the mean of \
                 independent replications (Student's t): of a hundred seeds one is expected to fall \
                 outside. Seeds are fixed. Little's law holds on every path, so it has no spread but \
                 rounding: the theory is rate × mean response, beside it the mean number of requests in the \
                 system as counted, of the replication in which the two are furthest apart.";
    let verdict = match missed {
        0 => format!(
            "{} of {} within their interval.",
            outcomes.len(),
            outcomes.len()
        ),
        _ => format!("{missed} of {} missed.", outcomes.len()),
    };
    Section::new(
        "Closed forms",
        &[intro.to_owned(), table.markdown(), verdict],
    )
}
