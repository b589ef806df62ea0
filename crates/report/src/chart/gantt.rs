//! What ran when around the longest job of a task, as a picture: the job, and below it each CPU.

use super::outlier::scale;
use super::{Form, opened};
use crate::draw::svg::Svg;
use crate::draw::{palette, text};
use crate::exec::gantt::{Bar, Did, Gantt, Who};
use crate::words;
use punctual_record::Run;
use punctual_record::taskset::{JobBill, TaskRun};

const ROW: f64 = 26.0;
const GAP: f64 = 8.0;
/// Room for the names of the instants.
const TOP: f64 = 46.0;
/// How much of a row what lies over a thread takes.
const STRIP: f64 = 8.0;
/// CPUs that are drawn, those with most in them.
const MOST_CPUS: usize = 16;

/// Draws the chart of the job of a bill; `None` where the record holds none.
#[must_use]
pub fn draw(
    run: &Run,
    tasks: &TaskRun,
    (index, bill): (usize, &JobBill),
    form: Form,
    id: &str,
) -> Option<String> {
    let chart = Gantt::of(run, tasks, index, bill)?;
    let name = words::clean(&tasks.set.tasks.get(index)?.name);
    let (width, left, right) = match form {
        Form::Wide | Form::File => (960.0, 120.0, 940.0),
        Form::Narrow => (380.0, 70.0, 372.0),
    };
    let mut cpus: Vec<u32> = chart.cpus.keys().copied().collect();
    cpus.sort_by_key(|cpu| std::cmp::Reverse(chart.cpus[cpu].len()));
    cpus.truncate(MOST_CPUS);
    cpus.sort_unstable();
    let rows = cpus.len() + 1;
    let bottom = TOP + (ROW + GAP) * rows as f64;
    let legend = Legend::of(tasks, &chart, (left, right));
    let size = (width, bottom + 36.0 + 20.0 * legend.lines() as f64);
    let title = format!("The longest job of {name}");
    let description = "What ran on each CPU from the arrival of the job to its end; the bill beside it \
                       says the same.";
    let mut svg = opened(form, id, (&title, description), size);
    hatch(&mut svg, id);
    let (from, to) = (chart.from_ns as f64, chart.to_ns as f64);
    let x = |at_ns: i64| left + (right - left) * (at_ns as f64 - from) / (to - from).max(1.0);
    let y = |row: usize| TOP + (ROW + GAP) * row as f64;
    let letters = if form == Form::Narrow { 10 } else { 17 };
    let own = text::shorten(&name, letters);
    svg.label("strong", "end", left - 8.0, y(0) + 17.0, &own);
    for bar in &chart.job {
        let place = (x(bar.from_ns), x(bar.to_ns), y(0), ROW);
        match bar.what {
            // It lies beneath the others, and so would its words.
            Did::Waited => svg.rectangle("void", place.0, place.2, place.1 - place.0, ROW),
            Did::Ran => {
                let class = colour(&chart, index);
                one(&mut svg, &class, bar, place, None);
            }
            Did::Blocked => one(&mut svg, "span blocked", bar, place, Some(id)),
        }
    }
    for (row, cpu) in cpus.iter().enumerate() {
        let top = y(row + 1);
        svg.label("tick", "end", left - 8.0, top + 17.0, &format!("CPU {cpu}"));
        svg.line("grid", (left, top + ROW), (right, top + ROW));
        for bar in &chart.cpus[cpu] {
            let (start, end) = (x(bar.from_ns), x(bar.to_ns));
            match bar.what {
                Who::Task(task) => {
                    let class = colour(&chart, task);
                    one(&mut svg, &class, bar, (start, end, top, ROW), None);
                }
                Who::Thread => one(&mut svg, "span", bar, (start, end, top, ROW), None),
                Who::Softirq => {
                    one(&mut svg, "span soft", bar, (start, end, top, STRIP), None);
                }
                Who::Interrupt => {
                    one(&mut svg, "span irq", bar, (start, end, top, STRIP), None);
                }
                Who::Host => {
                    one(&mut svg, "span host", bar, (start, end, top, ROW), Some(id));
                }
            }
        }
    }
    instants(&mut svg, &chart, &x, (left, right), bottom);
    scale(&mut svg, (from, to), (left, right), bottom);
    legend.draw(&mut svg, &chart, id, bottom + 44.0);
    svg.close("svg");
    Some(svg.into_text())
}

/// The class of a task's colour in a chart.
fn colour(chart: &Gantt, task: usize) -> String {
    let place = chart.tasks.iter().position(|it| *it == task).unwrap_or(0);
    format!("run {}", palette::series_class(place))
}

/// The hatching of what is blocked or taken.
fn hatch(svg: &mut Svg, id: &str) {
    svg.element("pattern")
        .text_attribute("id", &format!("{id}-hatch"))
        .text_attribute("patternUnits", "userSpaceOnUse")
        .text_attribute("patternTransform", "rotate(45)")
        .number("width", 6.0)
        .number("height", 6.0)
        .open();
    svg.line("hatch", (1.0, 0.0), (1.0, 6.0));
    svg.close("pattern");
}

