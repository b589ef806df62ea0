//! What a comparison says, in sentences.

use punctual_stats::compare::{
    Basis, Comparison as Statistics, Conclusion, Confounded, Order, Unit, Untested,
};
use punctual_stats::format;

use super::cpus::Cpus;
use super::warnings::{Named, Warning};
use crate::{facts, words};
use punctual_record::Blocks;
use punctual_record::conditions::Aspect;

/// How runs are best repeated.
const ALTERNATE: &str = "Make the runs in turn (A1 B1 B2 A2 A3 B3 ...) and compare them with \
                         `punctual compare A1 A2 ... -- B1 B2 ...`.";

/// The sentence that stands first.
pub(super) fn headline(statistics: &Statistics) -> String {
    match statistics.conclusion {
        Conclusion::TooFewSamples => {
            "Too few samples to compare: fewer than 100 in a run.".to_owned()
        }
        Conclusion::Untested { .. } => "Not tested: chance cannot be judged here.".to_owned(),
        Conclusion::TooFewRuns { needed } => format!(
            "Too few runs: {} can show a difference at {} confidence; it takes {needed} runs \
             on each side.",
            match statistics.runs {
                (1, 1) => "one run on each side never".to_owned(),
                (a, b) => format!("no outcome of {a} and {b} runs"),
            },
            format::percent(statistics.confidence)
        ),
        Conclusion::NoDifferenceSeen => {
            "No difference seen. That does not show that there is none.".to_owned()
        }
        Conclusion::Differ { .. } if statistics.runs == (1, 1) => {
            format!("These two runs differ in {}.", differing(statistics))
        }
        Conclusion::Differ { .. } => {
            format!(
                "The runs of A and of B differ in {}.",
                differing(statistics)
            )
        }
        Conclusion::FirstSlower => format!("A is slower than B at {}.", differing(statistics)),
        Conclusion::SecondSlower => format!("B is slower than A at {}.", differing(statistics)),
        Conclusion::Mixed => format!(
            "B is slower than A at {} and faster at {}.",
            at(statistics, |ratio| ratio > 1.0),
            at(statistics, |ratio| ratio < 1.0)
        ),
        _ => "This program does not know the conclusion.".to_owned(),
    }
}

