//! The values that a script holds, and what it can ask of them. docs/policies.md lists them; a test holds the two
//! together.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rhai::{
    Array, CustomType, Dynamic, Engine as Interpreter, EvalAltResult, ImmutableString, Map,
    NativeCallContext, Position, TypeBuilder,
};

use super::facts::{Asked, Candidate, Engine, FOREVER, Facts, Lane, Queued, Stream};
use crate::time::Duration;

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct ViewValue(pub(super) Arc<Facts>);
/// What is to be placed.
#[derive(Clone, Debug)]
pub(super) struct RequestValue(pub(super) Arc<Facts>);
/// A lane that may take it, by its place in [`Facts::candidates`].
#[derive(Clone, Debug)]
pub(super) struct CandidateValue(pub(super) Arc<Facts>, pub(super) u8);
/// A lane.
#[derive(Clone, Debug)]
struct LaneValue(Arc<Facts>, u8);
/// An engine.
#[derive(Clone, Debug)]
struct EngineValue(Arc<Facts>, u8);
/// A stream.
#[derive(Clone, Debug)]
struct StreamValue(Arc<Facts>, u16);
/// What a lane holds (`None`) or what waits for it, by its place in the queue.
#[derive(Clone, Debug)]
struct ItemValue(Arc<Facts>, u8, Option<usize>);

/// A list that is as long as the load makes it, and is never copied: the limit on lists is none on it.
#[derive(Clone, Debug)]
enum ListValue {
    Streams(Arc<Facts>),
    /// What waits for a lane.
    Queue(Arc<Facts>, u8),
}

/// What `decide` decides.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// A candidate, and for how long its lane will be busy if not as alone.
    Place(u8, Option<Duration>),
    /// Ask again later; others may go first.
    Wait,
    /// Ask again later, also for those behind.
    WaitAll,
}

/// The parameters that the scenario gives.
#[derive(Clone, Debug)]
pub(super) struct Params(pub(super) Arc<Map>);

/// What goes with a call of the script as its tag.
#[derive(Clone, Debug)]
pub(super) struct Call {
    params: Params,
    /// How many variables it has read.
    reads: Arc<AtomicU64>,
    /// The read at which it ends with an error.
    until: u64,
}

impl Call {
    pub(super) fn new(params: Params) -> Self {
        Self {
            params,
            reads: Arc::default(),
            until: u64::MAX,
        }
    }

    /// The same call, to end where it has read as much as it did: there it went wrong.
    pub(super) fn again(&self) -> Self {
        Self {
            params: self.params.clone(),
            reads: Arc::default(),
            until: self.reads.load(Relaxed),
        }
    }

    pub(super) fn of(tag: &Dynamic) -> Option<impl Deref<Target = Self>> {
        tag.read_lock::<Self>()
    }

    /// A variable is read.
    pub(super) fn read(&self) -> Result<(), Raised> {
        if self.reads.fetch_add(1, Relaxed) + 1 == self.until {
            return Err(raised(String::new()));
        }
        Ok(())
    }
}

type Raised = Box<EvalAltResult>;

#[expect(
    clippy::unnecessary_box_returns,
    reason = "what registered functions return"
)]
fn raised(message: String) -> Raised {
    EvalAltResult::ErrorRuntime(message.into(), Position::NONE).into()
}

/// `None` as `()`.
fn maybe(value: Option<impl Into<Dynamic>>) -> Dynamic {
    value.map_or(Dynamic::UNIT, Into::into)
}

pub(super) fn candidates(facts: &Arc<Facts>) -> Array {
    let all = 0..facts.candidates.len() as u8;
    all.map(|at| Dynamic::from(CandidateValue(Arc::clone(facts), at)))
        .collect()
}

impl CandidateValue {
    fn get(&self) -> &Candidate {
        &self.0.candidates[self.1 as usize]
    }
}

impl LaneValue {
    fn get(&self) -> &Lane {
        &self.0.lanes[self.1 as usize]
    }
}

impl EngineValue {
    fn get(&self) -> &Engine {
        &self.0.engines[self.1 as usize]
    }

    fn resident(&self, stream: &str) -> Result<Option<(i64, i64)>, Raised> {
        let at = named(&self.0.names.streams, "stream", stream)?;
        Ok(self.get().residents.get(at).copied().flatten())
    }
}

impl StreamValue {
    fn get(&self) -> Result<&Stream, Raised> {
        let stream = self.0.streams.get(self.1 as usize);
        stream.ok_or_else(|| raised("the stream's context was not worked out".to_owned()))
    }
}

