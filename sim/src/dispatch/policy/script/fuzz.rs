//! Whatever a script does, its call ends within the bounds: with a value, or with an error that names its line.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;
use proptest::test_runner::RngSeed;
use rhai::{Dynamic, Map};

use super::engine::{self, LIST_MAX, TEXT_MAX};
use super::program::{Function, Program};
use super::values::Params;
use crate::diag::{Faults, line_column};

/// What interpreters trip over, by type: numbers, texts, lists and maps.
static NUMBERS: [&str; 9] = [
    "0",
    "1",
    "-1",
    "3",
    "63",
    "500",
    "100000",
    "9223372036854775807",
    "n",
];
static TEXTS: [&str; 5] = ["\"\"", "\"ab\"", "\"größer\"", "s", "s"];
static LISTS: [&str; 5] = ["[]", "[1, [2, [3]], \"a\"]", "l", "l", "r"];
static MAPS: [&str; 4] = ["#{}", "#{ a: 1, b: #{ c: [4] } }", "m", "m"];
static OTHERS: [&str; 7] = ["()", "true", "'x'", "0.5", "1e300", "this", "r"];
static OPERATORS: [&str; 12] = ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "+", "-"];
/// Asked of anything, which may not have it.
static ASKS: [&str; 12] = [
    "len()",
    "keys()",
    "values()",
    "pop()",
    "reverse()",
    "clear()",
    "to_float()",
    "bytes()",
    "trim()",
    "dedup()",
    "sort()",
    "shift()",
];
static DOES: [&str; 11] = [
    "append",
    "split",
    "remove",
    "truncate",
    "contains",
    "index_of",
    "mixin",
    "fill_with",
    "get",
    "drain",
    "chop",
];

fn leaf(list: &'static [&'static str]) -> BoxedStrategy<String> {
    select(list).prop_map(str::to_owned).boxed()
}

