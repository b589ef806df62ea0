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
        }
    }

    /// Samples that found the ring full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring.refused()
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
        }
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
    }

    /// Takes what has come since the last call, and returns how many samples.
    pub fn collect(&mut self) -> usize {
        let mut taken = 0;
        for lane in &mut self.lanes {
            let tally = &mut lane.tally;
            let (cpu, tid, start_ns) = (lane.cpu, lane.tid, self.start_ns);
            let sinks = &mut self.sinks;
            taken += lane.ring.drain_slices(|samples| {
                tally.record_all(samples);
                // Those of the warm-up come first.
                let first = samples.partition_point(|sample| sample.asked_ns < start_ns);
                for sink in sinks.iter_mut() {
                    sink.take(cpu, tid, &samples[first..]);
                }
            });
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

    #[test]
    fn rings_hold_seconds_within_reason() {
        assert_eq!(Collector::ring_capacity(1_000_000), 32_000);
        assert_eq!(Collector::ring_capacity(1_000_000_000), 1 << 12);
        assert_eq!(Collector::ring_capacity(0), 1 << 18);
    }
}
