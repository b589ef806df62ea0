//! Damaged inputs by the ten thousand, the same ones every time: no parser may
//! panic, and what it accepts must keep its promises.

use crate::support as record_support;

use std::path::Path;

use punctual_record::{Document, Run};
use punctual_report::compare::compare;
use punctual_report::formats::{Format, detect_and_parse, write};
use record_support::Random;

const CASES: usize = 20_000;

fn damage(random: &mut Random, valid: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = valid[random.below(valid.len())].clone();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => bytes[at] = b"0123456789{}[],:\"-.eE\\ \n\x1b"[random.below(25)],
            3 => {
                // A number becomes an extreme one.
                let digits = bytes[at..]
                    .iter()
                    .position(u8::is_ascii_digit)
                    .map(|d| at + d);
                if let Some(start) = digits {
                    let end = start
                        + bytes[start..]
                            .iter()
                            .take_while(|b| b.is_ascii_digit())
                            .count();
                    let values: [&[u8]; 8] = [
                        b"0",
                        b"-1",
                        b"18446744073709551615",
                        b"18446744073709551616",
                        b"9223372036854775807",
                        b"1e308",
                        b"1e999",
                        b"0.5",
                    ];
                    bytes.splice(start..end, values[random.below(8)].iter().copied());
                }
            }
            4 => {
                // A piece of another input.
                let other = &valid[random.below(valid.len())];
                let from = random.below(other.len());
                let to = (from + random.below(200)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            5 => {
                let to = (at + random.below(100)).min(bytes.len());
                bytes.drain(at..to);
            }
            6 => {
                let to = (at + random.below(60)).min(bytes.len());
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                // Two lines change places.
                let mut lines: Vec<_> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                let (a, b) = (random.below(lines.len()), random.below(lines.len()));
                lines.swap(a, b);
                bytes = lines.join(&b'\n');
            }
        }
    }
    bytes
}

fn small_run() -> Run {
    record_support::run_of(vec![
        record_support::thread(0, &record_support::latencies(1, 300, 90_000), 16),
        record_support::thread(1, &record_support::latencies(2, 300, 400_000), 16),
    ])
}

fn inputs() -> Vec<Vec<u8>> {
    let run = small_run();
    let mut inputs = vec![
        serde_json::to_vec(&run).unwrap(),
        serde_json::to_vec_pretty(&run).unwrap(),
    ];
    for format in [
        Format::Cyclictest,
        Format::RtTestsJson,
        Format::Jitterdebugger,
    ] {
        inputs.push(write(format, &run).unwrap().into_bytes());
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
    let mut names: Vec<_> = std::fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    inputs.extend(names.iter().map(|name| std::fs::read(name).unwrap()));
    inputs.retain(|input| input.len() < 60_000);
    inputs
}

#[test]
fn damaged_inputs_are_refused_or_sound() {
    let valid = inputs();
    let other = small_run();
    let path = Path::new("damaged");
    let mut random = Random(0x5eed_1234_5678);
    let (mut accepted, mut refused) = (0, 0);
    for case in 0..CASES {
        let bytes = damage(&mut random, &valid);
        match detect_and_parse(path, &bytes) {
            Err(error) => {
                let line = error.to_string();
                assert!(
                    line.starts_with("damaged: ") && !line.contains('\n'),
                    "{case}: {line}"
                );
                refused += 1;
            }
            Ok(run) => {
                accepted += 1;
                let text = serde_json::to_vec(&run).unwrap();
                let back = Run::parse(path, &text).unwrap_or_else(|e| panic!("case {case}: {e}"));
                assert_eq!(back.threads, run.threads, "case {case}");
                if accepted % 16 == 0 {
                    for format in Format::ALL {
                        write(format, &run).unwrap_or_else(|e| panic!("case {case}: {e}"));
                    }
                    compare(
                        std::slice::from_ref(&run),
                        std::slice::from_ref(&other),
                        None,
                    )
                    .unwrap();
                    let _ = compare(&[run.clone(), other.clone()], &[run], Some(0.9));
                }
            }
        }
    }
    assert!(
        accepted > 1000 && refused > 1000,
        "{accepted} accepted, {refused} refused"
    );
}

/// Valid bytes cut at every length.
#[test]
fn every_truncation() {
    let path = Path::new("cut");
    for input in inputs().iter().filter(|input| input.len() < 8000) {
        for length in (0..input.len()).step_by(3) {
            let _ = detect_and_parse(path, &input[..length]);
        }
    }
}
