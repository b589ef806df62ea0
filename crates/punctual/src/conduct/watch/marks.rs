//! The marks of a program: passes from the kernel's rings, counts from its maps.

use std::collections::BTreeSet;

use punctual_stats::histogram::{Histogram, HistogramRecord};

use super::compose;
use punctual_record::live::LiveMark;
use punctual_record::watch::{MarkedThread, WatchedMark, WorstLength};
use punctual_record::{Event, Happening};
use punctual_trace::capture::Unavailable;
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::watch::marks::{ActiveMarks, Mark, MarkCounts, MarkPass, Unseen};

/// All marks of a watch.
pub(super) struct Marks<'a> {
    marks: &'a [Mark],
    /// The limit of each, in ns.
    limits: &'a [Option<u64>],
    marking: Result<ActiveMarks, Unavailable>,
    threads: Vec<AtMark>,
    /// Passes of threads for which there was no room, by mark.
    beyond: Vec<u64>,
    unseen: Vec<Unseen>,
}

/// A thread at a mark.
struct AtMark {
    passes: MarkCounts,
    /// The number of received passes.
    received: u64,
    lengths: Histogram,
    /// The limit, in ns; the largest number if there is none.
    limit_ns: u64,
    longer: u64,
    /// The longest first.
    worst: Vec<WorstLength>,
    /// How long the one had lasted that was open when the watch ended.
    open_ns: u64,
    /// It has ended, and its counts are no longer in the kernel.
    gone: bool,
}

impl<'a> Marks<'a> {
    /// Attaches the marks. Most watches have none. If the kernel refuses one, the watch continues
    /// without it.
    pub(super) fn begin(
        marks: &'a [Mark],
        limits: &'a [Option<u64>],
        (pid, kernels): (u32, u32),
        every: bool,
        events: &mut Vec<Event>,
    ) -> Option<Self> {
        if marks.is_empty() {
            return None;
        }
        let marks = Self {
            marks,
            limits,
            marking: ActiveMarks::start(pid, kernels, every, marks),
            threads: Vec::new(),
            beyond: vec![0; marks.len()],
            unseen: vec![Unseen::default(); marks.len()],
        };
        for (index, mark) in marks.marks.iter().enumerate() {
            if let Some(why) = marks.refused(index) {
                let what = Happening::MarkRefused {
                    mark: mark.name.clone(),
                    why: why.clone(),
                };
                events.push(Event::new(0, what));
            }
        }
        Some(marks)
    }

    /// Why a mark is not attached.
    fn refused(&self, index: usize) -> Option<&Unavailable> {
        match &self.marking {
            Ok(marking) => marking.refused().get(index)?.as_ref(),
            Err(why) => Some(why),
        }
    }

    /// Takes the new passes, and returns them.
    pub(super) fn collect(&mut self) -> Vec<MarkPass> {
        let passes = self.marking.as_mut().map(ActiveMarks::drain);
        let passes = passes.unwrap_or_default();
        let known = |threads: &[AtMark], pass: &MarkPass| threads.iter().any(|it| it.is(pass));
        if passes.iter().any(|pass| !known(&self.threads, pass)) {
            self.read_counts();
        }
        for pass in &passes {
            if let Some(thread) = self.threads.iter_mut().find(|it| it.is(pass)) {
                thread.take(pass);
            }
        }
        passes
    }

    /// Reads the kernel's counts.
    pub(super) fn count(&mut self) {
        self.read_counts();
        let Ok(marking) = &mut self.marking else {
            return;
        };
        self.unseen = marking.unseen();
    }

    fn limit_ns(&self, mark: usize) -> Option<u64> {
        self.limits.get(mark).copied().flatten()
    }

    fn read_counts(&mut self) {
        let counts = self.marking.as_ref().map(ActiveMarks::passes);
        self.beyond.fill(0);
        for passes in counts.unwrap_or_default() {
            let same = |it: &AtMark| {
                (it.passes.mark, it.passes.task.tid, it.passes.started_ns)
                    == (passes.mark, passes.task.tid, passes.started_ns)
            };
            match self.threads.iter().position(same) {
                Some(at) => self.threads[at].passes = passes,
                None if self.threads.len() < WatchedMark::THREADS => {
                    let limit_ns = self.limit_ns(passes.mark as usize);
                    self.threads.push(AtMark::new(passes, limit_ns));
                }
                None => self.beyond[passes.mark as usize] += passes.count,
            }
        }
    }

