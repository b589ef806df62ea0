//! What a record promises beyond its types. Whoever reads one need not check again.

use std::io;

use punctual_stats::histogram::SparseHistogram;

use super::blocks::Blocks;
use super::bounds::{Bounds, Broken, Extent, at_most, broken, cpu, ensure, histogram};
use super::document::Document;
use super::finding::{FindingId, RunFindings};
use super::run::{Interval, Merged, Run, Thread};
use super::stops::Stops;

impl Document for Run {
    const WHAT: &'static str = "record";
    const FILE: &'static str = "run.json";
    const PAGE: Option<&'static str> = Some("report.html");
    const FORMAT: &'static str = "punctual-run";
    const VERSION: u32 = 2;
    const MOST_BYTES: u64 = Bounds::FILE;

    fn header(&self) -> (&str, u32) {
        (&self.format, self.version)
    }

    fn promises(&self) -> Result<(), Broken> {
        promises(self)
    }

    // JSON has no word for a float that isn't finite: it becomes `null`, which no reader takes for a
    // number. Then what was concluded is left out, so that what was measured can be read.
    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        if serde_json::from_slice::<Self>(&bytes).is_err() {
            let mut run = self.clone();
            run.analysis = None;
            run.verdict = None;
            for load in run.loads.iter_mut().filter(|it| !it.rate.is_finite()) {
                load.rate = 0.0;
            }
            bytes = serde_json::to_vec(&run)?;
        }
        bytes.push(b'\n');
        Ok(bytes)
    }
}

fn promises(run: &Run) -> Result<(), Broken> {
    lists(run)?;
    request(run)?;
    system(run)?;
    for (index, thread) in run.threads.iter().enumerate() {
        self::thread(thread, &format!("threads[{index}]"))?;
    }
    findings(run)?;
    at_most(run.tuned.len(), Bounds::SETTINGS, "tuned")?;
    timeline(run)?;
    blocks(run)?;
    gaps(run)?;
    for (index, load) in run.loads.iter().enumerate() {
        ensure(
            load.rate.is_finite() && load.rate >= 0.0,
            format!("loads[{index}].rate"),
            "not a rate",
        )?;
        if let Some(check) = &load.check {
            // The longest time may be of a part of the load, and counts in `idle_ns` by its share.
            let ordered = check.longest_idle_ns.max(check.idle_ns) <= check.looked_ns;
            ensure(
                ordered,
                format!("loads[{index}].check"),
                "more time without work than was checked",
            )?;
        }
    }
    let parts = run.merged.as_ref().map(|merged| merged.runs);
    let extent = Extent::new(run.start_ns, run.measured_ns, parts);
    for (index, event) in run.events.iter().enumerate() {
        let number = event.run.unwrap_or(0);
        extent.has_part(number, &format!("events[{index}].run"))?;
    }
    if let Some(watch) = &run.watch {
        super::watch::check(watch, run.threads.len(), &extent)?;
    }
    stops(run)?;
    if let Some(experiment) = &run.experiment {
        super::experiment::check(experiment)?;
    }
    if let Some(tasks) = &run.tasks {
        super::taskset::check(tasks, run.threads.len())?;
    }
    if let Some(path) = &run.path {
        super::path::check(path)?;
    }
    run.explanation
        .as_ref()
        .map_or(Ok(()), |it| super::explanation::check(it, &extent))
}

fn lists(run: &Run) -> Result<(), Broken> {
    at_most(run.threads.len(), Bounds::THREADS, "threads")?;
    at_most(run.events.len(), Bounds::EVENTS, "events")?;
    at_most(run.timeline.rows.len(), Bounds::ROWS, "timeline.rows")?;
    at_most(run.request.cpus.len(), Bounds::CPUS, "request.cpus")?;
    at_most(
        run.request.requirements.len(),
        Bounds::SHORT_LIST,
        "request.requirements",
    )?;
    at_most(run.demands.len(), Bounds::SHORT_LIST, "demands")?;
    at_most(run.loads.len(), Bounds::SHORT_LIST, "loads")?;
    let figures = run
        .cross_check
        .as_ref()
        .map_or(0, |check| check.figures.len());
    at_most(figures, Bounds::SHORT_LIST, "cross_check.figures")?;
    let differences = run.merged.as_ref().map_or(0, |it| it.differences.len());
    at_most(differences, Merged::DIFFERENCES, "merged.differences")?;
    let ascending = |merged: &Merged| merged.parts.is_sorted_by_key(|part| part.start_ns);
    ensure(
        run.merged.as_ref().is_none_or(ascending),
        "merged.parts",
        "not ascending",
    )?;
    at_most(run.command.len(), Bounds::SHORT_LIST, "command")
}

