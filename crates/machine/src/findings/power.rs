//! Power management, clocks and firmware.

use punctual_record::finding::{
    Countable, Counted, Fault, FindingFix, FindingState, Item, ItemKind, NotApplicable, Seen,
    Unknown,
};

use crate::look::{
    Look, Looked, Outcome, bad, chosen, expected, information, information_that, not_applicable,
    ok, present, unknown, without,
};
use crate::version::Version;

const CPU: &str = "/sys/devices/system/cpu/cpu{}";

pub(super) fn governor(look: &mut Look<'_>) -> Looked {
    let pattern = format!("{CPU}/cpufreq/scaling_governor");
    let governors = look.per_online_cpu(&pattern)?;
    let mut outcome = bad(expected(&["performance"]));
    let mut lacks_it = false;
    for (cpu, _) in governors.iter().filter(|(_, name)| name != "performance") {
        let of = |file: &str| format!("{CPU}/cpufreq/{file}").replacen("{}", &cpu.to_string(), 1);
        // `store_scaling_governor` in drivers/cpufreq/cpufreq.c refuses one that isn't there, unless it
        // can load its module, which no file shows.
        let available = look.optional_unshown(&of("scaling_available_governors"))?;
        match available.filter(|all| !all.split_whitespace().any(|name| name == "performance")) {
            Some(others) => {
                look.saw(of("scaling_available_governors"), &others);
                lacks_it = true;
            }
            None => outcome = outcome.write(&of("scaling_governor"), "performance"),
        }
    }
    if lacks_it {
        outcome.by_hand().end()
    } else if outcome.fixes.is_empty() {
        ok()
    } else {
        outcome.end()
    }
}

/// Ok where all CPUs have a good value; else each other one is to be set to `value`.
fn each(
    pattern: &str,
    values: &[(usize, String)],
    value: &str,
    is_good: impl Fn(&str) -> bool,
) -> Looked {
    let mut outcome = bad(expected(&[value]));
    for (cpu, now) in values {
        if !is_good(now) {
            outcome = outcome.write(&pattern.replacen("{}", &cpu.to_string(), 1), value);
        }
    }
    if outcome.fixes.is_empty() {
        ok()
    } else {
        outcome.end()
    }
}

pub(super) fn energy_preference(look: &mut Look<'_>) -> Looked {
    let pattern = format!("{CPU}/cpufreq/energy_performance_preference");
    match look.per_online_cpu(&pattern) {
        Ok(values) => each(&pattern, &values, "performance", |now| {
            matches!(now, "performance" | "0")
        }),
        Err(FindingState::NotApplicable { .. }) => {
            let pattern = format!("{CPU}/power/energy_perf_bias");
            let values = look.per_online_cpu(&pattern)?;
            each(&pattern, &values, "0", |now| {
                matches!(now, "0" | "performance")
            })
        }
        Err(state) => Err(state),
    }
}

pub(super) fn frequency_range(look: &mut Look<'_>) -> Looked {
    let lowest = format!("{CPU}/cpufreq/scaling_min_freq");
    let highest = format!("{CPU}/cpufreq/scaling_max_freq");
    let least = look.per_online_cpu(&lowest)?;
    let most = look.per_online_cpu(&highest)?;
    for path in [
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "/sys/devices/system/cpu/cpufreq/boost",
    ] {
        look.optional(path)?;
    }
    let mut outcome = bad(Fault::Unequal);
    for ((cpu, least), (_, most)) in least.iter().zip(&most) {
        if least != most {
            outcome = outcome.write(&lowest.replacen("{}", &cpu.to_string(), 1), most);
        }
    }
    if outcome.fixes.is_empty() {
        ok()
    } else {
        outcome.end()
    }
}

pub(super) fn pstate_driver(look: &mut Look<'_>) -> Looked {
    let intel = look.optional("/sys/devices/system/cpu/intel_pstate/status")?;
    let amd = look.optional("/sys/devices/system/cpu/amd_pstate/status")?;
    if intel.is_none() && amd.is_none() {
        return without("/sys/devices/system/cpu/intel_pstate");
    }
    information().end()
}

