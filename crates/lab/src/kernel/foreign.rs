//! apt for another architecture than this system's: its lists are kept beside the kernels, and nothing of
//! the system changes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_record::laboratory::Architecture;

use super::apt::{Apt, Refusal, run};
use super::{Progress, Tell};

/// Lists of this age are read anew.
const OLD: Duration = Duration::from_hours(24);
/// Its time is that of the lists.
const READ: &str = "read";

/// The configuration with which apt's programs know the packages of an architecture: that of the system,
/// with another place for what apt writes. Reads the lists if there are none, or old ones.
pub(super) fn configured(
    apt: &Apt,
    state: &Path,
    architecture: Architecture,
    tell: Tell<'_>,
) -> Result<PathBuf, Refusal> {
    let file = state.join("apt.conf");
    prepare(state, &file, architecture).map_err(|error| Refusal::State {
        path: state.to_owned(),
        error,
    })?;
    // Of two programs the second finds the lists that the first has read.
    let lock = File::create(state.join("lock")).and_then(|lock| lock.lock().map(|()| lock));
    let _lock = lock.map_err(|error| Refusal::State {
        path: state.to_owned(),
        error,
    })?;
    if !is_new(state) {
        tell(&Progress::Lists { architecture });
        let mut update = apt.command("apt-get");
        update.arg("-c").arg(&file);
        update.args(["-q", "-o", "Acquire::Retries=2", "update"]);
        // Without a network the old lists may do; where there are none, apt knows no kernels.
        if run(&mut update)?.status.success() {
            let _ = File::create(state.join(READ));
        }
    }
    Ok(file)
}

/// Makes it read the lists at the next use: what they name can't be downloaded.
pub(super) fn forget(directory: &Path, architecture: Architecture) {
    let _ = fs::remove_file(directory_of(directory, architecture).join(READ));
}

/// Where all of it is, in the directory of the cache.
pub(super) fn directory_of(directory: &Path, architecture: Architecture) -> PathBuf {
    directory.join(format!(".apt-{architecture}"))
}

fn is_new(state: &Path) -> bool {
    let written = fs::metadata(state.join(READ)).and_then(|data| data.modified());
    // A time in the future counts as old.
    written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < OLD))
}

fn prepare(state: &Path, file: &Path, architecture: Architecture) -> io::Result<()> {
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(state.join(folder))?;
    }
    let status = state.join("status");
    if !status.exists() {
        fs::write(&status, "")?;
    }
    let place = state.display();
    let text = format!(
        "Dir::State \"{place}\";\nDir::State::Lists \"{place}/lists\";\nDir::State::status \
         \"{place}/status\";\nDir::Cache \"{place}/cache\";\nAPT::Architecture \
         \"{architecture}\";\nAPT::Architectures {{ \"{architecture}\"; }};\n"
    );
    match fs::read_to_string(file) {
        Ok(known) if known == text => Ok(()),
        _ => fs::write(file, text),
    }
}
