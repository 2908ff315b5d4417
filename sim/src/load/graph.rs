//! A model's stage graphs: acyclic, complete, and in an order that does not depend on the file's.

use petgraph::algo::{has_path_connecting, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};

use super::document::Place;
use super::file::File;
use super::{names, suggest};
use crate::diag::Diagnostic;
use crate::spec::model::{ModelFile, StageKind, StageNode};
use crate::world::{Graph, STAGES_MAX, Stage, StageId, TransferStages};

/// Names of the stages that every model has.
pub(super) const RESERVED: [(&str, StageKind); 3] = [
    ("export", StageKind::Export),
    ("import", StageKind::Import),
    ("reconstruct", StageKind::Reconstruct),
];

/// All stages of a model.
#[derive(Debug)]
pub(super) struct Stages {
    /// By [`StageId`].
    pub(super) list: Vec<Stage>,
    pub(super) frame: Graph,
    pub(super) query: Graph,
    pub(super) transfer: TransferStages,
}

impl Stages {
    /// The stage called `name`.
    pub(super) fn find(&self, name: &str) -> Option<StageId> {
        let at = self.list.iter().position(|stage| stage.name == name)?;
        Some(StageId(at as u8))
    }

    /// All names.
    pub(super) fn names(&self) -> Vec<&str> {
        self.list.iter().map(|stage| stage.name.as_str()).collect()
    }

    /// The stages of a query that run on the lane that holds it.
    pub(super) fn bound(&self) -> [StageId; 2] {
        let query = &self.query;
        [query.bound_at, query.bound_end].map(|position| query.stages[position as usize])
    }

    /// A stage.
    pub(super) fn get(&self, id: StageId) -> &Stage {
        &self.list[id.0 as usize]
    }
}

/// Which of the two graphs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Frame,
    Query,
}

impl Side {
    fn noun(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Query => "query",
        }
    }

    /// Kinds that each graph has exactly once, the bound stage first and the sink last.
    fn single(self) -> &'static [(StageKind, &'static str)] {
        match self {
            Self::Frame => &[(StageKind::Ingest, "ingest")],
            Self::Query => &[
                (StageKind::QueryPrefill, "query_prefill"),
                (StageKind::Decode, "decode"),
            ],
        }
    }

    fn allows(self, kind: StageKind) -> bool {
        match kind {
            StageKind::Encode | StageKind::Project | StageKind::Ingest => self == Self::Frame,
            StageKind::QueryPrefill | StageKind::Decode => self == Self::Query,
            StageKind::Custom => true,
            StageKind::Export | StageKind::Import | StageKind::Reconstruct => false,
        }
    }
}

/// Checks both graphs and puts them in order.
pub(super) fn lower(file: &File<ModelFile>, faults: &mut Vec<Diagnostic>) -> Option<Stages> {
    let before = faults.len();
    let root = file.root();
    let (frame_place, query_place) = (root.key("frame_stages"), root.key("query_stages"));
    let (frames, queries) = (&file.raw.frame_stages, &file.raw.query_stages);
    check_names(&frame_place, frames, &[], faults);
    check_names(&query_place, queries, frames, faults);
    let total = frames.len() + queries.len() + RESERVED.len();
    if total > STAGES_MAX {
        let most = STAGES_MAX - RESERVED.len();
        faults.push(root.key("frame_stages").key_fault(
            format!("model has {} stages", frames.len() + queries.len()),
            format!("at most {most} in both graphs"),
        ));
    }
    check_edges(&frame_place, frames, queries, faults);
    check_edges(&query_place, queries, frames, faults);
    let frame = order(&frame_place, Side::Frame, frames, faults);
    let query = order(&query_place, Side::Query, queries, faults);
    let (frame, query) = (frame?, query?);
    if faults.len() > before {
        return None;
    }
    let mut list = Vec::new();
    let frame = graph(frames, &frame, &mut list);
    let query = graph(queries, &query, &mut list);
    let base = list.len() as u8;
    for (name, kind) in RESERVED {
        list.push(Stage {
            name: name.to_owned(),
            kind,
        });
    }
    Some(Stages {
        list,
        frame,
        query,
        transfer: TransferStages {
            export: StageId(base),
            import: StageId(base + 1),
            reconstruct: StageId(base + 2),
        },
    })
}

