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
    /// The command line; empty of a kernel thread.
    pub command: String,
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
    let groups = root
        .text(&format!("/proc/{tid}/cgroup"))
        .unwrap_or_default();
    Some(Whose {
        name: value("Name:")?.to_owned(),
        pid: value("Tgid:")?.parse().ok()?,
        command: command.trim_end().chars().take(COMMAND).collect(),
        group: group(&groups),
    })
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
    use super::group;

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
