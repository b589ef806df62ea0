//! latstat's way: data and a gnuplot script beside it, written anew with every
//! save, so that a run can be looked at while it goes. `gnuplot latency.gnuplot`
//! in the run directory writes `latency.png` and, once there is a timeline,
//! `timeline.png`.

use std::fmt::Write as _;

use super::chart::MOST_LINES;
use super::draw::axis::nice_range;
use super::figures::{Figures, bin_edge};
use super::marks::deadline;
use super::terms::Terms;
use super::words;
use punctual_record::Run;

/// Name of the script.
pub const SCRIPT: &str = "latency.gnuplot";
/// Name of the histogram's data.
pub const HISTOGRAM: &str = "latency.dat";
/// Name of the timeline's data.
pub const TIMELINE: &str = "timeline.dat";

/// The script and its data: name and content of each file.
#[must_use]
pub fn files(run: &Run) -> Vec<(&'static str, String)> {
    let figures = Figures::from_run(run);
    vec![
        (HISTOGRAM, histogram(&figures)),
        (TIMELINE, timeline(run)),
        (SCRIPT, script(run, &figures)),
    ]
}

/// Lower edge of each bin in µs, counts of all threads together and of each.
fn histogram(figures: &Figures) -> String {
    let mut out = String::from("# latency_us all");
    for row in &figures.rows {
        let _ = write!(out, " cpu{}", row.label.replace('/', "_"));
    }
    out.push('\n');
    let bins = &figures.merged.bins;
    let (Some(first), Some(last)) = (bins.keys().next(), bins.keys().next_back()) else {
        return out;
    };
    // A bin of zeros at each end closes the outline.
    for bin in first - 1..=last + 1 {
        let _ = write!(out, "{:.6e}", bin_edge(bin) / 1e3);
        let _ = write!(out, " {}", bins.get(&bin).copied().unwrap_or(0));
        for row in &figures.rows {
            let _ = write!(out, " {}", row.bins.get(&bin).copied().unwrap_or(0));
        }
        out.push('\n');
    }
    out
}

fn timeline(run: &Run) -> String {
    let mut out = String::from("# seconds samples min_us mean_us max_us late skipped\n");
    for (i, row) in run.timeline.rows.iter().enumerate() {
        let at = i as f64 * run.timeline.row_ns as f64 / 1e9;
        if row.count == 0 {
            // gnuplot breaks the line at what is not a number.
            let _ = writeln!(out, "{at:.3} 0 ? ? ? {} {}", row.late, row.missed);
            continue;
        }
        let mean = row.sum_ns as f64 / row.count as f64 / 1e3;
        let (min, max) = (row.min_ns as f64 / 1e3, row.max_ns as f64 / 1e3);
        let _ = writeln!(
            out,
            "{at:.3} {} {min:.3} {mean:.3} {max:.3} {} {}",
            row.count, row.late, row.missed
        );
    }
    out
}

/// A text as a gnuplot string: single quotes, in which nothing is substituted.
fn quoted(text: &str) -> String {
    let text: String = words::clean(text).chars().filter(|c| *c != '`').collect();
    format!("'{}'", text.replace('\'', "''"))
}

