//! A measured bandwidth beside a datasheet.

use super::super::bandwidth;
use super::*;

fn measured(name: &str, gbps: f64) -> String {
    format!(
        "name = \"{name}\"\n\n[memory]\nbandwidth_gbps = {{ value = {gbps}, origin = \"bandwidth\" }}\n\n[engines.cpu]\nkind = \"cpu\"\n\
         port_gbps = {{ value = {gbps}, origin = \"port\" }}\nweight = {{ value = 1, origin = \"weight\" }}\n\n\
         [origins.bandwidth]\nkind = \"measured\"\nsource = \"run.txt:3 memset\"\nnote = \"once\"\n\n[origins.port]\nkind = \"measured\"\nsource = \"run.txt:3 memset\"\nnote = \"once\"\n\n[origins.weight]\nkind = \"derived\"\nnote = \"alone\"\n"
    )
}

fn joined(files: &[(&str, String)]) -> Result<(String, Vec<String>), Vec<String>> {
    let chips = [toy("toy", 34.0, 6000.0), toy("toy-pro", 34.0, 6000.0)];
    let files: Vec<(String, String)> = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), text.clone()))
        .collect();
    let derived = soc::soc(&chips[0], &BTreeMap::new());
    bandwidth::join(&derived, &files, &chips[0], &chips)
}

/// To see it fail, leave the derived number or drop the origins.
#[test]
fn a_measured_bandwidth_takes_the_derived_one_s_place_with_its_origin() {
    let (text, remarks) =
        joined(&[("a/soc.toml", measured("Board (toy)", 28.5))]).expect("its own");
    sim::load::check_soc("toy", &text).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    let soc: toml::Value = toml::from_str(&text).expect("it is TOML");
    for (place, origin) in [
        (&soc["memory"]["bandwidth_gbps"], "measured-bandwidth"),
        (&soc["engines"]["cpu"]["port_gbps"], "measured-port"),
    ] {
        assert_eq!(place["value"].as_float(), Some(28.5));
        assert_eq!(place["origin"].as_str(), Some(origin));
        let source = soc["origins"][origin]["source"].as_str();
        assert_eq!(source, Some("run.txt:3 memset"));
    }
    assert_eq!(
        soc["memory"]["bandwidth_gbps"]["high"].as_float(),
        Some(34.0)
    );
    assert!(remarks.iter().all(|said| said.contains("lower bound")));
}

/// To see it fail, take every rate.
#[test]
fn a_rate_that_did_not_fill_the_memory_leaves_what_is_derived() {
    let (text, remarks) = joined(&[("a/soc.toml", measured("Board (toy)", 9.0))]).expect("its own");
    assert_eq!(text, soc::soc(&toy("toy", 34.0, 6000.0), &BTreeMap::new()));
    assert_eq!(remarks.len(), 2);
    assert!(remarks[0].contains("what is derived stands"), "{remarks:?}");
}

/// To see it fail, leave out the look at names, at the peak or at what was taken.
#[test]
fn another_board_s_bandwidth_is_refused() {
    let fault = |files: &[(&str, String)]| joined(files).expect_err("it is refused").join("\n");
    let said = fault(&[("toy/soc.toml", measured("Board (Toy Pro)", 28.5))]);
    assert!(
        said.contains("which is toy-pro, and the chip is `toy`"),
        "{said}"
    );
    let said = fault(&[("board/soc.toml", measured("Board", 28.5))]);
    assert!(said.contains("--soc toy"), "{said}");
    assert!(joined(&[("out/toy/soc.toml", measured("Board", 28.5))]).is_ok());
    let said = fault(&[("toy/soc.toml", measured("toy", 40.0))]);
    assert!(said.contains("the DRAM's peak 34"), "{said}");
    let said = fault(&[
        ("a/soc.toml", measured("toy", 28.5)),
        ("b/soc.toml", measured("toy", 29.0)),
    ]);
    assert!(said.contains("28.5 in `a/soc.toml`"), "{said}");
}
