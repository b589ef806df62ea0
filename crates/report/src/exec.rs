//! A set of tasks in words: its verdict, its table, its chains.

mod analysis;
mod bills;
mod chains;
pub(crate) mod gantt;
mod rows;
mod split;

use punctual_record::explanation::Cause;
use punctual_record::taskset::{JobBill, TaskFault, TaskFigures, TaskRun};
use punctual_record::{Judgement, Run};
use punctual_stats::lengths::LengthResult;
use punctual_stats::shares::Shares;
use punctual_stats::tasks::TaskResult;
use punctual_stats::verdict::{Outcome, Verdict};

use crate::style::{Style, Tone, wrap};
use crate::{conditions, explain, facts, statements, terminal, tuned, words};
pub use analysis::{analysis, analysis_sentence};
pub(crate) use bills::who;
pub(crate) use chains::bounds as chain_bounds;
pub(crate) use rows::table;
pub use rows::{TaskRow, live_rows, rows};
pub use split::chain_budgets;
pub(crate) use split::{
    HEADS, rows as budget_rows, statements as budget_statements, title as budget_title,
};

/// Tasks that the verdict names.
const NAMED: usize = 3;

/// Why a task ended before its set.
#[must_use]
pub fn failed(task: &str, fault: &TaskFault) -> String {
    let how = match fault {
        TaskFault::Wait { error } => format!("could not wait for its next job: {error}"),
        TaskFault::Release { error } => format!("could not release the next task: {error}"),
        TaskFault::Step { phase, step, error } => format!(
            "failed at step {} of phase {}: {error}",
            step + 1,
            phase + 1
        ),
        TaskFault::StillBusy {} => "did not end in time".to_owned(),
    };
    format!("the task {task} {how}")
}

/// What decided the verdict on a set, without the word of the outcome.
pub(crate) fn claim(verdict: &Verdict, repeats: bool) -> String {
    let decides = |outcome: Outcome| outcome == verdict.outcome;
    let deciding = verdict
        .tasks
        .iter()
        .filter(|task| decides(task.result.outcome));
    let deciding: Vec<&TaskResult> = deciding.collect();
    let chains = verdict.lengths.iter().filter(|it| decides(it.outcome));
    let mut sentences = Vec::new();
    if !deciding.is_empty() {
        sentences.push(match verdict.outcome {
            Outcome::Pass => passed(verdict),
            _ => {
                let needed = verdict.needed_seconds;
                named(&deciding, verdict.confidence, needed, repeats)
            }
        });
    }
    sentences.extend(chains.map(chain));
    sentences.join(" ")
}

/// The verdict on the limit of a chain.
fn chain(result: &LengthResult) -> String {
    let (name, limit) = (words::clean(&result.name), words::duration(result.limit_ns));
    let outputs = words::plural(result.count, "output", "outputs");
    match result.too_long_ns() {
        None if result.count == 0 => format!("Nothing came out: the {name} is not known."),
        None => format!("The {name} was at most {limit} in {outputs}."),
        Some(longest) => format!(
            "The {name} was longer than {limit} in {} of {outputs} (the longest {}); none may be.",
            words::count(result.longer.max(1)),
            words::duration(longest)
        ),
    }
}

/// Each task met its deadline often enough.
fn passed(verdict: &Verdict) -> String {
    let bounds = verdict.tasks.iter().map(|task| &task.result.bound);
    let upper = bounds.clone().map(|bound| bound.upper).fold(0.0, f64::max);
    let allowed = verdict
        .tasks
        .first()
        .map_or(0.0, |task| task.result.requirement.allowed());
    let misses: u64 = bounds.clone().map(|bound| bound.misses).sum();
    let jobs: u64 = bounds.map(|bound| bound.cycles).sum();
    let shares = Shares::for_values(&[upper, allowed]);
    let seen = match misses {
        0 => format!("no job of {} missed its deadline", words::count(jobs)),
        _ => format!(
            "{} of {} jobs missed their deadlines",
            words::count(misses),
            words::count(jobs)
        ),
    };
    let tasks = words::plural(verdict.tasks.len() as u64, "task", "tasks");
    format!(
        "{seen}; with {} confidence each of {tasks} misses in fewer than {}, allowed {}.",
        words::percent(verdict.confidence),
        shares.at_most(upper),
        shares.exactly(allowed)
    )
}

