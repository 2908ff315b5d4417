//! Semantics 5: memory is bounded, and everything that asks for it has an outcome.
//!
//! To see these fail: take the least recently used for the most (`<` for `>` in
//! `State::least_recently_used`), let pinned contexts be evicted (`pins == 0` in `State::may_go`), or answer `NotYet` instead of what `Dispatcher::room_for` and `room_for_copy` do once nothing
//! runs.

use crate::toy::{Toy, toy};

fn on_a() -> Toy {
    toy().set("policy = { single = { lane = 'a' } }")
}

/// Two lanes on engine `a` instead of one, and none on `b`.
fn two_lanes_of_a() -> Toy {
    toy()
        .soc(
            "[lanes.a]\nengine = 'a'\n[lanes.b]\nengine = 'b'",
            "[lanes.a1]\nengine = 'a'\n[lanes.a2]\nengine = 'a'",
        )
        .set("policy = { fixed = { lanes = { cam = 'a1', other = 'a1' } } }")
}

#[test]
fn the_least_recently_used_context_goes_first() {
    // 25 tokens hold two contexts of 10 and one answer's 5.
    on_a()
        .table("[limits]\nengine_kv_budget_bytes = { a = 25000 }")
        .stream("x", &[0], &[100])
        .stream("y", &[20], &[200])
        .stream("z", &[40], &[])
        .runs_as(
            "0-10 a ingest x/10@0
             10 publish x/v1 10
             20-30 a ingest y/10@0
             30 publish y/v1 10
             40 evict x/a 10
             40-50 a ingest z/10@0
             50 publish z/v1 10
             100 bind x/q0 v1
             100 evict y/a 10
             100-110 a reconstruct x/10@0
             110-112 a prefill x/2@10
             112-132 a decode x/2@12
             132 answer x/q0 v1 Reconstruct first 112
             200 bind y/q0 v1
             200 evict z/a 10
             200-210 a reconstruct y/10@0
             210-212 a prefill y/2@10
             212-232 a decode y/2@12
             232 answer y/q0 v1 Reconstruct first 212",
        );
}

#[test]
fn what_is_read_is_not_evicted() {
    // `cam` and its answer take 15 of 19 tokens; the other frame waits until they are read no more.
    two_lanes_of_a()
        .table("[limits]\nengine_kv_budget_bytes = { a = 19000 }\n[placement]\ningest = 'a2'")
        .stream("cam", &[0], &[10])
        .stream("other", &[15], &[])
        .runs_as(
            "0-10 a2 ingest cam/10@0
             10 publish cam/v1 10
             10 bind cam/q0 v1
             10-12 a1 prefill cam/2@10
             12-32 a1 decode cam/2@12
             32 answer cam/q0 v1 Reuse first 12
             32 evict cam/a 10
             32-42 a2 ingest other/10@0
             42 publish other/v1 10",
        );
}

#[test]
fn what_never_fits_is_refused_with_the_reason() {
    // Two frames fill 20 tokens: no room for a query on them, nor for a third frame.
    on_a()
        .table("[limits]\nkv_budget_bytes = 20000")
        .stream("cam", &[0, 20, 50], &[40])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             20-30 a ingest 10@10
             30 publish v2 20
             40 bind q0 v2
             40 refuse q0 never_fits
             50 refuse f2 never_fits",
        );
    on_a()
        .model("max_context_tokens = 4096", "max_context_tokens = 22")
        .stream("cam", &[0, 20, 50], &[40])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             20-30 a ingest 10@10
             30 publish v2 20
             40 bind q0 v2
             40 refuse q0 context_too_long
             50 refuse f2 context_too_long",
        );
}

