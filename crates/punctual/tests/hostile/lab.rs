//! What the laboratory reads: a guest's frames, a lab's record, a program's headers.

use punctual_record::Document;
use punctual_record::lab::Lab;
use std::path::Path;

use punctual_lab::{channel, libraries};

pub fn check(bytes: &[u8]) {
    let _ = channel::parse(bytes);
    // A complete frame, so that the fuzzer gets past the checksum.
    let stream = [channel::frame("out/a", bytes), bytes.to_vec()].concat();
    let _ = channel::parse(&stream);
    let whole = [
        channel::frame("out/a", bytes),
        channel::frame(channel::END, b""),
    ]
    .concat();
    let frames = channel::parse(&whole).expect("what was framed is whole");
    assert_eq!(frames["out/a"], bytes);
    let _ = libraries::parse(bytes);
    let _ = libraries::parse(&[b"\x7fELF\x02\x01".as_slice(), bytes].concat());
    if let Ok(lab) = Lab::parse(Path::new("fuzz"), bytes) {
        let again = serde_json::to_vec(&lab).expect("a lab's record is JSON");
        let _ = punctual_report::lab::tables(&lab, &punctual_report::style::Style::plain());
        let _ = punctual_report::lab::page(&lab, "");
        let _ = punctual_report::lab::compare(&lab, &lab);
        Lab::parse(Path::new("again"), &again).expect("what was accepted is accepted");
    }
}
