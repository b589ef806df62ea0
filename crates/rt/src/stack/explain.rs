//! Explains what an address is to the allocator: for reports of wrong frees and of wrong
//! accesses, and on request.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::bounds::{Bounds, stack_pointer, stack_pointer_in};
use super::debug::{FREE_FILL, FRESH_FILL, traces};
use super::inspect::Part;
use super::names::{Names, unreadable};
use super::options::DebugOptions;
use super::pool::TABLE;
use super::report::{Line, Turn, line};
use super::table::Slot;
use super::trace::print_here;
use super::usage::first_other_of;
use super::word::{State, Word};
use crate::sys::{task, tasks};

/// The stack that an address belongs to.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) header: &'static Slot,
    pub(super) word: Word,
    pub(super) part: Part,
    address: usize,
}

impl Known {
    /// The stack that contains or guards `address`; else a former stack there that was returned
    /// to the kernel. Takes no lock: a walk over all headers.
    pub(super) fn of(address: usize) -> Option<Self> {
        let all = || {
            TABLE.known().filter_map(|(header, word)| {
                let part = Part::of(word, address)?;
                Some(Self {
                    header,
                    word,
                    part,
                    address,
                })
            })
        };
        let is_gone = |known: &Self| known.word.state() == Some(State::Gone);
        all().find(|known| !is_gone(known)).or_else(|| all().next())
    }

    pub(super) fn is_in_use(&self) -> bool {
        matches!(self.word.state(), Some(State::Used | State::Live))
    }

    /// Whether a thread with this stack pointer has left the stack by its lower end.
    pub(super) fn is_overflow(&self, pointer: usize) -> bool {
        let part = Part::of(self.word, pointer);
        let stands_on_it = matches!(part, Some(Part::Stack | Part::LowerGuard));
        stands_on_it && self.is_in_use() && self.part == Part::LowerGuard
    }

    /// `at offset 16 of the stack at 0x7f0000001000 of 65536 bytes, which is free`
    pub(super) fn place(&self, out: &mut Line) {
        let bounds = Bounds::of(self.word);
        match self.part {
            Part::Stack => {
                out.text("at offset ");
                out.number(self.address - bounds.low);
                out.text(" of ");
            }
            Part::LowerGuard => out.text("in the guard below "),
            Part::UpperGuard => out.text("in the guard above "),
        }
        head(out, bounds.low, bounds.len());
        out.text(match self.word.state() {
            Some(State::Used) => ", which is in use",
            Some(State::Live) => ", which is in use as a thread's",
            Some(State::Kept | State::Stored) => ", which is free",
            Some(State::Moving) => ", which is being allocated or freed",
            Some(State::Gone) | None => ", which was returned to the kernel",
        });
    }
}

/// `the stack at 0x7f0000001000 of 65536 bytes`
pub(super) fn head(out: &mut Line, address: usize, size: usize) {
    out.text("the stack at ");
    out.address(address);
    out.text(" of ");
    out.number(size);
    out.text(" bytes");
}

/// Describes an address that is in no stack of ours.
fn foreign(out: &mut Line, address: usize, names: &mut Names) {
    let mine = names.mapping_of(stack_pointer()).ok().flatten();
    let mine = mine.map(|(mapping, _)| (mapping.low, mapping.high));
    out.text("no stack of this allocator: ");
    match names.mapping_of(address) {
        Err(errno) => {
            out.text("its mapping is unknown: ");
            unreadable(out, errno);
        }
        Ok(None) => out.text("nothing is mapped there"),
        Ok(Some((mapping, _))) if mine == Some((mapping.low, mapping.high)) => {
            out.text("it is on the stack that the caller runs on");
        }
        Ok(Some((_, []))) => out.text("it is in memory without a name"),
        Ok(Some((_, path))) => {
            out.text("it is in ");
            out.bytes(path);
        }
    }
}

/// Reports a free that named no stack, and what the address is.
pub(super) fn wrong_free(address: usize, size: usize, fd: c_int) {
    let _turn = Turn::take();
    let mut names = Names::new();
    let known = Known::of(address);
    line(fd, |out| {
        out.text("punctual: ");
        out.address(address);
        out.text(" was freed as a stack of ");
        out.number(size);
        out.text(" bytes: it is ");
        match known {
            Some(known) => known.place(out),
            None => foreign(out, address, &mut names),
        }
    });
    if let Some(traces) = known.and_then(|known| traces(known.header)) {
        traces.print_both(&mut names, fd);
    }
    print_here("found", &mut names, fd);
}

/// Reports everything known of the stack that an address belongs to; returns whether there is
/// one.
pub(super) fn report(address: usize, fd: c_int) -> bool {
    let _turn = Turn::take();
    let mut names = Names::new();
    let Some(known) = Known::of(address) else {
        line(fd, |out| {
            out.text("punctual: ");
            out.address(address);
            out.text(" is ");
            foreign(out, address, &mut names);
        });
        return false;
    };
    line(fd, |out| {
        out.text("punctual: ");
        out.address(address);
        out.text(" is ");
        known.place(out);
    });
    let bounds = Bounds::of(known.word);
    if bounds.contains(stack_pointer()) {
        line(fd, |out| out.text("  the caller runs on it"));
    }
    let own = usize::try_from(task::current_tid()).unwrap_or(0);
    tasks::each(|thread, state| {
        if thread != own && stack_pointer_in(state).is_some_and(|at| bounds.contains(at)) {
            line(fd, |out| {
                out.text("  thread ");
                out.number(thread);
                out.text(" runs on it");
            });
        }
    });
    usage(&known, fd);
    match traces(known.header) {
        Some(traces) => traces.print_both(&mut names, fd),
        None => line(fd, |out| {
            out.text(if DebugOptions::in_force().audit > 0 {
                "  its allocator is unknown: there was no memory to record it"
            } else {
                "  its allocator is unknown: PUNCTUAL_STACK_DEBUG=audit records it"
            });
        }),
    }
    true
}

/// Reports how much of the stack was used, and whether it was written to while it was free.
fn usage(known: &Known, fd: c_int) {
    let guards = DebugOptions::in_force().guards;
    let bounds = Bounds::of(known.word);
    // Another thread may free and protect the stack meanwhile, so the kernel reads it for us.
    let first_other = |pattern| first_other_of(bounds.low, bounds.len(), pattern);
    if known.is_in_use()
        && let Some(lowest) = first_other(if guards { FRESH_FILL } else { 0 })
    {
        line(fd, |out| {
            out.text("  high water: ");
            out.number(bounds.len() - lowest);
            out.text(if guards {
                " bytes since it was allocated"
            } else {
                " bytes since it was created"
            });
        });
    }
    let peak = known.header.peak.load(Ordering::Relaxed);
    if guards && peak > 0 {
        line(fd, |out| {
            out.text("  high water of all who freed it: ");
            out.number(peak);
            out.text(" bytes");
        });
    }
    if matches!(known.word.state(), Some(State::Kept | State::Stored)) {
        line(fd, |out| {
            out.text("  writes since it was freed: ");
            if !guards {
                out.text(if DebugOptions::in_force().noaccess {
                    "none: it is not accessible"
                } else {
                    "not detected: PUNCTUAL_STACK_DEBUG=guards detects them"
                });
                return;
            }
            match first_other(FREE_FILL) {
                Some(lowest) if lowest < bounds.len() => {
                    out.text("the first at offset ");
                    out.number(lowest);
                }
                _ => out.text("none"),
            }
        });
    }
}
