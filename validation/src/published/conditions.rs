//! What a published experiment was done with, as its scenario plays it, and what a row says of it: a row of another
//! model, or of other numbers, is of another experiment.
//!
//! Numbers are compared with what they count, not sentence by sentence: `32-token answers`, `32 tokens a query` and
//! `answers of 32 generated tokens` say the same.

use super::experiments::Experiment;
use super::rows::Row;

/// What a scenario plays.
struct Played {
    /// Table or figure.
    id: &'static str,
    /// Configuration; empty: any.
    config: &'static str,
    /// Words that its experiment is told by; empty: any.
    about: &'static [&'static str],
    /// Model, numbers and conditions, those of the experiment's own words aside.
    with: &'static str,
}

macro_rules! played {
    ($($id:literal $config:literal [$($about:literal),*] $with:literal;)*) => {
        &[$(Played { id: $id, config: $config, about: &[$($about),*], with: $with }),*]
    };
}

/// The first that fits holds.
#[rustfmt::skip]
const PLAYED: &[Played] = played! {
    "table1a" "" ["2 frames"] "Qwen2.5-VL-3B FP16, one stream, 0.5 fps, one request, 150 tokens";
    "table1a" "" ["4 frames"] "Qwen2.5-VL-3B FP16, one stream, 1 fps, one request, 150 tokens";
    "table1a" "" ["8 frames"] "Qwen2.5-VL-3B FP16, one stream, 2 fps, one request, 150 tokens";
    "table1a" "" ["16 frames"] "Qwen2.5-VL-3B FP16, one stream, 4 fps, one request, 150 tokens";
    "table3" "" [] "Qwen2.5-VL-3B FP16, one stream, one frame, one request, 32 tokens";
    "table5" "overlap" [] "4-bit, one stream, 60 requests, overlap on";
    "table5" "serial" [] "4-bit, one stream, 60 requests";
    "table7" "A" [] "Qwen2.5-VL-3B Q4, one stream, 8 frames, 4 queries, 128 tokens, neither";
    "table7" "B" [] "Qwen2.5-VL-3B Q4, one stream, 8 frames, 4 queries, 128 tokens, generation only";
    "table7" "C" [] "Qwen2.5-VL-3B Q4, one stream, 8 frames, 4 queries, 128 tokens, reuse only";
    "table7" "D" [] "Qwen2.5-VL-3B Q4, one stream, 8 frames, 4 queries, 128 tokens, both";
    "table8" "" [] "OneVision-0.5B INT4, two streams, dense, online, on-device, 8 requests, 8 frames, one frame, 208 tokens";
    "table9" "" [] "INT4, precomputed, 4 requests, 32 tokens";
    "table10" "" [] "INT4, on-device, 4 streams, 4 requests, 4 frames, one frame, 128 tokens";
    "table12" "" ["112-token"] "OneVision-0.5B INT4, two streams, 6 requests, on-device";
    "table12" "" ["EOS"] "OneVision-0.5B INT4, two streams, 6 requests, on-device, 112 tokens, 128 tokens";
    "table13" "" ["prefill_1024"] "Qwen2.5-VL-3B Q4, 1024 tokens";
    "table13" "" ["decode_prefix32"] "Qwen2.5-VL-3B Q4, 32 tokens";
    "table13" "" [] "Qwen2.5-VL-3B Q4, 1 GiB";
    "table14" "" [] "Qwen2.5-VL-3B Q4";
    "fig9b" "" ["short"] "OneVision-0.5B INT4, two engines, one stream, one frame, 2 queries, 112 tokens, worse";
    "fig9b" "" ["medium"] "OneVision-0.5B INT4, two engines, one stream, one frame, 6 queries, 112 tokens, worse";
    "fig9b" "" ["long"] "OneVision-0.5B INT4, two engines, one stream, one frame, 16 queries, 112 tokens, worse";
    "fig9b" "" [] "OneVision-0.5B INT4, two engines, one stream, one frame, 112 tokens, worse";
    "fig11c" "" [] "OneVision-0.5B INT4, 3 streams, 3 queries, 3 frames, 32 tokens";
    "fig16" "" [] "OneVision-0.5B INT4, one stream, one frame, 4 requests, 8 tokens, miss included";
};

