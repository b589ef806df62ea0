//! `check`: what makes a machine unfit for real time?

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use punctual_machine::{CheckRequest, Root, SNAPSHOT_LIMIT, Snapshot, check};
use punctual_record::finding::{Check, StateKind};
use punctual_report::findings;
use punctual_report::summary_json::printed;

use super::failure::Failure;
use super::flags::CheckFlags;
use super::looking::write;
use super::out;
use crate::conduct::this_tool;
use punctual_machine::survey::cpus::{self, CpuListError};
use punctual_rt::cpulist::CpuList;

/// Exit status: a finding is bad.
const BAD: u8 = 2;
/// Exit status: none is bad, and one is unknown.
const UNKNOWN: u8 = 3;

/// Checks a machine, or compares two.
///
/// # Errors
/// What can't be read or written; CPUs that the machine doesn't have.
pub fn run(flags: &CheckFlags) -> Result<ExitCode, Failure> {
    let root = match &flags.machine {
        Some(place) => recorded(place)?,
        None => Root::live(),
    };
    let root = if flags.snapshot.is_some() || flags.other.is_some() {
        root.recording()
    } else {
        root
    };
    let request = CheckRequest {
        cpus: requested_cpus(&root, flags.affinity.as_ref())?,
        priority: flags.priority,
        pid: flags.pid,
        sample: flags.sample.map(Duration::from_nanos),
    };
    if let Some(pid) = flags.pid
        && !root.exists(&format!("/proc/{pid}"))
    {
        let message = format!("--pid {pid}: there is no such process");
        return Err(Failure::usage(message));
    }
    let found = check(&root, &request);
    if let Some(place) = &flags.other {
        return compare(&root, &recorded(place)?.recording(), &request);
    }
    let mut is_written = false;
    if let Some(file) = &flags.snapshot {
        write(file, &root.snapshot().to_json())?;
        is_written = true;
    }
    if let Some(file) = &flags.html {
        write(file, &findings::page(&found, &this_tool()))?;
        is_written = true;
    }
    if let Some(file) = &flags.junit {
        write(file, &findings::junit(&found))?;
        is_written = true;
    }
    if flags.json {
        out::print(&printed(&found, &[]));
    } else if let Some(id) = flags.explain {
        out::print(&findings::explain(&found, id, &out::style()));
    } else if !is_written {
        out::print(&findings::summary(
            &found,
            &out::style().verbose(flags.verbose),
        ));
    }
    Ok(status(&found))
}

fn status(check: &Check) -> ExitCode {
    if check.count(StateKind::Bad) > 0 {
        ExitCode::from(BAD)
    } else if check.count(StateKind::Unknown) > 0 {
        ExitCode::from(UNKNOWN)
    } else {
        ExitCode::SUCCESS
    }
}

/// The online CPUs.
pub(super) fn online(root: &Root) -> Vec<usize> {
    let text = root
        .text("/sys/devices/system/cpu/online")
        .unwrap_or_default();
    cpus::parse_kernel(&text).unwrap_or_default()
}

/// The CPUs of `-a`, of those that the machine has.
pub(super) fn requested_cpus(
    root: &Root,
    list: Option<&Option<String>>,
) -> Result<Option<Vec<usize>>, Failure> {
    let Some(Some(list)) = list else {
        return Ok(None);
    };
    let online = online(root);
    let named = match cpus::parse(list).map_err(Failure::usage)? {
        CpuList::All => online.clone(),
        CpuList::Except(cpus) => {
            let left = online.iter().copied().filter(|cpu| !cpus.contains(cpu));
            left.collect()
        }
        CpuList::Only(cpus) => cpus,
    };
    let refused = match named.iter().find(|cpu| !online.contains(cpu)) {
        Some(&cpu) => CpuListError::Offline {
            cpu,
            allowed: online.clone(),
            online,
        },
        None if named.is_empty() => CpuListError::NoneLeft { allowed: online },
        None => return Ok(Some(named)),
    };
    Err(Failure::usage(refused))
}

/// A machine that was recorded: the directory of its files, or a snapshot.
fn recorded(place: &Path) -> Result<Root, Failure> {
    if place.is_dir() {
        if !place.join("proc").is_dir() {
            return Err(Failure::usage(format!(
                "{}: a recorded machine has directories proc and sys",
                place.display()
            )));
        }
        return Ok(Root::recorded(place));
    }
    let failed =
        |error: &dyn std::fmt::Display| Failure::setup(format!("{}: {error}", place.display()));
    let mut text = Vec::new();
    File::open(place)
        .and_then(|file| file.take(SNAPSHOT_LIMIT + 1).read_to_end(&mut text))
        .map_err(|error| failed(&error))?;
    let snapshot = Snapshot::parse(&text).map_err(|error| failed(&error))?;
    Ok(Root::of_snapshot(snapshot))
}

/// Prints the settings of two machines that differ.
fn compare(root: &Root, other: &Root, request: &CheckRequest) -> Result<ExitCode, Failure> {
    let differences = punctual_machine::differences(&check(root, request), &check(other, request));
    out::print(&findings::differences(&differences, &out::style()));
    Ok(ExitCode::SUCCESS)
}
