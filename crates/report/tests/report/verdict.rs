//! The words of verdicts: made of the figures alone, so that another wording changes no verdict.

use punctual_record::watch::KilledProgram;
use punctual_record::{Judgement, Run, analyse_record};
use punctual_report::{statements, summary_json, verdict};
use punctual_stats::miss::{MissBound, StallLengths, TimeUnknown};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::{InvalidEvidence, Outcome, RequirementResult, Seen, Verdict};
use serde_json::Value;

use super::support::run;
use super::verdicts::{
    bound, every_kind, every_reason, gaps, invalid, judgement, length, no_miss, waking,
};

fn said(requirements: Vec<RequirementResult>) -> String {
    verdict::sentence(&judgement(requirements, Vec::new()))
}

#[test]
fn programs_that_a_signal_ended_and_wake_ups_that_went_unseen_are_in_the_sentence() {
    let killed = |pid, signal| KilledProgram {
        program: "rt-loop".to_owned(),
        pid,
        signal,
    };
    let asked = |outcome| judgement(vec![waking(1e-4, outcome, no_miss())], Vec::new());
    let one = Judgement {
        killed: vec![killed(312, 24)],
        ..asked(Outcome::Pass)
    };
    let end = "allowed 0.01 %. rt-loop (312) was ended by SIGXCPU (RLIMIT_RTTIME or RLIMIT_CPU).";
    assert!(
        verdict::sentence(&one).ends_with(end),
        "{}",
        verdict::sentence(&one)
    );
    let many = Judgement {
        killed: (1..=5).map(|pid| killed(pid, 40)).collect(),
        unseen: 3,
        ..asked(Outcome::Inconclusive)
    };
    let said = verdict::sentence(&many);
    let end = "rt-loop (3) was ended by signal 40, 2 more programs were ended by signals.";
    assert!(said.ends_with(end), "{said}");
    assert!(
        said.contains(" 3 wake-ups went unseen, and each may have been late."),
        "{said}"
    );
}

#[test]
fn episodes_are_named_with_their_gap_and_their_bound_an_hour() {
    let asked = |outcome, bound| {
        let mut result = waking(0.0, outcome, bound);
        result.requirement = Requirement::Episodes {
            deadline_ns: 100_000,
            per_hour: 20.5,
        };
        said(vec![result])
    };
    assert_eq!(
        asked(Outcome::Pass, no_miss()),
        "PASS: misses of 100 µs came in 0 episodes (less than 1 s apart is one) under standard-load; \
         with 95 % confidence fewer than 108, allowed 20.5 an hour."
    );
    assert_eq!(
        asked(Outcome::Fail, bound()),
        "FAIL: misses of 100 µs came in 2 episodes (less than 1 s apart is one) under standard-load; \
         with 95 % confidence at least 12.9, allowed 20.5 an hour."
    );
}

#[test]
fn a_pass_names_the_sample_the_load_the_confidence_and_what_is_allowed() {
    let good = waking(1e-4, Outcome::Pass, no_miss());
    assert_eq!(
        said(vec![good.clone()]),
        "PASS: no wake-up in 100,000 was later than 100 µs under standard-load; with 95 % \
         confidence fewer than 0.0046 %, allowed 0.01 %."
    );
    let unloaded = Judgement {
        load: None,
        ..judgement(vec![good], Vec::new())
    };
    assert!(verdict::claim(&unloaded).contains("later than 100 µs; with 95 %"));
    let mut skipped = waking(0.0, Outcome::Pass, no_miss());
    for (count, words) in [
        (1, "(1 skipped period)"),
        (1_234, "(1,234 skipped periods)"),
    ] {
        skipped.seen = Seen::WakeUps {
            samples: 99_999,
            skipped: count,
            worst_ns: None,
        };
        let sentence = said(vec![skipped.clone()]);
        let seen = format!("no wake-up in 99,999 was later than 100 µs {words} under");
        assert!(sentence.contains(&seen), "{sentence}");
        assert!(
            sentence.ends_with("fewer than 4.6e-5, none is allowed."),
            "{sentence}"
        );
    }
}

