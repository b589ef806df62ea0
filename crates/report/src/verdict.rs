//! A verdict in words: the sentence to quote, what decided, and what to do next. Terminal, page,
//! JSON, JUnit and the lab's tables have their words from here, and from the figures alone.

mod reasons;

use punctual_record::condition::FoundScheduling;
use punctual_record::{Condition, Demand, Ending, Judgement, Run, Scheduling, State};
use punctual_stats::gaps::WatchedTime;
use punctual_stats::lengths::LengthResult;
use punctual_stats::miss::{MissBound, TimeUnknown};
use punctual_stats::requirement::Requirement;
use punctual_stats::shares::Shares;
use punctual_stats::verdict::{Outcome, RequirementResult, Seen};

use super::terms::Terms;
use super::{exec, experiment, facts, words};
pub(crate) use reasons::in_one_run;
pub use reasons::reason;

/// Of a verdict that does not follow from what its record holds.
const UNFOUNDED: &str = "the record does not hold the reason";

/// The verdict in a sentence to quote, with the word of the outcome.
#[must_use]
pub fn sentence(judgement: &Judgement) -> String {
    format!("{}: {}", judgement.verdict.outcome, claim(judgement))
}

/// The exit status of the verb that made a record: its verdict's or its experiment's. Without either, that of FAIL
/// if the break value was exceeded; 1 of what was cut off or could not be set up.
#[must_use]
pub fn exit_status(run: &Run) -> u8 {
    const NOT_MADE: u8 = 1;
    if let Some(found) = &run.experiment {
        let outcome = experiment::outcome(run).filter(|_| !found.outcome.is_not_made());
        return outcome.map_or(NOT_MADE, Outcome::exit_code);
    }
    match (&run.verdict, run.state) {
        (Some(verdict), _) => verdict.outcome.exit_code(),
        (None, State::Stopped(Ending::BreakValue)) => Outcome::Fail.exit_code(),
        (None, State::Unfinished) => NOT_MADE,
        (None, State::Finished | State::Stopped(_)) => 0,
    }
}

/// The same without the word: what decided, and whether the program did not live until the end.
#[must_use]
pub fn claim(judgement: &Judgement) -> String {
    let claim = decided(judgement);
    match facts::killed(&judgement.killed) {
        None => claim,
        Some(killed) if claim.ends_with('.') => format!("{claim} {killed}"),
        Some(killed) => format!("{claim}. {killed}"),
    }
}

fn decided(judgement: &Judgement) -> String {
    let verdict = &judgement.verdict;
    if verdict.outcome == Outcome::Invalid {
        let reasons = reasons(judgement);
        // A record from elsewhere may say so and hold nothing that makes it so.
        return match reasons.is_empty() {
            true => UNFOUNDED.to_owned(),
            false => reasons.join("; "),
        };
    }
    if !verdict.tasks.is_empty() {
        let claim = exec::claim(verdict, judgement.repeats);
        let unended: Vec<String> = judgement.reasons.iter().map(reason).collect();
        // The failure is shown without the task that did not end.
        return match verdict.outcome == Outcome::Fail && !unended.is_empty() {
            true => format!("{claim} Also, {}.", unended.join("; ")),
            false => claim,
        };
    }
    let decides = |outcome: Outcome| outcome == verdict.outcome;
    let waking = verdict.requirements.iter().filter(|r| decides(r.outcome));
    let taking = verdict.lengths.iter().filter(|r| decides(r.outcome));
    let sentences: Vec<String> = waking
        .map(|result| requirement(result, judgement))
        .chain(taking.map(length))
        .collect();
    if !sentences.is_empty() {
        return sentences.join(" ");
    }
    let required = !verdict.requirements.is_empty() || !verdict.lengths.is_empty();
    let why = if required {
        UNFOUNDED
    } else {
        "nothing was required"
    };
    why.to_owned()
}

/// Why the run is not valid, or the outcome of each where several things were required.
#[must_use]
pub fn reasons(judgement: &Judgement) -> Vec<String> {
    let verdict = &judgement.verdict;
    if verdict.outcome == Outcome::Invalid {
        return judgement.reasons.iter().map(reason).collect();
    }
    let waking = verdict.requirements.iter();
    let waking = waking.map(|result| (result.outcome, facts::requirement(&result.requirement)));
    let taking = verdict.lengths.iter();
    let taking = taking.map(|result| (result.outcome, limit(result)));
    let lines = waking.chain(taking);
    let lines: Vec<String> = lines
        .map(|(outcome, asked)| format!("{outcome}: {asked}"))
        .collect();
    if lines.len() > 1 { lines } else { Vec::new() }
}

