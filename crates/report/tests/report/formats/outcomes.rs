//! The outcome is one, wherever it is read: on the screen and the page, in JSON, JUnit, KTAP, LAVA,
//! Prometheus and OpenMetrics.

use punctual_record::{Ending, Judgement, Load, Run, State, analyse_record};
use punctual_report::formats::{Format, write};
use punctual_report::style::Style;
use punctual_report::{experiment, html, summary_json, terminal, verdict};
use punctual_stats::verdict::{Outcome, Verdict};
use serde_json::Value;

use crate::{experiments, support, tasksets, verdicts};

const ALL: [Outcome; 4] = [
    Outcome::Pass,
    Outcome::Fail,
    Outcome::Inconclusive,
    Outcome::Invalid,
];

/// Each of the judged things of a verdict by its place, in turn the only one that ends like this.
fn each_decides(verdict: &Verdict, outcome: Outcome) -> Vec<Verdict> {
    let count = verdict.requirements.len() + verdict.lengths.len() + verdict.tasks.len();
    let one = |deciding| {
        let mut verdict = verdict.clone();
        let requirements = verdict.requirements.iter_mut().map(|it| &mut it.outcome);
        let lengths = verdict.lengths.iter_mut().map(|it| &mut it.outcome);
        let tasks = verdict.tasks.iter_mut().map(|it| &mut it.result.outcome);
        for (at, its) in requirements.chain(lengths).chain(tasks).enumerate() {
            *its = if at == deciding {
                outcome
            } else {
                Outcome::Pass
            };
        }
        verdict.outcome = outcome;
        match outcome {
            Outcome::Invalid => verdict.invalidated(),
            _ => verdict,
        }
    };
    (0..count).map(one).collect()
}

/// Documents of every kind, with every outcome that each may have.
fn documents() -> Vec<(Run, Outcome)> {
    let judged = |of: Judgement| {
        let mut run = support::run(1);
        run.verdict = Some(of.verdict);
        run
    };
    let kinds = [
        support::run(1),
        tasksets::executed(),
        tasksets::undecided(),
        tasksets::failed(),
        judged(verdicts::every_kind()),
        judged(verdicts::invalid()),
    ];
    let mut documents = Vec::new();
    for run in kinds {
        let verdict = run.verdict.clone().expect("a verdict");
        documents.push((run.clone(), verdict.outcome));
        for outcome in ALL {
            for verdict in each_decides(&verdict, outcome) {
                let verdict = Some(verdict);
                documents.push((
                    Run {
                        verdict,
                        ..run.clone()
                    },
                    outcome,
                ));
            }
        }
    }
    let of_experiments = experiments::of_every_kind().into_iter();
    for found in of_experiments.chain([experiments::with_failed_control()]) {
        let mut run = support::run(1);
        (run.experiment, run.verdict) = (Some(found), None);
        run.request.requirements.clear();
        let Some(outcome) = experiment::outcome(&run) else {
            continue;
        };
        documents.push((run, outcome));
    }
    documents.extend(unrequired().map(|run| (run, Outcome::Invalid)));
    documents
}

/// Runs of which nothing was required, that are INVALID by their evidence or their load; and an experiment whose
/// load did nothing.
fn unrequired() -> impl Iterator<Item = Run> {
    let faults: [fn(&mut Run); 3] = [
        |run| run.threads[0].lost = 12,
        |run| run.loads.iter_mut().for_each(did_nothing),
        |run| {
            run.loads.iter_mut().for_each(did_nothing);
            run.experiment = Some(experiments::experiment());
        },
    ];
    faults.into_iter().map(|fault| {
        let mut run = support::run(1);
        run.request.requirements.clear();
        fault(&mut run);
        run.verdict = Some(analyse_record(&run).expect("a record").verdict);
        run
    })
}

fn did_nothing(load: &mut Load) {
    (load.work, load.check) = (0, None);
}

fn text(format: Format, run: &Run) -> String {
    write(format, run).unwrap_or_else(|error| panic!("{error}"))
}

/// What JUnit says: how many failures of each type, and how many errors.
fn of_junit(run: &Run) -> Outcome {
    let xml = text(Format::Junit, run);
    let has = |what: &str| xml.contains(what);
    let counted = |name: &str| {
        let (_, rest) = xml.split_once(&format!(" {name}=\"")).expect(name);
        let (number, _) = rest.split_once('"').expect(name);
        number.parse::<usize>().expect(name)
    };
    let (failures, errors) = (counted("failures"), counted("errors"));
    assert_eq!(failures, xml.matches("<failure ").count());
    assert_eq!(errors, xml.matches("<error ").count());
    match (errors, failures) {
        (1.., _) => Outcome::Invalid,
        (_, 0) => Outcome::Pass,
        _ if has("<failure type=\"FAIL\"") => Outcome::Fail,
        _ => Outcome::Inconclusive,
    }
}

