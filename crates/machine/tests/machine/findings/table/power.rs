use punctual_record::finding::{Fault, FindingFix, FindingId as Id, Item, ItemKind, StateKind};

use super::scheduler::GOVERNORS;
use super::{Case, Step, bad, expected, information, kernels, present, program};
use crate::findings::tree::Policy;
use Step::File;

const CMDLINE: &str = "/proc/cmdline";

/// The same text in a file of each of the four CPUs.
macro_rules! of_cpus {
    ($before:literal, $after:literal, $text:literal) => {
        [
            File(concat!($before, "0", $after), $text),
            File(concat!($before, "1", $after), $text),
            File(concat!($before, "2", $after), $text),
            File(concat!($before, "3", $after), $text),
        ]
        .into_iter()
    };
}

pub fn cases() -> Vec<Case> {
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let policy = "/sys/module/pcie_aspm/parameters/policy";
    let pci = "/sys/bus/pci/devices/0000:00:02.0/power/control";
    let usb = "/sys/bus/usb/devices/1-1/power/control";
    let uncore = "/sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/min_freq_khz";
    let frequency = "/sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq";
    let preference = "/sys/devices/system/cpu/cpu3/cpufreq/energy_performance_preference";
    let bias = "/sys/devices/system/cpu/cpu0/power/energy_perf_bias";
    let throttled = "/sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count";
    let interval = "/sys/devices/system/machinecheck/machinecheck0/check_interval";
    let deep = "/sys/devices/system/cpu/cpu3/cpuidle/state0/disable";
    vec![
        bad(
            Id::Governor,
            GOVERNORS.map(|path| File(path, "performance\n")).into(),
            vec![File(GOVERNORS[2], "powersave\n")],
            expected(&["performance"]),
        )
        .write(GOVERNORS[2], "performance"),
        bad(
            Id::EnergyPreference,
            of_cpus!(
                "/sys/devices/system/cpu/cpu",
                "/cpufreq/energy_performance_preference",
                "performance\n"
            )
            .collect(),
            vec![File(preference, "balance_power\n")],
            expected(&["performance"]),
        )
        .write(preference, "performance"),
        bad(
            Id::EnergyPreference,
            of_cpus!(
                "/sys/devices/system/cpu/cpu",
                "/power/energy_perf_bias",
                "0\n"
            )
            .collect(),
            vec![File(bias, "6\n")],
            expected(&["0"]),
        )
        .write(bias, "0"),
        bad(
            Id::FrequencyRange,
            of_cpus!(
                "/sys/devices/system/cpu/cpu",
                "/cpufreq/scaling_min_freq",
                "3600000\n"
            )
            .chain(of_cpus!(
                "/sys/devices/system/cpu/cpu",
                "/cpufreq/scaling_max_freq",
                "3600000\n"
            ))
            .collect(),
            vec![File(frequency, "800000\n")],
            Fault::Unequal,
        )
        .write(frequency, "3600000"),
        bad(
            Id::Uncore,
            vec![
                File(uncore, "2400000\n"),
                File(
                    "/sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/max_freq_khz",
                    "2400000\n",
                ),
            ],
            vec![File(uncore, "1200000\n")],
            Fault::Unequal,
        )
        .write(uncore, "2400000"),
        bad(
            Id::IdleStates,
            vec![
                File("/sys/devices/system/cpu/cpu2/cpuidle/state0/name", "C6\n"),
                File(
                    "/sys/devices/system/cpu/cpu2/cpuidle/state0/latency",
                    "150\n",
                ),
                File("/sys/devices/system/cpu/cpu2/cpuidle/state0/disable", "1\n"),
                File(
                    "/sys/devices/system/cpu/cpu3/cpuidle/state0/latency",
                    "150\n",
                ),
                File(deep, "1\n"),
            ],
            vec![File(deep, "0\n")],
            present(&[Item::IdleState {
                name: "C6".to_owned(),
                exit_us: 150,
            }]),
        )
        .fix(FindingFix::HoldDmaLatency { limit_us: 0 }),
        information(
            Id::IdleStates,
            vec![
                File("/sys/devices/system/cpu/cpu2/cpuidle/state0/name", "POLL\n"),
                File("/sys/devices/system/cpu/cpu2/cpuidle/state0/latency", "0\n"),
                File("/sys/devices/system/cpu/cpu2/cpuidle/state0/disable", "0\n"),
                File("/sys/devices/system/cpu/cpu3/cpuidle/state0/latency", "0\n"),
                File(deep, "0\n"),
            ],
            vec![File(
                "/sys/devices/system/cpu/cpuidle/current_driver",
                "haltpoll\n",
            )],
            present(&["haltpoll"]),
        )
        .fix(FindingFix::HoldDmaLatency { limit_us: 0 }),
        bad(
            Id::Clocksource,
            vec![
                File(clock, "tsc\n"),
                File(
                    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
                    "tsc hpet acpi_pm\n",
                ),
            ],
            vec![File(clock, "hpet\n")],
            expected(&["tsc"]),
        )
        .write(clock, "tsc"),
        bad(
            Id::Clockevent,
            vec![File(
                "/sys/devices/system/clockevents/clockevent0/current_device",
                "lapic-deadline\n",
            )],
            vec![File(
                "/sys/devices/system/clockevents/clockevent0/current_device",
                "hpet\n",
            )],
            present(&[Item::ClockEvent {
                number: 0,
                device: "hpet".to_owned(),
            }]),
        )
        .by_hand(),
        bad(
            Id::EfiRuntime,
            vec![
                File("/sys/firmware/efi/", ""),
                File(CMDLINE, "efi=noruntime"),
            ],
            vec![File(CMDLINE, "efi=runtime")],
            present(&["efi=runtime"]),
        )
        .boot("efi=noruntime"),
        information(
            Id::FirmwareUpdates,
            vec![],
            vec![program("fwupd")],
            present(&["fwupd"]),
        )
        .by_hand(),
        bad(
            Id::MachineCheckPolling,
            of_cpus!(
                "/sys/devices/system/machinecheck/machinecheck",
                "/check_interval",
                "0\n"
            )
            .collect(),
            vec![File(interval, "300\n")],
            expected(&["0"]),
        )
        .write(interval, "0"),
        bad(
            Id::Aspm,
            vec![
                File(policy, "default [performance] powersave\n"),
                File("/sys/bus/pci/devices/0000:00:1c.0/link/l1_aspm", "1\n"),
            ],
            vec![File(policy, "[default] performance powersave\n")],
            expected(&["performance"]),
        )
        .write(policy, "performance"),
        bad(
            Id::DeviceRuntimePm,
            vec![
                File("/sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n"),
                File(pci, "on\n"),
            ],
            vec![File(pci, "auto\n")],
            expected(&["on"]),
        )
        .write(pci, "on"),
        bad(
            Id::NvmePower,
            vec![File(NVME, "0\n")],
            vec![File(NVME, "100000\n")],
            expected(&["0"]),
        )
        .boot("nvme_core.default_ps_max_latency_us=0"),
        information(
            Id::UsbAutosuspend,
            vec![File(usb, "on\n"), File("/sys/bus/usb/devices/1-1:1.0/", "")],
            vec![File(usb, "auto\n")],
            expected(&["on"]),
        )
        .write(usb, "on"),
        information(
            Id::ThermalThrottling,
            of_cpus!(
                "/sys/devices/system/cpu/cpu",
                "/thermal_throttle/core_throttle_count",
                "0\n"
            )
            .collect(),
            vec![File(throttled, "7\n")],
            expected(&["0"]),
        )
        .by_hand(),
        information(
            Id::ThermalThrottling,
            of_cpus!(
                "/sys/devices/system/cpu/cpu",
                "/thermal_throttle/core_throttle_count",
                "0\n"
            )
            .collect(),
            vec![kernels(80, "idle_inject/0", Policy::Fifo(50), "0")],
            present(&["idle_inject/0"]),
        )
        .by_hand(),
        bad(
            Id::Hypervisor,
            vec![File("/proc/cpuinfo", "flags : fpu tsc\n")],
            vec![
                File("/proc/cpuinfo", "flags : fpu hypervisor\n"),
                File("/sys/class/dmi/id/product_name", "KVM\n"),
            ],
            present(&["KVM"]),
        )
        .by_hand(),
        bad(
            Id::Hypervisor,
            vec![File("/proc/cpuinfo", "Features : fp asimd\n")],
            vec![File("/proc/device-tree/hypervisor/", "")],
            present(&[ItemKind::Hypervisor]),
        )
        .starts(StateKind::Unknown)
        .by_hand(),
        information(
            Id::ClockSteps,
            vec![],
            vec![program("chronyd")],
            present(&["chronyd"]),
        )
        .by_hand(),
    ]
}

const NVME: &str = "/sys/module/nvme_core/parameters/default_ps_max_latency_us";
