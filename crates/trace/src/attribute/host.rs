//! CPUs that stood still at once: neither a thread nor an interrupt of this kernel took the time.

use super::amounts::Amount;
use super::event::{Event, Kind, Stall, Vector, Window};
use punctual_record::explanation::{Cause, RowNote};

/// A shorter overlap may be chance.
const LEAST_NS: u64 = 500_000;
/// If kernel code delays a timer, a shorter overlap may be chance, too.
const LEAST_IN_KERNEL_NS: u64 = 2_000_000;
/// CPUs that a host resumes together do so within this time, or within a tenth of the standstill
/// if that is more: a busy host resumes them one after the other.
const TOGETHER_NS: u64 = 1_000_000;
const TOGETHER_PART: u64 = 10;
/// Another CPU's request, or the kernel's path to another thread, may come just before the CPU's
/// own timer, when both are equally late: within this time, or within a fiftieth of the silence if
/// that is more. A host serves a timer after its CPU, and the kernel may have had interrupts disabled.
const BEFORE_TIMER_NS: u64 = 100_000;
const BEFORE_TIMER_PART: u64 = 50;

/// The greatest distance at which CPUs resume that stood still together for this long.
#[must_use]
pub fn together_ns(standstill_ns: u64) -> u64 {
    TOGETHER_NS.max(standstill_ns / TOGETHER_PART)
}

/// What an event says about whether its CPU stood still before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallEvidence {
    /// The CPU's timer interrupted something.
    Timer {
        /// It interrupted a program, not the kernel or the idle task.
        over_program: bool,
    },
    /// Another interrupt begins.
    Enter,
    /// An interrupt ends.
    Leave,
    /// The callback of a timer begins that was due at this instant.
    Expire(u64),
    /// Another thread runs.
    Switch {
        /// It is the idle task.
        to_idle: bool,
    },
    /// The idle task enters or leaves an idle state.
    Idle,
    /// None of this.
    Other,
}

/// A stretch without events on a CPU, which this CPU ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standstill {
    /// The last event before it.
    pub silent_ns: u64,
    /// The same, or when the timer was due that ended the stretch.
    pub from_ns: u64,
    /// The first event after it.
    pub to_ns: u64,
    /// Whether kernel code may have delayed the CPU: its timer did not come late over a program or
    /// the idle task.
    pub in_kernel: bool,
}

/// When a CPU stood still, from its events in order.
#[must_use]
pub fn standstills(seen: &[(u64, StallEvidence)]) -> Vec<Standstill> {
    let mut found = Vec::new();
    let (mut open, mut idle) = (0_u32, false);
    for (index, pair) in seen.windows(2).enumerate() {
        let ((silent_ns, before), (to_ns, first)) = (pair[0], pair[1]);
        match before {
            StallEvidence::Timer { .. } | StallEvidence::Enter => open += 1,
            StallEvidence::Leave => open = open.saturating_sub(1),
            StallEvidence::Switch { to_idle } => idle = to_idle,
            StallEvidence::Idle => idle = true,
            StallEvidence::Expire(_) | StallEvidence::Other => {}
        }
        if to_ns.saturating_sub(silent_ns) < LEAST_NS {
            continue;
        }
        // While it switches from its interrupt to the thread that this woke, an idle CPU is not at
        // rest.
        let on_its_way = idle
            && before == StallEvidence::Leave
            && matches!(first, StallEvidence::Switch { to_idle: false });
        if let Some((due_ns, held_up)) =
            late_timer(silent_ns, &seen[index + 1..], idle && open == 0)
        {
            let from_ns = silent_ns.max(due_ns);
            if to_ns.saturating_sub(from_ns) >= LEAST_NS {
                found.push(Standstill {
                    silent_ns,
                    from_ns,
                    to_ns,
                    in_kernel: held_up || open > 0,
                });
                continue;
            }
        }
        if open > 0 || on_its_way {
            found.push(Standstill {
                silent_ns,
                from_ns: silent_ns,
                to_ns,
                in_kernel: true,
            });
        }
    }
    found
}

/// The CPU's own timer at the end of a silence: when it was due, and whether kernel code may have
/// delayed it. Another CPU's request alone proves nothing: that CPU woke this one.
fn late_timer(silent_ns: u64, after: &[(u64, StallEvidence)], idle: bool) -> Option<(u64, bool)> {
    let first_ns = after.first()?.0;
    let most_ns = BEFORE_TIMER_NS.max(first_ns.saturating_sub(silent_ns) / BEFORE_TIMER_PART);
    let soon = |(at_ns, _): &&(u64, StallEvidence)| at_ns.saturating_sub(first_ns) <= most_ns;
    let is_timer = |(_, sign): &(u64, StallEvidence)| matches!(sign, StallEvidence::Timer { .. });
    let timer = after.iter().take_while(soon).position(is_timer)?;
    // The interrupt came for the first timer that expires in it.
    let due_ns = after[timer..].iter().find_map(|(_, sign)| match sign {
        StallEvidence::Expire(due_ns) => Some(*due_ns),
        _ => None,
    })?;
    // A request of another CPU may come just before, if no thread ran with it.
    let went_on = after[..timer]
        .iter()
        .any(|(_, sign)| matches!(sign, StallEvidence::Switch { .. } | StallEvidence::Idle));
    let over_program = after[timer].1 == StallEvidence::Timer { over_program: true };
    Some((due_ns, went_on || !(idle || over_program)))
}

