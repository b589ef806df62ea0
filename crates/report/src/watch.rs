//! What was watched beside the wake-ups, as tables: for the terminal and the page.

mod budgets;
mod marks;
mod runtime;
mod waits;

use super::{facts, words};
use punctual_record::Run;
use punctual_record::watch::{
    Following, Subject, ThreadRole, Timing, Watch, WatchedCall, WatchedRuntime, WatchedTask,
    WatchedThread,
};

/// Rows of a table in the terminal; the page shows them all.
pub(super) const MOST_ROWS: usize = 12;

/// What stands where there is no figure.
fn none() -> String {
    "—".to_owned()
}

fn some_count(count: u64) -> String {
    match count {
        0 => none(),
        some => words::count(some),
    }
}

/// A table in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub name: &'static str,
    pub heads: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// A text that belongs to each row, and its head: too long for a column of a terminal.
    pub below: Option<(&'static str, Vec<String>)>,
    /// It is there because a flag asked for it.
    pub asked: bool,
    /// Columns that a narrow terminal goes without, the first of them first.
    spare: &'static [&'static str],
}

impl Table {
    /// Keeps the first rows.
    pub(super) fn truncate(&mut self, most: usize) {
        self.rows.truncate(most);
        if let Some((_, texts)) = &mut self.below {
            texts.truncate(most);
        }
    }

