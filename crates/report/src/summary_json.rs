//! The summary of a run as JSON, for `--json`: the record without what is large, and its verdict in
//! words.

use punctual_record::Field;
use punctual_stats::Histogram;
use punctual_stats::histogram::HistogramRecord;
use serde::Serialize;
use serde_json::{Value, json};

use super::exec;
use super::facts;
use super::figures::{Figures, Row};
use super::findings::of_run::in_words;
use super::verdict;
use punctual_record::cost::Cost;
use punctual_record::document::Printed;
use punctual_record::fit::Fit;
use punctual_record::lab::Lab;
use punctual_record::ladder::Ladder;
use punctual_record::taskset::TaskRun;
use punctual_record::{Judgement, Run, State, Thread};

/// Everything of the record but the pictures of bills, the encoded histograms, the peaks below the worst
/// ten of each thread and the rows of the timeline; with a final newline.
#[must_use]
pub fn summary(run: &Run) -> String {
    let mut value = serde_json::to_value(run).unwrap_or(Value::Null);
    if let Some(threads) = value.get_mut("threads").and_then(Value::as_array_mut) {
        for (thread, measured) in threads.iter_mut().zip(&run.threads) {
            shorten(thread, measured);
        }
    }
    if let Some(tasks) = &run.tasks {
        executed(&mut value["tasks"], run, tasks);
    }
    with_words(&mut value, run);
    if let Some(timeline) = value.get_mut("timeline").and_then(Value::as_object_mut) {
        timeline.remove("rows");
    }
    if let Some(explanation) = value.get_mut("explanation") {
        explained(explanation);
    }
    if let Some(watch) = value.get_mut("watch") {
        watched(watch);
    }
    if run.imported.is_some() {
        imported(&mut value, run);
    }
    if let (Some(judgement), Some(said)) = (Judgement::from_run(run), value.get_mut("verdict")) {
        say(said, &judgement);
    }
    text(&value)
}

/// A thread's figures without what is large.
fn shorten(thread: &mut Value, measured: &Thread) {
    let Some(thread) = thread.as_object_mut() else {
        return;
    };
    thread.remove("first_half");
    if let Some(latency) = thread.get_mut("latency").and_then(Value::as_object_mut) {
        latency.remove("encoded");
    }
    let mut worst = measured.peaks.clone();
    worst.sort_by_key(|peak| std::cmp::Reverse(peak.latency_ns));
    worst.truncate(10);
    thread.insert(
        "peaks".to_owned(),
        serde_json::to_value(worst).unwrap_or(Value::Null),
    );
}

/// The tasks of a set without what is large, with quantiles of their response times and chains.
fn executed(value: &mut Value, run: &Run, tasks: &TaskRun) {
    let quantiles = |lengths: &mut Value, of: &HistogramRecord| {
        let histogram = Histogram::try_from(of).ok();
        let quantile = |share| histogram.as_ref()?.supported_quantile(share);
        if let Some(lengths) = lengths.as_object_mut() {
            lengths.remove("encoded");
            for (name, share) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
                lengths.insert(name.to_owned(), json!(quantile(share)));
            }
        }
    };
    for (at, figures) in tasks.tasks.iter().enumerate() {
        let task = &mut value["tasks"][at];
        shorten(&mut task["jobs"], &figures.jobs);
        quantiles(&mut task["jobs"]["latency"], &figures.jobs.latency);
        if let Some(timeline) = task.get_mut("timeline").and_then(Value::as_object_mut) {
            timeline.remove("rows");
        }
        let bills = task["bills"]["worst"].as_array_mut();
        for bill in bills.into_iter().flatten().filter_map(Value::as_object_mut) {
            bill.remove("picture");
        }
        task["name"] = json!(tasks.set.tasks.get(at).map(|task| &task.name));
    }
    for (at, figures) in tasks.chains.iter().enumerate() {
        let chain = &mut value["chains"][at];
        quantiles(&mut chain["reaction"], &figures.reaction);
        quantiles(&mut chain["age"], &figures.age);
        chain["name"] = json!(tasks.set.chains.get(at).map(|chain| &chain.name));
        if let Some(chain) = chain.as_object_mut() {
            // The budget has its figures.
            chain.remove("split");
        }
    }
    for (at, budget) in exec::chain_budgets(run, tasks) {
        let mut said = json!(budget);
        said["sentence"] = json!(crate::budget::sentence(&budget));
        value["chains"][at]["budget"] = said;
    }
    value["beyond_bounds"] = json!(exec::beyond(tasks));
}

/// A lab's record with its verdicts in words.
#[must_use]
pub fn of_lab(lab: &Lab) -> String {
    let mut value = serde_json::to_value(lab).unwrap_or(Value::Null);
    let cells = value.get_mut("cells").and_then(Value::as_array_mut);
    for (said, cell) in cells.into_iter().flatten().zip(&lab.cells) {
        if let (Some(judgement), Some(said)) = (&cell.verdict, said.get_mut("verdict")) {
            say(said, judgement);
        }
    }
    if let Some(proof) = &lab.proof {
        value["proof"]["sentence"] = json!(crate::lab::proof_sentence(proof));
    }
    text(&value)
}

