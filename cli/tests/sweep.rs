//! Sweeps: killed, sharded and on any number of threads, the files are the same.

mod study;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const STUDY: &str = "tests/cmd/study.in";
/// 60 cells of a few milliseconds.
const VARY: [&str; 6] = [
    "--vary",
    "policy=state_aware:w,serial,round_robin",
    "--vary",
    "run.horizon_s=60..240/4",
    "--vary",
    "soc:memory.bandwidth_gbps=18..30",
];

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder can be made");
    path
}

fn sweep(out: &Path, further: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossinfer"));
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(STUDY))
        .args([
            "sweep",
            "toy.toml",
            "--sample",
            "sobol:5",
            "--replications",
            "2",
            "--out",
        ])
        .arg(out)
        .args(VARY)
        .args(further)
        .stderr(Stdio::piped());
    command
}

fn done(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    // Lines are broken where a terminal ends.
    error.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a command that is refused says.
fn refused(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    error.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn results(out: &Path) -> [Vec<u8>; 2] {
    ["results.csv", "results.parquet"].map(|name| fs::read(out.join(name)).expect("it is written"))
}

/// Lines of a journal behind its header, and whether it ends within one.
fn lines(out: &Path) -> (usize, bool) {
    let bytes = fs::read(out.join("journal")).unwrap_or_default();
    let whole = bytes.split(|&byte| byte == b'\n').count() - 1;
    (
        whole.saturating_sub(1),
        bytes.last().is_some_and(|&byte| byte != b'\n'),
    )
}

#[test]
fn killed_at_any_instant_it_goes_on_to_the_same_files() {
    let root = folder("sweep-killed");
    let whole = root.join("whole");
    done(&mut sweep(&whole, &["--jobs", "1"]));
    let expected = results(&whole);
    assert_eq!(lines(&whole), (60, false));

    let out = root.join("killed");
    let (mut kills, mut before) = (0, 0);
    // Instants of a generator with a seed, so that a failure can be found again.
    let mut random = 12_345_u64;
    loop {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mut child = sweep(&out, &["--jobs", "2"])
            .spawn()
            .expect("the command runs");
        thread::sleep(Duration::from_millis(5 + (random >> 33) % 60));
        if child.try_wait().expect("it can be asked").is_some() || kills > 200 {
            child.wait().expect("it ends");
            break;
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        kills += 1;
        // What was there stays, but for a torn end.
        let (now, _) = lines(&out);
        assert!(now >= before, "{now} rows are left of {before}");
        before = now;
    }
    assert!(kills > 0, "nothing was killed");
    let said = done(&mut sweep(&out, &[]));
    assert!(said.contains("60 cells"), "{said}");
    assert_eq!(results(&out), expected, "after {kills} kills");
}

#[test]
fn the_front_is_drawn_of_the_cells() {
    let out = folder("sweep-front").join("out");
    let goals = "completion_s.mean,energy_per_request_j";
    done(&mut sweep(&out, &["--front", goals]));
    let picture = fs::read_to_string(out.join("front.svg")).expect("it is drawn");
    // A point for every cell that has both numbers.
    let csv = fs::read_to_string(out.join("results.csv")).expect("it is written");
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().expect("there is a header");
    let column = |name: &str| {
        header
            .iter()
            .position(|column| *column == name)
            .expect("is there")
    };
    let (x, y) = (column("completion_s_mean"), column("energy_per_request_j"));
    let verdict = column("verdict");
    let both =
        |row: &Vec<&str>| row[verdict] != "saturated" && !row[x].is_empty() && !row[y].is_empty();
    let count = rows.filter(both).count();
    // One of each is the legend's.
    let circles = |radius: &str| picture.matches(&format!(" r=\"{radius}\"")).count() - 1;
    assert!(circles("6") > 0 && count > 10, "{count}");
    assert_eq!(circles("6") + circles("4"), count);
    let page = fs::read_to_string(out.join("front.html")).expect("it is written");
    assert_eq!(page.matches("<tr>").count(), 1 + circles("6"));
    let output = sweep(&out, &["--front", "ttft_s.mean,colour"]).output();
    let output = output.expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown number `colour`"));
}

#[test]
fn a_number_is_drawn_over_two_keys() {
    let out = folder("sweep-map").join("out");
    let grid = [
        "policy=serial,round_robin",
        "run.horizon_s=60..240/4",
        "seed=1,2",
    ];
    let run = |to: &Path, further: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crossinfer"));
        command
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(STUDY))
            .args(["sweep", "toy.toml", "--out"])
            .arg(to);
        for vary in grid {
            command.args(["--vary", vary]);
        }
        command.args(further).stderr(Stdio::piped());
        command
    };
    let map = ["--map", "run.horizon_s,policy,throughput_rps"];
    let refused = |further: &[&str]| {
        let output = run(&out, further).output().expect("the command runs");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // Nothing is averaged over in silence, and nothing runs before that is known.
    let said = refused(&map);
    assert!(said.contains("`seed` varies too"), "{said}");
    assert!(!out.exists());
    done(&mut run(
        &out,
        &[&map[..], &["--map-at", "seed=2"]].concat(),
    ));
    let picture = fs::read_to_string(out.join("map.svg")).expect("it is drawn");
    // The ground, and a cell for each pair.
    assert_eq!(picture.matches("<rect").count(), 1 + 2 * 4);
    for label in [
        "run.horizon_s",
        "policy",
        "serial",
        "round_robin",
        "60",
        "240",
        "seed = 2",
    ] {
        assert!(
            picture.contains(&format!("\n{label}\n")),
            "{label}: {picture}"
        );
    }
    let bytes = fs::read(out.join("map.png")).expect("it is drawn");
    assert!(bytes.starts_with(b"\x89PNG"));
    let said = refused(&[&map[..], &["--map-at", "seed=3"]].concat());
    assert!(
        said.contains("no cell has seed=3") && said.contains("1, 2"),
        "{said}"
    );

    // Shards joined give the same picture.
    let root = folder("sweep-map-merge");
    let merged = root.join("whole");
    let mut merge = Command::new(env!("CARGO_BIN_EXE_crossinfer"));
    merge.arg("merge").stderr(Stdio::piped());
    for shard in ["1/2", "2/2"] {
        let part = root.join(shard.replace('/', "-"));
        done(&mut run(&part, &["--shard", shard]));
        merge.arg(part);
    }
    merge.arg("--out").arg(&merged).args(map);
    let output = merge.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`seed` varies too"), "{said}");
    done(merge.args(["--map-at", "seed=2"]));
    for name in ["map.svg", "map.png"] {
        let read = |folder: &Path| fs::read(folder.join(name)).expect("it is drawn");
        assert!(read(&merged) == read(&out), "{name}");
    }
}

#[test]
fn torn_and_damaged_rows_are_run_again() {
    let root = folder("sweep-torn");
    let out = root.join("out");
    done(&mut sweep(&out, &[]));
    let expected = results(&out);
    let journal = fs::read(out.join("journal")).expect("it is written");
    let header = journal
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("it has lines")
        + 1;
    // Cut at every kind of place: within the header, at its end, within and between rows.
    for cut in [
        0,
        1,
        header - 1,
        header,
        header + 1,
        header + 500,
        journal.len() - 1,
    ] {
        fs::write(out.join("journal"), &journal[..cut]).expect("can be written");
        done(&mut sweep(&out, &[]));
        assert_eq!(results(&out), expected, "cut at {cut}");
    }
    let mut damaged = journal.clone();
    damaged[header + 300] ^= 1;
    fs::write(out.join("journal"), &damaged).expect("can be written");
    let said = done(&mut sweep(&out, &[]));
    assert!(said.contains("1 damaged"), "{said}");
    assert_eq!(results(&out), expected);
}

#[test]
fn threads_and_shards_change_nothing() {
    let root = folder("sweep-shards");
    let one = root.join("one");
    done(&mut sweep(&one, &["--jobs", "1"]));
    let four = root.join("four");
    done(&mut sweep(&four, &["--jobs", "4"]));
    assert_eq!(results(&one), results(&four));
    let shards: Vec<PathBuf> = ["3/3", "1/3", "2/3"]
        .iter()
        .map(|shard| {
            let out = root.join(shard.replace('/', "-of-"));
            done(&mut sweep(&out, &["--shard", shard]));
            out
        })
        .collect();
    let merged = root.join("merged");
    // Twice: what is merged already changes nothing.
    for _ in 0..2 {
        let mut merge = Command::new(env!("CARGO_BIN_EXE_crossinfer"));
        done(merge.arg("merge").args(&shards).arg("--out").arg(&merged));
        assert_eq!(results(&one), results(&merged));
    }
}

#[test]
fn another_sweep_in_the_folder_and_wrong_keys_are_refused() {
    let root = folder("sweep-refused");
    let out = root.join("out");
    done(&mut sweep(&out, &["--shard", "1/30"]));
    let said = refused(&mut sweep(&out, &["--shard", "1/30", "--seed", "7"]));
    assert!(said.contains("another sweep"), "{said}");
    let said = refused(&mut sweep(&out, &["--shard", "2/30"]));
    assert!(said.contains("holds shard 1/30"), "{said}");
    let said = refused(&mut sweep(
        &root.join("b"),
        &["--vary", "run.horizont_s=1,2"],
    ));
    assert!(said.contains("horizont_s"), "{said}");
    let twice = ["--seed", "5", "--vary", "seed=1,2"];
    let said = refused(&mut sweep(&root.join("d"), &twice));
    assert!(said.contains("`seed` is varied, and set for all"), "{said}");
    let said = refused(&mut sweep(
        &root.join("c"),
        &["--vary", "streams.door.x=1,2"],
    ));
    assert!(said.contains("streams.door.x"), "{said}");
    let mut merge = Command::new(env!("CARGO_BIN_EXE_crossinfer"));
    let said = refused(
        merge
            .arg("merge")
            .arg(&out)
            .arg("--out")
            .arg(root.join("m")),
    );
    assert!(said.contains("name each shard once"), "{said}");
}

#[test]
fn the_guides_job_array_runs() {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/lab.md"));
    let guide = guide.expect("the guide is there");
    let script = guide
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .find(|script| script.contains("xargs"))
        .expect("the guide has a job array");
    let out = study::copy("sweep-guide", |text| text);
    let binaries = Path::new(env!("CARGO_BIN_EXE_crossinfer"))
        .parent()
        .expect("it has a folder");
    let path = format!(
        "{}:{}",
        binaries.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(&out)
        .env("PATH", path)
        .output()
        .expect("sh runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let table = fs::read_to_string(out.join("whole/results.csv")).expect("it is written");
    assert_eq!(table.lines().count(), 1 + 40, "{error}");
}

/// A script may be among the policies of a sweep and of a search, whatever the scenario names.
#[test]
fn a_script_is_a_policy_as_others_are() {
    let out = folder("sweep-script");
    let script = out.join("mine.rhai");
    fs::create_dir_all(&out).expect("a folder can be made");
    let text = "fn score(request, candidate, view) { candidate.wait_ns + candidate.prepare_ns }\n";
    fs::write(&script, text).expect("it can be written");
    let command = |name: &str, path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crossinfer"));
        command
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(STUDY))
            .args([name, "toy.toml", "--replications", "1", "--vary"])
            .arg(format!("policy=state_aware:w+p,script:{}", path.display()));
        command
    };
    let mut sweep = command("sweep", &script);
    // Keys that name files are read anew for each cell.
    sweep
        .args(["--vary", "soc=toy"])
        .arg("--out")
        .arg(out.join("out"));
    done(&mut sweep);
    let csv = fs::read_to_string(out.join("out/results.csv")).expect("it is written");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| {
        let of = rows[0].iter().position(|column| *column == name);
        [1, 2].map(|row| rows[row][of.expect("is there")])
    };
    assert_eq!(column("error"), ["", ""]);
    // It scores as the built-in policy does.
    let [built_in, own] = column("completion_s_mean");
    assert!(!own.is_empty() && own == built_in, "{csv}");
    done(command("tune", &script).args(["--objective", "ttft", "--evaluations", "10"]));
    let mut sweep = command("sweep", &out.join("none.rhai"));
    let output = sweep
        .arg("--out")
        .arg(out.join("no"))
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.rhai` cannot be read"));
}

/// What a sweep did not write is not written over: not before its journal is there, and not behind it.
#[test]
fn files_of_others_stay() {
    let root = folder("sweep-foreign");
    let two = ["--shard", "1/30"];
    for name in [
        "results.csv",
        "results.parquet",
        "results.csv.part",
        "journal.index",
        "journal",
    ] {
        let out = root.join(name);
        fs::create_dir_all(&out).expect("a folder can be made");
        fs::write(out.join(name), "my own").expect("it can be written");
        let said = refused(&mut sweep(&out, &two));
        assert!(said.replace(' ', "").contains(name), "{said}");
        assert_eq!(
            fs::read(out.join(name)).expect("it is there"),
            b"my own",
            "{name}"
        );
        let files = fs::read_dir(&out).expect("it can be read").count();
        assert_eq!(files, 1, "{name}");
    }
    // The same of a merge.
    let shard = root.join("shard");
    done(&mut sweep(&shard, &["--shard", "1/1"]));
    let mut merge = Command::new(env!("CARGO_BIN_EXE_crossinfer"));
    merge.arg("merge").arg(&shard).stderr(Stdio::piped());
    merge.arg("--out").arg(root.join("results.csv"));
    let said = refused(&mut merge);
    assert!(said.contains("would be written over"), "{said}");

    // Behind a journal: what differs from the results is refused, and made anew once it is gone.
    let out = root.join("changed");
    done(&mut sweep(&out, &two));
    let [csv, parquet] = results(&out);
    for (name, bytes) in [("results.csv", &csv), ("results.parquet", &parquet)] {
        let mut other = bytes.clone();
        // As long as before.
        *other.last_mut().expect("it is not empty") ^= 1;
        fs::write(out.join(name), &other).expect("it can be written");
        let said = refused(&mut sweep(&out, &two));
        assert!(said.contains("is not what this sweep writes"), "{said}");
        assert!(said.replace(' ', "").contains(name), "{said}");
        assert_eq!(fs::read(out.join(name)).expect("it is there"), other);
        fs::remove_file(out.join(name)).expect("it can be removed");
        done(&mut sweep(&out, &two));
        assert_eq!(results(&out), [csv.clone(), parquet.clone()]);
    }

    // Pictures, before the sweep runs; one's own are drawn anew with other numbers.
    let out = root.join("pictures");
    fs::create_dir_all(&out).expect("a folder can be made");
    fs::write(out.join("front.svg"), "my own").expect("it can be written");
    let front = |numbers: &'static str| [&two[..], &["--front", numbers]].concat();
    let said = refused(&mut sweep(&out, &front("throughput_rps,ttft_s.mean")));
    assert!(said.replace(' ', "").contains("front.svg"), "{said}");
    assert!(!out.join("journal").exists());
    fs::remove_file(out.join("front.svg")).expect("it can be removed");
    done(&mut sweep(&out, &front("throughput_rps,ttft_s.mean")));
    let first = fs::read(out.join("front.svg")).expect("it is drawn");
    done(&mut sweep(&out, &front("throughput_rps,completion_s.mean")));
    let second = fs::read(out.join("front.svg")).expect("it is drawn");
    assert_ne!(first, second);

    // A file is no folder.
    let said = refused(&mut sweep(&out.join("front.svg"), &two));
    assert!(said.contains("is a file"), "{said}");
}