#[test]
fn a_fail_names_how_many_missed_of_which_kind_in_how_many_bursts_and_the_worst() {
    let failed = |allowed| waking(allowed, Outcome::Fail, bound());
    assert_eq!(
        said(vec![failed(1e-6)]),
        "FAIL: 4 of 100,000 cycles missed 100 µs (3 late, 1 skipped; 2 bursts; worst 1.52 ms) \
         under standard-load; with 95 % confidence at least 1.2e-5, allowed 1e-6."
    );
    let sentence = said(vec![failed(0.0)]);
    assert!(
        sentence.ends_with("under standard-load; none is allowed."),
        "{sentence}"
    );
    let many = MissBound {
        misses: 50,
        late: 1,
        missed: 49,
        observed_probability: 5.1e-4,
        bursts: Some(1),
        ..bound()
    };
    let mut result = waking(1e-5, Outcome::Fail, many.clone());
    result.seen = Seen::WakeUps {
        samples: 99_740,
        skipped: 260,
        worst_ns: Some(60_000_000),
    };
    let sentence = said(vec![result]);
    let seen = "0.051 % of 100,000 cycles missed 100 µs (1 late, 49 of 260 skipped; 1 burst; \
                worst 60 ms)";
    assert!(sentence.contains(seen), "{sentence}");
    let unknown = MissBound {
        bursts: None,
        ..many
    };
    let sentence = said(vec![waking(1e-5, Outcome::Fail, unknown)]);
    assert!(
        sentence.contains("(1 late, 49 skipped; worst 1.52 ms)"),
        "{sentence}"
    );
}

#[test]
fn an_open_verdict_says_how_long_to_run_or_why_no_time_would_do() {
    let open = |bound, needed: Option<(u64, u64)>, never| RequirementResult {
        needed_seconds: needed.map(|(likely, _)| likely),
        needed_without_miss_seconds: needed.map(|(_, least)| least),
        never,
        ..waking(1e-5, Outcome::Inconclusive, bound)
    };
    let ends = |result: RequirementResult, repeats, words: &str| {
        let judgement = Judgement {
            repeats,
            ..judgement(vec![result], Vec::new())
        };
        let sentence = verdict::sentence(&judgement);
        let shown = "% with 95 % confidence, allowed 0.001 %.";
        assert!(
            sentence.contains(shown) || sentence.contains("e-5 with 95 %"),
            "{sentence}"
        );
        assert!(sentence.ends_with(words), "{sentence}");
    };
    let times = Some((7_200, 600));
    ends(
        open(no_miss(), times, None),
        false,
        " Run 10 min longer: enough if no miss comes. 2 h longer is enough for 9 in 10 machines \
         that miss half as often as is allowed.",
    );
    ends(
        open(bound(), times, None),
        false,
        " Run 2 h longer: 9 in 10 such runs then pass if misses come as they did (10 min if none \
         comes).",
    );
    // In virtual time the same run ends the same: nothing is said of a share of machines.
    ends(
        open(no_miss(), times, None),
        true,
        " Run 10 min longer: enough if no miss comes.",
    );
    ends(
        open(bound(), times, None),
        true,
        " Run 2 h longer: enough if misses come as they did (10 min if none comes).",
    );
    for (never, words) in [
        (
            TimeUnknown::NothingAllowed,
            "no finite run shows that nothing is ever late.",
        ),
        (
            TimeUnknown::RateTooHigh,
            "misses were as frequent as allowed or more so.",
        ),
        (
            TimeUnknown::TooFewBursts,
            "another burst like those seen would make misses as frequent as allowed.",
        ),
        (
            TimeUnknown::Unseen,
            "wake-ups went unseen, and each of them may have been late.",
        ),
        (TimeUnknown::NoCycles, "there were no cycles."),
        (
            TimeUnknown::TooLong,
            "it would take more than a thousand years.",
        ),
    ] {
        let words = format!(" A longer run will not show it as things are: {words}");
        ends(open(bound(), None, Some(never)), false, &words);
    }
}

#[test]
fn an_open_verdict_says_why_its_bound_is_far_above_what_was_seen() {
    let open = |stalls: u64, heavy: bool, allowed: f64| {
        let stalls = Some(StallLengths {
            stalls,
            longest_share: 0.71,
            heavy,
        });
        let bound = MissBound { stalls, ..bound() };
        said(vec![waking(allowed, Outcome::Inconclusive, bound)])
    };
    for (stalls, heavy, words) in [
        (
            1,
            true,
            " Only 1 stall was seen: how long others are is hardly known.",
        ),
        (
            29,
            false,
            " Only 29 stalls were seen: how long others are is hardly known.",
        ),
        (
            64,
            true,
            " The three longest of 64 stalls hold 71 % of the misses: longer ones are to be expected.",
        ),
    ] {
        let sentence = open(stalls, heavy, 1e-5);
        assert!(sentence.contains(words), "{sentence}");
    }
    for sentence in [open(64, false, 1e-5), open(1, true, 0.0)] {
        assert!(!sentence.contains("stall"), "{sentence}");
    }
}

