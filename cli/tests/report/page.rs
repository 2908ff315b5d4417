//! Pages in a real browser, where there is one: they work, fit, can be read, and ask for nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::browser::{self, Page};
use crate::timeline::{
    a_steep_pinch_zooms_no_further_than_the_fingers_go, hovering_shows_a_stage,
    keys_zoom_move_and_step, queries_are_labelled, requests_add_up,
    requests_of_the_warm_up_are_marked, streams_and_policies_filter,
    the_whole_run_is_of_what_is_shown, timeline, what_is_left_is_not_said_any_more,
};
use crate::{crossinfer, folder, study, text};

/// The browser of this machine; without one the test is skipped, unless it is asked for.
fn browser() -> Option<&'static str> {
    let name = browser::installed();
    if name.is_none() {
        assert!(
            std::env::var_os("CROSSINFER_BROWSER").is_none(),
            "CROSSINFER_BROWSER asks for a browser, and there is none"
        );
        // Unlike eprintln!, this is shown even though the test passes.
        let skipped = "SKIPPED: no Chromium here (apt-get install chromium): the report was not tried in a browser";
        _ = writeln!(std::io::stderr(), "{skipped}");
    }
    name
}

/// A report of a comparison and a run, with a stream and a title that are no plain names.
fn report(home: &Path) -> PathBuf {
    let (compared, run) = (home.join("compared"), home.join("run"));
    let policies = "state_aware,serial,round_robin";
    let nasty = r#""<script>alert(\"x\")&'</script>""#;
    let named = study::copy("browser-study", |text| text.replace("\"front\"", nasty));
    let named = named.join("toy.toml");
    crossinfer(&[
        "compare",
        text(&named),
        "--policies",
        policies,
        "--out",
        text(&compared),
    ]);
    crossinfer(&["run", text(&named), "--out", text(&run)]);
    for file in ["detail.json", "summary.json"] {
        let path = run.join(file);
        let written = fs::read_to_string(&path).expect("it was written");
        let stream = first_stream(&written);
        // As long as no window is wide.
        let name = format!("\"<script>alert(1)</script>&'\\\"{}\"", "n".repeat(400));
        let nasty = written.replace(&Value::from(stream).to_string(), &name);
        assert_ne!(nasty, written);
        let mut nasty: Value = serde_json::from_str(&nasty).expect("it is JSON");
        if let Some(total) = nasty.pointer_mut("/runs/0/slices/total") {
            // As of a run that is too long for every stage to be kept.
            *total = (total.as_u64().expect("it is a count") + 1).into();
        }
        fs::write(&path, nasty.to_string()).expect("it can be written");
    }
    let page = home.join("report.html");
    crossinfer(&["report", text(&compared), text(&run), "--out", text(&page)]);
    page
}

fn first_stream(document: &str) -> String {
    let value: Value = serde_json::from_str(document).expect("it is JSON");
    let stream = &value["streams"][0];
    let name = stream["name"].as_str().or(stream.as_str());
    name.expect("there is a stream").to_owned()
}

/// The page of one comparison: its Pareto front, and what `compare` was asked for beside.
#[test]
fn a_comparison_in_a_browser() {
    let Some(name) = browser() else { return };
    let home = folder("browser-front");
    let out = home.join("out");
    let policies = "state_aware,serial,round_robin,naive,single:cpu";
    let more = ["--bounds", "--robustness", "--replications", "3"];
    crossinfer(
        &[
            &[
                "compare",
                "toy.toml",
                "--policies",
                policies,
                "--out",
                text(&out),
            ][..],
            &more,
        ]
        .concat(),
    );
    crossinfer(&["report", text(&out)]);
    let file = out.join("report.html");
    let mut page = Page::new(name, &home.join("profile"));
    page.show(1280, 900, false);
    page.open(&file);
    points_say_what_they_are(&mut page);
    for label in ["Bounds", "Robustness", "Quantiles of TTFT, s"] {
        let rows = format!("document.querySelectorAll('[aria-label=\"{label}\"] tbody tr').length");
        assert!(
            page.eval(&rows).as_u64().is_some_and(|rows| rows >= 5),
            "{label}"
        );
    }
    for (width, dark) in [(1280, true), (360, false), (360, true)] {
        page.show(width, 844, dark);
        it_fits(&mut page, width, dark);
        plots_are_seen(&mut page, width, dark);
    }
    nothing_went_wrong(&page, &file);
}

