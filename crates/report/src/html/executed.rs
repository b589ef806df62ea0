//! A set of tasks: its table, its chains, response times against deadlines, and who took the time.

use punctual_stats::histogram::Histogram;

use super::parts::{Html, Td, td, td_bar, td_in};
use super::sections::figure;
use crate::chart::{gantt, responses};
use crate::exec::{beyond, chain_bounds, rows, who};
use crate::words;
use punctual_record::Run;
use punctual_record::taskset::{JobBill, TaskRun};

/// Rows of a bill that are shown; what is left is one row.
const MOST_ROWS: usize = 12;

pub(super) fn executed(html: &mut Html, run: &Run) {
    let Some(tasks) = &run.tasks else {
        return;
    };
    html.heading("tasks", "Tasks");
    table(html, run, tasks);
    for line in beyond(tasks) {
        let text = format!("Beyond the bound of the analysis: {line}.");
        html.text("p", "note", &text);
    }
    chains(html, tasks);
    super::budgets::budgets(html, run, tasks);
    responses(html, run, tasks);
    bills(html, run, tasks);
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "—".to_owned(), |ns| words::micros(ns as f64))
}

fn counted(count: u64) -> Td {
    match count {
        0 => td("0"),
        some => td_in("late", words::count(some)),
    }
}

fn table(html: &mut Html, run: &Run, tasks: &TaskRun) {
    let rows = rows(run, tasks);
    let cells = rows.iter().map(|row| {
        let worst = row.worst_ns.unwrap_or(0);
        let spare = match row.deadline_ns.checked_sub(worst) {
            Some(spare) => td(words::micros(spare as f64)),
            None => td_in(
                "late",
                format!("−{}", words::micros((worst - row.deadline_ns) as f64)),
            ),
        };
        let determ = row.worst_ns.zip(row.best_ns);
        let share = row.cpu_share.map(|share| format!("{:.1} %", share * 100.0));
        let cells = vec![
            td(words::clean(&row.name)),
            td(row.policy.clone()),
            td(row.cpus.clone()),
            td(words::count(row.jobs)),
            td(words::micros(row.deadline_ns as f64)),
            spare,
            td(time(row.best_ns)),
            td(time(row.p999_ns)),
            td(time(row.worst_ns)),
            td(time(row.bound_ns)),
            td(time(determ.map(|(worst, best)| worst - best))),
            td(time(row.wake_up_ns)),
            counted(row.late),
            counted(row.skipped),
            td(share.unwrap_or_else(|| "—".to_owned())),
            td_in("who", words::clean(row.taken_by.as_deref().unwrap_or("—"))),
        ];
        ("", cells)
    });
    let cells: Vec<(&str, Vec<Td>)> = cells.collect();
    html.table(
        "figures close",
        "Response times in µs, from the arrival of a job to its end; bound: no job takes longer by \
         the analysis; woke: the latest start after a release; most by: what took most of the longest \
         job, but its own work",
        &[
            "Task", "Sched", "CPU", "Jobs", "Deadline", "Spare", "Best", "p99.9", "Worst", "Bound",
            "Determ", "Woke", "Late", "Skipped", "CPU time",
            "Most by",
        ],
        &cells,
    );
}

fn chains(html: &mut Html, tasks: &TaskRun) {
    let each = tasks.set.chains.iter().zip(&tasks.chains).enumerate();
    let each = each.flat_map(|(index, (chain, figures))| {
        let (reaction, age) = chain_bounds(tasks, index).unzip();
        let line = |what: &str, lengths, bound_ns, limit_ns: Option<u64>, longer: u64| {
            let histogram = Histogram::try_from(lengths).unwrap_or_default();
            let cells = vec![
                td(words::clean(&format!("{}: {what}", chain.name))),
                td(words::count(histogram.count())),
                td(time(histogram.quantile(0.5))),
                td(time(histogram.supported_quantile(0.999))),
                td(time(histogram.max())),
                td(time(bound_ns)),
                td(time(limit_ns)),
                match limit_ns {
                    Some(_) => counted(longer),
                    None => td("—"),
                },
            ];
            ("", cells)
        };
        [
            line(
                "reaction",
                &figures.reaction,
                reaction,
                chain.reaction_ns,
                figures.reaction_longer,
            ),
            line("age", &figures.age, age, chain.age_ns, figures.age_longer),
        ]
    });
    let each: Vec<(&str, Vec<Td>)> = each.collect();
    if !each.is_empty() {
        html.table(
            "figures",
            "Chains, in µs; bound: none is longer by the analysis",
            &[
                "Chain", "Outputs", "p50", "p99.9", "Worst", "Bound", "Limit", "Longer",
            ],
            &each,
        );
    }
}

