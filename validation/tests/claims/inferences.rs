//! The errors that `profiles/INFERENCES.md` quotes: what was tried and not kept is tried again.

use sim::load::{Files, Kind, Library, Source};
use validation::folder::{Checkout, Stock};
use validation::published::{Comparison, Role};

use crate::rows::{compared, comparison, find, one_line, root};

/// The checkout with its profiles and scenarios changed.
struct Changed<F> {
    checkout: Checkout,
    change: F,
}

struct ChangedLibrary<'c, F> {
    library: Box<dyn Library + 'c>,
    change: &'c F,
}

fn changed(change: impl Fn(&str, &str) -> String, source: Source) -> Source {
    let text = change(&source.name, &source.text);
    Source { text, ..source }
}

impl<F: Fn(&str, &str) -> String> Stock for Changed<F> {
    fn published(&self, key: &str) -> Option<Source> {
        Some(changed(&self.change, self.checkout.published(key)?))
    }

    fn library(&self, path: &str) -> Box<dyn Library + '_> {
        Box::new(ChangedLibrary {
            library: self.checkout.library(path),
            change: &self.change,
        })
    }

    fn files(&self) -> &dyn Files {
        self.checkout.files()
    }
}

impl<F: Fn(&str, &str) -> String> Library for ChangedLibrary<'_, F> {
    fn soc(&self, key: &str) -> Option<Source> {
        Some(changed(self.change, self.library.soc(key)?))
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.library.model(key)
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        Some(changed(
            self.change,
            self.library.costs(soc_key, model_key)?,
        ))
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.library.names(kind)
    }
}

/// The RK3588's outcomes with something changed in its files.
fn tried(change: impl Fn(&str, &str) -> String) -> Option<Comparison> {
    let checkout = Checkout::new(&root());
    let stock = Changed { checkout, change };
    compared(&stock, 0, |soc, role| {
        soc == "rk3588" && role == Role::Outcome
    })
}

const SEVEN: [&str; 4] = ["table9", "OneVision-7B", "crossinfer", "throughput"];
const HALF: [&str; 4] = ["table9", "FastVLM-0.5B", "crossinfer", "throughput"];
const FULL: [&str; 4] = ["table12", "112-token", "crossinfer", "throughput"];
const NAIVE: [&str; 4] = ["table12", "112-token", "naive", "throughput"];
const BACKLOG: [&str; 4] = [
    "fig9b",
    "",
    "state-aware dispatch",
    "query_completion_time_change",
];
const IMPORT: [&str; 4] = [
    "fig11c",
    "",
    "import over recompute",
    "first_token_latency_ratio",
];

