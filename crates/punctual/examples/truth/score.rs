//! Bills against the truth: who was in the way, and for how long.

use punctual::record::explanation::Cause;
use punctual::trace::attribute::event::Window;
use punctual::trace::attribute::{self, Held};
use serde::Serialize;

use super::culprit::{Culprit, Truth};
use super::scene::Seen;

/// Less of a culprit in a wake-up's time is none.
const LEAST_NS: u64 = 60_000;
/// How far a duration may be off.
const OFF_BY_NS: u64 = 5_000;

/// How well one kind of culprit was found.
#[derive(Debug, Default, Serialize)]
pub struct Score {
    /// Which.
    pub culprit: String,
    /// Times that one was in the way.
    pub injected: usize,
    /// Times that events were lost there: nothing is said of these.
    pub blind: usize,
    /// Times that it was named.
    pub named: usize,
    /// Times that its duration was right by 2 % or 5 µs.
    pub timed: usize,
    /// Of what the bill says less what was true, in ns: the median and the worst.
    pub off_by_ns: i64,
    pub worst_ns: i64,
    /// Time of all these bills, and what of it is unexplained or blind.
    pub total_ns: u64,
    pub residue_ns: u64,
    /// What was billed in its place, in words; the first of them.
    pub instead: Vec<String>,
}

/// A window with what was true.
pub type Kept<'a> = (&'a Window, Truth);

/// Holds every bill against what was true, and hands out the windows of the wrong ones; if all
/// are right one of these.
pub fn score<'a>(culprit: Culprit, name: &str, seen: &'a Seen) -> (Score, Vec<Kept<'a>>) {
    let mut score = Score {
        culprit: name.to_owned(),
        ..Score::default()
    };
    let mut off_by: Vec<i64> = Vec::new();
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for window in &seen.windows {
        let account = attribute::account(window);
        let bill = attribute::bill(window);
        let latency_ns = window.woken_ns - window.due_ns;
        assert_eq!(bill.rows.iter().map(|row| row.ns).sum::<u64>(), latency_ns);
        assert_eq!(account.iter().map(|held| held.ns).sum::<u64>(), latency_ns);
        let within = |truth: &Truth| {
            let begin = truth.begin_ns.max(window.due_ns);
            truth.end_ns.min(window.woken_ns).saturating_sub(begin)
        };
        let of_this = |truth: &&Truth| truth.culprit == culprit && within(truth) >= LEAST_NS;
        let Some(truth) = seen.truths.iter().find(of_this) else {
            continue;
        };
        if window.lost > 0 {
            score.blind += 1;
            continue;
        }
        let its = |cause: &Cause| is(culprit, cause, seen.preempt_rt);
        let billed: u64 = account
            .iter()
            .filter(|held| its(&held.cause))
            .map(|held| held.ns)
            .sum();
        // What ran over it, or had to be before it could be in the way.
        let over: u64 = account
            .iter()
            .filter(|held| !its(&held.cause) && lies_over(&held.cause))
            .map(|held| overlap(held, truth))
            .sum();
        let own = within(truth).saturating_sub(over);
        let off = billed as i64 - own as i64;
        let named = billed * 10 >= own * 9;
        let timed = off.unsigned_abs() <= OFF_BY_NS.max(within(truth) / 50);
        score.injected += 1;
        score.named += usize::from(named);
        score.timed += usize::from(timed);
        score.total_ns += bill.latency_ns;
        score.residue_ns += bill.residue_ns();
        off_by.push(off);
        if !named || !timed {
            if score.instead.len() < 3 {
                let rows = bill.rows.iter().filter(|row| row.ns > 4_000);
                let rows: Vec<String> = rows
                    .map(|row| format!("{:?} {:?} {}", row.stage, row.cause, row.ns))
                    .collect();
                score
                    .instead
                    .push(format!("of {own} ns ({off:+}): {}", rows.join(", ")));
            }
            wrong.push((window, *truth));
        } else if right.is_empty() {
            right.push((window, *truth));
        }
    }
    off_by.sort_unstable();
    score.off_by_ns = off_by.get(off_by.len() / 2).copied().unwrap_or(0);
    score.worst_ns = off_by
        .iter()
        .copied()
        .max_by_key(|off| off.abs())
        .unwrap_or(0);
    (score, if wrong.is_empty() { right } else { wrong })
}

fn overlap(held: &Held, truth: &Truth) -> u64 {
    let begin = held.from_ns.max(truth.begin_ns);
    held.to_ns
        .min(truth.end_ns)
        .saturating_sub(begin)
        .min(held.ns)
}

/// What has rows of its own while a culprit is at work.
fn lies_over(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::WakePath
            | Cause::Platform
            | Cause::Steal
            | Cause::Smi
            | Cause::Nmi
            | Cause::Interrupt { .. }
            | Cause::CpuInterrupt { .. }
            | Cause::Call { .. }
            | Cause::TimerCallback { .. }
            | Cause::Softirq { .. }
            | Cause::Tracer
    )
}

/// Whether a cause names the culprit.
fn is(culprit: Culprit, cause: &Cause, preempt_rt: bool) -> bool {
    let by_name = |task: &str| task == culprit.name();
    match (culprit, cause) {
        (Culprit::Hog | Culprit::Riser, Cause::Thread { task, priority, .. }) => {
            by_name(task) && *priority == 99
        }
        (Culprit::Deadline, Cause::Thread { task, policy, .. }) => {
            by_name(task) && policy == "SCHED_DEADLINE"
        }
        (Culprit::PreemptOff, Cause::PreemptOff { task, .. })
        | (Culprit::IrqsOff, Cause::IrqsOff { task, .. }) => by_name(task),
        (Culprit::Call, Cause::Call { function }) => function.starts_with("__bpf_prog_test_run"),
        (Culprit::Packet, Cause::Softirq { number: 3 }) => !preempt_rt,
        (Culprit::Packet, Cause::Thread { task, .. }) => preempt_rt && by_name(task),
        (Culprit::Interrupt, Cause::Interrupt { name, .. }) => {
            name.contains("virtio") || name.contains("ttyS0")
        }
        (Culprit::Timers, Cause::TimerCallback { function }) => function == "hrtimer_wakeup",
        (Culprit::Fault, Cause::Fault) => true,
        (Culprit::Inversion, Cause::Inversion { holder, .. }) => by_name(holder),
        (Culprit::Stop, Cause::Blocked { state }) => state == "stopped",
        _ => false,
    }
}
