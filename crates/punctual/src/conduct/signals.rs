//! Signals that end a run cleanly, or that the record must mention.
#![expect(
    unsafe_code,
    reason = "a handler that ends the probes before the kernel kills them"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::flag;

use punctual_record::Ending;
use punctual_record::proc_status::mask;

use crate::probe::cycle::Halt;

/// The signals that have come. Handlers only set flags, and any number of signals ends the run
/// once: the end of a login session may send SIGTERM and SIGHUP together.
#[derive(Debug)]
pub struct Signals {
    ending: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Installs the handlers, until this is dropped.
    ///
    /// # Errors
    /// None in practice.
    pub fn listen() -> io::Result<Self> {
        let ending = Arc::new(AtomicUsize::new(0));
        let continued = Arc::new(AtomicBool::new(false));
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGXCPU] {
            // Under nohup, SIGHUP must not end the run.
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

    /// Makes SIGXCPU end the probes at once: no other thread may get a CPU before the kernel kills a
    /// thread that occupies one.
    ///
    /// # Errors
    /// None in practice.
    pub fn end_at_time_limit(&mut self, halt: &Arc<Halt>) -> io::Result<()> {
        let halt = Arc::clone(halt);
        // SAFETY: the handler stores to an atomic that it owns a share of, and nothing else.
        let id = unsafe { signal_hook::low_level::register(SIGXCPU, move || halt.now()) }?;
        self.ids.push(id);
        Ok(())
    }

    /// Why the run must end, if a signal came.
    #[must_use]
    pub fn end(&self) -> Option<Ending> {
        match self.ending.load(Ordering::Relaxed) as i32 {
            SIGINT => Some(Ending::Interrupt),
            SIGTERM => Some(Ending::Terminate),
            SIGHUP => Some(Ending::HangUp),
            SIGXCPU => Some(Ending::TimeLimit),
            _ => None,
        }
    }

    /// Set by SIGCONT, whether or not the process was stopped before.
    #[must_use]
    pub fn continued(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.continued)
    }
}

/// From here on, a file that may not grow (RLIMIT_FSIZE) is an error of the write and does not end
/// the process. Programs that this process executes are not affected.
pub fn survive_long_files() {
    if !is_ignored(SIGXFSZ) {
        // This cannot fail for a signal that may be caught.
        let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    mask(&status, "SigIgn").is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
