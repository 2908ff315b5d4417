//! The board, in memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sim::load::{Files, Kind, Library, Source};
use validation::folder::Stock;
use validation::published::{Draws, Lab, Measurements, Predicted, read_measurements};

/// Files by path.
#[derive(Clone, Debug)]
pub(crate) struct Board(BTreeMap<String, String>);

/// Numbers of the board that fits look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    /// Seconds a prompt token on the CPU and on the GPU.
    pub(crate) prefill: [f64; 2],
    /// Seconds an answer token on the CPU and on the GPU.
    pub(crate) decode: [f64; 2],
}

pub(crate) const TRUTH: Truth = Truth {
    prefill: [0.0041, 0.0029],
    decode: [0.0183, 0.034],
};

/// What the profile says before any fit.
pub(crate) const GUESS: Truth = Truth {
    prefill: [0.002; 2],
    decode: [0.05; 2],
};

const SOC: &str = "\
name = 'Board'
origin = 'o'
[memory]
capacity_bytes = 16e9
reserved_bytes = 1e9
bandwidth_gbps = { value = 30, low = 28, high = 34 }
[cpu]
cores = 8
[engines.cpu]
kind = 'cpu'
port_gbps = { value = 24, low = 20, high = 28 }
weight = 1
[engines.gpu]
kind = 'gpu'
port_gbps = { value = 24, low = 16, high = 28 }
weight = 1
[lanes.cpu]
engine = 'cpu'
cores = 4
[lanes.gpu]
engine = 'gpu'
[origins.o]
kind = 'assumed'
note = 'a board of this test'
";

const MODEL: &str = "\
name = 'Model'
origin = 'o'
weights_bytes = 300e6
kv_bytes_per_token = 12288
visual_tokens_per_frame = 196
max_context_tokens = 32768
[[frame_stages]]
name = 'ingest'
kind = 'ingest'
[[query_stages]]
name = 'query_prefill'
kind = 'query_prefill'
[[query_stages]]
name = 'decode'
kind = 'decode'
after = ['query_prefill']
[origins.o]
kind = 'assumed'
note = 'a model of this test'
";

impl Board {
    pub(crate) fn new(truth: Truth) -> Self {
        let mut costs = String::from("soc = 'board'\nmodel = 'vlm'\n\n");
        for (engine, prefill, decode) in [
            ("cpu", truth.prefill[0], truth.decode[0]),
            ("gpu", truth.prefill[1], truth.decode[1]),
        ] {
            _ = write!(
                costs,
                "# {engine}: written by hand\n[engines.{engine}]\norigin = 'guess'\n\n\
                 [engines.{engine}.stages.query_prefill]\nfixed_s = 0.05 # kernels\n\
                 per_token_s = {prefill:?}   # a token\n\
                 bytes = {{ value = 278e6, origin = 'weights' }}\nmeasured_tokens = [32, 600]\n\n\
                 [engines.{engine}.stages.decode]\nper_token_s = {decode:?}\n\
                 bytes_per_token = {{ value = 278e6, origin = 'weights' }}\nmeasured_tokens = [1, 200]\n\n"
            );
        }
        costs += "[origins.guess]\nkind = 'assumed'\nnote = 'nobody has measured it'\n\n\
                  [origins.weights]\nkind = 'derived'\nnote = 'read once'\n";
        let mut files = BTreeMap::from([
            ("profiles/board/soc.toml".to_owned(), SOC.to_owned()),
            ("profiles/models/vlm.toml".to_owned(), MODEL.to_owned()),
            ("profiles/board/vlm.toml".to_owned(), costs),
        ]);
        for (name, prompt, output) in [("short", 288, 32), ("long", 288, 128), ("wide", 576, 32)] {
            let scenario = format!(
                "title = '{name}'\nsoc = 'board'\nmodel = 'vlm'\n\
                 [[streams]]\nname = 'r'\ncopies = 4\n[streams.queries]\n\
                 arrivals = {{ times_s = [0] }}\nprompt_tokens = {prompt}\noutput_tokens = {output}\n"
            );
            files.insert(format!("{name}.toml"), scenario);
        }
        Self(files)
    }

    /// The board with a scenario `queue.toml`: questions that come by chance, so many a second, in several short
    /// replications.
    pub(crate) fn queue(mut self, rate_hz: f64) -> Self {
        let scenario = format!(
            "title = 'queue'\nsoc = 'board'\nmodel = 'vlm'\nreplications = 4\n[run]\nhorizon_s = 600\nwarm_up_s = 60\n\
             [[streams]]\nname = 'r'\n[streams.queries]\narrivals = {{ poisson = {{ rate_hz = {rate_hz:?} }} }}\n\
             prompt_tokens = 288\noutput_tokens = 64\n"
        );
        self.0.insert("queue.toml".to_owned(), scenario);
        self
    }

