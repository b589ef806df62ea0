//! What a person can do about a condition: commands that can be run as they stand.

use punctual_record::condition::Fix;
use punctual_record::cpus::cpu_list;

/// The file that the advice about limits writes, always whole: advice that was followed before
/// is not undone by the next.
const LIMITS_FILE: &str = "/etc/security/limits.d/90-punctual.conf";

/// The device that bounds idle states.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// The group that may execute a program with capabilities.
const GROUP: &str = "realtime";

/// A fix in words.
#[must_use]
pub fn fix(fix: &Fix) -> String {
    let text = match fix {
        Fix::Rights {
            program,
            capabilities,
            device,
        } => return rights(program, capabilities, *device),
        Fix::ContainerRights {
            runtime,
            user_namespace,
            device,
        } => return container(runtime.as_deref(), *user_namespace, *device),
        Fix::DriverStamps { interface } => {
            return format!(
                "use an interface whose driver stamps what it sends (`ethtool -T {interface}` shows \
                 software-transmit then), or leave --txtime away"
            );
        }
        Fix::LaunchDiscipline { interface } => {
            return format!("`sudo tc qdisc replace dev {interface} root fq`");
        }
        Fix::PriorityInRange { priority } => {
            return format!("the kernel takes no priority of {priority}: ask for 1 to 99 with -p");
        }
        Fix::GroupRuntime {
            runtime_us,
            file,
            root,
        } => {
            return format!(
                "this control group has no real-time runtime (CONFIG_RT_GROUP_SCHED): \
                 `echo {runtime_us} | sudo tee {file}`, or run from the root group: \
                 `echo $$ | sudo tee {root}/tasks`"
            );
        }
        Fix::CpuOnline { cpu, online } => {
            return format!(
                "CPU {cpu} is offline: `echo 1 | sudo tee \
                 /sys/devices/system/cpu/cpu{cpu}/online`, or choose others with -a; online: {}",
                cpu_list(online)
            );
        }
        Fix::CpuAllowed { cpu, allowed } => {
            return format!(
                "this process may not use CPU {cpu}: start it without `taskset` and outside of \
                 the cpuset, or choose others with -a; allowed: {}",
                cpu_list(allowed)
            );
        }
        Fix::BootWithout { word } => {
            return format!("boot without `{word}` on the kernel's command line");
        }
        Fix::IdleBound { contained, runtime } => return idle_bound(*contained, runtime.as_deref()),
        Fix::ClockSource { source } => {
            return format!(
                "`echo {source} | sudo tee \
                 /sys/devices/system/clocksource/clocksource0/current_clocksource`, if the kernel \
                 did not turn away from it for cause (see `sudo dmesg | grep clocksource`)"
            );
        }
        Fix::ContainerRuntime => {
            "the container's control group has no real-time runtime (CONFIG_RT_GROUP_SCHED): on \
             the host, give the groups above it some, from the top down (`cpu.rt_runtime_us`, \
             950000 at most), and start the container with `--cpu-rt-runtime=400000`; or boot the \
             host with `rt_group_sched=0`"
        }
        Fix::MachineRuntime => {
            "real-time tasks have no runtime on this machine: \
             `sudo sysctl kernel.sched_rt_runtime_us=950000`"
        }
        Fix::RootGroup => {
            "the rights are there; a kernel with CONFIG_RT_GROUP_SCHED refuses real-time threads \
             below the root group of cgroup v2: \
             `echo $$ | sudo tee /sys/fs/cgroup/cgroup.procs`, or boot with `rt_group_sched=0`"
        }
        Fix::SecurityPolicy => {
            "the rights are there, and a security policy (seccomp, SELinux, AppArmor) may refuse \
             it: look for the denial in `sudo dmesg` and `journalctl -k`"
        }
        Fix::AffinityLeftAlone => {
            "another program (a tuning daemon, a cpuset) changes the affinity of our threads: \
             stop it for the run"
        }
        Fix::Memory => {
            "the machine has too little memory to lock what the run needs, or a memory limit of \
             the control group stands against it: see `limits` in the record"
        }
        Fix::HighResolutionTimers => {
            "boot a kernel with CONFIG_HIGH_RES_TIMERS=y, on a machine with a one-shot timer (see \
             /proc/timer_list)"
        }
        Fix::NoThrottling => {
            "`sudo sysctl kernel.sched_rt_runtime_us=-1` (a real-time thread that never sleeps \
             then keeps its CPU for good)"
        }
        Fix::OwnMachine => {
            "measure on the machine itself, or give each virtual CPU a physical one of its own"
        }
        Fix::PreemptRt => {
            "boot a kernel with PREEMPT_RT (on Debian: `sudo apt install linux-image-rt-$(dpkg \
             --print-architecture)`)"
        }
        Fix::HigherPriority => "ask for a higher priority with -p, or lower theirs with `chrt`",
        Fix::NoSmt => "`echo off | sudo tee /sys/devices/system/cpu/smt/control`",
        Fix::PerformanceGovernor => {
            "`echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`"
        }
        Fix::HoldIdleStates => "measure without --as-deployed, which holds /dev/cpu_dma_latency",
        Fix::NoTimeLimit => "`ulimit -R unlimited` in the shell that starts the run",
        Fix::WatchChildren => {
            "`--children` watches its child processes too, and `--all` threads of ordinary priority"
        }
        Fix::WatchOrdinary => {
            "`--all` watches its threads of ordinary priority too, and chrt makes one a real-time \
             thread"
        }
        Fix::WatchLonger => "watch longer: -D",
        Fix::OneCpu => "punctual lab --cpus 1",
        Fix::PeerRights => {
            "on the other machine, start `punctual respond` as root, or give it cap_sys_nice and \
             cap_ipc_lock"
        }
        Fix::PeerPolicy => "on the other machine, start `punctual respond` with a priority: -p 80",
    };
    text.to_owned()
}

