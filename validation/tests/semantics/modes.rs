//! Execution modes, transfers and contexts, each on and off.
//!
//! To see them fail, turn a condition of `State::may_hold` (which modes let a part take a lane), of
//! `State::plan` (which preparation is cheapest), or of `StreamState::accept` (what a window drops)
//! around.

use crate::toy::{Toy, toy};

/// A frame at 0 and a query at 20 ms, all on `a`.
fn one_lane() -> Toy {
    toy()
        .set("policy = { single = { lane = 'a' } }")
        .stream("cam", &[0], &[20])
}

#[test]
fn with_reuse_a_context_is_prefilled_once() {
    one_lane().runs_as(
        "0-10 a ingest 10@0
         10 publish v1 10
         20 bind q0 v1
         20-22 a prefill 2@10
         22-42 a decode 2@12
         42 answer q0 v1 Reuse first 22",
    );
}

#[test]
fn without_reuse_every_request_rebuilds_its_context() {
    one_lane().table("[modes]\ncontext_reuse = false").runs_as(
        "0 publish v1 10
             20 bind q0 v1
             20-30 a reconstruct 10@0
             30-32 a prefill 2@10
             32-52 a decode 2@12
             52 answer q0 v1 Reconstruct first 32",
    );
}

/// With an encoder that takes 5 ms.
fn with_encoder(toy: Toy) -> Toy {
    toy.model(
        "[[frame_stages]]\nname = 'ingest'\nkind = 'ingest'",
        "[[frame_stages]]\nname = 'encode'\nkind = 'encode'\n\
         [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\nafter = ['encode']",
    )
    .costs(
        "[engines.a.stages]",
        "[engines.a.stages]\nencode = { fixed_s = 0.005 }",
    )
}

#[test]
fn kept_embeddings_save_the_encoder() {
    let toy = with_encoder(one_lane());
    let reuse_off = "[modes]\ncontext_reuse = false";
    toy.clone().table(reuse_off).runs_as(
        "0-5 a encode 1@0
         5 publish v1 10
         20 bind q0 v1
         20-30 a reconstruct 10@0
         30-32 a prefill 2@10
         32-52 a decode 2@12
         52 answer q0 v1 Reconstruct first 32",
    );
    toy.table(reuse_off)
        .table("embedding_cache = false")
        .runs_as(
            "0 publish v1 10
             20 bind q0 v1
             20-25 a encode 1@0
             25-35 a reconstruct 10@0
             35-37 a prefill 2@10
             37-57 a decode 2@12
             57 answer q0 v1 Reconstruct first 37",
        );
}

#[test]
fn a_context_rebuilt_after_eviction_encodes_again_unless_embeddings_are_kept() {
    // The other stream's frame takes the memory, and `cam` is rebuilt for its query.
    let toy = |cache: bool| {
        with_encoder(toy())
            .set("policy = { single = { lane = 'a' } }")
            .table(&format!("[modes]\nembedding_cache = {cache}"))
            .table("[limits]\nkv_budget_bytes = 15000")
            .stream("cam", &[0], &[40])
            .stream("other", &[20], &[])
    };
    let before = "0-5 a encode cam/1@0
         5-15 a ingest cam/10@0
         15 publish cam/v1 10
         20-25 a encode other/1@0
         25 evict cam/a 10
         25-35 a ingest other/10@0
         35 publish other/v1 10
         40 bind cam/q0 v1
         40 evict other/a 10
         ";
    toy(true).runs_as(&format!(
        "{before}40-50 a reconstruct cam/10@0
         50-52 a prefill cam/2@10
         52-72 a decode cam/2@12
         72 answer cam/q0 v1 Reconstruct first 52"
    ));
    toy(false).runs_as(&format!(
        "{before}40-45 a encode cam/1@0
         45-55 a reconstruct cam/10@0
         55-57 a prefill cam/2@10
         57-77 a decode cam/2@12
         77 answer cam/q0 v1 Reconstruct first 57"
    ));
}