fn check_names(
    place: &Place<'_>,
    nodes: &[StageNode],
    others: &[StageNode],
    faults: &mut Vec<Diagnostic>,
) {
    for (index, node) in nodes.iter().enumerate() {
        let name_place = place.index(index).key("name");
        let name = &node.name;
        names::check(&name_place, "stage", name, faults);
        if RESERVED.iter().any(|(reserved, _)| reserved == name) {
            faults.push(
                name_place
                    .fault(
                        format!("stage name `{name}` is reserved"),
                        "every model has this stage",
                    )
                    .help("rename it; the cost file states what the reserved stages cost"),
            );
        }
        if nodes[..index].iter().chain(others).any(|n| n.name == *name) {
            faults.push(
                name_place
                    .fault(
                        format!("two stages are called `{name}`"),
                        "second of the name",
                    )
                    .help("names are keys of the cost file: give each stage its own"),
            );
        }
    }
}

fn check_edges(
    place: &Place<'_>,
    nodes: &[StageNode],
    others: &[StageNode],
    faults: &mut Vec<Diagnostic>,
) {
    for (index, node) in nodes.iter().enumerate() {
        for (edge, name) in node.after.iter().enumerate() {
            let edge_place = place.index(index).key("after").index(edge);
            if node.after[..edge].contains(name) {
                faults.push(edge_place.fault(
                    format!("stage `{}` waits for `{name}` twice", node.name),
                    "has no effect",
                ));
            }
            if nodes.iter().any(|other| other.name == *name) {
                continue;
            }
            let fault = edge_place.fault(
                format!("stage `{}` waits for unknown stage `{name}`", node.name),
                "no such stage in this graph",
            );
            let known = nodes.iter().map(|other| other.name.as_str());
            faults.push(if others.iter().any(|other| other.name == *name) {
                fault.help(format!(
                    "`{name}` is a stage of the other graph; a frame's and a query's stages meet only in the context"
                ))
            } else {
                fault.help(suggest::hint(name, "stages here", known))
            });
        }
    }
}

/// Nodes in topological order, ties by name, all that the bound stage does not wait for or lead to
/// first; with the positions of the first and last bound stage.
struct Order {
    nodes: Vec<usize>,
    bound_at: usize,
    bound_end: usize,
}

fn order(
    place: &Place<'_>,
    side: Side,
    nodes: &[StageNode],
    faults: &mut Vec<Diagnostic>,
) -> Option<Order> {
    let ends = ends(place, side, nodes, faults);
    let mut graph = DiGraph::<(), ()>::new();
    let ids: Vec<NodeIndex> = nodes.iter().map(|_| graph.add_node(())).collect();
    let find = |name: &str| nodes.iter().position(|node| node.name == name);
    for (index, node) in nodes.iter().enumerate() {
        for from in node.after.iter().filter_map(|name| find(name)) {
            graph.add_edge(ids[from], ids[index], ());
        }
    }
    if let Some(fault) = cycle(place, nodes, &graph) {
        faults.push(fault);
        return None;
    }
    let (&bound, &sink) = (ends.first()?, ends.last()?);
    if ends.len() != side.single().len() {
        return None;
    }
    let leads = |from: usize, to: usize| has_path_connecting(&graph, ids[from], ids[to], None);
    if !leads(bound, sink) {
        faults.push(
            place
                .index(sink)
                .key_fault(
                    "`decode` does not wait for `query_prefill`",
                    "must come after it",
                )
                .help(format!("add `after = [\"{}\"]`", nodes[bound].name)),
        );
    }
    for index in (0..nodes.len()).filter(|&index| index != bound && !leads(index, sink)) {
        if leads(sink, index) {
            // To name it in an `after` on the way there would make a cycle.
            let (name, last) = (&nodes[index].name, &nodes[sink].name);
            faults.push(
                place
                    .index(index)
                    .key("after")
                    .fault(
                        format!("stage `{name}` comes after `{last}`"),
                        "its result is never used",
                    )
                    .help(format!(
                        "`{last}` is the last stage: let `{name}` wait for an earlier one and name it in an `after` on the way to `{last}`, or leave it out"
                    )),
            );
            continue;
        }
        faults.push(
            place
                .index(index)
                .key("name")
                .fault(
                    format!(
                        "stage `{}` does not lead to `{}`",
                        nodes[index].name, nodes[sink].name
                    ),
                    "its result is never used",
                )
                .help(format!(
                    "name it in the `after` of `{}` or of a stage that leads there",
                    nodes[sink].name
                )),
        );
    }

    let mut sorted: Vec<usize> = Vec::new();
    while sorted.len() < nodes.len() {
        let next = (0..nodes.len())
            .filter(|index| !sorted.contains(index))
            .filter(|&index| {
                let mut after = nodes[index].after.iter().filter_map(|name| find(name));
                after.all(|from| sorted.contains(&from))
            })
            .min_by_key(|&index| (leads(bound, index), &nodes[index].name))?;
        sorted.push(next);
    }
    let position = |node: usize| sorted.iter().position(|&other| other == node);
    let (bound_at, bound_end) = (position(bound)?, position(sink)?);
    Some(Order {
        nodes: sorted,
        bound_at,
        bound_end,
    })
}

