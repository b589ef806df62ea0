//! Recordings of other tools as text: whatever they contain, each bill sums to its latency.

use std::io::Cursor;

use punctual_trace::attribute;
use punctual_trace::foreign::Recording;
use punctual_trace::foreign::damage;
use punctual_trace::foreign::open::RecordingKind;

pub fn check(bytes: &[u8]) {
    let _ = RecordingKind::of_bytes(bytes);
    for kind in [RecordingKind::Perf, RecordingKind::TraceCmd] {
        let _ = damage::check(Cursor::new(bytes), kind);
    }
    let Ok(recording) = Recording::read(bytes) else {
        return;
    };
    for wake_up in recording.wake_ups.iter().take(20) {
        let window = wake_up.window(&recording);
        let bill = attribute::bill(&window);
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, wake_up.latency_ns());
        assert_eq!(bill.latency_ns, sum);
    }
}
