//! By what one task wakes another.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use punctual_record::taskset::Means;
use punctual_rt::sync::{Condvar, PiMutex};
use punctual_rt::sys::futex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::sys::mqueue::{self, MessageQueue};
use crate::sys::semaphore::Semaphore;
use crate::sys::signal;

/// Counts how often it was rung; one thread waits for each.
pub enum Bell {
    /// A futex.
    Futex(AtomicU32),
    /// A semaphore.
    Semaphore(Semaphore),
    /// A condition variable.
    Condvar(PiMutex<u32>, Condvar),
    /// A signal in this process to the thread with this number; 0 until it is known.
    Signal(u32, AtomicI32),
    /// An eventfd that counts.
    Eventfd(OwnedFd),
    /// A message queue.
    Mqueue(MessageQueue),
    /// The reading and the writing end of a pipe or of a socket: a byte each time.
    Stream(OwnedFd, OwnedFd),
}

impl Bell {
    /// Makes one. It waits in no call of [`Bell::ring`] as long as at most [`Bell::most`] are
    /// pending.
    ///
    /// # Errors
    /// The kernel's, e.g. EMFILE.
    pub fn new(means: Means) -> io::Result<Self> {
        Ok(match means {
            Means::Futex => Self::Futex(AtomicU32::new(0)),
            Means::Semaphore => Self::Semaphore(Semaphore::new()?),
            Means::Condvar => Self::Condvar(PiMutex::new(0)?, Condvar::new()),
            Means::Signal => Self::Signal(std::process::id(), AtomicI32::new(0)),
            Means::Eventfd => {
                let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
                Self::Eventfd(eventfd(0, flags)?)
            }
            Means::Mqueue => Self::Mqueue(MessageQueue::new()?),
            Means::Pipe => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                Self::Stream(read, write)
            }
            Means::Socket => {
                let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
                let (read, write) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
                Self::Stream(read, write)
            }
        })
    }

    /// How many may be pending.
    #[must_use]
    pub fn most(&self) -> u32 {
        match self {
            Self::Mqueue(_) => mqueue::DEPTH,
            // `net.unix.max_dgram_qlen` is 10 where nobody changed it, and it counts from 0.
            Self::Stream(..) => 10,
            _ => 1024,
        }
    }

    /// Makes the calling thread the one that waits.
    ///
    /// # Errors
    /// None in practice.
    pub fn belong_to_caller(&self) -> io::Result<()> {
        if let Self::Signal(_, tid) = self {
            punctual_rt::sys::time::block_signals(&[signal::number()])?;
            tid.store(punctual_rt::sys::task::current_tid(), Ordering::Release);
        }
        Ok(())
    }

    /// Rings once. Real-time safe; at most one system call, two for a contended condition variable.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn ring(&self) -> io::Result<()> {
        match self {
            Self::Futex(count) => {
                count.fetch_add(1, Ordering::Release);
                futex::wake(count, 1);
                Ok(())
            }
            Self::Semaphore(semaphore) => semaphore.post(),
            Self::Condvar(mutex, condvar) => {
                *mutex.lock()? += 1;
                condvar.notify_one();
                Ok(())
            }
            Self::Signal(process, tid) => signal::send(*process, tid.load(Ordering::Acquire)),
            Self::Eventfd(counter) => {
                rustix::io::write(counter, &1u64.to_ne_bytes())?;
                Ok(())
            }
            Self::Mqueue(queue) => queue.send(),
            Self::Stream(_, write) => {
                rustix::io::write(write, &[0])?;
                Ok(())
            }
        }
    }

    /// Waits until it was rung once more than this returned. Real-time safe; one system call unless
    /// it is pending.
    ///
    /// # Errors
    /// EINTR when a signal handler ran; the kernel's.
    #[inline]
    pub fn wait(&self) -> io::Result<()> {
        match self {
            Self::Futex(count) => loop {
                if count.load(Ordering::Acquire) > 0 {
                    count.fetch_sub(1, Ordering::Acquire);
                    return Ok(());
                }
                futex::wait(count, 0);
            },
            Self::Semaphore(semaphore) => semaphore.wait(),
            Self::Condvar(mutex, condvar) => {
                let mut count = mutex.lock()?;
                while *count == 0 {
                    condvar.wait(&mut count)?;
                }
                *count -= 1;
                Ok(())
            }
            Self::Signal(..) => signal::wait(),
            Self::Eventfd(counter) => {
                rustix::io::read(counter, &mut [0u8; 8])?;
                Ok(())
            }
            Self::Mqueue(queue) => queue.receive(),
            Self::Stream(read, _) => {
                rustix::io::read(read, &mut [0u8])?;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every means.
    const ALL: [Means; 8] = [
        Means::Futex,
        Means::Semaphore,
        Means::Condvar,
        Means::Signal,
        Means::Eventfd,
        Means::Mqueue,
        Means::Pipe,
        Means::Socket,
    ];

    #[test]
    fn as_many_as_may_be_pending_wait_for_nobody_and_each_is_taken_once() {
        for means in ALL {
            let bell = Bell::new(means).unwrap();
            bell.belong_to_caller().unwrap();
            assert_eq!(bell.most(), means.most_pending() + 1, "{means:?}");
            // Not what the limit of queued signals allows, but some.
            let count = bell.most().min(32);
            for _ in 0..count {
                bell.ring().unwrap();
            }
            for _ in 0..count {
                bell.wait().unwrap();
            }
        }
    }

    #[test]
    fn a_waiting_thread_is_woken_by_each_ring() {
        for means in ALL {
            let bell = Bell::new(means).unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    bell.belong_to_caller().unwrap();
                    tell.send(()).unwrap();
                    for _ in 0..100 {
                        while bell.wait().is_err() {}
                        tell.send(()).unwrap();
                    }
                });
                for _ in 0..100 {
                    told.recv().unwrap();
                    bell.ring().unwrap();
                }
                told.recv().unwrap();
            });
        }
    }
}