pub(super) fn uncore(look: &mut Look<'_>) -> Looked {
    let folder = "/sys/devices/system/cpu/intel_uncore_frequency";
    let mut names = look.directory(folder)?;
    names.retain(|name| name.contains("die") || name.starts_with("uncore"));
    if names.is_empty() {
        return without(format!("{folder}/*"));
    }
    let mut outcome = bad(Fault::Unequal);
    for name in names.iter().take(64) {
        let path = format!("{folder}/{name}/min_freq_khz");
        let least = look.required(&path)?;
        let most = look.required(&format!("{folder}/{name}/max_freq_khz"))?;
        if least != most {
            outcome = outcome.write(&path, most);
        }
    }
    if outcome.fixes.is_empty() {
        ok()
    } else {
        outcome.end()
    }
}

/// An idle state with a longer exit than this may miss a deadline.
const LONGEST_EXIT_US: u64 = 10;

pub(super) fn idle_states(look: &mut Look<'_>) -> Looked {
    let cpus = if look.machine.cpus.is_empty() {
        look.online()?
    } else {
        &look.machine.cpus
    };
    let first = cpus.first().copied().unwrap_or(0);
    let folder = format!("/sys/devices/system/cpu/cpu{first}/cpuidle");
    look.directory(&folder)?;
    let states = look.machine.root.numbered(&folder, "state");
    if states.is_empty() {
        return without(format!("{folder}/state*"));
    }
    let driver = look.optional("/sys/devices/system/cpu/cpuidle/current_driver")?;
    let mut slow = Vec::new();
    let mut fixes = Vec::new();
    for state in states.into_iter().take(16) {
        let of = |file: &str| format!("{CPU}/cpuidle/state{state}/{file}");
        let name = look.unshown(&format!("{folder}/state{state}/name"))?;
        let latencies = look.per_cpu(&of("latency"), cpus)?;
        let disabled = look.per_cpu(&of("disable"), cpus)?;
        for ((cpu, latency), (_, disabled)) in latencies.iter().zip(&disabled) {
            let latency: u64 = Look::parsed(&of("latency"), latency.parse().ok())?;
            if latency > LONGEST_EXIT_US && disabled == "0" {
                let item = Item::IdleState {
                    name: name.clone(),
                    exit_us: latency,
                };
                if !slow.contains(&item) {
                    slow.push(item);
                }
                fixes.push((of("disable").replacen("{}", &cpu.to_string(), 1), 1));
            }
        }
    }
    let hold = FindingFix::HoldDmaLatency { limit_us: 0 };
    if slow.is_empty() {
        return match driver.as_deref() {
            // It states 1 µs, but halting leaves to the host.
            Some("haltpoll") => information_that(present(["haltpoll"])).fix(hold).end(),
            _ => ok(),
        };
    }
    let outcome = bad(present(slow)).fix(hold);
    let write = |outcome: Outcome, (path, value): (String, i32)| outcome.write(&path, value);
    fixes.into_iter().fold(outcome, write).end()
}

/// 0 means no constraint, and `n/a` that no idle state is allowed at all.
pub(super) fn resume_latency(look: &mut Look<'_>) -> Looked {
    let pattern = format!("{CPU}/power/pm_qos_resume_latency_us");
    look.per_online_cpu(&pattern)?;
    information().end()
}

pub(super) fn clocksource(look: &mut Look<'_>) -> Looked {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let path = format!("{folder}/current_clocksource");
    let current = look.required(&path)?;
    let available = look.required(&format!("{folder}/available_clocksource"))?;
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
    // Read in some ten ns.
    let fast = [
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
        "xen",
        "riscv_clocksource",
        "timebase",
        "tod",
    ];
    if fast.contains(&current.as_str()) {
        return ok();
    }
    Look::parsed(&path, slow.contains(&current.as_str()).then_some(()))?;
    let better = ["tsc", "arch_sys_counter", "kvm-clock"]
        .into_iter()
        .find(|name| available.split_whitespace().any(|word| word == *name));
    match better {
        Some(name) => bad(expected(&[name])).write(&path, name),
        // The kernel found the TSC unstable: only its user can say that it was wrong.
        None => bad(expected(&["tsc"])).by_hand(),
    }
    .end()
}

pub(super) fn clockevent(look: &mut Look<'_>) -> Looked {
    let folder = "/sys/devices/system/clockevents";
    look.directory(folder)?;
    let devices = look.machine.root.numbered(folder, "clockevent");
    let pattern = format!("{folder}/clockevent{{}}/current_device");
    let slow: Vec<Item> = look
        .per_cpu(&pattern, &devices)?
        .into_iter()
        .filter(|(_, name)| matches!(name.as_str(), "hpet" | "pit" | "bc_hrtimer"))
        .map(|(number, device)| Item::ClockEvent { number, device })
        .collect();
    if slow.is_empty() {
        ok()
    } else {
        bad(present(slow)).by_hand().end()
    }
}

