//! A probe, its culprits, and a recording of both.

use std::sync::Arc;
use std::time::Duration;

use punctual_machine::Root;
use punctual_machine::survey::group_limits::GroupLimits;
use punctual_record::explanation::Instants;
use punctual_rt::sched::{self, Policy};
use punctual_rt::{affinity, clock};
use punctual_trace::attribute::event::Window;
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::capture::{Capture, Options, RING_EVENTS};

use super::agent::Agent;
use super::culprit::{Culprit, Injection, LEAD_NS, Scene, Truth, is_preempt_rt};
use super::device::{Device, cpus};
use super::group::Group;
use super::probe::{Beat, Habit, Probe, Sample};
use super::stint::Was;

/// Coprime with the tick, so that the tick comes before, within and after the injected delay in turn.
pub const PERIOD_NS: u64 = 1_019_000;
/// How late a wake-up must be for the stack of its culprit to be taken, and to be examined.
pub const THRESHOLD_NS: u64 = 60_000;
/// The runtime of the probe's group if it has a quota: any tick uses more.
const QUOTA_US: u64 = 1_000;
const QUOTA_PERIOD_US: u64 = 4_000;
const NAP: Duration = Duration::from_millis(20);

/// The recorded wake-ups.
pub struct Seen {
    pub samples: Vec<Sample>,
    pub chains: Vec<Instants>,
    /// The windows of those later than the threshold.
    pub windows: Vec<Window>,
    pub truths: Vec<Truth>,
    /// When a hypervisor's agent ran.
    pub agent: Agent,
    pub events: u64,
    pub lost: u64,
    pub preempt_rt: bool,
}

/// How a scene is run.
#[derive(Debug, Clone, Copy)]
pub struct Play {
    /// The requested number of disturbed wake-ups.
    pub count: u64,
    /// Every so many-th wake-up is disturbed.
    pub every: u64,
    pub length_ns: u64,
}

/// A probe on a CPU, and its recording.
pub struct Stage {
    probe: Probe,
    /// Its number in the kernel's events.
    tid: u32,
    capture: Capture,
    /// The limits of its control groups.
    limits: GroupLimits,
    beat: Beat,
    every: u64,
    /// How late a wake-up must be for its window to be kept.
    above_ns: u64,
}

impl Stage {
    /// Creates one; returns the reason if that is not possible here.
    pub fn new(cpu: usize, play: Play) -> Result<Self, String> {
        Self::over(&[cpu], cpu, play)
    }

    /// Creates one that records more CPUs than the probe's.
    pub fn over(recorded: &[usize], cpu: usize, play: Play) -> Result<Self, String> {
        let beat = Beat {
            cpu,
            start_ns: clock::now_ns() + 100_000_000,
            period_ns: PERIOD_NS,
            every: play.every,
            length_ns: play.length_ns + LEAD_NS,
        };
        let probe = Probe::start(beat)?;
        let numbers =
            Numbers::of_proc().map_err(|why| punctual_report::facts::unavailable(&why))?;
        let tid = numbers.kernels(probe.pid.unsigned_abs());
        let options = Options {
            targets: vec![(tid, cpu as u32)],
            roaming: Vec::new(),
            all_wakings: false,
            interrupt_above_ns: 0,
            cpus: recorded.iter().map(|cpu| *cpu as u32).collect(),
            ring_events: RING_EVENTS,
        };
        let capture =
            Capture::start(&options).map_err(|why| punctual_report::facts::unavailable(&why))?;
        capture.stacks_above(THRESHOLD_NS);
        Ok(Self {
            capture,
            probe,
            tid,
            limits: GroupLimits::new(&Root::live()),
            beat,
            every: play.every,
            above_ns: THRESHOLD_NS,
        })
    }

    /// Keeps only windows of wake-ups later than this.
    pub fn only_above(&mut self, above_ns: u64) {
        self.above_ns = above_ns;
    }

    /// The CPU of its probe.
    pub fn cpu(&self) -> usize {
        self.beat.cpu
    }