/// To see it fail, draw no lines over chips.
#[test]
fn more_streams_than_colours_look_different() {
    let Some(name) = browser() else { return };
    let home = folder("browser-streams");
    let study = study::copy("browser-streams-study", |text| {
        text.replace("copies = 2", "copies = 8")
    });
    let out = home.join("out");
    let study = study.join("toy.toml");
    let one = ["--replications", "1", "--out", text(&out)];
    crossinfer(&[&["run", text(&study)][..], &one].concat());
    crossinfer(&["report", text(&out)]);
    let file = out.join("report.html");
    let mut page = Page::new(name, &home.join("profile"));
    page.show(1280, 900, false);
    page.open(&file);
    let styles = page.eval(
        "[...document.querySelectorAll('#streams .chip')].map((chip) => getComputedStyle(chip))
           .map((style) => [style.backgroundColor, style.backgroundImage, style.backgroundPosition].join())",
    );
    let styles: Vec<&str> = styles
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(styles.len(), 8, "{styles:?}");
    let different: BTreeSet<&str> = styles.iter().copied().collect();
    assert_eq!(different.len(), 8, "{styles:?}");
    assert!(styles[7].contains("gradient"), "{styles:?}");
    nothing_went_wrong(&page, &file);
}

#[test]
fn it_works_in_a_browser() {
    let Some(name) = browser() else { return };
    let home = folder("browser");
    let file = report(&home);
    let mut page = Page::new(name, &home.join("profile"));
    page.show(1280, 900, false);
    page.open(&file);
    numbers_are_formatted_as_ours(&mut page);
    names_are_text(&mut page);
    queries_are_labelled(&mut page);
    hovering_shows_a_stage(&mut page);
    keys_zoom_move_and_step(&mut page);
    what_is_left_is_not_said_any_more(&mut page);
    streams_and_policies_filter(&mut page);
    the_whole_run_is_of_what_is_shown(&mut page);
    requests_add_up(&mut page);
    requests_of_the_warm_up_are_marked(&mut page);
    a_steep_pinch_zooms_no_further_than_the_fingers_go(&mut page);
    for (width, dark) in [
        (1280, true),
        (1300, false),
        (500, false),
        (390, false),
        (390, true),
        (360, false),
        (360, true),
    ] {
        page.show(width, 844, dark);
        it_fits(&mut page, width, dark);
        plots_are_seen(&mut page, width, dark);
    }
    nothing_went_wrong(&page, &file);
}

fn numbers_are_formatted_as_ours(page: &mut Page) {
    let shown = page.eval("document.documentElement.dataset.ready");
    assert_eq!(shown, reports::html::expected_samples());
}

fn names_are_text(page: &mut Page) {
    assert_eq!(
        page.eval("document.querySelectorAll('body script').length"),
        2
    );
    let shown = page.eval("document.getElementById('streams').textContent");
    for name in [
        "<script>alert(1)</script>&'\"",
        "<script>alert(\"x\")&'</script>-2",
    ] {
        assert!(
            shown.as_str().is_some_and(|text| text.contains(name)),
            "{name}: {shown}"
        );
        let words = page.eval("document.querySelector('main').textContent");
        assert!(
            words.as_str().is_some_and(|text| text.contains(name)),
            "{name}"
        );
    }
}

/// The text of a point shows while it is pointed at, and while it has the focus.
fn points_say_what_they_are(page: &mut Page) {
    page.eval("document.querySelector('.points li').scrollIntoView({ block: 'center' })");
    let seen = "getComputedStyle(document.querySelector('.points li div')).clipPath === 'none'";
    assert_eq!(page.eval(seen), false);
    let at = page.eval(
        "(() => { const b = document.querySelector('.points li').getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()",
    );
    page.hover(at[0].as_f64().expect("x"), at[1].as_f64().expect("y"));
    page.wait(seen);
    page.hover(1.0, 1.0);
    page.wait(&format!("!({seen})"));
    page.eval("document.querySelector('.points li').focus()");
    page.wait(seen);
    let inside = page.eval(
        "(() => {
           const tip = document.querySelector('.points li div').getBoundingClientRect();
           const box = document.querySelector('.points').closest('figure').getBoundingClientRect();
           return tip.left >= box.left && tip.right <= box.right && tip.top >= box.top && tip.bottom <= box.bottom;
         })()",
    );
    assert_eq!(inside, true, "the text is within its figure");
    let words =
        page.eval("[...document.querySelectorAll('.points li')].map((point) => point.textContent)");
    let words: Vec<&str> = words
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    assert!(words.len() >= 3, "{words:?}");
    for text in words {
        let beaten = text.contains("beaten by ");
        assert!(
            beaten != text.contains("no other beats it in both"),
            "{text}"
        );
        assert!(
            text.contains("TTFT") || text.contains("ompletion"),
            "{text}"
        );
    }
    page.eval("document.activeElement.blur()");
}

