//! Whether the CPUs for real-time work are left alone.

use punctual_record::finding::{
    Elsewhere, Fault, FindingFix, FindingState, Item, NotApplicable, Seen,
};
use punctual_record::{cpu_list, cpu_mask};

use super::kernel::possible;
pub(super) use crate::isolated::list;
use crate::isolated::{BY_GROUPS, BY_KERNEL, in_partition};
use crate::look::{
    Look, Looked, Outcome, bad, information, information_that, missing, no_threads, not_applicable,
    ok, present, threads_of, without,
};
use crate::mask;
pub(super) use crate::mask::lacking;
use crate::parameter::{CpuParameter, boolean};
use crate::root::decimal;
use crate::tasks::Task;
use crate::version::Version;

/// Those of `cpus` that are also in `others`.
pub(super) fn shared(cpus: &[usize], others: &[usize]) -> Vec<usize> {
    let shared = cpus.iter().filter(|cpu| others.contains(cpu));
    shared.copied().collect()
}

/// That so many may run on these CPUs.
fn on_cpus(count: usize, programs: bool, cpus: &[usize]) -> Seen {
    Seen::OnCpus {
        count: count as u64,
        programs,
        cpus: cpus.to_vec(),
    }
}

/// That none of so many concerns these CPUs.
pub(super) fn none_on_cpus(count: u64, of: Elsewhere, cpus: &[usize]) -> Seen {
    Seen::NoneOnCpus {
        count,
        of,
        cpus: cpus.to_vec(),
    }
}

pub(super) fn isolated_cpus(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let isolated = list(BY_KERNEL, &look.required(BY_KERNEL)?)?;
    let by_group = look.optional(BY_GROUPS)?.unwrap_or_default();
    let by_group = list(BY_GROUPS, &by_group)?;
    let mut lacks = lacking(&lacking(cpus, &isolated), &by_group);
    if !lacks.is_empty() {
        let root = look.machine.root;
        let mut read = |path: &str| match path {
            // Of the whole table only one line counts.
            "/proc/mounts" => look.optional_unshown(path),
            _ => look.optional(path),
        };
        lacks = lacking(&lacks, &in_partition(root, &mut read)?);
    }
    if lacks.is_empty() {
        return ok();
    }
    look.online()?;
    let outcome = bad(Fault::Lacks(lacks));
    // With every CPU in the list the kernel keeps its boot CPU.
    if look.machine.housekeeping().is_empty() {
        return outcome.by_hand().end();
    }
    outcome
        .boot(format!("isolcpus=managed_irq,domain,{}", cpu_list(cpus)))
        .end()
}

const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";

pub(super) fn nohz_full(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let Some(text) = look.optional(NOHZ_FULL)? else {
        // The file beside it is there on every kernel, this one with the option alone.
        look.required(BY_KERNEL)?;
        return bad(missing("CONFIG_NO_HZ_FULL=y")).by_hand().end();
    };
    let lacks = lacking(cpus, &list(NOHZ_FULL, &text)?);
    let off = match nohz_off(look) {
        // What lacks is bad whatever stands on the command line.
        Err(_) if !lacks.is_empty() => None,
        off => off?,
    };
    let outcome = match off {
        Some(parameter) => bad(present([parameter.as_str()])).fix(FindingFix::Unboot { parameter }),
        None if lacks.is_empty() => return ok(),
        None => bad(Fault::Lacks(lacks.clone())),
    };
    look.online()?;
    if !lacks.is_empty() && look.machine.housekeeping().is_empty() {
        return outcome.by_hand().end();
    }
    boot_with_nohz_full(look, outcome, &lacks).end()
}

/// The word with which no CPU ever loses its tick, whatever `nohz_full` shows: `tick_nohz_activate` in
/// kernel/time/tick-sched.c then returns at once. The last word that is a boolean counts.
pub(super) fn nohz_off(look: &mut Look<'_>) -> Result<Option<String>, FindingState> {
    let values = look.values(&["nohz"])?.into_iter();
    let version = look.machine.version;
    let last = values
        .filter_map(|(_, word)| Some((word, boolean(word, version)?)))
        .next_back();
    Ok(last.and_then(|(word, is_on)| (!is_on).then(|| format!("nohz={word}"))))
}

