//! Who had the CPU while a thread of ours was to run: the account of its wake-up, as rows of a message.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_record::explanation::{Culprit, softirq_name};
use punctual_record::path::bill::{
    Certainty, MessageCause, MessageEvidence as Evidence, MessageRow, MessageStage, Runner,
};

use super::{LATE_NS, Recording, Time};
use crate::attribute::{Cause, Share, Stage, account};

/// Owners of one row that are named; the time of further ones has no name.
const MOST: usize = 6;

/// Who had some time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The way of every wake-up and every call.
    Usual,
    /// This had the CPU.
    Named(Runner),
    /// The thread was not ready: the reply had not come to it.
    Asleep,
    /// Not known.
    Unknown,
}

/// Who had the time of a row, the longest first; their times sum to at most the row's. `None` if the
/// events of that time are not known.
pub fn of(row: &MessageRow, time: &Time, recording: &impl Recording) -> Option<Vec<(Owner, u64)>> {
    let window = match time.in_call {
        true => recording.call(time.tid, time.from_ns, time.to_ns),
        false => recording.wake_up(time.tid, time.from_ns, time.ran_ns),
    }?;
    if window.lost > 0 || window.events.is_empty() {
        return None;
    }
    let mut sums: BTreeMap<Owner, u64> = BTreeMap::new();
    let mut left_ns = row.ns;
    for share in account(&window) {
        let ns = inside(&share, time).min(left_ns);
        left_ns -= ns;
        if ns > 0 {
            // Another CPU woke it, of which the window has nothing else.
            let before_waking = share.stage == Stage::Waking && !time.in_call;
            let owner = match owner(share) {
                Owner::Unknown if before_waking => Owner::Asleep,
                other => other,
            };
            *sums.entry(owner).or_default() += ns;
        }
    }
    let mut sums: Vec<(Owner, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, ns)| Reverse(*ns));
    Some(sums)
}

/// How much of a share lies in a time.
fn inside(share: &Share, time: &Time) -> u64 {
    let (from_ns, to_ns) = (share.from_ns.max(time.from_ns), share.to_ns.min(time.to_ns));
    to_ns.saturating_sub(from_ns).min(share.ns)
}

/// For how long the receiving thread was not ready although the kernel had its data, if that was
/// long.
pub fn asleep_ns(row: &MessageRow, owned: &[(Owner, u64)]) -> Option<u64> {
    let is_inferred = row.evidence.contains(&Evidence::ReadTogether);
    let is_ours = row.stage == MessageStage::WakeUp && !is_inferred;
    let asleep = owned.iter().find(|(owner, _)| *owner == Owner::Asleep)?;
    Some(asleep.1).filter(|ns| is_ours && *ns > LATE_NS)
}

