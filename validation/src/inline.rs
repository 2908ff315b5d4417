//! Worlds written in place: a SoC, a model and costs as text, for oracles and tests.

use sim::diag::Faults;
use sim::load::{Files, Inputs, Kind, Library, Source};
use sim::world::World;

/// A library of one SoC `toy` and one model `vlm`, held in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inline {
    /// The SoC profile.
    pub soc: String,
    /// The model.
    pub model: String,
    /// The costs of the model on the SoC.
    pub costs: String,
    /// Further files by path.
    pub files: Vec<(String, String)>,
}

impl Inline {
    /// Reads and checks a scenario of `soc = "toy"` and `model = "vlm"`.
    pub fn inputs(&self, scenario: &str) -> Result<Inputs, Box<Faults>> {
        Inputs::read("scenario.toml", scenario, self, self).map_err(Box::new)
    }

    /// The world of a scenario.
    pub fn world(&self, scenario: &str) -> Result<World, Box<Faults>> {
        self.inputs(scenario)?.world().map_err(Box::new)
    }
}

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

impl Library for Inline {
    fn soc(&self, key: &str) -> Option<Source> {
        (key == "toy").then(|| source("toy/soc.toml", &self.soc))
    }

    fn model(&self, key: &str) -> Option<Source> {
        (key == "vlm").then(|| source("models/vlm.toml", &self.model))
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        (soc_key == "toy" && model_key == "vlm").then(|| source("toy/vlm.toml", &self.costs))
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        let name = match kind {
            Kind::Scenario => return Vec::new(),
            Kind::Soc => "toy",
            Kind::Model => "vlm",
            Kind::Costs => "toy/vlm",
        };
        vec![name.to_owned()]
    }
}

impl Files for Inline {
    fn read(&self, path: &str) -> Result<String, String> {
        self.files
            .iter()
            .find(|(name, _)| name == path)
            .map(|(_, text)| text.clone())
            .ok_or_else(|| "no such file".to_owned())
    }
}
