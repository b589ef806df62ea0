//! A log that a real-time thread may write to.
//!
//! The thread pushes numbers into a ring; an ordinary thread formats and writes them. One
//! [`Logger`] belongs to one thread. Records that find the ring full are lost, and the log
//! reports how many.

use std::ffi::CStr;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock;
use crate::ring::{Consumer, Producer, try_ring};
use crate::sched;
use crate::sys::futex;
use crate::thread::{Builder, Handle, Refusal, SpawnError};

/// Numbers that fit in a record.
pub const ARGUMENTS: usize = 6;

/// One record: a cache line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was written, CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The index of its format.
    pub id: u32,
    /// The number of its arguments.
    pub count: u32,
    /// Integers, or the bits of doubles.
    pub arguments: [u64; ARGUMENTS],
}

/// The end of the real-time thread.
pub struct Logger {
    ring: Producer<Record>,
}

impl Logger {
    /// Writes a record; at most [`ARGUMENTS`] of the arguments are kept. False when the ring
    /// is full: the record is lost, and counted. Real-time safe: wait-free, no system call.
    #[inline]
    pub fn log(&mut self, id: u32, arguments: &[u64]) -> bool {
        let mut record = Record {
            time_ns: clock::now_ns(),
            id,
            count: arguments.len().min(ARGUMENTS) as u32,
            ..Record::default()
        };
        for (to, from) in record.arguments.iter_mut().zip(arguments) {
            *to = *from;
        }
        self.ring.push(record)
    }
}

/// Formats a record. The conversions are printf's for 64-bit numbers: `%u`, `%d`, `%x`, `%f` (the
/// bits of a double, three decimals), `%%`, and `%i` as `%d`. The modifiers `l`, `j` and `z` are
/// ignored: `"%" PRIu64` is `%u`. A conversion without an argument prints a question mark,
/// surplus arguments are ignored, and any other text is copied. Not for a real-time thread: it
/// allocates.
pub fn format_record(format: &str, record: &Record, text: &mut String) {
    let mut arguments = record.arguments.iter().take(record.count as usize);
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let mut letters = after.trim_start_matches(['l', 'j', 'z']).chars();
        let letter = letters.next();
        let written = match letter {
            Some('u') => arguments.next().map(|number| write!(text, "{number}")),
            Some('d' | 'i') => arguments
                .next()
                .map(|number| write!(text, "{}", *number as i64)),
            Some('x') => arguments.next().map(|number| write!(text, "{number:x}")),
            Some('f') => arguments
                .next()
                .map(|bits| write!(text, "{:.3}", f64::from_bits(*bits))),
            _ => {
                text.push('%');
                rest = after;
                continue;
            }
        };
        rest = letters.as_str();
        // Writing to a string doesn't fail.
        if !matches!(written, Some(Ok(()))) {
            text.push('?');
        }
    }
    text.push_str(rest);
}

/// The ordinary thread that writes. `close` or a drop writes the remaining records first.
pub struct Writer {
    thread: Option<Handle<io::Result<u64>>>,
    /// The process of the thread: after a fork the child has a copy of this.
    process: u32,
    /// 1 when the log ends.
    ends: Arc<AtomicU32>,
}

/// How often the writer polls the ring.
const EVERY_NS: u64 = 5_000_000;
/// The size at which the text is written to the sink.
const TEXT: usize = 64 << 10;

