//! The table of a laboratory, its comparison and its test suite, on cells with known figures.

use punctual_record::lab::*;
use punctual_record::laboratory::{Architecture, GuestTime};
use punctual_report::lab::{bills, compare, comparison, junit, table};
use punctual_report::style::Style;

use super::labs;

/// A cell with figures alone.
fn cell(kernel: &str, load: &str, seed: u64, max_ns: u64) -> LabCell {
    let mut cell = labs::cell(kernel, load, max_ns, "x");
    cell.seed = seed;
    cell.verdict = None;
    cell.bills.clear();
    if let (Some(figures), Some(laboratory)) = (&mut cell.figures, &mut cell.laboratory) {
        figures.missed = 0;
        laboratory.seed = seed;
        laboratory.release = format!("6.1-{kernel}");
        laboratory.package = None;
        laboratory.parameters.clear();
        laboratory.fingerprint.result_sha256 = format!("{kernel}{load}{seed}{max_ns}");
    }
    cell
}

fn lab(cells: Vec<LabCell>) -> Lab {
    Lab {
        format: "punctual-lab".to_owned(),
        version: 1,
        tool: punctual_record::Tool::default(),
        command: Vec::new(),
        started: "2026-11-21T02:46:09Z".to_owned(),
        jobs: 2,
        host_s: 30.25,
        cells,
        proof: None,
    }
}

/// The text without its lines' ends.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn pair() -> Lab {
    lab(vec![
        cell("rt", "idle", 1, 4698),
        cell("rt", "exit", 1, 5010),
        cell("standard", "idle", 1, 4634),
        cell("standard", "exit", 1, 4_149_098),
    ])
}

#[test]
fn kernels_stand_side_by_side_with_their_ratio() {
    let text = table(&pair(), &Style::plain());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "rt: 6.1-rt");
    let row = |name: &str| {
        let line = lines.iter().find(|line| line.trim().starts_with(name));
        let words = line.expect("a row").split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("load"), "load max p99 mean max p99 mean ratio");
    assert_eq!(
        row("exit"),
        "exit 5,010 4,500 4,100 4,149,098 4,500 4,100 828"
    );
    assert_eq!(row("idle"), "idle 4,698 4,500 4,100 4,634 4,500 4,100 0.99");
    let flat = flat(&text);
    assert!(flat.contains("one instruction is 1 ns"), "{text}");
    assert!(flat.contains("28 virtual seconds took 30 s"), "{text}");
}

#[test]
fn what_is_lacking_and_what_is_judged_is_seen() {
    let mut lab = pair();
    lab.cells[1].figures = None;
    lab.cells[1].error = Some(NoResult::Panic {
        line: "x".to_owned(),
    });
    lab.cells[3].verdict = labs::cell("rt", "idle", 1, "x").verdict;
    let text = table(&lab, &Style::plain());
    assert!(text.contains("- FAIL"), "{text}");
    let suite = junit(&lab);
    assert!(
        suite.contains("tests=\"4\" failures=\"1\" errors=\"1\""),
        "{suite}"
    );
    assert!(suite.contains("kernel panicked"), "{suite}");
}

#[test]
fn seeds_show_their_spread() {
    let lab = lab(vec![
        cell("rt", "idle", 1, 5800),
        cell("rt", "idle", 2, 6400),
    ]);
    let text = table(&lab, &Style::plain());
    assert!(text.contains("least max"), "{text}");
    assert!(text.contains("6,400") && text.contains("5,800"), "{text}");
    assert!(
        flat(&text).contains("10,000 wake-ups and 2 seeds"),
        "{text}"
    );
}

#[test]
fn of_several_processors_no_figure_is_shown() {
    let mut lab = pair();
    for cell in &mut lab.cells {
        cell.laboratory.as_mut().unwrap().time = GuestTime::Host;
    }
    let text = table(&lab, &Style::plain());
    assert!(flat(&text).contains("no latency"), "{text}");
    assert!(!text.contains("4,698"), "{text}");
}

#[test]
fn labs_are_compared_to_the_nanosecond() {
    let (a, mut b) = (pair(), pair());
    let same = compare(&a, &b);
    assert_eq!(same.pairs.len(), 4);
    assert!(same.pairs.iter().all(|pair| pair.identical));
    b.cells[1] = cell("rt", "exit", 1, 5009);
    b.cells.pop();
    let text = comparison(&compare(&a, &b), &Style::plain());
    assert!(text.contains("-1"), "{text}");
    assert!(flat(&text).contains("1 of 3 cells differ"), "{text}");
    assert!(
        flat(&text).contains("Not in both: standard, exit (in the first)"),
        "{text}"
    );
    // One kernel each: they are held against each other by load.
    let one = lab(vec![cell("old", "idle", 1, 1000)]);
    let other = lab(vec![cell("new", "idle", 1, 1200)]);
    let across = compare(&one, &other);
    assert_eq!(across.pairs[0].label, "old, idle | new");
}

