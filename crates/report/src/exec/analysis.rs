//! A task set in words.

mod machine;
mod reasons;

use punctual_record::cpu_list;
use punctual_record::taskset::TaskPolicy;
use punctual_record::taskset::analysis::{
    Admission, AnalysisOutcome, BoundSource, ChainAnalysis, ChainLatency, Response, SetAnalysis,
    TaskAnalysis,
};
use punctual_record::text::clean;

use crate::experiment::fact_lines;
use crate::style::{Style, Tone, cut, wrap};
use crate::table::{self, Cell};
use crate::words;
use machine::{admission, cpu, overheads};
use reasons::reason;

/// Letters of a name in a table.
const NAME: usize = 20;

/// What an analysis comes to, in a sentence to quote.
#[must_use]
pub fn analysis_sentence(of: &SetAnalysis) -> String {
    let judged: Vec<&TaskAnalysis> = of.tasks.iter().filter(|task| is_judged(task)).collect();
    let tasks = words::plural(judged.len() as u64, "real-time task", "real-time tasks");
    let chains = limited(of).count() as u64;
    let all = match chains {
        0 => tasks.clone(),
        _ => format!(
            "{} real-time tasks and chains",
            judged.len() as u64 + chains
        ),
    };
    let and_chains = match chains {
        0 => String::new(),
        _ => format!(" and {}", words::plural(chains, "chain", "chains")),
    };
    match of.outcome {
        AnalysisOutcome::Met => format!(
            "All deadlines are met by analysis: {tasks}{and_chains} of {}, as long as no job takes \
             longer than the set says{}",
            clean(&of.name),
            match of
                .tasks
                .iter()
                .any(|it| it.admission == Some(Admission::Bound))
            {
                true => "; but the kernel refuses it here (see Admission)",
                false => "",
            }
        ),
        AnalysisOutcome::NotMet => {
            let missed = judged.iter().filter(|task| task.meets() == Some(false));
            let late = limited(of).filter(|chain| chain.meets() == Some(false));
            let names: Vec<&str> = missed
                .map(|task| task.name.as_str())
                .chain(late.map(|chain| chain.name.as_str()))
                .collect();
            format!(
                "Deadlines are not met by analysis: {} of {all} of {}: {}",
                names.len(),
                clean(&of.name),
                names.join(", ")
            )
        }
        AnalysisOutcome::Unbounded if judged.is_empty() && chains == 0 => format!(
            "No bound for any task of {}: none has a real-time policy",
            clean(&of.name)
        ),
        AnalysisOutcome::Unbounded => {
            let without = judged.iter().filter(|task| task.meets().is_none());
            let open = limited(of).filter(|chain| chain.meets().is_none());
            let names: Vec<&str> = without
                .map(|task| task.name.as_str())
                .chain(open.map(|chain| chain.name.as_str()))
                .collect();
            let others = match names.len() as u64 == judged.len() as u64 + chains {
                true => "",
                false => "; the others meet their deadlines by analysis",
            };
            if of.tasks.iter().any(TaskAnalysis::is_open)
                || of.chains.iter().any(ChainAnalysis::is_open)
            {
                return format!(
                    "It is not proved that deadlines are met: {} of {all} of {}: {}{others}",
                    names.len(),
                    clean(&of.name),
                    names.join(", ")
                );
            }
            format!(
                "No bound for {} of {all} of {}: {}{others}",
                names.len(),
                clean(&of.name),
                names.join(", ")
            )
        }
    }
}

fn is_judged(task: &TaskAnalysis) -> bool {
    task.response != Response::BestEffort
}

/// The chains with a limit.
fn limited(of: &SetAnalysis) -> impl Iterator<Item = &ChainAnalysis> {
    of.chains
        .iter()
        .filter(|chain| chain.reaction_limit_ns.is_some() || chain.age_limit_ns.is_some())
}

/// An analysis, with a final newline.
#[must_use]
pub fn analysis(of: &SetAnalysis, style: &Style) -> String {
    let tone = match of.outcome {
        AnalysisOutcome::Met => Tone::Good,
        AnalysisOutcome::NotMet => Tone::Bad,
        AnalysisOutcome::Unbounded => Tone::Unsure,
    };
    let mut lines: Vec<String> = Vec::new();
    for line in wrap(&analysis_sentence(of), style.columns()) {
        lines.push(style.paint(tone, &line));
    }
    lines.push(String::new());
    lines.extend(task_table(of, style));
    if !of.chains.is_empty() {
        lines.push(String::new());
        lines.extend(chain_table(of, style));
    }
    let mut section = |title: &str, texts: Vec<String>| {
        for (at, text) in texts.iter().enumerate() {
            if at == 0 {
                lines.push(String::new());
            }
            lines.extend(fact_lines(style, if at == 0 { title } else { "" }, text));
        }
    };
    section("No bound", no_bounds(of));
    section("No proof", open(of));
    section(
        "Chains",
        of.chains
            .iter()
            .filter_map(|chain| no_latency(of, chain))
            .collect(),
    );
    section(
        "Bounds",
        of.tasks.iter().filter_map(|task| parts(of, task)).collect(),
    );
    section(
        "CPUs",
        of.loads
            .iter()
            .map(|load| cpu(load, &of.overheads))
            .collect(),
    );
    section("Margin", margin(of).into_iter().collect());
    section("Admission", admission(of).into_iter().collect());
    section("Kernel", vec![overheads(&of.overheads)]);
    let lines = lines.iter().map(|line| cut(line, style.columns()) + "\n");
    lines.collect()
}

