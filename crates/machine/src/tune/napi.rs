//! Where a network device's packets are received: in softirqs, or in threads of the kernel with a
//! policy (threaded NAPI).
//!
//! The threads are made when they are switched on for the first time, and exist until the device is
//! removed: mode and policies are one setting. A thread is known by its name, `napi/DEVICE-ID`: the
//! number is that of one queue of the whole machine. Kernels before 6.8 do not say whose queue it is: a
//! device of the same name in another network namespace is not told apart there.

mod queues;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use punctual_record::proc_stat::Stat;
use punctual_record::tuning::{Change, Knob, NapiMode, NetworkDevice, Setting};
use punctual_rt::sys::task::{self, SchedAttr};

use super::network::{check_namespace, index_of, link_address, namespace};
use super::setting::{find_thread, put};
use crate::root::{Root, decimal};

/// Policies by their numbers, and whether they have a priority.
const POLICIES: [(u32, &str, bool); 5] = [
    (libc::SCHED_OTHER as u32, "other", false),
    (libc::SCHED_FIFO as u32, "fifo", true),
    (libc::SCHED_RR as u32, "rr", true),
    (libc::SCHED_BATCH as u32, "batch", false),
    (libc::SCHED_IDLE as u32, "idle", false),
];

/// How a thread is scheduled; the default is the kernel's for a new one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Scheduling {
    policy: u32,
    /// The priority, or the nice value.
    number: i32,
}

impl Scheduling {
    fn of(attr: &SchedAttr) -> io::Result<Self> {
        let found = POLICIES.iter().find(|it| it.0 == attr.policy);
        let Some((_, _, has_priority)) = found else {
            return Err(io::Error::other(format!(
                "a thread has the scheduling policy {}, which can't be restored",
                attr.policy
            )));
        };
        let number = match has_priority {
            true => attr.priority.cast_signed(),
            false => attr.nice,
        };
        let policy = attr.policy;
        Ok(Self { policy, number })
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, number) = text.split_once(':').unwrap_or((text, "0"));
        let (policy, _, has_priority) = POLICIES.iter().find(|it| it.1 == name)?;
        let number: i32 = number.parse().ok()?;
        let range = if *has_priority { 1..=99 } else { -20..=19 };
        let policy = *policy;
        range.contains(&number).then_some(Self { policy, number })
    }

    /// With the flags that a thread has.
    fn attr(self, flags: u64) -> SchedAttr {
        let has_priority = POLICIES.iter().any(|it| it.0 == self.policy && it.2);
        let (priority, nice) = match has_priority {
            true => (self.number.unsigned_abs(), 0),
            false => (0, self.number),
        };
        SchedAttr {
            policy: self.policy,
            priority,
            nice,
            flags,
            ..SchedAttr::default()
        }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = POLICIES.iter().find(|it| it.0 == self.policy);
        let name = of.map_or("other", |it| it.1);
        match self.number {
            0 => f.write_str(name),
            number => write!(f, "{name}:{number}"),
        }
    }
}

/// A device's value: the mode, what its threads have, and what single ones have instead.
///
/// `softirq`, `threads`, `threads fifo:70`, `threads fifo:70 8193=other`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    in_threads: bool,
    usual: Scheduling,
    single: BTreeMap<u32, Scheduling>,
}

impl State {
    fn parse(value: &str) -> Option<Self> {
        let mut words = value.split_whitespace();
        let in_threads = match words.next()? {
            NapiMode::SOFTIRQ => false,
            NapiMode::THREADS => true,
            _ => return None,
        };
        let mut state = State {
            in_threads,
            ..State::default()
        };
        for (at, word) in words.enumerate() {
            match word.split_once('=') {
                Some((id, text)) => {
                    let id = id.parse().ok()?;
                    state.single.insert(id, Scheduling::parse(text)?);
                }
                None if at == 0 => state.usual = Scheduling::parse(word)?,
                None => return None,
            }
        }
        Some(state)
    }

    /// Of what was read: what all threads have in common is usual.
    fn of(in_threads: bool, threads: BTreeMap<u32, Scheduling>) -> Self {
        let mut of_all = threads.values();
        let usual = match of_all.next() {
            Some(first) if of_all.all(|it| it == first) => *first,
            _ => {
                return State {
                    in_threads,
                    usual: Scheduling::default(),
                    single: threads,
                };
            }
        };
        State {
            in_threads,
            usual,
            single: BTreeMap::new(),
        }
    }

