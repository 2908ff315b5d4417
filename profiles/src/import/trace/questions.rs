//! Query times of video benchmarks: `StreamingBench` (JSON and CSV) and OVO-Bench (JSON).

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::note::{NoteKind, Notes};
use super::super::text::{self, Lines, short, slug};
use super::super::{Options, Output, Source};
use super::seconds;

/// Times of a video's questions, ns.
type Videos = BTreeMap<String, Vec<u64>>;

/// Whether a line is the header of `StreamingBench`'s CSV.
pub(super) fn is_header(line: &str) -> bool {
    let names: Vec<&str> = line
        .split(',')
        .map(|name| name.trim().trim_matches('"'))
        .collect();
    names.contains(&"time_stamp") && names.contains(&"question_id")
}

/// One trace a video.
pub(super) fn import(
    source: Source,
    stem: &str,
    options: &Options,
    notes: &mut Notes,
) -> Vec<Output> {
    let file = source.name.clone();
    let Some(text) = text::whole(source, notes) else {
        return Vec::new();
    };
    let mut reader = Reader {
        file: &file,
        text: &text,
        places: Lines::of(&text),
        notes,
        videos: Videos::new(),
        after: 0,
    };
    if text.trim_start().starts_with('[') {
        match serde_json::from_str::<Vec<Value>>(&text) {
            Ok(entries) => {
                for entry in &entries {
                    reader.entry(entry);
                }
            }
            Err(error) => {
                let text = format!("no array of questions: {error}");
                reader.notes.refuse(&file, Some(error.line() as u64), text);
                return Vec::new();
            }
        }
    } else {
        reader.csv();
    }
    let videos = reader.videos;
    if videos.is_empty() {
        notes.refuse(&file, Some(1), "no question with a time: neither StreamingBench (`questions`, `time_stamp`) nor OVO-Bench (`video`, `realtime`)");
        return Vec::new();
    }
    let questions: usize = videos.values().map(Vec::len).sum();
    let text = format!(
        "{questions} questions of {} videos; lengths are not stated",
        videos.len()
    );
    notes.add(NoteKind::Read, &file, None, text);
    let wanted = |video: &str| {
        options
            .only
            .iter()
            .all(|(key, value)| key == "video" && value.eq_ignore_ascii_case(video))
    };
    let outputs: Vec<Output> = videos
        .into_iter()
        .filter(|(video, _)| wanted(video))
        .map(|(video, mut times)| {
            times.sort_unstable();
            let rows: Vec<String> = times.iter().map(|time| seconds(*time)).collect();
            Output {
                name: format!("{stem}-{}.csv", slug(&video)),
                identity: video,
                text: format!("time_s\n{}\n", rows.join("\n")),
                aside: false,
            }
        })
        .collect();
    if outputs.is_empty() {
        notes.refuse(&file, None, "no video that `--only` chooses");
    }
    outputs
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    places: Lines,
    notes: &'a mut Notes,
    videos: Videos,
    after: usize,
}

impl Reader<'_> {
    /// Line of the next occurrence of a key.
    fn next_line(&mut self, key: &str) -> u64 {
        let needle = format!("\"{key}\"");
        if let Some(found) = self.text[self.after..].find(&needle) {
            self.after += found + needle.len();
        }
        self.places.at(self.after)
    }

    fn entry(&mut self, entry: &Value) {
        let name = |key: &str| entry.get(key).and_then(Value::as_str).map(stem);
        if let Some(Value::Array(questions)) = entry.get("questions") {
            let video = name("video_path").unwrap_or_else(|| "video".to_owned());
            for question in questions {
                let line = self.next_line("time_stamp");
                self.time(&video, question.get("time_stamp"), line, "time_stamp");
            }
            return;
        }
        let Some(video) = name("video") else {
            let line = self.places.at(self.after);
            self.notes.skip(
                self.file,
                line,
                "an entry with neither `questions` nor `video`",
            );
            return;
        };
        // When it is asked; tasks that wait for something to happen are asked again and again.
        for key in ["ask_time", "realtime"] {
            if let Some(value) = entry.get(key) {
                let line = self.next_line(key);
                self.time(&video, Some(value), line, key);
                return;
            }
        }
        let tests = entry.get("test_info").and_then(Value::as_array);
        match tests {
            Some(tests) if !tests.is_empty() => {
                for test in tests {
                    let line = self.next_line("realtime");
                    self.time(&video, test.get("realtime"), line, "realtime");
                }
            }
            _ => {
                let line = self.next_line("video");
                self.notes.skip(
                    self.file,
                    line,
                    format!("`{video}`: no `realtime`, `ask_time` or `test_info`"),
                );
            }
        }
    }

    fn time(&mut self, video: &str, value: Option<&Value>, line: u64, key: &str) {
        let time = match value {
            Some(Value::String(text)) => clock(text),
            Some(Value::Number(number)) => number.as_f64().and_then(whole),
            _ => None,
        };
        let Some(time) = time else {
            let shown =
                value.map_or_else(|| "missing".to_owned(), |value| short(&value.to_string()));
            let text = format!("`{video}`: `{key}` is {shown}, no time such as 0:02:50");
            self.notes.skip(self.file, line, text);
            return;
        };
        self.videos.entry(video.to_owned()).or_default().push(time);
    }

    fn csv(&mut self) {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(self.text.as_bytes());
        let headers = reader.headers().cloned().unwrap_or_default();
        let column = |name: &str| headers.iter().position(|known| known.trim() == name);
        let (Some(time), Some(id)) = (column("time_stamp"), column("question_id")) else {
            return;
        };
        for record in reader.records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let line = error.position().map_or(1, csv::Position::line);
                    self.notes
                        .skip(self.file, line, format!("no row of CSV: {error}"));
                    continue;
                }
            };
            let line = record.position().map_or(1, csv::Position::line);
            let (time, id) = (record.get(time).unwrap_or(""), record.get(id).unwrap_or(""));
            // `…_sample_12_3`: the third question of a video.
            let video = id.rsplit_once('_').map_or(id, |(video, _)| video);
            self.time(
                video,
                Some(&Value::String(time.to_owned())),
                line,
                "time_stamp",
            );
        }
    }
}

fn stem(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.rsplit_once('.')
        .map_or(name, |(stem, _)| stem)
        .to_owned()
}

/// Seconds in ns, up to ten years.
fn whole(seconds: f64) -> Option<u64> {
    ((0.0..=3.2e8).contains(&seconds)).then(|| (seconds * 1e9).round() as u64)
}

/// `H:MM:SS`, `MM:SS` or seconds, with or without a fraction, in ns.
fn clock(text: &str) -> Option<u64> {
    let mut total = 0.0;
    let parts: Vec<&str> = text.trim().split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for (index, part) in parts.iter().enumerate() {
        let number: f64 = part.parse().ok().filter(|number: &f64| *number >= 0.0)?;
        let last = index + 1 == parts.len();
        if (index > 0 && number >= 60.0) || (!last && number.fract() != 0.0) {
            return None;
        }
        total = total * 60.0 + number;
    }
    whole(total)
}
