//! The owner of a thread: its process, command line and control group, read while it lives.

use punctual_rt::clock;

use crate::root::Root;
use punctual_record::proc_stat::Stat;
use punctual_record::proc_status::value;

/// Letters of a command line that are kept.
const COMMAND: usize = 256;

/// What `/proc` says about a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadOwner {
    /// The name of the thread.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// The command line; empty for a kernel thread, absent for a process that has none: it is about to
    /// end, or has removed its own.
    pub command: Option<String>,
    /// Its control group: of the CPU controller, else of version 2, else the longest path; absent
    /// if all are the root group.
    pub group: Option<String>,
    /// When it started, in ticks since boot.
    pub start: Option<u64>,
    /// Whether it is about to end.
    pub ended: bool,
}

/// The unit of a thread's start time in `/proc/PID/stat`: USER_HZ is 100.
const TICK_NS: u64 = 10_000_000;

impl ThreadOwner {
    /// Whether it started after an instant: then it only has the number of an earlier thread.
    #[must_use]
    pub fn is_later_than(&self, since_boot_ns: u64) -> bool {
        self.start.is_some_and(|start| {
            start.saturating_mul(TICK_NS) > since_boot_ns.saturating_add(2 * TICK_NS)
        })
    }
}

/// The time since boot at an instant of CLOCK_MONOTONIC, to 10 ms; absent if `/proc` does not
/// have it.
#[must_use]
pub fn since_boot_ns(root: &Root, monotonic_ns: u64) -> Option<u64> {
    let uptime = root.text("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let ago_ns = clock::now_ns().saturating_sub(monotonic_ns);
    Some(((uptime * 1e9) as u64).saturating_sub(ago_ns))
}

/// Reads it; `None` if the thread has ended or is not visible.
#[must_use]
pub fn thread_owner(root: &Root, tid: u32) -> Option<ThreadOwner> {
    let status = root.text(&format!("/proc/{tid}/status")).ok()?;
    let command = root
        .bytes(&format!("/proc/{tid}/cmdline"))
        .unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let command: String = command.trim_end().chars().take(COMMAND).collect();
    let groups = root
        .text(&format!("/proc/{tid}/cgroup"))
        .unwrap_or_default();
    let stat = root.text(&format!("/proc/{tid}/stat")).ok()?;
    let stat = Stat::parse(&stat);
    let is_of_kernel = stat.as_ref().is_some_and(Stat::is_of_kernel);
    let has_command = !command.is_empty() || is_of_kernel;
    Some(ThreadOwner {
        name: value(&status, "Name")?.to_owned(),
        pid: value(&status, "Tgid")?.parse().ok()?,
        command: has_command.then_some(command),
        group: group(&groups),
        start: stat.as_ref().and_then(|stat| stat.count(22)),
        ended: stat.is_some_and(|stat| stat.has_ended()),
    })
}

/// Generations that are looked through.
const GENERATIONS: usize = 16;

/// Who started a process.
fn parent(root: &Root, pid: u32) -> Option<u32> {
    let stat = root.text(&format!("/proc/{pid}/stat")).ok()?;
    let parent = Stat::parse(&stat)?.count(4)?;
    u32::try_from(parent).ok().filter(|parent| *parent != 0)
}

/// Whether a process is another one, or started it, or one of those that did.
#[must_use]
pub fn is_ancestor(root: &Root, pid: u32, of: u32) -> bool {
    let line = std::iter::successors(Some(of), |next| parent(root, *next));
    line.take(GENERATIONS).any(|next| next == pid)
}

/// Whether a process is this program, or a part of it that this program started: not another program
/// that it started.
#[must_use]
pub fn is_part_of(root: &Root, pid: u32, program: u32) -> bool {
    let executed = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let mut next = pid;
    for _ in 0..GENERATIONS {
        if next == program {
            return pid == program;
        }
        match parent(root, next) {
            None => return false,
            // Who started what this is of.
            Some(parent) if parent == program => return executed(next) == executed(program),
            Some(parent) => next = parent,
        }
    }
    false
}

fn group(groups: &str) -> Option<String> {
    let lines = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?)).filter(|(_, path)| *path != "/")
    });
    let rank = |controllers: &str| match controllers {
        "" => 1,
        some if some.split(',').any(|one| one == "cpu") => 2,
        _ => 0,
    };
    let best = lines.max_by_key(|(controllers, path)| (rank(controllers), path.len()));
    best.map(|(_, path)| path.to_owned())
}

