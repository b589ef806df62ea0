//! What the library's stacks, locks and rings cost beside what else there is: every variant
//! in every round, and the ratio of each round.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};
use crate::root;

const ROUNDS: usize = 15;

/// A checked pair of 20 ns where a list behind a mutex takes 28.
const PAIR_SHARE: f64 = 20.0 / 28.0;
/// A new thread is done at least four times as fast.
const DONE_SHARE: f64 = 1.0 / 4.0;
/// Many new threads at once are done in half the time.
const MANY_SHARE: f64 = 1.0 / 2.0;
/// As flat as a shared machine can show it.
const FLAT: f64 = 1.1;

/// A figure: its name and the threads that were at it.
type Key = (String, usize);

/// Each figure's values, a round each.
#[derive(Debug, Default)]
struct Figures(HashMap<Key, Vec<f64>>);

impl Figures {
    /// Lines of name, threads and value, as the benches print them.
    fn add(&mut self, lines: &str) -> Result<(), String> {
        for line in lines.lines() {
            let mut words = line.split('\t');
            let mut next = || words.next().ok_or(format!("not a figure: {line}"));
            let (name, threads, value) = (next()?, next()?, next()?);
            let threads = threads.parse().map_err(|_| format!("threads: {line}"))?;
            let value = value.parse().map_err(|_| format!("value: {line}"))?;
            let key = (name.to_owned(), threads);
            self.0.entry(key).or_default().push(value);
        }
        Ok(())
    }

    fn of(&self, name: &str, threads: usize) -> Result<&[f64], String> {
        let found = self.0.get(&(name.to_owned(), threads));
        found.map(Vec::as_slice).ok_or(format!(
            "the benches don't say {name} for {threads} threads"
        ))
    }

    fn middle(&self, name: &str, threads: usize) -> Result<f64, String> {
        let all = self.of(name, threads)?.to_vec();
        Ok(Spread::of(all).map_or(0.0, |spread| spread.middle))
    }

    /// The most threads that a figure was measured with.
    fn most(&self, name: &str) -> usize {
        let of_it = self.0.keys().filter(|(known, _)| known == name);
        of_it.map(|(_, threads)| *threads).max().unwrap_or(1)
    }

    /// Ours as a share of another's, round by round.
    fn against(
        &self,
        name: impl Into<String>,
        ours: (&str, usize),
        (theirs, threads, who): (&str, usize, &str),
    ) -> Result<Row, String> {
        let (own, other) = (self.of(ours.0, ours.1)?, self.of(theirs, threads)?);
        let ratios = own.iter().zip(other).map(|(own, other)| own / other);
        Ok(Row {
            ours: time(self.middle(ours.0, ours.1)?),
            peer: format!("{} {who}", time(self.middle(theirs, threads)?)),
            ratio: Spread::of(ratios.collect()),
            ..Row::new(name)
        })
    }
}

fn time(ns: f64) -> String {
    if ns < 1000.0 {
        format!("{ns:.1} ns")
    } else {
        format!("{:.1} us", ns / 1e3)
    }
}

/// A limit that a row is held to: met where the quartiles reach into it.
fn at_most(mut row: Row, limit: f64, words: &str) -> Row {
    row.target = format!("at most {limit:.2} ({words}) within noise");
    row.standing = Standing::of(row.ratio.is_some_and(|ratio| ratio.low <= limit));
    row
}

fn no_slower(row: Row) -> Row {
    at_most(row, 1.0, "no slower")
}

/// A count that must be 0 in every round.
fn none(mut row: Row, counted: &[f64]) -> Row {
    row.ratio = None;
    row.exact = true;
    row.target = "0".to_owned();
    row.standing = Standing::of(counted.iter().all(|&count| count == 0.0));
    row
}

