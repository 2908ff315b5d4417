//! Which scenario of `scenarios/published/` plays which published row, and which rows none does.

use std::collections::BTreeSet;

use super::conditions;
use super::metric::Metric;
use super::rows::Row;
use crate::words::count;

/// A scenario under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Play {
    /// File in `scenarios/published/`, without `.toml`.
    pub scenario: &'static str,
    /// Policy as on the command line; `None`: the file's own.
    pub policy: Option<&'static str>,
}

/// Who measured the rows that are recognised: no file needs to say it.
pub(super) const PUBLICATION: &str = "CrossInfer paper";

/// Which rows a scenario predicts.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Key of the SoC that it was measured on.
    pub platform: &'static str,
    /// Table or figure.
    pub id: &'static str,
    /// What the row's model or setting must hold, all of it.
    pub about: &'static [&'static str],
    /// Row of the table.
    pub config: &'static str,
    /// What to play; several where the metric compares.
    pub plays: &'static [Play],
}

const fn own(scenario: &'static str) -> Play {
    Play {
        scenario,
        policy: None,
    }
}

const fn under(scenario: &'static str, policy: &'static str) -> Play {
    Play {
        scenario,
        policy: Some(policy),
    }
}

const CPU: &str = "single:cpu";
const GPU: &str = "single:gpu";

macro_rules! experiments {
    ($($platform:ident { $($id:literal [$($about:literal),*] $config:literal => $($play:expr),+;)* })*) => {
        &[$($(Experiment {
            platform: stringify!($platform),
            id: $id,
            about: &[$($about),*],
            config: $config,
            plays: &[$($play),+],
        },)*)*]
    };
}

