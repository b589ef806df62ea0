//! One look at the conditions, and what differs between two of them.

use std::collections::{BTreeMap, BTreeSet};

use punctual_stats::format::duration;

use super::{Monitored, Stolen};
use crate::system::demands::scheduling_words;
use crate::system::root::{Reader, Root};
use crate::system::thread::ThreadScheduling;
use crate::system::{clock, cpus, online, power, read_back, stolen, tracer};
use punctual_record::run::Event;

/// A step of the wall clock below this is not told from the noise of reading it.
const CLOCK_STEP_NS: i64 = 10_000_000;

/// Stolen time is an event from this share of the time between two looks...
const STOLEN_SHARE: f64 = 0.05;
/// ...and from this length: the kernel counts it in ticks of up to 10 ms.
const STOLEN_LEAST_NS: u64 = 20_000_000;

/// One look at the conditions. Where something can't be read, its part is empty,
/// and says nothing of a change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Time since the start of the measurement.
    pub at_ns: u64,
    /// Online CPUs.
    pub online: Vec<usize>,
    /// The probe threads.
    pub probes: Vec<ProbeSeen>,
    /// How the clocks stand to each other.
    pub offsets: Option<Offsets>,
    /// Stolen time since boot of each CPU.
    pub stolen: BTreeMap<usize, u64>,
    /// CPUs of which much was stolen between the look before and this one.
    pub robbed: BTreeSet<usize>,
    /// Who traces a probe, once that was told.
    pub traced: Option<i32>,
    /// The clock source.
    pub clock_source: Option<String>,
    /// The frequency governor of each probed CPU that has one.
    pub governors: BTreeMap<usize, String>,
}

/// A probe thread as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSeen {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread id.
    pub tid: i32,
    /// Its scheduling; absent once it has ended.
    pub scheduling: Option<ThreadScheduling>,
    /// The process that traces it: a debugger, or strace.
    pub tracer: Option<i32>,
}

/// How the clocks stand to each other. Slewing changes all of them alike; only a
/// clock that is set, or a suspended machine, changes their differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offsets {
    /// CLOCK_REALTIME − CLOCK_BOOTTIME: changes when the wall clock is set.
    pub wall_ns: i64,
    /// CLOCK_BOOTTIME − CLOCK_MONOTONIC: grows by the time suspended.
    pub suspended_ns: i64,
    /// The readings were this far apart at most.
    pub error_ns: i64,
}

impl Snapshot {
    /// Looks at the conditions of these probes.
    #[must_use]
    pub fn take(root: &Root, probes: &[Monitored], at_ns: u64) -> Self {
        let mut reader = Reader::new(root);
        Self {
            at_ns,
            online: online(root),
            probes: probes
                .iter()
                .map(|probe| ProbeSeen {
                    cpu: probe.cpu,
                    tid: probe.tid,
                    scheduling: root.is_live().then(|| read_back(probe.tid).ok()).flatten(),
                    tracer: root.is_live().then(|| tracer(probe.tid)).flatten(),
                })
                .collect(),
            offsets: if root.is_live() { offsets() } else { None },
            stolen: stolen::read(root).unwrap_or_default(),
            robbed: BTreeSet::new(),
            traced: None,
            clock_source: clock::source(&mut reader),
            governors: probes
                .iter()
                .filter_map(|probe| Some((probe.cpu, power::governor(&mut reader, probe.cpu)?)))
                .collect(),
        }
    }

    /// What changed between this look and a later one, which takes over from this
    /// one what must be remembered.
    pub fn changes(&self, later: &mut Self) -> Vec<Event> {
        let mut events = Vec::new();
        self.cpus(later, &mut events);
        self.threads(later, &mut events);
        self.clocks(later, &mut events);
        self.steal(later, &mut events);
        for (cpu, governor) in &later.governors {
            if let Some(before) = self.governors.get(cpu).filter(|before| *before != governor) {
                let text = format!("the governor of CPU {cpu} went from {before} to {governor}");
                events.push(event(later, "governor", text, false));
            }
        }
        events
    }

    fn cpus(&self, later: &Self, events: &mut Vec<Event>) {
        if self.online.is_empty() || later.online.is_empty() {
            return;
        }
        let probed = |cpu: &usize| later.probes.iter().any(|probe| probe.cpu == *cpu);
        let gone = self.online.iter().filter(|c| !later.online.contains(c));
        for cpu in gone {
            let (whose, invalidates) = if probed(cpu) {
                (", which is probed,", true)
            } else {
                ("", false)
            };
            let text = format!("CPU {cpu}{whose} was taken offline");
            events.push(event(later, "cpu-offline", text, invalidates));
        }
        let new = later.online.iter().filter(|c| !self.online.contains(c));
        for cpu in new {
            let text = format!("CPU {cpu} was brought online");
            events.push(event(later, "cpu-online", text, false));
        }
    }

