//! Any input: detected, read, and written in every format.

use std::path::Path;

use punctual_report::formats::{Format, detect_and_parse, write};

pub fn check(bytes: &[u8]) {
    if let Ok(run) = detect_and_parse(Path::new("fuzz"), bytes) {
        for format in Format::ALL {
            write(format, &run).expect("what was read can be written");
        }
    }
}
