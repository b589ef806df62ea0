//! The notes on rows of a bill, in words.

use super::killed::signal_name;
use crate::explain::culprit;
use punctual_record::explanation::{Culprit, RowNote, softirq_name};
use punctual_stats::format::duration;

/// The notes on one row, in one line; `None` where there is none.
#[must_use]
pub fn notes(notes: &[RowNote]) -> Option<String> {
    let texts: Vec<String> = notes.iter().map(note).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn note(note: &RowNote) -> String {
    let text = match note {
        RowNote::InSoftirq { number } => return format!("in softirq {}", softirq_name(*number)),
        RowNote::LastSeen { thread, tid } => {
            return format!("the last thread seen there was {thread} (TID {tid})");
        }
        RowNote::PreviousWakeUp { late_ns } => {
            return format!(
                "it still waited for the previous wake-up, whose timer expired {} late",
                duration(*late_ns)
            );
        }
        RowNote::InterruptAt { place } => {
            return format!(
                "the timer interrupt came at {place}: interrupts were disabled until then, or the \
                 platform delayed it"
            );
        }
        RowNote::SystemCall { call } => {
            return format!("in the system call {}", super::named::call(call));
        }
        RowNote::QuotaUnread { group } => {
            return format!(
                "its control group has a quota, and how often it was throttled could not be \
                 read: {group}/cpu.stat"
            );
        }
        RowNote::LimitNotSeen {
            group,
            file,
            runtime_us,
            period_us,
        } => {
            return format!(
                "its control group may run for {runtime_us} of each {period_us} µs \
                 ({group}/{file}); the end of its throttling was not seen, so it may be another \
                 limit's"
            );
        }
        RowNote::RealTimeLimit {
            runtime_us,
            period_us,
        } => {
            return format!(
                "its real-time threads may run for {runtime_us} of each {period_us} µs"
            );
        }
        RowNote::Quota {
            runtime_us,
            period_us,
            throttled_ns,
        } => {
            return format!(
                "it may run for {runtime_us} of each {period_us} µs; around this wake-up it was \
                 throttled for {}, all CPUs together",
                duration(*throttled_ns)
            );
        }
        RowNote::UsedUpBy { thread } => {
            return format!(
                "used up by {} (TID {}, {} {}), which ran for {} of the second before",
                thread.name.as_deref().unwrap_or_default(),
                thread.tid,
                thread.policy,
                thread.priority,
                duration(thread.ns)
            );
        }
        RowNote::StoppedBy { signal, thread } => {
            let how = signal.map_or("traced".to_owned(), signal_name);
            let Some(thread) = thread else {
                return format!("{how} by the terminal");
            };
            let name = thread.name.as_deref().unwrap_or_default();
            let unnamed = Culprit {
                name: None,
                ..(**thread).clone()
            };
            return format!("{how} by {name}, {}", culprit(&unnamed));
        }
        RowNote::SentFrom { cpu } => return format!("sent from CPU {cpu}"),
        RowNote::SentByInterrupt { cpu } => {
            return format!("sent by an interrupt on CPU {cpu}");
        }
        RowNote::SmiCount { count, within_ns } => {
            let within = within_ns.map_or_else(String::new, |ns| {
                format!(" within {}: this may be one of them", duration(ns))
            });
            return format!("the count of SMIs moved by {count}{within}");
        }
        RowNote::LikelyHost { cpus } => {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            return format!(
                "likely the host: CPUs {} stood still up to the same time, all of them in the \
                 kernel; or one waited for the other with interrupts disabled",
                cpus.join(", ")
            );
        }
        RowNote::Earlier { text } => return text.clone(),
        RowNote::UnknownThread => "the running thread is unknown",
        RowNote::AwakeAlready => "it was awake already: a signal had woken it, or another thread",
        RowNote::NotAsleepYet => "it was not asleep yet",
        RowNote::LateRequest => {
            "another CPU woke the probe, and its request to switch came so late: interrupts were \
             disabled, or the platform was late"
        }
        RowNote::LetRunOn => {
            "it ran already, and was let run on: an interrupt found it in user mode, where \
             nothing holds off preemption"
        }
        RowNote::PriorityRaised => {
            "its priority was higher for that time: it held a lock with a ceiling \
             (PTHREAD_PRIO_PROTECT), or was given another priority"
        }
        RowNote::HadCpu => "the probe had the CPU, and nothing is known to have stopped it",
        RowNote::InWakingInterrupt => {
            "within the interrupt that wakes the probe: a slow handler, a hypervisor or system \
             management mode"
        }
        RowNote::IdleThoughReady => "the CPU went idle although the probe was ready",
        RowNote::IdleTooLong => "the CPU was idle, and no idle state takes that long to leave",
        RowNote::WaitedForPage => "it waited for the page",
        RowNote::StackOfRelease => "the stack is from when it released the CPU",
    };
    text.to_owned()
}
