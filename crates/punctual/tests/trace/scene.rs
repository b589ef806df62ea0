//! A probe, a culprit and a recording of both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::record::explanation::Instants;
use punctual::trace::attribute::event::Window;
use punctual::trace::capture::{Capture, Options, RING_EVENTS};
use punctual_rt::ring::ring;
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::{task, time};
use punctual_rt::{affinity, clock};

use super::inject::{Culprit, Injection, Place, Truth, cpus, other_cpu};

/// What was seen of one culprit.
pub struct Scene {
    pub capture: Capture,
    #[allow(dead_code, reason = "said in failures")]
    pub tid: u32,
    /// Instant asked for and instant woken, of each wake-up.
    pub samples: Vec<(u64, u64)>,
    pub chains: Vec<Instants>,
    /// Those later than the threshold.
    pub windows: Vec<Window>,
    pub truths: Vec<Truth>,
}

pub const PERIOD_NS: u64 = 1_000_000;

/// Records a culprit for a while; `None` with the reason where that can't be done here.
pub fn play(
    culprit: Option<Culprit>,
    length_ns: u64,
    threshold_ns: u64,
    for_time: Duration,
) -> Result<Scene, String> {
    let cpu = *cpus().last().ok_or("no CPU")?;
    let over = Arc::new(AtomicBool::new(false));
    let (mut producer, mut consumer) = ring(1 << 16);
    let start_ns = clock::now_ns() + 500_000_000;
    let (tell, told) = std::sync::mpsc::channel();
    let ended = Arc::clone(&over);
    let probe = std::thread::spawn(move || {
        let _ = task::name_current_thread("probe");
        affinity::set_current(&[cpu]).unwrap();
        let allowed = sched::set_current(Policy::Fifo(80));
        tell.send(allowed.map(|()| task::current_tid() as u32))
            .unwrap();
        let mut due_ns = start_ns;
        while !ended.load(Ordering::Relaxed) {
            let _ = time::sleep_until(due_ns);
            let woken_ns = clock::now_ns();
            producer.push((due_ns, woken_ns));
            while due_ns <= woken_ns {
                due_ns += PERIOD_NS;
            }
        }
    });
    let stop = || over.store(true, Ordering::Relaxed);
    let tid = match told.recv().unwrap() {
        Ok(tid) => tid,
        Err(error) => {
            stop();
            return Err(format!("no real-time priority: {error}"));
        }
    };
    let options = Options {
        targets: vec![(tid, cpu as u32)],
        threshold_ns,
        cpus: vec![cpu as u32],
        ring_events: RING_EVENTS,
    };
    let mut capture = match Capture::start(&options) {
        Ok(capture) => capture,
        Err(why) => {
            stop();
            return Err(why.to_string());
        }
    };
    let _ = affinity::set_current(&[other_cpu(cpu)]);
    let place = Place {
        cpu,
        start_ns,
        period_ns: PERIOD_NS,
        every: 20,
        length_ns,
    };
    let injection = match culprit
        .map(|culprit| Injection::start(culprit, place))
        .transpose()
    {
        Ok(injection) => injection,
        Err(why) => {
            stop();
            return Err(why);
        }
    };
    let (mut samples, mut chains, mut windows) = (Vec::new(), Vec::new(), Vec::new());
    // What came before all was in place is not looked at.
    let begun_ns = clock::now_ns().max(start_ns);
    let until_ns = begun_ns + for_time.as_nanos() as u64;
    let mut late: Vec<(u64, u64)> = Vec::new();
    while clock::now_ns() < until_ns {
        std::thread::sleep(Duration::from_millis(20));
        let from = samples.len();
        consumer.drain(|sample: (u64, u64)| {
            if sample.0 > begun_ns {
                samples.push(sample);
            }
        });
        capture.drain();
        for (due_ns, woken_ns) in late.drain(..) {
            windows.extend(capture.window(tid, due_ns, woken_ns));
        }
        for &(due_ns, woken_ns) in &samples[from..] {
            chains.extend(capture.chain(tid, due_ns, woken_ns));
            if woken_ns > due_ns + threshold_ns {
                late.push((due_ns, woken_ns));
            }
        }
    }
    stop();
    let truths = injection.map(Injection::end).unwrap_or_default();
    probe.join().unwrap();
    capture.drain();
    for (due_ns, woken_ns) in late {
        windows.extend(capture.window(tid, due_ns, woken_ns));
    }
    Ok(Scene {
        capture,
        tid,
        samples,
        chains,
        windows,
        truths,
    })
}

/// One scene at a time: they share a CPU.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recorder's programs that are in the kernel, by their links to tracepoints; of this
/// process alone, for others may trace too.
pub fn programs() -> usize {
    let folder = std::fs::read_dir("/proc/self/fd").expect("it is mounted");
    let bpf = |entry: std::fs::DirEntry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|to| to.to_string_lossy().starts_with("anon_inode:bpf"))
    };
    folder.flatten().map(bpf).filter(|is| *is).count()
}

/// Waits until no more than these are left.
pub fn await_programs(wanted: usize) {
    for _ in 0..500 {
        if programs() <= wanted {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!(
        "{} descriptors of BPF are left, {wanted} were there before",
        programs()
    );
}
