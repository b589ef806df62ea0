//! Our own record: an accepted one is written as it was read, and what a fleet's dataset keeps of it adds up.

use punctual_record::{Document, Run};
use std::path::Path;

use punctual_fleet::{Naming, Rows};

const NAMING: Naming = Naming {
    cause: punctual_report::explain::name,
    source: punctual_report::facts::source,
    hypervisor: punctual_report::facts::hypervisor,
};

pub fn check(bytes: &[u8]) {
    if let Ok(run) = Run::parse(Path::new("fuzz"), bytes) {
        let again = serde_json::to_vec(&run).expect("a record is JSON");
        let back = Run::parse(Path::new("again"), &again).expect("what was accepted is accepted");
        assert_eq!(back.threads, run.threads);
        if let Ok(rows) = Rows::of(&run, "fuzz", &NAMING) {
            let counts = rows.histogram.iter().map(|row| row.count);
            assert_eq!(counts.fold(0, i64::saturating_add), rows.run.samples);
            assert!(
                rows.histogram
                    .is_sorted_by(|one, next| one.bucket < next.bucket)
            );
            let plain = |letter: char| letter.is_ascii_digit() || letter == '-';
            assert!(rows.run.day.chars().all(plain), "{}", rows.run.day);
            assert_eq!(rows.run.day.len(), 10);
        }
    }
}
