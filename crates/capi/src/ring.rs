//! Passing data out of a real-time thread: the ring, and the log that uses it.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use punctual_rt::log::{self, ARGUMENTS, Logger, RealTime, Writer};
use punctual_rt::records::Records;
use punctual_rt::sys::cancel::hold;

use crate::errno::{fail, no_thread, null, number};
use crate::reserve::Since;

/// A ring of records of one size, from one thread to another.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub struct punctual_ring(Records);

/// Creates a ring for at least `capacity` records (rounded up to a power of two) of `record_size`
/// bytes each, prefaulted.
///
/// Not for a real-time thread: it allocates, and touches each page. NULL with errno: EINVAL a
/// size or capacity of 0, or more than 1 GB in total; ENOMEM, also if the allocation would
/// trigger the OOM killer of the memory cgroup (memory.max), as far as that can be known in
/// advance.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_ring_create(record_size: usize, capacity: usize) -> *mut punctual_ring {
    let since = Since::now();
    let made = Records::new(record_size, capacity);
    let made = made.map(|records| Box::new(punctual_ring(records)));
    let number = match made {
        Ok(ring) if !since.is_short() => return Box::into_raw(ring),
        Ok(_) => libc::ENOMEM,
        Err(error) => number(&error),
    };
    let words = match number {
        libc::ENOMEM => c"no memory for the ring: check free memory and the memory cgroup",
        _ => c"ring: expected records of at least 1 byte, and at most 1 GB in total",
    };
    fail(number, words);
    std::ptr::null_mut()
}

/// Frees the ring's memory; NULL is allowed.
///
/// Not for a real-time thread: it unmaps memory. It never fails.
///
/// # Safety
/// `ring` is NULL, or comes from punctual_ring_create() and no thread uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_ring_destroy(ring: *mut punctual_ring) {
    if !ring.is_null() {
        // SAFETY: not NULL, so by contract from punctual_ring_create(), and unused.
        drop(unsafe { Box::from_raw(ring) });
    }
}

/// Appends the record at `record`.
///
/// A real-time thread may call it: wait-free, no system call. -1 with errno: EAGAIN the ring is
/// full: the record is lost, and counted; EFAULT a pointer is NULL.
///
/// # Safety
/// `ring` is NULL or was not destroyed, and one thread at a time pushes; `record` is NULL or
/// has as many bytes as a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_ring_push(
    ring: *mut punctual_ring,
    record: *const std::ffi::c_void,
) -> c_int {
    // SAFETY: by contract `ring` is NULL or was not destroyed.
    let Some(ring) = (unsafe { ring.as_ref() }).filter(|_| !record.is_null()) else {
        return null();
    };
    // SAFETY: by contract one thread pushes at a time, and `record` has the size of a record.
    if unsafe { ring.0.push(record.cast()) } {
        0
    } else {
        fail(
            libc::EAGAIN,
            c"the ring is full: the record is lost and counted",
        )
    }
}

/// Takes the oldest record into `record`: returns 1, or 0 when there is none.
///
/// A real-time thread may call it: wait-free, no system call. -1 with EFAULT: a pointer is NULL.
///
/// # Safety
/// `ring` is NULL or was not destroyed, and one thread at a time pops; `record` is NULL or has
/// room for a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_ring_pop(
    ring: *mut punctual_ring,
    record: *mut std::ffi::c_void,
) -> c_int {
    // SAFETY: by contract `ring` is NULL or was not destroyed.
    let Some(ring) = (unsafe { ring.as_ref() }).filter(|_| !record.is_null()) else {
        return null();
    };
    // SAFETY: by contract one thread pops at a time, and `record` has room for a record.
    c_int::from(unsafe { ring.0.pop(record.cast()) })
}

/// How many records were lost since the ring was created, because it was full.
///
/// A real-time thread may call it: one load. UINT64_MAX with EFAULT: `ring` is NULL.
///
/// # Safety
/// `ring` is NULL or was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_ring_lost(ring: *const punctual_ring) -> u64 {
    // SAFETY: by contract `ring` is NULL or was not destroyed.
    match unsafe { ring.as_ref() } {
        Some(ring) => ring.0.lost(),
        None => {
            null();
            u64::MAX
        }
    }
}

