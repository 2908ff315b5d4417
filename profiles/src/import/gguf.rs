//! GGUF model files: the header alone. Tensor data is never read, so a file of any size answers at once, and one
//! that ends after its header is whole.
//!
//! Byte order, versions 1 to 3 and the sizes of quantised blocks are as in ggml's `gguf.cpp` and `ggml.c`.

mod header;
mod layers;
mod shards;
mod types;

use std::fmt::Write as _;
use std::io::BufRead;

use super::hf_config::tiles::Tiles;
use super::model::{self, Facts, Known};
use super::note::{NoteKind, Notes};
use super::{Options, Output, Source};
use header::Header;
use shards::{Model, Shard, together};

/// Model profiles of the headers; a vision projector (`mmproj`) completes the model beside it.
pub(crate) fn import(sources: Vec<Source>, options: &Options, notes: &mut Notes) -> Vec<Output> {
    let mut models: Vec<Facts> = Vec::new();
    let mut towers: Vec<Facts> = Vec::new();
    let headers = sources.into_iter().filter_map(|source| read(source, notes));
    let headers = headers.collect();
    for model in together(headers, notes) {
        let architecture = model.header.text("general.architecture");
        let architecture = architecture.unwrap_or_default();
        if architecture == "clip" {
            towers.push(tower(&model.header, &model.file, options, notes));
        } else {
            models.extend(language(&model, &architecture, notes));
        }
    }
    let mut towers = towers.into_iter();
    match (towers.next(), towers.next()) {
        (None, _) => {}
        (Some(tower), None) if models.len() == 1 => {
            for model in &mut models {
                if let (Some(made), Some(wanted)) = (tower.width, model.width)
                    && made != wanted
                {
                    let text = format!(
                        "it makes embeddings of {made} numbers (`clip.vision.projection_dim`), and {} takes {wanted}: it is another model's projector",
                        model.file
                    );
                    notes.add(NoteKind::Warning, &tower.file, None, text);
                }
                model.sees = true;
                model.tower_file = Some(tower.file.clone());
                model.tokens_per_frame.clone_from(&tower.tokens_per_frame);
                model.tokens_from.clone_from(&tower.tokens_from);
                model.vision_weights.clone_from(&tower.weights);
            }
        }
        (Some(tower), None) if models.is_empty() => {
            let text = "a vision projector alone: give its language model's file as well";
            notes.refuse(&tower.file, None, text);
        }
        (Some(tower), _) => {
            let text = "which projector belongs to which model is unknown: give one of each";
            notes.refuse(&tower.file, None, text);
            return Vec::new();
        }
    }
    models
        .iter()
        .filter_map(|facts| model::output(facts, options, notes))
        .collect()
}

/// The shape of a model and the data type of its weights, by its header, for a roofline; `vocabulary` has the entries
/// that the model's config.json states, for a file without tokens.
///
/// # Errors
///
/// What is wrong with the header or missing in it.
pub fn shape(
    source: Source,
    vocabulary: Option<f64>,
) -> Result<(crate::roofline::Shape, String), String> {
    let mut notes = Notes::default();
    let Some((header, file)) = read(source, &mut notes) else {
        let said: Vec<String> = notes.list.iter().map(ToString::to_string).collect();
        return Err(said.join("; "));
    };
    if let Some(shard) = Shard::of(&header, &file)? {
        return Err(format!(
            "{file}: one of {} shards, of which none alone has all tensors: give the model's config.json",
            shard.count
        ));
    }
    let architecture = header.text("general.architecture").unwrap_or_default();
    let need = |name: &str| {
        let key = format!("{architecture}.{name}");
        let value = header
            .numbers(&key)
            .and_then(|list| list.into_iter().reduce(f64::max))
            .filter(|value| *value >= 1.0 && value.is_finite());
        value.ok_or_else(|| format!("{file}: `{key}` is missing or no count"))
    };
    let layers = need("block_count")?;
    let hidden = need("embedding_length")?;
    let heads = need("attention.head_count")?;
    let head = need("attention.key_length").unwrap_or(hidden / heads);
    let of_dimensions = crate::roofline::shape::Dimensions {
        layers,
        hidden,
        heads,
        kv_heads: need("attention.head_count_kv").unwrap_or(heads),
        head,
        inner: need("feed_forward_length")?,
        vocabulary: need("vocab_size")
            .ok()
            .or_else(|| header.list_length("tokenizer.ggml.tokens"))
            .or(vocabulary)
            .ok_or_else(|| format!("{file}: neither `vocab_size` nor the tokens are there: give the model's config.json too"))?,
        tied: !header.has_head(),
    };
    if header.has(&format!("{architecture}.expert_count")) {
        return Err(format!(
            "{file}: a mixture of experts, which is counted from its config.json"
        ));
    }
    let grows = layers::of(&header, &architecture)?.growing.len() as f64;
    let quant = header
        .number("general.file_type")
        .and_then(|id| types::file_type(id as u64))
        .ok_or_else(|| format!("{file}: `general.file_type` is missing: give `--type`"))?;
    let weights = header.weights(&file, 1, &mut notes);
    let name = header.text("general.name").unwrap_or_else(|| file.clone());
    let mut shape = crate::roofline::Shape::dense(&name, &of_dimensions);
    shape.attending = grows;
    shape.architecture = Some(architecture.clone());
    shape.weights_bytes = weights
        .filter(|_| header.tensors > 0)
        .map(|known| known.value);
    shape.max_context = need("context_length").ok();
    Ok((shape, quant.to_lowercase()))
}