/// The CPU that nearly every machine boots on.
const BOOT_CPU: usize = 0;

/// Proposes `nohz_full=` where that frees CPUs of those that lack it.
fn boot_with_nohz_full(look: &Look<'_>, mut outcome: Outcome, lacks: &[usize]) -> Outcome {
    // `tick_nohz_init` in kernel/time/tick-sched.c: a kernel that may suspend needs the tick of the CPU
    // that it boots on.
    let keeps = look.machine.config.as_ref().is_none_or(|config| {
        config.is_set("PM_SLEEP_SMP") && !config.is_set("PM_SLEEP_SMP_NONZERO_CPU")
    });
    let is_kept = |cpu: &usize| keeps && *cpu == BOOT_CPU;
    if !lacks.iter().all(is_kept) {
        let mut cpus = look.machine.cpus.clone();
        cpus.retain(|cpu| !is_kept(cpu));
        outcome = outcome.boot(format!("nohz_full={}", cpu_list(&cpus)));
    }
    if lacks.iter().any(is_kept) {
        outcome = outcome.by_hand();
    }
    outcome
}

/// The CPUs without a tick; none without CONFIG_NO_HZ_FULL.
fn tickless(look: &mut Look<'_>) -> Result<Vec<usize>, FindingState> {
    list(NOHZ_FULL, &look.optional(NOHZ_FULL)?.unwrap_or_default())
}

pub(super) fn rcu_nocbs(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    // A thread rcuop/N or rcuos/N calls the callbacks of CPU N.
    let of = |task: &Task| {
        let mut stems = ["rcuop/", "rcuos/", "rcuob/"].iter();
        stems.find_map(|stem| task.number(stem))
    };
    let threads = look.kernel_threads(|task| of(task).is_some())?;
    let with_thread: Vec<usize> = threads.into_iter().filter_map(of).collect();
    let seen = if with_thread.is_empty() {
        Seen::Nothing
    } else {
        Seen::OfCpus(with_thread.clone())
    };
    look.seen(threads_of(RCU_THREADS), seen);
    let lacks = lacking(cpus, &offloaded(look, with_thread)?);
    if lacks.is_empty() {
        ok()
    } else {
        bad(Fault::Lacks(lacks))
            .boot(format!("rcu_nocbs={}", cpu_list(cpus)))
            .end()
    }
}

/// The CPUs whose callbacks are offloaded, of those that have a thread for it: from Linux 5.17 on
/// every CPU has one as soon as one is offloaded ("rcu/nocb: Create kthreads on all CPUs if
/// "rcu_nocbs=" or "nohz_full=" are passed").
fn offloaded(look: &mut Look<'_>, with_thread: Vec<usize>) -> Result<Vec<usize>, FindingState> {
    let given = look.parameter("rcu_nocbs")?;
    // The kernel offloads those without a tick by itself.
    let mut named = tickless(look)?;
    match given {
        Some(value) if value.eq_ignore_ascii_case("all") => return Ok(with_thread),
        // The threads are there without being requested: CONFIG_RCU_NOCB_CPU_DEFAULT_ALL=y.
        None if named.is_empty() => return Ok(with_thread),
        None => {}
        // Without a list the threads are made for later: no CPU is offloaded.
        Some(value) => {
            let possible = possible(look)?;
            let parameter = CpuParameter::parse("rcu_nocbs", value);
            let parameter = parameter.on(&possible, look.machine.version);
            // `rcu_nocb_setup` in kernel/rcu/tree_nocb.h: "bad CPU range, all CPUs set".
            if parameter.is_refused && look.version()? >= Version(5, 4) {
                return Ok(with_thread);
            }
            named.extend(Look::parsed("/proc/cmdline", parameter.cpus)?);
        }
    }
    Ok(shared(&with_thread, &named))
}

