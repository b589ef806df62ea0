//! Surveys of recorded machines, of a machine where nothing can be read, and of
//! trees full of garbage.

use super::support::Machine;
use punctual_machine::READ_LIMIT;
use punctual_machine::survey::{self, SurveyRequest, cpus, memory, survey};
use punctual_record::system::{IdleState, Node, Siblings};
use punctual_record::{Hypervisor, SystemState, Unread, UnreadReason};

fn surveyed(machine: &Machine, probed_cpus: &[usize]) -> SystemState {
    survey(
        &machine.root,
        &SurveyRequest {
            probed_cpus: probed_cpus.to_vec(),
            priority: 80,
        },
    )
}

#[test]
fn a_virtual_machine_with_two_cpus_is_read() {
    let state = surveyed(&Machine::recorded("vm-2cpu"), &[0, 1]);
    assert_eq!(state.hostname, "guest");
    assert_eq!(
        state.distribution.as_deref(),
        Some("Debian GNU/Linux 12 (bookworm)")
    );
    assert_eq!(state.kernel.release, "6.18.44");
    assert_eq!(state.kernel.machine, "x86_64");
    // The last parameter on the command line counts.
    assert_eq!(state.kernel.preemption, "voluntary");
    assert_eq!(state.kernel.preemption_source, "kernel command line");
    assert_eq!(state.processor.model, "AMD EPYC");
    assert_eq!(state.processor.microcode.as_deref(), Some("0x1000065"));
    assert_eq!(state.processor.online, [0, 1]);
    assert_eq!(state.processor.allowed, [0, 1]);
    assert_eq!(state.processor.smt_active, Some(false));
    assert_eq!(state.clock.source, "tsc");
    assert_eq!(state.clock.available, ["tsc", "kvm-clock"]);
    assert_eq!(state.clock.resolution_ns, 1);
    assert_eq!(state.clock.event_device.as_deref(), Some("lapic-deadline"));
    assert_eq!(state.power.idle_driver.as_deref(), Some("haltpoll"));
    assert_eq!(state.power.idle_states.len(), 2);
    let unknown = Hypervisor::Unknown {
        signature: None,
        firmware: None,
    };
    assert_eq!(state.virtualisation.hypervisor, Some(unknown));
    // The file exists, but the namespaces are the initial ones.
    assert_eq!(state.virtualisation.container, None);
    assert_eq!(state.scheduler.rt_runtime_us, Some(950_000));
    assert_eq!(state.scheduler.rt_group_runtime_us, Some(0));
    assert_eq!(
        state.scheduler.rt_group_file.as_deref(),
        Some("/sys/fs/cgroup/cpu/rt/none/cpu.rt_runtime_us")
    );
    assert_eq!(state.scheduler.timer_slack_ns, Some(50_000));
    let names: Vec<&str> = state.scheduler.above.iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["migration/0", "migration/1"]);
    assert_eq!(state.limits.rtprio, Some(0));
    assert_eq!(state.limits.memlock_bytes, Some(8_388_608));
    assert_eq!(state.limits.rttime_us, None);
    assert_eq!(state.limits.user_namespace, Some(false));
    assert!(
        state
            .limits
            .capabilities
            .iter()
            .any(|c| c == "cap_sys_nice")
    );
    assert_eq!(
        state.limits.cgroup_limits,
        [
            "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes = 1073741824",
            "/sys/fs/cgroup/cpuset/cpuset.effective_cpus = 0-1",
            "/sys/fs/cgroup/cpu/rt/cpu.cfs_quota_us = 50000 of each 100000",
        ]
    );
    assert_eq!(state.memory.total_bytes, 24_684_092 * 1024);
    assert_eq!(state.unread, []);
}

