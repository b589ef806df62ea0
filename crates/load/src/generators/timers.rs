//! Many timers of different periods, and many short sleeps.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::board::Slot;
use crate::context::Context;
use crate::error::WorkError;
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
            description: "periodic timers in each process",
            default: Amount::Fixed(64),
            least: 1,
            most: 10_000,
        },
        Parameter {
            key: "sleepers",
            description: "threads in each process that sleep for short times",
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

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let tasks = 1 + context.size("sleepers");
    let shortest = Duration::from_micros(context.value("period_us"));
    context.crew(context.size("workers"), tasks, |worker| {
        context.threads(tasks, |task| {
            let slot = context.slot(worker * tasks + task);
            if task == 0 {
                expire(context, shortest, slot).map_err(WorkError::advised(
                    "a timer failed",
                    "give fewer timers, or raise ulimit -n",
                ))
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

/// Sleeps of one 16th to one half of the shortest period, in random order.
fn sleep(
    context: &Context<'_>,
    shortest: Duration,
    seed: u64,
    slot: &Slot,
) -> Result<(), WorkError> {
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

/// Periodic timers with one epoll.
struct TimerSet {
    epoll: OwnedFd,
    timers: Vec<OwnedFd>,
}

impl TimerSet {
    /// No timers yet.
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timers = Vec::new();
        Ok(TimerSet { epoll, timers })
    }

    /// Adds a timer and starts it.
    fn add(&mut self, period: Duration) -> io::Result<()> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let period = sys::timespec(period);
        let setting = Itimerspec {
            it_interval: period,
            it_value: period,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
        let number = epoll::EventData::new_u64(self.timers.len() as u64);
        epoll::add(&self.epoll, &timer, number, epoll::EventFlags::IN)?;
        self.timers.push(timer);
        Ok(())
    }

    /// Waits until at least one timer expires; returns the number of expiries.
    fn wait(&mut self) -> io::Result<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        let ready = sys::epoll_wait(&self.epoll, &mut events)?;
        let mut expiries = 0;
        for event in &events[..ready] {
            let timer = &self.timers[event.u64 as usize];
            let mut count = [0; size_of::<u64>()];
            // If it has not expired after all, there is nothing to read.
            if rustix::io::read(timer, &mut count) == Ok(count.len()) {
                expiries += u64::from_ne_bytes(count);
            }
        }
        Ok(expiries)
    }
}
