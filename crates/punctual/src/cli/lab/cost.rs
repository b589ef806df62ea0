//! `lab cost`: instructions per operation, on several kernels.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::failure::{Failure, SETUP};
use super::super::out;
use super::flags::LabCostFlags;
use super::parts::IDLE;
use super::prove::check_built_in;
use super::{bench, jobs, lab_of, make_cells, making, meaning, parts, refuse_bills};
use crate::conduct::Signals;
use crate::conduct::cost::lab as runner;
use crate::conduct::lab::{self, Column, Counting, Making, Part, Watched, operations};
use punctual_lab::cell::{OWN_NAME, Work};
use punctual_record::lab::{Lab, Operation};
use punctual_record::laboratory::Architecture;

/// The columns without flags: kernel and words. The first is the base of all ratios.
const COLUMNS: [(&str, &str); 5] = [
    ("standard", "preempt=none"),
    ("standard", "preempt=voluntary"),
    ("standard", "preempt=full"),
    ("standard", "preempt=none mitigations=off"),
    ("rt", ""),
];
/// The same where the preemption model is chosen when the kernel is built: on other processors than amd64.
const COLUMNS_ELSEWHERE: [(&str, &str); 3] = [
    ("standard", ""),
    ("standard", "mitigations=off"),
    ("rt", ""),
];
/// The kernel of columns with words.
const KERNEL: &str = "standard";

/// Counts in a guest for each column, and shows the table.
///
/// # Errors
/// Wrong usage, or what could not be set up.
pub fn run(flags: &LabCostFlags) -> Result<ExitCode, Failure> {
    let host = &flags.host;
    refuse_bills(host)?;
    let columns = columns(flags)?;
    let (work, file) = work(flags)?;
    let mut lab = lab_of(&flags.machine, host);
    lab.brought.extend(file);
    lab.columns = columns.iter().map(|it| it.column(flags, &work)).collect();
    let bench = bench(flags.machine.arch, columns.iter().map(|it| &*it.kernel))?;
    for it in columns.iter().filter(|_| !flags.columns.is_empty()) {
        check_built_in(std::slice::from_ref(&it.kernel), &it.words, &bench)?;
    }
    let cells = lab::plan(&lab, &bench).map_err(Failure::setup)?;
    let signals = Signals::listen().map_err(Failure::setup)?;
    let counting = match flags.command.is_empty() {
        true => Counting::Operations,
        false => Counting::Program {
            operations: flags.operations.unwrap_or(1),
        },
    };
    let making = Making {
        counting: Some(counting),
        ..making(jobs(host, cells.len()), Watched::Nothing)
    };
    let concluded = make_cells(&cells, host, &bench, &signals, &making)?;
    let misspelt = misspelt(&concluded.lab);
    for word in &misspelt {
        out::complain(&format!(
            "{word}: no kernel knows its name or its value, so its columns are those without it{}",
            meaning::meant(word)
        ));
    }
    Ok(match misspelt.is_empty() {
        true => concluded.status.into(),
        false => SETUP.into(),
    })
}

/// A column of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    kernel: String,
    words: Vec<String>,
}

impl Wanted {
    fn new(kernel: &str, words: &[String]) -> Self {
        Self {
            kernel: kernel.to_owned(),
            words: words.to_vec(),
        }
    }

    fn name(&self) -> String {
        let kernel = std::iter::once(&*self.kernel);
        let all: Vec<&str> = kernel
            .chain(self.words.iter().map(String::as_str))
            .collect();
        all.join(" ")
    }

    fn column(&self, flags: &LabCostFlags, work: &Work) -> Column {
        Column {
            name: self.name(),
            kernel: self.kernel.clone(),
            parameters: [&flags.machine.param[..], &self.words].concat(),
            parts: vec![Part {
                load: IDLE.to_owned(),
                work: work.clone(),
                brought: Vec::new(),
            }],
            variant: None,
            result: None,
        }
    }
}

/// The columns: those of the flags, else those above.
fn columns(flags: &LabCostFlags) -> Result<Vec<Wanted>, Failure> {
    let named = &flags.kernel;
    let columns: Vec<Wanted> = if named.is_empty() && flags.columns.is_empty() {
        let of = |(kernel, words): (&str, &str)| {
            let words = words.split_whitespace().map(str::to_owned);
            Wanted::new(kernel, &words.collect::<Vec<_>>())
        };
        let columns = match flags.machine.arch {
            Architecture::Amd64 => &COLUMNS[..],
            _ => &COLUMNS_ELSEWHERE,
        };
        columns.iter().copied().map(of).collect()
    } else {
        let kernels = match named.is_empty() {
            true => vec![KERNEL.to_owned()],
            false => named.clone(),
        };
        let of_kernel = |kernel: &String| {
            let without = std::iter::once(&[][..]);
            let all = without.chain(flags.columns.iter().map(|it| &it.0[..]));
            all.map(|words| Wanted::new(kernel, words))
                .collect::<Vec<_>>()
        };
        kernels.iter().flat_map(of_kernel).collect()
    };
    let mut seen = BTreeSet::new();
    for column in &columns {
        if !seen.insert(column.name()) {
            return Err(Failure::usage(format!("{} is named twice", column.name())));
        }
    }
    for word in columns.iter().flat_map(|it| &it.words) {
        meaning::check(word).map_err(Failure::usage)?;
        if flags.machine.param.contains(word) {
            return Err(Failure::usage(format!(
                "{word}: every guest has it by --param: leave it out there"
            )));
        }
    }
    Ok(columns)
}

