//! A lab in which every field of its record stands.

use punctual_record::lab::*;
use punctual_record::laboratory::{Architecture, Fingerprint, GuestTime, Laboratory};
use punctual_record::watch::KilledProgram;
use punctual_record::{Document, Judgement, Tool};
use punctual_stats::experiment::{BlockLatencies, KnobConclusion, KnobResult};
use punctual_stats::verdict::Outcome;

use super::verdicts;

/// The origin of a run, with all that an origin may hold.
pub fn laboratory(kernel: &str) -> Laboratory {
    Laboratory {
        architecture: Architecture::Amd64,
        kernel: kernel.to_owned(),
        release: format!("6.1.0-49-{kernel}-amd64"),
        package: Some(format!("linux-image-6.1.0-49-{kernel}-amd64 6.1.172-1")),
        parameters: vec!["preempt=full".to_owned()],
        seed: 1,
        cpus: 1,
        memory_mib: 1024,
        words: vec!["measure".to_owned()],
        program: None,
        modules: vec!["kernel/a.ko".to_owned()],
        brought: vec!["/etc/control.toml".to_owned()],
        rootfs: Some("build/rootfs.tar".to_owned()),
        virtual_limit_ns: 1,
        load: Some("fork".to_owned()),
        time: GuestTime::Virtual,
        boot_ns: 1_234_567,
        virtual_ns: 7_000_000_000,
        fingerprint: Fingerprint {
            emulator: "7.2.22".to_owned(),
            firmware_sha256: [("pvh.bin".to_owned(), "00ff".to_owned())].into(),
            kernel_sha256: "1234567890abcdef1234".to_owned(),
            ..Fingerprint::default()
        },
    }
}

/// Why a cell may have no result, of every kind.
pub fn no_results() -> Vec<NoResult> {
    let text = |text: &str| text.to_owned();
    let console = || text("Run /init as init process");
    let broken = |stream, status| NoResult::Broken {
        stream,
        status,
        output: text("qemu-system-x86_64: Could not load plugin"),
        plugin: status.is_some(),
        console: console(),
    };
    let boot = |silence| NoResult::BootLimit {
        seconds: 60,
        silence,
        console: console(),
    };
    let what = [
        Preparation::Emulator,
        Preparation::Kernel,
        Preparation::Program,
        Preparation::RootFileSystem,
        Preparation::Memory,
        Preparation::File,
    ];
    let frames = [
        FrameFault::NoHeader,
        FrameFault::Words,
        FrameFault::Name,
        FrameFault::Length,
        FrameFault::Checksum,
        FrameFault::Twice,
        FrameFault::TooMany,
        FrameFault::BytesBehind,
    ];
    let mut all = vec![
        NoResult::NotRun,
        NoResult::Interrupted,
        NoResult::HostLimit {
            seconds: 600,
            console: console(),
        },
        NoResult::HostLimit {
            seconds: 600,
            console: String::new(),
        },
        boot(Silence::Busy),
        boot(Silence::Halted),
        NoResult::VirtualLimit {
            seconds: 60,
            output: text("waiting"),
        },
        NoResult::VirtualLimit {
            seconds: 60,
            output: String::new(),
        },
        NoResult::Panic {
            line: text("Kernel panic - not syncing"),
        },
        broken(StreamFault::Silent, Some(1)),
        broken(StreamFault::Cut { bytes: 512 }, None),
        NoResult::Inside {
            status: 1,
            output: text("no such probe"),
        },
        NoResult::TooLarge { bytes: 600 << 20 },
        NoResult::NoFrame,
        NoResult::Unreadable {
            error: text("expected value at line 1 column 1"),
        },
        NoResult::Earlier {
            text: text("the guest did not start"),
        },
    ];
    all.extend(what.map(|what| NoResult::Unprepared {
        what,
        error: format!("{what:?}: not found").to_lowercase(),
    }));
    all.extend(frames.map(|fault| broken(StreamFault::Garbled { at: 7, fault }, Some(0))));
    all.extend(
        guest_faults()
            .into_iter()
            .map(|fault| NoResult::Guest { fault }),
    );
    all
}