    fn thread(&self, id: u32) -> Scheduling {
        self.single.get(&id).copied().unwrap_or(self.usual)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.in_threads {
            true => NapiMode::THREADS,
            false => NapiMode::SOFTIRQ,
        })?;
        if self.usual != Scheduling::default() {
            write!(f, " {}", self.usual)?;
        }
        for (id, scheduling) in &self.single {
            write!(f, " {id}={scheduling}")?;
        }
        Ok(())
    }
}

/// Whether two values are the same: a thread that one of them does not name has its usual policy.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (State::parse(one), State::parse(other)) else {
        return false;
    };
    let named: BTreeSet<u32> = one
        .single
        .keys()
        .chain(other.single.keys())
        .copied()
        .collect();
    let of_threads = |id: &u32| one.thread(*id) == other.thread(*id);
    one.in_threads == other.in_threads
        && named.iter().all(of_threads)
        // Where all threads are named by one, what is usual for it has no thread.
        && (one.usual == other.usual || !named.is_empty())
}

/// Whether a value is what a kill between two others leaves: the mode of one of them, and threads with
/// policies of either, or with the kernel's.
pub(super) fn is_between(now: &str, one: &str, other: &str) -> bool {
    let [Some(now), Some(one), Some(other)] = [now, one, other].map(State::parse) else {
        return false;
    };
    let is_known = |scheduling: Scheduling| {
        let usual = [Scheduling::default(), one.usual, other.usual];
        let mut single = one.single.values().chain(other.single.values());
        usual.contains(&scheduling) || single.any(|it| *it == scheduling)
    };
    [one.in_threads, other.in_threads].contains(&now.in_threads)
        && is_known(now.usual)
        && now.single.values().all(|it| is_known(*it))
}

fn file(device: &NetworkDevice) -> String {
    format!("/sys/class/net/{}/threaded", device.name)
}

/// `/sys` shows the devices of the namespace in which it was mounted: this checks that its device is
/// the one of this thread's namespace.
fn check_is_of_here(device: &NetworkDevice) -> io::Result<()> {
    check_namespace(device.namespace)?;
    let index = index_of(&device.name)?;
    let of = |name: &str| Root::live().text(&format!("/sys/class/net/{}/{name}", device.name));
    let is_here = of("ifindex")?.parse() == Ok(index)
        && of("address")?.trim() == link_address(index)?.unwrap_or_default();
    match is_here {
        true => Ok(()),
        false => Err(io::Error::other(
            "/sys is that of another network namespace: mount it here, as `ip netns exec` does",
        )),
    }
}

/// The device's threads: the number of each one's queue, and its own.
fn threads(device: &NetworkDevice) -> io::Result<BTreeMap<u32, i32>> {
    let beginning = format!("napi/{}-", device.name);
    let queues = queues::queues(index_of(&device.name)?)?;
    let is_of_device = |id: u32| queues.as_ref().is_none_or(|all| all.contains(&id));
    let root = Root::live();
    let mut found = BTreeMap::new();
    for name in root.names("/proc")? {
        // Threads of the kernel are processes of one thread.
        let Some(pid): Option<u32> = decimal(&name) else {
            continue;
        };
        let Ok(line) = root.text(&format!("/proc/{pid}/stat")) else {
            continue;
        };
        let id =
            Stat::parse(&line).and_then(|stat| stat.name.strip_prefix(&beginning)?.parse().ok());
        if let (Some(id), Ok(tid)) = (id, i32::try_from(pid))
            && is_of_device(id)
        {
            found.insert(id, tid);
        }
    }
    Ok(found)
}

pub(super) fn read(device: &NetworkDevice) -> io::Result<String> {
    check_is_of_here(device)?;
    let in_threads = match Root::live().text(&file(device))?.trim() {
        "0" => false,
        "1" => true,
        other => {
            return Err(io::Error::other(format!(
                "{} has the value {other}, which this program does not know",
                file(device)
            )));
        }
    };
    let mut all = BTreeMap::new();
    for (id, tid) in threads(device)? {
        // One that has ended meanwhile is none.
        if let Ok(attr) = task::scheduling(tid) {
            all.insert(id, Scheduling::of(&attr)?);
        }
    }
    Ok(State::of(in_threads, all).to_string())
}

fn schedule(device: &NetworkDevice, state: &State) -> io::Result<usize> {
    let threads = threads(device)?;
    for (id, tid) in &threads {
        let now = task::scheduling(*tid)?;
        let wanted = state.thread(*id);
        if Scheduling::of(&now).ok() != Some(wanted) {
            task::set_scheduling(*tid, &wanted.attr(now.flags))?;
        }
    }
    Ok(threads.len())
}