/// A pair of allocation and free of a guarded stack of 256 KB, and new threads on one.
pub fn stacks(tools: &Tools) -> Result<Vec<Row>, String> {
    let boost = compiled_boost(tools);
    let mut figures = Figures::default();
    for round in 0..ROUNDS {
        let ours = |figures: &mut Figures| {
            figures.add(&tools::output(
                Command::new(&tools.stack_bench).args(["1", "lines"]),
            )?)
        };
        let theirs = |figures: &mut Figures| match &boost {
            Ok(program) => figures.add(&tools::output(Command::new(program).args(["1", "2"]))?),
            Err(_) => Ok(()),
        };
        // Who goes first changes.
        if round % 2 == 0 {
            ours(&mut figures)?;
            theirs(&mut figures)?;
        } else {
            theirs(&mut figures)?;
            ours(&mut figures)?;
        }
    }
    let all = figures.most("checked");
    let pair = |name: &str, peer, who| figures.against(name, ("checked", 1), (peer, 1, who));
    let mut rows = vec![
        at_most(
            pair(
                "stack of 256 KB: alloc and free",
                "mutex-list",
                "list, mutex",
            )?,
            PAIR_SHARE,
            "20 ns to 28",
        ),
        at_most(
            Row {
                peer: format!(
                    "{} list, mutex, {all} threads",
                    time(figures.middle("mutex-list", all)?)
                ),
                ..figures.against(
                    format!("  with {all} threads, to one"),
                    ("checked", all),
                    ("checked", 1, ""),
                )?
            },
            FLAT,
            "flat",
        ),
        pair("  to the kernel", "kernel", "mmap ... munmap")?,
        pair(
            "  to a thread on glibc's cached stack",
            "thread-default",
            "pthread_create, join",
        )?,
    ];
    match boost {
        Ok(_) => rows.extend([
            pair("  to boost's pool", "boost-pooled", "unguarded, unchecked")?,
            pair("  to boost's protected", "boost-protected", "one guard")?,
        ]),
        Err(reason) => rows.push(Row::not_measured("  to boost's stacks", reason)),
    }
    let own = |figure: &str| format!("{figure}-ours");
    let touching = |name: &str, figure: &str, who| {
        figures.against(
            name,
            (&own(figure), 1),
            (&format!("{figure}-default"), 1, who),
        )
    };
    rows.push(touching("thread, created and joined", "thread", "glibc")?);
    rows.push(at_most(
        touching("thread that touches 200 KB: to done", "done", "glibc")?,
        DONE_SHARE,
        "4 times as fast",
    ));
    rows.push(faults(&figures, ("faults-ours", "faults-default"))?);
    let many = figures.most("many-ours");
    rows.push(at_most(
        figures.against(
            format!("{many} threads that touch 200 KB"),
            ("many-ours", many),
            ("many-default", many, "glibc"),
        )?,
        MANY_SHARE,
        "half the time",
    ));
    Ok(rows)
}

fn faults(figures: &Figures, (ours, theirs): (&str, &str)) -> Result<Row, String> {
    let row = Row {
        ours: format!("{:.0}", figures.middle(ours, 1)?),
        peer: format!("{:.0} glibc", figures.middle(theirs, 1)?),
        ..Row::new("  its page faults")
    };
    Ok(none(row, figures.of(ours, 1)?))
}

/// New threads of a program that knows nothing of us, as it is and under `punctual run`.
pub fn run(tools: &Tools) -> Result<Vec<Row>, String> {
    let name = "thread of a program under run: to done";
    let program = match compiled(tools, "cc", "new_threads.c", &["-std=c11"], &[]) {
        Ok(program) => program,
        Err(reason) => return Ok(vec![Row::not_measured(name, reason)]),
    };
    let mut figures = Figures::default();
    let plain = |figures: &mut Figures| {
        let lines = tools::output(&mut Command::new(&program))?;
        figures.add(&prefixed("plain-", &lines))
    };
    let under = |figures: &mut Figures| {
        let mut command = Command::new(&tools.punctual);
        command.args(["run", "--stack", "pool", "--"]).arg(&program);
        figures.add(&prefixed("run-", &tools::output(&mut command)?))
    };
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            plain(&mut figures)?;
            under(&mut figures)?;
        } else {
            under(&mut figures)?;
            plain(&mut figures)?;
        }
    }
    let done = figures.against(name, ("run-done", 1), ("plain-done", 1, "as it is"))?;
    Ok(vec![
        at_most(done, DONE_SHARE, "4 times as fast"),
        faults(&figures, ("run-faults", "plain-faults"))?,
    ])
}

