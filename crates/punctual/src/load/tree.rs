//! All that descends from a process: found, counted and killed to the last.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::sys;

/// The descendants of `root`, parents before children.
///
/// Processes that fork or exit meanwhile may be missed: who must get them all
/// asks again until there are none.
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
            // A task that has just ended; or a kernel without
            // CONFIG_PROC_CHILDREN, where all processes must be looked at.
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

/// What `/proc/PID/stat` says, as far as it is needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R`, `S`, `D`, `Z` ...
    pub state: char,
    /// The parent's process id.
    pub parent: i32,
    /// Processor time of the process and of children that it waited for, in
    /// clock ticks.
    pub ticks: u64,
    /// The scheduling policy's number.
    pub policy: i32,
}

impl Stat {
    /// Reads it; `None` when there is no such process.
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may hold spaces and parentheses: it ends at the last one.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // Numbered from 3 in proc_pid_stat(5).
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |number| field(number)?.parse::<u64>().ok();
        Some(Stat {
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            ticks: ticks(14)? + ticks(15)? + ticks(16)? + ticks(17)?,
            policy: field(41)?.parse().ok()?,
        })
    }
}

/// Living (not zombie) descendants of this process, and the processor time in
/// milliseconds of all that there are and were.
pub fn usage() -> (u64, u64) {
    let own = std::process::id() as i32;
    let stats: Vec<Stat> = descendants(own)
        .into_iter()
        .filter_map(Stat::read)
        .collect();
    let alive = stats.iter().filter(|stat| stat.state != 'Z').count() as u64;
    let ticks: u64 = stats.iter().map(|stat| stat.ticks).sum();
    // Linux shows user space 100 ticks per second on every architecture but
    // alpha and ia64.
    (alive, ticks * 10 + sys::reaped_milliseconds())
}

/// Kills all descendants of this process, which must be a subreaper, and
/// reaps them; returns when none is left.
pub fn kill_descendants() {
    let own = std::process::id() as i32;
    let mut pause = Duration::from_millis(1);
    loop {
        for pid in descendants(own) {
            let _ = sys::kill(pid, libc::SIGKILL);
        }
        // Killed parents hand their children to this process, so there are
        // none left only when waitpid says so.
        loop {
            match sys::wait(-1, false) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Kills every process that carries `marker` in its environment: the last
/// resort when a supervisor was itself killed. True when none is left.
pub fn kill_marked(marker: &str, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let marked: Vec<i32> = processes().filter(|&pid| is_marked(pid, marker)).collect();
        if marked.is_empty() || Instant::now() > deadline {
            return marked.is_empty();
        }
        for pid in marked {
            let _ = sys::kill(pid, libc::SIGKILL);
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
