//! What is said of a run in words, once for the terminal and the page.

use punctual_record::Field;
use punctual_stats::analysis::Tail;
use punctual_stats::miss::MissBound;
use punctual_stats::shares::Shares;
use punctual_stats::stationarity::{Stationarity, StationarityStatement};
use punctual_stats::tail::{MAX_EXTRAPOLATION, MIN_BURSTS, TailRefusal};
use punctual_stats::verdict::Outcome;

use super::facts;
use super::figures::Figures;
use super::terms::{Terms, cross_facts, gap_facts};
use super::{verdict, words};
use punctual_record::{Judgement, Run, State};

/// A name and what is said of it.
pub type Fact = (String, String);

pub(super) fn fact(name: &str, text: impl Into<String>) -> Fact {
    (name.to_owned(), text.into())
}

/// The sentence that stands first and last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The verdict; absent where nothing was required.
    pub outcome: Option<Outcome>,
    /// What decided, without the word of the verdict; or what was measured.
    pub claim: String,
    /// The sentence, with the word of the verdict.
    pub sentence: String,
}

/// The verdict in its sentence, or what was measured where nothing was required.
#[must_use]
pub fn headline(run: &Run) -> Headline {
    if let Some(judgement) = Judgement::from_run(run) {
        return Headline {
            outcome: Some(judgement.verdict.outcome),
            claim: verdict::claim(&judgement),
            sentence: verdict::sentence(&judgement),
        };
    }
    // What another tool counted and did not keep has its maximum all the same.
    let unkept = |t: &punctual_record::Thread| if run.imported.is_some() { t.lost } else { 0 };
    let count = run.threads.iter().fold(0u64, |sum, t| {
        sum.saturating_add(t.latency.count)
            .saturating_add(unkept(t))
    });
    let stated = run.imported.iter().flat_map(|imported| &imported.threads);
    let stated = stated.filter(|t| t.count > 0).map(|t| t.max_ns);
    let max = run
        .threads
        .iter()
        .filter(|t| t.latency.count > 0)
        .map(|t| t.latency.max_ns)
        .chain(stated)
        .max();
    let within = if run.knows(Field::MeasuredTime) {
        format!(" in {}", words::duration(run.measured_ns))
    } else {
        String::new()
    };
    let not_judged = if run.is_judged() {
        "not judged yet"
    } else {
        "nothing was required"
    };
    let terms = Terms::for_run(run);
    let sentence = match max {
        Some(max) if run.gaps.is_some() => format!(
            "No verdict ({not_judged}): the longest of {} in {} took {}.",
            words::plural(count, "gap", "gaps"),
            words::duration(run.measured_ns),
            words::duration(max)
        ),
        None if run.gaps.is_some() => format!(
            "No verdict ({not_judged}): no gap in {}.",
            words::duration(run.measured_ns)
        ),
        Some(max) => format!(
            "No verdict ({not_judged}): the worst of {}{within} came {} after its instant.",
            words::plural(count, terms.one, terms.many),
            words::duration(max)
        ),
        None => format!("No verdict ({not_judged}): no {} was measured.", terms.one),
    };
    Headline {
        outcome: None,
        claim: sentence.clone(),
        sentence,
    }
}

/// What another tool's histogram lacks, where it lacks anything.
#[must_use]
pub fn beyond(figures: &Figures) -> Option<String> {
    let all = &figures.merged;
    if all.unkept == 0 {
        return None;
    }
    let Some(ends) = all.kept_below_ns else {
        return Some("There is no histogram, so no percentile is known.".to_owned());
    };
    Some(format!(
        "{} of {} lie beyond the histogram, which ends at {}: of them the maximum alone is known, \
         and a percentile among them is shown as above that end.",
        words::count(all.unkept.saturating_add(1)),
        words::plural(all.count, "sample", "samples"),
        words::duration(ends)
    ))
}