#[test]
fn a_version_bound_at_dispatch_may_turn_out_too_long() {
    // The query could have read one frame; when its lane is free there are two.
    two_lanes_of_a()
        .model("max_context_tokens = 4096", "max_context_tokens = 22")
        .table("[context]\nbinding = 'at_dispatch'\n[placement]\ningest = 'a2'")
        .stream("cam", &[0, 5], &[1])
        .stream("other", &[], &[0])
        .runs_as(
            "0 bind other/q0 v0
             0-2 a1 prefill other/2@0
             0-10 a2 ingest cam/10@0
             10 publish cam/v1 10
             10-20 a2 ingest cam/10@10
             20 publish cam/v2 20
             2-22 a1 decode other/2@2
             22 answer other/q0 v0 Reuse first 2
             22 refuse cam/q0 context_too_long",
        );
}

#[test]
fn full_queues_refuse() {
    // A second request while one runs, and a third frame while two wait.
    on_a()
        .table("[context]\nbinding = 'published'")
        .table("[limits]\nmax_requests = 1\nmax_pending_frames = 2")
        .stream("cam", &[1, 2, 3], &[0, 4])
        .runs_as(
            "0 bind q0 v0
             0-2 a prefill 2@0
             3 refuse f2 frames_pending
             4 refuse q1 queue_full
             2-22 a decode 2@2
             22 answer q0 v0 Reuse first 2
             22-32 a ingest 10@0
             32 publish v1 10
             32-42 a ingest 10@10
             42 publish v2 20",
        );
}

#[test]
fn a_request_goes_to_an_engine_that_can_hold_it() {
    // The policy says `b`, which holds 12 tokens; the context and its answer take 15.
    toy()
        .set("policy = { fixed = { lanes = { cam = 'b' } } }")
        .table("[limits]\nengine_kv_budget_bytes = { b = 12000 }\n[placement]\ningest = 'a'")
        .stream("cam", &[0], &[20])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             20 bind q0 v1
             20-22 a prefill 2@10
             22-42 a decode 2@12
             42 answer q0 v1 Reuse first 22",
        );
}

#[test]
fn a_request_goes_to_an_engine_that_can_have_its_context() {
    // The policy says `b`, which can neither copy nor rebuild.
    toy()
        .costs(
            "import = { fixed_s = 0.001, gbps = 0.001 }\nexport = { fixed_s = 0.001, gbps = 0.001 }\n[origins",
            "[engines.b.unsupported]\nreconstruct = 'cannot'\n[origins",
        )
        .set("policy = { fixed = { lanes = { cam = 'b' } } }")
        .table("[placement]\ningest = 'a'")
        .stream("cam", &[0], &[20])
        .runs_as(
            "0-10 a ingest 10@0
             10 publish v1 10
             20 bind q0 v1
             20-22 a prefill 2@10
             22-42 a decode 2@12
             42 answer q0 v1 Reuse first 22",
        );
}

#[test]
fn a_handover_holds_both_ends_until_it_is_done() {
    // `b` has 15 tokens: the other frame waits while `cam` is copied out of them.
    toy()
        .set("policy = { fixed = { lanes = { cam = 'a' } } }")
        .table("[limits]\nengine_kv_budget_bytes = { b = 15000 }\n[placement]\ningest = 'b'")
        .table("[modes]\nstate_transfer = 'import'")
        .stream("cam", &[0], &[25])
        .stream("other", &[30], &[])
        .runs_as(
            "0-20 b ingest cam/10@0
             20 publish cam/v1 10
             25 bind cam/q0 v1
             25-47 a import cam/10@0 <b
             47 evict cam/b 10
             47-49 a prefill cam/2@10
             47-67 b ingest other/10@0
             67 publish other/v1 10
             49-69 a decode cam/2@12
             69 answer cam/q0 v1 Import first 49",
        );
}

