//! What the command says, word for word. `TRYCMD=overwrite cargo test -p crossinfer-cli` refreshes them.

#[test]
fn transcripts() {
    let cases = trycmd::TestCases::new();
    cases
        .env("NO_COLOR", "1")
        .insert_var("[VERSION]", env!("CARGO_PKG_VERSION"))
        .expect("the variable has a name");
    cases.case("tests/cmd/*.trycmd");
}
