//! Signals that end a run cleanly, or that a reader of the record must know of.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// What signals have come. Handlers only set flags, and any number of signals ends
/// the run once: a session's end may send SIGTERM and SIGHUP in one go.
#[derive(Debug)]
pub struct Signals {
    ending: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Listens until it is dropped.
    ///
    /// # Errors
    /// None in practice.
    pub fn listen() -> io::Result<Self> {
        let ending = Arc::new(AtomicUsize::new(0));
        let continued = Arc::new(AtomicBool::new(false));
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Under nohup a hang-up is to be survived.
            if signal == SIGHUP && is_ignored(SIGHUP) {
                continue;
            }
            ids.push(flag::register_usize(
                signal,
                Arc::clone(&ending),
                signal as usize,
            )?);
        }
        ids.push(flag::register(SIGCONT, Arc::clone(&continued))?);
        Ok(Self {
            ending,
            continued,
            ids,
        })
    }

    /// The reason to end, if a signal gave one.
    #[must_use]
    pub fn end(&self) -> Option<&'static str> {
        match self.ending.load(Ordering::Relaxed) as i32 {
            SIGINT => Some("interrupt"),
            SIGTERM => Some("terminate"),
            SIGHUP => Some("hang-up"),
            _ => None,
        }
    }

    /// Whether the process was stopped and continued since the last call.
    #[must_use]
    pub fn take_continued(&self) -> bool {
        self.continued.swap(false, Ordering::Relaxed)
    }
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
