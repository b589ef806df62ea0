//! How the kernel was built and booted.

use punctual_record::finding::{
    Countable, FindingState, Item, ItemKind, NotApplicable, Portion, Seen, Unknown,
};

use super::isolation::{list, nohz_off};
use crate::isolated::BY_KERNEL;
use crate::kernel_log;
use crate::look::{
    Look, Looked, bad, chosen, expected, information, information_that, lost, missing,
    not_applicable, ok, part, present, unknown, without,
};
use crate::mask;
use crate::parameter::{CpuParameter, boolean};
use crate::version::Version;

pub(super) fn rt_kernel(look: &mut Look<'_>) -> Looked {
    look.optional("/sys/kernel/realtime")?;
    if look.is_real_time()? {
        return ok();
    }
    look.required("/proc/sys/kernel/version")?;
    bad(missing("PREEMPT_RT")).by_hand().end()
}

pub(super) fn preempt_mode(look: &mut Look<'_>) -> Looked {
    if look.is_real_time()? {
        return not_applicable(NotApplicable::RealTimeKernel);
    }
    let path = "/sys/kernel/debug/sched/preempt";
    // In parentheses: `none voluntary (full) lazy`.
    let running = match look.mounted(path, "debugfs", "/sys/kernel/debug") {
        Ok(Some(text)) => {
            let mut words = text.split_whitespace();
            let mode = words.find_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
            Some(Look::parsed(path, mode)?.to_owned())
        }
        Ok(None) => None,
        // What was booted is in force, unless the kernel could have been told otherwise since.
        Err(why) => match look.option("PREEMPT_DYNAMIC") {
            Ok(false) => None,
            Ok(true) => {
                look.parameter("preempt")?;
                configured_preemption(look)?;
                return Err(why);
            }
            Err(_) => return Err(why),
        },
    };
    let is_running = running.is_some();
    let mode = match running {
        Some(mode) => mode,
        None => configured_preemption(look)?.to_owned(),
    };
    if mode == "full" {
        return ok();
    }
    let outcome = bad(expected(&["full"]));
    if is_running {
        outcome.write(path, "full").boot("preempt=full")
    } else {
        outcome.by_hand()
    }
    .end()
}