/// The header of a file.
fn read(source: Source, notes: &mut Notes) -> Option<(Header, String)> {
    let Source { name, mut reader } = source;
    match header::read(&mut *reader as &mut dyn BufRead) {
        Ok(header) => Some((header, name)),
        Err((byte, fault)) => {
            notes.refuse(&name, None, format!("at byte {byte}: {fault}"));
            None
        }
    }
}

/// What a file tells of its language model.
fn language(model: &Model, architecture: &str, notes: &mut Notes) -> Option<Facts> {
    let Model { header, file, .. } = model;
    if architecture.is_empty() {
        notes.refuse(file, None, "`general.architecture` is missing");
        return None;
    }
    if header.number(&format!("{architecture}.attention.causal")) == Some(0.0) {
        let text =
            format!("`{architecture}` does not attend causally: it embeds text and generates none");
        notes.refuse(file, None, text);
        return None;
    }
    let layers = match layers::of(header, architecture) {
        Ok(layers) => layers,
        Err(fault) => {
            notes.refuse(file, None, fault);
            return None;
        }
    };
    let name = header.text("general.name").unwrap_or_else(|| {
        let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let stem = stem.trim_end_matches(".gguf");
        shards::without_number(stem).to_owned()
    });
    let mut facts = Facts {
        name,
        file: file.clone(),
        layers,
        width: header.number(&format!("{architecture}.embedding_length")),
        max_context: header
            .number(&format!("{architecture}.context_length"))
            .map(|tokens| Known::new(tokens, format!("`{architecture}.context_length`"))),
        weights_from: if let Some(lacks) = &model.lacks {
            lacks.clone().into()
        } else if header.tensors == 0 {
            "the file has no tensors (a vocabulary only): the model's own GGUF file has them".into()
        } else {
            "a tensor's type is not known here, so its size is not either".into()
        },
        ..Facts::default()
    };
    if header.tensors > 0 && model.lacks.is_none() {
        facts.weights = header.weights(file, model.files, notes);
        let stated = header.number(&format!("{architecture}.block_count"));
        let (blocks, stated) = (header.blocks(), stated.unwrap_or(0.0));
        if (blocks as f64) < stated {
            let text = format!(
                "it has tensors of {blocks} of the {stated} layers that `{architecture}.block_count` states: the weights are those that are there"
            );
            notes.add(NoteKind::Warning, file, None, text);
        }
    }
    let quant = header
        .number("general.file_type")
        .map_or_else(String::new, |id| {
            format!(
                ", file type {} ({})",
                id,
                types::file_type(id as u64).unwrap_or("unknown")
            )
        });
    let text = format!(
        "{architecture}, {} tensors{quant}{}",
        header.tensors,
        if header.big_endian {
            ", big-endian"
        } else {
            ""
        }
    );
    notes.add(NoteKind::Read, file, None, text);
    Some(facts)
}

