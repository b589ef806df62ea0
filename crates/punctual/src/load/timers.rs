//! Many timers of different periods, and many short sleeps.

use std::io;
use std::thread;
use std::time::Duration;

use super::board::Slot;
use super::generator::{Amount, Generator, Parameter, Values};
use super::sys::TimerSet;
use super::worker::Context;

/// The registry's entry.
pub(super) const GENERATOR: Generator = Generator {
    name: "timers",
    unit: "timer expiries",
    also: &["sleeps"],
    description: "many periodic timers and short sleeps",
    parameters: &[
        Parameter {
            key: "workers",
            description: "processes",
            default: Amount::PerCpu(1),
            least: 1,
            most: 4096,
        },
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
                sleep(context, shortest, task as u64, slot)
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
