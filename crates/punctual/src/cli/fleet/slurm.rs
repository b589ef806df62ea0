//! `fleet slurm`: qualifies the nodes of a cluster.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use super::super::failure::{Failure, SETUP, USAGE};
use super::super::flags::{Cli, Verb};
use super::super::line::StatusLine;
use super::super::measuring::make_directory;
use super::super::{cyclictest, out};
use super::flags::SlurmFlags;
use crate::conduct::Signals;
use crate::conduct::fleet::{
    Counts, FleetPlan, FleetRun, NoRun, RunEnd, Slurm, SlurmError, conduct,
};
use crate::conduct::{Observed, Observer};
use punctual_report::fleet::runs as report;
use punctual_report::fleet::runs::{Ended, NodeRun, Without};
use punctual_stats::verdict::Outcome;

/// The only verb that runs on nodes.
const QUALIFY: &str = "qualify";
/// Flags of `sbatch` that would change which task runs where, or how a task starts.
const OWN_OPTIONS: [&str; 10] = [
    "--array",
    "-a",
    "--nodelist",
    "-w",
    "--hold",
    "-H",
    "--wait",
    "-W",
    "--parsable",
    "--wrap",
];

/// Qualifies the nodes.
///
/// # Errors
/// Wrong usage, or Slurm refuses.
pub fn run(flags: &SlurmFlags) -> Result<ExitCode, Failure> {
    let words = qualify_flags(&flags.command)?;
    if let Some(option) = flags.sbatch.iter().find(|option| is_own(option)) {
        return Err(Failure::usage(format!(
            "--sbatch={option}: punctual sets this itself: leave it out"
        )));
    }
    if let Some(word) = flags.sbatch.iter().find(|word| !word.starts_with("-")) {
        // sbatch would take it for the script.
        return Err(Failure::usage(format!(
            "--sbatch={word}: expected a flag of sbatch with its value, as --sbatch=--time=30"
        )));
    }
    if let Some(program) = &flags.punctual
        && !program.is_absolute()
    {
        return Err(Failure::usage(format!(
            "--punctual {}: expected an absolute path, as it is on the nodes",
            program.display()
        )));
    }
    let slurm = Slurm::find().map_err(Failure::setup)?;
    let signals = Signals::listen().map_err(Failure::setup)?;
    let (partition, list) = (flags.partition.as_deref(), flags.nodes.as_deref());
    let (nodes, left) = slurm.nodes(partition, list).map_err(refused)?;
    for node in &left {
        out::complain(&format!(
            "{}: left out: its state is {}",
            node.name, node.state
        ));
    }
    let mut options = flags.sbatch.clone();
    options.extend(partition.map(|name| format!("--partition={name}")));
    let plan = FleetPlan {
        nodes,
        repeat: flags.repeat,
        options,
        program: flags.punctual.clone(),
        flags: words,
    };
    let directory = make_directory(flags.output.as_deref(), "fleet")?;
    let mut screen = Screen {
        line: StatusLine::new(flags.quiet),
        is_quiet: flags.quiet,
        is_silent: false,
        is_cancelled: false,
    };
    let is_interrupted = || signals.end().is_some();
    let runs = conduct(
        &slurm,
        &plan,
        directory.path(),
        &is_interrupted,
        &mut screen,
    );
    screen.line.clear();
    let runs = runs.map_err(|error| {
        directory.discard_if_empty();
        refused(error)
    })?;
    let rows: Vec<NodeRun> = runs.iter().map(row).collect();
    out::print(&report::table(&rows, &out::style()));
    if !flags.quiet {
        out::print(&kept(directory.path()));
    }
    Ok(ExitCode::from(status_of(&rows, screen.is_cancelled)))
}

fn kept(directory: &Path) -> String {
    format!("\nRuns: {}/NODE/N\n", directory.display())
}

/// Wrong usage is a wrong name; the rest is the cluster's.
fn refused(error: SlurmError) -> Failure {
    let status = match error {
        SlurmError::Partition(_) | SlurmError::Node(..) => USAGE,
        _ => SETUP,
    };
    Failure {
        line: error.to_string(),
        status,
    }
}

