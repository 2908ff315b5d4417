//! A key that the loader calls without effect has none: with it and without it, every policy asks for the same.
//!
//! To see it fail, let `load::without_effect::policy` count one lane too few (`< 3` for `< 2`) or forget the stages that
//! are placed by themselves, or `load::without_effect::values` that answers which join are ingested.

use sim::trace::Record;
use validation::inline::Inline;

use crate::toy::{Toy, run, toy};

const POLICIES: [&str; 11] = [
    "'serial'",
    "'naive'",
    "'idle_first'",
    "'reuse_first'",
    "'round_robin'",
    "'shortest_job_first'",
    "'earliest_deadline_first'",
    "{ state_aware = { terms = 'w+p+s' } }",
    "{ fixed = {} }",
    "{ single = { lane = 'a' } }",
    "{ single = { lane = 'b' } }",
];

/// Keys and values other than the defaults.
const KEYS: [(&str, &str, &str); 14] = [
    ("modes", "ingest_during_generation", "false"),
    ("modes", "state_transfer", "'import'"),
    ("modes", "state_transfer", "'reconstruct'"),
    ("modes", "concurrent_generation", "false"),
    ("beliefs", "output_tokens", "'exact'"),
    ("beliefs", "output_tokens", "{ noisy = { cv = 2.0 } }"),
    ("beliefs", "costs", "'other.toml'"),
    ("placement", "ingest", "'a'"),
    ("placement", "decode", "'b'"),
    ("limits.engine_kv_budget_bytes", "a", "60000"),
    ("limits.engine_kv_budget_bytes", "b", "60000"),
    ("background", "bandwidth_gbps", "9.0"),
    ("exclusive", "[0]", "[['ingest@a', 'decode@b']]"),
    ("exclusive", "[0]", "[['decode', 'ingest@b']]"),
];

/// Two streams that keep both lanes busy, and answers of very different lengths; `other.toml` believes the
/// second engine to be the fast one and imports to be slow.
fn busy(policy: &str, variant: usize) -> Toy {
    let mut toy = of_variant(policy, variant);
    let other = [
        ("per_token_s = 0.002", "per_token_s = 0.0001"),
        ("per_token_s = 0.020", "per_token_s = 0.001"),
        ("gbps = 0.001", "gbps = 0.00001"),
        ("fixed_s = 0.005", "fixed_s = 0.05"),
    ];
    let other = other.iter();
    let other = other.fold(toy.files.costs.clone(), |text, (from, to)| {
        text.replacen(from, to, 3)
    });
    toy.files.files.push(("other.toml".to_owned(), other));
    toy
}

fn of_variant(policy: &str, variant: usize) -> Toy {
    let stream = |name: &str, rate: f64| {
        format!(
            "[[streams]]\nname = '{name}'\nframes = {{ clock = {{ periodic = {{ rate_hz = {rate:?} }} }} }}\n\
             queries = {{ arrivals = {{ poisson = {{ rate_hz = {rate:?} }} }}, prompt_tokens = 2, \
             output_tokens = {{ uniform = {{ low = 1, high = 20 }} }} }}"
        )
    };
    let toy = toy()
        .set(&format!("policy = {policy}"))
        .table("[run]\nhorizon_s = 3.0\n[context]\nkeep = { window = { frames = 4 } }")
        .table(&stream("cam", 9.0))
        .table(&stream("yard", 7.0));
    match variant {
        0 => toy,
        // One engine answers, or ingests, or does both.
        1 => toy.table("[placement]\nprefill = 'a'\ndecode = 'a'"),
        2 => toy.table("[placement]\ningest = 'b'"),
        3 => toy.table("[placement]\ningest = 'a'\nprefill = 'a'\ndecode = 'a'"),
        // A stage that is placed by itself, on one lane or on either.
        4 => with_encoder(toy, "{ fixed_s = 0.005 }"),
        _ => with_encoder(toy, "{ fixed_s = 0.005 }").costs(
            "[engines.b.stages]",
            "[engines.b.stages]\nencode = { fixed_s = 0.005 }",
        ),
    }
}

/// With an encoder on engine `a`.
fn with_encoder(toy: Toy, costs: &str) -> Toy {
    toy.model(
        "[[frame_stages]]\nname = 'ingest'\nkind = 'ingest'",
        "[[frame_stages]]\nname = 'encode'\nkind = 'encode'\n\
         [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\nafter = ['encode']",
    )
    .costs(
        "[engines.a.stages]",
        &format!("[engines.a.stages]\nencode = {costs}"),
    )
}

/// What the scheduler asked for, and whether `key` was said to change nothing.
fn played(files: &Inline, text: &str, key: &str) -> (Vec<String>, bool) {
    let world = files
        .world(text)
        .unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    let effects = run(&world).records.into_iter();
    let effects = effects.filter(|(_, record)| matches!(record, Record::Effect(_)));
    let quoted = format!("`{key}` has no effect");
    let unread = world.warnings.iter().any(|text| text.starts_with(&quoted));
    (
        effects.map(|record| format!("{record:?}")).collect(),
        unread,
    )
}

