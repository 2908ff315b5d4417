//! What a frame becomes in each family of vision towers, and what their weights come to.

use super::super::{Kind, NoteKind, Options};
use super::run;

/// A model with this tower and these keys beside.
fn import(frame: Option<(u32, u32)>, more: &str) -> super::Done {
    let text = format!(
        "{{\"num_hidden_layers\": 2, \"hidden_size\": 256, \"num_attention_heads\": 8, \"intermediate_size\": 512, \"vocab_size\": 1000,\n \"torch_dtype\": \"bfloat16\", \"max_position_embeddings\": 8192, {more}}}"
    );
    let options = Options {
        frame,
        ..Options::default()
    };
    run(Kind::HfConfig, &options, &[("toy/config.json", &text)])
}

const TOKENS: &str = "visual_tokens_per_frame";

fn ends(done: &super::Done) -> [f64; 3] {
    let low = done.file().contains("visual_tokens_per_frame\", low");
    let of = |end: &str| done.number(&format!("{TOKENS}{end}"));
    if low {
        [of(""), of(".low"), of(".high")]
    } else {
        [of(""); 3]
    }
}

#[test]
fn a_resampler_says_how_many_tokens_it_gives() {
    let tower = r#""vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 980, "patch_size": 14}, "query_num": 64"#;
    assert_eq!(ends(&import(None, tower)), [64.0; 3]);
    let sliced = format!(r#"{tower}, "slice_mode": true, "slice_config": {{"max_slice_nums": 9}}"#);
    assert_eq!(ends(&import(None, &sliced)), [64.0, 64.0, 640.0]);
    let phi = r#""model_type": "phi3_v", "img_processor": {"name": "clip_vision_model", "num_img_tokens": 144}"#;
    let done = import(None, phi);
    // A crop and the whole, a separator, two ends of rows of twelve.
    assert_eq!(
        ends(&done),
        [313.0, 313.0, 17.0 * 144.0 + 1.0 + 17.0 * 12.0]
    );
    done.says(NoteKind::Warning, "does not state the vision tower's shape");
}

/// To see it fail, read `image_seq_length` first, or leave out the ends of rows.
#[test]
fn pixtral_takes_pictures_of_any_size() {
    let pixtral = r#""model_type": "llava", "image_seq_length": 1, "vision_config": {"model_type": "pixtral", "hidden_size": 64, "num_hidden_layers": 2, "image_size": 1024, "patch_size": 16}"#;
    import(None, pixtral).says(NoteKind::Missing, "--frame");
    // 1024 x 576 pixels: 64 x 36 patches.
    let done = import(Some((1280, 720)), pixtral);
    assert_eq!(ends(&done), [36.0 * 65.0; 3]);
    assert!(!done.said().contains("changes nothing"), "{}", done.said());
    let merged = r#""model_type": "mistral3", "spatial_merge_size": 2, "vision_config": {"model_type": "pixtral", "hidden_size": 64, "num_hidden_layers": 2, "image_size": 1540, "patch_size": 14}"#;
    assert_eq!(ends(&import(Some((1280, 720)), merged)), [26.0 * 47.0; 3]);
}

#[test]
fn patches_that_are_put_together_are_one_token() {
    let tower = r#""model_type": "llama4", "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 336, "patch_size": 14, "pixel_shuffle_ratio": 0.5}"#;
    let done = import(None, tower);
    assert_eq!(ends(&done), [144.0; 3]);
    assert!(done.file().contains("more tiles"), "{}", done.file());
    assert!(!done.said().contains("changes nothing"));
    let done = import(Some((640, 480)), tower);
    done.says(NoteKind::Warning, "`--frame 640x480` changes nothing");
}

#[test]
fn tiles_follow_from_the_frame_s_size() {
    let clip = r#""vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 336, "patch_size": 14}"#;
    let next = format!(
        r#""model_type": "llava_next", "image_seq_length": 576, "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]], {clip}"#
    );
    import(None, &next).says(NoteKind::Missing, "--frame");
    for (frame, tokens) in [
        // Four tiles of 24 x 24 with an end for each of 48 rows, and the whole.
        ((672, 672), 48.0 * 48.0 + 48.0 + 576.0),
        // Two beside each other.
        ((672, 336), 24.0 * 48.0 + 24.0 + 576.0),
        // Four, of which a quarter above and below is empty: 2 x 6 rows.
        ((640, 480), 36.0 * 48.0 + 36.0 + 576.0),
    ] {
        assert_eq!(ends(&import(Some(frame), &next)), [tokens; 3], "{frame:?}");
    }
    let intern = r#""model_type": "internvl_chat", "downsample_ratio": 0.5, "dynamic_image_size": true, "force_image_size": 448, "max_dynamic_patch": 12, "use_thumbnail": true,
        "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 448, "patch_size": 14}"#;
    for (frame, wanted) in [
        (None, [256.0, 256.0, 256.0 * 13.0]),
        (Some((448, 448)), [256.0; 3]),
        (Some((896, 448)), [768.0, 256.0, 768.0]),
        (Some((1920, 960)), [256.0 * 9.0, 256.0, 256.0 * 9.0]),
    ] {
        assert_eq!(ends(&import(frame, intern)), wanted, "{frame:?}");
    }
    let fixed = intern.replace(
        "\"dynamic_image_size\": true",
        "\"dynamic_image_size\": false",
    );
    assert_eq!(ends(&import(None, &fixed)), [256.0; 3]);
}

#[test]
fn mergers_within_the_tower_have_weights_too() {
    let tower = |deep: &str| {
        format!(
            r#""model_type": "qwen3_vl", "vision_config": {{"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "patch_size": 16, "temporal_patch_size": 2,
            "spatial_merge_size": 2, "out_hidden_size": 2048, "num_position_embeddings": 2304, "hidden_act": "gelu_pytorch_tanh"{deep}}}"#
        )
    };
    let merger = 4096.0 * 4096.0 + 4096.0 * 2048.0;
    let rest = 24.0 * 12.0 * 1024.0 * 1024.0 + 3.0 * 16.0 * 16.0 * 2.0 * 1024.0 + 2304.0 * 1024.0;
    for (deep, mergers) in [
        ("", 1.0),
        (r#", "deepstack_visual_indexes": [5, 11, 17]"#, 4.0),
    ] {
        let done = import(Some((448, 448)), &tower(deep));
        assert_eq!(
            done.number("vision_weights_bytes"),
            2.0 * (rest + mergers * merger),
            "{deep}"
        );
        assert_eq!(done.number(TOKENS), 196.0);
    }
}