/// Tables of single kernels: by their words, what was measured and nothing else; the rest of what their scenario shows
/// is of a run that nobody made.
const KERNELS: &[(&str, &str, &[&str])] = &[
    ("table6", "64 MiB", &["read_bandwidth"]),
    (
        "table13",
        "sequential_read_1GiB",
        &["sequential_read", "read_bandwidth"],
    ),
    ("table13", "prefill_1024", &["prefill"]),
    ("table13", "decode_prefix32", &["decode"]),
];

/// Words of which an experiment is one or several, and whether a row that compares may name the other too.
const ALTERNATIVES: &[(&[&str], bool)] = &[
    (&["dense", "sparse"], false),
    (&["online", "offline"], false),
    (&["on device", "precomputed"], false),
    (&["short", "medium", "long"], false),
    (&["worse", "better", "best"], false),
    (&["miss included", "miss excluded"], false),
    (
        &["overlap on", "overlap off", "without overlap", "no overlap"],
        false,
    ),
    (&["neither", "generation only", "reuse only", "both"], true),
];

/// What a number may count, by the words for it; numbers of the last are of how often it was measured.
const COUNTED: &[(&str, &[&str])] = &[
    ("tokens", &["token", "tok"]),
    ("frames", &["frame", "picture", "image"]),
    ("requests", &["request", "query", "querie", "question"]),
    ("streams", &["stream", "camera"]),
    ("engines", &["engine"]),
    ("fps", &["fps"]),
    ("bits", &["bit"]),
    ("MiB", &["mib"]),
    ("GiB", &["gib"]),
    (REPEATS, &["run", "repeat", "repetition", "trial", "seed"]),
];
const REPEATS: &str = "repeats";

const WORDS: [&str; 17] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen",
];
/// How many words after a number may hold what it counts: `150 newly generated tokens`.
const NEAR: usize = 3;

/// A number with what it counts, and the words that say so.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    of: String,
    value: f64,
    says: String,
}

/// Why a row is not of this experiment; `None` if it is.
pub(super) fn differs(row: &Row, known: &Experiment) -> Option<String> {
    let kernel = KERNELS
        .iter()
        .find(|(id, about, _)| *id == known.id && known.about.contains(about));
    if let Some((.., metrics)) = kernel
        && !metrics.iter().any(|metric| row.metric.starts_with(metric))
    {
        return Some(format!(
            "this published experiment measured {} alone: of `{}` its scenario says nothing",
            listed(metrics),
            row.metric
        ));
    }
    let with = PLAYED.iter().find(|played| {
        let config = played.config.is_empty() || played.config == known.config;
        played.id == known.id && config && (played.about.is_empty() || played.about == known.about)
    });
    let with = with.map_or("", |played| played.with);
    let played = format!("{}, {with}", known.about.join(", "));
    other_model(row, &played)
        .or_else(|| other_number(row, &played))
        .or_else(|| other_words(&row.setting, &played))
}

fn other_model(row: &Row, played: &str) -> Option<String> {
    let model = models(played).next()?;
    let differs =
        |what: &str| format!("it is of `{what}`, and the published experiment of `{model}`");
    let own = plain(model);
    if !row.model.is_empty() && !plain(&row.model).contains(&own) {
        return Some(differs(&row.model));
    }
    let mut named = models(&row.setting);
    let other = named.find(|named| {
        let named = plain(named);
        !named.contains(&own) && !own.contains(&named)
    });
    other.map(differs)
}

fn other_number(row: &Row, played: &str) -> Option<String> {
    let known = numbers(played);
    let said = [&row.model, &row.setting].map(|text| numbers(text));
    let said = said.into_iter().flatten();
    for number in said.filter(|number| number.of != REPEATS) {
        let of = known.iter().filter(|known| known.of == number.of);
        let values: Vec<f64> = of.map(|known| known.value).collect();
        if values.contains(&number.value) {
            continue;
        }
        let says = &number.says;
        if values.is_empty() {
            return Some(format!(
                "it says `{says}`, of which its published experiment says nothing"
            ));
        }
        let values: Vec<String> = values.iter().map(f64::to_string).collect();
        return Some(format!(
            "it says `{says}`, and the published experiment is of {} {}",
            values.join(" and "),
            number.of
        ));
    }
    None
}

