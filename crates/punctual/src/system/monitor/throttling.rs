//! Throttling of real-time threads, from the kernel's accounts: how long each has run, and how long
//! a probe was ready and did not run.
//!
//! The scheduler's own `rt_throttled` is only in debugfs, in a file that takes locks of
//! every CPU while it is printed: reading it would disturb the measurement.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use punctual_rt::sys::task::scheduling;

use super::Monitored;
use punctual_machine::root::{Reader, Root, decimal};
use punctual_machine::survey::stolen::{self, Account};
use punctual_machine::survey::thread::Policy;
use punctual_machine::survey::{cgroup, online};
use punctual_record::event::{Event, Happening, RealTimeBound};
use punctual_record::proc_stat::Stat;

mod quota;
mod window;

use quota::Quota;
use window::{Budget, Look, Part};

/// The shortest and the longest interval between readings of the accounts.
const LOOKS: [u64; 2] = [50_000_000, 250_000_000];
/// Looks in a window: a period plus one look.
const PARTS: u64 = 4;
/// The shortest interval between searches for real-time threads; a search takes this share of
/// the time at most.
const SCAN_EVERY_NS: u64 = 1_000_000_000;
const SCAN_SHARE: u64 = 100;
/// The number of threads that are followed.
const TASKS: usize = 1024;
/// A thread that ran for less than this since the last look is not located.
const NOTABLE_NS: u64 = 1_000_000;
/// The default of a server for ordinary threads whose settings can't be read.
const SERVER_NS: (u64, u64) = (50_000_000, 1_000_000_000);

/// A thread whose time is followed.
#[derive(Debug, Clone)]
struct Task {
    priority: u32,
    deadline: bool,
    group: bool,
    /// Its CPU, if it may run on only one.
    cpu: Option<usize>,
    /// The CPU where it ran at the last look.
    last_cpu: Option<usize>,
    ran_ns: u64,
}

impl Task {
    /// Adds the time that it ran since the last look to the part of the probed CPU `here`, whose
    /// lowest probe has this priority. How much of it was on the previous CPU is not known: it
    /// counts against the budget of neither CPU, and on both a probe may have waited for it.
    fn charge(&self, since_ns: u64, now_on: usize, here: usize, lowest: u32, part: &mut Part) {
        let came_from = self.last_cpu.filter(|last| *last != now_on);
        if here != now_on && Some(here) != came_from {
            return;
        }
        if !self.deadline && came_from.is_none() {
            part.rt_ns += since_ns;
            part.group_ns += if self.group { since_ns } else { 0 };
        }
        if self.deadline || self.priority >= lowest {
            part.above_ns += since_ns;
        }
    }
}

/// The accounts of a probe.
#[derive(Debug, Clone, Copy, Default)]
struct ProbeAccount {
    ran_ns: u64,
    waited_ns: u64,
}

/// Follows the accounts during a run.
#[derive(Debug)]
pub(super) struct Throttling {
    root: Root,
    probes: Vec<Monitored>,
    budgets: Vec<Budget>,
    quotas: Vec<Quota>,
    /// The file that lists the threads of our group.
    group_tasks: Option<String>,
    tasks: BTreeMap<i32, Task>,
    accounts: BTreeMap<i32, ProbeAccount>,
    /// The accounts of CPUs.
    cpus: BTreeMap<usize, Account>,
    looks: Vec<Look>,
    last: Instant,
    last_scan: Instant,
    next_scan: Instant,
    told: BTreeSet<usize>,
}

