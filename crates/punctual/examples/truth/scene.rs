//! A probe, its culprits, and a recording of both.

use std::sync::Arc;
use std::time::Duration;

use punctual::record::explanation::Instants;
use punctual::trace::attribute::event::Window;
use punctual::trace::capture::{Capture, Options, RING_EVENTS};
use punctual_rt::{affinity, clock};

use super::culprit::{Culprit, Injection, LEAD_NS, Scene, Truth, is_preempt_rt};
use super::device::{Device, cpus};
use super::probe::{Beat, Habit, Probe, Sample};

pub const PERIOD_NS: u64 = 1_000_000;
/// How long before a stack is taken, and from when on a wake-up is looked at.
pub const THRESHOLD_NS: u64 = 60_000;
const NAP: Duration = Duration::from_millis(20);

/// What was seen.
pub struct Seen {
    pub samples: Vec<Sample>,
    pub chains: Vec<Instants>,
    /// Those later than the threshold.
    pub windows: Vec<Window>,
    pub truths: Vec<Truth>,
    pub events: u64,
    pub lost: u64,
    pub preempt_rt: bool,
}

/// How it is played.
#[derive(Debug, Clone, Copy)]
pub struct Play {
    /// Disturbed wake-ups that are wanted.
    pub count: u64,
    /// In the way of every so many-th.
    pub every: u64,
    pub length_ns: u64,
}

/// Records culprits at work; the reason where that can't be done here.
pub fn play(culprits: &[Culprit], play: Play) -> Result<Seen, String> {
    let device = culprits.contains(&Culprit::Interrupt).then(Device::find);
    let device = device.transpose()?.map(Arc::new);
    let last = *cpus().last().ok_or("no CPU")?;
    let cpu = device.as_ref().map_or(last, |device| device.cpu);
    let other = cpus().iter().copied().find(|other| *other != cpu);
    // Not before all is in place: loading programs takes its time.
    let start_ns = clock::now_ns() + 500_000_000;
    let beat = Beat {
        cpu,
        start_ns,
        period_ns: PERIOD_NS,
        every: play.every,
        length_ns: play.length_ns + LEAD_NS,
    };
    let habit = culprits.iter().map(|culprit| culprit.habit());
    let habit = habit.reduce(|a, b| if a == Habit::None { b } else { a });
    let mut probe = Probe::start(beat, habit.unwrap_or(Habit::None))?;
    let tid = probe.pid.unsigned_abs();
    let options = Options {
        targets: vec![(tid, cpu as u32)],
        threshold_ns: THRESHOLD_NS,
        cpus: vec![cpu as u32],
        ring_events: RING_EVENTS,
    };
    let mut capture = Capture::start(&options).map_err(|why| why.to_string())?;
    if let Some(other) = other {
        let _ = affinity::set_current(&[other]);
    }
    let preempt_rt = is_preempt_rt();
    let scene = Scene {
        beat,
        probe: probe.pid,
        lock: probe.lock(),
        other,
        device,
        preempt_rt,
    };
    let injections: Result<Vec<Injection>, String> = culprits
        .iter()
        .map(|culprit| Injection::start(*culprit, scene.clone()))
        .collect();
    let injections = injections?;
    let mut seen = Seen {
        samples: Vec::new(),
        chains: Vec::new(),
        windows: Vec::new(),
        truths: Vec::new(),
        events: 0,
        lost: 0,
        preempt_rt,
    };
    // What came before all was in place is not looked at.
    let begun_ns = clock::now_ns().max(start_ns);
    let until_ns = begun_ns + (play.count + 1) * play.every * PERIOD_NS;
    let mut late: Vec<Sample> = Vec::new();
    loop {
        let ended = clock::now_ns() >= until_ns;
        let from = seen.samples.len();
        let fresh = probe.samples();
        seen.samples
            .extend(fresh.into_iter().filter(|sample| sample.due_ns > begun_ns));
        capture.drain();
        for sample in late.drain(..) {
            seen.windows
                .extend(capture.window(tid, sample.due_ns, sample.woken_ns));
        }
        for sample in &seen.samples[from..] {
            seen.chains
                .extend(capture.chain(tid, sample.due_ns, sample.woken_ns));
            if sample.woken_ns > sample.due_ns + THRESHOLD_NS {
                late.push(*sample);
            }
        }
        if ended {
            break;
        }
        std::thread::sleep(NAP);
    }
    for injection in injections {
        seen.truths.extend(injection.end());
    }
    capture.drain();
    for sample in late {
        let window = capture.window(tid, sample.due_ns, sample.woken_ns);
        seen.windows.extend(window);
    }
    let own = culprits
        .iter()
        .find(|culprit| culprit.habit() != Habit::None);
    if let Some(culprit) = own {
        let of_probe = seen.samples.iter().filter(|sample| sample.to_ns > 0);
        seen.truths.extend(of_probe.map(|sample| Truth {
            culprit: *culprit,
            begin_ns: sample.from_ns,
            end_ns: sample.to_ns,
        }));
    }
    let _ = affinity::set_current(cpus());
    seen.events = capture.events();
    seen.lost = capture.lost();
    Ok(seen)
}