/// The stages of the kinds that a graph has once, in order; checks that each is there once and that no
/// other kind is.
fn ends(
    place: &Place<'_>,
    side: Side,
    nodes: &[StageNode],
    faults: &mut Vec<Diagnostic>,
) -> Vec<usize> {
    for (index, node) in nodes.iter().enumerate() {
        if !side.allows(node.kind) {
            let kind_place = place.index(index).key("kind");
            let kind = kind_place.text().unwrap_or_default();
            faults.push(kind_place.fault(
                format!("a {}'s stage cannot be of kind `{kind}`", side.noun()),
                match side {
                    Side::Frame => "one of `encode`, `project`, `ingest`, `custom`",
                    Side::Query => "one of `query_prefill`, `decode`, `custom`",
                },
            ));
        }
    }
    let mut ends = Vec::new();
    for &(kind, word) in side.single() {
        let found: Vec<usize> = (0..nodes.len())
            .filter(|&i| nodes[i].kind == kind)
            .collect();
        match found.as_slice() {
            [only] => ends.push(*only),
            [] => faults.push(
                place
                    .key_fault(
                        format!("a {} has no stage of kind `{word}`", side.noun()),
                        "exactly one is needed",
                    )
                    .help(format!("add `{{ name = \"{word}\", kind = \"{word}\" }}`")),
            ),
            [_, more @ ..] => faults.extend(more.iter().map(|&index| {
                place.index(index).key("kind").fault(
                    format!(
                        "a {} has {} stages of kind `{word}`",
                        side.noun(),
                        found.len()
                    ),
                    "exactly one is allowed",
                )
            })),
        }
    }
    ends
}

/// A fault that names a cycle, if there is one.
fn cycle(place: &Place<'_>, nodes: &[StageNode], graph: &DiGraph<(), ()>) -> Option<Diagnostic> {
    let knot = tarjan_scc(graph)
        .into_iter()
        .find(|scc| scc.len() > 1 || graph.contains_edge(scc[0], scc[0]))?;
    // Walk from the smallest name within the knot, always to the smallest name, until a stage repeats.
    let name = |id: &NodeIndex| nodes[id.index()].name.as_str();
    let mut walk = vec![*knot.iter().min_by_key(|id| name(id))?];
    let start = loop {
        let here = *walk.last()?;
        let next = graph
            .neighbors(here)
            .filter(|id| knot.contains(id))
            .min_by_key(|id| name(id))?;
        if let Some(start) = walk.iter().position(|id| *id == next) {
            break start;
        }
        walk.push(next);
    };
    let mut names: Vec<String> = walk[start..]
        .iter()
        .map(|id| format!("`{}`", name(id)))
        .collect();
    names.push(names.first()?.clone());
    Some(
        place
            .index(walk[start].index())
            .key("after")
            .key_fault(
                format!("stages wait for each other: {}", names.join(" → ")),
                "part of the cycle",
            )
            .help("remove one of these `after`"),
    )
}

fn graph(nodes: &[StageNode], order: &Order, list: &mut Vec<Stage>) -> Graph {
    let base = list.len();
    let position = |name: &String| {
        order
            .nodes
            .iter()
            .position(|&node| nodes[node].name == *name)
    };
    let bound = (1 << order.bound_at) | (1 << order.bound_end);
    let all = order.nodes.iter().fold(0, |all, _| all << 1 | 1);
    let mut graph = Graph {
        stages: Vec::new(),
        after: Vec::new(),
        bound_at: order.bound_at as u8,
        bound_end: order.bound_end as u8,
        bound,
        free: all & !bound,
    };
    for (at, &node) in order.nodes.iter().enumerate() {
        let StageNode { name, kind, after } = &nodes[node];
        list.push(Stage {
            name: name.clone(),
            kind: *kind,
        });
        graph.stages.push(StageId((base + at) as u8));
        let mask = after.iter().filter_map(position).fold(0, |m, p| m | 1 << p);
        graph.after.push(mask);
    }
    graph
}
