//! Maps, touches, protects, frees and unmaps large areas, in threads that share an address space.

use std::io;

use rustix::mm::MprotectFlags;

use crate::area::{Area, page_size};
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "mmap",
    unit: "pages",
    also: &["mappings"],
    description: "large areas are mapped, touched, protected and unmapped",
    parameters: &[
        Parameter::WORKERS,
        Parameter {
            key: "threads",
            description: "threads in each, which share its address space",
            default: Amount::Fixed(2),
            least: 1,
            most: 1024,
        },
        Parameter {
            key: "bytes",
            description: "memory that each process maps at a time",
            default: Amount::Memory(64 << 20),
            least: 1 << 16,
            most: 1 << 40,
        },
    ],
    scratch: false,
    memory: |values: &Values| {
        let each = values["bytes"].max(values["threads"] << 16);
        values["workers"].saturating_mul(each)
    },
    run,
};

/// Work is counted this often while an area is touched.
const PAGES_AT_ONCE: usize = 256;

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let page = page_size();
    let threads = context.size("threads");
    let each = context.size("bytes") / threads;
    let bytes = each.next_multiple_of(page).max(4 * page);
    context.crew(context.size("workers"), threads, |worker| {
        context.threads(threads, |thread| {
            let slot = context.slot(worker * threads + thread);
            context.board().arrive();
            loop {
                let mut area = Area::map(bytes).map_err(failed("mmap failed"))?;
                for start in (0..bytes).step_by(PAGES_AT_ONCE * page) {
                    let end = (start + PAGES_AT_ONCE * page).min(bytes);
                    slot.add(area.touch(start, end, page));
                }
                // The second quarter becomes read-only and writable again:
                // mappings split and merge; the third is freed at once.
                let quarter = (bytes / 4) & !(page - 1);
                for protection in [
                    MprotectFlags::READ,
                    MprotectFlags::READ | MprotectFlags::WRITE,
                ] {
                    area.protect(quarter, quarter, protection)
                        .map_err(failed("mprotect failed"))?;
                }
                area.give_back(2 * quarter, quarter)
                    .map_err(failed("madvise failed"))?;
                slot.add_also(0, 1);
            }
        })
    })
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> WorkError {
    WorkError::advised(what, "give fewer bytes, or raise the limits of memory")
}
