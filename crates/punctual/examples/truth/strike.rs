//! What each culprit does when it is due.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::{task, time};
use punctual_rt::{affinity, clock};

use super::culprit::{Culprit, LEAD_NS, Scene};
use super::device::cpus;
use super::kernel::{Kernel, Order, Place};
use super::renamed::Renamed;
use super::stint::{AWAY_NS, Stint, Was, spin, spin_until, spin_until_held_up};

/// A culprit below the probe must run before others begin, however long its CPU takes to
/// leave an idle state.
const AHEAD_NS: u64 = 4 * LEAD_NS;
/// A stop must be in force by then: its signal first wakes the probe.
const STOP_AHEAD_NS: u64 = 6 * LEAD_NS;
/// The length of a timer that never expires.
const NEVER_NS: u64 = 1_000_000_000_000;

/// A device that takes longer to interrupt is not waited for.
const SLOWEST_NS: u64 = 4 * LEAD_NS;

/// An ordinary thread runs only when it is its turn.
const ORDINARY_AHEAD_NS: u64 = 1_500_000;
/// A program may take this long to start.
const SLOWEST_PROGRAM_NS: u64 = 10_000_000;
/// A shorter gap is an interrupt, not throttling.
const THROTTLED_LEAST_NS: u64 = 500_000;
/// The kernel's own path into throttling and out of it.
const THROTTLING_NS: u64 = 10_000;
/// A quota is used up in a few ms.
const USED_UP_NS: u64 = 20_000_000;

/// How long a device takes to interrupt: the last measurements.
#[derive(Default)]
struct Slow(VecDeque<u64>);

impl Slow {
    fn learn(&mut self, took_ns: Option<u64>) {
        self.0.extend(took_ns);
        if self.0.len() > 9 {
            self.0.pop_front();
        }
    }

    fn mostly_ns(&self) -> u64 {
        let mut took: Vec<u64> = self.0.iter().copied().collect();
        took.sort_unstable();
        let middle = took.get(took.len() / 2).copied();
        middle.unwrap_or(LEAD_NS)
    }
}

/// When to strike, and what to do then.
pub struct Striker {
    pub lead_ns: u64,
    pub strike: Box<dyn FnMut(u64) -> Option<Was> + Send>,
}

pub fn be(cpus: &[usize], policy: Policy) -> Result<(), String> {
    affinity::set_current(cpus).map_err(|error| format!("affinity: {error}"))?;
    sched::set_current(policy).map_err(|error| format!("no real-time priority: {error}"))
}

