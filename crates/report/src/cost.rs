//! What real time costs a command, in words: a table like "real fast, real time", and where
//! predictability pays off.

use punctual_record::cost::{
    Cost, CostOutcome, CostPart, CostResults, CostTreatment, MachineDifference, Tails,
    TreatmentResult,
};
use punctual_stats::cost::{
    BreakEven, BreakEvenKind, CostEffect, CostMeasure, TailQuantile, least_pairs,
};
use punctual_stats::verdict::Outcome;

use crate::experiment::fact_lines;
use crate::style::{Style, Tone, cut, wrap};
use crate::table::{self, Cell};
use crate::{terminal, words};

/// A treatment as its flags.
#[must_use]
pub fn treatment(treatment: &CostTreatment) -> String {
    let parts: Vec<String> = treatment.parts.iter().map(part).collect();
    parts.join(" ")
}

fn part(part: &CostPart) -> String {
    match part {
        CostPart::RtLoad { utilisation, .. } => format!("--rt-load {utilisation}"),
        CostPart::Priority { priority } => format!("--priority {priority}"),
        CostPart::Locked {} => "--locked".to_owned(),
        CostPart::Isolate { cpus } => format!("--isolate {}", cpus.len()),
        CostPart::Preempt { mode, .. } => format!("--preempt {mode}"),
        CostPart::Reboot {} => "after the reboot".to_owned(),
        CostPart::Kernel { with, .. } => format!("kernel {with}"),
    }
}

/// What a treatment changes, where its flags don't say all.
fn details(treatment: &CostTreatment) -> Vec<String> {
    let of = |part: &CostPart| match part {
        CostPart::RtLoad {
            utilisation,
            cpus,
            priority,
            period_ns,
        } => Some(format!(
            "a real-time load uses {} of CPU {}, SCHED_FIFO {priority}, in periods of {}",
            words::percent(*utilisation),
            words::cpu_list(cpus),
            words::duration(*period_ns)
        )),
        CostPart::Isolate { cpus } => Some(format!(
            "the command does without CPU {}",
            words::cpu_list(cpus)
        )),
        CostPart::Preempt { mode, before } => Some(format!("preempt={mode} instead of {before}")),
        CostPart::Kernel { without, with } => Some(format!("kernel {with} instead of {without}")),
        CostPart::Priority { priority } => {
            Some(format!("the command runs at SCHED_FIFO {priority}"))
        }
        CostPart::Locked {} => Some("the command's memory is locked".to_owned()),
        CostPart::Reboot {} => None,
    };
    treatment.parts.iter().filter_map(of).collect()
}

fn name(measure: CostMeasure) -> &'static str {
    match measure {
        CostMeasure::CpuTime => "CPU time",
        CostMeasure::Instructions => "instructions",
        CostMeasure::User => "user",
        CostMeasure::System => "system",
        CostMeasure::Elapsed => "elapsed",
        CostMeasure::Switches => "switches",
        CostMeasure::Faults => "faults",
    }
}

/// All that it says in a sentence to quote.
#[must_use]
pub fn sentence(cost: &Cost) -> String {
    words::clean(&said(cost))
}

fn said(cost: &Cost) -> String {
    let program = words::shortened(&cost.plan.program.join(" "), 60);
    if let Some((runs, asked, got)) = cost.load_not_in_force() {
        return format!(
            "INVALID: in {} the real-time load used {} of its CPUs instead of {}: is it throttled \
             (sched_rt_runtime_us), or the CPU taken by a higher priority or by the host?",
            words::plural(runs as u64, "run", "runs"),
            words::percent(got),
            words::percent(asked)
        );
    }
    let Some(results) = &cost.results else {
        return match &cost.outcome {
            CostOutcome::FirstHalf => format!(
                "{program}: the runs before the reboot are made. Reboot into the other \
                 configuration, then give --resume with this directory"
            ),
            CostOutcome::Failed { error } => error.clone(),
            _ => format!("{program}: no result yet"),
        };
    };
    if let CostOutcome::Failed { error } = &cost.outcome {
        return error.clone();
    }
    if cost.has_too_few_pairs() {
        let least = least_pairs(cost.treatments.len().max(1), cost.plan.confidence);
        return format!(
            "INCONCLUSIVE: too few pairs of runs to name a cost{}",
            least.map_or_else(String::new, |it| format!(": {it} of each are needed"))
        );
    }
    let all: Vec<String> = cost
        .treatments
        .iter()
        .zip(&results.treatments)
        .map(|(it, result)| {
            let conclusion = concluded(result, results);
            format!("{}: {conclusion}", treatment(it))
        })
        .collect();
    let so_far = match cost.outcome {
        CostOutcome::Stopped => "INCONCLUSIVE: it was ended before its time. So far, ",
        _ => "",
    };
    format!("{so_far}{program}: {}", all.join("; "))
}

