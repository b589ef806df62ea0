//! Many timers of different periods, and many short sleeps.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use crate::board::Slot;
use crate::context::Context;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};
use crate::sys;

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "timers",
    unit: "timer expiries",
    also: &["sleeps"],
    description: "many periodic timers and short sleeps",
    parameters: &[
        Parameter::WORKERS,
        Parameter {
            key: "timers",
            description: "periodic timers in each",
            default: Amount::Fixed(64),
            least: 1,
            most: 10_000,
        },
        Parameter {
            key: "sleepers",
            description: "threads in each that sleep for short times",
            default: Amount::Fixed(4),
            least: 0,
            most: 1024,
        },
        Parameter {
            key: "period_us",
            description: "shortest period in microseconds; the longest is 8 times that",
            default: Amount::Fixed(1000),
            least: 50,
            most: 1_000_000_000,
        },
    ],
    scratch: false,
    memory: |values: &Values| values["workers"].saturating_mul(1 << 20),
    run,
};

fn run(context: &Context<'_>) -> Result<(), String> {
    let tasks = 1 + context.size("sleepers");
    let shortest = Duration::from_micros(context.value("period_us"));
    context.crew(context.size("workers"), tasks, |worker| {
        context.threads(tasks, |task| {
            let slot = context.slot(worker * tasks + task);
            if task == 0 {
                expire(context, shortest, slot).map_err(|error| {
                    format!("a timer failed: {error}: give fewer timers, or raise ulimit -n")
                })
            } else {
                sleep(context, shortest, context.board().seed(task as u64), slot)
            }
        })
    })
}

fn expire(context: &Context<'_>, shortest: Duration, slot: &Slot) -> io::Result<()> {
    let timers = context.size("timers");
    let mut set = TimerSet::new()?;
    for index in 0..timers {
        set.add(shortest + shortest * 7 * index as u32 / timers as u32)?;
    }
    context.board().arrive();
    loop {
        slot.add(set.wait()?);
    }
}

/// Sleeps of one 16th to one half of the shortest period, in no order.
fn sleep(context: &Context<'_>, shortest: Duration, seed: u64, slot: &Slot) -> Result<(), String> {
    let mut state = seed;
    context.board().arrive();
    loop {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        thread::sleep(shortest / 16 * (1 + (state >> 61) as u32));
        slot.add_also(0, 1);
    }
}

/// Periodic timers that are waited for together.
struct TimerSet {
    epoll: OwnedFd,
    timers: Vec<OwnedFd>,
}

impl TimerSet {
    /// No timers yet.
    fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes an integer.
        let epoll = sys::owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let timers = Vec::new();
        Ok(TimerSet { epoll, timers })
    }

    /// Adds a timer and starts it.
    fn add(&mut self, period: Duration) -> io::Result<()> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: timerfd_create takes integers.
        let timer = sys::owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        let period = libc::timespec {
            tv_sec: period.as_secs() as libc::time_t,
            tv_nsec: period.subsec_nanos() as libc::c_long,
        };
        let setting = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        let old = std::ptr::null_mut();
        // SAFETY: the setting is live and only read; no old one is wanted.
        sys::check(unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &setting, old) })?;
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: self.timers.len() as u64,
        };
        let (epoll, fd) = (self.epoll.as_raw_fd(), timer.as_raw_fd());
        // SAFETY: the event is live and only read.
        sys::check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) })?;
        self.timers.push(timer);
        Ok(())
    }

    /// Waits until at least one timer expires; how many expiries there were.
    fn wait(&mut self) -> io::Result<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        let (epoll, most) = (self.epoll.as_raw_fd(), events.len() as libc::c_int);
        // SAFETY: the pointer is to `most` live entries that the kernel fills.
        let ready =
            match sys::check(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), most, -1) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                ready => ready?,
            };
        let mut expiries = 0;
        for event in &events[..ready as usize] {
            let timer = &self.timers[event.u64 as usize];
            let mut count = 0_u64;
            let size = size_of::<u64>();
            // SAFETY: the pointer is to a live integer of `size` bytes.
            let read = unsafe { libc::read(timer.as_raw_fd(), (&raw mut count).cast(), size) };
            if read == size as isize {
                expiries += count;
            }
        }
        Ok(expiries)
    }
}
