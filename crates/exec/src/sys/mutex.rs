//! A mutex of the C library, by its protocol. It guards no data: tasks only hold it.

use std::cell::UnsafeCell;
use std::io;

use punctual_record::taskset::LockProtocol;

use super::check_returned;

/// A mutex that is locked and unlocked by hand.
pub struct Mutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a pthread mutex is made to be used by several threads, and the box keeps its place.
unsafe impl Sync for Mutex {}
// SAFETY: what moves is the pointer; the object that it leads to keeps its place.
unsafe impl Send for Mutex {}

impl Mutex {
    /// Creates an unlocked mutex that returns an error where its holder locks it again.
    ///
    /// # Errors
    /// ENOTSUP where the C library has no such protocol.
    pub fn new(protocol: LockProtocol) -> io::Result<Self> {
        // SAFETY: all-zero bytes are a valid value of this C struct, until it is initialised.
        let mut attributes: libc::pthread_mutexattr_t = unsafe { std::mem::zeroed() };
        let attributes = &raw mut attributes;
        // SAFETY: a live local that holds no attributes yet.
        check_returned(unsafe { libc::pthread_mutexattr_init(attributes) })?;
        let made = Self::with(attributes, protocol);
        // SAFETY: initialised above, destroyed once; mutexes don't need their attributes.
        unsafe { libc::pthread_mutexattr_destroy(attributes) };
        made
    }

    fn with(
        attributes: *mut libc::pthread_mutexattr_t,
        protocol: LockProtocol,
    ) -> io::Result<Self> {
        let kind = match protocol {
            LockProtocol::Inherit => libc::PTHREAD_PRIO_INHERIT,
            LockProtocol::Protect { .. } => libc::PTHREAD_PRIO_PROTECT,
            LockProtocol::Plain => libc::PTHREAD_PRIO_NONE,
        };
        // SAFETY: `new` initialised the attributes.
        check_returned(unsafe { libc::pthread_mutexattr_setprotocol(attributes, kind) })?;
        // SAFETY: initialised by this function or its caller, and alive.
        check_returned(unsafe {
            libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK)
        })?;
        if let LockProtocol::Protect { ceiling } = protocol {
            // SAFETY: initialised by this function or its caller, and alive.
            check_returned(unsafe {
                pthread_mutexattr_setprioceiling(attributes, libc::c_int::from(ceiling))
            })?;
        }
        // SAFETY: all-zero bytes are a valid value of this C struct, until it is initialised.
        let raw = Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() }));
        // SAFETY: the mutex lies in its final place and is initialised once.
        check_returned(unsafe { libc::pthread_mutex_init(raw.get(), attributes) })?;
        Ok(Self(raw))
    }

    /// Locks it. Real-time safe: no system call unless another thread holds it, or its protocol
    /// raises the priority.
    ///
    /// # Errors
    /// EDEADLK if the caller holds it; EINVAL if the caller's priority is above the ceiling, or it
    /// has none.
    #[inline]
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: initialised by `new`, and lives as long as `self`.
        check_returned(unsafe { libc::pthread_mutex_lock(self.0.get()) })
    }

    /// Its address, which is that of its futex.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.get().addr() as u64
    }

    /// Unlocks it. Real-time safe.
    ///
    /// # Errors
    /// EPERM if the caller doesn't hold it.
    #[inline]
    pub fn unlock(&self) -> io::Result<()> {
        // SAFETY: initialised by `new`, and lives as long as `self`.
        check_returned(unsafe { libc::pthread_mutex_unlock(self.0.get()) })
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        // A task that was given up may hold it still: then the C library refuses.
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}

unsafe extern "C" {
    /// The libc crate doesn't declare it.
    fn pthread_mutexattr_setprioceiling(
        attributes: *mut libc::pthread_mutexattr_t,
        ceiling: libc::c_int,
    ) -> libc::c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_locks_once_and_refuses_its_holder() {
        for protocol in [LockProtocol::Inherit, LockProtocol::Plain] {
            let mutex = Mutex::new(protocol).unwrap();
            mutex.lock().unwrap();
            let again = mutex.lock().unwrap_err();
            assert_eq!(again.raw_os_error(), Some(libc::EDEADLK));
            mutex.unlock().unwrap();
            let never = mutex.unlock().unwrap_err();
            assert_eq!(never.raw_os_error(), Some(libc::EPERM));
        }
    }

    #[test]
    fn a_ceiling_out_of_range_is_refused() {
        for (ceiling, made) in [(1, true), (99, true), (0, false), (100, false)] {
            let mutex = Mutex::new(LockProtocol::Protect { ceiling });
            assert_eq!(mutex.is_ok(), made, "{ceiling}");
        }
    }
}