fn findings(run: &Run) -> Result<(), Broken> {
    let Some(findings) = &run.findings else {
        return Ok(());
    };
    at_most(findings.cpus.len(), Bounds::CPUS, "findings.cpus")?;
    for (index, number) in findings.cpus.iter().enumerate() {
        cpu(*number, format!("findings.cpus[{index}]"))?;
    }
    at_most(findings.bad.len(), FindingId::ALL.len(), "findings.bad")?;
    for (index, finding) in findings.bad.iter().enumerate() {
        let place = format!("findings.bad[{index}].fixes");
        at_most(finding.fixes.len(), RunFindings::FIXES, place)?;
    }
    Ok(())
}

fn request(run: &Run) -> Result<(), Broken> {
    let request = &run.request;
    ensure(
        request.confidence > 0.0 && request.confidence < 1.0,
        "request.confidence",
        format!("{} does not lie between 0 and 1", request.confidence),
    )?;
    ensure(request.priority <= 99, "request.priority", "above 99")?;
    for (index, number) in request.cpus.iter().enumerate() {
        cpu(*number, format!("request.cpus[{index}]"))?;
    }
    if let Some(place) = &run.placement {
        let housekeeping = place.housekeeping.iter().copied().collect();
        for (name, list) in [
            ("inherited", &place.inherited),
            ("reachable", &place.reachable),
            ("housekeeping", &housekeeping),
            ("load", &place.load),
        ] {
            at_most(list.len(), Bounds::CPUS, format!("placement.{name}"))?;
            for (index, number) in list.iter().enumerate() {
                cpu(*number, format!("placement.{name}[{index}]"))?;
            }
        }
    }
    if let Interval::Primes { table_ns, .. } = &request.interval {
        at_most(
            table_ns.len(),
            Bounds::SHORT_LIST,
            "request.interval.table_ns",
        )?;
    }
    Ok(())
}

fn system(run: &Run) -> Result<(), Broken> {
    let processor = &run.system.processor;
    let lists = [
        ("online", &processor.online),
        ("allowed", &processor.allowed),
        ("isolated", &processor.isolated),
        ("nohz_full", &processor.nohz_full),
    ];
    for (name, list) in lists {
        let place = || format!("system.processor.{name}");
        at_most(list.len(), Bounds::CPUS, place())?;
        if let Some(number) = list.iter().max() {
            cpu(*number, place())?;
        }
    }
    if let Some(share) = run.system.virtualisation.stolen_share {
        ensure(
            (0.0..=1.0).contains(&share),
            "system.virtualisation.stolen_share",
            format!("{share} does not lie between 0 and 1"),
        )?;
    }
    Ok(())
}

pub(super) fn thread(thread: &Thread, place: &str) -> Result<(), Broken> {
    if let Some(number) = thread.cpu {
        cpu(number, format!("{place}.cpu"))?;
    }
    let latency = histogram(&thread.latency, &format!("{place}.latency"))?;
    if let Some(half) = &thread.first_half {
        let place = format!("{place}.first_half");
        let half = histogram(half, &place)?;
        ensure(
            half.count() <= latency.count(),
            place,
            format!("holds {} samples of {}", half.count(), latency.count()),
        )?;
    }
    for (name, count) in [("late", thread.late), ("early", thread.early)] {
        ensure(
            count <= latency.count(),
            format!("{place}.{name}"),
            format!("{count} of {} samples", latency.count()),
        )?;
    }
    peaks(thread, &latency, &format!("{place}.peaks"))
}

fn peaks(thread: &Thread, latency: &SparseHistogram, place: &str) -> Result<(), Broken> {
    at_most(thread.peaks.len(), Bounds::PEAKS, place)?;
    ensure(
        thread.peaks.len() as u64 <= latency.count(),
        place,
        format!(
            "{} peaks of {} samples",
            thread.peaks.len(),
            latency.count()
        ),
    )?;
    let max_ns = latency.max().unwrap_or(0);
    let mut before = 0;
    for (index, peak) in thread.peaks.iter().enumerate() {
        // Words are made for what is wrong alone: there are thousands of peaks.
        let reason = if peak.asked_ns < before {
            "not in order of time".to_owned()
        } else if peak.latency_ns <= thread.peaks_above_ns {
            format!("{} ns is not above peaks_above_ns", peak.latency_ns)
        } else if peak.latency_ns > max_ns {
            format!("{} ns is above the maximum", peak.latency_ns)
        } else {
            before = peak.asked_ns;
            continue;
        };
        return broken(format!("{place}[{index}]"), reason);
    }
    Ok(())
}

