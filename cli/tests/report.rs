//! The report, in a real browser where there is one.

mod browser;
mod study;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::Page;
use serde_json::Value;

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/study.in")
}

fn crossinfer(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments)
        .current_dir(files())
        .output()
        .expect("the command runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder can be made");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is text")
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

/// To see it fail, take `conditions` out of a header.
#[test]
fn conditions_stand_wherever_results_do() {
    let home = folder("conditions");
    let out = home.join("out");
    let told = [
        "other software keeps 2 of 8 CPU cores busy",
        "at most 40 queries in the system",
        "fixed: encode on npu",
    ];
    let slo = ["--slo", "ttft_p95 <= 1000 s", "--replications", "2"];
    let small = ["--policies", "serial,round_robin", "--out", text(&out)];
    let commands = [
        ["run", "shared.toml"].to_vec(),
        ["run", "shared.toml", "--format", "json"].to_vec(),
        [&["compare", "shared.toml"][..], &small].concat(),
        ["compare", "shared.toml", "--format", "json"].to_vec(),
        [&["plan", "shared.toml", "--to", "2"][..], &slo].concat(),
        [
            &["plan", "shared.toml", "--to", "2", "--format", "json"][..],
            &slo,
        ]
        .concat(),
        [&["plan", "shared.toml", "--need"][..], &slo].concat(),
        [
            &["plan", "shared.toml", "--need", "--format", "json"][..],
            &slo,
        ]
        .concat(),
    ];
    for command in &commands {
        // Lines of a table are broken where the terminal ends.
        let said = crossinfer(command);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for condition in told {
            assert!(said.contains(condition), "{command:?}: {condition}\n{said}");
        }
    }
    let page = home.join("report.html");
    crossinfer(&["report", text(&out), "--out", text(&page)]);
    let page = fs::read_to_string(page).expect("it is written");
    for condition in told {
        assert!(page.contains(condition), "the page: {condition}");
    }
}

/// A folder without what `report` draws requests from says so, once, and how to get it.
#[test]
fn what_is_lacking_is_said_once() {
    let home = folder("lacking");
    let out = home.join("out");
    crossinfer(&["run", "toy.toml", "--out", text(&out)]);
    // The page needs neither of these.
    for file in ["requests.csv", "trace.perfetto.json"] {
        fs::remove_file(out.join(file)).expect("it was there");
    }
    let report = || {
        let run = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
            .args(["report", text(&out)])
            .output()
            .expect("the command runs");
        assert!(run.status.success());
        let page = fs::read_to_string(out.join("report.html")).expect("it is written");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        (page, said)
    };
    let (page, said) = report();
    assert!(
        !page.contains("Not shown") && !said.contains("warning"),
        "{said}"
    );
    fs::remove_file(out.join("detail.json")).expect("it was there");
    let (page, said) = report();
    let lacks = "has no detail.json, so that no request and no stage of it is shown";
    for text in [&page, &said] {
        assert_eq!(text.matches(lacks).count(), 1, "{text}");
        assert!(text.contains("`crossinfer run toy.toml --out DIR` writes them"));
    }
    assert_eq!(said.matches("warning:").count(), 1, "{said}");
}

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

/// A rectangle of the page's first timeline.
fn timeline(page: &mut Page) -> [f64; 4] {
    page.eval("document.querySelector('.timeline').scrollIntoView({ block: 'center' })");
    let of = page.eval(
        "(() => { const b = document.querySelector('.timeline').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()",
    );
    std::array::from_fn(|i| of[i].as_f64().expect("it is a number"))
}

/// At first, most queries can be told by their version.
fn queries_are_labelled(page: &mut Page) {
    let of = page.eval("(({ queries, labelled }) => [Number(queries), Number(labelled)])(document.querySelector('.timeline').dataset)");
    let (queries, labelled) = (of[0].as_u64().unwrap_or(0), of[1].as_u64().unwrap_or(0));
    assert!(
        queries > 3 && labelled <= queries && 3 * labelled >= 2 * queries,
        "{labelled} of {queries}"
    );
}

