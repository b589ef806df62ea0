//! Large areas of memory that the kernel frees, protects or copies in one call.

use std::io;
use std::mem::forget;

use rustix::mm::MprotectFlags;

use crate::area::{Area, page_size};
use crate::board::Slot;
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};
use crate::sys;

/// The parameters of all of them.
const PARAMETERS: &[Parameter] = &[
    Parameter::WORKERS,
    Parameter {
        key: "bytes",
        description: "memory of each process at a time",
        default: Amount::Area(100 << 20),
        least: 1 << 16,
        most: 1 << 40,
    },
];

const fn generator(
    name: &'static str,
    unit: &'static str,
    also: &'static [&'static str],
    description: &'static str,
    run: fn(&Context<'_>) -> Result<(), WorkError>,
) -> Generator {
    Generator {
        name,
        unit,
        also,
        description,
        parameters: PARAMETERS,
        scratch: false,
        memory: |values: &Values| {
            let each = values["bytes"].saturating_add(1 << 20);
            values["workers"].saturating_mul(each)
        },
        run,
    }
}

/// The registry's entries.
pub const EXIT: Generator = generator(
    "exit",
    "exits",
    &["pages"],
    "exits of processes with large memory",
    exit,
);
pub const MUNMAP: Generator = generator(
    "munmap",
    "unmappings",
    &["pages"],
    "a large area is touched, and unmapped in one call",
    munmap,
);
pub const MPROTECT: Generator = generator(
    "mprotect",
    "changes",
    &[],
    "the protection of a large area is changed and restored, in one call each",
    mprotect,
);
pub const HUGEPAGES: Generator = generator(
    "hugepages",
    "unmappings",
    &["pages", "page faults"],
    "a large area is touched, in huge pages if the kernel has them, and unmapped",
    hugepages,
);
pub const VMREAD: Generator = generator(
    "vmread",
    "bytes",
    &[],
    "one half of the memory is read into the other with process_vm_readv",
    vmread,
);

fn failed(error: io::Error) -> WorkError {
    let advice = "give fewer bytes, or raise the limits of memory";
    WorkError::advised("memory failed", advice)(error)
}

/// Runs `round` on each worker for ever.
fn rounds(
    context: &Context<'_>,
    round: impl Fn(&Slot, usize, usize) -> Result<(), WorkError>,
) -> Result<(), WorkError> {
    let page = page_size();
    let bytes = context.size("bytes").next_multiple_of(page);
    context.crew(context.size("workers"), 1, |index| {
        let slot = context.slot(index);
        context.board().arrive();
        loop {
            round(slot, bytes, page)?;
        }
    })
}

fn exit(context: &Context<'_>) -> Result<(), WorkError> {
    rounds(context, |slot, bytes, page| {
        let child = context.fork(|| {
            let mut area = Area::map_with(bytes, false).map_err(failed)?;
            slot.add_also(0, area.touch(0, bytes, page));
            // The exit must free it.
            forget(area);
            Ok(())
        })?;
        match sys::wait(Some(child), true) {
            Ok(Some(ended)) if ended.success() => {
                slot.add(1);
                Ok(())
            }
            Ok(Some(ended)) => Err(WorkError::ended("a large child", ended)),
            Ok(None) => Err(WorkError::Lost {
                who: "a large child",
            }),
            Err(error) => Err(WorkError::system("waiting for a large child failed")(error)),
        }
    })
}

fn munmap(context: &Context<'_>) -> Result<(), WorkError> {
    rounds(context, |slot, bytes, page| {
        let mut area = Area::map_with(bytes, false).map_err(failed)?;
        slot.add_also(0, area.touch(0, bytes, page));
        drop(area);
        slot.add(1);
        Ok(())
    })
}

fn hugepages(context: &Context<'_>) -> Result<(), WorkError> {
    rounds(context, |slot, bytes, page| {
        let mut area = Area::map_with(bytes, true).map_err(failed)?;
        let before = sys::faults();
        slot.add_also(0, area.touch(0, bytes, page));
        // Pages per fault: the size of the huge pages.
        slot.add_also(1, sys::faults().saturating_sub(before));
        drop(area);
        slot.add(1);
        Ok(())
    })
}

/// For each worker, an area that exists during the whole load.
fn standing(
    context: &Context<'_>,
    round: impl Fn(&Slot, &mut Area, usize) -> io::Result<()>,
) -> Result<(), WorkError> {
    let page = page_size();
    let bytes = context.size("bytes").next_multiple_of(2 * page);
    context.crew(context.size("workers"), 1, |index| {
        let mut area = Area::map_with(bytes, false).map_err(failed)?;
        area.touch(0, bytes, page);
        let slot = context.slot(index);
        context.board().arrive();
        loop {
            round(slot, &mut area, bytes).map_err(failed)?;
        }
    })
}

fn mprotect(context: &Context<'_>) -> Result<(), WorkError> {
    standing(context, |slot, area, bytes| {
        for protection in [
            MprotectFlags::READ,
            MprotectFlags::READ | MprotectFlags::WRITE,
        ] {
            area.protect(0, bytes, protection)?;
            slot.add(1);
        }
        Ok(())
    })
}

fn vmread(context: &Context<'_>) -> Result<(), WorkError> {
    standing(context, |slot, area, _| {
        slot.add(area.copy_half()?);
        Ok(())
    })
}
