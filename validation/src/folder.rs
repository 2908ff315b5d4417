//! Profiles in a folder, laid out as `profiles/` is.

use std::path::{Path, PathBuf};

use sim::load::{Files, Kind, Library, Source};

/// A folder of profiles: `<soc>/soc.toml`, `models/<model>.toml`, `<soc>/<model>.toml`.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn source(&self, path: &Path) -> Option<Source> {
        let path = self.root.join(path);
        let text = std::fs::read_to_string(&path).ok()?;
        Some(Source {
            name: path.display().to_string(),
            text,
        })
    }

    fn stems(&self, folder: &str) -> Vec<String> {
        let mut stems: Vec<String> = std::fs::read_dir(self.root.join(folder))
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let toml = path
                    .extension()
                    .is_some_and(|extension| extension == "toml");
                toml.then(|| path.file_stem()?.to_str().map(String::from))
                    .flatten()
            })
            .collect();
        stems.sort();
        stems
    }

    fn socs(&self) -> Vec<String> {
        let mut socs: Vec<String> = std::fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                path.join("soc.toml")
                    .is_file()
                    .then(|| path.file_name()?.to_str().map(String::from))
                    .flatten()
            })
            .collect();
        socs.sort();
        socs
    }
}

impl Library for Folder {
    fn soc(&self, key: &str) -> Option<Source> {
        self.source(&Path::new(key).join("soc.toml"))
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.source(&Path::new("models").join(format!("{key}.toml")))
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        self.source(&Path::new(soc_key).join(format!("{model_key}.toml")))
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        match kind {
            Kind::Scenario => Vec::new(),
            Kind::Soc => self.socs(),
            Kind::Model => self.stems("models"),
            Kind::Costs => self
                .socs()
                .into_iter()
                .flat_map(|soc| {
                    let models = self.stems(&soc);
                    models
                        .into_iter()
                        .filter(|model| model != "soc")
                        .map(move |model| format!("{soc}/{model}"))
                })
                .collect(),
        }
    }
}

/// What validation plays: published scenarios, profiles and files.
pub trait Stock {
    /// A scenario of the published experiments, by its name without `.toml`.
    fn published(&self, key: &str) -> Option<Source>;
    /// The profiles of the scenario at `path`.
    fn library(&self, path: &str) -> Box<dyn Library + '_>;
    /// The files that scenarios and measurements name by path.
    fn files(&self) -> &dyn Files;
}

/// A checkout of this project: `scenarios/published/` and `profiles/` below one folder.
#[derive(Clone, Debug)]
pub struct Checkout {
    root: PathBuf,
    profiles: Folder,
}

impl Checkout {
    /// The checkout at `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            profiles: Folder::new(root.join("profiles")),
        }
    }
}

impl Stock for Checkout {
    fn published(&self, key: &str) -> Option<Source> {
        let path = self.root.join(format!("scenarios/published/{key}.toml"));
        let text = std::fs::read_to_string(&path).ok()?;
        Some(Source {
            name: path.display().to_string(),
            text,
        })
    }

    fn library(&self, _path: &str) -> Box<dyn Library + '_> {
        Box::new(self.profiles.clone())
    }

    fn files(&self) -> &dyn Files {
        &Disk
    }
}

/// Files of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }
}