/// A file that blocks even if it is O_NONBLOCK: any other process that shares a standard output
/// may make it non-blocking.
struct Waiting(File);

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => writable(&self.0)?,
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits until a file accepts more, or never will.
fn writable(file: &File) -> io::Result<()> {
    let mut wanted = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: poll gets one live struct.
    match unsafe { libc::poll(&raw mut wanted, 1, -1) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

const NO_MEMORY: &CStr = c"no memory for the log";

/// The log of one real-time thread.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub struct punctual_log {
    logger: Logger,
    writer: Writer,
}

/// The maximum number of arguments of one record of a log.
pub const PUNCTUAL_LOG_ARGUMENTS: usize = 6;
const _: () = assert!(PUNCTUAL_LOG_ARGUMENTS == ARGUMENTS);

/// Opens a log for one real-time thread: a ring of at least `capacity` records, prefaulted, and
/// an ordinary thread that writes a line for each record to `fd`: its time in seconds of
/// CLOCK_MONOTONIC, and `formats[id]`. Formats have printf's conversions for 64-bit numbers: %u,
/// %d, %x, %f (see punctual_log_double()), %%; the l of "%" PRIu64 is ignored. The formats are
/// copied, and `fd` is duplicated; with O_NONBLOCK the writing thread waits until it accepts
/// more.
///
/// Not for a real-time thread: it allocates and starts a thread. NULL with errno, and
/// punctual_last_error(): EFAULT `formats` or one of them is NULL while `count` is not 0; EINVAL
/// a capacity of 0 or above 2^20; EBADF, EMFILE `fd`; ENOMEM; EAGAIN no thread; EPERM the caller
/// is a real-time thread, and the writing one may not become an ordinary one. A pipe without a
/// reader raises no SIGPIPE: punctual_log_close() returns EPIPE.
///
/// # Safety
/// `formats` is NULL, or has `count` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_log_open(
    fd: c_int,
    formats: *const *const c_char,
    count: usize,
    capacity: usize,
) -> *mut punctual_log {
    let _held = hold();
    let since = Since::now();
    // SAFETY: by contract `formats` is NULL, or has `count` strings.
    let opened = unsafe { open(fd, formats, count, capacity) }.map(Box::new);
    match opened {
        Ok(log) if !since.is_short() => Box::into_raw(log),
        Ok(log) => {
            drop(log);
            fail(libc::ENOMEM, NO_MEMORY);
            std::ptr::null_mut()
        }
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// That of punctual_log_open().
unsafe fn open(
    fd: c_int,
    formats: *const *const c_char,
    count: usize,
    capacity: usize,
) -> Result<punctual_log, c_int> {
    if capacity == 0 || capacity > 1 << 20 {
        return Err(fail(
            libc::EINVAL,
            c"log capacity: expected 1 to 1048576 records",
        ));
    }
    if formats.is_null() && count != 0 {
        return Err(null());
    }
    let no_memory = || fail(libc::ENOMEM, NO_MEMORY);
    let mut kept = Vec::new();
    kept.try_reserve_exact(count).map_err(|_| no_memory())?;
    for number in 0..count {
        // SAFETY: by contract `formats` has `count` elements, and the index is less.
        let place = unsafe { formats.add(number) };
        // SAFETY: the same element, which is readable.
        let format = unsafe { place.read() };
        if format.is_null() {
            return Err(null());
        }
        // SAFETY: not NULL, so a string by contract.
        let format = unsafe { CStr::from_ptr(format) };
        let mut copy = String::new();
        // Each invalid UTF-8 sequence becomes a replacement character of three bytes.
        copy.try_reserve_exact(3 * format.count_bytes())
            .map_err(|_| no_memory())?;
        for part in format.to_bytes().utf8_chunks() {
            copy.push_str(part.valid());
            if !part.invalid().is_empty() {
                copy.push(char::REPLACEMENT_CHARACTER);
            }
        }
        kept.push(copy);
    }
    // SAFETY: takes two numbers.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    if own < 0 {
        let error = io::Error::last_os_error();
        return Err(fail(
            number(&error),
            c"the file descriptor of the log is not open, or the limit of descriptors is reached",
        ));
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    let sink = unsafe { File::from_raw_fd(own) };
    let opened = log::open(capacity, kept, Waiting(sink));
    let (logger, writer) = opened.map_err(|error| match number(&error) {
        libc::ENOMEM => no_memory(),
        _ => match RealTime::from_error(&error) {
            Some(refused) => fail(refused.errno, refused.advice()),
            None => no_thread(&error),
        },
    })?;
    Ok(punctual_log { logger, writer })
}

/// Logs a record for `formats[id]` with `count` numbers at `arguments`: integers unchanged,
/// doubles converted by punctual_log_double().
///
/// A real-time thread may call it: wait-free, no system call where the vDSO answers for the
/// time. -1 with errno: EAGAIN the log is full: the record is lost, and counted; EINVAL more
/// than PUNCTUAL_LOG_ARGUMENTS; EFAULT `log` is NULL, or `arguments` while `count` is not 0.
///
/// # Safety
/// `log` is NULL or is open, and one thread at a time logs; `count` numbers can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_log_put(
    log: *mut punctual_log,
    id: c_uint,
    count: usize,
    arguments: *const u64,
) -> c_int {
    // SAFETY: by contract `log` is NULL or open, and one thread logs at a time.
    let Some(log) = (unsafe { log.as_mut() }) else {
        return null();
    };
    if count > PUNCTUAL_LOG_ARGUMENTS {
        return fail(libc::EINVAL, c"log record: expected at most 6 numbers");
    }
    let arguments = match (count, arguments.is_null()) {
        (0, _) => &[],
        (_, true) => return null(),
        // SAFETY: by contract `count` numbers are readable.
        (_, false) => unsafe { std::slice::from_raw_parts(arguments, count) },
    };
    if log.logger.log(id, arguments) {
        0
    } else {
        fail(
            libc::EAGAIN,
            c"the log is full: the record is lost and counted",
        )
    }
}

/// Converts a double to an argument of punctual_log_put(), for %f.
///
/// A real-time thread may call it: no arithmetic, the same bits as another type. It never fails.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_log_double(value: f64) -> u64 {
    value.to_bits()
}