fn hovering_shows_a_stage(page: &mut Page) {
    let [left, top, width, height] = timeline(page);
    let mut seen = String::new();
    'search: for row in 0..8 {
        for step in 0..60 {
            let at = (
                left + 112.0 + f64::from(step) / 60.0 * (width - 120.0),
                top + 30.0 + 46.0 * f64::from(row),
            );
            if at.1 > top + height {
                break 'search;
            }
            page.hover(at.0, at.1);
            let tip = page.eval("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent");
            let tip = tip.as_str().unwrap_or_default();
            if tip.contains("query") && tip.contains("slowdown") {
                tip.clone_into(&mut seen);
                break 'search;
            }
        }
    }
    for word in [
        "lane", "stream", "reads", "start", "took", "alone", "waiting", "service", "tokens",
    ] {
        assert!(seen.contains(word), "`{word}` is not in: {seen}");
    }
    page.hover(1.0, 1.0);
    page.wait("document.getElementById('tip').hidden");
}

fn view(page: &mut Page) -> (f64, f64) {
    let of = page.eval("(({ from, to }) => [Number(from), Number(to)])(document.querySelector('.timeline').dataset)");
    (
        of[0].as_f64().expect("it is a number"),
        of[1].as_f64().expect("it is a number"),
    )
}

/// What the first timeline says of itself: its ends in s, and its stages.
fn said(page: &mut Page) -> (f64, f64, u64) {
    let said = page.eval("document.querySelector('.timeline').ariaLabel");
    let said = said.as_str().expect("it has a text").to_owned();
    let after = |word: &str| {
        let rest = said.split(word).nth(1).unwrap_or_default();
        rest.split(' ').next().unwrap_or_default().to_owned()
    };
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{said}"));
    let stages = after(" s: ").parse().unwrap_or_else(|_| panic!("{said}"));
    (number(after(" from ")), number(after(" to ")), stages)
}

/// The text of a timeline is of what it draws, after every move.
fn it_says_what_it_shows(page: &mut Page) -> u64 {
    let (from, to) = view(page);
    let (said_from, said_to, stages) = said(page);
    assert!((said_from - from / 1e9).abs() < 1e-3 && (said_to - to / 1e9).abs() < 1e-3);
    let within = page.eval(
        "(() => {
           const { runs, details } = JSON.parse(document.getElementById('data').textContent);
           const { from, to } = document.querySelector('.timeline').dataset;
           const { slices } = details[runs[0].detail].runs[runs[0].run];
           return slices.start.filter((at, i) => at < to && at + slices.length[i] >= from).length;
         })()",
    );
    assert_eq!(within, stages);
    stages
}

fn keys_zoom_move_and_step(page: &mut Page) {
    page.eval("document.querySelector('.timeline').focus()");
    page.key("Home");
    let whole = view(page);
    let all = it_says_what_it_shows(page);
    page.key("+");
    page.key("+");
    let near = view(page);
    assert!(it_says_what_it_shows(page) < all);
    assert!(
        ((whole.1 - whole.0) / (near.1 - near.0) - 2.56).abs() < 0.01,
        "{whole:?} {near:?}"
    );
    page.key("ArrowRight");
    let moved = view(page);
    assert!(moved.0 > near.0 && ((moved.1 - moved.0) - (near.1 - near.0)).abs() < 1.0);
    page.key("-");
    assert!(view(page).1 - view(page).0 > moved.1 - moved.0);
    page.key("n");
    let said = page.eval("document.getElementById('live').textContent");
    page.key("n");
    let next = page.eval("document.getElementById('live').textContent");
    assert!(
        said != next && next.as_str().is_some_and(|text| text.contains("took")),
        "{said} {next}"
    );
    page.key("Escape");
    page.key("Home");
    assert_eq!(view(page), whole);
    page.eval("document.getElementById('zoom-in').click()");
    assert!(view(page).1 - view(page).0 < whole.1 - whole.0);
    page.eval("document.getElementById('whole').click()");
    assert_eq!(view(page), whole);
}

