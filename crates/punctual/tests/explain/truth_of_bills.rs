//! The requirements on bills of culprits that record when they ran:
//! examples/truth.

use crate::common::truth;
use crate::here;

/// A line of a culprit that was found every time, except for one figure.
fn line(key: &str, value: i64) -> serde_json::Value {
    let mut line = serde_json::json!({
        "culprit": "stop", "injected": 100, "blind": 0, "summed": 100, "named": 100, "numbered": 100, "timed": 95,
        "off_by_ns": 0, "explained": 95, "worst_ns": -70_000, "total_ns": 30_000_000, "residue_ns": 0,
    });
    line[key] = value.into();
    line
}

#[test]
fn bills_that_are_wrong_are_refused() {
    assert_eq!(truth::hold(&line("worst_ns", 0), here::HERE), Ok(()));
    for (key, value, what) in [
        ("injected", 29, "hardly ever in the way"),
        ("blind", 12, "too much was not seen"),
        ("summed", 99, "rows don't sum"),
        ("numbered", 79, "its thread is another one"),
        ("named", 79, "not named"),
        ("timed", 59, "its duration is not right"),
        ("off_by_ns", -5_001, "durations are not right"),
        ("explained", 89, "too many bills are unexplained"),
        ("traced", 11, "tracing takes its time"),
        ("traced_ns", 300_001, "tracing takes its time"),
        ("residue_ns", 7_500_001, "too much is unexplained"),
    ] {
        let held = truth::hold(&line(key, value), here::HERE);
        let Err(truth::Trouble::Wrong(why)) = held else {
            panic!("{key} {value}: {held:?}");
        };
        assert!(why.starts_with(what) || why.contains(what), "{why}");
    }
}

#[test]
fn only_a_hypervisors_agent_excuses_missing_events() {
    let line = line("agents", 40);
    assert_eq!(truth::hold(&line, here::HERE), Ok(()));
    let there = truth::Wanted {
        agent: false,
        ..here::HERE
    };
    let held = truth::hold(&line, there);
    assert!(matches!(held, Err(truth::Trouble::Wrong(why)) if why.contains("first process")));
}

#[test]
fn a_culprit_that_the_machine_cannot_inject_is_reported() {
    let mut line = line("injected", 0);
    line["skipped"] = "no device to be interrupted by".into();
    let why = "stop: no device to be interrupted by".to_owned();
    assert_eq!(
        truth::hold(&line, here::HERE),
        Err(truth::Trouble::Skipped(why))
    );
}
