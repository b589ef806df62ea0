//! Compares bills with the truth: which culprit was there, and for how long.

use punctual_record::explanation::{BillRow, Cause, Culprit as Thread, RowNote, Stage};
use punctual_trace::attribute::event::Window;
use punctual_trace::attribute::{self, Share};
use serde::Serialize;

use super::culprit::{Culprit, Truth};
use super::scene::Seen;

/// The allowed error of a duration.
const OFF_BY_NS: u64 = 5_000;

/// How well one kind of culprit was found.
#[derive(Debug, Default, Serialize)]
pub struct Score {
    /// Its name.
    pub culprit: String,
    /// Injections.
    pub injected: usize,
    /// Injections with lost events, with a tenth of their time missing from the events, or with more
    /// gaps than it could record: nothing is said about these.
    pub blind: usize,
    /// Those with time missing from the events while a hypervisor's agent ran, by the kernel's
    /// accounts: nothing is said about these either.
    pub agents: usize,
    /// Injections whose bill says that the host is likely but not certain: nothing is said about
    /// these either.
    #[serde(skip_serializing_if = "is_zero")]
    pub likely: usize,
    /// Stops of a machine whose CPUs this machine did not resume together: nothing is said about
    /// these either.
    #[serde(skip_serializing_if = "is_zero")]
    pub apart: usize,
    /// Injections whose culprit was named.
    pub named: usize,
    /// Injections whose duration was right to 2 % or 5 µs.
    pub timed: usize,
    /// Of the named ones, how many have the culprit's place in the kernel: the system call that
    /// injects it, `bpf`; for a call from another CPU, how many name the thread that sent it.
    pub placed: usize,
    /// Of the named ones, how many have the number of the culprit's thread. Absent if a bill has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbered: Option<usize>,
    /// Bills whose rows sum to the latency, to the nanosecond.
    pub summed: usize,
    /// Bills in which tracing itself took more than a hundredth of the latency, and its time in all
    /// of them: how often it has a row at all, of some 300 ns, depends on what the host did before.
    pub traced: usize,
    pub traced_ns: u64,
    /// The error of the bills in ns, below the certain or above the possible duration: the
    /// median and the worst.
    pub off_by_ns: i64,
    pub worst_ns: i64,
    #[serde(skip)]
    pub offs: Vec<i64>,
    /// Bills of which at most a tenth is unexplained or blind.
    pub explained: usize,
    /// Time of all these bills, and its unexplained or blind share.
    pub total_ns: u64,
    pub residue_ns: u64,
    /// What was billed instead, in words; the first of them.
    pub instead: Vec<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Score {
    /// Counts one more injection.
    pub fn count(&mut self, off_ns: i64, named: bool) {
        self.injected += 1;
        self.named += usize::from(named);
        self.offs.push(off_ns);
        self.offs.sort_unstable();
        self.off_by_ns = self.offs[self.offs.len() / 2];
        let worst = self.offs.iter().copied().max_by_key(|off| off.abs());
        self.worst_ns = worst.unwrap_or(0);
    }
}

/// A window with its truth.
pub type Kept<'a> = (&'a Window, Truth);