/// A counter of system management interrupts says something only over a time.
pub(super) fn smi(look: &mut Look<'_>) -> Looked {
    let marks = ["/sys/module/x86_pkg_temp_thermal", "/sys/class/dmi"];
    if !marks.iter().any(|mark| look.machine.root.exists(mark)) {
        return not_applicable(NotApplicable::Architecture);
    }
    let source = "MSR_SMI_COUNT";
    let Some(sample) = &look.machine.sample else {
        look.seen(source, Seen::NotCounted);
        return information().by_hand().end();
    };
    let Some(times) = sample.smis else {
        look.seen(source, Seen::NoRegisters);
        return unknown(Unknown::Unreadable(source.to_owned()));
    };
    let within_ms = sample.length_ms;
    look.seen(source, Seen::Counted(Counted { times, within_ms }));
    match times {
        0 => ok(),
        _ => bad(Fault::Above(0)).by_hand().end(),
    }
}

pub(super) fn efi_runtime(look: &mut Look<'_>) -> Looked {
    look.directory("/sys/firmware/efi")?;
    // `parse_efi_cmdline` in drivers/firmware/efi/efi.c: each counts, and in one the word `runtime` is
    // looked for last.
    let mut runs = None;
    for (name, value) in look.values(&["efi", "noefi"])? {
        let has = |name: &str| value.split(',').any(|word| word == name);
        match name {
            "noefi" => runs = Some(false),
            _ if has("runtime") => runs = Some(true),
            _ if has("noruntime") => runs = Some(false),
            _ => {}
        }
    }
    // The configuration of PREEMPT_RT turns the services off unless it is told otherwise; before that option
    // (2022) its kernel does.
    let is_off_by_itself = look.version()? < Version(6, 1) && look.is_real_time()?;
    match runs {
        Some(false) => ok(),
        Some(true) => bad(present(["efi=runtime"])).boot("efi=noruntime").end(),
        None if is_off_by_itself || look.option("EFI_DISABLE_RUNTIME")? => ok(),
        None => information().boot("efi=noruntime").end(),
    }
}

pub(super) fn machine_check_polling(look: &mut Look<'_>) -> Looked {
    let pattern = "/sys/devices/system/machinecheck/machinecheck{}/check_interval";
    let values = look.per_online_cpu(pattern)?;
    // `mce_start_timer` in arch/x86/kernel/cpu/mce/core.c: then it polls for none.
    let ignores = "/sys/devices/system/machinecheck/machinecheck0/ignore_ce";
    if look.optional(ignores)?.as_deref() == Some("1") {
        return ok();
    }
    each(pattern, &values, "0", |value| value == "0")
}

pub(super) fn aspm(look: &mut Look<'_>) -> Looked {
    let path = "/sys/module/pcie_aspm/parameters/policy";
    let text = look.feature(path)?;
    // kernel-parameters.txt: then the kernel leaves what the firmware configured as it is, and no link
    // has a file. `pcie_aspm_disable` in drivers/pci/pcie/aspm.c: a later word changes nothing.
    let given = look.values(&["pcie_aspm"]);
    let is_off = |given: &Vec<(&str, &str)>| given.contains(&("pcie_aspm", "off"));
    if given.as_ref().is_ok_and(is_off) {
        return unknown(Unknown::NotShown("ASPM".to_owned()));
    }
    // From Linux 5.5 on a link that can be managed has files of its own. Without PCI Express, or where
    // the firmware keeps it to itself, the kernel takes a policy and does nothing with it.
    let bus = "/sys/bus/pci/devices";
    if look.require_version(Version(5, 5)).is_ok() {
        let root = look.machine.root;
        let is_managed = |device: &String| {
            let states = ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm"];
            let file = |state| format!("{bus}/{device}/link/{state}");
            states.into_iter().any(|state| root.exists(&file(state)))
        };
        let devices = root.names(bus).unwrap_or_default();
        if !devices.iter().take(1024).any(is_managed) {
            given?;
            let none = format!("{bus}/*/link/*_aspm");
            look.saw_none(none.clone());
            return without(none);
        }
    }
    match Look::parsed(path, chosen(&text))? {
        "performance" => ok(),
        "default" | "powersave" | "powersupersave" => bad(expected(&["performance"]))
            .write(path, "performance")
            .boot("pcie_aspm.policy=performance")
            .end(),
        _ => unknown(Unknown::NotUnderstood(path.to_owned())),
    }
}

