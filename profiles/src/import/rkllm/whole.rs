//! What the whole text of a file says of all its tables: chip, versions, clock, lengths.

use super::super::row::Identity;

/// What a whole file says of all its rows.
pub(super) fn common(file: &str, text: &str) -> Identity {
    let mut identity = Identity::new();
    let version = version_after(text, "RKLLM Version:")
        .or_else(|| version_after(text, "Runtime Version:"))
        .or_else(|| version_after(text, "rkllm-runtime version:"))
        .or_else(|| version_after(file.rsplit(['/', '\\']).next().unwrap_or(file), "_v"));
    if let Some(version) = version {
        identity.insert("version".to_owned(), version);
    }
    if let Some(version) = version_after(text, "NPU Driver:") {
        identity.insert("driver".to_owned(), version);
    }
    if text.contains("maximum CPU and NPU frequencies") {
        identity.insert("clock".to_owned(), "maximum of CPU and NPU".to_owned());
    }
    let chips = chips(text);
    if let [chip] = chips.as_slice() {
        identity.insert("soc".to_owned(), chip.clone());
    }
    identity
}

/// A version such as `1.2.1b1` right after a text.
fn version_after(text: &str, marker: &str) -> Option<String> {
    let at = text.find(marker)?;
    let rest =
        text[at + marker.len()..].trim_start_matches([' ', '*', '`', ':', 'R', 'K', 'L', 'M', 'v']);
    let version: String = rest
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '.')
        .collect();
    let version = version.trim_end_matches(".md").trim_end_matches('.');
    let numbered = version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.');
    numbered.then(|| version.to_owned())
}

/// Rockchip's chips that a text names, each once.
pub(super) fn chips(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        let upper = word.to_ascii_uppercase();
        let digits = upper
            .strip_prefix("RK")
            .or_else(|| upper.strip_prefix("RV"));
        let is = digits.is_some_and(|digits| {
            digits.len() >= 4
                && digits.len() <= 6
                && digits.bytes().take(4).all(|b| b.is_ascii_digit())
        });
        if is && !found.contains(&upper) {
            found.push(upper);
        }
    }
    found
}

/// The prompt and answer lengths that a text names beside its tables, `pp512` and `tg128`, if just one of each.
pub(super) fn lengths(text: &str) -> (Option<u64>, Option<u64>) {
    let of = |word: &str| {
        let mut found = Vec::new();
        for part in text.split(|c: char| !c.is_ascii_alphanumeric()) {
            let digits = part.strip_prefix(word);
            if let Some(tokens) = digits.and_then(|digits| digits.parse::<u32>().ok())
                && tokens > 0
                && !found.contains(&tokens)
            {
                found.push(tokens);
            }
        }
        match found.as_slice() {
            [tokens] => Some(u64::from(*tokens)),
            _ => None,
        }
    };
    (of("pp"), of("tg"))
}
