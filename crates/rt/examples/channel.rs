//! A controller and a plant that exchange small messages over TCP: 1 kHz, SCHED_FIFO, no page
//! fault. Here both ends are in one program; on two machines each has one of them.
//!
//! `channel [SECONDS]`; exit status 77: not permitted here, with a message that says how to fix it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result"
)]

use std::error::Error;
use std::io;
use std::process::ExitCode;

use punctual_rt::channel::{Channel, Clock, Listener, Options};
use punctual_rt::clock;
use punctual_rt::heap::{self, FaultMark};
use punctual_rt::periodic::{Loop, Overrun};
use punctual_rt::sched::Policy;
use punctual_rt::thread::Builder;

const MS: u64 = 1_000_000;

/// A number and a value.
fn words(number: u64, value: f64) -> [u8; 16] {
    let all = u128::from(number) << 64 | u128::from(value.to_bits());
    all.to_be_bytes()
}

fn value(message: &[u8]) -> Option<f64> {
    let bytes: &[u8; 16] = message.try_into().ok()?;
    Some(f64::from_bits(u128::from_be_bytes(*bytes) as u64))
}

/// Moves to the position that it is sent, and answers where it is.
fn plant(channel: &mut Channel) -> io::Result<u64> {
    let mark = FaultMark::now()?;
    let (sender, receiver) = channel.halves();
    let (mut position, mut number) = (0.0, 0);
    // The end of the connection is an error too: the controller has finished.
    while let Ok(message) = receiver.receive(u64::MAX) {
        let Some(command) = value(message.payload) else {
            continue;
        };
        // A command that is too old is not obeyed.
        if !message.is_late() {
            position += 0.01 * (command - position);
        }
        number += 1;
        sender.send(&words(number, position), 2 * MS).map(drop)?;
    }
    sender.finish()?;
    late_faults(&mark)
}

/// Sends a command each millisecond, and takes the answers that have come.
fn controller(channel: &mut Channel, cycles: u64) -> io::Result<(u64, f64)> {
    let mark = FaultMark::now()?;
    let mut every = Loop::every(MS, Overrun::Skip);
    let (sender, receiver) = channel.halves();
    let (mut position, mut number) = (0.0, 0);
    while number < cycles {
        // A signal ends the wait early; the period is still due.
        let Ok(_cycle) = every.wait() else { continue };
        while let Ok(answer) = receiver.receive(0) {
            position = value(answer.payload).unwrap_or(position);
        }
        // Useless after a period: the plant shall not obey it then. A refused one is counted.
        let _ = sender.send(&words(number, 1.0), MS);
        number += 1;
    }
    // The rest of the answers.
    sender.flush(u64::MAX)?;
    sender.finish()?;
    while let Ok(answer) = receiver.receive(u64::MAX) {
        position = value(answer.payload).unwrap_or(position);
    }
    Ok((late_faults(&mark)?, position))
}

fn late_faults(mark: &FaultMark) -> io::Result<u64> {
    let since = mark.since()?;
    Ok(since.minor_faults + since.major_faults)
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    // First: prefault and lock the heap and this thread's stack.
    heap::prepare(1 << 20, 64 << 10)?;

    let word = std::env::args().nth(1);
    let seconds: u64 = word.map_or(Ok(5), |word| word.parse())?;
    let options = Options {
        message_max: 1024,
        // A lost message is sent again at once.
        pads: 3,
        // Both ends are on one host.
        clock: Clock::Shared,
        ..Options::default()
    };
    let soon = clock::now_ns() + 1000 * MS;
    let listener = Listener::bind(&"127.0.0.1:0".parse()?, &options)?;
    let mut near = Channel::connect(&listener.address()?, soon, &options)?;
    let mut far = listener.accept(soon)?;
    for setting in near.report().not_in_force() {
        eprintln!("{setting:?}: {}", setting.advice().to_string_lossy());
    }
    let (sent, received) = (near.monitor(), far.monitor());
    let thread = |priority| {
        Builder::new()
            .stack_size(64 << 10)
            .policy(Policy::Fifo(priority))
    };
    let plant = thread(79).start(move || plant(&mut far))?;
    let control = thread(80).start(move || controller(&mut near, 1000 * seconds))?;
    let (faults, position) = control.join().map_err(|_| "the controller panicked")??;
    let faults = faults + plant.join().map_err(|_| "the plant panicked")??;
    let (sent, received) = (sent.counts(), received.counts());
    println!(
        "{} commands, {} late, {} refused, {} answers, {} late, {faults} faults, position \
         {position:.2}",
        sent.sent, received.late, sent.refused, sent.received, sent.late,
    );
    Ok(ExitCode::from(u8::from(faults != 0)))
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(77)
    })
}
