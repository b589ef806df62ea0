//! Running programs: found by number or name, and whether they have ended.

use std::error::Error;
use std::fmt;
use std::io;

use crate::root::{Root, decimal};
use punctual_record::proc_stat::Stat;
use punctual_record::proc_status::value;

/// A running program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel keeps it (15 bytes).
    pub name: String,
    /// The command line that it was started with; empty for the kernel's own threads.
    pub command: Vec<String>,
    /// The program that started it.
    pub parent: u32,
    /// When it started, in ticks since boot: distinguishes it from a later one with the same number.
    started: u64,
}

/// Why a program isn't found.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessError {
    /// None has the name.
    NoName {
        /// The name.
        wanted: String,
    },
    /// Several have the name.
    Several {
        /// The name.
        wanted: String,
        /// Their numbers.
        pids: Vec<u32>,
    },
    /// None has the number.
    NoNumber(u32),
    /// The number is that of a thread.
    Thread {
        /// The number.
        tid: u32,
        /// Its program's.
        program: String,
    },
    /// `/proc` can't be read.
    Unreadable(io::Error),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName { wanted } => write!(
                f,
                "no program is named '{wanted}'; `ps -e` lists those that run"
            ),
            Self::Several { wanted, pids } => {
                let numbers: Vec<String> = pids.iter().take(8).map(u32::to_string).collect();
                let more = if pids.len() > 8 { ", ..." } else { "" };
                write!(
                    f,
                    "{} programs are named '{wanted}': name one by its number ({}{more})",
                    pids.len(),
                    numbers.join(", ")
                )
            }
            Self::NoNumber(pid) => write!(
                f,
                "no program has the number {pid}; `ps -e` lists those that run"
            ),
            Self::Thread { tid, program } => write!(
                f,
                "{tid} is a thread of the program {program}: name that one"
            ),
            Self::Unreadable(source) => write!(f, "/proc: {source}"),
        }
    }
}

impl Error for ProcessError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable(source) => Some(source),
            _ => None,
        }
    }
}

/// Finds a program by its number, or by its name.
///
/// # Errors
/// There is none, there are several, or the number is that of a thread.
pub fn find(root: &Root, wanted: &str) -> Result<Process, ProcessError> {
    if let Some(pid) = decimal::<u32>(wanted) {
        return by_number(root, pid);
    }
    let mut found = named(root, wanted)?;
    let wanted = wanted.to_owned();
    match found.len() {
        0 => Err(ProcessError::NoName { wanted }),
        1 => Ok(found.remove(0)),
        _ => Err(ProcessError::Several {
            wanted,
            pids: found.iter().map(|process| process.pid).collect(),
        }),
    }
}

/// All programs with a name, except this one.
///
/// # Errors
/// When `/proc` can't be read.
pub fn named(root: &Root, wanted: &str) -> Result<Vec<Process>, ProcessError> {
    let own = std::process::id();
    let wanted = kept(wanted);
    let numbers = numbers(root)?.into_iter().filter(|pid| *pid != own);
    Ok(numbers
        .filter(|pid| {
            let name = root.text(&format!("/proc/{pid}/comm")).unwrap_or_default();
            !name.is_empty() && wanted == name.trim_end_matches('\n').as_bytes()
        })
        .filter_map(|pid| read(root, pid))
        .collect())
}

/// The part of a name that the kernel keeps: 15 bytes.
#[must_use]
pub fn kept(name: &str) -> &[u8] {
    name.as_bytes().get(..15).unwrap_or(name.as_bytes())
}

