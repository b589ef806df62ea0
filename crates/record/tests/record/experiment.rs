//! Experiments: what a record of one promises, and what a killed one still says.

use std::path::Path;

use punctual_record::experiment::{Experiment, ExperimentOutcome};
use punctual_record::{Document, Run};

use crate::experiments::{experiment, of_every_kind};
use crate::support;

fn read(experiment: Experiment) -> Result<Run, String> {
    let mut run = support::run(3);
    run.experiment = Some(experiment);
    let bytes = serde_json::to_vec(&run).expect("a record is JSON");
    Run::parse(Path::new("run.json"), &bytes).map_err(|error| error.to_string())
}

#[test]
fn every_experiment_that_is_made_is_read_as_it_was() {
    for made in of_every_kind() {
        let run = read(made.clone()).expect("it keeps its promises");
        assert_eq!(run.experiment, Some(made));
    }
}

#[test]
fn an_experiment_that_breaks_a_promise_is_refused_with_its_place() {
    type Break = fn(&mut Experiment);
    let broken: [(&str, Break); 9] = [
        ("experiment.knobs", |it| it.knobs.clear()),
        ("experiment.results", |it| it.results.truncate(1)),
        ("experiment.blocks[30]", |it| it.blocks[30].on = vec![4]),
        ("experiment.blocks[31]", |it| it.blocks[31].knob = Some(99)),
        ("experiment.confidence", |it| it.confidence = 1.0),
        ("experiment.power", |it| it.power = 0.5),
        ("experiment.results[0].effects", |it| {
            it.results[0].effects[0].ratio = -1.0;
        }),
        ("experiment.pilot.spreads", |it| {
            it.pilot.as_mut().expect("one").spreads[0].difference_sd = -0.1;
        }),
        ("experiment.pilot.forecasts", |it| {
            it.pilot.as_mut().expect("one").forecasts[0].ratio = 0.0;
        }),
    ];
    for (place, change) in broken {
        let mut made = experiment();
        change(&mut made);
        let error = read(made).expect_err(place);
        assert!(error.contains(place), "{place}: {error}");
    }
}

/// Pairs are judged at the end alone: the record of a run that was killed has its blocks.
#[test]
fn the_blocks_of_a_killed_experiment_say_what_it_would_have_said() {
    let whole = experiment();
    let mut killed = whole.clone();
    killed.results.clear();
    killed.outcome = ExperimentOutcome::UnderWay;
    let mut back = read(killed).expect("a record").experiment.expect("it");
    back.judge();
    assert_eq!(back.results, whole.results);
}
