//! Records: written, read, merged, damaged.

#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;

#[path = "../made/bills.rs"]
mod bills;
mod budget;
mod columns;
mod cost;
#[path = "../made/costs.rs"]
mod costs;
#[path = "../made/damaged.rs"]
mod damaged;
mod directory;
mod experiment;
#[path = "../made/experiments.rs"]
mod experiments;
mod explained;
#[path = "../made/findings.rs"]
mod findings_of_run;
mod found;
mod happenings;
#[path = "../made/kinds.rs"]
mod kinds;
mod ladder;
#[path = "../made/ladders.rs"]
mod ladders;
mod limits;
mod merge;
mod merge_anew;
mod merge_many;
mod merge_watches;
mod read;
mod remedy;
mod samples;
#[path = "../made/runs.rs"]
mod support;
#[path = "../made/tasksets.rs"]
mod tasksets;
mod tasksets_read;
#[path = "../made/verdicts.rs"]
mod verdicts;
mod watched;
#[path = "../made/watches.rs"]
mod watches;