/// Every row that a scenario predicts, by SoC: table or figure, words of its model or setting, its
/// configuration, and what to play.
#[rustfmt::skip]
pub const EXPERIMENTS: &[Experiment] = experiments! {
    m4max {
    "table1a" ["2 frames"] "mlx-gpu-only" => own("table1a-2-gpu");
    "table1a" ["2 frames"] "crossinfer" => own("table1a-2-pipelined");
    "table1a" ["4 frames"] "mlx-gpu-only" => own("table1a-4-gpu");
    "table1a" ["4 frames"] "crossinfer" => own("table1a-4-pipelined");
    "table1a" ["8 frames"] "mlx-gpu-only" => own("table1a-8-gpu");
    "table1a" ["8 frames"] "crossinfer" => own("table1a-8-pipelined");
    "table1a" ["16 frames"] "mlx-gpu-only" => own("table1a-16-gpu");
    "table1a" ["16 frames"] "crossinfer" => own("table1a-16-pipelined");
    "table3" [] "mlx" => own("table3-gpu");
    "table3" [] "crossinfer" => own("table3-pipelined");
    "table5" ["Qwen3.5-0.8B", "32-token"] "serial" => under("table5-0.8b-32", "serial");
    "table5" ["Qwen3.5-0.8B", "32-token"] "overlap" => own("table5-0.8b-32");
    "table5" ["Qwen3.5-0.8B", "128-token"] "serial" => under("table5-0.8b-128", "serial");
    "table5" ["Qwen3.5-0.8B", "128-token"] "overlap" => own("table5-0.8b-128");
    "table5" ["Qwen3.5-2B", "32-token"] "serial" => under("table5-2b-32", "serial");
    "table5" ["Qwen3.5-2B", "32-token"] "overlap" => own("table5-2b-32");
    "table5" ["Qwen3.5-2B", "128-token"] "serial" => under("table5-2b-128", "serial");
    "table5" ["Qwen3.5-2B", "128-token"] "overlap" => own("table5-2b-128");
    "table5" ["Qwen3.5-4B", "32-token"] "serial" => under("table5-4b-32", "serial");
    "table5" ["Qwen3.5-4B", "32-token"] "overlap" => own("table5-4b-32");
    "table5" ["Qwen3.5-4B", "128-token"] "serial" => under("table5-4b-128", "serial");
    "table5" ["Qwen3.5-4B", "128-token"] "overlap" => own("table5-4b-128");
    "table5" ["Qwen3.5-9B", "32-token"] "serial" => under("table5-9b-32", "serial");
    "table5" ["Qwen3.5-9B", "32-token"] "overlap" => own("table5-9b-32");
    "table5" ["Qwen3.5-9B", "128-token"] "serial" => under("table5-9b-128", "serial");
    "table5" ["Qwen3.5-9B", "128-token"] "overlap" => own("table5-9b-128");
    "table7" [] "A" => own("table7-a");
    "table7" [] "B" => own("table7-b");
    "table7" [] "C" => own("table7-c");
    "table7" [] "D" => own("table7-d");
    // Its rows on decode and prefill are those of table 14's lanes alone.
    "table13" ["sequential_read_1GiB"] "cpu" => own("table14-32");
    "table13" ["sequential_read_1GiB"] "metal" => own("table14-32");
    "table13" ["prefill_1024"] "cpu" => under("table14-1024", CPU);
    "table13" ["prefill_1024"] "metal" => under("table14-1024", GPU);
    "table13" ["decode_prefix32"] "cpu" => under("table14-32", CPU);
    "table13" ["decode_prefix32"] "metal" => under("table14-32", GPU);
    "table14" ["32 tokens"] "cpu" => under("table14-32", CPU);
    "table14" ["32 tokens"] "metal" => under("table14-32", GPU);
    "table14" ["32 tokens"] "cpu+metal" => own("table14-32");
    "table14" ["1024 tokens"] "cpu" => under("table14-1024", CPU);
    "table14" ["1024 tokens"] "metal" => under("table14-1024", GPU);
    "table14" ["1024 tokens"] "cpu+metal" => own("table14-1024");
    }
    qcs6490 {
    // The contention model alone; the scenario only brings the SoC.
    "table6" ["64 MiB"] "cpu" => own("table8");
    "table6" ["64 MiB"] "gpu" => own("table8");
    "table6" ["64 MiB"] "npu" => own("table8");
    "table6" ["64 MiB"] "cpu+gpu" => own("table8");
    "table6" ["64 MiB"] "cpu+npu" => own("table8");
    "table6" ["64 MiB"] "gpu+npu" => own("table8");
    "table6" ["64 MiB"] "cpu+gpu+npu" => own("table8");
    "table8" [] "cpu-only" => under("table8", CPU);
    "table8" [] "gpu-only" => under("table8", GPU);
    "table8" [] "crossinfer" => own("table8");
    "table8" [] "naive" => under("table8", "naive");
    "table10" ["OneVision-0.5B"] "cpu-only" => under("table10-onevision-0.5b", CPU);
    "table10" ["OneVision-0.5B"] "gpu-only" => under("table10-onevision-0.5b", GPU);
    "table10" ["OneVision-0.5B"] "crossinfer" => own("table10-onevision-0.5b");
    "table10" ["FastVLM-0.5B"] "cpu-only" => under("table10-fastvlm-0.5b", CPU);
    "table10" ["FastVLM-0.5B"] "gpu-only" => under("table10-fastvlm-0.5b", GPU);
    "table10" ["FastVLM-0.5B"] "crossinfer" => own("table10-fastvlm-0.5b");
    "table10" ["FastVLM-1.5B"] "cpu-only" => under("table10-fastvlm-1.5b", CPU);
    "table10" ["FastVLM-1.5B"] "gpu-only" => under("table10-fastvlm-1.5b", GPU);
    "table10" ["FastVLM-1.5B"] "crossinfer" => own("table10-fastvlm-1.5b");
    "table10" ["OneVision-0.5B"] "naive" => under("table10-onevision-0.5b", "naive");
    "table10" ["FastVLM-0.5B"] "naive" => under("table10-fastvlm-0.5b", "naive");
    "table10" ["FastVLM-1.5B"] "naive" => under("table10-fastvlm-1.5b", "naive");
    }
    rk3588 {
    "table9" ["OneVision-7B"] "cpu-only" => under("table9-7b", CPU);
    "table9" ["OneVision-7B"] "gpu-only" => under("table9-7b", GPU);
    "table9" ["OneVision-7B"] "crossinfer" => own("table9-7b");
    "table9" ["FastVLM-0.5B"] "cpu-only" => under("table9-fastvlm", CPU);
    "table9" ["FastVLM-0.5B"] "gpu-only" => under("table9-fastvlm", GPU);
    "table9" ["FastVLM-0.5B"] "crossinfer" => own("table9-fastvlm");
    "table9" ["OneVision-7B"] "naive" => under("table9-7b", "naive");
    "table9" ["FastVLM-0.5B"] "naive" => under("table9-fastvlm", "naive");
    "table12" ["112-token"] "naive" => under("table12", "naive");
    "table12" ["112-token"] "cpu-only" => under("table12", CPU);
    "table12" ["112-token"] "gpu-only" => under("table12", GPU);
    "table12" ["112-token"] "crossinfer" => own("table12");
    // Both engines alone answer as many a second as with 112 tokens each: that is their mean length.
    "table12" ["EOS"] "naive" => under("table12", "naive");
    "table12" ["EOS"] "cpu-only" => under("table12", CPU);
    "table12" ["EOS"] "gpu-only" => under("table12", GPU);
    "table12" ["EOS"] "crossinfer" => own("table12");
    "fig9b" ["short", "medium", "long"] "state-aware dispatch" =>
        own("fig9b-short"), under("fig9b-short", CPU), under("fig9b-short", GPU),
        own("fig9b-medium"), under("fig9b-medium", CPU), under("fig9b-medium", GPU),
        own("fig9b-long"), under("fig9b-long", CPU), under("fig9b-long", GPU);
    "fig9b" ["short"] "state-aware dispatch" =>
        own("fig9b-short"), under("fig9b-short", CPU), under("fig9b-short", GPU);
    "fig9b" ["medium"] "state-aware dispatch" =>
        own("fig9b-medium"), under("fig9b-medium", CPU), under("fig9b-medium", GPU);
    "fig9b" ["long"] "state-aware dispatch" =>
        own("fig9b-long"), under("fig9b-long", CPU), under("fig9b-long", GPU);
    "fig11c" [] "import over recompute" => own("fig11c-import"), own("fig11c-recompute");
    "fig11c" [] "import" => own("fig11c-import");
    "fig11c" [] "recompute" => own("fig11c-recompute");
    "fig16" [] "reuse" => own("fig16-reuse");
    "fig16" [] "rebuild" => own("fig16-rebuild");
    "fig16" [] "reuse over rebuild" => own("fig16-reuse"), own("fig16-rebuild");
    }
};

