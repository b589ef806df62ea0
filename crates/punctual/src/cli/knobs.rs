//! What the settings change that knobs on the command line name.

use std::io::ErrorKind;
use std::net::IpAddr;

use punctual_machine::root::plain;
use punctual_machine::tune::{
    device_to_address, find_thread, napi_change, neighbour_change, route_change,
    setting_of_named_file,
};
use punctual_network::sender::connect::resolve;
use punctual_network::wire::PORT;
use punctual_record::finding::FindingId;
use punctual_record::tuning::{Change, Knob, ThreadSetting};

use super::failure::Failure;
use super::flags::KnobArgument;
use super::out;

/// The findings among named knobs.
pub fn findings(named: &[KnobArgument]) -> Vec<FindingId> {
    let finding = |it: &KnobArgument| match it {
        KnobArgument::Finding(id) => Some(*id),
        _ => None,
    };
    named.iter().filter_map(finding).collect()
}

/// What the settings among named knobs change.
///
/// # Errors
/// One that this machine does not have.
pub fn settings(named: &[KnobArgument]) -> Result<Vec<Change>, Failure> {
    let (mut changes, mut ended) = (Vec::new(), Vec::new());
    for knob in named {
        match setting(knob, None) {
            Ok(change) => changes.extend(change),
            // Of several threads one may have ended: the others are changed.
            Err(failure) if matches!(knob, KnobArgument::Thread { start: Some(_), .. }) => {
                ended.push(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    if changes.is_empty() && !ended.is_empty() {
        return Err(ended.remove(0));
    }
    for failure in ended {
        out::complain(&failure.line);
    }
    Ok(changes)
}

/// The name of a file in the journal: one file has many; what is absent is named as it was given.
pub fn real_path(path: &str) -> String {
    std::fs::canonicalize(path)
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_else(|| path.to_owned())
}

/// What a setting with a value changes; nothing for a finding. `path` is the machine that messages
/// are sent to.
///
/// # Errors
/// No such route, neighbour, or machine.
pub fn setting(knob: &KnobArgument, path: Option<&str>) -> Result<Option<Change>, Failure> {
    match knob {
        KnobArgument::Finding(_) => Ok(None),
        KnobArgument::File { path, value } => {
            let path = real_path(path);
            let setting = setting_of_named_file(&path, value);
            let (setting, value) = setting.map_err(|error| refused(&path, &error))?;
            let knob = Knob::File(path);
            Ok(Some(Change {
                knob,
                setting,
                value,
            }))
        }
        KnobArgument::Route {
            metric,
            host,
            value,
        } => {
            let (name, address) = machine(metric.name(), host.as_deref().or(path))?;
            let change = route_change(&name, address, *metric, *value);
            change.map(Some).map_err(|error| refused(&name, &error))
        }
        KnobArgument::Neighbour { host, link } => {
            let (name, address) = machine("neighbour", host.as_deref().or(path))?;
            let change = neighbour_change(&name, address, link.as_deref());
            change.map(Some).map_err(|error| refused(&name, &error))
        }
        KnobArgument::Thread {
            what,
            tid,
            start,
            value,
        } => thread(*what, (*tid, *start), value).map(Some),
        KnobArgument::Napi { device, mode } => {
            let device = match (device, path) {
                (Some(device), _) => device.clone(),
                (None, Some(_)) => {
                    let (name, address) = machine("napi", path)?;
                    device_to_address(address).map_err(|error| refused(&name, &error))?
                }
                (None, None) => {
                    return Err(Failure::usage(
                        "napi: expected napi@DEVICE: it is a setting of one network device",
                    ));
                }
            };
            let name = format!("napi@{device}");
            let change = napi_change(&name, &device, *mode);
            change.map(Some).map_err(|error| refused(&name, &error))
        }
    }
}

/// What a setting of one thread changes: of the one that has this number, and started then.
fn thread(
    what: ThreadSetting,
    (tid, start): (i32, Option<u64>),
    value: &str,
) -> Result<Change, Failure> {
    let name = what.knob(tid, start);
    let found = find_thread(tid).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::setup(format!("{name}: no thread has this number")),
        _ => refused(&name, &error),
    })?;
    if start.is_some_and(|start| start != found.start) {
        return Err(Failure::setup(format!(
            "{name}: the thread has ended, and {} has its number now: nothing was changed",
            found.name
        )));
    }
    Ok(Change {
        knob: Knob::File(name),
        setting: what.of(found),
        value: value.to_owned(),
    })
}

fn refused(name: &str, error: &std::io::Error) -> Failure {
    Failure::setup(format!("{name}: {}", plain(error)))
}

/// The name of a knob of a machine, and the machine's address.
fn machine(knob: &str, host: Option<&str>) -> Result<(String, IpAddr), Failure> {
    let Some(host) = host else {
        return Err(Failure::usage(format!(
            "{knob}: expected {knob}@HOST: it is a setting for one other machine"
        )));
    };
    let found = resolve(host, PORT).map_err(|error| Failure::setup(format!("{knob}: {error}")))?;
    match found.first() {
        Some(first) => Ok((format!("{knob}@{}", first.ip()), first.ip())),
        None => Err(Failure::setup(format!("{knob}: {host} has no address"))),
    }
}

/// Refuses settings with values where only findings have a meaning.
///
/// # Errors
/// The first that was named.
pub fn refuse_settings(named: &[KnobArgument], flag: &str) -> Result<(), Failure> {
    let is_setting = |it: &&KnobArgument| !matches!(it, KnobArgument::Finding(_));
    match named.iter().find(is_setting) {
        Some(_) => Err(Failure::usage(format!(
            "{flag} takes findings of punctual check, no settings with a value: leave {flag} out"
        ))),
        None => Ok(()),
    }
}
