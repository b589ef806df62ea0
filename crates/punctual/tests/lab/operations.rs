//! Instructions per operation: the same digits again, known ones where they are known, and programs.

use punctual_record::Document;
use punctual_record::lab::{Lab, LabCell, LabOperation, Operation};

use super::common::{Place, flat, need, needs};
use super::{lab, ready};

fn counted(cell: &LabCell, operation: Operation) -> &LabOperation {
    let all = cell.cost.iter().flat_map(|cost| &cost.operations);
    let mut found = all.filter(|it| it.operation == operation);
    found
        .next()
        .unwrap_or_else(|| panic!("{operation:?}: {:?}", cell.cost))
}

/// How many times as many instructions the second kernel takes.
fn ratio(lab: &Lab, operation: Operation) -> f64 {
    let of = |cell: &LabCell| counted(cell, operation).median().expect("a batch") as f64;
    of(&lab.cells[1]) / of(&lab.cells[0])
}

#[test]
fn two_runs_count_the_same_and_preempt_rt_takes_more_where_tasks_wake_each_other() {
    need!(ready());
    let place = Place::new();
    let flags = [
        "cost",
        "--kernel",
        "standard,rt",
        "--only",
        "pipe,fault,file,user,fork",
    ];
    let shown = lab(&place, &[&flags[..], &["-o", "a"]].concat())
        .expect(0)
        .stdout;
    assert!(
        flat(&shown).contains("operation standard rt ratio user"),
        "{shown}"
    );
    lab(&place, &[&flags[..], &["-o", "b"]].concat()).expect(0);
    let read = |name: &str| Lab::read(&place.path().join(name)).expect("a lab");
    let (first, second) = (read("a"), read("b"));
    assert_eq!(first.cells.len(), 2);
    for (one, other) in first.cells.iter().zip(&second.cells) {
        assert!(
            one.cost.is_some() && one.cost == other.cost,
            "{:?}",
            one.kernel
        );
        // An area of 2,000 pages is touched in each of 11 batches: nothing else faults but a page now and then.
        let fault = counted(one, Operation::Fault);
        assert_eq!((fault.count, fault.batches.len()), (2_000, 11));
        assert!((22_000..22_100).contains(&fault.faults), "{fault:?}");
        // A round trip switches to the other process, and back.
        let pipe = counted(one, Operation::Pipe);
        assert!(pipe.switches >= 11 * pipe.count, "{pipe:?}");
        let user = counted(one, Operation::User);
        assert!(user.faults < 10 && user.switches < 10, "{user:?}");
    }
    // Measured: 1.00, 1.37, 1.25.
    assert!(
        (0.99..1.01).contains(&ratio(&first, Operation::User)),
        "user"
    );
    assert!((1.1..1.8).contains(&ratio(&first, Operation::Pipe)), "pipe");
    assert!(
        (1.05..1.6).contains(&ratio(&first, Operation::File)),
        "file"
    );
    let again = place.run(&["report", "a"]).expect(0).stdout;
    let table = |text: &str| {
        let from = text.find("Instructions per operation").expect("a table");
        text[from..].split("\n\n").next().map(str::to_owned)
    };
    assert_eq!(table(&again), table(&shown));
    let same = lab(&place, &["compare", "a", "b"]).expect(0).stdout;
    assert!(flat(&same).contains("1.000"), "{same}");
}

/// A loop of which each pass is two instructions.
const LOOP: &str = "__asm__ volatile(\"1: dec %0\\n jnz 1b\" : \"+r\"(left) :: \"cc\");";