impl Throttling {
    /// Reads the accounts for the first time.
    pub(super) fn start(root: &Root, probes: &[Monitored]) -> Self {
        let mut reader = Reader::new(root);
        let groups = cgroup::read(&mut reader);
        let mut quotas = Vec::new();
        for limit in &groups.limits {
            let file = limit.split(" = ").next().unwrap_or("");
            let directory = ["/cpu.max", "/cpu.cfs_quota_us"]
                .iter()
                .find_map(|name| file.strip_suffix(name));
            if let Some(directory) = directory {
                quotas.extend(Quota::begin(root, directory));
            }
        }
        // At the root of the hierarchy the global budget applies.
        let below = groups.paths.iter().any(|path| {
            let controllers = path.split(':').next().unwrap_or("");
            controllers.split(',').any(|name| name == "cpu")
        });
        let group = groups.rt_group.filter(|_| below);
        let group_tasks = group
            .as_ref()
            .and_then(|(_, file)| Some(format!("{}/tasks", file.rsplit_once('/')?.0)));
        let now = Instant::now();
        // Only real-time threads are throttled, and the search for others takes time that a
        // probe without a real-time priority would wait for.
        let is_real_time = |probe: &Monitored| {
            policy_of(probe.tid).is_some_and(|(policy, _)| policy.is_real_time())
        };
        let budgets = if probes.iter().any(is_real_time) {
            budgets(&mut reader, group.as_ref(), probes)
        } else {
            Vec::new()
        };
        let mut throttling = Self {
            budgets,
            root: root.clone(),
            probes: probes.to_vec(),
            quotas,
            group_tasks,
            tasks: BTreeMap::new(),
            accounts: BTreeMap::new(),
            cpus: stolen::accounts(root).unwrap_or_default(),
            looks: Vec::new(),
            last: now,
            last_scan: now,
            next_scan: now,
            told: BTreeSet::new(),
        };
        if throttling.is_live() {
            throttling.scan(None);
            throttling.read_probes();
        }
        throttling
    }

    fn is_live(&self) -> bool {
        self.root.is_live() && !self.budgets.is_empty()
    }

    /// The interval between looks.
    pub(super) fn every(&self) -> Duration {
        let shortest = self.budgets.iter().map(|budget| budget.period_ns).min();
        let [least, most] = LOOKS;
        Duration::from_nanos((shortest.unwrap_or(most) / PARTS).clamp(least, most))
    }