/// A fit's record.
#[must_use]
pub fn of_fit(fit: &Fit) -> String {
    text(&serde_json::to_value(fit).unwrap_or(Value::Null))
}

/// A ladder's record, with its verdict in words, and with quantiles instead of the encoded
/// histograms.
#[must_use]
pub fn of_ladder(ladder: &Ladder) -> String {
    let mut value = serde_json::to_value(ladder).unwrap_or(Value::Null);
    for (at, rung) in ladder.rungs.iter().enumerate() {
        let histogram = Histogram::try_from(&rung.response).ok();
        let quantile = |share| histogram.as_ref()?.supported_quantile(share);
        let response = &mut value["rungs"][at]["response"];
        if let Some(response) = response.as_object_mut() {
            response.remove("encoded");
            for (name, share) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
                response.insert(name.to_owned(), json!(quantile(share)));
            }
        }
    }
    value["sentence"] = json!(crate::ladder::sentence(ladder));
    value["verdict"] = json!(ladder.verdict().map(|verdict| verdict.word()));
    text(&value)
}

/// That of a cost: what its file holds, with the sentences beside the figures.
#[must_use]
pub fn of_cost(cost: &Cost) -> String {
    let mut value = serde_json::to_value(cost).unwrap_or(Value::Null);
    value["sentence"] = json!(crate::cost::sentence(cost));
    value["verdict"] = json!(cost.verdict().map(punctual_stats::Outcome::word));
    text(&value)
}

/// What is printed for programs: its header and these words beside its facts.
#[must_use]
pub fn printed<P: Printed>(facts: &P, words: &[(&str, &str)]) -> String {
    headed(facts, (P::FORMAT, P::VERSION), words)
}

/// As [`printed`], with a header of its own.
#[must_use]
pub fn headed(
    facts: &impl Serialize,
    (format, version): (&str, u32),
    words: &[(&str, &str)],
) -> String {
    let mut value = serde_json::to_value(facts).unwrap_or(Value::Null);
    value["format"] = json!(format);
    value["version"] = json!(version);
    for (name, word) in words {
        value[*name] = json!(word);
    }
    text(&value)
}

fn text(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text + "\n"
}

/// Puts the words of a verdict beside its data.
fn say(said: &mut Value, judgement: &Judgement) {
    let verdict = &judgement.verdict;
    said["sentence"] = json!(verdict::sentence(judgement));
    said["reasons"] = json!(verdict::reasons(judgement));
    for (at, result) in verdict.requirements.iter().enumerate() {
        said["requirements"][at]["sentence"] = json!(verdict::requirement(result, judgement));
    }
    for (at, result) in verdict.lengths.iter().enumerate() {
        said["lengths"][at]["sentence"] = json!(verdict::length(result));
    }
    for (at, result) in verdict.tasks.iter().enumerate() {
        said["tasks"][at]["sentence"] = json!(exec::task(result, judgement));
    }
}

/// Of another tool's figures what it states alone: null is what it does not.
fn imported(value: &mut Value, run: &Run) {
    let figures = Figures::from_run(run);
    let row = |row: &Row| {
        let percentiles: serde_json::Map<String, Value> = row
            .ladder
            .iter()
            .map(|rung| {
                let reading = row.reading(rung.percentile);
                (format!("p{}", rung.percentile), json!(reading))
            })
            .collect();
        json!({
            "name": row.name,
            "latency": {
                "count": row.count,
                "not_kept": row.unkept,
                "min_ns": row.min,
                "mean_ns": row.mean,
                "max_ns": row.max,
                "percentiles": percentiles,
            },
        })
    };
    let mut rows: Vec<Value> = figures.rows.iter().map(row).collect();
    for (row, thread) in rows.iter_mut().zip(&run.threads) {
        row["cpu"] = json!(thread.cpu);
    }
    let mut absent = vec![
        "own_cost", "timeline", "analysis", "demands", "loads", "blocks",
    ];
    for (field, name) in [
        (Field::MeasuredTime, "measured_ns"),
        (Field::Started, "started"),
    ] {
        if !run.knows(field) {
            absent.push(name);
        }
    }
    let Some(record) = value.as_object_mut() else {
        return;
    };
    for name in absent {
        record.insert(name.to_owned(), Value::Null);
    }
    let asked = |field: Field, value: &Value| {
        let known = run.knows(field).then(|| value.clone());
        known.unwrap_or(Value::Null)
    };
    let request = record.get("request").cloned().unwrap_or(Value::Null);
    let fields = [Field::Interval, Field::Cpus, Field::Policy, Field::Priority];
    let stated: serde_json::Map<String, Value> = fields
        .into_iter()
        .map(|field| {
            (
                field.name().to_owned(),
                asked(field, &request[field.name()]),
            )
        })
        .collect();
    record.insert("request".to_owned(), Value::Object(stated));
    let kernel = &run.system.kernel;
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let preemption = (kernel.preemption == "rt").then_some("rt");
    let system = json!({
        "hostname": text(&run.system.hostname),
        "kernel": {
            "release": text(&kernel.release),
            "version": text(&kernel.version),
            "machine": text(&kernel.machine),
            "preemption": preemption,
        },
        "cpu_dma_latency_us": run.system.power.cpu_dma_latency_held_us,
    });
    record.insert("system".to_owned(), system);
    record.insert("threads".to_owned(), Value::Array(rows));
    record.insert("all".to_owned(), row(&figures.merged));
    // Nobody says when these were.
    let events = run.events.iter();
    let events: Vec<_> = events
        .map(|event| facts::event(event, &run.tool.name))
        .collect();
    record.insert("events".to_owned(), json!(events));
}

