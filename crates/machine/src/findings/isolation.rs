//! Whether the CPUs for real-time work are left alone.

use punctual_record::finding::{Fault, FindingFix, FindingState, NotApplicable, Unknown};
use punctual_record::remedy::is_managed;
use punctual_record::{cpu_list, cpu_mask};
use punctual_rt::cpulist;

use crate::look::{
    Look, Looked, Outcome, bad, information, information_that, not_applicable, ok, unknown,
};
use crate::mask;
use crate::root::decimal;
use crate::tasks::Task;
use crate::version::Version;

/// Those of `cpus` that `others` lacks.
fn lacking(cpus: &[usize], others: &[usize]) -> Vec<usize> {
    let lacking = cpus.iter().filter(|cpu| !others.contains(cpu));
    lacking.copied().collect()
}

/// Those of `cpus` that are also in `others`.
fn shared(cpus: &[usize], others: &[usize]) -> Vec<usize> {
    let shared = cpus.iter().filter(|cpu| others.contains(cpu));
    shared.copied().collect()
}

fn list(path: &str, text: &str) -> Result<Vec<usize>, FindingState> {
    // A kernel without a list prints `(null)`.
    let text = if text == "(null)" { "" } else { text };
    Look::parsed(path, cpulist::numbers(text).ok())
}

pub(super) fn isolated_cpus(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let path = "/sys/devices/system/cpu/isolated";
    let isolated = list(path, &look.required(path)?)?;
    let group = "/sys/fs/cgroup/cpuset.cpus.isolated";
    let by_group = look.optional(group)?.unwrap_or_default();
    let by_group = list(group, &by_group)?;
    let lacks = lacking(&lacking(cpus, &isolated), &by_group);
    if lacks.is_empty() {
        ok()
    } else {
        bad(Fault::Lacks(lacks))
            .boot(format!("isolcpus=managed_irq,domain,{}", cpu_list(cpus)))
            .end()
    }
}

pub(super) fn nohz_full(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let path = "/sys/devices/system/cpu/nohz_full";
    let Some(text) = look.optional(path)? else {
        // The file beside it is there on every kernel, this one with the option alone.
        look.required("/sys/devices/system/cpu/isolated")?;
        return bad(Fault::Missing(vec!["CONFIG_NO_HZ_FULL=y".to_owned()]))
            .by_hand()
            .end();
    };
    let lacks = lacking(cpus, &list(path, &text)?);
    if lacks.is_empty() {
        ok()
    } else {
        bad(Fault::Lacks(lacks))
            .boot(format!("nohz_full={}", cpu_list(cpus)))
            .end()
    }
}

pub(super) fn rcu_nocbs(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    // A thread rcuop/N or rcuos/N calls the callbacks of CPU N.
    let of = |task: &Task| {
        let mut stems = ["rcuop/", "rcuos/", "rcuob/"].iter();
        stems.find_map(|stem| task.number(stem))
    };
    let threads = look.kernel_threads(|task| of(task).is_some())?;
    let offloaded: Vec<usize> = threads.into_iter().filter_map(of).collect();
    let seen = if offloaded.is_empty() {
        "none".to_owned()
    } else {
        format!("of CPUs {}", cpu_list(&offloaded))
    };
    look.saw("threads rcuo*/N", &seen);
    look.parameter("rcu_nocbs")?;
    let lacks = lacking(cpus, &offloaded);
    if lacks.is_empty() {
        ok()
    } else {
        bad(Fault::Lacks(lacks))
            .boot(format!("rcu_nocbs={}", cpu_list(cpus)))
            .end()
    }
}

