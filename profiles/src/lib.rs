//! Profiles of chips and models: importers of the files that people already have, and a roofline for what nobody
//! has measured.
//!
//! The profiles themselves lie beside this crate's code, as TOML: `<soc>/soc.toml`, `<soc>/<model>.toml`
//! and `models/<model>.toml`. [`import`] writes such files from benchmark logs, model files and traces.
#![forbid(unsafe_code)]

pub mod import;
pub mod roofline;
