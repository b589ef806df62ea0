//! The instant at which several threads begin together.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that are set up wait here until it is known when they begin.
#[derive(Debug, Default)]
pub struct StartLine {
    told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, Default)]
enum Told {
    #[default]
    Nothing,
    At(u64),
    CalledOff,
}

impl StartLine {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all threads the instant, in ns, unless they were told before or it was called off.
    pub fn go(&self, start_ns: u64) {
        let mut told = self.told();
        if matches!(*told, Told::Nothing) {
            *told = Told::At(start_ns);
            self.changed.notify_all();
        }
    }

    /// Lets the threads end without having begun; returns whether they had not.
    pub fn call_off(&self) -> bool {
        let mut told = self.told();
        if matches!(*told, Told::Nothing) {
            *told = Told::CalledOff;
            self.changed.notify_all();
        }
        matches!(*told, Told::CalledOff)
    }

    /// Waits, not in real time: until the instant there is time. None if it was called off.
    pub fn wait(&self) -> Option<u64> {
        // Threads that looked again and again would take the CPU from those that are still being made.
        let nothing = |told: &mut Told| matches!(told, Told::Nothing);
        let told = self.changed.wait_while(self.told(), nothing);
        match *told.unwrap_or_else(PoisonError::into_inner) {
            Told::At(start_ns) => Some(start_ns),
            Told::Nothing | Told::CalledOff => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn all_are_told_the_same_once() {
        for called_off in [false, true] {
            let line = Arc::<StartLine>::default();
            let waits = || {
                let line = Arc::clone(&line);
                thread::spawn(move || line.wait())
            };
            let early: Vec<_> = (0..8).map(|_| waits()).collect();
            if called_off {
                assert!(line.call_off());
            } else {
                line.go(7);
            }
            line.go(8);
            assert_eq!(line.call_off(), called_off);
            let late = waits();
            for waited in early.into_iter().chain([late]) {
                assert_eq!(waited.join().unwrap(), (!called_off).then_some(7));
            }
        }
    }
}
