//! Vision towers through the RKNN runtime: the real loader and calls, over a library that stands in for Rockchip's.
//!
//! `standin.rs` is that library. It checks layouts, order and arguments of the calls, and fails on demand; what it
//! computes is computed here again. No board was met: what librknnrt.so does with a model is not tested.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "live")]
mod live;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Scratch, in_time};
use hw::rknn::{Cores, Rknn, RknnError, Tower};

/// Compiles the library, once a process; the one that is `old` has no `rknn_set_core_mask`.
fn standin(old: bool) -> &'static Path {
    static LIBRARIES: [OnceLock<PathBuf>; 2] = [OnceLock::new(), OnceLock::new()];
    LIBRARIES[usize::from(old)].get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rknn/standin.rs");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let name = if old {
            "librknnrt-old.so"
        } else {
            "librknnrt-standin.so"
        };
        let fresh = folder.join(format!("{}-{name}", std::process::id()));
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(["--edition=2024", "--crate-type=cdylib", "-Copt-level=1"]);
        command.args(["-Cpanic=abort", "--check-cfg=cfg(masks)"]);
        if !old {
            command.arg("--cfg=masks");
        }
        let done = command.arg("-o").arg(&fresh).arg(source).output().unwrap();
        let says = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{says}");
        // Another process may be using the last one.
        let path = folder.join(name);
        fs::rename(fresh, &path).unwrap();
        path
    })
}

fn device() -> Rknn {
    Rknn {
        library: Some(standin(false).to_path_buf()),
        ..Rknn::default()
    }
}

/// A model of 4 rows and 5 columns with 6 numbers, and more lines of the script.
const SMALL: &str = "input 1 2 1 4 5 3\noutput 2 6\n";

/// A "model", and what was called.
struct Script {
    scratch: Scratch,
    file: PathBuf,
}

impl Script {
    fn new(name: &str, lines: &str) -> Self {
        let scratch = Scratch::new(&format!("rknn-{name}"));
        let file = scratch.path("tower.rknn");
        let log = scratch.path("log");
        let text = format!("RKNN\nlog {}\n{lines}", log.display());
        fs::write(&file, text).unwrap();
        Self { scratch, file }
    }

    fn load(&self) -> Result<Tower, RknnError> {
        Tower::load(&self.file, &device())
    }