/// The names of threads that call offloaded callbacks.
const RCU_THREADS: &[&str] = &["rcuo*/N"];

/// Threads that call offloaded callbacks, to be moved away.
pub(super) fn rcu_threads(look: &mut Look<'_>) -> Looked {
    let machine = look.machine;
    let cpus = look.real_time_cpus()?;
    let is_rcu = |task: &Task| task.name.starts_with("rcuo") && task.name.contains('/');
    let threads = look.kernel_threads(is_rcu)?;
    if threads.is_empty() {
        look.seen(threads_of(RCU_THREADS), Seen::Nothing);
        return without(no_threads(RCU_THREADS));
    }
    look.online()?;
    let housekeeping = machine.housekeeping();
    let mut found = Vec::new();
    let mut fixes = Vec::new();
    for task in threads {
        let Some(allowed) = task.allowed(machine.root)? else {
            continue;
        };
        if shared(cpus, &allowed).is_empty() {
            continue;
        }
        found.push(Item::ThreadOn {
            thread: task.name.clone(),
            cpus: cpu_list(&allowed),
        });
        if !housekeeping.is_empty() {
            fixes.push(FindingFix::Affinity {
                thread: task.name.clone(),
                tid: task.tid,
                cpus: housekeeping.clone(),
            });
        }
    }
    let seen = on_cpus(found.len(), false, cpus);
    look.seen(threads_of(RCU_THREADS), seen);
    if found.is_empty() {
        return ok();
    }
    let outcome = bad(present(found));
    if fixes.is_empty() {
        outcome.by_hand().end()
    } else {
        fixes.into_iter().fold(outcome, Outcome::fix).end()
    }
}

pub(super) fn nohz_patience(look: &mut Look<'_>) -> Looked {
    if look.parameter("nohz_full")?.is_none() {
        return not_applicable(NotApplicable::NotRequested("nohz_full=".to_owned()));
    }
    look.require_version(Version(6, 11))?;
    let path = "/sys/module/rcutree/parameters/nohz_full_patience_delay";
    if look.number(path)? > 0 {
        ok()
    } else {
        information_that(Fault::Below(1))
            .boot("rcutree.nohz_full_patience_delay=1000")
            .end()
    }
}

/// A mask of CPUs that should not include those for real-time work.
pub(super) fn masked(look: &mut Look<'_>, path: &str, parameter: Option<&str>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let text = look.feature(path)?;
    let now = Look::parsed(path, mask::parse(&text))?;
    let included = shared(cpus, &now);
    if included.is_empty() {
        return ok();
    }
    look.online()?;
    let housekeeping = look.machine.housekeeping();
    let outcome = bad(Fault::Includes(included.clone()));
    if housekeeping.is_empty() {
        return outcome.by_hand().end();
    }
    let mut outcome = outcome.write(path, cpu_mask(&housekeeping));
    if let Some(name) = parameter {
        // `irq_affinity_setup` in kernel/irq/irqdesc.c always adds the CPU that it boots on.
        if included.iter().any(|cpu| *cpu != BOOT_CPU) {
            outcome = outcome.boot(format!("{name}={}", cpu_list(&housekeeping)));
        }
        if included.contains(&BOOT_CPU) {
            outcome = outcome.by_hand();
        }
    }
    outcome.end()
}

/// Workers of a CPU's own queues can't be moved: who queues the work can be found by tracing.
pub(super) fn bound_kworkers(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let is_bound = |task: &Task| {
        let cpu = task.name.strip_prefix("kworker/");
        let cpu = cpu.and_then(|rest| decimal(rest.split(':').next()?));
        cpu.is_some_and(|cpu| cpus.contains(&cpu))
    };
    let threads = look.kernel_threads(is_bound)?;
    let seen = Seen::Count(threads.len() as u64);
    look.seen(threads_of(&["kworker/N:*"]), seen);
    if threads.is_empty() {
        return information().end();
    }
    let found = threads.iter().map(|task| &task.name);
    information_that(present(found)).by_hand().end()
}