fn blocks(run: &Run) -> Result<(), Broken> {
    let Some(blocks) = &run.blocks else {
        return Ok(());
    };
    at_most(blocks.latency.len(), Blocks::MOST, "blocks.latency")?;
    ensure(
        blocks.width_ns > 0,
        "blocks.width_ns",
        "blocks without a width",
    )?;
    let threads = blocks.threads.len();
    ensure(
        threads == 0 || threads == run.threads.len() && threads <= Blocks::MOST_THREADS,
        "blocks.threads",
        format!("{threads} entries for {} threads", run.threads.len()),
    )?;
    for (index, thread) in blocks.threads.iter().enumerate() {
        ensure(
            thread.len() == blocks.latency.len(),
            format!("blocks.threads[{index}]"),
            format!(
                "{} entries for {} blocks",
                thread.len(),
                blocks.latency.len()
            ),
        )?;
    }
    for (index, block) in blocks.latency.iter().enumerate() {
        let place = format!("blocks.latency[{index}]");
        let empty = histogram(block, &place)?.is_empty();
        ensure(!empty, place, "a block without samples")?;
    }
    Ok(())
}

fn stops(run: &Run) -> Result<(), Broken> {
    let Some(stops) = &run.stops else {
        return Ok(());
    };
    at_most(stops.list.len(), Stops::LISTED, "stops.list")?;
    ensure(
        stops.list.len() as u64 <= stops.count,
        "stops.list",
        format!("{} entries of {} stops", stops.list.len(), stops.count),
    )?;
    ensure(
        stops.longest_ns <= stops.total_ns,
        "stops.longest_ns",
        "longer than all together",
    )?;
    let whole = stops.list.len() as u64 == stops.count;
    let lengths = || stops.list.iter().map(|stop| u128::from(stop.length_ns));
    let sum: u128 = lengths().sum();
    ensure(
        sum <= u128::from(stops.total_ns) && (!whole || sum == u128::from(stops.total_ns)),
        "stops.total_ns",
        format!("{}, where the stops sum to {sum}", stops.total_ns),
    )?;
    ensure(
        lengths().all(|length_ns| length_ns <= u128::from(stops.longest_ns)),
        "stops.list",
        "a stop longer than the longest",
    )
}

fn gaps(run: &Run) -> Result<(), Broken> {
    let Some(gaps) = &run.gaps else {
        return Ok(());
    };
    ensure(
        gaps.threads.len() == run.threads.len(),
        "gaps.threads",
        format!(
            "{} entries for {} threads",
            gaps.threads.len(),
            run.threads.len()
        ),
    )?;
    ensure(
        gaps.runtime_ns <= gaps.period_ns,
        "gaps.runtime_ns",
        "longer than the period",
    )?;
    for (index, thread) in gaps.threads.iter().enumerate() {
        let parts = [thread.polled_ns, thread.gap_ns, thread.unwatched_ns];
        let sum: u128 = parts.iter().map(|ns| u128::from(*ns)).sum();
        let place = format!("gaps.threads[{index}]");
        ensure(
            sum == u128::from(thread.span_ns),
            format!("{place}.span_ns"),
            format!("{}, where its parts sum to {sum}", thread.span_ns),
        )?;
        ensure(
            thread.set_aside_ns <= thread.gap_ns,
            format!("{place}.set_aside_ns"),
            "more than gap_ns",
        )?;
    }
    Ok(())
}

fn timeline(run: &Run) -> Result<(), Broken> {
    let timeline = &run.timeline;
    ensure(
        timeline.row_ns > 0 || timeline.rows.is_empty(),
        "timeline.row_ns",
        "rows without a width",
    )?;
    ensure(
        timeline.seconds_with_miss <= timeline.seconds,
        "timeline.seconds_with_miss",
        format!(
            "{} of {} seconds",
            timeline.seconds_with_miss, timeline.seconds
        ),
    )?;
    for (index, row) in timeline.rows.iter().enumerate() {
        let reason = if row.min_ns > row.max_ns {
            "its minimum is above its maximum"
        } else if row.count == 0 && (row.max_ns, row.sum_ns, row.late) != (0, 0, 0) {
            "figures without samples"
        } else if row.late > row.count {
            "more samples late than there are"
        } else {
            continue;
        };
        return broken(format!("timeline.rows[{index}]"), reason);
    }
    Ok(())
}
