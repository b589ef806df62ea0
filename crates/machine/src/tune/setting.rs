//! One setting of a machine: how it is read, written and compared.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use punctual_record::cpu_list;
use punctual_record::proc_stat::Stat;
use punctual_record::proc_status;
use punctual_record::tuning::{Setting, ThreadIdentity};
use punctual_rt::sys::task::{self, SchedAttr};
use punctual_rt::{affinity, cpulist};

use super::{boot_file, napi, neighbours, network, partition, persist, routes};
use crate::look::chosen;
use crate::mask;
use crate::root::Root;

/// The thread with this number.
///
/// # Errors
/// If there is none.
pub fn find_thread(tid: i32) -> io::Result<ThreadIdentity> {
    let line = Root::live().text(&format!("/proc/{tid}/stat"))?;
    let stat = Stat::parse(&line).ok_or(io::ErrorKind::InvalidData)?;
    Ok(ThreadIdentity {
        tid,
        name: stat.name.to_owned(),
        start: stat.count(22).ok_or(io::ErrorKind::InvalidData)?,
    })
}

fn has_ended(thread: &ThreadIdentity) -> bool {
    find_thread(thread.tid).map_or(true, |now| now.start != thread.start)
}

fn check_present(thread: &ThreadIdentity) -> io::Result<()> {
    if has_ended(thread) {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    } else {
        Ok(())
    }
}

/// Files of which a write to one sets the other to zero.
const PAIRS: [(&str, &str); 2] = [
    ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"),
    (
        "/proc/sys/vm/dirty_background_ratio",
        "/proc/sys/vm/dirty_background_bytes",
    ),
];

/// The watchdogs that `kernel.watchdog` turns on and off together.
const WATCHDOGS: [&str; 2] = [
    "/proc/sys/kernel/soft_watchdog",
    "/proc/sys/kernel/nmi_watchdog",
];

/// The setting that a file is, or is a part of, and the setting's value for this value of the
/// file.
#[must_use]
pub fn setting_of_file(path: &str, value: &str) -> (Setting, String) {
    let pair = PAIRS
        .iter()
        .find(|(first, second)| path == *first || path == *second);
    match pair {
        Some((first, second)) => (
            Setting::Pair {
                first: (*first).to_owned(),
                second: (*second).to_owned(),
            },
            format!("{path} {value}"),
        ),
        None => (
            Setting::File {
                path: path.to_owned(),
            },
            value.to_owned(),
        ),
    }
}

/// File systems whose files are the kernel's own state.
const KERNELS: [&str; 14] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "cpuset",
    "debugfs",
    "tracefs",
    "securityfs",
    "configfs",
    "bpf",
    "efivarfs",
    "pstore",
    "resctrl",
    "selinuxfs",
];

/// Whether a file is the kernel's own state: by the file system that is mounted there.
fn is_of_kernel(path: &str) -> io::Result<bool> {
    if path.starts_with("/proc/") || path.starts_with("/sys/") {
        return Ok(true);
    }
    let mounts = Root::live().text("/proc/self/mounts")?;
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?.replace("\\040", " "), words.next()?);
        let is_below = Path::new(path).starts_with(&place);
        is_below.then_some((place.len(), kind))
    });
    // Of several at one place the last one is on top.
    let nearest = mounted.max_by_key(|(length, _)| *length);
    Ok(nearest.is_some_and(|(_, kind)| KERNELS.contains(&kind)))
}

/// [`setting_of_file`] of a file that a user named: one of the network belongs to the namespace
/// that this runs in.
///
/// # Errors
/// The namespace can't be read.
pub fn setting_of_named_file(path: &str, value: &str) -> io::Result<(Setting, String)> {
    if !path.starts_with("/proc/sys/net/") {
        let is_file = std::fs::metadata(path).is_ok_and(|it| it.is_file());
        return Ok(match is_file && !is_of_kernel(path)? {
            // It keeps what is written: its bytes come back, also after a reboot.
            true => (
                Setting::ConfigFile {
                    path: path.to_owned(),
                },
                boot_file::value_of(Some(format!("{value}\n").as_bytes())),
            ),
            false => setting_of_file(path, value),
        });
    }
    let setting = Setting::NetworkFile {
        namespace: network::namespace()?,
        path: path.to_owned(),
    };
    Ok((setting, value.to_owned()))
}

/// The value in the text of a file: of a list of choices the chosen one, in brackets, or, for the
/// preemption model, in parentheses.
fn value_in<'t>(path: &str, text: &'t str) -> &'t str {
    let in_parentheses = |word: &'t str| word.strip_prefix('(')?.strip_suffix(')');
    let chosen = if path.ends_with("/sched/preempt") {
        text.split_whitespace().find_map(in_parentheses)
    } else {
        chosen(text)
    };
    chosen.unwrap_or(text)
}