/// What a limit on a part of a program asks.
#[must_use]
pub fn limit(result: &LengthResult) -> String {
    facts::length_limit(&result.name, result.limit_ns)
}

/// The thread that fails a requirement by its own cycles, if one does.
#[must_use]
pub fn alone(result: &RequirementResult, judgement: Option<&Judgement>) -> Option<String> {
    let alone = result.alone.as_ref()?;
    let mut names = judgement.iter().flat_map(|it| &it.alone);
    let name = names.find(|it| it.thread == alone.thread);
    let who = name.map_or("one thread", |it| it.name.as_str());
    Some(format!("{} alone", punctual_record::text::one_line(who)))
}

/// The verdict on a requirement in a sentence, without the word of the outcome.
#[must_use]
pub fn requirement(result: &RequirementResult, judgement: &Judgement) -> String {
    if let Some(alone) = &result.alone {
        let own = RequirementResult {
            seen: alone.seen,
            bound: alone.bound.clone(),
            alone: None,
            ..result.clone()
        };
        let who = self::alone(result, Some(judgement)).unwrap_or_default();
        return format!("{who}: {}", requirement(&own, judgement));
    }
    let load = under(judgement).map_or_else(String::new, |load| format!(" under {load}"));
    match &result.seen {
        Seen::WakeUps { .. } => match result.requirement {
            Requirement::Episodes { per_hour, .. } => episodes(result, per_hour, &load, judgement),
            _ => wake_ups(result, &load, judgement),
        },
        Seen::Gaps {
            longer,
            longest_ns,
            time,
        } => {
            let limit = words::duration(result.requirement.limit_ns());
            let watched = watched(time);
            match longest_ns {
                None => format!(
                    "no gap in {watched}{load} was longer than {limit}{}.{}",
                    untold(time, result.requirement.limit_ns()),
                    how_to_show_it(result, judgement.repeats)
                ),
                Some(longest) => format!(
                    "{} (worst {}) in {watched}{load} longer than {limit}; none may be.",
                    words::plural(*longer, "gap", "gaps"),
                    words::duration(*longest)
                ),
            }
        }
    }
}

/// What may have been longer.
fn untold(time: &WatchedTime, limit_ns: u64) -> String {
    match time.untold_ns > limit_ns {
        true => format!(
            ", but one of {} may count: it was not kept, or its events are missing",
            words::duration(time.untold_ns)
        ),
        false => String::new(),
    }
}

/// The verdict on how long a part of a program took, in a sentence without the word.
#[must_use]
pub fn length(result: &LengthResult) -> String {
    let name = &result.name;
    let limit = words::duration(result.limit_ns);
    let count = words::count(result.count);
    match result.too_long_ns() {
        None if result.count == 0 => format!("no {name} was measured."),
        None => format!("none of {count} {name} took longer than {limit}."),
        Some(longest) => format!(
            "{} of {count} {name} took longer than {limit} (the longest {}); none may.",
            words::count(result.longer.max(1)),
            words::duration(longest)
        ),
    }
}

/// `19.0 s watched (95.0 % of the time)`.
fn watched(time: &WatchedTime) -> String {
    format!(
        "{} watched ({:.1} % of the time)",
        words::duration(time.watched_ns),
        time.share() * 100.0
    )
}

/// The load, and what a best effort went without, so that nobody quotes the one without the
/// other.
fn under(judgement: &Judgement) -> Option<String> {
    let load = judgement.load.as_deref();
    if judgement.without.is_empty() {
        return load.map(str::to_owned);
    }
    let without: Vec<String> = judgement.without.iter().map(lacking).collect();
    let load = load.unwrap_or("no load");
    Some(format!("{load}, at best effort ({})", without.join(", ")))
}

/// What a demand that was not met comes down to, in a word or two.
fn lacking(demand: &Demand) -> String {
    match &demand.condition {
        Condition::Priority { found, .. } if !found.is_empty() && found.iter().all(is_ordinary) => {
            "SCHED_OTHER".to_owned()
        }
        Condition::Priority { requested, .. } => format!("not {}", facts::scheduling(requested)),
        Condition::Affinity { .. } => "not pinned".to_owned(),
        Condition::LockedMemory { .. } => "memory not locked".to_owned(),
        Condition::CpuDmaLatency { .. } => "idle states not held off".to_owned(),
        other => format!("no {}", other.name()),
    }
}

