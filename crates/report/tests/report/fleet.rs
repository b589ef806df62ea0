//! What is said and drawn of a dataset of many machines.

use punctual_record::Tool;
use punctual_record::fleet::{
    Answers, BillRow, CauseRow, ChangeRow, DayRow, ExceedanceRow, MachineRow, OutlierRow, Overview,
    PercentilesRow, RidgeRow, Setting, WorstRow,
};
use punctual_report::fleet::{PageFacts, page, summary};
use punctual_report::style::Style;
use serde_json::json;

fn setting() -> Setting {
    Setting {
        hardware: "board".to_owned(),
        bios: "F1".to_owned(),
        load: "standard load v1".to_owned(),
        source: "nanosleep".to_owned(),
    }
}

/// A small fleet, in which a machine has this name.
fn fleet(machine: &str) -> Answers {
    let name = || machine.to_owned();
    let kernel = || "6.12.1-rt".to_owned();
    Answers {
        overview: Overview {
            runs: 1_200,
            machines: 40,
            kernels: 3,
            first: Some("2026-11-01T02:00:00Z".to_owned()),
            last: Some("2026-11-27T02:00:00Z".to_owned()),
            samples: 10_000_000,
            skipped: 3,
            maximum_ns: Some(1_200_000),
            measured_s: 3.6e6,
            passed: 1_170,
            failed: 20,
            inconclusive: 7,
            invalid: 2,
        },
        percentiles: vec![PercentilesRow {
            kernel: kernel(),
            setting: setting(),
            runs: 400,
            machines: 40,
            samples: 3_000_000,
            p50_ns: Some(6_500),
            p99_ns: Some(12_000),
            p999_ns: Some(90_000),
            p9999_ns: None,
            maximum_ns: Some(1_200_000),
        }],
        exceedance: vec![ExceedanceRow {
            kernel: kernel(),
            setting: setting(),
            limit_ns: 100_000,
            runs: 400,
            machines: 40,
            cycles: 3_000_000,
            misses: 12,
            upper: 7.4e-6,
        }],
        outliers: vec![OutlierRow {
            machine: name(),
            kernel: kernel(),
            setting: setting(),
            limit_ns: 100_000,
            runs: 10,
            share: 0.004,
            lower: 0.0036,
            peers_share: 3.2e-6,
            peers_upper: 7e-6,
        }],
        changes: vec![ChangeRow {
            setting: setting(),
            limit_ns: 100_000,
            before: "6.1".to_owned(),
            kernel: kernel(),
            before_share: 0.001,
            share: 0.002,
            change: "worse".to_owned(),
            before_maximum_ns: Some(900_000),
            maximum_ns: None,
        }],
        causes: vec![CauseRow {
            kind: "interrupt".to_owned(),
            cause: "irq/45-eth0".to_owned(),
            machines: 12,
            runs: 30,
            bills: 300,
            share: 0.62,
            worst_ns: 700_000,
        }],
        worst: vec![WorstRow {
            machine: name(),
            started: "2026-11-27T02:00:00Z".to_owned(),
            kernel: kernel(),
            load: "none".to_owned(),
            verdict: None,
            maximum_ns: 1_200_000,
            samples: 10_000,
            record: "results/n17/3".to_owned(),
        }],
        machines: vec![MachineRow {
            machine: name(),
            runs: 10,
            failed: 2,
            maximum_ns: Some(1_200_000),
        }],
        days: vec![DayRow {
            machine: name(),
            day: "2026-11-27".to_owned(),
            runs: 10,
            failed: 2,
            maximum_ns: Some(1_200_000),
        }],
        bills: vec![BillRow {
            machine: name(),
            cause: "irq/45-eth0".to_owned(),
            share: 0.8,
            worst_ns: 700_000,
        }],
        ridges: vec![RidgeRow {
            kernel: kernel(),
            setting: setting(),
            low_ns: 1_024,
            high_ns: 1_151,
            n: 3_000_000,
        }],
    }
}

