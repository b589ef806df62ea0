//! A made-up machine: a directory with its files.

use std::fs;
use std::path::PathBuf;

use punctual_machine::{CheckRequest, Root, check};
use punctual_record::finding::{Check, Finding, FindingId};
use tempfile::TempDir;

/// A machine of four CPUs, of which 2 and 3 are for real-time work.
pub struct Tree(TempDir);

/// The policy of a thread, and its priority.
#[derive(Clone, Copy)]
pub enum Policy {
    Other,
    Fifo(u32),
}

/// A line of `/proc/PID/stat`.
pub fn stat(tid: u32, name: &str, is_of_kernel: bool, policy: Policy) -> String {
    let (number, priority) = match policy {
        Policy::Other => (0, 0),
        Policy::Fifo(priority) => (1, priority),
    };
    // PF_KTHREAD
    let flags = if is_of_kernel { 0x0020_0000 } else { 0 };
    let zeros = "0 ".repeat(30);
    format!("{tid} ({name}) S 0 0 0 0 -1 {flags} {zeros}{priority} {number} 0 0 0\n")
}

/// What every machine has.
const BASE: &[(&str, &str)] = &[
    (
        "/proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n",
    ),
    ("/proc/sys/kernel/osrelease", "6.8.0\n"),
    ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
    ("/proc/sys/kernel/hostname", "made-up\n"),
    (
        "/proc/mounts",
        "debugfs /sys/kernel/debug debugfs rw 0 0\n\
         tracefs /sys/kernel/tracing tracefs rw 0 0\n\
         securityfs /sys/kernel/security securityfs rw 0 0\n",
    ),
    (
        "/boot/config-6.8.0",
        "CONFIG_PREEMPT=y\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_FTRACE=y\nCONFIG_CPU_ISOLATION=y\n\
         CONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_IRQ_FORCED_THREADING=y\n\
         CONFIG_HOTPLUG_SMT=y\n",
    ),
    ("/sys/devices/system/cpu/online", "0-3\n"),
    ("/sys/devices/system/cpu/isolated", "\n"),
];

impl Tree {
    pub fn empty() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    /// What every machine has, and nothing else.
    pub fn base() -> Self {
        let tree = Self::empty();
        for (path, text) in BASE {
            tree.write(path, text);
        }
        tree.thread(2, "kthreadd", true, Policy::Other, "0-3");
        tree
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// Writes a file; a path that ends with a slash is a directory.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let file = self.path(path);
        if path.ends_with('/') {
            fs::create_dir_all(file).expect("a directory");
            return;
        }
        fs::create_dir_all(file.parent().expect("a folder")).expect("a directory");
        fs::write(file, text).expect(path);
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).expect(path);
    }

    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.path(path)).ok()
    }

    pub fn thread(&self, tid: u32, name: &str, is_of_kernel: bool, policy: Policy, cpus: &str) {
        let folder = format!("/proc/{tid}/task/{tid}");
        self.write(
            &format!("{folder}/stat"),
            stat(tid, name, is_of_kernel, policy),
        );
        let status = format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\n");
        self.write(&format!("{folder}/status"), status);
    }

    pub fn root(&self) -> Root {
        Root::recorded(self.0.path())
    }

    pub fn check(&self) -> Check {
        check(&self.root(), &request())
    }

    pub fn finding(&self, id: FindingId) -> Finding {
        let check = self.check();
        check.finding(id).expect("each finding").clone()
    }
}

/// For a program on CPUs 2 and 3.
pub fn request() -> CheckRequest {
    CheckRequest {
        cpus: Some(vec![2, 3]),
        ..CheckRequest::default()
    }
}
