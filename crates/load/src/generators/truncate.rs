//! Writes a large file on tmpfs and truncates it to zero.

use std::fs::File;
use std::io::{self, Seek, Write};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "truncate",
    unit: "truncations",
    also: &["bytes"],
    description: "a large file on tmpfs is written and truncated to zero",
    parameters: &[
        Parameter::WORKERS,
        Parameter {
            key: "bytes",
            description: "size of the file",
            default: Amount::Area(100 << 20),
            least: 1 << 16,
            most: 1 << 40,
        },
    ],
    scratch: false,
    memory: |values: &Values| {
        let each = values["bytes"].saturating_add(1 << 20);
        values["workers"].saturating_mul(each)
    },
    run,
};

const BLOCK: usize = 64 << 10;

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let failed =
        |error: io::Error| WorkError::advised("a file in memory failed", "give fewer bytes")(error);
    context.crew(context.size("workers"), 1, |index| {
        // The kernel's own tmpfs: no name, so nothing can remain.
        let memory = memfd_create("punctual-truncate", MemfdFlags::CLOEXEC);
        let mut file = File::from(memory.map_err(|error| failed(error.into()))?);
        let block = vec![b'.'; BLOCK];
        let slot = context.slot(index);
        context.board().arrive();
        loop {
            let mut left = context.size("bytes");
            while left > 0 {
                let part = left.min(BLOCK);
                file.write_all(&block[..part]).map_err(failed)?;
                slot.add_also(0, part as u64);
                left -= part;
            }
            file.set_len(0).map_err(failed)?;
            file.rewind().map_err(failed)?;
            slot.add(1);
        }
    })
}
