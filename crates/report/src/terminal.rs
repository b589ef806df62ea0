//! The summary of a run for a terminal: what an engineer wants to see who has
//! logged in over ssh and waits for one answer.

use punctual_record::Field;
use punctual_stats::verdict::Outcome;

mod brief;

use super::figures::{Figures, Row};
use super::known::Reading;
use super::marks::deadline;
use super::placement::placement;
use super::statements::{self, Fact, Headline};
use super::style::{Style, Tone, cut, wrap};
use super::table::{self, Cell};
use super::terms::Terms;
use super::words;
use super::{conditions, exec, experiment, explain, facts, findings, path, tuned, watch};
use punctual_record::invalid::not_in_force;
use punctual_record::{Event, Run};

/// CPUs in the table; of more, the worst are shown. The brief summary shows fewer.
const MOST_ROWS: usize = 16;
/// Bad findings of the machine that are listed.
const MOST_FINDINGS: usize = 8;
/// Worst samples that are listed.
const MOST_WORST: usize = 5;

/// The summary, with a final newline: what an expert needs first, or with `-v` all of it.
#[must_use]
pub fn summary(run: &Run, style: &Style) -> String {
    if let Some(experiment) = &run.experiment {
        return experiment::summary(run, experiment, style);
    }
    if let Some(tasks) = &run.tasks {
        return exec::summary(run, tasks, style);
    }
    let lines = if style.verbose {
        whole(run, style)
    } else {
        brief::lines(run, style)
    };
    let lines = lines.iter().map(|line| cut(line, style.columns()) + "\n");
    lines.collect()
}

/// Everything that fits a terminal.
fn whole(run: &Run, style: &Style) -> Vec<String> {
    let figures = Figures::from_run(run);
    let headline = statements::headline(run);
    let mut page = Page::new(style);

    page.headline(&headline);
    page.why(run);
    page.section("Conditions");
    page.facts(&conditions(run));
    if !figures.rows.is_empty() {
        page.table(run, &figures, MOST_ROWS);
        if let Some(glossary) = statements::glossary(run) {
            page.paragraph(Tone::Dim, glossary);
        }
    }
    page.watch(run);
    let path = path::of_run(run);
    if !path.is_empty() {
        page.section("Path");
        page.facts(&path);
    }
    let statistics = statements::statistics(run);
    if !statistics.is_empty() {
        page.section("Statistics");
        if headline.outcome == Some(Outcome::Invalid) {
            page.paragraph(Tone::Void, statements::WHAT_INVALID_MEANS);
        }
        page.facts(&statistics);
    }
    page.worst(run, &figures);
    page.blank();
    page.lines.extend(explain::section(run, style, Some(1)));
    page.blank();
    if let Some(section) = findings::of_run::section(run, style, MOST_FINDINGS) {
        let lines = [section.head, section.named, section.all];
        page.lines.extend(lines.into_iter().flatten());
    }
    page.blank();
    if let Some(place) = &style.report {
        page.facts(&[("Report".to_owned(), place.clone())]);
    }
    page.lines
}

/// Nothing but the verdict: one line, however long.
#[must_use]
pub fn verdict_line(run: &Run, style: &Style) -> String {
    let headline = statements::headline(run);
    format!(
        "{}\n",
        style.paint(tone(headline.outcome), &headline.sentence)
    )
}

pub(crate) fn tone(outcome: Option<Outcome>) -> Tone {
    match outcome {
        None => Tone::Bold,
        Some(Outcome::Pass) => Tone::Good,
        Some(Outcome::Fail) => Tone::Bad,
        Some(Outcome::Inconclusive) => Tone::Unsure,
        Some(Outcome::Invalid) => Tone::Void,
    }
}

