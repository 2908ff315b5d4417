//! Policies in scripts: what they can do, and what becomes of those that are wrong.

use std::fmt::Write as _;

use super::toy::{self, Toy};
use crate::check::Check;
use crate::diag::Faults;
use crate::dispatch::{Effect, Reason};
use crate::load::load_scenario;
use crate::simulation::Simulation;
use crate::trace::{Record, Recorder};
use crate::world::World;

/// The toy with another engine that answers, and a script as its policy.
fn loaded(script: &str, params: &str) -> Result<World, Faults> {
    loaded_as(toy::SCENARIO, script, params)
}

fn loaded_as(scenario: &str, script: &str, params: &str) -> Result<World, Faults> {
    let mut toy = Toy::default();
    let unable =
        "query_prefill = \"the runtime has no sampler\"\ndecode = \"the runtime has no sampler\"\n";
    assert!(toy.costs.contains(unable));
    toy.costs = toy.costs.replace(unable, "");
    toy.costs.push_str(
        "[engines.npu.stages.query_prefill]\nper_token_s = 0.002\nbytes = 1e9\nmeasured_tokens = [16, 1024]\n\n\
         [engines.npu.stages.decode]\nper_token_s = 0.09\nbytes_per_token = 1e9\nmeasured_tokens = [1, 256]\n",
    );
    toy.files.push(("p.rhai".to_owned(), script.to_owned()));
    let policy = format!("seed = 7\npolicy = {{ script = \"p.rhai\"{params} }}");
    let scenario = scenario.replace("seed = 7", &policy);
    load_scenario("s.toml", &scenario, &toy, &toy)
}

fn world(script: &str, params: &str) -> World {
    loaded(script, params).unwrap_or_else(|faults| panic!("{faults}"))
}

fn played(world: &World, run: u32) -> Result<Recorder, Faults> {
    let mut sink = (Recorder::default(), Check::new(world));
    Simulation::new(world).run_into(run, &mut sink)?;
    let (recorder, check) = sink;
    assert_eq!(check.violations(), Vec::<String>::new());
    Ok(recorder)
}

/// What becomes of a script: how its run goes, or its fault with place and help.
fn fate(script: &str) -> String {
    let world = match loaded(script, "") {
        Ok(world) => world,
        Err(faults) => return format!("does not load: {faults}"),
    };
    match played(&world, 0) {
        Ok(trace) => format!("runs: {} records", trace.records.len()),
        Err(faults) => format!("stops: {faults}"),
    }
}