    /// Makes room in the kernel for threads that have ended.
    pub(super) fn forget(&mut self, ended: &BTreeSet<(u32, u64)>) {
        let has_ended =
            |it: &AtMark| !it.gone && ended.contains(&(it.passes.task.tid, it.passes.started_ns));
        if self.threads.iter().any(has_ended) {
            // It may have passed since the last reading.
            self.read_counts();
        }
        let Ok(marking) = &mut self.marking else {
            return;
        };
        for thread in &mut self.threads {
            if has_ended(thread) && thread.lost() == 0 {
                marking.forget(&thread.passes);
                thread.gone = true;
            }
        }
    }

    /// Takes the last passes, and returns them: those counted so far must have arrived.
    pub(super) fn finish(&mut self) -> Vec<MarkPass> {
        self.read_counts();
        let counted: Vec<u64> = self.threads.iter().map(|it| it.passes.count).collect();
        let mut passes = self.collect();
        // Passes that came while the rings were emptied are read the next time.
        passes.extend(self.collect());
        let now_ns = punctual_rt::clock::now_ns();
        for (thread, counted) in self.threads.iter_mut().zip(counted) {
            thread.passes.count = thread.received.max(counted);
            if !self.marks[thread.passes.mark as usize].is_point {
                thread.close(now_ns);
            }
        }
        if let Ok(marking) = &self.marking {
            self.unseen = marking.unseen();
        }
        passes
    }

    /// For the record.
    pub(super) fn compose(&self, numbers: &Numbers) -> Vec<WatchedMark> {
        let of = |(index, mark): (usize, &Mark)| {
            let threads = self.threads.iter();
            let mut threads: Vec<&AtMark> = threads
                .filter(|it| it.passes.mark as usize == index)
                .collect();
            threads.sort_by_key(|it| (it.passes.task.tid, it.passes.started_ns));
            WatchedMark {
                name: mark.name.clone(),
                place: mark.text.clone(),
                point: mark.is_point,
                limit_ns: self.limit_ns(index),
                refused: self.refused(index).cloned(),
                threads: threads.into_iter().map(|it| it.compose(numbers)).collect(),
                unwatched: self.unseen[index].unwatched,
                beyond: self.unseen[index].no_room + self.beyond[index],
            }
        };
        self.marks.iter().enumerate().map(of).collect()
    }

    /// For the display, all threads of a mark together.
    pub(super) fn live(&self) -> Vec<LiveMark> {
        let of = |(index, mark): (usize, &Mark)| {
            let threads = || {
                let threads = self.threads.iter();
                threads.filter(move |it| it.passes.mark as usize == index)
            };
            let lengths = Histogram::merged(threads().map(|it| &it.lengths));
            LiveMark {
                name: mark.name.clone(),
                count: threads().map(|it| it.passes.count).sum(),
                refused: self.refused(index).is_some(),
                point: mark.is_point,
                avg_ns: lengths.mean().unwrap_or(0.0),
                max_ns: lengths.max(),
                p99_ns: lengths.supported_quantile(0.99),
            }
        };
        self.marks.iter().enumerate().map(of).collect()
    }
}

impl AtMark {
    fn new(passes: MarkCounts, limit_ns: Option<u64>) -> Self {
        Self {
            passes,
            received: 0,
            lengths: Histogram::new(),
            limit_ns: limit_ns.unwrap_or(u64::MAX),
            longer: 0,
            worst: Vec::new(),
            open_ns: 0,
            gone: false,
        }
    }

    fn is(&self, pass: &MarkPass) -> bool {
        let own = &self.passes;
        (own.mark, own.task.tid, own.started_ns) == (pass.mark, pass.tid, pass.started_ns)
    }

