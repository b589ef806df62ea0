//! docs/load.md agrees with the code.

use punctual_load::{generator, standard};

const DOCUMENT: &str = include_str!("../../../../docs/load.md");

#[test]
fn the_standard_load_is_the_one_documented() {
    let title = format!("## The standard load, version {}\n", standard::VERSION);
    assert!(DOCUMENT.contains(&title), "its version");
    let table = standard::markdown();
    assert!(
        DOCUMENT.contains(&table),
        "docs/load.md must hold\n\n{table}"
    );
}

#[test]
fn the_generators_are_the_ones_documented() {
    let list = generator::markdown();
    assert!(DOCUMENT.contains(&list), "docs/load.md must hold\n\n{list}");
}