/// Threads that call offloaded callbacks, to be moved away.
pub(super) fn rcu_threads(look: &mut Look<'_>) -> Looked {
    let machine = look.machine;
    let cpus = look.real_time_cpus()?;
    let is_rcu = |task: &Task| task.name.starts_with("rcuo") && task.name.contains('/');
    let threads = look.kernel_threads(is_rcu)?;
    let what = "threads rcuo*/N";
    if threads.is_empty() {
        look.saw(what, "none");
        return not_applicable(NotApplicable::Absent(what.to_owned()));
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
        found.push(format!("{} ({})", task.name, cpu_list(&allowed)));
        if !housekeeping.is_empty() {
            fixes.push(FindingFix::Affinity {
                thread: task.name.clone(),
                tid: task.tid,
                cpus: housekeeping.clone(),
            });
        }
    }
    look.saw(what, &format!("{} on CPUs {}", found.len(), cpu_list(cpus)));
    if found.is_empty() {
        return ok();
    }
    let outcome = bad(Fault::Present(found));
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
    let outcome = bad(Fault::Includes(included));
    if housekeeping.is_empty() {
        return outcome.by_hand().end();
    }
    let outcome = outcome.write(path, cpu_mask(&housekeeping));
    match parameter {
        Some(name) => outcome.boot(format!("{name}={}", cpu_list(&housekeeping))),
        None => outcome,
    }
    .end()
}

/// Interrupts that are delivered to CPUs for real-time work. The managed ones are of queues of
/// virtio and nvme, and can't be moved.
pub(super) fn irq_affinity(look: &mut Look<'_>, managed: bool) -> Looked {
    let cpus = look.real_time_cpus()?;
    let root = look.machine.root;
    look.directory("/proc/irq")?;
    look.online()?;
    let housekeeping = look.machine.housekeeping();
    let mut found = Vec::new();
    let mut outcome = bad(Fault::Present(Vec::new()));
    let mut interrupts = 0;
    for irq in root.numbered("/proc/irq", "") {
        let folder = format!("/proc/irq/{irq}");
        let is_action = |name: &String| root.names(&format!("{folder}/{name}")).is_ok();
        let mut actions = root.names(&folder).unwrap_or_default();
        actions.retain(is_action);
        // An interrupt that nobody has requested is not delivered.
        if actions.is_empty() || has_managed(&actions) != managed {
            continue;
        }
        let effective = format!("{folder}/effective_affinity_list");
        let affinity = format!("{folder}/smp_affinity_list");
        let path = if root.exists(&effective) {
            &effective
        } else {
            &affinity
        };
        // One that was given up meanwhile is none.
        if !root.exists(path) && !root.exists(&folder) {
            continue;
        }
        interrupts += 1;
        let text = look.unshown(path)?;
        // One that came in spite of its mask is there too.
        let sample = look.machine.sample.as_ref();
        let came = sample.map(|sample| sample.interrupts(irq, cpus));
        if shared(cpus, &list(path, &text)?).is_empty() && came.unwrap_or(0) == 0 {
            continue;
        }
        look.saw(path.clone(), &text);
        let name = format!("{irq} {}", actions.join(" "));
        found.push(match sample.zip(came) {
            None => name,
            Some((sample, came)) => format!("{name} ({came} times in {} ms)", sample.length_ms),
        });
        if !managed && !housekeeping.is_empty() {
            outcome = outcome.write(&affinity, cpu_list(&housekeeping));
        }
    }
    if found.is_empty() {
        let kind = if managed {
            "managed interrupts"
        } else {
            "interrupts"
        };
        look.saw(
            "/proc/irq/*/effective_affinity_list",
            &format!("{interrupts} {kind}, none on CPUs {}", cpu_list(cpus)),
        );
        return match (interrupts, managed) {
            (0, true) => not_applicable(NotApplicable::Absent("a managed interrupt".to_owned())),
            // Every machine has one: these are masked.
            (0, false) => unknown(Unknown::Absent("/proc/irq/N/smp_affinity_list".to_owned())),
            _ => ok(),
        };
    }
    outcome.state = FindingState::Bad {
        fault: Fault::Present(found),
    };
    if managed {
        outcome = outcome.boot(format!("isolcpus=managed_irq,domain,{}", cpu_list(cpus)));
    }
    if outcome.fixes.is_empty() {
        outcome = outcome.by_hand();
    }
    outcome.end()
}