/// Whether runtime power management of a PCI device of one of these classes is on.
pub(super) fn device_runtime_pm(look: &mut Look<'_>) -> Looked {
    // Network 0x02, display 0x03, USB host 0x0c03.
    let matters = |look: &mut Look<'_>, folder: &str| {
        let class = look.optional_unshown(&format!("{folder}/class"))?;
        let prefixes = ["0x02", "0x03", "0x0c03"];
        Ok(class.is_some_and(|class| prefixes.iter().any(|prefix| class.starts_with(prefix))))
    };
    power_control(look, "/sys/bus/pci/devices", bad, matters)
}

/// The devices of a bus that may suspend.
fn power_control(
    look: &mut Look<'_>,
    bus: &str,
    outcome: impl Fn(Fault) -> Outcome,
    matters: impl Fn(&mut Look<'_>, &str) -> Result<bool, FindingState>,
) -> Looked {
    let mut outcome = outcome(expected(&["on"]));
    let mut read = 0;
    for device in look.directory(bus)?.iter().take(1024) {
        let folder = format!("{bus}/{device}");
        if !matters(look, &folder)? {
            continue;
        }
        let path = format!("{folder}/power/control");
        // Absent without CONFIG_PM, and of a device that was just removed.
        if let Some(text) = look.optional_unshown(&path)? {
            read += 1;
            if text != "on" {
                look.saw(path.clone(), &text);
                outcome = outcome.write(&path, "on");
            }
        }
    }
    if read == 0 {
        let none = format!("{bus}/*/power/control");
        look.saw_none(none.clone());
        return without(none);
    }
    if outcome.fixes.is_empty() {
        let of = Countable::DevicesOn;
        look.seen(bus, Seen::CountOf { count: read, of });
        ok()
    } else {
        outcome.end()
    }
}

pub(super) fn nvme_power(look: &mut Look<'_>) -> Looked {
    let path = "/sys/module/nvme_core/parameters/default_ps_max_latency_us";
    if look.number(path)? == 0 {
        ok()
    } else {
        bad(expected(&["0"]))
            .boot("nvme_core.default_ps_max_latency_us=0")
            .end()
    }
}

pub(super) fn usb_autosuspend(look: &mut Look<'_>) -> Looked {
    // `1-1:1.0` is an interface of the device `1-1`.
    let is_device = |_: &mut Look<'_>, folder: &str| Ok(!folder.contains(':'));
    power_control(look, "/sys/bus/usb/devices", information_that, is_device)
}

pub(super) fn thermal_throttling(look: &mut Look<'_>) -> Looked {
    let pattern = format!("{CPU}/thermal_throttle/core_throttle_count");
    let counts = look.per_online_cpu(&pattern)?;
    let injectors = look.kernel_threads(|task| task.name.starts_with("idle_inject"))?;
    let injectors: Vec<String> = injectors.iter().map(|task| task.name.clone()).collect();
    if counts.iter().any(|(_, count)| count != "0") {
        // Since the machine was started: when, is not known.
        information_that(expected(&["0"])).by_hand().end()
    } else if injectors.is_empty() {
        ok()
    } else {
        information_that(present(injectors)).by_hand().end()
    }
}

pub(super) fn hypervisor(look: &mut Look<'_>) -> Looked {
    let path = "/proc/cpuinfo";
    let cpuinfo = look.unshown(path)?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let has_flag = flags.map(|line| line.split_whitespace().any(|it| it == "hypervisor"));
    if let Some(set) = has_flag {
        let name = "hypervisor".to_owned();
        look.seen(path, Seen::Flag { name, set });
    }
    let kind = look.optional("/sys/hypervisor/type")?;
    let by_devicetree = look.machine.root.exists("/proc/device-tree/hypervisor");
    if has_flag == Some(true) || by_devicetree || kind.is_some_and(|kind| kind != "none") {
        let product = look.optional("/sys/class/dmi/id/product_name")?;
        let product = product.map_or(Item::Kind(ItemKind::Hypervisor), Item::Name);
        return bad(present([product])).by_hand().end();
    }
    match has_flag {
        Some(_) => ok(),
        // Processors other than x86 have no such flag.
        None => unknown(Unknown::NotUnderstood(path.to_owned())),
    }
}

/// Programs that may set the clock, and with it timers of CLOCK_REALTIME.
pub(super) const CLOCK_PROGRAMS: &[&str] = &[
    "chronyd",
    "ntpd",
    "systemd-timesyn",
    "ptp4l",
    "phc2sys",
    "openntpd",
];
