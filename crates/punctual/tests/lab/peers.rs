//! Several programs on the same kernel under the same load, and what they measure.

use std::fs;

use super::common::{Place, need, needs, read_json};
use super::{flat, lab, ready};

const EXPERIMENT: &str = r#"
loads = "cpu"

[[machine]]
name = "rt"
kernel = "rt"

[[variant]]
name = "ours"
command = ["punctual", "measure", "-q", "-p", "80", "-l", "300", "--no-explain", "-o", "run"]
result = "run/run.json"

[[variant]]
name = "theirs"
command = ["cyclictest", "-q", "-m", "-p", "80", "-i", "1000", "-l", "300", "-N", "-h", "10000", "--json=x.json"]
result = "x.json"
"#;

#[test]
fn a_peer_and_punctual_read_as_many_wake_ups_under_the_same_load() {
    need!(needs::program("cyclictest"));
    need!(ready());
    let place = Place::new();
    fs::write(place.path().join("two.toml"), EXPERIMENT).expect("written");
    let shown = lab(&place, &["run", "two.toml", "-o", "a"])
        .expect(0)
        .stdout;
    for words in [
        "rt: mean in virtual ns",
        "load ours theirs lowest",
        "rt: work of the load",
    ] {
        assert!(flat(&shown).contains(words), "{words}: {shown}");
    }
    let record = read_json(&place.path().join("a/lab.json"));
    let cells = record["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    for (cell, name) in cells.iter().zip(["ours", "theirs"]) {
        assert_eq!(cell["kernel"], format!("rt {name}"));
        assert_eq!(cell["variant"]["name"], name);
        assert_eq!(cell["figures"]["samples"], 300, "{name}");
        assert_eq!(cell["loads"][0]["name"], "cpu");
        assert!(cell["loads"][0]["work"].as_u64() > Some(0), "{name}");
    }
    let shown = lab(&place, &["verify", "a"]).expect(0).stdout;
    assert_eq!(shown.matches(": identical").count(), 2, "{shown}");
}
