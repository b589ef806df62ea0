//! A storm of short-lived processes: fork, copy some pages, exec, exit.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::area;
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::job::{NOTHING, VERB};
use crate::parameter::{Amount, Parameter, Values};
use crate::sys;

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "fork",
    unit: "forks",
    also: &["execs"],
    description: "creation, exec and exit of processes",
    parameters: &[
        Parameter {
            key: "workers",
            description: "processes that fork",
            default: Amount::PerCpu(1),
            least: 1,
            most: 4096,
        },
        Parameter {
            key: "pages",
            description: "pages that each child copies",
            default: Amount::Fixed(64),
            least: 1,
            most: 1 << 20,
        },
    ],
    scratch: false,
    memory: |values: &Values| {
        let pages = values["pages"].saturating_mul(2 * 4096);
        values["workers"].saturating_mul(pages.saturating_add(1 << 20))
    },
    run,
};

/// The exit status of a child that could not exec, as in the shell.
const NO_EXEC: i32 = 127;

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let page = area::page_size();
    let bytes = context.size("pages").saturating_mul(page);
    context.crew(context.size("workers"), 1, |index| {
        let mut memory = vec![1_u8; bytes];
        let slot = context.slot(index);
        context.board().arrive();
        loop {
            // Alternately a child that works and exits, and a child that executes another program.
            one(context, &mut memory, page, false)?;
            slot.add(1);
            one(context, &mut memory, page, true)?;
            slot.add(1);
            slot.add_also(0, 1);
        }
    })
}

fn one(context: &Context<'_>, memory: &mut [u8], page: usize, exec: bool) -> Result<(), WorkError> {
    let child = context.fork(|| {
        for byte in memory.iter_mut().step_by(page) {
            *byte = byte.wrapping_add(1);
        }
        if exec {
            let mut this = Command::new("/proc/self/exe");
            let error = this.args([VERB, NOTHING]).exec();
            context
                .board()
                .fail(&WorkError::system("exec failed")(error));
            sys::exit_now(NO_EXEC);
        }
        Ok(())
    })?;
    match sys::wait(Some(child), true) {
        Ok(Some(ended)) if ended.success() => Ok(()),
        Ok(Some(ended)) => Err(WorkError::ended("a forked child", ended)),
        Ok(None) => Err(WorkError::Lost {
            who: "a forked child",
        }),
        Err(error) => Err(WorkError::system("waiting for a forked child failed")(
            error,
        )),
    }
}
