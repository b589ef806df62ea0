//! Events of every kind.

use punctual_record::event::{Gone, Halted, PeerGone, RealTimeBound, Throttling};
use punctual_record::*;

use super::{endings, load_failures, schedulings, text, unsaved};

/// What may happen in a run, of every kind.
fn happenings() -> Vec<Happening> {
    let clock_set = |step_ns| Happening::ClockSet { step_ns };
    let offline = |probed| Happening::CpuOffline { cpu: 1, probed };
    let idle = |of: Option<(u64, u64)>| Happening::LoadIdle {
        load: text("fork"),
        length_ns: 2_000_000_000,
        stopped: of.map(|of| of.0),
        processes: of.map(|of| of.1),
    };
    let never_woke = |count| Happening::NeverWoke {
        count,
        threads: vec![text("controller/7")],
    };
    let not_explained = |gaps, messages| Happening::NotExplained {
        why: Unavailable::NoUprobes,
        gaps,
        messages,
    };
    let stacks = |frames| Happening::OffCpuStacks {
        frames,
        wanted: 127,
    };
    let ended = |children| Happening::ProgramEnded {
        gone: Gone::Program {
            program: text("controller"),
            children,
        },
    };
    let quota = |periods| Happening::Quota {
        group: text("/sys/fs/cgroup/a"),
        periods,
        throttled_ns: 12_000_000,
    };
    let throttled = |bound| Happening::Throttled {
        seen: Throttling::Accounts {
            cpu: 1,
            bound,
            runtime_ns: 950_000_000,
            period_ns: 1_000_000_000,
            ran_ns: 950_000_000,
            window_ns: 1_000_000_000,
            ready_ns: 50_000_000,
        },
    };
    let mut all = vec![
        Happening::Affinity {
            cpu: 0,
            before: vec![0],
            now: vec![0, 1],
        },
        Happening::Breach {
            task: text("controller"),
            tid: 7,
            cpu: 1,
            latency_ns: 150_000,
            limit_ns: 100_000,
        },
        clock_set(2_000_000_000),
        clock_set(-2_000_000_000),
        Happening::ClockSource {
            before: text("tsc"),
            now: text("hpet"),
        },
        offline(true),
        offline(false),
        Happening::CpuOnline { cpu: 1 },
        Happening::Debugger { cpu: 0, pid: 42 },
        Happening::Governor {
            cpu: 0,
            before: text("performance"),
            now: text("powersave"),
        },
        Happening::HistogramOverflow {
            thread: 0,
            samples: 7,
        },
        Happening::KernelMessage {
            message: text("clocksource: timekeeping watchdog"),
        },
        Happening::LeftOut {
            of: text("steal"),
            count: 7,
        },
        idle(None),
        idle(Some((2, 5))),
        never_woke(1),
        never_woke(5),
        Happening::NoHistogram { thread: 0 },
        Happening::NoSamples { thread: 0 },
        not_explained(true, false),
        not_explained(false, true),
        not_explained(false, false),
        stacks(0),
        stacks(16),
        Happening::ProbeFailed {
            cpu: 1,
            error: text("EINVAL"),
        },
        ended(true),
        ended(false),
        Happening::ProgramEnded {
            gone: Gone::Group {
                directory: text("/sys/fs/cgroup/rt"),
            },
        },
        Happening::PeerGone {
            how: PeerGone::Closed,
        },
        Happening::PeerGone {
            how: PeerGone::Vanished,
        },
        Happening::PeerGone {
            how: PeerGone::Garbled,
        },
        Happening::PeerGone {
            how: PeerGone::Failed { error: text("EIO") },
        },
        Happening::PeerGone {
            how: PeerGone::NoReport {
                error: text("no answer in time"),
            },
        },
        quota(1),
        quota(2),
        Happening::Steal {
            cpu: 0,
            stolen_ns: 3_000_000,
            between_ns: 20_000_000,
        },
        Happening::Suspended {
            length_ns: 2_000_000_000,
        },
        Happening::Throttled {
            seen: Throttling::KernelLog {
                message: text("sched: RT throttling activated"),
            },
        },
        throttled(RealTimeBound::Group {
            file: text("cpu.rt_runtime_us"),
        }),
        throttled(RealTimeBound::Machine),
        throttled(RealTimeBound::FairServer),
        Happening::TraceFrozen {
            directory: text("/sys/kernel/tracing"),
            file: text("trace.txt"),
        },
        Happening::TraceNotFrozen {
            file: text("/sys/kernel/tracing/tracing_on"),
            error: text("EPERM"),
        },
        Happening::WatchLeftOut,
        Happening::JobsDropped {
            task: "consumer".to_owned(),
            jobs: 3_209,
            pending: 9,
        },
        Happening::RepliesDropped {
            replies: 521,
            of: 2_999,
        },
    ];
    let no_names = crate::bills::no_kernel_names();
    all.extend(no_names.map(|why| Happening::OffCpuNames { why }));
    all.extend(unavailable().into_iter().map(|why| Happening::MarkRefused {
        mark: text("step()"),
        why,
    }));
    let before = Scheduling::Fifo { priority: 80 };
    let policies = schedulings().into_iter();
    all.extend(policies.map(|now| Happening::Priority {
        cpu: 0,
        before,
        now,
    }));
    let failures = load_failures().into_iter();
    all.extend(failures.map(|failure| Happening::LoadFailed {
        load: text("fork"),
        failure,
    }));
    all.extend(unsaved().into_iter().map(Happening::SaveFailed));
    all.extend([None, Some(text("1"))].map(|found| Happening::SettingLost {
        setting: text("/proc/sys/vm/stat_interval"),
        value: text("10"),
        found,
    }));
    all.extend([None, Some(text("EIO"))].map(|error| {
        Happening::Samples(MissingSamples {
            written: 5,
            measured: 7,
            error,
        })
    }));
    all.extend(
        endings()
            .into_iter()
            .map(|signal| Happening::Signal { signal }),
    );
    let thread = Halted::Thread {
        name: text("controller"),
        tid: 7,
    };
    let program = text("controller");
    let halted = [
        (Halted::Probe { cpu: 0 }, StopCause::Signal),
        (Halted::Process, StopCause::Debugger),
        (thread, StopCause::Freezer),
        (
            Halted::Program {
                program: program.clone(),
            },
            StopCause::Unknown,
        ),
        (Halted::Threads { program }, StopCause::Signal),
    ];
    all.extend(halted.map(|(stopped, cause)| Happening::Stopped {
        stopped,
        length_ns: 1_500_000_000,
        cause,
    }));
    all
}

