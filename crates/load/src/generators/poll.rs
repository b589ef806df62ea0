//! Polls many thousand descriptors, none of which is ever ready.

use std::io;

use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::limits::{self, OTHER_FILES};
use crate::parameter::{Amount, Parameter, Values};
use crate::sys;

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "poll",
    unit: "polls",
    also: &[],
    description: "poll of many thousand descriptors at once",
    parameters: &[
        Parameter {
            key: "workers",
            description: "processes",
            default: Amount::PerCpu(1),
            least: 1,
            most: 1024,
        },
        Parameter {
            key: "descriptors",
            description: "descriptors in one poll",
            default: Amount::Files(50_000),
            least: 1,
            most: 1_000_000,
        },
    ],
    scratch: false,
    memory: |values: &Values| {
        // The entries, the kernel's copy of them, and the table of descriptors.
        let each = values["descriptors"].saturating_mul(32);
        values["workers"].saturating_mul(each.saturating_add(1 << 20))
    },
    run,
};

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let descriptors = context.value("descriptors");
    let limit = limits::raise_file_limit_to(descriptors + OTHER_FILES);
    if limit < descriptors + OTHER_FILES {
        return Err(WorkError::OpenFiles {
            wanted: descriptors,
            limit,
            possible: limit.saturating_sub(OTHER_FILES).max(1),
        });
    }
    context.crew(context.size("workers"), 1, |index| {
        let failed = |error: io::Error| {
            let what = format!("polling {descriptors} descriptors failed");
            WorkError::advised(what, "give fewer")(error)
        };
        // Duplicates of one pipe without a writer.
        let (reader, _writer) = io::pipe().map_err(failed)?;
        let names: Result<Vec<_>, _> = (0..descriptors).map(|_| reader.try_clone()).collect();
        let names = names.map_err(failed)?;
        let mut polled: Vec<_> = names.iter().map(sys::watched).collect();
        let slot = context.slot(index);
        context.board().arrive();
        loop {
            sys::poll_many(&mut polled).map_err(failed)?;
            slot.add(1);
        }
    })
}
