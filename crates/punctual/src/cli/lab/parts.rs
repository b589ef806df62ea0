//! From flags to cells: what runs in each cell, under which load.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Parser;

use super::super::cyclictest;
use super::super::failure::Failure;
use super::super::flags::{Cli, Probe, Verb};
use super::super::nearest::meant;
use super::flags::loads as lab_loads;
use super::taskset;
use crate::conduct::lab::Part;
use crate::launch::Program;
use punctual_lab::cell::{OWN_NAME, Work};
use punctual_load::{KERNEL_PATHS, KERNEL_PATHS_NAME, LoadSpec, standard};
use punctual_record::laboratory::Architecture;

/// What runs in the guest by default. The interval in µs and the tick's (4 ms in Debian's kernels)
/// are coprime: 4,000 wake-ups meet each whole microsecond of the tick once. At 500 us, chance decides
/// whether a run meets the tick at every eighth wake-up or never.
const MEASURE: [&str; 8] = [
    "measure",
    "nanosleep",
    "-p",
    "80",
    "-i",
    "509",
    "-l",
    "4000",
];
/// The default length of `measure`.
const CYCLES: [&str; 2] = ["-l", "4000"];
/// The default length of `measure` when it looks for gaps, whose number is not known in advance.
const SECONDS: [&str; 2] = ["-D", "4"];
/// The verb that executes a task set.
const EXEC: &str = "exec";
/// No load.
pub const IDLE: &str = "idle";

/// What decides what can run in a guest.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// Its architecture.
    pub architecture: Architecture,
    /// Whether it runs in a root file system given by the user.
    pub is_rooted: bool,
    /// Its processors.
    pub cpus: usize,
    /// Whether jobs of a task set are explained.
    pub explains: bool,
}

/// The cells of each kernel.
///
/// # Errors
/// Wrong usage.
pub fn parts(load: Option<&str>, command: &[OsString], guest: Guest) -> Result<Vec<Part>, Failure> {
    let is_rooted = guest.is_rooted;
    let words = text(command)?;
    let own = words.is_empty() || is_own(&words[0]);
    if own {
        return of_ourselves(load, &words, guest);
    }
    // With --rootfs, the program is in that root file system.
    let file = if is_rooted {
        PathBuf::from(&command[0])
    } else {
        find(&command[0])?
    };
    loads(load.unwrap_or(IDLE), is_rooted)?
        .into_iter()
        .map(|load| {
            let beside = (load != IDLE).then(|| list(&load));
            Ok(Part {
                work: Work::Program {
                    file: file.clone(),
                    words: words.clone(),
                    load: beside,
                },
                load,
                brought: Vec::new(),
            })
        })
        .collect()
}

/// Finds a program as a shell does; `punctual` without a path is this program itself.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    if name == OWN_NAME {
        return Ok(PathBuf::from(OWN_NAME));
    }
    Program::find(name)
        .map(|program| program.path().to_owned())
        .map_err(|refusal| Failure {
            line: refusal.to_string(),
            status: refusal.status(),
        })
}

/// Whether a word is a verb of punctual that runs in the guest.
pub fn is_own(word: &str) -> bool {
    word == "measure" || word == "qualify" || word == EXEC
}

fn text(words: &[OsString]) -> Result<Vec<String>, Failure> {
    words
        .iter()
        .map(|word| {
            word.clone().into_string().map_err(|word| {
                Failure::usage(format!(
                    "{}: expected text in UTF-8",
                    word.to_string_lossy()
                ))
            })
        })
        .collect()
}

fn of_ourselves(
    wanted: Option<&str>,
    words: &[String],
    guest: Guest,
) -> Result<Vec<Part>, Failure> {
    let mut words = words.to_vec();
    if words.is_empty() {
        words = MEASURE.map(str::to_owned).to_vec();
    }
    let executes = words[0] == EXEC;
    let Checked { load, brought } = check(&mut words, guest)?;
    let named = named_load(load, guest.is_rooted)?;
    if let Some(load) = named {
        if wanted.is_some() {
            return Err(Failure::usage(
                "--load is given twice: before -- it names one guest for each load, after -- \
                 the load of the only guest; give one of them",
            ));
        }
        return Ok(vec![Part {
            load,
            work: Work::Own(words),
            brought,
        }]);
    }
    let wanted = wanted.unwrap_or(if executes { IDLE } else { "idle,native" });
    let part = |load: String| {
        let spec = if load == IDLE {
            "none".to_owned()
        } else {
            list(&load)
        };
        let mut words = words.clone();
        words.extend(["--load".to_owned(), spec]);
        Part {
            load,
            work: Work::Own(words),
            brought: brought.clone(),
        }
    };
    let loads = loads(wanted, guest.is_rooted)?;
    Ok(loads.into_iter().map(part).collect())
}

