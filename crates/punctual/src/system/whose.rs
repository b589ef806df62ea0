//! Whose a thread is: its process, command line and control group, while it lives.

use super::root::Root;

/// Letters of a command line that are kept.
const COMMAND: usize = 256;

/// What `/proc` says of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// The name of the thread.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// The command line; empty of a kernel thread, absent of a process that is about to end and has
    /// none any more.
    pub command: Option<String>,
    /// Its control group: of the CPU controller, else of version 2, else the longest path; absent
    /// where all are at the root.
    pub group: Option<String>,
}

/// Reads it; nothing where the thread has ended or can't be seen.
#[must_use]
pub fn whose(root: &Root, tid: u32) -> Option<Whose> {
    let status = root.text(&format!("/proc/{tid}/status")).ok()?;
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim())
    };
    let command = root
        .bytes(&format!("/proc/{tid}/cmdline"))
        .unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let command: String = command.trim_end().chars().take(COMMAND).collect();
    let groups = root
        .text(&format!("/proc/{tid}/cgroup"))
        .unwrap_or_default();
    let stat = root.text(&format!("/proc/{tid}/stat")).ok()?;
    let has_command = !command.is_empty() || is_of_kernel(&stat);
    Some(Whose {
        name: value("Name:")?.to_owned(),
        pid: value("Tgid:")?.parse().ok()?,
        command: has_command.then_some(command),
        group: group(&groups),
    })
}

/// Whether the flags in `/proc/PID/stat` say `PF_KTHREAD`.
fn is_of_kernel(stat: &str) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    // The name before may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = after_name.split_whitespace().nth(6);
    let flags: Option<u32> = flags.and_then(|word| word.parse().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
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

#[cfg(test)]
mod tests {
    use super::{group, is_of_kernel, whose};
    use crate::system::Root;

    #[test]
    fn a_process_without_a_command_line_is_not_a_kernel_thread_for_that() {
        assert!(is_of_kernel("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!is_of_kernel("77 (a) 2129984) Z 1 77 77 0 -1 4227084 0 0"));
        assert!(!is_of_kernel("") && !is_of_kernel("1 (x) S 0 0 0 0 -1 none"));
        // A zombie has none.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        let is_zombie = || std::fs::read_to_string(&stat).unwrap().contains(") Z ");
        while !is_zombie() {
            std::thread::yield_now();
        }
        let ended = whose(&Root::live(), child.id()).unwrap();
        assert_eq!((&*ended.name, ended.command), ("true", None));
        child.wait().unwrap();
    }

    #[test]
    fn the_group_that_has_the_cpu_is_the_one_that_matters() {
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