/// Two fingers one above the other zoom by how far apart they are, as any others do. To see it fail, measure along the
/// time alone.
fn a_steep_pinch_zooms_no_further_than_the_fingers_go(page: &mut Page) {
    page.eval("document.querySelector('.timeline').focus()");
    page.key("Home");
    let whole = view(page);
    page.eval(
        "(() => {
           const node = document.querySelector('.timeline');
           const box = node.getBoundingClientRect();
           const send = (type, pointerId, y) => node.dispatchEvent(new PointerEvent(type, {
             pointerId, clientX: box.left + 300, clientY: box.top + y, bubbles: true,
           }));
           node.setPointerCapture = () => {};
           send('pointerdown', 91, 10);
           send('pointerdown', 92, 50);
           send('pointermove', 92, 90);
           send('pointercancel', 91, 10);
           send('pointercancel', 92, 90);
           delete node.setPointerCapture;
         })()",
    );
    let near = view(page);
    let ratio = (whole.1 - whole.0) / (near.1 - near.0);
    assert!((ratio - 2.0).abs() < 0.01, "{ratio}: {whole:?} {near:?}");
    page.key("Home");
}

/// Requests of the warm-up are marked in the list, which the means leave out. To see it fail, mark none.
fn requests_of_the_warm_up_are_marked(page: &mut Page) {
    let of = page.eval(
        "(() => {
           const { runs, details } = JSON.parse(document.getElementById('data').textContent);
           const which = Number(document.getElementById('which').value);
           const run = details[runs[which].detail].runs[runs[which].run];
           const order = document.getElementById('order');
           order.value = 'arrived';
           order.dispatchEvent(new Event('change'));
           const rows = [...document.querySelectorAll('#requests tr')].map((row) => row.children[1].textContent);
           const early = [...run.requests.arrived].sort((a, b) => a - b).slice(0, rows.length)
             .map((at) => at < run.warm_up_ns);
           order.value = 'slowest';
           order.dispatchEvent(new Event('change'));
           const said = document.getElementById('count').textContent;
           return [early.some((is) => is), rows.every((text, i) => text.endsWith(', warm-up') === early[i]), said];
         })()",
    );
    assert_eq!((&of[0], &of[1]), (&true.into(), &true.into()), "{of}");
    let said = of[2].as_str().unwrap_or_default();
    assert!(said.contains("of them came in the warm-up"), "{said}");
}

/// What screen readers were told last.
fn live(page: &mut Page) -> String {
    let said = page.eval("document.getElementById('live').textContent");
    said.as_str().expect("it is a text").to_owned()
}

/// Esc leaves a stage: its text is neither shown nor said any more, and the focus is where it was.
fn what_is_left_is_not_said_any_more(page: &mut Page) {
    page.eval("document.querySelector('.timeline').focus()");
    page.key("n");
    assert!(live(page).contains("took"));
    page.key("Escape");
    assert_eq!(live(page), "");
    assert_eq!(page.eval("document.getElementById('tip').hidden"), true);
    let focus = "document.activeElement === document.querySelector('.timeline')";
    assert_eq!(page.eval(focus), true);
    // From the list of requests there and back.
    page.eval("document.querySelectorAll('#requests button')[2].focus()");
    page.eval("document.activeElement.click()");
    assert_eq!(page.eval(focus), true);
    assert!(live(page).contains("took"));
    assert_eq!(page.eval("document.getElementById('tip').hidden"), false);
    page.key("Escape");
    assert_eq!(live(page), "");
    let back = "document.activeElement === document.querySelectorAll('#requests button')[2]";
    assert_eq!(page.eval(back), true);
    // A stage of a stream or policy that is hidden is left too.
    for (which, boxes) in [("stream", 4), ("policy", 2)] {
        page.eval("document.querySelector('.timeline').focus()");
        page.key("n");
        assert!(live(page).contains("took"));
        let of = if which == "stream" { "streams" } else { "runs" };
        let toggle = format!(
            "[...document.querySelectorAll('#{of} input')].slice(0, {boxes}).forEach((box) => box.click())"
        );
        page.eval(&toggle);
        assert_eq!(live(page), "", "{which}");
        assert_eq!(
            page.eval("document.getElementById('tip').hidden"),
            true,
            "{which}"
        );
        page.eval(&toggle);
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

/// How many pixels of the first timeline have a stream's full colour.
const COLOURED: &str = "(() => {
  const canvas = document.querySelector('.timeline canvas');
  const copy = document.createElement('canvas');
  Object.assign(copy, { width: canvas.width, height: canvas.height });
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i] === 0 && data[i + 1] === 114 && data[i + 2] === 178) count++;
  return count;
})()";

