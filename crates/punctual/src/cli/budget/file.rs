//! The file of a budget: TOML in, hops out. Total, whatever it contains.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::super::failure::Failure;
use super::super::looking::read;
use super::super::units;
use super::part::Wanted;
use punctual_record::budget::{Hop, HopTimes, PartOfRun, Whole};
use punctual_record::text::one_line;
use punctual_stats::budget::{Exceedance, ExceedanceError};

/// The longest file.
const MOST_BYTES: u64 = 1 << 20;
/// The most hops, those of other budgets among them.
const MOST_HOPS: usize = 64;
/// The most points of a distribution.
const MOST_POINTS: usize = 10_000;
/// Budgets within budgets.
const DEEPEST: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    deadline: Option<Spanned<String>>,
    miss: Option<Spanned<f64>>,
    confidence: Option<Spanned<f64>>,
    whole: Option<Spanned<PathBuf>>,
    #[serde(rename = "whole-chain")]
    whole_chain: Option<Spanned<String>>,
    #[serde(default)]
    hop: Vec<Spanned<WrittenHop>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHop {
    name: Option<String>,
    run: Option<PathBuf>,
    cpu: Option<usize>,
    task: Option<String>,
    chain: Option<String>,
    constant: Option<String>,
    points: Option<Vec<(String, f64)>>,
    budget: Option<PathBuf>,
    within: Option<String>,
}

/// A file that was read, with the runs that it names.
#[derive(Debug)]
pub struct BudgetFile {
    pub deadline_ns: Option<u64>,
    pub allowed: Option<f64>,
    pub confidence: Option<f64>,
    pub hops: Vec<Hop>,
    /// The run of the whole path.
    pub whole: Option<Whole>,
}

impl BudgetFile {
    /// Reads a file and all that it names, relative to its own directory.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::read_at(path, &mut Vec::new())
    }

    fn read_at(path: &Path, above: &mut Vec<PathBuf>) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let own = path
            .canonicalize()
            .map_err(|error| Failure::setup(format!("{shown}: {error}")))?;
        if above.contains(&own) {
            return Err(Failure::usage(format!(
                "{shown}: this budget contains itself"
            )));
        }
        if above.len() == DEEPEST {
            return Err(Failure::usage(format!(
                "{shown}: more than {DEEPEST} budgets within each other"
            )));
        }
        let text = text_of(path, &shown)?;
        let written: Written = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            Failure::usage(format!("{shown}:{line}: {}", one_line(error.message())))
        })?;
        let place = Place {
            shown: &shown,
            text: &text,
            directory: path.parent().unwrap_or(Path::new("")),
        };
        above.push(own);
        let mut hops = Vec::new();
        for hop in &written.hop {
            hops.extend(place.hops(hop, above)?);
            if hops.len() > MOST_HOPS {
                let why = format!("more than {MOST_HOPS} hops");
                return Err(place.refuse(hop.span().start, &why));
            }
        }
        above.pop();
        if let Some((hop, inner)) = hops.iter().find_map(|it| Some((it, contained(it, &hops)?))) {
            return Err(Failure::usage(format!(
                "{shown}: hops {hop} and {other}: the times of one hold some of the other's, for they share a task, \
                 or one releases the other: leave one out, or name a chain of both",
                hop = one_line(&hop.name),
                other = one_line(&inner.name)
            )));
        }
        let file = Self {
            deadline_ns: place.checked(written.deadline.as_ref(), |text| units::latency(text))?,
            allowed: place.checked(written.miss.as_ref(), |miss| units::miss(&miss.to_string()))?,
            confidence: place.checked(written.confidence.as_ref(), |level| {
                units::confidence(&level.to_string())
            })?,
            whole: place.whole(&written)?,
            hops,
        };
        // Of each file within this one too: so the number of hops bounds that of the files.
        if file.hops.is_empty() {
            return Err(Failure::usage(format!(
                "{shown}: no hop: expected [[hop]] with a name, and run, constant, points or budget"
            )));
        }
        Ok(file)
    }
}

/// A hop that shares times with this one: both are of one run, and a task of that one releases a task of this
/// one, or is one of them.
fn contained<'h>(hop: &Hop, hops: &'h [Hop]) -> Option<&'h Hop> {
    let tasks_of = |it: &Hop| {
        let HopTimes::Run { run, of } = &it.times else {
            return None;
        };
        let set = run.tasks.as_ref().map(|it| it.set.clone())?;
        let tasks = match *of {
            PartOfRun::Task { task } => vec![task],
            PartOfRun::Chain { chain } => set.chains.get(chain)?.tasks.clone(),
            PartOfRun::Threads { .. } => return None,
        };
        Some((run.start_ns, set, tasks))
    };
    let (start_ns, set, tasks) = tasks_of(hop)?;
    let others = hops.iter().filter(|other| !std::ptr::eq(*other, hop));
    others.into_iter().find(|other| {
        let of_it = tasks_of(other).filter(|it| it.0 == start_ns && it.1 == set);
        let mut of_it = of_it.into_iter().flat_map(|it| it.2);
        of_it.any(|other| {
            let mut tasks = tasks.iter();
            tasks.any(|task| *task == other || set.counts_from(*task, other))
        })
    })
}

/// Where something is written.
struct Place<'a> {
    shown: &'a str,
    text: &'a str,
    directory: &'a Path,
}

