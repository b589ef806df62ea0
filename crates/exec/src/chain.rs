//! What flows through a chain: each task passes on where its data came from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use punctual_record::taskset::SPLIT;

/// Outputs of a task that are kept: so many jobs may pass while another task reads one.
const KEPT: usize = 1024;

/// Where data came from: a job of the first task of the chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// Which job, from 0.
    pub job: u64,
    /// Its arrival.
    pub arrival_ns: u64,
    /// When it read its input: its start.
    pub read_ns: u64,
}

/// Instants of a way: the reading that an event missed, then begin and end of each job.
const INSTANTS: usize = 1 + 2 * SPLIT;

/// The way of an event that came just after a reading: the instant of that reading, then of each
/// task the begin and the end of the first job whose output reflects the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    at_ns: [u64; INSTANTS],
    known: usize,
}

impl Default for Way {
    fn default() -> Self {
        Self {
            at_ns: [0; INSTANTS],
            known: 0,
        }
    }
}

impl Way {
    /// It begins with two readings: of the one the event came too late.
    #[inline]
    #[must_use]
    pub fn between(missed_ns: u64, read_ns: u64) -> Self {
        let mut way = Self::default();
        way.at_ns[0] = missed_ns;
        way.at_ns[1] = read_ns;
        way.known = 2;
        way
    }

    /// It goes on at an instant; without a beginning there is nothing to go on from.
    #[inline]
    pub fn go_on(&mut self, at_ns: u64) {
        if self.known > 0 && self.known < INSTANTS {
            self.at_ns[self.known] = at_ns;
            self.known += 1;
        }
    }

    /// The instants, in order; empty where the way is not known.
    #[inline]
    #[must_use]
    pub fn instants(&self) -> &[u64] {
        &self.at_ns[..self.known]
    }
}

/// A value that came out of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Which chain of the set.
    pub chain: usize,
    /// Where it came from.
    pub origin: Origin,
    /// The end of the job that put it out.
    pub out_ns: u64,
    /// The way of the first event that it reflects and no output before it; empty where it is made
    /// of the same input as the one before.
    pub way: Way,
}

#[derive(Default)]
struct Slot {
    /// The number of the job that put it out, from 1; 0 while it is written.
    put_by: AtomicU64,
    job: AtomicU64,
    arrival_ns: AtomicU64,
    read_ns: AtomicU64,
    /// How many instants of the way are known.
    known: AtomicU64,
}

/// The outputs of one task in one chain: one thread writes, others read. Wait-free.
pub struct Outputs {
    slots: Box<[Slot]>,
    /// The ways of all slots.
    ways: Box<[AtomicU64]>,
    /// Instants of each.
    instants: usize,
    /// Jobs that have put out a value.
    latest: AtomicU64,
}

impl Outputs {
    /// Those of the task at this place of its chain, from 0.
    #[must_use]
    pub fn of_place(place: usize) -> Self {
        let instants = match place < SPLIT {
            true => 1 + 2 * (place + 1),
            false => 0,
        };
        Self {
            slots: (0..KEPT).map(|_| Slot::default()).collect(),
            ways: (0..KEPT * instants).map(|_| AtomicU64::new(0)).collect(),
            instants,
            latest: AtomicU64::new(0),
        }
    }

    fn way(&self, by: u64) -> &[AtomicU64] {
        let at = by as usize % KEPT * self.instants;
        &self.ways[at..at + self.instants]
    }

    /// Job `by` of the task puts out a value, which came this way. Real-time safe.
    #[inline]
    pub fn put(&self, by: u64, origin: Origin, way: &Way) {
        let slot = &self.slots[by as usize % KEPT];
        slot.put_by.store(0, Ordering::Relaxed);
        // What follows isn't seen before the mark above.
        fence(Ordering::Release);
        slot.job.store(origin.job, Ordering::Relaxed);
        slot.arrival_ns.store(origin.arrival_ns, Ordering::Relaxed);
        slot.read_ns.store(origin.read_ns, Ordering::Relaxed);
        let known = match way.known == self.instants {
            true => way.known,
            false => 0,
        };
        slot.known.store(known as u64, Ordering::Relaxed);
        for (kept, at_ns) in self.way(by).iter().zip(&way.at_ns[..known]) {
            kept.store(*at_ns, Ordering::Relaxed);
        }
        slot.put_by.store(by + 1, Ordering::Release);
        self.latest.store(by + 1, Ordering::Release);
    }

