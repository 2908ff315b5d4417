//! Runs of several folders: which are the same, how their settings differ, and which can be ranked.

use serde_json::Value;

use super::read::{Entry, Folder};
use super::sections::{Column, steady};
use crate::interval::Estimate;
use crate::number;
use crate::significance::{FAMILY_ERROR, holm};

/// Fields that two runs of one seed share only if they are the same run.
const MEASURED: [&str; 6] = [
    "throughput_rps",
    "ttft_s",
    "completion_s",
    "makespan_s",
    "energy_j",
    "counts",
];
/// Settings of a run whose values are named where they differ: key, name, unit.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("seed", "seed", ""),
    ("horizon_s", "horizon", " s"),
    ("warm_up_s", "warm-up", " s"),
    ("replications", "replications", ""),
];
/// Settings that are too long for a sentence.
const LONG: [&str; 4] = ["contention", "modes", "context", "conditions"];
/// Most configurations that a sentence lists.
const LISTED: usize = 8;

/// Said where several runs are ranked.
pub(super) const RULE: &str = "Runs of different folders are not paired: a difference between them is shown where the \
    probability of one so large by chance, by Welch's t test after Holm's correction over all pairs, is below 5 %.";

/// The entries without those that repeat an earlier one, and a sentence on each that does.
pub(super) fn distinct<'e, 'f>(
    folders: &[Folder],
    entries: &[&'e Entry<'f>],
) -> (Vec<&'e Entry<'f>>, Vec<String>) {
    let mut kept: Vec<&Entry<'_>> = Vec::new();
    let mut said = Vec::new();
    for entry in entries {
        let Some(first) = kept.iter().find(|first| same(folders, first, entry)) else {
            kept.push(entry);
            continue;
        };
        said.push(if first.label() == entry.label() {
            format!(
                "{} is given more than once: it is the same run.",
                entry.label()
            )
        } else {
            format!(
                "{} and {} are the same run: settings and numbers agree.",
                first.label(),
                entry.label()
            )
        });
    }
    (kept, said)
}

fn same(folders: &[Folder], a: &Entry<'_>, b: &Entry<'_>) -> bool {
    let setting = |entry: &Entry<'_>, key: &str| folders[entry.folder].document[key].clone();
    a.folder != b.folder
        && a.policy == b.policy
        && SETTINGS
            .iter()
            .all(|(key, ..)| setting(a, key) == setting(b, key))
        && MEASURED.iter().all(|key| a.fields[key] == b.fields[key])
}

/// How the settings of the entries' folders differ, if they do.
pub(super) fn settings(folders: &[Folder], entries: &[&Entry<'_>]) -> Option<String> {
    let mut names: Vec<(usize, &str)> = entries.iter().map(|e| (e.folder, e.name)).collect();
    names.dedup();
    let mut parts = Vec::new();
    for (key, title, unit) in SETTINGS {
        let mut values: Vec<(String, Vec<&str>)> = Vec::new();
        for &(folder, name) in &names {
            let value = match &folders[folder].document[key] {
                Value::Null => "none".to_owned(),
                // Seeds are whole, and every digit counts.
                value => match value.as_f64().filter(|_| value.is_f64()) {
                    Some(x) => format!("{}{unit}", number::short(x)),
                    None => format!("{value}{unit}"),
                },
            };
            match values.iter_mut().find(|(known, _)| *known == value) {
                Some((_, of)) => of.push(name),
                None => values.push((value, vec![name])),
            }
        }
        if values.len() > 1 {
            let list = values.iter();
            let list: Vec<String> = list
                .map(|(value, of)| format!("{value} ({})", of.join(", ")))
                .collect();
            parts.push(format!("{title} {}", list.join(" and ")));
        }
    }
    for key in LONG {
        let value = |(folder, _): &(usize, &str)| &folders[*folder].document[key];
        if names.windows(2).any(|two| value(&two[0]) != value(&two[1])) {
            parts.push(format!("{key} (below)"));
        }
    }
    (!parts.is_empty()).then(|| format!("These runs differ in {}.", parts.join("; ")))
}

/// Probability, without any effect, of a difference as large as that of two entries.
fn chance(a: (&Entry<'_>, Estimate), b: (&Entry<'_>, Estimate), path: &str) -> Option<f64> {
    let paired = |entry: &Entry<'_>| entry.fields["difference"].get(path).cloned();
    match (paired(a.0), paired(b.0)) {
        // One of them is the reference of the comparison that holds both.
        (Some(of), None) | (None, Some(of)) if a.0.folder == b.0.folder => of["p_holm"].as_f64(),
        _ => a.1.p_unpaired(&b.1),
    }
}

/// The best of runs of several folders in a column where less is better, or those among which chance may
/// have decided. `does` and `to_do` say what the best one does.
pub(super) fn leader(
    entries: &[&Entry<'_>],
    column: &Column,
    (does, to_do): (&str, &str),
) -> Option<String> {
    let means = entries.iter();
    let mut means: Vec<(&Entry<'_>, Estimate)> = means
        .filter_map(|entry| Some((*entry, steady(entry, column)?)))
        .collect();
    means.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    let pairs: Vec<(usize, usize)> = (0..means.len())
        .flat_map(|a| (a + 1..means.len()).map(move |b| (a, b)))
        .collect();
    let chances: Vec<Option<f64>> = pairs
        .iter()
        .map(|&(a, b)| chance(means[a], means[b], column.1))
        .collect();
    let open: Vec<usize> = pairs
        .iter()
        .zip(holm(&chances))
        .filter(|((best, _), p)| *best == 0 && p.is_none_or(|p| p >= FAMILY_ERROR))
        .map(|((_, other), _)| *other)
        .collect();
    let (best, estimate) = means.first()?;
    let count = entries.len();
    if open.is_empty() {
        let mean = number::estimate(Some(*estimate));
        let label = best.label();
        return Some(format!(
            "Of {count} configurations, {label} {does} soonest: after {mean} s on average."
        ));
    }
    let of = |at: usize| {
        let (entry, estimate) = means[at];
        format!("{}, {} s", entry.label(), number::estimate(Some(estimate)))
    };
    let mut list: Vec<String> = open.iter().take(LISTED).map(|&at| of(at)).collect();
    if open.len() > LISTED {
        list.push(format!("{} more", open.len() - LISTED));
    }
    let bare = |at: &usize| means[*at].1.half_width.is_none();
    let single = if bare(&0) || open.iter().any(bare) {
        "; one replication has no interval, so that nothing can be shown of it"
    } else {
        ""
    };
    Some(format!(
        "Of {count} configurations, none is shown to {to_do} soonest: {} has the least mean, but no difference shown \
         (unpaired runs) to {}{single}.",
        of(0),
        list.join("; ")
    ))
}