/// The verdict on one task in a sentence, without the word.
pub(crate) fn task(result: &TaskResult, judgement: &Judgement) -> String {
    let (verdict, needed) = (&judgement.verdict, result.result.needed_seconds);
    named(&[result], verdict.confidence, needed, judgement.repeats)
}

/// The tasks that decided, all in the same way, the worst first.
fn named(
    deciding: &[&TaskResult],
    confidence: f64,
    needed_seconds: Option<u64>,
    repeats: bool,
) -> String {
    let outcome = deciding.first().map(|task| task.result.outcome);
    let mut worst: Vec<&&TaskResult> = deciding.iter().collect();
    worst.sort_by(|a, b| {
        let share = |task: &TaskResult| task.result.bound.observed_probability;
        share(b).total_cmp(&share(a))
    });
    let each = worst.iter().take(NAMED).map(|task| {
        let bound = &task.result.bound;
        let limit = words::duration(bound.limit_ns);
        let jobs = words::count(bound.cycles);
        let shares = Shares::for_values(&[bound.upper, bound.lower]);
        match (outcome, bound.misses) {
            (Some(Outcome::Inconclusive), 0) => format!(
                "{}: none of {jobs} jobs missed {limit}, which shows fewer than {}",
                task.name,
                shares.at_most(bound.upper)
            ),
            (_, misses) => format!(
                "{}: {} of {jobs} jobs missed {limit}",
                task.name,
                words::count(misses)
            ),
        }
    });
    let mut text = each.collect::<Vec<_>>().join("; ");
    if deciding.len() > NAMED {
        let more = (deciding.len() - NAMED) as u64;
        text += &format!("; and {} more", words::plural(more, "task", "tasks"));
    }
    let allowed = deciding
        .first()
        .map_or(0.0, |task| task.result.requirement.allowed());
    let shares = Shares::for_values(&[allowed]);
    text += &match allowed > 0.0 {
        true => format!(
            "; allowed {}, with {} confidence.",
            shares.exactly(allowed),
            words::percent(confidence)
        ),
        false => "; none may.".to_owned(),
    };
    if let (Some(Outcome::Inconclusive), Some(seconds)) = (outcome, needed_seconds) {
        let time = words::duration_f64(seconds as f64 * 1e9);
        text += &match repeats {
            true => format!(" Run {time} longer."),
            false => format!(
                " Run {time} longer: 9 in 10 such sets then pass if misses come as they did."
            ),
        };
    }
    text
}

/// The summary for a terminal, with a final newline.
#[must_use]
pub fn summary(run: &Run, tasks: &TaskRun, style: &Style) -> String {
    let headline = statements::headline(run);
    let mut lines = Vec::new();
    let tone = terminal::tone(headline.outcome);
    for line in wrap(&headline.sentence, style.columns()) {
        lines.push(style.paint(tone, &line));
    }
    if let Some(standing) = statements::standing(run) {
        lines.extend(wrap(&standing, style.columns()));
    }
    lines.push(String::new());
    lines.extend(table(&rows(run, tasks), style));
    let chains = chains::table(tasks, style);
    if !chains.is_empty() {
        lines.push(String::new());
        lines.extend(chains);
    }
    for section in [
        split::section(run, tasks, style),
        bills::section(run, tasks, style),
        match style.verbose {
            true => explain::section(run, style, Some(1)),
            false => Vec::new(),
        },
    ] {
        if !section.is_empty() {
            lines.push(String::new());
            lines.extend(section);
        }
    }
    lines.push(String::new());
    for (title, text) in facts_of(run, tasks, style) {
        lines.extend(crate::experiment::fact_lines(style, &title, &text));
    }
    let beyond = beyond(tasks);
    if !beyond.is_empty() {
        let text = format!(
            "jobs took longer than any can by the analysis: something happened that its model does \
             not know. {}",
            beyond.join("; ")
        );
        lines.extend(crate::experiment::fact_lines(style, "Bounds", &text));
    }
    for event in &run.events {
        let text = facts::event(event, "punctual");
        let tone = if event.invalidates {
            Tone::Bad
        } else {
            Tone::Dim
        };
        for line in wrap(&text, style.columns()) {
            lines.push(style.paint(tone, &line));
        }
    }
    lines
        .iter()
        .map(|line| crate::style::cut(line, style.columns()) + "\n")
        .collect()
}

