//! What to do about a cause: a command that can be run as it stands where there is one.

use super::accused::Accused;
use super::bound;
use super::groups;
use super::interrupts;
use super::names::is_boosted;
use super::own_load;
use super::places::Places;
use crate::findings::quoted;
use punctual_record::explanation::{Cause, EARLIER_TIMER, Keeper, OrdinaryTime};
use punctual_record::remedy::{is_managed, is_own, is_per_cpu};
use punctual_record::{Run, cpu_list};

/// Whether no CPU was left to what is not a probe.
pub(super) fn every_cpu_was_probed(run: &Run) -> bool {
    let online = &run.system.processor.online;
    online.iter().all(|cpu| run.request.cpus.contains(cpu))
}

/// The threads that one command names, at most.
pub(super) const MOST: usize = 8;

/// What commands that change the machine begin with.
const APPLY: &str = "sudo punctual tune apply ";

/// What undoes these pieces of advice, if one of them changes the machine: that, and nothing that was
/// changed before.
pub(crate) fn undo_of<'t>(advice: impl Iterator<Item = &'t str>) -> Option<String> {
    let commands = advice.flat_map(|text| text.split(APPLY).skip(1));
    let mut knobs: Vec<&str> = Vec::new();
    for command in commands.filter_map(|rest| rest.split('`').next()) {
        for knob in knobs_of(command) {
            if !knobs.contains(&knob) {
                knobs.push(knob);
            }
        }
    }
    let knobs: Vec<String> = knobs.into_iter().map(quoted).collect();
    (!knobs.is_empty()).then(|| format!("`sudo punctual tune restore {}`", knobs.join(" ")))
}

/// The names in settings as [`tune`] writes them. No name has a quote, or a blank before its value.
fn knobs_of(settings: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let words = settings.split(move |letter| {
        is_quoted ^= letter == '\'';
        letter == ' ' && !is_quoted
    });
    let names = words.map(|word| word.trim_matches('\'').split('=').next().unwrap_or(""));
    names.filter(|name| !name.is_empty())
}

/// The command that makes changes: each is in the journal first, and one command undoes them all.
pub(super) fn tune(settings: &[String]) -> String {
    let settings: Vec<String> = settings.iter().map(|it| quoted(it)).collect();
    format!("`{APPLY}{}`", settings.join(" "))
}

/// The command that writes one file.
pub(super) fn write(path: &str, value: &str) -> String {
    tune(&[format!("{path}={value}")])
}

fn managed(apart: &str) -> String {
    format!(
        "the kernel itself places the queues of this device: give it fewer queues; or, where that one may be \
         delivered to other CPUs too, boot with isolcpus=managed_irq,{apart}"
    )
}

/// Whether what helps against a cause is another CPU.
fn is_moved(cause: &Cause, accused: &Accused<'_>) -> bool {
    match cause {
        Cause::Thread { task, .. } => task.starts_with("irq/") && !accused.are_programs(),
        Cause::Interrupt { .. }
        | Cause::Softirq { .. }
        | Cause::PreemptOff { .. }
        | Cause::IrqsOff { .. }
        | Cause::LateInterrupt { .. }
        | Cause::TimerCallback { .. }
        | Cause::Call { .. }
        | Cause::CpuInterrupt { .. } => true,
        _ => false,
    }
}

/// The command that moves an interrupt.
pub(super) fn move_irq(irq: impl std::fmt::Display, cpus: &str) -> String {
    write(&format!("/proc/irq/{irq}/smp_affinity_list"), cpus)
}

