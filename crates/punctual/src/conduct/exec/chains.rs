//! What comes out of the chains of a set.

use std::collections::VecDeque;

use punctual_stats::histogram::{Histogram, HistogramRecord};

use crate::probe::tally::Halves;
use punctual_exec::Passed;
use punctual_record::taskset::{ChainFigures, TaskSet};

use super::split::SplitTally;

/// The figures of one chain.
#[derive(Debug, Clone)]
pub struct ChainTally {
    reaction_limit_ns: u64,
    age_limit_ns: u64,
    reaction: Histogram,
    reaction_longer: u64,
    age: Histogram,
    age_longer: u64,
    replaced: u64,
    split: Option<SplitTally>,
    /// The most time between two inputs.
    input_period_ns: Option<u64>,
    /// The job whose input the last output reflects, and when it was read.
    last: Option<(u64, u64)>,
    /// Whether it is known when the first input was read.
    has_begun: bool,
    /// Outputs that may lie within a stop of the process: that isn't known yet.
    waiting: VecDeque<Passed>,
}

/// A stop of the process is known this long after its end.
const KNOWN_NS: u64 = 1_000_000_000;

impl ChainTally {
    /// For a chain of a set that starts at an instant.
    pub fn new(set: &TaskSet, chain: usize, start_ns: u64, halves: Halves) -> Self {
        let split = SplitTally::new(set, chain, start_ns, halves);
        let chain = set.chains.get(chain);
        let first = chain.and_then(|chain| chain.tasks.first().copied());
        let limit = |of: Option<u64>| of.unwrap_or(u64::MAX);
        Self {
            reaction_limit_ns: limit(chain.and_then(|chain| chain.reaction_ns)),
            age_limit_ns: limit(chain.and_then(|chain| chain.age_ns)),
            split,
            input_period_ns: first.and_then(|first| set.longest_period_ns(first)),
            reaction: Histogram::new(),
            reaction_longer: 0,
            age: Histogram::new(),
            age_longer: 0,
            replaced: 0,
            last: None,
            has_begun: false,
            waiting: VecDeque::new(),
        }
    }

    /// The first input was read then: an event just after it waits for an output from now on.
    pub fn begin(&mut self, read_ns: u64) {
        if !self.has_begun {
            self.has_begun = true;
            self.last = Some((0, read_ns));
        }
    }

    /// Takes an output, in their order; it counts once it is known to lie in no stop.
    pub fn add(&mut self, passed: Passed) {
        self.waiting.push_back(passed);
    }

    /// Counts the outputs that are old enough at an instant, but those in stops of the process, which
    /// are given by their beginnings and ends.
    pub fn settle(&mut self, now_ns: u64, stops: &[(u64, u64)]) {
        while let Some(passed) = self.waiting.front().copied() {
            if passed.out_ns.saturating_add(KNOWN_NS) > now_ns {
                return;
            }
            self.waiting.pop_front();
            let since_ns = self.last.map_or(passed.origin.arrival_ns, |(_, read_ns)| {
                read_ns.min(passed.origin.arrival_ns)
            });
            let stopped = |stop: &(u64, u64)| stop.0 < passed.out_ns && stop.1 > since_ns;
            match stops.iter().any(stopped) {
                true => self.last = None,
                false => self.take(&passed),
            }
        }
    }

    /// No job arrives from this instant on, and every output has been counted. An event just after the reading that the
    /// last output reflects, or after the first, has waited since. That is a reaction if it is beyond the limit already; otherwise it may have
    /// become any. Its time counts from the next input at the latest, which then was there to come out.
    pub fn end(&mut self, end_ns: u64, stops: &[(u64, u64)]) {
        let (Some((_, read_ns)), Some(period_ns)) = (self.last.take(), self.input_period_ns) else {
            return;
        };
        let stopped = |stop: &(u64, u64)| stop.0 < end_ns && stop.1 > read_ns;
        let waited_ns = end_ns.saturating_sub(read_ns.saturating_add(period_ns));
        if waited_ns > self.reaction_limit_ns && !stops.iter().any(stopped) {
            self.reaction.record(waited_ns);
            self.reaction_longer += 1;
            if let Some(split) = &mut self.split {
                split.leave_out();
            }
        }
    }

    fn take(&mut self, passed: &Passed) {
        let origin = passed.origin;
        let age_ns = passed.out_ns.saturating_sub(origin.arrival_ns);
        self.age.record(age_ns);
        self.age_longer += u64::from(age_ns > self.age_limit_ns);
        if let Some((job, read_ns)) = self.last
            && origin.job > job
        {
            // Just after that reading, an event was too late for it.
            let reaction_ns = passed.out_ns.saturating_sub(read_ns);
            self.reaction.record(reaction_ns);
            self.reaction_longer += u64::from(reaction_ns > self.reaction_limit_ns);
            self.replaced += origin.job - job - 1;
            if let Some(split) = &mut self.split {
                split.add(passed, read_ns);
            }
        }
        if self.last.is_none_or(|(job, _)| origin.job > job) {
            self.last = Some((origin.job, origin.read_ns));
        }
    }

