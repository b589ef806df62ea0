//! cyclictest's output, with a beginning that takes the fuzzer to the rows.

use std::path::Path;

use punctual_report::formats::detect_and_parse;

pub fn check(bytes: &[u8]) {
    let text = [b"# Histogram\n".as_slice(), bytes].concat();
    let _ = detect_and_parse(Path::new("fuzz"), &text);
}
