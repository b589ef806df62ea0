//! In a memory cgroup, whose limit kills, a reservation above the limit is refused.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::needs::{Absent, skip};
use crate::stack_support::{End, alone, in_child};
use punctual_rt::heap;
use punctual_rt::records::Records;
use punctual_rt::ring::try_ring;
use punctual_rt::stack::{self, Class, StackError, Stats};
use punctual_rt::sys::cgroup;

/// A cgroup of this test with a limit; `None` where it can't be created.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("punctual-test-{}", std::process::id());
        for (root, limit) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
        ] {
            let _ = fs::write(Path::new(root).join("cgroup.subtree_control"), "+memory");
            let group = Self(Path::new(root).join(&name));
            if fs::create_dir(&group.0).is_ok()
                && fs::write(group.0.join(limit), bytes.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn an_allocation_above_the_cgroup_limit_is_refused_and_nothing_is_killed() {
    let _alone = alone();
    const MB: u64 = 1 << 20;
    let Some(group) = Group::new(48 * MB) else {
        skip!(Absent::right("a control group with a limit of memory"));
    };
    let class = Class::exact(2 << 20).unwrap();
    let made = Stats::of(class).made;
    let ended = in_child(|| {
        fs::write(group.0.join("cgroup.procs"), "0").unwrap();
        let left = cgroup::memory_left();
        if !left.is_some_and(|left| left > 8 * MB && left <= 48 * MB) {
            return 1;
        }
        // 400 MB in a cgroup of 48 MB.
        if stack::reserve(class, 200) != Err(StackError::NoMemory(libc::ENOMEM)) {
            return 2;
        }
        // Refused as a whole, before any page was allocated.
        if Stats::of(class).made != made {
            return 3;
        }
        // The same for the ring of a log, a ring of records and the heap.
        let refused = |error: Option<std::io::Error>| {
            error.and_then(|error| error.raw_os_error()) == Some(libc::ENOMEM)
        };
        if !refused(Records::new(1024, 400 << 10).err()) || Records::new(1024, 4096).is_err() {
            return 5;
        }
        if !refused(try_ring::<u64>(50 << 20).err()) || try_ring::<u64>(1 << 19).is_err() {
            return 6;
        }
        if cfg!(target_env = "gnu") && !refused(heap::keep(400 << 20).err()) {
            return 7;
        }
        // Memory that is kept already costs nothing: more than half of the limit, several times.
        if cfg!(target_env = "gnu") && !(0..3).all(|_| heap::keep(27 << 20).is_ok()) {
            return 8;
        }
        stack::reserve(class, 4).map_or(4, |()| 0)
    });
    assert_eq!(ended, End::Exit(0));
}
