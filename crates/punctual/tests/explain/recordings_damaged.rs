//! Incomplete files of perf and trace-cmd: the error says what is wrong, where, and what to do.

use std::fs;
use std::io::{Cursor, ErrorKind};

use crate::common::{self, Ended, Place};
use crate::recordings_odd::one_line;
use punctual_trace::foreign::damage::check;
use punctual_trace::foreign::open::RecordingKind;

/// A file made by hand.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    is_big_endian: bool,
}

impl File {
    fn add(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    fn number(&mut self, size: usize, value: u64) -> &mut Self {
        let mut bytes = value.to_be_bytes()[8 - size..].to_vec();
        if !self.is_big_endian {
            bytes.reverse();
        }
        self.add(&bytes)
    }

    fn sized(&mut self, size: usize, content: &[u8]) -> &mut Self {
        self.number(size, content.len() as u64).add(content)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// A header of 104 bytes, an event of 136, 200 bytes of data, two features.
fn perf(is_big_endian: bool) -> Vec<u8> {
    let mut file = File {
        is_big_endian,
        ..File::default()
    };
    file.add(if is_big_endian {
        b"2ELIFREP"
    } else {
        b"PERFILE2"
    });
    for field in [104, 136, 104, 136, 240, 200, 0, 0, 0b1010, 0, 0, 0] {
        file.number(8, field);
    }
    file.add(&[1; 136]).add(&[2; 200]);
    for field in [472, 30, 502, 10] {
        file.number(8, field);
    }
    file.add(&[3; 40]);
    file.bytes
}

fn trace_cmd(version: u8, is_big_endian: bool) -> File {
    let mut file = File {
        is_big_endian,
        ..File::default()
    };
    file.add(b"\x17\x08\x44tracing").add(&[version, 0]);
    file.number(1, u64::from(is_big_endian))
        .number(1, 8)
        .number(4, 4096);
    file
}

fn version_6(is_big_endian: bool) -> Vec<u8> {
    let mut file = trace_cmd(b'6', is_big_endian);
    file.add(b"header_page\0").sized(8, &[1; 20]);
    file.add(b"header_event\0").sized(8, &[1; 20]);
    file.number(4, 2).sized(8, &[2; 9]).sized(8, &[2; 9]);
    file.number(4, 1)
        .add(b"sched\0")
        .number(4, 1)
        .sized(8, &[3; 9]);
    file.sized(4, &[4; 5]).sized(4, &[]).sized(8, &[4; 7]);
    file.number(4, 2).add(b"options  \0");
    file.number(2, 5).sized(4, b"uname").number(2, 0);
    file.add(b"flyrecord\0");
    let data = file.len() + 4 * 8;
    for field in [data, 30, data + 30, 10] {
        file.number(8, field);
    }
    file.add(&[6; 40]);
    file.bytes
}

/// Options, then the trace data, then the options that say where it is.
fn version_7(is_big_endian: bool) -> Vec<u8> {
    let mut file = trace_cmd(b'7', is_big_endian);
    file.add(b"none\0\0");
    let first = file.len() + 8;
    file.number(8, first);
    let section = |file: &mut File, id: u64, size: u64| {
        file.number(2, id).number(2, 0).number(4, 0).number(8, size);
    };
    section(&mut file, 0, 2 * 14);
    let headers = first + 16 + 2 * 14;
    let buffer = headers + 16 + 20;
    let second = buffer + 16 + 40;
    file.number(2, 16).number(4, 8).number(8, headers);
    file.number(2, 0).number(4, 8).number(8, second);
    section(&mut file, 16, 20);
    file.add(&[1; 20]);
    section(&mut file, 3, 40);
    file.add(&[2; 40]);
    section(&mut file, 0, 6 + 8 + 1 + 6 + 8 + 2 * 20 + 14);
    file.number(2, 3)
        .number(4, 8 + 1 + 6 + 8 + 2 * 20)
        .number(8, buffer);
    file.add(b"\0local\0").number(4, 4096).number(4, 2);
    for (cpu, from, size) in [(0, buffer + 16, 30), (1, buffer + 46, 10)] {
        file.number(4, cpu).number(8, from).number(8, size);
    }
    file.number(2, 0).number(4, 8).number(8, 0);
    file.bytes
}

fn kinds() -> Vec<(RecordingKind, Vec<u8>)> {
    let of_order = |is_big_endian| {
        [
            (RecordingKind::Perf, perf(is_big_endian)),
            (RecordingKind::TraceCmd, version_6(is_big_endian)),
            (RecordingKind::TraceCmd, version_7(is_big_endian)),
        ]
    };
    [of_order(false), of_order(true)].concat()
}

/// The whole file is right, and cut at any of these lengths it isn't.
pub fn each_truncation_is_found(whole: &[u8], kind: RecordingKind, step: usize) {
    check(Cursor::new(whole), kind).unwrap_or_else(|damage| panic!("{kind:?}: {damage}"));
    for cut in (1..whole.len()).step_by(step).chain([whole.len() - 1]) {
        let bytes = &whole[..cut];
        assert_eq!(RecordingKind::of_bytes(bytes), Some(kind));
        let why = check(Cursor::new(bytes), kind).expect_err("it is incomplete");
        let all = whole.len();
        assert_eq!(
            why.kind(),
            ErrorKind::UnexpectedEof,
            "{cut} of {all}: {why}"
        );
        let begins = why
            .to_string()
            .starts_with(&format!("cut off at byte {cut}, "));
        assert!(begins, "{cut} of {all}: {why}");
    }
}

#[test]
fn a_file_cut_at_any_byte_is_found() {
    for (kind, whole) in kinds() {
        each_truncation_is_found(&whole, kind, 1);
    }
}

/// Whatever a byte becomes, the check ends, and a reason is one line.
#[test]
fn a_file_with_any_byte_changed_is_checked_to_an_end() {
    for (kind, whole) in kinds() {
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let lines = match check(Cursor::new(&bytes), kind) {
                    Ok(()) => 1,
                    Err(why) => why.to_string().lines().count(),
                };
                assert_eq!(lines, 1);
            }
        }
    }
}

/// Without the tool, so that the answer is only ours.
fn explain(file: &[u8]) -> Ended {
    let place = Place::new();
    fs::write(place.path().join("file"), file).expect("written");
    let mut command = place.command(common::program());
    command.args(["explain", "file"]).env("PATH", "/nowhere");
    common::Running::start(command).end().expect(1)
}

#[test]
fn the_error_says_what_is_wrong_where_and_what_to_do() {
    let mut unfinished = perf(false);
    unfinished[48..56].fill(0);
    let mut wrong = perf(false);
    wrong[8] = 3;
    let mut no_options = version_7(false);
    no_options[24..32].fill(0);
    let (six, seven) = (version_6(false), version_7(false));
    for (file, what) in [
        (&perf(false)[..3], "cut off at byte 3, within its header"),
        (
            &perf(false)[..150],
            "cut off at byte 150, within its list of events",
        ),
        (
            &perf(false)[..300],
            "cut off at byte 300, within its events",
        ),
        (
            &perf(false)[..450],
            "cut off at byte 450, within its features",
        ),
        (
            &perf(false)[..475],
            "cut off at byte 475, within its features, with the formats of its events",
        ),
        (&unfinished[..], "not finished: its header has no events"),
        (&wrong[..], "damaged before byte 16, in its header"),
        (&six[..60], "cut off at byte 60, within its formats"),
        (&six[..six.len() - 1], ", within its events"),
        (&seven[..30], "cut off at byte 30, within its header"),
        (&seven[..33], "cut off at byte 33, within its options"),
        (&no_options[..], "not finished: its header has no options"),
    ] {
        let ended = explain(file);
        let line = one_line(&ended);
        assert!(line.contains("file: "), "{line}");
        assert!(line.contains(what), "{what}: {line}");
        assert!(line.contains("record again and end `"), "{line}");
        assert!(line.contains("with Ctrl-C"), "{line}");
    }
    let empty = explain(b"");
    assert!(one_line(&empty).contains("the file is empty"), "{empty:?}");
}
