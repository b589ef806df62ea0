//! CPUs that stood still at once: what took one of them is no thread or interrupt of this kernel.

use super::amounts::Amount;
use super::event::{Event, Stall, Vector, What, Window};
use punctual_record::explanation::Cause;

/// Less in common is a chance.
const LEAST_NS: u64 = 500_000;
/// Kernel code that holds a timer up for less is a chance, too.
const LEAST_IN_KERNEL_NS: u64 = 2_000_000;
/// CPUs that a host lets go on together do so within this time, or within a tenth of the standstill
/// where that is more: a busy host lets one after the other go on.
const TOGETHER_NS: u64 = 1_000_000;
const TOGETHER_PART: u64 = 10;
/// The other CPU's request, or the kernel's way to another thread, may come just before the CPU's own
/// timer, that both are late alike: within this time, or within a fiftieth of the silence where that is
/// more. A host serves a timer after its CPU, and the kernel may have had interrupts disabled.
const BEFORE_TIMER_NS: u64 = 100_000;
const BEFORE_TIMER_PART: u64 = 50;

/// How far apart CPUs may go on that stood still for so long together.
#[must_use]
pub fn together_ns(standstill_ns: u64) -> u64 {
    TOGETHER_NS.max(standstill_ns / TOGETHER_PART)
}

/// What an event tells of whether its CPU stood still before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The CPU's timer interrupts it.
    Timer {
        /// A program, and not the kernel or the idle task.
        over_program: bool,
    },
    /// Another interrupt begins.
    Enter,
    /// An interrupt ends.
    Leave,
    /// A timer's callback begins, that was due at this instant.
    Expire(u64),
    /// Another thread comes.
    Switch {
        /// It is the idle task.
        to_idle: bool,
    },
    /// The idle task goes to sleep, or is back.
    Idle,
    /// None of this.
    Other,
}

/// A stretch in which nothing was seen of a CPU, and that this CPU ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standstill {
    /// The last event before it.
    pub silent_ns: u64,
    /// The same, or when the timer was due that ended it.
    pub from_ns: u64,
    /// The first event after it.
    pub to_ns: u64,
    /// Whether kernel code may have held the CPU up: its timer did not come late over a program or
    /// the idle task.
    pub in_kernel: bool,
}

/// When a CPU stood still, by what was seen of it in order.
#[must_use]
pub fn standstills(seen: &[(u64, Sign)]) -> Vec<Standstill> {
    let mut found = Vec::new();
    let (mut open, mut idle) = (0_u32, false);
    for (index, pair) in seen.windows(2).enumerate() {
        let ((silent_ns, before), (to_ns, first)) = (pair[0], pair[1]);
        match before {
            Sign::Timer { .. } | Sign::Enter => open += 1,
            Sign::Leave => open = open.saturating_sub(1),
            Sign::Switch { to_idle } => idle = to_idle,
            Sign::Idle => idle = true,
            Sign::Expire(_) | Sign::Other => {}
        }
        if to_ns.saturating_sub(silent_ns) < LEAST_NS {
            continue;
        }
        // On its way from an interrupt to the thread that this woke, an idle CPU does not rest.
        let on_its_way =
            idle && before == Sign::Leave && matches!(first, Sign::Switch { to_idle: false });
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
/// held it up. Another CPU's request alone proves nothing: that CPU woke it.
fn late_timer(silent_ns: u64, after: &[(u64, Sign)], idle: bool) -> Option<(u64, bool)> {
    let first_ns = after.first()?.0;
    let most_ns = BEFORE_TIMER_NS.max(first_ns.saturating_sub(silent_ns) / BEFORE_TIMER_PART);
    let soon = |(at_ns, _): &&(u64, Sign)| at_ns.saturating_sub(first_ns) <= most_ns;
    let is_timer = |(_, sign): &(u64, Sign)| matches!(sign, Sign::Timer { .. });
    let timer = after.iter().take_while(soon).position(is_timer)?;
    // The first that expires in an interrupt is the one that it came for.
    let due_ns = after[timer..].iter().find_map(|(_, sign)| match sign {
        Sign::Expire(due_ns) => Some(*due_ns),
        _ => None,
    })?;
    // What another CPU asks for may come just before, if no thread came with it.
    let went_on = after[..timer]
        .iter()
        .any(|(_, sign)| matches!(sign, Sign::Switch { .. } | Sign::Idle));
    let over_program = after[timer].1 == Sign::Timer { over_program: true };
    Some((due_ns, went_on || !(idle || over_program)))
}

/// A stretch in which a CPU and others stood still, these others, and whether it is sure that no
/// kernel code held them up.
struct Common {
    from_ns: u64,
    to_ns: u64,
    cpus: Vec<u32>,
    sure: bool,
}

/// Gives what lies in a standstill of several CPUs to the host; where kernel code may have held up
/// all of them, to nobody.
pub(super) fn take(amounts: &mut Vec<Amount>, window: &Window, events: &[&Event]) {
    if window.stalls.is_empty() {
        return;
    }
    let mut cpus: Vec<u32> = amounts.iter().map(|amount| amount.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        let own: Vec<(u64, Sign)> = events
            .iter()
            .filter(|event| event.cpu == cpu)
            .filter_map(|event| Some((event.at_ns, sign(&event.what)?)))
            .collect();
        for own in standstills(&own) {
            if let Some(common) = common(cpu, own, &window.stalls) {
                move_out(amounts, cpu, &common);
            }
        }
    }
}

/// What an event tells; nothing where it is a counter that is read, and not seen to move.
fn sign(what: &What) -> Option<Sign> {
    Some(match what {
        What::Stolen { .. } | What::SmiCount { .. } => return None,
        What::VectorEntry {
            vector: Vector::LocalTimer,
            interrupted,
        } => Sign::Timer {
            over_program: interrupted.is_some_and(|it| it.user),
        },
        What::VectorEntry { .. } => Sign::Enter,
        What::VectorExit { .. } => Sign::Leave,
        What::TimerExpire { expires_ns, .. } => Sign::Expire(*expires_ns),
        What::Switch { to, .. } => Sign::Switch {
            to_idle: to.tid == 0,
        },
        What::Idle { .. } => Sign::Idle,
        _ => Sign::Other,
    })
}

/// The others that stood still up to the same time as this CPU.
fn common(cpu: u32, own: Standstill, stalls: &[Stall]) -> Option<Common> {
    let length = |stall: &Stall| stall.to_ns.saturating_sub(stall.from_ns);
    let together = |stall: &&Stall| {
        let shorter = (own.to_ns - own.silent_ns).min(length(stall));
        stall.cpu != cpu && stall.to_ns.abs_diff(own.to_ns) <= together_ns(shorter)
    };
    // Kernel code that ends by chance when the standstill does is shorter than that.
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
    Some(Common {
        from_ns,
        to_ns: own.to_ns,
        cpus,
        sure,
    })
}

fn move_out(amounts: &mut Vec<Amount>, cpu: u32, common: &Common) {
    let (from, to) = (common.from_ns, common.to_ns);
    let (cause, note) = if common.sure {
        let cpus = common.cpus.clone();
        (Cause::Host { cpus }, None)
    } else {
        (Cause::Unexplained, Some(likely(&common.cpus)))
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
            note: note.clone(),
            by: None,
            ..amount.clone()
        });
    }
    amounts.append(&mut moved);
}

/// How the note begins of a standstill that is likely the host's.
pub const LIKELY: &str = "likely the host";

fn likely(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!(
        "{LIKELY}: CPUs {} stood still up to the same time, all of them in the kernel; or one waited \
         for the other with interrupts disabled",
        cpus.join(", ")
    )
}
