//! Plans and needs as text, and a map of what is feasible.

use std::fmt::Write as _;

use reports::plot::{Cell, Map};
use screen::{Head, Table, hanging, paragraph};
use sim::metrics::Metric as Number;

use super::axis::Axis;
use super::need::Needs;
use super::probe::{Probe, Verdict};
use super::scale::Resource;
use super::search::Range;
use super::target::{Metric, Target};
use super::{Buys, Doubt, Drawn, Plan, Rise};

/// A number in at most four digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e6 {
        return format!("{value}");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A metric's value with its unit.
fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Share(_) => format!("{} %", short(100.0 * value)),
        Metric::Of(Number::PeakMemory) => format!("{} GB", short(value / 1e9)),
        other @ Metric::Of(_) => format!("{} {}", short(value), other.unit()),
    }
}

/// The edge in words, true to every load that was looked at.
fn edge(plan: &Plan) -> String {
    let (axis, edge) = (plan.axis, &plan.edge);
    let Range {
        low: from,
        high: to,
    } = edge.range;
    let unit = axis.unit();
    let unclear = |inside: &dyn Fn(f64) -> bool| {
        let all = edge.probes.iter();
        let list: Vec<f64> = all
            .filter(|probe| probe.verdict == Verdict::Unclear && inside(probe.load))
            .map(|probe| probe.load)
            .collect();
        match list.as_slice() {
            [] => None,
            [one] => Some(short(*one)),
            [first, .., last] => Some(format!("{} to {}", short(*first), short(*last))),
        }
    };
    let missed = |probe: &Probe| probe.verdict == Verdict::Misses;
    match (edge.meets, edge.misses) {
        (Some(low), Some(high)) => format!(
            "{} {unit} meet every target; {} miss one{}",
            short(low),
            short(high),
            if axis.whole() && high > low + 1.0 {
                ", and between them replications do not tell"
            } else {
                ""
            }
        ),
        (Some(low), None) if from == to => format!("{} {unit} meet every target", short(low)),
        (Some(low), None) => {
            let beyond = match unclear(&|load| load > low) {
                Some(list) => format!("of larger loads replications do not tell ({list})"),
                None => "no larger load was seen to miss one".to_owned(),
            };
            let end = plan.reach.clone().unwrap_or_else(|| {
                format!("`--to` would lead beyond {}", short(to))
            });
            format!("{} {unit} meet every target, and {beyond}; the range ended there: {end}", short(low))
        }
        (None, Some(high)) => match unclear(&|load| load < high) {
            Some(list) => format!(
                "no load was seen to meet the targets: {} {unit} miss one, and of less ({list}) replications do not tell",
                short(high)
            ),
            None => match edge.probes.as_slice() {
                [first, .., last] if edge.probes.iter().all(missed) => format!(
                    "no load meets the targets: all that were tried, {} to {} {unit}, miss one",
                    short(first.load),
                    short(last.load)
                ),
                _ => match unclear(&|load| load > high) {
                    Some(list) => format!(
                        "no load is seen to meet the targets: the least that was tried, {} ({unit}), misses one, and of larger ones ({list}) replications do not tell",
                        short(high)
                    ),
                    None => format!(
                        "no load meets the targets: the least that was tried, {} ({unit}), misses one",
                        short(high)
                    ),
                },
            },
        },
        (None, None) => "no load is seen to meet the targets, and none to miss one: the intervals are too wide (--replications)".to_owned(),
    }
}

/// A metric that rises with the length of the runs; `at` says where, `meets` whether that end meets the targets.
fn rise(targets: &[Target], rise: &Rise, at: &str, meets: bool) -> String {
    let of = targets.iter().find(|target| target.text == rise.target);
    let value = |value| of.map_or_else(String::new, |target| shown(target.metric, value));
    format!(
        "at {at} `{}` is {} in runs of {} s and {} in runs of {} s{}: {}{}",
        of.map_or_else(String::new, |target| target.metric.to_string()),
        value(rise.means.0),
        short(rise.run_s),
        value(rise.means.1),
        short(rise.longer_s),
        if rise.verdict == Verdict::Misses && meets {
            ", which miss a target"
        } else {
            ""
        },
        if meets {
            "the edge holds for the former; "
        } else {
            ""
        },
        rise.cause
    )
}

/// What was simulated, one load a row.
fn probes(axis: Axis, targets: &[Target], probes: &[Probe]) -> Table {
    let refused = probes.iter().any(|probe| probe.refused.is_some());
    let mut heads = vec![Head::number(axis.unit()), Head::text("")];
    heads.extend(
        targets
            .iter()
            .map(|target| Head::number(target.metric.to_string())),
    );
    heads.extend(refused.then(|| Head::text("refused")));
    let mut table = Table::new(heads);
    for probe in probes {
        let mut row = vec![short(probe.load), probe.verdict.word().to_owned()];
        for at in 0..targets.len() {
            let Some((target, held)) = targets.get(at).zip(probe.held.get(at)) else {
                row.push(String::new());
                continue;
            };
            let value = held.value.map_or_else(
                || "none".to_owned(),
                |value| {
                    let half = value.half_width.map_or_else(String::new, |half| {
                        format!(" ± {}", shown(target.metric, half))
                    });
                    format!("{}{half}", shown(target.metric, value.mean))
                },
            );
            row.push(held.reason.clone().unwrap_or(value));
        }
        row.extend(probe.refused.clone());
        table.row(row);
    }
    table
}

