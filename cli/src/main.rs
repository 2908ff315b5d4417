//! The `crossinfer` command: arguments, files, progress and exit codes. What it says comes from `sim`,
//! `reports` and `validation`.
#![forbid(unsafe_code)]

mod calibrate;
mod check;
mod compare;
mod devices;
mod document;
mod explain;
mod failure;
mod fit;
mod generate;
mod import;
mod library;
mod live;
mod options;
mod output;
mod plan;
mod render;
mod replay;
mod replicate;
mod report;
mod roofline;
mod run;
mod schema;
mod sweep;
mod target;
mod tune;
mod validate;
mod validate_live;
mod validate_roofline;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Failure;

/// Predict how a vision-language model performs on an edge SoC.
///
/// A scenario names a SoC, a model, streams of frames and queries, and a dispatch policy; crossinfer
/// plays it in virtual time and says what comes out, with intervals where it is replicated.
///
/// Results go to standard output, everything else to standard error. Exit status: 0 done, 1 the answer
/// is no, 2 bad input or usage, 3 internal failure or a result that cannot be written.
#[derive(Debug, Parser)]
#[command(
    name = "crossinfer",
    version,
    help_expected = true,
    max_term_width = 80,
    after_long_help = "Example:\n  crossinfer run scenarios/two-cameras-rk3588.toml"
)]
struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Compare(compare::Arguments),
    Plan(plan::Arguments),
    Sweep(sweep::Arguments),
    Merge(sweep::MergeArguments),
    Tune(tune::Arguments),
    Check(check::Arguments),
    Import(import::Arguments),
    Roofline(roofline::Arguments),
    Schema(schema::Arguments),
    Replay(replay::Arguments),
    Report(report::Arguments),
    Explain(explain::Arguments),
    Fit(fit::Arguments),
    Devices(devices::Arguments),
    Generate(generate::Arguments),
    Calibrate(calibrate::Arguments),
    Validate(validate::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed this way too. A closed pipe is no error.
            _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let done = panic::catch_unwind(AssertUnwindSafe(|| dispatch(&arguments.command)));
    let failure = match done {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(failure)) => failure,
        // The panic's message has been printed.
        Err(_) => Failure::internal(
            "this is a fault of crossinfer, not of your files; please report the lines above",
        ),
    };
    failure.report();
    ExitCode::from(failure.code())
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::main(arguments),
        Command::Compare(arguments) => compare::main(arguments),
        Command::Plan(arguments) => plan::main(arguments),
        Command::Sweep(arguments) => sweep::main(arguments),
        Command::Merge(arguments) => sweep::merge(arguments),
        Command::Tune(arguments) => tune::main(arguments),
        Command::Check(arguments) => check::main(arguments),
        Command::Import(arguments) => import::main(arguments),
        Command::Roofline(arguments) => roofline::main(arguments),
        Command::Schema(arguments) => schema::main(arguments),
        Command::Replay(arguments) => replay::main(arguments),
        Command::Report(arguments) => report::main(arguments),
        Command::Explain(arguments) => explain::main(arguments),
        Command::Fit(arguments) => fit::main(arguments),
        Command::Devices(arguments) => devices::main(arguments),
        Command::Generate(arguments) => generate::main(arguments),
        Command::Calibrate(arguments) => calibrate::main(arguments),
        Command::Validate(arguments) => validate::main(arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