    /// What `look` sees of what job `by` put out; `None` if it put out nothing, or that is no longer
    /// kept.
    #[inline]
    fn kept<T>(&self, by: u64, look: impl FnOnce(&Slot) -> T) -> Option<T> {
        let slot = &self.slots[by as usize % KEPT];
        if slot.put_by.load(Ordering::Acquire) != by + 1 {
            return None;
        }
        let seen = look(slot);
        // What was read isn't newer than the mark below.
        fence(Ordering::Acquire);
        (slot.put_by.load(Ordering::Relaxed) == by + 1).then_some(seen)
    }

    /// What job `by` put out; `None` if it put out nothing, or that is no longer kept. Real-time safe.
    #[inline]
    pub fn of(&self, by: u64) -> Option<Origin> {
        self.kept(by, |slot| Origin {
            job: slot.job.load(Ordering::Relaxed),
            arrival_ns: slot.arrival_ns.load(Ordering::Relaxed),
            read_ns: slot.read_ns.load(Ordering::Relaxed),
        })
    }

    /// The way of what job `by` put out; one without instants where it is not known. Real-time safe.
    #[inline]
    pub fn way_of(&self, by: u64) -> Way {
        let way = self.kept(by, |slot| {
            let mut way = Way::default();
            let known = slot.known.load(Ordering::Relaxed) as usize;
            for (at_ns, kept) in way.at_ns[..known.min(self.instants)]
                .iter_mut()
                .zip(self.way(by))
            {
                *at_ns = kept.load(Ordering::Relaxed);
            }
            way.known = known.min(self.instants);
            way
        });
        way.unwrap_or_default()
    }

    /// The job that put out the last value, with it; `None` if there was nothing yet. Real-time safe.
    #[inline]
    pub fn latest(&self) -> Option<(u64, Origin)> {
        let by = self.latest.load(Ordering::Acquire).checked_sub(1)?;
        Some((by, self.of(by)?))
    }
}

/// The place of a task in a chain.
pub struct Link {
    /// Which chain of the set.
    pub chain: usize,
    /// What the task before it puts out; `None` for the first task, which reads the input.
    pub from: Option<Arc<Outputs>>,
    /// Whether that task's job releases this one's: it reads what that job put out, and else the
    /// latest.
    pub triggered: bool,
    /// What this task puts out; `None` for the last task.
    pub into: Option<Arc<Outputs>>,
    /// What the task has read of the chain.
    pub reader: Reader,
}

/// How far a task has read.
#[derive(Debug, Default)]
pub struct Reader {
    /// When its job before read the input, for the first task.
    before_ns: Option<u64>,
    /// The first job of the task before it whose output was not read yet.
    unread: u64,
    /// Of the job under way.
    held: Option<(Origin, Way)>,
}

impl Link {
    /// A job begins, and reads: job `own.job` of the task, released by job `released_by` of the one
    /// before it. Real-time safe.
    #[inline]
    pub fn begin(&mut self, own: Origin, released_by: u64) {
        let reader = &mut self.reader;
        reader.held = match &self.from {
            None => {
                let before_ns = reader.before_ns.replace(own.read_ns);
                let way = before_ns.map(|before_ns| Way::between(before_ns, own.read_ns));
                Some((own, way.unwrap_or_default()))
            }
            Some(outputs) => {
                let read = match self.triggered {
                    true => outputs.of(released_by).map(|origin| (released_by, origin)),
                    false => outputs.latest(),
                };
                read.map(|(by, origin)| {
                    let mut way = Way::default();
                    if by >= reader.unread {
                        // Of what it has not read yet, the first came the longest way.
                        way = outputs.way_of(reader.unread);
                        way.go_on(own.read_ns);
                        reader.unread = by + 1;
                    }
                    (origin, way)
                })
            }
        };
    }

