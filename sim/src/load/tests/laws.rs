//! Laws of loading: mutilated files never panic, and every fault points into its file; the order of a
//! file changes nothing.

use proptest::prelude::*;

use super::toy::{self, Toy};
use crate::diag::Faults;
use crate::load::{
    Inputs, Numbers, check_costs, check_model, check_soc, detect_kind, load_scenario,
};
use crate::world::{Provenance, World};

/// How a file is mutilated; numbers choose the place.
#[derive(Clone, Debug)]
enum Mutation {
    DropLine(usize),
    RepeatLine(usize),
    SwapLines(usize, usize),
    ReplaceValue(usize, &'static str),
    RenameKey(usize, &'static str),
    CutAt(usize),
    Byte(usize, char),
}

const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "1e308",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "9223372036854775807",
    "99999999999999999999999",
    "0.5",
    "\"\"",
    "\"cpu\"",
    "\"npu\"",
    "\"x\"",
    "true",
    "[]",
    "{}",
    "[1]",
    "[[1.0]]",
    "[[\"encode\"]]",
    "[0, 0]",
    "{ value = 1 }",
    "{ value = nan, low = 2 }",
    "{ a = { b = 1 } }",
    "1979-05-27",
    "\"serial\"",
    "{ periodic = { rate_hz = 1e-300 } }",
    "{ periodic = { rate_hz = 1e9 } }",
    "{ times_s = [] }",
    "{ trace = { file = \"\" } }",
];

const KEYS: &[&str] = &[
    "x", "origin", "table", "gbps", "fixed_s", "\"\"", "\"é \"", "a.b", "kind",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 16));
    let at = move || at.clone();
    prop_oneof![
        at().prop_map(Mutation::DropLine),
        at().prop_map(Mutation::RepeatLine),
        (at(), at()).prop_map(|(a, b)| Mutation::SwapLines(a, b)),
        (at(), prop::sample::select(VALUES)).prop_map(|(a, v)| Mutation::ReplaceValue(a, v)),
        (at(), prop::sample::select(VALUES)).prop_map(|(a, v)| Mutation::ReplaceValue(a, v)),
        (at(), prop::sample::select(KEYS)).prop_map(|(a, k)| Mutation::RenameKey(a, k)),
        at().prop_map(Mutation::CutAt),
        (at(), any::<char>()).prop_map(|(a, c)| Mutation::Byte(a, c)),
    ]
}

fn mutate(text: &str, mutation: &Mutation) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let count = lines.len();
    match mutation {
        Mutation::DropLine(at) => {
            lines.remove(at % count);
        }
        Mutation::RepeatLine(at) => lines.insert(at % count, lines[at % count].clone()),
        Mutation::SwapLines(a, b) => lines.swap(a % count, b % count),
        Mutation::ReplaceValue(at, value) => {
            if let Some((key, _)) = lines[at % count].clone().split_once(" = ") {
                lines[at % count] = format!("{key} = {value}");
            }
        }
        Mutation::RenameKey(at, key) => {
            if let Some((_, value)) = lines[at % count].clone().split_once(" = ") {
                lines[at % count] = format!("{key} = {value}");
            }
        }
        Mutation::CutAt(at) => {
            return text
                .chars()
                .take(at % text.chars().count().max(1))
                .collect();
        }
        Mutation::Byte(at, with) => {
            let place = at % text.chars().count().max(1);
            return text
                .chars()
                .enumerate()
                .map(|(index, c)| if index == place { *with } else { c })
                .collect();
        }
    }
    lines.join("\n") + "\n"
}

