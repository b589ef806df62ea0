//! The conditions of a run in words: the machine, the probe, the load.

use super::placement::placement;
use super::statements::{Fact, fact};
use super::{facts, terms, verdict, watch, words};
use punctual_record::laboratory::{GuestTime, Laboratory};
use punctual_record::system::WatchedLatency;
use punctual_record::watch::Subject;
use punctual_record::{Condition, Field, Interval, Load, Run, Standing};

/// How the run measured: source, intervals, CPUs, policy.
#[must_use]
pub fn method(run: &Run) -> String {
    if let Some(subject) = watch::subject(run) {
        return subject;
    }
    let request = &run.request;
    let interval = match &request.interval {
        _ if run.gaps.is_some() => run.gaps.as_ref().map(terms::how).unwrap_or_default(),
        Interval::Fixed { interval_ns } => format!("every {}", words::duration(*interval_ns)),
        Interval::Primes {
            interval_ns, seed, ..
        } => {
            format!(
                "intervals of primes near {} (seed {seed})",
                words::duration(*interval_ns)
            )
        }
    };
    let mut policy = match request.priority {
        0 => request.policy.clone(),
        priority => format!("{} {priority}", request.policy),
    };
    // Not what was requested, but what ran.
    if let Some(demand) = run
        .demands
        .iter()
        .find(|demand| matches!(demand.condition, Condition::Priority { .. }))
        .filter(|demand| demand.standing == Standing::NotInForce)
    {
        policy = format!("requested {policy}, found {}", facts::found(demand));
    }
    let cpus = format!("CPUs {}", words::cpu_list(&request.cpus));
    // What another tool did not state is left out, not made up.
    let parts = [
        (Field::Source, facts::source(&request.source)),
        (Field::Interval, interval),
        (Field::Policy, policy),
        (Field::Cpus, cpus),
    ];
    let known: Vec<String> = parts
        .into_iter()
        .filter(|(field, text)| run.knows(*field) && !text.trim().is_empty())
        .map(|part| part.1)
        .collect();
    known.join(", ")
}

/// The virtual machine and what its host took, or that there is none. Empty where another tool
/// measured: it does not say.
#[must_use]
pub fn platform(run: &Run) -> String {
    if run.imported.is_some() {
        return String::new();
    }
    let v = &run.system.virtualisation;
    let mut text = match &v.hypervisor {
        Some(it) => format!("virtual machine ({})", facts::hypervisor(it)),
        None => "no hypervisor seen".to_owned(),
    };
    if let Some(stolen) = v.stolen_ns {
        let share = v
            .stolen_share
            .filter(|s| s.is_finite())
            .map(|s| format!(" ({})", words::share(s)));
        match stolen {
            0 => text += ", no stolen time counted",
            _ => {
                text += &format!(
                    ", {} stolen{}",
                    words::duration(stolen),
                    share.unwrap_or_default()
                );
                if let Some(grain_ns) = v.stolen_grain_ns.filter(|ns| *ns > 1) {
                    text += &format!(", counted in ticks of {}", words::duration(grain_ns));
                }
            }
        }
    }
    if let Some(container) = &v.container {
        text += &format!(", in a container ({container})");
    }
    text
}

/// The kernel in a few words; empty where it is not known.
#[must_use]
pub fn kernel(run: &Run) -> String {
    let kernel = &run.system.kernel;
    if run.imported.is_some() {
        let rt = kernel.preemption == "rt";
        return match kernel.release.as_str() {
            "" => String::new(),
            release => format!("Linux {release}{}", if rt { ", PREEMPT_RT" } else { "" }),
        };
    }
    let preemption = match kernel.preemption.as_str() {
        "rt" => "PREEMPT_RT".to_owned(),
        "" | "unknown" => "preemption unknown".to_owned(),
        other => format!("preempt={other}"),
    };
    format!("Linux {}, {preemption}", kernel.release)
}