/// What 1 % more of each resource buys.
fn sensitivity(list: &[Buys]) -> Table {
    let mut table = Table::new([
        Head::text("1 % more of"),
        Head::number("metric"),
        Head::number("load"),
    ]);
    for buys in list {
        let metric = buys.metric.map_or_else(
            || "no value".to_owned(),
            |change| match change.half_width {
                Some(half) => format!("{:+.2} ± {half:.2} %", change.mean),
                None => format!("{:+.2} %", change.mean),
            },
        );
        let load = buys.load.map_or_else(
            || if buys.tells() { "no load" } else { "not told" }.to_owned(),
            |load| format!("{load:+.2} %"),
        );
        table.row([buys.resource.to_string(), metric, load]);
    }
    table
}

/// Plans as text: one in full, several side by side and then each.
pub fn table(plans: &[Plan], refused: &[(String, String)]) -> String {
    let mut out = String::new();
    if plans.len() + refused.len() > 1 {
        let axis = plans.first().map_or("load", |plan| plan.axis.unit());
        let number = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), short);
        let mut rows = Table::new([
            Head::text(axis),
            Head::number("meets"),
            Head::number("misses"),
            Head::text("limited by"),
        ]);
        for plan in plans {
            let by = plan.limits.as_ref().map_or("", |limits| {
                limits.reason.as_ref().unwrap_or(&limits.target)
            });
            rows.row([
                &plan.title,
                &number(plan.edge.meets),
                &number(plan.edge.misses),
                by,
            ]);
        }
        for (title, why) in refused {
            rows.row([title, "none", "", why]);
        }
        _ = writeln!(out, "{rows}");
    }
    for plan in plans {
        one(&mut out, plan);
    }
    out
}

/// Of plans of several models, the largest that meets the targets.
pub fn largest(plans: &[Plan]) -> Option<&Plan> {
    let able = plans.iter().filter(|plan| plan.edge.meets.is_some());
    able.max_by_key(|plan| plan.taken)
}

/// The same in words, to stand above the plans.
pub fn largest_model(plans: &[Plan]) -> String {
    let text = match largest(plans) {
        Some(plan) => format!(
            "largest model that meets the targets: {} ({} GB taken before any context)",
            plan.title,
            short(plan.taken as f64 / 1e9)
        ),
        None => "no model is seen to meet the targets".to_owned(),
    };
    hanging(&text, 0) + "\n"
}

fn one(out: &mut String, plan: &Plan) {
    let targets: Vec<&str> = plan.targets.iter().map(|t| t.text.as_str()).collect();
    *out += &hanging(
        &format!(
            "{}: most {} with {}",
            plan.title,
            plan.axis,
            targets.join(" and ")
        ),
        0,
    );
    conditions(out, &plan.conditions);
    *out += &hanging(&edge(plan), 2);
    if let Some(ends) = &plan.doubtful {
        let found = |of: (Option<f64>, Option<f64>)| match of {
            (Some(meets), Some(misses)) => format!("{} meet, {} miss", short(meets), short(misses)),
            (Some(meets), None) => format!("{} meet, and none was seen to miss", short(meets)),
            (None, Some(misses)) => format!("none was seen to meet, {} miss", short(misses)),
            (None, None) => "replications do not tell".to_owned(),
        };
        *out += &hanging(
            &format!(
                "{}: with all at their slow ends {}; at their fast ends {} (one look at each load: not confirmed, as the edge above is)",
                open(&plan.doubt),
                found(ends.slow),
                found(ends.fast)
            ),
            2,
        );
    }
    for remark in remarks(plan) {
        *out += &hanging(&format!("note: {remark}"), 2);
    }
    _ = writeln!(
        out,
        "\nsimulated loads, means over replications ± 95 %\n{}",
        probes(plan.axis, &plan.targets, &plan.edge.probes)
    );
    if let Some(limits) = &plan.limits {
        let what = match &limits.reason {
            Some(reason) => format!("the load is not carried: {reason}"),
            None => format!("`{}` is missed", limits.target),
        };
        paragraph(out, &format!("at {} {what}", short(limits.load)));
        for because in &limits.because {
            *out += &hanging(because, 2);
        }
        if !limits.buys.is_empty() {
            paragraph(
                out,
                &format!("of 1 % more of a resource, at {}", short(limits.buys_at)),
            );
            _ = writeln!(out, "\n{}", sensitivity(&limits.buys));
            for why in &limits.untold {
                *out += &hanging(why, 2);
            }
            if !limits.untold.is_empty() {
                out.push('\n');
            }
        }
    }
}

