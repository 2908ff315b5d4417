//! Where each number of a profile came from: every one has an origin, and every origin says enough.

use super::document::Place;
use super::schema_check::Number;
use super::suggest;
use crate::diag::Diagnostic;
use crate::spec::quantity::OriginKind;
use crate::world::Provenance;

/// Resolves every number's origin in `root`'s `[origins]`.
pub(super) fn resolve(
    root: &Place<'_>,
    numbers: &[Number],
    faults: &mut Vec<Diagnostic>,
) -> Vec<Provenance> {
    let origins = root.key("origins");
    let mut used: Vec<&str> = Vec::new();
    let mut list = Vec::new();
    for number in numbers {
        let at = |message: String, label: String| {
            Diagnostic::new(root.file(), number.span.clone(), message, label)
        };
        let Some((key, key_span)) = &number.origin else {
            faults.push(
                at(
                    format!("number `{}` has no origin", number.path),
                    "nobody says where it came from".to_owned(),
                )
                .help(format!(
                    "write `{{ value = {}, origin = \"key\" }}`, or `origin = \"key\"` in its table, with an `[origins.key]`",
                    root.slice(&number.span)
                )),
            );
            continue;
        };
        let origin = origins.key(key);
        if !origin.is_present() {
            let fault = Diagnostic::new(
                root.file(),
                key_span.clone(),
                format!("unknown origin `{key}`"),
                "not in `[origins]`",
            )
            .help(suggest::hint(
                key,
                "origins",
                origins.keys().collect::<Vec<_>>(),
            ));
            // The one that was meant is not unused as well.
            used.extend(suggest::nearest(key, origins.keys()));
            if !faults.contains(&fault) {
                faults.push(fault);
            }
            continue;
        }
        used.push(key);
        let Some(kind) = kind(&origin) else {
            continue;
        };
        let (low, high) = number.interval;
        list.push(Provenance {
            file: root.file().to_owned(),
            path: number.path.clone(),
            span: number.digits.clone(),
            value: number.value,
            interval: (low.is_some() || high.is_some())
                .then(|| (low.unwrap_or(number.value), high.unwrap_or(number.value))),
            kind,
            origin: key.clone(),
            source: text(&origin, "source"),
            note: text(&origin, "note"),
        });
    }
    for key in origins.keys() {
        check_origin(&origins.key(key), key, faults);
        if !used.contains(&key) {
            faults.push(
                origins
                    .key(key)
                    .key_fault(
                        format!("origin `{key}` is never used"),
                        "no number names it",
                    )
                    .help("remove it, or name it in the `origin` of the numbers it explains"),
            );
        }
    }
    list
}

fn text(origin: &Place<'_>, key: &str) -> Option<String> {
    origin.key(key).text().map(str::to_owned)
}

fn kind(origin: &Place<'_>) -> Option<OriginKind> {
    Some(match origin.key("kind").text()? {
        "measured" => OriginKind::Measured,
        "published" => OriginKind::Published,
        "derived" => OriginKind::Derived,
        "fitted" => OriginKind::Fitted,
        "assumed" => OriginKind::Assumed,
        _ => return None,
    })
}

/// Each kind of origin must say what a reader needs to judge the number.
fn check_origin(origin: &Place<'_>, key: &str, faults: &mut Vec<Diagnostic>) {
    let Some(kind) = kind(origin) else {
        return;
    };
    let (word, needs, why) = match kind {
        OriginKind::Measured => (
            "measured",
            "note",
            "where, when, with which version and how often",
        ),
        OriginKind::Published => ("published", "source", "which table, file or page"),
        OriginKind::Derived => ("derived", "note", "from which numbers and how"),
        OriginKind::Fitted => ("fitted", "note", "to which rows"),
        OriginKind::Assumed => ("assumed", "note", "the reasoning"),
    };
    let given = origin.key(needs);
    if given.text().is_some_and(|text| text.trim().is_empty()) || !given.is_present() {
        faults.push(
            given
                .fault(
                    format!("origin `{key}` is `{word}` but has no `{needs}`"),
                    format!("needs a `{needs}`"),
                )
                .help(format!("say {why}: `{needs} = \"…\"`")),
        );
    }
}
