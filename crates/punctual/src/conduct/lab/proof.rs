//! Which boot parameter helps? Cells without and with each, the words that a kernel doesn't know,
//! and what the pairs say.

use std::collections::BTreeMap;

use super::cells::{Cell, Outcome, run_all};
use super::plan::{Column, LabPlan, Part};
use super::{Bench, Forecast, Making, News};
use punctual_lab::CellResult;
use punctual_lab::cell::Work;
use punctual_record::Run;
use punctual_record::lab::{LabProof, LabVariant, NoResult, ProofPair, ProofParameter, ProofRow};
use punctual_stats::experiment::{BlockLatencies, KnobConclusion, KnobResult};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::verdict::Outcome as Verdict;

/// The variant with the control.
const CONTROL: &str = "control";

/// An experiment to be made.
#[derive(Debug, Clone)]
pub struct ProofPlan {
    /// Kernels as the user named them.
    pub kernels: Vec<String>,
    /// Words that every guest has.
    pub base: Vec<String>,
    /// The parameters.
    pub parameters: Vec<String>,
    /// What runs, for each load.
    pub parts: Vec<Part>,
    /// How sure a conclusion must be.
    pub confidence: f64,
    /// Of each kernel, the parameters that it doesn't know.
    pub unknown: BTreeMap<String, Vec<String>>,
}

impl ProofPlan {
    /// The word that each kernel ignores: it has a dot, so it could be a module's. It is as long as
    /// the longest parameter, for the kernel reads each letter.
    #[must_use]
    pub fn control(&self) -> String {
        let name = "lab.control=";
        let longest = self.parameters.iter().map(String::len).max().unwrap_or(0);
        let letters = longest.saturating_sub(name.len()).max(1);
        format!("{name}{}", "1".repeat(letters))
    }

    /// A guest for each kernel that has all parameters at once: what runs in it is of no interest.
    #[must_use]
    pub fn scouts(&self) -> Vec<Column> {
        let words = ["measure", "-l", "1", "--load", "none", "--no-explain"];
        let part = Part {
            load: "none".to_owned(),
            work: Work::Own(words.map(str::to_owned).to_vec()),
            brought: Vec::new(),
        };
        let column = |kernel: &String| Column {
            name: kernel.clone(),
            kernel: kernel.clone(),
            parameters: [&self.base[..], &self.parameters].concat(),
            parts: vec![part.clone()],
            variant: None,
            result: None,
        };
        self.kernels.iter().map(column).collect()
    }