const RESIDENT: &str =
    "a process's resident memory holds its runtime's buffers, which no profile has";

/// What stands between the names of two configurations of a table that a row compares.
const OVER: &str = " over ";

/// Rows that no scenario predicts: table or figure, words of the row, and why.
const NOT_COVERED: &[(&str, &[&str], &str)] = &[
    (
        "table3",
        &["llama.cpp"],
        "the costs of this model are of the other runtimes, which draw less power",
    ),
    ("table1a", &["peak_rss"], RESIDENT),
    ("table3", &["peak_rss"], RESIDENT),
    ("table5", &["peak_rss"], RESIDENT),
    ("table7", &["peak_rss"], RESIDENT),
    (
        "table6",
        &["256 MiB"],
        "the profile holds the rates at 64 MiB",
    ),
];

/// Whether a row is, by its id and SoC, of a published table or figure.
pub(super) fn recognised(row: &Row) -> bool {
    let mut known = EXPERIMENTS.iter();
    row.own.is_none() && known.any(|known| (known.id, known.platform) == (&row.id, &row.platform))
}

/// Whether a row is of a table or figure, and holds all these words.
pub(super) fn holds(row: &Row, id: &str, words: &[&str]) -> bool {
    let parts = [&row.model, &row.setting, &row.config, &row.metric];
    row.id == id && words.iter().all(|word| conditions::has(&parts, word))
}

/// What is played for a row, or why nothing is. A row may also compare two configurations of its table, as
/// `overlap over serial`.
pub fn experiment(row: &Row) -> Result<Vec<Play>, String> {
    let mut of_id = EXPERIMENTS.iter().filter(|known| known.id == row.id);
    if let Some(published) = of_id.next()
        && published.platform != row.platform
    {
        return Err(format!(
            "the published `{}` was measured on `{}`, this row on `{}`: a scenario of another SoC says nothing of \
             it, and the file names none",
            row.id, published.platform, row.platform
        ));
    }
    if let Some((.., why)) = NOT_COVERED
        .iter()
        .find(|(id, words, _)| holds(row, id, words))
    {
        return Err((*why).to_owned());
    }
    let of_config = |config: &str| {
        let mut all = EXPERIMENTS.iter();
        all.find(|known| known.config == config && holds(row, known.id, known.about))
    };
    let both = || {
        let (this, other) = row.config.split_once(OVER)?;
        Some(vec![of_config(this)?, of_config(other)?])
    };
    let found = of_config(&row.config).map(|found| vec![found]);
    let found = found.or_else(both).ok_or_else(|| unplayed(row))?;
    let plays: Vec<Play> = found
        .iter()
        .flat_map(|found| found.plays)
        .copied()
        .collect();
    let Some(metric) = row.metric() else {
        return Err(format!(
            "no metric `{}`: there are {}",
            row.metric,
            Metric::names().join(", ")
        ));
    };
    let dimension = metric.dimension();
    if dimension.factor(&row.unit).is_none() {
        let units: Vec<&str> = dimension.units().collect();
        return Err(format!(
            "`{}` is no unit of `{}`: there are {}",
            row.unit,
            row.metric,
            units.join(", ")
        ));
    }
    if let Some(why) = found
        .iter()
        .find_map(|known| conditions::differs(row, known))
    {
        return Err(why);
    }
    if let Err(needs) = metric.of_configurations(plays.len()) {
        return Err(format!(
            "`{}` is read from {needs}, and this published experiment is of {}",
            row.metric,
            count(plays.len(), "configuration"),
        ));
    }
    Ok(plays)
}

