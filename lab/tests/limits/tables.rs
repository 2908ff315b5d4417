//! What a sweep writes can be read: by another reader than the writer's, and with the same values as the CSV.

use std::fs::{self, File};
use std::path::PathBuf;

use lab::sweep::{Axis, Outcome, Plan, Shard, Study};
use lab::tune::{self, Objective};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use sim::load::Inputs;
use sim::world::World;
use validation::inline::Inline;

/// Two lanes, and a script that chooses the one that a parameter names, unless that divides by zero.
fn inputs() -> (Inputs, Inline) {
    let mut library = crate::tune::library();
    let script = "fn score(request, candidate, view) {\n    let at = param(\"lane\");\n    let x = 10 / at;\n    \
                  if candidate.lane.index == at - 1 { 0 } else { x }\n}\n";
    library.files.push(("choose.rhai".into(), script.into()));
    let scenario = "title = 'tables'\nsoc = 'toy'\nmodel = 'vlm'\nreplications = 2\n\
        policy = { script = 'choose.rhai', params = { lane = 2 } }\n[run]\nhorizon_s = 50\n\
        [modes]\nstate_transfer = 'reconstruct'\n[[streams]]\nname = 's'\n[streams.queries]\n\
        arrivals = { poisson = { rate_hz = 0.3 } }\nprompt_tokens = 10\n\
        output_tokens = { uniform = { low = 20, high = 60 } }\n";
    let inputs = library.inputs(scenario).expect("the scenario is right");
    (inputs, library)
}

fn swept(name: &str, keys: &[&str]) -> (PathBuf, Outcome) {
    let (inputs, library) = inputs();
    let prepare = |_: &mut World| {};
    let study = Study::new(&inputs, &library, &library, &prepare).expect("is a study");
    let axes = keys.iter().map(|key| Axis::parse(key).expect("is an axis"));
    let plan = Plan::new(axes.collect(), None, 1).expect("is a plan");
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&out);
    let outcome = lab::sweep::run(&plan, &study, &out, Shard::WHOLE, "", (&|_| (), &|| ()));
    (out, outcome.expect("the sweep runs"))
}

#[test]
fn parquet_holds_what_the_csv_holds() {
    let (out, outcome) = swept(
        "tables",
        &[
            "policy.params.lane=0,1,2",
            "noise=true,false",
            "limits.max_requests=int:1..8/2",
        ],
    );
    assert_eq!(
        (outcome.cells, outcome.failed),
        (12, 4),
        "{:?}",
        outcome.why
    );
    let why = outcome.why.expect("a lane of 0 divides by it");
    assert!(
        why.contains("choose.rhai:3:16: Division by zero: 10 / 0"),
        "{why}"
    );

    let mut csv = csv::Reader::from_path(out.join("results.csv")).expect("is there");
    let names = csv.headers().expect("has a head").clone();
    let file = File::open(out.join("results.parquet")).expect("is there");
    let parquet = SerializedFileReader::new(file).expect("is Parquet");
    let mut rows = parquet.get_row_iter(None).expect("has rows");
    let (mut kinds, mut compared, mut nulls) = ([0; 4], 0, 0);
    for record in csv.records() {
        let record = record.expect("is a record");
        let row = rows.next().expect("has as many rows").expect("can be read");
        let columns: Vec<(&String, &Field)> = row.get_column_iter().collect();
        assert_eq!(columns.len(), names.len());
        for ((name, text), (column, field)) in names.iter().zip(&record).zip(columns) {
            assert_eq!(name, column);
            let same = match field {
                Field::Null => {
                    nulls += 1;
                    text.is_empty()
                }
                Field::Long(value) => {
                    kinds[0] += 1;
                    text.parse() == Ok(*value)
                }
                Field::Double(value) => {
                    kinds[1] += 1;
                    // To the bit.
                    text.parse::<f64>().map(f64::to_bits) == Ok(value.to_bits())
                }
                Field::Bool(value) => {
                    kinds[2] += 1;
                    text.parse() == Ok(*value)
                }
                Field::Str(value) => {
                    kinds[3] += 1;
                    text == value
                }
                other => panic!("{name} is {other:?}"),
            };
            assert!(same, "{name}: `{text}` and {field:?}");
            compared += 1;
        }
    }
    assert!(rows.next().is_none());
    assert!(
        compared > 200 && nulls > 10 && kinds.iter().all(|&count| count > 0),
        "{kinds:?}"
    );
}

/// Parameters of a script are keys like any other.
#[test]
fn parameters_of_a_script_are_searched() {
    let (inputs, library) = inputs();
    let prepare = |_: &mut World| {};
    let study = Study::new(&inputs, &library, &library, &prepare).expect("is a study");
    let axes = [Axis::parse("policy.params.lane=int:1..2").expect("is an axis")];
    let objective = Objective::parse("completion").expect("is one");
    let found = tune::search(&study, &axes, &objective, 12, 1, &|| ()).expect("is found");
    // The first lane is the faster one.
    assert_eq!(found.values[0].to_string(), "1", "{found:?}");
    let wrong = [Axis::parse("policy.params.lane=int:0..1").expect("is an axis")];
    let error =
        tune::search(&study, &wrong, &objective, 12, 1, &|| ()).expect_err("divides by zero");
    assert!(
        error.contains("choose.rhai:3:16: Division by zero"),
        "{error}"
    );
}
