//! Scheduling of the kernel's threads and of others.

use punctual_record::finding::{
    Fault, FindingFix, FindingState, Item, NotApplicable, Portion, Seen,
};

use crate::look::{
    Look, Looked, Outcome, bad, expected, information, information_that, lost, missing, no_threads,
    not_applicable, ok, part, present, threads_of, without,
};
use crate::survey::Policy;
use crate::tasks::Task;
use crate::version::Version;

pub(super) fn rt_throttling(look: &mut Look<'_>) -> Looked {
    let path = "/proc/sys/kernel/sched_rt_runtime_us";
    let runtime = look.required_number(path)?;
    let period = look.required_number("/proc/sys/kernel/sched_rt_period_us")?;
    if runtime < 0 || runtime >= period {
        return ok();
    }
    // From 6.12 on the fair server replaces it, except with group scheduling.
    if look.version()? >= Version(6, 12) && !has_group_scheduling(look)? {
        return information().end();
    }
    bad(expected(&["-1"])).write(path, -1).end()
}

/// Whether real-time threads have a budget for each control group.
fn has_group_scheduling(look: &mut Look<'_>) -> Result<bool, FindingState> {
    if !look.option("RT_GROUP_SCHED")? {
        return Ok(false);
    }
    // `setup_rt_group_sched` in kernel/sched/core.c takes these two numbers; other words change
    // nothing.
    let given = look.parameter("rt_group_sched")?;
    // Linux before 6.16 does not read it.
    let is_read = look.machine.version.is_none_or(|it| it >= Version(6, 16));
    Ok(match given.filter(|_| is_read) {
        Some("0") => false,
        Some("1") => true,
        _ => !look.option("RT_GROUP_SCHED_DEFAULT_DISABLED")?,
    })
}

pub(super) fn fair_server(look: &mut Look<'_>) -> Looked {
    look.require_version(Version(6, 12))?;
    let cpus = look.real_time_cpus()?;
    let pattern = "/sys/kernel/debug/sched/fair_server/cpu{}/runtime";
    let path = |cpu: usize| pattern.replacen("{}", &cpu.to_string(), 1);
    // A program that never sleeps then stops every other thread of its CPU: the A/B decides.
    let mut outcome = information_that(expected(&["0"]));
    for cpu in cpus {
        let path = path(*cpu);
        match look.mounted(&path, "debugfs", "/sys/kernel/debug")? {
            Some(runtime) if runtime == "0" => {}
            Some(runtime) => {
                Look::parsed(&path, runtime.parse::<u64>().ok())?;
                outcome = outcome.write(&path, 0);
            }
            // Such a kernel has the server, whether or not it can be seen.
            None => return lost(path),
        }
    }
    if outcome.fixes.is_empty() {
        ok()
    } else {
        outcome.end()
    }
}

pub(super) fn rt_group_sched(look: &mut Look<'_>) -> Looked {
    if !has_group_scheduling(look)? {
        return ok();
    }
    let path = format!("{}/cgroup", look.machine.process);
    let text = look.unshown(&path)?;
    let of_cpu = |line: &&str| {
        let controllers = line.split(':').nth(1).unwrap_or_default();
        controllers.split(',').any(|name| name == "cpu")
    };
    let Some(line) = text.lines().find(of_cpu) else {
        look.seen(path, Seen::NoCpuController);
        // With v2 the controller can't be enabled beside real-time threads.
        return information_that(present(["CONFIG_RT_GROUP_SCHED"]))
            .boot("rt_group_sched=0")
            .end();
    };
    look.saw(path, line);
    let group = line.splitn(3, ':').nth(2).unwrap_or_default();
    let mut last = String::new();
    for mount in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
        let path = format!("{mount}{}/cpu.rt_runtime_us", group.trim_end_matches('/'));
        if let Some(runtime) = look.optional(&path)? {
            // `__sched_setscheduler` refuses only while there is a limit at all (`rt_bandwidth_enabled`).
            let is_limited = look
                .optional("/proc/sys/kernel/sched_rt_runtime_us")?
                .as_deref()
                != Some("-1");
            return match Look::parsed(&path, runtime.parse::<i64>().ok())? {
                0 if !is_limited => information_that(Fault::Below(1)).end(),
                0 => bad(Fault::Below(1))
                    .by_hand()
                    .boot("rt_group_sched=0")
                    .end(),
                _ => information().end(),
            };
        }
        last = path;
    }
    lost(last)
}

pub(super) fn autogroup(look: &mut Look<'_>) -> Looked {
    look.number("/proc/sys/kernel/sched_autogroup_enabled")?;
    information().end()
}

fn item(task: &Task) -> Item {
    Item::ThreadAt {
        thread: task.name.clone(),
        policy: task.policy.name().to_owned(),
        priority: task.priority,
    }
}

/// Threads at or above the program's priority. `migration/N` and `watchdog`-like threads of the
/// stop class run for moments, and are not listed.
pub(super) fn competing_priorities(look: &mut Look<'_>) -> Looked {
    let machine = look.machine;
    let own = std::process::id();
    let competes = |task: &&Task| {
        let is_real_time = task.is_fixed_priority() && task.priority >= machine.priority;
        (is_real_time || task.policy == Policy::Deadline)
            && !task.name.starts_with("migration/")
            && !(machine.root.is_live() && task.process == own)
    };
    let threads = look.threads()?;
    let found: Vec<Item> = threads.iter().filter(competes).map(item).collect();
    let seen = Seen::ThreadsFrom {
        count: found.len() as u64,
        priority: machine.priority,
    };
    look.seen("/proc/*/task/*/stat", seen);
    if found.is_empty() {
        ok()
    } else {
        bad(present(found)).by_hand().end()
    }
}

