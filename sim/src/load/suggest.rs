//! Names that a user may have meant.

/// The known name nearest to `wrong`, if it is near enough to be what was meant.
pub(super) fn nearest<'n>(
    wrong: &str,
    known: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let wrong = wrong.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&wrong, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .min_by(|(a, _), (b, _)| b.total_cmp(a))
        .map(|(_, name)| name)
}

/// `did you mean …?`, or the list of what there is.
pub(super) fn hint<'n>(
    wrong: &str,
    what: &str,
    known: impl IntoIterator<Item = &'n str> + Clone,
) -> String {
    if let Some(name) = nearest(wrong, known.clone()) {
        return format!("did you mean `{name}`?");
    }
    let names = quoted_list(known);
    if names.is_empty() {
        format!("there are no {what}")
    } else {
        format!("{what}: {names}")
    }
}

/// Names in backticks with commas.
pub(super) fn quoted_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `1 item`, `2 items`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