/// Compares every bill with the truth, and returns the windows of the wrong ones; if all
/// are right, one of these.
pub fn score<'a>(culprit: Culprit, name: &str, seen: &'a Seen) -> (Score, Vec<Kept<'a>>) {
    let mut score = Score {
        culprit: name.to_owned(),
        numbered: culprit.has_number().then_some(0),
        ..Score::default()
    };
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for window in &seen.windows {
        let account = attribute::account(window);
        let bill = attribute::bill(window);
        let latency_ns = window.woken_ns - window.due_ns;
        let rows: u64 = bill.rows.iter().map(|row| row.ns).sum();
        let sums = rows == latency_ns && bill.latency_ns == latency_ns;
        assert_eq!(account.iter().map(|held| held.ns).sum::<u64>(), rows);
        let its = |cause: &Cause| is(culprit, cause, seen.preempt_rt);
        let within = |truth: &&Truth| {
            let sure = clip(truth.was.begin_ns, truth.was.end_ns, window);
            truth.culprit == culprit && sure.1.saturating_sub(sure.0) >= culprit.least_ns()
        };
        let Some(truth) = seen.truths.iter().find(within) else {
            continue;
        };
        let own = own(truth, window, &account, its);
        let blind: u64 = account
            .iter()
            .filter(|held| held.cause == Cause::Blind)
            .map(|held| overlap(held, truth.was.begin_ns, truth.was.end_ns))
            .sum();
        let Some(own) = own.filter(|_| window.lost == 0) else {
            score.blind += 1;
            continue;
        };
        if blind * 10 >= own.least_ns.max(1) {
            let agents = seen.agent.ran_in(window.due_ns, window.woken_ns);
            score.agents += usize::from(agents);
            score.blind += usize::from(!agents);
            continue;
        }
        if own.least_ns < culprit.least_ns() {
            continue;
        }
        // If another thread has the same name, its time elsewhere does not count.
        let (first_ns, last_ns) = if culprit.has_namesakes() {
            (truth.was.first_ns, truth.was.last_ns)
        } else {
            (0, u64::MAX)
        };
        let billed: u64 = account
            .iter()
            .filter(|held| its(&held.cause))
            .map(|held| overlap(held, first_ns, last_ns))
            .sum();
        let off = own.off_by(billed);
        let named = billed * 10 >= own.least_ns * 9;
        let timed = off.unsigned_abs() <= OFF_BY_NS.max(own.most_ns / 50);
        score.count(off, named);
        score.timed += usize::from(timed);
        score.placed += usize::from(named && bill.rows.iter().any(is_placed));
        score.summed += usize::from(sums);
        let its_rows = bill.rows.iter().filter(|row| its(&row.cause));
        let mut by = its_rows.flat_map(|row| &row.by);
        let is_numbered = named && by.any(|it| it.tid == truth.was.by);
        if let Some(numbered) = &mut score.numbered {
            *numbered += usize::from(is_numbered);
        }
        let tracers = bill.rows.iter().filter(|row| row.cause == Cause::Tracer);
        let traced_ns: u64 = tracers.map(|row| row.ns).sum();
        score.traced += usize::from(traced_ns > bill.latency_ns / 100);
        score.traced_ns += traced_ns;
        score.explained += usize::from(bill.is_explained());
        score.total_ns += bill.latency_ns;
        score.residue_ns += bill.residue_ns();
        if !named || !timed || culprit.has_number() && !is_numbered {
            if score.instead.len() < 3 {
                let rows = bill.rows.iter().filter(|row| row.ns > 4_000);
                let rows: Vec<String> = rows
                    .map(|row| format!("{:?} {:?} {}", row.stage, row.cause, row.ns))
                    .collect();
                score
                    .instead
                    .push(format!("of {own} ({off:+}): {}", rows.join(", ")));
            }
            wrong.push((window, *truth));
        } else if right.is_empty() {
            right.push((window, *truth));
        }
    }
    (score, if wrong.is_empty() { right } else { wrong })
}

/// A culprit's own time in a wake-up: the certain and the possible duration.
struct Own {
    least_ns: u64,
    most_ns: u64,
}

impl Own {
    fn off_by(&self, billed_ns: u64) -> i64 {
        let billed = billed_ns as i64;
        billed - billed.clamp(self.least_ns as i64, self.most_ns.max(self.least_ns) as i64)
    }
}

impl std::fmt::Display for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {} ns", self.least_ns, self.most_ns)
    }
}

fn clip(from_ns: u64, to_ns: u64, window: &Window) -> (u64, u64) {
    (from_ns.max(window.due_ns), to_ns.min(window.woken_ns))
}