fn prefixed(prefix: &str, lines: &str) -> String {
    lines
        .lines()
        .map(|line| format!("{prefix}{line}\n"))
        .collect()
}

/// The mutex and the rings.
pub fn sync(tools: &Tools) -> Result<Vec<Row>, String> {
    let mut figures = Figures::default();
    for _ in 0..ROUNDS {
        figures.add(&tools::output(
            Command::new(&tools.sync_bench).args(["1", "lines"]),
        )?)?;
    }
    let lock = |name: &str, threads, peer, who| {
        figures.against(name, ("pi-mutex", threads), (peer, threads, who))
    };
    let ring = |name: &str, ours, threads| {
        figures.against(name, (ours, threads), ("rtrb", threads, "rtrb"))
    };
    let memory = |name: &str, threads| {
        let peer = ("rtrb-memory", threads, "rtrb");
        figures.against(name, ("records-memory", threads), peer)
    };
    Ok(vec![
        lock("PiMutex: lock and unlock", 1, "pthread-pi", "pthread, PI")?,
        lock("  with 2 threads", 2, "pthread-pi", "pthread, PI")?,
        lock("  to one without inheritance", 1, "pthread", "pthread")?,
        ring("ring: 64 bytes in and out", "ring", 1)?,
        ring("  from thread to thread", "ring", 2)?,
        no_slower(ring("records: 64 bytes in and out", "records", 1)?),
        no_slower(ring("  from thread to thread", "records", 2)?),
        no_slower(memory("records from memory to memory", 1)?),
        no_slower(memory("  from thread to thread", 2)?),
    ])
}

fn compiled_boost(tools: &Tools) -> Result<PathBuf, String> {
    let header = "boost/context/protected_fixedsize_stack.hpp";
    let there = ["/usr/include", "/usr/local/include"]
        .iter()
        .any(|folder| Path::new(folder).join(header).exists());
    if !there {
        return Err("boost is not installed (Debian: libboost-context-dev)".to_owned());
    }
    compiled(
        tools,
        "c++",
        "boost_stacks.cpp",
        &["-std=c++17"],
        &["-lboost_context"],
    )
}

/// A program beside this file, compiled: flags before it, libraries after it.
fn compiled(
    tools: &Tools,
    compiler: &str,
    file: &str,
    flags: &[&str],
    libraries: &[&str],
) -> Result<PathBuf, String> {
    let program = tools.place(file.split('.').next().unwrap_or(file));
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-pthread", "-o"])
        .arg(&program)
        .args(flags)
        .arg(root().join("xtask/src/bench").join(file))
        .args(libraries);
    tools::output(&mut command).map(|_| program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_each_round() {
        let mut figures = Figures::default();
        for (own, other) in [(1.0, 2.0), (3.0, 4.0), (10.0, 10.0)] {
            figures
                .add(&format!("a\t1\t{own}\nb\t1\t{other}\n"))
                .unwrap();
        }
        let row = figures.against("row", ("a", 1), ("b", 1, "them")).unwrap();
        assert_eq!(row.ratio.unwrap().middle, 0.75);
        assert_eq!((&*row.ours, &*row.peer), ("3.0 ns", "4.0 ns them"));
        assert_eq!(at_most(row.clone(), 0.62, "").standing, Standing::NotMet);
        assert_eq!(at_most(row, 0.63, "").standing, Standing::Met);
        assert!(figures.against("", ("a", 2), ("b", 1, "")).is_err());
    }

    #[test]
    fn what_is_no_figure_is_told() {
        let mut figures = Figures::default();
        for line in ["a", "a\t1", "a\tone\t1", "a\t1\tx"] {
            assert!(figures.add(line).is_err(), "{line}");
        }
        figures.add("a\t1\t2\na\t8\t2\n").unwrap();
        assert_eq!((figures.most("a"), figures.most("b")), (8, 1));
    }

    #[test]
    fn one_fault_in_one_round_is_one_too_many() {
        let row = || Row::new("faults");
        assert_eq!(none(row(), &[0.0, 0.0]).standing, Standing::Met);
        assert_eq!(none(row(), &[0.0, 1.0]).standing, Standing::NotMet);
    }
}