/// Frames are ingested on `b` (2 ms a token) and queries answered on `a`. Rebuilding 10 tokens on `a`
/// takes 10 ms, importing them 11 ms out and 11 ms in.
fn handed_over(transfer: &str, frames_ms: &[u32], queries_ms: &[u32]) -> Toy {
    toy()
        .set("policy = { fixed = { lanes = { cam = 'a' } } }")
        .table("[placement]\ningest = 'b'")
        .table(&format!("[modes]\nstate_transfer = '{transfer}'"))
        .stream("cam", frames_ms, queries_ms)
}

#[test]
fn a_stream_goes_on_while_it_is_answered() {
    handed_over("import", &[0, 30], &[25]).runs_as(
        "0-20 b ingest 10@0
         20 publish v1 10
         25 bind q0 v1
         25-47 a import 10@0 <b
         47-49 a prefill 2@10
         30-50 b ingest 10@10
         50 publish v2 20
         49-69 a decode 2@12
         69 answer q0 v1 Import first 49",
    );
}

#[test]
fn or_waits_where_the_mode_says_so() {
    handed_over("import", &[0, 30], &[25])
        .table("ingest_during_generation = false")
        .runs_as(
            "0-20 b ingest 10@0
             20 publish v1 10
             25 bind q0 v1
             25-47 a import 10@0 <b
             47-49 a prefill 2@10
             49-69 a decode 2@12
             69 answer q0 v1 Import first 49
             69-89 b ingest 10@10
             89 publish v2 20",
        );
}

#[test]
fn the_cheaper_transfer_is_chosen() {
    // Rebuilding is cheaper: 10 ms against 22 ms.
    let rebuilt = "0-20 b ingest 10@0
         20 publish v1 10
         25 bind q0 v1
         25-35 a reconstruct 10@0
         35-37 a prefill 2@10
         37-57 a decode 2@12
         57 answer q0 v1 Reconstruct first 37";
    handed_over("auto", &[0], &[25]).runs_as(rebuilt);
    handed_over("reconstruct", &[0], &[25]).runs_as(rebuilt);
    // With a bus ten times as fast, copying is: 1 + 1 ms out, 1 + 1 ms in.
    handed_over("auto", &[0], &[25])
        .costs("gbps = 0.001", "gbps = 0.01")
        .runs_as(
            "0-20 b ingest 10@0
             20 publish v1 10
             25 bind q0 v1
             25-29 a import 10@0 <b
             29-31 a prefill 2@10
             31-51 a decode 2@12
             51 answer q0 v1 Import first 31",
        );
}

#[test]
fn only_what_is_missing_moves() {
    // The second query needs 20 tokens, of which `a` holds the first 10.
    handed_over("import", &[0, 100], &[25, 125]).runs_as(
        "0-20 b ingest 10@0
         20 publish v1 10
         25 bind q0 v1
         25-47 a import 10@0 <b
         47-49 a prefill 2@10
         49-69 a decode 2@12
         69 answer q0 v1 Import first 49
         100-120 b ingest 10@10
         120 publish v2 20
         125 bind q1 v2
         125-147 a import 10@0 <b
         147-149 a prefill 2@20
         149-169 a decode 2@22
         169 answer q1 v2 Import first 149",
    );
    handed_over("reconstruct", &[0, 100], &[25, 125]).runs_as(
        "0-20 b ingest 10@0
         20 publish v1 10
         25 bind q0 v1
         25-35 a reconstruct 10@0
         35-37 a prefill 2@10
         37-57 a decode 2@12
         57 answer q0 v1 Reconstruct first 37
         100-120 b ingest 10@10
         120 publish v2 20
         125 bind q1 v2
         125-135 a reconstruct 10@10
         135-137 a prefill 2@20
         137-157 a decode 2@22
         157 answer q1 v2 Reconstruct first 137",
    );
}

#[test]
fn a_context_rebuilt_where_frames_go_is_copied_to_where_answers_come_from() {
    // Reuse off, ingestion on `b`: rebuilt there in 20 ms, copied in 22.
    handed_over("auto", &[0], &[25])
        .table("context_reuse = false")
        .runs_as(
            "0 publish v1 10
             25 bind q0 v1
             25-45 b reconstruct 10@0
             45-67 a import 10@0 <b
             67-69 a prefill 2@10
             69-89 a decode 2@12
             89 answer q0 v1 Reconstruct first 69",
        );
}