fn other_words(setting: &str, played: &str) -> Option<String> {
    let (setting, played) = (spaced(setting), spaced(played));
    for (words, compared) in ALTERNATIVES {
        let of = |text: &str| -> Vec<&str> {
            let held = words
                .iter()
                .filter(|word| text.contains(&format!(" {word} ")));
            held.copied().collect()
        };
        let (said, known) = (of(&setting), of(&played));
        let beside = *compared && known.iter().all(|word| said.contains(word));
        if said.is_empty() || known.is_empty() || said == known || beside {
            continue;
        }
        return Some(format!(
            "it says {}, and what is played for it is {}",
            listed(&said),
            listed(&known)
        ));
    }
    None
}

fn listed(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// Lower case, letters and digits with single spaces between and around.
fn spaced(text: &str) -> String {
    let apart = |c: char| !c.is_alphanumeric();
    let words = text.split(apart).filter(|word| !word.is_empty());
    format!(" {} ", words.collect::<Vec<_>>().join(" ").to_lowercase())
}

/// Lower case, without what stands between letters and digits.
fn plain(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric() || *c == '.');
    kept.collect::<String>().to_lowercase()
}

/// Words that name a model by its size, as `OneVision-0.5B`.
fn models(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || ",;:()".contains(c));
    words.filter(|word| word.split('-').any(is_size))
}

/// Whether a word is a number of parameters, as `0.5B`.
fn is_size(word: &str) -> bool {
    let number = word.strip_suffix(['B', 'b']);
    number.is_some_and(|number| digits(number).is_some())
}

fn digits(word: &str) -> Option<f64> {
    let written = word.starts_with(|c: char| c.is_ascii_digit());
    written.then(|| word.parse().ok()).flatten()
}

/// The numbers of a text with what they count.
fn numbers(text: &str) -> Vec<Number> {
    let mut found = Vec::new();
    for clause in text.split([',', ';', ':', '(', ')']) {
        // What a file calls a column, as `decode_prefix32`, is a name.
        let words = clause
            .split(|c: char| c.is_whitespace() || c == '-')
            .filter(|word| !word.is_empty());
        let words: Vec<&str> = words.collect();
        for (at, word) in words.iter().enumerate() {
            if let Some(value) = precision(word) {
                found.push(Number {
                    of: "bits".to_owned(),
                    value,
                    says: (*word).to_owned(),
                });
            } else if let Some(number) = number(&words, at) {
                found.push(number);
            }
        }
    }
    found
}