impl Place<'_> {
    fn of(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    fn refuse(&self, at: usize, why: &str) -> Failure {
        let line = line_of(self.text, at);
        Failure::usage(format!("{}:{line}: {}", self.shown, one_line(why)))
    }

    fn checked<W, V, E: std::fmt::Display>(
        &self,
        written: Option<&Spanned<W>>,
        check: impl Fn(&W) -> Result<V, E>,
    ) -> Result<Option<V>, Failure> {
        let Some(written) = written else {
            return Ok(None);
        };
        let value = check(written.get_ref());
        let refuse = |error| self.refuse(written.span().start, &format!("{error}"));
        value.map(Some).map_err(refuse)
    }

    /// The run of the whole path.
    fn whole(&self, written: &Written) -> Result<Option<Whole>, Failure> {
        let chain = written.whole_chain.as_ref();
        let Some(path) = &written.whole else {
            return match chain {
                Some(chain) => Err(self.refuse(
                    chain.span().start,
                    "whole-chain chooses a chain of a run: give whole",
                )),
                None => Ok(None),
            };
        };
        let run = read(&self.of(path.get_ref()))?;
        let wanted = Wanted {
            chain: chain.map(|it| it.get_ref().as_str()),
            ..Wanted::default()
        };
        let at = chain.map_or_else(|| path.span().start, |it| it.span().start);
        let of = wanted.of(&run).map_err(|why| {
            let why = why.replace("name a task or a chain of it", "name a chain (whole-chain)");
            self.refuse(at, &format!("whole: {why}"))
        })?;
        Ok(Some(Whole { run, of }))
    }

    /// The hops of an entry: one, or those of another budget.
    fn hops(
        &self,
        entry: &Spanned<WrittenHop>,
        above: &mut Vec<PathBuf>,
    ) -> Result<Vec<Hop>, Failure> {
        let (hop, at) = (entry.get_ref(), entry.span().start);
        let Some(name) = hop
            .name
            .as_deref()
            .map(one_line)
            .filter(|it| !it.trim().is_empty())
        else {
            return Err(self.refuse(at, "a hop without a name"));
        };
        let refuse = |why: &str| self.refuse(at, &format!("hop {name}: {why}"));
        let time = |text: &str, what: &str| {
            units::latency(text).map_err(|error| refuse(&format!("{what} '{text}': {error}")))
        };
        let given = [
            hop.run.is_some(),
            hop.constant.is_some(),
            hop.points.is_some(),
            hop.budget.is_some(),
        ];
        if given.iter().filter(|is| **is).count() != 1 {
            return Err(refuse("expected one of run, constant, points and budget"));
        }
        let wanted = Wanted {
            cpu: hop.cpu,
            task: hop.task.as_deref(),
            chain: hop.chain.as_deref(),
        };
        if hop.cpu.is_some() && hop.run.is_none() {
            return Err(refuse("cpu chooses threads of a run: give run"));
        }
        if wanted != Wanted::default() && hop.run.is_none() {
            return Err(refuse("task and chain choose times of a run: give run"));
        }
        if hop.within.is_some() && hop.run.is_none() {
            return Err(refuse(
                "within is the part of the deadline for a run: give run",
            ));
        }
        let within_ns = hop
            .within
            .as_deref()
            .map(|text| time(text, "within"))
            .transpose()?;
        let times = if let Some(path) = &hop.budget {
            let inner = BudgetFile::read_at(&self.of(path), above)?;
            let named = inner.hops.into_iter().map(|it| Hop {
                name: format!("{name}/{}", it.name),
                ..it
            });
            return Ok(named.collect());
        } else if let Some(path) = &hop.run {
            let run = read(&self.of(path))?;
            let of = wanted.of(&run).map_err(|why| refuse(&why))?;
            HopTimes::Run {
                run: Box::new(run),
                of,
            }
        } else if let Some(text) = &hop.constant {
            HopTimes::Constant(time(text, "constant")?)
        } else {
            let mut points = Vec::new();
            if hop.points.as_ref().is_some_and(|it| it.len() > MOST_POINTS) {
                return Err(refuse(&format!("more than {MOST_POINTS} points")));
            }
            for (text, share) in hop.points.iter().flatten() {
                points.push((time(text, "point")?, *share));
            }
            HopTimes::Known(
                Exceedance::of_points(&points).map_err(|why| refuse(&points_fault(why)))?,
            )
        };
        Ok(vec![Hop {
            name: name.clone(),
            times,
            within_ns,
        }])
    }
}

fn points_fault(fault: ExceedanceError) -> String {
    match fault {
        ExceedanceError::Empty => {
            "points are empty: expected [[\"50us\", 0.5], [\"1ms\", 1.0]], each a time and the \
             share of cycles that take no longer"
                .to_owned()
        }
        ExceedanceError::NoProbability(index) => {
            format!("point {}: expected a share from 0 to 1", index + 1)
        }
        ExceedanceError::NotAscending(index) => format!(
            "point {}: expected a time and a share above those of the point before it",
            index + 1
        ),
    }
}

fn text_of(path: &Path, shown: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let length = File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| Failure::setup(format!("{shown}: {error}")))?;
    if length as u64 > MOST_BYTES {
        return Err(Failure::usage(format!(
            "{shown}: longer than 1 MiB: expected a budget in TOML"
        )));
    }
    Ok(text)
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}