#[test]
fn a_handover_without_room_for_two_copies_rebuilds() {
    // 18 tokens in all: the copy on `b` makes room for the context on `a`.
    toy()
        .set("policy = { fixed = { lanes = { cam = 'a' } } }")
        .table("[limits]\nkv_budget_bytes = 18000\n[placement]\ningest = 'b'")
        .table("[modes]\nstate_transfer = 'import'")
        .stream("cam", &[0], &[25])
        .runs_as(
            "0-20 b ingest 10@0
             20 publish v1 10
             25 bind q0 v1
             25 evict b 10
             25-35 a reconstruct 10@0
             35-37 a prefill 2@10
             37-57 a decode 2@12
             57 answer q0 v1 Reconstruct first 37",
        );
}

#[test]
fn a_context_rebuilt_in_vain_is_rebuilt_where_it_is_needed() {
    // As above with reuse off: `b` rebuilds it, and then there is no room for a copy on `a`.
    toy()
        .set("policy = { fixed = { lanes = { cam = 'a' } } }")
        .table("[limits]\nkv_budget_bytes = 18000\n[placement]\ningest = 'b'")
        .table("[modes]\ncontext_reuse = false")
        .stream("cam", &[0], &[25])
        .runs_as(
            "0 publish v1 10
             25 bind q0 v1
             25-45 b reconstruct 10@0
             45-55 a reconstruct 10@0
             55-57 a prefill 2@10
             57-77 a decode 2@12
             77 answer q0 v1 Reconstruct first 57",
        );
}

#[test]
fn a_newer_version_of_its_own_stream_makes_way_for_a_request() {
    // The request is bound to version 1; when its lane is free, version 2 takes 20 of 25 tokens, and
    // version 1 with prompt and answer would fit alone.
    two_lanes_of_a()
        .table("[limits]\nkv_budget_bytes = 25000\n[placement]\ningest = 'a2'")
        .table("[context]\nbinding = 'published'")
        .stream_with("cam", &[0, 5], &[12], 8, 3)
        .stream("other", &[], &[0])
        .runs_as(
            "0 bind other/q0 v0
             0-2 a1 prefill other/2@0
             0-10 a2 ingest cam/10@0
             10 publish cam/v1 10
             12 bind cam/q0 v1
             10-20 a2 ingest cam/10@10
             20 publish cam/v2 20
             2-22 a1 decode other/2@2
             22 answer other/q0 v0 Reuse first 2
             22 evict cam/a 20
             22-32 a1 reconstruct cam/10@0
             32-40 a1 prefill cam/8@10
             40-60 a1 decode cam/2@18
             60 answer cam/q0 v1 Reconstruct first 40",
        );
}

#[test]
fn a_version_that_left_the_window_is_read_beside_the_newer_one() {
    // Version 1 is asked for when the window is at version 3: it is prefilled again for its reader, and
    // version 2, which no engine holds, is prefilled again too.
    two_lanes_of_a()
        .table("[placement]\ningest = 'a2'")
        .table("[context]\nbinding = 'published'\nkeep = { window = { frames = 1 } }")
        .stream("cam", &[0, 10, 20], &[10, 20])
        .stream_with("other", &[], &[0], 10, 3)
        .runs_as(
            "0 bind other/q0 v0
             0-10 a1 prefill other/10@0
             0-10 a2 ingest cam/10@0
             10 publish cam/v1 10
             10 bind cam/q0 v1
             10-20 a2 ingest cam/10@10
             20 publish cam/v2 10
             20 bind cam/q1 v2
             10-30 a1 decode other/2@10
             30 answer other/q0 v0 Reuse first 10
             20-30 a2 ingest cam/10@10
             30 publish cam/v3 10
             30-40 a1 reconstruct cam/10@0
             40-42 a1 prefill cam/2@10
             42-62 a1 decode cam/2@12
             62 answer cam/q0 v1 Reconstruct first 42
             62-72 a1 reconstruct cam/10@0
             72-74 a1 prefill cam/2@10
             74-94 a1 decode cam/2@12
             94 answer cam/q1 v2 Reconstruct first 74",
        );
}