/// What to do about a cause, if anything is known. Commands stand between backquotes, and can be run
/// as they stand.
#[must_use]
pub fn fix(cause: &Cause, run: &Run) -> Option<String> {
    let accused = Accused::find(run, cause);
    // A recording doesn't say what else its machine has.
    if run.system.processor.online.is_empty() && !is_of_program(cause) {
        return None;
    }
    if let Some(advice) = own_load::advice(cause, &accused, run) {
        return Some(advice);
    }
    let places = Places::find(run, cause, &accused);
    let Places {
        hit,
        probed,
        apart,
        elsewhere,
        ..
    } = &places;
    let virtual_machine = run.system.virtualisation.hypervisor.is_some();
    let text = match cause {
        Cause::PreemptOff { .. }
        | Cause::IrqsOff { .. }
        | Cause::LateInterrupt { .. }
        | Cause::FairShare { .. }
        | Cause::Thread { .. }
            if is_own(run, cause) && run.watch.is_some() =>
        {
            format!("punctual's own: start it with taskset -c {elsewhere}")
        }
        Cause::PreemptOff { .. }
        | Cause::IrqsOff { .. }
        | Cause::LateInterrupt { .. }
        | Cause::FairShare { .. }
        | Cause::Thread { .. }
            if is_own(run, cause) && probed != elsewhere =>
        {
            // Beside the probed CPUs there was one, and yet it ran here: no -a helps.
            if !every_cpu_was_probed(run) {
                return None;
            }
            format!(
                "punctual's own, or of the load that it ran: leave it a CPU that is not probed, as \
                 with -a {probed}"
            )
        }
        Cause::Interrupt { name, .. } if is_per_cpu(name) => {
            "an interrupt of that CPU alone, which can't be moved".to_owned()
        }
        _ if run.system.processor.online.len() == 1 && is_moved(cause, &accused) => {
            "this machine has one CPU: nothing can be moved away from it; stop what does this, or use \
             one with more CPUs"
                .to_owned()
        }
        Cause::Interrupt { name, .. } if is_managed(name) => managed(apart),
        Cause::Interrupt { irq, .. } => format!(
            "move it: {} (irqbalance, where it runs, moves it back: ban CPU {hit} there)",
            move_irq(irq, elsewhere)
        ),
        Cause::Softirq { number } => interrupts::softirq(*number, run, &places),
        Cause::PreemptOff { task, work } => {
            preempt_off(task, work.as_deref(), run, (&places, &accused))
        }
        Cause::Thread {
            task,
            policy,
            priority,
        } => thread((task, policy, *priority), run, (&places, &accused)),
        Cause::FairShare { task } => {
            let away = || format!("keep {task} off CPU {hit}: {}", moved(task, &places, &accused));
            format!(
                "both are ordinary threads, which share a CPU: make yours a real-time thread \
                 (start it with chrt -f 50), or give it a larger share (nice -n -10, the \
                 cpu.weight of its control group), or: {}",
                bound::advice(task, None, run, (&places, &accused)).unwrap_or_else(away)
            )
        }
        Cause::Throttled { .. } => throttled(run, elsewhere),
        Cause::GroupThrottled { group, file } => groups::lift(group, file, run),
        Cause::IdleExit { .. } => format!(
            "keep the processor awake: {}, or hold /dev/cpu_dma_latency at 0 in the program (punctual does \
             unless --as-deployed), or boot with idle=poll",
            tune(&["idle-states".to_owned()])
        ),
        Cause::Platform | Cause::Host { .. } if virtual_machine => {
            "in a virtual machine most likely the host: pin the virtual CPU to an isolated one \
             (virsh vcpupin), or measure on bare metal"
                .to_owned()
        }
        Cause::Platform | Cause::Host { .. } => {
            "firmware or hardware: look for system management interrupts with rtla hwnoise, and \
             turn off power management and legacy USB in the firmware"
                .to_owned()
        }
        Cause::Steal => {
            "on the host: pin the virtual CPU to an isolated one (virsh vcpupin) and keep \
             others off it"
                .to_owned()
        }
        Cause::Smi => {
            "turn off in the firmware what raises system management interrupts: legacy USB, \
             power and fan control, error reporting"
                .to_owned()
        }
        Cause::Nmi => format!(
            "{}; stop perf and other profilers",
            tune(&["kernel.nmi_watchdog=0".to_owned()])
        ),
        Cause::TimerCallback { function } if function.contains("tick") => {
            format!("stop the tick there: boot with nohz_full={apart}")
        }
        Cause::TimerCallback { function } if function.contains("watchdog_timer") => format!(
            "let the watchdog look at other CPUs alone: {}",
            tune(&[format!("kernel.watchdog_cpumask={elsewhere}")])
        ),
        Cause::TimerCallback { .. } => format!(
            "keep the programs that set these timers off CPU {hit}: boot with isolcpus={apart}; ps \
             -eLo psr,tid,comm lists the threads that ran there last"
        ),
        Cause::Call { function } => interrupts::call(function, &places, &accused),
        Cause::CpuInterrupt { vector } => interrupts::vector(vector, &places),
        Cause::IrqsOff { task, .. } | Cause::LateInterrupt { task } => {
            let away = || format!("keep {task} off CPU {hit}: {}", moved(task, &places, &accused));
            bound::advice(task, None, run, (&places, &accused)).unwrap_or_else(away)
        }
        Cause::Inversion { .. } => {
            "make the lock inherit priority: pthread_mutexattr_setprotocol(&attr, \
             PTHREAD_PRIO_INHERIT)"
                .to_owned()
        }
        Cause::Lock { lock, .. } if lock.contains("mmap") => {
            "allocate memory and create threads before the real-time thread starts its work: mmap, \
             munmap and new threads take this lock"
                .to_owned()
        }
        Cause::Lock { .. } => {
            "let the real-time thread take no lock that threads of lower priority take".to_owned()
        }
        Cause::Fault => {
            "lock and touch the memory before: mlockall(MCL_CURRENT | MCL_FUTURE), or start it \
             with punctual run --lock"
                .to_owned()
        }
        Cause::Blocked { state } if state == "stopped" || state == "traced" => {
            "send no stop signal to the real-time thread, and attach no debugger to it".to_owned()
        }
        Cause::Blocked { state } if state == "frozen" => {
            "freeze neither the control group of the real-time thread nor the system".to_owned()
        }
        // That wake-up has a bill of its own.
        Cause::Blocked { state } if state == EARLIER_TIMER => return None,
        Cause::Blocked { .. } => {
            "make no system call that may sleep between the wake-up and the work".to_owned()
        }
        Cause::Waker { task } => format!(
            "{} woke it late: raise its priority above others",
            named(task)
        ),
        Cause::WakePath
        | Cause::Crossing
        | Cause::NotReleased
        | Cause::Work
        | Cause::Probe
        | Cause::Tracer
        | Cause::Other
        | Cause::Unexplained
        | Cause::Blind => return None,
    };
    Some(text)
}