impl ItemValue {
    fn get(&self) -> Result<&Queued, Raised> {
        let lane = &self.0.lanes[self.1 as usize];
        let item = match self.2 {
            Some(at) => lane.queue.get(at),
            None => lane.held.as_ref(),
        };
        item.ok_or_else(|| raised("the item is gone".to_owned()))
    }
}

impl ListValue {
    fn len(&self) -> usize {
        match self {
            Self::Streams(facts) => facts.names.streams.len(),
            Self::Queue(facts, lane) => facts.lanes[*lane as usize].queue.len(),
        }
    }

    fn count(&self) -> i64 {
        i64::try_from(self.len()).unwrap_or(i64::MAX)
    }

    fn at(&self, at: usize) -> Dynamic {
        match self {
            Self::Streams(facts) => Dynamic::from(StreamValue(Arc::clone(facts), at as u16)),
            Self::Queue(facts, lane) => {
                Dynamic::from(ItemValue(Arc::clone(facts), *lane, Some(at)))
            }
        }
    }
}

#[expect(
    clippy::unnecessary_box_returns,
    reason = "what registered functions return"
)]
fn beyond(at: i64, count: i64) -> Raised {
    raised(format!("there is no entry {at} in a list of {count}"))
}

impl IntoIterator for ListValue {
    type Item = Dynamic;
    type IntoIter = Box<dyn Iterator<Item = Dynamic>>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new((0..self.len()).map(move |at| self.at(at)))
    }
}

impl CustomType for ListValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        let len = |list: &mut Self| list.count();
        builder
            .with_name("List")
            .is_iterable()
            .with_indexer_get(|list: &mut Self, at: i64| {
                let count = list.count();
                // As in a list of the language, −1 is the last.
                let from_start = if at < 0 { at + count } else { at };
                match usize::try_from(from_start) {
                    Ok(at) if at < list.len() => Ok(list.at(at)),
                    _ => Err(beyond(at, count)),
                }
            })
            .with_get("len", len)
            .with_fn("len", len)
            .with_fn("is_empty", |list: &mut Self| list.len() == 0);
    }
}

/// The place of a name among names.
fn named(names: &[ImmutableString], what: &str, name: &str) -> Result<usize, Raised> {
    let found = names.iter().position(|known| known == name);
    found.ok_or_else(|| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        raised(format!("there is no {what} `{name}`: {}", names.join(", ")))
    })
}

pub(super) fn register(engine: &mut Interpreter) {
    engine
        .build_type::<ViewValue>()
        .build_type::<RequestValue>()
        .build_type::<CandidateValue>()
        .build_type::<LaneValue>()
        .build_type::<EngineValue>()
        .build_type::<StreamValue>()
        .build_type::<ItemValue>()
        .build_type::<ListValue>()
        .register_type_with_name::<Verdict>("Decision")
        .register_fn("place", |candidate: CandidateValue| {
            Verdict::Place(candidate.1, None)
        })
        .register_fn("place", |candidate: CandidateValue, busy_ns: i64| {
            let busy = u64::try_from(busy_ns)
                .map_err(|_| raised(format!("`place`: the lane cannot be busy for {busy_ns} ns")))?;
            Ok::<_, Raised>(Verdict::Place(candidate.1, Some(Duration(busy))))
        })
        .register_fn("wait", || Verdict::Wait)
        .register_fn("wait_all", || Verdict::WaitAll)
        .register_fn("param", |context: NativeCallContext<'_>, name: &str| {
            let params = params(&context)?;
            params.0.get(name).cloned().ok_or_else(|| {
                let known: Vec<String> = params.0.keys().map(|name| format!("`{name}`")).collect();
                raised(if known.is_empty() {
                    format!("the scenario gives no parameter `{name}`: write `params = {{ {name} = … }}` beside `script`, or `param(\"{name}\", default)`")
                } else {
                    format!("the scenario gives no parameter `{name}`, only {}", known.join(", "))
                })
            })
        })
        .register_fn(
            "param",
            |context: NativeCallContext<'_>, name: &str, default: Dynamic| {
                let params = params(&context)?;
                Ok::<_, Raised>(params.0.get(name).cloned().unwrap_or(default))
            },
        );
}

fn params(context: &NativeCallContext<'_>) -> Result<Params, Raised> {
    let call = context.tag().and_then(Call::of);
    let params = call.map(|call| call.params.clone());
    params.ok_or_else(|| raised("parameters are known within calls only".to_owned()))
}

