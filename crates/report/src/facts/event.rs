//! Events and ends of a run in words.

use punctual_stats::format::{count, duration};

use punctual_record::StopCause;
use punctual_record::cpus::cpu_list;
use punctual_record::event::{
    Ending, Event, Gone, Halted, Happening, PeerGone, RealTimeBound, Throttling,
};

use super::not_seen::no_kernel_names;
use super::{load_failure, missing_samples, scheduling, unavailable, unsaved};
use crate::words;

/// What happened. `tool` names who measured.
#[must_use]
pub fn event(event: &Event, tool: &str) -> String {
    let text = happening(&event.what, tool);
    match event.run {
        Some(run) => format!("run {run}: {text}"),
        None => text,
    }
}

fn happening(what: &Happening, tool: &str) -> String {
    match what {
        Happening::Affinity { cpu, before, now } => format!(
            "the probe of CPU {cpu} may run on {}, before on {}",
            cpu_list(now),
            cpu_list(before)
        ),
        Happening::Breach {
            task,
            tid,
            cpu,
            latency_ns,
            limit_ns,
        } => format!(
            "a wake-up of {task}/{tid} on CPU {cpu} took {}, above {}: it ended the watch",
            duration(*latency_ns),
            duration(*limit_ns),
        ),
        Happening::ClockSet { step_ns } => {
            let way = if *step_ns > 0 { "forward" } else { "back" };
            let step = seconds(step_ns.unsigned_abs());
            format!("the wall clock was set {way} by {step}")
        }
        Happening::ClockSource { before, now } => {
            format!("the clock source went from {before} to {now}")
        }
        Happening::CpuOffline { cpu, probed } => {
            let whose = if *probed { ", which is probed," } else { "" };
            format!("CPU {cpu}{whose} was taken offline")
        }
        Happening::CpuOnline { cpu } => format!("CPU {cpu} was brought online"),
        Happening::Debugger { cpu, pid } => format!(
            "process {pid} (a debugger, or strace) traced the probe of CPU {cpu}: its stops are \
             no latency of the machine"
        ),
        Happening::Governor { cpu, before, now } => {
            format!("the governor of CPU {cpu} went from {before} to {now}")
        }
        Happening::HistogramOverflow { thread, samples } => format!(
            "{tool} did not keep the latencies of {samples} samples of thread {thread} beyond the \
             end of its histogram"
        ),
        Happening::KernelMessage { message } => format!("the kernel says: {message}"),
        Happening::LeftOut { of, count: left } => {
            format!("{} more events of kind {of}", count(*left))
        }
        Happening::LoadFailed { load, failure } => {
            format!("load {load}: {}", load_failure(failure))
        }
        Happening::LoadIdle {
            load,
            length_ns,
            stopped,
            processes,
        } => {
            let seconds = *length_ns as f64 / 1e9;
            match (stopped, processes) {
                (Some(stopped), Some(all)) => format!(
                    "{stopped} of {all} processes of the load {load} were stopped for \
                     {seconds:.1} s"
                ),
                _ => format!("the load {load} did no work for {seconds:.1} s"),
            }
        }
        Happening::MarkRefused { mark, why } => {
            format!("the mark {mark} is not seen: {}", unavailable(why))
        }
        Happening::NeverWoke { count, threads } => never_woke(*count, threads),
        Happening::NoHistogram { thread } => format!(
            "{tool} kept no histogram of thread {thread}: only its minimum, mean and maximum are \
             known"
        ),
        Happening::NoSamples { thread } => format!("thread {thread} measured nothing"),
        Happening::NotExplained {
            why,
            gaps,
            messages,
        } => {
            let what = match (messages, gaps) {
                (true, _) => "late messages are explained without the kernel's events",
                (false, true) => "gaps are not explained",
                (false, false) => "late wake-ups are not explained",
            };
            format!("{what}: {}", unavailable(why))
        }
        Happening::OffCpuNames { why } => {
            format!(
                "--off-cpu: functions of the kernel have no names: {}",
                no_kernel_names(why)
            )
        }
        Happening::OffCpuStacks { frames, wanted } => {
            let have = match frames {
                0 => "there are no stacks".to_owned(),
                frames => format!("stacks have at most {frames} functions"),
            };
            format!(
                "--off-cpu: {have}: kernel.perf_event_max_stack is below {wanted}; \
                 sysctl kernel.perf_event_max_stack=127, while nothing profiles"
            )
        }
        Happening::Priority { cpu, before, now } => format!(
            "the probe of CPU {cpu} went from {} to {}",
            scheduling(before),
            scheduling(now)
        ),
        Happening::ProbeFailed { cpu, error } => {
            format!("the probe of CPU {cpu} failed to wait: {error}")
        }
        Happening::ProgramEnded { gone } => match gone {
            Gone::Program {
                program,
                children: false,
            } => format!("the program {program} ended"),
            Gone::Program { program, .. } => {
                format!("the program {program} and its children ended")
            }
            Gone::Group { directory } => format!("the control group {directory} was removed"),
        },
        Happening::PeerGone { how } => match how {
            PeerGone::Closed => "the responder ended the connection of data".to_owned(),
            PeerGone::Vanished => {
                "the responder is gone: it ended, or its machine cannot be reached".to_owned()
            }
            PeerGone::Garbled => "the responder sent data that is no reply".to_owned(),
            PeerGone::Failed { error } => format!("the connection of data failed: {error}"),
            PeerGone::NoReport { error } => format!(
                "the responder did not report at the end, so its conditions there are not known: \
                 {error}"
            ),
        },
        Happening::Quota {
            group,
            periods,
            throttled_ns,
        } => format!(
            "the CPU quota of {group} throttled the threads that are not real-time in {periods} \
             period{}, {} in all, summed over the CPUs: the load was weaker than requested, and a \
             probe at SCHED_OTHER was throttled too",
            if *periods == 1 { "" } else { "s" },
            ms(*throttled_ns),
        ),
        Happening::Samples(samples) => missing_samples(samples),
        Happening::SaveFailed(what) => unsaved(what),
        Happening::SettingLost {
            setting,
            value,
            found,
        } => format!(
            "{setting}: requested {value} for the run, found {}: another program changed it; stop \
             that program",
            found.as_deref().unwrap_or("nothing that can be read")
        ),
        Happening::Signal {
            signal: Ending::TimeLimit,
        } => "ended by SIGXCPU: a real-time thread of this run came to RLIMIT_RTTIME without \
              sleeping, or the process to RLIMIT_CPU; `ulimit -R unlimited` raises the first"
            .to_owned(),
        Happening::Signal { signal } => format!("ended by a signal ({})", ending(*signal, tool)),
        Happening::Steal {
            cpu,
            stolen_ns,
            between_ns,
        } => format!(
            "the host took {} of {} from CPU {cpu}",
            duration(*stolen_ns),
            duration(*between_ns)
        ),
        Happening::Stopped {
            stopped,
            length_ns,
            cause,
        } => format!(
            "{} stopped for {:.3} s {}: its cycles count neither as late nor as on time",
            halted(stopped),
            *length_ns as f64 / 1e9,
            stop_cause(*cause)
        ),
        Happening::Suspended { length_ns } => {
            format!("the machine was suspended for {}", seconds(*length_ns))
        }
        Happening::Throttled { seen } => throttled(seen),
        Happening::TraceFrozen { directory, file } => format!(
            "the kernel's trace buffer is frozen ({directory}/tracing_on is 0) and saved in \
             {file}; echo 1 >{directory}/tracing_on resumes"
        ),
        Happening::JobsDropped {
            task,
            jobs,
            pending,
        } => format!(
            "task {task}: {} never started, and count as missed: each found {pending} releases pending, \
             and no more may be",
            words::plural(*jobs, "job was", "jobs were")
        ),
        Happening::RepliesDropped { replies, of } => format!(
            "{} of {} messages found no room in the socket of this machine, whose receiver was late: they say \
             nothing of the path. CAP_NET_ADMIN or a larger net.core.rmem_max gives it room",
            words::plural(*replies, "reply", "replies"),
            count(*of)
        ),
        Happening::TraceNotFrozen { file, error } => {
            format!("{file} cannot be set to 0: {error}")
        }
        Happening::WatchLeftOut => "what watches counted of their threads is not in this sum: not \
                                    all of the runs are watches"
            .to_owned(),
    }
}

