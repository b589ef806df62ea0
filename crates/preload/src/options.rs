//! The options in the environment variable `PUNCTUAL_RUN`, separated by commas: `stack=pool`,
//! `stack=wrap` or `stack=none`, `size=BYTES`, `lock` or `lock=onfault`, and `report=PROCESS`: the process that
//! reports even if it had no threads.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// The kind of stack that threads get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stacks {
    /// Their own, unchanged.
    None,
    /// Their own, prefaulted.
    Wrap,
    /// A stack of the pool.
    Pool,
}

/// The requested options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) stacks: Stacks,
    /// The stack size of a thread without an explicit size, and the largest part that is
    /// prefaulted of a stack outside of the pool.
    pub(crate) size: usize,
    pub(crate) lock: bool,
    /// Whether a page is locked from its first use on, and not made present before.
    pub(crate) on_fault: bool,
    /// The process that was run; 0 when no report is requested.
    pub(crate) report: u32,
}

/// The largest stack size of the pool.
pub(crate) const LARGEST: usize = 2 << 20;

impl Options {
    const DEFAULT: Self = Self {
        stacks: Stacks::Pool,
        size: LARGEST,
        lock: false,
        on_fault: false,
        report: 0,
    };

    /// The first unknown option is the error.
    fn parse(words: &str) -> Result<Self, &str> {
        let mut options = Self::DEFAULT;
        for word in words.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None if word == "lock" => options.lock = true,
                Some(("lock", "onfault")) => (options.lock, options.on_fault) = (true, true),
                Some(("stack", "none")) => options.stacks = Stacks::None,
                Some(("stack", "wrap")) => options.stacks = Stacks::Wrap,
                Some(("stack", "pool")) => options.stacks = Stacks::Pool,
                Some(("size", bytes)) => match bytes.parse() {
                    Ok(bytes) if bytes > 0 && bytes <= LARGEST => options.size = bytes,
                    _ => return Err(word),
                },
                Some(("report", process)) => match process.parse() {
                    Ok(process) => options.report = process,
                    Err(_) => return Err(word),
                },
                _ => return Err(word),
            }
        }
        Ok(options)
    }
}

static SIZE: AtomicUsize = AtomicUsize::new(0);
static FLAGS: AtomicU8 = AtomicU8::new(0);
const WRAP: u8 = 1;
const POOL: u8 = 2;
const LOCK: u8 = 4;
const ON_FAULT: u8 = 8;
static REPORT: AtomicU32 = AtomicU32::new(0);

/// The options that [`read`] found.
pub(crate) fn in_force() -> Options {
    let flags = FLAGS.load(Ordering::Relaxed);
    Options {
        stacks: match flags & (WRAP | POOL) {
            POOL => Stacks::Pool,
            WRAP => Stacks::Wrap,
            _ => Stacks::None,
        },
        size: SIZE.load(Ordering::Relaxed),
        lock: flags & LOCK != 0,
        on_fault: flags & ON_FAULT != 0,
        report: REPORT.load(Ordering::Relaxed),
    }
}

/// Reads the environment. An unknown option ends the program, because it would run with other
/// options than requested.
pub(crate) fn read() -> Options {
    // SAFETY: the name is a C string, and no other thread changes the environment yet.
    let value = unsafe { libc::getenv(c"PUNCTUAL_RUN".as_ptr()) };
    let words = if value.is_null() {
        ""
    } else {
        // SAFETY: getenv returned a C string, which is valid until the environment changes.
        unsafe { CStr::from_ptr(value) }.to_str().unwrap_or("?")
    };
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(word) => crate::report::end("PUNCTUAL_RUN has an unknown word: ", word),
    };
    let stacks = match options.stacks {
        Stacks::None => 0,
        Stacks::Wrap => WRAP,
        Stacks::Pool => POOL,
    };
    let lock = if options.lock { LOCK } else { 0 };
    let on_fault = if options.on_fault { ON_FAULT } else { 0 };
    SIZE.store(options.size, Ordering::Relaxed);
    FLAGS.store(stacks | lock | on_fault, Ordering::Relaxed);
    REPORT.store(options.report, Ordering::Relaxed);
    options
}
