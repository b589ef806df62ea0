//! A lab in which every field of its record stands.

use punctual_record::lab::*;
use punctual_record::laboratory::{Fingerprint, GuestTime, Laboratory};
use punctual_record::{Judgement, Tool};
use punctual_stats::verdict::Outcome;

use super::verdicts;

/// The origin of a run, with all that an origin may hold.
pub fn laboratory(kernel: &str) -> Laboratory {
    Laboratory {
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

/// FAIL: a part of a program took too long.
fn too_long() -> Judgement {
    let step = verdicts::length(Outcome::Fail, 2_402, 3, Some(1_370_000));
    verdicts::judgement(Vec::new(), vec![step])
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
        laboratory: Some(laboratory(kernel)),
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
    panicked.error = Some("the guest's kernel panicked: x".to_owned());
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
    tool.no_bill = Some("not traced".to_owned());
    tool.bills[0].asked_ns = None;
    if let Some(laboratory) = &mut tool.laboratory {
        laboratory.program = Some("/bin/true".to_owned());
    }
    let mut invalid = cell("rt", "poll", 4870, "__schedule");
    invalid.verdict = Some(verdicts::invalid());
    let mut several = cell("standard", "idle", 4634, "__schedule");
    several.verdict = Some(verdicts::every_kind());
    Lab {
        format: LAB_FORMAT.to_owned(),
        version: LAB_VERSION,
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
    }
}
