//! What a cost file says that it was measured on: comments at its top, one for each engine, which can be read again.

use super::row::Identity;
use super::toml_text::comment;

/// First line, before the identities.
pub(crate) const HEAD: &str = "# What was measured, as far as the files say:\n";

/// The line of an identity.
pub(super) fn line(identity: &Identity) -> String {
    let pairs = identity.iter();
    let text: Vec<String> = pairs
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    comment(&text.join("; "))
}

/// The lines with identities of a cost file, and what they say; none where nothing imported it.
pub(crate) fn read(text: &str) -> Vec<(&str, Identity)> {
    let Some((_, rest)) = text.split_once(HEAD) else {
        return Vec::new();
    };
    let lines = rest.lines().map_while(|line| line.strip_prefix("# "));
    lines
        .map(|line| (line, identity(line)))
        .filter(|(_, identity)| !identity.is_empty())
        .collect()
}

fn identity(line: &str) -> Identity {
    let mut identity = Identity::new();
    let mut last: Option<String> = None;
    for part in line.split("; ") {
        match (part.split_once(" = "), &last) {
            (Some((key, value)), _) => {
                identity.insert(key.to_owned(), value.to_owned());
                last = Some(key.to_owned());
            }
            // A value may have a semicolon.
            (None, Some(key)) => {
                if let Some(value) = identity.get_mut(key) {
                    *value += "; ";
                    *value += part;
                }
            }
            (None, None) => {}
        }
    }
    identity
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To see it fail, end a value at its first semicolon.
    #[test]
    fn what_is_written_is_read_again() {
        let pairs = [
            ("backend", "CPU"),
            ("section", "Big cores; taskset -c 4-7"),
            ("threads", "4"),
        ];
        let identity: Identity = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let text = format!("{HEAD}{}# First runs only\nsoc = \"x\"\n", line(&identity));
        let read = read(&text);
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].1, identity);
        assert!(super::read("soc = \"x\"\n").is_empty());
    }
}