/// Why no experiment plays a row: what it says that none has.
fn unplayed(row: &Row) -> String {
    if !recognised(row) {
        return "no published experiment is called so, and the file names no scenario for it"
            .to_owned();
    }
    let of_id = || EXPERIMENTS.iter().filter(|known| known.id == row.id);
    let listed = |words: BTreeSet<String>| words.into_iter().collect::<Vec<_>>().join(", ");
    let about = |known: &&Experiment| holds(row, known.id, known.about);
    let configs: BTreeSet<String> = of_id()
        .filter(about)
        .map(|known| format!("`{}`", known.config))
        .collect();
    if configs.is_empty() {
        let told = of_id().filter(|known| !known.about.is_empty());
        let words = told.map(|known| format!("`{}`", known.about.join("` with `")));
        return format!(
            "no scenario plays it: this published experiment is told by the words {} in `model` or `setting`",
            listed(words.collect())
        );
    }
    format!(
        "no scenario plays its configuration: of this published experiment there are {}, and one of them over another",
        listed(configs)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::read_measurements;

    #[test]
    fn a_metric_is_read_from_as_many_configurations_as_it_needs() {
        let row = |id: &str, config: &str, metric: &str, unit: &str| {
            let (model, setting) = match id {
                "table9" => ("FastVLM-0.5B", ""),
                _ => ("", "short, medium and long backlogs"),
            };
            let text = format!(
                "[[measurement]]\nid = '{id}'\nplatform = 'rk3588'\nmodel = '{model}'\nsetting = '{setting}'\n\
                 config = '{config}'\nmetric = '{metric}'\nunit = '{unit}'\nvalue = 1\nrole = 'outcome'\n"
            );
            read_measurements("m.toml", &text).unwrap().rows.remove(0)
        };
        let best = row(
            "fig9b",
            "state-aware dispatch",
            "query_completion_time_change",
            "%",
        );
        assert!(experiment(&best).is_ok());
        // Of which of the three backlogs, and against what, such a row does not say.
        for (metric, unit, needs) in [
            ("completion_mean_change", "%", "two configurations"),
            ("completion_mean", "s", "one configuration"),
        ] {
            let why = experiment(&row("fig9b", "state-aware dispatch", metric, unit)).unwrap_err();
            let says = format!(
                "is read from {needs}, and this published experiment is of 9 configurations"
            );
            assert!(why.contains(&says), "{why}");
        }
        assert!(experiment(&row("fig16", "reuse over rebuild", "throughput", "req/s")).is_err());
        // Two configurations of a table, the first over the second; and each by itself.
        let over = |config: &str, metric: &str, unit: &str| {
            let plays = experiment(&row("table9", config, metric, unit))?;
            Ok(plays.iter().map(|play| play.policy).collect())
        };
        let ratio = over("crossinfer over cpu-only", "throughput_ratio", "x");
        assert_eq!(ratio, Ok(vec![None, Some(CPU)]));
        let turned: Result<Vec<_>, String> =
            over("cpu-only over crossinfer", "ttft_mean_change", "%");
        assert_eq!(turned, Ok(vec![Some(CPU), None]));
        assert!(over("crossinfer over cpu-only", "throughput", "req/s").is_err());
        let why = over("crossinfer over best", "throughput_ratio", "x").unwrap_err();
        assert!(
            why.contains("there are `cpu-only`, `crossinfer`, `gpu-only`, `naive`, and one"),
            "{why}"
        );
        assert!(experiment(&row("table9", "cpu-only", "throughput_ratio", "x")).is_err());
    }

    #[test]
    fn rows_of_another_soc_are_no_rows_of_a_publication() {
        let row = |platform: &str, source: &str| {
            let text = format!(
                "{source}[[measurement]]\nid = 'table9'\nplatform = '{platform}'\nmodel = 'FastVLM-0.5B'\n\
                 config = 'cpu-only'\nmetric = 'throughput'\nunit = 'req/s'\nvalue = 1\nrole = 'outcome'\n"
            );
            read_measurements("m.toml", &text).unwrap().rows.remove(0)
        };
        let published = row("rk3588", "");
        assert!(experiment(&published).is_ok());
        assert_eq!(published.source.as_deref(), Some(PUBLICATION));
        let other = row("our-board", "");
        let why = experiment(&other).unwrap_err();
        assert!(why.contains("`rk3588`, this row on `our-board`"), "{why}");
        assert_eq!(
            (other.source, super::super::Bound::of(&row("our-board", ""))),
            (None, None)
        );
        assert_eq!(
            row("rk3588", "source = 'us'\n").source.as_deref(),
            Some("us")
        );
    }
}
