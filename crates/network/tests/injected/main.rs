//! Causes of late messages that are injected, and must be named.
//!
//! Two network namespaces are connected by a wire that delays and drops frames on purpose. A message
//! counts if an injection lies in its latency and explains it: this machine's own delays don't count.

#![allow(
    clippy::print_stderr,
    reason = "says what was not tried, and what was counted"
)]

mod causes;
mod hog;
mod napi;
mod netns;
mod session;
mod threads;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

use hog::Truth;
use punctual_record::path::bill::{MessageCause, MessageStage};
use session::Billed;

const MS: u64 = 1_000_000;

/// Hogs take turns: one that waits for another's end takes no CPU from anyone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of the messages that are late enough and in which an injection began, how many there are, and how
/// many have a main cause that is expected.
fn judge(
    name: &str,
    all: &[Billed],
    truth: &[(u64, u64)],
    late_ns: u64,
    is_expected: impl Fn(MessageStage, &MessageCause) -> bool,
) -> (usize, usize) {
    let (mut injected, mut named) = (0, 0);
    for (exchange, bill) in all {
        let from_ns = exchange.requested_ns;
        let to_ns = from_ns + bill.latency_ns;
        let touches = |it: &&(u64, u64)| it.0 < to_ns && it.1 > from_ns;
        // The injection must explain most of the lateness.
        let overlap_ns: u64 = truth
            .iter()
            .filter(touches)
            .map(|it| it.1.min(to_ns) - it.0.max(from_ns))
            .sum();
        if bill.latency_ns < late_ns || overlap_ns < bill.latency_ns / 2 {
            continue;
        }
        injected += 1;
        let main = bill.main().unwrap();
        if is_expected(main.stage, &main.cause) {
            named += 1;
        } else {
            eprintln!("{name}: {bill:?}\n  {exchange:?}");
        }
    }
    let mut sorted: Vec<u64> = all.iter().map(|it| it.1.latency_ns / 1_000).collect();
    sorted.sort_unstable();
    let at = |part: usize| sorted.get(sorted.len() * part / 100).copied();
    let at = [10, 50, 90].map(|part| at(part).unwrap_or(0));
    let count = all.len();
    eprintln!("{name}: {named} of {injected} named; {count} messages, p10 p50 p90 {at:?} us");
    (injected, named)
}

/// At least so many were injected, and 99 in 100 of them named; of few, all but one, or of 40 two: this machine
/// delays messages on its own, if its host takes a CPU away while another thread is on it.
fn require(name: &str, (injected, named): (usize, usize), least: usize) -> Result<(), String> {
    if injected < least {
        return Err(format!("{name}: {injected} injected, expected {least}"));
    }
    let by_the_machine = (injected / 20).clamp(1, 2);
    if injected - named > (injected / 100).max(by_the_machine) {
        return Err(format!("{name}: {named} of {injected} named"));
    }
    Ok(())
}

/// Whether this machine permits namespaces and TAP devices; prints why not.
fn is_possible() -> bool {
    let refused = |what: &str, why: &dyn std::fmt::Display| {
        eprintln!("SKIPPED: {what}: {why}");
        false
    };
    let a = match netns::Namespace::new() {
        Ok(a) => a,
        Err(error) => return refused("no network namespace", &error),
    };
    if let Err(error) = a.tap("t0", false) {
        return refused("no TAP device", &error);
    }
    let has_ip = a.run(|| std::process::Command::new("ip").arg("-V").output());
    has_ip.is_ok() || refused("no program", &"ip")
}
