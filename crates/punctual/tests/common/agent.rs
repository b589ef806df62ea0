//! A hypervisor's agent: the first process of some virtual machines. Kernels made for them show no
//! event while it runs, neither the interrupts nor the switches to and from it; only its accounts
//! tell that it did.

use std::collections::BTreeMap;
use std::fs;

/// When the agent ran, by the kernel's accounts.
pub struct Agent {
    /// How long each of its threads has run, in ns.
    threads: BTreeMap<String, u64>,
    looked_ns: u64,
    /// Stretches between two looks in which it ran.
    ran: Vec<(u64, u64)>,
}

impl Agent {
    pub fn from(now_ns: u64) -> Self {
        Self {
            threads: threads(),
            looked_ns: now_ns,
            ran: Vec::new(),
        }
    }

    /// Reads the accounts.
    pub fn look(&mut self, now_ns: u64) {
        let threads = threads();
        let before = |name| self.threads.get(name).copied().unwrap_or(0);
        if threads.iter().any(|(name, ns)| *ns > before(name)) {
            self.ran.push((self.looked_ns, now_ns));
        }
        self.threads = threads;
        self.looked_ns = now_ns;
    }

    /// Whether it ran in that time, or between the looks before and after it.
    pub fn ran_in(&self, from_ns: u64, to_ns: u64) -> bool {
        let mut ran = self.ran.iter();
        ran.any(|(first, last)| *first <= to_ns && *last >= from_ns)
    }
}

/// A thread that has just begun or is about to end may be absent.
fn threads() -> BTreeMap<String, u64> {
    let folder = fs::read_dir("/proc/1/task").into_iter().flatten();
    let each = folder.flatten().filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let ns = text.split(' ').next()?.parse().ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), ns))
    });
    each.collect()
}