#[test]
fn gaps_and_lengths_have_their_own_sentences() {
    assert_eq!(
        said(vec![gaps(0, None)]),
        "PASS: no gap in 9 s watched (90.0 % of the time) under standard-load was longer than \
         50 µs."
    );
    let mut untold = gaps(0, None);
    untold.outcome = Outcome::Inconclusive;
    if let Seen::Gaps { time, .. } = &mut untold.seen {
        time.untold_ns = 150_000;
    }
    assert_eq!(
        said(vec![untold]),
        "INCONCLUSIVE: no gap in 9 s watched (90.0 % of the time) under standard-load was longer \
         than 50 µs, but one of 150 µs may count: it was not kept, or its events are missing."
    );
    for (count, words) in [(1, "1 gap"), (2, "2 gaps")] {
        assert_eq!(
            said(vec![gaps(count, Some(70_000))]),
            format!(
                "FAIL: {words} (worst 70 µs) in 9 s watched (90.0 % of the time) under \
                 standard-load longer than 50 µs; none may be."
            )
        );
    }
    for (result, sentence) in [
        (
            length(Outcome::Pass, 2_402, 0, Some(500_000)),
            "PASS: none of 2,402 step() took longer than 500 µs.",
        ),
        (
            length(Outcome::Fail, 2_402, 3, Some(1_370_000)),
            "FAIL: 3 of 2,402 step() took longer than 500 µs (the longest 1.37 ms); none may.",
        ),
        (
            length(Outcome::Inconclusive, 0, 0, None),
            "INCONCLUSIVE: no step() was measured.",
        ),
    ] {
        assert_eq!(
            verdict::sentence(&judgement(Vec::new(), vec![result])),
            sentence
        );
    }
}

#[test]
fn of_several_the_deciding_ones_are_said_and_each_is_a_reason() {
    let good = RequirementResult {
        requirement: Requirement::Max { limit_ns: 100_000 },
        ..waking(0.0, Outcome::Pass, no_miss())
    };
    let bad = waking(1e-6, Outcome::Fail, bound());
    let steps = length(Outcome::Fail, 2_402, 3, Some(1_370_000));
    let several = judgement(vec![good.clone(), bad], vec![steps]);
    let sentence = verdict::sentence(&several);
    assert!(!sentence.contains("no wake-up"), "{sentence}");
    for part in [
        "FAIL: 4 of 100,000 cycles",
        "allowed 1e-6. 3 of 2,402 step()",
    ] {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert_eq!(
        verdict::reasons(&several),
        [
            "PASS: maximum at most 100 µs",
            "FAIL: at most 1 in 1 million cycles miss 100 µs",
            "FAIL: step() at most 500 µs"
        ]
    );
    assert_eq!(
        verdict::reasons(&judgement(vec![good], Vec::new())),
        [""; 0]
    );
    let nothing = judgement(Vec::new(), Vec::new());
    assert_eq!(
        verdict::sentence(&nothing),
        "INCONCLUSIVE: nothing was required"
    );
}

#[test]
fn what_a_best_effort_went_without_is_part_of_the_sentence() {
    let under = |load: Option<&str>| {
        let judgement = Judgement {
            load: load.map(str::to_owned),
            ..every_kind()
        };
        verdict::claim(&judgement)
    };
    for (load, words) in [
        (
            Some("fork"),
            "under fork, at best effort (SCHED_OTHER, memory not locked)",
        ),
        (
            None,
            "under no load, at best effort (SCHED_OTHER, memory not locked)",
        ),
    ] {
        let claim = under(load);
        assert!(claim.contains(words), "{claim}");
    }
}

#[test]
fn an_invalid_run_says_why_and_claims_nothing() {
    let invalid = invalid();
    let words = [
        "affinity: requested one thread each on CPU 0, found the thread for CPU 0 may run on 0-1",
        "1,337 of 8,000 cycles lay within stops, or just after them, where 5 % are allowed",
        "the thread controller/7 never woke up",
        "programs were not followed, and nothing of them was measured",
        "1 thread was not followed, and nothing of it was measured: there was room for 64",
        "2 threads were not followed, and nothing of them was measured: there was room for 64",
        "more than 2 threads were not followed, and nothing of them was measured: there was room \
         for 64",
        "step() has a limit and was not seen: no thread for the tracing: EPERM; free some memory",
        "the lengths of 1,234 passes of step() were lost",
        "1,234 passes of step() were not measured to their end, which may have taken longer than \
         its limit",
        "1,234 passes of step() were by threads that were not recorded for lack of space",
        "step() has a limit and was never passed",
        "step() has a limit, and no length of it was measured",
        "step() has a limit, and only threads of ordinary priority passed it (--all watches \
         them too)",
        "CPU 1, which is probed, was taken offline",
        "the load fork failed: EPERM",
        "the load fork did nothing",
        "the load fork did no work in 2.0 of 10.0 s, where 10 % of the time is allowed (the \
         number of its forks did not grow, or processes of it were stopped)",
        "the load fork did no work in 2.0 of 10.0 s, where 10 % of the time is allowed (its \
         processes used less than 1.5 ms of CPU time per second, or some were stopped; \
         --load-work sets that least, and 0 turns the check off)",
        "the load fork failed: in one of the runs it did no work in 2.0 of 10.0 s, where 10 % of \
         the time is allowed (the number of its forks did not grow, or processes of it were \
         stopped)",
        "the probe thread on CPU 3 ended early: the wait failed: EPERM",
        "the measuring process was stopped for 0.51 s, 5.1 % of the run, where 5 % are allowed",
        "threads of the watched program were stopped for 0.51 s, 5.1 % of the run, where 5 % are \
         allowed",
        "it was cut off, and its last checks are missing: leave its record out",
        "no wake-up was measured",
        "the thread on CPU 1 never woke up",
        "nothing was watched",
        "1 sample was lost",
        "2,345 samples were lost",
        "run 3: the measuring process was stopped for 0.51 s, 5.1 % of the run, where 5 % are allowed",
    ];
    let reasons: Vec<String> = every_reason().iter().map(verdict::reason).collect();
    assert_eq!(reasons, words);
    assert_eq!(
        verdict::sentence(&invalid),
        format!("INVALID: {}", words.join("; "))
    );
    let requirement = verdict::requirement(&invalid.verdict.requirements[0], &invalid);
    assert_eq!(
        requirement,
        "0.004 % of 100,000 cycles missed 100 µs (3 late, 1 skipped; 2 bursts; worst 1.52 ms) \
         under standard-load."
    );
}

/// It may come from anywhere, and is shown as it is.
#[test]
fn a_verdict_that_does_not_follow_from_its_record_is_said_to_lack_its_reason() {
    let mut run = run(1);
    run.verdict = run.verdict.map(Verdict::invalidated);
    let sentence = statements::headline(&run).sentence;
    assert_eq!(sentence, "INVALID: the record does not hold the reason");
    let mut alone = judgement(vec![waking(1e-4, Outcome::Pass, no_miss())], Vec::new());
    alone.verdict.outcome = Outcome::Fail;
    let sentence = verdict::sentence(&alone);
    assert_eq!(sentence, "FAIL: the record does not hold the reason");
}

/// Every text in a value, with its place.
fn texts(value: &Value, place: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((place.to_owned(), text.clone())),
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.for_each(|(at, value)| texts(value, &format!("{place}[{at}]"), found));
        }
        Value::Object(fields) => {
            let each = fields.iter();
            each.for_each(|(name, value)| texts(value, &format!("{place}.{name}"), found));
        }
        _ => {}
    }
}

