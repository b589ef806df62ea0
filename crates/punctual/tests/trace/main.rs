//! What the kernel was seen to do, held against culprits of known length.
#![cfg(feature = "trace")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod inject;
mod scene;
mod truth;

use std::time::Duration;

use inject::Culprit;

/// Writes windows as test data: PUNCTUAL_RECORD names the folder.
#[test]
fn windows_can_be_recorded() {
    let Some(folder) = std::env::var_os("PUNCTUAL_RECORD") else {
        return;
    };
    let folder = std::path::PathBuf::from(folder);
    for (name, culprit) in [
        ("quiet", None),
        ("hog", Some(Culprit::Hog)),
        ("preempt-off", Some(Culprit::PreemptOff)),
        ("irqs-off", Some(Culprit::IrqsOff)),
        ("flood", Some(Culprit::Flood)),
    ] {
        let threshold_ns = match culprit {
            Some(Culprit::Flood) => 25_000,
            None => 40_000,
            _ => 150_000,
        };
        let scene = scene::play(culprit, 500_000, threshold_ns, Duration::from_secs(3)).unwrap();
        eprintln!(
            "{name}: {} samples, {} chains, {} windows, {} truths, {} events, {} lost, missing {:?}",
            scene.samples.len(),
            scene.chains.len(),
            scene.windows.len(),
            scene.truths.len(),
            scene.capture.events(),
            scene.capture.lost(),
            scene.capture.missing(),
        );
        let mut windows: Vec<_> = scene.windows.iter().collect();
        windows.sort_by_key(|window| window.events.len());
        let some = windows.iter().skip(windows.len() / 2).take(3);
        for (number, window) in some.enumerate() {
            let text = serde_json::to_string_pretty(window).unwrap();
            std::fs::write(folder.join(format!("{name}-{number}.json")), text).unwrap();
        }
        let truths: Vec<_> = scene
            .truths
            .iter()
            .map(|t| (t.begin_ns, t.end_ns))
            .collect();
        let text = serde_json::to_string(&truths).unwrap();
        std::fs::write(folder.join(format!("{name}-truth.json")), text).unwrap();
    }
}