    /// Looks again.
    pub(super) fn look(&mut self, at_ns: u64) -> Vec<Event> {
        if !self.is_live() {
            return Vec::new();
        }
        let now = Instant::now();
        let since = now.duration_since(self.last);
        if since < Duration::from_millis(10) {
            return Vec::new();
        }
        let length_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.last = now;
        if now >= self.next_scan {
            let since = now.duration_since(self.last_scan);
            self.scan(Some(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)));
            self.last_scan = now;
            let took = now.elapsed();
            let rest = took.saturating_mul(SCAN_SHARE as u32);
            self.next_scan = now + rest.max(Duration::from_nanos(SCAN_EVERY_NS));
        }
        let mut look = Look {
            length_ns,
            cpus: self.read_probes(),
        };
        self.read_tasks(&mut look.cpus);
        let accounts = stolen::accounts(&self.root).unwrap_or_default();
        for (cpu, part) in &mut look.cpus {
            let (before, after) = (self.cpus.get(cpu), accounts.get(cpu));
            if let (Some(before), Some(after)) = (before, after) {
                let accounted_ns = after.all_ns.saturating_sub(before.all_ns);
                part.stolen_ns = after.stolen_ns.saturating_sub(before.stolen_ns);
                part.pending_ns = window::pending_ns(length_ns, accounted_ns);
            }
        }
        self.cpus = accounts;
        self.looks.push(look);
        self.judge(at_ns)
    }

    /// Evaluates the looks of a window, once for each CPU.
    fn judge(&mut self, at_ns: u64) -> Vec<Event> {
        let longest = self.budgets.iter().map(|budget| budget.period_ns).max();
        let every_ns = u64::try_from(self.every().as_nanos()).unwrap_or(u64::MAX);
        let keep_ns = longest.unwrap_or(0).saturating_add(every_ns);
        let ahead = window::ahead(&self.looks, keep_ns);
        self.looks.drain(..ahead);
        let cpus: BTreeSet<usize> = self.probes.iter().map(|probe| probe.cpu).collect();
        let mut events = Vec::new();
        for cpu in cpus {
            if self.told.contains(&cpu) {
                continue;
            }
            let found = self
                .budgets
                .iter()
                .find_map(|budget| window::throttled(&self.looks, budget, cpu));
            if let Some(seen) = found {
                self.told.insert(cpu);
                events.push(Event::invalidating(at_ns, Happening::Throttled { seen }));
            }
        }
        events
    }

    /// Updates the events of a run with what the quotas of control groups delayed since its
    /// start: one event for each quota, whose figures grow.
    pub(super) fn quotas(&mut self, at_ns: u64, events: &mut Vec<Event>) {
        for quota in &mut self.quotas {
            quota.look(&self.root, at_ns, events);
        }
    }

    /// Searches for real-time threads that may run on a probed CPU. `since_ns` is the time since
    /// the last search. A thread with less CPU time than that may be new, so all of
    /// its time counts; any other became a real-time thread, and counts from now on.
    fn scan(&mut self, since_ns: Option<u64>) {
        let own = std::process::id();
        let probed: BTreeSet<usize> = self.probes.iter().map(|probe| probe.cpu).collect();
        let group: BTreeSet<i32> = self
            .group_tasks
            .as_ref()
            .and_then(|file| self.root.text(file).ok())
            .map(|text| text.lines().filter_map(decimal::<i32>).collect())
            .unwrap_or_default();
        let mut found = BTreeMap::new();
        let processes = self.root.names("/proc").unwrap_or_default();
        for process in processes.iter().filter_map(|name| decimal::<u32>(name)) {
            if process == own {
                continue;
            }
            for thread in self.root.numbered(&format!("/proc/{process}/task"), "") {
                let Some(tid) = i32::try_from(thread).ok().filter(|_| found.len() < TASKS) else {
                    continue;
                };
                let Some((policy, priority)) = policy_of(tid) else {
                    continue;
                };
                if !policy.is_real_time() {
                    continue;
                }
                let allowed = punctual_rt::affinity::get(tid).unwrap_or_default();
                if !allowed.iter().any(|cpu| probed.contains(cpu)) {
                    continue;
                }
                let Some((ran_ns, _)) = schedstat(&self.root, tid) else {
                    continue;
                };
                let known = self.tasks.get(&tid);
                let new_ns = match since_ns {
                    Some(since_ns) if ran_ns <= since_ns => 0,
                    _ => ran_ns,
                };
                let task = Task {
                    priority,
                    deadline: policy == Policy::Deadline,
                    group: group.contains(&tid),
                    cpu: (allowed.len() == 1).then(|| allowed[0]),
                    last_cpu: known.and_then(|task| task.last_cpu),
                    ran_ns: known.map_or(new_ns, |task| task.ran_ns),
                };
                found.insert(tid, task);
            }
        }
        self.tasks = found;
    }

    /// How long the probes ran and waited since the last look.
    fn read_probes(&mut self) -> BTreeMap<usize, Part> {
        let mut cpus: BTreeMap<usize, Part> = BTreeMap::new();
        for probe in &self.probes {
            let Some((ran_ns, waited_ns)) = schedstat(&self.root, probe.tid) else {
                continue;
            };
            let real_time = policy_of(probe.tid)
                .is_some_and(|(policy, _)| matches!(policy, Policy::Fifo | Policy::RoundRobin));
            let now = ProbeAccount { ran_ns, waited_ns };
            let before = self.accounts.insert(probe.tid, now).unwrap_or(now);
            let part = cpus.entry(probe.cpu).or_default();
            let ran_ns = ran_ns.saturating_sub(before.ran_ns);
            if real_time {
                part.real_time = true;
                part.rt_ns += ran_ns;
                part.group_ns += ran_ns;
                // Of several probes on a CPU one waits for another: the longest wait counts,
                // and the time that the others ran counts at their priority.
                let waited_ns = waited_ns.saturating_sub(before.waited_ns);
                if waited_ns >= part.waited_ns {
                    part.waited_ns = waited_ns;
                }
            }
        }
        for (cpu, part) in &mut cpus {
            let here = self.probes.iter().filter(|probe| probe.cpu == *cpu);
            if here.count() > 1 {
                part.above_ns += part.rt_ns;
            }
        }
        cpus
    }

    /// Adds the time that other real-time threads ran since the last look.
    fn read_tasks(&mut self, cpus: &mut BTreeMap<usize, Part>) {
        let lowest: BTreeMap<usize, u32> = self
            .probes
            .iter()
            .filter_map(|probe| Some((probe.cpu, policy_of(probe.tid)?.1)))
            .collect();
        let root = &self.root;
        for (tid, task) in &mut self.tasks {
            let Some((ran_ns, _)) = schedstat(root, *tid) else {
                continue;
            };
            let since_ns = ran_ns.saturating_sub(task.ran_ns);
            task.ran_ns = ran_ns;
            if since_ns < NOTABLE_NS {
                continue;
            }
            let Some(cpu) = task.cpu.or_else(|| last_cpu(root, *tid)) else {
                continue;
            };
            for (here, part) in &mut *cpus {
                let lowest = lowest.get(here).copied().unwrap_or(0);
                task.charge(since_ns, cpu, *here, lowest, part);
            }
            task.last_cpu = Some(cpu);
        }
    }
}