/// transformers' `smart_resize`: half to even, and within the pixels that the file states.
#[test]
fn a_frame_is_rounded_as_transformers_rounds_it() {
    let tokens = |frame, patch: u32, more: &str| {
        let tower = format!(
            "\"model_type\": \"qwen3_vl\"{more}, \"vision_config\": {{\"patch_size\": {patch}, \"spatial_merge_size\": 2}}"
        );
        let done = import(Some(frame), &tower);
        (done.number(TOKENS), done)
    };
    // 40 x 22.5 and 16.5 x 16.5 cells.
    let (plain, done) = tokens((1280, 720), 16, "");
    assert_eq!(plain, 880.0);
    assert!(
        done.file().contains("no least and most pixels are applied"),
        "{}",
        done.file()
    );
    assert_eq!(tokens((462, 462), 14, "").0, 256.0);
    assert_eq!(tokens((490, 490), 14, "").0, 18.0 * 18.0);
    // 1280 x 720 into 200704 pixels: a side by 2.143, 18.67 x 10.5 cells, each at most so many.
    let (most, done) = tokens((1280, 720), 16, ", \"max_pixels\": 200704");
    assert_eq!(most, 18.0 * 10.0);
    assert!(!done.file().contains("are applied"));
    // 64 x 64 to 65536 pixels: 8 x 8 cells.
    assert_eq!(tokens((64, 64), 16, ", \"min_pixels\": 65536").0, 64.0);
}

/// A model of cells of 28 pixels, with another file beside it.
fn beside(processor: &str, tower: &str, frame: Option<(u32, u32)>) -> super::Done {
    let text = format!(
        "{{\"num_hidden_layers\": 2, \"hidden_size\": 256, \"num_attention_heads\": 8, \"intermediate_size\": 512, \"vocab_size\": 1000,\n \"torch_dtype\": \"bfloat16\", \"max_position_embeddings\": 8192, {tower}}}"
    );
    let options = Options {
        frame,
        ..Options::default()
    };
    let files = [
        ("toy/config.json", text.as_str()),
        ("toy/preprocessor_config.json", processor),
    ];
    run(Kind::HfConfig, &options, &files)
}

