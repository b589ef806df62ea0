//! The machine's part of an analysis: its CPUs, what the kernel admits, and what it takes.

use punctual_record::taskset::analysis::{
    Admission, AnalysisOutcome, CpuLoad, OrdinaryBy, OrdinaryTime, ServerTime, SetAnalysis,
    SetOverheads,
};

use crate::words;

pub(super) fn admission(of: &SetAnalysis) -> Option<String> {
    let with = |wanted: Admission| -> Vec<&str> {
        let tasks = of
            .tasks
            .iter()
            .filter(|task| task.admission == Some(wanted));
        tasks.map(|task| task.name.as_str()).collect()
    };
    let mut said = Vec::new();
    let (admitted, busy, invalid) = (
        with(Admission::Admitted),
        with(Admission::Busy),
        with(Admission::Invalid),
    );
    if !admitted.is_empty() {
        let all = of.tasks.iter().filter(|task| task.admission.is_some());
        let names = match admitted.len() {
            count if count > 4 && count == all.count() => format!("all {count} tasks"),
            _ => admitted.join(", "),
        };
        let on_time = of
            .tasks
            .iter()
            .filter(|task| task.admission == Some(Admission::Admitted))
            .all(|task| task.meets() == Some(true));
        let but = match (on_time, of.outcome) {
            (true, _) => "that is no guarantee",
            (false, AnalysisOutcome::NotMet) => "that is no guarantee, as deadlines are not met",
            (false, _) => {
                "that is no guarantee, as it is not proved that they meet their deadlines"
            }
        };
        said.push(format!(
            "the kernel admits the reservations of {names}: {but}; its test only compares the sum of \
             runtime / period with a limit"
        ));
    }
    if !busy.is_empty() {
        said.push(format!(
            "it refuses (EBUSY) {}: the sum of runtime / period is too large",
            busy.join(", ")
        ));
    }
    if !invalid.is_empty() {
        said.push(format!(
            "it refuses (EINVAL) {}: expected 1024 ns <= runtime <= deadline <= period, and a period \
             within its limits",
            invalid.join(", ")
        ));
    }
    let refused = with(Admission::Bound);
    if !refused.is_empty() {
        said.push(format!(
            "it refuses (EPERM) {}, as tried on this machine: bound to a part of its root domain's CPUs. A \
             partition that has just these CPUs makes it possible (punctual tune apply --partition \
             isolated-cpus -a CPUS, and the set is executed in it), or leave the CPUs out",
            refused.join(", ")
        ));
    }
    let bound = of.tasks.iter().any(|task| {
        let untried = task.admission.is_some_and(|it| it != Admission::Bound);
        untried && !task.cpus.is_empty()
    });
    if bound && of.cpus > 1 {
        said.push(
            "it refuses (EPERM) a reservation of a task bound to a part of its domain's CPUs, unless an \
             exclusive cpuset has them"
                .to_owned(),
        );
    }
    (!said.is_empty()).then(|| said.join("; "))
}

pub(super) fn overheads(of: &SetOverheads) -> String {
    let kept = [
        (of.fair_server, "the fair server"),
        (of.rt_throttling, "RT throttling"),
    ];
    let kept = kept
        .iter()
        .filter_map(|(of, name)| Some(kept_for_others(of.as_ref()?, name)));
    let kept: String = kept.collect();
    let Some(measured) = &of.measured else {
        return format!(
            "nothing is counted for the kernel: its timer interrupts, wake-ups, switches and ticks add \
             to these bounds{kept}"
        );
    };
    let tick = match of.tick {
        Some(tick) => format!(
            ", {} each tick ({})",
            words::duration(tick.execution_ns),
            words::duration(tick.period_ns)
        ),
        None => ", no tick".to_owned(),
    };
    format!(
        "counted as measured now on CPU {}: {} each timer interrupt, {} from it to the job and back to \
         sleep{tick}; 95 % of {}, {} and {} gaps were no longer{kept}",
        measured.cpu,
        words::duration(of.release_interrupt_ns),
        words::duration(of.wake_and_sleep_ns),
        measured.interrupts,
        measured.wake_ups,
        measured.ticks
    )
}

fn kept_for_others(of: &ServerTime, name: &str) -> String {
    let assumed = match of.assumed {
        true => ", as kernels have it by default: this machine does not show it",
        false => "",
    };
    format!(
        "; {name} keeps {} of each {} of a CPU for ordinary tasks{assumed}",
        words::duration(of.runtime_ns),
        words::duration(of.period_ns)
    )
}

pub(super) fn cpu(load: &CpuLoad, overheads: &SetOverheads) -> String {
    let percent = |ppm: u64| words::percent(ppm.div_ceil(1_000) as f64 / 1e3);
    let mut text = format!(
        "CPU {}: its real-time tasks need {}",
        load.cpu,
        percent(load.tasks_ppm)
    );
    if load.all_ppm > load.tasks_ppm {
        text.push_str(&format!(", with the kernel {}", percent(load.all_ppm)));
    }
    if load.unknown > 0 {
        let tasks = words::plural(load.unknown as u64, "task", "tasks");
        text.push_str(&format!(", without {tasks} of unknown execution time"));
    }
    match load.demand_met {
        None => {}
        Some(true) => text.push_str("; its reservations get what is due in each interval"),
        Some(false) => {
            text.push_str("; its reservations are due more than there is in some interval")
        }
    }
    text.push_str(&never(load, overheads));
    for one in load.ordinary.iter().filter(|one| one.may_run) {
        text.push_str(&ordinary(one, overheads));
    }
    text
}

/// What never takes time of a CPU for ordinary tasks while real-time tasks wait, and why.
fn never(load: &CpuLoad, overheads: &SetOverheads) -> String {
    let excluded = load.ordinary.iter().filter(|one| !one.may_run);
    let all: Vec<(&OrdinaryTime, &'static str, ServerTime)> = excluded
        .filter_map(|one| {
            let (name, of) = server(one.by, overheads);
            Some((one, name, of?))
        })
        .collect();
    let Some((one, _, of)) = all
        .iter()
        .min_by_key(|(_, _, of)| of.period_ns - of.runtime_ns)
    else {
        return String::new();
    };
    let names: Vec<&str> = all.iter().map(|(_, name, _)| *name).collect();
    let verb = if names.len() > 1 { "take" } else { "takes" };
    let why = one.taken_ns.map_or_else(String::new, |taken_ns| {
        format!(
            ": they take at most {} of each {}, which leaves ordinary tasks more than {}",
            words::duration(taken_ns),
            words::duration(of.period_ns),
            words::duration(of.runtime_ns)
        )
    });
    format!("; {} never {verb} time from them{why}", names.join(" and "))
}

fn server(by: OrdinaryBy, overheads: &SetOverheads) -> (&'static str, Option<ServerTime>) {
    match by {
        OrdinaryBy::FairServer => ("the fair server", overheads.fair_server),
        OrdinaryBy::RtThrottling => ("RT throttling", overheads.rt_throttling),
    }
}

/// What takes time of a CPU for ordinary tasks, and why.
fn ordinary(one: &OrdinaryTime, overheads: &SetOverheads) -> String {
    let (name, Some(of)) = server(one.by, overheads) else {
        return String::new();
    };
    let each = words::duration(of.period_ns);
    let why = match one.taken_ns {
        Some(taken_ns) => format!("they may take {} of {each}", words::duration(taken_ns)),
        None => format!("what they take of {each} is not bounded"),
    };
    let most = words::duration(of.runtime_ns.saturating_add(of.overrun_ns));
    format!("; {name} may take up to {most} of each {each} from them, which is counted: {why}")
}