/// The model that the kernel was built with.
fn configured_preemption(look: &mut Look<'_>) -> Result<&'static str, FindingState> {
    let (option, model) = look
        .config()?
        .preemption()
        .unwrap_or(("PREEMPT_NONE", "none"));
    look.option(option)?;
    Ok(model)
}

pub(super) fn threadirqs(look: &mut Look<'_>) -> Looked {
    if look.is_real_time()? {
        return not_applicable(NotApplicable::RealTimeKernel);
    }
    match look.parameter("threadirqs")? {
        Some(_) => ok(),
        None => bad(missing("threadirqs")).boot("threadirqs").end(),
    }
}

pub(super) fn kernel_config(look: &mut Look<'_>) -> Looked {
    let source = look.config()?.source.clone();
    look.seen(source, Seen::Readable);
    ok()
}

pub(super) fn high_resolution(look: &mut Look<'_>) -> Looked {
    let path = "/proc/timer_list";
    // The list is for root alone.
    if let Ok(timers) = look.machine.root.text(path) {
        let value = |line: &str| {
            let value = line.trim().strip_prefix(".hres_active")?;
            Some(value.trim_start_matches([' ', ':']).to_owned())
        };
        let active: Vec<String> = timers.lines().filter_map(value).collect();
        if !active.is_empty() {
            let inactive = active.iter().filter(|value| *value != "1").count();
            let high = active.len() - inactive;
            let of = Some(Portion::HighResolutionCpus);
            look.seen(path, part(high, active.len(), of));
            return if inactive > 0 {
                bad(missing("hres_active: 1")).by_hand().end()
            } else {
                ok()
            };
        }
    }
    if !look.option("HIGH_RES_TIMERS")? {
        return bad(expected(&["CONFIG_HIGH_RES_TIMERS=y"])).by_hand().end();
    }
    let given = look.parameter("highres")?;
    match given.filter(|word| boolean(word, look.machine.version) == Some(false)) {
        Some(word) => bad(present([format!("highres={word}")])).by_hand().end(),
        None => ok(),
    }
}

/// A boot parameter that the kernel ignores because it was built without what it needs.
pub(super) fn support(look: &mut Look<'_>, parameter: &str, option: &str) -> Looked {
    if look.parameter(parameter)?.is_none() {
        return not_applicable(NotApplicable::NotRequested(format!("{parameter}=")));
    }
    if look.option(option)? {
        ok()
    } else {
        bad(missing(format!("CONFIG_{option}=y"))).by_hand().end()
    }
}

const DEBUG_OPTIONS: &[&str] = &[
    "LOCKDEP",
    "PROVE_LOCKING",
    "KASAN",
    "KCSAN",
    "KMSAN",
    "UBSAN",
    "DEBUG_PREEMPT",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_OBJECTS",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "DEBUG_KMEMLEAK",
    "SLUB_DEBUG_ON",
    "RCU_EQS_DEBUG",
    "LATENCYTOP",
    "DEBUG_ATOMIC_SLEEP",
];

pub(super) fn debug_options(look: &mut Look<'_>) -> Looked {
    let config = look.config()?;
    let set: Vec<String> = DEBUG_OPTIONS
        .iter()
        .filter(|option| config.is_set(option))
        .map(|option| format!("CONFIG_{option}"))
        .collect();
    let seen = part(set.len(), DEBUG_OPTIONS.len(), Some(Portion::SetOptions));
    look.seen(&config.source, seen);
    if set.is_empty() {
        ok()
    } else {
        bad(present(set)).by_hand().end()
    }
}

pub(super) fn tracing(look: &mut Look<'_>) -> Looked {
    let has_tracer = |folder: &&str| {
        let path = format!("{folder}/current_tracer");
        look.machine.root.exists(&path)
    };
    let folder = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .find(has_tracer)
        .unwrap_or("/sys/kernel/tracing");
    let path = format!("{folder}/current_tracer");
    let tracer = match look.mounted(&path, "tracefs", "/sys/kernel/tracing") {
        Ok(Some(tracer)) => tracer,
        Ok(None) => return without(path),
        Err(why) => return without_option(look, "FTRACE", why),
    };
    let events = format!("{folder}/set_event");
    let enabled = look.unshown(&events)?;
    let enabled: Vec<String> = enabled.lines().map(str::to_owned).collect();
    let seen = Seen::CountOf {
        count: enabled.len() as u64,
        of: Countable::EnabledEvents,
    };
    look.seen(events, seen);
    let outcome = if tracer != "nop" {
        bad(expected(&["nop"])).write(&path, "nop")
    } else if enabled.is_empty() {
        return ok();
    } else {
        bad(present(enabled.clone()))
    };
    if enabled.is_empty() {
        outcome.end()
    } else {
        outcome.write(&format!("{folder}/set_event"), "").end()
    }
}

/// Not applicable to a kernel that was built without an option; else the reason given.
fn without_option(look: &mut Look<'_>, option: &str, why: FindingState) -> Looked {
    match look.option(option) {
        Ok(false) => without(format!("CONFIG_{option}")),
        Ok(true) | Err(_) => Err(why),
    }
}

/// Parameters that real-time guides name: what resembles one of them and is none is misspelt.
pub const PARAMETERS: &[&str] = &[
    "isolcpus",
    "nohz_full",
    "nohz",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "irqaffinity",
    "kthread_cpus",
    "threadirqs",
    "preempt",
    "skew_tick",
    "nosoftlockup",
    "nowatchdog",
    "nmi_watchdog",
    "mitigations",
    "idle",
    "tsc",
    "clocksource",
    "hpet",
    "mce",
    "efi",
    "nosmt",
    "audit",
    "intel_pstate",
    "amd_pstate",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "rcutree.kthread_prio",
    "rcupdate.rcu_normal_after_boot",
    "rcutree.nohz_full_patience_delay",
    "cpufreq.default_governor",
    "transparent_hugepage",
    "numa_balancing",
    "split_lock_detect",
    "randomize_kstack_offset",
    "workqueue.power_efficient",
    "pcie_aspm",
    "pcie_aspm.policy",
    "nvme_core.default_ps_max_latency_us",
    "rt_group_sched",
    "cpuidle.off",
    "acpi_irq_nobalance",
    "noirqbalance",
];

pub(super) fn unknown_parameter(look: &mut Look<'_>) -> Looked {
    let given = look.parameters()?;
    let name_of = |word: &str| word.split('=').next().unwrap_or(word).replace('-', "_");
    let unknown = kernel_log::unknown_parameters(look.machine.root);
    let unknown: Option<Vec<String>> =
        unknown.map(|words| words.iter().map(|word| name_of(word)).collect());
    let misspelt = given.iter().filter_map(|word| {
        let name = name_of(word);
        let is_unknown = unknown.as_ref().map(|unknown| unknown.contains(&name));
        if PARAMETERS.contains(&name.as_str()) {
            // Of real-time work, and not of this kernel.
            return (is_unknown == Some(true)).then(|| Item::NotInKernel {
                parameter: word.clone(),
            });
        }
        // One that the kernel knows is no other one misspelt.
        if is_unknown == Some(false) {
            return None;
        }
        let close = PARAMETERS.iter().find(|known| is_near(&name, known))?;
        Some(Item::Misspelt {
            parameter: word.clone(),
            known: (*close).to_owned(),
        })
    });
    let misspelt: Vec<Item> = misspelt.collect();
    let seen = Seen::Parameters {
        count: given.len() as u64,
        faulty: misspelt.len() as u64,
    };
    look.seen("/proc/cmdline", seen);
    if let Some(unknown) = unknown {
        look.saw(kernel_log::QUESTION, &unknown.join(" "));
    }
    if misspelt.is_empty() {
        ok()
    } else {
        bad(present(misspelt)).by_hand().end()
    }
}

/// Whether a word is a known one with a letter changed, lacking or added.
fn is_near(word: &str, known: &str) -> bool {
    // Short words resemble each other.
    if known.len() < 6 || word.len().abs_diff(known.len()) > 1 || word == known {
        return false;
    }
    let (word, known) = (word.as_bytes(), known.as_bytes());
    let same = |(a, b): &(&u8, &u8)| a == b;
    let front = word.iter().zip(known).take_while(same).count();
    let back = word[front..].iter().rev();
    let back = back
        .zip(known[front..].iter().rev())
        .take_while(same)
        .count();
    word.len().max(known.len()) - front - back <= 1
}

/// Whether a file of `/sys/devices/system/cpu` lacks an online one of these CPUs.
fn is_missing(look: &mut Look<'_>, file: &str, cpus: &[usize]) -> Result<bool, FindingState> {
    let path = format!("/sys/devices/system/cpu/{file}");
    // Without CONFIG_NO_HZ_FULL there is no such file, and nothing is in force.
    let text = match look.optional(BY_KERNEL)? {
        Some(isolated) if path == BY_KERNEL => isolated,
        Some(_) => look.optional(&path)?.unwrap_or_default(),
        None => return lost(path),
    };
    let in_force = list(&path, &text)?;
    let online = look.online()?;
    let lacks = |cpu: &usize| !in_force.contains(cpu) && online.contains(cpu);
    Ok(cpus.iter().any(lacks))
}

/// What the kernel says is in force, beside what was asked for at boot.
pub(super) fn parameter_not_in_force(look: &mut Look<'_>) -> Looked {
    let names = ["isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"];
    let given = look.values(&names)?;
    let texts: Vec<String> = given.iter().map(|(_, text)| (*text).to_owned()).collect();
    let possible = match given.is_empty() {
        true => Vec::new(),
        false => possible(look)?,
    };
    let version = look.machine.version;
    let parse = |(name, value): (&'static str, &str)| {
        let parameter = CpuParameter::parse(name, value);
        (name, parameter.on(&possible, version))
    };
    let given: Vec<(&str, CpuParameter)> = given.into_iter().map(parse).collect();
    // Threads show the CPUs of `rcu_nocbs=`: another finding.
    let requested = || given.iter().filter(|(name, _)| *name != "rcu_nocbs");
    let (mut contradicted, mut unread) = (Vec::new(), None);
    let is_tickless = |(_, it): &(&str, CpuParameter)| it.files.contains(&"nohz_full");
    let keeps_ticks = requested().any(is_tickless) && nohz_off(look)?.is_some();
    for (name, parameter) in requested() {
        if parameter.is_refused {
            contradicted.push((*name).into());
        }
        let Some(cpus) = &parameter.cpus else {
            continue;
        };
        // A list that names no CPU of this machine changes nothing. One may be offline.
        let online = look.online()?;
        let mut lacks = !cpus.iter().any(|cpu| possible.contains(cpu));
        lacks |= keeps_ticks && parameter.files.contains(&"nohz_full");
        for file in &parameter.files {
            lacks |= is_missing(look, file, cpus)?;
        }
        if *name == "irqaffinity" {
            // The kernel adds the CPU that it boots on.
            let path = "/proc/irq/default_smp_affinity";
            let is_there = |cpu: &usize| *cpu != 0 && online.contains(cpu) && !cpus.contains(cpu);
            let mask = look.required(path);
            match mask.and_then(|text| Look::parsed(path, mask::parse(&text))) {
                Ok(mask) => lacks |= mask.iter().any(is_there),
                // What is contradicted is bad all the same.
                Err(why) => unread = Some(why),
            }
        }
        if lacks {
            contradicted.push((*name).into());
        }
    }
    for (at, (name, parameter)) in given.iter().enumerate() {
        for (before, (earlier, other)) in given[..at].iter().enumerate() {
            // The last list of those that set no CPUs apart counts.
            // The same text twice is one request, also where only the kernel understands it.
            if name == earlier && texts[at] == texts[before] {
                continue;
            }
            let is_replaced = name == earlier && !matches!(*name, "isolcpus" | "nohz_full");
            // One that is refused sets nothing.
            if !is_replaced && (parameter.is_refused || other.is_refused) {
                continue;
            }
            if !is_replaced && !parameter.must_match(other, version) {
                continue;
            }
            match (&parameter.cpus, &other.cpus) {
                (Some(one), Some(two)) if is_equal(name, one, two, &possible) => {}
                (Some(_), Some(_)) if name == earlier => contradicted.push(Item::Repeated {
                    parameter: (*name).to_owned(),
                }),
                (Some(_), Some(_)) => contradicted.push((*name).into()),
                _ => unread = Some(not_understood()),
            }
        }
    }
    for other in ["isolcpus", "nohz_full"] {
        let apart = |(name, it): &&(&str, CpuParameter)| *name == other && !it.files.is_empty();
        let has_one_of = |cpus: &Vec<usize>, (_, it): &(&str, CpuParameter)| {
            it.cpus.iter().flatten().any(|cpu| cpus.contains(cpu))
        };
        let irqs = given.iter().filter(|(name, _)| *name == "irqaffinity");
        let mut irqs = irqs.filter_map(|(_, it)| it.cpus.as_ref());
        if irqs.any(|irqs| given.iter().filter(apart).any(|it| has_one_of(irqs, it))) {
            contradicted.push(Item::SharesCpus {
                parameter: "irqaffinity".to_owned(),
                other: other.to_owned(),
            });
        }
    }
    let mut different: Vec<Item> = Vec::new();
    for item in contradicted {
        if !different.contains(&item) {
            different.push(item);
        }
    }
    if !different.is_empty() {
        bad(present(different)).by_hand().end()
    } else if let Some(why) = unread {
        Err(why)
    } else if requested().any(|(_, it)| it.cpus.is_none() && !it.is_refused) {
        Err(not_understood())
    } else if requested().any(|(_, it)| it.is_unshown()) {
        unknown(Unknown::NotShown("isolcpus=managed_irq".to_owned()))
    } else if requested().next().is_none() {
        not_applicable(NotApplicable::NotRequested(
            "isolcpus=, nohz_full=, irqaffinity=".to_owned(),
        ))
    } else {
        ok()
    }
}

fn not_understood() -> FindingState {
    let why = Unknown::NotUnderstood("/proc/cmdline".to_owned());
    FindingState::Unknown { why }
}

/// The CPUs that the machine can have.
pub(super) fn possible(look: &mut Look<'_>) -> Result<Vec<usize>, FindingState> {
    let path = "/sys/devices/system/cpu/possible";
    match look.optional(path)? {
        Some(text) => list(path, &text),
        None => Ok(look.machine.online.clone()),
    }
}

/// Whether two lists of a parameter are the same for the kernel.
fn is_equal(name: &str, one: &[usize], other: &[usize], possible: &[usize]) -> bool {
    // `irqaffinity=` always has the CPU that the kernel boots on, and no mask one that can't be:
    // `housekeeping_setup` compares what is left of the possible ones.
    let is_added = |cpu: &usize| name == "irqaffinity" && *cpu == 0;
    let can_be = |cpu: &usize| possible.is_empty() || possible.contains(cpu);
    let counts = |cpu: &&usize| can_be(cpu) && !is_added(cpu);
    one.iter().filter(counts).eq(other.iter().filter(counts))
}

pub(super) fn lockdown(look: &mut Look<'_>) -> Looked {
    let path = "/sys/kernel/security/lockdown";
    let text = match look.mounted(path, "securityfs", "/sys/kernel/security") {
        Ok(Some(text)) => text,
        Ok(None) => return without(path),
        Err(why) => return without_option(look, "SECURITY_LOCKDOWN_LSM", why),
    };
    match Look::parsed(path, chosen(&text))? {
        "none" => ok(),
        _ => information_that(expected(&["none"])).by_hand().end(),
    }
}

pub(super) fn mitigations(look: &mut Look<'_>) -> Looked {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let mut active = 0;
    let names = look.directory(folder)?;
    let parameter = look.parameter("mitigations");
    for name in names.iter().take(48) {
        let path = format!("{folder}/{name}");
        let text = look.unshown(&path)?;
        if text.starts_with("Mitigation") {
            look.saw(path, &text);
            active += 1;
        }
    }
    let of = Countable::ActiveMitigations;
    look.seen(folder, Seen::CountOf { count: active, of });
    parameter.map(|_| information())
}

/// Where the kernel's stack is moved by a random offset at each system call, arm64 and riscv take the offset
/// from the random number generator (`invoke_syscall` in arch/arm64/kernel/syscall.c, `do_trap_ecall_u` in
/// arch/riscv/kernel/traps.c); others take it from a clock.
pub(super) fn stack_offset(look: &mut Look<'_>) -> Looked {
    if !look.option("ARM64")? && !look.option("RISCV")? {
        return not_applicable(NotApplicable::Architecture);
    }
    let by_default = look.option("RANDOMIZE_KSTACK_OFFSET_DEFAULT")?;
    let given = look.parameter("randomize_kstack_offset")?;
    if !given
        .and_then(|word| boolean(word, look.machine.version))
        .unwrap_or(by_default)
    {
        return ok();
    }
    let fault = present(["randomize_kstack_offset"]);
    // A patch after 7.0 takes it from a generator of a few instructions ("Fix bugs and performance of kstack
    // offset randomisation", linux-arm-kernel, March 2026); which version has it is not known here.
    let outcome = match look.version()? > Version(7, 0) {
        true => information_that(fault),
        false => bad(fault),
    };
    outcome.boot("randomize_kstack_offset=off").end()
}

/// Versions with known defects for real-time work.
pub(super) fn kernel_version(look: &mut Look<'_>) -> Looked {
    look.required("/proc/sys/kernel/osrelease")?;
    let version = look.version()?;
    let oldest = Version(5, 10);
    if version < oldest {
        return bad(missing(Item::LinuxFrom(oldest.to_string())))
            .by_hand()
            .end();
    }
    let has_nohz_full = look.parameter("nohz_full")?.is_some();
    if version >= Version(6, 12) && has_nohz_full {
        // The fair server's timer ticks on CPUs without a tick: NVIDIA/NV-Kernels#400.
        return information_that(present([ItemKind::FairServerTimer])).end();
    }
    ok()
}

pub(super) fn dual_kernel(look: &mut Look<'_>) -> Looked {
    let xenomai = look.optional("/proc/xenomai/version")?;
    let is_evl = look.machine.root.exists("/dev/evl/control")
        || look.machine.root.exists("/sys/devices/virtual/evl");
    let place = "/sys/devices/virtual/evl";
    if is_evl {
        look.seen(place, Seen::Present);
    } else {
        look.saw_none(place);
    }
    match (xenomai, is_evl) {
        (Some(version), _) => information_that(present([Item::Cobalt(version)])).end(),
        (None, true) => information_that(present(["EVL"])).end(),
        (None, false) => without("/proc/xenomai"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_with_one_wrong_letter_is_near() {
        for (word, known) in [
            ("rcu_nocb", "rcu_nocbs"),
            ("isolcpu", "isolcpus"),
            ("isolcpuss", "isolcpus"),
            ("nohz_fill", "nohz_full"),
        ] {
            assert!(is_near(word, known), "{word}");
        }
        for (word, known) in [
            ("isolcpus", "isolcpus"),
            ("quiet", "idle"),
            ("nohz", "nohz_full"),
        ] {
            assert!(!is_near(word, known), "{word}");
        }
    }
}