/// A stretch in which a CPU and others stood still, these others, and whether it is certain that no
/// kernel code delayed them.
struct CommonStall {
    from_ns: u64,
    to_ns: u64,
    cpus: Vec<u32>,
    sure: bool,
}

/// Assigns the time in which several CPUs stood still to the host; if kernel code may have delayed
/// all of them, to no cause.
pub(super) fn assign_to_host(amounts: &mut Vec<Amount>, window: &Window, events: &[&Event]) {
    if window.stalls.is_empty() {
        return;
    }
    let mut cpus: Vec<u32> = amounts.iter().map(|amount| amount.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        let own: Vec<(u64, StallEvidence)> = events
            .iter()
            .filter(|event| event.cpu == cpu)
            .filter_map(|event| Some((event.at_ns, evidence(&event.kind)?)))
            .collect();
        for own in standstills(&own) {
            if let Some(common) = common_stall(cpu, own, &window.stalls) {
                move_out(amounts, cpu, &common);
            }
        }
    }
}

/// What an event says; `None` for a counter that is read, which shows no activity.
fn evidence(kind: &Kind) -> Option<StallEvidence> {
    Some(match kind {
        Kind::Stolen { .. } | Kind::SmiCount { .. } => return None,
        Kind::VectorEntry {
            vector: Vector::LocalTimer,
            interrupted,
        } => StallEvidence::Timer {
            over_program: interrupted.is_some_and(|it| it.user),
        },
        Kind::VectorEntry { .. } => StallEvidence::Enter,
        Kind::VectorExit { .. } => StallEvidence::Leave,
        Kind::TimerExpire { expires_ns, .. } => StallEvidence::Expire(*expires_ns),
        Kind::Switch { to, .. } => StallEvidence::Switch {
            to_idle: to.tid == 0,
        },
        Kind::Idle { .. } => StallEvidence::Idle,
        _ => StallEvidence::Other,
    })
}

/// The other CPUs that stood still until the same time as this CPU.
fn common_stall(cpu: u32, own: Standstill, stalls: &[Stall]) -> Option<CommonStall> {
    let length = |stall: &Stall| stall.to_ns.saturating_sub(stall.from_ns);
    let together = |stall: &&Stall| {
        let shorter = (own.to_ns - own.silent_ns).min(length(stall));
        stall.cpu != cpu && stall.to_ns.abs_diff(own.to_ns) <= together_ns(shorter)
    };
    // Kernel code that happens to end with the standstill is shorter than that.
    let is_as_long = |stall: &Stall| {
        length(stall) >= LEAST_IN_KERNEL_NS && length(stall) >= (own.to_ns - own.from_ns) / 2
    };
    let with = stalls.iter().filter(together);
    let (in_kernel, certain): (Vec<&Stall>, Vec<&Stall>) = with.partition(|it| it.in_kernel);
    let sure = !own.in_kernel || !certain.is_empty();
    let mut with = certain;
    if !own.in_kernel || with.is_empty() {
        with.extend(in_kernel.into_iter().filter(|it| is_as_long(it)));
    }
    let from_ns = with
        .iter()
        .map(|stall| stall.from_ns.max(own.silent_ns))
        .min()?;
    let least_ns = if sure { LEAST_NS } else { LEAST_IN_KERNEL_NS };
    if own.to_ns.saturating_sub(from_ns) < least_ns {
        return None;
    }
    let mut cpus: Vec<u32> = with.iter().map(|stall| stall.cpu).collect();
    cpus.push(cpu);
    cpus.sort_unstable();
    cpus.dedup();
    Some(CommonStall {
        from_ns,
        to_ns: own.to_ns,
        cpus,
        sure,
    })
}

fn move_out(amounts: &mut Vec<Amount>, cpu: u32, common: &CommonStall) {
    let (from, to) = (common.from_ns, common.to_ns);
    let (cause, notes) = if common.sure {
        let cpus = common.cpus.clone();
        (Cause::Host { cpus }, Vec::new())
    } else {
        let cpus = common.cpus.clone();
        (Cause::Unexplained, vec![RowNote::LikelyHost { cpus }])
    };
    let mut moved = Vec::new();
    for amount in amounts.iter_mut() {
        // A stopped thread would not have run in any case.
        let other = matches!(
            amount.cause,
            Cause::Steal | Cause::Host { .. } | Cause::Blind | Cause::Blocked { .. }
        );
        if amount.cpu != cpu || other {
            continue;
        }
        let ns = amount.within(from, to);
        if ns == 0 {
            continue;
        }
        amount.ns -= ns;
        moved.push(Amount {
            cause: cause.clone(),
            from: amount.from.max(from),
            to: amount.to.min(to),
            ns,
            stack: Vec::new(),
            notes: notes.clone(),
            by: None,
            ..amount.clone()
        });
    }
    amounts.append(&mut moved);
}
