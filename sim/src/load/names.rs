//! Names that files give to things.

use super::document::Place;
use crate::diag::Diagnostic;

/// Longest name that is only shown, characters; the number of a copy (`-12`) comes on top.
pub(super) const SHOWN_MAX: usize = 64;
/// Most digits of the number of a copy.
const COPY_DIGITS: usize = 10;

/// Names that files refer to become keys, columns and `stage@engine`, so they are plain.
pub(super) fn check(place: &Place<'_>, what: &str, name: &str, faults: &mut Vec<Diagnostic>) {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        faults.push(
            place
                .fault(
                    format!("{what} name `{}` is not plain", name.escape_debug()),
                    "must be letters, digits, `_`, `-` and `.`",
                )
                .help("for example `cam-front`"),
        );
    }
}

/// Names that are mostly shown are any text of one line that looks like what it is.
pub(super) fn check_shown(place: &Place<'_>, what: &str, name: &str, faults: &mut Vec<Diagnostic>) {
    let Some((why, right)) = unfit(name) else {
        return;
    };
    // Of a name without end, enough to know it by.
    let mut shown: String = name.chars().take(SHOWN_MAX).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    let shown: String = shown.chars().map(written).collect();
    let fault = place.fault(format!("{what} name `{shown}` {why}"), right);
    faults.push(fault.help("for example `Cam #1 (front door)`"));
}

/// What is wrong with a name that is shown, and what would be right.
fn unfit(name: &str) -> Option<(String, String)> {
    if name.is_empty() {
        return Some(("is empty".into(), "needs a character".into()));
    }
    for (at, c) in name.chars().enumerate() {
        let number = at + 1;
        if c != ' ' && c.is_whitespace() {
            let what = c.escape_unicode();
            let why = format!("has the blank `{what}` as its character {number}");
            return Some((why, "must have no other blank than the plain one".into()));
        }
        if is_unseen(c) || at == 0 && joins(c) {
            let what = c.escape_unicode();
            let why = format!("has `{what}` as its character {number}");
            return Some((why, "must be characters that can be seen".into()));
        }
    }
    if name.starts_with(' ') || name.ends_with(' ') || name.contains("  ") {
        return Some((
            "has a blank too many".into(),
            "must neither begin nor end with a blank, nor have two together".into(),
        ));
    }
    let length = without_number(name).chars().count();
    (length > SHOWN_MAX).then(|| {
        (
            format!("has {length} characters"),
            format!("at most {SHOWN_MAX}"),
        )
    })
}

/// A name without the number of a copy, as `copies` and a load of more streams append it.
fn without_number(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, number))
            if (1..=COPY_DIGITS).contains(&number.len())
                && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            base
        }
        _ => name,
    }
}

/// A character of a message: written out where it cannot be seen.
fn written(c: char) -> String {
    if is_unseen(c) || c != ' ' && c.is_whitespace() {
        c.escape_unicode().to_string()
    } else {
        c.to_string()
    }
}

/// Controls, formats (as those that turn the direction of a text), surrogates, and what has no letter yet: what
/// `escape_debug` writes out behind a letter; and fillers and selectors, which show nothing.
fn is_unseen(c: char) -> bool {
    let mut text = String::from("x");
    text.push(c);
    let kept = text.escape_debug().eq(text.chars());
    let quoted = matches!(c, '"' | '\'' | '\\');
    !kept && !quoted
        || matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a character needs one before it, as an accent does.
fn joins(c: char) -> bool {
    !is_unseen(c) && !matches!(c, '"' | '\'' | '\\') && c.escape_debug().count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_shown_are_what_can_be_seen() {
        let long = "x".repeat(SHOWN_MAX);
        let numbered = format!("{long}-1234567890");
        for fit in [
            "cam-front",
            "<script>alert(\"x\")&'</script>",
            "a, b; c|d\\e`f=g:h[0].i/j#k%l{m}",
            "正門カメラ",
            "кошка é e\u{301} 🎥",
            "=1+1",
            "..",
            &long,
            &numbered,
        ] {
            assert_eq!(unfit(fit), None, "{fit}");
        }
    }

    #[test]
    fn names_that_could_mislead_are_refused_and_told_why() {
        let long = "x".repeat(SHOWN_MAX + 1);
        let numbered = format!("{long}-1");
        let endless = format!("{}-12345678901", "x".repeat(SHOWN_MAX));
        for (unfit_name, why) in [
            ("", "is empty"),
            (" a", "a blank too many"),
            ("a ", "a blank too many"),
            ("a  b", "a blank too many"),
            ("a\tb", "has the blank `\\u{9}` as its character 2"),
            ("a\nb", "has the blank `\\u{a}`"),
            ("a\u{a0}b", "has the blank `\\u{a0}`"),
            ("a\u{3000}", "has the blank `\\u{3000}`"),
            ("\u{1b}[31m", "has `\\u{1b}` as its character 1"),
            ("a\0", "has `\\u{0}`"),
            ("a\u{202e}b", "has `\\u{202e}`"),
            ("a\u{2066}b", "has `\\u{2066}`"),
            ("a\u{200b}b", "has `\\u{200b}`"),
            ("a\u{200d}b", "has `\\u{200d}`"),
            ("a\u{ad}b", "has `\\u{ad}`"),
            ("\u{feff}a", "has `\\u{feff}`"),
            ("a\u{fe0f}", "has `\\u{fe0f}`"),
            ("\u{3164}", "has `\\u{3164}`"),
            ("a\u{e0041}", "has `\\u{e0041}`"),
            ("a\u{e000}", "has `\\u{e000}`"),
            ("\u{301}a", "has `\\u{301}` as its character 1"),
            (&long, "has 65 characters"),
            (&numbered, "has 65 characters"),
            (&endless, "has 76 characters"),
        ] {
            let found = unfit(unfit_name).map(|(why, _)| why).unwrap_or_default();
            assert!(found.contains(why), "{unfit_name:?}: {found}");
        }
    }
}
