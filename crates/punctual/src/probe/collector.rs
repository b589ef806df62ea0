//! Empties the rings of all probe threads into their tallies.

use punctual_rt::ring::Consumer;

use super::cycle::Sample;
use super::tally::Tally;

/// One probe thread's ring and tally.
pub struct Lane {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread id.
    pub tid: i32,
    ring: Consumer<Sample>,
    /// Its figures so far.
    pub tally: Tally,
    /// What was taken out before it was counted.
    pub sifted: Sifted,
}

/// Samples that were taken out before they were counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sifted {
    /// How many.
    pub set_aside: u64,
    /// Their length together.
    pub set_aside_ns: u64,
    /// Those of them that could not be told from others.
    pub untold: u64,
}

/// What is to be done with a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sorted {
    /// It counts.
    Keep,
    /// It is something else.
    SetAside,
    /// It can't be known, and doesn't count.
    Untold,
}

/// Looks at samples before they are counted.
pub trait Sieve: Send {
    /// Is told that samples were taken from all rings, and are to be looked at now.
    fn prepare(&mut self);
    /// Looks at one sample of the thread on a CPU.
    fn sort(&mut self, cpu: usize, sample: &Sample) -> Sorted;
}

impl Lane {
    /// A ring's reading end and the tally that it goes into.
    #[must_use]
    pub fn new(cpu: usize, tid: i32, ring: Consumer<Sample>, tally: Tally) -> Self {
        Self {
            cpu,
            tid,
            ring,
            tally,
            sifted: Sifted::default(),
        }
    }

    /// Samples that found the ring full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring.refused()
    }
}

/// Counts samples of one probe, a CPU and a thread, in their order, and hands on the measured.
fn count(
    tally: &mut Tally,
    (cpu, tid): (usize, i32),
    samples: &[Sample],
    start_ns: u64,
    sinks: &mut [Box<dyn SampleSink>],
) {
    tally.record_all(samples);
    // Those of the warm-up come first.
    let first = samples.partition_point(|sample| sample.asked_ns < start_ns);
    for sink in sinks {
        sink.take(cpu, tid, &samples[first..]);
    }
}

/// Takes all measured samples with the CPU of their thread.
pub trait SampleSink: Send {
    /// Takes samples of the thread on a CPU, in their order.
    fn take(&mut self, cpu: usize, tid: i32, samples: &[Sample]);

    /// All that has come so far was handed on.
    fn collected(&mut self) {}
}

/// All lanes of a run.
pub struct Collector {
    /// One for each probe thread.
    pub lanes: Vec<Lane>,
    start_ns: u64,
    sinks: Vec<Box<dyn SampleSink>>,
    sieve: Option<Box<dyn Sieve>>,
}

impl Collector {
    /// A collector of samples from `start_ns` on; each sample is also handed on to
    /// the sinks.
    #[must_use]
    pub fn new(lanes: Vec<Lane>, start_ns: u64, sinks: Vec<Box<dyn SampleSink>>) -> Self {
        Self {
            lanes,
            start_ns,
            sinks,
            sieve: None,
        }
    }

    /// Has every sample looked at before it is counted.
    #[must_use]
    pub fn with_sieve(mut self, sieve: Option<Box<dyn Sieve>>) -> Self {
        self.sieve = sieve;
        self
    }

    /// Moves the start to a later instant, before anything was measured, and
    /// returns the one in force.
    pub fn start_at(&mut self, start_ns: u64) -> u64 {
        self.start_ns = start_ns;
        for lane in &mut self.lanes {
            lane.tally.start_at(start_ns);
        }
        start_ns
    }

    /// Lets the sinks go: they have had every sample.
    pub fn end_sinks(&mut self) {
        self.sinks.clear();
        self.sieve = None;
    }

    /// Takes what has come since the last call, and returns how many samples.
    pub fn collect(&mut self) -> usize {
        if self.sieve.is_some() {
            return self.collect_sifted();
        }
        let mut taken = 0;
        for lane in &mut self.lanes {
            let tally = &mut lane.tally;
            let (probe, start_ns) = ((lane.cpu, lane.tid), self.start_ns);
            let sinks = &mut self.sinks;
            taken += lane
                .ring
                .drain_slices(|samples| count(tally, probe, samples, start_ns, sinks));
        }
        for sink in &mut self.sinks {
            sink.collected();
        }
        taken
    }