fn is_ordinary(found: &FoundScheduling) -> bool {
    found.scheduling == Some(Scheduling::Other)
}

fn wake_ups(result: &RequirementResult, load: &str, judgement: &Judgement) -> String {
    let one = if judgement.messages {
        "message"
    } else {
        "wake-up"
    };
    let bound = &result.bound;
    let allowed = result.requirement.allowed();
    let named = match result.outcome {
        Outcome::Fail => bound.lower,
        _ => bound.upper,
    };
    let shares = Shares::for_values(&[bound.observed_probability, named, allowed]);
    let confidence = words::percent(bound.confidence);
    let upper = shares.at_most(bound.upper);
    let allowance = shares.exactly(allowed);
    let shown = match result.outcome {
        // Of what was measured under other conditions nothing is claimed.
        Outcome::Invalid => String::new(),
        Outcome::Fail if allowed <= 0.0 => "; none is allowed".to_owned(),
        Outcome::Pass | Outcome::Inconclusive if allowed <= 0.0 => {
            format!("; with {confidence} confidence fewer than {upper}, none is allowed")
        }
        Outcome::Pass => {
            format!("; with {confidence} confidence fewer than {upper}, allowed {allowance}")
        }
        Outcome::Fail => {
            let lower = shares.at_least(bound.lower);
            format!("; with {confidence} confidence at least {lower}, allowed {allowance}")
        }
        Outcome::Inconclusive => format!(
            "; that shows fewer than {upper} with {confidence} confidence, allowed {allowance}"
        ),
    };
    let lengths = match result.outcome {
        Outcome::Inconclusive if allowed > 0.0 => lengths_of_stalls(bound),
        _ => String::new(),
    };
    let seen = what_was_seen(result, shares, (one, judgement.messages));
    format!(
        "{seen}{load}{shown}.{lengths}{}{}",
        unseen(result, judgement),
        how_to_show_it(result, judgement.repeats)
    )
}

/// "misses of 100 µs came in 3 episodes (less than 1 s apart is one); with 95 % confidence fewer than 26 an hour,
/// allowed 2."
fn episodes(
    result: &RequirementResult,
    per_hour: f64,
    load: &str,
    judgement: &Judgement,
) -> String {
    let bound = &result.bound;
    let limit = words::duration(bound.limit_ns);
    let confidence = words::percent(bound.confidence);
    let (came, shown) = match bound.episodes {
        None => (
            format!("{} misses of {limit}", words::count(bound.misses)),
            String::new(),
        ),
        Some(episodes) => {
            let hours = bound.hours();
            let shown = match result.outcome {
                Outcome::Invalid => String::new(),
                Outcome::Fail => {
                    let least = (episodes.lower / hours * 10.0).floor() / 10.0;
                    format!("; with {confidence} confidence at least {least}")
                }
                _ => {
                    let most = (episodes.upper / hours * 10.0).ceil() / 10.0;
                    format!("; with {confidence} confidence fewer than {most}")
                }
            };
            let gap = words::duration(episodes.gap_ns);
            // Of more misses than are kept one by one.
            let least = if bound.bursts.is_none() {
                "at least "
            } else {
                ""
            };
            let seen = words::plural(episodes.seen, "episode", "episodes");
            (
                format!("misses of {limit} came in {least}{seen} (less than {gap} apart is one)"),
                shown,
            )
        }
    };
    format!(
        "{came}{load}{shown}, allowed {per_hour} an hour.{}{}",
        unseen(result, judgement),
        how_to_show_it(result, judgement.repeats)
    )
}

/// "4.0 % of 120,126 cycles missed 100 µs (4,494 late, 284 skipped; worst 99.4 ms)".
fn what_was_seen(
    result: &RequirementResult,
    shares: Shares,
    (one, messages): (&str, bool),
) -> String {
    let bound = &result.bound;
    let (samples, skipped, worst_ns) = match result.seen {
        Seen::WakeUps {
            samples,
            skipped,
            worst_ns,
        } => (samples, skipped, worst_ns),
        Seen::Gaps { .. } => (bound.cycles, 0, None),
    };
    let limit = words::duration(bound.limit_ns);
    if bound.misses == 0 {
        let seen = format!(
            "no {one} in {} was later than {limit}",
            words::count(samples)
        );
        return match skipped {
            0 => seen,
            _ => {
                let [one, several] = match messages {
                    true => ["unanswered message", "unanswered messages"],
                    false => ["skipped period", "skipped periods"],
                };
                let periods = words::plural(skipped, one, several);
                format!("{seen} ({periods})")
            }
        };
    }
    let cycles = words::count(bound.cycles);
    let how_many = match shares {
        Shares::Percent => shares.text(bound.observed_probability),
        Shares::Scientific => words::count(bound.misses),
    };
    let mut details = vec![late_and_skipped(bound, skipped, messages)];
    if let Some(bursts) = bound.bursts.filter(|it| *it > 0 && bound.misses > 1) {
        details.push(words::plural(bursts, "burst", "bursts"));
    }
    if let Some(worst) = worst_ns {
        details.push(format!("worst {}", words::duration(worst)));
    }
    format!(
        "{how_many} of {cycles} cycles missed {limit} ({})",
        details.join("; ")
    )
}