/// The clock and the power settings that matter for latency; of another tool's run what it
/// says that it did.
#[must_use]
pub fn clock_and_power(run: &Run) -> String {
    let (clock, power) = (&run.system.clock, &run.system.power);
    if run.imported.is_some() {
        let set = power.cpu_dma_latency_held_us;
        let said = |us| format!("{} set cpu_dma_latency to {us} µs", run.tool.name);
        return set.map(said).unwrap_or_default();
    }
    let mut text = format!(
        "clock source {}",
        if clock.source.is_empty() {
            "unknown"
        } else {
            &clock.source
        }
    );
    if clock.resolution_ns > 1 {
        text += &format!(" (resolution {})", words::duration(clock.resolution_ns));
    }
    let governors: Vec<&str> = power.governors.iter().map(|g| g.0.as_str()).collect();
    if !governors.is_empty() {
        text += &format!(", governor {}", governors.join("/"));
    }
    text += &format!(", {}", idle_states(run));
    text
}

/// The load and the work that it did.
#[must_use]
pub fn load(run: &Run) -> String {
    let label = if run.request.load.is_empty() {
        "none"
    } else {
        &run.request.load
    };
    if run.loads.is_empty() {
        return label.to_owned();
    }
    let each: Vec<String> = run
        .loads
        .iter()
        .map(|load| match failed(load) {
            Some(why) => format!("{} FAILED: {why}", load.name),
            None => format!(
                "{} {}{}",
                load.name,
                words::rate(load.rate, &load.unit),
                idle(load).map_or_else(String::new, |idle| format!(" ({idle})"))
            ),
        })
        .collect();
    format!("{label}: {}", each.join(", "))
}

/// Why a load failed, if it did: its error, or that one of the runs of a merge had it without work.
#[must_use]
pub fn failed(load: &Load) -> Option<String> {
    let idle = load.idle_run.as_ref();
    let error = load.failed.as_ref().map(facts::load_failure);
    error.or_else(|| idle.map(|check| verdict::in_one_run(check, &load.unit)))
}

/// How long a load was without work, if it was.
#[must_use]
pub fn idle(load: &Load) -> Option<String> {
    let check = load.check.filter(|check| check.idle_ns > 0)?;
    Some(format!(
        "no work in {:.1} of {:.1} s",
        check.idle_ns as f64 / 1e9,
        check.looked_ns as f64 / 1e9
    ))
}

/// What was done about idle states: a tuned run is not one as deployed.
#[must_use]
pub fn idle_states(run: &Run) -> String {
    match run.system.power.cpu_dma_latency_held_us {
        Some(us) => format!("cpu_dma_latency held at {us} µs"),
        None => match (&run.watch, &run.system.power.cpu_dma_latency_watched) {
            (None, _) => "cpu_dma_latency left alone".to_owned(),
            (Some(_), None) => "cpu_dma_latency not set by punctual".to_owned(),
            (Some(watch), Some(found)) => watched_idle_states(&watch.subject, found),
        },
    }
}

/// Whether the watched program bounds idle states itself.
fn watched_idle_states(subject: &Subject, found: &WatchedLatency) -> String {
    // What applies where no program holds a bound.
    const UNBOUNDED_US: i32 = 2_000_000_000;
    let program = match subject {
        Subject::Program { name, .. } => name,
        Subject::Programs { .. } | Subject::System => "the watched program",
    };
    let in_force = found.in_force_us.filter(|us| *us < UNBOUNDED_US);
    match (found.open, in_force) {
        (true, Some(us)) => format!("cpu_dma_latency held by {program}, {us} µs in force"),
        (true, None) => format!("cpu_dma_latency held by {program}"),
        (false, Some(us)) => {
            format!("cpu_dma_latency not held by {program}; {us} µs in force by another program")
        }
        (false, None) => format!("cpu_dma_latency not held by {program}"),
    }
}

