//! Memory that two processes share: words to wait on, in lines of the cache, and a text.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use super::check;
use super::time::timespec;

/// Lines at its beginning.
pub const LINES: usize = 256;
/// Words of a line: as many as a line of the cache has, so that those who use different lines don't
/// wait for each other.
pub const LINE: usize = 16;
/// Words of all lines.
const WORDS: usize = LINES * LINE;
/// Bytes of the page, whatever the page size: it is mapped whole.
const BYTES: usize = WORDS * size_of::<u32>() + 4096;
/// Where the text begins.
const TEXT: usize = WORDS * size_of::<u32>();

/// The page. Its memory is all zero at first.
#[derive(Debug)]
pub struct SharedPage {
    start: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: all access to the memory is atomic.
unsafe impl Send for SharedPage {}
// SAFETY: threads access its words by atomic operations alone.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Makes a page. Child processes inherit its descriptor.
    ///
    /// # Errors
    /// EMFILE, ENOMEM.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the name is a C string.
        let made = check(unsafe { libc::memfd_create(c"punctual-shared".as_ptr(), 0) })?;
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(made) };
        // SAFETY: takes numbers.
        check(unsafe { libc::ftruncate(file.as_raw_fd(), BYTES as libc::off_t) })?;
        Self::map(file)
    }

    /// The page whose descriptor this process inherited.
    ///
    /// # Errors
    /// EBADF, EACCES: it is no such page.
    pub fn inherited(number: RawFd) -> io::Result<Self> {
        Self::map(super::file::inherited(number)?)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, and the file has this size.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(place) if start != libc::MAP_FAILED => Ok(Self { start: place, file }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Child processes that start from now on don't inherit its descriptor.
    ///
    /// # Errors
    /// None in practice.
    pub fn close_on_exec(&self) -> io::Result<()> {
        // SAFETY: takes numbers, and changes a flag of a descriptor that is ours.
        check(unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })
            .map(drop)
    }

    /// The number of its descriptor.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// One of its words. Real-time safe.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline]
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < WORDS);
        // SAFETY: the place is within the mapping.
        let place = unsafe { self.start.cast::<AtomicU32>().add(index) };
        // SAFETY: the mapping lives as long as `self`, and pages are aligned.
        unsafe { place.as_ref() }
    }

    /// Writes a text, as much of it as there is room for.
    pub fn set_text(&self, text: &[u8]) {
        let room = BYTES - TEXT - 1;
        for (at, byte) in text.iter().take(room).chain([&0]).enumerate() {
            self.byte(at).store(*byte, Ordering::Relaxed);
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes = (0..BYTES - TEXT).map(|at| self.byte(at).load(Ordering::Relaxed));
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        assert!(at < BYTES - TEXT);
        // SAFETY: the place is within the mapping.
        let place = unsafe { self.start.add(TEXT + at) };
        // SAFETY: the mapping lives as long as `self`.
        unsafe { place.cast::<AtomicU8>().as_ref() }
    }

    /// Waits while a word has a value, at most for a time. Real-time safe; one system call. It may
    /// return early: the caller looks at the word again.
    pub fn wait(&self, index: usize, while_it_is: u32, at_most_ns: u64) {
        let length = timespec(at_most_ns);
        // SAFETY: the word and the time outlive the call; the kernel only reads them.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word(index).as_ptr(),
                libc::FUTEX_WAIT,
                while_it_is,
                &raw const length,
            )
        };
    }

    /// Wakes who waits for a word. Real-time safe; one system call.
    pub fn wake(&self, index: usize) {
        // SAFETY: the word outlives the call; the kernel compares its address.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word(index).as_ptr(),
                libc::FUTEX_WAKE,
                i32::MAX,
            )
        };
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_page_are_the_same_memory() {
        let one = SharedPage::new().unwrap();
        // SAFETY: takes a number.
        let copy = check(unsafe { libc::dup(one.number()) }).unwrap();
        let other = SharedPage::inherited(copy).unwrap();
        other.set_text(&[b'x'; 10_000]);
        assert_eq!(one.text().len(), BYTES - TEXT - 1);
        one.set_text(b"why");
        assert_eq!(other.text(), "why");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while other.word(3).load(Ordering::Acquire) == 0 {
                    other.wait(3, 0, u64::MAX);
                }
                other.word(4).store(7, Ordering::Release);
                other.wake(4);
            });
            one.word(3).store(1, Ordering::Release);
            one.wake(3);
            while one.word(4).load(Ordering::Acquire) == 0 {
                one.wait(4, 0, 1_000_000_000);
            }
        });
        assert_eq!(one.word(4).load(Ordering::Relaxed), 7);
        assert!(SharedPage::inherited(-1).is_err());
    }
}