/// Bits of a weight, as `FP16`, `INT4` or `Q4_K_M` say.
fn precision(word: &str) -> Option<f64> {
    let word = word.to_lowercase();
    let rest = ["bf", "fp", "f", "int", "q", "w"]
        .iter()
        .find_map(|kind| word.strip_prefix(kind).filter(|rest| starts(rest)))?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

fn starts(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// The number that the word at `at` begins.
fn number(words: &[&str], at: usize) -> Option<Number> {
    let word = words[at].trim_end_matches('.');
    let lower = word.to_lowercase();
    let in_words = WORDS.iter().position(|known| *known == lower);
    let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (figure, unit) = word.split_at(end.unwrap_or(word.len()));
    let value = in_words
        .map(|value| value as f64)
        .or_else(|| digits(figure))?;
    let beyond = words.iter().skip(at + 1).take(NEAR);
    let beyond = beyond.take_while(|word| is_size(word) || !starts(word) && !is_word(word));
    // As `1GiB`.
    let attached = (in_words.is_none() && !unit.is_empty()).then_some(&unit);
    if is_size(word) {
        return None;
    }
    for (steps, after) in attached.into_iter().chain(beyond).enumerate() {
        if let Some(of) = counted(after) {
            let last = at + steps + usize::from(attached.is_none());
            return Some(Number {
                of: of.to_owned(),
                value,
                says: words[at..=last.min(words.len() - 1)].join(" "),
            });
        }
    }
    // `one after another` counts nothing.
    if lower == "one" {
        return None;
    }
    let before = at.checked_sub(1).map(|before| words[before]);
    let of_text = ["table", "figure", "fig.", "section", "row"];
    if before.is_some_and(|before| of_text.contains(&before.to_lowercase().as_str())) {
        return None;
    }
    let after = words.get(at + 1).copied();
    let says: Vec<&str> = before.into_iter().chain([words[at]]).chain(after).collect();
    let says = says.join(" ");
    Some(Number {
        of: says.clone(),
        value,
        says,
    })
}

fn is_word(word: &str) -> bool {
    WORDS.contains(&word.to_lowercase().as_str())
}

/// What a word counts.
fn counted(word: &str) -> Option<&'static str> {
    let word = word.trim_end_matches('.').to_lowercase();
    let one = word.strip_suffix('s').unwrap_or(&word);
    let known = COUNTED
        .iter()
        .find(|(_, words)| words.contains(&one) || words.contains(&word.as_str()));
    known.map(|(of, _)| *of)
}

/// Whether a row has a word that an experiment is told by: the same number of the same, where it is one.
pub(super) fn has(parts: &[&String], word: &str) -> bool {
    let told = numbers(word);
    let Some(told) = told.iter().find(|number| is_counted(&number.of)) else {
        return parts.iter().any(|part| part.contains(word));
    };
    let mut said = parts.iter().flat_map(|part| numbers(part));
    said.any(|number| number.of == told.of && number.value == told.value)
}

fn is_counted(of: &str) -> bool {
    COUNTED.iter().any(|(known, _)| *known == of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_what_they_count() {
        let read = |text: &str| -> Vec<(String, f64)> {
            let all = numbers(text).into_iter();
            all.map(|number| (number.of, number.value)).collect()
        };
        let of = |list: &[(&str, f64)]| -> Vec<(String, f64)> {
            let all = list.iter();
            all.map(|(of, value)| ((*of).to_owned(), *value)).collect()
        };
        for (text, list) in [
            (
                "dense two-stream trace, five runs",
                &[("streams", 2.0), (REPEATS, 5.0)] as &[_],
            ),
            (
                "answers of 112 newly generated tokens.",
                &[("tokens", 112.0)],
            ),
            ("16 frames at 0.5 fps", &[("frames", 16.0), ("fps", 0.5)]),
            ("Qwen2.5-VL-3B FP16", &[("bits", 16.0)]),
            (
                "OneVision-0.5B, Q4_K_M, 4-bit",
                &[("bits", 4.0), ("bits", 4.0)],
            ),
            ("64MiB inputs", &[("MiB", 64.0)]),
            ("decode_prefix32, one after another, as in table 9", &[]),
            ("batch 4", &[("batch 4", 4.0)]),
            ("three OneVision-0.5B queries", &[("requests", 3.0)]),
        ] {
            assert_eq!(read(text), of(list), "{text}");
        }
    }

    fn why(model: &str, id: &str, setting: &str, config: &str, metric: &str) -> Option<String> {
        let known = super::super::EXPERIMENTS.iter();
        let mut platform = known
            .filter(|known| known.id == id)
            .map(|known| known.platform);
        let platform = platform.next_back().unwrap();
        let unit = match metric {
            "throughput" => "req/s",
            "decode" => "tok/s",
            "completion" => "s",
            "mean_power" => "W",
            "mean_bandwidth" | "read_bandwidth_gpu" => "GB/s",
            "query_completion_time_change" => "%",
            _ => "x",
        };
        let text = format!(
            "[[measurement]]\nid = '{id}'\nplatform = '{platform}'\nmodel = '{model}'\nsetting = '{setting}'\n\
             config = '{config}'\nmetric = '{metric}'\nunit = '{unit}'\nvalue = 1\nrole = 'outcome'\n"
        );
        let file = super::super::read_measurements("m.toml", &text).unwrap();
        super::super::experiment(&file.rows[0]).err()
    }

    const CHANGE: &str = "query_completion_time_change";

    #[rustfmt::skip]
    #[test]
    fn rows_in_other_words_are_recognised() {
        for (model, id, setting, config, metric) in [
            ("Qwen2.5 VL 3B, fp16", "table1a", "two frames (0.5 fps), 150 new tokens", "crossinfer", "completion"),
            ("Qwen3.5-2B", "table5", "answers of 32 tokens, overlap on", "overlap", "throughput"),
            ("LLaVA-OneVision-0.5B Q4", "table8", "2 streams, dense, 3 repeats", "crossinfer", "throughput"),
            ("OneVision-0.5B", "table12", "2 streams, 112 tokens an answer", "crossinfer", "throughput"),
            ("", "table12", "until EOS or 128 tokens", "naive", "throughput"),
            ("", "table14", "a kept prefix of 1024 tokens", "cpu+metal", "decode"),
            ("", "table6", "inputs of 64MiB", "cpu+gpu", "read_bandwidth_gpu"),
            ("", "table7", "both, against neither", "D over A", "completion_ratio"),
            ("", "fig9b", "two engines, a medium backlog", "state-aware dispatch", CHANGE),
            ("", "fig9b", "backlogs: short, medium, long; against the worse", "state-aware dispatch", CHANGE),
            ("", "fig11c", "three OneVision-0.5B queries: CPU recomputes the prefix, or imports it", "import over recompute", "first_token_latency_ratio"),
            ("", "fig16", "the same", "reuse over rebuild", "throughput_ratio"),
        ] {
            assert_eq!(why(model, id, setting, config, metric), None, "{id}: {setting}");
        }
    }

    #[rustfmt::skip]
    #[test]
    fn rows_under_other_conditions_are_not_covered() {
        for (model, id, setting, config, metric, says) in [
            ("", "table1a", "2 frames, 32 tokens", "crossinfer", "completion", "`32 tokens`, and the published experiment is of 150"),
            ("", "table1a", "2 frames, four requests", "crossinfer", "completion", "`four requests`"),
            ("", "table1a", "2 frames at 1 fps", "crossinfer", "completion", "`1 fps`"),
            ("Qwen2.5-VL-3B Q4", "table1a", "2 frames", "crossinfer", "completion", "`Q4`, and the published experiment is of 16 bits"),
            ("", "table3", "128 output tokens", "mlx", "mean_power", "`128 output tokens`"),
            ("", "table3", "one request, Q4", "mlx", "mean_power", "`Q4`"),
            ("Qwen3.5-0.8B", "table5", "128-token answers, batch 4", "overlap", "throughput", "`batch 4`"),
            ("Qwen3.5-0.8B", "table5", "128-token answers, overlap off", "overlap", "throughput", "`overlap off`"),
            ("", "table6", "64 MiB", "cpu+gpu", "mean_bandwidth", "measured `read_bandwidth` alone"),
            ("", "table6", "64 MiB", "gpu", "completion", "measured `read_bandwidth` alone"),
            ("", "table7", "sixteen frames", "D", "completion", "`sixteen frames`"),
            ("", "table7", "context reuse only", "D", "completion", "`reuse only`"),
            ("FastVLM-1.5B", "table8", "dense", "crossinfer", "throughput", "`FastVLM-1.5B`"),
            ("", "table8", "sparse", "crossinfer", "throughput", "`sparse`, and what is played for it is `dense`"),
            ("FastVLM-0.5B", "table9", "128 tokens", "crossinfer", "throughput", "`128 tokens`"),
            ("FastVLM-0.5B", "table9", "on-device vision", "crossinfer", "throughput", "`on device`"),
            ("FastVLM-0.5B", "table10", "32 tokens a query", "crossinfer", "throughput", "`32 tokens`"),
            ("FastVLM-0.5B", "table10", "precomputed", "crossinfer", "throughput", "`precomputed`"),
            ("", "table12", "four streams, 112-token", "crossinfer", "throughput", "`four streams`"),
            ("FastVLM-0.5B", "table12", "112-token", "crossinfer", "throughput", "`FastVLM-0.5B`"),
            ("", "table13", "prefill_1024", "cpu", "completion", "measured `prefill` alone"),
            ("", "table14", "FP16, 32 tokens", "cpu+metal", "decode", "`FP16`"),
            ("", "fig9b", "short and long", "state-aware dispatch", CHANGE, "`short`, `long`"),
            ("", "fig9b", "long, against the better", "state-aware dispatch", CHANGE, "`better`"),
            ("", "fig9b", "no word of it", "state-aware dispatch", CHANGE, "told by the words"),
            ("", "fig11c", "three OneVision-7B queries", "import over recompute", "first_token_latency_ratio", "`OneVision-7B`"),
            ("", "fig16", "eight requests", "reuse over rebuild", "throughput_ratio", "`eight requests`"),
            ("", "fig16", "64 tokens each", "reuse over rebuild", "throughput_ratio", "`64 tokens`"),
        ] {
            let why = why(model, id, setting, config, metric).unwrap_or_default();
            assert!(why.contains(says), "{id}: {setting}: {why}");
        }
    }
}