/// Whether the load worked, without its rates.
#[must_use]
pub fn load_in_brief(run: &Run) -> String {
    let label = match run.request.load.as_str() {
        "" => "none",
        label => label,
    };
    let failed = run.loads.iter().filter_map(|load| match failed(load) {
        Some(why) => Some(format!("{} FAILED: {why}", load.name)),
        None if load.work == 0 => Some(format!("{} did no work", load.name)),
        None => idle(load).map(|idle| format!("{}: {idle}", load.name)),
    });
    let failed: Vec<String> = failed.collect();
    match (failed.is_empty(), run.loads.len()) {
        (false, _) => format!("{label}: {}", failed.join("; ")),
        (true, 0) => label.to_owned(),
        (true, _) => {
            let names: Vec<&str> = run.loads.iter().map(|load| load.name.as_str()).collect();
            format!("{label}, which worked: {}", names.join(", "))
        }
    }
}

/// The machine, its kernel, and whose it is where it is a virtual one.
#[must_use]
pub fn machine_in_brief(run: &Run) -> String {
    let s = &run.system;
    let mut parts = Vec::new();
    if !s.hostname.is_empty() {
        parts.push(s.hostname.clone());
    }
    // A virtual processor's name says little.
    if !s.processor.model.is_empty() && s.virtualisation.hypervisor.is_none() {
        parts.push(s.processor.model.clone());
    }
    if !s.processor.online.is_empty() {
        parts.push(words::plural(
            s.processor.online.len() as u64,
            "CPU",
            "CPUs",
        ));
    }
    let mut text = parts.join(", ");
    if !s.kernel.release.is_empty() {
        text = [text, kernel(run)].join("; ");
    }
    if s.virtualisation.hypervisor.is_some() || s.virtualisation.container.is_some() {
        text = format!("{text}; {}", platform(run));
    }
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        text
    }
}

/// The conditions of a run, the important ones first.
#[must_use]
pub fn conditions(run: &Run) -> Vec<Fact> {
    let s = &run.system;
    let mut facts = vec![
        fact("Machine", machine(run)),
        fact("Kernel", kernel(run)),
        fact("Platform", platform(run)),
        fact("Clock, power", clock_and_power(run)),
        fact(
            if run.watch.is_some() {
                "Watched"
            } else {
                "Probe"
            },
            method(run),
        ),
    ];
    facts.extend(placement(run).map(|text| fact("CPUs", text)));
    facts.retain(|(_, text)| !text.is_empty());
    facts.extend(origin(run));
    if run.imported.is_some() {
        return facts;
    }
    let tuning = if run.request.as_deployed {
        "none: measured as deployed"
    } else {
        "the tool tuned the machine for the run, as stated here"
    };
    facts.push(fact("Tuning", tuning));
    if run.request.best_effort {
        facts.push(fact(
            "Best effort",
            "conditions not in force are stated and do not make the run invalid",
        ));
    }
    if let (Some(period), Some(runtime)) = (s.scheduler.rt_period_us, s.scheduler.rt_runtime_us) {
        let text = if runtime < 0 {
            "off".to_owned()
        } else {
            format!(
                "{} of {}",
                words::duration(runtime.unsigned_abs().saturating_mul(1000)),
                words::duration(period.unsigned_abs().saturating_mul(1000))
            )
        };
        facts.push(fact("Real-time throttling", text));
    }
    let above: Vec<String> = s
        .scheduler
        .above
        .iter()
        .take(6)
        .map(|t| format!("{} ({} {})", t.name, t.policy, t.priority))
        .collect();
    if s.scheduler.above_count > 0 {
        let more = s.scheduler.above_count.saturating_sub(above.len() as u64);
        let more = if more > 0 {
            format!(" and {} more", words::count(more))
        } else {
            String::new()
        };
        facts.push(fact(
            "Tasks at or above our priority",
            format!("{}{more}", above.join(", ")),
        ));
    }
    for (name, cpus) in [
        ("Isolated CPUs", &s.processor.isolated),
        ("nohz_full CPUs", &s.processor.nohz_full),
    ] {
        if !cpus.is_empty() {
            facts.push(fact(name, words::cpu_list(cpus)));
        }
    }
    if let Some(smt) = s.processor.smt_active {
        let text = match (smt, &s.virtualisation.hypervisor) {
            (true, _) => "active",
            (false, None) => "off",
            // The host's may be on.
            (false, Some(_)) => "none that the virtual machine shows",
        };
        facts.push(fact("SMT", text));
    }
    if !s.power.idle_states.is_empty() {
        let on = s.power.idle_states.iter().filter(|state| !state.disabled);
        let states: Vec<String> = on
            .map(|state| format!("{} ({} µs)", state.name, state.exit_latency_us))
            .collect();
        facts.push(fact(
            "Idle states",
            if states.is_empty() {
                "all disabled".to_owned()
            } else {
                states.join(", ")
            },
        ));
    }
    if !s.kernel.command_line.is_empty() {
        facts.push(fact("Kernel command line", &s.kernel.command_line));
    }
    if !s.limits.cgroup_limits.is_empty() {
        facts.push(fact("cgroup limits", s.limits.cgroup_limits.join(", ")));
    }
    if !s.unread.is_empty() {
        let all: Vec<String> = s.unread.iter().map(facts::unread).collect();
        facts.push(fact("Could not be read", all.join("; ")));
    }
    facts
}

