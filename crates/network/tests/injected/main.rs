//! Causes of late messages that are injected, and must be named.
//!
//! Two network namespaces are connected by a wire that delays and drops frames on purpose. A message
//! counts if an injection lies in its latency and explains it, and if a thread of the highest priority on
//! each CPU ran all the time: what the host takes does not count.

#![allow(
    clippy::print_stderr,
    reason = "says what was not tried, and what was counted"
)]

mod causes;
mod hog;
mod napi;
#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;
mod netns;
mod session;
mod stalls;
mod threads;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hog::Truth;
use needs::Absent;
use punctual_record::path::bill::{MessageCause, MessageStage};
use punctual_rt::sched::{self, Policy};
use session::Billed;
use stalls::{HIGHEST, Stalls, Witness};

const MS: u64 = 1_000_000;

/// Hogs take turns: one that waits for another's end takes no CPU from anyone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For as long as a test needs them; the last one ends them.
fn prompt_softirqs() -> Arc<PromptSoftirqs> {
    static SHARED: Mutex<Weak<PromptSoftirqs>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = shared.upgrade();
    let prompt = found.unwrap_or_else(|| Arc::new(PromptSoftirqs::begin()));
    *shared = Arc::downgrade(&prompt);
    prompt
}

/// A witness on every CPU.
fn witness() -> Witness {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Witness::start(HIGHEST, &(0..cpus).collect::<Vec<_>>())
}

/// While it lives, packets that the kernel leaves to its ordinary threads do not wait behind other programs:
/// no witness sees that, and each message would be late by it. They stay below the hogs.
struct PromptSoftirqs(Vec<i32>);

impl PromptSoftirqs {
    fn begin() -> Self {
        let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let is_one = |pid: &i32| name(*pid).is_ok_and(|name| name.starts_with("ksoftirqd/"));
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let raised = |pid: &i32| sched::set(*pid, Policy::Fifo(85)).is_ok();
        Self(pids.filter(is_one).filter(raised).collect())
    }
}

impl Drop for PromptSoftirqs {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = sched::set(*pid, Policy::Other);
        }
    }
}

/// TCP may be busy for so long with what a stall delayed.
const AFTER_STALL_NS: u64 = 100 * MS;

/// The messages that are late enough because of an injection.
#[derive(Debug, Clone, Copy, Default)]
struct Judged {
    /// In or before whose latency this machine stalled: of these nothing is required.
    stalled: usize,
    /// The others.
    injected: usize,
    /// Of those, how many have a main cause that is expected.
    named: usize,
}

fn judge(
    name: &str,
    all: &[Billed],
    truth: &[(u64, u64)],
    stalls: &Stalls,
    late_ns: u64,
    is_expected: impl Fn(MessageStage, &MessageCause) -> bool,
) -> Judged {
    let mut judged = Judged::default();
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
        if !stalls.spared(from_ns - AFTER_STALL_NS, to_ns) {
            judged.stalled += 1;
            continue;
        }
        judged.injected += 1;
        let main = bill.main().unwrap();
        if is_expected(main.stage, &main.cause) {
            judged.named += 1;
        } else {
            eprintln!("{name}: {bill:?}\n  {exchange:?}");
        }
    }
    let mut sorted: Vec<u64> = all.iter().map(|it| it.1.latency_ns / 1_000).collect();
    sorted.sort_unstable();
    let at = |part: usize| sorted.get(sorted.len() * part / 100).copied();
    let at = [10, 50, 90].map(|part| at(part).unwrap_or(0));
    let (count, stalled_us) = (all.len(), stalls.total_ns() / 1_000);
    eprintln!(
        "{name}: {judged:?}; {count} messages, p10 p50 p90 {at:?} us; stalls of {stalled_us} us"
    );
    judged
}

/// At least so many were injected, a third of them while this machine did not stall, and each of these is
/// named.
fn require(name: &str, judged: Judged, least: usize) -> Result<(), String> {
    let Judged {
        stalled,
        injected,
        named,
    } = judged;
    if injected + stalled < least || injected * 3 < least {
        return Err(format!("{name}: {judged:?}, expected {least}"));
    }
    if named < injected {
        return Err(format!("{name}: {named} of {injected} named"));
    }
    Ok(())
}

/// Namespaces with TAP devices, and that many CPUs.
fn wired(cpus: usize) -> Result<(), Absent> {
    needs::cpus(cpus)?;
    needs::real_time()?;
    needs::program("ip")?;
    needs::kernel_file("/dev/net/tun")?;
    let refused = |what, error: std::io::Error| Absent::refused(what, error);
    let a = netns::Namespace::new().map_err(|error| refused("a network namespace", error))?;
    let tap = a.tap("t0", false).map(drop);
    tap.map_err(|error| refused("a TAP device", error))
}
