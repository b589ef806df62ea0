//! The command line: flags as plain data first, effects later; one file for each
//! verb or family of verbs; exit codes.

mod budget;
mod check;
mod compare;
mod completions;
mod cost;
mod cyclictest;
mod exec;
mod explain;
mod failure;
mod fit;
mod flags;
mod fleet;
mod foreign;
mod help;
mod interference;
mod keys;
mod knobs;
mod lab;
mod ladder;
mod line;
mod load;
mod looking;
mod manual;
mod measuring;
mod nearest;
mod out;
mod path;
mod plan;
mod proposals;
mod prove;
mod run;
mod save;
mod screen;
mod textfile;
mod tune;
mod tuned;
mod units;
mod watch;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use punctual_machine::tune::Journal;

pub use failure::Failure;
use flags::TuneAction;
pub use flags::{Cli, Verb};

type Worker = fn(Vec<OsString>) -> ExitCode;

/// What the program is when it starts itself, by the first word of its arguments: not for users.
const WORKERS: [(&str, Worker); 6] = [
    (punctual_load::worker::VERB, |words| {
        punctual_load::worker::main(words)
    }),
    (punctual_trace::tracers::VERB, |words| {
        punctual_trace::tracers::guard_main(words.into_iter())
    }),
    (crate::conduct::cost::runner::VERB, |words| {
        crate::conduct::cost::runner::main(words)
    }),
    (crate::conduct::lab::operations::VERB, |words| {
        crate::conduct::lab::operations::main(words)
    }),
    (punctual_lab::guest::VERB, |words| {
        punctual_lab::guest::main(words.into_iter())
    }),
    (interference::WORKER, |words| interference::worker(&words)),
];

/// The whole program: arguments in, exit status out.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // In the laboratory's guest, this program is the first process.
    if punctual_lab::guest::is_first_process(&arguments) {
        punctual_lab::guest::init();
    }
    let worker = WORKERS
        .iter()
        .find(|(verb, _)| arguments.get(1).is_some_and(|it| it == verb));
    if let Some((_, main)) = worker {
        return main(arguments.into_iter().skip(2).collect());
    }
    crate::conduct::survive_long_files();
    if let Some(failure) = cyclictest::refused(&arguments) {
        return end(&failure);
    }
    let status = match Cli::try_parse_from(&arguments) {
        Ok(cli) => act(&cli.verb).unwrap_or_else(|failure| end(&failure)),
        Err(error) if !error.use_stderr() => {
            out::print(&error.render().to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let mut failure = Failure::refused(&error, &arguments);
            if lab::is_bisect(&arguments) {
                failure.status = lab::BISECT_ENDS;
            }
            return end(&failure);
        }
    };
    let Some(trouble) = out::trouble() else {
        return status;
    };
    // The requested output is incomplete, whatever the verdict.
    out::complain(trouble);
    ExitCode::from(failure::SETUP)
}

fn end(failure: &Failure) -> ExitCode {
    out::complain(&failure.line);
    ExitCode::from(failure.status)
}

fn act(verb: &Verb) -> Result<ExitCode, Failure> {
    if let Some(journal) = journal_to_look_at(verb) {
        tune::complain_of_left_over(journal);
    }
    match verb {
        Verb::Qualify(flags) => match &flags.path {
            Some(host) => path::run(&plan::path::of_qualify(host, flags)?, &flags.run),
            None => measuring::run(&plan::of_qualify(flags)?, &flags.run),
        },
        Verb::Measure(flags) => match plan::path::wanted(flags)? {
            Some(plan) => path::run(&plan, &flags.run),
            None => measuring::run(&plan::of_measure(flags)?, &flags.run),
        },
        Verb::Respond(flags) => path::respond(flags),
        Verb::Load(flags) => load::run(flags),
        Verb::Run(flags) => run::run(flags),
        Verb::Explain(flags) => explain::run(flags),
        Verb::Watch(flags) => watch::run(flags),
        Verb::Lab(flags) => lab::run(flags),
        Verb::Check(flags) => check::run(flags),
        Verb::Tune(flags) => tune::run(flags),
        Verb::Prove(flags) => prove::run(flags),
        Verb::Fit(flags) => fit::run(flags),
        Verb::Fleet(flags) => fleet::run(flags),
        Verb::Ladder(flags) => ladder::run(flags),
        Verb::Cost(flags) => cost::run(flags),
        Verb::Interference(flags) => interference::run(flags),
        Verb::Budget(flags) => budget::run(flags),
        Verb::Exec(flags) => exec::run(flags),
        Verb::Report(flags) => looking::report(flags),
        Verb::Compare(flags) => compare::compare_runs(flags),
        Verb::Merge(flags) => looking::merge(flags),
        Verb::Export(flags) => looking::export(flags),
        Verb::Completions(flags) => {
            out::print(&completions::script(flags.shell));
            Ok(ExitCode::SUCCESS)
        }
        Verb::Help(flags) => help::run(flags),
        Verb::Man => {
            out::print(&manual::page().map_err(Failure::setup)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Where what a killed punctual left changed is looked for: in what a verb does or shows depends on
/// the settings of this machine.
fn journal_to_look_at(verb: &Verb) -> Option<&Path> {
    match verb {
        Verb::Qualify(_)
        | Verb::Measure(_)
        | Verb::Load(_)
        | Verb::Run(_)
        | Verb::Explain(_)
        | Verb::Watch(_)
        | Verb::Check(_)
        | Verb::Exec(_)
        | Verb::Respond(_)
        | Verb::Prove(_)
        | Verb::Fit(_)
        | Verb::Ladder(_) => Some(Path::new(Journal::FOLDER)),
        Verb::Cost(flags) => Some(&flags.state.state),
        Verb::Tune(flags) => match &flags.action {
            TuneAction::Plan(flags) => Some(&flags.state.state),
            TuneAction::Apply(flags) => Some(&flags.knobs.state.state),
            TuneAction::Persist(flags) => Some(&flags.state.state),
            // They show it, restore it, and refuse to begin.
            TuneAction::Status(_) | TuneAction::Restore(_) | TuneAction::Run(_) => None,
        },
        Verb::Lab(_)
        | Verb::Interference(_)
        | Verb::Budget(_)
        | Verb::Fleet(_)
        | Verb::Report(_)
        | Verb::Compare(_)
        | Verb::Merge(_)
        | Verb::Export(_)
        | Verb::Completions(_)
        | Verb::Help(_)
        | Verb::Man => None,
    }
}
