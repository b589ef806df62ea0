//! What kept a packet from its time stamp: the thread of NAPI or ksoftirqd that was to receive it did
//! not run, or softirqs were busy on that CPU.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_record::path::bill::MessageCause as Cause;

use super::ready::{self, Activity, Softirq, Wait};
use super::{LATE_NS, Recording};

/// The softirq NET_RX.
const NET_RX: u32 = 3;
/// A packet that waited for a thread is received soon after this runs.
const SOON_NS: u64 = 2_000_000;
/// By how much the kernel's time stamps may differ from the events' clock.
const SLACK_NS: u64 = 100_000;
/// Softirqs that follow one another so soon are one piece of work.
const PAUSE_NS: u64 = 20_000;
/// Of a thread's name the kernel keeps so much.
const NAME_CHARS: usize = 15;

/// What kept a packet from being received, and for how long: the longest of what was seen. It came at
/// `since_ns` at the earliest, and has its time stamp of `received_ns`. `None` if the events of this
/// time are not known: `from_ns` to `to_ns` are at least those of its message.
pub fn reception(
    (from_ns, to_ns): (u64, u64),
    (since_ns, received_ns): (u64, u64),
    recording: &mut impl Recording,
) -> Option<Option<(Cause, u64)>> {
    let own = recording.device().map(thread_name);
    let activity = recording.activity(from_ns, to_ns)?;
    let around = Around {
        activity,
        since_ns,
        received_ns,
    };
    // ksoftirqd may wait for the same CPU: the thread of NAPI is the one that receives.
    let thread = around.napi(own).or_else(|| around.ksoftirqd());
    let thread = thread.map(|(wait, ns)| (around.cause(wait), ns));
    let longest = [thread, around.softirq()].into_iter().flatten();
    let longest = longest.max_by_key(|(_, ns)| *ns);
    Some(longest.filter(|(_, ns)| *ns > LATE_NS))
}

/// What happened around a packet's time stamp.
struct Around<'a> {
    activity: &'a Activity,
    since_ns: u64,
    received_ns: u64,
}

impl<'a> Around<'a> {
    /// The longest wait of a thread of NAPI. Where that of the message's device is known, another
    /// device's is no cause.
    fn napi(&self, own: Option<String>) -> Option<(&'a Wait, u64)> {
        let named = |name: &str| self.longest(|wait| wait.task.name.starts_with(name));
        let any = named("napi/")?;
        match own.filter(|own| self.activity.has_run(own)) {
            Some(own) => named(&own),
            None => Some(any),
        }
    }

    /// The longest wait of a ksoftirqd that received something when it ran.
    fn ksoftirqd(&self) -> Option<(&'a Wait, u64)> {
        self.longest(|wait| {
            let is_ksoftirqd = wait.task.name.starts_with("ksoftirqd/");
            is_ksoftirqd && self.receiving(SLACK_NS).any(|it| it.cpu == wait.cpu)
        })
    }

    /// The longest time for which such a thread was ready, until shortly before the time stamp, and how
    /// much of it the packet can have waited. The thread has not slept since: else what it had waited
    /// for was done.
    fn longest(&self, is: impl Fn(&Wait) -> bool) -> Option<(&'a Wait, u64)> {
        let received_ns = self.received_ns;
        let ended_soon = |wait: &Wait| {
            wait.to_ns.saturating_add(SOON_NS) >= received_ns
                && wait.to_ns <= received_ns.saturating_add(SLACK_NS)
        };
        let is_awake = |wait: &Wait| {
            let slept_ns = self.activity.slept_after(wait.task.tid, wait.to_ns);
            slept_ns.is_none_or(|ns| ns.saturating_add(SLACK_NS) >= received_ns)
        };
        let waits = self.activity.waits.iter();
        waits
            .filter(|wait| ended_soon(wait) && is(wait))
            .map(|wait| (wait, self.before(wait.from_ns, wait.to_ns)))
            .filter(|(wait, ns)| *ns > LATE_NS && is_awake(wait))
            .max_by_key(|(_, ns)| *ns)
    }

    /// How much of a time lies between the earliest instant and the time stamp.
    fn before(&self, from_ns: u64, to_ns: u64) -> u64 {
        let end_ns = to_ns.min(self.received_ns);
        end_ns.saturating_sub(from_ns.max(self.since_ns))
    }

    fn cause(&self, wait: &Wait) -> Cause {
        let from_ns = wait.from_ns.max(self.since_ns);
        Cause::NapiThread {
            thread: ready::runner(&wait.task),
            by: self.activity.ran_most(wait.cpu, from_ns, wait.to_ns),
        }
    }

    /// Softirqs that received packets at the instant of the time stamp.
    fn receiving(&self, slack_ns: u64) -> impl Iterator<Item = &'a Softirq> {
        let received_ns = self.received_ns;
        self.activity.softirqs.iter().filter(move |it| {
            it.number == NET_RX
                && it.from_ns <= received_ns.saturating_add(slack_ns)
                && received_ns <= it.to_ns.saturating_add(slack_ns)
        })
    }

    /// Softirqs were busy without a pause on the CPU whose softirq received the packet: those of the kind
    /// that took the most. They come in several parts, with waits of ksoftirqd in between.
    fn softirq(&self) -> Option<(Cause, u64)> {
        let own = self.receiving(0).next()?;
        let waits = self.activity.waits.iter();
        let waits = waits
            .filter(|it| it.cpu == own.cpu && it.task.name.starts_with("ksoftirqd/"))
            .map(|it| (it.from_ns, it.to_ns));
        let softirqs = self.activity.softirqs.iter();
        let softirqs = softirqs.filter(|it| it.cpu == own.cpu && it.from_ns <= own.from_ns);
        let mut parts: Vec<(u64, u64, Option<u32>)> = waits
            .map(|(from_ns, to_ns)| (from_ns, to_ns, None))
            .chain(softirqs.map(|it| (it.from_ns, it.to_ns, Some(it.number))))
            .collect();
        // Backwards from the last that ended, as long as there is no pause.
        parts.sort_by_key(|(_, to_ns, _)| Reverse(*to_ns));
        let (mut begin_ns, mut counted_ns) = (own.to_ns, own.to_ns);
        let mut busy_ns: BTreeMap<u32, u64> = BTreeMap::new();
        for (from_ns, to_ns, number) in parts {
            if to_ns.saturating_add(PAUSE_NS) < begin_ns {
                break;
            }
            begin_ns = begin_ns.min(from_ns);
            if let Some(number) = number {
                let busy_ns = busy_ns.entry(number).or_default();
                let ns = self.before(from_ns, to_ns.min(counted_ns));
                *busy_ns = busy_ns.saturating_add(ns);
                counted_ns = counted_ns.min(from_ns);
            }
        }
        let (number, ns) = busy_ns.into_iter().max_by_key(|(_, ns)| *ns)?;
        let by = Some(ready::softirq_runner(number));
        Some((Cause::Softirq { by }, ns))
    }
}

/// How the name of a device's threads of NAPI begins: the kernel cuts it off.
fn thread_name(device: &str) -> String {
    let name = format!("napi/{device}-");
    name.chars().take(NAME_CHARS).collect()
}
