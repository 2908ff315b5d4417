//! Profiles by key: from a `profiles` folder beside or above the scenario, else the built-in copies.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

use sim::load::{Files, Kind, Library, Source};
use validation::folder::Stock;

use crate::options::{bytes, utf8};

include!(concat!(env!("OUT_DIR"), "/profiles.rs"));

/// The profiles that a scenario may name.
#[derive(Debug)]
pub(crate) struct Profiles {
    folder: Option<PathBuf>,
}

impl Profiles {
    /// The profiles for a file at `path`.
    pub(crate) fn beside(path: &Path) -> Self {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Relative paths are walked as written as far as they go, so that names in messages stay short.
        let whole = parent.canonicalize().ok();
        let here = env::current_dir().and_then(|here| here.canonicalize()).ok();
        let here = here.filter(|_| parent.is_relative());
        let above = whole.as_deref().into_iter().flat_map(Path::ancestors);
        let above = above.map(|folder| match &here {
            Some(here) => relative(folder, here),
            None => folder.to_owned(),
        });
        // `a/..` and the like have ancestors by name that are not above them.
        let by_name = !parent.components().any(|part| part == Component::ParentDir);
        let folder = parent
            .ancestors()
            .take(if by_name { usize::MAX } else { 1 })
            .map(Path::to_owned)
            .chain(above)
            .map(|folder| folder.join("profiles"))
            .find(|folder| folder.is_dir());
        Self { folder }
    }

    fn find(&self, name: &str) -> Option<Source> {
        let on_disk = self.folder.as_ref().and_then(|folder| {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).ok()?;
            let name = path.strip_prefix("./").unwrap_or(&path);
            let name = name.to_string_lossy().into_owned();
            Some(Source { name, text })
        });
        on_disk.or_else(|| {
            let (_, text) = PROFILES.iter().find(|(built_in, _)| *built_in == name)?;
            Some(Source {
                name: format!("profiles/{name}"),
                text: (*text).to_owned(),
            })
        })
    }
}

