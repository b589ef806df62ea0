//! Culprits of known length, put in the way of a probe at known instants. Each notes by the
//! clock when it was really there.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::{task, time};
use punctual_rt::{affinity, clock};

use super::device::Device;
use super::kernel::{Kernel, Order, Place};
use super::probe::{Beat, Habit, Lock};
use super::stint::{Stint, spin};

/// How long before a wake-up is due its culprit comes.
pub const LEAD_NS: u64 = 100_000;
/// Sleepers of the storm.
const SLEEPERS: u64 = 12;

/// A kind of culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// A thread of SCHED_FIFO 99.
    Hog,
    /// One that has its priority only since it runs.
    Riser,
    /// A thread of SCHED_DEADLINE.
    Deadline,
    /// The kernel on the CPU itself, where nothing can preempt it.
    PreemptOff,
    /// The kernel with interrupts off.
    IrqsOff,
    /// The kernel in an interrupt that another CPU asked for.
    Call,
    /// A packet that takes long.
    Packet,
    /// A device's interrupt.
    Interrupt,
    /// Many timers of others, due just before.
    Timers,
    /// Memory of the probe's that isn't there.
    Fault,
    /// A lock that a thread of lower priority holds.
    Inversion,
    /// Somebody stops the probe.
    Stop,
}

impl Culprit {
    pub const ALL: [Self; 12] = [
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
        }
    }

    /// What the probe itself has to do for it.
    pub fn habit(self) -> Habit {
        match self {
            Self::Fault => Habit::Faults,
            Self::Inversion => Habit::Locks,
            _ => Habit::None,
        }
    }
}

/// When one was really there.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub culprit: Culprit,
    pub begin_ns: u64,
    pub end_ns: u64,
}

/// What a culprit needs to know.
#[derive(Clone)]
pub struct Scene {
    pub beat: Beat,
    pub probe: i32,
    /// Its lock, where it has one.
    pub lock: Option<Lock>,
    /// Another CPU, if there is one.
    pub other: Option<usize>,
    /// What interrupts the CPU.
    pub device: Option<Arc<Device>>,
    /// Whether softirqs can be preempted.
    pub preempt_rt: bool,
}

/// A culprit at work.
pub struct Injection {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    truths: Arc<Mutex<Vec<Truth>>>,
}

/// When to strike, and what to do then.
struct Striker {
    lead_ns: u64,
    strike: Box<dyn FnMut(u64) -> Option<(u64, u64)> + Send>,
}

