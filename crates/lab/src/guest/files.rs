//! The guest's files: what is mounted before the work, and what is left after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::super::channel::is_name;
use super::super::job::{IN_ROOT, JOB_FILE, OURSELVES, OUT};
use super::super::sys;
use super::error::GuestError;

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

/// More than this is not handed out.
const MOST_BYTES: u64 = 256 << 20;
const MOST_FILES: usize = 1000;
/// What our own runs leave that is not made of these: pictures are made anew outside.
const OF_A_RUN: &[&str] = &[".json", ".parquet"];

/// Mounts everything; what could not be had, with its reason.
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

/// Makes a root file system fit to work in: what the guest has mounted, this program, and what the
/// guest has to do stand in it too.
///
/// # Errors
/// One line.
pub fn enter(root: &str) -> Result<(), GuestError> {
    let places = ["/proc", "/sys", "/dev", "/tmp", OUT].map(|place| (place, place));
    let files = [(OURSELVES, IN_ROOT), (JOB_FILE, JOB_FILE)];
    for (from, to) in places.into_iter().chain(files) {
        let to = format!("{root}{to}");
        sys::bind(from, &to).map_err(|source| GuestError::Mount { place: to, source })?;
    }
    Ok(())
}

/// The files under a folder, in the order of their names; of a run of ours, those that the
/// others are made of.
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
