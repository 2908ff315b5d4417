//! What a reader does with a timeline and its requests: points, keys, filters, jumps from the list.

use crate::browser::Page;
use serde_json::Value;

/// A rectangle of the page's first timeline.
pub(super) fn timeline(page: &mut Page) -> [f64; 4] {
    page.eval("document.querySelector('.timeline').scrollIntoView({ block: 'center' })");
    let of = page.eval(
        "(() => { const b = document.querySelector('.timeline').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()",
    );
    std::array::from_fn(|i| of[i].as_f64().expect("it is a number"))
}

/// At first, most queries can be told by their version.
pub(super) fn queries_are_labelled(page: &mut Page) {
    let of = page.eval("(({ queries, labelled }) => [Number(queries), Number(labelled)])(document.querySelector('.timeline').dataset)");
    let (queries, labelled) = (of[0].as_u64().unwrap_or(0), of[1].as_u64().unwrap_or(0));
    assert!(
        queries > 3 && labelled <= queries && 3 * labelled >= 2 * queries,
        "{labelled} of {queries}"
    );
}

pub(super) fn hovering_shows_a_stage(page: &mut Page) {
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

pub(super) fn keys_zoom_move_and_step(page: &mut Page) {
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
pub(super) fn a_steep_pinch_zooms_no_further_than_the_fingers_go(page: &mut Page) {
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

/// What screen readers were told last.
fn live(page: &mut Page) -> String {
    let said = page.eval("document.getElementById('live').textContent");
    said.as_str().expect("it is a text").to_owned()
}

/// Esc leaves a stage: its text is neither shown nor said any more, and the focus is where it was.
pub(super) fn what_is_left_is_not_said_any_more(page: &mut Page) {
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

pub(super) fn streams_and_policies_filter(page: &mut Page) {
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

pub(super) fn the_whole_run_is_of_what_is_shown(page: &mut Page) {
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

pub(super) fn requests_add_up(page: &mut Page) {
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

/// Requests of the warm-up are marked in the list, which the means leave out. To see it fail, mark none.
pub(super) fn requests_of_the_warm_up_are_marked(page: &mut Page) {
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