fn has_managed(actions: &[String]) -> bool {
    actions.iter().any(|name| is_managed(name))
}

pub(super) fn irqbalance(look: &mut Look<'_>) -> Looked {
    let cpus = look.machine.cpus.clone();
    if look.programs(&["irqbalance"])?.is_empty() {
        return ok();
    }
    let mut banned = None;
    for path in ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"] {
        let Some(text) = look.optional_unshown(path)? else {
            continue;
        };
        let is_ban = |line: &&str| line.trim().starts_with("IRQBALANCE_BANNED_CPU");
        if let Some(line) = text.lines().find(is_ban) {
            look.saw(path, line);
            let value = line.trim().strip_prefix("IRQBALANCE_BANNED_CPULIST=");
            let cpus = value.and_then(|it| cpulist::numbers(it.trim_matches(['"', '\''])).ok());
            banned = Some(Look::parsed(path, cpus)?);
        }
    }
    let banned = match banned {
        Some(banned) => banned,
        // irqbalance(1): it leaves isolated CPUs and those without a tick alone by default.
        None => {
            let mut left_alone = Vec::new();
            for name in ["isolated", "nohz_full"] {
                let path = format!("/sys/devices/system/cpu/{name}");
                let text = look.optional(&path)?.unwrap_or_default();
                left_alone.extend(list(&path, &text)?);
            }
            left_alone
        }
    };
    if !cpus.is_empty() && lacking(&cpus, &banned).is_empty() {
        return ok();
    }
    bad(Fault::Present(vec!["irqbalance".to_owned()]))
        .by_hand()
        .end()
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
    look.saw("threads kworker/N:*", &threads.len().to_string());
    if threads.is_empty() {
        return information().end();
    }
    let found = threads.iter().map(|task| task.name.clone()).collect();
    information_that(Fault::Present(found)).by_hand().end()
}