/// How far stage times are open, in words.
fn open(doubt: &Doubt) -> String {
    format!(
        "{} of {} stage times have intervals, {} to {} times what is stated",
        doubt.numbers.0,
        doubt.numbers.1,
        short(doubt.span.0),
        short(doubt.span.1)
    )
}

/// What is to be said of an edge.
pub(super) fn remarks(plan: &Plan) -> Vec<String> {
    let mut list = plan.edge.remarks.clone();
    list.extend(plan.rises.iter().map(|one| {
        let at = format!("{} {}", short(one.load), plan.axis.unit());
        rise(&plan.targets, one, &at, plan.edge.meets.is_some())
    }));
    list
}

fn conditions(out: &mut String, list: &[String]) {
    if !list.is_empty() {
        *out += &hanging(&format!("conditions: {}", list.join("; ")), 2);
    }
}

/// What a load needs, as text.
pub fn needs_table(targets: &[Target], needs: &Needs) -> String {
    let wanted: Vec<&str> = targets.iter().map(|t| t.text.as_str()).collect();
    let mut out = hanging(
        &format!(
            "{}: least of each resource, the others as they are, for {}",
            needs.title,
            wanted.join(" and ")
        ),
        0,
    );
    conditions(&mut out, &needs.conditions);
    for remark in &needs.remarks {
        out += &hanging(&format!("note: {remark}"), 2);
    }
    let mut heads = vec![Head::text("")];
    heads.extend(["meets", "misses", "the profile"].map(Head::number));
    let remarks = needs.list.iter().any(|need| need.remark.is_some());
    heads.extend(remarks.then(|| Head::text("")));
    let mut rows = Table::new(heads);
    let mut longer = Vec::new();
    let mut doubtful = Vec::new();
    for need in &needs.list {
        let name = match need.resource {
            Resource::Compute(None) => "compute of every engine".to_owned(),
            ref other => other.to_string(),
        };
        let value = |times: f64| match need.now {
            Some((now, unit)) => format!("{} {unit}", short(now * times)),
            None => format!("{} times", short(times)),
        };
        let (low, high) = need.between;
        if let Some(ends) = &need.doubtful {
            let one = |times: Option<f64>| times.map_or_else(|| "none found".to_owned(), value);
            doubtful.push(format!("{name} {} and {}", one(ends.slow), one(ends.fast)));
        }
        let remark = remarks.then(|| need.remark.clone().unwrap_or_default());
        longer.extend(need.rises.iter().map(|one| {
            let at = format!("{} ({name})", value(one.load));
            rise(targets, one, &at, high.is_some())
        }));
        let cells = [
            name,
            high.map_or_else(|| "none found".to_owned(), value),
            low.map_or_else(String::new, value),
            value(1.0),
        ];
        rows.row(cells.into_iter().chain(remark));
    }
    _ = writeln!(out, "\n{rows}");
    if !doubtful.is_empty() {
        paragraph(
            &mut out,
            &format!(
                "{}; with all at their slow and at their fast ends meet (one look at each: not confirmed, as the table is): {}",
                open(&needs.doubt),
                doubtful.join("; ")
            ),
        );
    }
    for remark in &longer {
        paragraph(&mut out, remark);
    }
    out
}

/// The feasible region: verdicts by load and a second load, or by load and what was planned.
pub fn region(
    title: &str,
    x: Axis,
    columns: &[f64],
    y: &str,
    rows: &[(String, Vec<Drawn>)],
) -> Map {
    // Green, vermilion, and grey for what is not told; the others where there are any.
    let mut all = vec![
        (Drawn::Verdict(Verdict::Meets), 2),
        (Drawn::Verdict(Verdict::Misses), 1),
        (Drawn::Verdict(Verdict::Unclear), 6),
    ];
    for (drawn, colour) in [(Drawn::CannotRun, 3), (Drawn::NotSimulated, 5)] {
        if rows.iter().any(|(_, row)| row.contains(&drawn)) {
            all.push((drawn, colour));
        }
    }
    let cell = |drawn: &Drawn| {
        Cell::Choice(
            all.iter()
                .position(|(known, _)| known == drawn)
                .unwrap_or(2),
        )
    };
    Map {
        title: title.to_owned(),
        note: String::new(),
        x: x.unit().to_owned(),
        y: y.to_owned(),
        columns: columns.iter().map(|load| short(*load)).collect(),
        rows: rows.iter().map(|(name, _)| name.clone()).collect(),
        cells: rows
            .iter()
            .map(|(_, row)| row.iter().map(cell).collect())
            .collect(),
        names: all
            .iter()
            .map(|(drawn, _)| drawn.word().to_owned())
            .collect(),
        colours: all.iter().map(|(_, colour)| *colour).collect(),
    }
}