#[test]
fn a_server_with_isolated_cpus_and_two_nodes_is_read() {
    let machine = Machine::recorded("server-16cpu");
    let state = surveyed(&machine, &[5, 9]);
    assert_eq!(state.kernel.preemption, "rt");
    assert_eq!(state.kernel.preemption_source, "/sys/kernel/realtime");
    assert_eq!(
        state.distribution.as_deref(),
        Some("Debian GNU/Linux 13 (trixie)")
    );
    assert_eq!(state.processor.isolated, [4, 5, 6, 7]);
    assert_eq!(state.processor.nohz_full, [4, 5, 6, 7]);
    assert_eq!(state.processor.smt_active, Some(true));
    assert_eq!(
        state.processor.siblings,
        [
            Siblings {
                cpu: 5,
                others: vec![13]
            },
            Siblings {
                cpu: 9,
                others: vec![1]
            }
        ]
    );
    // A node with only memory has no CPUs and is left out.
    assert_eq!(
        state.processor.nodes,
        [
            Node {
                node: 0,
                cpus: vec![0, 1, 2, 3, 8, 9, 10, 11]
            },
            Node {
                node: 1,
                cpus: vec![4, 5, 6, 7, 12, 13, 14, 15]
            }
        ]
    );
    assert_eq!(state.clock.event_device.as_deref(), Some("lapic-deadline"));
    assert_eq!(
        state.power.frequency_driver.as_deref(),
        Some("intel_pstate")
    );
    assert_eq!(
        state.power.governors,
        [
            ("performance".to_owned(), vec![4, 5, 6, 7]),
            (
                "powersave".to_owned(),
                vec![0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15]
            )
        ]
    );
    assert_eq!(state.power.boost, Some(true));
    assert_eq!(
        state.power.idle_states[2],
        IdleState {
            name: "C6".to_owned(),
            exit_latency_us: 133,
            disabled: true
        }
    );
    // The firmware names a cloud, but the processor says that it is not virtual.
    assert_eq!(state.virtualisation.hypervisor, None);
    assert_eq!(state.virtualisation.container, None);
    assert_eq!(state.limits.capabilities, [""; 0]);
    assert_eq!(
        state.limits.cgroups,
        ["v2:/user.slice/user-1000.slice/session-3.scope"]
    );
    assert_eq!(
        state.limits.cgroup_limits,
        [
            "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/cpuset.cpus.effective \
             = 0-3,8-15",
            "/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max = 200000 100000",
            "/sys/fs/cgroup/user.slice/user-1000.slice/memory.max = 4294967296",
        ]
    );
    assert_eq!(state.memory.numa_balancing, Some(true));
    assert_eq!(state.memory.ksm, Some(true));
    assert_eq!(
        state.memory.transparent_huge_pages.as_deref(),
        Some("always")
    );
}

#[test]
fn tasks_above_are_those_that_may_delay_a_probe() {
    let state = surveyed(&Machine::recorded("server-16cpu"), &[5, 9]);
    let above: Vec<(&str, &str, u32, bool, &[usize])> = state
        .scheduler
        .above
        .iter()
        .map(|t| (&*t.name, &*t.policy, t.priority, t.kernel, &*t.cpus))
        .collect();
    // Other programs' tasks first; a name may contain parentheses; interrupt threads of
    // priority 50 and a task of priority 10 are below ours.
    assert_eq!(
        above,
        [
            ("jack ) (rt", "fifo", 90, false, &[5, 9][..]),
            ("deadliner", "deadline", 0, false, &[5, 9][..]),
            ("migration/5", "fifo", 99, true, &[5][..]),
            ("migration/9", "fifo", 99, true, &[9][..]),
        ]
    );
    assert_eq!(state.scheduler.above_count, 4);
    assert_eq!(state.scheduler.above_kernel_count, 2);
}

#[test]
fn with_many_tasks_above_64_are_listed_and_all_are_counted() {
    let machine = Machine::recorded("vm-2cpu");
    let mut fields = vec!["0"; 50];
    fields[37] = "95";
    fields[38] = "2";
    for tid in 2000..2100 {
        let directory = format!("/proc/2000/task/{tid}");
        machine.write(
            &format!("{directory}/stat"),
            format!("{tid} (crowd) {}", fields.join(" ")),
        );
        machine.write(&format!("{directory}/status"), "Cpus_allowed_list:\t1\n");
    }
    let scheduler = surveyed(&machine, &[0, 1]).scheduler;
    assert_eq!(scheduler.above.len(), 64);
    assert_eq!(scheduler.above_count, 102);
    assert_eq!(scheduler.above_kernel_count, 2);
    assert_eq!(scheduler.above[0].tid, 2000);
    assert_eq!(scheduler.above[0].policy, "rr");
    assert_eq!(surveyed(&machine, &[0]).scheduler.above_count, 1);
}