#[test]
fn beside_each_maximum_stands_what_it_was() {
    let mut explained = cell("standard", "poll", 1, 200);
    let row = |function: &str, instructions| LabBillRow {
        function: function.to_owned(),
        instructions,
    };
    explained.bills = vec![LabBill {
        asked_ns: Some(1),
        total_ns: 200,
        rows: vec![row("do_sys_poll", 150), row("(user)", 50)],
    }];
    let mut without = cell("rt", "poll", 1, 100);
    without.no_bill = Some(NoBill::Earlier {
        text: "it is no more".to_owned(),
    });
    let lab = lab(vec![without, explained]);
    let text = table(&lab, &Style::plain());
    assert!(text.contains("do_sys_poll 75%"), "{text}");
    assert!(
        text.contains("rt, poll: no function is named: it is no more"),
        "{text}"
    );
    let text = bills(&lab, &Style::plain());
    for part in ["200 instructions", "150", "75%", "do_sys_poll", "(user)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("rt, poll: no bill: it is no more"), "{text}");
}

#[test]
fn each_task_of_a_set_stands_on_each_kernel_beside_its_bound() {
    let lab = labs::executed();
    let text = punctual_report::lab::tables(&lab, &Style::plain());
    let rows: Vec<String> = text.lines().map(flat).collect();
    let has = |row: &str| assert!(rows.iter().any(|it| it == row), "{row}: {text}");
    has("idle: rt FAIL, standard FAIL");
    has("task deadline best p99.9 worst bound late best p99.9 worst bound late");
    has("control <b> 1,000 104 121 121 150 1 104 171 171 150 4");
    has("log 1,000 - - - - 0 - - - - 0");
    has("in to out reaction - 2,346 2,400 0 2,346 2,400 0");
    has("age 1,500 1,000 2,400 0 1,600 2,400 1");
    let said = flat(&text);
    let beyond = "standard, idle: control <b>: 220,654 ns where the analysis allows 150,000.";
    assert!(said.contains(beyond), "{text}");
    assert!(
        said.contains("Each figure stands on at least 0 jobs. 14 virtual seconds"),
        "{text}"
    );
    // A narrow terminal keeps what matters most.
    let narrow = punctual_report::lab::tables(
        &lab,
        &Style {
            width: 40,
            ..Style::plain()
        },
    );
    assert!(
        flat(&narrow).contains("control <b> 121 1 171 4"),
        "{narrow}"
    );
    let page = punctual_report::lab::page(&lab, "");
    for words in [
        "control &lt;b&gt;",
        "170,654",
        "1,600,000",
        "Verdict by load and machine",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("Worst wake-up by load"), "{page}");
    let fine = Lab {
        cells: lab.cells[..1].to_vec(),
        ..lab.clone()
    };
    let text = flat(&punctual_report::lab::tables(&fine, &Style::plain()));
    assert!(
        text.contains("No job took longer than its bound."),
        "{text}"
    );
}

#[test]
fn sets_are_compared_task_by_task_and_cells_are_counted_once() {
    let first = labs::executed();
    let mut second = first.clone();
    if let Some(figures) = &mut second.cells[1].tasks[0].figures {
        figures.max_ns += 46;
    }
    second.cells[1]
        .laboratory
        .as_mut()
        .unwrap()
        .fingerprint
        .result_sha256 = "other".to_owned();
    let text = comparison(&compare(&first, &second), &Style::plain());
    let said = flat(&text);
    assert!(
        said.contains("standard, idle: control <b> 170,654 170,700 +46"),
        "{text}"
    );
    assert!(said.contains("1 of 2 cells differ"), "{text}");
}

#[test]
fn bounds_stand_beside_the_latest_with_the_functions_around_their_windows() {
    let mut lab = pair();
    lab.cells[1].bound = Some(labs::bound(3_000));
    let mut other = lab.cells[1].clone();
    (other.seed, other.bound) = (2, Some(labs::bound(4_000)));
    lab.cells.push(other);
    lab.cells[0].no_bound = Some(NoBound::Policy);
    let shown = flat(&punctual_report::lab::tables(&lab, &Style::plain()));
    for words in [
        "load kernel max bound least bound ratio window from to",
        // 4,000 + 71 + 4,300, and 1,000 less with the other seed.
        "exit rt 5,010 8,371 7,371 1.67 4,000 __free_one_page exit_mmap, then \
         asm_sysvec_apic_timer_interrupt",
        "3,999 __free_one_page exit_mmap",
        "rt, idle: no bound: the probe has no real-time priority",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let page = punctual_report::lab::page(&lab, "");
    assert!(page.contains("How late a wake-up could have been") && page.contains("1.67"));
}

#[test]
fn what_another_architecture_executed_is_not_compared() {
    let one = lab(vec![cell("rt", "idle", 1, 4698)]);
    let mut other = lab(vec![cell("rt", "idle", 1, 8188)]);
    assert_eq!(compare(&one, &other).pairs.len(), 1);
    let laboratory = other.cells[0].laboratory.as_mut().expect("its origin");
    laboratory.architecture = Architecture::Arm64;
    let none = compare(&one, &other);
    assert!(none.pairs.is_empty(), "{none:?}");
    assert_eq!(none.alone.len(), 2, "{none:?}");
}