pub(super) fn write(device: &NetworkDevice, value: &str) -> io::Result<()> {
    check_is_of_here(device)?;
    let state = State::parse(value).ok_or(io::ErrorKind::InvalidInput)?;
    let sees_kernel = find_thread(2).is_ok_and(|it| it.name == "kthreadd");
    if state.in_threads && !sees_kernel {
        return Err(io::Error::other(
            "the kernel's threads can't be seen in this PID namespace: run this outside of it",
        ));
    }
    // Before they are in force, and again for those that are made.
    schedule(device, &state)?;
    put(&file(device), if state.in_threads { "1" } else { "0" }).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => io::Error::other(
                "the device has no NAPI (a veth has it with generic receive offload: ethtool -K \
                 DEVICE gro on)",
            ),
            _ => error,
        }
    })?;
    let seen = schedule(device, &state)?;
    if state.in_threads && seen == 0 {
        return Err(io::Error::other("its threads are not found by their names"));
    }
    Ok(())
}

/// What makes a device receive so: in softirqs, or in threads with a priority.
///
/// # Errors
/// There is no such device, or the kernel has no threads for it (before Linux 5.12).
pub fn napi_change(name: &str, device: &str, mode: NapiMode) -> io::Result<Change> {
    let device = NetworkDevice {
        namespace: namespace()?,
        name: device.to_owned(),
    };
    check_is_of_here(&device)?;
    Root::live().text(&file(&device))?;
    Ok(Change {
        knob: Knob::File(name.to_owned()),
        setting: Setting::Napi { device },
        value: mode.value(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        for value in [
            "softirq",
            "threads",
            "threads fifo:70",
            "softirq rr:1 8193=other:-5",
            "threads 8193=fifo:70 8194=other 8195=batch:3 8196=idle",
        ] {
            let read = State::parse(value).map(|state| state.to_string());
            assert_eq!(read.as_deref(), Some(value));
            assert!(is_same(value, value), "{value}");
        }
        for text in [
            "",
            "on",
            "threads fifo",
            "threads fifo:0",
            "threads fifo:100",
            "threads other:20",
            "threads 1=fifo:1 fifo:2",
            "threads x=fifo:1",
            "threads deadline:1",
        ] {
            assert_eq!(State::parse(text), None, "{text}");
            assert!(!is_same(text, text), "{text}");
        }
    }

    #[test]
    fn threads_that_are_not_named_have_the_usual_policy() {
        for (one, other, expected) in [
            ("threads fifo:70", "threads 1=fifo:70 2=fifo:70", true),
            ("threads fifo:70", "threads 1=fifo:70 2=other", false),
            ("threads fifo:70", "threads", false),
            ("threads fifo:70", "softirq fifo:70", false),
            ("softirq", "softirq 1=other", true),
            ("softirq", "softirq 1=fifo:1", false),
            ("threads 1=fifo:1", "threads 1=fifo:1 2=other", true),
        ] {
            assert_eq!(is_same(one, other), expected, "{one}, {other}");
            assert_eq!(is_same(other, one), expected, "{other}, {one}");
        }
    }

    #[test]
    fn what_a_kill_leaves_is_between_two_values() {
        let (off, on) = ("softirq", "threads fifo:70");
        for (now, expected) in [
            ("threads", true),
            ("softirq fifo:70", true),
            ("threads 1=fifo:70 2=other", true),
            ("threads rr:5", false),
            ("threads 1=fifo:70 2=fifo:71", false),
        ] {
            assert_eq!(is_between(now, off, on), expected, "{now}");
            assert_eq!(is_between(now, on, off), expected, "{now}");
        }
        assert!(!is_between("softirq", "threads", on));
        assert!(is_between("threads rr:5", "threads 1=rr:5 2=other", on));
    }

    #[test]
    fn what_all_threads_have_is_their_usual_policy() {
        let fifo = Scheduling::parse("fifo:70").unwrap();
        let other = Scheduling::default();
        let state =
            |of: &[(u32, Scheduling)]| State::of(true, of.iter().copied().collect()).to_string();
        assert_eq!(state(&[]), "threads");
        assert_eq!(state(&[(1, fifo), (2, fifo)]), "threads fifo:70");
        assert_eq!(state(&[(1, fifo), (2, other)]), "threads 1=fifo:70 2=other");
    }
}
