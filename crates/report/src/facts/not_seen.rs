//! What an explanation lacks, in words.

use punctual_record::explanation::{NoBlockedStacks, NoKernelNames, NotSeen, RecordedEvents};
use punctual_stats::format::{count, duration};

/// What to do if events or wake-ups are read too late.
pub(crate) const NEEDS_CPU: &str = "punctual's thread `tracer` needs a CPU that neither real-time \
                                    threads nor load keep busy";

/// Something that an explanation lacks, after "not seen: ".
#[must_use]
pub fn not_seen(what: &NotSeen) -> String {
    match what {
        NotSeen::Tracepoint { tracepoint } => {
            format!("{tracepoint} (this kernel has no such tracepoint)")
        }
        NotSeen::BlockedStacks { why } => {
            let why = match why {
                NoBlockedStacks::KernelBefore { major, minor } => {
                    format!("they need a kernel of {major}.{minor} or later")
                }
                NoBlockedStacks::Refused { error } => error.clone(),
                NoBlockedStacks::Timers { step } => format!("timers: step {step}"),
            };
            format!("stacks while a CPU is blocked ({why})")
        }
        NotSeen::KernelNames { why } => no_kernel_names(why),
        NotSeen::Forgotten { wake_ups } => format!(
            "the beginning of {} late wake-ups: its events had made room for others by the time \
             that these were examined; {NEEDS_CPU}",
            some(*wake_ups)
        ),
        NotSeen::TooFast { wake_ups } => format!(
            "{} outliers that came faster than they could be explained: a higher limit \
             (--explain-above) leaves time for the worst",
            some(*wake_ups)
        ),
        NotSeen::NotQueued { count: of } => format!(
            "{} wake-ups or jobs: the queue to the thread that explains them was full; {NEEDS_CPU}",
            count(*of)
        ),
        NotSeen::Middle { wake_ups } => format!(
            "the middle of {} late wake-ups: more events happened meanwhile than a bill takes",
            count(*wake_ups)
        ),
        NotSeen::Waits {
            count,
            longest_ns,
            kinds,
        } => format!(
            "{count} waits of at most {}, of more kinds (thread, system call, waker) than the \
             {kinds} that are kept",
            duration(*longest_ns)
        ),
        NotSeen::MergedWaits => {
            "waits of more kinds (thread, system call, waker) than are kept".to_owned()
        }
        NotSeen::TooMuchTime => "more time than can be counted".to_owned(),
        NotSeen::DifferentLimits => "the runs were explained above different limits".to_owned(),
        NotSeen::Recorded { lacks } => format!("the recording lacks {}", recorded(*lacks)),
        NotSeen::RecordedEnd { begins, ends } => {
            format!("the recording lacks {ends}: what runs after each {begins} is unknown")
        }
        NotSeen::RecordingLost => {
            "the recording lost events: wake-ups during the losses are not examined".to_owned()
        }
        NotSeen::RecordingCut { program, output } => {
            format!("{program} could not read all of the recording: {output}")
        }
        NotSeen::WithoutBill { wake_ups, bills } => format!(
            "bills of {wake_ups} wake-ups: only the {bills} with the highest latencies are made"
        ),
        NotSeen::NotKept { wake_ups, of } => {
            format!("{wake_ups} of {of} wake-ups with a bill have no kept events")
        }
        NotSeen::Earlier { text } => text.clone(),
    }
}

/// Earlier versions did not count.
fn some(wake_ups: u64) -> String {
    match wake_ups {
        0 => "some".to_owned(),
        wake_ups => count(wake_ups),
    }
}

fn recorded(events: RecordedEvents) -> &'static str {
    match events {
        RecordedEvents::Switches => "who ran (sched_switch)",
        RecordedEvents::Wakings => "who woke the threads (sched_waking)",
        RecordedEvents::CpuInterrupts => {
            "the CPU's own interrupts (irq_vectors): their time stands with whom they interrupted"
        }
        RecordedEvents::DeviceInterrupts => {
            "devices' interrupts (irq_handler_entry): their time stands with whom they interrupted"
        }
        RecordedEvents::Softirqs => {
            "softirqs (softirq_entry): their time stands with whom they interrupted"
        }
        RecordedEvents::TimerStarts => {
            "when timers were due (hrtimer_start): latencies count from the wake-up on"
        }
    }
}

/// Why functions of the kernel have no names, and what to do.
#[must_use]
pub fn no_kernel_names(why: &NoKernelNames) -> String {
    match why {
        NoKernelNames::Unreadable { error } => format!("/proc/kallsyms: {error}"),
        NoKernelNames::Hidden => {
            "the kernel hides its addresses (kptr_restrict): functions have no names; run as \
             root, or: sysctl kernel.kptr_restrict=1 with CAP_SYSLOG"
                .to_owned()
        }
        NoKernelNames::Earlier { text } => text.clone(),
    }
}