/// Host, processor and memory.
#[must_use]
pub fn machine(run: &Run) -> String {
    let s = &run.system;
    let mut parts = Vec::new();
    for part in [
        Some(&s.hostname),
        Some(&s.processor.model),
        s.distribution.as_ref(),
    ]
    .into_iter()
    .flatten()
    {
        if !part.is_empty() {
            parts.push(part.clone());
        }
    }
    let online = s.processor.online.len();
    if online > 0 {
        parts.push(words::plural(online as u64, "CPU", "CPUs"));
    }
    if s.memory.total_bytes > 0 {
        parts.push(words::bytes(s.memory.total_bytes));
    }
    if parts.is_empty() && run.imported.is_some() {
        String::new()
    } else if parts.is_empty() {
        "unknown".to_owned()
    } else {
        parts.join(", ")
    }
}

/// Where figures come from that were not measured in one run of ours.
pub(super) fn origin(run: &Run) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(imported) = &run.imported {
        let mut text = format!("figures of {}", imported.format);
        if imported.resolution_ns > 1 {
            text += &format!(
                ", rounded down to multiples of {}",
                words::duration(imported.resolution_ns)
            );
        }
        let not_stated: Vec<&str> = imported.unknown.iter().map(|it| it.name()).collect();
        if !not_stated.is_empty() {
            text += &format!("; it does not state: {}", not_stated.join(", "));
        }
        facts.push(fact("Imported", text));
    }
    if let Some(laboratory) = &run.laboratory {
        facts.push(fact("Laboratory", in_laboratory(laboratory)));
    }
    if let Some(merged) = &run.merged {
        let runs = words::plural(merged.runs, "run", "runs");
        facts.push(fact(
            "Merged",
            format!(
                "{runs}, begun from {} to {}",
                merged.first_started, merged.last_started
            ),
        ));
        if !merged.differences.is_empty() {
            facts.push(fact(
                "Merged although",
                facts::differences(&merged.differences),
            ));
        }
    }
    facts
}

/// When a run began. The clock of the laboratory's guest tells no date.
#[must_use]
pub fn begun(run: &Run) -> String {
    match run.laboratory.as_ref().map(|laboratory| laboratory.time) {
        None => run.started.clone(),
        Some(GuestTime::Virtual) => "virtual time".to_owned(),
        Some(GuestTime::Host) => "an emulator's time".to_owned(),
    }
}

/// What a time is that was measured in the laboratory, and what made it.
fn in_laboratory(laboratory: &Laboratory) -> String {
    let time = match laboratory.time {
        GuestTime::Virtual => {
            "virtual time, one instruction is 1 ns: no caches, devices, SMIs or idle states"
                .to_owned()
        }
        GuestTime::Host => format!(
            "{} processors of an emulator at the host's pace: these times are no latencies",
            laboratory.cpus
        ),
    };
    let mut text = format!(
        "{time}; QEMU {}, seed {}",
        laboratory.fingerprint.emulator, laboratory.seed
    );
    if !laboratory.parameters.is_empty() {
        text += &format!(", {}", laboratory.parameters.join(" "));
    }
    if let Some(result) = laboratory.fingerprint.result_sha256.get(..16) {
        text += &format!(", result {result}");
    }
    text
}
