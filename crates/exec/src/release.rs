//! How one task releases the jobs of another: what it tells it, and the bell that wakes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use punctual_record::taskset::Means;

use crate::means::Bell;

/// Releases that may be pending, whatever the means.
const SLOTS: usize = 1024;

/// What a task tells the one that it releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// The arrival of the first job of the chain.
    pub arrival_ns: u64,
    /// The end of the job that releases.
    pub released_ns: u64,
    /// Which job of its task that was, from 0.
    pub job: u64,
}

#[derive(Default)]
struct Slot {
    arrival_ns: AtomicU64,
    released_ns: AtomicU64,
    job: AtomicU64,
}

struct Shared {
    bell: Bell,
    slots: Box<[Slot]>,
    pending: AtomicU32,
    /// Releases that found as many pending as may be.
    refused: AtomicU64,
}

impl Shared {
    /// How many may be pending: one place is kept for the end.
    fn most(&self) -> u32 {
        self.bell.most() - 1
    }
}

/// An arrival that stands for the end of the set.
const OVER: u64 = u64::MAX;

/// The end of the task that releases.
pub struct Releaser {
    shared: Arc<Shared>,
    next: usize,
}

/// The end of the task that is released.
pub struct Released {
    shared: Arc<Shared>,
    next: usize,
}

/// Connects two tasks.
///
/// # Errors
/// The kernel's, e.g. EMFILE.
pub fn connect(means: Means) -> io::Result<(Releaser, Released)> {
    let shared = Arc::new(Shared {
        bell: Bell::new(means)?,
        slots: (0..SLOTS).map(|_| Slot::default()).collect(),
        pending: AtomicU32::new(0),
        refused: AtomicU64::new(0),
    });
    let releaser = Releaser {
        shared: Arc::clone(&shared),
        next: 0,
    };
    Ok((releaser, Released { shared, next: 0 }))
}

impl Releaser {
    /// Releases a job, unless too many are pending: that one is skipped. Real-time safe.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn release(&mut self, release: Release) -> io::Result<()> {
        if self.shared.pending.load(Ordering::Relaxed) >= self.shared.most() {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.put(release)
    }

    /// Says that no further job will come.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end(&mut self) -> io::Result<()> {
        self.put(Release {
            arrival_ns: OVER,
            released_ns: 0,
            job: 0,
        })
    }

    #[inline]
    fn put(&mut self, release: Release) -> io::Result<()> {
        let slot = &self.shared.slots[self.next % SLOTS];
        self.next += 1;
        slot.arrival_ns.store(release.arrival_ns, Ordering::Relaxed);
        slot.released_ns
            .store(release.released_ns, Ordering::Relaxed);
        slot.job.store(release.job, Ordering::Relaxed);
        // Publishes the slot: the other end takes it after it has counted down.
        self.shared.pending.fetch_add(1, Ordering::Release);
        self.shared.bell.ring()
    }
}

impl Released {
    /// Makes the calling thread the one that is released.
    ///
    /// # Errors
    /// None in practice.
    pub fn belong_to_caller(&self) -> io::Result<()> {
        self.shared.bell.belong_to_caller()
    }

    /// Waits for the next release; `None` is the end. Real-time safe; one system call.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn wait(&mut self) -> io::Result<Option<Release>> {
        while let Err(error) = self.shared.bell.wait() {
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(error);
            }
        }
        let slot = &self.shared.slots[self.next % SLOTS];
        self.next += 1;
        self.shared.pending.fetch_sub(1, Ordering::Acquire);
        let arrival_ns = slot.arrival_ns.load(Ordering::Relaxed);
        Ok((arrival_ns != OVER).then(|| Release {
            arrival_ns,
            released_ns: slot.released_ns.load(Ordering::Relaxed),
            job: slot.job.load(Ordering::Relaxed),
        }))
    }

    /// How many may be pending.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.shared.most()
    }

    /// The releases that were refused since the last call. Real-time safe.
    #[inline]
    pub fn take_refused(&self) -> u64 {
        match self.shared.refused.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.shared.refused.swap(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(number: u64) -> Release {
        Release {
            arrival_ns: 10 * number,
            released_ns: 10 * number + 5,
            job: number,
        }
    }

    #[test]
    fn releases_come_in_order_and_what_finds_no_place_is_counted() {
        for means in [Means::Futex, Means::Mqueue, Means::Pipe] {
            let most = u64::from(means.most_pending());
            let (mut from, mut to) = connect(means).unwrap();
            assert_eq!(to.most(), means.most_pending());
            to.belong_to_caller().unwrap();
            for number in 0..most + 3 {
                from.release(release(number)).unwrap();
            }
            from.end().unwrap();
            for number in 0..most {
                assert_eq!(to.wait().unwrap(), Some(release(number)));
            }
            assert_eq!(to.wait().unwrap(), None);
            assert_eq!((to.take_refused(), to.take_refused()), (3, 0));
        }
    }

    #[test]
    fn no_release_is_lost_or_changed_between_two_threads() {
        let (mut from, mut to) = connect(Means::Futex).unwrap();
        let sender = std::thread::spawn(move || {
            for number in 0..20_000 {
                from.release(release(number)).unwrap();
            }
            from.end().unwrap();
        });
        let (mut taken, mut last) = (0, None);
        while let Some(found) = to.wait().unwrap() {
            assert_eq!(found, release(found.job));
            assert!(last < Some(found.job));
            last = Some(found.job);
            taken += 1;
        }
        sender.join().unwrap();
        assert_eq!(taken + to.take_refused(), 20_000);
    }
}