/// The limits of real-time threads here.
fn budgets(
    reader: &mut Reader<'_>,
    group: Option<&(i64, String)>,
    probes: &[Monitored],
) -> Vec<Budget> {
    let mut budgets = Vec::new();
    let positive = |us: i64| u64::try_from(us).ok().map(|us| us.saturating_mul(1000));
    let mut add = |runtime: Option<i64>, period: Option<i64>, bound| {
        let (Some(runtime_ns), Some(period_ns)) =
            (runtime.and_then(positive), period.and_then(positive))
        else {
            return;
        };
        if runtime_ns < period_ns {
            budgets.push(Budget {
                runtime_ns,
                period_ns,
                bound,
            });
        }
    };
    if let Some((runtime, file)) = group {
        let period = file.replace("rt_runtime_us", "rt_period_us");
        add(
            Some(*runtime),
            reader.number(&period),
            RealTimeBound::Group { file: file.clone() },
        );
    }
    add(
        reader.number("/proc/sys/kernel/sched_rt_runtime_us"),
        reader.number("/proc/sys/kernel/sched_rt_period_us"),
        RealTimeBound::Machine,
    );
    if let Some((runtime_ns, period_ns)) = fair_server(reader, probes)
        && runtime_ns > 0
        && runtime_ns < period_ns
    {
        budgets.push(Budget {
            runtime_ns: period_ns - runtime_ns,
            period_ns,
            bound: RealTimeBound::FairServer,
        });
    }
    budgets
}

/// The runtime of the server for ordinary threads in each period, if the kernel has one.
fn fair_server(reader: &mut Reader<'_>, probes: &[Monitored]) -> Option<(u64, u64)> {
    let release = reader.optional("/proc/sys/kernel/osrelease")?;
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next()?, numbers.next()?);
    if version < (6, 12) {
        return None;
    }
    let cpu = probes.first().map_or_else(
        || online(reader.root).first().copied().unwrap_or(0),
        |probe| probe.cpu,
    );
    let directory = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}");
    let number = |name: &str| {
        let text = reader.root.text(&format!("{directory}/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    match (number("runtime"), number("period")) {
        (Some(runtime_ns), Some(period_ns)) => Some((runtime_ns, period_ns)),
        _ => Some(SERVER_NS),
    }
}

fn policy_of(tid: i32) -> Option<(Policy, u32)> {
    let attributes = scheduling(tid).ok()?;
    Some((Policy::from_number(attributes.policy), attributes.priority))
}

/// How long a thread has run, and how long it was ready without running, since it started.
fn schedstat(root: &Root, tid: i32) -> Option<(u64, u64)> {
    let text = root.text(&format!("/proc/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The CPU where a thread ran last.
fn last_cpu(root: &Root, tid: i32) -> Option<usize> {
    let line = root.text(&format!("/proc/{tid}/stat")).ok()?;
    usize::try_from(Stat::parse(&line)?.count(39)?).ok()
}

#[cfg(test)]
mod tests;