/// Scripts that are wrong, each in its own way.
const WRONG: [(&str, &str); 60] = [
    ("nothing", ""),
    ("no function", "fn weigh(request, candidate, view) { 1 }"),
    ("both", "fn score(r, c, v) { 1 }\nfn decide(r, c, v) { 0 }"),
    ("too few parameters", "fn score(candidate) { 1 }"),
    (
        "busy beside decide",
        "fn decide(r, c, v) { 0 }\nfn busy_ns(r, c, v) { 0 }",
    ),
    (
        "a brace is missing",
        "fn score(r, c, v) {\n    c.wait_ns +\n}",
    ),
    (
        "an unknown variable",
        "fn score(r, c, v) {\n    c.wait_ns + alpha\n}",
    ),
    (
        "a variable outside",
        "let alpha = 2;\nfn score(r, c, v) { c.wait_ns }",
    ),
    (
        "a statement outside",
        "fn score(r, c, v) { c.wait_ns }\n1 + 2",
    ),
    ("an unknown property", "fn score(r, c, v) {\n    c.wait\n}"),
    (
        "an unknown function",
        "fn score(r, c, v) {\n    weigh(c)\n}",
    ),
    (
        "a wrong type of argument",
        "fn score(r, c, v) {\n    c.wait_ns + \"x\" - 1\n}",
    ),
    (
        "a division by zero",
        "fn score(r, c, v) {\n    let x = 0;\n    c.wait_ns / x\n}",
    ),
    (
        "an overflow",
        "fn score(r, c, v) {\n    c.wait_ns + 1 + 9223372036854775807\n}",
    ),
    (
        "an error in a helper",
        "fn half(x) {\n    x / \"2\"\n}\nfn score(r, c, v) { half(c.wait_ns) }",
    ),
    ("thrown", "fn score(r, c, v) {\n    throw \"no idea\";\n}"),
    ("NaN", "fn score(r, c, v) {\n    let x = 0.0;\n    x / x\n}"),
    ("a text as score", "fn score(r, c, v) { \"low\" }"),
    (
        "a float as busy time",
        "fn score(r, c, v) { 1 }\nfn busy_ns(r, c, v) { 0.5 }",
    ),
    (
        "a negative busy time",
        "fn score(r, c, v) { 1 }\nfn busy_ns(r, c, v) { -5 }",
    ),
    (
        "a float as rank",
        "fn score(r, c, v) { 1 }\nfn rank(r, v) { 0.5 }",
    ),
    ("no such candidate", "fn decide(r, c, v) { 7 }"),
    ("no decision", "fn decide(r, c, v) { }"),
    (
        "frames that wait",
        "fn decide(r, c, v) { 0 }\nfn ingest(r, c, v) { wait() }",
    ),
    (
        "no such parameter",
        "fn score(r, c, v) { param(\"alpha\") }",
    ),
    (
        "no such lane",
        "fn score(r, c, v) { v.lane(\"gpu\").queries }",
    ),
    (
        "the view is not changed",
        "fn score(r, c, v) {\n    c.wait_ns = 0;\n    1\n}",
    ),
    ("a loop without end", "fn score(r, c, v) {\n    loop { }\n}"),
    (
        "a loop that does something without end",
        "fn score(r, c, v) {\n    let x = 0;\n    loop {\n        x += 1;\n        x -= 1;\n    }\n}",
    ),
    (
        "a loop without end elsewhere",
        "fn help(x) {\n    while x >= 0 { x += 1; x -= 1; }\n}\nfn score(r, c, v) {\n    help(1)\n}",
    ),
    (
        "an empty loop with a condition",
        "fn help(x) {\n    while x >= 0 {\n    }\n}\nfn score(r, c, v) {\n    help(1)\n}",
    ),
    (
        "two loops, of which one has no end",
        "fn help(x) {\n    // for all of them\n    do { x += 1; } while x > 0;\n}\nfn score(r, c, v) {\n    for lane in v.lanes { help(1); }\n    1\n}",
    ),
    (
        "steps without a loop",
        "fn twice(n) {\n    if n == 0 { 1 } else { twice(n - 1) + twice(n - 1) }\n}\nfn score(r, c, v) {\n    twice(30)\n}",
    ),
    (
        "comparisons without end",
        "fn score(r, c, v) {\n    let a = [];\n    a.pad(400, 1);\n    loop {\n        if a != a { break; }\n    }\n}",
    ),
    (
        "lists within a list",
        "fn score(r, c, v) {\n    let a = [];\n    a.pad(40, 1);\n    let b = [];\n    loop { b += [a]; }\n}",
    ),
    (
        "calls without end",
        "fn deep(x) { deep(x + 1) }\nfn score(r, c, v) { deep(0) }",
    ),
    (
        "a text without end",
        "fn score(r, c, v) {\n    let s = \"ab\";\n    loop { s += s; }\n}",
    ),
    (
        "a list without end",
        "fn score(r, c, v) {\n    let l = [1];\n    loop { l.push(1); }\n}",
    ),
    ("eval", "fn score(r, c, v) { eval(\"1\") }"),
    ("import", "import \"x\" as x;\nfn score(r, c, v) { 1 }"),
    ("print", "fn score(r, c, v) { print(c.wait_ns); 1 }"),
    ("sleep", "fn score(r, c, v) { sleep(1); 1 }"),
    ("exit", "fn score(r, c, v) { exit(1); 1 }"),
    (
        "a power of platform bits",
        "fn score(r, c, v) { 2.0 ** 0.5 }",
    ),
    ("the clock", "fn score(r, c, v) { timestamp() }"),
    (
        "functions that hold themselves",
        "fn score(r, c, v) {\n    let f = |x| x;\n    let i = 0;\n    while i < 60 { f = f.curry(f); i += 1; }\n    1\n}",
    ),
    ("curry", "fn score(r, c, v) {\n    curry(r, c)\n}"),
    (
        "a function by its name",
        "fn score(r, c, v) {\n    Fn(\"score\").call(r, c, v)\n}",
    ),
    (
        "a list that works through another without steps",
        "fn score(r, c, v) {\n    let a = [1, 2];\n    a.for_each(score);\n    1\n}",
    ),
    (
        "a map that grows key by key",
        "fn score(r, c, v) {\n    let m = #{};\n    let i = 0;\n    loop {\n        m[i.to_string()] = i;\n        i += 1;\n    }\n}",
    ),
    (
        "keys that are longer than a text",
        "fn score(r, c, v) {\n    let k = \"\";\n    k.pad(600, \"k\");\n    let m = #{};\n    m[k] = 1;\n    m[k + \"k\"] = 1;\n    m\n}",
    ),
    (
        "entries of entries that grow",
        "fn score(r, c, v) {\n    let row = [];\n    row.pad(400, 0);\n    let a = [0, 0, 0];\n    a[0] = row;\n    a[1] = row;\n    a.len()\n}",
    ),
    (
        "a state that grows from call to call",
        "fn score(r, c, v) {\n    for i in 0..90 { this[(this.len()).to_string()] = i; }\n    1\n}",
    ),
    (
        "a state that grows without a variable",
        "fn score(r, c, v) {\n    loop {\n        this[this.len().to_string()] = 0;\n        if this.len() > 600 { break; }\n    }\n    1\n}",
    ),
    (
        "a text that grows in a helper",
        "// a comment\nfn helper(n) {\n    let s = \"abc\";\n    while s.len() < n {\n        s += s;\n    }\n    s\n}\n\nfn score(r, c, v) {\n    let t = helper(100);\n    let u = helper(100000);\n    1\n}",
    ),
    (
        "calls of each other",
        "fn f(n) {\n    g(n)\n}\nfn g(n) {\n    f(n)\n}\nfn score(r, c, v) {\n    let x = 1;\n    f(3)\n}",
    ),
    (
        "too many variables",
        "fn deep(n) {\n    let a = 1;\n    if n > 0 { deep(n - 1) } else { a }\n}\nfn score(r, c, v) {\n    let l = [];\n    for i in 0..20 { l.push(deep(i)); }\n    l.pad(501, 0);\n}",
    ),
    (
        "a context below nothing",
        "fn score(r, c, v) {\n    v.stage_ns(\"cpu\", \"decode\", 10, -1)\n}",
    ),
    ("a candidate as score", "fn score(r, c, v) { c }"),
    (
        "lanes that are compared within lists",
        "fn score(r, c, v) {\n    if v.lanes == v.lanes { 1 } else { 2 }\n}",
    ),
];