/// Replaces a row by one of each owner. `delivery`: what kept data from a thread that was not ready.
pub fn replace(
    rows: &mut Vec<MessageRow>,
    index: usize,
    owned: Vec<(Owner, u64)>,
    delivery: Option<(MessageCause, u64)>,
) {
    let row = rows.remove(index);
    let is_inferred = row.evidence.contains(&Evidence::ReadTogether);
    let on_the_way = row.stage == MessageStage::Way;
    let mut left_ns = row.ns;
    let mut named = 0;
    for (owner, mut ns) in owned {
        let (stage, cause) = match owner {
            Owner::Usual if on_the_way => continue,
            Owner::Usual => (row.stage, MessageCause::Usual),
            // Short times are no cause in any stage.
            _ if ns <= LATE_NS => continue,
            Owner::Named(by) if named < MOST => {
                named += 1;
                let stage = match on_the_way {
                    true => MessageStage::WakeUp,
                    false => row.stage,
                };
                (stage, MessageCause::NotScheduled { by: Some(by) })
            }
            // The time stamp is that of a later message: this one was still on its way.
            Owner::Asleep if is_inferred => (MessageStage::Way, MessageCause::Way),
            // It could not run: nothing had woken it.
            Owner::Asleep if row.stage == MessageStage::WakeUp => {
                let (cause, kept_ns) = delivery.clone().unwrap_or((MessageCause::Unexplained, 0));
                let kept_ns = kept_ns.min(ns);
                let mut part = MessageRow {
                    stage: MessageStage::Receive,
                    cause,
                    ns: kept_ns,
                    certainty: Certainty::Likely,
                    ..row.clone()
                };
                part.show(Evidence::Events);
                part.add_to(rows);
                left_ns -= kept_ns;
                ns -= kept_ns;
                if ns <= LATE_NS {
                    continue;
                }
                (row.stage, MessageCause::Unexplained)
            }
            Owner::Named(_) | Owner::Asleep | Owner::Unknown => continue,
        };
        left_ns -= ns;
        let mut part = MessageRow {
            stage,
            cause,
            ns,
            ..row.clone()
        };
        if on_the_way {
            part.certainty = Certainty::Likely;
            part.evidence = vec![Evidence::ReadTogether];
        } else if !is_inferred && matches!(part.cause, MessageCause::NotScheduled { .. }) {
            part.certainty = Certainty::Certain;
        }
        part.show(Evidence::Events);
        part.add_to(rows);
    }
    let cause = match left_ns <= LATE_NS && !on_the_way {
        true => MessageCause::Usual,
        false => row.cause.clone(),
    };
    let rest = MessageRow {
        cause,
        ns: left_ns,
        ..row
    };
    rest.add_to(rows);
}

fn owner(share: Share) -> Owner {
    let by = share.by;
    let thread = |task: String| thread(task, by.as_ref());
    let other = |task: String| {
        Owner::Named(Runner {
            task,
            ..Runner::default()
        })
    };
    match share.cause {
        Cause::Thread {
            task,
            policy,
            priority,
        } => Owner::Named(Runner {
            task,
            policy,
            priority,
            tid: by.map_or(0, |by| by.tid),
        }),
        Cause::PreemptOff { task, .. }
        | Cause::IrqsOff { task, .. }
        | Cause::LateInterrupt { task }
        | Cause::FairShare { task }
        | Cause::Throttled { task }
            if !task.is_empty() =>
        {
            thread(task)
        }
        Cause::Softirq { number } => other(format!("softirq {}", softirq_name(number))),
        Cause::Interrupt { irq, name } => other(format!("interrupt {irq} ({name})")),
        Cause::CpuInterrupt { vector } => other(format!("interrupt: {vector}")),
        Cause::Call { function } => other(format!("IPI: {function}")),
        Cause::TimerCallback { function } => other(format!("timer callback {function}")),
        Cause::Nmi => other("non-maskable interrupt".to_owned()),
        Cause::Smi => other("system management interrupt".to_owned()),
        Cause::Steal => other("hypervisor".to_owned()),
        Cause::Host { .. } => other("host".to_owned()),
        Cause::Platform => other("platform".to_owned()),
        Cause::GroupThrottled { group, file } => other(format!("limit {file} of {group}")),
        Cause::IdleExit { .. } => other("way out of an idle state".to_owned()),
        Cause::WakePath | Cause::Crossing | Cause::NotReleased | Cause::Work | Cause::Tracer => {
            Owner::Usual
        }
        Cause::Blocked { .. } | Cause::Waker { .. } => Owner::Asleep,
        Cause::PreemptOff { .. }
        | Cause::IrqsOff { .. }
        | Cause::LateInterrupt { .. }
        | Cause::FairShare { .. }
        | Cause::Throttled { .. }
        | Cause::Inversion { .. }
        | Cause::Lock { .. }
        | Cause::Fault
        | Cause::Probe
        | Cause::Other
        | Cause::Unexplained
        | Cause::Blind => Owner::Unknown,
    }
}

fn thread(task: String, by: Option<&Culprit>) -> Owner {
    Owner::Named(Runner {
        task,
        policy: by.map_or_else(String::new, |by| by.policy.clone()),
        priority: by.map_or(0, |by| by.priority),
        tid: by.map_or(0, |by| by.tid),
    })
}