/// Writes the remaining records, ends the writing thread and closes the log. Returns how many
/// records were lost.
///
/// Not for a real-time thread: it waits for the file. -1 with errno: EFAULT `log` is NULL; ESRCH
/// in a child of fork(): the writing thread belongs to the parent, and continues; or the first
/// error of write(), after which nothing was written. The log is closed in that case too.
///
/// # Safety
/// `log` is NULL, or open and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_log_close(log: *mut punctual_log) -> i64 {
    let _held = hold();
    if log.is_null() {
        return i64::from(null());
    }
    // SAFETY: not NULL, so by contract open and not used any more.
    let log = unsafe { Box::from_raw(log) };
    match log.writer.close() {
        Ok(lost) => i64::try_from(lost).unwrap_or(i64::MAX),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            let words = match number {
                libc::ESRCH => {
                    c"the log belongs to the process that forked this one: close it there"
                }
                _ => c"the log could not be written to its file",
            };
            i64::from(fail(number, words))
        }
    }
}

/// Copies the oldest records, at most `room`, into the array at `records`, and returns how many.
/// The producer can reuse their slots when all are copied: a separate pop for each would write
/// the counter that both threads read each time.
///
/// A real-time thread may call it: wait-free, no system call, a copy for each record. -1 with
/// EFAULT: `ring` is NULL, or `records` while `room` is not 0.
///
/// # Safety
/// `ring` is NULL or was not destroyed, and one thread at a time pops or drains; `records` has
/// room for `room` records, each of the record's size and without a gap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_ring_drain(
    ring: *mut punctual_ring,
    records: *mut std::ffi::c_void,
    room: usize,
) -> libc::ssize_t {
    // SAFETY: by contract `ring` is NULL or was not destroyed.
    let ring = unsafe { ring.as_ref() };
    let Some(ring) = ring.filter(|_| room == 0 || !records.is_null()) else {
        return null() as libc::ssize_t;
    };
    // SAFETY: by contract `records` has room for `room` records, or `room` is 0; one thread
    // drains.
    let count = unsafe { ring.0.drain(records.cast(), room) };
    // At most 2^30, the largest ring.
    count as libc::ssize_t
}
