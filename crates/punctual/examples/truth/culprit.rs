//! Culprits of known length, put in the way of a probe at known instants. Each records with the
//! clock when it was really there.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use punctual_rt::clock;
use punctual_rt::sched::Policy;
use punctual_rt::sys::{task, time};
use punctual_trace::capture::numbers::Numbers;

use super::device::Device;
use super::group::Group;
use super::kernel::{Kernel, Order, Place};
use super::probe::{Beat, Habit, Lock};
use super::stint::Was;
use super::strike::{be, set_out};

/// How long before a wake-up is due its culprit begins.
pub const LEAD_NS: u64 = 100_000;
/// How long before the probe's timer the sleepers' timers are due.
const SLEEPERS_AHEAD_NS: u64 = 10_000;
/// Sleepers of the storm.
const SLEEPERS: u64 = 12;

/// A kind of culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// A thread of SCHED_FIFO 99.
    Hog,
    /// A thread that gets its priority only after it has begun to run.
    Riser,
    /// A thread of SCHED_DEADLINE.
    Deadline,
    /// The kernel on the CPU itself, with preemption disabled.
    PreemptOff,
    /// The kernel with interrupts disabled.
    IrqsOff,
    /// The kernel in an interrupt that another CPU requested.
    Call,
    /// A packet that takes long.
    Packet,
    /// A device's interrupt.
    Interrupt,
    /// Many timers of other threads, due just before.
    Timers,
    /// Memory of the probe that isn't present.
    Fault,
    /// A lock that a thread of lower priority holds.
    Inversion,
    /// A signal stops the probe.
    Stop,
    /// A debugger stops the probe.
    Traced,
    /// Its control group is frozen.
    Frozen,
    /// An ordinary thread; the probe is ordinary too for that time.
    Fair,
    /// The probe's control group has used up its quota.
    Throttled,
    /// A thread of SCHED_FIFO 99 that has executed another program, and has its name.
    Renamed,
}

impl Culprit {
    pub const ALL: [Self; 17] = [
        Self::Hog,
        Self::Riser,
        Self::Deadline,
        Self::PreemptOff,
        Self::IrqsOff,
        Self::Call,
        Self::Packet,
        Self::Interrupt,
        Self::Timers,
        Self::Fault,
        Self::Inversion,
        Self::Stop,
        Self::Traced,
        Self::Frozen,
        Self::Fair,
        Self::Throttled,
        Self::Renamed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Hog => "hog",
            Self::Riser => "riser",
            Self::Deadline => "deadline",
            Self::PreemptOff => "preempt-off",
            Self::IrqsOff => "irqs-off",
            Self::Call => "call",
            Self::Packet => "packet",
            Self::Interrupt => "interrupt",
            Self::Timers => "timers",
            Self::Fault => "fault",
            Self::Inversion => "inversion",
            Self::Stop => "stop",
            Self::Traced => "traced",
            Self::Frozen => "frozen",
            Self::Fair => "fair",
            Self::Throttled => "throttled",
            Self::Renamed => "renamed",
        }
    }

    /// Whether it detects itself what interrupts it.
    pub fn reads_the_clock(self) -> bool {
        !matches!(
            self,
            Self::Fault
                | Self::Inversion
                | Self::Stop
                | Self::Traced
                | Self::Frozen
                | Self::Throttled
        )
    }

    /// Whether interrupts are enabled while it runs.
    pub fn lets_interrupts_in(self) -> bool {
        matches!(
            self,
            Self::Hog
                | Self::Riser
                | Self::Deadline
                | Self::PreemptOff
                | Self::Packet
                | Self::Fair
                | Self::Renamed
        )
    }

    /// Whether the probe must be an ordinary thread for it.
    pub fn is_ordinary(self) -> bool {
        matches!(self, Self::Fair | Self::Throttled)
    }

    /// How many times longer than others it takes to begin and end.
    pub fn slower(self) -> u64 {
        match self {
            Self::Throttled | Self::Renamed => 5,
            Self::Fair => 3,
            _ => 1,
        }
    }

    /// A shorter time within a wake-up does not count.
    pub fn least_ns(self) -> u64 {
        match self {
            // Its end is known to some 10 µs.
            Self::Throttled => 500_000,
            _ => 60_000,
        }
    }

    /// Whether a bill has the number of its thread.
    pub fn has_number(self) -> bool {
        matches!(
            self,
            Self::Hog
                | Self::Riser
                | Self::Deadline
                | Self::PreemptOff
                | Self::IrqsOff
                | Self::Call
                | Self::Fair
                | Self::Renamed
        )
    }

    /// Whether other threads have the same name, or it runs several times in one wake-up.
    pub fn has_namesakes(self) -> bool {
        matches!(self, Self::Timers | Self::Interrupt | Self::Throttled)
    }

    /// What the probe itself must do for it.
    pub fn habit(self) -> Habit {
        match self {
            Self::Fault => Habit::Faults,
            Self::Inversion => Habit::Locks,
            _ => Habit::None,
        }
    }
}

/// When a culprit was really there.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub culprit: Culprit,
    pub was: Was,
}