impl CustomType for ViewValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        fn list<T: Clone + Send + Sync + 'static>(
            facts: &Arc<Facts>,
            count: usize,
            value: impl Fn(Arc<Facts>, usize) -> T,
        ) -> Array {
            (0..count)
                .map(|at| Dynamic::from(value(Arc::clone(facts), at)))
                .collect()
        }
        builder
            .with_name("View")
            .with_get("now_ns", |v: &mut Self| v.0.now)
            .with_get("ready", |v: &mut Self| v.0.ready)
            .with_get("requests", |v: &mut Self| v.0.requests)
            .with_get("kv_used_bytes", |v: &mut Self| v.0.kv_used)
            .with_get("kv_budget_bytes", |v: &mut Self| v.0.kv_budget)
            .with_get("throttle_steps", |v: &mut Self| v.0.throttle)
            .with_get("forever_ns", |_: &mut Self| FOREVER)
            .with_get("lanes", |v: &mut Self| {
                list(&v.0, v.0.lanes.len(), |facts, at| {
                    LaneValue(facts, at as u8)
                })
            })
            .with_get("engines", |v: &mut Self| {
                list(&v.0, v.0.engines.len(), |facts, at| {
                    EngineValue(facts, at as u8)
                })
            })
            .with_get("streams", |v: &mut Self| {
                ListValue::Streams(Arc::clone(&v.0))
            })
            .with_fn("lane", |v: &mut Self, name: &str| {
                let at = named(&v.0.names.lanes, "lane", name)?;
                Ok::<_, Raised>(LaneValue(Arc::clone(&v.0), at as u8))
            })
            .with_fn("engine", |v: &mut Self, name: &str| {
                let at = named(&v.0.names.engines, "engine", name)?;
                Ok::<_, Raised>(EngineValue(Arc::clone(&v.0), at as u8))
            })
            .with_fn("stream", |v: &mut Self, name: &str| {
                let at = named(&v.0.names.streams, "stream", name)?;
                Ok::<_, Raised>(StreamValue(Arc::clone(&v.0), at as u16))
            })
            .with_fn(
                "stage_ns",
                |v: &mut Self, engine: &str, stage: &str, size: i64, context: i64| {
                    if size < 0 || context < 0 {
                        let what = format!("`stage_ns`: neither size ({size}) nor context ({context}) may be below 0");
                        return Err(raised(what));
                    }
                    let engine = named(&v.0.names.engines, "engine", engine)?;
                    let stage = named(&v.0.names.stages, "stage", stage)?;
                    let time = v.0.stage_ns(engine, stage, size as f64, context as f64);
                    Ok::<_, Raised>(maybe(time))
                },
            );
    }
}

impl RequestValue {
    fn get(&self) -> &Asked {
        &self.0.request
    }
}

impl CustomType for RequestValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        builder
            .with_name("Request")
            .with_get("stream", |r: &mut Self| {
                r.0.names.streams[r.get().stream as usize].clone()
            })
            .with_get("index", |r: &mut Self| r.get().index)
            .with_get("kind", |r: &mut Self| ImmutableString::from(r.get().kind))
            .with_get("arrived_ns", |r: &mut Self| r.get().arrived)
            .with_get("deadline_ns", |r: &mut Self| maybe(r.get().deadline))
            .with_get("prompt_tokens", |r: &mut Self| r.get().prompt)
            .with_get("predicted_tokens", |r: &mut Self| r.get().predicted)
            .with_get("max_output_tokens", |r: &mut Self| r.get().max_output)
            .with_get("ingest_tokens", |r: &mut Self| r.get().tokens)
            .with_get("version", |r: &mut Self| r.get().version)
            .with_get("context_tokens", |r: &mut Self| r.get().context);
    }
}

impl CustomType for CandidateValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        builder
            .with_name("Candidate")
            .with_get("lane", |c: &mut Self| {
                LaneValue(Arc::clone(&c.0), c.get().lane.0)
            })
            .with_get("wait_ns", |c: &mut Self| c.get().wait)
            .with_get("prepare_ns", |c: &mut Self| c.get().prepare)
            .with_get("prefill_ns", |c: &mut Self| c.get().prefill)
            .with_get("decode_ns", |c: &mut Self| {
                let candidate = c.get();
                candidate.alone.saturating_sub(candidate.prefill)
            })
            .with_get("alone_ns", |c: &mut Self| c.get().alone)
            .with_get("beside_ns", |c: &mut Self| c.get().beside)
            .with_get("harm_ns", |c: &mut Self| c.get().harm)
            .with_get("missing_tokens", |c: &mut Self| c.get().missing)
            .with_get("preparation", |c: &mut Self| {
                ImmutableString::from(c.get().preparation)
            })
            .with_get("import_ns", |c: &mut Self| maybe(c.get().import))
            .with_get("reconstruct_ns", |c: &mut Self| maybe(c.get().reconstruct));
    }
}

