//! Requested and actual conditions.

use crate::support::Machine;
use punctual_machine::survey::memory::LockedMemory;
use punctual_machine::survey::{Policy, SurveyRequest, ThreadScheduling, survey};
use punctual_record::condition::IdleBoundError;
use punctual_record::{Demand, Fix, Standing, SystemState};
use punctual_report::facts;
use punctual_tool::system::demands::{self, Found, ProbeFound, Requested, fixes, judge};

fn machine(name: &str) -> SystemState {
    let request = SurveyRequest {
        probed_cpus: vec![0, 1],
        priority: 80,
    };
    survey(&Machine::recorded(name).root, &request)
}

fn asked() -> Requested {
    Requested {
        policy: Policy::Fifo,
        priority: 80,
        lock_memory: true,
        dma_latency_us: Some(0),
        explain: false,
        executable: "/opt/punctual".to_owned(),
    }
}

fn probe(cpu: usize, policy: Policy, priority: u32, cpus: &[usize]) -> ProbeFound {
    ProbeFound {
        cpu,
        scheduling: Ok(ThreadScheduling {
            policy,
            priority,
            cpus: cpus.to_vec(),
            timer_slack_ns: Some(50_000),
        }),
        priority_refused: None,
        affinity_refused: None,
    }
}

fn all_in_force() -> Found {
    Found {
        threads: vec![
            probe(0, Policy::Fifo, 80, &[0]),
            probe(1, Policy::Fifo, 80, &[1]),
        ],
        memory: Some(LockedMemory {
            locked_bytes: 20 << 20,
            resident_bytes: 18 << 20,
            loose_bytes: Some(0),
        }),
        dma_latency_us: Some(Ok(0)),
        ..Found::default()
    }
}

fn named<'d>(demands: &'d [Demand], name: &str) -> &'d Demand {
    demands.iter().find(|demand| demand.name() == name).unwrap()
}

fn found_of(demands: &[Demand], name: &str) -> String {
    facts::found(named(demands, name))
}

fn said(fix: Fix) -> String {
    facts::fix(&fix)
}

#[test]
fn a_condition_that_was_requested_and_granted_is_in_force() {
    let demands = judge(&asked(), &all_in_force(), &machine("vm-2cpu"));
    let in_force: Vec<&str> = demands
        .iter()
        .filter(|demand| demand.standing == Standing::InForce)
        .map(Demand::name)
        .collect();
    assert_eq!(
        in_force,
        [
            "priority",
            "affinity",
            "locked-memory",
            "cpu-dma-latency",
            "timers"
        ]
    );
    assert_eq!(facts::requested(named(&demands, "priority")), "fifo 80");
    assert_eq!(found_of(&demands, "priority"), "fifo 80 on CPU 0-1");
    assert_eq!(
        found_of(&demands, "locked-memory"),
        "all of 18 MiB resident"
    );
    // The others are stated; a virtual machine is no reason for INVALID.
    let stated: Vec<&str> = demands[5..].iter().map(Demand::name).collect();
    assert_eq!(
        stated,
        [
            "rt-throttling",
            "virtual-machine",
            "preemption",
            "cgroup-limits"
        ]
    );
    for demand in &demands {
        assert!(demand.standing != Standing::InForce || demand.fix.is_none());
        assert!(demand.standing != Standing::NotInForce, "{demand:?}");
    }
}

#[test]
fn one_deviating_thread_is_named() {
    let mut found = all_in_force();
    found.threads[1] = probe(1, Policy::Other, 0, &[0, 1]);
    let demands = judge(&asked(), &found, &machine("vm-2cpu"));
    assert_eq!(demands[0].name(), "priority");
    assert_eq!(demands[0].standing, Standing::NotInForce);
    assert_eq!(
        facts::found(&demands[0]),
        "fifo 80 on CPU 0; other on CPU 1"
    );
    assert_eq!(demands[1].name(), "affinity");
    assert_eq!(
        facts::found(&demands[1]),
        "the thread for CPU 1 may run on 0-1"
    );
    // The slack of the ordinary thread is shown to the reader.
    assert!(found_of(&demands, "timer-slack").contains("50000 ns"));
}