/// `path` as seen from the folder `here`; both are absolute.
fn relative(path: &Path, here: &Path) -> PathBuf {
    let common = path.components().zip(here.components());
    let common = common.take_while(|(a, b)| a == b).count();
    let up = here.components().skip(common).map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

/// Whether a key is a plain name: it must not lead out of the folder.
fn plain(key: &str) -> bool {
    !key.is_empty() && !key.contains(['/', '\\']) && key != ".." && key != "."
}

impl Library for Profiles {
    fn soc(&self, key: &str) -> Option<Source> {
        plain(key).then(|| self.find(&format!("{key}/soc.toml")))?
    }

    fn model(&self, key: &str) -> Option<Source> {
        plain(key).then(|| self.find(&format!("models/{key}.toml")))?
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        let both = plain(soc_key) && plain(model_key);
        both.then(|| self.find(&format!("{soc_key}/{model_key}.toml")))?
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        let built_in = PROFILES.iter().map(|(name, _)| (*name).to_owned());
        let all: BTreeSet<String> = built_in.chain(self.on_disk()).collect();
        let names = all.iter().filter_map(|name| {
            let (folder, file) = name.split_once('/')?;
            let stem = file.strip_suffix(".toml")?;
            let key = match (kind, folder, stem) {
                (Kind::Soc, _, "soc") => folder.to_owned(),
                (Kind::Model, "models", _) => stem.to_owned(),
                (Kind::Costs, _, stem) if folder != "models" && stem != "soc" => {
                    format!("{folder}/{stem}")
                }
                _ => return None,
            };
            Some(key)
        });
        names.collect()
    }
}

impl Profiles {
    /// `folder/file` of every profile on disk.
    fn on_disk(&self) -> Vec<String> {
        let entries = |path: &Path| {
            let list = fs::read_dir(path).into_iter().flatten().flatten();
            list.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let mut list = Vec::new();
        let Some(root) = &self.folder else {
            return list;
        };
        for file in entries(root).iter().flat_map(|folder| entries(folder)) {
            if let Ok(name) = file.strip_prefix(root) {
                list.push(name.to_string_lossy().replace('\\', "/"));
            }
        }
        list
    }
}

/// What validation plays: the scenarios that come with crossinfer, from a `scenarios` folder here or
/// above that holds the published ones, else the built-in copies; profiles as for any scenario.
#[derive(Debug)]
pub(crate) struct Shelf {
    folder: Option<PathBuf>,
}

impl Shelf {
    /// Looks from the folder that the user is in.
    pub(crate) fn here() -> Self {
        let here = env::current_dir().and_then(|here| here.canonicalize()).ok();
        let folders = here.iter().flat_map(|here| {
            let above = here.ancestors();
            above.map(move |folder| relative(&folder.join("scenarios"), here))
        });
        let mut folders = folders.filter(|folder| folder.join("published").is_dir());
        Self {
            folder: folders.next(),
        }
    }

    /// Looks from the folder that the user is in, then from that of `file`.
    pub(crate) fn near(file: &Path) -> Self {
        let here = Self::here();
        if here.folder.is_some() {
            return here;
        }
        let file = file.canonicalize().ok();
        let folders = file.iter().flat_map(|file| file.ancestors().skip(1));
        let mut folders = folders.map(|folder| folder.join("scenarios"));
        Self {
            folder: folders.find(|folder| folder.join("published").is_dir()),
        }
    }

    /// Every scenario that comes with crossinfer.
    pub(crate) fn shipped(&self) -> Vec<Source> {
        let names = SCENARIOS.iter().map(|(name, _)| *name);
        names.filter_map(|name| self.scenario(name)).collect()
    }

    /// Whether the profile called `name`, a path, is another than the one of its place that comes with crossinfer.
    pub(crate) fn replaces(name: &str) -> bool {
        let mut parts: Vec<&str> = name.rsplit(['/', '\\']).take(2).collect();
        parts.reverse();
        let key = parts.join("/");
        let built_in = PROFILES.iter().find(|(built_in, _)| *built_in == key);
        let found = fs::read_to_string(name).ok();
        built_in
            .zip(found)
            .is_some_and(|((_, text), found)| *text != found)
    }

    fn scenario(&self, file: &str) -> Option<Source> {
        let on_disk = self.folder.as_ref().and_then(|folder| {
            let path = folder.join(file);
            let text = fs::read_to_string(&path).ok()?;
            let name = path.to_string_lossy().into_owned();
            Some(Source { name, text })
        });
        on_disk.or_else(|| {
            let (_, text) = SCENARIOS.iter().find(|(built_in, _)| *built_in == file)?;
            Some(Source {
                name: format!("scenarios/{file}"),
                text: (*text).to_owned(),
            })
        })
    }
}

impl Stock for Shelf {
    fn published(&self, key: &str) -> Option<Source> {
        self.scenario(&format!("published/{key}.toml"))
    }

    fn library(&self, path: &str) -> Box<dyn Library + '_> {
        Box::new(Profiles::beside(Path::new(path)))
    }

    fn files(&self) -> &dyn Files {
        &Disk
    }
}

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        utf8(bytes(Path::new(path)).map_err(|error| error.to_string())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_never_lead_out_of_the_folder() {
        let library = Profiles { folder: None };
        assert!(library.soc("../profiles/rk3588").is_none());
        assert!(library.soc("..").is_none());
        assert!(library.model("").is_none());
    }

    #[test]
    fn built_in_scenarios_are_there_without_a_folder() {
        let shelf = Shelf { folder: None };
        assert!(shelf.published("table12").is_some());
        assert!(shelf.published("../two-cameras-rk3588").is_none());
        assert!(shelf.shipped().len() > 30);
    }

    #[test]
    fn paths_are_shown_as_seen_from_here() {
        let seen = |path: &str, here: &str| relative(Path::new(path), Path::new(here));
        assert_eq!(seen("/a/b/c", "/a/b"), Path::new("c"));
        assert_eq!(seen("/a", "/a/b/c"), Path::new("../.."));
        assert_eq!(seen("/a/d", "/a/b"), Path::new("../d"));
        assert_eq!(seen("/a", "/a"), Path::new(""));
    }

    #[test]
    fn every_listed_key_is_found() {
        let library = Profiles { folder: None };
        for key in library.names(Kind::Soc) {
            assert!(library.soc(&key).is_some(), "{key}");
        }
        for key in library.names(Kind::Model) {
            assert!(library.model(&key).is_some(), "{key}");
        }
        for key in library.names(Kind::Costs) {
            let (soc, model) = key.split_once('/').expect("costs have two keys");
            assert!(library.costs(soc, model).is_some(), "{key}");
        }
        assert!(library.names(Kind::Scenario).is_empty());
    }
}