fn policy(policy: TaskPolicy) -> String {
    match policy {
        TaskPolicy::Fifo { priority } => format!("fifo {priority}"),
        TaskPolicy::Rr { priority } => format!("rr {priority}"),
        TaskPolicy::Deadline { .. } => "deadline".to_owned(),
        TaskPolicy::Other { nice: 0 } => "other".to_owned(),
        TaskPolicy::Other { nice } => format!("other {nice}"),
    }
}

fn task_table(of: &SetAnalysis, style: &Style) -> Vec<String> {
    let head = [
        "task", "policy", "CPU", "period", "job", "bound", "deadline", "slack", "spare",
    ];
    let mut rows = vec![head.map(Cell::new).to_vec()];
    let dash = || "—".to_owned();
    for task in &of.tasks {
        let cpus = match &task.cpus[..] {
            [] => "all".to_owned(),
            cpus => cpu_list(cpus),
        };
        let bound = match &task.response {
            Response::Bounded { response_ns, .. } => Some(*response_ns),
            _ => None,
        };
        let tone = match task.meets() {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Plain,
        };
        let slack = bound.map(|bound| match task.deadline_ns.checked_sub(bound) {
            Some(left) => words::duration(left),
            None => format!("-{}", words::duration(bound - task.deadline_ns)),
        });
        rows.push(vec![
            Cell::new(words::shortened(&task.name, NAME)),
            Cell::new(policy(task.policy)),
            Cell::new(cpus),
            Cell::new(words::duration(task.period_ns)),
            Cell::new(task.execution_ns.map_or_else(dash, words::duration)),
            Cell::toned(bound.map_or_else(dash, words::duration), tone),
            Cell::new(words::duration(task.deadline_ns)),
            Cell::new(slack.unwrap_or_else(dash)),
            Cell::new(task.may_take_longer_ns.map_or_else(dash, words::duration)),
        ]);
    }
    trimmed(&rows, style)
}

fn trimmed(rows: &[Vec<Cell>], style: &Style) -> Vec<String> {
    let lines = table::set(rows, style.columns(), style).into_iter();
    lines.map(|line| line.trim_end().to_owned()).collect()
}

fn chain_table(of: &SetAnalysis, style: &Style) -> Vec<String> {
    let head = ["chain", "reaction", "limit", "age", "limit"];
    let mut rows = vec![head.map(Cell::new).to_vec()];
    for chain in &of.chains {
        let (reaction, age) = match chain.latency {
            ChainLatency::Bounded {
                reaction_ns,
                age_ns,
            } => (Some(reaction_ns), Some(age_ns)),
            _ => (None, None),
        };
        let cell = |ns: Option<u64>| ns.map_or_else(|| "—".to_owned(), words::duration);
        let toned = |ns: Option<u64>, limit: Option<u64>| match (ns, limit) {
            (Some(ns), Some(limit)) if ns > limit => Cell::toned(words::duration(ns), Tone::Bad),
            (Some(ns), Some(_)) => Cell::toned(words::duration(ns), Tone::Good),
            (ns, _) => Cell::new(cell(ns)),
        };
        rows.push(vec![
            Cell::new(words::shortened(&chain.name, NAME)),
            toned(reaction, chain.reaction_limit_ns),
            Cell::new(cell(chain.reaction_limit_ns)),
            toned(age, chain.age_limit_ns),
            Cell::new(cell(chain.age_limit_ns)),
        ]);
    }
    trimmed(&rows, style)
}

fn name(of: &SetAnalysis, task: usize) -> &str {
    of.tasks.get(task).map_or("", |task| &task.name)
}

/// What a bound that proves nothing counts, and what to do.
const OPEN: &str = "its bound counts what need not come together (sleeps within jobs as execution, each phase as the \
    longest job at the shortest distance, all waits for locks, for tasks of its priority and for released ones, the \
    kernel's time for ordinary tasks and reservations of unknown work in full, tasks at different offsets), and is too \
    long with that, which does not say that it comes late: give it more room, or sleep between jobs only";

/// The same of a chain.
const OPEN_CHAIN: &str = "its bound adds up the longest times of its parts, however its tasks follow one another, and is \
    too long with that, which does not say that it comes late: execute the set, or let each task release the next \
    (after)";

/// Why tasks have no bound.
fn no_bounds(of: &SetAnalysis) -> Vec<String> {
    reasons(of, |task| match task.response {
        Response::Unbounded { why } if !task.is_open() => Some(reason(of, task, why)),
        _ => None,
    })
}