/// The weight of a control group of version 2 among its siblings; absent if it has the default, 100.
#[must_use]
pub fn group_weight(root: &Root, group: &str) -> Option<u32> {
    let weight = root.text(&format!("/sys/fs/cgroup{group}/cpu.weight"));
    weight.ok()?.trim().parse().ok().filter(|it| *it != 100)
}

#[cfg(test)]
mod tests {
    use punctual_rt::clock;

    use super::{group, group_weight, is_ancestor, is_part_of, since_boot_ns, thread_owner};
    use crate::Root;

    #[test]
    fn a_process_without_a_command_line_is_not_a_kernel_thread_for_that() {
        // A zombie has none.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        let is_zombie = || std::fs::read_to_string(&stat).unwrap().contains(") Z ");
        while !is_zombie() {
            std::thread::yield_now();
        }
        let ended = thread_owner(&Root::live(), child.id()).unwrap();
        assert_eq!((&*ended.name, ended.command), ("true", None));
        assert!(ended.ended);
        child.wait().unwrap();
        assert!(
            !thread_owner(&Root::live(), std::process::id())
                .unwrap()
                .ended
        );
    }

    #[test]
    fn a_process_that_started_after_an_instant_is_a_different_one() {
        let root = Root::live();
        let before = since_boot_ns(&root, clock::now_ns()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut child = std::process::Command::new("sleep")
            .arg("9")
            .spawn()
            .unwrap();
        let own = thread_owner(&root, std::process::id()).unwrap();
        let later = thread_owner(&root, child.id()).unwrap();
        let after = since_boot_ns(&root, clock::now_ns()).unwrap();
        let (own_pid, other) = (std::process::id(), child.id());
        assert!(is_part_of(&root, own_pid, own_pid));
        // Another program, whoever started it.
        assert!(!is_part_of(&root, other, own_pid) && !is_part_of(&root, own_pid, other));
        assert!(is_ancestor(&root, own_pid, other) && is_ancestor(&root, own_pid, own_pid));
        assert!(!is_ancestor(&root, other, own_pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(later.is_later_than(before), "{later:?} {before}");
        assert!(!later.is_later_than(after) && !own.is_later_than(before));
    }

    #[test]
    fn a_weight_is_reported_unless_it_is_the_default() {
        let machine = tempfile::tempdir().unwrap();
        for (group, weight) in [("app", "500\n"), ("app/usual", "100\n"), ("app/odd", "x")] {
            let group = machine.path().join("sys/fs/cgroup").join(group);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join("cpu.weight"), weight).unwrap();
        }
        let root = Root::recorded(machine.path());
        let groups = ["/app", "/app/usual", "/app/odd", "/gone"];
        let weights = groups.map(|group| group_weight(&root, group));
        assert_eq!(weights, [Some(500), None, None, None]);
    }

    #[test]
    fn the_group_of_the_cpu_controller_is_reported() {
        let both = "9:name=systemd:/\n4:memory:/a/very/long/one\n1:cpu,cpuacct:/app\n0::/unit";
        assert_eq!(group(both).as_deref(), Some("/app"));
        assert_eq!(
            group("4:memory:/long/one\n0::/unit").as_deref(),
            Some("/unit")
        );
        assert_eq!(group("1:cpu:/\n4:memory:/m\n0::/").as_deref(), Some("/m"));
        assert_eq!(group("1:cpu:/\n0::/\nnonsense"), None);
    }
}