/// On PREEMPT_RT timers and softirqs run in threads: what a program waits for must not starve.
pub(super) fn softirq_threads(look: &mut Look<'_>) -> Looked {
    if !look.is_real_time()? {
        return not_applicable(NotApplicable::OrdinaryKernel);
    }
    let stems = ["ksoftirqd/", "ktimers/", "rcuc/"];
    let is_one = |task: &Task| stems.iter().any(|stem| task.number(stem).is_some());
    let threads = look.kernel_threads(is_one)?;
    let names = ["ksoftirqd/N", "ktimers/N", "rcuc/N"];
    if threads.is_empty() {
        return lost(no_threads(&names));
    }
    let mut ordinary = threads.clone();
    ordinary.retain(|task| !task.is_fixed_priority());
    let of = Some(Portion::OrdinaryThreads);
    look.seen(threads_of(&names), part(ordinary.len(), threads.len(), of));
    if ordinary.is_empty() {
        return ok();
    }
    let found = ordinary.iter().map(|task| item(task));
    let outcome = information_that(present(found));
    // Below the program, if there is room.
    let priority = 2.min(look.machine.priority.saturating_sub(1)).max(1);
    ordinary
        .into_iter()
        .fold(outcome, |it, task| to_fifo(it, task, priority))
        .end()
}

fn to_fifo(outcome: Outcome, task: &Task, priority: u32) -> Outcome {
    outcome.fix(FindingFix::Scheduling {
        thread: task.name.clone(),
        tid: task.tid,
        policy: "fifo".to_owned(),
        priority,
    })
}

pub(super) fn irq_threads(look: &mut Look<'_>) -> Looked {
    let threads = look.kernel_threads(|task| task.name.starts_with("irq/"))?;
    let seen = Seen::Count(threads.len() as u64);
    look.seen(threads_of(&["irq/N-*"]), seen);
    if threads.is_empty() {
        return without("irq/N-*");
    }
    let competes = threads
        .iter()
        .any(|task| task.priority >= look.machine.priority);
    let all = present(threads.iter().map(|task| item(task)));
    let outcome = if competes {
        bad(all)
    } else {
        information_that(all)
    };
    outcome.by_hand().end()
}

pub(super) fn threaded_napi(look: &mut Look<'_>) -> Looked {
    let devices = look.directory("/sys/class/net")?;
    let mut read = 0;
    let mut threaded = 0;
    for device in devices.iter().take(1024) {
        let path = format!("/sys/class/net/{device}/threaded");
        // Absent before Linux 5.12, and while the device is being removed.
        if let Some(text) = look.optional_unshown(&path)? {
            read += 1;
            if text != "0" {
                look.saw(path, &text);
                threaded += 1;
            }
        }
    }
    let place = "/sys/class/net/*/threaded";
    if read == 0 {
        look.saw_none(place);
        return without(place);
    }
    if threaded == 0 {
        look.seen(place, part(0, read, Some(Portion::Devices)));
        return ok();
    }
    let mut ordinary = look.kernel_threads(|task| task.name.starts_with("napi/"))?;
    if ordinary.is_empty() {
        return lost(no_threads(&["napi/*"]));
    }
    ordinary.retain(|task| !task.is_fixed_priority());
    if ordinary.is_empty() {
        return ok();
    }
    let outcome = bad(present(ordinary.iter().map(|task| item(task))));
    // Above the threads of interrupts, which have 50, and below the program.
    let priority = look.machine.priority.saturating_sub(1).min(70);
    if priority == 0 {
        return outcome.by_hand().end();
    }
    ordinary
        .into_iter()
        .fold(outcome, |it, task| to_fifo(it, task, priority))
        .end()
}

pub(super) fn uclamp(look: &mut Look<'_>) -> Looked {
    let path = "/proc/sys/kernel/sched_util_clamp_min_rt_default";
    let now = look.number(path)?;
    let pattern = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor";
    let online = look.online()?;
    let governors = look.per_cpu(pattern, online)?;
    if !governors.iter().any(|(_, name)| name == "schedutil") {
        return without(Item::Governor("schedutil".to_owned()));
    }
    if now < 1024 {
        bad(Fault::Below(1024)).write(path, 1024).end()
    } else {
        ok()
    }
}

pub(super) fn skew_tick(look: &mut Look<'_>) -> Looked {
    if look.online()?.len() <= 4 {
        return not_applicable(NotApplicable::FewCpus);
    }
    // A number: every one but 0 turns it on, a word doesn't.
    let given = look.parameter("skew_tick")?;
    if given.is_some_and(|text| text.parse::<i64>().is_ok_and(|it| it != 0)) {
        ok()
    } else {
        bad(missing("skew_tick=1")).boot("skew_tick=1").end()
    }
}

pub(super) fn deadline_bandwidth(look: &mut Look<'_>) -> Looked {
    look.feature("/proc/sys/kernel/sched_deadline_period_max_us")?;
    look.optional("/proc/sys/kernel/sched_deadline_period_min_us")?;
    let uses = look.threads()?.iter();
    let uses = uses.filter(|task| task.policy == Policy::Deadline);
    let uses: Vec<String> = uses.map(|task| task.name.clone()).collect();
    if uses.is_empty() {
        information().end()
    } else {
        information_that(present(uses)).end()
    }
}

pub(super) fn stalld(look: &mut Look<'_>) -> Looked {
    let running = look.programs(&["stalld"])?;
    if running.is_empty() {
        information().end()
    } else {
        information_that(present(running)).end()
    }
}

pub(super) fn sched_ext(look: &mut Look<'_>) -> Looked {
    if look.feature("/sys/kernel/sched_ext/state")? == "disabled" {
        return ok();
    }
    look.optional("/sys/kernel/sched_ext/root/ops")?;
    information_that(expected(&["disabled"])).end()
}