    fn threads(&self, later: &mut Self, events: &mut Vec<Event>) {
        later.traced = later.traced.or(self.traced);
        for seen in &later.probes.clone() {
            let before = self.probes.iter().find(|probe| probe.tid == seen.tid);
            let (Some(before), Some(now)) = (
                before.and_then(|probe| probe.scheduling.as_ref()),
                seen.scheduling.as_ref(),
            ) else {
                continue;
            };
            let cpu = seen.cpu;
            let known = self.traced.is_some();
            let stays = self
                .probes
                .iter()
                .any(|p| p.tid == seen.tid && p.tracer.is_some());
            if let (Some(pid), true, false) = (seen.tracer, stays, known)
                && later.traced.is_none()
            {
                later.traced = Some(pid);
                let text = format!(
                    "process {pid} (a debugger, or strace) traced the probe of CPU {cpu}: its stops \
                     are no latency of the machine"
                );
                events.push(event(later, "debugger", text, true));
            }
            // Offline CPUs are not among those read back: a pinned thread has none
            // until its CPU returns, and that is an event of its own.
            let parked = before.cpus.is_empty() && now.cpus == [cpu] || now.cpus.is_empty();
            if before.cpus != now.cpus && !parked {
                let text = format!(
                    "the probe of CPU {cpu} may run on {}, before on {}",
                    cpus::format(&now.cpus),
                    cpus::format(&before.cpus)
                );
                events.push(event(later, "affinity", text, now.cpus != [cpu]));
            }
            let was = scheduling_words(before.policy, before.priority);
            let is = scheduling_words(now.policy, now.priority);
            if was != is {
                let text = format!("the probe of CPU {cpu} went from {was} to {is}");
                events.push(event(later, "priority", text, true));
            }
        }
    }

    fn clocks(&self, later: &Self, events: &mut Vec<Event>) {
        if let (Some(before), Some(now)) = (self.offsets, later.offsets) {
            let noise = before.error_ns.saturating_add(now.error_ns);
            let least = CLOCK_STEP_NS.saturating_add(noise);
            let asleep = now.suspended_ns.saturating_sub(before.suspended_ns);
            if asleep > least {
                let text = format!("the machine was suspended for {}", seconds(asleep));
                events.push(event(later, "suspended", text, true));
            }
            let step = now.wall_ns.saturating_sub(before.wall_ns);
            if step.saturating_abs() > least {
                let way = if step > 0 { "forward" } else { "back" };
                let text = format!("the wall clock was set {way} by {}", seconds(step));
                events.push(event(later, "clock-set", text, false));
            }
        }
        if let (Some(before), Some(now)) = (&self.clock_source, &later.clock_source)
            && before != now
        {
            let text = format!("the clock source went from {before} to {now}");
            events.push(event(later, "clock-source", text, true));
        }
    }

    /// Much time stolen from a probed CPU is one event, however long it goes on.
    fn steal(&self, later: &mut Self, events: &mut Vec<Event>) {
        let between = later.at_ns.saturating_sub(self.at_ns);
        if between == 0 {
            later.robbed.clone_from(&self.robbed);
            return;
        }
        let probed: BTreeSet<usize> = later.probes.iter().map(|probe| probe.cpu).collect();
        for cpu in probed {
            let (Some(before), Some(now)) = (self.stolen.get(&cpu), later.stolen.get(&cpu)) else {
                continue;
            };
            let stolen = now.saturating_sub(*before);
            let share = stolen as f64 / between as f64;
            if stolen < STOLEN_LEAST_NS || share <= STOLEN_SHARE {
                continue;
            }
            later.robbed.insert(cpu);
            if !self.robbed.contains(&cpu) {
                let text = format!(
                    "the host took {} of {} from CPU {cpu}",
                    duration(stolen),
                    duration(between)
                );
                events.push(event(later, "steal", text, false));
            }
        }
    }

    /// Time stolen from the probed CPUs between this look and a later one; absent
    /// where the kernel doesn't say.
    #[must_use]
    pub fn stolen_until(&self, later: &Self) -> Option<Stolen> {
        let probed: BTreeSet<usize> = later.probes.iter().map(|probe| probe.cpu).collect();
        let mut total_ns = 0_u64;
        let mut known = 0_u64;
        for cpu in probed {
            if let (Some(before), Some(now)) = (self.stolen.get(&cpu), later.stolen.get(&cpu)) {
                total_ns = total_ns.saturating_add(now.saturating_sub(*before));
                known += 1;
            }
        }
        let time = later.at_ns.saturating_sub(self.at_ns).saturating_mul(known);
        (known > 0).then(|| Stolen {
            total_ns,
            share: if time == 0 {
                0.0
            } else {
                // Ticks may round up to more than the time itself.
                (total_ns as f64 / time as f64).min(1.0)
            },
        })
    }
}

fn event(at: &Snapshot, kind: &str, text: String, invalidates: bool) -> Event {
    Event {
        at_ns: at.at_ns,
        kind: kind.to_owned(),
        text,
        invalidates,
    }
}

/// A length in seconds, to the millisecond.
fn seconds(ns: i64) -> String {
    format!("{:.3} s", ns.unsigned_abs() as f64 / 1e9)
}

/// Reads the clocks close together: the closest of a few tries counts.
fn offsets() -> Option<Offsets> {
    let mut best: Option<Offsets> = None;
    for _ in 0..5 {
        let before = read_clock(libc::CLOCK_MONOTONIC)?;
        let boot = read_clock(libc::CLOCK_BOOTTIME)?;
        let wall = read_clock(libc::CLOCK_REALTIME)?;
        let after = read_clock(libc::CLOCK_MONOTONIC)?;
        let error_ns = after.saturating_sub(before);
        if best.is_none_or(|best| error_ns < best.error_ns) {
            best = Some(Offsets {
                wall_ns: wall.saturating_sub(boot),
                suspended_ns: boot.saturating_sub(before),
                error_ns,
            });
        }
        if error_ns < 1_000_000 {
            break;
        }
    }
    best
}

fn read_clock(clock: libc::clockid_t) -> Option<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that outlives the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    time.tv_sec
        .checked_mul(1_000_000_000)?
        .checked_add(time.tv_nsec)
}