#[test]
fn frames_that_wait_for_a_request_do_not_keep_it_waiting() {
    // Only `a` answers and ingests. When it is idle, the frame waits for the ready request, and the
    // policy gives the idle lane to the request.
    toy()
        .costs("prefill = { per_token_s = 0.002 }\n", "")
        .costs(
            "[origins.o]",
            "[engines.b.unsupported]\nprefill = 'cannot'\n[origins.o]",
        )
        .set("policy = 'idle_first'")
        .table("[placement]\ningest = 'a'\n[context]\nbinding = 'published'")
        .table("[modes]\ningest_during_generation = false")
        .stream("cam", &[5], &[0, 6])
        .runs_as(
            "0 bind q0 v0
             0-2 a prefill 2@0
             6 bind q1 v0
             2-22 a decode 2@2
             22 answer q0 v0 Reuse first 2
             22-24 a prefill 2@0
             24-44 a decode 2@2
             44 answer q1 v0 Reuse first 24
             44-54 a ingest 10@0
             54 publish v1 10",
        );
}

#[test]
fn a_user_who_is_refused_and_does_not_think_asks_after_the_next_answer() {
    // He would ask for ever at 0 else. Nobody is lost: both ask as the answer is there.
    on_a()
        .table("[limits]\nmax_requests = 1\n[run]\nhorizon_s = 0.03")
        .queries("cam", "closed_loop = { users = 2, think_s = 0.0 }")
        .runs_as(
            "0 bind q0 v0
             0 refuse q1 queue_full
             0-2 a prefill 2@0
             2-22 a decode 2@2
             22 answer q0 v0 Reuse first 2
             22 bind q2 v0
             22 refuse q3 queue_full
             22-24 a prefill 2@0
             24-44 a decode 2@2
             44 answer q2 v0 Reuse first 24",
        );
    // Who thinks asks again.
    on_a()
        .table("[limits]\nmax_requests = 1\n[run]\nhorizon_s = 0.03")
        .queries("cam", "closed_loop = { users = 2, think_s = 0.023 }")
        .runs_as(
            "0 bind q0 v0
             0 refuse q1 queue_full
             0-2 a prefill 2@0
             2-22 a decode 2@2
             22 answer q0 v0 Reuse first 2
             23 bind q2 v0
             23-25 a prefill 2@0
             25-45 a decode 2@2
             45 answer q2 v0 Reuse first 25",
        );
}

/// Frames are ingested on `b`, and the query of `x` is answered on `a`, which copies its context.
fn handed_to_a(budget: u32) -> Toy {
    toy()
        .set("policy = { fixed = { lanes = { x = 'a' } } }")
        .table("[placement]\ningest = 'b'\n[modes]\nstate_transfer = 'import'")
        .table(&format!("[limits]\nkv_budget_bytes = {budget}"))
        .stream("x", &[0], &[100])
}

/// To see it fail, let `State::make_room_by_evicting` begin with `needed` alone.
#[test]
fn what_is_to_be_copied_is_not_evicted_for_its_copy() {
    // 20 tokens are held and 15 are needed, of 30: `y` is the newer one, but goes.
    handed_to_a(30_000).stream("y", &[30], &[]).runs_as(
        "0-20 b ingest x/10@0
         20 publish x/v1 10
         30-50 b ingest y/10@0
         50 publish y/v1 10
         100 bind x/q0 v1
         100 evict y/b 10
         100-122 a import x/10@0 <b
         122-124 a prefill x/2@10
         124-144 a decode x/2@12
         144 answer x/q0 v1 Import first 124",
    );
    // With nothing else to evict the context is rebuilt.
    handed_to_a(19_000).runs_as(
        "0-20 b ingest 10@0
         20 publish v1 10
         100 bind q0 v1
         100 evict b 10
         100-110 a reconstruct 10@0
         110-112 a prefill 2@10
         112-132 a decode 2@12
         132 answer q0 v1 Reconstruct first 112",
    );
}
