//! The runtime of a watched program as tables: its pauses, and what made its ticks late.

use super::{Table, instant, none, some_count};
use crate::explain::waits::{named, text};
use crate::words;
use punctual_record::Run;
use punctual_record::explanation::Doing;
use punctual_record::watch::{
    Runtime, ThreadRole, TickBill, TickRow, TickTimes, Watch, WatchedRuntime,
};

/// Rows of a late tick that are shown, of its pauses and of the rest each.
const ROWS: usize = 4;

/// What a pause of this runtime is called.
fn pause(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Jvm => "safepoint",
        Runtime::Python => "collection",
        Runtime::Go => "stop",
    }
}

/// What a thread is to its runtime.
pub(super) fn role(runtime: Runtime, role: ThreadRole) -> &'static str {
    match (runtime, role) {
        (Runtime::Jvm, ThreadRole::Pauses) => "safepoints",
        (_, ThreadRole::Pauses) => "pauses",
        (_, ThreadRole::Collects) => "GC",
        (_, ThreadRole::Compiles) => "compiler",
        (_, ThreadRole::Serves) => "runtime",
        (Runtime::Jvm, ThreadRole::Program) => "Java",
        (_, ThreadRole::Program) => "program",
    }
}

/// All pauses together: each counts once.
pub(super) fn pauses(run: &Run, watch: &Watch) -> Table {
    let heads = vec![
        "pause",
        "times",
        "total",
        "share",
        "without a CPU",
        "longest",
        "at",
    ];
    let row = |runtime: &WatchedRuntime| {
        let mark = watch.marks.iter().find(|it| it.name == runtime.pause)?;
        let count = mark.sum(|thread| thread.lengths.count);
        let sums = mark.threads.iter().map(|thread| thread.lengths.sum_ns);
        let total_ns = u64::try_from(sums.sum::<u128>()).unwrap_or(u64::MAX);
        let worst = mark.threads.iter().filter_map(|it| it.worst.first());
        let worst = worst.max_by_key(|worst| worst.length_ns);
        Some(vec![
            words::clean(&runtime.pause),
            words::count(count),
            words::duration(total_ns),
            percent(total_ns, run.measured_ns),
            runtime.pause_waited_ns.map_or_else(none, some_time),
            worst.map_or_else(none, |it| words::duration(it.length_ns)),
            worst.map_or_else(none, |it| {
                instant(run, it.at_ns.saturating_sub(it.length_ns))
            }),
        ])
    };
    Table {
        name: "Pauses of the runtime",
        heads,
        rows: watch.runtime.iter().filter_map(row).collect(),
        below: None,
        // Without ticks they are all that the flag asked for.
        asked: watch.runtime.as_ref().is_some_and(|it| it.ticks.is_empty()),
        spare: &["share", "at"],
    }
}

fn some_time(ns: u64) -> String {
    match ns {
        0 => none(),
        some => words::duration(some),
    }
}

fn percent(part_ns: u64, of_ns: u64) -> String {
    match of_ns {
        0 => none(),
        _ => format!("{:.1} %", part_ns as f64 / of_ns as f64 * 100.0),
    }
}

