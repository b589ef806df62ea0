//! The tables as a debugger reads them, from a running program or from its core file.
//!
//! A section of its own, for its name stays when symbols are stripped, and is no symbol that two
//! copies of the library would both define. `share/punctual/gdb/punctual-stacks.py` reads it;
//! what changes here changes [`VERSION`].
#![expect(unsafe_code, reason = "addresses of statics, for debuggers")]

use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use super::pool::TABLE;
use super::table::{FIRST, Slot};
use super::trace::{Trace, Traces};

const VERSION: u64 = 1;

/// Numbers of 64 bits, in this order.
#[repr(C)]
struct View {
    magic: [u8; 8],
    version: u64,
    /// Addresses of the sections of headers, and how many there are.
    sections: *const AtomicPtr<Slot>,
    count: *const AtomicUsize,
    /// Headers of the first section; each has twice as many as the one before.
    first: u64,
    header_bytes: u64,
    /// Where a header has the word (address, state and class), and the address of the traces.
    word_at: u64,
    traces_at: u64,
    traces_bytes: u64,
    /// Where the traces have that of the allocation, and that of the free.
    allocated_at: u64,
    freed_at: u64,
    /// Where a trace has the thread (32 bits), the frames that are wanted and the frames that
    /// there are (16 bits each), and the frames.
    thread_at: u64,
    limit_at: u64,
    len_at: u64,
    frames_at: u64,
}

// SAFETY: the pointers are to statics, and are read by debuggers alone.
unsafe impl Sync for View {}

#[used]
#[unsafe(link_section = "punctual_stacks")]
static VIEW: View = View {
    magic: *b"punctual",
    version: VERSION,
    sections: TABLE.first_section(),
    count: TABLE.sections_counted(),
    first: FIRST as u64,
    header_bytes: size_of::<Slot>() as u64,
    word_at: offset_of!(Slot, word) as u64,
    traces_at: offset_of!(Slot, traces) as u64,
    traces_bytes: size_of::<Traces>() as u64,
    allocated_at: Traces::ALLOCATED_AT as u64,
    freed_at: Traces::FREED_AT as u64,
    thread_at: Trace::THREAD_AT as u64,
    limit_at: Trace::LIMIT_AT as u64,
    len_at: Trace::LEN_AT as u64,
    frames_at: Trace::FRAMES_AT as u64,
};

/// Keeps it: a linker leaves out what nothing refers to.
pub(super) fn keep() {
    std::hint::black_box(&raw const VIEW);
}