/// The measures that the sentence names.
const HEADLINE: [CostMeasure; 3] = [
    CostMeasure::CpuTime,
    CostMeasure::Instructions,
    CostMeasure::Elapsed,
];

fn concluded(result: &TreatmentResult, results: &CostResults) -> String {
    let named = || result.effects.iter().filter(|it| it.is_named);
    let of_headline = named().filter(|it| HEADLINE.contains(&it.measure));
    let said = |it: &CostEffect| format!("{} × {}", name(it.measure), ratio(it.ratio));
    let mut parts: Vec<String> = of_headline.map(said).collect();
    if parts.is_empty() {
        parts.extend(named().map(said));
    }
    if !parts.is_empty() {
        return parts.join(", ");
    }
    let cpu = results
        .identical
        .iter()
        .find(|it| it.measure == CostMeasure::CpuTime);
    match cpu {
        Some(cpu) => format!(
            "no cost is distinguishable (CPU time × {}; identical runs differ by up to {})",
            result
                .effects
                .iter()
                .find(|it| it.measure == CostMeasure::CpuTime)
                .map_or_else(|| "?".to_owned(), |it| ratio(it.ratio)),
            format_args!("{:.1} %", (cpu.farthest() - 1.0) * 100.0)
        ),
        None => "no cost is distinguishable".to_owned(),
    }
}

fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 99.5 => words::count(ratio.round() as u64),
        ratio if ratio >= 9.95 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.3}"),
    }
}

fn interval((low, high): (f64, f64)) -> String {
    format!("{}-{}", ratio(low), ratio(high))
}

fn figure(measure: CostMeasure, value: f64) -> String {
    match measure.is_time() {
        true => words::duration_f64(value),
        false => words::short_count(value.round().max(0.0) as u64),
    }
}

/// The summary, with a final newline.
#[must_use]
pub fn summary(cost: &Cost, style: &Style) -> String {
    let mut lines: Vec<String> = Vec::new();
    let tone = match cost.verdict() {
        Some(Outcome::Pass) => Tone::Bold,
        verdict => terminal::tone(verdict),
    };
    for line in wrap(&sentence(cost), style.columns()) {
        lines.push(style.paint(tone, &line));
    }
    let results = cost.results.as_ref().filter(|it| !it.identical.is_empty());
    if let Some(results) = results {
        let all = cost.treatments.iter().zip(&results.treatments);
        for (treatment, result) in all {
            lines.push(String::new());
            lines.extend(one(treatment, result, results, style));
            lines.extend(tails(cost, result, style));
        }
    }
    lines.push(String::new());
    for (title, text) in facts(cost) {
        lines.extend(fact_lines(style, title, &words::clean(&text)));
    }
    let lines = lines.iter().map(|line| cut(line, style.columns()) + "\n");
    lines.collect()
}

/// The column of identical runs.
const IDENTICAL: usize = 5;

/// The table of a treatment.
fn one(
    treatment: &CostTreatment,
    result: &TreatmentResult,
    results: &CostResults,
    style: &Style,
) -> Vec<String> {
    let title = format!(
        "{}: {} and as many of identical runs",
        self::treatment(treatment),
        words::plural(result.pairs as u64, "pair", "pairs")
    );
    let mut lines: Vec<String> = wrap(&words::clean(&title), style.columns())
        .iter()
        .map(|line| style.paint(Tone::Bold, line))
        .collect();
    let head = ["", "without", "with", "ratio", "interval", "identical", ""];
    let mut rows = vec![head.map(Cell::new).to_vec()];
    for effect in &result.effects {
        let same = results.identical.iter();
        let same = same.clone().find(|it| it.measure == effect.measure);
        rows.push(row(effect, same));
    }
    if table::width(&rows, 1) > style.columns() {
        // What is named says the same.
        for row in &mut rows {
            row.remove(IDENTICAL);
        }
    }
    let set = table::set(&rows, style.columns(), style).into_iter();
    lines.extend(set.map(|line| line.trim_end().to_owned()));
    lines
}

