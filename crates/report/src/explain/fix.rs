//! What to do about a cause: a command that can be run as it stands where there is one.

use super::bound;
use super::groups;
use super::interrupts;
use super::own_load;
use super::places::Places;
use punctual_record::explanation::{Cause, EARLIER_TIMER};
use punctual_record::{Run, cpu_list};

/// Whether no CPU was left to what is not a probe.
pub(super) fn every_cpu_was_probed(run: &Run) -> bool {
    let online = &run.system.processor.online;
    online.iter().all(|cpu| run.request.cpus.contains(cpu))
}

/// What to do about a cause, if anything is known.
#[must_use]
pub fn fix(cause: &Cause, run: &Run) -> Option<String> {
    if let Some(advice) = own_load::advice(cause, run) {
        return Some(advice);
    }
    let places = Places::find(run, cause);
    let Places {
        hit,
        probed,
        elsewhere,
        ..
    } = &places;
    let virtual_machine = run.system.virtualisation.hypervisor.is_some();
    let text = match cause {
        Cause::PreemptOff { task, .. }
        | Cause::IrqsOff { task, .. }
        | Cause::LateInterrupt { task }
            if OWN.contains(&&**task) && run.watch.is_none() && probed != elsewhere =>
        {
            // Beside the probed CPUs there was one, and yet it ran here: no -a helps.
            if !every_cpu_was_probed(run) {
                return None;
            }
            format!(
                "punctual's own, unless another program has that name: leave it a CPU that is \
                 not probed, as with -a {probed}"
            )
        }
        Cause::Interrupt { irq, name } => format!(
            "move it: echo {elsewhere} > /proc/irq/{irq}/smp_affinity_list (and stop irqbalance, \
             which moves it back: systemctl stop irqbalance){}",
            if name.contains("timer") {
                "; a timer interrupt cannot be moved"
            } else {
                ""
            }
        ),
        Cause::Softirq { number } => interrupts::softirq(*number, run, &places),
        Cause::PreemptOff { task, work } => preempt_off(task, work.as_deref(), run, &places),
        Cause::Thread {
            task,
            policy,
            priority,
        } => thread(task, policy, *priority, run, &places),
        Cause::FairShare { task } => {
            let away = || format!("keep {task} off CPU {hit}: {}", pin(task, elsewhere));
            format!(
                "both are ordinary threads, which share a CPU: make yours a real-time thread \
                 (start it with chrt -f 50), or give it a larger share (nice -n -10, the \
                 cpu.weight of its control group), or: {}",
                bound::advice(task, None, run, &places).unwrap_or_else(away)
            )
        }
        Cause::Throttled { task } => throttled(task, run),
        Cause::GroupThrottled { group, file } => groups::lift(group, file, run),
        Cause::IdleExit { .. } => {
            "keep the processor awake: hold /dev/cpu_dma_latency at 0 (punctual does unless \
             --as-deployed), or cpupower idle-set -D 0, or boot with idle=poll"
                .to_owned()
        }
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
        Cause::Nmi => "sysctl -w kernel.nmi_watchdog=0; stop perf and other profilers".to_owned(),
        Cause::TimerCallback { function } if function.contains("tick") => {
            format!("stop the tick there: boot with nohz_full={probed}")
        }
        Cause::TimerCallback { .. } => format!(
            "keep the programs that set these timers off CPU {hit}: boot with isolcpus={probed}; \
             each that runs there now is listed by: ps -eLo psr,pid,tid,comm --no-headers, its CPU \
             first, and taskset -pc {elsewhere} moves the TID behind it"
        ),
        Cause::Call { function } => interrupts::call(function, &places),
        Cause::CpuInterrupt { vector } => interrupts::vector(vector, &places),
        Cause::IrqsOff { task, .. } | Cause::LateInterrupt { task } => {
            let away = || format!("keep {task} off CPU {hit}: {}", pin(task, elsewhere));
            bound::advice(task, None, run, &places).unwrap_or_else(away)
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

/// The limits of real-time threads are no advice where the probe is an ordinary one.
fn throttled(task: &str, run: &Run) -> String {
    let cpus = places_of(run);
    if !is_real_time(run) {
        return "a CPU quota throttles ordinary threads: see nr_throttled in cpu.stat of their \
                control group, and raise its cpu.max"
            .to_owned();
    }
    let server = if task.is_empty() {
        String::new()
    } else {
        format!(
            ", or for {task} the fair server of Linux 6.12 and later, which {} turns off",
            each_fair_server(&cpus)
        )
    };
    format!(
        "let the real-time threads of CPU {} sleep for more of each second: they used up what \
         kernel.sched_rt_runtime_us leaves them{server}. sysctl -w kernel.sched_rt_runtime_us=-1 \
         lifts the limit. Both are dangerous: a real-time thread that never sleeps then keeps its \
         CPU for good, from shells and kernel threads too",
        cpu_list(&cpus)
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

/// Whether a probe, or a thread that was watched, was scheduled in real time.
fn is_real_time(run: &Run) -> bool {
    let real_time = |policy: &str| matches!(policy, "fifo" | "rr" | "deadline");
    match &run.watch {
        Some(watch) if !watch.threads.is_empty() => {
            let mut threads = watch.threads.iter();
            threads.any(|thread| real_time(&thread.task.policy))
        }
        // Only real-time threads of a whole system are watched.
        Some(_) => true,
        None => real_time(&run.request.policy),
    }
}

/// A command of any shell that turns off the fair server of these CPUs.
fn each_fair_server(cpus: &[usize]) -> String {
    let file = |cpu: &str| format!("echo 0 > /sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime");
    if let [cpu] = cpus {
        return file(&cpu.to_string());
    }
    let list = cpu_list(cpus);
    let parts: Vec<String> = list
        .split(',')
        .map(|part| match part.split_once('-') {
            Some((from, to)) => format!("$(seq {from} {to})"),
            None => part.to_owned(),
        })
        .collect();
    format!("for cpu in {}; do {}; done", parts.join(" "), file("$cpu"))
}

/// The kernel's threads that have a switch of their own, by the beginning of their name.
const SWITCHES: [(&str, &str); 9] = [
    (
        "kdamond",
        "stop it: echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state",
    ),
    ("ksmd", "stop it: echo 0 > /sys/kernel/mm/ksm/run"),
    (
        "khugepaged",
        "stop it: echo never > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    (
        "kcompactd",
        "stop it: sysctl -w vm.compaction_proactiveness=0",
    ),
    (
        "kswapd",
        "leave more memory free: sysctl -w vm.min_free_kbytes=262144",
    ),
    ("kauditd", "stop auditing: auditctl -e 0"),
    ("watchdog", "stop it: sysctl -w kernel.watchdog=0"),
    ("rcu", "move its callbacks: boot with rcu_nocbs=all"),
    (
        "jbd2",
        "commit less often (mount -o remount,commit=60 /), or write elsewhere",
    ),
];

/// This program's threads that do the work beside the probes.
const OWN: [&str; 4] = ["punctual", "collector", "tracer", "samples"];

fn preempt_off(task: &str, work: Option<&str>, run: &Run, places: &Places) -> String {
    let elsewhere = &places.elsewhere;
    if let Some((_, text)) = SWITCHES.iter().find(|(name, _)| task.starts_with(name)) {
        return (*text).to_owned();
    }
    if let Some(text) = bound::advice(task, work, run, places) {
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
        pin(task, elsewhere)
    )
}

fn thread(task: &str, policy: &str, priority: u32, run: &Run, places: &Places) -> String {
    let elsewhere = &places.elsewhere;
    if policy == "SCHED_DEADLINE" {
        return format!(
            "it is above every SCHED_FIFO priority: give it less runtime, or another CPU with a \
             cpuset ({elsewhere})"
        );
    }
    if task.starts_with("migration") {
        return format!(
            "a kernel thread: move no task to or from CPU {} and load no module while it counts \
             (isolcpus=domain,{})",
            places.probed, places.probed
        );
    }
    if let Some(text) = bound::advice(task, None, run, places) {
        return text;
    }
    // It competed with a probe that is no real-time thread either.
    if matches!(policy, "SCHED_OTHER" | "SCHED_BATCH" | "SCHED_IDLE") {
        return format!(
            "it has no real-time priority: give yours one (start it with chrt -f 50, or by \
             pthread_setschedparam), or move {task}: {}",
            pin(task, elsewhere)
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
    if let Some((irq, _)) = task
        .strip_prefix("irq/")
        .and_then(|rest| rest.split_once('-'))
        .filter(|(irq, _)| irq.bytes().all(|byte| byte.is_ascii_digit()) && !irq.is_empty())
    {
        let lower = below.map_or_else(String::new, |below| {
            format!("; or lower its thread below yours: chrt -f -p {below} $(pgrep '^irq/{irq}-')")
        });
        return format!(
            "move its interrupt: echo {elsewhere} > /proc/irq/{irq}/smp_affinity_list{lower}"
        );
    }
    let elsewhere = pin(task, elsewhere);
    match below {
        Some(below) => format!(
            "lower its priority below yours, or move it: {} chrt -f -p {below}; {elsewhere}",
            each(task)
        ),
        None => format!("move it, or raise your thread's priority above it: {elsewhere}"),
    }
}

fn named(task: &str) -> &str {
    if task.is_empty() { "it" } else { task }
}

fn pin(task: &str, cpus: &str) -> String {
    format!("{} taskset -pc {cpus}", each(task))
}

/// What runs a command on each thread of a name, of which there may be several, in one program or
/// more: its number is put behind the command.
fn each(task: &str) -> String {
    format!("pgrep -wx {} | xargs -n1", quoted(&pattern(task)))
}

/// A name as the regular expression that it alone matches.
fn pattern(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for letter in name.chars() {
        if ".[]()*+?{}|^$\\".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// A name from a record as a word of a shell command: it can't end the word.
pub(super) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_not_end_its_word() {
        assert_eq!(quoted("irq/36-eth0"), "irq/36-eth0");
        assert_eq!(quoted("a b;c"), "'a b;c'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(each("a.b (c)*"), r"pgrep -wx 'a\.b \(c\)\*' | xargs -n1");
    }
}