pub(super) fn vmstat_interval(look: &mut Look<'_>) -> Looked {
    let path = "/proc/sys/vm/stat_interval";
    if look.number(path)? < 10 {
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
        let seen = format!("{read} masks, none with CPUs {}", cpu_list(cpus));
        look.saw("/sys/class/net/*/queues/*/{rps,xps}_cpus", &seen);
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

pub(super) fn kthread_cpus(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    // A patch of Ubuntu's kernels (which have this file) and of StarlingX's: mainline ignores it.
    let signature = look.machine.root.text("/proc/version_signature");
    let has_parameter = signature.is_ok_and(|text| text.starts_with("Ubuntu "));
    if look.parameter("nohz_full")?.is_some() {
        return ok();
    }
    if has_parameter && look.parameter("kthread_cpus")?.is_some() {
        return ok();
    }
    // Isolated from balancing, unless other flags alone are given.
    if let Some(value) = look.parameter("isolcpus")? {
        let first = value.split(',').next().unwrap_or_default();
        let is_list = first.starts_with(|c: char| c.is_ascii_digit()) || first == "all";
        if is_list || value.split(',').any(|word| word == "domain") {
            return ok();
        }
    }
    look.online()?;
    let housekeeping = look.machine.housekeeping();
    if housekeeping.is_empty() {
        return not_applicable(NotApplicable::FewCpus);
    }
    let outcome = bad(Fault::Includes(cpus.to_vec())).boot(format!("nohz_full={}", cpu_list(cpus)));
    if !has_parameter {
        return outcome.end();
    }
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
    look.saw(
        "/proc/*/task/*/status",
        &format!("{} programs on CPUs {}", found.len(), cpu_list(cpus)),
    );
    if found.is_empty() {
        ok()
    } else {
        bad(Fault::Present(found)).by_hand().end()
    }
}

pub(super) fn systemd_slices(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    if !look.machine.root.exists("/run/systemd/system") {
        look.saw_none("/run/systemd/system");
        return not_applicable(NotApplicable::Absent("/run/systemd/system".to_owned()));
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

pub(super) fn smt_siblings(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let active = look.optional("/sys/devices/system/cpu/smt/active")?;
    if active.as_deref() == Some("0") {
        return ok();
    }
    let pattern = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list";
    let mut siblings = Vec::new();
    for (cpu, text) in look.per_cpu(pattern, cpus)? {
        let path = pattern.replacen("{}", &cpu.to_string(), 1);
        siblings.extend(list(&path, &text)?.into_iter().filter(|it| *it != cpu));
    }
    siblings.sort_unstable();
    siblings.dedup();
    let described = |cpus: &[usize]| cpus.iter().map(|cpu| format!("CPU {cpu}")).collect();
    let others = lacking(&siblings, cpus);
    if siblings.is_empty() {
        return ok();
    }
    if others.is_empty() {
        // They disturb each other alone.
        return information_that(Fault::Present(described(&siblings)))
            .boot("nosmt")
            .end();
    }
    let off = |outcome: Outcome, cpu: &usize| {
        outcome.write(&format!("/sys/devices/system/cpu/cpu{cpu}/online"), 0)
    };
    let outcome = bad(Fault::Present(described(&others)));
    others.iter().fold(outcome, off).boot("nosmt").end()
}

pub(super) fn resctrl(look: &mut Look<'_>) -> Looked {
    let cpuinfo = look.unshown("/proc/cpuinfo")?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let flags = flags.unwrap_or_default().split_whitespace();
    let wanted = ["cat_l3", "cat_l2", "mba"];
    let has: Vec<&str> = flags.filter(|flag| wanted.contains(flag)).collect();
    if has.is_empty() {
        look.saw("/proc/cpuinfo", "no cat_l3, cat_l2, mba");
        return not_applicable(NotApplicable::Absent("cat_l3".to_owned()));
    }
    look.saw("/proc/cpuinfo", &has.join(" "));
    match look.optional("/sys/fs/resctrl/schemata")? {
        Some(_) => ok(),
        None => information_that(Fault::Missing(vec!["/sys/fs/resctrl".to_owned()]))
            .by_hand()
            .end(),
    }
}

pub(super) fn numa(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let folder = "/sys/devices/system/node";
    look.directory(folder)?;
    let nodes = look.machine.root.numbered(folder, "node");
    if nodes.len() < 2 {
        look.saw(folder, &format!("{} nodes", nodes.len()));
        return not_applicable(NotApplicable::Absent("a second NUMA node".to_owned()));
    }
    let mut used = Vec::new();
    for node in nodes {
        let path = format!("{folder}/node{node}/cpulist");
        let here = list(&path, &look.required(&path)?)?;
        if !shared(cpus, &here).is_empty() {
            used.push(node.to_string());
        }
    }
    let own = match &used[..] {
        [] => return unknown(Unknown::NotUnderstood(folder.to_owned())),
        [own] => own,
        _ => {
            let several = used.iter().map(|node| format!("node {node}")).collect();
            return bad(Fault::Present(several)).by_hand().end();
        }
    };
    let mut far = Vec::new();
    for device in look
        .machine
        .root
        .names("/sys/class/net")
        .unwrap_or_default()
    {
        let path = format!("/sys/class/net/{device}/device/numa_node");
        // Absent for a device without hardware.
        if let Some(node) = look.optional_unshown(&path)?
            && node != "-1"
            && node != *own
        {
            look.saw(path, &node);
            far.push(format!("{device} (node {node})"));
        }
    }
    if far.is_empty() {
        ok()
    } else {
        bad(Fault::Present(far)).by_hand().end()
    }
}