/// Marks and lines of plots are three times as light or dark as their ground; their text can be read, and what is
/// wider than the window moves within its own frame.
fn plots_are_seen(page: &mut Page, width: u32, dark: bool) {
    let faint = page.eval(
        "(() => {
           const channels = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
           const light = (rgb) => {
             const [r, g, b] = rgb.map((c) => c / 255).map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
             return .2126 * r + .7152 * g + .0722 * b + .05;
           };
           const ratio = (a, b) => Math.max(a, b) / Math.min(a, b);
           const faint = [];
           for (const node of document.querySelectorAll('figure svg :is(circle, polyline, rect, polygon, text)')) {
             const style = getComputedStyle(node);
             const ground = channels(getComputedStyle(node.closest('figure')).backgroundColor).slice(0, 3);
             // What is drawn more faintly on purpose: lines of the grid, and fills that have an edge.
             const opacity = Number(style.opacity);
             if (opacity <= .45) continue;
             // Palettes are told apart by more than their lightness; black and blue carry what is alone.
             const of = (kind) => {
               if (style[kind] === 'none') return null;
               const named = (node.getAttribute(kind) || '').toUpperCase();
               return ['#000000', '#0072B2'].includes(named) ? style[kind] : null;
             };
             for (const colour of [of('stroke'), of('fill')].filter(Boolean)) {
               const mixed = channels(colour).slice(0, 3).map((c, i) => opacity * c + (1 - opacity) * ground[i]);
               const seen = ratio(light(mixed), light(ground));
               if (seen < 3) faint.push(`${node.outerHTML.slice(0, 90)} ${seen.toFixed(2)}`);
             }
           }
           return faint.slice(0, 5);
         })()",
    );
    assert_eq!(faint, serde_json::json!([]), "on {width}, dark: {dark}");
    let small = page.eval(
        "[...document.querySelectorAll('figure svg')].filter((svg) => svg.getBoundingClientRect().width > 0).flatMap((svg) => {
           const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
           return [...svg.querySelectorAll('text')].map((text) => parseFloat(getComputedStyle(text).fontSize) * scale);
         }).filter((size) => size < 9).length",
    );
    assert_eq!(small, 0, "texts below 9 pixels on {width}");
    let outside = page.eval(
        "[...document.querySelectorAll('figure')].filter((figure) => figure.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length",
    );
    assert_eq!(outside, 0, "figures wider than the window on {width}");
}

fn it_fits(page: &mut Page, width: u32, dark: bool) {
    // What depends on the width is drawn again in the next frame.
    page.eval(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))",
    );
    let wide = page.eval("document.documentElement.scrollWidth");
    assert!(
        wide.as_u64().is_some_and(|wide| wide <= u64::from(width)),
        "{wide} on {width}"
    );
    let outside = page.eval(
        "[...document.querySelectorAll('main dt, main dd, main p, main h3, main label, main .wide')]
           .filter((node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
           .map((node) => node.textContent.slice(0, 40))",
    );
    assert_eq!(outside, serde_json::json!([]), "on {width}");
    if width >= 1280 {
        let clipped = page.eval(
            "[...document.querySelectorAll('section[aria-labelledby=numbers] .wide')]
               .filter((table) => table.scrollWidth > table.clientWidth)
               .map((table) => `${table.ariaLabel} ${table.scrollWidth} of ${table.clientWidth}`)",
        );
        assert_eq!(clipped, serde_json::json!([]), "on {width}");
    }
    let back = page.eval("getComputedStyle(document.body).backgroundColor");
    assert_eq!(back == "rgb(255, 255, 255)", !dark);
    // Text against its background, by WCAG's ratio.
    let ratio = page.eval(
        "(() => {
           const light = (text) => {
             const [r, g, b] = text.match(/\\d+/g).map((c) => c / 255).map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
             return .2126 * r + .7152 * g + .0722 * b + .05;
           };
           const ratio = (a, b) => Math.max(a, b) / Math.min(a, b);
           const back = light(getComputedStyle(document.body).backgroundColor);
           return Math.min(...['p', '.soft', 'a', 'td', 'th'].map((of) => ratio(back, light(getComputedStyle(document.querySelector(of)).color))));
         })()",
    );
    assert!(ratio.as_f64().is_some_and(|ratio| ratio >= 4.5), "{ratio}");
    let timeline = timeline(page);
    assert!(timeline[2] > 300.0 && timeline[2] <= f64::from(width));
    let kinds = if dark { "dark" } else { "light" };
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{width}-{kinds}.png.base64"));
    fs::write(path, page.picture()).expect("it can be written");
}

fn nothing_went_wrong(page: &Page, file: &Path) {
    for event in &page.events {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                panic!("{parameters:#}");
            }
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                assert_eq!(
                    url,
                    format!("file://{}", file.display()),
                    "it asks for something"
                );
            }
            _ => {}
        }
    }
    let opened = page
        .events
        .iter()
        .any(|event| event["method"] == "Network.requestWillBeSent");
    assert!(opened, "requests are seen at all");
}
