//! A signal to thousands of processes at once, which all ignore it.

use std::io;

use rustix::event::pause;
use rustix::process::{Signal, kill_current_process_group};

use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, PROCESS_BYTES, Parameter, Values};
use crate::sys;

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "kill",
    unit: "kills",
    also: &[],
    description: "a signal to a process group of thousands",
    parameters: &[Parameter {
        key: "processes",
        description: "processes in the group; they ignore the signal",
        default: Amount::Processes(2000),
        least: 1,
        most: 100_000,
    }],
    scratch: false,
    memory: |values: &Values| values["processes"].saturating_mul(PROCESS_BYTES),
    run,
};

const SIGNAL: Signal = Signal::USR1;

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let failed = |error: io::Error| WorkError::system("kill of the group failed")(error);
    // This process and all that it forks are a group of their own.
    sys::ignore_signal(SIGNAL).map_err(failed)?;
    let board = context.board();
    let processes = context.size("processes");
    board.expect(1 + processes);
    for _ in 0..processes {
        context.fork(|| {
            board.arrive();
            loop {
                pause();
            }
        })?;
    }
    context.fork(|| {
        let slot = context.slot(0);
        board.arrive();
        loop {
            kill_current_process_group(SIGNAL).map_err(|error| failed(error.into()))?;
            slot.add(1);
        }
    })?;
    match sys::wait(None, true) {
        Ok(Some(ended)) => {
            let who = format!("process {} of the group", ended.pid);
            Err(WorkError::ended(who, ended))
        }
        Ok(None) => Err(WorkError::Lost {
            who: "a process of the group",
        }),
        Err(error) => Err(WorkError::system("waiting for the group failed")(error)),
    }
}