#[test]
fn a_lower_priority_than_requested_is_not_in_force() {
    let threads = [probe(0, Policy::Fifo, 79, &[0])];
    let demand = demands::priority(&asked(), &threads, &machine("vm-2cpu"));
    assert_eq!(demand.standing, Standing::NotInForce);
    let threads = [probe(0, Policy::RoundRobin, 80, &[0])];
    let demand = demands::priority(&asked(), &threads, &machine("vm-2cpu"));
    assert_eq!(demand.standing, Standing::NotInForce);
}

#[test]
fn no_thread_at_all_is_not_a_pass() {
    let system = machine("vm-2cpu");
    assert_eq!(
        demands::priority(&asked(), &[], &system).standing,
        Standing::NotInForce
    );
    assert_eq!(
        demands::affinity(&[], &system).standing,
        Standing::NotInForce
    );
    let nothing = Found::default();
    for name in ["locked-memory", "cpu-dma-latency"] {
        let demands = judge(&asked(), &nothing, &system);
        assert_eq!(named(&demands, name).standing, Standing::NotInForce);
    }
}

#[test]
fn the_fix_for_a_priority_matches_its_reason() {
    let refused = Some(libc::EPERM);
    // Root, in a group without runtime.
    let fix = said(fixes::priority(&asked(), refused, &machine("vm-2cpu")));
    assert_eq!(
        fix,
        "this control group has no real-time runtime (CONFIG_RT_GROUP_SCHED): \
         `echo 950000 | sudo tee /sys/fs/cgroup/cpu/rt/none/cpu.rt_runtime_us`, or run from the \
         root group: `echo $$ | sudo tee /sys/fs/cgroup/cpu/tasks`"
    );
    // The same within a container, where the group's files are not the host's.
    let mut contained = machine("vm-2cpu");
    contained.virtualisation.container = Some("podman".to_owned());
    let fix = said(fixes::priority(&asked(), refused, &contained));
    assert!(fix.contains("on the host"), "{fix}");
    assert!(fix.contains("--cpu-rt-runtime=400000"), "{fix}");
    assert!(!fix.contains("| sudo tee"), "{fix}");
    let fix = said(fixes::dma_latency(&contained));
    assert!(
        fix.starts_with("start the container with `--device /dev/cpu_dma_latency`"),
        "{fix}"
    );
    // A user without privileges.
    let fix = said(fixes::priority(&asked(), refused, &machine("server-16cpu")));
    assert!(fix.contains("sudo setcap cap_sys_nice,cap_ipc_lock=ep /opt/punctual"));
    assert!(fix.contains("rtprio 99"), "{fix}");
    // A user whose limit is sufficient, so that something else refuses it.
    let fix = said(fixes::priority(&asked(), refused, &machine("raspberry-pi")));
    assert!(fix.contains("a security policy"), "{fix}");
    // A container.
    let fix = said(fixes::priority(
        &asked(),
        refused,
        &machine("rootless-container"),
    ));
    assert!(fix.contains("--ulimit rtprio=99"), "{fix}");
    let mut docker = machine("server-16cpu");
    docker.virtualisation.container = Some("docker".to_owned());
    let fix = said(fixes::priority(&asked(), refused, &docker));
    assert!(fix.contains("--cap-add sys_nice"), "{fix}");
    // A priority that no kernel accepts.
    let wrong = Requested {
        priority: 100,
        ..asked()
    };
    let fix = said(fixes::priority(
        &wrong,
        Some(libc::EINVAL),
        &machine("vm-2cpu"),
    ));
    assert!(fix.contains("1 to 99"), "{fix}");
}

#[test]
fn an_odd_path_is_quoted_for_the_shell() {
    let odd = Requested {
        executable: "/home/o'neil/a b".to_owned(),
        ..asked()
    };
    let fix = said(fixes::priority(
        &odd,
        Some(libc::EPERM),
        &machine("server-16cpu"),
    ));
    assert!(fix.contains(r"'/home/o'\''neil/a b'"), "{fix}");
}