    /// The figures as the record keeps them, after so much of the run.
    pub fn to_record(&self, lost: u64, measured_ns: u64) -> ChainFigures {
        ChainFigures {
            reaction: HistogramRecord::from(&self.reaction),
            reaction_longer: self.reaction_longer,
            age: HistogramRecord::from(&self.age),
            age_longer: self.age_longer,
            replaced: self.replaced,
            lost,
            split: self
                .split
                .as_ref()
                .map(|it| it.to_record(lost, measured_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_exec::chain::Origin;

    use super::*;
    use punctual_exec::chain::Way;
    use punctual_record::taskset::{Chain, Means, Phase, Task, TaskPolicy, Timer, Wake};

    fn passed(job: u64, out_ns: u64) -> Passed {
        Passed {
            chain: 0,
            origin: Origin {
                job,
                arrival_ns: 100 * job,
                read_ns: 100 * job + 10,
            },
            out_ns,
            way: Way::default(),
        }
    }

    /// A sensor, what it releases, and what samples that.
    fn set(reaction_ns: Option<u64>, age_ns: Option<u64>) -> TaskSet {
        let task = |name: &str, wake| Task {
            name: name.to_owned(),
            policy: TaskPolicy::Other { nice: 0 },
            cpus: Vec::new(),
            wake,
            deadline_ns: 1000,
            jitter_ns: 0,
            execution_ns: None,
            phases: Vec::new(),
        };
        let timer = Wake::Timer {
            timer: Timer::Absolute,
            period_ns: 100,
            offset_ns: 0,
        };
        let after = Wake::After {
            task: 0,
            every: 1,
            means: Means::Futex,
        };
        TaskSet {
            name: "s".to_owned(),
            tasks: vec![task("a", timer), task("b", after), task("c", timer)],
            chains: vec![Chain {
                name: "c".to_owned(),
                tasks: vec![0, 1, 2],
                reaction_ns,
                age_ns,
            }],
            ..TaskSet::default()
        }
    }

    fn tally(reaction_ns: Option<u64>, age_ns: Option<u64>) -> ChainTally {
        ChainTally::new(&set(reaction_ns, age_ns), 0, 0, Halves::At(300))
    }

    #[test]
    fn the_times_of_the_hops_add_up_to_each_reaction() {
        let mut tally = tally(None, None);
        let along = |job, instants: [u64; 7]| {
            let mut way = Way::between(instants[0], instants[1]);
            instants[2..].iter().for_each(|at_ns| way.go_on(*at_ns));
            Passed {
                way,
                ..passed(job, instants[6])
            }
        };
        for output in [
            passed(0, 60),
            along(1, [10, 110, 115, 120, 130, 190, 200]),
            along(3, [110, 210, 230, 231, 240, 390, 400]),
            // The way of another event than the one that came just after job 3: it isn't split.
            along(4, [110, 410, 430, 431, 440, 490, 500]),
            passed(5, 600),
        ] {
            tally.add(output);
        }
        tally.settle(u64::MAX, &[]);
        let figures = tally.to_record(0, 500);
        let split = figures.split.unwrap();
        assert_eq!((figures.reaction.count, split.unsplit), (4, 2));
        let of = |times: &punctual_record::taskset::Times| {
            let latency = &times.times.latency;
            (latency.count, latency.min_ns, latency.max_ns)
        };
        assert_eq!(of(&split.whole), (2, 190, 290));
        // Reading to reading, a, b from the end of a, the wait for c, c.
        let hops: Vec<_> = split.hops.iter().map(of).collect();
        assert_eq!(
            hops,
            [
                (2, 100, 100),
                (2, 5, 20),
                (2, 10, 15),
                (2, 60, 150),
                (2, 10, 10)
            ]
        );
        let rows = |times: &punctual_record::taskset::Times| -> u64 {
            times.timeline.rows.iter().map(|row| row.count).sum()
        };
        assert!(split.hops.iter().all(|hop| rows(hop) == 2));
    }

    #[test]
    fn an_event_waits_from_the_reading_that_it_missed_to_the_output_of_the_next() {
        let mut tally = tally(Some(250), Some(150));
        // Job 0 comes out twice, job 1 never: jobs 0, 2, 3.
        for output in [
            passed(0, 50),
            passed(0, 150),
            passed(2, 260),
            passed(3, 500),
        ] {
            tally.add(output);
        }
        tally.settle(KNOWN_NS, &[]);
        assert_eq!(
            tally.to_record(0, 0).age.count,
            0,
            "a stop may still become known"
        );
        tally.settle(u64::MAX, &[]);
        let figures = tally.to_record(7, 0);
        // 260 - 10, and 500 - 210.
        let reaction = &figures.reaction;
        assert_eq!(
            (reaction.count, reaction.min_ns, reaction.max_ns),
            (2, 250, 290)
        );
        assert_eq!(figures.reaction_longer, 1);
        // 50, 150, 60 and 200.
        let age = &figures.age;
        assert_eq!((age.count, age.min_ns, age.max_ns), (4, 50, 200));
        assert_eq!(
            (figures.age_longer, figures.replaced, figures.lost),
            (1, 1, 7)
        );
    }

    #[test]
    fn an_output_around_a_stop_of_the_process_does_not_count() {
        let mut tally = tally(None, None);
        let outputs = [
            passed(0, 50),
            passed(1, 900),
            passed(9, 950),
            passed(10, 1050),
        ];
        outputs.into_iter().for_each(|output| tally.add(output));
        tally.settle(u64::MAX, &[(160, 880)]);
        let figures = tally.to_record(0, 0);
        // Neither the output of job 1, nor what follows on it, but 1050 - 910.
        assert_eq!((figures.age.count, figures.reaction.count), (3, 1));
        assert_eq!(figures.reaction.max_ns, 140);
    }

    #[test]
    fn the_first_event_waits_from_the_first_reading() {
        let figures = |first: Passed, stops: &[(u64, u64)]| {
            let mut tally = tally(Some(800), None);
            tally.begin(10);
            tally.add(first);
            tally.begin(10);
            tally.settle(u64::MAX, stops);
            let reaction = tally.to_record(0, 0).reaction;
            (reaction.count, reaction.max_ns)
        };
        // Job 0 never comes out.
        assert_eq!(figures(passed(8, 900), &[]), (1, 890));
        assert_eq!(figures(passed(0, 900), &[]), (0, 0));
        assert_eq!(figures(passed(8, 900), &[(20, 30)]), (0, 0));
    }

    /// The longest reaction, how many there are, and how many are too long, after one of 300 whose output reflects
    /// what was read at 210, and no output since.
    fn ended(set: &TaskSet, end_ns: u64, stops: &[(u64, u64)]) -> (u64, u64, u64) {
        let mut tally = ChainTally::new(set, 0, 0, Halves::At(300));
        for output in [passed(0, 50), passed(2, 310)] {
            tally.add(output);
        }
        tally.settle(u64::MAX, &[]);
        tally.end(end_ns, stops);
        // It ends once.
        tally.end(end_ns, stops);
        let figures = tally.to_record(0, 0);
        let split = figures.split.unwrap();
        let reaction = &figures.reaction;
        let whole = &split.whole.times.latency;
        assert_eq!(whole.count + split.unsplit, reaction.count);
        (reaction.max_ns, reaction.count, figures.reaction_longer)
    }

    #[test]
    fn an_event_that_still_waits_at_the_end_has_waited_as_long() {
        let limited = set(Some(500), None);
        // The next input comes at 310 at the latest, and may wait until 810.
        assert_eq!(ended(&limited, 810, &[]), (300, 1, 0));
        assert_eq!(ended(&limited, 811, &[]), (501, 2, 1));
        assert_eq!(ended(&limited, 100, &[]), (300, 1, 0));
        assert_eq!(ended(&set(None, None), u64::MAX, &[]), (300, 1, 0));
        // The process was stopped meanwhile; or it was before, or after.
        for (stop, longer) in [
            ((0, 210), 1),
            ((0, 211), 0),
            ((400, 410), 0),
            ((810, 9000), 0),
            ((811, 9000), 1),
        ] {
            assert_eq!(ended(&limited, 811, &[stop]).2, longer, "{stop:?}");
        }
        // Nothing came out, and it is not known when the first input was read; and then it is.
        let mut tally = ChainTally::new(&limited, 0, 0, Halves::At(300));
        tally.end(u64::MAX, &[]);
        assert_eq!(tally.to_record(0, 0).reaction.count, 0);
        tally.begin(10);
        tally.end(611, &[]);
        assert_eq!(tally.to_record(0, 0).reaction_longer, 1);
    }

    #[test]
    fn inputs_that_may_come_later_are_waited_for_longer() {
        let mut slower = set(Some(500), None);
        let phase = |period_ns| Phase {
            jobs: 1,
            period_ns,
            deadline_ns: None,
            work: Vec::new(),
        };
        slower.tasks[0].phases = vec![phase(None), phase(Some(300))];
        assert_eq!(ended(&slower, 1010, &[]).2, 0);
        assert_eq!(ended(&slower, 1011, &[]), (501, 2, 1));
        // Every second job of another task releases the first.
        let timer = slower.tasks[0].wake;
        slower.tasks[0].wake = Wake::After {
            task: 1,
            every: 2,
            means: Means::Futex,
        };
        slower.tasks[1].wake = timer;
        assert_eq!(ended(&slower, 910, &[]).2, 0);
        assert_eq!(ended(&slower, 911, &[]), (501, 2, 1));
    }
}
