//! An explanation in which every kind of cause stands.

use punctual_record::Ledger;
use punctual_record::explanation::{Mark, MarkLabel, Picture, Span, SpanLabel, *};

/// Every kind of cause, each once.
pub fn causes() -> Vec<Cause> {
    let text = |text: &str| text.to_owned();
    vec![
        Cause::WakePath,
        Cause::Crossing,
        Cause::Platform,
        Cause::Steal,
        Cause::Host { cpus: vec![0, 1] },
        Cause::Smi,
        Cause::Nmi,
        Cause::IdleExit { state: Some(3) },
        Cause::Interrupt {
            irq: 36,
            name: text("virtio0-input.0"),
        },
        Cause::CpuInterrupt {
            vector: text("reschedule"),
        },
        Cause::Call {
            function: text("do_flush_tlb_all"),
        },
        Cause::TimerCallback {
            function: text("tick_nohz_handler"),
        },
        Cause::Softirq { number: 3 },
        Cause::IrqsOff {
            function: text("_raw_spin_unlock_irqrestore"),
            task: text("kdamond.0"),
        },
        Cause::LateInterrupt {
            task: text("stress-ng"),
        },
        Cause::PreemptOff {
            task: text("kworker/1:2"),
            work: Some(text("vmstat_update")),
        },
        Cause::Thread {
            task: text("irq/36-virtio0"),
            policy: text("SCHED_FIFO"),
            priority: 90,
        },
        Cause::FairShare {
            task: text("stress-ng"),
        },
        Cause::Throttled { task: text("cc1") },
        Cause::GroupThrottled {
            group: text("/sys/fs/cgroup/system.slice/app.service"),
            file: text("cpu.max"),
        },
        Cause::Inversion {
            lock: text("0xffff888003d0a040"),
            holder: text("logger"),
            meanwhile: None,
        },
        Cause::Lock {
            lock: text("mmap_lock"),
            holder: Some(text("rt-peer")),
            meanwhile: None,
        },
        Cause::Fault,
        Cause::Blocked {
            state: text("disk"),
        },
        Cause::Waker {
            task: text("sender"),
        },
        Cause::Probe,
        Cause::Tracer,
        Cause::Other,
        Cause::Unexplained,
        Cause::Blind,
    ]
}

/// Every kind of note on a row, each once.
pub fn notes() -> Vec<RowNote> {
    let text = |text: &str| text.to_owned();
    let (runtime_us, period_us) = (100_000, 1_000_000);
    vec![
        RowNote::InSoftirq { number: 3 },
        RowNote::LastSeen {
            thread: text("stress-ng"),
            tid: 472,
        },
        RowNote::UnknownThread,
        RowNote::PreviousWakeUp {
            late_ns: 95_000_000,
        },
        RowNote::InterruptAt {
            place: text("_raw_spin_unlock_irqrestore+0x15"),
        },
        RowNote::AwakeAlready,
        RowNote::NotAsleepYet,
        RowNote::LateRequest,
        RowNote::LetRunOn,
        RowNote::PriorityRaised,
        RowNote::HadCpu,
        RowNote::InWakingInterrupt,
        RowNote::IdleThoughReady,
        RowNote::IdleTooLong,
        RowNote::WaitedForPage,
        RowNote::SystemCall {
            call: "munmap".into(),
        },
        RowNote::StackOfRelease,
        RowNote::QuotaUnread {
            group: text("/sys/fs/cgroup/system.slice/app.service"),
        },
        RowNote::LimitNotSeen {
            group: text("/sys/fs/cgroup/cpu/app"),
            file: text(RT_RUNTIME),
            runtime_us,
            period_us,
        },
        RowNote::RealTimeLimit {
            runtime_us,
            period_us,
        },
        RowNote::Quota {
            runtime_us,
            period_us,
            throttled_ns: 480_000_000,
        },
        RowNote::UsedUpBy {
            thread: Box::new(Culprit {
                ns: 900_000_000,
                tid: 4711,
                name: Some("spinner".to_owned()),
                policy: "SCHED_FIFO".to_owned(),
                priority: 10,
                ..Culprit::default()
            }),
        },
        RowNote::StoppedBy {
            signal: Some(19),
            thread: Some(Box::new(Culprit {
                tid: 4714,
                name: Some("pkill".to_owned()),
                policy: "SCHED_OTHER".to_owned(),
                ..Culprit::default()
            })),
        },
        RowNote::StoppedBy {
            signal: Some(20),
            thread: None,
        },
        RowNote::SentFrom { cpu: 3 },
        RowNote::SentByInterrupt { cpu: 3 },
        RowNote::SmiCount {
            count: 2,
            within_ns: None,
        },
        RowNote::SmiCount {
            count: 3,
            within_ns: Some(60_000_000_000),
        },
        RowNote::LikelyHost { cpus: vec![0, 1] },
        RowNote::Earlier {
            text: text("the stack was caught while it ran"),
        },
    ]
}