fn late_and_skipped(bound: &MissBound, skipped: u64, messages: bool) -> String {
    let late = words::count(bound.late);
    let what = Terms::of(messages).missed;
    match bound.missed {
        0 => format!("{late} late"),
        missed if missed == skipped => format!("{late} late, {} {what}", words::count(missed)),
        missed => format!(
            "{late} late, {} of {} {what}",
            words::count(missed),
            words::count(skipped)
        ),
    }
}

/// That a verdict is open because of wake-ups which nobody saw, if they are a part of the bound that matters.
fn unseen(result: &RequirementResult, judgement: &Judgement) -> String {
    let bound = &result.bound;
    // The bound takes them for one burst, and by itself that leads to 25 times as many.
    let matters = judgement.unseen as f64 * 25.0 > bound.upper / 10.0 * bound.cycles as f64;
    let told = result.never == Some(TimeUnknown::Unseen);
    if result.outcome != Outcome::Inconclusive || !matters || told {
        return String::new();
    }
    let them = words::plural(judgement.unseen, "wake-up", "wake-ups");
    format!(" {them} went unseen, and each may have been late.")
}

/// Why the bound is far above what was seen.
fn lengths_of_stalls(bound: &MissBound) -> String {
    match &bound.stalls {
        Some(known) if known.are_few() => format!(
            " Only {} seen: how long others are is hardly known.",
            words::plural(known.stalls, "stall was", "stalls were")
        ),
        Some(known) if known.heavy => format!(
            " The three longest of {} stalls hold {} of the misses: longer ones are to be expected.",
            words::count(known.stalls),
            Shares::Percent.text(known.longest_share)
        ),
        _ => String::new(),
    }
}

/// How much longer to run, or why no time would do.
fn how_to_show_it(result: &RequirementResult, repeats: bool) -> String {
    if result.outcome == Outcome::Invalid {
        return String::new();
    }
    let Some(likely) = result.needed_seconds else {
        return result.never.map_or_else(String::new, |why| {
            format!(
                " A longer run will not show it as things are: {}.",
                never(why)
            )
        });
    };
    let least = result.needed_without_miss_seconds.unwrap_or(likely);
    let time = |seconds: u64| words::duration_f64(seconds as f64 * 1e9);
    let (likely, least) = (time(likely), time(least));
    match result.bound.misses {
        0 if repeats || least == likely => format!(" Run {least} longer: enough if no miss comes."),
        _ if repeats => format!(
            " Run {likely} longer: enough if misses come as they did ({least} if none \
             comes)."
        ),
        0 => format!(
            " Run {least} longer: enough if no miss comes. {likely} longer is enough for \
             9 in 10 machines that miss half as often as is allowed."
        ),
        _ => format!(
            " Run {likely} longer: 9 in 10 such runs then pass if misses come as they did \
             ({least} if none comes)."
        ),
    }
}

/// Why more time would not show it.
#[must_use]
pub fn never(why: TimeUnknown) -> &'static str {
    match why {
        TimeUnknown::NothingAllowed => "no finite run shows that nothing is ever late",
        TimeUnknown::RateTooHigh => "misses were as frequent as allowed or more so",
        TimeUnknown::TooFewBursts => {
            "another burst like those seen would make misses as frequent as allowed"
        }
        TimeUnknown::Unseen => "wake-ups went unseen, and each of them may have been late",
        TimeUnknown::NoCycles => "there were no cycles",
        TimeUnknown::TooLong => "it would take more than a thousand years",
    }
}

/// What one requirement asks, at its confidence.
#[must_use]
pub fn asked(requirement: &Requirement, confidence: f64) -> String {
    let asked = facts::requirement(requirement);
    if requirement.allowed() > 0.0 && confidence.is_finite() {
        format!("{asked}, with {} confidence", words::percent(confidence))
    } else {
        asked
    }
}
