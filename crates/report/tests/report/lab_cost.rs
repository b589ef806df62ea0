//! Instructions per operation in tables, on figures that are known.

use punctual_record::lab::{Lab, LabCell, Operation};
use punctual_record::laboratory::Architecture;
use punctual_report::lab::{Allowance, cost_comparison, gate, gate_text, page, tables};
use punctual_report::style::Style;

use super::labs;

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of a table, each without its padding; none is too long or ends in a space.
fn lines(text: &str, width: usize) -> Vec<String> {
    for line in text.lines() {
        assert!(
            line.chars().count() <= width && !line.ends_with(' '),
            "{line:?}"
        );
    }
    text.lines().map(words).collect()
}

#[test]
fn columns_stand_beside_each_other_and_their_ratios_to_the_first_below() {
    let text = tables(&labs::costs(), &Style::plain());
    let all = lines(&text, 80);
    let after = |title: &str| {
        let at = all.iter().position(|line| line == title);
        &all[at.unwrap_or_else(|| panic!("{title}: {text}")) + 1..]
    };
    assert_eq!(
        after("Instructions per operation")[..6],
        [
            "standard standard rt",
            "preempt= preempt=",
            "none ful",
            "operation <b>",
            // 30,030 instructions of 100, the median of three batches.
            "call 300.3 303.3 -",
            "pipe 10,000 13,755 -",
        ]
    );
    // 30,330 by 30,030 and 1,375,530 by 1,000,030.
    assert_eq!(
        after("Ratio to standard preempt=none")[4..6],
        ["call 1.010 -", "pipe 1.375 -"]
    );
    let said = words(&text);
    for part in [
        "standard preempt=ful <b>: this kernel doesn't know preempt=ful: it changed nothing.",
        "rt: no result: in the guest: exit status 137.",
        "the scheduler decides",
    ] {
        assert!(said.contains(part), "{part}: {text}");
    }
    // Three batches have no middle half.
    assert!(!said.contains("Half of the batches"), "{text}");
}

#[test]
fn two_columns_have_their_ratio_beside_them_and_many_are_divided() {
    let mut lab = labs::costs();
    lab.cells.truncate(2);
    let text = tables(&lab, &Style::plain());
    assert!(
        lines(&text, 80).contains(&"pipe 10,000 13,755 1.375".to_owned()),
        "{text}"
    );
    for number in 0..6 {
        let kernel = format!("standard a.long.parameter={number}");
        lab.cells.push(LabCell {
            kernel,
            ..lab.cells[1].clone()
        });
    }
    let narrow = Style {
        width: 50,
        ..Style::plain()
    };
    let text = tables(&lab, &narrow);
    let names = lines(&text, 50);
    let names = names.iter().filter(|line| line.starts_with("pipe "));
    assert!(names.count() > 3, "{text}");
}

#[test]
fn a_page_says_what_each_operation_is() {
    let page = page(&labs::costs(), "");
    for part in [
        "10,000",
        "13,755 × 1.375",
        "getppid, a system call",
        "preempt=ful &lt;b&gt;",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Worst wake-up"));
}

#[test]
fn labs_are_compared_operation_by_operation() {
    let (mut first, second) = (labs::costs(), labs::costs());
    if let Some(cost) = &mut first.cells[1].cost {
        *cost = labs::cost(300, 10_000);
        cost.operations.push(labs::operation(Operation::Fork, 1));
    }
    let text = cost_comparison(&first, &second, &Style::plain()).expect("both counted");
    let all = lines(&text, 80);
    for line in [
        "standard preempt=none",
        "pipe 10,000 10,000 1.000",
        "pipe 10,000 13,755 1.375",
    ] {
        assert!(all.contains(&line.to_owned()), "{line}: {text}");
    }
    assert!(!all.iter().any(|line| line.starts_with("fork")), "{text}");
    assert_eq!(
        cost_comparison(&labs::lab(), &second, &Style::plain()),
        None
    );
    // An instruction of one processor is none of another.
    for cell in &mut first.cells {
        if let Some(laboratory) = &mut cell.laboratory {
            laboratory.architecture = Architecture::Arm64;
        }
    }
    assert_eq!(cost_comparison(&first, &second, &Style::plain()), None);
}

#[test]
fn a_gate_compares_each_operation_with_what_it_may_grow_by() {
    let before = labs::costs();
    let mut now: Lab = labs::costs();
    now.cells[0].cost = Some(labs::cost(310, 10_050));
    let allow = |pipe: u64, others: u64| Allowance {
        median: true,
        worst: true,
        others_ns: others,
        loads_ns: [("pipe".to_owned(), pipe)].into(),
    };
    let passes = |allowance: &Allowance| gate(&before.cells[..2], &now, allowance).passes();
    assert!(passes(&allow(50, 10)));
    assert!(!passes(&allow(49, 10)));
    assert!(!passes(&allow(50, 9)));
    let text = gate_text(
        &gate(&before.cells[..2], &now, &allow(49, 10)),
        &Style::plain(),
    );
    let all: Vec<String> = text.lines().map(words).collect();
    let row = "standard preempt=none, idle pipe 10,000 10,050 +50 49 FAIL";
    assert!(all.contains(&row.to_owned()), "{text}");
    now.cells[0].cost = None;
    let text = words(&gate_text(
        &gate(&before.cells[..2], &now, &allow(50, 10)),
        &Style::plain(),
    ));
    assert!(text.contains("call was not counted"), "{text}");
}