/// What ended a run before its time. `tool` names who measured.
#[must_use]
pub fn ending(ending: Ending, tool: &str) -> String {
    let word = match ending {
        Ending::Interrupt => "interrupt",
        Ending::Terminate => "terminate",
        Ending::HangUp => "hang-up",
        Ending::TimeLimit => "time-limit",
        Ending::BreakValue => "break-value",
        Ending::ProcessStopped => "process-stopped",
        Ending::UnfinishedRuns { unfinished, runs } => {
            return format!("{unfinished} of {runs} runs are unfinished");
        }
        Ending::ExitStatus { status } => return format!("{tool} ended with {status}"),
    };
    word.to_owned()
}

/// What made a stop, after "stopped".
#[must_use]
pub fn stop_cause(cause: StopCause) -> &'static str {
    match cause {
        StopCause::Signal => "by a signal (SIGSTOP or Ctrl-Z)",
        StopCause::Debugger => "by a debugger",
        StopCause::Freezer => "by a freezer, as for a paused container",
        StopCause::Unknown => "by a freezer, as for a paused container, or by a debugger",
    }
}

/// Who was stopped, with its verb.
fn halted(halted: &Halted) -> String {
    match halted {
        Halted::Probe { cpu } => format!("the probe of CPU {cpu} was"),
        Halted::Process => "this process was".to_owned(),
        Halted::Thread { name, tid } => format!("the thread {name}/{tid} was"),
        Halted::Program { program } => format!("the program {program} was"),
        Halted::Threads { program } => format!("threads of {program} were"),
    }
}