/// Which bounds prove nothing.
fn open(of: &SetAnalysis) -> Vec<String> {
    let mut said = reasons(of, |task| task.is_open().then(|| OPEN.to_owned()));
    let chains = of.chains.iter().filter(|chain| chain.is_open());
    said.extend(chains.map(|chain| format!("{}: {OPEN_CHAIN}", chain.name)));
    said
}

/// Tasks with what is to be said of them.
fn reasons(of: &SetAnalysis, why: impl Fn(&TaskAnalysis) -> Option<String>) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for task in &of.tasks {
        let Some(why) = why(task) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&task.name),
            None => reasons.push((why, vec![&task.name])),
        }
    }
    let said = reasons.into_iter().map(|(why, names)| {
        let shown = names.len().min(SHOWN);
        let more = match names.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more}: {why}", names[..shown].join(", "))
    });
    said.collect()
}

fn no_latency(of: &SetAnalysis, chain: &ChainAnalysis) -> Option<String> {
    let why = match chain.latency {
        ChainLatency::Bounded { .. } => return None,
        ChainLatency::Unbounded { task } => format!("{} has no bound", name(of, task)),
        ChainLatency::NotPeriodic { task } => format!(
            "the arrivals of {} are not at one exact distance: use timer = \"absolute\", and one \
             period for all phases",
            name(of, task)
        ),
        ChainLatency::Skips { task } => format!(
            "jobs of {} may end after the deadline of the next one, which is skipped then",
            name(of, task)
        ),
        ChainLatency::TooLong => "the bound is longer than 584 years".to_owned(),
    };
    Some(format!("{}: {why}", chain.name))
}

/// What the bound of a task consists of; releases of all tasks are one part.
fn parts(of: &SetAnalysis, task: &TaskAnalysis) -> Option<String> {
    let Response::Bounded {
        response_ns,
        job,
        jitter_ns,
        arrival_in_window_ns,
        parts,
    } = &task.response
    else {
        return None;
    };
    let bound = words::duration(*response_ns);
    if parts.is_empty() {
        let from = match task.policy {
            TaskPolicy::Deadline { .. } => "the deadline of its reservation, which is always met",
            _ => "nothing",
        };
        return Some(format!("{}: {bound}: {from}", task.name));
    }
    let mut said = Vec::new();
    // At offsets, the window begins with the release of another task perhaps.
    let until_ns = match arrival_in_window_ns {
        None => *jitter_ns,
        Some(arrival_ns) => u64::try_from(arrival_ns.saturating_neg()).unwrap_or(0),
    };
    if until_ns > 0 {
        said.push(format!("{} until its release", words::duration(until_ns)));
    }
    let mut releases = 0u64;
    for part in parts {
        let ns = words::duration(part.ns);
        said.push(match part.source {
            BoundSource::Itself => format!("{ns} itself"),
            BoundSource::Sleep => format!("{ns} its sleep"),
            BoundSource::Task { task } => format!("{ns} {}", name(of, task)),
            BoundSource::Blocking => format!("{ns} holders of locks"),
            BoundSource::ReleaseInterrupt { .. } => {
                releases = releases.saturating_add(part.ns);
                continue;
            }
            BoundSource::Tick => format!("{ns} ticks"),
            BoundSource::FairServer => format!("{ns} ordinary tasks (fair server)"),
            BoundSource::RtThrottling => format!("{ns} RT throttling"),
            BoundSource::Other => format!("{ns} the kernel"),
        });
    }
    if releases > 0 {
        said.push(format!("{} timer interrupts", words::duration(releases)));
    }
    let which = match (arrival_in_window_ns, job) {
        (Some(arrival_ns), _) if *arrival_ns > 0 => format!(
            "; at the offsets of the set: it arrives {} after the busy window begins",
            words::duration(arrival_ns.unsigned_abs())
        ),
        (Some(_), _) => "; at the offsets of the set".to_owned(),
        (None, 0) => String::new(),
        (None, _) => format!(
            "; it is job {} of a busy window, {} after the first",
            job + 1,
            words::duration(task.period_ns.saturating_mul(*job))
        ),
    };
    Some(format!(
        "{}: {bound}: {}{which}",
        task.name,
        said.join(", ")
    ))
}

fn margin(of: &SetAnalysis) -> Option<String> {
    let factor = of.largest_factor_ppm? as f64 / 1e6;
    Some(match factor {
        0.0 => "no factor of the execution times is shown to meet all deadlines".to_owned(),
        _ if factor >= 1_000.0 => "all jobs may take 1000 times as long, or longer".to_owned(),
        _ if factor >= 1.0 => {
            let has_spare = of
                .tasks
                .iter()
                .any(|task| task.may_take_longer_ns.is_some());
            let spare = match has_spare {
                true => "spare: how much longer those of one task may take, all others as they are",
                false => "spare is not computed for so many tasks",
            };
            format!("all jobs may take {factor:.3} times as long; {spare}")
        }
        _ => format!(
            "deadlines are shown to be met where all jobs take only {factor:.3} of their time"
        ),
    })
}
