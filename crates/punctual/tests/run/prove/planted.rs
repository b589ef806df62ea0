//! A knob with a known effect: a thread above the probes that burns CPU time while a file holds 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual_rt::affinity;
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::time::clock_now;

/// Above the probes' priority.
const PRIORITY: u32 = 95;
const PERIOD: Duration = Duration::from_millis(5);
const BURN_NS: u64 = 1_000_000;
/// What the burning threads are called.
pub const THREAD: &str = "planted";

/// The value that the file had, from an instant on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub at_ns: u64,
    pub value: String,
}

/// A file, a thread for each CPU that burns time while it holds 1, and one that logs its changes.
pub struct Planted {
    path: PathBuf,
    over: Arc<AtomicBool>,
    burning: Vec<JoinHandle<()>>,
    watching: Option<JoinHandle<Vec<Change>>>,
}

impl Planted {
    /// The file holds 1 from the beginning.
    pub fn begin(folder: &Path, cpus: &[usize]) -> Self {
        let path = folder.join("knob");
        fs::write(&path, "1\n").expect("the knob");
        let over = Arc::new(AtomicBool::new(false));
        let burning = cpus.iter().map(|cpu| {
            let (cpu, path, over) = (*cpu, path.clone(), Arc::clone(&over));
            let named = thread::Builder::new().name(THREAD.to_owned());
            named
                .spawn(move || burn(cpu, &path, &over))
                .expect("a thread")
        });
        let burning = burning.collect();
        let watching = {
            let (path, over) = (path.clone(), Arc::clone(&over));
            thread::spawn(move || watch(&path, &over))
        };
        Self {
            path,
            over,
            burning,
            watching: Some(watching),
        }
    }

    /// The knob as `prove` takes it: on with 0.
    pub fn knob(&self) -> String {
        format!("{}=0", self.path.display())
    }

    pub fn value(&self) -> String {
        value(&self.path)
    }

    pub fn set(&self, value: &str) {
        fs::write(&self.path, value).expect("the knob");
    }

    /// Ends the threads; what the file held when.
    pub fn end(mut self) -> Vec<Change> {
        self.over.store(true, Ordering::Release);
        let watching = self.watching.take().expect("it runs");
        watching.join().expect("a log")
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        for thread in self.burning.drain(..) {
            let _ = thread.join();
        }
    }
}

fn value(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

fn now_ns() -> u64 {
    clock_now(libc::CLOCK_MONOTONIC)
}

fn burn(cpu: usize, path: &Path, over: &AtomicBool) {
    affinity::set_current(&[cpu]).expect("a CPU");
    sched::set_current(Policy::Fifo(PRIORITY)).expect("the right was checked");
    while !over.load(Ordering::Acquire) {
        if value(path) == "1" {
            let end_ns = now_ns() + BURN_NS;
            while now_ns() < end_ns {}
        }
        thread::sleep(PERIOD);
    }
}

/// A change is logged within a few milliseconds: it has a priority too, but hardly runs.
fn watch(path: &Path, over: &AtomicBool) -> Vec<Change> {
    sched::set_current(Policy::Fifo(PRIORITY)).expect("the right was checked");
    let mut changes: Vec<Change> = Vec::new();
    while !over.load(Ordering::Acquire) {
        let (at_ns, value) = (now_ns(), value(path));
        // Empty between the truncation and the write of another program.
        if !value.is_empty() && changes.last().is_none_or(|last| last.value != value) {
            changes.push(Change { at_ns, value });
        }
        thread::sleep(Duration::from_millis(2));
    }
    changes
}
