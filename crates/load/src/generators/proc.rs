//! Walks through `/proc` like `ps`, `top` and `lsof`, and reads each file completely.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::board::Slot;
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "proc",
    unit: "files",
    also: &["walks"],
    description: "walks through /proc that read the files of the kernel and of each process",
    parameters: &[Parameter {
        key: "workers",
        description: "processes that walk",
        default: Amount::PerCpu(1),
        least: 1,
        most: 4096,
    }],
    scratch: false,
    memory: |values: &Values| values["workers"].saturating_mul(2 << 20),
    run,
};

const BLOCK: usize = 64 << 10;
/// Blocks read of one file: enough for all files except images of memory.
const BLOCKS: usize = 20;

/// Files that are not read: `kmsg` would take messages from other readers, the others are as large as
/// the memory or not read by monitoring tools.
const PASSED: &[&str] = &["kmsg", "kcore", "kallsyms", "mem", "pagemap"];

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    context.crew(context.size("workers"), 1, |index| {
        let slot = context.slot(index);
        let mut block = vec![0; BLOCK];
        context.board().arrive();
        loop {
            walk(slot, &mut block).map_err(WorkError::advised("cannot read /proc", "mount it"))?;
            slot.add_also(0, 1);
        }
    })
}

/// All files at the top, the network's, and those of each process and of its threads. Not the
/// directories of devices and settings: reading some of those has side effects.
fn walk(slot: &Slot, block: &mut [u8]) -> io::Result<()> {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if is_process {
            folder(slot, block, &entry.path(), true);
        } else if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            file(slot, block, &entry.path());
        }
    }
    folder(slot, block, Path::new("/proc/self/net"), false);
    Ok(())
}

/// Skips what has ended meanwhile or may not be read, as monitoring tools do.
fn folder(slot: &Slot, block: &mut [u8], path: &Path, threads: bool) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_file() => file(slot, block, &entry.path()),
            Ok(kind) if kind.is_dir() && threads && entry.file_name() == "task" => {
                for thread in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                    folder(slot, block, &thread.path(), false);
                }
            }
            _ => {}
        }
    }
}

fn file(slot: &Slot, block: &mut [u8], path: &Path) {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    if PASSED.contains(&name) || name.starts_with("kpage") {
        return;
    }
    let mut options = File::options();
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let Ok(mut opened) = opened else { return };
    for _ in 0..BLOCKS {
        match opened.read(block) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    slot.add(1);
}