/// Opens a log of at least `capacity` prefaulted records, and starts the thread that writes to
/// `sink`: one line per record, its time in seconds and then `formats[id]`. A pipe without a
/// reader is an error of the sink and causes no SIGPIPE. Not real-time safe.
///
/// The writing thread is an ordinary one. If the caller is a real-time thread and the kernel
/// doesn't let the new thread become an ordinary one, the log is not opened. If the caller has
/// SCHED_BATCH or SCHED_IDLE, which a thread may not be allowed to leave, the writing thread has
/// it too.
///
/// # Errors
/// EINVAL when the capacity is above 2^32, ENOMEM, or the error of starting a thread;
/// [`RealTime`], with the kernel's errno, where the writing thread would remain a real-time
/// thread.
pub fn open(
    capacity: usize,
    formats: Vec<String>,
    sink: impl Write + Send + 'static,
) -> io::Result<(Logger, Writer)> {
    let (producer, consumer) = try_ring(capacity)?;
    let mut text = String::new();
    text.try_reserve_exact(TEXT)
        .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    let ends = Arc::new(AtomicU32::new(0));
    let told = Arc::clone(&ends);
    let lines = Lines {
        formats,
        sink,
        text,
        lost: 0,
        failed: None,
    };
    // The writer blocks all signals: SIGPIPE goes to the thread that writes.
    let builder = Builder::new().name("log");
    let work = move || write_all(consumer, lines, &told);
    // A real-time writer would take time from the threads that it should spare. A background
    // caller may not be allowed to become an ordinary thread, and needn't.
    let thread = match sched::is_real_time(0) {
        Ok(false) => builder.spawn(move |_| work()),
        _ => builder.start(work),
    };
    let thread = thread.map_err(|error| match error {
        SpawnError::Stack(error) => io::Error::from_raw_os_error(error.errno()),
        SpawnError::Thread(error) => error,
        SpawnError::Refused(refused) => {
            let errno = refused.first().map_or(libc::EPERM, Refusal::errno);
            io::Error::other(RealTime { errno })
        }
    })?;
    let writer = Writer {
        thread: Some(thread),
        process: std::process::id(),
        ends,
    };
    Ok((Logger { ring: producer }, writer))
}

/// Why no log was opened: the thread that writes it would be a real-time one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealTime {
    /// The kernel's error when the thread tried to become an ordinary one.
    pub errno: i32,
}

impl RealTime {
    /// The [`RealTime`] in an error of [`open`], if that was the cause. Real-time safe.
    #[must_use]
    pub fn from_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// What it means, and how to fix it. Real-time safe.
    #[must_use]
    pub fn advice(self) -> &'static CStr {
        c"the thread that writes the log may not become an ordinary one (seccomp?): open the log \
          in a thread that is not a real-time one"
    }
}

impl fmt::Display for RealTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        write!(f, "{} ({error})", self.advice().to_string_lossy())
    }
}

impl std::error::Error for RealTime {}

/// Text buffered for the sink.
struct Lines<W> {
    formats: Vec<String>,
    sink: W,
    text: String,
    /// Records lost for lack of memory.
    lost: u64,
    /// After its first error the sink is not used again; the ring is still emptied.
    failed: Option<io::Error>,
}

impl<W: Write> Lines<W> {
    fn record(&mut self, record: &Record) {
        /// The longest formatted number: a double has up to 309 digits before the point.
        const NUMBER: usize = 320;
        let format = self.formats.get(record.id as usize);
        let most = format.map_or(0, String::len) + (ARGUMENTS + 2) * NUMBER;
        if self.text.len() + most > self.text.capacity() {
            self.write();
            if self.text.try_reserve(most).is_err() {
                self.lost += 1;
                return;
            }
        }
        line(self.formats.get(record.id as usize), record, &mut self.text);
    }

    fn write(&mut self) {
        if self.failed.is_none() && !self.text.is_empty() {
            let sink = &mut self.sink;
            let written = sink.write_all(self.text.as_bytes());
            self.failed = written.and_then(|()| sink.flush()).err();
        }
        self.text.clear();
    }
}

fn write_all<W: Write>(
    mut ring: Consumer<Record>,
    mut lines: Lines<W>,
    ends: &AtomicU32,
) -> io::Result<u64> {
    let mut said = 0;
    loop {
        // Read before the ring is polled, so that records logged before the end are seen.
        let last = ends.load(Ordering::Acquire) != 0;
        ring.drain(|record| lines.record(&record));
        let lost = ring.refused() + lines.lost;
        if lost != said {
            // No more than one record needs, and `record` leaves that much room.
            let text = &mut lines.text;
            let _ = writeln!(text, "{} records lost: the ring was full", lost - said);
            said = lost;
        }
        lines.write();
        if last {
            return lines.failed.map_or(Ok(said), Err);
        }
        // Woken or timed out: either way, poll the ring.
        let _ = futex::wait_until(ends, 0, clock::now_ns() + EVERY_NS);
    }
}