/// What runs in each guest, and its program's file on this machine if it is brought.
fn work(flags: &LabCostFlags) -> Result<(Work, Option<PathBuf>), Failure> {
    let (words, file) = match flags.command.first() {
        None => {
            let chosen = match flags.only.is_empty() {
                true => &Operation::ALL[..],
                false => &flags.only,
            };
            let all = Operation::ALL.into_iter().filter(|it| chosen.contains(it));
            let words = operations::words(&all.collect::<Vec<_>>());
            (words, None)
        }
        Some(name) => {
            let file = match flags.machine.rootfs {
                Some(_) => None,
                None => Some(parts::find(name)?).filter(|file| file != Path::new(OWN_NAME)),
            };
            (runner::words(&flags.command, file.as_deref()), file)
        }
    };
    let work = Work::Program {
        file: PathBuf::from(OWN_NAME),
        words,
        load: None,
    };
    Ok((work, file))
}

/// The words that no kernel knows which had them.
fn misspelt(lab: &Lab) -> BTreeSet<&str> {
    let known = |word: &&str| {
        lab.cells.iter().any(|cell| {
            let had = cell
                .laboratory
                .as_ref()
                .is_some_and(|it| it.parameters.iter().any(|it| it == word));
            let cost = cell.cost.as_ref();
            had && cost.is_some_and(|cost| cost.unknown.iter().all(|it| it != word))
        })
    };
    let unknown = lab.cells.iter().filter_map(|cell| cell.cost.as_ref());
    let unknown = unknown.flat_map(|cost| cost.unknown.iter().map(String::as_str));
    unknown.filter(|word| !known(word)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::super::flags::{Cli, Verb};
    use super::super::flags::LabAction;
    use super::*;

    fn parsed(arguments: &[&str]) -> LabCostFlags {
        let words = ["punctual", "lab", "cost"].iter().chain(arguments);
        match Cli::try_parse_from(words).expect("they parse").verb {
            Verb::Lab(flags) => match flags.action {
                Some(LabAction::Cost(flags)) => flags,
                other => panic!("{other:?}"),
            },
            _ => panic!("the verb is lab"),
        }
    }

    fn names(arguments: &[&str]) -> Vec<String> {
        let columns = columns(&parsed(arguments)).expect("columns");
        columns.iter().map(Wanted::name).collect()
    }

    #[test]
    fn each_kernel_has_a_column_without_words_and_one_with_each() {
        assert_eq!(
            names(&[]),
            [
                "standard preempt=none",
                "standard preempt=voluntary",
                "standard preempt=full",
                "standard preempt=none mitigations=off",
                "rt"
            ]
        );
        assert_eq!(
            names(&["--arch", "arm64"]),
            ["standard", "standard mitigations=off", "rt"]
        );
        assert_eq!(names(&["--kernel", "rt,./vmlinux"]), ["rt", "./vmlinux"]);
        assert_eq!(
            names(&["preempt=full", "threadirqs  nohz=off"]),
            [
                "standard",
                "standard preempt=full",
                "standard threadirqs nohz=off"
            ]
        );
        assert_eq!(
            names(&["--kernel", "cloud,rt", "threadirqs"]),
            ["cloud", "cloud threadirqs", "rt", "rt threadirqs"]
        );
        let flags = parsed(&["--param", "quiet", "threadirqs"]);
        let (work, _) = work(&flags).expect("operations");
        let column = columns(&flags).expect("columns")[1].column(&flags, &work);
        assert_eq!(column.parameters, ["quiet", "threadirqs"]);
    }

    #[test]
    fn a_guest_makes_the_chosen_operations_in_their_order_or_runs_the_program() {
        let of = |arguments: &[&str]| {
            let (work, file) = work(&parsed(arguments)).expect("work");
            let Work::Program { words, .. } = work else {
                panic!("a program");
            };
            (words, file)
        };
        let (words, file) = of(&["--only", "tcp,user"]);
        assert_eq!(words, ["punctual", "__operations", "user,tcp"]);
        assert_eq!(file, None);
        let (words, _) = of(&[]);
        assert_eq!(words[2].split(',').count(), Operation::ALL.len());
        let (words, file) = of(&["--", "/bin/sh", "-c", "true"]);
        assert_eq!(
            (&*words[1], &words[3..]),
            ("__cost", &["sh", "-c", "true"].map(str::to_owned)[..])
        );
        assert!(file.is_some_and(|file| file.ends_with("sh")));
        // This program is in each guest.
        let (words, file) = of(&["--", "punctual", "check"]);
        assert_eq!((&*words[3], file), ("punctual", None));
    }
}