/// Programs that work on whole lists, maps and texts at every step, none of them ever done.
const BUSY: [&str; 14] = [
    "while a == b { }",
    "while m == n { }",
    "while l == k { }",
    "while !a.contains(8) { }",
    "while a.index_of(8) < 0 { }",
    "loop { a.dedup(); a = b; }",
    "loop { a.sort(); }",
    "loop { m.mixin(n); }",
    "loop { m.fill_with(n); }",
    "loop { m + n; }",
    "loop { m.keys(); }",
    "loop { `${p}`; }",
    "loop { s.replace(\"a\", \"b\"); s.replace(\"b\", \"a\"); }",
    "loop { s.split(\"b\"); }",
];

/// A script that makes lists, maps and texts as large as they may be, and does something with them.
fn with_large(body: &str) -> String {
    format!(
        "fn score(r, c, v) {{\n\
         let a = []; a.pad(500, 7); let b = a;\n\
         let m = #{{}}; for i in 0..250 {{ m[i.to_string()] = i; }} let n = m;\n\
         let l = []; l.pad(250, []); let k = l;\n\
         let p = []; p.pad(300, 1);\n\
         let s = \"\"; s.pad(1000, \"a\");\n{body}\n}}"
    )
}

#[test]
fn what_is_never_done_ends_by_its_steps() {
    for body in BUSY {
        let fate = fate(&with_large(body));
        assert!(fate.contains("takes too many steps"), "{body}: {fate}");
    }
}

