//! The machine that the tests run on. Tests that it does not allow report that they are skipped.

use std::os::unix::process::CommandExt;
use std::process::Command;

use punctual_machine::Root;
use punctual_machine::survey::thread::last_cpu;
use punctual_machine::survey::{
    Policy, SurveyRequest, allowed, cpus, memory, memory_available, online, read_back, survey,
};
use punctual_record::system::TaskAbove;

use super::needs::{self, Absent, skip};
use super::threads::{Sleeper, output, set_affinity, set_fifo};

#[test]
fn online_and_allowed_agree_with_other_tools() {
    let root = Root::live();
    let online = online(&root);
    assert_eq!(
        online.len().to_string(),
        output("getconf _NPROCESSORS_ONLN")
    );
    assert_eq!(
        allowed(&root).len().to_string(),
        output("env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc")
    );
    let listed = output("lscpu -p=CPU | grep -v '#' | paste -sd,");
    if !listed.is_empty() {
        assert_eq!(cpus::parse_kernel(&listed), Ok(online.clone()));
    }
    let cpu = online[0];
    let narrow = std::thread::spawn(move || {
        set_affinity(0, &[cpu]).unwrap();
        allowed(&Root::live())
    });
    assert_eq!(narrow.join().unwrap(), [cpu]);
}

/// The CPU time of the calling thread.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("its account");
    let first = text.split(' ').next().expect("its time");
    first.parse().expect("a number")
}

#[test]
fn a_survey_is_quick_and_finds_this_machine() {
    let root = Root::live();
    let request = SurveyRequest {
        probed_cpus: online(&root),
        priority: 80,
    };
    // Its own time: the machine may be busy with other tests.
    let begun_ns = cpu_ns();
    let state = survey(&root, &request);
    let took_ns = cpu_ns() - begun_ns;
    assert!(took_ns < 100_000_000, "{took_ns} ns");
    assert_eq!(state.kernel.release, output("uname -r"));
    assert_eq!(state.kernel.version, output("uname -v"));
    assert_eq!(state.kernel.machine, output("uname -m"));
    assert_eq!(state.limits.user.to_string(), output("id -u"));
    assert!(state.clock.resolution_ns > 0);
    assert!(!state.clock.source.is_empty());
    assert!(memory_available(&root).unwrap() < state.memory.total_bytes);
    assert!(!state.kernel.preemption.is_empty());
}

#[test]
fn a_thread_is_read_back() {
    let cpu = allowed(&Root::live())[0];
    let sleeper = Sleeper::pinned(cpu);
    let scheduling = read_back(sleeper.tid).unwrap();
    assert_eq!(scheduling.policy, Policy::Other);
    assert_eq!(scheduling.priority, 0);
    assert_eq!(scheduling.cpus, [cpu]);
    assert!(scheduling.timer_slack_ns.is_some());
    let tid = sleeper.tid;
    drop(sleeper);
    for nobody in [tid, i32::MAX, 0, -1] {
        assert!(read_back(nobody).is_err(), "{nobody}");
    }
}

#[test]
fn a_real_time_task_above_is_found_until_it_ends() {
    let root = Root::live();
    let request = SurveyRequest {
        probed_cpus: online(&root),
        priority: 80,
    };
    let mut command = Command::new("sleep");
    command.arg("60");
    // SAFETY: between fork and exec only one system call is made.
    unsafe {
        command.pre_exec(|| set_fifo(85).map_err(std::io::Error::from_raw_os_error));
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => skip!(Absent::refused("a real-time child", error)),
    };
    let found = survey(&root, &request).scheduler.above;
    let _ = child.kill();
    let _ = child.wait();
    let ours = |task: &&TaskAbove| task.tid == child.id() as i32;
    let task = found.iter().find(ours).expect("the child is listed");
    assert_eq!((&*task.name, &*task.policy), ("sleep", "fifo"));
    assert_eq!((task.priority, task.kernel), (85, false));
    let later = survey(&root, &request).scheduler.above;
    assert!(!later.iter().any(|task| ours(&task)));
}

#[test]
fn the_cpu_that_a_thread_ran_on_last_is_read() {
    let root = Root::live();
    for cpu in allowed(&root) {
        let sleeper = Sleeper::pinned(cpu);
        let tid = sleeper.tid.unsigned_abs();
        assert_eq!(last_cpu(&root, tid), u32::try_from(cpu).ok());
    }
    assert_eq!(last_cpu(&root, u32::MAX), None);
}

/// Locks its memory and reports it.
#[test]
#[ignore = "run by another test, because memory is the whole process's"]
fn child_locks_its_memory() {
    let before = memory::locked_memory(&Root::live());
    // SAFETY: mlockall takes no pointer.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    let after = memory::locked_memory(&Root::live());
    eprintln!(
        "LOCKED {result} {} {} {}",
        before.loose_bytes.unwrap(),
        after.loose_bytes.unwrap(),
        after.locked_bytes
    );
}

#[test]
fn locked_memory_is_read_back() {
    let me = std::env::current_exe().unwrap();
    let output = Command::new(me)
        .args([
            "--exact",
            "survey::live::child_locks_its_memory",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .find_map(|line| line.split_once("LOCKED "))
        .unwrap()
        .1;
    let numbers: Vec<i64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
    if numbers[0] != 0 {
        skip!(needs::not_permitted("mlockall"));
    }
    assert!(numbers[1] > 0, "{line}");
    assert_eq!(numbers[2], 0, "{line}");
    assert!(numbers[3] > 0, "{line}");
}
