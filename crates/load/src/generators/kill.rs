//! A signal to thousands of processes at once, which all ignore it.

use std::io;

use crate::context::Context;
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

const SIGNAL: i32 = libc::SIGUSR1;

fn run(context: &Context<'_>) -> Result<(), String> {
    let failed = |error: io::Error| format!("kill of the group failed: {error}");
    // This process and all that it forks are a group of their own.
    sys::ignore_signal(SIGNAL).map_err(failed)?;
    let board = context.board();
    let processes = context.size("processes");
    board.expect(1 + processes);
    for _ in 0..processes {
        context.fork(|| {
            board.arrive();
            loop {
                sys::pause();
            }
        })?;
    }
    context.fork(|| {
        let slot = context.slot(0);
        board.arrive();
        loop {
            sys::kill(0, SIGNAL).map_err(failed)?;
            slot.add(1);
        }
    })?;
    match sys::wait(-1, true) {
        Ok(Some(ended)) => Err(format!(
            "process {} of the group ended: {}",
            ended.pid,
            ended.describe()
        )),
        Ok(None) => Err("a process of the group is lost".into()),
        Err(error) => Err(format!("waiting for the group failed: {error}")),
    }
}
