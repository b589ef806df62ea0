//! The descendants of a process: finds, counts and kills all of them.

use std::collections::HashMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use punctual_record::proc_stat;

use crate::sys;

/// A clock tick. Linux shows user space 100 of them per second on every architecture but
/// alpha and ia64.
const TICK_NS: u64 = 10_000_000;

/// The descendants of `root`, parents before children.
///
/// Processes that fork or exit meanwhile may be missed: to get all of them, repeat until there are
/// none.
pub fn descendants(root: i32) -> Vec<i32> {
    let mut found = children(root);
    let mut next = 0;
    while next < found.len() {
        let more = children(found[next]);
        found.extend(more);
        next += 1;
    }
    found
}

fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return found;
    };
    for task in tasks.flatten() {
        match fs::read_to_string(task.path().join("children")) {
            Ok(text) => found.extend(
                text.split_whitespace()
                    .filter_map(|t| t.parse::<i32>().ok()),
            ),
            // A task that has just ended; or a kernel without CONFIG_PROC_CHILDREN, on which all
            // processes must be read.
            Err(_) if fs::exists("/proc/thread-self/children").unwrap_or(false) => {}
            Err(_) => return children_by_search(pid),
        }
    }
    found
}

fn children_by_search(parent: i32) -> Vec<i32> {
    processes()
        .filter(|&pid| Stat::read(pid).is_some_and(|stat| stat.parent == parent))
        .collect()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The fields of `/proc/PID/stat` that are needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R`, `S`, `D`, `Z` ...
    pub state: char,
    /// The parent's process id.
    pub parent: i32,
    /// Processor time of the process and of children that it waited for, in
    /// clock ticks.
    pub ticks: u64,
    /// That of those children alone.
    pub reaped_ticks: u64,
    /// When it was started, in clock ticks since the machine was.
    pub start: u64,
    /// The scheduling policy's number.
    pub policy: i32,
}

impl Stat {
    /// Reads it; `None` if there is no such process.
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let stat = proc_stat::Stat::parse(text)?;
        let ticks = |number| stat.count(number);
        Some(Stat {
            state: stat.state()?,
            parent: stat.field(4)?.parse().ok()?,
            ticks: ticks(14)? + ticks(15)? + ticks(16)? + ticks(17)?,
            reaped_ticks: ticks(16)? + ticks(17)?,
            start: ticks(22)?,
            policy: stat.field(41)?.parse().ok()?,
        })
    }
}

/// The number of living (not zombie) descendants of this process, and the processor time of all
/// current and former descendants, in milliseconds.
pub fn usage() -> (u64, u64) {
    let own = std::process::id() as i32;
    let stats: Vec<Stat> = descendants(own)
        .into_iter()
        .filter_map(Stat::read)
        .collect();
    let alive = stats.iter().filter(|stat| stat.state != 'Z').count() as u64;
    let ticks: u64 = stats.iter().map(|stat| stat.ticks).sum();
    (
        alive,
        ticks * (TICK_NS / 1_000_000) + sys::reaped_milliseconds(),
    )
}

/// CPU time of a supervisor's current and former descendants.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// The sum, in nanoseconds.
    total_ns: u64,
    /// Of each current descendant, without its children: by process ID and start time.
    own_ns: HashMap<(i32, u64), u64>,
}

impl Used {
    /// CPU time since an earlier reading.
    pub fn since(&self, before: &Used) -> u64 {
        // A process that ignores SIGCHLD loses the time of its children: then the sum shrinks.
        let grown = |(process, now_ns): (&(i32, u64), &u64)| {
            now_ns.saturating_sub(before.own_ns.get(process).copied().unwrap_or(0))
        };
        let of_living: u64 = self.own_ns.iter().map(grown).sum();
        of_living.max(self.total_ns.saturating_sub(before.total_ns))
    }
}

/// The CPU time of a supervisor's descendants. That of ended ones is known in clock ticks, that of the
/// others in nanoseconds.
pub fn used(supervisor: i32) -> Used {
    let reaped_ns = |stat: &Stat| stat.reaped_ticks * TICK_NS;
    let mut used = Used {
        total_ns: Stat::read(supervisor).as_ref().map_or(0, reaped_ns),
        own_ns: HashMap::new(),
    };
    for pid in descendants(supervisor) {
        let Some(stat) = Stat::read(pid) else {
            continue;
        };
        let in_ticks_ns = stat.ticks.saturating_sub(stat.reaped_ticks) * TICK_NS;
        let own_ns = sys::processor_time(pid).unwrap_or(in_ticks_ns);
        used.total_ns += own_ns + reaped_ns(&stat);
        used.own_ns.insert((pid, stat.start), own_ns);
    }
    used
}

/// Which of a supervisor's processes are stopped, by a signal or a debugger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// The number of working and stopped processes.
    pub all: usize,
    /// The stopped processes, by process ID and start time.
    pub those: Vec<(i32, u64)>,
}

impl Stopped {
    /// How many were also stopped at an earlier reading.
    pub fn since(&self, before: &Stopped) -> usize {
        let still = |process: &&(i32, u64)| before.those.contains(*process);
        self.those.iter().filter(still).count()
    }
}

/// Finds which of a supervisor's processes are stopped. Processes that wait for their own descendants
/// are not counted; frozen processes are not visible.
pub fn stopped(supervisor: i32) -> Stopped {
    let stats: Vec<(i32, Stat)> = descendants(supervisor)
        .into_iter()
        .filter_map(|pid| Some((pid, Stat::read(pid)?)))
        .filter(|(_, stat)| stat.state != 'Z')
        .collect();
    let mut found = Stopped::default();
    for (pid, stat) in &stats {
        if matches!(stat.state, 'T' | 't') {
            found.those.push((*pid, stat.start));
        } else if stats.iter().any(|(_, other)| other.parent == *pid) {
            continue;
        }
        found.all += 1;
    }
    found
}

/// Kills all descendants of this process, which must be a subreaper, and
/// reaps them; returns when none is left.
pub fn kill_descendants() {
    let own = std::process::id() as i32;
    let mut pause = Duration::from_millis(1);
    loop {
        for pid in descendants(own) {
            sys::kill(pid);
        }
        // Children of killed processes become children of this one, so none is left only when waitpid
        // says so.
        loop {
            match sys::wait(None, false) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Reaps descendants of this process, which must be a subreaper, that have ended, and kills and reaps
/// the others; returns how many these were.
pub fn end_descendants() -> usize {
    while let Ok(Some(_)) = sys::wait(None, false) {}
    let is_alive = |pid: &i32| Stat::read(*pid).is_some_and(|stat| stat.state != 'Z');
    let left = descendants(std::process::id() as i32);
    let left = left.into_iter().filter(is_alive).count();
    kill_descendants();
    left
}

/// Kills every process with `marker` in its environment: the last resort if a supervisor was itself
/// killed. True if none is left.
pub fn kill_marked(marker: &str, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let marked: Vec<i32> = processes().filter(|&pid| is_marked(pid, marker)).collect();
        if marked.is_empty() || Instant::now() > deadline {
            return marked.is_empty();
        }
        for pid in marked {
            sys::kill(pid);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn is_marked(pid: i32, marker: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ
        .split(|&byte| byte == 0)
        .any(|variable| variable == marker.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_no_trap() {
        let text = "12 (a) b) (c) S 7 1 1 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 5 6 7 8 \
                    0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 5 0 0 0";
        let expected = Stat {
            state: 'S',
            parent: 7,
            ticks: 10,
            reaped_ticks: 7,
            start: 5,
            policy: 5,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("12 (a) S"), None);
    }

    #[test]
    fn this_process_has_a_parent() {
        let parent = std::os::unix::process::parent_id() as i32;
        let stat = Stat::read(std::process::id() as i32).expect("our own stat");
        assert_eq!(stat.parent, parent);
    }
}
