//! Stories of real runs: true to the run, and without effect on it.

use sim::trace::Recorder;

use super::*;
use crate::toy;

#[test]
fn watching_changes_nothing() {
    let lanes = ["cpu", "npu"];
    let short = toy::scenario(1.0).replace("horizon_s = 120.0", "horizon_s = 40.0");
    let mut world = toy::world(&short);
    for name in [
        "state_aware:w",
        "state_aware:w+p",
        "state_aware",
        "single:npu",
        "serial",
        "naive",
        "idle_first",
        "reuse_first",
        "fixed",
        "round_robin",
        "shortest_job_first",
        "earliest_deadline_first",
    ] {
        world.policy = sim::load::parse_policy(name, &lanes).expect("it is a policy");
        let mut plain = Recorder::default();
        Simulation::new(&world)
            .run_into(0, &mut plain)
            .expect("no policy stops");
        let log = Arc::new(Mutex::new(Log::of(StreamId(0), 3)));
        let policy = Watching::new(build(&world), Arc::clone(&log));
        let mut watched = Recorder::default();
        let dispatcher = Dispatcher::with_policy(&world, Box::new(policy));
        Simulation::with_dispatcher(&world, dispatcher)
            .run_into(0, &mut watched)
            .expect("no policy stops");
        assert!(plain == watched, "{name}");
        let log = log.lock().expect("nobody panicked");
        assert!(!log.asked.is_empty(), "{name}");
    }
}

#[test]
fn the_chosen_lane_has_the_smallest_score() {
    let world = toy::world(&toy::scenario(1.0));
    let mut several = 0;
    for index in 0..8 {
        let log = Arc::new(Mutex::new(Log::of(StreamId(1), index)));
        let policy = Watching::new(build(&world), Arc::clone(&log));
        let dispatcher = Dispatcher::with_policy(&world, Box::new(policy));
        Simulation::with_dispatcher(&world, dispatcher)
            .run(0)
            .expect("no policy stops");
        let log = log.lock().expect("nobody panicked");
        let last = log.asked.last().expect("the policy was asked");
        let scores = last
            .candidates
            .iter()
            .map(|(lane, e)| (e.wait + e.prepare + e.beside + e.harm, *lane));
        several += usize::from(last.candidates.len() > 1);
        let best = scores.min().expect("there are candidates").1;
        assert_eq!(last.decision.lane(), Some(best));
    }
    assert!(several > 4);
}

#[test]
fn the_parts_are_those_of_the_detail() {
    let text = toy::scenario(0.5);
    let world = toy::world(&text);
    let (detail, _) = toy::detail(&text, 10_000);
    let rows = &detail.runs[0].requests;
    let secs = |ns: u64| crate::number::quantity(ns as f64 / 1e9, "s");
    for row in 0..rows.len().min(8) {
        let stream = detail.streams[usize::from(rows.stream[row])].clone();
        let told = explain(&world, 0, &Wanted::Of(stream, rows.index[row])).expect("it is there");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let (Some(waiting), Some(preparing), Some(slowdown), Some(service)) = (
            rows.waiting[row],
            rows.preparing[row],
            rows.slowdown[row],
            rows.service[row],
        ) else {
            continue;
        };
        let parts = format!(
            "Of these {}, it waited {}, was prepared for {}, was slowed down by {} and was served for {}.",
            secs(rows.ended[row] - rows.arrived[row]),
            secs(waiting),
            secs(preparing),
            secs(slowdown.max(0).unsigned_abs()),
            secs(service),
        );
        assert!(told.contains(&parts), "{parts}\n{told}");
    }
}

#[test]
fn stories_fit_a_terminal() {
    let world = toy::world(&toy::scenario(1.0));
    let text = explain(&world, 0, &Wanted::Arrival(17)).expect("it is there");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    insta::assert_snapshot!(text);
}