    /// Goes without one column more, where there is one.
    pub(super) fn narrow(&mut self) -> bool {
        let spare = self.spare.iter();
        let at = spare
            .filter_map(|name| self.heads.iter().position(|head| head == name))
            .next();
        if let Some(at) = at {
            self.heads.remove(at);
            self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
        at.is_some()
    }
}

/// The tables of a watch; none where nothing was watched.
pub(super) fn tables(run: &Run) -> Vec<Table> {
    let Some(watch) = &run.watch else {
        return Vec::new();
    };
    [
        runtime::pauses(run, watch),
        runtime::ticks(run, watch),
        runtime::bills(run, watch),
        marks::lengths(run, watch),
        marks::worst(run, watch),
        threads(run, watch),
        budgets::used(run, watch),
        budgets::over_time(run, watch),
        sleeps(run, watch),
        waits::off_cpu(run, watch),
        waits::run_queue(run, watch),
        worst(run, watch),
    ]
    .into_iter()
    .filter(|table| !table.rows.is_empty())
    .collect()
}

/// When something was, from the beginning of the run on. A sum of runs has no beginning: what is in
/// it was by the clocks of its parts.
fn instant(run: &Run, at_ns: u64) -> String {
    let since = |start_ns: u64| words::instant(at_ns.saturating_sub(start_ns));
    run.start_ns.map_or_else(none, since)
}

/// Whose wake-ups these are.
pub(super) fn subject(run: &Run) -> Option<String> {
    let watch = run.watch.as_ref()?;
    let mut text = match &watch.subject {
        Subject::System => "every real-time thread of the machine".to_owned(),
        Subject::Program {
            pid,
            name,
            all_threads,
            ended,
            ..
        } => format!(
            "{} of {} ({pid}){}",
            if *all_threads {
                "all threads"
            } else {
                "the real-time threads"
            },
            words::clean(name),
            if *ended { ", which ended" } else { "" },
        ),
        Subject::Programs { .. } => programs(&watch.subject),
    };
    match (watch.beyond, watch.unfollowed) {
        (0, 0) => {}
        (beyond, 0) => {
            let more = words::plural(beyond, "more thread was", "more threads were");
            text += &format!("; {more} not followed");
        }
        _ => text += "; an unknown number of further threads was not followed",
    }
    if watch.children > 0 {
        let them = words::plural(watch.children, "child process", "child processes");
        text += &format!("; its {them} not followed (--children)");
    }
    if watch.ordinary > 0 {
        let them = words::plural(watch.ordinary, "thread", "threads");
        text += &format!("; {them} of ordinary priority not followed (--all)");
    }
    if let Some(what) = without_period(watch) {
        text += &format!("; {what}");
    }
    let others = watch.threads.iter().map(|it| it.others);
    let others = others.fold(0_u64, u64::saturating_add);
    if others > 0 {
        let them = words::plural(
            others,
            "thread that ended shares",
            "threads that ended share",
        );
        text += &format!("; {them} the row of a later one of the same name");
    }
    let waiting = watch.waiting.len() as u64;
    let unseen = watch.unseen().saturating_sub(waiting);
    if unseen > 0 {
        let them = words::plural(unseen, "wake-up was", "wake-ups were");
        text += &format!("; {them} not seen, and may have been late");
    }
    if let Some(longest) = watch.waiting.first() {
        let them = words::plural(waiting, "thread", "threads");
        text += &format!(
            "; {them} had been woken and not run when it ended: {}/{} for {}, in the queue of CPU {}",
            longest.task.name,
            longest.task.tid,
            words::duration(longest.waited_ns),
            longest.cpu
        );
    }
    for lack in waits::lacks(run, watch) {
        text += &format!("; {lack}");
    }
    if let Some(cost) = watch
        .cost
        .filter(|cost| cost.measured_ns > 0 && cost.calls > 0)
    {
        text += &format!(
            "; watching took {:.3} % of one CPU ({} calls of {:.0} ns a second)",
            cost.spent_ns as f64 / cost.measured_ns as f64 * 100.0,
            words::count((cost.calls as f64 / cost.measured_ns as f64 * 1e9) as u64),
            cost.spent_ns as f64 / cost.calls as f64,
        );
    }
    Some(text)
}

/// Whose wake-ups these are, where several programs are watched.
fn programs(subject: &Subject) -> String {
    let Subject::Programs {
        following,
        wanted,
        programs,
        unnamed,
        refused,
        all_threads,
    } = subject
    else {
        return String::new();
    };
    let seen = (programs.len() as u64).saturating_add(*unnamed);
    let wanted = words::clean(wanted);
    let which = match following {
        Following::Children => format!("of {wanted} and its children"),
        Following::Name => format!("named {wanted}"),
        Following::Cgroup => format!("in the control group {wanted}"),
    };
    let threads = match all_threads {
        true => "all threads",
        false => "the real-time threads",
    };
    let mut text = format!(
        "{threads} of {} {which}",
        words::plural(seen, "program", "programs")
    );
    let gone = programs.iter().filter(|it| it.gone).count() as u64;
    match gone.saturating_add(*unnamed) {
        0 => {}
        gone => text += &format!(", {} of which ended or left", words::count(gone)),
    }
    if *refused > 0 {
        let more = words::plural(*refused, "more program was", "more programs were");
        text += &format!("; {more} not followed");
    }
    text
}

/// How many of the threads that timers wake have no period, and what is judged of these.
fn without_period(watch: &Watch) -> Option<String> {
    let is_none = |timing| matches!(timing, Timing::Lengths | Timing::Irregular | Timing::Lost);
    let timed = watch.threads.iter().filter(|it| it.by_timer.count > 0);
    let (all, without) = timed.fold((0, 0), |(all, without), thread| {
        (all + 1, without + usize::from(is_none(thread.timing)))
    });
    let (subject, their) = match (without, all) {
        (0, _) => return None,
        (1, 1) => ("it has".to_owned(), "its"),
        (1, _) => ("1 of them has".to_owned(), "its"),
        (some, _) if some == all => ("they have".to_owned(), "their"),
        (some, _) => (format!("{some} of them have"), "their"),
    };
    Some(format!(
        "{subject} no period, so that only {their} wake-ups are judged (--mark-max judges {their} \
         cycles)"
    ))
}

/// The period of a thread, or why it has none.
fn period(watched: &WatchedThread) -> String {
    match (watched.period_ns, watched.timing) {
        (Some(period_ns), _) => words::duration(period_ns),
        (None, Timing::Lengths) => "none (sleeps)".to_owned(),
        (None, Timing::Irregular) => "none".to_owned(),
        (None, Timing::Lost) => "none (lost)".to_owned(),
        (None, _) => none(),
    }
}

/// Skipped periods, and how many of them the thread is to blame for.
fn skipped(watched: &WatchedThread, skipped: u64) -> String {
    match (skipped, watched.skipped_itself) {
        (0, _) if watched.period_ns.is_none() => none(),
        (all, 0) => words::count(all),
        (all, itself) if all == itself => format!("{} (itself)", words::count(all)),
        (all, itself) => format!("{} ({} itself)", words::count(all), words::count(itself)),
    }
}

/// A program of several, by its name and number.
fn program_label(watch: &Watch, pid: u32) -> String {
    let Subject::Programs { programs, .. } = &watch.subject else {
        return pid.to_string();
    };
    // A number may be given out again: the last of it is meant.
    match programs.iter().rfind(|program| program.pid == pid) {
        Some(program) => format!("{}/{pid}", words::clean(&program.name)),
        None => pid.to_string(),
    }
}

fn name(task: &WatchedTask) -> String {
    let name = words::clean(&task.name);
    match (task.policy.as_str(), task.priority) {
        ("other", _) => name,
        (policy, 0) => format!("{name}, {}", words::clean(policy)),
        (policy, priority) => format!("{name}, {} {priority}", words::clean(policy)),
    }
}

/// Columns that a narrow table of threads goes without; the first two only beside roles.
const SPARE: &[&str] = &[
    "overran",
    "preempted",
    "postponed",
    "from disk",
    "policy",
    "moved",
    "by",
    "jobs",
    "program",
];

fn threads(run: &Run, watch: &Watch) -> Table {
    let jobs = watch.threads.iter().any(|thread| thread.jobs.is_some());
    let several = watch.threads.iter().any(|thread| thread.program.is_some());
    let mut heads = vec!["thread", "policy", "period", "skipped", "overran"];
    let runtime = watch.runtime.as_ref();
    let special = |runtime: &&WatchedRuntime| {
        let mut roles = runtime.roles.iter();
        roles.any(|role| *role != ThreadRole::Program)
    };
    let runtime = runtime.filter(special);
    if runtime.is_some() {
        heads.push("role");
    }
    if several {
        heads.insert(1, "program");
    }
    if jobs {
        heads.extend(["jobs", "late jobs", "by", "postponed"]);
    }
    heads.extend(["preempted", "faults", "from disk", "moved"]);
    let rows = watch.threads.iter().zip(&run.threads).enumerate();
    let rows = rows.map(|(index, (watched, thread))| {
        let task = &watched.task;
        let mut row = vec![
            words::label(&run.thread_label(index)),
            match task.priority {
                0 => words::clean(&task.policy),
                priority => format!("{} {priority}", words::clean(&task.policy)),
            },
            period(watched),
            skipped(watched, thread.missed),
            match (watched.overruns, watched.by_timer.count) {
                (0, 0) => none(),
                (0, _) => "0".to_owned(),
                (some, _) => format!(
                    "{} ({})",
                    words::count(some),
                    words::duration(watched.worst_overrun_ns)
                ),
            },
        ];
        if let Some(runtime) = runtime {
            let role = runtime.roles.get(index);
            let role = role.map_or("—", |role| runtime::role(runtime.runtime, *role));
            row.push(role.to_owned());
        }
        if several {
            let program = watched.program.map(|pid| program_label(watch, pid));
            row.insert(1, program.unwrap_or_else(none));
        }
        if jobs {
            row.extend(watched.jobs.map_or_else(
                || vec![none(); 4],
                |jobs| {
                    vec![
                        words::count(jobs.count),
                        words::count(jobs.late),
                        words::duration(jobs.worst_ns),
                        words::count(jobs.postponed),
                    ]
                },
            ));
        }
        row.extend([
            thread.preemptions.map_or_else(none, words::count),
            thread.faults.map_or_else(none, |it| words::count(it.minor)),
            thread.faults.map_or_else(none, |it| words::count(it.major)),
            words::count(watched.migrations),
        ]);
        row
    });
    Table {
        name: "What the threads went through",
        heads,
        rows: rows.collect(),
        below: None,
        asked: false,
        // What a thread is to its runtime says more than how often it was preempted.
        spare: match runtime {
            None => &SPARE[2..],
            Some(_) => SPARE,
        },
    }
}

/// What they slept in, the time that no timer ended first: that is where somebody was waited
/// for.
fn sleeps(run: &Run, watch: &Watch) -> Table {
    let mut all: Vec<(usize, &WatchedCall)> = Vec::new();
    for (index, thread) in watch.threads.iter().enumerate() {
        all.extend(thread.calls.iter().map(|call| (index, call)));
    }
    all.sort_by_key(|(_, call)| {
        let timed = call.by_timer == call.count;
        (
            timed,
            std::cmp::Reverse(call.inversions),
            std::cmp::Reverse(call.worst_ns),
        )
    });
    let rows = all.into_iter().map(|(index, call)| {
        let mean = call.total_ns.checked_div(call.count).unwrap_or(0);
        let by = match &call.other {
            None if call.by_timer == call.count => "its timer".to_owned(),
            None => none(),
            Some(task) if call.held => format!("held by {}", name(task)),
            Some(task) => format!("woken by {}", name(task)),
        };
        vec![
            words::label(&run.thread_label(index)),
            words::clean(&facts::call(&call.name)),
            words::count(call.count),
            words::duration(mean),
            words::duration(call.worst_ns),
            match call.inversions {
                0 => none(),
                some => words::count(some),
            },
            by,
        ]
    });
    Table {
        name: "What they slept in",
        heads: vec![
            "thread",
            "call",
            "times",
            "mean",
            "worst",
            "inverted",
            "the worst",
        ],
        rows: rows.collect(),
        below: None,
        asked: false,
        spare: &["mean", "times", "inverted"],
    }
}

fn worst(run: &Run, watch: &Watch) -> Table {
    let rows = watch.worst.iter().map(|worst| {
        vec![
            words::duration(worst.latency_ns),
            format!("{} ({})", name(&worst.task), worst.task.tid),
            worst.cpu.to_string(),
            worst.before.as_ref().map_or_else(
                || "idle".to_owned(),
                |task| format!("{} ({})", name(task), task.tid),
            ),
            if worst.by_timer {
                "its timer"
            } else {
                "a thread"
            }
            .to_owned(),
            instant(run, worst.at_ns),
        ]
    });
    Table {
        name: "The worst wake-ups",
        heads: vec![
            "latency",
            "who was woken",
            "CPU",
            "who was in the way",
            "woken by",
            "at",
        ],
        rows: rows.collect(),
        below: None,
        asked: false,
        spare: &["woken by", "at"],
    }
}
