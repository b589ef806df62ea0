//! Where a run takes place: the affinity that it was started with, named CPUs, and
//! cpusets. Isolated CPUs are in `lab/inside.rs`: they need a kernel of their own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::needs::{self, Absent};
use crate::common::{Ended, Place, Running, cpus, flat, groups, need, program, skip};
use punctual_record::{Chosen, Run};

const SHORT: &[&str] = &["-l", "50", "--no-explain", "--best-effort", "-o", "r"];

fn measure(place: &Place, before: impl FnOnce(&mut Command), words: &[&str]) -> Ended {
    let mut command = place.command(program());
    command.arg("measure").args(SHORT).args(words);
    before(&mut command);
    Running::start(command).end()
}

/// The record, and the messages as one line.
fn told(place: &Place, ended: &Ended) -> (Run, String) {
    let said = flat(&ended.stdout);
    (place.run_of(), said)
}

/// Starts a command on one CPU, as taskset does.
fn pinned(cpu: usize) -> impl FnOnce(&mut Command) {
    move |command| {
        let pin = move || punctual_rt::affinity::set_current(&[cpu]);
        // SAFETY: between fork and exec; it makes a system call and allocates one small list,
        // and no other thread of this process holds the allocator's lock for good: glibc's fork
        // takes and releases it.
        unsafe { command.pre_exec(pin) };
    }
}

#[test]
fn a_named_cpu_wins_over_the_affinity_at_start() {
    let [first, second, ..] = cpus()[..] else {
        skip!(Absent::cpus(2));
    };
    let place = Place::new();
    let words = ["-a", &second.to_string(), "--load", "cpu"];
    let ended = measure(&place, pinned(first), &words).expect(0);
    let (run, said) = told(&place, &ended);
    assert_eq!(run.request.cpus, [second]);
    let found = run.placement.expect("it is recorded");
    assert_eq!(found.chosen, Chosen::Named);
    assert_eq!(
        (&*found.inherited, found.housekeeping),
        (&[first][..], Some(first))
    );
    assert!(found.reachable.contains(&second));
    // The load stays within the affinity that the user gave everything.
    assert_eq!(found.load, [first]);
    assert_eq!(run.loads[0].parameters["cpus"], first.to_string());
    let words = format!(
        "probed {second} (named by -a), load {first} (not on probed CPUs), collector {first}"
    );
    assert!(said.contains(&words), "{said}");
    let affinity = run
        .demands
        .iter()
        .find(|demand| demand.name() == "affinity");
    let affinity = affinity.expect("it is read back");
    assert_eq!(
        affinity.standing,
        punctual_record::Standing::InForce,
        "{affinity:?}"
    );
}

#[test]
fn without_a_list_the_initial_affinity_is_probed_and_reported() {
    let [first, second, ..] = cpus()[..] else {
        skip!(Absent::cpus(2));
    };
    for cpu in [first, second] {
        let place = Place::new();
        let ended = measure(&place, pinned(cpu), &[]).expect(0);
        let (run, said) = told(&place, &ended);
        assert_eq!(run.request.cpus, [cpu]);
        let found = run.placement.expect("it is recorded");
        assert_eq!((found.chosen, &*found.load), (Chosen::Inherited, &[][..]));
        let words = format!("probed {cpu} (the affinity at start, {cpu}, by taskset");
        assert!(said.contains(&words), "{said}");
    }
}

#[test]
fn affinity_all_means_every_cpu_that_can_be_reached() {
    let all = cpus();
    let place = Place::new();
    measure(&place, pinned(all[0]), &["-a", "all"]).expect(0);
    assert_eq!(place.run_of().request.cpus, all);
}

#[test]
fn a_load_alone_stays_in_the_initial_affinity_unless_cpus_are_named() {
    let [first, second, ..] = cpus()[..] else {
        skip!(Absent::cpus(2));
    };
    let on = |words: &[&str]| {
        let place = Place::new();
        let mut command = place.command(program());
        command
            .args(["load", "cpu", "-D", "1", "--json"])
            .args(words);
        pinned(first)(&mut command);
        let ended = Running::start(command).end().expect(0);
        ended.json()[0]["parameters"]["cpus"].clone()
    };
    assert_eq!(on(&[]), first.to_string());
    assert_eq!(on(&["-a", &second.to_string()]), second.to_string());
}

/// A program that may not change its affinity.
#[test]
fn an_affinity_that_cannot_be_changed_is_reported() {
    let [first, second, ..] = cpus()[..] else {
        skip!(Absent::cpus(2));
    };
    let place = Place::new();
    let words = ["-a", &second.to_string()];
    let forbid = |command: &mut Command| {
        pinned(first)(command);
        // SAFETY: between fork and exec; two system calls on data on the closure's stack.
        unsafe { command.pre_exec(forbid_set_affinity) };
    };
    let ended = measure(&place, forbid, &words).expect(64);
    assert!(
        ended.stderr.contains("the kernel refuses to change it"),
        "{ended:?}"
    );
    assert!(
        ended.stderr.contains(&format!("taskset -c {second}")),
        "{ended:?}"
    );
    assert_eq!(place.entries(), [""; 0]);
}

/// A filter under which `sched_setaffinity` fails with EPERM, as in a sandbox.
fn forbid_set_affinity() -> std::io::Result<()> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(load, 0, 0, 0),
        step(equal, 0, 1, libc::SYS_sched_setaffinity as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: prctl takes integers here.
    let bound = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the filter and its instructions outlive the call.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    if bound == 0 && set == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error())
}

/// A cpuset of version 1 with one CPU; removed when dropped.
struct Cpuset(PathBuf);

impl Cpuset {
    fn make(cpu: usize) -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").expect("the groups");
        let own = own
            .lines()
            .find_map(|line| line.split_once(":cpuset:")?.1.strip_prefix('/'))
            .expect("its cpuset");
        let parent = Path::new("/sys/fs/cgroup/cpuset").join(own);
        let set = Self(parent.join(format!("punctual-test-{}", std::process::id())));
        fs::create_dir(&set.0).expect("a cpuset");
        fs::write(set.0.join("cpuset.cpus"), cpu.to_string()).expect("its CPU");
        let memory = fs::read(parent.join("cpuset.mems")).expect("memory");
        fs::write(set.0.join("cpuset.mems"), memory).expect("its memory");
        set
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cpuset_is_the_limit_and_is_named() {
    let [first, second, ..] = cpus()[..] else {
        skip!(Absent::cpus(2));
    };
    need!(needs::root());
    need!(needs::kernel_file("/sys/fs/cgroup/cpuset/cpuset.cpus"));
    let set = Cpuset::make(second);
    let enter = |command: &mut Command| groups::join(command, &set.0);
    let place = Place::new();
    let ended = measure(&place, enter, &["--load", "cpu"]).expect(0);
    let (run, said) = told(&place, &ended);
    assert_eq!(run.request.cpus, [second], "{said}");
    let found = run.placement.expect("it is recorded");
    assert_eq!(
        (&*found.reachable, &*found.load),
        (&[second][..], &[second][..])
    );
    let place = Place::new();
    let ended = measure(&place, enter, &["-a", &first.to_string()]).expect(64);
    let file = set.0.join("cpuset.effective_cpus");
    let words = format!(
        "CPU {first} is not in the cpuset of this process: {} has CPUs {second}",
        file.display()
    );
    assert!(ended.stderr.contains(&words), "{ended:?}");
}