/// To see it fail, leave the processor's file aside.
#[test]
fn the_processor_s_file_says_how_many_pixels_a_frame_has() {
    let tower = r#""model_type": "qwen2_vl", "vision_config": {"depth": 2, "embed_dim": 64, "patch_size": 14, "spatial_merge_size": 2}"#;
    let tokens = |processor: &str| {
        let done = beside(processor, tower, Some((1120, 560)));
        (done.number("visual_tokens_per_frame"), done)
    };
    // 40 x 20 cells.
    assert_eq!(tokens("{}").0, 800.0);
    let (few, done) =
        tokens(r#"{"min_pixels": 3136, "max_pixels": 156800, "patch_size": 14, "merge_size": 2}"#);
    assert_eq!(few, 200.0);
    done.says(
        NoteKind::Read,
        "toy/preprocessor_config.json: `min_pixels` 3136, `max_pixels` 156800",
    );
    assert!(
        done.file().contains("within `min_pixels`"),
        "{}",
        done.file()
    );
    // As the newer classes state them, and as an edge of others.
    let size = r#""size": {"shortest_edge": 3136, "longest_edge": 156800}"#;
    assert_eq!(
        tokens(&format!(
            "{{\"image_processor_type\": \"Qwen2VLImageProcessorFast\", {size}}}"
        ))
        .0,
        200.0
    );
    assert_eq!(
        tokens(&format!(
            "{{\"image_processor_type\": \"ToyProcessor\", {size}}}"
        ))
        .0,
        800.0
    );
    let (_, done) = tokens(r#"{"patch_size": 16}"#);
    done.says(
        NoteKind::Warning,
        "`patch_size` is 16 here, and `patch_size` in config.json 14",
    );
    let (_, done) = tokens("{\n oops");
    done.says(NoteKind::Refused, "toy/preprocessor_config.json:2: no JSON");
    let alone = run(
        Kind::HfConfig,
        &Options::default(),
        &[("toy/preprocessor_config.json", "{}")],
    );
    alone.says(
        NoteKind::Refused,
        "give the config.json of the same folder too",
    );
}

#[test]
fn the_processor_s_file_says_how_large_pictures_are() {
    let tower = r#""model_type": "toy", "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "patch_size": 14}"#;
    let done = beside(
        r#"{"crop_size": {"height": 336, "width": 336}, "size": {"shortest_edge": 384}}"#,
        tower,
        None,
    );
    assert_eq!(done.number("visual_tokens_per_frame"), 576.0);
    done.says(NoteKind::Read, "`image_size` 336");
    // The model's own word stands.
    let own = tower.replace(
        "\"patch_size\": 14",
        "\"patch_size\": 14, \"image_size\": 224",
    );
    let done = beside(r#"{"size": {"height": 336, "width": 336}}"#, &own, None);
    assert_eq!(done.number("visual_tokens_per_frame"), 256.0);
}

/// `SmolVLM`: a tile of 512 pixels is 64 tokens; the processor's file says how pictures are cut into tiles.
#[test]
fn tiles_of_a_split_picture_are_counted_or_said() {
    let config = "{\"model_type\": \"smolvlm\", \"scale_factor\": 4, \"torch_dtype\": \"bfloat16\",\n\
        \"text_config\": {\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 256, \"num_attention_heads\": 8, \"intermediate_size\": 512, \"vocab_size\": 1000, \"max_position_embeddings\": 8192},\n\
        \"vision_config\": {\"hidden_size\": 64, \"num_hidden_layers\": 2, \"image_size\": 512, \"patch_size\": 16, \"num_attention_heads\": 4, \"intermediate_size\": 128}}";
    let import = |frame, processor: &str| {
        let options = Options {
            frame,
            ..Options::default()
        };
        let mut files = vec![("m/config.json", config)];
        files.extend((!processor.is_empty()).then_some(("m/preprocessor_config.json", processor)));
        run(Kind::HfConfig, &options, &files)
    };
    let on = r#"{"image_processor_type": "SmolVLMImageProcessor", "do_image_splitting": true, "size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}}"#;
    let off = on.replace("true", "false");
    for (frame, processor, tokens, said) in [
        (
            None,
            "",
            [64.0; 3],
            "1 tile a frame is assumed, as of a video; into how many the processor",
        ),
        (
            Some((1280, 720)),
            "",
            [64.0; 3],
            "1 tile a frame is assumed",
        ),
        (None, on, [64.0, 64.0, 64.0 * 17.0], "it has up to 17"),
        // 2048 x 1152 in tiles of 512: 4 x 3 and the whole.
        (Some((1280, 720)), on, [64.0 * 13.0, 64.0, 64.0 * 13.0], ""),
        (Some((720, 1280)), on, [64.0 * 13.0, 64.0, 64.0 * 13.0], ""),
        (Some((64, 64)), on, [64.0 * 17.0, 64.0, 64.0 * 17.0], ""),
        (Some((8000, 10)), on, [64.0 * 5.0, 64.0, 64.0 * 5.0], ""),
        (None, &off, [64.0; 3], ""),
        (
            None,
            &on.replace("512", "384"),
            [64.0, 64.0, 64.0 * 37.0],
            "cuts tiles of 384 pixels",
        ),
        (
            None,
            r#"{"image_processor_type": "Idefics3ImageProcessor"}"#,
            [64.0; 3],
            "does not state `size.longest_edge`",
        ),
    ] {
        let done = import(frame, processor);
        assert_eq!(ends(&done), tokens, "{frame:?} {processor}");
        let changes = done.said().contains("changes nothing");
        let warns = done.notes.any(NoteKind::Warning);
        assert!(!changes && warns != said.is_empty(), "{}", done.said());
        done.says(
            if said.is_empty() {
                NoteKind::Read
            } else {
                NoteKind::Warning
            },
            said,
        );
    }
}

/// Another family whose processor splits: what is not counted is said.
#[test]
fn a_processor_that_splits_in_an_unknown_way_is_told() {
    let config = r#"{"model_type": "own_vl", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 512, "vocab_size": 1000, "torch_dtype": "bfloat16",
        "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 364, "patch_size": 14}, "downsample_factor": 2}"#;
    let done = run(
        Kind::HfConfig,
        &Options::default(),
        &[
            ("config.json", config),
            (
                "preprocessor_config.json",
                r#"{"do_image_splitting": true}"#,
            ),
        ],
    );
    assert_eq!(done.number(TOKENS), 169.0);
    done.says(
        NoteKind::Warning,
        "how this family cuts pictures is not known here",
    );
}

/// To see it fail, take the option without a word.
#[test]
fn an_option_that_overrides_the_file_s_tokens_says_so() {
    let config = r#"{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
        "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "patch_size": 14, "image_size": 224}}"#;
    let with = |tokens| {
        let options = Options {
            tokens_per_frame: tokens,
            ..Options::default()
        };
        run(Kind::HfConfig, &options, &[("config.json", config)])
    };
    let own = with(None).number(TOKENS);
    for (given, told) in [(None, false), (Some(own as u32), false), (Some(7), true)] {
        let done = with(given);
        let says =
            format!("`--tokens-per-frame 7` is used instead of the {own} that the file tells");
        assert_eq!(
            done.said().contains(&says),
            told,
            "{given:?}: {}",
            done.said()
        );
        assert_eq!(done.number(TOKENS), f64::from(given.unwrap_or(own as u32)));
    }
}

/// To see it fail, leave out what is no size.
#[test]
fn a_size_that_no_tower_has_is_refused_by_its_key() {
    let tower = |changed: &str| {
        let base = r#""model_type": "qwen2_5_vl", "vision_config": {"depth": 4, "hidden_size": 64, "num_heads": 4, "intermediate_size": 128, "out_hidden_size": 256, "patch_size": 14, "spatial_merge_size": 2, "window_size": 112, "fullatt_block_indexes": [1, 3]}"#;
        let (from, to) = changed.split_once(" -> ").expect("from and to");
        assert!(base.contains(from), "{from}");
        import(Some((448, 448)), &base.replace(from, to))
    };
    assert!(!tower("\"depth\": 4 -> \"depth\": 5").files.is_empty());
    for (changed, says) in [
        (
            "\"patch_size\": 14 -> \"patch_size\": 0",
            "`vision_config.patch_size` is 0",
        ),
        (
            "\"patch_size\": 14 -> \"patch_size\": -14",
            "`vision_config.patch_size` is -14",
        ),
        (
            "\"spatial_merge_size\": 2 -> \"spatial_merge_size\": 1.5",
            "`vision_config.spatial_merge_size` is 1.5",
        ),
        (
            "\"window_size\": 112 -> \"window_size\": -112",
            "`vision_config.window_size` is -112",
        ),
        ("[1, 3] -> [1, 99]", "names layer 99, and the tower has 4"),
        ("[1, 3] -> [-3, 1]", "names layer -3, and the tower has 4"),
    ] {
        let done = tower(changed);
        assert!(done.files.is_empty(), "{changed}");
        done.says(NoteKind::Refused, says);
    }
}
