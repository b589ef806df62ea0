//! Power, clocks, firmware.

use super::FindingText;

pub(super) const GOVERNOR: FindingText = FindingText {
    title: "Frequency governor",
    why: "A governor other than performance lowers the clock of an idle CPU; a wake-up \
          then runs slowly.",
    by_hand: "modprobe cpufreq_performance, or use a kernel with CONFIG_CPU_FREQ_GOV_PERFORMANCE=y",
    source: "rtcqs, realTimeConfigQuickScan, TuneD, OpenShift, rt-conf",
};

pub(super) const ENERGY_PREFERENCE: FindingText = FindingText {
    title: "Energy preference",
    why: "The processor itself prefers energy to speed, as for the governor.",
    by_hand: "",
    source: "TuneD, OpenShift",
};

pub(super) const FREQUENCY_RANGE: FindingText = FindingText {
    title: "Range of frequencies",
    why: "A change of frequency stops a core for 10 to 50 µs.",
    by_hand: "",
    source: "rt-conf, OpenShift",
};

pub(super) const PSTATE_DRIVER: FindingText = FindingText {
    title: "P-state driver",
    why: "Which one decides which settings there are.",
    by_hand: "",
    source: "TuneD, OpenShift",
};

pub(super) const UNCORE: FindingText = FindingText {
    title: "Uncore frequency",
    why: "With a changing frequency of the memory controller the latency of memory \
          varies.",
    by_hand: "",
    source: "TuneD, pepc",
};

pub(super) const IDLE_STATES: FindingText = FindingText {
    title: "Idle states",
    why: "Leaving a deep idle state takes up to 250 µs.",
    by_hand: "",
    source: "TuneD, OpenShift, rtcqs, pepc",
};

pub(super) const RESUME_LATENCY: FindingText = FindingText {
    title: "Resume latency of each CPU",
    why: "0 means no limit, and n/a that no idle state is allowed.",
    by_hand: "",
    source: "kernel documentation; measured",
};

pub(super) const CLOCKSOURCE: FindingText = FindingText {
    title: "Clock source",
    why: "Reading hpet or acpi_pm takes 0.5 to 4 µs, and readers wait for each other.",
    by_hand: "find out why the TSC was found unstable (kernel log); tsc=reliable only if \
              it is",
    source: "TuneD, OpenShift",
};

pub(super) const CLOCKEVENT: FindingText = FindingText {
    title: "Timer device",
    why: "A timer that all CPUs share, or that broadcasts, is slow.",
    by_hand: "find out why the local APIC timer is not used (kernel log)",
    source: "kernel documentation",
};

pub(super) const SMI: FindingText = FindingText {
    title: "System management interrupts",
    why: "Firmware takes all CPUs for milliseconds, and no tracer sees it.",
    by_hand: "punctual measure hardware -D 10m counts the gaps; turn off USB legacy \
              support, TCO and thermal SMIs in the firmware",
    source: "hwlatdetect, MinnowBoard#99",
};

pub(super) const EFI_RUNTIME: FindingText = FindingText {
    title: "EFI runtime services",
    why: "They run with preemption disabled, for milliseconds.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const FIRMWARE_UPDATES: FindingText = FindingText {
    title: "Firmware updates",
    why: "fwupd's checks cause SMIs.",
    by_hand: "systemctl disable --now fwupd-refresh.timer fwupd",
    source: "OpenShift",
};

pub(super) const MACHINE_CHECK_POLLING: FindingText = FindingText {
    title: "Polling of machine checks",
    why: "A timer on each CPU reads the machine check banks.",
    by_hand: "",
    source: "TuneD, OpenShift",
};

pub(super) const ASPM: FindingText = FindingText {
    title: "Power management of PCIe links",
    why: "Leaving a link's low-power state takes 1 to 100 µs. With pcie_aspm=off the kernel leaves \
          what the firmware configured as it is: turn it off there.",
    by_hand: "",
    source: "pepc, kernel documentation",
};

pub(super) const DEVICE_RUNTIME_PM: FindingText = FindingText {
    title: "Power management of devices",
    why: "A device that sleeps takes milliseconds to wake; i915 delayed CPUs by more \
          than 1 ms.",
    by_hand: "",
    source: "tuned#719, LinuxCNC#4087",
};

pub(super) const NVME_POWER: FindingText = FindingText {
    title: "Power states of NVMe",
    why: "Leaving a power state takes milliseconds.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const USB_AUTOSUSPEND: FindingText = FindingText {
    title: "Suspension of USB devices",
    why: "An audio or control device that is suspended takes milliseconds to wake.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const THERMAL_THROTTLING: FindingText = FindingText {
    title: "Thermal throttling",
    why: "A hot processor lowers its clock; idle injection runs at SCHED_FIFO 50.",
    by_hand: "improve the cooling",
    source: "kernel documentation, Signal-Desktop#8024",
};

pub(super) const HYPERVISOR: FindingText = FindingText {
    title: "Virtual machine",
    why: "The host takes CPUs away for any time: no setting of the guest prevents it.",
    by_hand: "give the machine dedicated CPUs on its host",
    source: "measured",
};

pub(super) const CLOCK_STEPS: FindingText = FindingText {
    title: "Programs that set the clock",
    why: "A step of CLOCK_REALTIME moves timers on it; CLOCK_MONOTONIC is not \
          concerned.",
    by_hand: "let the clock slew: makestep 0 0 for chrony",
    source: "guess",
};