#[test]
fn lists_compare_as_the_language_does() {
    let script = r#"
fn ensure(holds, what) { if !holds { throw what; } }
fn score(r, c, v) {
    ensure([1, 2.0, "a", 'b', true, ()] == [1.0, 2, "a", "b", true, ()], "kinds");
    ensure([[1], #{ a: [2] }] == [[1], #{ a: [2] }], "nested");
    ensure([[1], #{ a: [2] }] != [[1], #{ a: [3] }], "nested and other");
    ensure(#{ a: 1 } != #{ b: 1 } && #{ a: 1 } != #{ a: 1, b: 1 }, "keys");
    ensure([1, "1"] != ["1", 1] && [()] != [0] && [v.lanes[0]] != [1], "types");
    ensure([1, 2] != [1] && [] == [], "lengths");
    ensure(2 in [1, 2] && !("2" in [1, 2]) && [[1]].contains([1]), "contains");
    ensure([1, 2, 1].index_of(1) == 0 && [1].index_of(5) == -1, "index_of");
    ensure([1, 2, 1].index_of(1, 1) == 2 && [1, 2, 1].index_of(1, -1) == 2, "index_of from");
    ensure([1, 2].index_of(1, 7) == -1 && [1, 2].index_of(1, -7) == 0, "index_of from beyond");
    let l = [1, 1, 2, 2, 1];
    l.dedup();
    ensure(l == [1, 2, 1], "dedup");
    1
}
"#;
    let fate = fate(script);
    assert!(fate.starts_with("runs"), "{fate}");
}

#[test]
fn every_fault_has_a_place() {
    let mut text = String::new();
    for (name, script) in WRONG {
        _ = writeln!(text, "# {name}\n{}\n", fate(script));
    }
    insta::assert_snapshot!(text);
}

/// The toy's queries, and how they ended: lanes of the answered, reasons of the refused.
fn ends(trace: &Recorder) -> (Vec<u8>, Vec<Reason>) {
    let (mut lanes, mut reasons) = (Vec::new(), Vec::new());
    for (_, record) in &trace.records {
        match record {
            Record::Effect(Effect::Complete(done)) => lanes.push(done.lane.0),
            Record::Effect(Effect::Refuse {
                query: true,
                reason,
                ..
            }) => reasons.push(*reason),
            _ => {}
        }
    }
    (lanes, reasons)
}

#[test]
fn a_request_that_waits_for_ever_ends_as_unserved() {
    for script in [
        "fn decide(r, c, v) { wait() }",
        "fn decide(r, c, v) { wait_all() }",
        "fn score(r, c, v) { () }",
    ] {
        let (answered, refused) = ends(&played(&world(script, ""), 0).expect("runs"));
        assert!(answered.is_empty() && refused.len() > 5, "{script}");
        assert!(refused.iter().all(|&why| why == Reason::Unserved));
    }
}

#[test]
fn parameters_and_scores_choose_the_lane() {
    let script =
        "fn score(r, c, v) { if c.lane.name == param(\"lane\", \"cpu\") { -1.5 } else { 2 } }";
    for (params, lane) in [("", 0), (", params = { lane = \"npu\" }", 1)] {
        let (answered, _) = ends(&played(&world(script, params), 0).expect("runs"));
        assert!(answered.len() > 5 && answered.iter().all(|&on| on == lane));
    }
}

/// The state is the run's own: neither an earlier run nor another thread changes it.
#[test]
fn state_begins_empty_in_every_run() {
    let script = "fn decide(r, c, v) { this.n = (this.n ?? -1) + 1; c[this.n % c.len()] }";
    let world = world(script, "");
    let first = played(&world, 0).expect("runs");
    assert!(ends(&first).0.windows(2).any(|pair| pair[0] != pair[1]));
    let mut used = Simulation::new(&world);
    for run in [1, 0] {
        let mut again = Recorder::default();
        used.run_into(run, &mut again).expect("runs");
        assert_eq!(again == first, run == 0);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| played(&world, 0))).collect();
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), Ok(first.clone()));
        }
    });
}

