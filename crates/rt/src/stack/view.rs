//! The layout of the tables for debuggers, which read them from a running program or a core file.
//!
//! It is in a section of its own, because a section's name survives stripping, and isn't a symbol
//! that two copies of the library would both define. `share/punctual/gdb/punctual-stacks.py`
//! reads it. A change here requires a new [`VERSION`].

#![expect(unsafe_code, reason = "addresses of statics, for debuggers")]

use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use super::pool::TABLE;
use super::table::{FIRST, Slot};
use super::trace::{Trace, Traces};

const VERSION: u64 = 1;

/// 64-bit numbers, in this order.
#[repr(C)]
struct View {
    magic: [u8; 8],
    version: u64,
    /// The addresses of the sections of headers, and their number.
    sections: *const AtomicPtr<Slot>,
    count: *const AtomicUsize,
    /// Headers in the first section; each has twice as many as the one before.
    first: u64,
    header_bytes: u64,
    /// Offsets in a header: the word (address, state and class), and the address of the traces.
    word_at: u64,
    traces_at: u64,
    traces_bytes: u64,
    /// Offsets in the traces: the allocation, and the free.
    allocated_at: u64,
    freed_at: u64,
    /// Offsets in a trace: the thread (32 bits), the number of requested frames and the number of
    /// recorded frames (16 bits each), and the frames.
    thread_at: u64,
    limit_at: u64,
    len_at: u64,
    frames_at: u64,
}

// SAFETY: the pointers lead to statics, and only debuggers read them.
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

/// Keeps the section: a linker drops what nothing refers to.
pub(super) fn keep() {
    std::hint::black_box(&raw const VIEW);
}
