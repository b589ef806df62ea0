//! What the bills of a run ask for, in words.

use punctual_record::document::Printed;
use punctual_record::finding::{
    Check, Fault, Finding, FindingFix, FindingId, FindingState, NotApplicable, Unknown,
};
use punctual_record::remedy::BillsAsk;
use punctual_report::findings::summary;
use punctual_report::proposals::proposals;
use punctual_report::style::Style;

use super::fixtures;

/// A check in which findings are bad, depend, are unknown, ok or not applicable in turn.
fn check(hostile: &str) -> Check {
    let text = || hostile.to_owned();
    let state = |at: usize| match at % 5 {
        0 => FindingState::Bad {
            fault: Fault::Present(vec![text().into(); 3]),
        },
        1 => FindingState::Information {
            fault: Some(Fault::Above(1)),
        },
        2 => FindingState::Unknown {
            why: Unknown::Unreadable(text()),
        },
        3 => FindingState::Ok,
        _ => FindingState::NotApplicable {
            why: NotApplicable::FewCpus,
        },
    };
    let fixes = vec![
        FindingFix::Write {
            path: text(),
            value: text(),
        },
        FindingFix::Boot { parameter: text() },
        FindingFix::HoldDmaLatency { limit_us: 0 },
        FindingFix::ByHand,
        FindingFix::ByHand,
    ];
    let finding = |(at, id): (usize, &FindingId)| Finding {
        id: *id,
        state: state(at),
        readings: Vec::new(),
        fixes: fixes.clone(),
    };
    Check {
        version: Check::VERSION,
        hostname: text(),
        kernel: text(),
        cpus: vec![1],
        every_cpu: false,
        priority: Check::PRIORITY,
        findings: FindingId::ALL.iter().enumerate().map(finding).collect(),
    }
}

/// Each knob stands once, under the state that its finding has, and each obstacle has a hint.
#[test]
fn every_knob_stands_under_its_state() {
    let run = fixtures::explained_hostile();
    let check = check("x");
    let ask = BillsAsk::of(&run, Some(&check)).expect("bills");
    let text = proposals(&run, &ask, &check, "run-1", &Style::plain());
    assert!(text.starts_with("run-1: 30 late wake-ups, "), "{text}");
    for (knob, _) in &ask.knobs {
        let state = &check.finding(*knob).expect("each").state;
        let alone = text.matches(&format!("\n  {knob}\n")).count();
        let fine = matches!(state, FindingState::Ok | FindingState::NotApplicable { .. });
        assert_eq!(alone, usize::from(!fine), "{knob}: {text}");
        if fine {
            let list = text.split("Ok here or not applicable: ").nth(1);
            assert!(
                list.is_some_and(|list| list.contains(knob.name())),
                "{knob}"
            );
        }
    }
    let hints = text.matches("\n    hint ").count();
    assert_eq!(hints, ask.obstacles.len());
    assert!(
        text.contains("and 1 more: punctual check --explain"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn nothing_of_a_run_or_a_machine_controls_a_terminal() {
    let run = fixtures::explained_hostile();
    let check = check("a\u{1b}[2J\u{7}b");
    let ask = BillsAsk::of(&run, Some(&check)).expect("bills");
    let mut style = Style::plain();
    let text = proposals(&run, &ask, &check, "a\u{1b}[2J", &style);
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    // With colours the same characters stand between them.
    style.colour = true;
    for coloured in [
        proposals(&run, &ask, &check, "run", &style),
        summary(&check, &style),
    ] {
        let painted = |code: &str| coloured.contains(&format!("\u{1b}[{code}m"));
        assert!(painted("1") && painted("0"), "{coloured:?}");
        assert!(!coloured.contains("?[1m"), "{coloured:?}");
        assert!(!coloured.contains("\u{1b}[2J"), "{coloured:?}");
    }
}