fn at(statistics: &Statistics, of: fn(f64) -> bool) -> String {
    let stated = statistics
        .quantiles
        .iter()
        .filter(|q| q.is_stated(statistics.confidence) && q.ratio.is_some_and(of));
    let names: Vec<String> = stated.map(|q| percentile(q.quantile)).collect();
    match names.split_last() {
        None => "no quantile".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn differing(statistics: &Statistics) -> String {
    at(statistics, |_| true)
}

/// `p99.9`.
pub(super) fn percentile(quantile: f64) -> String {
    let text = format!("{:.4}", quantile * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// What follows from the design, and how to learn more.
pub(super) fn meaning(statistics: &Statistics) -> Option<String> {
    let (a, b) = statistics.runs;
    Some(match statistics.conclusion {
        Conclusion::Untested {
            why: Untested::Gaps,
        } => "The samples are gaps: a machine that has more short ones has the lower percentiles. What counts is \
              the time in gaps, in the table below."
            .to_owned(),
        Conclusion::Untested {
            why: Untested::Skipped,
        } => "One side skipped or lost more of its cycles: these have no latency and are in no percentile. Compare \
              their numbers in the table below."
            .to_owned(),
        Conclusion::Untested { why } => format!(
            "{} {ALTERNATE}",
            match why {
                Untested::NoBlocks =>
                    "A record does not state when its samples came, and latency comes in bursts: how far \
                     apart two runs of one machine would be is not known.",
                Untested::NoQuantile if statistics.quantiles.is_empty() =>
                    "No quantile lies within what both sides know of their latencies.",
                Untested::TooShort =>
                    "A run is too short: it takes eight stretches of time on each side, of one length.",
                _ =>
                    "No quantile lies within what both sides know, with enough samples in each \
                     stretch of time.",
            }
        ),
        Conclusion::TooFewRuns { needed } => format!(
            "The smallest p-value of {a} and {b} runs is {}; with {needed} and {needed} it is {}.",
            p_value(statistics.basis.map_or(1.0, |basis| basis.smallest_p)),
            p_value(smallest(needed))
        ),
        Conclusion::Differ { because } => match because {
            Confounded::SingleRuns => format!(
                "One run on each side cannot show why: one machine differs from hour to hour. {ALTERNATE}"
            ),
            Confounded::Order => format!(
                "Their order cannot show why: one side was measured mostly before the other, or they \
                 alternate too rarely, so a drift of the machine looks the same. {ALTERNATE}"
            ),
            Confounded::OrderUnknown => {
                "Not every record states when its run began, so a drift of the machine may be the reason."
                    .to_owned()
            }
            Confounded::Trend => {
                "A straight trend over the time of the runs makes half of that or more: let the \
                 machine settle, and alternate which side comes first (A B B A)."
                    .to_owned()
            }
        },
        Conclusion::NoDifferenceSeen if (a, b) == (1, 1) => return None,
        Conclusion::NoDifferenceSeen => {
            "More runs find smaller differences: the intervals below are what these can exclude."
                .to_owned()
        }
        Conclusion::FirstSlower | Conclusion::SecondSlower | Conclusion::Mixed => {
            "The order of the runs rules a steady drift out as the reason; the other differences between the sides \
             are listed below."
                .to_owned()
        }
        _ => return None,
    })
}

fn smallest(runs: usize) -> f64 {
    // Both sides may swap their names: two splits of all are as extreme as can be.
    let ways = (0..runs).fold(1.0, |ways, i| ways * (2 * runs - i) as f64 / (i + 1) as f64);
    2.0 / ways
}

/// What the p-values rest on.
pub(super) fn basis(statistics: &Statistics) -> Option<String> {
    let basis = statistics.basis?;
    let order = match statistics.order {
        Some(Order::Pairs) => ", begun in pairs",
        Some(Order::Mixed) => ", begun in mixed order",
        Some(Order::Apart) => ", begun apart",
        Some(Order::Unknown) => ", their order unknown",
        None => "",
    };
    Some(format!(
        "p: how often chance alone makes any of these differ as much, by a randomisation test; \
         the unit is {}{order}; the smallest p that gives is {}. Intervals hold at {} each.",
        unit(&basis),
        p_value(basis.smallest_p),
        format::percent(statistics.confidence)
    ))
}

/// `the run (4 of A, 4 of B)`.
pub(super) fn unit(basis: &Basis) -> String {
    let (a, b) = basis.units;
    match basis.unit {
        Unit::Run => format!("the run ({a} of A, {b} of B)"),
        Unit::Pair => format!("the pair of runs ({a})"),
        Unit::Block { length_ns } => format!(
            "a stretch of {} ({a} of A, {b} of B)",
            format::duration(length_ns)
        ),
    }
}

/// A p-value: what is below one in ten thousand is no more certain than that.
pub(super) fn p_value(p: f64) -> String {
    if p < 1e-4 {
        "below 0.0001".to_owned()
    } else if p < 0.1 {
        let digits = if p < 0.001 { 4 } else { 3 };
        format!("{p:.digits$}")
    } else {
        format!("{p:.2}")
    }
}

impl Named {
    /// `A`, or `A2` among several.
    pub(super) fn name(self) -> String {
        let side = if self.side == 0 { "A" } else { "B" };
        self.place
            .map_or(side.to_owned(), |place| format!("{side}{place}"))
    }
}

/// The sentence that stands first where the CPUs of one run are compared.
#[must_use]
pub fn cpus_headline(cpus: &Cpus) -> String {
    let statistics = &cpus.statistics;
    let two = cpus.cpus.len() == 2;
    let stated = |slower: bool| -> Vec<&str> {
        let members = statistics.members.iter().zip(&cpus.cpus);
        let of = members.filter(|(member, _)| member.slower == Some(slower));
        of.map(|(_, cpu)| cpu.name.as_str()).collect()
    };
    let (slower, faster) = (stated(true), stated(false));
    match (statistics.untested, slower.as_slice(), faster.as_slice()) {
        (Some(Untested::NoBlocks), ..) => format!(
            "Not tested: the record holds no figures of each CPU by time. Runs of up to {} \
             threads keep them; merged, imported and older records do not.",
            Blocks::MOST_THREADS
        ),
        (Some(Untested::TooShort), ..) => {
            "Not tested: the run is too short, it takes eight stretches of time.".to_owned()
        }
        (Some(Untested::Skipped), ..) => {
            "Not tested: some skipped more of their periods than others, and these have no latency."
                .to_owned()
        }
        (Some(_), ..) => "Not tested: too few samples in each stretch of time.".to_owned(),
        (None, [], []) => "No difference between the CPUs of this run seen. That does not \
                           show that there is none."
            .to_owned(),
        (None, [slow], [fast]) if two => format!("In this run {slow} was slower than {fast}."),
        (None, slower, faster) => {
            let part = |names: &[&str], word: &str| match names {
                [] => None,
                [one] => Some(format!("{one} was {word} than the others")),
                more => Some(format!("{} were {word} than the others", more.join(", "))),
            };
            let parts = [part(slower, "slower"), part(faster, "faster")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("In this run {}.", parts.join("; "))
        }
    }
}

fn listed(aspects: &[Aspect]) -> String {
    let names: Vec<&str> = aspects.iter().copied().map(facts::aspect).collect();
    names.join(", ")
}

/// A warning as a sentence without its full stop.
pub(super) fn warning(warning: &Warning) -> String {
    match warning {
        Warning::Method { aspects } => format!(
            "measured in different ways ({}): a difference may come from that",
            listed(aspects)
        ),
        Warning::WithinSide { side, aspects } => format!(
            "the runs of {} differ among themselves ({})",
            if *side == 0 { "A" } else { "B" },
            listed(aspects)
        ),
        Warning::Invalid { run, reason, more } => {
            let more = match more {
                0 => String::new(),
                count => format!(" (and {count} more)"),
            };
            format!("{} is not valid: {reason}{more}", run.name())
        }
        Warning::Lost { run, samples } => {
            format!(
                "{} is not valid: it lost {} samples",
                run.name(),
                words::count(*samples)
            )
        }
        Warning::Overflowed {
            run,
            samples,
            from_ns: Some(ns),
        } => format!(
            "{} samples of {} lie beyond its histogram, which ends at {}: nothing from there on \
             is compared",
            words::count(*samples),
            run.name(),
            words::duration(*ns)
        ),
        Warning::Overflowed { run, .. } => format!(
            "{} has no histogram: only its number of samples, minimum, mean and maximum are known",
            run.name()
        ),
        Warning::Unfinished { run } => format!("{} is unfinished", run.name()),
        Warning::LoadUnknown { run } => format!("the load of {} is not known", run.name()),
        Warning::Longer => {
            "one run is more than twice as long: its maximum has had more chances".to_owned()
        }
    }
}
