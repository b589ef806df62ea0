//! The machine that the tests run on. Tests that it does not allow report that they are skipped.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use punctual_record::system::TaskAbove;
use punctual_record::{Demand, Event, Standing};
use punctual_report::facts;
use punctual_tool::system::demands::{self, ProbeFound, Requested};
use punctual_tool::system::monitor::{Monitor, Monitored};
use punctual_tool::system::thread::last_cpu;
use punctual_tool::system::{
    self, DmaLatency, Policy, Root, SurveyRequest, allowed, cpus, online, read_back, survey,
};

const SECOND: u64 = 1_000_000_000;

fn output(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn is_root() -> bool {
    // SAFETY: geteuid takes no argument and never fails.
    unsafe { libc::geteuid() == 0 }
}

fn own_tid() -> i32 {
    // SAFETY: gettid takes no argument and never fails.
    unsafe { libc::gettid() }
}

/// Sets the calling thread's policy; returns the error number if it is refused.
fn set_fifo(priority: i32) -> Result<(), i32> {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameter` is valid and outlives the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// Sets a thread's affinity; returns the error number if it is refused.
fn set_affinity(tid: i32, cpus: &[usize]) -> Result<(), i32> {
    let mut mask = [0_u64; 16];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: `mask` has the given length and outlives the call.
    let result = unsafe {
        libc::sched_setaffinity(
            tid,
            size_of_val(&mask),
            mask.as_ptr().cast::<libc::cpu_set_t>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// A thread pinned to a CPU, which sleeps until this is dropped.
struct Sleeper {
    tid: i32,
    stop: mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sleeper {
    fn pinned(cpu: usize) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            set_affinity(0, &[cpu]).unwrap();
            tell.send(own_tid()).unwrap();
            let _ = stopped.recv();
        });
        Self {
            tid: told.recv().unwrap(),
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        let _ = self.thread.take().unwrap().join();
    }
}

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

#[test]
fn a_survey_is_quick_and_finds_this_machine() {
    let root = Root::live();
    let request = SurveyRequest {
        probed_cpus: online(&root),
        priority: 80,
    };
    // The best of three: the machine may be busy with other tests.
    let mut best = Duration::MAX;
    let mut state = survey(&root, &request);
    for _ in 0..3 {
        let begun = Instant::now();
        state = survey(&root, &request);
        best = best.min(begun.elapsed());
    }
    assert!(best < Duration::from_millis(100), "{best:?}");
    assert_eq!(state.kernel.release, output("uname -r"));
    assert_eq!(state.kernel.version, output("uname -v"));
    assert_eq!(state.kernel.machine, output("uname -m"));
    assert_eq!(state.limits.user.to_string(), output("id -u"));
    assert!(state.clock.resolution_ns > 0);
    assert!(!state.clock.source.is_empty());
    assert!(system::memory_available(&root).unwrap() < state.memory.total_bytes);
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
        Err(error) => return eprintln!("SKIPPED: no real-time child: {error}"),
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

#[test]
fn a_changed_affinity_and_priority_is_noticed() {
    let root = Root::live();
    let usable = allowed(&root);
    if usable.len() < 2 {
        return eprintln!("SKIPPED: one CPU only");
    }
    let sleeper = Sleeper::pinned(usable[1]);
    let probe = Monitored {
        cpu: usable[1],
        tid: sleeper.tid,
    };
    let mut monitor = Monitor::start(&root, &[probe]);
    let about_us = |events: Vec<Event>| {
        events
            .into_iter()
            .filter(|e| {
                matches!(
                    e.kind(),
                    "affinity" | "priority" | "clock-set" | "suspended"
                )
            })
            .map(|e| (e.kind(), e.invalidates))
            .collect::<Vec<_>>()
    };
    assert_eq!(about_us(monitor.poll(SECOND)), []);
    set_affinity(sleeper.tid, &usable).unwrap();
    assert_eq!(about_us(monitor.poll(2 * SECOND)), [("affinity", true)]);
    set_affinity(sleeper.tid, &[usable[1]]).unwrap();
    assert_eq!(about_us(monitor.poll(3 * SECOND)), [("affinity", false)]);
    let renice = output(&format!("chrt -b -p 0 {} && echo done", sleeper.tid));
    if renice == "done" {
        assert_eq!(about_us(monitor.poll(4 * SECOND)), [("priority", true)]);
    }
    drop(sleeper);
    assert_eq!(about_us(monitor.poll(5 * SECOND)), []);
    assert!(monitor.stolen().is_some());
}

#[test]
fn a_look_is_cheap() {
    let root = Root::live();
    let probe = Monitored {
        cpu: online(&root)[0],
        tid: own_tid(),
    };
    let mut monitor = Monitor::start(&root, &[probe]);
    let best = (1..6)
        .map(|n| {
            let begun = Instant::now();
            monitor.poll(n * SECOND);
            begun.elapsed()
        })
        .min()
        .unwrap();
    assert!(best < Duration::from_millis(20), "{best:?}");
}

#[test]
fn the_limit_of_idle_states_is_set_and_removed() {
    let free = match DmaLatency::hold(i32::MAX) {
        Ok(held) => held.in_force_us().unwrap(),
        Err(error) => return eprintln!("SKIPPED: {error}"),
    };
    let held = DmaLatency::hold(7).unwrap();
    let in_force = held.in_force_us().unwrap();
    let demand = demands::dma_latency(
        7,
        Some(&Ok(in_force)),
        &punctual_record::system::SystemState::default(),
    );
    assert_eq!(demand.standing, Standing::InForce);
    drop(held);
    let after = DmaLatency::hold(i32::MAX).unwrap().in_force_us().unwrap();
    assert_eq!(after, free);
}

/// Run elsewhere, a child of this test binary reports its own priority.
#[test]
#[ignore = "run by other tests, in other circumstances"]
fn child_asks_for_a_priority() {
    let refused = set_fifo(80).err();
    let scheduling = read_back(own_tid());
    let asked = Requested {
        policy: Policy::Fifo,
        priority: 80,
        lock_memory: false,
        dma_latency_us: None,
        explain: false,
        executable: system::executable(),
    };
    let probe = ProbeFound {
        cpu: 0,
        scheduling,
        priority_refused: refused,
        affinity_refused: None,
    };
    let state = survey(
        &Root::live(),
        &SurveyRequest {
            probed_cpus: vec![0],
            priority: 80,
        },
    );
    let demand = demands::priority(&asked, &[probe], &state);
    eprintln!("DEMAND {}", serde_json::to_string(&demand).unwrap());
}

/// Runs the child after a prefix of shell commands.
fn child_behind(prefix: &str) -> Option<Demand> {
    let me = std::env::current_exe().unwrap();
    let command = format!(
        "{prefix} {} --exact live::child_asks_for_a_priority --ignored --nocapture",
        me.display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("DEMAND "));
    // It ran, so it answers.
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(line.is_some() || !said.contains("running "), "{said}{text}");
    Some(serde_json::from_str(line?.1).unwrap())
}

#[test]
fn without_rights_the_fix_works() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can give up its rights");
    }
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let Some(demand) = child_behind(nobody) else {
        return eprintln!("SKIPPED: the test binary can't be run by nobody");
    };
    assert_eq!(demand.standing, Standing::NotInForce);
    assert_eq!(
        facts::found(&demand),
        "other on CPU 0 (refused: operation not permitted)"
    );
    let fix = facts::fix_of(&demand).unwrap();
    assert!(fix.contains("setcap cap_sys_nice,cap_ipc_lock=ep"), "{fix}");
    assert!(fix.contains("rtprio 99"), "{fix}");
    // The effect of the fix's limit.
    if output("prlimit --rtprio=80 echo done") != "done" {
        return eprintln!("SKIPPED: half of it: the limit can't be raised here");
    }
    let demand = child_behind(&format!("prlimit --rtprio=80 {nobody}")).unwrap();
    assert_eq!(demand.standing, Standing::InForce, "{demand:?}");
}

/// A control group, removed when dropped.
struct Group(String);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_group_without_runtime_the_fix_works() {
    let directory = format!("/sys/fs/cgroup/cpu/punctual-test-{}", std::process::id());
    let runtime = format!("{directory}/cpu.rt_runtime_us");
    if let Err(error) = fs::create_dir(&directory) {
        return eprintln!("SKIPPED: {directory}: {error}");
    }
    let group = Group(directory);
    if !fs::exists(&runtime).unwrap() {
        return eprintln!("SKIPPED: this kernel has no real-time group scheduling");
    }
    let enter = format!("echo $$ > {}/tasks && exec", group.0);
    let demand = child_behind(&enter).unwrap();
    assert_eq!(demand.standing, Standing::NotInForce);
    let fix = facts::fix_of(&demand).unwrap();
    let command = format!("echo 950000 | sudo tee {runtime}");
    assert!(fix.contains(&command), "{fix}");
    assert!(
        fix.contains("`echo $$ | sudo tee /sys/fs/cgroup/cpu/tasks`"),
        "{fix}"
    );
    // The groups share the root's runtime: half of it is certainly available.
    fs::write(&runtime, "100000").unwrap();
    let demand = child_behind(&enter).unwrap();
    assert_eq!(demand.standing, Standing::InForce, "{demand:?}");
}

/// Locks its memory and reports it.
#[test]
#[ignore = "run by another test, because memory is the whole process's"]
fn child_locks_its_memory() {
    let before = system::memory::locked_memory(&Root::live());
    // SAFETY: mlockall takes no pointer.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    let after = system::memory::locked_memory(&Root::live());
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
            "live::child_locks_its_memory",
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
        return eprintln!("SKIPPED: mlockall is refused here");
    }
    assert!(numbers[1] > 0, "{line}");
    assert_eq!(numbers[2], 0, "{line}");
    assert!(numbers[3] > 0, "{line}");
}
