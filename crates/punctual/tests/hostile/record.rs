//! Our own record: an accepted one is written as it was read.

use std::path::Path;

use punctual_record::parse;

pub fn check(bytes: &[u8]) {
    if let Ok(run) = parse(Path::new("fuzz"), bytes) {
        let again = serde_json::to_vec(&run).expect("a record is JSON");
        let back = parse(Path::new("again"), &again).expect("what was accepted is accepted");
        assert_eq!(back.threads, run.threads);
    }
}