pub(super) fn vmstat_interval(look: &mut Look<'_>) -> Looked {
    let path = "/proc/sys/vm/stat_interval";
    let interval = look.number(path)?;
    // `vmstat_shepherd` in mm/vmstat.c leaves alone what `cpu_is_isolated`.
    let leaves_isolated = look.version().is_ok_and(|it| it >= Version(6, 5));
    if interval < 10
        && leaves_isolated
        && let Ok(cpus) = look.real_time_cpus()
    {
        let mut isolated = list(BY_KERNEL, &look.required(BY_KERNEL)?)?;
        isolated.extend(tickless(look)?);
        // `cpuset_cpu_is_isolated` was added to it.
        if look.version()? >= Version(6, 8) {
            let by_group = look.optional(BY_GROUPS)?.unwrap_or_default();
            isolated.extend(list(BY_GROUPS, &by_group)?);
        }
        if lacking(cpus, &isolated).is_empty() {
            return ok();
        }
    }
    if interval < 10 {
        bad(Fault::Below(10)).write(path, 10).end()
    } else {
        ok()
    }
}

/// TuneD turns it off and OpenShift on, both with a reason.
pub(super) fn timer_migration(look: &mut Look<'_>) -> Looked {
    let path = "/proc/sys/kernel/timer_migration";
    let now = look.number(path)?;
    information().write(path, i64::from(now == 0)).end()
}

pub(super) fn receive_steering(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let devices = look.directory("/sys/class/net")?;
    look.online()?;
    let mut masks = vec!["/proc/sys/net/core/rps_default_mask".to_owned()];
    for device in devices.iter().take(1024) {
        let queues = format!("/sys/class/net/{device}/queues");
        let names = look.machine.root.names(&queues).unwrap_or_default();
        masks.extend(names.iter().take(1024).map(|queue| {
            let kind = if queue.starts_with("rx-") {
                "rps_cpus"
            } else {
                "xps_cpus"
            };
            format!("{queues}/{queue}/{kind}")
        }));
    }
    let housekeeping = cpu_mask(&look.machine.housekeeping());
    let mut outcome = bad(Fault::Includes(Vec::new()));
    let mut included = Vec::new();
    let mut read = 0;
    for path in masks {
        // Absent before Linux 6.3, and for a device with one queue.
        let Some(text) = look.optional_unshown(&path)? else {
            continue;
        };
        read += 1;
        let here = shared(cpus, &Look::parsed(&path, mask::parse(&text))?);
        if !here.is_empty() {
            look.saw(path.clone(), &text);
            included.extend(here);
            outcome = outcome.write(&path, &housekeeping);
        }
    }
    if included.is_empty() {
        let seen = none_on_cpus(read, Elsewhere::Masks, cpus);
        look.seen("/sys/class/net/*/queues/*/{rps,xps}_cpus", seen);
        return ok();
    }
    included.sort_unstable();
    included.dedup();
    outcome.state = FindingState::Bad {
        fault: Fault::Includes(included),
    };
    outcome.end()
}

pub(super) fn watchdog_mask(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let watchdog = look.feature("/proc/sys/kernel/watchdog")?;
    let path = "/proc/sys/kernel/watchdog_cpumask";
    let now = list(path, &look.feature(path)?)?;
    let included = shared(cpus, &now);
    if watchdog == "0" || included.is_empty() {
        return ok();
    }
    look.online()?;
    let housekeeping = look.machine.housekeeping();
    let outcome = bad(Fault::Includes(included));
    if housekeeping.is_empty() {
        outcome.by_hand().end()
    } else {
        outcome.write(path, cpu_list(&housekeeping)).end()
    }
}