    /// As [`Collector::collect`]. Samples are taken from all rings first: what is known when
    /// the sieve prepares itself covers all of them.
    fn collect_sifted(&mut self) -> usize {
        let mut batches: Vec<Vec<Sample>> = Vec::with_capacity(self.lanes.len());
        for lane in &mut self.lanes {
            let mut batch = Vec::new();
            lane.ring.drain(|sample| batch.push(sample));
            batches.push(batch);
        }
        let taken = batches.iter().map(Vec::len).sum();
        if let Some(sieve) = &mut self.sieve {
            sieve.prepare();
            for (lane, batch) in self.lanes.iter_mut().zip(&mut batches) {
                let (cpu, start_ns) = (lane.cpu, self.start_ns);
                let sifted = &mut lane.sifted;
                batch.retain(|sample| {
                    let sorted = match sample.asked_ns < start_ns {
                        true => Sorted::Keep,
                        false => sieve.sort(cpu, sample),
                    };
                    if sorted != Sorted::Keep {
                        sifted.set_aside += 1;
                        sifted.set_aside_ns += sample.latency_ns();
                        sifted.untold += u64::from(sorted == Sorted::Untold);
                    }
                    sorted == Sorted::Keep
                });
            }
        }
        for (lane, batch) in self.lanes.iter_mut().zip(&batches) {
            let probe = (lane.cpu, lane.tid);
            count(
                &mut lane.tally,
                probe,
                batch,
                self.start_ns,
                &mut self.sinks,
            );
        }
        for sink in &mut self.sinks {
            sink.collected();
        }
        taken
    }

    /// How many values a ring should hold: half a minute of samples, for the
    /// collector runs at ordinary priority and may have to wait for a processor
    /// (loads on the loopback network have kept others off for as long).
    #[must_use]
    pub fn ring_capacity(interval_ns: u64) -> usize {
        let wanted = 32_000_000_000 / interval_ns.max(1);
        usize::try_from(wanted)
            .unwrap_or(usize::MAX)
            .clamp(1 << 12, 1 << 18)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use punctual_rt::ring::ring;

    use super::super::tally::Halves;
    use super::*;

    struct Keep(Arc<Mutex<Vec<(usize, u64)>>>);

    impl SampleSink for Keep {
        fn take(&mut self, cpu: usize, tid: i32, samples: &[Sample]) {
            assert_eq!(tid, 77);
            let instants = samples.iter().map(|sample| (cpu, sample.asked_ns));
            self.0.lock().unwrap().extend(instants);
        }
    }

    #[test]
    fn samples_reach_tally_and_sink_and_the_refused_are_counted() {
        let (mut producer, consumer) = ring(2);
        let tally = Tally::new(10, u64::MAX, Halves::At(u64::MAX), 8);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let lane = Lane::new(3, 77, consumer, tally);
        let mut collector = Collector::new(vec![lane], 10, vec![Box::new(Keep(Arc::clone(&kept)))]);
        for asked_ns in [5, 20, 30] {
            producer.push(Sample {
                asked_ns,
                late_ns: 1,
                missed: 0,
            });
        }
        assert_eq!(collector.collect(), 2);
        assert_eq!(*kept.lock().unwrap(), [(3, 20)], "warm-up is not handed on");
        assert_eq!(collector.lanes[0].tally.count(), 1);
        assert_eq!(collector.lanes[0].lost(), 1);
    }

    /// Sets even lengths aside, and can't tell those of 7.
    struct Odd(bool);

    impl Sieve for Odd {
        fn prepare(&mut self) {
            self.0 = true;
        }

        fn sort(&mut self, cpu: usize, sample: &Sample) -> Sorted {
            assert!(self.0 && cpu == 3);
            match sample.latency_ns() {
                7 => Sorted::Untold,
                ns if ns % 2 == 0 => Sorted::SetAside,
                _ => Sorted::Keep,
            }
        }
    }

    #[test]
    fn what_is_set_aside_is_counted_apart_and_reaches_nobody() {
        let (mut producer, consumer) = ring(16);
        let tally = Tally::new(10, u64::MAX, Halves::At(u64::MAX), 8);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let sink: Box<dyn SampleSink> = Box::new(Keep(Arc::clone(&kept)));
        let mut collector = Collector::new(vec![Lane::new(3, 77, consumer, tally)], 10, vec![sink])
            .with_sieve(Some(Box::new(Odd(false))));
        for (asked_ns, late_ns) in [(5, 2), (20, 1), (30, 4), (40, 7), (50, 9)] {
            producer.push(Sample {
                asked_ns,
                late_ns,
                missed: 0,
            });
        }
        assert_eq!(collector.collect(), 5);
        assert_eq!(*kept.lock().unwrap(), [(3, 20), (3, 50)]);
        let lane = &collector.lanes[0];
        assert_eq!((lane.tally.count(), lane.tally.warm_up), (2, 1));
        let sifted = Sifted {
            set_aside: 2,
            set_aside_ns: 11,
            untold: 1,
        };
        assert_eq!(lane.sifted, sifted);
    }

    #[test]
    fn rings_hold_seconds_within_reason() {
        assert_eq!(Collector::ring_capacity(1_000_000), 32_000);
        assert_eq!(Collector::ring_capacity(1_000_000_000), 1 << 12);
        assert_eq!(Collector::ring_capacity(0), 1 << 18);
    }
}