fn row(effect: &CostEffect, same: Option<&CostEffect>) -> Vec<Cell> {
    let (tone, said) = match effect.is_named {
        true => (Tone::Bold, if effect.ratio > 1.0 { "more" } else { "less" }),
        false => (Tone::Dim, "not distinguishable"),
    };
    vec![
        Cell::new(name(effect.measure)),
        Cell::new(figure(effect.measure, effect.without)),
        Cell::new(figure(effect.measure, effect.with)),
        Cell::toned(ratio(effect.ratio), tone),
        Cell::new(interval(effect.interval)),
        Cell::new(same.map_or_else(String::new, |it| interval(it.interval))),
        Cell::toned(said, tone),
    ]
}

fn tails(cost: &Cost, result: &TreatmentResult, style: &Style) -> Vec<String> {
    let quantile = format!("p{}", (cost.plan.quantile * 1e8).round() / 1e6);
    let mut lines = Vec::new();
    match result.tails {
        Tails::NoProbe => {}
        Tails::Lost { lost } => lines.extend(fact_lines(
            style,
            "Break-even",
            &format!(
                "not known: {} of the probe were lost or later than the run",
                words::plural(lost, "wake-up", "wake-ups")
            ),
        )),
        Tails::TooFew { wake_ups, needed } => lines.extend(fact_lines(
            style,
            "Break-even",
            &format!(
                "not known: {quantile} needs {} wake-ups in each configuration, and there are {}: \
                 give more --pairs, a longer command, or a lower --quantile",
                words::count(needed),
                words::count(wake_ups)
            ),
        )),
        Tails::Known {
            without,
            with,
            wake_ups,
            skipped,
        } => {
            let mut text = format!(
                "{quantile} of a wake-up beside the command: {} without, {} with ({} and {} \
                 wake-ups",
                tail(without),
                tail(with),
                words::count(wake_ups.0),
                words::count(wake_ups.1)
            );
            if skipped != (0, 0) {
                text.push_str(&format!(
                    "; {} and {} periods were skipped and have no latency: the tail is longer",
                    words::count(skipped.0),
                    words::count(skipped.1)
                ));
            }
            text.push(')');
            lines.extend(fact_lines(style, "Tail", &text));
            for (at, even) in result.break_even.iter().enumerate() {
                let title = if at == 0 { "Break-even" } else { "" };
                lines.extend(fact_lines(style, title, &break_even(even)));
            }
        }
    }
    lines
}

fn tail(tail: TailQuantile) -> String {
    let high = tail.high_ns.map_or_else(|| "?".to_owned(), words::duration);
    format!(
        "{} ({} to {high})",
        words::duration(tail.ns),
        words::duration(tail.low_ns)
    )
}

/// Where predictability pays off, by one price.
#[must_use]
pub fn break_even(even: &BreakEven) -> String {
    let by = match even.measure {
        CostMeasure::Elapsed => "by elapsed time",
        _ => "by CPU time",
    };
    let range = |ns: u64, low_ns: u64, high_ns: Option<u64>| {
        let high = high_ns.map_or_else(|| "?".to_owned(), words::duration);
        format!(
            "{} ({} to {high})",
            words::duration(ns),
            words::duration(low_ns)
        )
    };
    let said = match even.kind {
        BreakEvenKind::Below {
            ns,
            low_ns,
            high_ns,
        } => format!(
            "work shorter than {} is complete earlier with it",
            range(ns, low_ns, high_ns)
        ),
        BreakEvenKind::Above {
            ns,
            low_ns,
            high_ns,
        } => format!(
            "work longer than {} is complete earlier with it",
            range(ns, low_ns, high_ns)
        ),
        BreakEvenKind::Always => "always: the tail is shorter, and work takes less time".to_owned(),
        BreakEvenKind::Never => "never: work takes longer, and the tail is not shorter".to_owned(),
        BreakEvenKind::UpToAtLeast { ns } => format!(
            "the tail is shorter and no price is distinguishable: it pays off for work up to at \
             least {}",
            words::duration(ns)
        ),
        BreakEvenKind::AtMostBelow { ns: Some(ns) } => format!(
            "no shorter tail is shown: if it pays off at all, then only for work shorter than {}",
            words::duration(ns)
        ),
        BreakEvenKind::AtMostBelow { ns: None } => {
            "no shorter tail is shown, and the tail without is open: not distinguishable".to_owned()
        }
        BreakEvenKind::NotDistinguishable => "not distinguishable".to_owned(),
    };
    format!("{by}: {said}")
}