#[test]
fn a_program_takes_what_it_executes_and_a_failure_names_its_status() {
    need!(ready());
    need!(needs::compiler());
    let place = Place::new();
    let source = format!("int main(void) {{ long left = 100000000; {LOOP} return 0; }}\n");
    std::fs::write(place.path().join("loop.c"), source).expect("a file");
    let built = std::process::Command::new("cc")
        .args(["-O2", "-static", "-o", "loop", "loop.c"])
        .current_dir(place.path())
        .status();
    assert!(built.is_ok_and(|status| status.success()), "loop.c");
    let flags = [
        "cost",
        "--kernel",
        "standard,rt",
        "--operations",
        "1000",
        "-o",
        "a",
    ];
    let shown = lab(&place, &[&flags[..], &["--", "./loop"]].concat()).expect(0);
    // 200,000,000 in the loop, and below 1 % for the start, the end and the ticks meanwhile.
    let made = Lab::read(&place.path().join("a")).expect("a lab");
    for cell in &made.cells {
        for operation in [Operation::Run, Operation::Processor] {
            let instructions = counted(cell, operation).median().expect("one run");
            assert!(
                (200_000_000..202_000_000).contains(&instructions),
                "{cell:?}"
            );
        }
    }
    let shown = flat(&shown.stdout);
    assert!(
        shown.contains("run 20") && shown.contains("processor: the part"),
        "{shown}"
    );
    for (script, said) in [
        ("echo oops >&2; exit 3", "in the guest: exit status 3: oops"),
        ("kill -9 $$", "in the guest: exit status 137"),
    ] {
        let words = [
            "cost", "--kernel", "rt", "-o", "f", "--", "/bin/sh", "-c", script,
        ];
        let failed = lab(&place, &words).expect(1);
        assert_eq!(
            failed.stderr.lines().last(),
            Some(&*format!("punctual: {said}"))
        );
        assert!(!place.path().join("f").exists());
    }
}

#[test]
fn a_column_whose_word_the_kernel_does_not_know_is_named_and_a_gate_counts_again() {
    need!(ready());
    let place = Place::new();
    let words = ["cost", "--only", "call,pipe", "-o", "a", "preempt=ful"];
    let ended = lab(&place, &words).expect(1);
    let said = flat(&ended.stderr);
    assert!(
        said.contains("preempt=ful: no kernel knows its name or its value"),
        "{said}"
    );
    let made = Lab::read(&place.path().join("a")).expect("a lab");
    let columns: Vec<&str> = made.cells.iter().map(|cell| &*cell.kernel).collect();
    assert_eq!(columns, ["standard", "standard preempt=ful"]);
    assert!(made.cells.iter().all(|cell| cell.error.is_none()));
    lab(
        &place,
        &[
            "cost",
            "--kernel",
            "standard",
            "--only",
            "call,pipe",
            "-o",
            "base",
        ],
    )
    .expect(0);
    lab(&place, &["gate", "base", "-o", "same"]).expect(0);
    let grown = lab(
        &place,
        &[
            "gate",
            "base",
            "--kernel",
            "rt",
            "--allow",
            "call=50ns",
            "-o",
            "rt",
        ],
    );
    let grown = flat(&grown.expect(2).stdout);
    assert!(
        grown.contains("standard, idle: pipe") && !grown.contains("call "),
        "{grown}"
    );
}

#[test]
fn what_cannot_be_counted_is_refused_before_anything_boots() {
    for (words, status, said) in [
        (&["--explain"][..], 64, "--explain, --no-explain"),
        (&["--cpus", "2"], 64, "--cpus"),
        (&["--only", "pip"], 64, "pipe"),
        (&["--only", "pipe", "--", "/bin/true"], 64, "--only"),
        (&["--operations", "5"], 64, "PROGRAM"),
        (&["--operations", "0", "--", "/bin/true"], 64, "from 1 to"),
        (&["isolcpus=1"], 64, "one processor"),
        (&["preempt=full", "preempt=full"], 64, "named twice"),
        (&["--param", "preempt=full", "preempt=full"], 64, "--param"),
        (&["init=/bin/sh"], 64, "sets init itself"),
        (&["--kernel", "rt,rt"], 64, "named twice"),
        (&["--", "/no/such"], 127, "no such program"),
        (&["--", "/etc/passwd"], 126, "not executable"),
    ] {
        let place = Place::new();
        let ended = lab(&place, &[&["cost", "-o", "a"], words].concat()).expect(status);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(
            lines.len() == 1 && lines[0].contains(said),
            "{words:?}: {lines:?}"
        );
        assert!(!place.path().join("a").exists());
    }
}