fn number() -> BoxedStrategy<String> {
    leaf(&NUMBERS)
        .prop_recursive(2, 6, 2, |inner| {
            let one = || inner.clone();
            prop_oneof![
                4 => (one(), select(&OPERATORS[..]), one()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
                1 => select(&["l.len()", "s.len()", "m.len()", "l.index_of(1)"][..]).prop_map(str::to_owned),
                1 => one().prop_map(|x| format!("f({x})")),
                1 => (one(), one(), one()).prop_map(|(x, y, z)| format!("if {x} == {y} {{ {y} }} else {{ {z} }}")),
                1 => (one(), one(), one())
                    .prop_map(|(x, y, z)| format!("switch {x} {{ 1 => {y}, \"a\" => 2, _ => {z} }}")),
            ]
        })
        .boxed()
}

/// Anything: a value of a type, or what may be an error.
fn value() -> BoxedStrategy<String> {
    let plain = prop_oneof![
        2 => number(),
        2 => leaf(&TEXTS),
        2 => leaf(&LISTS),
        2 => leaf(&MAPS),
        1 => leaf(&OTHERS),
    ];
    plain.prop_recursive(3, 10, 3, |inner| {
        let one = || inner.clone();
        prop_oneof![
            2 => (leaf(&TEXTS), one()).prop_map(|(text, x)| format!("({text} + {x})")),
            2 => (leaf(&LISTS), one()).prop_map(|(list, x)| format!("({list} + [{x}])")),
            2 => one().prop_map(|x| format!("`<${{{x}}}${{s}}>`")),
            2 => vec(one(), 0..4).prop_map(|list| format!("[{}]", list.join(", "))),
            2 => (one(), one()).prop_map(|(x, y)| format!("#{{ a: {x}, b: {y} }}")),
            1 => (one(), number()).prop_map(|(x, y)| format!("g({x}, {y})")),
            1 => (one(), select(&OPERATORS[..]), one()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
            1 => (one(), select(&ASKS[..])).prop_map(|(of, ask)| format!("({of}).{ask}")),
            1 => (one(), select(&DOES[..]), one()).prop_map(|(of, does, x)| format!("({of}).{does}({x})")),
            1 => (one(), one()).prop_map(|(of, at)| format!("({of})[{at}]")),
        ]
    })
    .boxed()
}

fn statement() -> BoxedStrategy<String> {
    let simple = prop_oneof![
        3 => (select(&["=", "+=", "-=", "*="][..]), number()).prop_map(|(by, x)| format!("n {by} {x};")),
        3 => (select(&["s +=", "s =", "l =", "l +=", "m =", "m +=", "r ="][..]), value())
            .prop_map(|(to, x)| format!("{to} {x};")),
        2 => leaf(&["s += s;", "l += l;", "l.push(l);", "m.a = m;", "m[s] = l;", "m[n.to_string()] = s;", "n += 1;"]),
        2 => (select(&["l", "m", "this", "r"][..]), value(), value()).prop_map(|(to, at, x)| format!("{to}[{at}] = {x};")),
        1 => (select(&["m", "this"][..]), value()).prop_map(|(to, x)| format!("{to}.a = {x};")),
        2 => (select(&["push", "append"][..]), value()).prop_map(|(does, x)| format!("l.{does}({x});")),
        2 => (number(), value()).prop_map(|(x, y)| format!("l.pad({x}, {y});")),
        1 => (number(), leaf(&TEXTS)).prop_map(|(x, y)| format!("s.pad({x}, {y});")),
        1 => (leaf(&TEXTS), leaf(&TEXTS)).prop_map(|(x, y)| format!("s.replace({x}, {y});")),
        1 => (number(), value()).prop_map(|(x, y)| format!("l.insert({x}, {y});")),
        1 => value().prop_map(|x| format!("let d = {x};")),
        1 => (number(), value()).prop_map(|(x, y)| format!("if {x} == 1 {{ return {y}; }}")),
        1 => (number(), value()).prop_map(|(x, y)| format!("if {x} == 1 {{ throw {y}; }}")),
        1 => value().prop_map(|x| format!("{x};")),
    ];
    // Most errors are caught, so that a script goes on to where it grows.
    let caught = (simple, 0..5).prop_map(|(body, caught)| {
        if caught == 0 {
            body
        } else {
            format!("try {{ {body} }} catch {{ }}")
        }
    });
    caught
        .prop_recursive(3, 12, 3, |inner| {
            let some = || vec(inner.clone(), 1..4).prop_map(|list| list.join("\n"));
            prop_oneof![
                1 => some().prop_map(|body| format!("loop {{\n{body}\n}}")),
                2 => (number(), some()).prop_map(|(x, body)| format!("while n < {x} {{\nn += 1;\n{body}\n}}")),
                2 => (number(), some()).prop_map(|(x, body)| format!("for i in 0..{x} {{\n{body}\n}}")),
                2 => (leaf(&["l", "m.keys()", "s.split()", "[1, 2]"]), some())
                    .prop_map(|(x, body)| format!("for r in {x} {{\n{body}\n}}")),
                1 => (some(), number()).prop_map(|(body, x)| format!("do {{\n{body}\n}} while n == {x};")),
                1 => (some(), some()).prop_map(|(body, other)| format!("try {{\n{body}\n}} catch (r) {{\n{other}\n}}")),
                1 => (number(), some(), some())
                    .prop_map(|(x, body, other)| format!("if n < {x} {{\n{body}\n}} else {{\n{other}\n}}")),
            ]
        })
        .boxed()
}

/// A script with two helpers that may call themselves and each other.
fn script() -> impl Strategy<Value = String> {
    let body = |count| vec(statement(), count).prop_map(|list| list.join("\n"));
    let values = (number(), value(), prop_oneof![number(), value()]);
    (body(0..2), body(0..2), body(1..5), values).prop_map(|(f, g, score, (x, y, last))| {
        let locals = "let s = \"x\"; let l = [1, 2]; let m = #{ a: 1 };";
        format!(
            "// so that no fault is at the beginning\n\
             fn f(n) {{\n{locals} let r = ();\n{f}\n{x}\n}}\n\
             fn g(r, n) {{\n{locals}\n{g}\n{y}\n}}\n\
             fn score(r, v, w) {{\nlet n = 0; {locals}\n{score}\n{last}\n}}\n"
        )
    })
}

/// Entries and bytes of all that a value holds.
fn size(value: &Dynamic) -> (usize, usize) {
    let sum = |(a, b): (usize, usize), (c, d): (usize, usize)| (a + c, b + d);
    if let Ok(list) = value.as_array_ref() {
        return list.iter().map(size).fold((list.len(), 0), sum);
    }
    if let Ok(map) = value.as_map_ref() {
        let keys = map.keys().fold(0, |sum, key| sum + key.len());
        return map.values().map(size).fold((map.len(), keys), sum);
    }
    if let Ok(text) = value.as_immutable_string_ref() {
        return (0, text.len());
    }
    (value.as_blob_ref().map_or(0, |blob| blob.len()), 0)
}

/// Most memory that this process has had, kB; `None` where the system does not say.
#[expect(clippy::disallowed_methods, reason = "a test may look at its process")]
fn peak_kb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// What became of a script: `Ok`: its call gave a value.
fn ends(text: &str) -> Result<Result<(), String>, TestCaseError> {
    let fault = match Program::new("p.rhai", text) {
        Err(fault) => fault,
        Ok(program) => {
            let mut state = engine::empty();
            let params = Params(std::sync::Arc::new(Map::new()));
            let called = program.call(Function::Score, &mut state, params, ((), (), ()));
            match called {
                Ok(value) => {
                    for held in [&value, &state] {
                        let (entries, bytes) = size(held);
                        prop_assert!(entries <= LIST_MAX, "{entries} entries: {text}");
                        prop_assert!(bytes <= TEXT_MAX, "{bytes} bytes: {text}");
                    }
                    return Ok(Ok(()));
                }
                Err(fault) => fault,
            }
        }
    };
    let message = fault.message.clone();
    prop_assert!(!message.is_empty(), "{text}");
    let place = fault.span.clone();
    // At the comment there is nothing wrong: a place there would be none.
    prop_assert!(
        place.start > 0 && place.start <= place.end,
        "{message} at {place:?}: {text}"
    );
    prop_assert!(
        text.get(place.clone()).is_some(),
        "{message} at {place:?}: {text}"
    );
    let (line, _) = line_column(text, place.start);
    let told = Faults {
        list: vec![fault],
        sources: vec![("p.rhai".to_owned(), text.to_owned())],
    };
    let told = told.to_string();
    prop_assert!(told.contains(&format!("p.rhai:{line}")), "{told}");
    Ok(Err(message))
}

/// To see it fail, take out `whenever_read` (sizes) or the place of the function that was called (lines).
#[test]
fn every_script_ends_within_its_bounds() {
    let before = peak_kb();
    let config = ProptestConfig {
        failure_persistence: None,
        // So that it takes as long each time; `PROPTEST_CASES` has more of them.
        rng_seed: RngSeed::Fixed(20_260),
        ..ProptestConfig::default()
    };
    let (values, steps, sizes, other) =
        (&Cell::new(0), &Cell::new(0), &Cell::new(0), &Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&script(), |text| {
        let count = match ends(&text)? {
            Ok(()) => values,
            Err(message) if message.contains("too many steps") => steps,
            Err(message)
                if message.contains("grow too large") || message.contains("too deeply") =>
            {
                sizes
            }
            Err(_) => other,
        };
        count.set(count.get() + 1);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // The scripts come to all of these ends, or they would try little.
    let counts = [values, steps, sizes, other].map(Cell::get);
    assert!(counts.iter().all(|&count| count >= 5), "{counts:?}");
    if let (Some(before), Some(after)) = (before, peak_kb()) {
        // Other tests run in this process meanwhile.
        assert!(after - before < 512 * 1024, "{} kB more", after - before);
    }
}

/// What the language's own `pad` does not stop: one step that takes all memory, or never ends.
#[test]
fn padding_ends() {
    let of = |body: &str| {
        let text = format!(
            "// begins\nfn score(r, v, w) {{\nlet l = [1, 2]; let s = \"x\"; let m = #{{ a: [3] }};\n{body}\n}}\n"
        );
        match ends(&text) {
            Ok(end) => end,
            Err(error) => panic!("{error}"),
        }
    };
    for body in [
        "l.pad(9223372036854775807, [1, 2]);",
        "l.pad(501, 0);",
        "l.pad(200, [1, 2]);",
        "l.pad(200, \"0123456789\");",
        "l.pad(4, m); l.pad(400, m);",
        "s.pad(9223372036854775807, \"ab\");",
        "s.pad(1025, \"ab\");",
    ] {
        let end = of(body);
        let large = |message: &String| message.contains("grow too large");
        assert!(end.as_ref().is_err_and(large), "{body}: {end:?}");
    }
    let empty = of("s.pad(10, \"\");");
    assert!(
        empty
            .as_ref()
            .is_err_and(|message| message.contains("an empty one")),
        "{empty:?}"
    );
    for body in [
        "l.pad(4, 7); if l != [1, 2, 7, 7] { throw l; }",
        "l.pad(1, 7); l.pad(-1, 7); if l != [1, 2] { throw l; }",
        "l.pad(500, 0); if l.len() != 500 { throw l; }",
        "s.pad(6, \"öb\"); if s != \"xöböbö\" { throw s; }",
        "s.pad(1, \"\"); s.pad(-5, \"a\"); if s != \"x\" { throw s; }",
        "s.pad(3, 'y'); if s != \"xyy\" { throw s; }",
    ] {
        assert_eq!(of(body), Ok(()), "{body}");
    }
}