/// The flags of `qualify`, which are checked before a node has to refuse them.
fn qualify_flags(command: &[String]) -> Result<Vec<String>, Failure> {
    let (verb, words) = command
        .split_first()
        .unwrap_or_else(|| unreachable!("clap requires it"));
    if verb != QUALIFY {
        return Err(Failure::usage(format!(
            "'{verb}' after --: expected qualify with its flags, as in `punctual fleet slurm -- qualify -D 60`"
        )));
    }
    let line = ["punctual", QUALIFY].into_iter();
    let line = line.chain(words.iter().map(String::as_str));
    let all: Vec<OsString> = line.map(OsString::from).collect();
    if let Some(failure) = cyclictest::refused(&all) {
        return Err(failure);
    }
    let parsed = Cli::try_parse_from(&all).map_err(|error| Failure::refused(&error, &all))?;
    match parsed.verb {
        Verb::Qualify(flags) if flags.run.output.is_some() => Err(Failure::usage(
            "-o after --: the runs have their names by node; leave it out, -o before -- sets the directory",
        )),
        _ => Ok(words.to_vec()),
    }
}

fn is_own(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    // `-wn1`
    let short = name.get(..2).filter(|_| !name.starts_with("--"));
    OWN_OPTIONS.contains(&name) || short.is_some_and(|short| OWN_OPTIONS.contains(&short))
}

/// A run in the words of the table.
fn row(run: &FleetRun) -> NodeRun {
    NodeRun {
        node: run.node.clone(),
        repetition: run.repetition,
        end: match &run.end {
            RunEnd::Judged { outcome, worst_ns } => Ended::Judged {
                outcome: *outcome,
                worst_ns: *worst_ns,
            },
            RunEnd::Error(status) => Ended::Without(Without::Error(*status)),
            RunEnd::BadRecord(why) => Ended::Without(Without::BadRecord(why.clone())),
            RunEnd::Missing(why) => Ended::Without(without(*why)),
        },
    }
}

fn without(why: NoRun) -> Without {
    match why {
        NoRun::Unfinished => Without::Unfinished,
        NoRun::Cancelled => Without::Cancelled,
        NoRun::OutOfTime => Without::OutOfTime,
        NoRun::Preempted => Without::Preempted,
        NoRun::NodeFailed => Without::NodeFailed,
        NoRun::OutOfMemory => Without::OutOfMemory,
        NoRun::Killed(signal) => Without::Killed(signal),
        NoRun::Elsewhere => Without::Elsewhere,
        NoRun::Unshared => Without::Unshared,
        NoRun::Uncopied => Without::Uncopied,
        NoRun::Nothing(status) => Without::Nothing(status),
        NoRun::Forgotten => Without::Forgotten,
    }
}

/// 1 if a run is missing, else the most severe verdict, as for a lab.
fn status_of(rows: &[NodeRun], is_cancelled: bool) -> u8 {
    let outcomes: Option<Vec<Outcome>> = rows.iter().map(NodeRun::outcome).collect();
    match outcomes {
        Some(outcomes) if !is_cancelled => {
            report::most_severe(outcomes).map_or(SETUP, Outcome::exit_code)
        }
        _ => SETUP,
    }
}

/// What is shown while the job runs.
struct Screen {
    line: StatusLine,
    is_quiet: bool,
    /// The controller does not answer, which was said.
    is_silent: bool,
    is_cancelled: bool,
}

impl Screen {
    fn say(&mut self, text: &str) {
        self.line.clear();
        if !self.is_quiet {
            out::complain(text);
        }
    }
}

