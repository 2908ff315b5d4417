//! `crossinfer devices`: which real engines there are here.

use clap::Args;
use screen::{GLUE, hanging};

use crate::failure::{Failure, print};

/// List the real engines that this build has, what is found on this machine, and why not more.
///
/// A plain build has none; one with `--features live` has llama.cpp and ONNX Runtime.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  crossinfer devices")]
pub(crate) struct Arguments {}

pub(crate) fn main(_: &Arguments) -> Result<(), Failure> {
    let mut text = String::new();
    for found in hw::devices::find() {
        let mark = if found.usable { ' ' } else { '-' };
        text += &hanging(&format!("{mark}{GLUE}{}", found.what), 0);
        text += &hanging(&found.says, 6);
    }
    print(&text)
}