/// Everything that an explanation may lack, each once.
pub fn not_seen() -> Vec<NotSeen> {
    let text = |text: &str| text.to_owned();
    let stacks = [
        NoBlockedStacks::KernelBefore { major: 6, minor: 7 },
        NoBlockedStacks::Refused {
            error: text("Operation not permitted"),
        },
        NoBlockedStacks::Timers { step: 2 },
    ];
    let mut all = vec![NotSeen::Earlier {
        text: text("the hypervisor's account of stolen time"),
    }];
    all.extend(stacks.map(|why| NotSeen::BlockedStacks { why }));
    all.extend(no_kernel_names().map(|why| NotSeen::KernelNames { why }));
    all.extend(RecordedEvents::ALL.map(|lacks| NotSeen::Recorded { lacks }));
    all.extend([
        NotSeen::Tracepoint {
            tracepoint: text("nmi_handler"),
        },
        NotSeen::Forgotten { wake_ups: 0 },
        NotSeen::TooFast { wake_ups: 3 },
        NotSeen::NotQueued { count: 4 },
        NotSeen::Middle { wake_ups: 5 },
        NotSeen::Waits {
            count: 3,
            longest_ns: 1_000,
            kinds: 256,
        },
        NotSeen::MergedWaits,
        NotSeen::TooMuchTime,
        NotSeen::DifferentLimits,
        NotSeen::RecordedEnd {
            begins: text("softirq_entry"),
            ends: text("softirq_exit"),
        },
        NotSeen::RecordingLost,
        NotSeen::RecordingCut {
            program: text("perf"),
            output: text("incompatible file format"),
        },
        NotSeen::WithoutBill {
            wake_ups: 5,
            bills: 1_000,
        },
        NotSeen::NotKept { wake_ups: 5, of: 7 },
    ]);
    all
}

/// Why functions of the kernel may have no names, of every kind.
pub fn no_kernel_names() -> [NoKernelNames; 3] {
    [
        NoKernelNames::Unreadable {
            error: "EPERM".to_owned(),
        },
        NoKernelNames::Hidden,
        NoKernelNames::Earlier {
            text: "the names of the kernel were not read".to_owned(),
        },
    ]
}

/// A bill of these rows, all in their stages.
pub fn bill_of(cpu: u32, due_ns: u64, rows: &[(Stage, Cause, u64)]) -> Bill {
    let mut stages = StageTimes::default();
    for (stage, _, ns) in rows {
        *stages.ns[*stage as usize].get_or_insert(0) += ns;
    }
    Bill {
        cpu,
        due_ns,
        latency_ns: rows.iter().map(|row| row.2).sum(),
        lost: 0,
        stages,
        rows: rows
            .iter()
            .map(|(stage, cause, ns)| BillRow {
                stage: *stage,
                cause: cause.clone(),
                ns: *ns,
                stack: Vec::new(),
                by: Vec::new(),
                notes: Vec::new(),
            })
            .collect(),
        picture: None,
    }
}

fn ancestor(name: &str, tid: u32, start: Option<u64>) -> Ancestor {
    Ancestor {
        name: name.to_owned(),
        tid: Some(tid),
        start,
    }
}

