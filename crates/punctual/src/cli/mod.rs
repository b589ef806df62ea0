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

/// The whole program: arguments in, exit status out.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments
        .get(1)
        .is_some_and(|verb| verb == punctual_load::worker::VERB)
    {
        return punctual_load::worker::main(arguments.into_iter().skip(2));
    }
    if arguments
        .get(1)
        .is_some_and(|verb| verb == punctual_trace::tracers::VERB)
    {
        return punctual_trace::tracers::guard_main(arguments.into_iter().skip(2));
    }
    if arguments
        .get(1)
        .is_some_and(|verb| verb == crate::conduct::cost::runner::VERB)
    {
        return crate::conduct::cost::runner::main(arguments.into_iter().skip(2));
    }
    if arguments
        .get(1)
        .is_some_and(|verb| verb == crate::conduct::lab::operations::VERB)
    {
        return crate::conduct::lab::operations::main(arguments.into_iter().skip(2));
    }
    // In the laboratory's guest, this program is the first process.
    if punctual_lab::guest::is_first_process(&arguments) {
        punctual_lab::guest::init();
    }
    if arguments
        .get(1)
        .is_some_and(|verb| verb == punctual_lab::guest::VERB)
    {
        return punctual_lab::guest::main(arguments.into_iter().skip(2));
    }
    if arguments
        .get(1)
        .is_some_and(|verb| verb == interference::WORKER)
    {
        return interference::worker(&arguments[2..]);
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
