//! Faults that people met in other systems, each by the thread in which they told of it, tried on the toy.

use std::panic::catch_unwind;

use crate::toy::{Toy, run, timeline, toy};

/// By the thread's name.
const CASES: &[(&str, fn())] = &[
    ("airockchip/rknn-llm#315", partitions_exclude_each_other),
    ("airockchip/rknn-llm#29", a_slow_cpu_slows_npu_decode),
    ("airockchip/rknn-llm#263", npu_decode_takes_cpu_cores),
    (
        "airockchip/rknn-llm#381",
        without_reuse_first_tokens_come_later_and_later,
    ),
    (
        "invisiofficial/rk-llama.cpp (README)",
        a_model_beyond_an_engine_s_addresses,
    ),
    (
        "llm-d/llm-d-inference-sim#339",
        a_thousand_requests_at_once_all_end,
    ),
    ("sgl-project/sglang#38423", the_host_s_clock_does_not_leak),
    ("qualcomm/GenieX#1203", a_model_that_fails_on_every_engine),
    ("qualcomm/ai-hub-models#281", an_engine_that_takes_no_float),
    (
        "ggml-org/llama.cpp#6008",
        an_accelerator_slower_than_the_cpu,
    ),
    (
        "ggml-org/llama.cpp#13206",
        measured_times_not_ranks_of_chips,
    ),
];

#[test]
fn every_case_is_handled() {
    let failed: Vec<&str> = CASES
        .iter()
        .filter(|(_, case)| catch_unwind(case).is_err())
        .map(|(name, _)| *name)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn lines(toy: &Toy) -> Vec<String> {
    let world = toy.world();
    timeline(&world, &run(&world))
}

/// Start and end, ms, of each task of a stage in a timeline.
fn spans(lines: &[String], stage: &str) -> Vec<(f64, f64)> {
    let of = |line: &String| {
        let mut words = line.split(' ');
        let (from, to) = words.next()?.split_once('-')?;
        (words.nth(1)? == stage).then_some((from.parse().ok()?, to.parse().ok()?))
    };
    lines.iter().filter_map(of).collect()
}

/// When the first tokens of the answers came, ms.
fn first_tokens(lines: &[String]) -> Vec<f64> {
    let of = |line: &String| line.rsplit_once(" first ")?.1.parse().ok();
    lines.iter().filter_map(of).collect()
}

/// What is wrong with a world.
fn faults(toy: &Toy) -> String {
    let world = toy.files.world(&toy.text());
    world.map_or_else(|faults| faults.to_string(), |_| String::new())
}

fn partitions_exclude_each_other() {
    // Either stream's prefill excludes the other's decode and the other way round: nothing is held while waiting, so
    // there is no cycle.
    let lines = lines(
        &toy()
            .soc(
                "[lanes.b]\nengine = 'b'",
                "[lanes.b1]\nengine = 'b'\n[lanes.b2]\nengine = 'b'",
            )
            .set("policy = { fixed = { lanes = { x = 'b1', y = 'b2' } } }")
            .set("exclusive = [['prefill@b', 'decode@b']]")
            .stream("x", &[], &[0, 1, 2])
            .stream("y", &[], &[0, 1, 2]),
    );
    assert_eq!(first_tokens(&lines).len(), 6, "{lines:#?}");
    let mut all = spans(&lines, "prefill");
    all.extend(spans(&lines, "decode"));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(
        all.windows(2).all(|pair| pair[1].0 >= pair[0].1),
        "{lines:#?}"
    );
}

/// `b` decodes with a share of CPU work; `a` is the CPU and answers with `cores`.
fn beside(cores: u32, host_cores: u32) -> Toy {
    let decode =
        format!("decode = {{ per_token_s = 0.020, host_cores = {host_cores}, host_share = 0.5 }}");
    toy()
        .soc("kind = 'gpu'", "kind = 'cpu'")
        .soc(
            "[lanes.a]\nengine = 'a'",
            &format!("[lanes.a]\nengine = 'a'\ncores = {cores}"),
        )
        .costs("decode = { per_token_s = 0.020 }", &decode)
        .set("policy = { fixed = { lanes = { x = 'a', y = 'b' } } }")
        .stream_with("x", &[], &[0], 2, 200)
        .stream_with("y", &[], &[0], 2, 21)
}

fn a_slow_cpu_slows_npu_decode() {
    let decode = |cores| {
        spans(&lines(&beside(cores, 4)), "decode")
            .into_iter()
            .map(|(a, b)| b - a)
            .fold(f64::MAX, f64::min)
    };
    // Twice as many cores are wanted as there are: half of the stage is CPU work and takes twice as long.
    let slow = decode(4) / 400.0;
    assert!((slow - 1.5).abs() < 0.01, "{slow}");
}

fn npu_decode_takes_cpu_cores() {
    let cpu = |host_cores| {
        spans(&lines(&beside(4, host_cores)), "decode")
            .into_iter()
            .map(|(a, b)| b - a)
            .fold(0.0, f64::max)
    };
    assert!(
        cpu(2) > cpu(0),
        "two cores of the NPU's host are the CPU lane's loss"
    );
}

fn without_reuse_first_tokens_come_later_and_later() {
    let asked = |turn: u32| turn * 1000 + 500;
    let chat = |reuse: bool| -> Vec<f64> {
        let frames: Vec<u32> = (0..10).map(|turn| turn * 1000).collect();
        let queries: Vec<u32> = (0..10).map(asked).collect();
        let toy = toy()
            .set("policy = { single = { lane = 'a' } }")
            .stream("cam", &frames, &queries);
        let toy = if reuse {
            toy
        } else {
            toy.table("[modes]\ncontext_reuse = false")
        };
        let first = first_tokens(&lines(&toy));
        first
            .iter()
            .zip(0..)
            .map(|(first, turn)| first - f64::from(asked(turn)))
            .collect()
    };
    let (with, without) = (chat(true), chat(false));
    assert_eq!((with.len(), without.len()), (10, 10));
    assert!(
        with.iter().all(|first| (first - with[0]).abs() < 1e-6),
        "{with:?}"
    );
    assert!(
        without.windows(2).all(|pair| pair[1] > pair[0]),
        "{without:?}"
    );
}

fn a_model_beyond_an_engine_s_addresses() {
    let toy = toy()
        .soc("capacity_bytes = 1e9", "capacity_bytes = 16e9")
        .model("weights_bytes = 1e6", "weights_bytes = 4.5e9")
        .soc("kind = 'npu'", "kind = 'npu'\naddress_limit_bytes = 4e9")
        .set("policy = { single = { lane = 'b' } }")
        .stream("x", &[], &[0]);
    let said = faults(&toy);
    assert!(said.contains("4.5") && said.contains("address"), "{said}");
}

fn a_thousand_requests_at_once_all_end() {
    let times = vec![0; 1000];
    let toy = toy()
        .set("policy = { single = { lane = 'a' } }")
        .table("[limits]\nmax_requests = 5")
        .stream("x", &[], &times);
    let lines = lines(&toy);
    let answered = lines
        .iter()
        .filter(|line| line.contains(" answer "))
        .count();
    let refused = lines
        .iter()
        .filter(|line| line.contains(" refuse "))
        .count();
    assert!(answered > 0 && refused > 0);
    assert_eq!(answered + refused, 1000);
}

fn the_host_s_clock_does_not_leak() {
    let toy = toy()
        .set("seed = 7")
        .set("policy = { single = { lane = 'a' } }")
        .table("[run]\nhorizon_s = 20")
        .queries("x", "poisson = { rate_hz = 10.0 }");
    let once = lines(&toy);
    assert!(once.len() > 100);
    // While other threads keep the machine busy.
    let busy: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn(|| (0..3_000_000_u64).fold(0_u64, |a, b| a.wrapping_mul(31) ^ b))
        })
        .collect();
    let again = lines(&toy);
    assert_eq!(once, again);
    for thread in busy {
        assert!(thread.join().is_ok());
    }
}