fn streams_and_policies_filter(page: &mut Page) {
    let full = page.eval(COLOURED).as_u64().expect("it is a number");
    assert!(full > 500, "the timeline is drawn: {full}");
    page.eval("document.querySelector('#streams input').click()");
    let less = page.eval(COLOURED).as_u64().expect("it is a number");
    assert!(less < full / 10, "{less} of {full}");
    page.eval("document.querySelector('#streams input').click()");
    assert_eq!(page.eval(COLOURED), full);
    assert_eq!(
        page.eval("document.querySelectorAll('.timeline').length"),
        2
    );
    page.eval("document.querySelectorAll('#runs input')[3].click()");
    assert_eq!(
        page.eval("document.querySelectorAll('.timeline').length"),
        3
    );
    // Of this one not every stage is kept: from there on colours are classes.
    assert_eq!(
        page.eval("[...document.querySelectorAll('#timelines .key li')].map((item) => item.textContent).join()"),
        "ingest,query,transfer,blank: nothing ran"
    );
    assert_eq!(
        page.eval("document.querySelectorAll('#which option').length"),
        3
    );
    page.eval(
        "document.querySelectorAll('#runs input').forEach((box) => box.checked && box.click())",
    );
    assert_eq!(
        page.eval("document.querySelectorAll('.timeline').length"),
        0
    );
    let said = page.eval("document.getElementById('timelines').textContent");
    assert!(
        said.as_str()
            .is_some_and(|said| said.contains("No policy is chosen above")),
        "{said}"
    );
    page.eval("document.querySelectorAll('#runs input')[0].click()");
}

fn the_whole_run_is_of_what_is_shown(page: &mut Page) {
    let ends = page.eval(
        "(() => {
           const { runs, details } = JSON.parse(document.getElementById('data').textContent);
           return runs.map(({ detail, run }) => details[detail].runs[run].end_ns);
         })()",
    );
    let ends: Vec<f64> = ends
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    assert!(ends.iter().any(|end| *end < ends[0]) || ends.iter().any(|end| *end > ends[0]));
    for (index, end) in ends.iter().enumerate() {
        page.eval(&format!(
            "document.querySelectorAll('#runs input').forEach((box, i) => box.checked !== (i === {index}) && box.click())"
        ));
        page.eval("document.getElementById('whole').click()");
        assert_eq!(view(page), (0.0, *end));
    }
    page.eval("document.querySelectorAll('#runs input').forEach((box, i) => box.checked !== (i === 0) && box.click())");
}

fn requests_add_up(page: &mut Page) {
    let rows = page.eval("document.querySelectorAll('#requests tr').length");
    assert!(rows.as_u64().is_some_and(|count| count > 5), "{rows}");
    let sorted = page.eval(
        "(() => {
           const secs = (text) => parseFloat(text) * (text.endsWith('ms') ? 1e-3 : text.endsWith('µs') ? 1e-6 : 1);
           return [...document.querySelectorAll('#requests tr')].every((row) => {
             const cells = [...row.cells].map((cell) => cell.textContent);
             if (cells.length < 8) return true;
             const parts = cells.slice(4, 8).map(secs).reduce((a, b) => a + b, 0);
             return Math.abs(parts / secs(cells[3]) - 1) < 0.02;
           });
         })()",
    );
    assert_eq!(sorted, true);
    page.eval("document.querySelector('#requests button').click()");
    let (from, to) = view(page);
    assert!(from >= 0.0 && to > from);
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