/// What the words of a verb name.
#[derive(Default)]
struct Checked {
    load: Option<LoadSpec>,
    brought: Vec<PathBuf>,
}

/// Checks and completes the words of a verb.
fn check(words: &mut Vec<String>, guest: Guest) -> Result<Checked, Failure> {
    let line = ["punctual"].into_iter();
    let line = line.chain(words.iter().map(String::as_str));
    let all: Vec<OsString> = line.map(OsString::from).collect();
    if let Some(failure) = cyclictest::refused(&all) {
        return Err(failure);
    }
    let parsed = Cli::try_parse_from(&all).map_err(|error| Failure::refused(&error, &all))?;
    let (run, measures, gaps) = match parsed.verb {
        Verb::Measure(flags) => (flags.run, true, matches!(flags.probe, Probe::Gaps(_))),
        Verb::Qualify(flags) => (flags.run, false, false),
        Verb::Exec(flags) => {
            let brought = taskset::complete(words, &flags, guest)?;
            let load = flags.load;
            return Ok(Checked { load, brought });
        }
        _ => unreachable!("the first word is measure, qualify or exec"),
    };
    if run.output.is_some() || run.live || run.verbose {
        return Err(Failure::usage(
            "-o, --live and -v after --: the guest has no disk and no screen; leave them out, -o before \
             -- sets the directory",
        ));
    }
    // Tracing costs 1,900 instructions per wake-up, and the guest's time is counted in instructions.
    if run.explain_above.is_none() && run.stack_above.is_none() && !run.no_explain {
        words.push("--no-explain".to_owned());
    }
    if gaps && run.duration.is_none() {
        words.extend(SECONDS.map(str::to_owned));
    } else if measures && run.duration.is_none() && run.loops.is_none() {
        words.extend(CYCLES.map(str::to_owned));
    }
    Ok(Checked {
        load: run.load,
        ..Checked::default()
    })
}

/// The label of the load that a verb names.
fn named_load(load: Option<LoadSpec>, is_rooted: bool) -> Result<Option<String>, Failure> {
    Ok(match load {
        None => None,
        Some(LoadSpec::Command(line)) if !is_rooted => {
            return Err(Failure::usage(format!(
                "--load '{line}': the guest has no shell without --rootfs: give native loads"
            )));
        }
        Some(LoadSpec::None) => Some(IDLE.to_owned()),
        Some(load) => Some(load.label()),
    })
}

/// `files+net` in the form of `measure --load`.
fn list(load: &str) -> String {
    match LoadSpec::parse(load) {
        Ok(LoadSpec::Command(line)) => line,
        _ => load.replace('+', ","),
    }
}

/// Splits and checks the names of loads. A set stands for each of its loads.
fn loads(text: &str, is_rooted: bool) -> Result<Vec<String>, Failure> {
    if is_rooted && let Ok(LoadSpec::Command(line)) = LoadSpec::parse(text) {
        return Ok(vec![line]);
    }
    let mut found: Vec<String> = Vec::new();
    for word in text.split(',').map(str::trim) {
        let set: Vec<&str> = match word {
            "none" => vec![IDLE],
            "native" => standard::PARTS.iter().map(|part| part.name).collect(),
            KERNEL_PATHS_NAME => KERNEL_PATHS.to_vec(),
            other => vec![other],
        };
        let many = set.len() > 1;
        for load in set {
            check_load(load, is_rooted)?;
            match found.iter().any(|known| known == load) {
                false => found.push(load.to_owned()),
                // Sets overlap.
                true if many => {}
                true => return Err(Failure::usage(format!("--load: {load} is given twice"))),
            }
        }
    }
    Ok(found)
}