/// Why tracing or a mark may not be available, of every kind.
pub fn unavailable() -> Vec<Unavailable> {
    let error = || text("Operation not permitted");
    let programs = |programs| TracingStep::Load { programs };
    let steps = [
        TracingStep::ReadTypes,
        programs(TracingPart::Recorder),
        programs(TracingPart::Watch),
        programs(TracingPart::Marks),
        TracingStep::Attach {
            tracepoint: text("sched_switch"),
        },
        TracingStep::MapMemory { map: text("ring") },
        TracingStep::AddThread,
        TracingStep::ThreadIds,
        TracingStep::MarkPath,
    ];
    let refusals = [
        ProbeRefusal::Instruction,
        ProbeRefusal::Gone,
        ProbeRefusal::Forbidden { error: error() },
        ProbeRefusal::Other { error: error() },
    ];
    let mut all = vec![
        Unavailable::BuiltWithout,
        Unavailable::Architecture,
        Unavailable::NoTypes { error: error() },
        Unavailable::Incomplete {
            part: text("events"),
        },
        Unavailable::NoThread { error: error() },
        Unavailable::NoUprobes,
    ];
    all.extend(
        [
            (true, false, false),
            (true, false, true),
            (true, true, true),
            (false, true, false),
        ]
        .map(|(bpf, perfmon, root)| Unavailable::NoCapabilities { bpf, perfmon, root }),
    );
    all.extend(steps.map(|step| Unavailable::Refused {
        step,
        error: error(),
    }));
    all.extend(refusals.map(|refusal| Unavailable::NoProbe {
        offset: 0x1139,
        refusal,
    }));
    all
}

/// Each of them as an event.
pub fn events() -> Vec<Event> {
    let happenings = happenings().into_iter();
    happenings.map(|what| Event::new(7, what)).collect()
}