fn of_ktap(run: &Run) -> Outcome {
    let ktap = text(Format::Ktap, run);
    let fails = ktap.lines().filter(|line| line.starts_with("not ok"));
    let fails: Vec<&str> = fails.collect();
    if fails.iter().any(|line| line.contains("# ERROR")) {
        Outcome::Invalid
    } else if fails.is_empty() {
        Outcome::Pass
    } else if ktap.lines().any(|line| line.starts_with("# FAIL: ")) {
        Outcome::Fail
    } else {
        Outcome::Inconclusive
    }
}

/// LAVA knows no difference between INCONCLUSIVE and INVALID.
fn agrees_with_lava(run: &Run, outcome: Outcome) -> bool {
    let lava = text(Format::Lava, run);
    let cases = lava.lines().filter(|line| !line.contains("MEASUREMENT="));
    let has = |result: &str| cases.clone().any(|line| line.contains(result));
    match outcome {
        Outcome::Pass => !has("RESULT=fail") && !has("RESULT=unknown"),
        Outcome::Fail => has("RESULT=fail"),
        Outcome::Inconclusive | Outcome::Invalid => !has("RESULT=fail") && has("RESULT=unknown"),
    }
}

fn of_metrics(run: &Run, format: Format, label: &str) -> Vec<Outcome> {
    let metrics = text(format, run);
    let is_on = |outcome: &Outcome| {
        let end = format!("{label}=\"{outcome}\"}} 1");
        metrics
            .lines()
            .any(|line| line.starts_with("punctual_verdict{") && line.ends_with(&end))
    };
    ALL.into_iter().filter(is_on).collect()
}

#[test]
fn every_output_says_the_same() {
    let documents = documents();
    assert!(documents.len() > 40, "{}", documents.len());
    for (run, outcome) in &documents {
        let what = format!(
            "{} {outcome} {:?} {:?}",
            run.verb,
            run.verdict,
            run.experiment.as_ref().map(|it| &it.outcome)
        );
        assert_eq!(
            of_junit(run),
            *outcome,
            "{what}\n{}",
            text(Format::Junit, run)
        );
        assert_eq!(
            of_ktap(run),
            *outcome,
            "{what}\n{}",
            text(Format::Ktap, run)
        );
        assert!(
            agrees_with_lava(run, *outcome),
            "{what}\n{}",
            text(Format::Lava, run)
        );
        assert_eq!(
            of_metrics(run, Format::Prometheus, "outcome"),
            [*outcome],
            "{what}"
        );
        let own = "punctual_verdict";
        assert_eq!(
            of_metrics(run, Format::OpenMetrics, own),
            [*outcome],
            "{what}"
        );
        if run.verdict.is_some() {
            let json: Value = serde_json::from_str(&summary_json::summary(run)).expect("JSON");
            assert_eq!(json["verdict"]["outcome"], outcome.word(), "{what}");
        }
        // An experiment that was made as planned says what it found, without a word for it.
        let word = match (&run.experiment, outcome) {
            (Some(_), Outcome::Pass) => continue,
            _ => outcome.word(),
        };
        let screen = terminal::summary(run, &Style::plain());
        assert!(screen.starts_with(&format!("{word}:")), "{what}\n{screen}");
        assert!(html::page(run).contains(word), "{what}");
    }
}

/// Without a requirement a record has no verdict, and the verb's exit status may be one even so.
#[test]
fn the_end_of_a_run_of_which_nothing_was_required_is_told() {
    let unrequired = |state: State| {
        let mut run = support::run(1);
        run.request.requirements.clear();
        (run.request.break_ns, run.verdict, run.state) = (Some(200_000), None, state);
        run
    };
    let merged = Ending::UnfinishedRuns {
        unfinished: 1,
        runs: 2,
    };
    for (state, status, outcome) in [
        (State::Finished, 0, Outcome::Pass),
        (State::Stopped(Ending::Interrupt), 0, Outcome::Pass),
        (State::Stopped(Ending::BreakValue), 2, Outcome::Fail),
        (State::Stopped(merged), 0, Outcome::Invalid),
        (State::Unfinished, 1, Outcome::Invalid),
    ] {
        let run = unrequired(state);
        assert_eq!(of_junit(&run), outcome, "{state:?}");
        assert_eq!(of_ktap(&run), outcome, "{state:?}");
        assert!(agrees_with_lava(&run, outcome), "{state:?}");
        assert_eq!(verdict::exit_status(&run), status, "{state:?}");
        let rt_tests = text(Format::RtTestsJson, &run);
        let json: Value = serde_json::from_str(&rt_tests).expect("JSON");
        assert_eq!(json["return_code"], status, "{state:?}");
    }
}