fn line(format: Option<&String>, record: &Record, text: &mut String) {
    let (seconds, rest) = (
        record.time_ns / 1_000_000_000,
        record.time_ns % 1_000_000_000,
    );
    let _ = write!(text, "{seconds}.{rest:09} ");
    match format {
        Some(format) => format_record(format, record, text),
        None => {
            let _ = write!(text, "record {}", record.id);
            for number in record.arguments.iter().take(record.count as usize) {
                let _ = write!(text, " {number}");
            }
        }
    }
    text.push('\n');
}

impl Writer {
    /// Writes the remaining records, ends the thread, and returns how many records were lost. Not
    /// real-time safe.
    ///
    /// # Errors
    /// The first error of the sink; nothing was written to it after that. ESRCH: the log belongs
    /// to the process that forked this one, and that process writes it.
    pub fn close(mut self) -> io::Result<u64> {
        self.end()
    }

    fn end(&mut self) -> io::Result<u64> {
        self.ends.store(1, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Ok(0);
        };
        if self.process != std::process::id() {
            thread.detach();
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        futex::wake(&self.ends, 1);
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the sink of the log panicked")))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;

    fn words(format: &str, arguments: &[u64]) -> String {
        let mut record = Record {
            count: arguments.len() as u32,
            ..Record::default()
        };
        record.arguments[..arguments.len()].copy_from_slice(arguments);
        let mut text = String::new();
        format_record(format, &record, &mut text);
        text
    }

    #[test]
    fn formats_follow_printf() {
        assert_eq!(
            words("a %u b %d %x", &[7, -7_i64 as u64, 255]),
            "a 7 b -7 ff"
        );
        assert_eq!(words("%f rpm", &[6000.25_f64.to_bits()]), "6000.250 rpm");
        assert_eq!(words("100 %% %u %u", &[1]), "100 % 1 ?");
        assert_eq!(words("%s %", &[1]), "%s %");
        // PRIu64, PRId64 and PRIx64 of inttypes.h, and the modifiers of long long and size_t.
        let all = words("%lu %ld %lx %llu %zu %ju", &[1, u64::MAX, 31, 4, 5, 6]);
        assert_eq!(all, "1 -1 1f 4 5 6");
        assert_eq!(words("%i %lf", &[u64::MAX, 2.5_f64.to_bits()]), "-1 2.500");
        assert_eq!(words("%l %5u %l%% %lls %ll", &[1]), "%l %5u %l% %lls %ll");
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn logged_records_are_written_and_lost_ones_are_counted() {
        let kept = Kept::default();
        let formats = vec!["cycle %u".to_owned()];
        let (mut logger, writer) = open(4, formats, kept.clone()).unwrap();
        let mut taken = 0;
        while logger.log(0, &[taken]) {
            taken += 1;
        }
        let lost = writer.close().unwrap();
        assert_eq!(lost, 1);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let (cycles, said): (Vec<_>, Vec<_>) =
            text.lines().partition(|line| line.contains("cycle"));
        assert_eq!(cycles.len() as u64, taken);
        assert!(
            cycles
                .iter()
                .enumerate()
                .all(|(n, line)| line.ends_with(&format!(" cycle {n}")))
        );
        assert_eq!(said, ["1 records lost: the ring was full"]);
    }

    #[test]
    fn an_error_of_the_sink_is_returned() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(libc::ENOSPC))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut logger, writer) = open(8, Vec::new(), Full).unwrap();
        assert!(logger.log(3, &[1, 2]));
        assert_eq!(
            writer.close().unwrap_err().raw_os_error(),
            Some(libc::ENOSPC)
        );
    }

    proptest! {
        #[test]
        fn no_format_makes_the_formatter_panic(format in "[ -~]{0,30}", arguments in proptest::collection::vec(any::<u64>(), 0..=6)) {
            words(&format, &arguments);
        }
    }
}
