//! Where this process runs, and which CPUs it can move to.

use std::io;
use std::thread;

use punctual_rt::affinity;

use super::super::{cgroup, limits, online};
use crate::root::{Reader, Root};

/// Where this process runs, and which CPUs it can move to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The initial affinity of the process, ascending.
    pub inherited: Vec<usize>,
    /// CPUs that it can move to, ascending. An affinity is not a limit, a cpuset is.
    pub reachable: Vec<usize>,
    /// The file that lists the CPUs of its cpuset; absent without a cpuset.
    pub cpuset: Option<String>,
    /// The isolated cgroup partition that it is in.
    pub partition: Option<String>,
    /// Why it can't change its affinity, if the kernel refuses that.
    pub refused: Option<String>,
}

impl Place {
    /// Reads it. On the live machine the CPUs that it can move to are found by
    /// moving there: in a thread created for that, so that no other thread moves.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let groups = cgroup::read(&mut Reader::new(root));
        let inherited = limits::allowed(root);
        let mut place = Self {
            cpuset: groups.cpuset.as_ref().map(|set| set.file.clone()),
            partition: groups.partition,
            ..Self::default()
        };
        place.reachable = if root.is_live() {
            let tried = everywhere();
            place.refused = tried.as_ref().err().map(ToString::to_string);
            tried.unwrap_or_else(|_| inherited.clone())
        } else {
            let in_set = |cpu: &usize| groups.cpuset.as_ref().is_none_or(|s| s.cpus.contains(cpu));
            online(root).into_iter().filter(in_set).collect()
        };
        place.inherited = inherited;
        place
    }
}

/// Requests every CPU, and reads back which were granted.
fn everywhere() -> io::Result<Vec<usize>> {
    let ask = || {
        let every: Vec<usize> = (0..affinity::MAX_CPUS).collect();
        affinity::set_current(&every)?;
        affinity::get(0)
    };
    let thread = thread::Builder::new().spawn(ask)?;
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("it could not be tried")))
}
