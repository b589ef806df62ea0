//! A window of events: an accepted one has a bill whose rows and stages sum to the latency,
//! and which a record accepts; and a wait, whose rows sum too.

use std::path::Path;

use punctual_record::Ledger;
use punctual_record::explanation::{Cause, Picture};
use punctual_trace::attribute::event::Window;
use punctual_trace::attribute::waits::chain;
use punctual_trace::attribute::{JobInstants, bill, job_bill, job_picture, picture};
use punctual_trace::windows::parse;

pub fn check(bytes: &[u8]) {
    let Ok(window) = parse(Path::new("fuzz"), 1, bytes) else {
        return;
    };
    let bill = bill(&window);
    let latency = window.woken_ns.saturating_sub(window.due_ns);
    let sum: u128 = bill.rows.iter().map(|row| u128::from(row.ns)).sum();
    assert_eq!(sum, u128::from(latency));
    assert_eq!(bill.stages.total_ns(), latency);
    assert!(
        bill.rows
            .iter()
            .all(|row| row.ns > 0 && row.cause != Cause::Other)
    );
    let chain = chain(&window, window.waiting_ns);
    let sum: u128 = chain.rows.iter().map(|row| u128::from(row.ns)).sum();
    assert_eq!(sum, u128::from(chain.to_ns - chain.from_ns));
    let mut ledger = Ledger::new(Some(0));
    ledger.add(&bill);
    let _ = (ledger.to_record(), picture(&window));
    // The same as the execution of a job.
    let at = JobInstants {
        arrival_ns: window.due_ns,
        released_ns: window.due_ns,
        started_ns: window.due_ns,
        ended_ns: window.woken_ns.max(window.due_ns),
        more_ns: 0,
        waited: true,
    };
    let execution = Window {
        gap: true,
        job: true,
        ..window.clone()
    };
    let bill = job_bill(&at, None, &execution);
    let sum: u128 = bill.rows.iter().map(|row| u128::from(row.ns)).sum();
    assert_eq!(sum, u128::from(latency));
    let picture = job_picture(&window, None, &execution);
    assert!(picture.spans.len() <= Picture::SPANS);
    let mut spans = picture.spans.iter();
    assert!(spans.all(|span| span.from_ns <= span.to_ns));
}