/// The culprit's surroundings.
#[derive(Clone)]
pub struct Scene {
    pub beat: Beat,
    pub probe: i32,
    /// The probe's control group, if it has one of its own.
    pub group: Option<Arc<Group>>,
    /// Its lock, if it has one.
    pub lock: Option<Lock>,
    /// Another CPU, if there is one.
    pub other: Option<usize>,
    /// The device that interrupts the CPU.
    pub device: Option<Arc<Device>>,
    /// Whether softirqs can be preempted.
    pub preempt_rt: bool,
}

/// A running culprit.
pub struct Injection {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    truths: Arc<Mutex<Vec<Truth>>>,
}

impl Injection {
    /// Starts the culprit.
    pub fn start(culprit: Culprit, scene: Scene) -> Result<Self, String> {
        let over = Arc::new(AtomicBool::new(false));
        // Space for all: a culprit that had to allocate would be there for longer.
        let truths = Arc::new(Mutex::new(Vec::with_capacity(1 << 12)));
        let mut injection = Self {
            over: Arc::clone(&over),
            threads: Vec::new(),
            truths: Arc::clone(&truths),
        };
        if culprit == Culprit::Fault {
            return Ok(injection);
        }
        let (ready, is_ready) = std::sync::mpsc::channel::<Result<(), String>>();
        if culprit == Culprit::Timers {
            injection.sleepers(&scene, &ready)?;
            is_ready.recv().expect("it says so")?;
            return Ok(injection);
        }
        injection.threads.push(std::thread::spawn(move || {
            let beat = scene.beat;
            let mut striker = match set_out(culprit, scene) {
                Ok(striker) => striker,
                Err(why) => return ready.send(Err(why)).expect("somebody waits"),
            };
            let by = kernels_number();
            ready.send(Ok(())).expect("somebody waits");
            let mut due_ns = beat.next(clock::now_ns() + 2 * striker.lead_ns);
            while !over.load(Ordering::Relaxed) {
                let _ = time::sleep_until(due_ns - striker.lead_ns);
                if let Some(mut was) = (striker.strike)(due_ns) {
                    if was.by == 0 {
                        was.by = by;
                    }
                    let mut truths = truths.lock().expect("nobody panics");
                    truths.push(Truth { culprit, was });
                }
                due_ns = beat.next(clock::now_ns() + 2 * striker.lead_ns);
            }
        }));
        is_ready.recv().expect("it says so")?;
        Ok(injection)
    }

    /// Many threads whose timers are all due just before the probe's, and one that makes
    /// the kernel process them slowly.
    fn sleepers(
        &mut self,
        scene: &Scene,
        ready: &std::sync::mpsc::Sender<Result<(), String>>,
    ) -> Result<(), String> {
        let mut kernel = Kernel::new()?;
        kernel.attach("at_expiry", "hrtimer_expire_entry")?;
        kernel.attach("after_expiry", "hrtimer_expire_exit")?;
        for _ in 0..SLEEPERS {
            let (over, beat) = (Arc::clone(&self.over), scene.beat);
            self.threads.push(std::thread::spawn(move || {
                let _ = task::name_current_thread("sleeper");
                be(&[beat.cpu], Policy::Fifo(1)).expect("root may");
                while !over.load(Ordering::Relaxed) {
                    let due_ns = beat.next(clock::now_ns() + 1_000_000);
                    let _ = time::sleep_until(due_ns - SLEEPERS_AHEAD_NS);
                }
            }));
        }
        let (over, truths) = (Arc::clone(&self.over), Arc::clone(&self.truths));
        let (beat, cpu) = (scene.beat, scene.other.unwrap_or(scene.beat.cpu));
        ready.send(Ok(())).expect("somebody waits");
        self.threads.push(std::thread::spawn(move || {
            be(&[cpu], Policy::Fifo(50)).expect("root may");
            while !over.load(Ordering::Relaxed) {
                let due_ns = beat.next(clock::now_ns() + 2_000_000);
                let _ = time::sleep_until(due_ns - 2_000_000);
                let order = Order {
                    length_ns: beat.length_ns / SLEEPERS,
                    times: SLEEPERS,
                    who: due_ns - SLEEPERS_AHEAD_NS,
                    ..Order::default()
                };
                kernel.order(Place::Timers, order);
                let _ = time::sleep_until(due_ns + 2_000_000);
                if let Some(was) = kernel.take(Place::Timers) {
                    let culprit = Culprit::Timers;
                    let mut truths = truths.lock().expect("nobody panics");
                    truths.push(Truth { culprit, was });
                }
            }
        }));
        Ok(())
    }

    /// Stops it and returns when it was there.
    pub fn end(self) -> Vec<Truth> {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
        std::mem::take(&mut *self.truths.lock().expect("nobody panics"))
    }
}

/// The kernel's number for the calling thread.
fn kernels_number() -> u32 {
    let here = task::current_tid().unsigned_abs();
    Numbers::of_proc().map_or(0, |numbers| numbers.kernels(here))
}

/// Whether this kernel is PREEMPT_RT.
pub fn is_preempt_rt() -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    read("/sys/kernel/realtime").trim() == "1"
        || read("/proc/sys/kernel/version").contains("PREEMPT_RT")
}
