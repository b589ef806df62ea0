//! What a fit says: each end, its page, and what makes its changes again after a reboot.

use std::path::Path;

use punctual_record::Tool;
use punctual_record::explanation::Cause;
use punctual_record::finding::FindingId;
use punctual_record::fit::*;
use punctual_record::remedy::Obstacle;
use punctual_record::tuning::{Setting, ThreadIdentity};
use punctual_report::fit;
use punctual_report::style::Style;
use punctual_stats::experiment::KnobConclusion;
use punctual_stats::verdict::Outcome;

const SECOND: u64 = 1_000_000_000;

fn step(directory: &str, what: FitWork) -> FitStep {
    FitStep {
        directory: directory.to_owned(),
        what,
        length_ns: 62 * SECOND,
    }
}

fn qualified(on: &[FindingId], outcome: Outcome, asked: &[FindingId]) -> FitWork {
    FitWork::Qualify {
        on: on.to_vec(),
        outcome,
        samples: 60_000,
        late: 321,
        max_ns: 1_230_000,
        asked: asked.to_vec(),
    }
}

/// A deadline that is met with one of two knobs.
fn met() -> Fit {
    let thread = ThreadIdentity {
        tid: 15,
        name: "ksoftirqd/1".to_owned(),
        start: 44,
    };
    let kept = |knob, setting, value: &str| KeptSetting {
        knob,
        setting,
        value: value.to_owned(),
    };
    let file = |path: &str| Setting::File {
        path: path.to_owned(),
    };
    let proven = |knob, conclusion, ratio| ProvenKnob {
        knob,
        conclusion,
        ratio,
    };
    let asked = [FindingId::VmstatInterval, FindingId::Ksm];
    Fit {
        version: FIT_VERSION,
        tool: Tool {
            name: "punctual".to_owned(),
            version: "0.1.0".to_owned(),
        },
        command: vec!["punctual".to_owned(), "fit".to_owned()],
        hostname: "rt-box".to_owned(),
        kernel: "6.1.0-rt".to_owned(),
        started: "2026-11-23T20:00:00Z".to_owned(),
        deadline_ns: 50_000,
        load: "standard load v1".to_owned(),
        cpus: vec![2, 3],
        tuned_for: vec![2, 3],
        priority: 80,
        budget_ns: 7_200 * SECOND,
        steps: vec![
            step("01-qualify", qualified(&[], Outcome::Fail, &asked)),
            step(
                "02-prove",
                FitWork::Prove {
                    knobs: vec![
                        proven(asked[0], KnobConclusion::Helps, Some(0.4)),
                        proven(asked[1], KnobConclusion::NoEffectShown, None),
                    ],
                    is_valid: true,
                    needed_ns: None,
                },
            ),
            step("03-qualify", qualified(&asked[..1], Outcome::Pass, &[])),
        ],
        obstacles: vec![FitObstacle {
            obstacle: Obstacle::Host,
            causes: vec![Cause::Steal],
            total_ns: 5_000_000,
            worst_ns: 900_000,
        }],
        kept: vec![
            kept(
                FindingId::VmstatInterval,
                file("/proc/sys/vm/stat_interval"),
                "10",
            ),
            kept(
                FindingId::DirtyWriteback,
                Setting::Pair {
                    first: "/proc/sys/vm/dirty_ratio".to_owned(),
                    second: "/proc/sys/vm/dirty_bytes".to_owned(),
                },
                "/proc/sys/vm/dirty_bytes 1048576",
            ),
            kept(FindingId::Ksm, file("/sys/kernel/mm/ksm/run"), "0"),
            kept(
                FindingId::IrqAffinity,
                file("/proc/irq/24/smp_affinity_list"),
                "0-1",
            ),
            kept(
                FindingId::SoftirqThreads,
                Setting::Scheduling { thread },
                "1 50 0",
            ),
        ],
        outcome: Some(FitOutcome::Met {
            knobs: vec![asked[0]],
            untried: Vec::new(),
        }),
    }
}

#[test]
fn what_is_kept_is_made_again_after_a_reboot() {
    let files = fit::persistent(&met(), Path::new("/var/lib/punctual"));
    let text = |name: &str| &files.iter().find(|it| it.0 == name).expect(name).1;
    assert_eq!(
        text("90-punctual.sysctl.conf"),
        "# Copy to /etc/sysctl.d/90-punctual.conf\nvm/stat_interval = 10\nvm/dirty_bytes = 1048576\n"
    );
    assert_eq!(
        text("punctual.tmpfiles.conf"),
        "# Copy to /etc/tmpfiles.d/punctual.conf\nw /sys/kernel/mm/ksm/run - - - - 0\n"
    );
    let unit = text("punctual-tune.service");
    let start = "ExecStart=punctual tune apply -a 2-3 -p 80 --state /var/lib/punctual irq-affinity \
                 softirq-threads\n";
    assert!(unit.contains(start), "{unit}");
    let mut none = met();
    none.kept.clear();
    assert!(fit::persistent(&none, Path::new("/x")).is_empty());
}

#[test]
fn the_summary_says_what_was_tried_and_what_is_kept() {
    let text = fit::summary(&met(), &Style::plain());
    let joined: Vec<&str> = text.split_whitespace().collect();
    let joined = joined.join(" ");
    for part in [
        "PASS: the machine meets 50 µs with vmstat-interval; they stay changed",
        "01-qualify: FAIL, 321 of 60,000 wake-ups late, the worst 1.23 ms; its bills ask for \
         vmstat-interval, ksm",
        "02-prove: vmstat-interval helps (-60 %); ksm: no effect shown",
        "echo 10 > /proc/sys/vm/stat_interval",
    ] {
        assert!(joined.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("What no setting helps against"), "{text}");
}

#[test]
fn every_end_has_a_sentence_a_page_and_an_exit_code() {
    let knobs = vec![FindingId::Ksm];
    let ends = [
        (FitOutcome::MetAlready, 0, "nothing was changed"),
        (
            FitOutcome::Met {
                knobs: knobs.clone(),
                untried: knobs.clone(),
            },
            0,
            "was not tried",
        ),
        (FitOutcome::NothingToTurn, 2, "nothing was changed"),
        (FitOutcome::NothingHelps, 2, "everything was restored"),
        (
            FitOutcome::NotEnough { knobs },
            2,
            "ksm helps, but not enough",
        ),
        (
            FitOutcome::BudgetTooSmall {
                needed_ns: 601 * SECOND,
            },
            3,
            "give --budget 11m",
        ),
        (FitOutcome::TooLittleEvidence, 3, "give a longer -D"),
        (FitOutcome::Stopped, 3, "ended by a signal"),
        (FitOutcome::Invalid, 4, "not valid"),
    ];
    for (outcome, status, part) in ends {
        assert_eq!(outcome.verdict().exit_code(), status, "{outcome:?}");
        let word = outcome.verdict().word();
        let mut made = met();
        made.hostname = "<script>".to_owned();
        made.outcome = Some(outcome);
        let sentence = fit::sentence(&made);
        assert!(
            sentence.starts_with(word) && sentence.contains(part),
            "{sentence}"
        );
        let mut style = Style::plain();
        for line in fit::summary(&made, &style).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        style.unicode = false;
        assert!(fit::summary(&made, &style).is_ascii());
        let page = fit::page(&made);
        assert!(!page.contains("<script>") && page.contains("01-qualify/report.html"));
        // What was saved is read as it was.
        let text = serde_json::to_string(&made).expect("it");
        assert_eq!(serde_json::from_str::<Fit>(&text).expect("it"), made);
    }
}