#[test]
fn a_small_board_is_read() {
    let state = surveyed(&Machine::recorded("raspberry-pi"), &[0]);
    assert_eq!(state.kernel.machine, "aarch64");
    assert_eq!(state.kernel.preemption, "full");
    assert_eq!(state.kernel.preemption_source, "uname -v");
    assert_eq!(
        state.processor.model,
        "Cortex-A72 (Raspberry Pi 4 Model B Rev 1.5)"
    );
    assert_eq!(state.processor.microcode, None);
    assert_eq!(state.processor.nohz_full, [0; 0]);
    assert_eq!(state.processor.allowed, [0, 1, 2]);
    assert_eq!(state.virtualisation.hypervisor, None);
    assert_eq!(state.clock.source, "arch_sys_counter");
    assert_eq!(
        state.power.governors,
        [("ondemand".to_owned(), vec![0, 1, 2, 3])]
    );
    assert_eq!(state.power.boost, Some(false));
    assert_eq!(state.limits.rtprio, Some(99));
    assert_eq!(state.limits.memlock_bytes, None);
}

#[test]
fn a_rootless_container_is_read() {
    let state = surveyed(&Machine::recorded("rootless-container"), &[0]);
    assert_eq!(state.kernel.preemption, "voluntary");
    assert_eq!(
        state.kernel.preemption_source,
        "/boot/config-6.1.0-29-amd64"
    );
    assert_eq!(state.virtualisation.container.as_deref(), Some("podman"));
    assert_eq!(state.virtualisation.hypervisor, None);
    assert_eq!(state.limits.user_namespace, Some(true));
}

#[test]
fn the_preemption_model_is_read_with_its_source() {
    let machine = Machine::recorded("vm-2cpu");
    let read = |machine: &Machine| {
        let kernel = surveyed(machine, &[0]).kernel;
        (kernel.preemption, kernel.preemption_source)
    };
    let debugfs = "/sys/kernel/debug/sched/preempt";
    machine.write(debugfs, "none voluntary (full) lazy\n");
    assert_eq!(read(&machine), ("full".into(), debugfs.into()));
    machine.write(debugfs, "none voluntary full lazy\n");
    assert_eq!(
        read(&machine),
        ("voluntary".into(), "kernel command line".into())
    );
    machine.write("/proc/cmdline", "quiet preempt=fast");
    assert_eq!(read(&machine), ("unknown".into(), "uname -v".into()));
    machine.write("/boot/config-6.18.44", "CONFIG_PREEMPT_LAZY=y\n");
    assert_eq!(
        read(&machine),
        ("lazy".into(), "/boot/config-6.18.44".into())
    );
    machine.write("/proc/sys/kernel/version", "#1 SMP Debian 6.1\n");
    machine.write("/boot/config-6.18.44", "CONFIG_PREEMPT_NONE=y\n");
    assert_eq!(
        read(&machine),
        ("none".into(), "/boot/config-6.18.44".into())
    );
    machine.write("/proc/sys/kernel/version", "#1 SMP PREEMPT RT 5.10\n");
    assert_eq!(read(&machine), ("rt".into(), "uname -v".into()));
}