/// What a run might hold: bills with one, some and all kinds of cause.
pub fn explanation() -> Explanation {
    let mut ledger = Ledger::new(Some(100_000));
    let notes = notes();
    for (index, cause) in causes().into_iter().enumerate() {
        let ns = 90_000 + 7_001 * index as u64;
        let mut bill = bill_of(
            1,
            1_000_000_000 * index as u64,
            &[
                (Stage::Interrupt, Cause::Platform, 1_200),
                (Stage::Callback, Cause::WakePath, 800),
                (Stage::Waking, Cause::WakePath, 310),
                (Stage::Exit, Cause::WakePath, 2_400),
                (Stage::Switch, cause, ns),
                (Stage::User, Cause::WakePath, 950),
            ],
        );
        bill.rows[4].stack = vec!["free_pcppages_bulk+0x1a".to_owned(), "exit_mmap".to_owned()];
        bill.rows[4].by = vec![Culprit {
            ns,
            name: (index == 3).then(|| "unmapper".to_owned()),
            tid: 472,
            policy: "SCHED_OTHER".to_owned(),
            priority: 0,
            nice: (index == 5).then_some(-5),
            pid: Some(471),
            here: (index % 3 == 1).then_some(72),
            start: (index % 2 == 0).then_some(812_345),
            own: index % 4 == 3,
            command: Some("/usr/bin/stress-ng --vm 2".to_owned()),
            group: Some("/system.slice/app.service".to_owned()),
            weight: (index == 5).then_some(500),
            ended: index % 2 == 1,
            parents: match index % 4 {
                3 => vec![
                    ancestor("runner", 470, Some(812_001)),
                    ancestor("cron", 12, None),
                ],
                _ => Vec::new(),
            },
        }];
        bill.rows[4].notes = vec![notes[index % notes.len()].clone()];
        bill.picture = Some(picture(bill.latency_ns as i64, index));
        ledger.add_stages(&bill.stages);
        ledger.add(&bill);
    }
    let everything: Vec<_> = causes()
        .into_iter()
        .enumerate()
        .map(|(index, cause)| (Stage::ALL[index % 6], cause, 1_000 + index as u64))
        .collect();
    ledger.add(&bill_of(0, 77, &everything));
    let real_time = GroupLimit {
        group: "/sys/fs/cgroup/cpu/app".to_owned(),
        file: RT_RUNTIME.to_owned(),
        runtime_us: 100_000,
        period_us: 1_000_000,
        room_us: Some(850_000),
        throttled: None,
    };
    let quota = GroupLimit {
        group: "/sys/fs/cgroup/system.slice/app.service".to_owned(),
        file: "cpu.max".to_owned(),
        runtime_us: 20_000,
        period_us: 100_000,
        room_us: None,
        throttled: Some(GroupThrottling {
            periods: 7,
            ns: 480_000_000,
        }),
    };
    ledger.set_limits(&[quota, real_time]);
    ledger.set_ordinary_time(vec![
        OrdinaryTime {
            by: Keeper::FairServer,
            kept_ns: 50_000_000,
            period_ns: 1_000_000_000,
            locked: Some("operation not permitted".to_owned()),
        },
        OrdinaryTime {
            by: Keeper::RtThrottling,
            kept_ns: 50_000_000,
            period_ns: 1_000_000_000,
            locked: None,
        },
    ]);
    ledger.add_lost();
    for what in not_seen() {
        ledger.add_missing(what);
    }
    Explanation {
        waits: vec![wait()],
        ..ledger.to_record()
    }
}