fn guest_faults() -> Vec<GuestFault> {
    let text = |text: &str| text.to_owned();
    let error = || text("EPERM");
    let module = |log: &[&str]| GuestFault::Module {
        name: text("rtc_cmos"),
        error: error(),
        log: log.iter().map(|line| text(line)).collect(),
    };
    let processes = [
        GuestProcess::Busy,
        GuestProcess::Loads,
        GuestProcess::Program {
            path: text("/lab/bin/control"),
        },
    ];
    let mut all = vec![
        GuestFault::File {
            path: text("/out/stdout"),
            error: error(),
        },
        GuestFault::Job {
            path: text("/lab/job.json"),
            error: text("missing field `seed`"),
        },
        module(&[]),
        module(&["rtc_cmos: no device", "rtc_cmos: gave up"]),
        GuestFault::Mount {
            place: text("/proc"),
            error: error(),
        },
        GuestFault::Loads {
            output: text("fork: EAGAIN"),
        },
        GuestFault::Loads {
            output: String::new(),
        },
        GuestFault::Panicked,
    ];
    all.extend(processes.map(|process| GuestFault::Start {
        process,
        error: error(),
    }));
    all
}

/// Why a cell may have no bill, of every kind.
pub fn no_bills() -> Vec<NoBill> {
    let text = |text: &str| text.to_owned();
    vec![
        NoBill::OtherResult,
        NoBill::NotTheWorst,
        NoBill::Symbols {
            error: text("vmlinuz is not a kernel"),
        },
        NoBill::Threads { threads: 2 },
        NoBill::TrailUnreadable {
            error: text("ENOENT"),
        },
        NoBill::TrailTooLarge,
        NoBill::NoTrail,
        NoBill::TrailCut,
        NoBill::Stretches { stretches: 1 << 40 },
        NoBill::NoMark { mark: 7 },
        NoBill::NoBlock,
        NoBill::OtherMarks { marks: 5 },
        NoBill::FewMarks {
            marks: 5,
            fewest: 16,
        },
        NoBill::NoPeriod,
        NoBill::SeveralLoops,
        NoBill::Earlier {
            text: text("the observer was not asked"),
        },
    ]
}

/// FAIL: a part of a program took too long.
fn too_long() -> Judgement {
    let step = verdicts::length(Outcome::Fail, 2_402, 3, Some(1_370_000));
    Judgement {
        unseen: 2,
        killed: vec![KilledProgram {
            program: "rt-loop".to_owned(),
            pid: 312,
            signal: 11,
        }],
        ..verdicts::judgement(Vec::new(), vec![step])
    }
}

/// A cell with figures, a bill and a verdict.
pub fn cell(kernel: &str, load: &str, max_ns: u64, function: &str) -> LabCell {
    let row = |function: &str, instructions| LabBillRow {
        function: function.to_owned(),
        instructions,
    };
    LabCell {
        kernel: kernel.to_owned(),
        load: load.to_owned(),
        seed: 1,
        variant: None,
        loads: Vec::new(),
        directory: format!("{kernel}/{load}"),
        host_s: 6.5,
        status: Some(0),
        error: None,
        figures: Some(CellFigures {
            samples: 5000,
            missed: 3,
            min_ns: 4000,
            mean_ns: 4100.25,
            p50_ns: 4100,
            p99_ns: 4500,
            max_ns,
        }),
        tasks: Vec::new(),
        chains: Vec::new(),
        verdict: Some(too_long()),
        bills: vec![LabBill {
            asked_ns: Some(1),
            total_ns: max_ns,
            rows: vec![
                row(function, max_ns - max_ns / 4),
                row("(user)", max_ns / 4),
            ],
        }],
        no_bill: None,
        bound: None,
        no_bound: None,
        cost: None,
        laboratory: Some(laboratory(kernel)),
    }
}

/// A bound of which the first window has an interrupt behind it.
pub fn bound(window_ns: u64) -> LabBound {
    let window = |length_ns, then: Option<&str>| LabWindow {
        length_ns,
        opened_by: "__free_one_page".to_owned(),
        closed_by: "exit_mmap".to_owned(),
        then: then.map(str::to_owned),
        times: 3,
    };
    LabBound {
        window_ns,
        timer_ns: 71,
        served_ns: 4_300,
        windows: vec![
            window(window_ns, Some("asm_sysvec_apic_timer_interrupt")),
            window(window_ns - 1, None),
        ],
        interrupts: 803,
        wake_ups: 500,
    }
}