    fn take(&mut self, pass: &MarkPass) {
        self.received += 1;
        let Some(length) = pass.length else {
            return;
        };
        self.lengths.record(length.ns);
        self.longer += u64::from(length.ns > self.limit_ns);
        let place = self.worst.partition_point(|it| it.length_ns >= length.ns);
        if place < WatchedMark::WORST {
            self.worst.truncate(WatchedMark::WORST - 1);
            self.worst.insert(
                place,
                WorstLength {
                    length_ns: length.ns,
                    at_ns: pass.at_ns,
                    waited_ns: length.waited_ns,
                    preempted: length.preempted.into(),
                    slept: length.slept.into(),
                    faults: length.faults,
                },
            );
        }
    }

    /// At the end of the watch, one that has begun longer ago than the limit may hang: it took longer, or was left.
    fn close(&mut self, now_ns: u64) {
        let since_ns = self.passes.open_since_ns.take().filter(|_| !self.gone);
        let open_ns = since_ns.map_or(0, |it| now_ns.saturating_sub(it));
        self.open_ns = self.open_ns.max(open_ns);
        self.passes.unfinished += u64::from(open_ns > self.limit_ns);
    }

    fn lost(&self) -> u64 {
        self.passes.count.saturating_sub(self.received)
    }

    fn compose(&self, numbers: &Numbers) -> MarkedThread {
        MarkedThread {
            task: compose::task(&self.passes.task, numbers),
            count: self.passes.count,
            lengths: HistogramRecord::from(&self.lengths),
            unfinished: self.passes.unfinished,
            open_ns: self.open_ns,
            unmatched: self.passes.unmatched,
            lost: self.lost(),
            longer: self.longer,
            worst: self.worst.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_trace::watch::Other;
    use punctual_trace::watch::marks::MarkLength;

    fn at_mark() -> AtMark {
        let task = Other {
            tid: 7,
            name: "rt-loop".to_owned(),
            policy: 1,
            priority: 39,
        };
        let passes = MarkCounts {
            mark: 2,
            task,
            started_ns: 1,
            count: 0,
            unfinished: 0,
            unmatched: 0,
            open_since_ns: None,
        };
        AtMark::new(passes, Some(47))
    }

    fn pass(at_ns: u64, ns: Option<u64>) -> MarkPass {
        MarkPass {
            mark: 2,
            tid: 7,
            started_ns: 1,
            at_ns,
            length: ns.map(|ns| MarkLength {
                ns,
                waited_ns: Some(ns / 2),
                preempted: 1,
                slept: 0,
                faults: 0,
            }),
        }
    }

    #[test]
    fn the_longest_are_kept_in_order_the_earlier_first_and_the_first_pass_has_no_length() {
        let mut thread = at_mark();
        thread.take(&pass(1, None));
        for n in 0..100 {
            thread.take(&pass(n, Some(n % 50)));
        }
        thread.passes.count = 103;
        let record = thread.compose(&Numbers::default());
        assert_eq!(
            (record.count, record.lengths.count, record.lost),
            (103, 100, 2)
        );
        assert_eq!(record.longer, 4, "the limit itself is not too long");
        let worst: Vec<(u64, u64)> = record
            .worst
            .iter()
            .map(|worst| (worst.length_ns, worst.at_ns))
            .collect();
        assert_eq!(worst.len(), WatchedMark::WORST);
        assert_eq!(worst[..4], [(49, 49), (49, 99), (48, 48), (48, 98)]);
        assert_eq!(worst[WatchedMark::WORST - 1], (42, 92));
    }

    #[test]
    fn one_that_is_open_for_longer_than_the_limit_is_unfinished() {
        let closed = |since_ns, gone| {
            let mut thread = at_mark();
            thread.passes.open_since_ns = since_ns;
            thread.gone = gone;
            thread.close(100);
            thread.close(200);
            thread.passes.unfinished
        };
        assert_eq!((closed(Some(52), false), closed(Some(53), false)), (1, 0));
        assert_eq!((closed(None, false), closed(Some(52), true)), (0, 0));
    }

    #[test]
    fn a_pass_belongs_to_its_thread_and_not_to_a_later_one_of_the_same_number() {
        let thread = at_mark();
        let own = pass(5, None);
        assert!(thread.is(&own));
        assert!(!thread.is(&MarkPass {
            started_ns: 2,
            ..own
        }));
        assert!(!thread.is(&MarkPass { mark: 1, ..own }));
        assert!(!thread.is(&MarkPass { tid: 8, ..own }));
    }
}