/// That a record is not whole, where it isn't.
#[must_use]
pub fn standing(run: &Run) -> Option<String> {
    let why = |ending| facts::ending(ending, &run.tool.name);
    if let (State::Stopped(ending), Some(_)) = (run.state, &run.imported) {
        return Some(format!(
            "{}: it may not have measured all that it was to.",
            why(ending)
        ));
    }
    let measured = words::duration(run.measured_ns);
    let asked = run
        .request
        .duration_ns
        .map(|ns| format!(" of {}", words::duration(ns)))
        .unwrap_or_default();
    match run.state {
        State::Finished => None,
        State::Unfinished => Some(format!(
            "UNFINISHED: the run was in progress when this was saved, or it was killed; \
             {measured}{asked} had been measured."
        )),
        State::Stopped(ending) => Some(format!(
            "Stopped early ({}): {measured}{asked} were measured, and all of it is valid data.",
            why(ending)
        )),
    }
}

/// What stands above the figures of an invalid run.
pub const WHAT_INVALID_MEANS: &str = "Note: these figures were measured, but under other \
    conditions than those requested.";

/// The words for what can go wrong with a cycle. docs/report.md says the same.
pub const GLOSSARY: &str = "late: a wake-up after its deadline; skipped: a period without a \
    wake-up, because the thread was still late; missed: the deadlines that the verdict counts, \
    late wake-ups and the skipped periods that belong to them; lost: a sample that the recorder \
    had no space for.";

/// The same for messages.
const GLOSSARY_OF_MESSAGES: &str = "late: a message whose reply came after its deadline; skipped: \
    one that was not sent, because the sender was late by a period or waited for room; lost: one that was \
    sent and had no reply in time; unanswered: both of these; missed: the deadlines that the verdict counts, late and \
    unanswered; unrecorded: a sample that the recorder had no space for.";

/// The words for what can go wrong with a cycle of a run; none for gaps.
#[must_use]
pub fn glossary(run: &Run) -> Option<&'static str> {
    match (&run.path, &run.gaps) {
        (Some(_), _) => Some(GLOSSARY_OF_MESSAGES),
        (None, None) => Some(GLOSSARY),
        (None, Some(_)) => None,
    }
}

/// Further reasons for the verdict: the outcome of each requirement, where there are several. What
/// makes a run invalid is all in its sentence.
#[must_use]
pub fn reasons(run: &Run) -> Vec<String> {
    let judgement = Judgement::from_run(run);
    let decided = judgement.filter(|it| it.verdict.outcome != Outcome::Invalid);
    decided.map_or_else(Vec::new, |it| verdict::reasons(&it))
}

/// The bound on misses of the deadline, the burst-aware figure first.
#[must_use]
pub fn miss_facts(bound: &MissBound, terms: Terms) -> Vec<Fact> {
    let cycles = words::count(bound.cycles);
    let seen = match bound.misses {
        0 => format!("none of {cycles} cycles"),
        n => format!(
            "{} of {cycles} cycles ({} late, {} of the {}): {}",
            words::count(n),
            words::count(bound.late),
            words::count(bound.missed),
            terms.of_missed(),
            words::share(bound.observed_probability)
        ),
    };
    let mut facts = vec![fact("Missed", seen)];
    facts.push(bound_fact(bound));
    facts.extend(bursts(bound));
    facts.extend(episodes(bound));
    if let Some(with_miss) = bound.seconds_with_miss {
        let share = match with_miss {
            0 => String::new(),
            _ => format!(
                " ({})",
                words::share(with_miss as f64 / bound.seconds.max(1) as f64)
            ),
        };
        let text = format!(
            "{} of {} held a miss{share}",
            words::count(with_miss),
            words::plural(bound.seconds, "second", "seconds"),
        );
        facts.push(fact("Seconds", text));
    }
    facts
}

/// The bound alone.
pub(super) fn bound_fact(bound: &MissBound) -> Fact {
    fact("Bound", bounds(bound))
}

/// Between which shares of cycles the true one lies, each end at the bound's confidence.
#[must_use]
pub fn range(bound: &MissBound) -> String {
    between(bound, Shares::for_values(&[bound.lower, bound.upper]))
}

fn between(bound: &MissBound, shares: Shares) -> String {
    let upper = shares.at_most(bound.upper);
    if bound.lower > 0.0 {
        let lower = shares.at_least(bound.lower);
        format!("more than {lower} and less than {upper}")
    } else {
        format!("less than {upper}")
    }
}