/// Makes the calling thread a culprit.
pub fn set_out(culprit: Culprit, scene: Scene) -> Result<Striker, String> {
    let beat = scene.beat;
    let (here, length_ns) = (beat.cpu, beat.length_ns);
    let elsewhere = scene.other.unwrap_or(here);
    // Below the probe, and above everything else, so that it runs in time.
    let below = Policy::Fifo(50);
    let name = culprit.name();
    let _ = task::name_current_thread(name);
    // Until then it is in the way, whenever it began.
    let until = move |due_ns: u64| due_ns + length_ns - LEAD_NS;
    let once = move |due_ns: u64| Order {
        until_ns: until(due_ns),
        times: 1,
        ..Order::default()
    };
    let mut lead_ns = LEAD_NS;
    let strike: Box<dyn FnMut(u64) -> Option<Was> + Send> = match culprit {
        Culprit::Hog => {
            be(&[here], Policy::Fifo(99))?;
            let mut stint = Stint::new();
            Box::new(move |_| stint.spin(length_ns))
        }
        Culprit::Riser => {
            be(&[here], below)?;
            lead_ns = AHEAD_NS;
            let mut stint = Stint::new();
            Box::new(move |due_ns| {
                sched::set_current(Policy::Fifo(99)).expect("it was allowed before");
                let was = stint.work(|| spin_until(until(due_ns)));
                // If it were lowered while the probe waits, it would end before the clock is read.
                let _ = time::sleep_for(1_000_000);
                sched::set_current(below).expect("it was allowed before");
                was
            })
        }
        Culprit::Deadline => {
            let policy = Policy::Deadline {
                // Interruptions count as its own time.
                runtime_ns: 5 * length_ns,
                deadline_ns: 4_000_000,
                period_ns: 4_000_000,
            };
            unpinned(here, policy)?;
            let mut stint = Stint::new();
            let mut moved = false;
            Box::new(move |_| {
                let was = stint.spin(length_ns).filter(|_| !moved);
                moved = task::current_cpu() != here;
                if moved {
                    unpinned(here, policy).expect("it was allowed before");
                }
                was
            })
        }
        Culprit::PreemptOff | Culprit::Call => {
            let from_afar = culprit == Culprit::Call;
            if from_afar && scene.other.is_none() {
                return Err("a call takes another CPU".to_owned());
            }
            be(&[if from_afar { elsewhere } else { here }], below)?;
            let on_cpu = from_afar.then_some(here as u32);
            lead_ns = AHEAD_NS;
            let mut kernel = Kernel::new()?;
            kernel.load("here_or_there")?;
            Box::new(move |due_ns| {
                kernel.order(Place::HereOrThere, once(due_ns));
                kernel.run(on_cpu);
                kernel.take(Place::HereOrThere)
            })
        }
        Culprit::IrqsOff => {
            be(&[here], below)?;
            lead_ns = AHEAD_NS;
            let mut kernel = Kernel::new()?;
            kernel.attach("at_arming", "hrtimer_start")?;
            // On other architectures than x86 it has no such name.
            let _ = kernel.attach("at_timer", "local_timer_entry");
            let timer = time::TimerFd::new().map_err(|error| error.to_string())?;
            Box::new(move |due_ns| {
                // The timer is far off, so that interrupts are enabled as soon as it is armed: for the
                // next one the kernel would first program the CPU's own.
                let order = Order {
                    who: due_ns + NEVER_NS,
                    cpu: here as u64,
                    ..once(due_ns)
                };
                kernel.order(Place::IrqsOff, order);
                timer.arm(order.who, 0).expect("it can be armed");
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
            kernel.attach("at_softirq", "softirq_entry")?;
            kernel.attach("after_softirq", "softirq_exit")?;
            lead_ns = AHEAD_NS;
            // If softirqs can be preempted, those of a lower thread delay nothing. Only
            // now, because the preceding steps take long.
            be(
                &[here],
                if scene.preempt_rt {
                    Policy::Fifo(99)
                } else {
                    below
                },
            )?;
            let who = task::current_tid() as u64;
            let (mut stint, preempt_rt) = (Stint::new(), scene.preempt_rt);
            Box::new(move |due_ns| {
                let _ = &to;
                let mut was = None;
                // Its other work belongs to the thread, if the packet does too.
                let its = stint.work(|| {
                    let begin_ns = clock::now_ns();
                    let order = Order {
                        who,
                        ..once(due_ns)
                    };
                    kernel.order(Place::Packet, order);
                    let _ = from.send(b"a packet");
                    was = kernel.take(Place::Packet);
                    Was {
                        gaps: was.map(|was| was.gaps).unwrap_or_default(),
                        ..Was::between(begin_ns, clock::now_ns())
                    }
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
            lead_ns = 2 * SLOWEST_NS;
            let mut slow = Slow::default();
            Box::new(move |due_ns| {
                let order = Order {
                    who,
                    length_ns,
                    times: 1,
                    ..Order::default()
                };
                // Before others begin that are above, if there is only one CPU.
                let ahead_ns = LEAD_NS + slow.mostly_ns().clamp(LEAD_NS, SLOWEST_NS);
                let _ = time::sleep_until(due_ns - ahead_ns);
                kernel.order(Place::Interrupt, order);
                let requested_ns = clock::now_ns();
                device.trigger();
                let _ = time::sleep_for(1_000_000);
                let was = kernel.take(Place::Interrupt);
                slow.learn(was.map(|was| was.begin_ns.saturating_sub(requested_ns)));
                was
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
            lead_ns = STOP_AHEAD_NS;
            let probe = scene.probe;
            Box::new(move |due_ns| {
                let first_ns = clock::now_ns();
                signal(probe, libc::SIGSTOP);
                wait_for_stop(probe);
                let begin_ns = clock::now_ns();
                let _ = time::sleep_until(until(due_ns));
                let end_ns = clock::now_ns();
                signal(probe, libc::SIGCONT);
                Some(Was {
                    first_ns,
                    last_ns: clock::now_ns(),
                    ..Was::between(begin_ns, end_ns)
                })
            })
        }
        Culprit::Traced => {
            be(&[elsewhere], below)?;
            lead_ns = STOP_AHEAD_NS;
            let debugger = Debugger::of(scene.probe)?;
            Box::new(move |due_ns| {
                let first_ns = clock::now_ns();
                debugger.interrupt();
                let begin_ns = clock::now_ns();
                let _ = time::sleep_until(until(due_ns));
                let end_ns = clock::now_ns();
                debugger.go_on();
                Some(Was {
                    first_ns,
                    last_ns: clock::now_ns(),
                    ..Was::between(begin_ns, end_ns)
                })
            })
        }
        Culprit::Frozen => {
            be(&[elsewhere], below)?;
            lead_ns = STOP_AHEAD_NS;
            let group = scene.group.ok_or("the probe has no control group")?;
            Box::new(move |due_ns| {
                let first_ns = clock::now_ns();
                let is_frozen = group.freeze(true);
                let begin_ns = clock::now_ns();
                let _ = time::sleep_until(until(due_ns));
                let end_ns = clock::now_ns();
                let goes_on = group.freeze(false);
                (is_frozen && goes_on).then(|| Was {
                    first_ns,
                    last_ns: clock::now_ns(),
                    ..Was::between(begin_ns, end_ns)
                })
            })
        }
        Culprit::Fair => {
            affinity::set_current(&[here]).map_err(|error| error.to_string())?;
            // Before any others.
            task::set_nice(-20).map_err(|error| format!("nice -20: {error}"))?;
            // Others must end their turn first; its own is not over by then.
            lead_ns = ORDINARY_AHEAD_NS;
            let mut stint = Stint::new();
            Box::new(move |due_ns| stint.work(|| spin_until(until(due_ns))))
        }
        Culprit::Throttled => {
            affinity::set_current(&[here]).map_err(|error| error.to_string())?;
            let group = scene.group.ok_or("the probe has no control group")?;
            group.join(task::current_tid())?;
            let account = move || group.throttled_ns();
            Box::new(move |due_ns| {
                let before_ns = account()?;
                let until_ns = due_ns + USED_UP_NS;
                let (last_ns, now_ns) = spin_until_held_up(THROTTLED_LEAST_NS, until_ns)?;
                // Other threads may have had the CPU before and after it.
                let throttled_ns = account()? - before_ns;
                let end_ns = last_ns + throttled_ns;
                (throttled_ns >= THROTTLED_LEAST_NS && end_ns <= now_ns).then(|| Was {
                    // Its own time to leave the CPU is not counted.
                    last_ns: now_ns.min(end_ns + AWAY_NS),
                    // The rest of the interrupt in which it begins is counted, and a part of the
                    // one in which it ends.
                    ..Was::between(last_ns, end_ns - THROTTLING_NS)
                })
            })
        }
        Culprit::Renamed => {
            be(&[elsewhere], below)?;
            lead_ns = SLOWEST_PROGRAM_NS;
            let renamed = Renamed::new(name)?;
            let _ = task::name_current_thread("before-exec");
            let mut slow = Slow::default();
            Box::new(move |due_ns| {
                let ahead_ns = slow.mostly_ns().clamp(LEAD_NS, SLOWEST_PROGRAM_NS / 2);
                let from_ns = due_ns - LEAD_NS - ahead_ns;
                let was = renamed.spin(here, from_ns, until(due_ns));
                slow.learn(was.map(|was| was.begin_ns.saturating_sub(from_ns)));
                was
            })
        }
        Culprit::Timers | Culprit::Fault => return Err("it has no thread".to_owned()),
    };
    Ok(Striker { lead_ns, strike })
}

/// A thread of SCHED_DEADLINE can't be pinned, and stays where it was: it moves to a CPU while it
/// still can. Before it has that policy, others may push it away.
fn unpinned(here: usize, policy: Policy) -> Result<(), String> {
    for _ in 0..100 {
        // One that is a deadline thread already, and was moved, can't be pinned again before.
        sched::set_current(Policy::Fifo(99)).map_err(|error| format!("SCHED_FIFO: {error}"))?;
        be(&[here], Policy::Fifo(99))?;
        affinity::set_current(cpus()).map_err(|error| error.to_string())?;
        sched::set_current(policy).map_err(|error| format!("SCHED_DEADLINE: {error}"))?;
        if task::current_cpu() == here {
            return Ok(());
        }
    }
    Err(format!("a deadline thread does not come to CPU {here}"))
}

/// A debugger of the probe: the thread that requests it.
struct Debugger(i32);

impl Debugger {
    fn of(pid: i32) -> Result<Self, String> {
        Self(pid).ask(libc::PTRACE_SEIZE)?;
        Ok(Self(pid))
    }

    fn ask(&self, request: libc::c_uint) -> Result<(), String> {
        // SAFETY: neither request accesses our memory.
        let done = unsafe { libc::ptrace(request, self.0, 0, 0) };
        let error = std::io::Error::last_os_error();
        (done == 0).then_some(()).ok_or(format!("ptrace: {error}"))
    }

    fn interrupt(&self) {
        if self.ask(libc::PTRACE_INTERRUPT).is_ok() {
            wait_for_stop(self.0);
        }
    }

    fn go_on(&self) {
        let _ = self.ask(libc::PTRACE_CONT);
    }
}

/// Waits until the signal has taken effect: it wakes the probe first.
fn wait_for_stop(pid: i32) {
    let mut status = 0;
    // SAFETY: waitpid writes to `status`, which outlives the call.
    unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: kill takes two integers; our child has not been reaped.
    unsafe { libc::kill(pid, signal) };
}
