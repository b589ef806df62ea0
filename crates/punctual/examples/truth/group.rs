//! Control groups for the probe: one with a quota, one that is frozen.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The kernel takes a while to freeze a group, and to release its last member.
const PATIENCE: Duration = Duration::from_secs(5);

/// A group of our own, in version 1 or 2; when it is dropped it is removed, and its members return.
pub struct Group {
    place: PathBuf,
    home: PathBuf,
    /// The file to which a single thread's number is written.
    threads: &'static str,
    is_second: bool,
    members: Mutex<Vec<i32>>,
}

impl Group {
    /// A group below our own, for a controller of version 1 or, without that, in version 2.
    pub fn new(controller: &str) -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|why| format!("{path}: {why}"));
        let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        let mounted = |kind: &str, option: &str| {
            let line = mounts.lines().find(|line| {
                let (_, rest) = line.split_once(" - ").unwrap_or_default();
                let mut words = rest.split(' ');
                words.next() == Some(kind) && rest.split([' ', ',']).any(|it| it == option)
            })?;
            line.split(' ').nth(4).map(PathBuf::from)
        };
        let path = |controller: &str| {
            let line = own.lines().find_map(|line| {
                let (names, path) = line.split_once(':')?.1.split_once(':')?;
                names.split(',').any(|it| it == controller).then_some(path)
            });
            line.unwrap_or("/").trim_start_matches('/').to_owned()
        };
        let first = mounted("cgroup", controller);
        let is_second = first.is_none();
        let mount = first.or_else(|| mounted("cgroup2", "cgroup2"));
        let mount = mount.or_else(|| mounted("cgroup2", "none"));
        let mount = mount.ok_or("no control groups are mounted")?;
        let home = mount.join(path(if is_second { "" } else { controller }));
        if is_second && controller == "cpu" {
            let control = home.join("cgroup.subtree_control");
            set(&control, "+cpu")?;
        }
        let place = home.join(format!("truth-{controller}-{}", std::process::id()));
        fs::create_dir(&place).map_err(|why| format!("{}: {why}", place.display()))?;
        let group = Self {
            place,
            home,
            threads: match (is_second, controller) {
                (true, "cpu") => "cgroup.threads",
                (true, _) => "cgroup.procs",
                (false, _) => "tasks",
            },
            is_second,
            members: Mutex::default(),
        };
        if is_second && controller == "cpu" {
            // So that it accepts single threads.
            set(&group.place.join("cgroup.type"), "threaded")?;
        }
        Ok(group)
    }

    /// Sets the runtime of its threads in each period, in µs.
    pub fn bound(&self, runtime_us: u64, period_us: u64) -> Result<(), String> {
        if self.is_second {
            // Preferred to all others, until the quota is used up.
            set(&self.place.join("cpu.weight"), "10000")?;
            return set(
                &self.place.join("cpu.max"),
                &format!("{runtime_us} {period_us}"),
            );
        }
        set(&self.place.join("cpu.shares"), "262144")?;
        set(
            &self.place.join("cpu.cfs_period_us"),
            &period_us.to_string(),
        )?;
        set(
            &self.place.join("cpu.cfs_quota_us"),
            &runtime_us.to_string(),
        )
    }

    /// Adds a thread.
    pub fn join(&self, tid: i32) -> Result<(), String> {
        set(&self.place.join(self.threads), &tid.to_string())?;
        self.members.lock().expect("nobody panics").push(tid);
        Ok(())
    }

    /// How long the kernel has throttled its threads, by its own account.
    pub fn throttled_ns(&self) -> Option<u64> {
        let text = fs::read_to_string(self.place.join("cpu.stat")).ok()?;
        let of = |name: &str| -> Option<u64> {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        of("throttled_time ").or_else(|| Some(of("throttled_usec ")? * 1000))
    }

    /// Freezes or thaws its threads; returns true once that is done.
    pub fn freeze(&self, frozen: bool) -> bool {
        let (order, words, state, done) = match (self.is_second, frozen) {
            (true, true) => ("cgroup.freeze", "1", "cgroup.events", "frozen 1"),
            (true, false) => ("cgroup.freeze", "0", "cgroup.events", "frozen 0"),
            (false, true) => ("freezer.state", "FROZEN", "freezer.state", "FROZEN"),
            (false, false) => ("freezer.state", "THAWED", "freezer.state", "THAWED"),
        };
        let begin = Instant::now();
        let state = self.place.join(state);
        set(&self.place.join(order), words).is_ok()
            && loop {
                let text = fs::read_to_string(&state).unwrap_or_default();
                if text.lines().any(|line| line == done) {
                    break true;
                }
                if begin.elapsed() > PATIENCE {
                    break false;
                }
            }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let home = self.home.join(self.threads);
        for tid in self.members.lock().expect("nobody panics").iter() {
            let _ = set(&home, &tid.to_string());
        }
        let begin = Instant::now();
        while fs::remove_dir(&self.place).is_err() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn set(file: &Path, value: &str) -> Result<(), String> {
    fs::write(file, value).map_err(|why| format!("{}: {value}: {why}", file.display()))
}