/// The late ticks of each thread together.
pub(super) fn ticks(_: &Run, watch: &Watch) -> Table {
    let runtime = watch.runtime.as_ref();
    let pause = runtime.map_or("pause", |it| pause(it.runtime));
    let rows = runtime.iter().flat_map(|it| &it.ticks).map(|ticks| {
        let total_ns = ticks.spent.total_ns();
        let mut row = vec![
            words::label(&format!("{}/{}", ticks.task.name, ticks.task.tid)),
            words::count(ticks.count),
            some_count(ticks.late),
            some_count(ticks.held),
            words::duration(ticks.worst_ns),
            some_time(total_ns),
        ];
        let waited = Waited::AtLeast(ticks.spent.pause_waited_ns);
        row.extend(shares(&ticks.spent, waited));
        row
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    if let Some(beyond) = runtime.map(|it| it.beyond).filter(|count| *count > 0) {
        let mut row = vec![none(); 10];
        row[0] = "no room".to_owned();
        row[1] = words::count(beyond);
        rows.push(row);
    }
    Table {
        name: "Ticks, and what made them late",
        heads: vec![
            "thread",
            "ticks",
            "late",
            "held",
            "latest",
            "late in all",
            pause,
            "of it no CPU",
            "no CPU",
            "rest",
        ],
        rows,
        below: None,
        asked: true,
        spare: &["held", "latest"],
    }
}

/// Shares of the time by which ticks were late.
fn shares(spent: &TickTimes, waited: Waited) -> [String; 4] {
    let total_ns = spent.total_ns();
    let share = |ns: u64| match ns {
        0 => none(),
        some => percent(some, total_ns),
    };
    let waited = match waited {
        Waited::Exactly(ns) => share(ns),
        Waited::AtLeast(0) => none(),
        Waited::AtLeast(ns) => format!("≥ {}", share(ns)),
    };
    [
        share(spent.paused_ns),
        waited,
        share(spent.ready_ns),
        share(spent.rest_ns),
    ]
}

/// For how long the threads that run pauses had no CPU, in ns.
enum Waited {
    Exactly(u64),
    AtLeast(u64),
}

/// The latest ticks, one by one.
pub(super) fn bills(run: &Run, watch: &Watch) -> Table {
    let runtime = watch.runtime.as_ref();
    let pause = runtime.map_or("pause", |it| pause(it.runtime));
    let all = || runtime.iter().flat_map(|it| &it.bills);
    let rows = all().map(|bill| {
        let mut row = vec![
            words::label(&format!("{}/{}", bill.task.name, bill.task.tid)),
            instant(run, bill.due_ns),
            words::duration(bill.late_ns),
        ];
        row.extend(shares(&bill.spent, waited_in_pauses(bill)));
        row
    });
    Table {
        name: "The latest ticks",
        heads: vec![
            "thread",
            "due at",
            "late",
            pause,
            "of it no CPU",
            "no CPU",
            "rest",
        ],
        rows: rows.collect(),
        below: all().any(|bill| !bill.rows.is_empty()).then(|| {
            (
                "what it waited for",
                all().map(|it| rows_of(it, pause)).collect(),
            )
        }),
        asked: false,
        spare: &["due at"],
    }
}

/// The same of one tick: exactly, if it slept for the pause and everything was seen.
fn waited_in_pauses(bill: &TickBill) -> Waited {
    let sum = |is: &dyn Fn(&TickRow) -> bool| {
        let rows = bill.rows.iter().filter(|it| it.paused && is(it));
        rows.map(|it| it.row.ns).fold(0, u64::saturating_add)
    };
    let ready = |it: &TickRow| matches!(it.row.doing, Doing::Ready { .. });
    let followed_ns = sum(&|it| it.row.depth > 0 && ready(it));
    // What the others did meanwhile is not followed.
    let beside_ns = sum(&|it| it.row.depth == 0 && ready(it));
    let unseen_ns = sum(&|it| matches!(it.row.doing, Doing::Unseen | Doing::Other));
    let known =
        !bill.rows.is_empty() && beside_ns.saturating_add(unseen_ns) <= bill.spent.paused_ns / 100;
    match known {
        true => Waited::Exactly(followed_ns),
        false => Waited::AtLeast(followed_ns.max(bill.spent.pause_waited_ns)),
    }
}

/// What the threads did, those in pauses first.
fn rows_of(bill: &TickBill, pause: &str) -> String {
    let part = |paused: bool, title: &str| {
        let of_it = || bill.rows.iter().filter(|it| it.paused == paused);
        let total_ns: u64 = of_it().map(|it| it.row.ns).fold(0, u64::saturating_add);
        let mut rows: Vec<&TickRow> = of_it().filter(|it| it.row.ns > 0).collect();
        rows.sort_by_key(|it| std::cmp::Reverse(it.row.ns));
        rows.truncate(ROWS);
        let shown_ns: u64 = rows.iter().map(|it| it.row.ns).sum();
        let mut texts: Vec<String> = rows.iter().map(|it| row(it)).collect();
        if total_ns > shown_ns {
            texts.push(format!("others {}", words::duration(total_ns - shown_ns)));
        }
        let total = words::duration(total_ns);
        (total_ns > 0).then(|| format!("{title} {total}: {}", texts.join("; ")))
    };
    let parts = [part(true, pause), part(false, "outside of it")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => none(),
        false => parts.join(" — "),
    }
}

fn row(it: &TickRow) -> String {
    let time = words::duration(it.row.ns);
    match &it.row.doing {
        Doing::Timer if it.row.depth == 0 => format!("its timer expired late {time}"),
        Doing::Ready { behind: Some(by) } => {
            let (who, other) = (named(it.row.thread.as_ref()), named(Some(by)));
            format!(
                "{who} was ready to run, {other}/{} had its CPU {time}",
                by.tid
            )
        }
        _ => format!("{} {time}", text(&it.row)),
    }
}