/// Names that the caller gave apart, nothing in a verdict has a blank: it holds no sentence, and no
/// wording of ours can change it.
#[test]
fn no_verdict_of_any_kind_holds_a_sentence() {
    let mut seen = 0;
    for judgement in [every_kind(), invalid()] {
        let mut found = Vec::new();
        texts(&serde_json::to_value(&judgement).unwrap(), "", &mut found);
        for (place, text) in &found {
            assert!(!text.contains(char::is_whitespace), "{place}: {text:?}");
        }
        seen += found.len();
    }
    assert!(seen > 100, "{seen} texts");
}

#[test]
fn a_record_holds_no_word_of_its_verdict() {
    let mut judged: Vec<Run> = vec![run(1)];
    let mut lossy = run(2);
    lossy.threads[0].lost = 3;
    lossy.demands[0].standing = punctual_record::Standing::NotInForce;
    let analysis = analyse_record(&lossy).unwrap();
    lossy.conclude(analysis);
    judged.push(lossy);
    let mut open = run(3);
    open.request.requirements[0] = Requirement::MissProbability {
        deadline_ns: 100_000,
        allowed: 1e-9,
    };
    let analysis = analyse_record(&open).unwrap();
    open.conclude(analysis);
    judged.push(open);
    for run in &judged {
        let mut found = Vec::new();
        let record = serde_json::to_value(run).unwrap();
        for part in ["verdict", "analysis"] {
            texts(&record[part], part, &mut found);
        }
        for (place, text) in &found {
            assert!(!text.contains(char::is_whitespace), "{place}: {text:?}");
        }
        let sentence = statements::headline(run).sentence;
        let text = record.to_string();
        assert!(!text.contains(&sentence), "{sentence}");
        // The summary has it, beside the same data.
        let summary: Value = serde_json::from_str(&summary_json::summary(run)).unwrap();
        assert_eq!(summary["verdict"]["sentence"], sentence.as_str());
        let judgement = Judgement::from_run(run).unwrap();
        let words = verdict::requirement(&judgement.verdict.requirements[0], &judgement);
        let said = &summary["verdict"]["requirements"][0]["sentence"];
        assert_eq!(*said, words.as_str());
        assert_eq!(summary["verdict"]["outcome"], record["verdict"]["outcome"]);
    }
    assert_eq!(
        judged[1].verdict.as_ref().unwrap().invalid,
        [InvalidEvidence::Lost { samples: 3 }]
    );
}