#[test]
fn what_is_said_to_have_no_effect_has_none() {
    let (mut unread, mut mattered) = (0, 0);
    for policy in POLICIES {
        for variant in 0..6 {
            let toy = busy(policy, variant);
            let text = toy.text();
            let (plain, _) = played(&toy.files, &text, "");
            for (table, key, value) in KEYS {
                let (changed, path) = if table == "exclusive" {
                    (
                        format!("{table} = {value}\n{text}"),
                        format!("{table}{key}"),
                    )
                } else {
                    let changed = format!("{text}\n[{table}]\n{key} = {value}\n");
                    (changed, format!("{table}.{key}"))
                };
                // A variant that places stages itself, or where the key is a fault whatever the policy.
                if table != "modes" && table != "beliefs" && toy.files.world(&changed).is_err() {
                    continue;
                }
                let (other, said) = played(&toy.files, &changed, &path);
                if said {
                    unread += 1;
                    assert!(
                        plain == other,
                        "{policy}, {variant}: {table}.{key} = {value}"
                    );
                }
                mattered += usize::from(plain != other);
            }
        }
    }
    // Neither side is empty, and a good part of what is without effect is told.
    assert!(unread > 60 && mattered > 60, "{unread} {mattered}");
}

/// Keys that may change nothing with the values of others: each with a text of the scenario and the text that sets it.
const VALUES: [(&str, &str, &str); 15] = [
    (
        "context.keep",
        "# head",
        "context.keep = { window = { frames = 28 } }",
    ),
    (
        "context.keep",
        "# head",
        "context.keep = { sinks = { first = 1, recent = 27 } }",
    ),
    ("placement.encode", "# head", "placement.encode = 'a'"),
    (
        "background.cpu_cores",
        "# head",
        "background.cpu_cores = 4.0",
    ),
    (
        "modes.embedding_cache",
        "# head",
        "modes.embedding_cache = false",
    ),
    (
        "modes.ingest_during_generation",
        "# head",
        "modes.ingest_during_generation = false",
    ),
    (
        "modes.state_transfer",
        "# head",
        "modes.state_transfer = 'reconstruct'",
    ),
    ("context.binding", "# head", "context.binding = 'published'"),
    ("placement.ingest", "# head", "placement.ingest = 'b'"),
    (
        "beliefs.output_tokens",
        "# head",
        "beliefs.output_tokens = 'exact'",
    ),
    ("beliefs.costs", "# head", "beliefs.costs = 'same.toml'"),
    ("noise", "# head", "noise = false"),
    (
        "limits.kv_budget_bytes",
        "# head",
        "limits.kv_budget_bytes = 2e9",
    ),
    (
        "background.bandwidth_gbps",
        "# head",
        "background.bandwidth_gbps = 5.0",
    ),
    (
        "streams[0].frames.count",
        "{ clock =",
        "{ count = 28, clock =",
    ),
];

#[test]
fn what_changes_nothing_with_the_values_of_others_has_no_effect() {
    let frames = "frames = { clock = { periodic = { rate_hz = 9.0 } } }";
    let queries = |lengths: &str| {
        format!(
            "queries = {{ arrivals = {{ poisson = {{ rate_hz = 8.0 }} }}, prompt_tokens = 2, output_tokens = {lengths} }}"
        )
    };
    let (fixed, drawn) = (
        queries("8"),
        queries("{ uniform = { low = 1, high = 20 } }"),
    );
    let streams = [
        format!("[[streams]]\nname = 'cam'\n{frames}\n{drawn}"),
        format!("[[streams]]\nname = 'cam'\n{frames}\n[[streams]]\nname = 'door'\n{fixed}"),
        format!("[[streams]]\nname = 'cam'\n{fixed}\n[[streams]]\nname = 'door'\n{drawn}"),
    ];
    let (mut idle, mut mattered) = (0, 0);
    for variant in 0..24_usize {
        let mut toy = toy().set("# head\nrun.horizon_s = 3.0");
        if variant % 3 != 2 {
            toy = toy.set("context.keep = { window = { frames = 4 } }");
        }
        if variant & 1 == 1 {
            toy = toy.set("modes.context_reuse = false");
        }
        if variant & 2 == 2 {
            toy = toy.set("context.answers_join_history = true");
        }
        if variant & 4 == 4 {
            toy = with_encoder(toy, "{ fixed_s = 0.005, cv = 0.5 }");
        }
        for policy in [
            "'naive'",
            "'round_robin'",
            "{ state_aware = { terms = 'w+p+s' } }",
        ] {
            let mut toy = toy
                .clone()
                .set(&format!("policy = {policy}"))
                .table(&streams[variant % 3]);
            let same = toy.files.costs.clone();
            toy.files.files.push(("same.toml".to_owned(), same));
            let text = toy.text();
            let (plain, _) = played(&toy.files, &text, "");
            for (key, from, to) in VALUES {
                let changed = text.replacen(from, to, 1);
                // What is not there at all is a fault.
                if changed == text || toy.files.world(&changed).is_err() {
                    continue;
                }
                let (other, said) = played(&toy.files, &changed, key);
                if said {
                    idle += 1;
                    assert!(plain == other, "{policy}, {variant}: {to}\n{text}");
                }
                mattered += usize::from(plain != other);
            }
        }
    }
    assert!(idle > 200 && mattered > 100, "{idle} {mattered}");
}