fn script(run: &Run, figures: &Figures) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# gnuplot {SCRIPT}: draws {HISTOGRAM} and {TIMELINE}.");
    let _ = writeln!(
        out,
        "set terminal pngcairo noenhanced size 1200,700 font 'DejaVu Sans,11'"
    );
    let _ = writeln!(out, "set output 'latency.png'");
    let all = &figures.merged;
    let terms = Terms::for_run(run);
    let title = format!(
        "{} {} on {}: {} {} in {}",
        run.tool.name,
        run.verb,
        run.system.hostname,
        words::count(all.count),
        terms.many,
        words::duration(run.measured_ns)
    );
    let _ = writeln!(out, "set title {} noenhanced", quoted(&title));
    let _ = writeln!(out, "set datafile missing '?'");
    let _ = writeln!(
        out,
        "set grid xtics ytics back lt 1 lw 0.5 lc rgb '#d5dae0'"
    );
    let _ = writeln!(out, "set border 3 lc rgb '#545d68'");
    let _ = writeln!(out, "set tics nomirror");
    let deadline = deadline(run);
    let Some((low, high)) = figures.range() else {
        let _ = writeln!(out, "set label 1 'no samples yet' at graph 0.5,0.5 center");
        let _ = writeln!(out, "set xrange [0:1]\nset yrange [0:1]\nplot NaN notitle");
        return out;
    };
    let (from, to) = nice_range(
        deadline.map_or(low, |d| low.min(d.max(1))) as f64 / 1e3,
        deadline.map_or(high, |d| high.max(d)) as f64 * 1.04 / 1e3,
    );
    let _ = writeln!(
        out,
        "set logscale xy\nset format x '%g'\nset format y '%.0f'"
    );
    let Terms { size, many, .. } = terms;
    let _ = writeln!(out, "set xlabel '{size} in µs'\nset ylabel '{many}'");
    let _ = writeln!(out, "set xrange [{from:.6e}:{to:.6e}]\nset yrange [0.6:*]");
    let _ = writeln!(out, "set key outside right top samplen 2");
    if let Some(deadline) = deadline {
        let at = deadline.max(1) as f64 / 1e3;
        let _ = writeln!(
            out,
            "set arrow 1 from {at:.6e},graph 0 to {at:.6e},graph 1 nohead dt 2 lc rgb '#b3132f'"
        );
        let label = quoted(&format!("deadline {} ", words::duration(deadline)));
        let _ = writeln!(
            out,
            "set label 1 {label} at {at:.6e},graph 0.97 right tc rgb '#b3132f' noenhanced"
        );
    }
    let shown: Vec<usize> = if figures.rows.len() > MOST_LINES {
        figures.by_maximum().into_iter().take(3).collect()
    } else {
        (0..figures.rows.len()).collect()
    };
    // Zero has no place on a logarithmic axis: it is drawn at the floor.
    let curve = |column: usize, look: &str, title: &str| {
        format!(
            "'{HISTOGRAM}' using 1:(${column}>0 ? ${column} : 0.6) with steps {look} title {}",
            quoted(title)
        )
    };
    let max = |ns: Option<u64>| ns.map_or_else(|| "none".to_owned(), words::duration);
    let mut curves = vec![curve(
        2,
        "lw 1.2 lc rgb '#24303d'",
        &format!("all, max {}", max(all.max)),
    )];
    for (place, &i) in shown.iter().enumerate() {
        let row = &figures.rows[i];
        let colour = COLOURS[place % COLOURS.len()];
        let dash = if place < COLOURS.len() { 1 } else { 2 };
        let look = format!("lw 1.4 dt {dash} lc rgb '{colour}'");
        curves.push(curve(
            i + 3,
            &look,
            &format!("{}, max {}", row.name, max(row.max)),
        ));
    }
    let _ = writeln!(out, "plot {}", curves.join(", \\\n     "));
    if run.timeline.rows.iter().any(|row| row.count > 0) {
        timeline_script(&mut out, size);
    }
    out
}

/// The series colours of the pages, for a white background.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#00835f", "#a8438f", "#8a6d00", "#3b8ec7", "#802a55", "#646c76",
];

fn timeline_script(out: &mut String, size: &str) {
    let _ = writeln!(out, "\nset output 'timeline.png'");
    let _ = writeln!(
        out,
        "unset logscale\nunset arrow\nunset label\nset autoscale\nset logscale y"
    );
    let _ = writeln!(
        out,
        "set format y '%g'\nset xlabel 'seconds since the start'\nset ylabel '{size} in µs'"
    );
    let floor = |column: usize| format!("(${column}>0.001 ? ${column} : 0.001)");
    let _ = writeln!(
        out,
        "plot '{TIMELINE}' using 1:{}:{} with filledcurves lc rgb '#dbe4ee' title 'lowest to highest', \\\n     \
         '' using 1:{} with lines lc rgb '#24303d' title 'mean', \\\n     \
         '' using 1:{} with lines lw 1.4 lc rgb '#0072b2' title 'highest', \\\n     \
         '' using 1:($6+$7>0 ? $5 : NaN) with points pt 7 ps 0.7 lc rgb '#b3132f' title 'late or skipped'",
        floor(3),
        floor(5),
        floor(4),
        floor(5),
    );
}