type Wanted = [&'static str; 4];

fn ttft([id, words, config, _]: Wanted) -> Wanted {
    [id, words, config, "ttft_mean"]
}

fn value(of: &Comparison, row: Wanted) -> f64 {
    find(of, row).prediction().unwrap().value
}

fn error(of: &Comparison, row: Wanted) -> f64 {
    find(of, row).error().unwrap()
}

/// An error in per cent, as the text has it.
fn off(of: &Comparison, row: Wanted) -> String {
    format!("{:+.0}", error(of, row)).replace('-', "−")
}

/// Bounds of the RK3588 that are met.
fn met(of: &Comparison) -> usize {
    let met = of.bounds().filter(|(.., met)| *met);
    met.filter(|(compared, ..)| compared.row.platform == "rk3588")
        .count()
}

/// With another stated loss beside another lane, of all stages.
fn loss(origin: &str, value: &str) -> Option<Comparison> {
    // The stated value must lie within its interval.
    let old = format!("ratio = {{ value = 1, origin = \"{origin}\", low = 1, high = ");
    let new = format!("ratio = {{ value = {value}, origin = \"{origin}\", low = 1, high = 9");
    tried(move |_: &str, text: &str| text.replace(&old, &new))
}

/// With table 12's scenario changed.
fn table12(change: impl Fn(&str) -> String) -> Option<Comparison> {
    tried(|_: &str, text: &str| {
        if text.contains("title = \"Table 12") {
            change(text)
        } else {
            text.to_owned()
        }
    })
}

fn hold(all: &[String]) {
    let text = one_line("profiles/INFERENCES.md");
    for says in all {
        assert!(text.contains(says), "INFERENCES.md lacks: {says}");
    }
}

#[test]
fn what_profiles_were_tried_with() {
    let Some(now) = comparison(0, |_, role| role == Role::Outcome) else {
        println!("no published measurements here");
        return;
    };
    let copied = tried(|_: &str, text: &str| {
        let old = "value = 0.145, origin = \"reads\"";
        text.replace(old, "value = 0.005, origin = \"reads\"")
    });
    let weighed = tried(|_: &str, text: &str| {
        text.replace("weight = { value = 1.13", "weight = { value = 2.39")
    });
    let losses = [
        ("beside_gpu", "1.33333333"),
        ("beside_cpu", "2"),
        ("beside_cpu", "3"),
    ];
    let [core, host, thrice] = losses.map(|(origin, value)| loss(origin, value).unwrap());
    let (copied, weighed) = (copied.unwrap(), weighed.unwrap());
    let four = find(&now, ["table1a", ", 4 frames", "crossinfer", "completion"]);
    let four = [four.row.value, four.prediction().unwrap().value];
    let moved = |row| (error(&weighed, row) - error(&now, row)).abs();
    for row in [HALF, FULL, NAIVE] {
        assert!(moved(row) < 1.0, "{row:?} {}", moved(row));
    }
    // "No bound more is met, two less"; "two bounds more would be met and none less".
    assert_eq!((met(&core) + 2, met(&host)), (met(&now), met(&now) + 2));
    hold(&[
        format!(
            "({} s, {:.0} % above the prediction of {:.2})",
            four[0],
            (four[0] / four[1] - 1.0) * 100.0,
            four[1]
        ),
        format!(
            "moves figure 11c from {:.0} times to {:.0}, table 12 (full system) from {} to {} %.",
            value(&copied, IMPORT),
            value(&now, IMPORT),
            off(&copied, FULL),
            off(&now, FULL)
        ),
        format!(
            "7B of table 9 comes to {} % instead of {} %, table 12 to {} % (full system) and {} % (naive) instead of {} \
             and {} %, FastVLM-0.5B to {} % instead of {} %.",
            off(&core, SEVEN),
            off(&now, SEVEN),
            off(&core, FULL),
            off(&core, NAIVE),
            off(&now, FULL),
            off(&now, NAIVE),
            off(&core, HALF),
            off(&now, HALF)
        ),
        format!(
            "Moves 7B by {:.0} points, figure 9b by {:.0}, all else by less than one",
            moved(SEVEN),
            moved(BACKLOG)
        ),
        format!(
            "7B of table 9 comes to {} %, table 12 to {} % (full system) and {} % (naive), FastVLM-0.5B to {} %, figure \
             9b to {:.0} points instead of {:.0}.",
            off(&host, SEVEN),
            off(&host, FULL),
            off(&host, NAIVE),
            off(&host, HALF),
            error(&host, BACKLOG),
            error(&now, BACKLOG)
        ),
        format!("forbidden by FastVLM-0.5B ({} %)", off(&thrice, HALF)),
    ]);
}

#[test]
fn what_readings_of_table_12_were_tried() {
    let Some(now) = comparison(0, |soc, role| soc == "rk3588" && role == Role::Outcome) else {
        println!("no published measurements here");
        return;
    };
    let roles = "encode = \"npu\"\ningest = \"cpu\"\nquery_prefill = \"gpu\"\ndecode = \"gpu\"";
    let roles = table12(|text| text.replace("encode = \"npu\"", roles)).unwrap();
    let twice = table12(|text| {
        let frames = |name: &str, times: &str| {
            format!(
                "\n[[streams]]\nname = \"{name}\"\n[streams.frames]\nclock = {{ times_s = {times} }}\n\
                 tokens = 729\n"
            )
        };
        // By name order the lanes of the streams are those of the CPU, the GPU, the CPU, the GPU.
        let text = text
            .replace("\"left\"", "\"a\"")
            .replace("\"right\"", "\"d\"");
        text + &frames("b", "[0, 5, 10]") + &frames("c", "[2.5, 7.5, 12.5]")
    });
    let twice = twice.unwrap();
    hold(&[
        format!(
            "{:.1} s for six requests, where 37.4 were measured, without a constant; the mean TTFT then is {:.1} s, {:.0} % \
             above.",
            6.0 / value(&roles, FULL),
            value(&roles, ttft(FULL)),
            error(&roles, ttft(FULL))
        ),
        format!("is not, finds {:.1} s.", 6.0 / value(&now, FULL)),
        format!(
            "each ingest every stream**: {:.1} s (47.6 measured), mean TTFT {:.1} s (17.0 measured). Streams shared out \
             between the lanes, as here, give {:.1} and {:.1} s",
            6.0 / value(&twice, NAIVE),
            value(&twice, ttft(NAIVE)),
            6.0 / value(&now, NAIVE),
            value(&now, ttft(NAIVE))
        ),
    ]);
}

#[test]
fn what_rows_that_were_read_came_to() {
    let Some(fitted) = comparison(0, |_, role| role == Role::Calibration) else {
        println!("no published measurements here");
        return;
    };
    let rows = |wanted: &[&str], config: &str, metrics: &[&str]| {
        let rows = fitted.predicted(Role::Calibration);
        let rows = rows.filter(|compared| {
            let row = &compared.row;
            wanted
                .iter()
                .any(|words| format!("{} {} {}", row.id, row.model, row.setting).contains(words))
                && row.config == config
                && metrics.contains(&row.metric.as_str())
        });
        rows.map(|compared| {
            (
                compared.prediction().unwrap().value,
                compared.error().unwrap(),
            )
        })
        .collect::<Vec<_>>()
    };
    let worst = |rows: &[(f64, f64)]| {
        rows.iter()
            .fold(0.0, |most: f64, (_, error)| most.max(error.abs()))
    };
    // In the order of the file: 2, 4, 8 and 16 frames.
    let line = rows(&["table1a"], "mlx-gpu-only", &["completion"]);
    let [(two, _), .., (sixteen, _)] = line.as_slice() else {
        panic!("{line:?}")
    };
    let frame = (sixteen - two) / 14.0;
    let cpu = rows(
        &[
            "table9 FastVLM-0.5B",
            "table12 OneVision-0.5B INT4 two streams, 112-token",
        ],
        "cpu-only",
        &["throughput", "ttft_mean"],
    );
    assert_eq!((line.len(), cpu.len()), (4, 4));
    let at_once = tried(|_: &str, text: &str| {
        if text.contains("title = \"Figure 16") {
            text.replace("users = 1", "users = 4")
        } else {
            text.to_owned()
        }
    });
    let at_once = at_once.unwrap();
    let change = |metric| value(&at_once, ["fig16", "", "reuse over rebuild", metric]);
    hold(&[
        format!(
            "{:.2} s and {frame:.3} s a frame, which the costs here come to, fit within {:.1} %.",
            two - 2.0 * frame,
            worst(&line)
        ),
        format!(
            "four CPU rows of tables 9 and 12 fit within {:.1} %",
            worst(&cpu)
        ),
        format!(
            "All four at once would give {:.1} times the throughput and {:.0} % TTFT",
            change("throughput_ratio"),
            change("ttft_mean_change")
        )
        .replace('-', "−"),
    ]);
}