/// Its value now, as [`write()`] takes it.
///
/// # Errors
/// If it can't be read.
pub fn read(setting: &Setting) -> io::Result<String> {
    match setting {
        Setting::File { path } => {
            let text = Root::live().text(path)?;
            Ok(value_in(path, &text).to_owned())
        }
        Setting::Pair { first, second } => {
            // The one that is not zero is in force; both are zero for a limit of nothing.
            for path in [second, first] {
                let value = Root::live().text(path)?;
                if value != "0" {
                    return Ok(format!("{path} {value}"));
                }
            }
            Ok(format!("{first} 0"))
        }
        Setting::Scheduling { thread } => {
            check_present(thread)?;
            let attr = task::scheduling(thread.tid)?;
            let value = format!("{} {} {}", attr.policy, attr.priority, attr.nice);
            Ok(match attr.policy == libc::SCHED_DEADLINE as u32 {
                true => format!("{value} {} {} {}", attr.runtime, attr.deadline, attr.period),
                false => value,
            })
        }
        Setting::Affinity { thread } => {
            check_present(thread)?;
            // The system call leaves out CPUs that are offline, which the thread may use again.
            let status = Root::live().text(&format!("/proc/{}/status", thread.tid));
            let listed = status.ok().and_then(|text| {
                let list = proc_status::value(&text, "Cpus_allowed_list")?;
                cpulist::numbers(list).ok()
            });
            match listed {
                Some(cpus) => Ok(cpu_list(&cpus)),
                None => Ok(cpu_list(&affinity::get(thread.tid)?)),
            }
        }
        Setting::Partition { folder } => partition::read(folder, false),
        Setting::Cpuset {
            folder,
            is_of_others,
        } => partition::read(folder, *is_of_others),
        Setting::BootFile { path, .. } | Setting::ConfigFile { path } => {
            boot_file::read(Path::new(path))
        }
        Setting::NetworkFile { namespace, path } => {
            network::check_namespace(*namespace)?;
            Root::live().text(path)
        }
        Setting::RouteMetric { route, metric } => routes::read_metric(route, *metric),
        Setting::Neighbour { neighbour } => neighbours::read_neighbour(neighbour),
        Setting::Napi { device } => napi::read(device),
        Setting::KernelArguments { grubby, parameters } => {
            let has = boot_file::kernels_with(grubby, parameters)?;
            let any = has.iter().any(|has| *has);
            Ok(if any {
                boot_file::WITH
            } else {
                boot_file::WITHOUT
            }
            .to_owned())
        }
    }
}

/// A value of [`Setting::Scheduling`] as the kernel takes it.
fn attributes(value: &str) -> Option<SchedAttr> {
    let mut words = value.split_whitespace();
    let mut attr = SchedAttr {
        policy: words.next()?.parse().ok()?,
        priority: words.next()?.parse().ok()?,
        nice: words.next()?.parse().ok()?,
        ..SchedAttr::default()
    };
    if attr.policy == libc::SCHED_DEADLINE as u32 {
        for time in [&mut attr.runtime, &mut attr.deadline, &mut attr.period] {
            *time = words.next()?.parse().ok()?;
        }
    }
    Some(attr)
}

/// On Linux 6.1 and others a read of `kernel.watchdog` while each watchdog is off turns all of them off: one
/// that is turned on again by its own file then stays off (`proc_watchdog_common`).
fn turn_on_watchdogs(path: &str, value: &str) -> io::Result<()> {
    let is_watchdog = WATCHDOGS.contains(&path);
    if !is_watchdog || value != "1" || Root::live().text(path)? == value {
        return Ok(());
    }
    // The read has reset its own file.
    put(path, value)?;
    put("/proc/sys/kernel/watchdog", value)
}