/// A bar with its label, and its title under the pointer; hatched by the pattern of a picture.
fn one<T>(
    svg: &mut Svg,
    class: &str,
    bar: &Bar<T>,
    (start, end, top, height): (f64, f64, f64, f64),
    hatched: Option<&str>,
) {
    // What is too short to be seen is still there.
    let width = (end - start).max(1.2);
    svg.group(class);
    let length_ns = bar.to_ns.saturating_sub(bar.from_ns).unsigned_abs();
    svg.element("title")
        .text(&format!("{}: {}", bar.label, words::duration(length_ns)));
    svg.rectangle("bar", start, top, width, height);
    if let Some(id) = hatched {
        svg.element("rect")
            .text_attribute("fill", &format!("url(#{id}-hatch)"))
            .number("x", start)
            .number("y", top)
            .number("width", width)
            .number("height", height)
            .end();
    }
    let letters = ((width - 8.0) / 6.6).max(0.0) as usize;
    if letters >= 3 && height > STRIP {
        let label = text::shorten(&bar.label, letters);
        svg.label("ink halo", "start", start + 4.0, top + 20.0, &label);
    }
    svg.close("g");
}

/// Lines at the instants of the job, with their names above.
fn instants(
    svg: &mut Svg,
    chart: &Gantt,
    x: &impl Fn(i64) -> f64,
    (left, right): (f64, f64),
    bottom: f64,
) {
    let at: Vec<f64> = chart.instants.iter().map(|it| x(it.at_ns)).collect();
    let places = text::spread(&at, 56.0, left, right - 20.0);
    for ((instant, at), place) in chart.instants.iter().zip(&at).zip(places) {
        let (line, label) = match instant.is_deadline {
            true => ("deadline", "alert"),
            false => ("leader", "tick"),
        };
        svg.line(line, (*at, TOP - 12.0), (*at, bottom));
        svg.line("leader", (place, TOP - 24.0), (*at, TOP - 12.0));
        svg.label(label, "middle", place, TOP - 28.0, instant.name);
    }
}

/// What the colours mean.
struct Legend {
    /// Class, whether hatched, words, and where.
    keys: Vec<(String, bool, String, f64, usize)>,
}

impl Legend {
    fn of(tasks: &TaskRun, chart: &Gantt, (left, right): (f64, f64)) -> Self {
        let mut keys: Vec<(String, bool, String)> = Vec::new();
        for task in &chart.tasks {
            let name = tasks.set.tasks.get(*task).map(|it| words::clean(&it.name));
            let name = text::shorten(&name.unwrap_or_default(), 20);
            keys.push((colour(chart, *task), false, name));
        }
        let any = |who: Who| chart.cpus.values().flatten().any(|bar| bar.what == who);
        let mut key = |shown: bool, class: &str, hatched, words: &str| {
            if shown {
                keys.push((class.to_owned(), hatched, words.to_owned()));
            }
        };
        let did = |what: Did| chart.job.iter().any(|bar| bar.what == what);
        key(did(Did::Blocked), "span blocked", true, "blocked on a lock");
        key(any(Who::Thread), "span", false, "other threads");
        key(any(Who::Interrupt), "span irq", false, "interrupts");
        key(any(Who::Softirq), "span soft", false, "softirqs");
        key(any(Who::Host), "span host", true, "hypervisor");
        let left = (left - 60.0).max(8.0);
        let (mut at, mut line) = (left, 0);
        let keys = keys.into_iter().map(|(class, hatched, words)| {
            let width = 24.0 + text::width(&words, 12.0) + 16.0;
            if at + width > right && at > left {
                (at, line) = (left, line + 1);
            }
            let place = at;
            at += width;
            (class, hatched, words, place, line)
        });
        Self {
            keys: keys.collect(),
        }
    }

    fn lines(&self) -> usize {
        self.keys.last().map_or(0, |key| key.4 + 1)
    }

    fn draw(&self, svg: &mut Svg, chart: &Gantt, id: &str, top: f64) {
        for (class, hatched, words, x, line) in &self.keys {
            let y = top + 20.0 * *line as f64;
            svg.group(class);
            svg.rectangle("bar", *x, y - 10.0, 16.0, 12.0);
            if *hatched {
                svg.element("rect")
                    .text_attribute("fill", &format!("url(#{id}-hatch)"))
                    .number("x", *x)
                    .number("y", y - 10.0)
                    .number("width", 16.0)
                    .number("height", 12.0)
                    .end();
            }
            svg.close("g");
            svg.label("tick", "start", x + 22.0, y, words);
        }
        if chart.left_out > 0 {
            let more = words::plural(chart.left_out, "shorter stretch", "shorter stretches");
            svg.element("desc").text(&format!("{more} left out"));
        }
    }
}