impl Observer for Screen {
    fn observe(&mut self, event: Observed<'_>) {
        let runs = |count: usize| punctual_report::words::plural(count as u64, "run", "runs");
        match event {
            Observed::Submitted(job, tasks) => {
                self.say(&format!("job {job} submitted: {}", runs(tasks)));
            }
            Observed::RunDone(run, counts) => {
                let line = report::line(&row(run));
                self.say(&format!("{} of {} done  {line}", counts.done, counts.total));
            }
            Observed::Runs(counts) => {
                self.is_silent = false;
                self.line.draw(&progress(counts));
            }
            Observed::ControllerSilent(said) => {
                if !self.is_silent {
                    self.say(&format!(
                        "the controller of Slurm does not answer, waiting: {said}"
                    ));
                }
                self.is_silent = true;
            }
            Observed::Released(tasks) => self.say(&format!(
                "the controller of Slurm had forgotten that {} may start: released again",
                runs(tasks)
            )),
            Observed::Restarted(node, repetition, why) => {
                let why = report::reason(&without(why));
                self.say(&format!("{node}, run {repetition}: {why}; started again"));
            }
            Observed::Cancelled(job, outcome) => {
                self.is_cancelled = true;
                self.line.clear();
                match outcome {
                    Ok(()) => out::complain(&format!(
                        "interrupted: job {job} is cancelled, its complete runs are kept"
                    )),
                    Err(error) => out::complain(&format!(
                        "interrupted, and job {job} could not be cancelled: {error}: run scancel {job}"
                    )),
                }
            }
            _ => {}
        }
    }
}

/// `5 of 8 runs done, 2 running, 1 waiting (n3: Reserved)`
fn progress(counts: &Counts) -> String {
    let Counts {
        total,
        done,
        running,
        waiting,
        reason,
    } = counts;
    let why = reason
        .as_ref()
        .map_or_else(String::new, |(node, why)| format!(" ({node}: {why})"));
    format!("{done} of {total} runs done, {running} running, {waiting} waiting{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_qualify_runs_on_nodes_and_its_flags_are_checked_here() {
        assert_eq!(
            qualify_flags(&words("qualify -D 5 --deadline 1ms")),
            Ok(words("-D 5 --deadline 1ms"))
        );
        for (line, part) in [
            ("measure", "expected qualify"),
            ("qualify -o x", "-o after --"),
            ("qualify --dedline 5", "--deadline"),
            ("qualify -D 0", "--duration"),
        ] {
            let failure = qualify_flags(&words(line)).expect_err(line);
            assert_eq!(failure.status, USAGE, "{line}");
            assert!(failure.line.contains(part), "{line}: {}", failure.line);
        }
    }

    #[test]
    fn flags_that_place_tasks_are_ours() {
        for own in [
            "--array=0-3",
            "-a0-3",
            "-w",
            "-wn1",
            "--nodelist=n1",
            "--wrap=x",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "--time=30",
            "-t30",
            "--account=x",
            "-A",
            "--reservation=rt",
            "-",
            "é",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn a_missing_run_is_an_error_and_else_the_most_severe_verdict_counts() {
        let judged = |outcome| NodeRun {
            node: "n1".to_owned(),
            repetition: 1,
            end: Ended::Judged {
                outcome,
                worst_ns: Some(5),
            },
        };
        let (pass, fail, invalid) = (
            judged(Outcome::Pass),
            judged(Outcome::Fail),
            judged(Outcome::Invalid),
        );
        assert_eq!(status_of(std::slice::from_ref(&pass), false), 0);
        assert_eq!(status_of(std::slice::from_ref(&pass), true), SETUP);
        assert_eq!(status_of(&[pass.clone(), invalid.clone()], false), 4);
        assert_eq!(status_of(&[invalid, fail.clone(), pass], false), 2);
        let lost = NodeRun {
            end: Ended::Without(Without::Cancelled),
            ..fail.clone()
        };
        assert_eq!(status_of(&[fail, lost], false), SETUP);
    }

    #[test]
    fn progress_names_what_is_waited_for() {
        let counts = Counts {
            total: 8,
            done: 5,
            running: 2,
            waiting: 1,
            reason: Some(("n3".to_owned(), "Reserved".to_owned())),
        };
        assert_eq!(
            progress(&counts),
            "5 of 8 runs done, 2 running, 1 waiting (n3: Reserved)"
        );
    }
}