/// Writes a value.
///
/// # Errors
/// If the kernel refuses it, or accepts it without effect.
pub fn write(setting: &Setting, value: &str) -> io::Result<()> {
    match setting {
        Setting::File { path } => {
            put(path, value)?;
            turn_on_watchdogs(path, value)?;
        }
        Setting::Pair { first, second } => {
            let (path, number) = value.split_once(' ').ok_or(io::ErrorKind::InvalidInput)?;
            if path != first && path != second {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            put(path, number)?;
        }
        Setting::Scheduling { thread } => {
            check_present(thread)?;
            // What flags a thread has (reset on fork) stays.
            let now = task::scheduling(thread.tid)?;
            let mut attr = attributes(value).ok_or(io::ErrorKind::InvalidInput)?;
            attr.flags = now.flags;
            task::set_scheduling(thread.tid, &attr)?;
        }
        Setting::Affinity { thread } => {
            check_present(thread)?;
            let cpus = cpulist::numbers(value).map_err(|_| io::ErrorKind::InvalidInput)?;
            affinity::set(thread.tid, &cpus)?;
        }
        Setting::Partition { folder } => partition::write(folder, false, value)?,
        Setting::Cpuset {
            folder,
            is_of_others,
        } => partition::write(folder, *is_of_others, value)?,
        Setting::BootFile { path, update } => {
            boot_file::write(Path::new(path), value)?;
            if let Some(program) = update {
                boot_file::run(program, &[])?;
            }
        }
        Setting::ConfigFile { path } => {
            boot_file::write(Path::new(path), value)?;
            persist::remove_empty_folder(Path::new(path));
        }
        Setting::NetworkFile { namespace, path } => {
            network::check_namespace(*namespace)?;
            put(path, value)?;
        }
        Setting::RouteMetric { route, metric } => routes::write_metric(route, *metric, value)?,
        Setting::Neighbour { neighbour } => neighbours::write_neighbour(neighbour, value)?,
        Setting::Napi { device } => napi::write(device, value)?,
        Setting::KernelArguments { grubby, parameters } => {
            boot_file::write_arguments(grubby, parameters, value)?;
        }
    }
    let now = read(setting)?;
    if is_same(setting, &now, value) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "accepted without effect, it still reads `{now}`"
        )))
    }
}

/// Writes a value in place of another one. If the kernel makes a third one of it, the former one is
/// written back: what is in force would be no value that anybody chose.
///
/// # Errors
/// As [`write()`].
pub(super) fn replace(setting: &Setting, value: &str, before: &str) -> io::Result<()> {
    let Err(error) = write(setting, value) else {
        return Ok(());
    };
    match read(setting) {
        Ok(now) if !is_same(setting, &now, before) => match write(setting, before) {
            Ok(()) => Err(io::Error::other(format!(
                "the kernel makes `{now}` of it: give that"
            ))),
            Err(_) => Err(io::Error::other(format!(
                "the kernel makes `{now}` of it, and refuses the former value `{before}`"
            ))),
        },
        _ => Err(error),
    }
}