/// The same with its confidence, and what independent wake-ups would show.
#[must_use]
pub fn bounds(bound: &MissBound) -> String {
    let shares = Shares::for_values(&[bound.lower, bound.upper, bound.independent_upper]);
    // Each end is one-sided: both together hold at less.
    let each = if bound.lower > 0.0 { " each" } else { "" };
    format!(
        "{} of cycles with {} confidence{each}; less than {} if wake-ups were independent",
        between(bound, shares),
        words::percent(bound.confidence),
        shares.at_most(bound.independent_upper)
    )
}

/// The bursts that misses came in.
pub(super) fn bursts(bound: &MissBound) -> Option<Fact> {
    let text = match bound.bursts? {
        0 => "none seen".to_owned(),
        bursts => {
            let largest = bound
                .largest_burst
                .map(|n| format!(", at most {} in one", words::count(n)));
            let count = words::plural(bursts, "burst", "bursts");
            format!("{count}{}", largest.unwrap_or_default())
        }
    };
    Some(fact("Bursts", text))
}

/// How often there are misses at all. A stall that is yet to be seen is one episode of many misses,
/// which the bound on cycles can't know of; the bound on episodes holds for it too.
pub(super) fn episodes(bound: &MissBound) -> Option<Fact> {
    // Those that are known by rows of time alone are no more than what the rows show.
    bound.bursts?;
    let episodes = bound.episodes?;
    let hourly = episodes.per_hour(bound.duration_ns);
    if !hourly.is_finite() {
        return None;
    }
    let text = format!(
        "{} (misses less than {} apart are one); fewer than {} an hour with {} confidence",
        words::count(episodes.seen),
        words::duration(episodes.gap_ns),
        words::count(hourly.ceil() as u64),
        words::percent(bound.confidence)
    );
    Some(fact("Episodes", text))
}

/// What the statistics say: misses, bursts, stationarity, the tail.
#[must_use]
pub fn statistics(run: &Run) -> Vec<Fact> {
    let mut facts = stops(run);
    facts.extend(measured(run));
    facts.extend(run.cross_check.iter().flat_map(cross_facts));
    facts
}

/// Stops of the measuring process: what was not measured.
fn stops(run: &Run) -> Vec<Fact> {
    let Some(stops) = &run.stops else {
        return Vec::new();
    };
    let cycles = match run.gaps {
        Some(_) => String::new(),
        None => format!(
            ": {} within them count neither as late nor as on time",
            words::plural(stops.cycles, "cycle", "cycles")
        ),
    };
    let text = format!(
        "{}, {} in all ({}), the longest {}{cycles}",
        words::plural(stops.count, "stop", "stops"),
        words::duration(stops.total_ns),
        words::percent(stops.share(run.measured_ns)),
        words::duration(stops.longest_ns),
    );
    vec![fact("Stopped", text)]
}

fn measured(run: &Run) -> Vec<Fact> {
    let gaps = gap_facts(run);
    let Some(analysis) = &run.analysis else {
        return gaps;
    };
    if !gaps.is_empty() {
        return gaps;
    }
    if analysis.total.samples == 0 && analysis.total.missed == 0 {
        return Vec::new();
    }
    let terms = Terms::for_run(run);
    let miss = analysis.miss.as_ref();
    let mut facts = miss.map_or_else(Vec::new, |it| miss_facts(it, terms));
    if let Some(index) = &analysis.extremal_index {
        let text = format!(
            "extremal index {:.2} (at least {:.2}): high latencies come {}",
            index.theta,
            index.theta_lower,
            if index.theta > 0.9 {
                "singly".to_owned()
            } else {
                format!("in bursts of about {:.1}", 1.0 / index.theta.max(1e-6))
            }
        );
        facts.push(fact("Clustering", text));
    }
    facts.extend(analysis.stationarity.as_ref().map(stationarity));
    let tail = match &analysis.tail {
        Tail::Estimate(t) => format!(
            "{} is exceeded once in {:.0e} cycles, {} to {} with {} confidence \
             (from {} bursts above {}; goodness of fit p = {:.2}); an extrapolation",
            words::duration_f64(t.level_ns),
            t.return_cycles,
            words::duration_f64(t.level_lower_ns),
            words::duration_f64(t.level_upper_ns),
            words::percent(t.confidence),
            t.bursts,
            words::duration(t.threshold_ns),
            t.p_value
        ),
        Tail::Refused(why) => no_tail(why),
    };
    facts.push(fact("Tail", tail));
    facts
}

