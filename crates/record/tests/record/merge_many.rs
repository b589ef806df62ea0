//! Many runs are read and merged at once, in little memory and time.
#![allow(clippy::print_stderr, reason = "a measured figure is shown")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_record::merge::Decoded;
use punctual_record::*;
use punctual_stats::histogram::{Histogram, HistogramRecord};

use super::bills::explanation;
use super::merge::exact;
use super::support::{latencies, run_of, thread};

fn written(place: &Path, runs: &[Run]) -> Vec<PathBuf> {
    let write = |(number, run): (usize, &Run)| {
        let path = place.join(number.to_string());
        std::fs::write(&path, serde_json::to_vec(run).unwrap()).unwrap();
        path
    };
    runs.iter().enumerate().map(write).collect()
}

#[test]
fn read_and_decoded_side_by_side_they_are_the_sum_of_one_by_one() {
    let place = tempfile::tempdir().unwrap();
    let runs: Vec<Run> = (0..70)
        .map(|seed| {
            let threads = (0..1 + seed as usize % 3)
                .map(|cpu| thread(cpu, &latencies(seed * 3 + cpu as u64, 500, 400_000), 128));
            let mut run = run_of(threads.collect());
            run.start_ns = Some(seed);
            run.explanation = (seed % 4 != 1).then(explanation);
            run
        })
        .collect();
    let mut merger = Merger::new(true);
    let decode = |run: Run| (Decoded::ahead(&run), run);
    read_each(&written(place.path(), &runs), decode, |_, read| {
        let (decoded, run) = read.unwrap();
        merger.add_decoded(&run, &decoded.unwrap())
    })
    .unwrap();
    let side_by_side = merger.into_run(vec!["merge".to_owned()]).unwrap();
    let text = |run: &Run| serde_json::to_string(run).unwrap();
    assert_eq!(text(&side_by_side), text(&exact(&runs, true)));
}

/// A small text may hold a histogram with every bucket occupied, and a record many of them.
#[test]
fn what_would_fill_the_memory_does_not_wait_decoded() {
    let mut full = Histogram::new();
    for bucket in 0..64 {
        let base = 1_u64 << bucket;
        (0..1024).for_each(|step| full.record(base + (base >> 10) * step));
    }
    let mut one = thread(0, &latencies(1, 100, 90_000), 64);
    one.latency = HistogramRecord::from(&full);
    let run = run_of(vec![one.clone(); 100]);
    assert!(Decoded::ahead(&run).is_none());
    assert!(Decoded::ahead(&run_of(vec![one])).is_some());
    Merger::new(false).add(&run).unwrap();
}

/// Of this thread; the first figure of its scheduling statistics.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Time is asserted in release builds alone; `make bench` states the figure.
#[test]
fn a_thousand_runs() {
    let runs = if cfg!(debug_assertions) { 100 } else { 1000 };
    let parent = tempfile::tempdir().unwrap();
    // As full of peaks as the engine's records get.
    let kinds: Vec<_> = (0..10)
        .map(|seed| {
            let of = |cpu| thread(cpu, &latencies(seed * 2 + cpu as u64, 20_000, 90_000), 8192);
            run_of(vec![of(0), of(1)])
        })
        .collect();
    let paths: Vec<_> = (0..runs)
        .map(|index| {
            let path = parent.path().join(index.to_string());
            let directory = RunDirectory::create(Some(&path), "q", std::time::UNIX_EPOCH).unwrap();
            let mut run = kinds[index as usize % 10].clone();
            run.start_ns = Some(index + 1);
            let text = serde_json::to_vec(&run).unwrap();
            std::fs::write(directory.path().join(Run::FILE), text).unwrap();
            path
        })
        .collect();
    // Processor time: whoever else is on the machine doesn't count.
    let begun = processor_time();
    let mut merger = Merger::new(false);
    let mut reading = Duration::ZERO;
    for path in &paths {
        let before = processor_time();
        let run = Run::read(path).unwrap();
        reading += processor_time() - before;
        merger.add(&run).unwrap();
    }
    let added = processor_time() - begun;
    let merged = merger.into_run(Vec::new()).unwrap();
    let took = processor_time() - begun;
    let adding = added - reading;
    eprintln!(
        "reading {reading:?}, adding {adding:?}, analysing {:?}",
        took - added
    );
    assert_eq!(merged.merged.as_ref().unwrap().runs, runs);
    assert_eq!(
        merged.analysis.as_ref().unwrap().total.samples,
        runs * 40_000
    );
    eprintln!("{runs} runs read and merged in {took:?}");
    if !cfg!(debug_assertions) {
        assert!(took.as_secs_f64() < 2.0, "{took:?}");
    }
}