/// Adds the words for faults and differences to their figures.
fn with_words_of_faults(value: &mut Value, run: &Run) {
    let mut say = |pointer: String, text: Option<String>| {
        if let (Some(entry), Some(text)) = (value.pointer_mut(&pointer), text) {
            entry["text"] = json!(text);
        }
    };
    for (at, load) in run.loads.iter().enumerate() {
        let text = load.failed.as_ref().map(facts::load_failure);
        say(format!("/loads/{at}/failed"), text);
    }
    for (at, thread) in run.threads.iter().enumerate() {
        let text = thread.fault.as_ref().map(facts::thread_fault);
        say(format!("/threads/{at}/fault"), text);
    }
    for (at, unread) in run.system.unread.iter().enumerate() {
        say(format!("/system/unread/{at}"), Some(facts::unread(unread)));
    }
    let merged = run.merged.iter().flat_map(|merged| &merged.differences);
    for (at, difference) in merged.enumerate() {
        let text = Some(facts::difference(difference));
        say(format!("/merged/differences/{at}"), text);
    }
}

/// Adds the words for conditions, events and the end to their figures.
fn with_words(value: &mut Value, run: &Run) {
    let tool = run.tool.name.as_str();
    let entries = |value: &mut Value, name: &str| match value.get_mut(name) {
        Some(Value::Array(entries)) => std::mem::take(entries),
        _ => Vec::new(),
    };
    let mut demands = entries(value, "demands");
    for (demand, entry) in run.demands.iter().zip(&mut demands) {
        entry["words"] = json!({
            "requested": facts::requested(demand),
            "found": facts::found(demand),
            "fix": facts::fix_of(demand),
        });
    }
    let mut events = entries(value, "events");
    for (event, entry) in run.events.iter().zip(&mut events) {
        entry["text"] = json!(facts::event(event, tool));
    }
    value["demands"] = Value::Array(demands);
    value["events"] = Value::Array(events);
    with_words_of_faults(value, run);
    let bad = run.findings.iter().flat_map(|findings| &findings.bad);
    for (at, finding) in bad.enumerate() {
        if let Some(entry) = value.pointer_mut(&format!("/findings/bad/{at}")) {
            let (said, commands) = in_words(&finding.finding());
            entry["text"] = json!(said);
            entry["commands"] = json!(commands);
        }
    }
    if let State::Stopped(ending) = run.state {
        value["state"]["text"] = json!(facts::ending(ending, tool));
    }
}

fn explained(explanation: &mut Value) {
    let entries = |value: &mut Value, name: &str, change: fn(&mut Value)| {
        let list = value.get_mut(name).and_then(Value::as_array_mut);
        list.into_iter().flatten().for_each(change);
    };
    entries(explanation, "bills", |bill| {
        if let Some(bill) = bill.as_object_mut() {
            bill.remove("picture");
        }
    });
    entries(explanation, "stages", |stage| {
        if let Some(times) = stage.get_mut("times").and_then(Value::as_object_mut) {
            times.remove("encoded");
        }
    });
}

fn watched(watch: &mut Value) {
    let threads = watch.get_mut("threads").and_then(Value::as_array_mut);
    for thread in threads.into_iter().flatten() {
        if let Some(thread) = thread.as_object_mut() {
            thread.remove("skips");
        }
        for name in ["by_timer", "by_others"] {
            if let Some(times) = thread.get_mut(name).and_then(Value::as_object_mut) {
                times.remove("encoded");
            }
        }
    }
    let marks = watch.get_mut("marks").and_then(Value::as_array_mut);
    let threads = marks
        .into_iter()
        .flatten()
        .filter_map(|mark| mark.get_mut("threads").and_then(Value::as_array_mut));
    for thread in threads.flatten() {
        if let Some(lengths) = thread.get_mut("lengths").and_then(Value::as_object_mut) {
            lengths.remove("encoded");
        }
    }
}
