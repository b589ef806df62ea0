//! Creates and removes processor sets of this machine.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::process::{Child, Command};
use std::sync::MutexGuard;

use crate::needs::{self, Absent, need, skip};
use crate::stack_support::alone;
use punctual_rt::affinity;
use punctual_rt::cpuset::{Cpuset, CpusetError, Cpusets, Version};

/// The sets of this machine, and a CPU for one; or why sets aren't possible.
fn sets() -> Result<(MutexGuard<'static, ()>, Cpusets, usize), Absent> {
    // Two tests need the same CPU exclusively, and others pin threads to CPUs.
    let alone = alone();
    needs::root()?;
    let sets = match Cpusets::of_this_machine() {
        Ok(sets) => sets,
        Err(error) => {
            assert_eq!(error.errno(), libc::ENOTSUP);
            return Err(Absent::kernel(error));
        }
    };
    needs::cpus(2)?;
    let cpus = affinity::get(0).expect("affinity");
    Ok((alone, sets, cpus[cpus.len() - 1]))
}

/// Removes a set even when the test fails.
struct Removed(Cpuset);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = self.0.remove();
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn name(part: &str) -> String {
    format!("punctual-test-{part}-{}", std::process::id())
}

#[test]
fn a_set_is_created_used_and_removed() {
    let (_alone, sets, cpu) = need!(sets());
    let name = name("used");
    let set = match sets.create(&name, &[cpu]) {
        Ok(set) => Removed(set),
        Err(error @ CpusetError::NotIsolated(_)) => {
            assert_eq!(error.errno(), libc::EBUSY);
            assert!(sets.find(&name).is_err(), "it was removed again");
            skip!(Absent::kernel(error));
        }
        Err(CpusetError::System(path, error))
            if matches!(error.raw_os_error(), Some(libc::EROFS | libc::EACCES)) =>
        {
            skip!(Absent::refused(&path.display().to_string(), error));
        }
        Err(error) => panic!("{error}"),
    };
    set.0.state().expect("isolated");
    assert_eq!(set.0.cpus().expect("read"), cpu.to_string());
    assert!(matches!(
        sets.create(&name, &[cpu]),
        Err(error) if error.errno() == libc::EEXIST
    ));
    let own = std::env::current_exe().expect("this program");
    let mut child = Command::new(own);
    child.args(["--ignored", "--exact", "cpuset_sets::a_process_that_waits"]);
    let mut child = Ended(child.spawn().expect("a child"));
    let process = child.0.id() as libc::pid_t;
    set.0.move_process(process).expect("moved");
    assert_eq!(affinity::get(process).expect("affinity"), [cpu]);
    // Removal as by another process that only knows the name, with a task in the set.
    let found = sets.find(&name).expect("found");
    found.remove().expect("removed");
    found.remove().expect("removing again does nothing");
    assert!(sets.find(&name).is_err());
    assert!(
        affinity::get(process).expect("affinity").len() > 1,
        "the task is back"
    );
    let ended = child.0.try_wait().expect("asked");
    assert!(ended.is_none(), "the child waits for 60 s: {ended:?}");
}

#[test]
#[ignore = "the child of another test"]
fn a_process_that_waits() {
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_cpu_of_another_set_is_refused_with_the_kernels_reason() {
    let (_alone, sets, cpu) = need!(sets());
    let first = name("first");
    let set = match sets.create(&first, &[cpu]) {
        Ok(set) => set,
        Err(error @ CpusetError::NotIsolated(_)) => skip!(Absent::kernel(error)),
        Err(error) => skip!(Absent::refused("a set", error)),
    };
    let _set = Removed(set);
    let second = name("second");
    match sets.create(&second, &[cpu]) {
        Ok(set) => {
            let _ = set.remove();
            panic!("two sets have CPU {cpu}");
        }
        Err(error) if sets.version() == Version::Two => assert_eq!(error.errno(), libc::EBUSY),
        Err(error) => assert!(
            matches!(error.errno(), libc::EBUSY | libc::EINVAL),
            "{error}"
        ),
    }
    assert!(sets.find(&second).is_err(), "nothing is left behind");
}

#[test]
fn invalid_names_and_empty_cpu_lists_are_refused() {
    let sets = Cpusets::at("/no/such/hierarchy", Version::Two);
    for name in ["", ".", "..", "a/b", "a\nb"] {
        assert!(
            matches!(sets.create(name, &[0]), Err(CpusetError::InvalidArgument)),
            "{name:?}"
        );
    }
    assert!(matches!(
        sets.create("a", &[]),
        Err(CpusetError::InvalidArgument)
    ));
    let gone = sets.find("a").expect_err("no such set");
    assert_eq!(gone.errno(), libc::ENOENT);
}

/// A v2 hierarchy that behaves like the kernel's: the write succeeds.
#[test]
fn an_invalid_partition_is_reported_with_the_kernels_reason() {
    let root = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpuset");
    let _ = std::fs::remove_dir_all(&root);
    let folder = root.join("set");
    std::fs::create_dir_all(&folder).expect("a folder");
    let set = Cpusets::at(&root, Version::Two).find("set").expect("there");
    let state = folder.join("cpuset.cpus.partition");
    std::fs::write(&state, "isolated\n").expect("written");
    set.state().expect("isolated");
    let reason = "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n";
    std::fs::write(&state, reason).expect("written");
    let error = set.state().expect_err("invalid");
    assert_eq!(error.errno(), libc::EBUSY);
    assert!(
        error
            .to_string()
            .ends_with("Cpu list in cpuset.cpus not exclusive")
    );
    std::fs::write(&state, "member\n").expect("written");
    assert_eq!(set.state().expect_err("a member").errno(), libc::EBUSY);
}
