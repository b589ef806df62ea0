//! Operations of one process.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_load::Area;
use punctual_record::lab::LabOperation;
use punctual_rt::clock::now_ns;
use rustix::process::{Signal, getpid, getppid, kill_process};
use signal_hook::consts::SIGUSR1;

use super::{NOTHING, OWN_FILE, Series, VERB};

/// Bytes of a page and of a block that is read or written.
const PAGE: usize = 4096;

/// A loop that nothing can shorten: its instructions are the same on each kernel.
pub(super) fn spin(passes: u64) -> u64 {
    let mut sum = 0_u64;
    for pass in 0..passes {
        sum = black_box(sum.wrapping_add(pass));
    }
    sum
}

pub(super) fn user(series: Series) -> io::Result<LabOperation> {
    series.count(|| {
        black_box(spin(1_000));
        Ok(())
    })
}

pub(super) fn call(series: Series) -> io::Result<LabOperation> {
    series.count(|| {
        black_box(getppid());
        Ok(())
    })
}

/// A file in memory that is removed when it isn't needed any more.
struct InMemory {
    path: PathBuf,
    file: File,
}

impl InMemory {
    fn create() -> io::Result<Self> {
        let path = path();
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        file.write_all_at(&[1; PAGE], 0)?;
        Ok(Self { path, file })
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// In the guest's `/tmp`, which is a tmpfs.
fn path() -> PathBuf {
    std::env::temp_dir().join("operation")
}

pub(super) fn read(series: Series) -> io::Result<LabOperation> {
    let on = InMemory::create()?;
    let mut block = [0; PAGE];
    series.count(|| on.file.read_exact_at(&mut block, 0))
}

pub(super) fn write(series: Series) -> io::Result<LabOperation> {
    let on = InMemory::create()?;
    let block = [2; PAGE];
    series.count(|| on.file.write_all_at(&block, 0))
}

pub(super) fn fault(series: Series) -> io::Result<LabOperation> {
    series.count_batches(|count| {
        let bytes = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(PAGE);
        // A huge page would be one fault of 512.
        let mut area = Area::map_with(bytes, false)?;
        let begin = now_ns();
        area.touch(0, bytes, PAGE);
        Ok(now_ns() - begin)
    })
}

pub(super) fn mmap(series: Series) -> io::Result<LabOperation> {
    series.count(|| {
        Area::map(PAGE)?.touch(0, PAGE, PAGE);
        Ok(())
    })
}

pub(super) fn file(series: Series) -> io::Result<LabOperation> {
    let path = path();
    series.count(|| {
        drop(File::create_new(&path)?);
        fs::remove_file(&path)
    })
}

pub(super) fn signal(series: Series) -> io::Result<LabOperation> {
    let came = Arc::new(AtomicBool::new(false));
    let id = signal_hook::flag::register(SIGUSR1, Arc::clone(&came))?;
    let own = getpid();
    let made = series.count(|| {
        kill_process(own, Signal::USR1)?;
        // It is delivered before the call returns: this process has one thread.
        match came.swap(false, Ordering::Relaxed) {
            true => Ok(()),
            false => Err(io::Error::other("the signal was not delivered")),
        }
    });
    signal_hook::low_level::unregister(id);
    made
}

pub(super) fn fork(series: Series) -> io::Result<LabOperation> {
    series.count(|| {
        let child = punctual_load::fork_child(|| 0)?;
        match punctual_load::wait(Some(child), true)? {
            Some(ended) if ended.success() => Ok(()),
            Some(ended) => Err(io::Error::other(format!("a child failed: {ended}"))),
            None => Err(ErrorKind::NotFound.into()),
        }
    })
}

pub(super) fn exec(series: Series) -> io::Result<LabOperation> {
    let mut command = Command::new(OWN_FILE);
    command.args([VERB, NOTHING]).stdin(Stdio::null());
    series.count(|| match command.status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("a program failed: {status}"))),
    })
}