    /// Records running culprits.
    pub fn play(
        &mut self,
        culprits: &[Culprit],
        device: Option<Arc<Device>>,
        count: u64,
    ) -> Result<Seen, String> {
        let other = cpus().iter().copied().find(|other| *other != self.cpu());
        let _ = affinity::set_current(&[other.unwrap_or(self.cpu())]);
        let ordinary = culprits.iter().any(|culprit| culprit.is_ordinary());
        // On PREEMPT_RT a thread serves its timer, after which the scheduler would prefer the probe.
        let fair = culprits.contains(&Culprit::Fair) && is_preempt_rt();
        let nice = if fair { 19 } else { 0 };
        self.probe.be_ordinary(ordinary, nice)?;
        // Removed before the probe is a real-time thread again: such a group accepts none.
        let group = self.group(culprits);
        if group.is_err() {
            self.probe.be_ordinary(false, 0)?;
        }
        let group = group?;
        let scene = Scene {
            beat: self.beat,
            probe: self.probe.pid,
            group: group.map(Arc::new),
            lock: Some(self.probe.lock()),
            other,
            device,
            preempt_rt: is_preempt_rt(),
        };
        let habit = culprits.iter().map(|culprit| culprit.habit());
        let habit = habit.reduce(|a, b| if a == Habit::None { b } else { a });
        self.probe.take_up(habit.unwrap_or(Habit::None));
        let injections: Result<Vec<Injection>, String> = culprits
            .iter()
            .map(|culprit| Injection::start(*culprit, scene.clone()))
            .collect();
        let slower = culprits.iter().map(|culprit| culprit.slower()).max();
        let count = count * slower.unwrap_or(1);
        let seen = injections.map(|injections| self.watch(injections, count));
        self.probe.take_up(Habit::None);
        drop(scene);
        self.limits = GroupLimits::new(&Root::live());
        self.probe.be_ordinary(false, 0)?;
        let _ = affinity::set_current(cpus());
        let mut seen = seen?;
        let own = culprits
            .iter()
            .find(|culprit| culprit.habit() != Habit::None);
        if let Some(culprit) = own {
            let of_probe = seen.samples.iter().filter(|sample| sample.to_ns > 0);
            seen.truths.extend(of_probe.map(|sample| Truth {
                culprit: *culprit,
                was: Was::between(sample.from_ns, sample.to_ns),
            }));
        }
        Ok(seen)
    }

    /// The control group that a culprit requires for the probe.
    fn group(&mut self, culprits: &[Culprit]) -> Result<Option<Group>, String> {
        let pid = self.probe.pid;
        if culprits.contains(&Culprit::Frozen) {
            let group = Group::new("freezer")?;
            group.join(pid)?;
            return Ok(Some(group));
        }
        if !culprits.contains(&Culprit::Throttled) {
            return Ok(None);
        }
        let group = Group::new("cpu")?;
        group.bound(QUOTA_US, QUOTA_PERIOD_US)?;
        group.join(pid)?;
        self.limits.add(&[self.tid], &format!("/proc/{pid}/cgroup"));
        Ok(Some(group))
    }

    fn watch(&mut self, injections: Vec<Injection>, count: u64) -> Seen {
        let tid = self.tid;
        let (events, lost) = (self.capture.events(), self.capture.lost());
        let mut seen = Seen {
            samples: Vec::new(),
            chains: Vec::new(),
            windows: Vec::new(),
            truths: Vec::new(),
            agent: Agent::from(clock::now_ns()),
            events: 0,
            lost: 0,
            preempt_rt: is_preempt_rt(),
        };
        // Wake-ups before the setup was complete are ignored.
        let begun_ns = clock::now_ns().max(self.beat.start_ns);
        let until_ns = begun_ns + (count + 1) * self.every * PERIOD_NS;
        let mut late: Vec<Sample> = Vec::new();
        // Above every ordinary thread of the other CPU: a recorder that waits for its turn while those
        // compile finds events overwritten. All culprits have started; they would inherit this.
        let is_beside = cpus().len() > 1 && sched::set_current(Policy::Fifo(1)).is_ok();
        loop {
            let ended = clock::now_ns() >= until_ns;
            let from = seen.samples.len();
            let fresh = self.probe.samples();
            let fresh = fresh.into_iter().filter(|sample| sample.due_ns > begun_ns);
            seen.samples.extend(fresh);
            self.capture.drain();
            seen.agent.look(clock::now_ns());
            self.limits.look(clock::now_ns());
            seen.windows.extend(self.windows(&mut late));
            for sample in &seen.samples[from..] {
                let chain = self.capture.chain(tid, sample.due_ns, sample.woken_ns);
                seen.chains.extend(chain);
                if sample.woken_ns > sample.due_ns + self.above_ns {
                    late.push(*sample);
                }
            }
            if ended {
                break;
            }
            std::thread::sleep(NAP);
        }
        if is_beside {
            let _ = sched::set_current(Policy::Other);
        }
        for injection in injections {
            seen.truths.extend(injection.end());
        }
        self.capture.drain();
        seen.agent.look(clock::now_ns());
        self.limits.look(clock::now_ns());
        seen.windows.extend(self.windows(&mut late));
        seen.events = self.capture.events() - events;
        seen.lost = self.capture.lost() - lost;
        seen
    }

    fn windows(&self, late: &mut Vec<Sample>) -> Vec<Window> {
        let tid = self.tid;
        let window = |sample: Sample| {
            let window = self.capture.window(tid, sample.due_ns, sample.woken_ns)?;
            let limits = self.limits.around(tid, sample.due_ns, sample.woken_ns);
            Some(Window { limits, ..window })
        };
        late.drain(..).filter_map(window).collect()
    }
}
