//! `preprocessor_config.json` beside a `config.json`: the sizes that pictures are brought to.

use serde_json::Value;

use super::super::note::{NoteKind, Notes};
use super::super::{Source, text};
use super::{count, once};

/// Where the tower looks for how the processor cuts pictures: a table of whether it does (`on`), what it brings the
/// longer side to (`longest`) and the side of a tile (`tile`).
pub(super) const SPLITTING: &str = "(image splitting)";

/// Where the tower finds the class of the processor beside it.
pub(super) const BESIDE: &str = "(processor)";

/// Its name.
const NAME: &str = "preprocessor_config.json";

/// A processor's configuration, with the folder that it lies in.
pub(super) struct Processor {
    file: String,
    folder: String,
    value: Value,
}

/// The folder of a path, and its name.
fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once(['/', '\\']).unwrap_or(("", path))
}

/// The files that are no processor's, and the processors' that could be read.
pub(super) fn apart(sources: Vec<Source>, notes: &mut Notes) -> (Vec<Source>, Vec<Processor>) {
    let (own, others): (Vec<_>, Vec<_>) = sources
        .into_iter()
        .partition(|source| parts(&source.name).1 == NAME);
    let folders: Vec<String> = others
        .iter()
        .map(|source| parts(&source.name).0.to_owned())
        .collect();
    let mut processors = Vec::new();
    for source in own {
        let file = source.name.clone();
        let folder = parts(&file).0.to_owned();
        if !folders.contains(&folder) {
            let text = "says how pictures are prepared, not what model sees them: give the config.json of the same folder too";
            notes.refuse(&file, None, text);
            continue;
        }
        let Some(text) = text::whole(source, notes) else {
            continue;
        };
        match read(&file, &text) {
            Ok(value) => processors.push(Processor {
                file,
                folder,
                value,
            }),
            Err((line, fault)) => notes.refuse(&file, Some(line), fault),
        }
    }
    (others, processors)
}

fn read(_: &str, text: &str) -> Result<Value, (u64, String)> {
    serde_json::from_str(text)
        .map(|once::Once(value)| value)
        .map_err(|error| (error.line() as u64, format!("no JSON: {error}")))
}

/// What a processor's text adds to a configuration.
///
/// # Errors
///
/// Where it is no JSON.
pub(super) fn add(root: &mut Value, text: &str) -> Result<(), String> {
    let value = read(NAME, text).map_err(|(line, fault)| format!("{NAME}:{line}: {fault}"))?;
    _ = merge(root, &value);
    Ok(())
}

/// Adds what the processor in the folder of `file` states and the configuration does not.
pub(super) fn beside(root: &mut Value, file: &str, all: &[Processor], notes: &mut Notes) {
    let folder = parts(file).0;
    for processor in all.iter().filter(|one| one.folder == folder) {
        let (took, doubts) = merge(root, &processor.value);
        let text = if took.is_empty() {
            "nothing that this model's configuration leaves open".to_owned()
        } else {
            took.join(", ")
        };
        notes.add(NoteKind::Read, &processor.file, None, text);
        for doubt in doubts {
            notes.add(NoteKind::Warning, &processor.file, None, doubt);
        }
    }
}

/// Puts the least and most pixels, and the size of pictures, where the tower looks for them. Returns what was taken and
/// what contradicts the configuration, which is kept.
fn merge(root: &mut Value, processor: &Value) -> (Vec<String>, Vec<String>) {
    let (mut took, mut doubts) = (Vec::new(), Vec::new());
    let class = ["image_processor_type", "processor_class"].map(|key| {
        let name = processor.get(key).and_then(Value::as_str);
        name.unwrap_or("").to_owned()
    });
    let of = |table: &str, key: &str| count(processor.get(table)?, key);
    if let Value::Object(table) = &mut *root {
        let name = class.iter().find(|name| !name.is_empty());
        let name = name.cloned().unwrap_or_default();
        table.insert(BESIDE.to_owned(), name.into());
    }
    // Of these classes the edges of `size` are numbers of pixels.
    let area = class.iter().any(|name| {
        name.starts_with("Qwen2VL") || name.starts_with("Qwen3VL") || name.starts_with("Qwen2_5_VL")
    });
    let bound = |key: &str, edge: &str| {
        let stated = count(processor, key);
        stated.or_else(|| of("size", key).or_else(|| of("size", edge).filter(|_| area)))
    };
    let pixels = [
        ("min_pixels", bound("min_pixels", "shortest_edge")),
        ("max_pixels", bound("max_pixels", "longest_edge")),
    ];
    let tower = root.get("vision_config").filter(|table| table.is_object());
    let stated = |key: &str| {
        let nested = tower.and_then(|table| count(table, key));
        nested.or_else(|| count(root, key))
    };
    let mut put = Vec::new();
    for (key, value) in pixels {
        match (value, stated(key)) {
            (Some(value), None) => put.push((key, value)),
            (Some(value), Some(own)) if own != value => {
                doubts.push(format!(
                    "`{key}` is {value} here and {own} in config.json: that is taken"
                ));
            }
            _ => {}
        }
    }
    for (key, own) in [
        ("patch_size", "patch_size"),
        ("merge_size", "spatial_merge_size"),
    ] {
        if let (Some(value), Some(own_value)) = (count(processor, key), stated(own))
            && value != own_value
        {
            doubts.push(format!(
                "`{key}` is {value} here, and `{own}` in config.json {own_value}: that is taken"
            ));
        }
    }
    // The size that pictures are cropped or brought to, of a tower that does not state its own.
    let square = |table: &str| {
        let (height, width) = (of(table, "height")?, of(table, "width")?);
        (height == width).then_some(height)
    };
    let size = square("crop_size").or_else(|| square("size"));
    let sized = stated("image_size").is_some()
        || stated("spatial_merge_size").is_some()
        || count(root, "force_image_size").is_some();
    let own = tower
        .and_then(|table| table.get("image_size"))
        .or_else(|| root.get("image_size"));
    if let Some(size) = size
        && !sized
        && own.is_none()
    {
        put.push(("image_size", size));
    }
    let on = processor.get("do_image_splitting").and_then(Value::as_bool);
    // These classes split unless they are told not to.
    let splits = |name: &String| name.starts_with("Idefics3") || name.starts_with("SmolVLM");
    if let Some(on) = on.or_else(|| class.iter().any(splits).then_some(true))
        && let Value::Object(table) = &mut *root
    {
        let edge = |of_table: &str| of(of_table, "longest_edge");
        let (longest, tile) = (edge("size"), edge("max_image_size"));
        let splitting = serde_json::json!({"on": on, "longest": longest, "tile": tile});
        table.insert(SPLITTING.to_owned(), splitting);
        took.push(format!("`do_image_splitting` {on}"));
        let edges = [("size", longest), ("max_image_size", tile)];
        for (key, value) in edges.into_iter().filter(|_| on) {
            took.extend(value.map(|value| format!("`{key}.longest_edge` {value}")));
        }
    }
    let tower = root.get("vision_config").is_some_and(Value::is_object);
    for (key, value) in put {
        let to = if key == "image_size" && tower {
            root.get_mut("vision_config")
        } else {
            Some(&mut *root)
        };
        if let Some(Value::Object(table)) = to {
            table.insert(key.to_owned(), value.into());
            took.push(format!("`{key}` {value}"));
        }
    }
    (took, doubts)
}