/// The conditions that fit a terminal.
fn conditions(run: &Run) -> Vec<Fact> {
    let fact = |name: &str, text: String| (name.to_owned(), text);
    let joined = |parts: [String; 2], between: &str| {
        let some: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        some.join(between)
    };
    let measured = if run.knows(Field::MeasuredTime) {
        words::duration(run.measured_ns)
    } else {
        String::new()
    };
    let mut facts = vec![
        fact("Machine", conditions::machine(run)),
        fact(
            "Kernel",
            joined([conditions::kernel(run), conditions::platform(run)], "; "),
        ),
        fact("Clock", conditions::clock_and_power(run)),
        fact(
            if run.watch.is_some() {
                "Watched"
            } else {
                "Probe"
            },
            joined([conditions::method(run), measured], ", "),
        ),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    facts.extend(placement(run).map(|text| fact("CPUs", text)));
    if run.watch.is_none() && run.knows(Field::Load) {
        facts.push(fact("Load", conditions::load(run)));
    }
    facts.extend(tuned::sentence(run).map(|text| fact("Tuned", text)));
    facts.extend(conditions::origin(run));
    if run.request.best_effort {
        facts.push(fact(
            "Effort",
            "best effort: conditions not in force do not make it invalid".to_owned(),
        ));
    }
    facts
}

struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

/// The lines of a table of a watch, made narrow enough.
fn watch_lines(mut table: watch::Table, style: &Style) -> Vec<String> {
    let room = style.columns() - 2;
    let cells = |table: &watch::Table| {
        let heads = table.heads.iter();
        let mut rows = vec![heads.map(|head| Cell::toned(*head, Tone::Dim)).collect()];
        let row = |row: &Vec<String>| row.iter().map(Cell::new).collect();
        rows.extend(table.rows.iter().map(row));
        rows
    };
    let mut rows: Vec<Vec<Cell>> = cells(&table);
    while table::width(&rows, 1) > room && table.narrow() {
        rows = cells(&table);
    }
    let lines = table::set(&rows, room, style);
    let texts = table.below.map_or_else(Vec::new, |(_, texts)| texts);
    // Below the row that it belongs to, which follows the heads.
    let mut texts = std::iter::once(String::new()).chain(texts);
    let mut set = Vec::new();
    for line in lines {
        set.push(format!("  {line}"));
        let text = texts.next().unwrap_or_default();
        let below = wrap(&text, room.saturating_sub(4));
        let below = below.iter().filter(|line| !line.is_empty());
        set.extend(below.map(|line| style.paint(Tone::Dim, &format!("      {line}"))));
    }
    set
}

impl<'a> Page<'a> {
    fn new(style: &'a Style) -> Self {
        Self {
            style,
            lines: Vec::new(),
        }
    }

    fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    fn paragraph(&mut self, tone: Tone, text: &str) {
        for line in wrap(text, self.style.columns()) {
            self.lines.push(self.style.paint(tone, &line));
        }
    }

    fn section(&mut self, name: &str) {
        self.blank();
        self.lines.push(self.style.paint(Tone::Bold, name));
    }

    /// The verdict: its word stands out, the sentence is to be read.
    fn headline(&mut self, headline: &Headline) {
        let lines = wrap(&headline.sentence, self.style.columns());
        let word = headline.outcome.map_or("", Outcome::word);
        for (i, line) in lines.iter().enumerate() {
            let painted = match line.strip_prefix(word) {
                Some(rest) if i == 0 && !word.is_empty() => {
                    format!(
                        "{}{}",
                        self.style.paint(tone(headline.outcome), word),
                        self.style.paint(Tone::Bold, rest)
                    )
                }
                _ => self.style.paint(Tone::Bold, line),
            };
            self.lines.push(painted);
        }
    }

    /// Names in a column, what is said of them beside it.
    fn facts(&mut self, facts: &[Fact]) {
        let column = facts
            .iter()
            .map(|f| f.0.chars().count())
            .max()
            .unwrap_or(0)
            .clamp(8, 14);
        self.facts_in(column, facts);
    }

    /// The same in a column of this width.
    fn facts_in(&mut self, column: usize, facts: &[Fact]) {
        for (name, text) in facts {
            let column = column.max(name.chars().count());
            let room = self.style.columns().saturating_sub(column + 4);
            for (i, line) in wrap(text, room).iter().enumerate() {
                let name = if i == 0 { name.as_str() } else { "" };
                let head = format!("  {name:column$}  ");
                self.lines.push(format!(
                    "{}{}",
                    self.style.paint(Tone::Dim, &head),
                    self.style.paint(Tone::Plain, line)
                ));
            }
        }
    }

    fn item(&mut self, tone: Tone, text: &str) {
        for (i, line) in wrap(text, self.style.columns() - 4).iter().enumerate() {
            let head = if i == 0 { "  - " } else { "    " };
            self.lines
                .push(format!("{head}{}", self.style.paint(tone, line)));
        }
    }

    /// What a reader must know before any figure.
    fn why(&mut self, run: &Run) {
        if let Some(standing) = statements::standing(run) {
            self.paragraph(Tone::Void, &standing);
        }
        for reason in statements::reasons(run) {
            self.item(Tone::Plain, &reason);
        }
        let demands: Vec<_> = not_in_force(run).collect();
        if !demands.is_empty() {
            self.section("Not in force");
        }
        for (at, demand) in demands.iter().enumerate() {
            self.item(
                Tone::Bad,
                &format!(
                    "{}: requested {}, found {}",
                    demand.name(),
                    facts::requested(demand),
                    facts::found(demand)
                ),
            );
            // One fix for several stands below the last of them.
            let again = demands[at + 1..].iter().any(|it| it.fix == demand.fix);
            if let (Some(fix), false) = (facts::fix_of(demand), again) {
                for line in wrap(&format!("fix: {fix}"), self.style.columns() - 4) {
                    self.lines
                        .push(format!("    {}", self.style.paint(Tone::Plain, &line)));
                }
            }
        }
        let (bad, other): (Vec<_>, Vec<_>) = run.events.iter().partition(|event| event.invalidates);
        if !run.events.is_empty() {
            self.section("Events");
        }
        let said = |event: &Event| facts::event(event, &run.tool.name);
        for event in bad.iter().take(8) {
            self.item(
                Tone::Bad,
                &match run.imported {
                    // Another tool doesn't say when.
                    Some(_) => said(event),
                    None => format!(
                        "{}: {} (no longer valid)",
                        words::instant(event.at_ns),
                        said(event)
                    ),
                },
            );
        }
        let room = 8usize.saturating_sub(bad.len());
        for event in other.iter().take(room) {
            self.item(
                Tone::Plain,
                &format!("{}: {}", words::instant(event.at_ns), said(event)),
            );
        }
        let shown = bad.len().min(8) + other.len().min(room);
        if shown < run.events.len() {
            let rest = words::count((run.events.len() - shown) as u64);
            self.item(Tone::Dim, &format!("and {rest} more"));
        }
        let failed = run.threads.iter().filter_map(|thread| {
            let fault = thread.fault.as_ref()?;
            Some(facts::failed_thread(thread.cpu, fault))
        });
        for text in failed.take(8) {
            self.item(Tone::Bad, &text);
        }
    }

    /// Each CPU and all of them; of more than `most` those with the highest maximum.
    fn table(&mut self, run: &Run, figures: &Figures, most: usize) {
        let shown = if figures.rows.len() > most {
            figures.by_maximum().into_iter().take(most).collect()
        } else {
            (0..figures.rows.len()).collect::<Vec<_>>()
        };
        let deadline = deadline(run);
        let room = self.style.columns() - 2;
        let (unit, mut rows) = fitting(figures, &shown, (deadline, Terms::for_run(run)), room);
        // What no unit makes fit gives up columns, never the maximum.
        for name in GIVEN_UP {
            let column = rows[0].iter().position(|cell| cell.text == *name);
            if let Some(column) = column.filter(|_| table::width(&rows, 1) > room) {
                rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        let none_kept = |row: &Row| row.unkept > 0 && row.kept_below_ns.is_none();
        let gap = |row: &Row| {
            let few = row.reading(99.999) == Reading::TooFew;
            row.count > 0 && few && !none_kept(row)
        };
        let gaps = figures.rows.iter().chain([&figures.merged]).any(gap);
        self.section(&format!(
            "{} in {unit}{}",
            Terms::for_run(run).heading,
            if gaps { " (—: too few samples)" } else { "" }
        ));
        for line in table::set(&rows, room, self.style) {
            self.lines.push(format!("  {line}"));
        }
        if shown.len() < figures.rows.len() {
            let rest = figures.rows.len() - shown.len();
            let least = shown.last().and_then(|&i| figures.rows[i].max).unwrap_or(0);
            let text = format!(
                "  and {} with a maximum of at most {}",
                words::plural(
                    rest as u64,
                    &format!("more {}", words::row(figures.rows_are)),
                    &format!("more {}s", words::row(figures.rows_are))
                ),
                words::duration(least)
            );
            self.lines.push(self.style.paint(Tone::Dim, &text));
        }
        if let Some(beyond) = statements::beyond(figures) {
            self.paragraph(Tone::Dim, &beyond);
        }
    }

    /// What a watch saw beside the wake-ups.
    fn watch(&mut self, run: &Run) {
        for mut table in watch::tables(run) {
            self.section(table.name);
            let rest = table.rows.len().saturating_sub(watch::MOST_ROWS);
            table.truncate(watch::MOST_ROWS);
            self.lines.extend(watch_lines(table, self.style));
            if rest > 0 {
                let text = format!("  and {} more in the report", words::count(rest as u64));
                self.lines.push(self.style.paint(Tone::Dim, &text));
            }
        }
    }

    fn worst(&mut self, run: &Run, figures: &Figures) {
        let worst = statements::worst(run, MOST_WORST);
        if worst.is_empty() {
            return;
        }
        self.section(if run.gaps.is_some() {
            "Longest gaps"
        } else {
            "Worst samples"
        });
        let latest = |ns: u64| deadline(run).is_some_and(|d| ns > d);
        let rows: Vec<Vec<Cell>> = worst
            .iter()
            .map(|w| {
                let tone = if latest(w.latency_ns) {
                    Tone::Bad
                } else {
                    Tone::Plain
                };
                vec![
                    Cell::toned(words::duration(w.latency_ns), tone),
                    Cell::new(figures.rows[w.row].name.clone()),
                    Cell::new(format!("at {}", words::instant(w.at_ns))),
                ]
            })
            .collect();
        for line in table::set(&rows, self.style.columns() - 2, self.style) {
            self.lines.push(format!("  {line}"));
        }
    }
}

/// Columns that a narrow terminal has no room for, the first to go first.
const GIVEN_UP: &[&str] = &[
    "99.999",
    "99.99",
    "99.9",
    "p90",
    "min",
    "mean",
    "p99",
    "lost",
    "unrecorded",
    "samples",
    "p50",
    "skipped",
    "unanswered",
    "late",
];

/// The table in the unit of the median; shorter counts, then a larger unit, where it
/// would be too wide: but not one in which the median is almost nothing.
fn fitting(
    figures: &Figures,
    shown: &[usize],
    (deadline, terms): (Option<u64>, Terms),
    room: usize,
) -> (&'static str, Vec<Vec<Cell>>) {
    const UNITS: [(&str, f64); 3] = [("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let median = figures.merged.percentile(50.0).unwrap_or(0) as f64;
    let first = UNITS.iter().rposition(|unit| median >= unit.1).unwrap_or(0);
    let mut last = ("µs", Vec::new());
    let tells = |index: &usize| *index == first || median >= UNITS[*index].1 / 10.0;
    for (name, unit) in (first..UNITS.len())
        .take_while(tells)
        .map(|index| UNITS[index])
    {
        for count in [words::count, words::short_count] {
            last = (
                name,
                rows(
                    figures,
                    shown,
                    &Columns {
                        deadline,
                        unit,
                        count,
                        terms,
                    },
                ),
            );
            if table::width(&last.1, 1) <= room {
                return last;
            }
        }
    }
    last
}

/// How figures are written into the columns.
struct Columns {
    deadline: Option<u64>,
    unit: f64,
    count: fn(u64) -> String,
    terms: Terms,
}

fn rows(figures: &Figures, shown: &[usize], columns: &Columns) -> Vec<Vec<Cell>> {
    let percentiles = percentiles(figures);
    let mut names = vec![words::row(figures.rows_are), "samples", "min", "mean"];
    names.extend(percentiles.iter().map(|(_, name)| name));
    let terms = columns.terms;
    // Of gaps no period can be missed.
    names.extend(if terms.are_gaps() {
        vec!["max", "above", terms.unrecorded]
    } else {
        vec!["max", "late", terms.missed, terms.unrecorded]
    });
    let mut rows = vec![
        names
            .into_iter()
            .map(|name| Cell::toned(name, Tone::Dim))
            .collect(),
    ];
    for &i in shown {
        rows.push(row(&figures.rows[i], percentiles, columns));
    }
    if figures.rows.len() != 1 {
        rows.push(row(&figures.merged, percentiles, columns));
    }
    rows
}

/// The percentiles that have a column: as far as the samples of all CPUs support
/// them, and one further, so that one sees where that ends.
fn percentiles(figures: &Figures) -> &'static [(f64, &'static str)] {
    const ALL: [(f64, &str); 6] = [
        (50.0, "p50"),
        (90.0, "p90"),
        (99.0, "p99"),
        (99.9, "99.9"),
        (99.99, "99.99"),
        (99.999, "99.999"),
    ];
    let supported = ALL
        .iter()
        .take_while(|(percentile, _)| figures.merged.reading(*percentile) != Reading::TooFew)
        .count();
    &ALL[..(supported + 1).min(ALL.len())]
}

fn row(row: &Row, percentiles: &[(f64, &str)], columns: &Columns) -> Vec<Cell> {
    let latency = |ns: Option<u64>| match ns {
        Some(ns) => {
            let late = columns.deadline.is_some_and(|d| ns > d);
            Cell::toned(
                words::bare(ns as f64, columns.unit),
                if late { Tone::Bad } else { Tone::Plain },
            )
        }
        None => Cell::new("—"),
    };
    let reading = |percentile: f64| match row.reading(percentile) {
        Reading::AtLeast(ns) => Cell::new(format!(">{}", words::bare(ns as f64, columns.unit))),
        other => latency(other.value()),
    };
    let count = columns.count;
    let bad = |n: u64, tone| Cell::toned(count(n), if n > 0 { tone } else { Tone::Plain });
    let mut cells = vec![
        Cell::new(row.label.clone()),
        Cell::new(count(row.count)),
        latency(row.min),
        Cell::new(
            row.mean
                .map_or_else(|| "—".to_owned(), |ns| words::bare(ns, columns.unit)),
        ),
    ];
    cells.extend(percentiles.iter().map(|(p, _)| reading(*p)));
    cells.push(latency(row.max));
    if row.imported {
        // Nothing of that is stated.
        cells.extend([Cell::new("—"), Cell::new("—"), Cell::new("—")]);
        return cells;
    }
    cells.push(if columns.deadline.is_some() {
        bad(row.late, Tone::Bad)
    } else {
        Cell::new("—")
    });
    if !columns.terms.are_gaps() {
        cells.push(bad(row.missed, Tone::Bad));
    }
    cells.push(bad(row.lost, Tone::Void));
    cells
}