/// With a stage that these engines cannot run.
fn unable(engines: &[&str], reason: &str) -> Toy {
    let mut toy = toy().stream("x", &[], &[0]);
    for (engine, time) in [("a", "0.010"), ("b", "0.020")] {
        if engines.contains(&engine) {
            toy = toy.costs(&format!("decode = {{ per_token_s = {time} }}\n"), "");
            let table = format!(
                "[engines.{engine}.unsupported]\ndecode = '{reason}'\n[engines.{engine}.stages]"
            );
            toy = toy.costs(&format!("[engines.{engine}.stages]"), &table);
        }
    }
    toy
}

fn a_model_that_fails_on_every_engine() {
    let said = faults(&unable(&["a", "b"], "segfaults at load"));
    assert!(said.contains("segfaults at load"), "{said}");
}

fn an_engine_that_takes_no_float() {
    let toy = unable(&["b"], "takes int8 and w8a16 only").table("[placement]\ndecode = 'b'");
    let said = faults(&toy);
    assert!(said.contains("takes int8 and w8a16 only"), "{said}");
}

fn an_accelerator_slower_than_the_cpu() {
    // `a` is the CPU, twice as fast as the accelerator `b`.
    let toy = toy()
        .soc("kind = 'gpu'", "kind = 'cpu'")
        .soc(
            "[lanes.a]\nengine = 'a'",
            "[lanes.a]\nengine = 'a'\ncores = 4",
        )
        .set("policy = { state_aware = { terms = 'w+p+s' } }")
        .stream("x", &[], &[0]);
    let lines = lines(&toy);
    assert!(
        lines.iter().any(|line| line.contains(" a decode ")),
        "{lines:#?}"
    );
}

fn measured_times_not_ranks_of_chips() {
    // Ports say that `b` is the stronger one; what was measured says `a`.
    let toy = toy()
        .soc("bandwidth_gbps = 10.0", "bandwidth_gbps = 100.0")
        .soc(
            "kind = 'npu'\nport_gbps = 10.0",
            "kind = 'npu'\nport_gbps = 100.0",
        )
        .set("policy = { state_aware = { terms = 'w+p+s' } }")
        .stream("x", &[], &[0]);
    let lines = lines(&toy);
    assert!(
        lines.iter().any(|line| line.contains(" a decode ")),
        "{lines:#?}"
    );
}
