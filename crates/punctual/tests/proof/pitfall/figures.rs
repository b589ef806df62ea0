//! Pitfalls 1 to 4 and 8: what figures hide.

use std::fs;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use super::{MS, SECOND, measure};
use crate::common::{Place, counts, cpus, each, event_kinds, need, needs, read_json};
use punctual_rt::affinity;
use punctual_rt::periodic::{Fixed, Schedule};
use punctual_rt::ring::ring;
use punctual_rt::sched::{Policy, set_current};
use punctual_stats::evidence::{RunEvidence, Skipped, ThreadEvidence};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::{InvalidEvidence, Outcome, judge};
use punctual_tool::probe::collector::{Collector, Lane};
use punctual_tool::probe::cycle::{self, Bounds, Halt};
use punctual_tool::probe::scripted::Scripted;
use punctual_tool::probe::tally::{Halves, Tally};

/// Locked by a test that uses a CPU for seconds, and by one that must not be disturbed.
static HOG: Mutex<()> = Mutex::new(());

/// The path of a sample except the clock: loop, ring, collector, tally.
fn collected(latencies_ns: &[i64], deadline_ns: u64) -> Tally {
    let source = Scripted::new(latencies_ns.iter().copied());
    let schedule = Schedule::new(0, Fixed(MS));
    let (mut producer, consumer) = ring(1 << 16);
    let free = Bounds {
        cycles: u64::MAX,
        break_ns: u64::MAX,
    };
    cycle::run(source, &schedule, &mut producer, &Halt::at(u64::MAX), free);
    let tally = Tally::new(0, deadline_ns, Halves::At(u64::MAX), 1 << 12);
    let lane = Lane::new(0, 1, consumer, tally);
    let mut collector = Collector::new(vec![lane], 0, Vec::new());
    collector.collect();
    let lane = collector.lanes.remove(0);
    assert_eq!(lane.lost(), 0);
    lane.tally
}

#[test]
fn pitfall_01_one_stall_is_one_late_wake_up_and_its_missed_periods() {
    let mut latencies = vec![5_000; 3_000];
    latencies[1_000] = SECOND as i64;
    let tally = collected(&latencies, 100_000);
    assert_eq!((tally.late, tally.missed), (1, 1_000));
    assert_eq!(tally.count(), 3_000);
    let latency = tally.latency();
    assert_eq!(latency.max(), Some(SECOND));
    // Neither skipped nor inflated: the mean is that of 3,000 wake-ups, one of them late.
    let mean = (2_999.0 * 5_000.0 + SECOND as f64) / 3_000.0;
    assert!((latency.mean().unwrap() - mean).abs() < 1.0);
    assert!(latency.quantile(0.99).unwrap() < 5_100);
}

#[test]
fn pitfall_01_a_process_that_is_stopped_and_continued_says_so() {
    let _alone = HOG.lock();
    let place = Place::new();
    let mut running = place.start(&[
        "measure",
        "-D",
        "2",
        "-q",
        "-o",
        "run",
        "--deadline",
        "100ms",
    ]);
    let probes = running.await_probes(cpus().len().min(3)).len();
    sleep(Duration::from_millis(500));
    running.stop();
    sleep(Duration::from_millis(300));
    running.signal(libc::SIGCONT);
    running.end();
    let record = read_json(&place.path().join("run/run.json"));
    assert!(
        event_kinds(&record).contains(&"stopped"),
        "{}",
        record["events"]
    );
    let stops = &record["stops"];
    assert!(stops["longest_ns"].as_u64().unwrap() > 290 * MS, "{stops}");
    assert!(stops["cycles"].as_u64().unwrap() >= 290, "{stops}");
    let threads = record["threads"].as_array().unwrap();
    assert_eq!(threads.len(), probes);
    for thread in threads {
        // No wake-up was late because of it.
        let max = thread["latency"]["max_ns"].as_u64().unwrap();
        assert!(max < 290 * MS, "{max}");
    }
}

#[test]
fn pitfall_02_no_latency_is_beyond_the_histogram() {
    let stall = 2_500 * MS as i64 + 7;
    let day = 86_400 * SECOND as i64 + 1;
    let tally = collected(&[20_000, stall, 20_000, day], u64::MAX);
    let latency = tally.latency();
    assert_eq!(latency.count(), 4);
    assert_eq!(latency.max(), Some(day as u64), "exact");
    assert_eq!(latency.count_surely_above(2_400 * MS), 2);
    // Nor in the record.
    let kept = HistogramRecord::from(&latency);
    let back = Histogram::try_from(&kept).unwrap();
    assert_eq!((back.count(), back.max()), (4, Some(day as u64)));
}