/// Multiplies a tile's tokens by the tiles of a still picture, or says that one is taken.
fn cut(
    known: &mut Known,
    longest: Option<f64>,
    tile: f64,
    options: &Options,
    file: &str,
    notes: &mut Notes,
) {
    let tiles = longest.map(|longest| Tiles { longest, tile });
    match (tiles, options.frame) {
        (Some(tiles), Some((width, height))) => {
            let pictures = tiles.pictures(f64::from(width), f64::from(height));
            let each = known.value;
            known.value *= pictures;
            known.interval = (pictures > 1.0).then_some((each, known.value));
            _ = write!(
                known.how,
                " in each of {pictures} tiles of a still picture of {width} x {height} (`--frame`), its longer side brought to {}; the lower end is one tile",
                tiles.longest
            );
        }
        (Some(tiles), None) => {
            let most = tiles.most();
            known.interval = (most > 1.0).then_some((known.value, known.value * most));
            let text = format!(
                "1 tile a frame is assumed, as of a video; of a still picture give the size (`--frame 1280x720`): it has up to {most}"
            );
            notes.add(NoteKind::Warning, file, None, text);
        }
        (None, _) => {
            let text = "1 tile a frame is assumed: `clip.vision.preproc_image_size`, which says into how many a still picture is cut, is missing";
            notes.add(NoteKind::Warning, file, None, text);
        }
    }
}

/// What a projector tells of its vision tower.
fn tower(header: &Header, file: &str, options: &Options, notes: &mut Notes) -> Facts {
    let number = |key: &str| {
        header
            .number(&format!("clip.vision.{key}"))
            .filter(|x| *x >= 1.0)
    };
    let kind = header
        .text("clip.vision.projector_type")
        .or_else(|| header.text("clip.projector_type"))
        .unwrap_or_default();
    let (size, patch) = (number("image_size"), number("patch_size"));
    let merge = number("spatial_merge_size").or_else(|| number("projector.scale_factor"));
    // Converters before 2025 wrote CLIP's own width there; they gave no type either.
    let of_model = header.text("general.type").as_deref() == Some("mmproj");
    let mut facts = Facts {
        file: file.to_owned(),
        sees: true,
        width: number("projection_dim").filter(|_| of_model),
        ..Facts::default()
    };
    let merged = match kind.as_str() {
        "mlp" | "mlp_norm" | "adapter" => Some(1.0),
        "ldp" | "ldpv2" => Some(2.0),
        "qwen2vl_merger" | "qwen2.5vl_merger" | "qwen3vl_merger" => Some(merge.unwrap_or(2.0)),
        "gemma3" => size
            .zip(patch)
            .map(|(size, patch)| (size / patch / 16.0).max(1.0)),
        "idefics3" | "internvl" | "llama4" | "pixtral" | "lfm2" => merge,
        _ => None,
    };
    let dynamic = kind.starts_with("qwen") || kind == "pixtral";
    let frame = options
        .frame
        .map(|(width, height)| (f64::from(width), f64::from(height)));
    let frame = if dynamic {
        frame
    } else {
        size.map(|size| (size, size))
    };
    if let (Some(merged), Some(patch), Some((width, height))) = (merged, patch, frame) {
        let side = |pixels: f64| (pixels / patch / merged).round().max(1.0);
        let how = format!(
            "{width} x {height} pixels, patches of {patch}, {merged} x {merged} of them a token (`{kind}`)"
        );
        let mut known = Known::new(side(width) * side(height), how);
        if kind == "idefics3" {
            let longest = number("preproc_image_size");
            cut(&mut known, longest, width, options, file, notes);
        }
        facts.tokens_per_frame = Some(known);
    } else {
        let lacks: Vec<&str> = [
            ("`clip.vision.patch_size`", patch.is_none()),
            ("`clip.vision.image_size`", !dynamic && size.is_none()),
        ]
        .into_iter()
        .filter_map(|(key, lacks)| lacks.then_some(key))
        .collect();
        facts.tokens_from = if merged.is_none() {
            format!(
                "how many patches the projector `{kind}` puts into a token is neither stated nor known here: `--tokens-per-frame N`"
            )
        } else if lacks.is_empty() {
            "the tower's tokens depend on the frame's size: `--frame 448x448`, or `--tokens-per-frame N`".to_owned()
        } else {
            format!(
                "the projector's file lacks {}: `--tokens-per-frame N`",
                lacks.join(" and ")
            )
        }
        .into();
    }
    if header.tensors > 0 {
        facts.weights = header.weights(file, 1, notes);
    }
    notes.add(
        NoteKind::Read,
        file,
        None,
        format!("vision projector `{kind}`, {} tensors", header.tensors),
    );
    facts
}