    /// The columns of the table: of each kernel without a parameter, with each that it knows, and
    /// with the control.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        for kernel in &self.kernels {
            let known = self.parameters.iter().filter(|it| self.knows(kernel, it));
            let known = known.map(|word| (word.clone(), Some(word.clone())));
            let variants = std::iter::once((LabProof::OFF.to_owned(), None))
                .chain(known)
                .chain([(CONTROL.to_owned(), Some(self.control()))]);
            columns.extend(variants.map(|(name, word)| Column {
                name: format!("{kernel} {name}"),
                kernel: kernel.clone(),
                parameters: self.base.iter().cloned().chain(word).collect(),
                parts: self.parts.clone(),
                variant: Some(LabVariant {
                    machine: kernel.clone(),
                    name,
                    ranked: true,
                }),
                result: None,
            }));
        }
        columns
    }

    fn knows(&self, kernel: &str, word: &String) -> bool {
        let unknown = self.unknown.get(kernel);
        unknown.is_none_or(|unknown| !unknown.contains(word))
    }

    /// Parameters, loads and kernels: what is tested. The control is no test.
    #[must_use]
    pub fn tests(&self) -> usize {
        let of = |kernel: &String| {
            let known = self.parameters.iter().filter(|it| self.knows(kernel, it));
            known.count()
        };
        self.parts.len() * self.kernels.iter().map(of).sum::<usize>()
    }

    /// What the cells say. A seed counts if both of its guests have a valid result.
    #[must_use]
    pub fn judged(&self, seeds: u64, cells: &[Cell<'_>], outcomes: &[Outcome]) -> LabProof {
        let valid = |outcome: &Outcome| {
            let run = outcome.as_ref()?.as_ref().ok()?.run.as_ref()?;
            let verdict = run.verdict.as_ref();
            let is_invalid = verdict.is_some_and(|it| it.outcome == Verdict::Invalid);
            (!is_invalid).then(|| Latencies::of(run))?
        };
        let mut found: BTreeMap<(&str, &str, u64, &[String]), Latencies> = BTreeMap::new();
        for (cell, outcome) in cells.iter().zip(outcomes) {
            let plan = &cell.plan;
            let words = plan.parameters.get(self.base.len()..).unwrap_or_default();
            let key = (&*plan.kernel.asked, &*cell.load, plan.seed, words);
            found.extend(valid(outcome).map(|latencies| (key, latencies)));
        }
        let deadline_ns = outcomes.iter().flatten().flatten().find_map(deadline);
        let figures = |of: &Latencies| {
            let limit_ns = deadline_ns.unwrap_or(u64::MAX);
            BlockLatencies::of(&of.all, limit_ns)
        };
        let words = self.parameters.iter().map(|word| (word.clone(), false));
        let parameters: Vec<ProofParameter> = words
            .chain([(self.control(), true)])
            .map(|(word, is_control)| ProofParameter { word, is_control })
            .collect();
        let mut rows = Vec::new();
        for kernel in &self.kernels {
            for part in &self.parts {
                for (at, parameter) in parameters.iter().enumerate() {
                    let word = std::slice::from_ref(&parameter.word);
                    let pair = |seed: u64| {
                        let of = |words| found.get(&(&**kernel, &*part.load, seed, words));
                        let (off, on) = (of(&[])?, of(word)?);
                        Some(ProofPair {
                            seed,
                            off: figures(off),
                            on: figures(on),
                            is_identical: off == on,
                        })
                    };
                    rows.push(ProofRow {
                        kernel: kernel.clone(),
                        load: part.load.clone(),
                        parameter: at,
                        is_unknown: !self.knows(kernel, &parameter.word),
                        pairs: (1..=seeds).filter_map(pair).collect(),
                        result: KnobResult {
                            pairs: 0,
                            effects: Vec::new(),
                            conclusion: KnobConclusion::TooFewPairs,
                        },
                    });
                }
            }
        }
        let mut proof = LabProof {
            parameters,
            seeds,
            confidence: self.confidence,
            deadline_ns,
            rows,
        };
        proof.judge();
        proof
    }
}

/// The deadline of a run.
fn deadline(made: &CellResult) -> Option<u64> {
    made.run.as_ref()?.deadline_ns()
}

/// Every latency of a run.
struct Latencies {
    /// As recorded, a histogram and the skipped periods for each thread.
    encoded: Vec<(HistogramRecord, u64)>,
    /// All threads together.
    all: Histogram,
}

impl PartialEq for Latencies {
    fn eq(&self, other: &Self) -> bool {
        self.encoded == other.encoded
    }
}

impl Latencies {
    fn of(run: &Run) -> Option<Self> {
        let threads = run.threads.iter();
        let encoded: Vec<_> = threads.map(|it| (it.latency.clone(), it.missed)).collect();
        let mut all = Histogram::default();
        for (latency, _) in &encoded {
            all.merge(&Histogram::try_from(latency).ok()?);
        }
        Some(Self { encoded, all })
    }
}

/// Boots each kernel once with all parameters, and notes those that it doesn't know.
///
/// # Errors
/// The kernel for which it failed, and why.
pub fn scout(
    plan: &mut ProofPlan,
    lab: &LabPlan,
    bench: &Bench,
    making: &Making<'_>,
    ends: &(dyn Fn() -> bool + Sync),
    tick: &mut dyn FnMut(&Forecast),
) -> Result<(), (String, NoResult)> {
    let scouts = LabPlan {
        columns: plan.scouts(),
        seeds: 1,
        ..lab.clone()
    };
    let first = || plan.kernels.first().cloned().unwrap_or_default();
    let cells = super::plan(&scouts, bench).map_err(|error| (first(), error.into()))?;
    let mut told = |_: News<'_, '_>, forecast: &Forecast| tick(forecast);
    let outcomes = run_all(&cells, bench, making, ends, &mut told);
    let mut unknown = BTreeMap::new();
    for (cell, outcome) in cells.iter().zip(outcomes) {
        let kernel = cell.column.clone();
        match outcome {
            Some(Ok(made)) => unknown.insert(kernel, made.unknown),
            Some(Err(why)) => return Err((kernel, why)),
            None => return Err((kernel, NoResult::Interrupted)),
        };
    }
    plan.unknown = unknown;
    Ok(())
}