/// Checks that it could be written, without a change: a file is opened, a thread is given what it
/// has. The kernel may still refuse a value.
///
/// # Errors
/// If it can't be written: a missing right, a file for reading only.
pub fn check_writable(setting: &Setting) -> io::Result<()> {
    let open = |path: &String| OpenOptions::new().write(true).open(path).map(drop);
    match setting {
        Setting::File { path }
        | Setting::NetworkFile { path, .. }
        | Setting::ConfigFile { path } => open(path),
        Setting::Pair { first, second } => open(first).and_then(|()| open(second)),
        Setting::Scheduling { .. }
        | Setting::Affinity { .. }
        | Setting::RouteMetric { .. }
        | Setting::Neighbour { .. }
        | Setting::Napi { .. } => write(setting, &read(setting)?),
        // They take too long, or a reboot, to be switched on and off.
        Setting::Partition { .. }
        | Setting::Cpuset { .. }
        | Setting::BootFile { .. }
        | Setting::KernelArguments { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether two values are the same to the kernel: masks with and without leading zeros.
#[must_use]
pub fn is_same(setting: &Setting, one: &str, other: &str) -> bool {
    if let Setting::BootFile { .. } | Setting::ConfigFile { .. } = setting {
        return one == other;
    }
    if let Setting::Napi { .. } = setting {
        return napi::is_same(one, other);
    }
    if one.trim() == other.trim() {
        return true;
    }
    if let Setting::Affinity { .. } = setting {
        // Before Linux 6.2 the kernel stores only those that are online, whatever was written.
        let online = Root::live().text("/sys/devices/system/cpu/online");
        let online = online.ok().and_then(|list| cpulist::numbers(&list).ok());
        let on = |text: &str| -> Option<Vec<usize>> {
            let (mut cpus, online) = (cpulist::numbers(text).ok()?, online.as_ref()?);
            cpus.retain(|cpu| online.contains(cpu));
            Some(cpus)
        };
        return on(one).is_some() && on(one) == on(other);
    }
    let (Setting::File { path } | Setting::NetworkFile { path, .. }) = setting else {
        return false;
    };
    let is_list = path.ends_with("_list") || path.ends_with("watchdog_cpumask");
    let is_mask = !is_list
        && (path.ends_with("mask") || path.ends_with("affinity") || path.ends_with("_cpus"));
    if path.ends_with("/set_event") {
        // The kernel lists them in its own order.
        let events = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let (one, other): (BTreeSet<String>, BTreeSet<String>) = (events(one), events(other));
        return one == other;
    }
    let numbers = |text: &str| {
        text.split_whitespace()
            .map(|it| it.parse::<i64>().ok())
            .collect::<Option<Vec<_>>>()
    };
    if is_mask {
        mask::parse(one).is_some() && mask::parse(one) == mask::parse(other)
    } else if is_list {
        let cpus = |text| cpulist::numbers(text).ok();
        cpus(one).is_some() && cpus(one) == cpus(other)
    } else if path.ends_with("/cpu.max") {
        // A write of the quota alone leaves the period.
        let quota = |text: &str| text.split_whitespace().next().map(str::to_owned);
        let is_alone = |text: &str| text.split_whitespace().count() == 1;
        (is_alone(one) || is_alone(other)) && quota(one) == quota(other)
    } else if path.ends_with("/printk") {
        // A write of one number sets the first of four.
        let (one, other) = (numbers(one), numbers(other));
        matches!((one, other), (Some(one), Some(other)) if one.first() == other.first())
    } else {
        numbers(one).is_some() && numbers(one) == numbers(other)
    }
}

/// Whether it is neither of two values, but what a kill between them leaves.
pub(super) fn is_between(setting: &Setting, now: &str, one: &str, other: &str) -> bool {
    matches!(setting, Setting::Napi { .. }) && napi::is_between(now, one, other)
}

/// Whether it is a file that nobody may write, whatever its value is by now: that of a clock.
pub(super) fn is_never_written(setting: &Setting) -> bool {
    let Setting::File { path } = setting else {
        return false;
    };
    std::fs::metadata(path).is_ok_and(|it| it.permissions().readonly())
}

/// Whether its object no longer exists: a thread that ended, a device that was removed.
#[must_use]
pub fn is_gone(setting: &Setting) -> bool {
    match setting {
        Setting::File { path } | Setting::Pair { first: path, .. } => {
            !Root::live().exists(path) && is_visible(path)
        }
        Setting::Scheduling { thread } | Setting::Affinity { thread } => has_ended(thread),
        // What is absent has a value.
        Setting::BootFile { .. }
        | Setting::ConfigFile { .. }
        | Setting::Partition { .. }
        | Setting::Cpuset { .. } => false,
        Setting::KernelArguments { grubby, .. } => !Path::new(grubby).exists(),
        Setting::NetworkFile { namespace, path } => match network::check_namespace(*namespace) {
            Ok(()) => !Root::live().exists(path),
            Err(_) => network::has_vanished(*namespace),
        },
        Setting::RouteMetric { route, .. } => routes::is_route_gone(route),
        Setting::Neighbour { neighbour } => {
            network::is_device_gone(neighbour.namespace, &neighbour.device)
        }
        Setting::Napi { device } => network::is_device_gone(device.namespace, &device.name),
    }
}

/// Whether a file that is absent here is absent everywhere: its file system is mounted, its CPU online, and
/// devices of the network are those of the machine.
fn is_visible(path: &str) -> bool {
    let root = Root::live();
    let mounts = root.text("/proc/self/mounts").unwrap_or_default();
    let places = || mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let apart = [
        "/sys/kernel/debug",
        "/sys/kernel/tracing",
        "/sys/fs/cgroup",
        "/sys/kernel/security",
        "/sys",
        "/proc",
    ];
    let file_system = apart.iter().find(|place| path.starts_with(*place));
    let is_below = |place: &str| match file_system {
        Some(&"/sys/fs/cgroup") => place.starts_with("/sys/fs/cgroup"),
        Some(file_system) => place == *file_system,
        None => true,
    };
    if !places().any(is_below) {
        return false;
    }
    if path.starts_with("/sys/class/net/") {
        let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        return namespace("self").is_some_and(|own| namespace("1") == Some(own));
    }
    let cpu = path.strip_prefix("/sys/devices/system/cpu/cpu");
    let cpu = cpu.and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
    cpu.is_none_or(|cpu| {
        let online = root
            .text("/sys/devices/system/cpu/online")
            .unwrap_or_default();
        let present = root
            .text("/sys/devices/system/cpu/present")
            .unwrap_or_default();
        let has = |list: &str| cpulist::numbers(list).is_ok_and(|cpus| cpus.contains(&cpu));
        has(&online) || !has(&present)
    })
}

/// Writes a value to a file in one system call, as the kernel wants it.
pub(super) fn put(path: &str, value: &str) -> io::Result<()> {
    // What is written to it is added to the events that are on, unless it is opened so.
    let replaces = path.ends_with("/set_event");
    let mut file = OpenOptions::new()
        .write(true)
        .truncate(replaces)
        .open(path)?;
    // An empty write succeeds and does nothing.
    file.write_all(format!("{value}\n").as_bytes())
}