#[test]
fn a_refusal_is_shown_with_the_actual_state() {
    let mut found = all_in_force();
    found.threads.truncate(1);
    found.threads[0] = probe(0, Policy::Other, 0, &[0]);
    found.threads[0].priority_refused = Some(libc::EPERM);
    found.memory_refused = Some(libc::ENOMEM);
    found.memory = Some(LockedMemory {
        locked_bytes: 0,
        resident_bytes: 5 << 20,
        loose_bytes: Some(5 << 20),
    });
    let demands = judge(&asked(), &found, &machine("server-16cpu"));
    assert_eq!(
        found_of(&demands, "priority"),
        "other on CPU 0 (refused: operation not permitted)"
    );
    let memory = named(&demands, "locked-memory");
    assert_eq!(
        facts::found(memory),
        "5120 KiB of 5120 KiB resident not locked (this user may lock 64 MiB)"
    );
    let fix = facts::fix_of(memory).unwrap();
    assert!(fix.contains("memlock unlimited"), "{fix}");
    // Missing rights have one common fix.
    assert_eq!(named(&demands, "priority").fix, memory.fix);
    assert!(!fix.contains("cpu_dma_latency"), "{fix}");
}

#[test]
fn one_fix_gives_all_rights_that_a_run_lacks() {
    let mut found = all_in_force();
    for thread in &mut found.threads {
        *thread = probe(thread.cpu, Policy::Other, 0, &[thread.cpu]);
        thread.priority_refused = Some(libc::EPERM);
    }
    found.memory_refused = Some(libc::ENOMEM);
    found.dma_latency_us = Some(Err(IdleBoundError::Forbidden));
    let wanted = Requested {
        explain: true,
        ..asked()
    };
    let fixes = |system: &SystemState, found: &Found| {
        let demands = judge(&wanted, found, system);
        let names = ["priority", "locked-memory", "cpu-dma-latency"];
        names.map(|name| facts::fix_of(named(&demands, name)).unwrap())
    };
    let server = machine("server-16cpu");
    let [first, second, third] = fixes(&server, &found);
    assert_eq!((&first, &first), (&second, &third));
    assert!(
        first.contains(
            "sudo setcap cap_sys_nice,cap_ipc_lock,cap_bpf,cap_perfmon,cap_syslog=ep /opt/punctual \
             && sudo chgrp"
        ),
        "{first}"
    );
    assert!(first.contains("--as-deployed"), "{first}");
    // A missing device is not a question of rights.
    found.dma_latency_us = Some(Err(IdleBoundError::Absent));
    let [first, second, third] = fixes(&server, &found);
    assert_eq!(first, second);
    assert!(
        first != third && !first.contains("chgrp \"$(id -gn)\""),
        "{first}"
    );
    // A container is started again, once for all missing rights.
    for (kind, words) in [
        (
            "docker",
            "--ulimit memlock=-1 --device /dev/cpu_dma_latency`",
        ),
        ("systemd-nspawn", "--bind=/dev/cpu_dma_latency`"),
    ] {
        let mut system = machine("server-16cpu");
        system.virtualisation.container = Some(kind.to_owned());
        let [first, second, third] = fixes(&system, &found);
        assert_eq!((&first, &first), (&second, &third));
        assert!(first.contains(words), "{first}");
    }
    // setcap replaces a file's capabilities: without --explain none of them may be lost.
    let mut system = machine("server-16cpu");
    system.limits.capabilities = vec!["cap_bpf".to_owned(), "cap_perfmon".to_owned()];
    let fix = said(fixes::priority(&asked(), Some(libc::EPERM), &system));
    assert!(
        fix.contains("setcap cap_sys_nice,cap_ipc_lock,cap_bpf,cap_perfmon=ep"),
        "{fix}"
    );
}

#[test]
fn partly_locked_memory_is_not_locked() {
    let mut found = all_in_force();
    found.memory = Some(LockedMemory {
        locked_bytes: 20 << 20,
        resident_bytes: 18 << 20,
        loose_bytes: Some(4096),
    });
    let demand = demands::locked_memory(&asked(), &found, &machine("vm-2cpu"));
    assert_eq!(demand.standing, Standing::NotInForce);
    assert_eq!(facts::found(&demand), "4 KiB of 18 MiB resident not locked");
}