/// All running descendants of a program.
#[must_use]
pub fn descendants(root: &Root, pid: u32) -> Vec<Process> {
    let numbers = numbers(root).unwrap_or_default();
    let mut others: Vec<Process> = numbers
        .into_iter()
        .filter_map(|pid| read(root, pid))
        .collect();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for child in others.extract_if(.., |other| other.parent == parent) {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found
}

fn numbers(root: &Root) -> Result<Vec<u32>, ProcessError> {
    let names = root.names("/proc").map_err(ProcessError::Unreadable)?;
    Ok(names
        .iter()
        .filter_map(|name| decimal::<u32>(name))
        .collect())
}

fn by_number(root: &Root, pid: u32) -> Result<Process, ProcessError> {
    let none = || ProcessError::NoNumber(pid);
    let status = root
        .text(&format!("/proc/{pid}/status"))
        .map_err(|_| none())?;
    if let Some(program) = value(&status, "Tgid").filter(|tgid| *tgid != pid.to_string()) {
        return Err(ProcessError::Thread {
            tid: pid,
            program: program.to_owned(),
        });
    }
    read(root, pid).ok_or_else(none)
}

/// A running program, by its number.
#[must_use]
pub fn read(root: &Root, pid: u32) -> Option<Process> {
    let stat = root.text(&format!("/proc/{pid}/stat")).ok()?;
    let stat = Stat::parse(&stat)?;
    // A zombie, which waits for its parent, does not run any more. The main thread may end
    // before the others: then it is a zombie until they have ended.
    let others = stat.count(20).is_some_and(|threads| threads > 1);
    if matches!(stat.state()?, 'Z' | 'X') && !others {
        return None;
    }
    let command = root
        .text(&format!("/proc/{pid}/cmdline"))
        .unwrap_or_default();
    let words = command.split('\0').filter(|word| !word.is_empty());
    Some(Process {
        pid,
        name: stat.name.to_owned(),
        command: words.take(256).map(str::to_owned).collect(),
        parent: stat
            .count(4)
            .and_then(|it| u32::try_from(it).ok())
            .unwrap_or(0),
        started: stat.count(22)?,
    })
}

impl Process {
    /// How many of its threads are of ordinary priority.
    #[must_use]
    pub fn ordinary_threads(&self, root: &Root) -> u64 {
        let tasks = root.names(&format!("/proc/{}/task", self.pid));
        let policies = tasks.unwrap_or_default().into_iter().filter_map(|tid| {
            let stat = root.text(&format!("/proc/{}/task/{tid}/stat", self.pid));
            Stat::parse(&stat.ok()?)?.count(41)
        });
        // The others: SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
        policies.filter(|it| !matches!(it, 1 | 2 | 6)).count() as u64
    }

    /// Whether it still runs.
    #[must_use]
    pub fn runs(&self, root: &Root) -> bool {
        read(root, self.pid).is_some_and(|now| now.started == self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_found_by_its_number_and_runs() {
        let root = Root::live();
        let own = find(&root, &std::process::id().to_string()).expect("ourselves");
        assert!(own.runs(&root) && !own.command.is_empty() && !own.name.is_empty());
        let other = Process {
            started: own.started + 1,
            ..own
        };
        assert!(!other.runs(&root), "a number that was given out again");
    }

    #[test]
    fn a_program_whose_main_thread_has_ended_runs_while_others_do() {
        let place = tempfile::tempdir().expect("a folder");
        let root = Root::recorded(place.path());
        let of = |threads: u32| {
            let stat =
                format!("77 (left) Z 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 500 0\n");
            std::fs::create_dir_all(place.path().join("proc/77")).expect("a folder");
            std::fs::write(place.path().join("proc/77/stat"), stat).expect("a file");
            read(&root, 77)
        };
        let left = of(3).expect("it runs");
        assert_eq!((&*left.name, left.started), ("left", 500));
        assert!(left.runs(&root));
        assert_eq!(of(1), None);
    }

    #[test]
    fn a_missing_program_is_reported_in_one_line() {
        let root = Root::live();
        for wanted in ["4194305", "99999999999", "no-such-program", "", "../1"] {
            let why = find(&root, wanted).expect_err(wanted).to_string();
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }
}