#[test]
fn pitfall_02_exports_keep_the_tail() {
    need!(needs::root());
    let place = Place::new();
    let cpu = cpus()[cpus().len() - 1];
    let number = cpu.to_string();
    let words = [
        "measure",
        "-a",
        &number,
        "-D",
        "4",
        "-q",
        "--no-explain",
        "-o",
        "run",
    ];
    // Before the run begins, because it must not end while another test has the lock.
    let _alone = HOG.lock();
    let mut running = place.start(&words);
    running.await_probes(1);
    sleep(Duration::from_millis(300));
    // Above the probe, on its CPU: what follows is the machine's latency.
    std::thread::spawn(move || {
        set_current(Policy::Fifo(99)).expect("root may");
        affinity::set_current(&[cpu]).expect("a CPU of ours");
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(2200) {}
    })
    .join()
    .expect("it ends");
    running.end();
    let record = read_json(&place.path().join("run/run.json"));
    let max = |thread: &serde_json::Value| thread["latency"]["max_ns"].as_u64().unwrap();
    let highest = record["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(max)
        .max()
        .unwrap();
    assert!(highest > 2 * SECOND, "{highest}");
    for format in ["cyclictest", "rt-tests-json", "jitterdebugger"] {
        place
            .run(&["export", "run", "--format", format, "-o", format])
            .expect(0);
        let summary = place.run(&["report", format, "--json"]).expect(0).json();
        let kept = summary["threads"]
            .as_array()
            .unwrap()
            .iter()
            .map(max)
            .max()
            .unwrap();
        assert_eq!(kept / 1_000, highest / 1_000, "{format}");
        assert_eq!(
            counts(&summary).iter().sum::<u64>(),
            counts(&record).iter().sum::<u64>(),
            "{format}"
        );
    }
}

#[test]
fn pitfall_03_a_tripped_limit_is_no_success() {
    for (flags, code) in [
        (&[][..], 2),
        (&["--deadline", "1us"], 2),
        (&["--deadline", "1h", "--miss", "1e-6"], 3),
    ] {
        let place = Place::new();
        let ended = measure(&place, &[&["-D", "60", "-b", "1", "-q"], flags].concat());
        let record = place.record();
        assert_eq!(record["state"]["state"], "stopped");
        assert_eq!(record["state"]["reason"], "break-value");
        assert!(record["measured_ns"].as_u64().unwrap() < 10 * SECOND);
        assert_eq!(
            ended.stderr,
            "punctual: -b: a latency above 1 µs ended the run\n"
        );
        let invalid = record["verdict"]["outcome"] == "INVALID";
        assert_eq!(ended.code(), if invalid { 4 } else { code }, "{ended:#?}");
        let run = place.run_directory();
        let shown = place
            .run(&["report", run.to_str().unwrap()])
            .expect(0)
            .stdout;
        assert!(shown.contains("Stopped early (break-value)"), "{shown}");
    }
    let place = Place::new();
    let ended = measure(&place, &["-l", "50", "-b", "1h", "-q"]);
    assert_eq!(ended.stderr, "");
    assert_eq!(place.record()["state"]["state"], "finished");
}

#[test]
fn pitfall_03_a_thread_that_never_woke_up_is_no_pass() {
    // Ended before the first wake-up of any thread.
    let place = Place::new();
    let mut running = place.start(&["measure", "-i", "5s", "-q", "--deadline", "1h", "-o", "run"]);
    running.await_probes(cpus().len().min(3));
    sleep(Duration::from_millis(400));
    running.signal(libc::SIGINT);
    let ended = running.end().expect(4);
    assert!(ended.stdout.starts_with("INVALID: "), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("no wake-up was measured"),
        "{}",
        ended.stdout
    );

    // One thread of several.
    let place = Place::new();
    measure(
        &place,
        &[
            "-l",
            "100",
            "-t",
            "2",
            "-q",
            "--deadline",
            "1h",
            "--miss",
            "0.9",
        ],
    );
    let mut run = place.run_of();
    run.threads[1].latency = HistogramRecord::from(&Histogram::new());
    run.threads[1].peaks.clear();
    run.threads[1].late = 0;
    let verdict = punctual_record::analyse_record(&run).unwrap().verdict;
    assert_eq!(verdict.outcome, Outcome::Invalid);
    let cpu = run.threads[1].cpu.map(|cpu| cpu as u32);
    assert_eq!(verdict.invalid, [InvalidEvidence::NeverWoke { cpu }]);
}

#[test]
fn pitfall_04_no_maximum_without_its_sample_size() {
    let place = Place::new();
    let line = measure(
        &place,
        &["-l", "123", "-a", &cpus()[0].to_string(), "-q", "-o", "run"],
    )
    .stdout;
    // A run that is not valid tells no maximum at all.
    let told = line.contains("the worst of 123 wake-ups");
    let invalid = line.starts_with("INVALID") && !line.contains("worst") && !line.contains("max");
    assert!(told || invalid, "{line}");
    let shown = place.run(&["report", "run"]).expect(0).stdout;
    let mut lines = shown.lines().map(str::split_whitespace);
    let heading = lines.find(|words| words.clone().any(|word| word == "max"));
    let mut heading = heading.expect("a table");
    let column = heading.position(|word| word == "samples");
    let mut row = lines.next().expect("a row");
    assert_eq!(row.nth(column.expect("a column")), Some("123"), "{shown}");
    let page = fs::read_to_string(place.path().join("run/report.html")).unwrap();
    assert!(page.contains("<small>of 123 in "), "the page");
    let summary = place.run(&["report", "run", "--json"]).expect(0).json();
    assert_eq!(summary["analysis"]["total"]["samples"], 123);
    for (format, count) in [
        ("cyclictest", "# Total: 000000123"),
        ("junit", "name=\"samples\" value=\"123\""),
        ("rt-tests-json", "\"cycles\": 123"),
    ] {
        let text = place
            .run(&["export", "run", "--format", format])
            .expect(0)
            .stdout;
        assert!(text.contains(count), "{format}: {text}");
    }
    let metrics = place.run(&["export", "run", "--format", "openmetrics"]);
    let metrics = metrics.expect(0).stdout;
    let mut counts = metrics.lines();
    let count = counts.find(|line| line.starts_with("punctual_latency_seconds_count{"));
    assert!(
        count.is_some_and(|line| line.ends_with("} 123")),
        "{metrics}"
    );
    // Another run with the same data.
    let mut other = read_json(&place.path().join("run/run.json"));
    other["started"] = "2026-11-29T09:00:00Z".into();
    fs::write(place.path().join("other.json"), other.to_string()).unwrap();
    let compared = place
        .run(&["compare", "run", "other.json"])
        .expect(0)
        .stdout;
    let samples = compared.lines().find(|line| line.starts_with("samples "));
    let samples: Vec<&str> = samples.expect("a row").split_whitespace().collect();
    assert_eq!(samples, ["samples", "123", "123"], "{compared}");
}

#[test]
fn pitfall_04_no_miss_seen_is_a_bound_by_sample_size_and_bursts() {
    // Five minutes at 1 kHz without a miss: below 3 in N, and nothing more can be claimed.
    let histogram = histogram(&[20_000; 300_000]);
    let verdict = judged(&histogram, 1e-5, 300);
    assert_ne!(verdict.0, Outcome::Fail);
    let rule_of_three = 3.0 / 300_000.0;
    assert!(verdict.1 >= 0.99 * rule_of_three, "{verdict:?}");
    assert_ne!(judged(&histogram, 1e-6, 300).0, Outcome::Pass, "not shown");
}

fn histogram(latencies_ns: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    latencies_ns.iter().for_each(|ns| histogram.record(*ns));
    histogram
}

/// The verdict on 100 µs, and the upper bound.
fn judged(histogram: &Histogram, allowed: f64, seconds: u64) -> (Outcome, f64) {
    let peaks = punctual_stats::peaks::Peaks::with_capacity(16);
    let evidence = RunEvidence {
        parts: Vec::new(),
        threads: vec![ThreadEvidence {
            cpu: Some(0),
            histogram,
            rounded_up: None,
            late: 0,
            missed: 0,
            missed_late: 0,
            interval_ns: Some(1_000_000),
            lost: 0,
            unseen: 0,
            unseen_most_ns: None,
            may_be_empty: false,
            skipped: Skipped::Alone,
            peaks: &peaks,
        }],
        duration_ns: seconds * SECOND,
        deadline_ns: Some(100_000),
        seconds,
        seconds_with_miss: 0,
        halves: None,
        rows: None,
    };
    let requirement = Requirement::MissProbability {
        deadline_ns: 100_000,
        allowed,
    };
    let verdict = judge(&[requirement], &evidence, 0.95);
    (verdict.outcome, verdict.requirements[0].bound.upper)
}

#[test]
fn pitfall_08_threads_are_merged_and_percentiles_never_averaged() {
    let place = Place::new();
    measure(&place, &["-l", "300", "-t", "2", "-q", "-o", "run"]);
    let mut run = place.run_of_path("run");
    // Two threads that have nothing in common: the mean of their p99 is that of neither.
    let fast = histogram(&[10_000; 9_900]);
    let slow = histogram(&[1_000_000; 100]);
    for (thread, histogram) in run.threads.iter_mut().zip([&fast, &slow]) {
        thread.latency = HistogramRecord::from(histogram);
        thread.peaks.clear();
        thread.peaks_above_ns = 1_000_000;
        thread.first_half = None;
    }
    let total = punctual_record::analyse_record(&run).unwrap().total;
    let merged = Histogram::merged([&fast, &slow]);
    assert_eq!(total.samples, 10_000);
    assert_eq!(total.max_ns, Some(1_000_000));
    for percentile in &total.percentiles {
        let value = serde_json::to_value(percentile).unwrap();
        let (Some(at), Some(ns)) = (value["percentile"].as_f64(), value["value_ns"].as_u64())
        else {
            continue;
        };
        assert_eq!(Some(ns), merged.quantile(at / 100.0), "p{at}");
    }
    assert!(merged.quantile(0.98).unwrap() < 11_000);
    // The record has each thread by itself, too.
    assert_eq!(each(&serde_json::to_value(&run).unwrap(), "cpu").len(), 2);
}