/// What differs between two machines, in a line.
#[must_use]
pub fn difference(it: &MachineDifference) -> String {
    let value = |value: &Option<String>| {
        let value = value.as_deref().unwrap_or("absent");
        words::shortened(value, 80)
    };
    format!("{} {} → {}", it.name, value(&it.before), value(&it.after))
}

/// What else there is to say.
fn facts(cost: &Cost) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let plan = &cost.plan;
    for treatment in &cost.treatments {
        let details = details(treatment);
        if !details.is_empty() {
            facts.push(("With", details.join("; ")));
        }
    }
    let is_virtual = cost
        .treatments
        .iter()
        .flat_map(|it| &it.parts)
        .any(|part| matches!(part, CostPart::Kernel { .. }));
    if is_virtual {
        facts.push((
            "Virtual time",
            "each instruction takes the same time: the ratio of CPU time is that of instructions \
             executed, with neither caches nor contention: a lower bound of the price. User and \
             system are told apart by the tick, which says little here"
                .to_owned(),
        ));
    }
    if let [before, after] = &cost.machines[..] {
        let differs: Vec<String> = before.differences(after).iter().map(difference).collect();
        facts.push(("Differs", differs.join("; ")));
        facts.push((
            "Not shown",
            "the runs before and after were not interleaved: a drift between them looks like a \
             cost. Identical runs on both bound what is named, not such a drift"
                .to_owned(),
        ));
    }
    facts.push((
        "Named",
        format!(
            "what is beyond chance at {} confidence in all measures together, farther from 1 than \
             identical runs may be, and at least 1 %",
            words::percent(plan.confidence)
        ),
    ));
    if let Some(why) = &cost.no_instructions {
        facts.push((
            "Instructions",
            format!("not counted: the kernel offers no counter of them here ({why})"),
        ));
    }
    if let Some(probe) = &cost.probe {
        let parts = cost.treatments.iter().flat_map(|it| &it.parts);
        let mut priorities = parts.filter(|part| matches!(part, CostPart::Priority { .. }));
        let as_command = match priorities.next() {
            Some(_) => {
                "; in pairs with and without a priority of the command: one above the command, and \
                 SCHED_OTHER"
            }
            None => "",
        };
        facts.push((
            "Probe",
            format!(
                "CPU {}, SCHED_FIFO {}, every {}{as_command}",
                probe.cpu,
                probe.priority,
                words::duration(probe.interval_ns)
            ),
        ));
    }
    let left: usize = cost.runs.iter().map(|run| run.left).sum();
    if left > 0 {
        let with_left = cost.runs.iter().filter(|run| run.left > 0).count();
        facts.push((
            "Left running",
            format!(
                "{} in {}: they were ended when the command had, and their CPU time counts until \
                 then",
                words::plural(left as u64, "process", "processes"),
                words::plural(with_left as u64, "run", "runs")
            ),
        ));
    }
    let failed = cost.runs.iter().filter(|run| run.status != 0).count();
    if failed > 0 {
        facts.push((
            "Failed",
            format!(
                "{} ended with a status other than 0, which --ignore-failure accepts",
                words::plural(failed as u64, "run", "runs")
            ),
        ));
    }
    if let Some(machine) = cost.machines.last().filter(|_| !is_virtual) {
        facts.push((
            "Machine",
            format!("{}, Linux {}", machine.hostname, machine.kernel),
        ));
    }
    facts.push(("Seed", plan.seed.to_string()));
    facts
}