/// An operation of which each of three batches made 100, with these instructions for each of them.
pub fn operation(operation: Operation, each: u64) -> LabOperation {
    LabOperation {
        operation,
        count: 100,
        // The median is neither the first nor the mean.
        batches: vec![each * 200, each * 100 - 20, each * 100 + 30],
        faults: 300,
        switches: 7,
    }
}

/// Operations on a kernel that doesn't know one of its words.
pub fn cost(call: u64, pipe: u64) -> LabCost {
    LabCost {
        operations: vec![
            operation(Operation::Call, call),
            operation(Operation::Pipe, pipe),
        ],
        left: 0,
        unknown: vec!["preempt=ful".to_owned()],
    }
}

/// Three columns of operations: the last has no result.
pub fn costs() -> Lab {
    let cell = |kernel: &str, cost: Option<LabCost>| LabCell {
        kernel: kernel.to_owned(),
        figures: None,
        verdict: None,
        bills: Vec::new(),
        cost,
        ..cell("standard", "idle", 1, "x")
    };
    let mut first = cost(300, 10_000);
    first.unknown.clear();
    let mut failed = cell("rt", None);
    failed.error = Some(NoResult::Inside {
        status: 137,
        output: String::new(),
    });
    Lab {
        cells: vec![
            cell("standard preempt=none", Some(first)),
            cell("standard preempt=ful <b>", Some(cost(303, 13_755))),
            failed,
        ],
        ..lab()
    }
}

/// Why a cell may have no bound, of every kind.
pub fn no_bounds() -> Vec<NoBound> {
    let text = |text: &str| text.to_owned();
    vec![
        NoBound::NoProbe,
        NoBound::Threads { threads: 2 },
        NoBound::Policy,
        NoBound::Symbols {
            error: text("vmlinuz is not a kernel"),
        },
        NoBound::NoSymbol {
            name: text("__schedule"),
        },
        NoBound::Preemption {
            model: text("unknown"),
        },
        NoBound::Unreadable {
            error: text("ENOENT"),
        },
        NoBound::Damaged { line: 7 },
        NoBound::NotUnderstood {
            interrupted_while_disabled: 1,
            flags_popped: 2,
            returned_with_count: 3,
            count_unread: 4,
        },
        NoBound::OtherMarks { marks: 5 },
        NoBound::Exceeded {
            latency_ns: 9_000,
            bound_ns: 8_000,
        },
    ]
}

/// A task with these best and worst response times, its bound 150 us.
pub fn task(name: &str, min_ns: u64, max_ns: u64, late: u64) -> LabTask {
    LabTask {
        name: name.to_owned(),
        deadline_ns: 1_000_000,
        bound_ns: Some(150_000),
        figures: Some(CellFigures {
            samples: 4000,
            missed: 1,
            min_ns,
            mean_ns: min_ns as f64 + 0.5,
            p50_ns: min_ns,
            p99_ns: max_ns,
            max_ns,
        }),
        longest_ns: (late > 0).then_some(max_ns + 50_000),
        p999_ns: Some(max_ns),
        late,
    }
}

/// A set on two kernels: on the second one a task takes longer than its bound.
pub fn executed() -> Lab {
    let chain = |of, max_ns| LabChain {
        name: "in to out".to_owned(),
        of,
        count: 3_999,
        max_ns: Some(max_ns),
        bound_ns: Some(2_400_000),
        limit_ns: (of == ChainTime::Age).then_some(1_500_000),
        longer: u64::from(max_ns == 1_600_000),
    };
    let cell = |kernel: &str, worst_ns: u64, late| {
        let mut cell = cell(kernel, "idle", 1, "x");
        cell.figures = None;
        cell.bills.clear();
        cell.tasks = vec![
            task("control <b>", 104_321, worst_ns, late),
            LabTask {
                bound_ns: None,
                figures: None,
                p999_ns: None,
                ..task("log", 1, 1, 0)
            },
        ];
        cell.chains = vec![
            chain(ChainTime::Reaction, 2_345_678),
            chain(ChainTime::Age, 1_000_000 + 600_000 * u64::from(late > 0)),
        ];
        cell
    };
    Lab {
        cells: vec![cell("rt", 120_987, 0), cell("standard", 170_654, 3)],
        ..lab()
    }
}