#[test]
fn what_is_not_there_is_said() {
    let world = toy::world(&toy::scenario(0.2));
    let error = |wanted: &str| {
        let wanted = wanted.parse().expect("it is a request");
        explain(&world, 0, &wanted)
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(
        error("side:0").as_deref(),
        Some("there is no stream `side`")
    );
    let none = error("100000").expect("there are fewer");
    assert!(none.starts_with("there is no request 100000: ") && none.ends_with("counted from 0"));
    assert!(error("front-1:9999").is_some_and(|text| text.contains("of `front-1`")));
    assert!("x".parse::<Wanted>().is_err() && "a:b".parse::<Wanted>().is_err());
}

#[test]
fn every_part_of_the_wait_is_told() {
    let text = toy::scenario(1.0);
    let world = toy::world(&text);
    let (detail, _) = toy::detail(&text, 100_000);
    let rows = &detail.runs[0].requests;
    let mut behind = 0;
    for row in 0..rows.len().min(12) {
        let (Some(waiting), Some(for_version)) = (rows.waiting[row], rows.waiting_for_version[row])
        else {
            continue;
        };
        let stream = StreamId(rows.stream[row]);
        let pace = Pace::default();
        let mut watcher = Watcher::new(&world, &pace, stream, rows.index[row]);
        Simulation::new(&world)
            .run_watched(0, &pace, &mut watcher)
            .expect("no policy stops");
        let waits = wait::before(&world, &watcher.seen, None);
        let total: u64 = waits.iter().map(|wait| wait.total().0).sum();
        assert_eq!(total, waiting, "request {row}");
        let version: u64 = waits.iter().map(|wait| wait.version.0).sum();
        assert_eq!(version, for_version, "request {row}");
        // The lane's stages, one by one, are those of the timeline.
        let slices = &detail.runs[0].slices;
        let stages = watcher.seen.stages.iter();
        for (wait, stage) in waits.iter().zip(stages) {
            let since = stage.since.0 - wait.total().0 + wait.version.0;
            let ran = (0..slices.len()).filter(|&slice| slices.lane[slice] == stage.lane.0);
            let busy: u64 = ran
                .map(|slice| {
                    let (start, end) = (
                        slices.start[slice],
                        slices.start[slice] + slices.length[slice],
                    );
                    end.min(stage.since.0).saturating_sub(start.max(since))
                })
                .sum();
            let told: u64 = wait.others.iter().map(|(_, time)| time.0).sum();
            assert_eq!(told, busy, "request {row}");
            behind += usize::from(told > 0);
        }
    }
    assert!(behind > 4, "{behind}");
}

#[test]
fn sentences_begin_with_a_capital() {
    let world = toy::world(&toy::scenario(0.2));
    for number in 0..8 {
        let text = explain(&world, 0, &Wanted::Arrival(number)).expect("it is there");
        // Lists of times are indented.
        let lines = text.lines().filter(|line| !line.starts_with("  "));
        let text = lines.collect::<Vec<_>>().join(" ");
        for (at, _) in text.match_indices(". ") {
            let next = text[at + 2..].chars().next().expect("something follows");
            assert!(!next.is_lowercase(), "{}", &text[at..]);
        }
    }
}

/// Text without its line ends.
fn told(world: &World, wanted: &str) -> String {
    let wanted = wanted.parse().expect("it is a request");
    let text = explain(world, 0, &wanted).expect("it is there");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn heat_is_named_where_it_slows() {
    let mut world = toy::world(&toy::scenario(1.0));
    world.heat = Some(sim::world::HeatPlan {
        ambient_c: 25.0,
        kelvin_per_watt: 20.0,
        time_constant_s: 60.0,
        start_c: 25.0,
        idle_w: 1.7,
        steps: vec![sim::world::HeatStep {
            from_c: 40.0,
            until_c: 30.0,
            speed: [0.5; sim::world::ENGINES_MAX],
        }],
    });
    // The first meets a cool SoC.
    assert!(!told(&world, "0").contains("throttled"));
    let late = told(&world, "60");
    assert!(late.contains("The SoC was throttled, step 1."), "{late}");
    assert!(
        late.contains("cpu throttled to 50 % of full speed"),
        "{late}"
    );
}

/// Two questions at once, each of 68 tokens, 835 kB of KV, and two lanes.
fn two_questions(budget: &str) -> World {
    let stream = |name: &str, at: f64| {
        format!(
            "[[streams]]\nname = \"{name}\"\nqueries = {{ arrivals = {{ times_s = [{at:?}] }}, prompt_tokens = 20, \
             output_tokens = 48 }}\n"
        )
    };
    toy::world(&format!(
        "title = \"two questions\"\nsoc = \"toy\"\nmodel = \"vlm\"\npolicy = \"round_robin\"\n[limits]\n\
         kv_budget_bytes = {budget}\n{}{}",
        stream("a", 0.0),
        stream("b", 0.1)
    ))
}

#[test]
fn a_wait_for_memory_is_named() {
    let small = told(&two_questions("1e6"), "b:0");
    assert!(
        small.contains("for room for its KV, while npu was idle"),
        "{small}"
    );
    let large = told(&two_questions("2e6"), "b:0");
    assert!(!large.contains("for room"), "{large}");
    // Where a mode may keep it waiting too, memory is not blamed.
    let mut world = two_questions("1e6");
    world.modes.concurrent_generation = false;
    let either = told(&world, "b:0");
    assert!(
        !either.contains("for room") && either.contains("while npu was idle"),
        "{either}"
    );
}

#[test]
fn the_limit_that_refused_is_named() {
    let limits = "[limits]\nmax_requests = 1\n[context]";
    let world = toy::world(&toy::scenario(2.0).replace("[context]", limits));
    let stories: Vec<String> = (0..8).map(|at| told(&world, &at.to_string())).collect();
    let limit = "queue_full, `limits.max_requests` = 1 queries were in the system.";
    assert!(
        stories
            .iter()
            .any(|story| story.replace('\n', " ").contains(limit)),
        "{stories:?}"
    );
}

#[test]
fn what_left_the_window_while_it_waited_is_told() {
    // While `a` is answered on one lane, frames of `b` go on on the other; one answer at a time.
    let frames = "clock = { periodic = { rate_hz = 0.5 } }";
    let told_with = |keep: &str| {
        let world = toy::world(&format!(
            "title = \"a window\"\nsoc = \"toy\"\nmodel = \"vlm\"\n\
             policy = {{ fixed = {{ lanes = {{ a = \"npu\", b = \"cpu\" }} }} }}\n\
             [run]\nhorizon_s = 40.0\n[modes]\nconcurrent_generation = false\n\
             [placement]\nencode = \"cpu\"\ningest = \"cpu\"\n\
             [context]\nbinding = \"published\"\n{keep}\n\
             [[streams]]\nname = \"a\"\nqueries = {{ arrivals = {{ times_s = [10.0] }}, prompt_tokens = 20, output_tokens = 100 }}\n\
             [[streams]]\nname = \"b\"\nframes = {{ {frames} }}\n\
             queries = {{ arrivals = {{ times_s = [11.0] }}, prompt_tokens = 20, output_tokens = 8 }}\n"
        ));
        told(&world, "b:0").replace('\n', " ")
    };
    let story = told_with("keep = { window = { frames = 4 } }");
    // Frames of 0, 2, … 10 s make versions 1 to 6; those of 12, … 18 s follow.
    assert!(
        story.contains("It reads version 6, published at"),
        "{story}"
    );
    assert!(
        story.contains("version 9 was the newest by then, and 3 frames of its own, version 6, had left the window"),
        "{story}"
    );
    assert!(story.contains("made usable by reconstruct"), "{story}");
    let all = told_with("keep = \"all\"");
    assert!(
        !all.contains("left the window") && all.contains("by reuse"),
        "{all}"
    );
}

#[test]
fn what_a_rebuild_encodes_again_is_preparation() {
    // A context of 100 tokens is evicted for another, and rebuilt for its query.
    let stories = [true, false].map(|cache| {
        let stream = |name: &str, frame: f64, queries: &str| {
            format!(
                "[[streams]]\nname = \"{name}\"\nframes = {{ clock = {{ times_s = [{frame:?}] }} }}\n{queries}\n"
            )
        };
        let asked = "queries = { arrivals = { times_s = [30.0] }, prompt_tokens = 20, output_tokens = 8 }";
        let world = toy::world(&format!(
            "title = \"two contexts\"\nsoc = \"toy\"\nmodel = \"vlm\"\npolicy = {{ single = {{ lane = \"npu\" }} }}\n\
             [modes]\nembedding_cache = {cache}\n[limits]\nkv_budget_bytes = 1.6e6\n{}{}",
            stream("a", 0.0, asked),
            stream("b", 5.0, ""),
        ));
        told(&world, "a:0").replace('\n', " ")
    });
    let [kept, encoded] = &stories;
    assert!(
        encoded.contains(" encode on ") && !kept.contains(" encode on "),
        "{encoded}"
    );
    for (story, prepared) in [(kept, "100 ms"), (encoded, "200 ms")] {
        let parts = format!(
            "was prepared for {prepared}, was slowed down by 0 s and was served for 580 ms"
        );
        assert!(story.contains(&parts), "{story}");
    }
}

#[test]
fn a_version_without_frames_says_whether_some_had_arrived() {
    let stories = [0.0, 5.0].map(|first| {
        let world = toy::world(&format!(
            "title = \"early\"\nsoc = \"toy\"\nmodel = \"vlm\"\npolicy = {{ single = {{ lane = \"npu\" }} }}\n\
             [context]\nbinding = \"published\"\n[[streams]]\nname = \"a\"\n\
             frames = {{ clock = {{ times_s = [{first:?}, 9.0] }} }}\n\
             queries = {{ arrivals = {{ times_s = [0.001] }}, prompt_tokens = 20, output_tokens = 8 }}\n"
        ));
        told(&world, "a:0").replace('\n', " ")
    });
    let [after, before] = &stories;
    assert!(
        after.contains("version 0, which holds no frame: one had arrived, but was not published."),
        "{after}"
    );
    assert!(
        before.contains("version 0: there is no frame yet."),
        "{before}"
    );
}

#[test]
fn evictions_are_told() {
    // Two contexts of 100 tokens fill the memory: an answer on one takes the other's place.
    let stream = |name: &str, frame: f64, query: f64| {
        format!(
            "[[streams]]\nname = \"{name}\"\nframes = {{ clock = {{ times_s = [{frame:?}] }} }}\nqueries = {{ arrivals = \
             {{ times_s = [{query:?}] }}, prompt_tokens = 20, output_tokens = 48 }}\n"
        )
    };
    let world = toy::world(&format!(
        "title = \"two contexts\"\nsoc = \"toy\"\nmodel = \"vlm\"\npolicy = {{ single = {{ lane = \"npu\" }} }}\n\
         [limits]\nkv_budget_bytes = 2.5e6\n{}{}",
        stream("a", 0.0, 10.0),
        stream("b", 5.0, 30.0)
    ));
    let first = told(&world, "a:0");
    assert!(
        first.contains(
            "10.000 s: room was made on npu: the context of `b`, 100 tokens, was evicted."
        ),
        "{first}"
    );
    // It explains why the other is rebuilt, long before that one comes.
    let second = told(&world, "b:0");
    let own = "10.000 s: its stream's context on npu, 100 tokens, was evicted. 30.000 s: room was made on npu: the \
               context of `a`, 100 tokens, was evicted. 30.000 s: reconstruct on npu";
    assert!(second.contains(own), "{second}");
    assert_eq!(second.matches("evicted").count(), 2, "{second}");
}

/// One question each on `a`, answered on the NPU, and on `b`, on the CPU.
fn side_by_side(settings: &str) -> [String; 2] {
    let stream = |name: &str| {
        format!(
            "[[streams]]\nname = \"{name}\"\nqueries = {{ arrivals = {{ times_s = [1.0] }}, prompt_tokens = 20, output_tokens = 8 }}\n"
        )
    };
    let world = toy::world(&format!(
        "title = \"two\"\nsoc = \"toy\"\nmodel = \"vlm\"\n{settings}\n[policy.fixed.lanes]\na = \"npu\"\nb = \"cpu\"\n{}{}",
        stream("a"),
        stream("b")
    ));
    ["a:0", "b:0"].map(|which| told(&world, which).replace('\n', " "))
}

#[test]
fn what_keeps_a_request_from_an_idle_lane_is_named() {
    let count = |stories: &[String; 2], words: &str| {
        let told = stories.iter().filter(|story| story.contains(words));
        told.count()
    };
    let kept = "let it start only once decode of";
    let free = side_by_side("");
    assert_eq!(count(&free, kept), 0, "{free:?}");
    for (settings, setting) in [
        (
            "exclusive = [[\"decode@cpu\", \"decode@npu\"]]",
            "`exclusive`",
        ),
        (
            "modes = { concurrent_generation = false }",
            "`modes.concurrent_generation = false`",
        ),
    ] {
        let stories = side_by_side(settings);
        let words = format!("was idle: {setting} {kept}");
        assert_eq!(count(&stories, &words), 1, "{stories:?}");
    }
}

/// The frame goes on the CPU; the question on the NPU, which is idle then.
#[test]
fn serial_is_named_where_it_keeps_a_request_from_an_idle_lane() {
    let with = |policy: &str| {
        let world = toy::world(&format!(
            "title = \"one\"\nsoc = \"toy\"\nmodel = \"vlm\"\npolicy = {policy}\n\
             [placement]\nencode = \"cpu\"\ningest = \"cpu\"\nquery_prefill = \"npu\"\ndecode = \"npu\"\n\
             [[streams]]\nname = \"a\"\nqueries = {{ arrivals = {{ times_s = [1.0] }}, prompt_tokens = 20, output_tokens = 8 }}\n\
             [[streams]]\nname = \"b\"\nframes = {{ clock = {{ times_s = [0.99] }} }}\n"
        ));
        told(&world, "a:0").replace('\n', " ")
    };
    let serial = with("\"serial\"");
    let kept = "while npu was idle: `policy = \"serial\"` let it start only once";
    assert!(serial.contains(kept), "{serial}");
    let idle_first = with("\"idle_first\"");
    assert!(
        !idle_first.contains("let it start only once"),
        "{idle_first}"
    );
}

#[test]
fn what_never_fits_says_what_it_needs() {
    // The CPU holds both frames; the NPU, which answers, room for one.
    let world = toy::world(
        "title = \"tight\"\nsoc = \"toy\"\nmodel = \"vlm\"\n\
         [placement]\nencode = \"cpu\"\ningest = \"cpu\"\nquery_prefill = \"npu\"\ndecode = \"npu\"\n\
         [limits.engine_kv_budget_bytes]\nnpu = 1.6e6\n\
         [[streams]]\nname = \"a\"\nframes = { clock = { times_s = [0.0, 5.0] } }\n\
         queries = { arrivals = { times_s = [30.0] }, prompt_tokens = 20, output_tokens = 8 }\n",
    );
    let story = told(&world, "a:0").replace('\n', " ");
    assert!(
        story.contains("its KV, 2.80 MB with its longest answer (228 tokens), exceeds"),
        "{story}"
    );
}
