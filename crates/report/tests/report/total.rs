//! Whatever stands in a record, no report panics, hangs or prints nonsense.

use super::fixtures as report_fixtures;

use proptest::prelude::*;
use punctual_record::live::{LiveLoad, LiveThread, LiveView, Note, SPARK_BUCKETS};
use punctual_record::{Ending, Event, Happening, Interval, Load, Run, State, TimelineRow};
use punctual_record::{LoadFailure, Unsaved, UnsavedPart, UnsavedReason};
use punctual_report::live;
use punctual_report::style::Style;
use punctual_report::{gnuplot, html, svg, terminal};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::peaks::Peak;
use punctual_stats::requirement::Requirement;

/// Any number, the extremes often.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        0..2_000_000u64,
        any::<u64>()
    ]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-1.0),
        Just(0.0),
        any::<f64>()
    ]
}

fn histogram() -> impl Strategy<Value = HistogramRecord> {
    let honest = prop::collection::vec((number(), 1..1_000_000u64), 0..8).prop_map(|samples| {
        let mut histogram = Histogram::new();
        samples
            .iter()
            .for_each(|(value, times)| histogram.record_n(*value, *times));
        HistogramRecord::from(&histogram)
    });
    let broken =
        (".{0,20}", number(), number(), number()).prop_map(|(encoded, count, min_ns, max_ns)| {
            HistogramRecord {
                encoded,
                count,
                min_ns,
                max_ns,
                sum_ns: u128::from(max_ns),
            }
        });
    prop_oneof![3 => honest, 1 => broken]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    prop_oneof![
        (number(), float()).prop_map(|(deadline_ns, allowed)| Requirement::MissProbability {
            deadline_ns,
            allowed
        }),
        number().prop_map(|limit_ns| Requirement::Max { limit_ns }),
        (float(), number()).prop_map(|(percentile, limit_ns)| Requirement::Percentile {
            percentile,
            limit_ns
        }),
    ]
}

prop_compose! {
    fn any_run()(
        cpus in 0usize..20,
        histograms in prop::collection::vec(histogram(), 20),
        peaks in prop::collection::vec((number(), number(), number()), 0..30),
        rows in prop::collection::vec((number(), number(), number(), number(), number()), 0..40),
        row_ns in number(),
        measured_ns in number(),
        requirements in prop::collection::vec(requirement(), 0..3),
        confidence in float(),
        counts in (number(), number(), number(), number()),
        text in "\\PC{0,60}",
        rate in float(),
        share in float(),
        state in 0..3,
    ) -> Run {
        let mut run = report_fixtures::blank(cpus, row_ns);
        for (i, thread) in run.threads.iter_mut().enumerate() {
            thread.latency = histograms[i].clone();
            (thread.late, thread.missed, thread.lost, thread.early) = counts;
            thread.peaks = peaks.iter().map(|p| Peak::new(p.0, p.1, p.2).with_skipped(p.0)).collect();
            thread.measured_ns = measured_ns;
            thread.cpu = (i % 7 < 6).then_some(if i % 5 == 4 { usize::MAX } else { i });
        }
        run.timeline.row_ns = row_ns;
        run.timeline.rows = rows
            .iter()
            .map(|r| TimelineRow { count: r.0, min_ns: r.1, sum_ns: r.2, max_ns: r.3, late: r.4, missed: r.0, misses: r.1 })
            .collect();
        run.timeline.seconds = counts.0;
        run.measured_ns = measured_ns;
        run.request.requirements = requirements;
        run.request.confidence = confidence;
        run.request.interval = Interval::Fixed { interval_ns: row_ns };
        run.request.cpus = vec![usize::MAX, 0, usize::MAX - 1];
        run.system.hostname = text.clone();
        run.system.virtualisation.stolen_ns = Some(counts.1);
        run.system.virtualisation.stolen_share = Some(share);
        run.loads.push(Load { name: text.clone(), rate, work: counts.2, unit: text.clone(), ..run.loads[0].clone() });
        let what = Happening::SaveFailed(Unsaved {
            directory: text.clone(),
            parts: vec![UnsavedPart::File { name: text.clone() }],
            why: UnsavedReason::Error { error: text.clone() },
        });
        run.events.push(Event { invalidates: state == 1, ..Event::new(counts.3, what) });
        run.state = match state {
            0 => State::Finished,
            1 => State::Unfinished,
            _ => State::Stopped(Ending::ExitStatus { status: counts.0 as i64 }),
        };
        run
    }
}