/// Whether the halves of the run differ, and their quantiles.
pub(super) fn stationarity(halves: &Stationarity) -> Fact {
    let text = format!(
        "{}: median {} then {}, p99 {} then {}",
        change(halves.statement),
        words::duration(halves.first.p50_ns),
        words::duration(halves.second.p50_ns),
        words::duration(halves.first.p99_ns),
        words::duration(halves.second.p99_ns)
    );
    fact("Stationarity", text)
}

/// Whether the run stayed the same.
fn change(statement: StationarityStatement) -> &'static str {
    match statement {
        StationarityStatement::Steady => "no significant change between the halves of the run",
        StationarityStatement::TooFewSamples => "too few samples to compare the halves of the run",
        StationarityStatement::Slower => "the second half of the run was slower",
        StationarityStatement::Faster => "the second half of the run was faster",
        StationarityStatement::MoreMisses => "the second half of the run had more misses",
        StationarityStatement::FewerMisses => "the second half of the run had fewer misses",
    }
}

/// Why the tail is not extrapolated.
fn no_tail(why: &TailRefusal) -> String {
    let why = match why {
        TailRefusal::TooFewBursts { bursts } => {
            format!("{bursts} bursts of high latency are too few, {MIN_BURSTS} are needed")
        }
        TailRefusal::PoorFit { p_value } => {
            format!("the highest latencies follow no simple law (p = {p_value:.3})")
        }
        TailRefusal::Unbounded { shape } => {
            format!("the tail is too heavy to be bounded (shape {shape:.2})")
        }
        TailRefusal::TooFar { times } => format!(
            "once in 1e9 cycles lies {} times beyond this run, at most {} is sound",
            words::count(*times as u64),
            words::count(MAX_EXTRAPOLATION as u64)
        ),
        TailRefusal::NotStationary => "the run changed under way".to_owned(),
        TailRefusal::TooCoarse { distinct, bursts } => {
            format!("only {distinct} distinct values among {bursts} bursts")
        }
    };
    format!("no extrapolation: {why}")
}

/// One of the worst samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worst {
    /// The row of its thread.
    pub row: usize,
    /// The latency.
    pub latency_ns: u64,
    /// About when, from the start of the measurement.
    pub at_ns: u64,
    /// The cycle of its thread.
    pub cycle: u64,
}

/// The worst samples of all threads, the highest first.
///
/// The record holds instants of the monotonic clock. Where it doesn't say when
/// the measurement started, that follows from the earliest peak and the mean time
/// between cycles.
#[must_use]
pub fn worst(run: &Run, most: usize) -> Vec<Worst> {
    let reckoned = || {
        let starts = run.threads.iter().filter_map(start_of);
        starts.min_by_key(|s| s.0).map(|s| s.1)
    };
    let start = run.start_ns.or_else(reckoned).unwrap_or(0);
    let mut all: Vec<Worst> = Vec::new();
    for (row, thread) in run.threads.iter().enumerate() {
        all.extend(thread.peaks.iter().map(|peak| Worst {
            row,
            latency_ns: peak.latency_ns,
            at_ns: peak.asked_ns.saturating_sub(start),
            cycle: peak.cycle,
        }));
        all.sort_by_key(|w| (std::cmp::Reverse(w.latency_ns), w.at_ns));
        all.truncate(most);
    }
    all
}

/// The earliest peak's cycle and the start that follows from it.
fn start_of(thread: &punctual_record::Thread) -> Option<(u64, u64)> {
    let first = thread.peaks.iter().min_by_key(|peak| peak.cycle)?;
    let cycles = thread.latency.count.saturating_add(thread.missed).max(1);
    let spacing = thread.measured_ns as f64 / cycles as f64;
    let before = (first.cycle as f64 * spacing) as u64;
    Some((first.cycle, first.asked_ns.saturating_sub(before)))
}