#[test]
fn several_lanes_answer_at_once_or_one_does() {
    let toy = toy()
        .set("policy = 'idle_first'")
        .table("[modes]")
        .stream("x", &[], &[0])
        .stream("y", &[], &[0]);
    toy.runs_as(
        "0 bind x/q0 v0
         0 bind y/q0 v0
         0-2 a prefill x/2@0
         0-4 b prefill y/2@0
         2-22 a decode x/2@2
         22 answer x/q0 v0 Reuse first 2
         4-44 b decode y/2@2
         44 answer y/q0 v0 Reuse first 4",
    );
    toy.clone().table("concurrent_generation = false").runs_as(
        "0 bind x/q0 v0
         0 bind y/q0 v0
         0-2 a prefill x/2@0
         2-22 a decode x/2@2
         22 answer x/q0 v0 Reuse first 2
         22-26 b prefill y/2@0
         26-66 b decode y/2@2
         66 answer y/q0 v0 Reuse first 26",
    );
}

/// Three frames, then a query, on `a`.
fn windowed(keep: &str) -> Toy {
    toy()
        .set("policy = { single = { lane = 'a' } }")
        .table(&format!("[context]\nkeep = {keep}"))
        .stream("cam", &[0, 20, 40], &[60])
}

#[test]
fn a_window_keeps_the_newest_frames() {
    windowed("{ window = { frames = 1 } }").runs_as(
        "0-10 a ingest 10@0
         10 publish v1 10
         20-30 a ingest 10@10
         30 publish v2 10
         40-50 a ingest 10@10
         50 publish v3 10
         60 bind q0 v3
         60-62 a prefill 2@10
         62-82 a decode 2@12
         82 answer q0 v3 Reuse first 62",
    );
}

#[test]
fn sinks_keep_the_first_frames_too() {
    windowed("{ sinks = { first = 1, recent = 1 } }").runs_as(
        "0-10 a ingest 10@0
         10 publish v1 10
         20-30 a ingest 10@10
         30 publish v2 20
         40-50 a ingest 10@20
         50 publish v3 20
         60 bind q0 v3
         60-62 a prefill 2@20
         62-82 a decode 2@22
         82 answer q0 v3 Reuse first 62",
    );
}

#[test]
fn an_engine_that_never_had_a_sink_gets_it() {
    // `a` has the first frame, `b` has all four; version 4 is the first two and the last of them.
    handed_over("import", &[0, 30, 60, 90], &[25, 115])
        .table("[context]\nkeep = { sinks = { first = 2, recent = 1 } }")
        .runs_as(
            "0-20 b ingest 10@0
             20 publish v1 10
             25 bind q0 v1
             25-47 a import 10@0 <b
             47-49 a prefill 2@10
             30-50 b ingest 10@10
             50 publish v2 20
             49-69 a decode 2@12
             69 answer q0 v1 Import first 49
             60-80 b ingest 10@20
             80 publish v3 30
             90-110 b ingest 10@30
             110 publish v4 30
             115 bind q1 v4
             115-157 a import 20@0 <b
             157-159 a prefill 2@30
             159-179 a decode 2@32
             179 answer q1 v4 Import first 159",
        );
}

#[test]
fn answers_join_the_history() {
    // Prompt and answer are 5 tokens, prefilled at once; the next query reads them.
    toy()
        .set("policy = { single = { lane = 'a' } }")
        .table("[context]\nanswers_join_history = true")
        .stream("cam", &[0], &[10, 50])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             10 bind q0 v1
             10-12 a prefill 2@10
             12-32 a decode 2@12
             32 answer q0 v1 Reuse first 12
             32-37 a ingest 5@10
             37 publish v2 15
             50 bind q1 v2
             50-52 a prefill 2@15
             52-72 a decode 2@17
             72 answer q1 v2 Reuse first 52
             72-77 a ingest 5@15
             77 publish v3 20",
        );
}

