//! `fit` on this machine: its shortest ways, and that nothing is left changed.

use std::fs;

use crate::alone::alone;
use crate::common::{Ended, Place, need, needs};
use punctual_record::fit::{Fit, FitOutcome, FitWork};
use punctual_stats::verdict::Outcome;

fn fit(place: &Place, words: &[&str]) -> (Ended, Fit) {
    let all = [
        &["fit", "--load", "none", "--state", "state", "-o", "fit"],
        words,
    ]
    .concat();
    let ended = place.run(&all);
    // What it keeps is kept on the machine that the other tests run on, too.
    if place.path().join("state").exists() {
        place.run(&["tune", "restore", "--state", "state"]);
    }
    let text = fs::read(place.path().join("fit/fit.json")).expect("the fit was saved");
    (ended, serde_json::from_slice(&text).expect("a fit"))
}

#[test]
fn a_machine_that_meets_its_deadline_is_left_as_it_is() {
    need!(needs::root());
    // Beside threads that are throttled a run is not valid.
    let _alone = alone();
    // Of four seconds a stall would have to take more than one, and then half of all cycles may miss.
    let words = [
        "--deadline",
        "1s",
        "--miss",
        "0.5",
        "-D",
        "4",
        "--budget",
        "10m",
    ];
    let place = Place::new();
    // What an experiment takes at least is known before anything runs.
    let short = [&["fit"], &words[..7], &["7m"]].concat();
    let refused = place.run(&short).expect(64);
    assert!(
        refused.stderr.contains("--budget must be 9m or longer"),
        "{}",
        refused.stderr
    );
    let (ended, made) = fit(&place, &words);
    let ended = ended.expect(0);
    assert_eq!(made.outcome, Some(FitOutcome::MetAlready));
    assert!(
        ended
            .stdout
            .contains("PASS: the machine meets 1 s as it is")
    );
    assert_eq!(made.steps.len(), 1);
    let FitWork::Qualify { on, outcome, .. } = &made.steps[0].what else {
        panic!("{:?}", made.steps);
    };
    assert_eq!((on.len(), *outcome), (0, Outcome::Pass));
    // The step is a run of its own, and nothing was in a journal.
    let run = place.run_of_path("fit/01-qualify");
    assert!(run.tuned.is_empty() && run.request.as_deployed);
    assert!(!place.path().join("state").exists());
    assert!(place.path().join("fit/fit.html").exists());
    // The same again, from what was saved.
    let again = place.run(&["report", "fit"]).expect(0).stdout;
    assert!(ended.stdout.contains(again.trim_end()), "{again}");
    place
        .run(&["report", "fit/fit.json", "--html", "again.html"])
        .expect(0);
    let page = fs::read_to_string(place.path().join("again.html")).expect("a page");
    assert!(page.contains("/fit/01-qualify/report.html\""), "a link");
    let json = place.run(&["report", "fit", "--json"]).expect(0).stdout;
    assert_eq!(serde_json::from_str::<Fit>(&json).expect("it"), made);
    place.run(&["report", "fit", "--svg", "svg"]).expect(64);
}

#[test]
fn a_deadline_that_cannot_be_met_is_told_with_what_stands_in_the_way() {
    need!(needs::root());
    // Beside threads that are throttled a run is not valid.
    let _alone = alone();
    let place = Place::new();
    // No wake-up takes less: nothing is tried.
    let (ended, made) = fit(&place, &["--deadline", "1us", "-D", "4", "--budget", "10m"]);
    let outcome = made.outcome.clone().expect("it has ended");
    let FitOutcome::OutOfReach { min_ns } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(min_ns > 1_000, "{min_ns}");
    ended.expect(2);
    assert_eq!(made.steps.len(), 1);
    assert!(made.kept.is_empty());
    assert!(!place.path().join("state").exists(), "nothing was changed");
}
