//! The page by its structure; `cli/tests/report` tries it in a browser.

mod compared;

use serde_json::Value;
use sim::simulation::Simulation;

use compared::comparison;

use super::*;
use crate::facts::Facts;
use crate::interval::Replicated;
use crate::{json, number, toy};

fn results(rate_hz: f64, rows: usize) -> (Folder, Replicated) {
    let text = toy::scenario(rate_hz);
    let world = toy::world(&text);
    let mut simulation = Simulation::new(&world);
    let summaries = (0..3).map(|run| {
        simulation.run(run).expect("no policy stops");
        simulation.summary()
    });
    let runs = Replicated {
        summaries: summaries.collect(),
    };
    let document = json::summary(&Facts::of(&world, "toy.toml"), &runs).to_string();
    let detail = serde_json::to_string(&toy::detail(&text, rows).0).expect("it can be written");
    let folder = Folder::read(
        "out",
        ("summary.json", &document),
        Some(("detail.json", &detail)),
    );
    (folder.expect("it can be read"), runs)
}

#[test]
fn numbers_are_those_of_the_summary() {
    let (folder, runs) = results(0.2, 1000);
    let page = page(&[folder]).expect("it can be drawn");
    for get in [
        (|s| s.ttft_s.mean) as fn(&sim::metrics::Summary) -> Option<f64>,
        |s| s.ttft_s.p95,
        |s| s.completion_s.mean,
        |s| s.completion_s.p95,
        |s| s.tpot_s.mean,
        |s| s.staleness_s.mean,
        |s| s.energy_per_request_j,
        |s| s.throughput_rps,
        |s| Some(s.makespan_s),
    ] {
        let text = number::estimate(runs.estimate(get));
        assert!(page.contains(&format!(">{text}</td>")), "{text}");
    }
}

/// Counts are those of the text, in its digits. To see it fail, write them with three.
#[test]
fn counts_are_written_as_the_text_has_them() {
    let (folder, runs) = results(0.2, 1000);
    let page = page(&[folder]).expect("it can be drawn");
    let (_, work) = page.split_once("aria-label=\"Work\"").expect("it is there");
    let (work, _) = work.split_once("</table>").expect("it ends");
    let cells: Vec<&str> = work.split("<td>").skip(1).collect();
    let cells: Vec<&str> = cells
        .iter()
        .filter_map(|cell| cell.split('<').next())
        .collect();
    let count = |get: fn(&sim::metrics::Summary) -> u64| {
        number::count(runs.estimate(|s| Some(get(s) as f64)))
    };
    let text = [
        count(|s| s.arrived),
        count(|s| s.completed),
        count(|s| s.late),
        count(|s| s.refused.iter().map(|(_, count)| count).sum()),
        count(|s| s.preparations.reuse),
        count(|s| s.preparations.import),
        count(|s| s.preparations.reconstruct),
        count(|s| s.preparations.import_and_reconstruct),
        count(|s| s.evictions),
    ];
    assert_eq!(cells, text);
    assert_eq!(
        number::count(Some(crate::interval::Estimate {
            mean: 7.5,
            half_width: None,
            n: 2
        })),
        "7.5"
    );
}

