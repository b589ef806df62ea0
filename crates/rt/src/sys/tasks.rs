//! The threads of this process, and where each blocks, from `/proc/self/task`.
//!
//! Read without an allocation, for reports from any context. Nothing here is for a real-time
//! thread.

use std::ffi::{CStr, c_int};

use super::map::errno;

/// Calls `see` for each thread of the process with its id and the kernel's line about it
/// (`/proc/PID/task/TID/syscall`: `running`, or the system call that it blocks in, its arguments,
/// its stack pointer and its instruction pointer). Threads that can't be read are omitted.
/// Async-signal-safe, and not for a real-time thread: it reads files.
pub fn each(mut see: impl FnMut(usize, &str)) {
    let Some(folder) = File::open(c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY) else {
        return;
    };
    // An array of words, for the alignment of the kernel's entries.
    let mut entries = [0_u64; 64];
    loop {
        let room = size_of_val(&entries);
        // SAFETY: the kernel writes at most `room` bytes.
        let got = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                folder.0,
                entries.as_mut_ptr(),
                room as libc::c_uint,
            )
        };
        let got = usize::try_from(got).unwrap_or(0).min(room);
        if got == 0 {
            return;
        }
        // SAFETY: the kernel wrote that many bytes of the array, which is initialised and
        // aligned.
        let bytes = unsafe { std::slice::from_raw_parts(entries.as_ptr().cast::<u8>(), got) };
        for thread in Entries(bytes) {
            let mut line = [0; 256];
            if let Some(line) = syscall_of(thread, &mut line) {
                see(thread, line);
            }
        }
    }
}

struct File(c_int);

impl File {
    fn open(path: &CStr, flags: c_int) -> Option<Self> {
        // SAFETY: the path is a C string.
        let descriptor = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
        (descriptor >= 0).then_some(Self(descriptor))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { libc::close(self.0) };
    }
}

/// The numeric names in the result of `getdents64`.
struct Entries<'a>(&'a [u8]);

impl Iterator for Entries<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        const LENGTH_AT: usize = 16;
        const NAME_AT: usize = 19;
        loop {
            let length = self.0.get(LENGTH_AT..LENGTH_AT + 2)?.try_into().ok()?;
            let length = usize::from(u16::from_ne_bytes(length));
            if length <= NAME_AT {
                return None;
            }
            let name = CStr::from_bytes_until_nul(self.0.get(NAME_AT..length)?).ok();
            self.0 = &self.0[length..];
            let number = name.and_then(|name| name.to_str().ok()?.parse().ok());
            if number.is_some() {
                return number;
            }
        }
    }
}

fn syscall_of(thread: usize, line: &mut [u8; 256]) -> Option<&str> {
    let mut path = [0_u8; 64];
    let (before, after) = (b"/proc/self/task/", b"/syscall\0");
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    let mut rest = thread;
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let parts = [&before[..], &digits[first..], &after[..]];
    for (place, byte) in path.iter_mut().zip(parts.iter().copied().flatten()) {
        *place = *byte;
    }
    let file = File::open(CStr::from_bytes_until_nul(&path).ok()?, libc::O_RDONLY)?;
    loop {
        // SAFETY: the kernel writes at most the size of `line`.
        let got = unsafe { libc::read(file.0, line.as_mut_ptr().cast(), line.len()) };
        match usize::try_from(got) {
            Ok(got) => return std::str::from_utf8(&line[..got]).ok(),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_entry_ends_the_list() {
        let entry = |name: &str| {
            let mut bytes = vec![0; 16];
            bytes.extend(32_u16.to_ne_bytes());
            bytes.push(4);
            bytes.extend(name.bytes());
            bytes.resize(32, 0);
            bytes
        };
        let bytes = [entry("."), entry(".."), entry("12"), entry("34")].concat();
        assert_eq!(Entries(&bytes).collect::<Vec<_>>(), [12, 34]);
        assert_eq!(Entries(&bytes[..127]).collect::<Vec<_>>(), [12]);
        assert_eq!(Entries(&[0; 64]).count(), 0);
    }

    #[test]
    #[cfg(not(miri))]
    fn every_thread_is_listed_including_the_caller() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            sender.send(crate::sys::task::current_tid()).unwrap();
            std::thread::park();
        });
        let blocked = receiver.recv().unwrap() as usize;
        let own = crate::sys::task::current_tid() as usize;
        let mut seen = Vec::new();
        each(|thread, line| seen.push((thread, line.to_owned())));
        for thread in [own, blocked] {
            assert_eq!(seen.iter().filter(|(seen, _)| *seen == thread).count(), 1);
        }
        other.thread().unpark();
        other.join().unwrap();
    }
}