fn page_of(answers: &Answers) -> String {
    let facts = PageFacts {
        dataset: "farm<1>",
        tool: &Tool {
            name: "punctual".to_owned(),
            version: "0.1.0".to_owned(),
        },
        engine: "DuckDB v1.5.6",
    };
    page(answers, &facts)
}

#[test]
fn the_summary_says_who_stands_out_and_why() {
    assert_eq!(
        summary(&fleet("n17"), &Style::plain()),
        "1,200 runs of 40 machines on 3 kernels, from 2026-11-01 to 2026-11-27.\n\
         1,170 PASS, 20 FAIL, 7 INCONCLUSIVE, 3 without a requirement. 2 runs are INVALID and not counted.\n\
         n17 misses a limit more often than its peers, beyond chance.\n  \
         n17, 6.12.1-rt: 0.4 % beyond 100 µs, peers 3.2e-6; who stole the time: irq/45-eth0 (80 %)\n\
         Kernels that differ from the one before:\n  \
         6.1 to 6.12.1-rt on board: worse, 0.1 % to 0.2 % beyond 100 µs\n\
         Who stole the time: irq/45-eth0 (62 %)\n\
         The worst wake-up: 1.2 ms on n17: results/n17/3\n"
    );
    assert_eq!(
        summary(&Answers::default(), &Style::plain()),
        "0 runs of 0 machines on 0 kernels.\n\
         No runs with figures.\n\
         No machine misses a limit more often than its peers, beyond chance.\n"
    );
}

#[test]
fn a_hostile_name_is_text_and_nothing_is_loaded() {
    let name = "<script>alert(1)</script>\u{1b}[2J&\"'";
    let shown = page_of(&fleet(name));
    assert!(!shown.contains("<script"), "{shown}");
    assert!(!shown.contains('\u{1b}'));
    assert!(!shown.contains("http://") && !shown.contains("https://"));
    assert!(!summary(&fleet(name), &Style::plain()).contains('\u{1b}'));
    assert!(shown.contains("Fleet: farm&lt;1&gt;"));
}

#[test]
fn a_page_has_what_there_is() {
    let shown = page_of(&fleet("n17"));
    for id in [
        "outliers",
        "requirements",
        "machines",
        "kernels",
        "changes",
        "causes",
        "worst",
        "read",
    ] {
        assert_eq!(
            shown.matches(&format!("<h2 id=\"{id}\"")).count(),
            1,
            "{id}"
        );
        assert_eq!(shown.matches(&format!("href=\"#{id}\"")).count(), 1, "{id}");
    }
    // What all rows have in common is said once, not in a column.
    assert!(shown.contains("all on board, BIOS F1, load standard load v1, woken up by nanosleep"));
    assert!(!shown.contains(">kind</th>"));
    let empty = page_of(&Answers::default());
    assert_eq!(empty.matches("<h2 ").count(), 1);
}

#[test]
fn a_long_table_is_cut_and_says_where_the_rest_is() {
    let mut answers = fleet("n17");
    let row = answers.exceedance[0].clone();
    answers.exceedance = (0..100)
        .map(|number| ExceedanceRow {
            kernel: format!("6.{number}"),
            upper: f64::from(number) / 1e6,
            ..row.clone()
        })
        .collect();
    let shown = page_of(&answers);
    assert!(shown.contains("60 of 100 rows. All of them: punctual fleet sql DATASET exceedance"));
    // Those that may miss most stay.
    assert!(shown.contains(">6.99</th>") && !shown.contains(">6.39</th>"));
}

#[test]
fn rows_are_read_by_their_columns() {
    let row = json!({
        "kernel": "k", "hardware": "h", "bios": "", "load": "l", "source": "s", "limit_ns": 5,
        "runs": 1, "machines": 1, "runs_with_miss": 0, "cycles": 10, "misses": 0, "dispersion": 1.0,
        "share": 0.0, "upper": 0.3,
    });
    let row: ExceedanceRow = serde_json::from_value(row).expect("a row");
    assert_eq!((row.setting.hardware.as_str(), row.upper), ("h", 0.3));
}