#[test]
fn texts_are_escaped_wherever_they_stand() {
    let (mut folder, _) = results(0.2, 1000);
    let nasty = "</script><script>alert(1)</script>&\"'";
    folder.name = nasty.into();
    for path in [
        "/scenario/title",
        "/scenario/file",
        "/soc/name",
        "/model/name",
        "/policy",
        "/contention",
    ] {
        *folder.document.pointer_mut(path).expect("it is there") = nasty.into();
    }
    folder.document["warnings"] = serde_json::json!([nasty]);
    folder.document["conditions"] = serde_json::json!([nasty]);
    for key in ["path", "file", "note"] {
        folder.document["assumptions"]["list"][0][key] = nasty.into();
    }
    let detail = folder.detail.as_mut().expect("it is there");
    detail.notes = vec![nasty.into()];
    detail.reproduce.command = nasty.into();
    detail.runs[0].policy = nasty.into();
    for names in [
        &mut detail.engines,
        &mut detail.lanes,
        &mut detail.stages,
        &mut detail.streams,
    ] {
        for name in names.iter_mut() {
            *name = nasty.into();
        }
    }
    let page = page(&[folder.clone(), folder]).expect("it can be drawn");
    assert!(!page.contains("<script>alert"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.matches("&lt;script&gt;alert(1)").count() > 15);
}

#[test]
fn no_name_turns_the_words_around_it() {
    let (folder, _) = results(0.2, 1000);
    let turn = |text: String| {
        text.replace("two cameras", "two \u{202e}cameras")
            .replace("front", "\u{2067}front")
    };
    let document = turn(folder.document.to_string());
    let detail = turn(serde_json::to_string(&folder.detail).expect("it can be written"));
    assert!(document.contains('\u{202e}') && detail.contains('\u{2067}'));
    let folder = Folder::read("o\u{202e}ut", ("a", &document), Some(("b", &detail)));
    let folder = folder.expect("it can be read");
    let page = page(&[folder.clone(), folder]).expect("it can be drawn");
    assert!(!page.contains(['\u{202e}', '\u{2067}']));
    for text in ["<h1>two \\u{202e}cameras", "\\u{2067}front", "o\\u{202e}ut"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn nothing_is_fetched() {
    let (folder, _) = results(0.2, 1000);
    let page = page(&[folder]).expect("it can be drawn");
    for word in [
        " src=", "@import", "url(", "fetch(", "XMLHttp", "<link", "<img",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(is_page(&page) && !is_page("<html></html>"));
}

#[test]
fn every_picture_has_a_text() {
    let (folder, _) = results(0.2, 1000);
    let page = page(&[folder]).expect("it can be drawn");
    let figures = page.matches("<div role=\"img\" aria-label=\"").count();
    assert_eq!(figures, page.matches("<svg").count());
    assert!(figures >= 10);
    for id in page
        .split(" href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn a_growing_queue_is_said_and_has_no_latency() {
    let (folder, _) = results(2.0, 1000);
    let page = page(&[folder]).expect("it can be drawn");
    assert!(page.contains("queues grow or too much is refused: there is no steady latency"));
    assert!(page.contains("<td>grows</td>"));
}

#[test]
fn results_without_detail_have_a_page_without_script() {
    let (mut folder, _) = results(0.2, 10);
    folder.detail = None;
    let page = page(&[folder]).expect("it can be drawn");
    assert!(!page.contains("<script"));
    // Once, with what it lacks and what brings that.
    assert_eq!(page.matches("has no detail.json").count(), 1);
    let sentence =
        "`out` has no detail.json, so that no request and no stage of it is shown (its timeline, ";
    assert!(page.contains(sentence), "{page}");
    assert!(page.contains("`crossinfer run toy.toml --out DIR` writes them"));
    let mut compared = comparison(0.2);
    assert_eq!(compared.lacks(), None);
    compared.detail = None;
    let lacks = compared.lacks().expect("it lacks its detail");
    assert!(
        lacks.contains("no compare-detail.json") && lacks.contains("`crossinfer compare toy.toml"),
        "{lacks}"
    );
}

#[test]
fn what_is_no_result_is_refused_with_its_place() {
    let (folder, _) = results(0.2, 10);
    let read = |document: &Value| {
        let text = document.to_string();
        let read = Folder::read("out", ("out/summary.json", &text), None);
        read.err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert_eq!(read(&folder.document), "");
    let mut other = folder.document.clone();
    other["schema_version"] = 9.into();
    assert_eq!(
        read(&other),
        "`out/summary.json` has schema version 9, this program reads 1"
    );
    other["schema_version"] = 1.into();
    other["kind"] = "cake".into();
    assert!(read(&other).contains("`kind` is neither"));
    let broken = Folder::read("out", ("a.json", "{"), None).err();
    assert!(broken.is_some_and(|error| error.to_string().starts_with("`a.json` is not what")));
}

#[test]
fn the_largest_page_stays_small() {
    fn long<T: Clone>(column: &mut Vec<T>, rows: usize) {
        *column = column.iter().cycle().take(rows).cloned().collect();
    }
    let (mut folder, _) = results(0.5, 1000);
    let run = &mut folder.detail.as_mut().expect("it is there").runs[0];
    // As much as a run of a hundred thousand requests may leave, and more.
    let s = &mut run.slices;
    s.total = 700_000;
    for column in [&mut s.start, &mut s.length] {
        long(column, 60_000);
        for time in column {
            *time += 800_000_000_000_000;
        }
    }
    long(&mut s.lane, 60_000);
    long(&mut s.stage, 60_000);
    long(&mut s.stream, 60_000);
    long(&mut s.alone, 60_000);
    long(&mut s.query, 60_000);
    long(&mut s.version, 60_000);
    long(&mut s.size, 60_000);
    long(&mut s.context, 60_000);
    let q = &mut run.requests;
    q.total = 100_000;
    for column in [&mut q.arrived, &mut q.ended] {
        long(column, 40_000);
        for time in column {
            *time += 800_000_000_000_000;
        }
    }
    long(&mut q.stream, 40_000);
    long(&mut q.index, 40_000);
    for column in [
        &mut q.ttft,
        &mut q.waiting,
        &mut q.waiting_for_version,
        &mut q.preparing,
        &mut q.service,
    ] {
        long(column, 40_000);
    }
    long(&mut q.lane, 40_000);
    for column in [
        &mut q.version,
        &mut q.prompt,
        &mut q.output,
        &mut q.frames_behind,
    ] {
        long(column, 40_000);
    }
    long(&mut q.preparation, 40_000);
    long(&mut q.slowdown, 40_000);
    long(&mut q.refused, 40_000);
    assert_eq!(
        folder.detail.as_ref().map(crate::detail::Detail::check),
        Some(Ok(()))
    );
    let page = page(&[folder.clone(), folder]).expect("it can be drawn");
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    assert!(
        page.len() > 3_000_000,
        "it holds as much as it may: {} bytes",
        page.len()
    );
}

#[test]
fn only_results_of_the_same_scenario_are_ranked() {
    let (folder, _) = results(0.2, 10);
    let named = |name: &str, title: &str, ttft: f64| {
        let mut folder = folder.clone();
        folder.name = name.into();
        folder.document["scenario"]["title"] = title.into();
        let mean = &mut folder.document["ttft_s"]["mean"];
        (mean["value"], mean["ci95"]) = (ttft.into(), 0.01.into());
        folder
    };
    let (a, b, other) = (
        named("a", "yard", 0.5),
        named("b", "yard", 0.4),
        named("c", "hall", 0.1),
    );
    let alike = page(&[a.clone(), b.clone()]).expect("it can be drawn");
    assert!(!alike.contains("different scenarios"));
    assert!(alike.contains("b: state_aware:w+p+s gives first tokens soonest"));
    let mixed = page(&[a, other, b]).expect("it can be drawn");
    assert!(mixed.contains("These results are of different scenarios"));
    // A folder of one run has nothing to be best among.
    assert!(mixed.contains("among the configurations of its folder"));
    assert!(!mixed.contains("<td class=\"best\">"));
    // The fastest of all is of another scenario.
    assert!(mixed.contains("Of 2 configurations, b: state_aware:w+p+s gives first tokens soonest"));
    assert!(!mixed.contains("c: state_aware:w+p+s gives first tokens soonest"));
    assert!(!mixed.contains("Of 3 configurations"));
    assert!(mixed.contains("c: hall on Toy. With state_aware:w+p+s, the first token comes"));
}

/// To see it fail, let `leader` name the least mean whatever `open` holds.
#[test]
fn chance_ranks_no_unpaired_runs() {
    let (folder, _) = results(0.2, 10);
    let with = |name: &str, seed: u64, (mean, half): (f64, f64)| {
        let mut folder = folder.clone();
        folder.name = name.into();
        folder.document["seed"] = seed.into();
        folder.document["horizon_s"] = (100.0 * seed as f64).into();
        for key in ["ttft_s", "completion_s"] {
            let value = &mut folder.document[key]["mean"];
            (value["value"], value["ci95"]) = (mean.into(), half.into());
        }
        folder
    };
    let (a, b) = (with("a", 1, (1.0, 0.2)), with("b", 7, (1.1, 0.2)));
    let c = with("c", 8, (9.0, 0.2));
    let text = page(&[a.clone(), b.clone(), c]).expect("it can be drawn");
    let p = "state_aware:w+p+s";
    assert!(text.contains(&format!(
        "Of 3 configurations, none is shown to complete answers soonest: a: {p}, 1.00 ± 0.20 s has the least mean, but no \
         difference shown (unpaired runs) to b: {p}, 1.10 ± 0.20 s."
    )));
    assert!(!text.contains("answers soonest: after") && !text.contains("tokens soonest: after"));
    assert!(text.contains(
        "These runs differ in seed 1 (a) and 7 (b) and 8 (c); horizon 100 s (a) and 700 s (b) and 800 s (c)."
    ));
    assert!(text.contains("Welch&#39;s t test") || text.contains("Welch's t test"));
    // Without intervals nothing is shown, however far apart.
    let mut single = with("s", 9, (50.0, 0.0));
    single.document["completion_s"]["mean"]["ci95"] = Value::Null;
    let text = page(&[a.clone(), single]).expect("it can be drawn");
    assert!(text.contains("one replication has no interval"));
    // The same run twice is one run.
    let text = page(&[a.clone(), a.clone()]).expect("it can be drawn");
    assert!(text.contains(&format!(
        "a: {p} is given more than once: it is the same run."
    )));
    assert!(!text.contains("configurations,"));
    let mut copy = a.clone();
    copy.name = "copy".into();
    let text = page(&[a, copy]).expect("it can be drawn");
    assert!(text.contains(&format!("a: {p} and copy: {p} are the same run")));
}

#[test]
fn a_run_without_answers_says_so() {
    let text = toy::scenario(1e-9);
    let world = toy::world(&text);
    let mut simulation = Simulation::new(&world);
    simulation.run(0).expect("no policy stops");
    let runs = Replicated {
        summaries: vec![simulation.summary()],
    };
    let document = json::summary(&Facts::of(&world, "toy.toml"), &runs);
    let warnings = document["warnings"].to_string();
    assert!(
        warnings.contains("no query was answered after the warm-up"),
        "{warnings}"
    );
    let detail = serde_json::to_string(&toy::detail(&text, 100).0).expect("it can be written");
    let folder = Folder::read(
        "out",
        ("summary.json", &document.to_string()),
        Some(("detail.json", &detail)),
    );
    let page = page(&[folder.expect("it can be read")]).expect("it can be drawn");
    assert!(page.contains("With state_aware:w+p+s, no query was answered after the warm-up"));
    assert!(!page.contains("first token comes after"));
}

#[test]
fn bytes_that_no_stage_has_are_absent() {
    let (mut folder, _) = results(0.2, 10);
    let whole = page(std::slice::from_ref(&folder)).expect("it can be drawn");
    assert!(whole.contains("GB/s moved") && whole.contains("Memory traffic"));
    folder.document["mean_bandwidth_gbps"]["value"] = 0.0.into();
    for run in &mut folder.detail.as_mut().expect("it is there").runs {
        run.series.bytes_per_s.mean.fill(0.0);
    }
    let page = page(&[folder]).expect("it can be drawn");
    assert!(!page.contains("GB/s moved") && !page.contains("Memory traffic"));
}

/// To see it fail, read numbers without `float_roundtrip`.
#[test]
fn numbers_are_read_as_they_were_written() {
    for i in 1..20_000_u32 {
        let x = f64::from(i) * 0.112_5 / 7.0 - f64::EPSILON;
        let read: f64 = serde_json::from_str(&x.to_string()).expect("it is a number");
        assert_eq!(read, x);
    }
}