/// Two kernels and three loads: one without a result, one program of several tools.
pub fn lab() -> Lab {
    let mut panicked = cell("rt", "fork", 1, "x");
    panicked.figures = None;
    panicked.bills.clear();
    panicked.verdict = None;
    panicked.status = None;
    panicked.laboratory = None;
    panicked.error = Some(NoResult::Panic {
        line: "x".to_owned(),
    });
    let mut tool = cell("standard", "fork", 47_455, "copy_page_range");
    tool.variant = Some(LabVariant {
        machine: "standard".to_owned(),
        name: "cyclictest".to_owned(),
        ranked: true,
    });
    tool.loads = vec![LabLoad {
        name: "fork".to_owned(),
        work: 100,
        unit: "forks".to_owned(),
        rate: 40.0,
    }];
    tool.no_bill = Some(NoBill::Earlier {
        text: "not traced".to_owned(),
    });
    tool.bills[0].asked_ns = None;
    if let Some(laboratory) = &mut tool.laboratory {
        laboratory.program = Some("/bin/true".to_owned());
    }
    let mut invalid = cell("rt", "poll", 4870, "__schedule");
    invalid.verdict = Some(verdicts::invalid());
    let mut several = cell("standard", "idle", 4634, "__schedule");
    several.verdict = Some(verdicts::every_kind());
    Lab {
        format: Lab::FORMAT.to_owned(),
        version: Lab::VERSION,
        tool: Tool::default(),
        command: vec!["punctual".to_owned(), "lab".to_owned()],
        started: "2026-11-21T02:46:09Z".to_owned(),
        jobs: 2,
        host_s: 30.25,
        cells: vec![
            cell("rt", "idle", 4698, "__schedule"),
            invalid,
            panicked,
            several,
            cell("standard", "poll", 5_035_049, "do_sys_poll"),
            tool,
        ],
        proof: None,
    }
}

/// The figures of a guest: of each seed others, scaled.
fn figures(seed: u64, ratio: f64) -> BlockLatencies {
    let phase = (seed * 5 % 12) as f64;
    let scaled = |ns: f64| (ns * ratio) as u64;
    BlockLatencies {
        count: 4_000,
        p50_ns: Some(scaled(4_000.0 + phase)),
        p99_ns: Some(scaled(8_000.0 + 100.0 * phase)),
        p999_ns: Some(scaled(9_000.0 + 200.0 * phase)),
        max_ns: scaled(20_000.0 + 900.0 * phase),
        excess_ns: scaled(10_000.0 + 90.0 * phase),
        messages: None,
    }
}

/// An experiment with boot parameters on two kernels: one helps, one harms, one makes no
/// difference, one does only what the control does, and one the second kernel doesn't know.
pub fn proof() -> LabProof {
    let words = ["preempt=full", "harm=1", "same", "moves", "threadirqs"];
    let ratios = [0.5, 1.4, 1.0, 1.002];
    let parameter = |word: &str| ProofParameter {
        word: word.to_owned(),
        is_control: word.starts_with("lab."),
    };
    let words = words.into_iter().chain(["lab.control=1"]);
    let mut proof = LabProof {
        parameters: words.map(parameter).collect(),
        seeds: 12,
        confidence: 0.95,
        deadline_ns: Some(15_000),
        rows: Vec::new(),
    };
    for kernel in ["standard", "rt"] {
        for at in 0..proof.parameters.len() {
            let is_unknown = at == 4 && kernel == "rt";
            // The control meets another phase, and so does what only moves.
            let shift = if at >= 3 { 4 } else { 0 };
            let ratio = ratios.get(at).copied().unwrap_or(1.0);
            let pair = |seed: u64| ProofPair {
                seed,
                off: figures(seed, 1.0),
                on: figures(seed + shift, ratio),
                is_identical: at == 2,
            };
            let pairs = (1..=12).filter(|_| !is_unknown);
            proof.rows.push(ProofRow {
                kernel: kernel.to_owned(),
                load: "poll".to_owned(),
                parameter: at,
                is_unknown,
                pairs: pairs.map(pair).collect(),
                result: KnobResult {
                    pairs: 0,
                    effects: Vec::new(),
                    conclusion: KnobConclusion::TooFewPairs,
                },
            });
        }
    }
    proof.judge();
    proof
}