#[test]
fn an_answer_that_finds_the_context_full_does_not_join() {
    // 10 + 5 tokens of 18: the first answer joins, the second finds no room for 5 more.
    toy()
        .model("max_context_tokens = 4096", "max_context_tokens = 20")
        .set("policy = { single = { lane = 'a' } }")
        .table("[context]\nanswers_join_history = true\nbinding = 'published'")
        .stream("cam", &[0], &[10, 33])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             10 bind q0 v1
             10-12 a prefill 2@10
             12-32 a decode 2@12
             32 answer q0 v1 Reuse first 12
             33 bind q1 v1
             32-37 a ingest 5@10
             37 publish v2 15
             37-39 a prefill 2@10
             39-59 a decode 2@12
             59 answer q1 v1 Reuse first 39
             59-64 a ingest 5@15
             64 publish v3 20",
        );
    toy()
        .model("max_context_tokens = 4096", "max_context_tokens = 19")
        .set("policy = { single = { lane = 'a' } }")
        .table("[context]\nanswers_join_history = true\nbinding = 'published'")
        .stream("cam", &[0], &[10, 33])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             10 bind q0 v1
             10-12 a prefill 2@10
             12-32 a decode 2@12
             32 answer q0 v1 Reuse first 12
             33 bind q1 v1
             32-37 a ingest 5@10
             37 publish v2 15
             37-39 a prefill 2@10
             39-59 a decode 2@12
             59 answer q1 v1 Reuse first 39",
        );
}

#[test]
fn stages_that_exclude_each_other_take_turns() {
    // As `a_stream_goes_on_while_it_is_answered`, but `b` may not ingest while `a` decodes.
    handed_over("reconstruct", &[0, 40], &[25])
        .set("exclusive = [['ingest@b', 'decode@a']]")
        .runs_as(
            "0-20 b ingest 10@0
             20 publish v1 10
             25 bind q0 v1
             25-35 a reconstruct 10@0
             35-37 a prefill 2@10
             37-57 a decode 2@12
             57 answer q0 v1 Reconstruct first 37
             57-77 b ingest 10@10
             77 publish v2 20",
        );
    // And the other way round: the decode waits for the ingest that has begun.
    handed_over("reconstruct", &[0, 30], &[25])
        .set("exclusive = [['ingest@b', 'decode@a']]")
        .runs_as(
            "0-20 b ingest 10@0
             20 publish v1 10
             25 bind q0 v1
             25-35 a reconstruct 10@0
             35-37 a prefill 2@10
             30-50 b ingest 10@10
             50 publish v2 20
             50-70 a decode 2@12
             70 answer q0 v1 Reconstruct first 37",
        );
}

#[test]
fn partitions_of_one_npu_serialise_and_finish() {
    // Two lanes of one engine, whose stages all exclude each other.
    toy()
        .soc(
            "[lanes.b]\nengine = 'b'",
            "[lanes.b1]\nengine = 'b'\n[lanes.b2]\nengine = 'b'",
        )
        .set("policy = { fixed = { lanes = { x = 'b1', y = 'b2' } } }")
        .set("exclusive = [['prefill@b', 'decode@b']]")
        .stream("x", &[], &[0])
        .stream("y", &[], &[0])
        .runs_as(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-4 b1 prefill x/2@0
             4-44 b1 decode x/2@2
             44 answer x/q0 v0 Reuse first 4
             44-48 b2 prefill y/2@0
             48-88 b2 decode y/2@2
             88 answer y/q0 v0 Reuse first 48",
        );
}

