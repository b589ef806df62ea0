//! A timed wait on a futex that only the probe uses.

use std::io;
use std::sync::atomic::AtomicU32;

use punctual_rt::sys::futex;

use super::source::WaitSource;

/// A futex word that no thread ever wakes.
#[derive(Debug, Default)]
pub struct FutexWait {
    word: AtomicU32,
}

impl WaitSource for FutexWait {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        match futex::wait_until(&self.word, 0, due_ns) {
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => Ok(()),
            Ok(()) => Err(io::Error::from_raw_os_error(libc::EINTR)),
            other => other,
        }
    }
}