fn finite(text: &str, what: &str) {
    for word in ["NaN", "\"inf", "\"-inf", "nan"] {
        // The hostile text may hold the letters; coordinates are what matters.
        for attribute in [
            " d=\"",
            " x=\"",
            " y=\"",
            " x1=\"",
            " y2=\"",
            " cx=\"",
            " width=\"",
            " height=\"",
        ] {
            for rest in text.split(attribute).skip(1) {
                let value = rest.split('"').next().unwrap_or_default();
                assert!(
                    !value.contains(word) && !value.contains("inf"),
                    "{what}: {value}"
                );
            }
        }
    }
}

/// An event with such a text in it.
fn failed(error: String) -> Event {
    let load = error.clone();
    Event::new(
        0,
        Happening::LoadFailed {
            load,
            failure: LoadFailure::Error { error },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_record_makes_a_report_panic(run in any_run(), width in 0usize..300, colour: bool, unicode: bool, verbose: bool) {
        let style = Style { colour, width, height: 24, unicode, report: None, verbose };
        let summary = terminal::summary(&run, &style);
        if !colour {
            let widest = summary.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            prop_assert!(widest <= width.clamp(40, 120), "{}", widest);
        }
        prop_assert!(verbose || summary.lines().count() <= 40, "{}", summary);
        prop_assert!(!summary.contains("NaN"));
        let page = html::page(&run);
        prop_assert!(page.len() < 1 << 20);
        finite(&page, "page");
        for (name, text) in svg::files(&run) {
            finite(&text, name);
        }
        prop_assert_eq!(gnuplot::files(&run).len(), 3);
        prop_assert!(terminal::verdict_line(&run, &style).ends_with('\n'));
    }

    #[test]
    fn no_view_makes_a_live_line_panic(
        threads in prop::collection::vec((number(), number(), float(), prop::option::of(number())), 0..40),
        elapsed_ns in number(), total_ns in prop::option::of(number()), deadline_ns in prop::option::of(number()),
        rate in float(), width in 0usize..200, height in 0usize..40, unicode: bool, text in "\\PC{0,200}",
    ) {
        let thread = |(a, b, avg_ns, p999_ns): &(u64, u64, f64, Option<u64>)| LiveThread {
            cpu: *a as usize, tid: -1, priority: u32::MAX, interval_ns: *a, count: *b, min_ns: *a, act_ns: *b,
            avg_ns: *avg_ns, p999_ns: *p999_ns, max_ns: *b, late: *a, missed: *b, lost: *a,
            spark: [*b; SPARK_BUCKETS],
        };
        let view = LiveView {
            verb: "qualify".into(), elapsed_ns, total_ns, deadline_ns, threads: threads.iter().map(thread).collect(),
            loads: vec![LiveLoad { name: text.clone(), unit: text.clone(), rate, failed: false }; 3],
            nanoseconds: false, notes: vec![Note::Happened(failed(text))], gaps: unicode, messages: !unicode,
        };
        let style = Style { colour: false, width, height, unicode, report: None, verbose: true };
        let lines = live::status_lines(&view, &style);
        prop_assert!(lines.len() < height.max(2));
        for line in lines {
            prop_assert!(line.chars().count() <= width, "{}", line);
        }
        prop_assert!(!live::plain_line(&view).contains('\n'));
        prop_assert_eq!(live::cyclictest_lines(&view).len(), view.threads.len());
    }
}

#[test]
fn a_report_of_256_cpus_stays_small() {
    let mut run = report_fixtures::many(256, 400);
    run.timeline.rows = (0..2048)
        .map(|i| TimelineRow {
            count: 9,
            min_ns: i,
            sum_ns: 99 * i,
            max_ns: 1000 + i * 7 % 999,
            late: 1,
            missed: 0,
            misses: 1,
        })
        .collect();
    let page = html::page(&run);
    assert!(page.len() < 400_000, "{} bytes", page.len());
}