impl Injection {
    /// Lets the culprit loose.
    pub fn start(culprit: Culprit, scene: Scene) -> Result<Self, String> {
        let over = Arc::new(AtomicBool::new(false));
        // Room for all: a culprit that had to find more would be there for longer.
        let truths = Arc::new(Mutex::new(Vec::with_capacity(1 << 14)));
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
            ready.send(Ok(())).expect("somebody waits");
            let mut due_ns = beat.next(clock::now_ns() + 2 * striker.lead_ns);
            while !over.load(Ordering::Relaxed) {
                let _ = time::sleep_until(due_ns - striker.lead_ns);
                if let Some((begin_ns, end_ns)) = (striker.strike)(due_ns) {
                    truths.lock().expect("nobody panics").push(Truth {
                        culprit,
                        begin_ns,
                        end_ns,
                    });
                }
                due_ns = beat.next(clock::now_ns() + 2 * striker.lead_ns);
            }
        }));
        is_ready.recv().expect("it says so")?;
        Ok(injection)
    }

    /// Many threads whose timers are all due just before the probe's, and one that tells the
    /// kernel to be slow with them.
    fn sleepers(
        &mut self,
        scene: &Scene,
        ready: &std::sync::mpsc::Sender<Result<(), String>>,
    ) -> Result<(), String> {
        let mut kernel = Kernel::new()?;
        kernel.attach("at_expiry", "hrtimer_expire_entry")?;
        kernel.attach("after_expiry", "hrtimer_expire_exit")?;
        kernel.attach("at_arming", "hrtimer_start")?;
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..SLEEPERS {
            let (over, tell, beat) = (Arc::clone(&self.over), tell.clone(), scene.beat);
            self.threads.push(std::thread::spawn(move || {
                let _ = task::name_current_thread("sleeper");
                tell.send(task::current_tid() as u32).expect("it listens");
                be(&[beat.cpu], Policy::Fifo(1)).expect("root may");
                while !over.load(Ordering::Relaxed) {
                    let due_ns = beat.next(clock::now_ns() + 1_000_000);
                    let _ = time::sleep_until(due_ns - 10_000);
                }
            }));
        }
        for _ in 0..SLEEPERS {
            kernel.add_sleeper(told.recv().expect("they tell"));
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
                    ..Order::default()
                };
                kernel.order(Place::Timers, order);
                let _ = time::sleep_until(due_ns + 2_000_000);
                if let Some((begin_ns, end_ns)) = kernel.take(Place::Timers) {
                    truths.lock().expect("nobody panics").push(Truth {
                        culprit: Culprit::Timers,
                        begin_ns,
                        end_ns,
                    });
                }
            }
        }));
        Ok(())
    }

    /// Calls it off and says when it was there.
    pub fn end(self) -> Vec<Truth> {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
        std::mem::take(&mut *self.truths.lock().expect("nobody panics"))
    }
}

fn be(cpus: &[usize], policy: Policy) -> Result<(), String> {
    affinity::set_current(cpus).map_err(|error| format!("affinity: {error}"))?;
    sched::set_current(policy).map_err(|error| format!("no real-time priority: {error}"))
}

