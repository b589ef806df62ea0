use std::sync::{Arc, Mutex};

use punctual_rt::ring::{Producer, ring};

use super::super::tally::Halves;
use super::*;

struct Keep(Arc<Mutex<Vec<(usize, u64)>>>);

impl SampleSink for Keep {
    fn take(&mut self, cpu: usize, tid: i32, samples: &[Sample]) {
        assert_eq!(tid, 77);
        let instants = samples.iter().map(|sample| (cpu, sample.requested_ns));
        self.0.lock().unwrap().extend(instants);
    }
}

#[test]
fn samples_reach_tally_and_sink_and_lost_ones_are_counted() {
    let (mut producer, consumer) = ring(2);
    let tally = Tally::new(10, u64::MAX, Halves::At(u64::MAX), 8);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let lane = Lane::new(3, 77, consumer, tally);
    let mut collector = Collector::new(vec![lane], 10, vec![Box::new(Keep(Arc::clone(&kept)))]);
    for requested_ns in [5, 20, 30] {
        producer.push(Sample {
            requested_ns,
            late_ns: 1,
            missed: 0,
        });
    }
    assert_eq!(collector.collect(), 2);
    assert_eq!(*kept.lock().unwrap(), [(3, 20)], "warm-up is not handed on");
    assert_eq!(collector.lanes[0].tally.count(), 1);
    assert_eq!(collector.lanes[0].lost(), 1);
}

/// Sets odd lengths aside, and can't decide about 7.
struct Odd(bool);

impl Classifier for Odd {
    fn prepare(&mut self) {
        self.0 = true;
    }

    fn classify(&mut self, cpu: usize, sample: &Sample) -> Classification {
        assert!(self.0 && cpu == 3);
        match sample.latency_ns() {
            7 => Classification::Undecided,
            ns if ns % 2 == 0 => Classification::SetAside,
            _ => Classification::Keep,
        }
    }
}

#[test]
fn samples_set_aside_are_counted_apart_and_reach_no_sink() {
    let (mut producer, consumer) = ring(16);
    let tally = Tally::new(10, u64::MAX, Halves::At(u64::MAX), 8);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink: Box<dyn SampleSink> = Box::new(Keep(Arc::clone(&kept)));
    let mut collector = Collector::new(vec![Lane::new(3, 77, consumer, tally)], 10, vec![sink])
        .with_classifier(Some(Box::new(Odd(false))));
    for (requested_ns, late_ns) in [(5, 2), (20, 1), (30, 4), (40, 7), (50, 9)] {
        producer.push(Sample {
            requested_ns,
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
        undecided: 1,
        longest_undecided_ns: 7,
    };
    assert_eq!(lane.sifted, sifted);
}

/// Reports one stop, and sees a thread stopped by a debugger.
struct Told {
    settled_ns: u64,
    windows: Vec<StopWindow>,
}

impl StopEvidence for Arc<Mutex<Told>> {
    fn settled_ns(&self) -> u64 {
        self.lock().unwrap().settled_ns
    }

    fn take(&mut self) -> Vec<StopWindow> {
        std::mem::take(&mut self.lock().unwrap().windows)
    }

    fn is_stopped(&mut self, _: i32) -> bool {
        false
    }
}

const MS: u64 = 1_000_000;

/// Two threads of an interval of 1 ms, of which all is known until an instant.
fn two_lanes(now_ns: u64, settled_ns: u64) -> (Arc<Mutex<Told>>, Vec<Producer<Sample>>, Collector) {
    let told = Arc::new(Mutex::new(Told {
        settled_ns,
        windows: Vec::new(),
    }));
    let (rings, lanes) = (0..2)
        .map(|cpu| {
            let (producer, consumer) = ring(64);
            let tally = Tally::new(now_ns, 10 * MS, Halves::At(u64::MAX), 8);
            (producer, Lane::new(cpu, 77, consumer, tally))
        })
        .unzip();
    let evidence: Box<dyn StopEvidence> = Box::new(Arc::clone(&told));
    let collector = Collector::new(lanes, now_ns, Vec::new()).with_evidence(Some(evidence));
    (told, rings, collector)
}

/// A wake-up that was due after so many ms, and came so late.
fn at_ms(now_ns: u64, ms: u64, late_ms: u64) -> Sample {
    Sample {
        requested_ns: now_ns + ms * MS,
        late_ns: (late_ms * MS) as i64,
        missed: late_ms,
    }
}

#[test]
fn samples_are_held_back_until_stops_are_known() {
    let now_ns = clock::now_ns();
    let (told, mut rings, mut collector) = two_lanes(now_ns, now_ns + 2 * MS);
    let sample = |ms, late_ms| at_ms(now_ns, ms, late_ms);
    for ring in &mut rings {
        ring.push(sample(1, 0));
        ring.push(sample(2, 0));
        ring.push(sample(3, 0));
    }
    rings[0].push(sample(4, 300));
    assert_eq!(collector.collect(), 7);
    assert_eq!(collector.lanes[0].tally.count(), 2, "the others wait");
    *told.lock().unwrap() = Told {
        settled_ns: now_ns + 400 * MS,
        windows: vec![StopWindow {
            from_ns: now_ns + 2 * MS,
            to_ns: now_ns + 310 * MS,
            cause: StopCause::Signal,
        }],
    };
    collector.collect();
    // The second thread had no CPU until now.
    rings[1].push(sample(4, 303));
    rings[1].push(sample(308, 0));
    collector.collect();
    let counts = collector.lanes.iter().map(|lane| {
        let tally = &lane.tally;
        (tally.count(), tally.late, tally.missed, lane.stopped.cycles)
    });
    assert_eq!(counts.collect::<Vec<_>>(), [(3, 0, 0, 301), (4, 0, 0, 304)]);
    let stops = &collector.stops;
    assert_eq!((stops.count, stops.cycles), (1, 605));
    assert_eq!(stops.total_ns, 301 * MS);
}

/// A thread stalls for 400 ms, in the midst of which all are stopped for 100 ms: its wake-up comes after
/// the stop is known, and waits until no later one can lie in it.
#[test]
fn a_stop_is_taken_out_of_a_wait_once() {
    let now_ns = clock::now_ns();
    let (told, mut rings, mut collector) = two_lanes(now_ns, now_ns);
    let sample = |ms, late_ms| at_ms(now_ns, ms, late_ms);
    for (ms, late_ms) in [(100, 0), (101, 100), (202, 0)] {
        rings[0].push(sample(ms, late_ms));
    }
    collector.collect();
    *told.lock().unwrap() = Told {
        settled_ns: now_ns + 250 * MS,
        windows: vec![StopWindow {
            from_ns: now_ns + 90 * MS,
            to_ns: now_ns + 210 * MS,
            cause: StopCause::Signal,
        }],
    };
    collector.collect();
    rings[1].push(sample(2, 400));
    collector.collect();
    collector.collect();
    told.lock().unwrap().settled_ns = now_ns + 500 * MS;
    collector.collect();
    let stalled = &collector.lanes[1];
    assert_eq!((stalled.tally.late, stalled.tally.missed), (1, 299));
    assert_eq!(stalled.tally.latency().max(), Some(299 * MS));
    assert_eq!(stalled.stopped.cycles, 101);
    assert_eq!(collector.lanes[0].tally.late, 0);
}

#[test]
fn rings_hold_seconds_and_stay_small() {
    assert_eq!(Collector::ring_capacity(1_000_000), 32_000);
    assert_eq!(Collector::ring_capacity(1_000_000_000), 1 << 12);
    assert_eq!(Collector::ring_capacity(0), 1 << 18);
}
