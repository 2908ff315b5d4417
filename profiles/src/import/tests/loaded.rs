//! What RKLLM's log says of the loaded model tells its times from those of another.

use super::super::{Kind, NoteKind, Options};
use super::run;

fn log(file: &str, cores: u32, quant: &str, ms: f64) -> String {
    format!(
        "I rkllm: rkllm-runtime version: 1.2.1, rknpu driver version: 0.9.8, platform: RK3588\n\
         I rkllm: loading rkllm model from /models/{file}.rkllm\n\
         I rkllm: rkllm-toolkit version: 1.2.1, max_context_limit: 4096, npu_core_num: {cores}, target_platform: RK3588, model_dtype: {quant}\n\
         I rkllm:  Prefill  {ms}  20  9.95  100.46\nI rkllm:  Generate  3050.00  100  30.50  32.79\n"
    )
}

fn import(only: &[&str], logs: &[&str]) -> super::Done {
    let only = only.iter().filter_map(|one| one.split_once('='));
    let options = Options {
        only: only
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        ..Options::default()
    };
    let names = ["a.txt", "b.txt", "c.txt"];
    let files: Vec<(&str, &str)> = names.into_iter().zip(logs.iter().copied()).collect();
    run(Kind::Rkllm, &options, &files)
}

/// To see it fail, leave any of the three out of the identity.
#[test]
fn logs_of_different_models_cores_or_precisions_never_merge() {
    let base = log("toy", 3, "W8A8", 200.0);
    for (other, only) in [
        (log("other", 3, "W8A8", 400.0), "model=other"),
        (log("toy", 1, "W8A8", 400.0), "cores=1"),
        (log("toy", 3, "W4A16", 400.0), "quant=W4A16"),
    ] {
        let together = format!("{base}{other}");
        for logs in [&[base.as_str(), other.as_str()][..], &[together.as_str()]] {
            let done = import(&[], logs);
            assert_eq!(done.files.len(), 2, "{only}\n{}", done.said());
            let one = import(&[only], logs);
            assert_eq!(
                one.number("engines.npu.stages.ingest.per_token_s"),
                0.02,
                "{only}"
            );
        }
    }
    // The same in every word is the same thing, measured twice.
    let again = log("toy", 3, "W8A8", 201.0);
    let done = import(&[], &[base.as_str(), again.as_str()]);
    assert_eq!(done.files.len(), 1, "{}", done.said());
    assert!(!done.notes.any(NoteKind::Refused), "{}", done.said());
}
