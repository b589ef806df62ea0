#![no_main]
//! Whatever it is: detected, read, and written in every format.

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use punctual::report::formats::{Format, detect_and_parse, write};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(run) = detect_and_parse(Path::new("fuzz"), bytes) {
        for format in Format::ALL {
            write(format, &run).expect("what was read can be written");
        }
    }
});
