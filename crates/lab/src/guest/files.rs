//! The guest's files: mounts before the work, and results after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::super::channel::is_name;
use super::super::job::{IN_ROOT, JOB_FILE, OURSELVES, OUT};
use super::super::sys;
use punctual_record::lab::GuestFault;

/// Kind, place and options of each mount.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", ""),
    ("tmpfs", "/dev/shm", ""),
    ("tmpfs", "/run", ""),
    ("tmpfs", "/tmp", "size=80%"),
    ("tmpfs", "/out", ""),
    ("cgroup2", "/sys/fs/cgroup", ""),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
    ("bpf", "/sys/fs/bpf", ""),
];

/// Bytes of results that are returned to the host.
const MOST_BYTES: u64 = 256 << 20;
const MOST_FILES: usize = 1000;
/// Files of a run that are returned: the others, such as pictures, are made again on the host.
const OF_A_RUN: &[&str] = &[".json", ".parquet"];

/// Mounts everything; returns what is not available, with the reason.
pub fn prepare() -> BTreeMap<String, String> {
    let mut lacking = BTreeMap::new();
    for (kind, place, options) in MOUNTS {
        let _ = fs::create_dir_all(place);
        if let Err(error) = sys::mount(kind, place, options) {
            lacking.insert((*place).to_owned(), error.to_string());
        }
    }
    for folder in ["/root", "/var/tmp", OUT] {
        let _ = fs::create_dir_all(folder);
    }
    let _ = fs::write("/proc/sys/kernel/hostname", "lab");
    if let Err(error) = sys::loopback_up() {
        lacking.insert("lo".to_owned(), error.to_string());
    }
    lacking
}

/// Prepares a root file system: the guest's mounts, this program and the job are bound into it.
///
/// # Errors
/// What cannot be mounted.
pub fn enter(root: &str) -> Result<(), GuestFault> {
    let places = ["/proc", "/sys", "/dev", "/tmp", OUT].map(|place| (place, place));
    let files = [(OURSELVES, IN_ROOT), (JOB_FILE, JOB_FILE)];
    for (from, to) in places.into_iter().chain(files) {
        let to = format!("{root}{to}");
        sys::bind(from, &to).map_err(|error| GuestFault::Mount {
            error: error.to_string(),
            place: to,
        })?;
    }
    Ok(())
}

/// The files in a folder, ordered by name; `own`: only those from which a run's other files are made.
pub fn left_in(folder: &str, own: bool) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut room = MOST_BYTES;
    collect(Path::new(folder), "", &mut found, &mut room);
    let wanted = |name: &str| !own || OF_A_RUN.iter().any(|end| name.ends_with(end));
    found.retain(|(name, _)| wanted(name));
    found
}

fn collect(folder: &Path, above: &str, found: &mut Vec<(String, Vec<u8>)>, room: &mut u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        let Ok(data) = entry.metadata() else { continue };
        if data.is_dir() {
            collect(&entry.path(), &format!("{name}/"), found, room);
            continue;
        }
        let wanted =
            data.is_file() && is_name(&name) && data.len() <= *room && found.len() < MOST_FILES;
        if let (true, Ok(bytes)) = (wanted, fs::read(entry.path())) {
            *room -= data.len();
            found.push((name, bytes));
        }
    }
}