fn points_into_its_file(faults: &Faults) {
    assert!(!faults.list.is_empty(), "an error without faults");
    for fault in &faults.list {
        let text = faults.source(&fault.file);
        let span = &fault.span;
        assert!(
            span.start <= span.end && span.end <= text.len(),
            "{fault:?} points outside of {} bytes",
            text.len()
        );
        assert!(!fault.message.is_empty() && !fault.label.is_empty());
        assert!(!fault.message.ends_with('.'), "{fault:?}");
    }
    assert!(!faults.to_string().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutilated_files_load_or_say_why(
        mutations in prop::collection::vec((0..4_usize, mutation()), 1..4),
    ) {
        let mut toy = Toy::default();
        let mut scenario = toy::SCENARIO.to_owned();
        for (file, mutation) in &mutations {
            let text = match file {
                0 => &mut scenario,
                1 => &mut toy.soc,
                2 => &mut toy.model,
                _ => &mut toy.costs,
            };
            *text = mutate(text, mutation);
        }
        if let Err(faults) = load_scenario("s.toml", &scenario, &toy, &toy) {
            points_into_its_file(&faults);
        }
        for result in [
            check_soc("soc", &toy.soc),
            check_model("model", &toy.model),
            check_costs("costs", &toy.costs),
        ] {
            if let Err(faults) = result {
                points_into_its_file(&faults);
            }
        }
        let _ = detect_kind(&scenario);
    }

    #[test]
    fn random_text_loads_or_says_why(text in "\\PC{0,60}") {
        let toy = Toy::default();
        let faults = load_scenario("s.toml", &text, &toy, &toy).expect_err("not a scenario");
        points_into_its_file(&faults);
    }
}

/// Tables of a file, each with its header and what is under it.
fn shuffled(text: &str) -> String {
    let mut tables: Vec<String> = Vec::new();
    for line in text.lines() {
        let header = line.starts_with('[') && !line.starts_with("[[");
        if header || tables.is_empty() {
            tables.push(String::new());
        }
        if let Some(table) = tables.last_mut() {
            table.push_str(line);
            table.push('\n');
        }
    }
    // Keys before the first header stay there.
    let head = tables.remove(0);
    tables.reverse();
    head + &tables.concat()
}

#[test]
fn the_order_of_a_file_changes_nothing() {
    let toy = Toy::default();
    let straight = load_scenario("s.toml", toy::SCENARIO, &toy, &toy).expect("loads");
    let turned = Toy {
        soc: shuffled(toy::SOC),
        costs: shuffled(toy::COSTS),
        model: toy::MODEL.replace(
            "[[query_stages]]\nname = \"query_prefill\"\nkind = \"query_prefill\"\n",
            "",
        ) + "[[query_stages]]\nname = \"query_prefill\"\nkind = \"query_prefill\"\n",
        ..Toy::default()
    };
    let (front, back) = toy::SCENARIO.split_at(toy::SCENARIO.find("[[streams]]").unwrap());
    let (first, second) = back.split_at(back.rfind("[[streams]]").unwrap());
    let scenario = format!("{front}{second}\n{first}");
    let other = load_scenario("s.toml", &scenario, &turned, &turned).expect("loads");
    let show = |mut world: World| {
        // Where the numbers stand is another place.
        for number in &mut world.provenance {
            number.span = 0..0;
        }
        format!("{world:#?}")
    };
    assert_eq!(show(straight), show(other));
}

#[test]
fn other_numbers_are_those_of_another_file() {
    let toy = Toy::default();
    let inputs = Inputs::read("s.toml", toy::SCENARIO, &toy, &toy).expect("loads");
    let world = inputs.world().expect("loads");
    let find = |path: &str| {
        let mut numbers = world.provenance.iter();
        numbers
            .find(|number| number.path == path)
            .expect("is there")
    };
    let (time, port) = (
        find("engines.cpu.stages.ingest.per_token_s"),
        find("engines.npu.port_gbps"),
    );
    let mut numbers = Numbers::default();
    numbers.set(time, 0.005);
    numbers.set(port, 10.5);
    let changed = inputs.with_numbers(&numbers).expect("loads").world();
    let edit = |text: &str, number: &Provenance, value: &str| {
        let mut text = text.to_owned();
        text.replace_range(number.span.clone(), value);
        text
    };
    let other = Toy {
        costs: edit(toy::COSTS, time, "0.005"),
        soc: edit(toy::SOC, port, "10.5"),
        ..Toy::default()
    };
    let read = load_scenario("s.toml", toy::SCENARIO, &other, &other).expect("loads");
    let (changed, read) = (
        format!("{:#?}", changed.expect("loads")),
        format!("{read:#?}"),
    );
    assert_eq!(changed, read);
    assert_ne!(changed, format!("{world:#?}"));
}