/// The CPUs that one command names, at most.
const MOST_CPUS: usize = 64;

fn fair_server(cpu: &usize) -> String {
    format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime=0")
}

/// Whether what helps against a cause is in the program alone, whatever the machine.
fn is_of_program(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::Inversion { .. } | Cause::Lock { .. } | Cause::Fault | Cause::Blocked { .. }
    )
}

/// The limits of real-time threads are no advice where the probe is an ordinary one.
fn throttled(run: &Run, elsewhere: &str) -> String {
    if !is_real_time(run) {
        return "a CPU quota throttles ordinary threads: see nr_throttled in cpu.stat of their \
                control group, and raise its cpu.max"
            .to_owned();
    }
    // The limits of real-time threads hold for no reservation.
    let mut measured = policies(run).peekable();
    if measured.peek().is_some() && measured.all(|policy| policy == "deadline") {
        return "its own reservation was used up before the period ended: give it more runtime, or less to do in \
                each period (sched_setattr)"
            .to_owned();
    }
    let places = places_of(run);
    let cpus = cpu_list(&places);
    let kept = run.explanation.iter().flat_map(|it| &it.ordinary_time);
    let (mut lifted, mut locked) = (Vec::new(), Vec::new());
    for OrdinaryTime {
        by, locked: why, ..
    } in kept
    {
        let (what, settings) = match by {
            Keeper::RtThrottling => (
                "the limit kernel.sched_rt_runtime_us",
                vec!["kernel.sched_rt_runtime_us=-1".to_owned()],
            ),
            Keeper::FairServer => (
                "the fair server",
                places.iter().take(MOST_CPUS).map(fair_server).collect(),
            ),
        };
        match why {
            None => lifted.push(format!("{} lifts {what}", tune(&settings))),
            Some(why) => locked.push(format!("{what} can't be changed on this machine: {why}")),
        }
    }
    let danger = match lifted.is_empty() {
        true => String::new(),
        false => format!(
            "; {}, which is dangerous: a real-time thread that never sleeps then keeps its CPU for \
             good, from shells and kernel threads too",
            lifted.join(", ")
        ),
    };
    let locked = match locked.is_empty() {
        true => String::new(),
        false => format!("; {}", locked.join("; ")),
    };
    let users = Accused::users(run);
    let who = match users.names() {
        names if names.is_empty() => format!("the real-time threads of CPU {cpus}"),
        names => names,
    };
    let moved = match users.can_be_moved() {
        true => format!(", or move it: {}", users.moved(elsewhere)),
        false => String::new(),
    };
    format!(
        "let {who} sleep for more of each second: real-time threads used up what the kernel leaves \
         them{moved}{danger}{locked}"
    )
}