fn never_woke(count: u64, threads: &[String]) -> String {
    let mut named = threads.join(", ");
    let more = count.saturating_sub(threads.len() as u64);
    if more > 0 {
        named += &format!(" and {more} more");
    }
    match count {
        1 => format!("the thread {named} ended before it was woken: nothing of it was measured"),
        count => format!(
            "{count} threads ended before they were woken, and nothing of them was measured: \
             {named}"
        ),
    }
}

fn throttled(seen: &Throttling) -> String {
    let (cpu, bound, figures) = match seen {
        Throttling::KernelLog { message } => return format!("the kernel says: {message}"),
        Throttling::Accounts {
            cpu,
            bound,
            runtime_ns,
            period_ns,
            ran_ns,
            window_ns,
            ready_ns,
        } => (
            cpu,
            bound,
            [ran_ns, window_ns, runtime_ns, period_ns, ready_ns],
        ),
    };
    let [ran, window, runtime, period, ready] = figures.map(|ns| ms(*ns));
    let (whose, by) = match bound {
        RealTimeBound::Group { file } => {
            ("the real-time threads of this control group", file.as_str())
        }
        RealTimeBound::Machine => ("real-time threads", "kernel.sched_rt_runtime_us"),
        RealTimeBound::FairServer => (
            "real-time threads",
            "the fair server of Linux 6.12 and later",
        ),
    };
    format!(
        "the kernel throttled the probe of CPU {cpu}: {whose} ran for {ran} of the last {window} \
         on this CPU, {by} allows {runtime} of each {period}, and the probe was ready for {ready} \
         while no thread of its priority or above ran"
    )
}

/// Whole milliseconds; tenths below ten of them.
fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms < 9.95 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