/// More rights for the container.
fn container(runtime: Option<&str>, user_namespace: bool, device: bool) -> String {
    let with = |flag: &str| {
        if device {
            format!(" {flag}")
        } else {
            String::new()
        }
    };
    match runtime {
        Some("kubernetes") => "give the container `securityContext: {capabilities: {add: \
                               [SYS_NICE, IPC_LOCK]}}` and a runtime with unlimited memlock"
            .to_owned(),
        Some("systemd-nspawn") => format!(
            "start the container with `systemd-nspawn --capability=CAP_SYS_NICE,CAP_IPC_LOCK \
             --rlimit=RLIMIT_RTPRIO=99 --rlimit=RLIMIT_MEMLOCK=infinity{}`",
            with("--bind=/dev/cpu_dma_latency")
        ),
        _ if user_namespace => {
            format!(
                "capabilities of a user namespace (rootless container) do not reach the scheduler: \
                 raise the user's limits on the host, `{}`, log in again and start the container \
                 with `--ulimit rtprio=99 --ulimit memlock=-1{flag}`; or start it as root with \
                 `--cap-add sys_nice --cap-add ipc_lock{flag}`",
                limits(),
                flag = with("--device /dev/cpu_dma_latency")
            )
        }
        _ => format!(
            "start the container with `--cap-add sys_nice --cap-add ipc_lock --ulimit rtprio=99 \
             --ulimit memlock=-1{}`",
            with("--device /dev/cpu_dma_latency")
        ),
    }
}

/// Rights for our program or for the user: all that a run takes, whichever of them lacks, so
/// that the next run doesn't ask for the rest.
fn rights(program: &str, capabilities: &[String], device: bool) -> String {
    let open = format!(" && {}", open_device());
    let open = if device { open.as_str() } else { "" };
    let until = if device {
        " (/dev/cpu_dma_latency keeps its group until the next boot; --as-deployed leaves it \
         alone)"
    } else {
        ""
    };
    let capabilities = format!("{}=ep", capabilities.join(","));
    format!(
        "run as root; or give this program the rights: `{}{open}` {}; or give your user the \
         limits and log in again: `{}{open}`{until}",
        set_capabilities(&capabilities, &quoted(program)),
        why_a_group(),
        limits(),
    )
}

/// The command that gives a program's file capabilities and lets only a group execute it: such a
/// copy runs any program at any priority for whoever may execute it. It replaces those that the
/// file has. The group comes first: a change of owner takes a file's capabilities away.
fn set_capabilities(capabilities: &str, program: &str) -> String {
    format!(
        "sudo groupadd -f {GROUP} && sudo usermod -aG {GROUP} \"$(id -un)\" && \
         sudo chgrp {GROUP} {program} && sudo chmod 750 {program} && \
         sudo setcap {capabilities} {program}"
    )
}

/// Why a group, in brackets.
fn why_a_group() -> String {
    format!(
        "(log in again; without the group any user of this machine could run any program at FIFO \
         99 with `punctual run -p 99`: let only those into the group {GROUP} who may)"
    )
}

/// The command that writes the user's limits: both of them, and every priority, so that what is
/// advised to one run is not taken away by what is advised to the next.
fn limits() -> String {
    format!(
        "printf '%s - rtprio 99\\n%s - memlock unlimited\\n' \"$(id -un)\" \"$(id -un)\" | sudo \
         tee {LIMITS_FILE}"
    )
}

/// The command that opens the device to the user's group.
fn open_device() -> String {
    format!("sudo chgrp \"$(id -gn)\" {DEVICE} && sudo chmod g+rw {DEVICE}")
}

fn idle_bound(contained: bool, runtime: Option<&str>) -> String {
    let open = match contained {
        true if runtime == Some("systemd-nspawn") => {
            format!("start the container with `--bind={DEVICE}`")
        }
        true => format!("start the container with `--device {DEVICE}`"),
        false => format!(
            "run as root, or let your group open the device until the next boot: `{}`",
            open_device()
        ),
    };
    format!("{open}; or measure with --as-deployed, which leaves idle states alone")
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+'));
    if plain && !path.is_empty() {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