    /// The calls so far, and forgets them.
    fn calls(&self) -> Vec<String> {
        let log = self.scratch.path("log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        _ = fs::remove_file(log);
        text.lines().map(str::to_owned).collect()
    }
}

fn fails<T>(result: Result<T, RknnError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

fn image(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| ((at * 7919 + seed * 104_729) % 256) as u8)
        .collect()
}

/// What the library computes of an image, for tests to compute themselves.
fn expected(image: &[u8], count: usize) -> Vec<f32> {
    let weight = |at: usize, k: usize| ((at * 31 + k * 17) % 7) as f32 - 3.0;
    (0..count)
        .map(|k| {
            let terms = image.iter().enumerate();
            terms
                .map(|(at, &byte)| f32::from(byte) * weight(at, k) / 255.0)
                .sum()
        })
        .collect()
}

#[test]
fn a_tower_gives_what_the_npu_computes_and_keeps_nothing() {
    let script = Script::new("encode", SMALL);
    let mut tower = script.load().unwrap();
    assert_eq!(script.calls(), ["init"]);
    assert_eq!(tower.size(), (4, 5));
    assert_eq!(tower.sdk().runtime, "9.9.9 (stand-in)");
    assert_eq!(tower.sdk().driver, "0.9.8");
    for seed in 0..3 {
        let image = image(seed, 4 * 5 * 3);
        assert_eq!(tower.encode(&image).unwrap(), expected(&image, 6));
        assert_eq!(script.calls(), ["set", "run", "get", "release"]);
    }
    for bytes in [0, 59, 61] {
        let error = fails(tower.encode(&image(0, bytes)));
        assert!(error.contains("expected 60"), "{error}");
    }
    assert_eq!(
        script.calls(),
        [""; 0],
        "a wrong image does not reach the NPU"
    );
    drop(tower);
    assert_eq!(script.calls(), ["destroy"]);
}

#[test]
fn channels_first_is_read_from_the_model_and_pixels_go_in_as_ever() {
    let script = Script::new("nchw", "input 0 2 1 3 4 5\noutput 2 6\n");
    let mut tower = script.load().unwrap();
    assert_eq!(tower.size(), (4, 5));
    let image = image(9, 60);
    assert_eq!(tower.encode(&image).unwrap(), expected(&image, 6));
}

#[test]
fn a_context_is_tied_to_the_cores_that_are_named() {
    for (cores, mask) in [
        (Cores::Auto, 0),
        (Cores::Zero, 1),
        (Cores::One, 2),
        (Cores::Two, 4),
        (Cores::ZeroOne, 3),
        (Cores::ZeroOneTwo, 7),
    ] {
        let script = Script::new(&format!("mask-{mask}"), SMALL);
        let device = Rknn {
            cores: Some(cores),
            ..device()
        };
        Tower::load(&script.file, &device).unwrap();
        assert_eq!(script.calls(), ["init", &format!("mask {mask}"), "destroy"]);
    }
    let script = Script::new("mask-fails", &format!("mask -5\n{SMALL}"));
    script.load().unwrap();
    let device = Rknn {
        cores: Some(Cores::Two),
        ..device()
    };
    let error = fails(Tower::load(&script.file, &device));
    assert!(
        error.contains("rknn_set_core_mask returned RKNN_ERR_PARAM_INVALID (-5)"),
        "{error}"
    );
    // A library for one core is of use as long as no cores are named.
    let old = Rknn {
        library: Some(standin(true).to_path_buf()),
        ..device
    };
    let error = fails(Tower::load(&script.file, &old));
    assert!(error.contains("no `rknn_set_core_mask`"), "{error}");
    let old = Rknn { cores: None, ..old };
    Tower::load(&script.file, &old).unwrap();
}

#[test]
fn a_call_that_fails_is_named_with_its_error_and_leaves_nothing_behind() {
    for (call, function, calls) in [
        ("set", "rknn_inputs_set", &["set"][..]),
        ("run", "rknn_run", &["set", "run"]),
        ("get", "rknn_outputs_get", &["set", "run", "get"]),
        (
            "release",
            "rknn_outputs_release",
            &["set", "run", "get", "release"],
        ),
    ] {
        let script = Script::new(call, &format!("{SMALL}fail {call} 2 -2\n"));
        let mut tower = script.load().unwrap();
        let image = image(4, 60);
        tower.encode(&image).unwrap();
        script.calls();
        let error = fails(tower.encode(&image));
        let says = format!("{function} returned RKNN_ERR_TIMEOUT (-2)");
        assert!(error.contains(&says) && error.contains("dmesg"), "{error}");
        assert_eq!(script.calls(), calls);
        if call != "release" {
            assert_eq!(
                tower.encode(&image).unwrap(),
                expected(&image, 6),
                "it goes on"
            );
        }
    }
}

#[test]
fn what_comes_out_is_looked_at_and_released() {
    for (spoil, says) in [
        ("short", "the output has 23 bytes, expected 6 numbers"),
        ("null", "the output has 24 bytes"),
        ("nan", "1 of 6 numbers are infinite or none"),
    ] {
        let script = Script::new(spoil, &format!("{SMALL}spoil {spoil}\n"));
        let mut tower = script.load().unwrap();
        let error = fails(tower.encode(&image(1, 60)));
        assert!(error.contains(says), "{error}");
        drop(tower);
        assert_eq!(
            script.calls(),
            ["init", "set", "run", "get", "release", "destroy"]
        );
    }
}

#[test]
fn what_a_runtime_refuses_to_load_says_what_would_help() {
    for (code, says) in [
        (
            -1,
            ["RKNN_ERR_FAIL (-1)", "RKNN_LOG_LEVEL", "no RKNPU driver"],
        ),
        (
            -3,
            [
                "RKNN_ERR_DEVICE_UNAVAILABLE (-3)",
                "Rockchip's kernels",
                "root",
            ],
        ),
        (-4, ["RKNN_ERR_MALLOC_FAIL (-4)", "no memory", "tower.rknn"]),
        (
            -6,
            [
                "RKNN_ERR_MODEL_INVALID (-6)",
                "newer rknn-toolkit2",
                "one version",
            ],
        ),
        (
            -10,
            [
                "RKNN_ERR_DEVICE_UNMATCH (-10)",
                "driver and librknnrt.so",
                "update both",
            ],
        ),
        (
            -13,
            [
                "RKNN_ERR_TARGET_PLATFORM_UNMATCH (-13)",
                "another chip",
                "--target",
            ],
        ),
        (
            -99,
            ["rknn_init returned -99", "does not name", "tower.rknn"],
        ),
    ] {
        let script = Script::new(&format!("init{code}"), &format!("{SMALL}init {code}\n"));
        let error = fails(script.load());
        assert!(
            says.iter().all(|says| error.contains(says)),
            "{code}: {error}"
        );
        assert_eq!(script.calls(), ["init"], "there is nothing to destroy");
    }
    let script = Script::new("query", &format!("{SMALL}query -5\n"));
    let error = fails(script.load());
    assert!(
        error.contains("rknn_query returned RKNN_ERR_PARAM_INVALID"),
        "{error}"
    );
    assert_eq!(script.calls(), ["init", "destroy"]);
}

#[test]
fn a_file_that_is_no_model_is_told_from_one_that_does_not_fit() {
    let script = Script::new("files", SMALL);
    let with = |name: &str, bytes: &[u8]| {
        let path = script.scratch.path(name);
        fs::write(&path, bytes).unwrap();
        fails(Tower::load(&path, &device()))
    };
    for (name, bytes, says) in [
        ("tower.onnx", &b"\x08\x08"[..], "is no `.rknn` file"),
        ("empty.rknn", b"", "does not begin as `.rknn` files do"),
        ("renamed.rknn", b"\x08\x08 an ONNX tower", "does not begin"),
        (
            "damaged.rknn",
            b"RKNN\0\0\0\0\x06",
            "RKNN_ERR_MODEL_INVALID",
        ),
    ] {
        let error = with(name, bytes);
        assert!(error.contains(says) && error.contains(name), "{error}");
    }
    let error = fails(Tower::load(Path::new("/no/such.rknn"), &device()));
    assert!(error.contains("`/no/such.rknn` cannot be read"), "{error}");
    assert!(error.contains("hw/models/to-rknn"), "{error}");
}

#[test]
fn a_model_that_is_no_vision_tower_is_refused_with_its_shape() {
    let many = (0..17).map(|_| " 1").collect::<String>();
    for (lines, says) in [
        (
            "count 2 1\ninput 1 2 1 4 5 3\noutput 2 6\n",
            "2 inputs, expected one image",
        ),
        (
            "count 1 3\ninput 1 2 1 4 5 3\noutput 2 6\n",
            "to-rknn --output NAME",
        ),
        (
            "input 1 2 1 4 5 1\noutput 2 6\n",
            "1 × 4 × 5 × 1 in NHWC of INT8, expected 3 channels",
        ),
        (
            "input 0 1 1 4 5 3\noutput 2 6\n",
            "1 × 4 × 5 × 3 in NCHW of FP16, expected 3 channels",
        ),
        ("input 1 2 8 4 5 3\noutput 2 6\n", "one image at a time"),
        (
            "input 1 2 1 768\noutput 2 6\n",
            "`pixels` is 1 × 768 in NHWC of INT8, expected four",
        ),
        ("input 2 2 1 4 5 3\noutput 2 6\n", "no order that is known"),
        ("input 1 2 1 0 5 3\noutput 2 6\n", "no size of an image"),
        (
            "input 1 2 1 65536 65536 3\noutput 2 6\n",
            "no size of an image",
        ),
        (
            &format!("input 1 2{many}\noutput 2 6\n"),
            "more dimensions than there can be",
        ),
        (
            "input 1 2 1 4 5 3\noutput 2 0\n",
            "output `embedding` is 1 × 0",
        ),
    ] {
        let script = Script::new("shape", lines);
        let error = fails(script.load());
        assert!(
            error.contains("is no vision tower") && error.contains(says),
            "{error}"
        );
        assert_eq!(script.calls(), ["init", "destroy"]);
    }
}

#[test]
fn a_library_that_is_none_is_told() {
    let script = Script::new("library", SMALL);
    fs::write(script.scratch.path("text.so"), "no library").unwrap();
    let load = |library: PathBuf| {
        let device = Rknn {
            library: Some(library),
            ..Rknn::default()
        };
        let error = fails(Tower::load(&script.file, &device));
        assert_eq!(error, fails(device.probe()));
        assert!(error.contains("RKNN_DYLIB_PATH"), "{error}");
        error
    };
    let error = load("/no/such/librknnrt.so".into());
    assert!(error.contains("`/no/such/librknnrt.so`"), "{error}");
    load(script.scratch.path("text.so"));
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    assert!(load("libc.so.6".into()).contains("it has no `rknn_init`"));
}

/// In a process of its own, since a variable is every thread's.
#[test]
fn the_environment_names_the_library_and_devices_tell_of_it() {
    const MARK: &str = "CROSSINFER_TEST_CHILD";
    if std::env::var_os(MARK).is_none() {
        let name = std::thread::current().name().unwrap().to_owned();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name])
            .env(MARK, "1")
            .env("RKNN_DYLIB_PATH", standin(false))
            .output()
            .unwrap();
        let says = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && says.contains("1 passed"),
            "{says}"
        );
        return;
    }
    let library = PathBuf::from(std::env::var_os("RKNN_DYLIB_PATH").unwrap());
    let runtime = Rknn::default().probe().unwrap();
    assert_eq!(runtime.version.as_deref(), Some("9.9.9 (stand-in)"));
    assert_eq!(
        fs::canonicalize(&runtime.file).unwrap(),
        fs::canonicalize(&library).unwrap()
    );
    let found = hw::devices::find();
    let found = found
        .iter()
        .find(|found| found.what == "vision: RKNN")
        .unwrap();
    assert!(
        found.says.contains("librknnrt 9.9.9 (stand-in)"),
        "{found:?}"
    );
    let board = hw::rknn::board(Path::new("/"));
    assert_eq!(
        found.usable,
        board.is_some(),
        "a library without a driver is of no use"
    );
}

#[test]
fn contexts_run_side_by_side() {
    in_time(|| {
        let slow = Script::new("slow", &format!("{SMALL}slow 1500\n"));
        let fast = Script::new("fast", SMALL);
        let mut tower = slow.load().unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let encoding = scope.spawn(|| {
                let numbers = tower.encode(&image(1, 60));
                ended.store(true, Ordering::SeqCst);
                numbers
            });
            // Made, used and destroyed meanwhile.
            for seed in 0..5 {
                let image = image(seed, 60);
                let numbers = fast.load().unwrap().encode(&image).unwrap();
                assert_eq!(numbers, expected(&image, 6));
            }
            assert!(
                !ended.load(Ordering::SeqCst),
                "others do not wait for a run"
            );
            let numbers = encoding.join().unwrap().unwrap();
            assert_eq!(numbers, expected(&image(1, 60), 6));
        });
    });
}