#[test]
fn a_stage_beside_the_chain_runs_on_the_lane_that_waits_for_it() {
    // `look` must end before the decode. On one lane it runs while the decode waits; on two, beside the
    // prefill.
    let toy = toy()
        .model(
            "name = 'decode'\nkind = 'decode'\nafter = ['prefill']",
            "name = 'look'\nkind = 'custom'\nafter = ['prefill']\n\
             [[query_stages]]\nname = 'decode'\nkind = 'decode'\nafter = ['look']",
        )
        .stream("cam", &[], &[0, 1]);
    let look = |toy: Toy, engine: &str| {
        let table = format!("[engines.{engine}.stages]");
        toy.costs(&table, &format!("{table}\nlook = {{ fixed_s = 0.005 }}"))
    };
    let single = "policy = { single = { lane = 'a' } }";
    look(toy.clone(), "a").set(single).runs_as(
        "0 bind q0 v0
         1 bind q1 v0
         0-2 a prefill 2@0
         2-7 a look 1@0
         7-27 a decode 2@2
         27 answer q0 v0 Reuse first 2
         27-29 a prefill 2@0
         29-34 a look 1@0
         34-54 a decode 2@2
         54 answer q1 v0 Reuse first 29",
    );
    look(toy, "b").set(single).runs_as(
        "0 bind q0 v0
         1 bind q1 v0
         0-2 a prefill 2@0
         2-7 b look 1@0
         7-27 a decode 2@2
         27 answer q0 v0 Reuse first 2
         27-29 a prefill 2@0
         29-34 b look 1@0
         34-54 a decode 2@2
         54 answer q1 v0 Reuse first 29",
    );
}

/// To see it fail, count items instead of frames in `StreamState::accept`.
#[test]
fn sinks_are_frames_also_where_answers_join() {
    // The first answer comes before the first frame, which is the sink: both stay.
    toy()
        .set("policy = { single = { lane = 'a' } }")
        .table(
            "[context]\nanswers_join_history = true\nkeep = { sinks = { first = 1, recent = 1 } }",
        )
        .stream("cam", &[50, 100, 150], &[0, 300])
        .runs_as(
            "0 bind q0 v0
             0-2 a prefill 2@0
             2-22 a decode 2@2
             22 answer q0 v0 Reuse first 2
             22-27 a ingest 5@0
             27 publish v1 5
             50-60 a ingest 10@5
             60 publish v2 15
             100-110 a ingest 10@15
             110 publish v3 25
             150-160 a ingest 10@25
             160 publish v4 25
             300 bind q1 v4
             300-302 a prefill 2@25
             302-322 a decode 2@27
             322 answer q1 v4 Reuse first 302
             322-327 a ingest 5@25
             327 publish v5 30",
        );
}

/// Without reuse, answered on `a`, which cannot rebuild.
fn rebuilt_elsewhere() -> Toy {
    toy()
        .costs("ingest = { per_token_s = 0.001 }\n", "")
        .costs(
            "[engines.b.stages]",
            "[engines.a.unsupported]\ningest = 'no'\nreconstruct = 'no'\n[engines.b.stages]",
        )
        .table("[modes]\ncontext_reuse = false\n[placement]\nprefill = 'a'\ndecode = 'a'")
        .stream("cam", &[0], &[20])
}

/// To see it fail, leave the last arm of `rebuild_lanes` in `Dispatcher::find_able_lanes` empty.
#[test]
fn a_lane_that_can_rebuilds_for_those_that_cannot() {
    rebuilt_elsewhere().runs_as(
        "0 publish v1 10
         20 bind q0 v1
         20-40 b reconstruct 10@0
         40-62 a import 10@0 <b
         62-64 a prefill 2@10
         64-84 a decode 2@12
         84 answer q0 v1 Reconstruct first 64",
    );
}

#[test]
fn where_none_can_a_warning_says_so() {
    let warned = |toy: &Toy| {
        let warnings = toy.world().warnings;
        warnings.iter().any(|text| text.contains("`context_lost`"))
    };
    let toy = rebuilt_elsewhere();
    assert!(!warned(&toy));
    let toy = toy.costs(
        "export = { fixed_s = 0.001, gbps = 0.001 }\n[origins.o]",
        "[engines.b.unsupported]\nexport = 'no'\n[origins.o]",
    );
    assert!(warned(&toy));
    toy.runs_as(
        "0 publish v1 10
         20 bind q0 v1
         20 refuse q0 context_lost",
    );
}