/// Where threads of the run were seen, or probes were asked for.
fn places_of(run: &Run) -> Vec<usize> {
    let mut cpus: Vec<usize> = match run.watch {
        Some(_) => run.threads.iter().filter_map(|it| it.cpu).collect(),
        None => run.request.cpus.clone(),
    };
    if cpus.is_empty() {
        // Of merged watches each thread may have run elsewhere.
        cpus.clone_from(&run.system.processor.online);
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The policies of the probes, or of the threads that were watched.
fn policies(run: &Run) -> impl Iterator<Item = &str> {
    let watched = run.watch.iter().flat_map(|watch| &watch.threads);
    let probes = run.watch.is_none().then_some(run.request.policy.as_str());
    watched
        .map(|thread| thread.task.policy.as_str())
        .chain(probes)
}

/// Whether a probe, or a thread that was watched, was scheduled in real time.
fn is_real_time(run: &Run) -> bool {
    // Only real-time threads of a whole system are watched, and none is listed.
    let mut policies = policies(run).peekable();
    policies.peek().is_none() || policies.any(|it| matches!(it, "fifo" | "rr" | "deadline"))
}

/// The kernel's threads that have a switch of their own, by the beginning of their name: what it does,
/// and the setting.
const SWITCHES: [(&str, &str, &str); 2] = [
    ("ksmd", "stop it", "/sys/kernel/mm/ksm/run=0"),
    ("watchdog/", "stop it", "kernel.watchdog=0"),
];

/// What helps against a thread of the kernel that has a switch, or a boot parameter, of its own.
fn switch(task: &str, accused: &Accused<'_>) -> Option<String> {
    // A program may have such a name.
    if accused.are_programs() {
        return None;
    }
    let starts = |name: &str| task.starts_with(name);
    if let Some((_, what, setting)) = SWITCHES.iter().find(|it| starts(it.0)) {
        return Some(format!("{what}: {}", tune(&[(*setting).to_owned()])));
    }
    let text = match task {
        _ if starts("kauditd") => "load no audit rules, or boot with audit=0".to_owned(),
        _ if starts("kswapd") => {
            "leave more memory free (vm.min_free_kbytes), or limit what takes it".to_owned()
        }
        _ if starts("jbd2") => {
            "commit less often (the option commit=60 of the mount), or write elsewhere".to_owned()
        }
        _ => return None,
    };
    Some(text)
}

/// The interrupt whose handler a thread is: its number, and its device's name.
fn interrupt_of<'t>(task: &'t str, accused: &Accused<'_>) -> Option<(&'t str, &'t str)> {
    let rest = task
        .strip_prefix("irq/")
        .filter(|_| !accused.are_programs())?;
    let (irq, name) = rest.split_once('-')?;
    (!irq.is_empty() && irq.bytes().all(|byte| byte.is_ascii_digit())).then_some((irq, name))
}

/// What gives a thread other CPUs. That of an interrupt goes where this is delivered.
fn moved(task: &str, places: &Places, accused: &Accused<'_>) -> String {
    match interrupt_of(task, accused) {
        Some((_, name)) if is_managed(name) => managed(&places.apart),
        Some((irq, _)) => format!("move its interrupt: {}", move_irq(irq, &places.elsewhere)),
        None => accused.moved(&places.elsewhere),
    }
}

fn preempt_off(
    task: &str,
    work: Option<&str>,
    run: &Run,
    (places, accused): (&Places, &Accused<'_>),
) -> String {
    let of_kernel = || bound::advice(task, work, run, (places, accused));
    let special = switch(task, accused).or_else(of_kernel);
    if let Some(text) = special {
        return text;
    }
    let kernel = if run.system.kernel.preemption.starts_with("rt") {
        ""
    } else {
        "; a PREEMPT_RT kernel (or preempt=full) preempts it much sooner"
    };
    format!(
        "keep {task} off CPU {}: {}{kernel}",
        places.hit,
        moved(task, places, accused)
    )
}

fn thread(
    (task, policy, priority): (&str, &str, u32),
    run: &Run,
    (places, accused): (&Places, &Accused<'_>),
) -> String {
    let elsewhere = &places.elsewhere;
    if task.starts_with("sugov") && !accused.are_programs() {
        return format!(
            "it changes the frequency for the governor schedutil: {}",
            tune(&["governor".to_owned()])
        );
    }
    if policy == "SCHED_DEADLINE" {
        return format!(
            "it is above every SCHED_FIFO priority: give it less runtime, or another CPU with a \
             cpuset ({elsewhere})"
        );
    }
    if task.starts_with("migration") && !accused.are_programs() {
        return format!(
            "a kernel thread: move no task to or from CPU {} and load no module while it counts \
             (isolcpus=domain,{})",
            places.probed, places.apart
        );
    }
    if let Some(text) = bound::advice(task, None, run, (places, accused)) {
        return text;
    }
    if is_boosted(policy, priority) {
        return format!(
            "a thread of that priority waits for a lock that {task} holds (PTHREAD_PRIO_INHERIT): \
             shorten what {task} does while it holds it"
        );
    }
    // It competed with a probe that is no real-time thread either.
    if matches!(policy, "SCHED_OTHER" | "SCHED_BATCH" | "SCHED_IDLE") {
        let moved = match run.system.processor.online.len() {
            1 => String::new(),
            _ => format!(", or move {task}: {}", accused.moved(elsewhere)),
        };
        return format!(
            "it has no real-time priority: give yours one (start it with chrt -f 50, or by \
             pthread_setschedparam){moved}"
        );
    }
    if (1..places.own_priority).contains(&priority) {
        return format!(
            "its priority is below yours and was higher for that time: shorten what {task} does while it \
             holds a lock with a ceiling (PTHREAD_PRIO_PROTECT), or share none with it"
        );
    }
    let below = match places.own_priority {
        // No thread of real time is below it.
        0 | 1 => None,
        own => Some(priority.min(own - 1).max(1)),
    };
    let moved = match interrupt_of(task, accused) {
        Some(_) => moved(task, places, accused),
        None => format!("move it: {}", moved(task, places, accused)),
    };
    let has_one_cpu = run.system.processor.online.len() == 1;
    match below.map(|below| accused.lowered(below)) {
        Some(lowered) if lowered.is_empty() => moved,
        Some(lowered) if has_one_cpu => format!("lower its priority below yours: {lowered}"),
        None if has_one_cpu => "raise your thread's priority above it".to_owned(),
        Some(lowered) => format!("{moved}; or lower its priority below yours: {lowered}"),
        None => format!("{moved}; or raise your thread's priority above it"),
    }
}

fn named(task: &str) -> &str {
    if task.is_empty() { "it" } else { task }
}