/// The culprit's own share of the wake-up; `None` if it can't say.
fn own(
    truth: &Truth,
    window: &Window,
    account: &[Share],
    its: impl Fn(&Cause) -> bool,
) -> Option<Own> {
    let was = &truth.was;
    let gaps = was.gaps.all()?;
    let over = |from: u64, to: u64| -> u64 {
        let others = account.iter().filter(|held| lies_over(&held.cause));
        let others = others.filter(|held| !its(&held.cause));
        others.map(|held| overlap(held, from, to)).sum()
    };
    let (mut sure, mut possible) = (
        clip(was.begin_ns, was.end_ns, window),
        clip(was.first_ns, was.last_ns, window),
    );
    let length = |(from, to): (u64, u64)| to.saturating_sub(from);
    if !truth.culprit.reads_the_clock() {
        // A thread that has the CPU by its priority delays it in any case.
        let above = |held: &&Share| {
            truth.culprit == Culprit::Throttled && matches!(held.cause, Cause::Thread { .. })
        };
        let above = |(from, to): (u64, u64)| -> u64 {
            let above = account.iter().filter(above);
            above.map(|held| overlap(held, from, to)).sum()
        };
        // If most of its time is billed to others, the bill is not believed.
        let over = over(sure.0, sure.1) + above(sure);
        let over = if over * 2 > length(sure) { 0 } else { over };
        return Some(Own {
            least_ns: length(sure).saturating_sub(over),
            most_ns: length(possible).saturating_sub(over),
        });
    }
    if truth.culprit.lets_interrupts_in() {
        // Before the timer's interrupt, a culprit that does not delay that interrupt delays nothing.
        // It detected the interrupt itself.
        let of_stage = account.iter().filter(|held| held.stage == Stage::Interrupt);
        let came = of_stage.map(|held| held.to_ns).max().unwrap_or(0);
        let saw = gaps.iter().any(|(from, to)| (*from..=*to).contains(&came));
        if saw || came <= was.begin_ns || came >= was.end_ns {
            sure.0 = sure.0.max(came);
            possible.0 = possible.0.max(came);
        }
    }
    let (mut least_ns, mut most_ns) = (length(sure), length(possible));
    for (from, to) in gaps {
        least_ns = least_ns.saturating_sub(length((sure.0.max(*from), sure.1.min(*to))));
        let gap = (possible.0.max(*from), possible.1.min(*to));
        let here = window
            .events
            .iter()
            .filter(|event| event.cpu == window.cpu && (gap.0..=gap.1).contains(&event.at_ns));
        let (first, last) = here.fold((u64::MAX, 0), |(first, last), event| {
            (first.min(event.at_ns), last.max(event.at_ns))
        });
        // A hypervisor may take the CPU without reporting it: it does so between an interrupt and
        // its first event, and after its last. Between these the time must be others', or the bill
        // is wrong.
        let (seen, over) = (length((first, last)), over(gap.0, gap.1));
        most_ns = most_ns.saturating_sub(if over * 2 < seen { seen } else { over });
    }
    // Nor is the time before its certain start and after its certain end its own.
    for (from, to) in [(possible.0, sure.0), (sure.1, possible.1)] {
        most_ns = most_ns.saturating_sub(over(from, to));
    }
    Some(Own { least_ns, most_ns })
}

fn overlap(held: &Share, from: u64, to: u64) -> u64 {
    held.to_ns
        .min(to)
        .saturating_sub(held.from_ns.max(from))
        .min(held.ns)
}

/// What has rows of its own while a culprit runs.
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

/// Whether a row says that the culprit was in its system call.
fn is_placed(row: &BillRow) -> bool {
    if matches!(row.cause, Cause::Call { .. }) {
        let sender = |by: &Thread| by.name.as_deref() == Some(Culprit::Call.name());
        return row.by.iter().any(sender);
    }
    let is_call =
        |note: &RowNote| matches!(note, RowNote::SystemCall { call } if *call == "bpf".into());
    row.notes.iter().any(is_call) || row.stack.iter().any(|frame| frame.contains("sys_bpf"))
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
        (Culprit::Traced, Cause::Blocked { state }) => state == "traced",
        (Culprit::Frozen, Cause::Blocked { state }) => state == "frozen",
        (Culprit::Fair, Cause::FairShare { task }) => by_name(task),
        (Culprit::Throttled, Cause::GroupThrottled { group, .. }) => group.contains("truth-cpu"),
        (Culprit::Renamed, Cause::Thread { task, priority, .. }) => {
            by_name(task) && *priority == 99
        }
        _ => false,
    }
}
