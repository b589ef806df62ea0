//! What people see: terminal, page, pictures.

#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;

mod advised;
#[path = "../../../record/tests/made/bills.rs"]
mod bills;
mod browser;
mod cost;
#[path = "../../../record/tests/made/costs.rs"]
mod costs;
#[path = "../../../trace/tests/attribute/data.rs"]
mod data;
mod descent;
mod exec;
mod executed;
mod experiment;
#[path = "../../../record/tests/made/experiments.rs"]
mod experiments;
mod explained;
mod facts;
mod findings;
#[path = "../../../record/tests/made/findings.rs"]
mod findings_of_run;
mod findings_shown;
mod fit;
mod fixtures;
mod fleet;
mod formats;
mod gallery;
mod gaps;
mod gnuplot;
mod interference;
#[path = "../../../record/tests/made/kinds.rs"]
mod kinds;
mod lab;
mod lab_cost;
mod lab_proof;
mod lab_table;
#[path = "../../../record/tests/made/labs.rs"]
mod labs;
mod ladder;
#[path = "../../../record/tests/made/ladders.rs"]
mod ladders;
mod page;
#[path = "../../../record/tests/made/paths.rs"]
mod paths;
mod proposals;
mod recorded;
#[path = "../../../record/tests/made/runs.rs"]
mod support;
#[path = "../../../record/tests/made/tasksets.rs"]
mod tasksets;
mod terminal;
mod total;
mod traced;
mod tuning;
mod verdict;
#[path = "../../../record/tests/made/verdicts.rs"]
mod verdicts;
mod watched;
#[path = "../../../record/tests/made/watches.rs"]
mod watches;