/// Makes the calling thread a culprit.
fn set_out(culprit: Culprit, scene: Scene) -> Result<Striker, String> {
    let beat = scene.beat;
    let (here, length_ns) = (beat.cpu, beat.length_ns);
    let elsewhere = scene.other.unwrap_or(here);
    // Below the probe, and above all else, so that it comes in time.
    let below = Policy::Fifo(50);
    let name = culprit.name();
    let _ = task::name_current_thread(name);
    let once = Order {
        length_ns,
        times: 1,
        ..Order::default()
    };
    let mut lead_ns = LEAD_NS;
    let strike: Box<dyn FnMut(u64) -> Option<(u64, u64)> + Send> = match culprit {
        Culprit::Hog => {
            be(&[here], Policy::Fifo(99))?;
            let mut stint = Stint::new();
            Box::new(move |_| stint.spin(length_ns))
        }
        Culprit::Riser => {
            be(&[here], below)?;
            let mut stint = Stint::new();
            Box::new(move |_| {
                sched::set_current(Policy::Fifo(99)).expect("it was allowed before");
                let was = stint.spin(length_ns);
                // Lowered while the probe waits, it would end before the clock is read.
                let _ = time::sleep_for(1_000_000);
                sched::set_current(below).expect("it was allowed before");
                was
            })
        }
        Culprit::Deadline => {
            // It stays where it slept, and may not be pinned.
            be(&[here], Policy::Other)?;
            affinity::set_current(super::device::cpus()).map_err(|error| error.to_string())?;
            let policy = Policy::Deadline {
                runtime_ns: 2 * length_ns,
                deadline_ns: 4_000_000,
                period_ns: 4_000_000,
            };
            sched::set_current(policy).map_err(|error| format!("SCHED_DEADLINE: {error}"))?;
            let mut stint = Stint::new();
            Box::new(move |_| {
                stint
                    .spin(length_ns)
                    .filter(|_| task::current_cpu() == here)
            })
        }
        Culprit::PreemptOff | Culprit::Call => {
            let from_afar = culprit == Culprit::Call;
            if from_afar && scene.other.is_none() {
                return Err("a call takes another CPU".to_owned());
            }
            be(&[if from_afar { elsewhere } else { here }], below)?;
            let on_cpu = from_afar.then_some(here as u32);
            // Before threads of a higher priority that come too.
            lead_ns = LEAD_NS * 3 / 2;
            let mut kernel = Kernel::new()?;
            kernel.load("here_or_there")?;
            Box::new(move |_| {
                kernel.order(Place::HereOrThere, once);
                kernel.run(on_cpu);
                kernel.take(Place::HereOrThere)
            })
        }
        Culprit::IrqsOff => {
            be(&[here], below)?;
            lead_ns = LEAD_NS * 3 / 2;
            let mut kernel = Kernel::new()?;
            kernel.attach("at_arming", "hrtimer_start")?;
            let who = task::current_tid() as u64;
            Box::new(move |_| {
                kernel.order(Place::IrqsOff, Order { who, ..once });
                let _ = time::sleep_for(1);
                kernel.take(Place::IrqsOff)
            })
        }
        Culprit::Packet => {
            let to = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
            let from = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
            let at = to.local_addr().map_err(|error| error.to_string())?;
            from.connect(at).map_err(|error| error.to_string())?;
            let mut kernel = Kernel::new()?;
            kernel.filter(to.as_fd())?;
            // Where softirqs can be preempted, those of a lower thread are in nobody's way. Only
            // now, for what it does before is long.
            be(
                &[here],
                if scene.preempt_rt {
                    Policy::Fifo(99)
                } else {
                    below
                },
            )?;
            let (mut stint, preempt_rt) = (Stint::new(), scene.preempt_rt);
            Box::new(move |_| {
                let _ = &to;
                let mut was = None;
                // What it does beside is the thread's, where the packet is too.
                let its = stint.work(|| {
                    let begin_ns = clock::now_ns();
                    kernel.order(Place::Packet, once);
                    let _ = from.send(b"a packet");
                    was = kernel.take(Place::Packet);
                    (begin_ns, clock::now_ns())
                });
                if preempt_rt { its } else { was }
            })
        }
        Culprit::Interrupt => {
            be(&[elsewhere], below)?;
            let device = scene.device.ok_or("no device")?;
            let mut kernel = Kernel::new()?;
            kernel.attach("at_interrupt", "irq_handler_entry")?;
            kernel.attach("after_interrupt", "irq_handler_exit")?;
            let who = u64::from(device.irq);
            lead_ns = 2 * LEAD_NS;
            Box::new(move |_| {
                kernel.order(Place::Interrupt, Order { who, ..once });
                device.trigger();
                let _ = time::sleep_for(1_000_000);
                kernel.take(Place::Interrupt)
            })
        }
        Culprit::Inversion => {
            be(&[here], Policy::Fifo(10))?;
            let lock = scene.lock.ok_or("the probe has no lock")?;
            Box::new(move |_| {
                lock.with(|| spin(length_ns));
                None
            })
        }
        Culprit::Stop => {
            be(&[elsewhere], below)?;
            let probe = scene.probe;
            Box::new(move |due_ns| {
                let begin_ns = clock::now_ns();
                signal(probe, libc::SIGSTOP);
                let _ = time::sleep_until(due_ns + length_ns - LEAD_NS);
                let end_ns = clock::now_ns();
                signal(probe, libc::SIGCONT);
                Some((begin_ns, end_ns))
            })
        }
        Culprit::Timers | Culprit::Fault => return Err("it has no thread".to_owned()),
    };
    Ok(Striker { lead_ns, strike })
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: it sends a signal to a child of ours.
    unsafe { libc::kill(pid, signal) };
}

/// Whether this kernel is a PREEMPT_RT one.
pub fn is_preempt_rt() -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    read("/sys/kernel/realtime").trim() == "1"
        || read("/proc/sys/kernel/version").contains("PREEMPT_RT")
}
