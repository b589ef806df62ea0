//! One look at the conditions, and the differences between two of them.

#![expect(unsafe_code, reason = "two clocks read together")]

use std::collections::{BTreeMap, BTreeSet};

use super::{Monitored, Stolen};
use punctual_machine::root::{Reader, Root};
use punctual_machine::survey::thread::ThreadScheduling;
use punctual_machine::survey::{clock_source, governor, online, read_back, stolen, tracer};
use punctual_record::{Event, Happening};

/// A smaller step of the wall clock can't be distinguished from the noise of reading it.
const CLOCK_STEP_NS: i64 = 10_000_000;

/// Steal time is an event from this share of the time between two looks...
const STOLEN_SHARE: f64 = 0.05;
/// ...and from this length: the kernel counts it in ticks of up to 10 ms.
const STOLEN_LEAST_NS: u64 = 20_000_000;

/// One look at the conditions. If something can't be read, its part is empty,
/// and shows no change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Time since the start of the measurement.
    pub at_ns: u64,
    /// Online CPUs.
    pub online: Vec<usize>,
    /// The probe threads.
    pub probes: Vec<ProbeSeen>,
    /// The differences between the clocks.
    pub offsets: Option<Offsets>,
    /// Steal time since boot of each CPU.
    pub stolen: BTreeMap<usize, u64>,
    /// CPUs from which much was stolen between the previous look and this one.
    pub robbed: BTreeSet<usize>,
    /// The process that traces a probe, once that was reported.
    pub traced: Option<i32>,
    /// The clock source.
    pub clock_source: Option<String>,
    /// The frequency governor of each probed CPU that has one.
    pub governors: BTreeMap<usize, String>,
}

/// A probe thread at a look.
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

/// The differences between the clocks. Slewing changes all of them equally; only
/// setting a clock, or suspending the machine, changes their differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offsets {
    /// CLOCK_REALTIME − CLOCK_BOOTTIME: changes when the wall clock is set.
    pub wall_ns: i64,
    /// CLOCK_BOOTTIME − CLOCK_MONOTONIC: grows by the time suspended.
    pub suspended_ns: i64,
    /// The greatest distance between the readings.
    pub error_ns: i64,
}

/// What is in force for a probe; without what a lock with a ceiling, which it holds, adds to its priority.
fn scheduling(probe: &Monitored) -> Option<ThreadScheduling> {
    let mut found = read_back(probe.tid).ok()?;
    if let Some((own, ceiling)) = probe.raised
        && (own..=ceiling).contains(&found.priority)
    {
        found.priority = own;
    }
    Some(found)
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
                    scheduling: root.is_live().then(|| scheduling(probe)).flatten(),
                    tracer: root.is_live().then(|| tracer(probe.tid)).flatten(),
                })
                .collect(),
            offsets: if root.is_live() { offsets() } else { None },
            stolen: stolen::read(root).unwrap_or_default(),
            robbed: BTreeSet::new(),
            traced: None,
            clock_source: clock_source(&mut reader),
            governors: probes
                .iter()
                .filter_map(|probe| Some((probe.cpu, governor(&mut reader, probe.cpu)?)))
                .collect(),
        }
    }

    /// What changed between this look and a later one, which inherits from this
    /// one the state that must be kept.
    pub fn changes(&self, later: &mut Self) -> Vec<Event> {
        let mut events = Vec::new();
        self.cpus(later, &mut events);
        self.threads(later, &mut events);
        self.clocks(later, &mut events);
        self.steal(later, &mut events);
        for (cpu, governor) in &later.governors {
            if let Some(before) = self.governors.get(cpu).filter(|before| *before != governor) {
                let what = Happening::Governor {
                    cpu: *cpu,
                    before: before.clone(),
                    now: governor.clone(),
                };
                events.push(Event::new(later.at_ns, what));
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
            let probed = probed(cpu);
            let what = Happening::CpuOffline { cpu: *cpu, probed };
            events.push(Event {
                invalidates: probed,
                ..Event::new(later.at_ns, what)
            });
        }
        let new = later.online.iter().filter(|c| !self.online.contains(c));
        for cpu in new {
            let what = Happening::CpuOnline { cpu: *cpu };
            events.push(Event::new(later.at_ns, what));
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
                let what = Happening::Debugger { cpu, pid };
                events.push(Event::invalidating(later.at_ns, what));
            }
            // Offline CPUs are not in the affinity that is read back: a pinned thread has none
            // until its CPU returns, and that is a separate event.
            let parked = before.cpus.is_empty() && now.cpus == [cpu] || now.cpus.is_empty();
            if before.cpus != now.cpus && !parked {
                let what = Happening::Affinity {
                    cpu,
                    before: before.cpus.clone(),
                    now: now.cpus.clone(),
                };
                events.push(Event {
                    invalidates: now.cpus != [cpu],
                    ..Event::new(later.at_ns, what)
                });
            }
            let (was, is) = (before.to_record(), now.to_record());
            if was != is {
                let what = Happening::Priority {
                    cpu,
                    before: was,
                    now: is,
                };
                events.push(Event::invalidating(later.at_ns, what));
            }
        }
    }

    fn clocks(&self, later: &Self, events: &mut Vec<Event>) {
        if let (Some(before), Some(now)) = (self.offsets, later.offsets) {
            let noise = before.error_ns.saturating_add(now.error_ns);
            let least = CLOCK_STEP_NS.saturating_add(noise);
            let asleep = now.suspended_ns.saturating_sub(before.suspended_ns);
            if asleep > least {
                let what = Happening::Suspended {
                    length_ns: asleep.unsigned_abs(),
                };
                events.push(Event::invalidating(later.at_ns, what));
            }
            let step = now.wall_ns.saturating_sub(before.wall_ns);
            if step.saturating_abs() > least {
                let what = Happening::ClockSet { step_ns: step };
                events.push(Event::new(later.at_ns, what));
            }
        }
        if let (Some(before), Some(now)) = (&self.clock_source, &later.clock_source)
            && before != now
        {
            let what = Happening::ClockSource {
                before: before.clone(),
                now: now.clone(),
            };
            events.push(Event::invalidating(later.at_ns, what));
        }
    }

    /// Much time stolen from a probed CPU is one event, however long it lasts.
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
                let what = Happening::Steal {
                    cpu,
                    stolen_ns: stolen,
                    between_ns: between,
                };
                events.push(Event::new(later.at_ns, what));
            }
        }
    }

    /// Time stolen from the probed CPUs between this look and a later one; absent
    /// if the kernel doesn't report it.
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
                // Ticks may round up to more than the elapsed time.
                (total_ns as f64 / time as f64).min(1.0)
            },
        })
    }
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