impl CustomType for LaneValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        builder
            .with_name("Lane")
            .with_get("name", |l: &mut Self| l.0.names.lanes[l.1 as usize].clone())
            .with_get("index", |l: &mut Self| i64::from(l.1))
            .with_get("engine", |l: &mut Self| {
                EngineValue(Arc::clone(&l.0), l.get().engine)
            })
            .with_get("in_service", |l: &mut Self| l.get().in_service)
            .with_get("idle", |l: &mut Self| l.get().idle)
            .with_get("free", |l: &mut Self| l.get().free)
            .with_get("stage", |l: &mut Self| {
                let stage = l.get().stage;
                maybe(stage.map(|stage| l.0.names.stages[stage as usize].clone()))
            })
            .with_get("held", |l: &mut Self| {
                let held = l.get().held.is_some();
                let item = held.then(|| ItemValue(Arc::clone(&l.0), l.1, None));
                item.map_or(Dynamic::UNIT, Dynamic::from)
            })
            .with_get("left_ns", |l: &mut Self| l.get().left)
            .with_get("queued_ns", |l: &mut Self| l.get().queued)
            .with_get("backlog_ns", |l: &mut Self| l.get().backlog)
            .with_get("queries", |l: &mut Self| l.get().queries)
            .with_get("frames", |l: &mut Self| l.get().frames)
            .with_get("intensity", |l: &mut Self| l.get().intensity)
            .with_get("queue", |l: &mut Self| {
                ListValue::Queue(Arc::clone(&l.0), l.1)
            });
    }
}

impl CustomType for ItemValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        builder
            .with_name("Item")
            .with_get("stream", |i: &mut Self| {
                Ok::<_, Raised>(i.0.names.streams[i.get()?.stream as usize].clone())
            })
            .with_get("index", |i: &mut Self| Ok::<_, Raised>(i.get()?.index))
            .with_get("kind", |i: &mut Self| {
                Ok::<_, Raised>(ImmutableString::from(i.get()?.kind))
            })
            .with_get("arrived_ns", |i: &mut Self| {
                Ok::<_, Raised>(i.get()?.arrived)
            })
            .with_get("expected_ns", |i: &mut Self| {
                Ok::<_, Raised>(i.get()?.expected)
            })
            .with_get("deadline_ns", |i: &mut Self| {
                Ok::<_, Raised>(maybe(i.get()?.deadline))
            })
            .with_get("predicted_tokens", |i: &mut Self| {
                Ok::<_, Raised>(i.get()?.predicted)
            });
    }
}

impl CustomType for EngineValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        builder
            .with_name("Engine")
            .with_get("name", |e: &mut Self| {
                e.0.names.engines[e.1 as usize].clone()
            })
            .with_get("kind", |e: &mut Self| {
                e.0.names.engine_kinds[e.1 as usize].clone()
            })
            .with_get("in_service", |e: &mut Self| e.get().in_service)
            .with_get("idle_w", |e: &mut Self| maybe(e.get().idle_w))
            .with_get("active_w", |e: &mut Self| maybe(e.get().active_w))
            .with_get("kv_used_bytes", |e: &mut Self| e.get().kv_used)
            .with_get("kv_budget_bytes", |e: &mut Self| e.get().kv_budget)
            .with_get("slowdown", |e: &mut Self| e.get().stretch)
            .with_fn("resident_tokens", |e: &mut Self, stream: &str| {
                Ok::<_, Raised>(e.resident(stream)?.map_or(0, |(_, tokens)| tokens))
            })
            .with_fn("resident_version", |e: &mut Self, stream: &str| {
                Ok::<_, Raised>(maybe(e.resident(stream)?.map(|(version, _)| version)))
            });
    }
}

impl CustomType for StreamValue {
    fn build(mut builder: TypeBuilder<'_, Self>) {
        builder
            .with_name("Stream")
            .with_get("name", |s: &mut Self| {
                s.0.names.streams[s.1 as usize].clone()
            })
            .with_get("published", |s: &mut Self| {
                Ok::<_, Raised>(s.get()?.published)
            })
            .with_get("published_tokens", |s: &mut Self| {
                Ok::<_, Raised>(s.get()?.published_tokens)
            })
            .with_get("accepted", |s: &mut Self| {
                Ok::<_, Raised>(s.get()?.accepted)
            })
            .with_get("pending_frames", |s: &mut Self| {
                Ok::<_, Raised>(s.get()?.pending_frames)
            })
            .with_get("ready_queries", |s: &mut Self| {
                Ok::<_, Raised>(s.get()?.ready_queries)
            });
    }
}