    /// The same board with one text replaced in a file.
    pub(crate) fn with(mut self, path: &str, from: &str, to: &str) -> Self {
        let text = &self.0[path];
        assert!(text.contains(from), "{path} lacks {from}");
        let text = text.replace(from, to);
        self.0.insert(path.to_owned(), text);
        self
    }

    /// The same board with one more file, or another in its place.
    pub(crate) fn plus(mut self, path: &str, text: &str) -> Self {
        self.0.insert(path.to_owned(), text.to_owned());
        self
    }

    pub(crate) fn text(&self, path: &str) -> &str {
        &self.0[path]
    }

    fn source(&self, path: &str) -> Option<Source> {
        Some(Source {
            name: path.to_owned(),
            text: self.0.get(path)?.clone(),
        })
    }
}

impl Library for Board {
    fn soc(&self, key: &str) -> Option<Source> {
        self.source(&format!("profiles/{key}/soc.toml"))
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.source(&format!("profiles/models/{key}.toml"))
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        self.source(&format!("profiles/{soc_key}/{model_key}.toml"))
    }

    fn names(&self, _kind: Kind) -> Vec<String> {
        Vec::new()
    }
}

impl Files for Board {
    fn read(&self, path: &str) -> Result<String, String> {
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| "no such file".to_owned())
    }
}

impl Stock for Board {
    fn published(&self, _key: &str) -> Option<Source> {
        None
    }

    fn library(&self, _path: &str) -> Box<dyn Library + '_> {
        Box::new(self.clone())
    }

    fn files(&self) -> &dyn Files {
        self
    }
}

/// A row to measure: scenario, policy, metric, unit and role.
pub(crate) type Wanted = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// What the fits are given, and what they must predict.
pub(crate) const WANTED: [Wanted; 13] = [
    ("short", "single:cpu", "throughput", "req/s", "calibration"),
    ("short", "single:cpu", "ttft_mean", "ms", "calibration"),
    ("long", "single:cpu", "throughput", "req/min", "calibration"),
    ("long", "single:cpu", "ttft_mean", "s", "calibration"),
    ("short", "single:gpu", "throughput", "req/s", "calibration"),
    ("short", "single:gpu", "ttft_mean", "s", "calibration"),
    ("long", "single:gpu", "throughput", "req/s", "calibration"),
    ("long", "single:gpu", "ttft_mean", "s", "calibration"),
    ("short", "state_aware", "throughput", "req/s", "outcome"),
    ("short", "state_aware", "ttft_mean", "s", "outcome"),
    ("long", "state_aware", "completion", "s", "outcome"),
    ("long", "state_aware", "gpu_busy", "%", "outcome"),
    ("wide", "state_aware", "throughput", "req/s", "outcome"),
];

/// Errors of a measurement, in standard deviations of 0.5 %: normal quantiles in no order.
const ERRORS: [f64; 13] = [
    0.42, -0.88, 1.21, -0.11, -0.47, 0.73, -1.34, 0.19, 0.94, -0.62, 0.05, -0.29, 1.05,
];

/// Measurements of the true board, with an error of half a per cent on each.
pub(crate) fn measure(wanted: &[Wanted], scale: f64) -> Measurements {
    let truth = Board::new(TRUTH);
    let mut lab = Lab::new(&truth, Draws { count: 0, seed: 0 });
    let exact = file(wanted, &vec![1.0; wanted.len()]);
    let values =
        exact
            .rows
            .iter()
            .zip(ERRORS)
            .map(|(row, error)| match lab.predict(&exact, row).unwrap() {
                Predicted::Value(prediction) => prediction.value * (1.0 + 0.005 * scale * error),
                Predicted::Not(why) => panic!("{why}"),
            });
    let values: Vec<f64> = values.collect();
    file(wanted, &values)
}

/// A file of these rows with these values.
pub(crate) fn file(wanted: &[Wanted], values: &[f64]) -> Measurements {
    let mut text = String::from("source = 'a board on this desk'\n");
    for ((scenario, policy, metric, unit, role), value) in wanted.iter().zip(values) {
        let sd = 0.005 * value.abs();
        _ = write!(
            text,
            "[[measurement]]\nid = 'desk-{scenario}'\nplatform = 'board'\nconfig = '{policy}'\n\
             metric = '{metric}'\nunit = '{unit}'\nvalue = {value:?}\nsd = {sd:?}\nrole = '{role}'\n\
             scenario = '{scenario}.toml'\npolicy = '{policy}'\n"
        );
    }
    read_measurements("desk.toml", &text).unwrap()
}
