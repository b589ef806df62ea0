//! Windows from untrusted files: memory is bounded, damage is reported, nothing panics.

use std::fs;
use std::path::Path;

use punctual_trace::attribute::bill;
use punctual_trace::windows::{Windows, parse};

use super::data::{NAMES, window};

fn read(text: &[u8]) -> Result<(), String> {
    let window = parse(Path::new("windows.jsonl"), 7, text).map_err(|e| e.to_string())?;
    let bill = bill(&window);
    let sum: u128 = bill.rows.iter().map(|row| u128::from(row.ns)).sum();
    assert_eq!(
        sum,
        u128::from(window.woken_ns.saturating_sub(window.due_ns))
    );
    Ok(())
}

#[test]
fn damage_is_reported_with_its_line() {
    let sound = serde_json::to_string(&window("hog-0")).unwrap();
    read(sound.as_bytes()).unwrap();
    let nested = "[".repeat(100);
    let stack = serde_json::to_string(&vec![1u64; 5_000]).unwrap();
    for (text, part) in [
        (sound.replace("\"cpu\":1", "\"cpu\":-1"), "invalid value"),
        (sound.replacen("due_ns", "due", 1), "due_ns"),
        (sound[..sound.len() / 2].to_owned(), "EOF"),
        (nested, "nested"),
        (String::new(), "EOF"),
        (
            sound.replacen(
                "\"events\":[",
                &format!(
                    "\"events\":[{{\"at_ns\":1,\"cpu\":1,\"what\":{{\"stack\":{{\"tid\":1,\"cost_ns\":1,\"frames\":{stack}}}}}}},"
                ),
                1,
            ),
            "stack of more than",
        ),
    ] {
        let error = read(text.as_bytes()).expect_err(part);
        assert!(error.contains("line 7") && error.contains(part), "{part}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
}

/// Thousands of changed, removed and duplicated bytes, the same ones every time.
#[test]
fn no_damage_causes_a_panic() {
    let sound: Vec<Vec<u8>> = NAMES
        .iter()
        .map(|name| serde_json::to_vec(&window(&format!("{name}-1"))).unwrap())
        .collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below.max(1)
    };
    let mut accepted = 0;
    for _ in 0..4_000 {
        let mut text = sound[random(sound.len())].clone();
        for _ in 0..=random(3) {
            let at = random(text.len());
            match random(4) {
                0 => text[at] = b"0123456789-{}[],\""[random(17)],
                1 => {
                    let to = (at + random(60)).min(text.len());
                    text.drain(at..to);
                }
                2 => {
                    let piece = text[at..(at + random(400)).min(text.len())].to_vec();
                    text.splice(at..at, piece);
                }
                _ => {
                    // A number becomes another one with as many digits.
                    for byte in text[at..].iter_mut().take(24) {
                        if byte.is_ascii_digit() {
                            *byte = b'0' + random(10) as u8;
                        }
                    }
                }
            }
        }
        accepted += u32::from(read(&text).is_ok());
    }
    assert!(accepted > 400, "{accepted}: too few to mean anything");
}

#[test]
fn a_file_that_ends_within_a_line_gives_its_complete_lines() {
    let directory = tempfile::tempdir().unwrap();
    assert!(Windows::open(directory.path()).unwrap().is_none());
    let line = serde_json::to_string(&window("quiet-0")).unwrap();
    let text = format!("{line}\n\n{line}\n{}", &line[..line.len() / 2]);
    fs::write(directory.path().join("windows.jsonl"), text).unwrap();
    let windows = Windows::open(directory.path()).unwrap().unwrap();
    let read: Vec<_> = windows.collect::<Result<_, _>>().unwrap();
    assert_eq!(read, [window("quiet-0"), window("quiet-0")]);
    // Damage in the middle ends the reading, with its line number.
    fs::write(
        directory.path().join("windows.jsonl"),
        format!("{line}\n{{}}\n{line}\n"),
    )
    .unwrap();
    let windows = Windows::open(directory.path()).unwrap().unwrap();
    let read: Vec<_> = windows.collect();
    assert_eq!(read.len(), 2);
    assert!(read[1].as_ref().unwrap_err().to_string().contains("line 2"));
}