/// What a reader must know beside the table.
fn facts_of(run: &Run, tasks: &TaskRun, style: &Style) -> Vec<statements::Fact> {
    let fact = |name: &str, text: String| (name.to_owned(), text);
    let mut facts = vec![
        fact("Machine", conditions::machine(run)),
        fact("Kernel", conditions::kernel(run)),
        fact(
            "Set",
            format!(
                "{}, {} in {}{}",
                tasks.set.name,
                words::plural(tasks.set.tasks.len() as u64, "task", "tasks"),
                words::duration(run.measured_ns),
                tasks.all_on_cpu.map_or_else(String::new, |cpu| format!(
                    "; all tasks on CPU {cpu} (--cpu {cpu}), whatever its file says"
                ))
            ),
        ),
        fact("Work", speed(tasks)),
    ];
    facts.push(fact("Load", conditions::load(run)));
    facts.extend(tuned::sentence(run).map(|text| fact("Tuned", text)));
    if let Some(place) = &style.report {
        facts.push(fact("Report", place.clone()));
    }
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

/// Where a job took longer than the analysis says that any can: the model lacks something, and the
/// bill says what. Those furthest beyond come first.
#[must_use]
pub fn beyond(tasks: &TaskRun) -> Vec<String> {
    let mut beyond = tasks.beyond_bounds();
    let ratio = |index: &usize| {
        let figures = tasks.tasks.get(*index);
        let longest_ns = figures.and_then(TaskFigures::longest_ns).unwrap_or(0);
        longest_ns as f64 / tasks.bound_ns(*index).unwrap_or(1).max(1) as f64
    };
    beyond.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let each = beyond.iter().take(NAMED).filter_map(|index| {
        let (task, figures) = (tasks.set.tasks.get(*index)?, tasks.tasks.get(*index)?);
        let bound_ns = tasks.bound_ns(*index)?;
        // The first bill may be that of a job of another phase.
        let bills = figures.bills.iter().flat_map(|bills| &bills.worst);
        let beyond = bills.filter(|bill| bill.taken_ns() > bound_ns);
        let bill = beyond.max_by_key(|bill| bill.taken_ns());
        let own = bill.and_then(|bill| bills::declared(task, bill));
        let what = own.map(|own| format!(" ({own})")).or_else(|| {
            let row = bill.and_then(JobBill::taken_by)?;
            let cause = match row.cause {
                Cause::NotReleased => bills::not_released(tasks, task),
                _ => explain::name(&row.cause),
            };
            Some(format!(" ({cause}: {})", words::duration(row.ns)))
        });
        Some(format!(
            "{}: {} where the analysis allows {}{}",
            words::clean(&task.name),
            words::duration(figures.longest_ns()?),
            words::duration(bound_ns),
            what.unwrap_or_default()
        ))
    });
    let mut lines: Vec<String> = each.collect();
    if beyond.len() > NAMED {
        let more = (beyond.len() - NAMED) as u64;
        lines.push(format!("{} more", words::plural(more, "task", "tasks")));
    }
    lines
}

/// How exactly a time of work is kept.
fn speed(tasks: &TaskRun) -> String {
    let Some(spread) = tasks
        .speeds
        .iter()
        .map(|speed| speed.spread)
        .reduce(f64::max)
    else {
        return String::new();
    };
    let each = tasks.speeds.iter().map(|speed| {
        let per_us = speed.turns as f64 * 1e3 / speed.ns.max(1) as f64;
        format!("{per_us:.1} on CPU {}", speed.cpu)
    });
    format!(
        "a time is executed as turns of a loop, per µs {}: the fastest of 40 trials; half of them \
         took up to {:.2} % longer",
        each.collect::<Vec<_>>().join(", "),
        spread * 100.0
    )
}