#[test]
fn fixes_for_an_affinity_name_the_cpu() {
    let system = machine("raspberry-pi");
    let fix = said(fixes::affinity(&[3], &system));
    assert!(fix.starts_with("this process may not use CPU 3"), "{fix}");
    let fix = said(fixes::affinity(&[9], &system));
    assert!(fix.starts_with("CPU 9 is offline"), "{fix}");
}

#[test]
fn the_limit_of_idle_states_is_the_one_in_force() {
    let standing = |found: Result<i32, IdleBoundError>| {
        demands::dma_latency(20, Some(&found), &machine("vm-2cpu")).standing
    };
    assert_eq!(standing(Ok(20)), Standing::InForce);
    // Another program holds a lower limit.
    assert_eq!(standing(Ok(0)), Standing::InForce);
    assert_eq!(standing(Ok(2_000_000_000)), Standing::NotInForce);
    assert_eq!(standing(Err(IdleBoundError::Absent)), Standing::NotInForce);
    let mut as_deployed = asked();
    as_deployed.dma_latency_us = None;
    let mut system = machine("vm-2cpu");
    system.power.idle_states[1].exit_latency_us = 90;
    let demands = judge(&as_deployed, &all_in_force(), &system);
    assert!(
        !demands
            .iter()
            .any(|demand| demand.name() == "cpu-dma-latency")
    );
    assert!(found_of(&demands, "idle-states").contains("90 µs"));
}

#[test]
fn timers_without_high_resolution_are_not_in_force() {
    let mut system = machine("vm-2cpu");
    system.clock.resolution_ns = 4_000_000;
    system.kernel.command_line = "quiet highres=off".to_owned();
    let demand = demands::timers(&system);
    assert_eq!(demand.standing, Standing::NotInForce);
    assert!(
        facts::fix_of(&demand)
            .unwrap()
            .contains("boot without `highres=off`")
    );
}

#[test]
fn throttling_is_stated_and_only_not_in_force_when_it_cut() {
    let mut system = machine("vm-2cpu");
    let stated = demands::rt_throttling(&system, false).unwrap();
    assert_eq!(stated.standing, Standing::Stated);
    let cut = demands::rt_throttling(&system, true).unwrap();
    assert_eq!(cut.standing, Standing::NotInForce);
    system.scheduler.rt_runtime_us = Some(-1);
    assert_eq!(demands::rt_throttling(&system, false), None);
    system.scheduler.rt_runtime_us = None;
    assert_eq!(demands::rt_throttling(&system, false), None);
}

#[test]
fn the_state_of_a_server_has_clock_siblings_tasks_and_governors() {
    let request = SurveyRequest {
        probed_cpus: vec![5, 9],
        priority: 80,
    };
    let mut system = survey(&Machine::recorded("server-16cpu").root, &request);
    system.virtualisation.stolen_ns = Some(1_500_000_000);
    system.virtualisation.stolen_share = Some(0.0125);
    let threads = [
        probe(5, Policy::Fifo, 80, &[5]),
        probe(9, Policy::Fifo, 80, &[9]),
    ];
    let stated = demands::stated(&asked(), &threads, &system);
    let found: Vec<_> = stated.iter().map(|d| (d.name(), facts::found(d))).collect();
    let found: Vec<(&str, &str)> = found.iter().map(|(name, it)| (*name, &**it)).collect();
    assert_eq!(
        found,
        [
            (
                "virtual-machine",
                "a virtual machine; its host took 1.25 % of the probed CPUs' time"
            ),
            (
                "clock-source",
                "hpet: reading the clock enters the kernel or a device"
            ),
            (
                "tasks-above",
                "2 tasks of other programs and 2 of the kernel may go before a probe or keep it \
                 waiting: jack ) (rt (fifo 90) on CPU 5,9, deadliner (deadline) on CPU 5,9"
            ),
            ("smt-siblings", "CPU 5,9 share their cores with 1,13"),
            (
                "governor",
                "the frequency follows the load: powersave on CPU 0-3,8-15"
            ),
            (
                "cgroup-limits",
                "the load is bounded by \
                 /sys/fs/cgroup/user.slice/user-1000.slice/cpu.max = 200000 100000, \
                 /sys/fs/cgroup/user.slice/user-1000.slice/memory.max = 4294967296"
            ),
        ]
    );
    assert!(stated.iter().all(|d| d.standing == Standing::Stated));
}