    /// The job has ended, and puts out what it made: to the next task, or as what is returned.
    /// Real-time safe.
    #[inline]
    pub fn end(&mut self, job: u64, ended_ns: u64) -> Option<Passed> {
        let (origin, mut way) = self.reader.held.take()?;
        way.go_on(ended_ns);
        if let Some(outputs) = &self.into {
            outputs.put(job, origin, &way);
            return None;
        }
        Some(Passed {
            chain: self.chain,
            origin,
            out_ns: ended_ns,
            way,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(number: u64) -> Origin {
        Origin {
            job: number,
            arrival_ns: 100 * number,
            read_ns: 100 * number + 1,
        }
    }

    fn put(outputs: &Outputs, by: u64, number: u64) {
        outputs.put(by, origin(number), &way(number));
    }

    /// Of the first task of a chain.
    fn way(number: u64) -> Way {
        let mut way = Way::between(100 * number + 1, 100 * number + 101);
        way.go_on(100 * number + 150);
        way
    }

    #[test]
    fn outputs_are_found_by_job_and_by_time_until_they_are_replaced() {
        let outputs = Outputs::of_place(0);
        assert_eq!(outputs.latest(), None);
        for by in [0, 1, 5] {
            put(&outputs, by, by);
        }
        assert_eq!(outputs.latest(), Some((5, origin(5))));
        assert_eq!(outputs.of(1), Some(origin(1)));
        assert_eq!(outputs.way_of(1), way(1));
        assert_eq!(outputs.of(2), None);
        assert_eq!(outputs.way_of(2).instants(), [0; 0]);
        put(&outputs, 1 + KEPT as u64, 9);
        assert_eq!(outputs.of(1), None);
        assert_eq!(outputs.of(1 + KEPT as u64), Some(origin(9)));
        // What is beyond the last task whose way is kept has none, and can be put out.
        let far = Outputs::of_place(SPLIT);
        put(&far, 0, 0);
        assert_eq!(
            (far.of(0), far.way_of(0).instants().len()),
            (Some(origin(0)), 0)
        );
    }

    /// A sensor, and a controller that reads what there is.
    fn two(triggered: bool) -> (Link, Link) {
        let between = Arc::new(Outputs::of_place(0));
        let link = |from, into, triggered| Link {
            chain: 3,
            from,
            triggered,
            into,
            reader: Reader::default(),
        };
        (
            link(None, Some(Arc::clone(&between)), false),
            link(Some(between), None, triggered),
        )
    }

    fn job(link: &mut Link, number: u64, read_ns: u64, released_by: u64) -> Option<Passed> {
        let own = Origin {
            job: number,
            arrival_ns: read_ns - 1,
            read_ns,
        };
        link.begin(own, released_by);
        link.end(number, read_ns + 5)
    }

    #[test]
    fn the_way_is_that_of_the_first_event_that_an_output_reflects() {
        let (mut sensor, mut controller) = two(false);
        assert_eq!(
            job(&mut controller, 0, 50, 0),
            None,
            "there is nothing to read"
        );
        for number in 0..4 {
            assert_eq!(job(&mut sensor, number, 100 * (number + 1), 0), None);
        }
        // It reflects the first reading too: no event before that can have been missed.
        let first = job(&mut controller, 1, 450, 0).unwrap();
        assert_eq!((first.origin.job, first.way.instants().len()), (3, 0));
        for number in 4..7 {
            job(&mut sensor, number, 100 * (number + 1), 0);
        }
        // An event just after job 3 had read is in the output of job 4, and waits for the controller.
        let next = job(&mut controller, 2, 750, 0).unwrap();
        assert_eq!((next.chain, next.origin.job, next.out_ns), (3, 6, 755));
        assert_eq!(next.way.instants(), [400, 500, 505, 750, 755]);
        let again = job(&mut controller, 3, 850, 0).unwrap();
        assert_eq!((again.origin.job, again.way.instants().len()), (6, 0));
    }

    #[test]
    fn a_released_job_reads_what_released_it() {
        let (mut sensor, mut actuator) = two(true);
        for number in 0..6 {
            job(&mut sensor, number, 100 * (number + 1), 0);
        }
        job(&mut actuator, 0, 610, 0);
        let next = job(&mut actuator, 1, 620, 1).unwrap();
        assert_eq!(next.way.instants(), [100, 200, 205, 620, 625]);
        // Each second job releases it: the event was in what it was not released by.
        let next = job(&mut actuator, 2, 630, 3).unwrap();
        assert_eq!((next.origin.job, next.way.instants()[0]), (3, 200));
    }

    #[test]
    fn no_reader_sees_half_of_a_value() {
        let outputs = Outputs::of_place(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for by in 0..200_000 {
                    put(&outputs, by, by);
                }
            });
            let mut seen = 0;
            while seen < 199_999 {
                if let Some((by, found)) = outputs.latest() {
                    assert_eq!((found, found.job), (origin(by), by));
                    let its = outputs.way_of(by);
                    assert!(its == way(by) || its.instants().is_empty());
                    assert!(found.job >= seen);
                    seen = found.job;
                }
            }
        });
    }
}