/// The response times of each task against its deadline.
fn responses(html: &mut Html, run: &Run, tasks: &TaskRun) {
    let jobs = Run {
        threads: tasks.tasks.iter().map(|task| task.jobs.clone()).collect(),
        ..run.clone()
    };
    let all = tasks.set.tasks.len();
    let which = match all > responses::MOST {
        true => format!(
            " Of {} those {} that came nearest to their deadlines.",
            words::plural(all as u64, "task", "tasks"),
            responses::MOST
        ),
        false => String::new(),
    };
    let caption = format!(
        "Response times of the jobs of each task against its deadline. Both axes are logarithmic: a \
         single late job shows as well as a million early ones; the dots are the longest.{which}"
    );
    figure(html, "responses", &caption, |form, id| {
        responses::draw(&jobs, tasks, form, id)
    });
}

/// The longest job of each task, the one nearest to its deadline first.
fn bills(html: &mut Html, run: &Run, tasks: &TaskRun) {
    let each = tasks.set.tasks.iter().zip(&tasks.tasks).enumerate();
    let billed = each.filter_map(|(index, (task, figures))| {
        let bill = figures.bills.as_ref()?.worst.first()?;
        Some((task, bill, index))
    });
    let mut billed: Vec<_> = billed.collect();
    if billed.is_empty() {
        return;
    }
    let fullness =
        |deadline_ns: u64, bill: &JobBill| bill.response_ns() as f64 / deadline_ns.max(1) as f64;
    billed
        .sort_by(|a, b| fullness(b.0.deadline_ns, b.1).total_cmp(&fullness(a.0.deadline_ns, a.1)));
    html.heading("bills", "Who took the time of the longest jobs");
    if billed.iter().any(|(_, bill, _)| bill.picture.is_some()) {
        html.text(
            "p",
            "note",
            "The row of a task shows where its job ran, was blocked on a lock (hatched), and was ready \
             or slept (grey); a row of a CPU which thread had it, and in the strip over them interrupts \
             and softirqs.",
        );
    }
    for (task, bill, index) in billed {
        let whole = bill.taken_ns();
        let row = |ns: u64, who: String| {
            let percent = 100.0 * ns as f64 / whole.max(1) as f64;
            let cells = vec![
                td(words::clean(&who)),
                td_bar(percent, format!("{percent:.1} %")),
                td(words::micros(ns as f64)),
            ];
            ("", cells)
        };
        let shown = bill.rows.iter().take(MOST_ROWS);
        let mut cells: Vec<(&str, Vec<Td>)> = shown
            .map(|it| row(it.ns, who(run, tasks, task, it)))
            .collect();
        let rest = bill.rows.iter().skip(MOST_ROWS);
        let rest_ns: u64 = rest.map(|it| it.ns).sum();
        if rest_ns > 0 {
            cells.push(row(rest_ns, "other causes".to_owned()));
        }
        let name = words::clean(&task.name);
        html.text("h3", "", &name);
        let caption = "What ran when, from the arrival of the job on";
        figure(html, &format!("job-{index}"), caption, |form, id| {
            gantt::draw(run, tasks, (index, bill), form, id)
        });
        let caption = format!(
            "{}: {} until the end of its job, deadline {}",
            name,
            words::duration(whole),
            words::duration(task.deadline_ns)
        );
        html.table("figures causes", &caption, &["Who", "Share", "µs"], &cells);
    }
}
