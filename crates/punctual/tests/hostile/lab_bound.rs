//! The output of the plugin that measures windows, and bounds made from it.

use punctual_lab::bound::compose;
use punctual_lab::bound::file::{Preemption, Windows};
use punctual_lab::kernel::Symbols;
use punctual_stats::peaks::Peak;

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let symbols = Symbols::parse(b"ffffffff81000000 T first\nffffffff81000100 T second\n");
    for model in [Preemption::Full, Preemption::Points] {
        let Ok(windows) = Windows::parse(&text, model) else {
            continue;
        };
        for late_ns in [0, 70, 5_000, u64::MAX] {
            let wakes = (0..).zip(windows.wakes.iter().take(64));
            let peaks: Vec<Peak> = wakes
                .map(|(cycle, wake)| {
                    let due = wake.clock.saturating_sub(late_ns);
                    Peak::new(cycle, due, wake.clock - due)
                })
                .collect();
            for warm_up in [0, 16] {
                if let Ok(bound) = compose(&windows, warm_up, &peaks, &symbols) {
                    // What was measured is never later than its bound.
                    let latest = peaks.iter().map(|peak| peak.latency_ns).max();
                    assert!(latest.unwrap_or(0) <= bound.total_ns());
                }
            }
        }
    }
}
