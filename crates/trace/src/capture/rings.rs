//! Rings that a BPF program writes and user space reads: the other side of `bpf/ring.h`.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use aya::{Ebpf, EbpfLoader};

use super::kernel::shared;
use super::shared::Shared;
use super::slot::{Slot, WORDS};
use super::unavailable::Unavailable;

/// Words of a lane, and the offsets of its fields: see `struct lane`.
const LANE_WORDS: usize = 32;
const NEXT: usize = 0;
const FIRST: usize = 1;
const MASK: usize = 2;
const STACKS: usize = 5;
const TARGET: usize = 6;
const WORTH: usize = 8;
const STACKS_READ: usize = 9;

/// The rings of one program.
#[derive(Debug)]
pub struct Rings {
    lanes: Shared,
    slots: Shared,
    places: Vec<RingPlace>,
}

/// A ring: its lane, its first slot, and the number of slots.
#[derive(Debug, Clone, Copy)]
struct RingPlace {
    lane: usize,
    first: usize,
    size: usize,
    read: u64,
}

/// The layout of the rings, before the program is loaded.
#[derive(Debug)]
pub struct RingLayout {
    cpus: u32,
    places: Vec<RingPlace>,
}

impl RingLayout {
    /// Rings of this many events for these of the machine's possible CPUs.
    #[must_use]
    pub fn new(cpus: u32, recorded: &[u32], events: usize) -> Self {
        let mut plan = Self {
            cpus,
            places: Vec::new(),
        };
        for &cpu in recorded.iter().filter(|cpu| **cpu < cpus) {
            plan.add(cpu as usize, events.next_power_of_two().max(1024));
        }
        plan
    }

    /// One more, for events on other CPUs.
    #[must_use]
    pub fn with_others(mut self, events: usize) -> Self {
        self.add(self.cpus as usize, events);
        self
    }

    fn add(&mut self, lane: usize, size: usize) {
        let first = self.slots();
        self.places.push(RingPlace {
            lane,
            first,
            size,
            read: 0,
        });
    }

    fn slots(&self) -> usize {
        self.places.last().map_or(0, |last| last.first + last.size)
    }

    /// Sizes the program's maps accordingly.
    pub fn size(&self, loader: &mut EbpfLoader<'_>) {
        loader
            .map_max_entries("lanes", self.cpus + 1)
            .map_max_entries("slots", u32::try_from(self.slots()).unwrap_or(u32::MAX));
    }

    /// Maps the rings of the loaded program, which is not attached yet.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn map(self, programs: &Ebpf) -> Result<Rings, Unavailable> {
        let lanes = shared(programs, "lanes", (self.cpus as usize + 1) * LANE_WORDS)?;
        let slots = shared(programs, "slots", self.slots() * WORDS)?;
        for place in &self.places {
            let lane = &lanes.words()[place.lane * LANE_WORDS..][..LANE_WORDS];
            lane[FIRST].store(place.first as u64, Ordering::Relaxed);
            lane[MASK].store(place.size as u64 - 1, Ordering::Relaxed);
        }
        Ok(Rings {
            lanes,
            slots,
            places: self.places,
        })
    }
}

impl Rings {
    /// Sets the thread that is waited for on a CPU, if there is only one.
    pub fn set_target(&self, cpu: u32, tid: u32) {
        let at = cpu as usize * LANE_WORDS + TARGET;
        if let Some(word) = self.lanes.words().get(at) {
            word.store(u64::from(tid), Ordering::Relaxed);
        }
    }

    /// Sets how late a target of a CPU must be for the stack of the thread that released the
    /// CPU to be taken, in ns; `u64::MAX` for never.
    pub fn stacks_above(&self, above_ns: u64) {
        for place in &self.places {
            let lane = &self.lanes.words()[place.lane * LANE_WORDS..][..LANE_WORDS];
            // 0 means never, and so do values that would overflow when added to the clock.
            let worth_ns = if above_ns > u64::MAX / 2 {
                0
            } else {
                above_ns.max(1)
            };
            lane[WORTH].store(worth_ns, Ordering::Relaxed);
        }
    }

    /// The number of stacks that were taken on the CPU of a ring so far.
    #[must_use]
    pub fn stacks(&self, index: usize) -> u64 {
        self.lanes.words()[self.places[index].lane * LANE_WORDS + STACKS].load(Ordering::Acquire)
    }

    /// Tells the kernel side that this many were read: their slots may be used again.
    pub fn stacks_read(&self, index: usize, count: u64) {
        self.lanes.words()[self.places[index].lane * LANE_WORDS + STACKS_READ]
            .store(count, Ordering::Release);
    }

    /// The number of rings.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Calls `take` with the new slots of a ring in their order, and
    /// returns how many events were overwritten before them.
    pub fn drain(&mut self, index: usize, mut take: impl FnMut(Slot)) -> u64 {
        let RingPlace {
            lane,
            first,
            size,
            mut read,
        } = self.places[index];
        let next = &self.lanes.words()[lane * LANE_WORDS + NEXT];
        let slots = &self.slots.words()[first * WORDS..][..size * WORDS];
        let mut lost = 0;
        let end = next.load(Ordering::Acquire);
        if end - read > size as u64 {
            lost += end - read - size as u64;
            read = end - size as u64;
        }
        while read < end {
            let words = &slots[(read as usize & (size - 1)) * WORDS..][..WORDS];
            let slot = copy(words);
            // The copy is complete if its turn is the expected one, and if no writer had begun to
            // overwrite the slot when the copy was made.
            fence(Ordering::Acquire);
            if next.load(Ordering::Relaxed) - read > size as u64 {
                lost += 1;
            } else if slot.turn() == read as u32 + 1 {
                take(slot);
            } else {
                // It isn't complete yet: it and what follows are read the next time.
                break;
            }
            read += 1;
        }
        self.places[index].read = read;
        lost
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        let next = |place: &RingPlace| {
            self.lanes.words()[place.lane * LANE_WORDS + NEXT].load(Ordering::Relaxed)
        };
        self.places.iter().map(next).sum()
    }
}

fn copy(words: &[AtomicU64]) -> Slot {
    let mut slot = [0; WORDS];
    // The turn first: if it is right, the whole slot was written.
    slot[1] = words[1].load(Ordering::Acquire);
    for index in (0..WORDS).filter(|index| *index != 1) {
        slot[index] = words[index].load(Ordering::Relaxed);
    }
    Slot(slot)
}
