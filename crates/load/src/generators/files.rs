//! Reads many files in parallel, one thread each: the parallel read benchmark. Other threads create,
//! write, truncate and unlink files.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use crate::board::Slot;
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "files",
    unit: "bytes",
    also: &["files"],
    description: "files are read in parallel; others are created, truncated and unlinked",
    parameters: &[
        Parameter {
            key: "readers",
            description: "threads, each reading a file",
            default: Amount::PerCpu(1),
            least: 1,
            most: 4096,
        },
        Parameter {
            key: "bytes",
            description: "size of each file that is read",
            default: Amount::Memory(16 << 20),
            least: 4096,
            most: 1 << 40,
        },
        Parameter {
            key: "block",
            description: "bytes read at a time",
            default: Amount::Fixed(128 << 10),
            least: 1,
            most: 1 << 30,
        },
        Parameter {
            key: "churners",
            description: "threads that create, truncate and unlink",
            default: Amount::Fixed(1),
            least: 0,
            most: 4096,
        },
        Parameter {
            key: "small",
            description: "small files of each of these threads at a time",
            default: Amount::Fixed(64),
            least: 1,
            most: 1 << 20,
        },
        Parameter {
            key: "cold",
            description: "1: drop the page cache after each reading",
            default: Amount::Fixed(0),
            least: 0,
            most: 1,
        },
    ],
    scratch: true,
    memory: |values: &Values| {
        let read = values["bytes"].saturating_add(values["block"]);
        let small = (values["small"] * SMALL_BYTES as u64).saturating_add(LARGE_BYTES as u64);
        let churned = values["churners"].saturating_mul(small);
        values["readers"]
            .saturating_mul(read)
            .saturating_add(churned)
    },
    run,
};

const SMALL_BYTES: usize = 4096;
const LARGE_BYTES: usize = 1 << 20;

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let readers = context.size("readers");
    let tasks = readers + context.size("churners");
    let scratch = context.scratch()?;
    let failed = |error: io::Error| {
        let what = format!("in {}", scratch.display());
        WorkError::advised(what, "is there space, and may it be written?")(error)
    };
    context.crew(1, tasks, |_| {
        context.threads(tasks, |index| {
            let slot = context.slot(index);
            if index < readers {
                read(context, slot, scratch).map_err(failed)
            } else {
                churn(context, slot, &scratch.join(index.to_string())).map_err(failed)
            }
        })
    })
}

/// A file without a name, or unlinked before anything is written: nothing of it can remain.
fn nameless(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let unnamed = options.custom_flags(libc::O_TMPFILE).open(directory);
    // Not every file system supports it.
    unnamed.or_else(|_| {
        let name = format!("read-{:?}", std::thread::current().id());
        let path = directory.join(name);
        let file = options.create_new(true).custom_flags(0).open(&path)?;
        fs::remove_file(path)?;
        Ok(file)
    })
}

fn read(context: &Context<'_>, slot: &Slot, directory: &Path) -> io::Result<()> {
    let bytes = context.size("bytes");
    let cold = context.is_on("cold");
    let mut buffer = vec![b'.'; context.size("block")];
    let mut file = nameless(directory)?;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(buffer.len());
        file.write_all(&buffer[..part])?;
        left -= part;
    }
    if cold {
        // Only clean pages can be dropped.
        file.sync_all()?;
    }
    context.board().arrive();
    loop {
        file.rewind()?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => slot.add(read as u64),
            }
        }
        if cold {
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
}

fn churn(context: &Context<'_>, slot: &Slot, directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    let names: Vec<_> = (0..context.size("small"))
        .map(|number| directory.join(number.to_string()))
        .collect();
    let data = vec![b'.'; LARGE_BYTES];
    let large_name = directory.join("large");
    context.board().arrive();
    loop {
        for name in &names {
            File::create_new(name)?.write_all(&data[..SMALL_BYTES])?;
            slot.add_also(0, 1);
        }
        let mut large = File::create_new(&large_name)?;
        large.write_all(&data)?;
        large.set_len(0)?;
        slot.add_also(0, 1);
        for name in &names {
            fs::remove_file(name)?;
        }
        fs::remove_file(&large_name)?;
    }
}