#[test]
fn a_machine_where_nothing_can_be_read_gives_an_empty_survey() {
    let state = surveyed(&Machine::empty(), &[0, 3]);
    assert_eq!(state.kernel.preemption, "unknown");
    assert_eq!(state.clock.source, "");
    assert_eq!(state.processor.online, [0; 0]);
    let noted = |path: &str| {
        let unread = Unread {
            what: path.to_owned(),
            why: UnreadReason::Error {
                error: "no such file or directory".to_owned(),
            },
        };
        assert!(
            state.unread.contains(&unread),
            "{unread:?} in {:?}",
            state.unread
        );
    };
    noted("/proc/cpuinfo");
    noted("/sys/devices/system/cpu/online");
    noted("/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

#[test]
fn the_state_is_read_back_from_the_record() {
    let state = surveyed(&Machine::recorded("server-16cpu"), &[5, 9]);
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<SystemState>(&text).unwrap(), state);
}

/// Every file of every recorded machine, each replaced by each kind of garbage.
#[test]
fn garbage_never_panics_and_is_bounded() {
    let kinds: [&[u8]; 8] = [
        b"",
        b"\0\0\0\0",
        b"\xff\xfe\x80\n\xc3\x28",
        b"-1",
        b"99999999999999999999999999",
        b"0-4294967295",
        b"((((:::: - - -\n=====\n\t\t: : :\n)",
        b"cpu\ncpu0\ncpu1 1 2 3 4 5 6 7 -8\ncpu18446744073709551616 1 2 3 4 5 6 7 8\n",
    ];
    for name in ["vm-2cpu", "server-16cpu", "raspberry-pi"] {
        let text = std::fs::read_to_string(format!(
            "{}/tests/data/{name}.tree",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        let paths: Vec<&str> = text
            .split("=== ")
            .skip(1)
            .filter_map(|part| part.lines().next())
            .filter(|head| !head.contains(" -> "))
            .collect();
        for kind in kinds {
            let machine = Machine::recorded(name);
            for path in &paths {
                machine.write(path, kind);
            }
            let state = surveyed(&machine, &[0, 1, usize::MAX]);
            assert!(state.unread.len() <= 64);
            let topology = survey::topology(&machine.root);
            let place = cpus::Place::read(&machine.root);
            let _ = cpus::default_probed(&topology, &place);
            let _ = survey::memory_available(&machine.root);
            let _ = memory::locked_memory(&machine.root);
        }
    }
}

#[test]
fn malformed_values_are_noted_with_their_text() {
    let machine = Machine::recorded("vm-2cpu");
    machine.write("/proc/sys/kernel/sched_rt_runtime_us", "much");
    machine.write("/sys/devices/system/cpu/isolated", "3-1");
    let state = surveyed(&machine, &[0]);
    assert_eq!(state.scheduler.rt_runtime_us, None);
    let not_understood = |path: &str, text: &str| Unread {
        what: path.to_owned(),
        why: UnreadReason::NotUnderstood {
            text: text.to_owned(),
        },
    };
    assert_eq!(
        state.unread,
        [
            not_understood("/sys/devices/system/cpu/isolated", "3-1"),
            not_understood("/proc/sys/kernel/sched_rt_runtime_us", "much"),
        ]
    );
}

#[test]
fn pipes_and_endless_files_do_not_block() {
    let machine = Machine::recorded("vm-2cpu");
    for path in [
        "/proc/sys/kernel/hostname",
        "/proc/cmdline",
        "/proc/meminfo",
        "/proc/stat",
    ] {
        machine.remove(path);
    }
    // Opening a pipe without a writer would block for ever.
    let status = std::process::Command::new("mkfifo")
        .arg(machine.place("/proc/sys/kernel/hostname"))
        .status()
        .unwrap();
    assert!(status.success());
    machine.link("/proc/cmdline", "cmdline");
    machine.link("/proc/meminfo", "/dev/zero");
    std::fs::create_dir(machine.place("/proc/stat")).unwrap();
    let endless = std::fs::File::create(machine.place("/proc/sys/kernel/version")).unwrap();
    endless.set_len(64 << 30).unwrap();
    let state = surveyed(&machine, &[0]);
    assert_eq!(state.memory.total_bytes, 0);
    assert!(state.kernel.version.len() as u64 <= 3 * READ_LIMIT);
    let why = |path: &str| {
        let found = state.unread.iter().find(|unread| unread.what == path);
        &found
            .unwrap_or_else(|| panic!("{path}: {:?}", state.unread))
            .why
    };
    for path in ["/proc/sys/kernel/hostname", "/proc/meminfo"] {
        assert_eq!(*why(path), UnreadReason::NotRegular, "{path}");
    }
    let looped = why("/proc/cmdline");
    assert!(
        matches!(looped, UnreadReason::Error { error } if error.starts_with("too many levels")),
        "{looped:?}"
    );
}

#[test]
fn paths_read_from_files_do_not_lead_out_of_the_tree() {
    let machine = Machine::recorded("vm-2cpu");
    machine.write(
        "/proc/self/cgroup",
        "1:cpu:/../../../../../../etc\n0::/../..\n",
    );
    let state = surveyed(&machine, &[0]);
    // The rest of the path is `etc` below the mount, which does not exist.
    assert_eq!(state.limits.cgroup_limits, [""; 0]);
    let out = machine.root.path("/sys/../../../../etc/passwd");
    assert!(out.ends_with("sys/etc/passwd"), "{}", out.display());
}

/// An image's marker in the root file system of a machine, and a private namespace.
#[test]
fn an_unshared_namespace_is_not_a_container() {
    let machine = Machine::recorded("vm-2cpu");
    machine.remove("/proc/self/ns/pid");
    machine.link("/proc/self/ns/pid", "pid:[4026532178]");
    let state = surveyed(&machine, &[0]);
    assert_eq!(state.virtualisation.container, None);
    // Files that a manager mounts over the image's are evidence.
    machine.write(
        "/proc/self/mountinfo",
        "712 700 254:1 /docker/containers/4f1c/hostname /etc/hostname rw - ext4 /dev/vda1 rw\n",
    );
    let state = surveyed(&machine, &[0]);
    assert_eq!(state.virtualisation.container.as_deref(), Some("docker"));
}