fn check_load(load: &str, is_rooted: bool) -> Result<(), Failure> {
    if load == IDLE {
        return Ok(());
    }
    match LoadSpec::parse(&list(load)) {
        Err(error) => Err(Failure::usage(format!(
            "--load: {}{error}; idle, native and kernel-paths are also accepted here",
            meant(load.split(':').next().unwrap_or(load), lab_loads())
        ))),
        Ok(LoadSpec::Command(line)) if !is_rooted => Err(Failure::usage(format!(
            "--load '{line}': the guest has no shell without --rootfs: give native loads"
        ))),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn planned(arguments: &[&str]) -> Result<Vec<Part>, Failure> {
        let words = ["punctual", "lab"].iter().chain(arguments);
        match Cli::try_parse_from(words).expect("they parse").verb {
            Verb::Lab(flags) => parts(
                flags.guest.load.as_deref(),
                &flags.guest.command,
                super::super::guest(&flags.guest),
            ),
            _ => panic!("the verb is lab"),
        }
    }

    fn own(part: &Part) -> String {
        match &part.work {
            Work::Own(words) => words.join(" "),
            Work::Program { .. } => panic!("not ours"),
        }
    }

    #[test]
    fn the_default_meets_the_tick_at_each_of_its_phases_equally_often() {
        let after = |flag: &str| {
            let mut words = MEASURE.iter().skip_while(|word| **word != flag);
            words.nth(1).and_then(|word| word.parse::<u64>().ok())
        };
        let (interval, cycles) = (after("-i").expect("us"), after("-l").expect("wake-ups"));
        // CONFIG_HZ is 1000, 250 or 100.
        for tick in [1000, 4000, 10_000] {
            let phases: BTreeSet<u64> = (0..cycles).map(|cycle| cycle * interval % tick).collect();
            assert_eq!(phases.len() as u64, cycles.min(tick), "{tick}");
        }
    }

    #[test]
    fn without_a_command_each_native_load_is_measured_by_itself() {
        let parts = planned(&[]).unwrap();
        let names: Vec<&str> = parts.iter().map(|part| part.load.as_str()).collect();
        assert_eq!(
            names,
            [
                "idle",
                "hackbench",
                "mmap",
                "fork",
                "files",
                "net",
                "cpu",
                "timers"
            ]
        );
        assert_eq!(
            own(&parts[0]),
            "measure nanosleep -p 80 -i 509 -l 4000 --no-explain --load none"
        );
        assert!(own(&parts[1]).ends_with("--load hackbench"));
        let paths = planned(&["--load", "kernel-paths"]).unwrap();
        assert_eq!(paths.len(), KERNEL_PATHS.len());
        let all = planned(&["--load", "idle,native,kernel-paths"]).unwrap();
        assert_eq!(all.len(), 1 + 7 + KERNEL_PATHS.len() - 1);
    }

    #[test]
    fn measure_and_qualify_get_their_default_flags() {
        let parts = planned(&["--load", "files+net,idle", "--", "measure", "timerfd"]).unwrap();
        assert_eq!(
            own(&parts[0]),
            "measure timerfd --no-explain -l 4000 --load files,net"
        );
        assert_eq!(
            own(&parts[1]),
            "measure timerfd --no-explain -l 4000 --load none"
        );
        let parts = planned(&["--", "measure", "-D", "5", "--load", "standard"]).unwrap();
        assert_eq!(own(&parts[0]), "measure -D 5 --load standard --no-explain");
        assert_eq!(parts[0].load, "standard load v1");
        let parts = planned(&["--", "qualify", "--load", "none"]).unwrap();
        assert_eq!(own(&parts[0]), "qualify --load none --no-explain");
    }

    #[test]
    fn anything_else_is_a_program() {
        let parts = planned(&["--load", "fork", "--", "sh", "-c", "true"]).unwrap();
        let Work::Program { file, words, load } = &parts[0].work else {
            panic!("a program");
        };
        assert!(file.ends_with("sh"));
        assert_eq!(words, &["sh", "-c", "true"]);
        assert_eq!(load.as_deref(), Some("fork"));
    }

    #[test]
    fn an_impossible_command_is_refused_in_one_line() {
        for (arguments, words, status) in [
            (&["--load", "nte"][..], "unknown load 'nte'", 64),
            (&["--load", "cpu,cpu"], "twice", 64),
            (&["--load", "make -j8"], "no shell", 64),
            (&["--load", ""], "unknown load", 64),
            (
                &["--load", "cpu", "--", "measure", "--load", "cpu"],
                "twice",
                64,
            ),
            (&["--", "measure", "-o", "x"], "-o", 64),
            (&["--", "measure", "--nonsense"], "--nonsense", 64),
            (&["--", "no-such-program"], "no such program", 127),
            (&["--", "/etc/passwd"], "not executable", 126),
        ] {
            let failure = planned(arguments).unwrap_err();
            assert!(failure.line.contains(words), "{}", failure.line);
            assert!(!failure.line.contains('\n'), "{}", failure.line);
            assert_eq!(failure.status, status, "{}", failure.line);
        }
    }
}
