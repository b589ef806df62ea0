//! A log that a real-time thread may write to.
//!
//! The thread puts numbers into a ring; an ordinary thread makes text of them and writes it.
//! One [`Logger`] belongs to one thread. What finds the ring full is lost, and the log says
//! how much.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock;
use crate::ring::{Consumer, Producer, ring};

/// Numbers that fit in a record.
pub const ARGUMENTS: usize = 6;

/// One record: a cache line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was written, CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Which of the formats it is for.
    pub id: u32,
    /// How many arguments it has.
    pub count: u32,
    /// Integers, or the bits of doubles.
    pub arguments: [u64; ARGUMENTS],
}

/// The end for the real-time thread.
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

/// Puts a record into words by its format, printf's letters for 64-bit numbers: `%u`, `%d`,
/// `%x`, `%f` (the bits of a double, three decimals), `%%`. A letter without an argument is a
/// question mark; arguments without a letter are left out.
/// Not for a real-time thread: it allocates.
pub fn put(format: &str, record: &Record, text: &mut String) {
    let mut arguments = record.arguments.iter().take(record.count as usize);
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let mut letters = after.chars();
        let letter = letters.next();
        rest = letters.as_str();
        let written = match letter {
            Some('%') => {
                text.push('%');
                continue;
            }
            Some('u') => arguments.next().map(|number| write!(text, "{number}")),
            Some('d') => arguments
                .next()
                .map(|number| write!(text, "{}", *number as i64)),
            Some('x') => arguments.next().map(|number| write!(text, "{number:x}")),
            Some('f') => arguments
                .next()
                .map(|bits| write!(text, "{:.3}", f64::from_bits(*bits))),
            Some(other) => {
                text.push('%');
                text.push(other);
                continue;
            }
            None => {
                text.push('%');
                continue;
            }
        };
        // Writing to a string doesn't fail.
        if !matches!(written, Some(Ok(()))) {
            text.push('?');
        }
    }
    text.push_str(rest);
}

/// The ordinary thread that writes. Dropped or finished, it writes what is left first.
pub struct Writer {
    thread: Option<JoinHandle<io::Result<u64>>>,
    ends: Arc<AtomicBool>,
}

/// How often the writer looks at the ring.
const EVERY: Duration = Duration::from_millis(5);

/// Opens a log of at least `capacity` records, its memory present, and starts the thread that
/// writes to `sink`: a line for each record, its time in seconds and then `formats[id]`. Not
/// real-time safe.
///
/// # Errors
/// That of starting a thread.
///
/// # Panics
/// When the capacity is above 2^32.
pub fn open(
    capacity: usize,
    formats: Vec<String>,
    sink: impl Write + Send + 'static,
) -> io::Result<(Logger, Writer)> {
    let (producer, consumer) = ring(capacity);
    let ends = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ends);
    let thread = std::thread::Builder::new()
        .name("log".into())
        .spawn(move || write_all(consumer, &formats, sink, &told))?;
    let writer = Writer {
        thread: Some(thread),
        ends,
    };
    Ok((Logger { ring: producer }, writer))
}

fn write_all(
    mut ring: Consumer<Record>,
    formats: &[String],
    mut sink: impl Write,
    ends: &AtomicBool,
) -> io::Result<u64> {
    // The creator may be a real-time thread; this one is not to be.
    if crate::sched::is_real_time(0).unwrap_or(false) {
        crate::sched::set_current(crate::sched::Policy::Other)?;
    }
    let mut text = String::new();
    let mut lost = 0;
    let mut failed = None;
    loop {
        // Before the ring is looked at: what was logged before the end is then seen.
        let last = ends.load(Ordering::Acquire);
        ring.drain(|record| line(formats, &record, &mut text));
        let refused = ring.refused();
        if refused != lost {
            let _ = writeln!(text, "{} records lost: the ring was full", refused - lost);
            lost = refused;
        }
        // A sink that fails once is left alone; the ring is emptied all the same.
        if failed.is_none() && !text.is_empty() {
            failed = sink
                .write_all(text.as_bytes())
                .and_then(|()| sink.flush())
                .err();
        }
        text.clear();
        if last {
            return failed.map_or(Ok(lost), Err);
        }
        std::thread::park_timeout(EVERY);
    }
}

fn line(formats: &[String], record: &Record, text: &mut String) {
    let (seconds, rest) = (
        record.time_ns / 1_000_000_000,
        record.time_ns % 1_000_000_000,
    );
    let _ = write!(text, "{seconds}.{rest:09} ");
    match formats.get(record.id as usize) {
        Some(format) => put(format, record, text),
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
    /// Writes what is left, ends the thread, and returns how many records were lost. Not
    /// real-time safe.
    ///
    /// # Errors
    /// The first error of the sink; nothing was written to it after that.
    pub fn finish(mut self) -> io::Result<u64> {
        self.end()
    }

    fn end(&mut self) -> io::Result<u64> {
        self.ends.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Ok(0);
        };
        thread.thread().unpark();
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
        put(format, &record, &mut text);
        text
    }

    #[test]
    fn formats_are_printfs() {
        assert_eq!(
            words("a %u b %d %x", &[7, -7_i64 as u64, 255]),
            "a 7 b -7 ff"
        );
        assert_eq!(words("%f rpm", &[6000.25_f64.to_bits()]), "6000.250 rpm");
        assert_eq!(words("100 %% %u %u", &[1]), "100 % 1 ?");
        assert_eq!(words("%s %", &[1]), "%s %");
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
    fn what_is_logged_is_written_and_what_is_lost_is_said() {
        let kept = Kept::default();
        let formats = vec!["cycle %u".to_owned()];
        let (mut logger, writer) = open(4, formats, kept.clone()).unwrap();
        let mut taken = 0;
        while logger.log(0, &[taken]) {
            taken += 1;
        }
        let lost = writer.finish().unwrap();
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
    fn a_sink_that_fails_is_told_of() {
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
            writer.finish().unwrap_err().raw_os_error(),
            Some(libc::ENOSPC)
        );
    }

    proptest! {
        #[test]
        fn no_format_makes_it_panic(format in "[ -~]{0,30}", arguments in proptest::collection::vec(any::<u64>(), 0..=6)) {
            words(&format, &arguments);
        }
    }
}
