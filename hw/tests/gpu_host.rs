//! The procedure for a host with a GPU (`hw/gpu-host/run`), with commands that stand in for what it runs.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Does what the steps need of it, and writes down what it was asked. A calibration takes a minute if `SLOW` is set.
const CROSSINFER: &str = r#"#!/usr/bin/env bash
echo "$*" >>"$CALLS"
out=''
for word in "$@"; do
  if [ "$last" = --out ]; then out=$word; fi
  last=$word
done
case $1 in
  generate) touch "$out" ;;
  calibrate)
    mkdir -p "$out/profiles"
    echo sample >>"$out/samples.tsv"
    if [ -n "$SLOW" ]; then sleep 60; fi
    ;;
  validate)
    mkdir -p "$out"
    if [[ "$*" == *--predict-only* ]]; then
      echo predicted >"$out/predicted.json"
    else
      echo measured >"$out/live.json"
      exit 1
    fi
    ;;
esac
"#;

/// In place of `layout`, which wants more cores than every machine has.
const PYTHON: &str = r#"#!/usr/bin/env bash
if [ "$1" = -c ]; then exit 1; fi
case " $* " in *" --bogus "*) exit 2 ;; esac
soc=gpu-host
case " $* " in *" --split "*) soc=gpu-host-split ;; esac
mkdir -p "$2/profiles/$soc"
"#;

/// In place of coreutils' one: writes down what time a calibration is given, and gives it less, so that no test waits for
/// minutes.
const TIMEOUT: &str = r#"#!/usr/bin/env bash
path=${PATH#*:}
case " $* " in *" calibrate "*) ;; *) PATH=$path exec timeout "$@" ;; esac
echo "$2" >>"$CALLS.given"
PATH=$path exec timeout 4 "${@:3}"
"#;

const LOADER: &str = "#!/bin/sh\necho libvulkan.so.1\n";

/// A kit with two cases, one on each SoC.
struct Kit {
    folder: PathBuf,
}

impl Kit {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("crossinfer-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        for part in ["bin", "kit/cases", "kit/profiles/models"] {
            fs::create_dir_all(folder.join(part)).expect("a folder can be made");
        }
        let program = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::write(&path, text).expect("it can be written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        };
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu-host/run");
        program("kit/run", &fs::read_to_string(run).expect("it is there"));
        program("kit/crossinfer", CROSSINFER);
        program("bin/python3", PYTHON);
        program("bin/ldconfig", LOADER);
        program("bin/timeout", TIMEOUT);
        for (case, soc) in [("one", "gpu-host"), ("two", "gpu-host-split")] {
            let text = format!("# policies: naive\n# deepest\nsoc = \"{soc}\"\n");
            fs::write(folder.join(format!("kit/cases/{case}.toml")), text).expect("a case");
        }
        Self { folder }
    }

    fn run(&self, slow: bool, arguments: &[&str]) -> (Option<i32>, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(self.folder.join("kit/run"))
            .args(arguments)
            .current_dir(&self.folder)
            .env(
                "PATH",
                format!("{}:{path}", self.folder.join("bin").display()),
            )
            .env("CALLS", self.folder.join("calls"))
            .env("SLOW", if slow { "yes" } else { "" })
            .output()
            .expect("bash runs it");
        let said = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
        (status.code(), said.into_owned())
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.join("calls")).unwrap_or_default()
    }

    /// Names in what came back.
    fn results(&self) -> String {
        let archive = self.folder.join("gpu-host-out/results.tar.gz");
        let list = Command::new("tar").arg("tzf").arg(archive).output();
        String::from_utf8(list.expect("tar runs").stdout).expect("names are text")
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// To see it fail, leave out a check of an option.
#[test]
fn what_cannot_be_meant_is_refused_before_anything_runs() {
    let kit = Kit::new("gpu-host-options");
    let other = kit.folder.join("other.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("czf")
        .arg(&other)
        .arg("-C")
        .arg(&kit.folder)
        .arg("bin");
    assert!(tar.status().expect("tar runs").success());
    let other = other.to_string_lossy().into_owned();
    for (arguments, says) in [
        (
            &["--seconds", "abc"][..],
            "--seconds abc: a whole number above 0",
        ),
        (&["--seconds"], "--seconds needs a value"),
        (&["--repeats", "0"], "--repeats 0: a whole number above 0"),
        (
            &["--cases", "one.toml tow.toml"],
            "there is no tow.toml, but one.toml two.toml",
        ),
        (
            &["--layout", "--spare 3 --split"],
            "have --split by themselves",
        ),
        (&["--resume", &other], "no results.tar.gz of this command"),
        (&["--sekonds", "5"], "./run [--work DIR]"),
    ] {
        let (code, said) = kit.run(false, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert_eq!(kit.calls(), "", "{arguments:?}");
    }
}

/// To see it fail, take exit status 1 of a comparison for a fault.
#[test]
fn a_run_comes_to_its_results_and_knows_its_layout() {
    let kit = Kit::new("gpu-host-whole");
    let (code, said) = kit.run(false, &["--layout", "--spare 3"]);
    assert_eq!(code, Some(0), "{said}");
    let results = kit.results();
    for file in [
        "gpu-host/one/live.json",
        "gpu-host-split/two/live.json",
        "machine.txt",
    ] {
        assert!(results.contains(file), "no {file} in {results}");
    }
    // Predictions of both come before either is played.
    let calls = kit.calls();
    let validates: Vec<bool> = calls
        .lines()
        .filter(|line| line.starts_with("validate"))
        .map(|line| line.contains("--predict-only"))
        .collect();
    assert_eq!(validates, [true, true, false, false], "{calls}");
    let (code, said) = kit.run(false, &["--layout", "--spare 5"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("the results there are of '--spare 3'"),
        "{said}"
    );
    // On a fresh machine nothing is done twice.
    fs::remove_dir_all(kit.folder.join("gpu-host-work")).expect("it was made");
    fs::write(kit.folder.join("calls"), "").expect("it is ours");
    let resume = [
        "--layout",
        "--spare 3",
        "--resume",
        "gpu-host-out/results.tar.gz",
    ];
    let (code, said) = kit.run(false, &resume);
    assert_eq!(code, Some(0), "{said}");
    assert!(!kit.calls().contains("calibrate") && !kit.calls().contains("validate"));
}

/// To see it fail, let steps run as long as they like.
#[test]
fn a_step_that_takes_too_long_is_ended_and_goes_on_later() {
    let kit = Kit::new("gpu-host-cut");
    let (code, said) = kit.run(true, &["--seconds", "300", "--grace", "20"]);
    assert_eq!(code, Some(75), "{said}");
    assert!(
        said.contains("was ended. The same command goes on"),
        "{said}"
    );
    assert!(
        kit.results().contains("gpu-host/samples.tsv"),
        "{}",
        kit.results()
    );
    assert!(!kit.results().contains("calibrated"), "{}", kit.results());
    let given = fs::read_to_string(kit.folder.join("calls.given")).expect("it was given a time");
    let given: u32 = given.trim().parse().expect("seconds");
    assert!((21..=320).contains(&given), "{given} s of 320");
    let (code, said) = kit.run(false, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(kit.calls().matches("calibrate ").count(), 3);
}