/// A wait with each thing that a thread may do meanwhile.
fn wait() -> Wait {
    let thread = |tid: u32, name: &str, ns| Culprit {
        ns,
        name: Some(name.to_owned()),
        tid,
        policy: "SCHED_OTHER".to_owned(),
        priority: 0,
        pid: Some(tid),
        command: Some(format!("/usr/bin/{name}")),
        ..Culprit::default()
    };
    let irq = || Cause::Interrupt {
        irq: 36,
        name: "virtio1".to_owned(),
    };
    let all = [
        (0, 481, "control", Doing::Ready { behind: None }),
        (1, 482, "server", Doing::Ran),
        (
            1,
            482,
            "server",
            Doing::Ready {
                behind: Some(thread(490, "logger", 0)),
            },
        ),
        (1, 482, "server", Doing::Interrupted { cause: irq() }),
        (1, 482, "server", Doing::Stopped),
        (2, 483, "store", Doing::Ran),
        (2, 483, "store", Doing::Device { cause: irq() }),
        (2, 483, "store", Doing::Timer),
        (3, 484, "cache", Doing::Unseen),
    ];
    let rows = all.into_iter().zip(1..);
    let mut rows: Vec<WaitRow> = rows
        .map(|((depth, tid, name, doing), index)| WaitRow {
            ns: index * 100_000,
            depth,
            thread: Some(thread(tid, name, index * 100_000)),
            doing,
        })
        .collect();
    rows.push(WaitRow {
        ns: 7,
        depth: u32::MAX,
        thread: None,
        doing: Doing::Other,
    });
    let wait_ns = rows.iter().map(|row| row.ns).sum();
    Wait {
        thread: thread(481, "control", wait_ns),
        call: "futex".into(),
        ended_by: "server".to_owned(),
        from_ns: 5_000_000_000,
        run: None,
        wait_ns,
        count: 12,
        total_ns: 3 * wait_ns,
        rows,
    }
}

/// Every kind of stretch of a picture, each once.
pub fn span_labels() -> Vec<SpanLabel> {
    let text = |text: &str| text.to_owned();
    let thread = |priority| SpanLabel::Thread {
        name: text("irq/36-virtio0"),
        tid: 36,
        priority,
    };
    vec![
        SpanLabel::Vector {
            vector: text("local timer"),
        },
        SpanLabel::Handler {
            irq: 36,
            name: text("virtio0-input.0"),
        },
        SpanLabel::Call {
            function: text("do_flush_tlb_all"),
        },
        SpanLabel::ProbeTimer,
        SpanLabel::Timer {
            function: text("tick_nohz_handler"),
        },
        SpanLabel::Softirq { number: 3 },
        SpanLabel::Hypervisor,
        SpanLabel::Host,
        SpanLabel::Smi,
        SpanLabel::Nmi,
        SpanLabel::Tracer,
        SpanLabel::Idle,
        thread(0),
        thread(50),
        SpanLabel::Earlier {
            text: text("kdamond.0 [7]"),
        },
    ]
}

/// Every kind of instant of a picture, each once.
pub fn mark_labels() -> Vec<MarkLabel> {
    let text = |text: &str| text.to_owned();
    vec![
        MarkLabel::Waking,
        MarkLabel::Callback,
        MarkLabel::PageFault,
        MarkLabel::Moved { to_cpu: 3 },
        MarkLabel::StackCaught,
        MarkLabel::LockWait {
            lock: text("mmap_lock"),
        },
        MarkLabel::Earlier {
            text: text("moved to CPU 2"),
        },
    ]
}

fn picture(latency_ns: i64, index: usize) -> Picture {
    let labels = span_labels();
    let marks = mark_labels();
    let span = |lane, from_ns, to_ns, label, in_the_way| Span {
        lane,
        cpu: 1,
        from_ns,
        to_ns,
        label,
        in_the_way,
    };
    Picture {
        spans: vec![
            span(Lane::Thread, -200_000, 3_000, SpanLabel::Idle, false),
            span(
                Lane::Interrupt,
                1_200,
                4_710,
                labels[index % labels.len()].clone(),
                false,
            ),
            span(
                Lane::Softirq,
                4_710,
                latency_ns - 950,
                SpanLabel::Softirq { number: 3 },
                true,
            ),
            span(
                Lane::Probe,
                latency_ns - 950,
                latency_ns + 9_000,
                SpanLabel::Thread {
                    name: "probe/1".to_owned(),
                    tid: 471,
                    priority: 80,
                },
                false,
            ),
        ],
        marks: vec![Mark {
            at_ns: 2_310,
            cpu: 1,
            label: marks[index % marks.len()].clone(),
        }],
        left_out: 2,
    }
}
