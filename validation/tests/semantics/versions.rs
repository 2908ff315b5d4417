//! Semantics 1 and 2: immutable versions, the three binding rules, and answers that match the serial
//! reference.
//!
//! To see `bindings` fail, swap two arms of the `match world.binding` in `Dispatcher::on_query`; to see
//! the digests fail, chain `job.version` instead of the version's digest in `Dispatcher::complete`.

use std::collections::BTreeMap;

use sim::dispatch::{Effect, answer_digest, frame_digest, joined_digest, stream_digest};
use sim::trace::Record;

use crate::toy::{Toy, run, toy};

/// Frames at 0 and 5 ms, a query at 6 ms; everything on `a`.
fn two_frames(binding: &str) -> Toy {
    toy()
        .set("policy = { single = { lane = 'a' } }")
        .table(&format!("[context]\nbinding = '{binding}'"))
        .stream("cam", &[0, 5], &[6])
}

#[test]
fn a_query_bound_to_what_arrived_waits_for_it() {
    two_frames("arrived").runs_as(
        "6 bind q0 v2
         0-10 a ingest 10@0
         10 publish v1 10
         10-20 a ingest 10@10
         20 publish v2 20
         20-22 a prefill 2@20
         22-42 a decode 2@22
         42 answer q0 v2 Reuse first 22",
    );
}

#[test]
fn a_query_bound_to_what_is_published_reads_no_more() {
    // Nothing is published at 6 ms. The engine holds version 1 by the time it answers version 0.
    two_frames("published").runs_as(
        "6 bind q0 v0
         0-10 a ingest 10@0
         10 publish v1 10
         10-12 a prefill 2@0
         12-32 a decode 2@2
         32 answer q0 v0 Reuse first 12
         32-42 a ingest 10@10
         42 publish v2 20",
    );
}

#[test]
fn a_query_bound_at_dispatch_reads_the_newest_version() {
    two_frames("at_dispatch").runs_as(
        "0-10 a ingest 10@0
         10 publish v1 10
         10 bind q0 v1
         10-12 a prefill 2@10
         12-32 a decode 2@12
         32 answer q0 v1 Reuse first 12
         32-42 a ingest 10@10
         42 publish v2 20",
    );
}

#[test]
fn what_ends_goes_before_what_arrives() {
    // The query comes at the very instant at which version 1 is published, and sees it.
    toy()
        .set("policy = { single = { lane = 'a' } }")
        .table("[context]\nbinding = 'published'")
        .stream("cam", &[0], &[10])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             10 bind q0 v1
             10-12 a prefill 2@10
             12-32 a decode 2@12
             32 answer q0 v1 Reuse first 12",
        );
}

/// Version and digest of each answer by stream and number, and digests of versions.
type Digests = (BTreeMap<(u16, u32), (u32, u64)>, BTreeMap<(u16, u32), u64>);

fn digests(toy: &Toy) -> Digests {
    let world = toy.world();
    let mut digests = Digests::default();
    for (_, record) in run(&world).records {
        match record {
            Record::Effect(Effect::Complete(done)) => {
                let key = (done.stream.0, done.index);
                digests.0.insert(key, (done.version, done.digest));
            }
            Record::Effect(Effect::Publish {
                stream,
                version,
                digest,
                ..
            }) => {
                digests.1.insert((stream.0, version), digest);
            }
            Record::Effect(Effect::Refuse { .. }) => panic!("{record:?}"),
            _ => {}
        }
    }
    digests
}

/// What the serial run gives, from the definition alone: frames in order, each query on all frames that
/// arrived before it.
fn reference(streams: &[(&str, &[u32], &[u32])]) -> Digests {
    let mut reference = Digests::default();
    for (id, (name, frames, queries)) in (0..).zip(streams) {
        let mut versions = vec![stream_digest(name)];
        for index in 0..frames.len() as u32 {
            let version = frame_digest(versions[index as usize], index, 10);
            versions.push(version);
            reference.1.insert((id, index + 1), version);
        }
        for (index, at) in (0..).zip(*queries) {
            let version = frames.iter().filter(|&frame| frame <= at).count();
            let digest = answer_digest(versions[version], index, 2);
            reference.0.insert((id, index), (version as u32, digest));
        }
    }
    reference
}

const POLICIES: [&str; 13] = [
    "{ state_aware = { terms = 'w' } }",
    "{ state_aware = { terms = 'w+p' } }",
    "{ state_aware = { terms = 'w+p+s' } }",
    "{ single = { lane = 'a' } }",
    "{ single = { lane = 'b' } }",
    "{ fixed = {} }",
    "'serial'",
    "'naive'",
    "'idle_first'",
    "'reuse_first'",
    "'round_robin'",
    "'shortest_job_first'",
    "'earliest_deadline_first'",
];

#[test]
fn answers_match_the_serial_reference_under_every_policy_and_mode() {
    let streams: [(&str, &[u32], &[u32]); 2] = [
        ("left", &[0, 8, 16, 90], &[10, 30, 31, 95]),
        ("right", &[1, 9, 40], &[5, 41, 42]),
    ];
    let want = reference(&streams);
    let mut tried = 0;
    for policy in POLICIES {
        for modes in 0..16 {
            let on = |bit: u32| modes & (1 << bit) != 0;
            // Without reuse nothing is transferred.
            let transfers = if on(0) { 3 } else { 1 };
            for transfer in &["auto", "import", "reconstruct"][..transfers] {
                let mut toy = toy().set(&format!("policy = {policy}")).table(&format!(
                    "[modes]\ncontext_reuse = {}\ningest_during_generation = {}\nconcurrent_generation = {}\nembedding_cache = {}\nstate_transfer = '{transfer}'",
                    on(0), on(1), on(2), on(3)
                ));
                for (name, frames, queries) in streams {
                    toy = toy.stream(name, frames, queries);
                }
                assert_eq!(digests(&toy), want, "{}", toy.text());
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 13 * 8 * (3 + 1));
}

/// To see it fail, let `StreamState::next_to_join` pass over open questions.
#[test]
fn answers_join_in_order_of_their_questions_under_every_policy() {
    let mut overtaken = 0;
    for policy in POLICIES {
        let toy = toy()
            .set(&format!("policy = {policy}"))
            .table("[context]\nanswers_join_history = true")
            .stream("cam", &[0], &[30, 31, 400])
            .stream("other", &[], &[25]);
        let mut digest = frame_digest(stream_digest("cam"), 0, 10);
        let mut want = vec![answer_digest(digest, 0, 2), answer_digest(digest, 1, 2)];
        for question in [0, 1] {
            digest = joined_digest(digest, question, 5);
        }
        want.push(answer_digest(digest, 2, 2));
        let mut got = Vec::new();
        for (_, record) in run(&toy.world()).records {
            if let Record::Effect(Effect::Complete(done)) = record
                && done.stream.0 == 0
            {
                assert!(done.joins);
                got.push((done.index, done.digest));
            }
        }
        overtaken += usize::from(got[0].0 == 1);
        got.sort_unstable();
        let want: Vec<_> = (0..).zip(want).collect();
        assert_eq!(got, want, "{policy}");
    }
    assert!(
        overtaken > 0,
        "an answer is given before that to an earlier question"
    );
}