/// What a script can see is what it says it is.
#[test]
fn the_view_adds_up() {
    let script = r#"
fn ensure(holds, what) { if !holds { throw what; } }

fn decide(request, candidates, view) {
    ensure(request.kind == "query" && request.stream.len() > 3, "request");
    ensure(request.arrived_ns <= view.now_ns && request.predicted_tokens >= 1, "times");
    ensure(request.prompt_tokens == 24 && request.max_output_tokens >= request.predicted_tokens, "tokens");
    ensure(view.lanes.len() == 2 && view.engines.len() == 2 && view.streams.len() == 3, "counts");
    ensure(view.ready >= 1 && view.requests >= view.ready && view.throttle_steps == 0, "requests");
    ensure(view.kv_used_bytes <= view.kv_budget_bytes, "memory");
    ensure(view.lane("npu").engine.kind == "npu" && view.engine("cpu").active_w == 4.0, "names");
    let state = view.stream(request.stream);
    ensure(state.published <= state.accepted && state.ready_queries >= 1, "versions");
    ensure(request.version <= state.published && state.pending_frames >= 0, "bound");
    for candidate in candidates {
        let lane = candidate.lane;
        let engine = lane.engine;
        ensure(candidate.prefill_ns + candidate.decode_ns == candidate.alone_ns, "service");
        ensure(candidate.beside_ns >= candidate.alone_ns && candidate.harm_ns >= 0, "co-run");
        ensure(candidate.wait_ns == lane.left_ns + lane.queued_ns, "wait");
        // What the lane prepares already is missing still.
        ensure(candidate.missing_tokens > 0 || candidate.preparation == "reuse", "reuse");
        ensure(candidate.preparation != "reuse" || candidate.prepare_ns == 0, "prepared");
        let least = view.forever_ns;
        for way in [candidate.import_ns, candidate.reconstruct_ns] {
            if way != () { least = min(least, way); }
        }
        ensure(candidate.preparation == "reuse" || candidate.prepare_ns == least, "cheapest");
        ensure(engine.resident_tokens(request.stream) + candidate.missing_tokens >= request.context_tokens, "resident");
        let version = engine.resident_version(request.stream);
        ensure((version == ()) == (engine.resident_tokens(request.stream) == 0), "version");
        let all = 0;
        let queries = 0;
        for item in lane.queue {
            all += item.expected_ns;
            if item.kind == "query" { queries += 1; }
            ensure(item.arrived_ns <= view.now_ns && item.index >= 0, "item");
        }
        ensure(all == lane.backlog_ns && lane.queue.len() == lane.queries + lane.frames, "queue");
        ensure(queries <= lane.queries && (lane.held != () || lane.left_ns == 0), "held");
        ensure(lane.in_service && engine.in_service && engine.slowdown == 1.0, "service");
        ensure(lane.stage == () || lane.held != (), "stage");
        ensure(lane.intensity >= 0.0 && lane.intensity <= 1.0, "intensity");
        ensure(!lane.idle || lane.free, "idle lanes are free");
        let step = view.stage_ns(engine.name, "query_prefill", request.prompt_tokens, request.context_tokens);
        ensure(step == candidate.prefill_ns, "stage");
    }
    ensure(view.stage_ns("npu", "export", 1, 0) == (), "no cost");
    this.asked = (this.asked ?? 0) + 1;
    place(candidates[this.asked % candidates.len()])
}

fn ingest(item, candidates, view) {
    ensure((item.kind == "frame") && item.ingest_tokens == 196 && item.version >= 1, "frame");
    for candidate in candidates {
        ensure(candidate.wait_ns == candidate.lane.left_ns + candidate.lane.backlog_ns, "wait of frames");
    }
    candidates[item.index % candidates.len()]
}
"#;
    let trace = played(&world(script, ""), 0).unwrap_or_else(|faults| panic!("{faults}"));
    assert!(ends(&trace).0.len() > 10);
}

/// A queue grows with the load: the limit on a script's own lists is none on it.
#[test]
fn a_queue_may_be_longer_than_a_list() {
    let script = r#"
fn decide(request, candidates, view) {
    let queue = view.lane("cpu").queue;
    if queue.len() == 1200 {
        let count = 0;
        for item in queue { count += 1; }
        if count == queue.len && queue[-1].index == queue[count - 1].index && !queue.is_empty() {
            throw "all are seen";
        }
        queue[count]
    }
    place(candidates[0])
}
"#;
    let scenario = toy::SCENARIO.replace("rate_hz = 0.2", "rate_hz = 50.0");
    let world = loaded_as(&scenario, script, "").unwrap_or_else(|faults| panic!("{faults}"));
    let ended = played(&world, 0).expect_err("the script throws");
    assert!(ended.to_string().contains("all are seen"), "{ended}");
}

/// What a guide to the view leaves out nobody finds.
#[test]
fn the_guide_names_everything() {
    let guide = include_str!("../../../../docs/policies.md");
    let code = include_str!("../../dispatch/policy/script/values.rs");
    let mut names = 0;
    for (at, call) in code
        .match_indices(".with_")
        .chain(code.match_indices(".register_fn("))
    {
        let rest = &code[at + call.len()..];
        if rest.starts_with("name(") {
            continue;
        }
        let name = rest.split('"').nth(1).unwrap_or_default();
        assert!(
            guide.contains(&format!("`{name}")),
            "docs/policies.md lacks `{name}`"
        );
        names += 1;
    }
    assert!(names > 60, "{names}");
}

/// To see it fail, let `may_ask_for` always say yes, or no.
#[test]
fn parameters_that_a_script_never_asks_for_are_told() {
    let never = "`policy.params.lane` has no effect: `p.rhai` never asks for `param(\"lane\")`";
    for (body, told) in [
        ("1", true),
        ("param(\"lanes\", 1)", true),
        // A name that is not in quotes is something else.
        ("let lane = 1; lane", true),
        ("param(\"lane\")", false),
        ("\"lane\".param()", false),
        ("param( \"lane\", 2)", false),
        // What is computed cannot be told.
        ("let name = \"la\" + \"ne\"; param(name)", false),
        ("param(\"la\\x6ee\")", false),
    ] {
        let script = format!("fn score(request, candidate, view) {{ {body} }}");
        let world = world(&script, ", params = { lane = 1 }");
        assert_eq!(
            world.warnings.iter().any(|warning| warning == never),
            told,
            "{body}: {:?}",
            world.warnings
        );
    }
}
