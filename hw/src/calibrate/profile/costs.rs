//! The cost file: what was fitted as text, each number with its interval and where it comes from.

use std::fmt::Write as _;

use sim::spec::model::StageKind;
use sim::world::{EngineId, StageId, World};
use toml_edit::Value;

use super::{Provenance, Quality};
use crate::calibrate::point::kind_name;

/// Greatest of some errors, as a percentage.
fn worst(errors: &[f64]) -> f64 {
    100.0 * errors.iter().map(|error| error.abs()).fold(0.0, f64::max)
}

pub(super) fn costs_text(world: &World, fits: &[Quality], provenance: &Provenance) -> String {
    let mut text = String::new();
    let mut origins = String::new();
    _ = write!(
        text,
        "# Written by `crossinfer calibrate`.\nsoc = {}\nmodel = {}\n",
        quoted(&world.soc_key),
        quoted(&world.model_key)
    );
    for (index, engine) in world.engines.iter().enumerate() {
        let id = EngineId(index as u8);
        let computes = |kind| {
            fits.iter()
                .any(|fit| fit.engine == engine.name && fit.kind == kind)
        };
        if let Some(bytes) = provenance.weights_copy_bytes
            && computes(StageKind::Ingest)
        {
            _ = write!(
                text,
                "\n[engines.{}]\nweights_copy_bytes = {{ value = {bytes}, origin = \"own_copy\" }}\n",
                quoted(&engine.name)
            );
        }
        for quality in fits.iter().filter(|fit| fit.engine == engine.name) {
            let key = format!("{}_{}", engine.name, kind_name(quality.kind));
            stage_text(&mut text, world, id, quality, &key);
            _ = write!(
                origins,
                "\n[origins.{}]\nkind = \"measured\"\nnote = {}\n",
                quoted(&key),
                quoted(&note(quality, provenance))
            );
        }
        let mut unsupported = String::new();
        for (stage, of) in world.stages.iter().enumerate() {
            let runs = world.costs.get(id, StageId(stage as u8)).is_some();
            if !runs && of.kind != StageKind::Custom {
                _ = writeln!(
                    unsupported,
                    "{} = \"the profile that was calibrated has no cost of it here\"",
                    quoted(&of.name)
                );
            }
        }
        if !unsupported.is_empty() {
            _ = write!(
                text,
                "\n[engines.{}.unsupported]\n{unsupported}",
                quoted(&engine.name)
            );
        }
    }
    if text.contains("origin = \"own_copy\"") {
        text += "\n[origins.own_copy]\nkind = \"measured\"\nnote = ";
        text += &quoted(&format!(
            "{}, {}: size of the model's file; each processor loads a copy of its own",
            provenance.date, provenance.host
        ));
        text.push('\n');
    }
    if text.contains("origin = \"carried\"") {
        text += "\n[origins.carried]\nkind = \"derived\"\nnote = \"DRAM bytes, CPU cores beside the engine and power are as in the profile that was calibrated\"\n";
    }
    text + &origins
}

fn stage_text(text: &mut String, world: &World, id: EngineId, quality: &Quality, key: &str) {
    let engine = &world.engines[id.0 as usize].name;
    let form = &quality.fit.form;
    _ = write!(
        text,
        "\n[engines.{}.stages.{}]\norigin = {}\n",
        quoted(engine),
        kind_name(quality.kind),
        quoted(key)
    );
    let within = quality.uncertainty();
    let mut number = |key: &str, value: f64| {
        if value > 0.0 {
            let (low, high) = (value * (1.0 - within), value * (1.0 + within));
            _ = writeln!(
                text,
                "{key} = {{ value = {value:e}, low = {low:e}, high = {high:e} }}"
            );
        }
    };
    let transfer = matches!(quality.kind, StageKind::Export | StageKind::Import);
    number("fixed_s", form.fixed);
    if transfer {
        if form.per_token > 0.0 {
            number("gbps", 1e-9 / form.per_token);
        }
    } else {
        number("per_token_s", form.per_token);
        number("per_token_context_s", form.per_token_context);
        number("per_context_s", form.per_context);
    }
    if quality.cv > 0.0 {
        _ = writeln!(text, "cv = {:e}", quality.cv);
    }
    if form.block > 0.0 && form.per_token_context > 0.0 {
        _ = writeln!(text, "context_block = {}", form.block);
    }
    if !form.table.is_empty() {
        let (sizes, secs): (Vec<String>, Vec<String>) = form
            .table
            .iter()
            .map(|(size, secs)| (format!("{size:?}"), format!("{secs:e}")))
            .unzip();
        _ = writeln!(
            text,
            "table = {{ size = [{}], time_s = [{}] }}",
            sizes.join(", "),
            secs.join(", ")
        );
    }
    let stage = world
        .stages
        .iter()
        .position(|stage| stage.kind == quality.kind);
    let costs = stage.and_then(|stage| world.costs.get(id, StageId(stage as u8)));
    if let Some(costs) = costs {
        let carried = [
            ("host_cores", costs.host_cores),
            ("host_share", costs.host_share),
            ("active_w", costs.active_w.unwrap_or(0.0)),
            ("bytes", costs.alone.bytes_fixed),
            ("bytes_per_token", costs.alone.bytes_per_token),
            (
                "bytes_per_token_context",
                costs.alone.bytes_per_token_context,
            ),
            ("bytes_per_context", costs.alone.bytes_per_context),
        ];
        for (key, value) in carried.into_iter().filter(|(_, value)| *value > 0.0) {
            _ = writeln!(
                text,
                "{key} = {{ value = {value:e}, origin = \"carried\" }}"
            );
        }
    }
    if !transfer && quality.kind != StageKind::Encode {
        let range = |values: &[f64]| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            format!("[{low}, {high}]")
        };
        _ = writeln!(text, "measured_tokens = {}", range(&quality.fit.sizes));
        if quality.kind != StageKind::Project {
            _ = writeln!(text, "measured_context = {}", range(&quality.fit.contexts));
        }
    }
}

fn note(quality: &Quality, provenance: &Provenance) -> String {
    let Provenance {
        date,
        host,
        versions,
        ..
    } = provenance;
    let cold = quality.cold.map_or_else(String::new, |cold| {
        format!("; the first run of a size in a process took {cold:.2} times as long")
    });
    let left_out = if quality.fit.left_out.is_empty() {
        "too few points to leave one out".to_owned()
    } else {
        format!("left out {:.1} %", worst(&quality.fit.left_out))
    };
    let refreshed = quality.refreshed.map_or_else(String::new, |now| {
        format!(
            "; multiplied by {:.3}, since {} samples taken later are {:.3} ± {:.3} of that",
            now.factor(),
            now.samples,
            now.ratio,
            now.error
        )
    });
    let stalls = quality.stalls;
    let stalled = match stalls.count {
        0 => String::new(),
        count => format!(
            "; {count} more stalled, {:.3} s at most, {:.1} % of the stage's time",
            stalls.longest_s,
            100.0 * stalls.share
        ),
    };
    format!(
        "{date}, {host}, {versions}: {} samples of {} points, fitted to medians and multiplied by {:.3}, the mean of samples ÷ form; worst error of the form {:.1} %, {left_out}; its {} rounds differ by {:.1} %{stalled}{cold}{refreshed}",
        quality.samples,
        quality.fit.points,
        quality.mean,
        worst(&quality.fit.residuals),
        quality.drift.rounds,
        100.0 * quality.drift.cv,
    )
}

/// A TOML string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