/// The CPUs on which the kernel puts no new threads of its own: what shows them in force decides.
pub(super) fn kthread_cpus(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    // A patch of Ubuntu's kernels (which have this file) and of StarlingX's: mainline ignores it.
    let signature = look.machine.root.text("/proc/version_signature");
    let has_parameter = signature.is_ok_and(|text| text.starts_with("Ubuntu "));
    let by_parameter = look.parameter("nohz_full")?.is_some();
    // Before Linux 6.13 the flag `nohz` of `isolcpus=` stops the tick alone.
    let mut free = match by_parameter || look.version()? >= Version(6, 13) {
        true => tickless(look)?,
        false => Vec::new(),
    };
    // `kthread_fetch_affinity` in kernel/kthread.c: from Linux 7.0 on it keeps off those of isolated
    // partitions.
    if look.version()? >= Version(7, 0) {
        let by_group = look.optional(BY_GROUPS)?.unwrap_or_default();
        free.extend(list(BY_GROUPS, &by_group)?);
    }
    // Isolated from balancing, which puts no new thread there.
    for (name, value) in look.values(&["isolcpus"])? {
        let requested = CpuParameter::parse(name, value);
        if requested.files.contains(&"isolated") {
            let isolated = list(BY_KERNEL, &look.required(BY_KERNEL)?)?;
            free.extend(match &requested.cpus {
                Some(named) => shared(&isolated, named),
                None => isolated,
            });
        }
    }
    if has_parameter && let Some(value) = look.parameter("kthread_cpus")? {
        let named = CpuParameter::parse("kthread_cpus", value).cpus;
        free.extend(lacking(cpus, &Look::parsed("/proc/cmdline", named)?));
    }
    let included = lacking(cpus, &free);
    if included.is_empty() {
        return ok();
    }
    look.online()?;
    let housekeeping = look.machine.housekeeping();
    if housekeeping.is_empty() {
        return not_applicable(NotApplicable::FewCpus);
    }
    let outcome = bad(Fault::Includes(included.clone()));
    let mut outcome = boot_with_nohz_full(look, outcome, &included);
    if !has_parameter {
        return outcome.end();
    }
    // This frees the CPU that it boots on, too.
    outcome.fixes.retain(|fix| *fix != FindingFix::ByHand);
    outcome
        .boot(format!("kthread_cpus={}", cpu_list(&housekeeping)))
        .end()
}

/// Programs that may run on CPUs for real-time work and on others: they were not put there.
pub(super) fn user_threads(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    look.online()?;
    let housekeeping = look.machine.housekeeping();
    let root = look.machine.root;
    let own = std::process::id();
    let mut found = Vec::new();
    for task in look.threads()? {
        if task.is_of_kernel || (root.is_live() && task.process == own) {
            continue;
        }
        let Some(allowed) = task.allowed(root)? else {
            continue;
        };
        if !shared(cpus, &allowed).is_empty() && !shared(&housekeeping, &allowed).is_empty() {
            found.push(task.name.clone());
        }
    }
    found.sort_unstable();
    found.dedup();
    let seen = on_cpus(found.len(), true, cpus);
    look.seen("/proc/*/task/*/status", seen);
    if found.is_empty() {
        ok()
    } else {
        bad(present(found)).by_hand().end()
    }
}

pub(super) fn systemd_slices(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    if !look.machine.root.exists("/run/systemd/system") {
        look.saw_none("/run/systemd/system");
        return without("/run/systemd/system");
    }
    look.required("/sys/fs/cgroup/cgroup.controllers")?;
    let mut included = Vec::new();
    for slice in ["init.scope", "system.slice", "user.slice"] {
        let path = format!("/sys/fs/cgroup/{slice}/cpuset.cpus.effective");
        // Without the cpuset controller the slice has all CPUs.
        let Some(text) = look.optional(&path)? else {
            included.extend_from_slice(cpus);
            continue;
        };
        included.extend(shared(cpus, &list(&path, &text)?));
    }
    included.sort_unstable();
    included.dedup();
    if included.is_empty() {
        ok()
    } else {
        bad(Fault::Includes(included)).by_hand().end()
    }
}
