//! All outliers of a run as a list: which to open.

use crate::style::{Style, Tone};
use crate::words;
use punctual_record::Run;
use punctual_record::explanation::{Bill, Cause, KeptWindows};

use super::{amounts, name};

/// An outlier that can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its CPU.
    pub cpu: u32,
    /// The requested instant.
    pub due_ns: u64,
    /// Its latency.
    pub latency_ns: u64,
    /// What took most of it, and how much.
    pub main: Option<(Cause, u64)>,
}

impl Listed {
    /// Of a bill.
    #[must_use]
    pub fn of(bill: &Bill) -> Self {
        let main = bill.causes().into_iter().next();
        Self {
            cpu: bill.cpu,
            due_ns: bill.due_ns,
            latency_ns: bill.latency_ns,
            main: main.map(|(cause, ns)| (cause.clone(), ns)),
        }
    }
}

/// The list, in the order of their numbers.
#[must_use]
pub fn outliers(run: &Run, all: &[Listed], style: &Style) -> Vec<String> {
    let number = all.len().to_string().len().max(1);
    let exact = |ns: u64| amounts(run, &[ns]).1;
    let latency = all.iter().map(|it| exact(it.latency_ns).chars().count());
    let latency = latency.max().unwrap_or(0).max("latency µs".chars().count());
    // Another tool's recording goes by its own clock; the bills of a sum of runs by several.
    let at = |due_ns: u64| match (run.start_ns, &run.merged) {
        (None, Some(_)) => "—".to_owned(),
        (start_ns, _) => words::instant(due_ns.saturating_sub(start_ns.unwrap_or(0))),
    };
    let head = format!(
        "{:>number$}  {:>11}  {:>3}  {:>latency$}  main cause",
        "N", "at", "CPU", "latency µs"
    );
    let mut out = vec![style.paint(Tone::Bold, &head)];
    out.extend(all.iter().enumerate().map(|(index, it)| {
        let main = it.main.as_ref().map_or_else(
            || "—".to_owned(),
            |(cause, ns)| {
                let share = 100.0 * *ns as f64 / it.latency_ns.max(1) as f64;
                format!("{share:>3.0} % {}", name(cause))
            },
        );
        let line = format!(
            "{:>number$}  {:>11}  {:>3}  {:>latency$}  {main}",
            index + 1,
            at(it.due_ns),
            it.cpu,
            exact(it.latency_ns),
        );
        style.paint(Tone::Plain, &line)
    }));
    if let Some(lacks) = run
        .explanation
        .as_ref()
        .and_then(|it| it.kept.as_ref())
        .and_then(lacks)
    {
        out.push(style.paint(Tone::Unsure, &lacks));
    }
    out
}

/// What can be opened of the outliers beside the bills in the record.
pub(super) fn can_be_opened(kept: &KeptWindows, bills: usize) -> String {
    let all = kept.windows.saturating_add(bills as u64);
    let mut text = format!(
        "{} can be opened: `punctual explain RUN --list`",
        words::plural(all, "wake-up", "wake-ups")
    );
    if let Some(lacks) = lacks(kept) {
        text += &format!("; {lacks}");
    }
    text
}

fn lacks(kept: &KeptWindows) -> Option<String> {
    (kept.dropped > 0).then(|| {
        format!(
            "the events of {}, the least late, were not kept ({} MiB are)",
            words::plural(kept.dropped, "outlier", "outliers"),
            kept.budget_bytes >> 20
        )
    })
}
