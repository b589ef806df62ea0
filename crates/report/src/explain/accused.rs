//! The threads that the bills name for a cause. A command acts on these, by number and start time: a
//! name is shared, also with the thread that was late.

use std::collections::BTreeMap;

use punctual_record::Run;
use punctual_record::explanation::{Ancestor, BillRow, Cause, Culprit, RowNote};
use punctual_record::tuning::ThreadSetting;

use super::fix::{MOST, tune};
use super::text::ancestor;

/// Threads that a sentence names.
const NAMES: usize = 3;

/// Who took the time of one cause.
pub(super) struct Accused<'r> {
    /// Those that lived when they were looked up, with their start, the dearest first.
    alive: Vec<(&'r Culprit, u64)>,
    /// All of them.
    all: Vec<&'r Culprit>,
    /// The rows in which the cause stands.
    rows: Vec<&'r BillRow>,
    /// The threads that were measured.
    measured: Vec<Option<u32>>,
    /// They are of those.
    are_measured: bool,
    /// What is measured started one of them: it is in its control group and unit, as a rule.
    are_started_by_measured: bool,
    /// These are of a program that goes on.
    is_watch: bool,
}

impl<'r> Accused<'r> {
    pub fn find(run: &'r Run, cause: &Cause) -> Self {
        let explanation = run.explanation.as_ref();
        let mut all = explanation.map_or_else(Vec::new, |it| it.culprits(cause));
        all.retain(|by| by.tid > 0);
        let rows = explanation.map_or_else(Vec::new, |it| it.rows(cause).collect());
        Self {
            rows,
            ..Self::among(run, all)
        }
    }

    /// Those who used up the time of real-time threads, of which others were throttled.
    pub fn users(run: &'r Run) -> Self {
        let bills = run.explanation.iter().flat_map(|it| &it.bills);
        let notes = bills.flat_map(|bill| &bill.rows).flat_map(|row| &row.notes);
        let users = notes.filter_map(|note| match note {
            RowNote::UsedUpBy { thread } if !thread.own => Some(&**thread),
            _ => None,
        });
        let mut all: Vec<&Culprit> = Vec::new();
        for user in users {
            let is_it = |it: &&Culprit| it.tid == user.tid && it.start == user.start;
            if !all.iter().any(is_it) {
                all.push(user);
            }
        }
        Self::among(run, all)
    }

    fn among(run: &'r Run, all: Vec<&'r Culprit>) -> Self {
        let threads = run.threads.iter().map(|it| u32::try_from(it.tid).ok());
        let programs = run.watch.iter().flat_map(|it| it.subject.pids());
        let measured: Vec<_> = threads.chain(programs.map(Some)).collect();
        let mut parents = all.iter().flat_map(|by| &by.parents);
        let are_started_by_measured =
            parents.any(|it| it.tid.is_some() && measured.contains(&it.tid));
        // No command is for a thread of what is measured.
        let lives = |by: &&'r Culprit| {
            let start = by.start.filter(|_| !by.ended && !by.is_of(run))?;
            Some((*by, start))
        };
        Self {
            alive: all.iter().filter_map(lives).take(MOST).collect(),
            measured,
            are_started_by_measured,
            are_measured: !all.is_empty() && all.iter().all(|by| by.is_of(run)),
            is_watch: run.watch.is_some(),
            rows: Vec::new(),
            all,
        }
    }

    /// Whether a command can name one of them: one lived when they were looked up.
    pub fn can_be_moved(&self) -> bool {
        !self.alive.is_empty()
    }

    /// Whether a thread is among them.
    pub fn has(&self, tid: u32) -> bool {
        self.all
            .iter()
            .any(|by| by.tid == tid || by.here == Some(tid))
    }

    /// Whether one of them is of a program, whatever its name looks like.
    pub fn are_programs(&self) -> bool {
        let command = |by: &&Culprit| by.command.as_deref().is_some_and(|it| !it.is_empty());
        self.all.iter().any(command)
    }

    /// Those whose names the rows have, beside the cause: who sent an interrupt.
    pub fn names(&self) -> String {
        let named = |by: &&Culprit| {
            let name = by.name.as_deref().filter(|name| !name.is_empty())?;
            Some(format!("{name} (TID {})", by.tid_here()))
        };
        let names: Vec<String> = self.all.iter().filter_map(named).take(NAMES).collect();
        names.join(", ")
    }

    /// The names of the threads that ran, as each row has it.
    pub fn each_name(&self) -> Vec<&str> {
        let tasks = self.rows.iter().filter_map(|row| row.cause.task());
        tasks.collect()
    }

    /// The softirq that they served for most of the time; none where the rows don't say which.
    pub fn softirq(&self) -> Option<u32> {
        let mut served: BTreeMap<u32, u64> = BTreeMap::new();
        for row in &self.rows {
            for note in &row.notes {
                if let RowNote::InSoftirq { number } = note {
                    let ns = served.entry(*number).or_insert(0);
                    *ns = ns.saturating_add(row.ns);
                }
            }
        }
        let most = served.into_iter().max_by_key(|(_, ns)| *ns);
        most.map(|(number, _)| number)
    }

    /// What gives each of them a value, as a command; nothing where none lived.
    fn command(&self, what: ThreadSetting, value: &dyn Fn(&Culprit) -> String) -> Option<String> {
        let each = |(by, start): &(&Culprit, u64)| {
            format!("{}={}", what.knob(by.tid_here(), Some(*start)), value(by))
        };
        let settings: Vec<String> = self.alive.iter().map(each).collect();
        (!settings.is_empty()).then(|| tune(&settings))
    }

    /// What gives their CPU to others, as a command and for good.
    pub fn moved(&self, cpus: &str) -> String {
        let lasting = self.lasting(
            &format!("CPUAffinity={cpus}"),
            &format!("taskset -c {cpus}"),
        );
        let ended = || self.moved_later(cpus, &lasting);
        let value = |_: &Culprit| cpus.to_owned();
        self.sentence(ThreadSetting::Affinity, &value, &lasting, ended)
    }

    /// What lowers their priority, as a command and for good; nothing for threads of the kernel that had
    /// ended.
    pub fn lowered(&self, priority: u32) -> String {
        // Each keeps its own policy.
        let is_rr = |by: &Culprit| by.policy == "SCHED_RR";
        let (policy, flag) = match self.all.iter().all(|by| is_rr(by)) && !self.all.is_empty() {
            true => ("rr", "-r"),
            false => ("fifo", "-f"),
        };
        let lasting = self.lasting(
            &format!("CPUSchedulingPolicy={policy} and CPUSchedulingPriority={priority}"),
            &format!("chrt {flag} {priority}"),
        );
        let value = |by: &Culprit| match is_rr(by) {
            true => format!("rr:{priority}"),
            false => format!("fifo:{priority}"),
        };
        self.sentence(ThreadSetting::Scheduling, &value, &lasting, || {
            lasting.clone()
        })
    }

    fn sentence(
        &self,
        what: ThreadSetting,
        value: &dyn Fn(&Culprit) -> String,
        lasting: &str,
        ended: impl Fn() -> String,
    ) -> String {
        match self.command(what, value) {
            // Its number ended with the run.
            _ if self.are_measured && !self.is_watch => {
                "one of this run's own threads: change it where they are set".to_owned()
            }
            _ if self.are_measured => {
                "a thread of the watched program: change it in the program itself".to_owned()
            }
            Some(command) if lasting.is_empty() => command,
            Some(command) => format!("{command} (for good: {lasting})"),
            None if self.all.is_empty() => "no bill that is kept names its threads".to_owned(),
            None => ended(),
        }
    }

    /// Where it is set so that it lasts: in the unit, or where the program is started. Nothing for
    /// threads of the kernel.
    fn lasting(&self, of_unit: &str, prefix: &str) -> String {
        if self.are_started_by_measured {
            return format!("your program started it: let it start it with {prefix}");
        }
        let mut units: Vec<String> = self.all.iter().filter_map(|by| unit(by)).collect();
        units.sort_unstable();
        units.dedup();
        let of_kernel = |by: &&Culprit| by.command.as_deref() == Some("");
        let mut parents = self.all.iter().filter_map(|by| parent(by));
        let parent = parents.find(|it| it.tid != Some(1) && !is_of_session(&it.name));
        match (&units[..], parent) {
            ([], _) if self.all.iter().any(of_kernel) => String::new(),
            ([], Some(parent)) if !self.can_be_moved() => {
                format!("let {} start it with {prefix}", ancestor(parent))
            }
            ([], _) => format!("start its program with {prefix}"),
            (units, _) => format!("{of_unit} in {}", units.join(", ")),
        }
    }

    /// What keeps the next ones of their kind off CPUs: in the unit, by the parent, which they inherit
    /// from, by the control group, or where the program is started.
    fn moved_later(&self, cpus: &str, lasting: &str) -> String {
        let parent = self.all.iter().find_map(|by| {
            let parent = parent(by)?;
            let is_free = parent.start.is_some() && !self.measured.contains(&parent.tid);
            // All that init or kthreadd starts is not to be moved with it.
            let is_alike = !starts_others(&parent.name);
            let tid = parent.tid.filter(|tid| *tid > 2 && is_free && is_alike)?;
            Some((parent, tid))
        });
        let groups = self.all.iter().filter_map(|by| by.group.as_ref());
        // punctual and what it measures are often of the user's sessions, too.
        let is_apart = |it: &&String| !it.starts_with("/user.slice") && !it.contains("/session-");
        let group = groups.into_iter().find(is_apart);
        let group = group.map(|group| group.replace('`', "'"));
        let how = match (parent, group) {
            _ if lasting.is_empty() => return "it had ended".to_owned(),
            _ if self.are_started_by_measured => lasting.to_owned(),
            _ if self.all.iter().any(|by| unit(by).is_some()) => lasting.to_owned(),
            (Some((parent, tid)), _) => format!(
                "move {}, and with it what it starts from then on, which keeps these CPUs: {} (for good: \
                 {lasting})",
                ancestor(parent),
                tune(&[format!(
                    "{}={cpus}",
                    ThreadSetting::Affinity.knob(tid, parent.start)
                )])
            ),
            (None, Some(group)) => {
                format!("set cpuset.cpus of its control group {group} to {cpus}, or {lasting}")
            }
            (None, None) => lasting.to_owned(),
        };
        format!("it had ended: {how}")
    }
}

/// Who started the process of a thread that is the whole of it: what creates one of several threads is
/// the process itself.
fn parent(by: &Culprit) -> Option<&Ancestor> {
    let parent = by.parents.first();
    parent.filter(|_| by.pid == Some(by.tid_here()))
}

/// Whether a name is that of a worker of the kernel, or of what a user types commands into: these start
/// no program with another one before it.
fn is_of_session(name: &str) -> bool {
    let shells = ["sh", "ash", "bash", "dash", "fish", "ksh", "zsh", "login"];
    name.starts_with("kworker/") || name.starts_with("sshd") || shells.contains(&name)
}

/// Whether a name is that of what starts programs of every kind: to move it confines them all.
fn starts_others(name: &str) -> bool {
    let all = [
        "containerd",
        "dockerd",
        "conmon",
        "podman",
        "crio",
        "tmux",
        "screen",
        "systemd",
        "NetworkManager",
        "cron",
        "kubelet",
    ];
    is_of_session(name) || all.iter().any(|begin| name.starts_with(begin))
}

/// The unit of systemd that a thread is of: not that of all that a user runs, nor one in a container.
fn unit(by: &Culprit) -> Option<String> {
    let group = by.group.as_deref()?;
    let of_user = || {
        let (_, below) = group.split_once("/user@")?;
        let (_, below) = below.split_once('/')?;
        let unit = below.rsplit('/').find(|part| part.ends_with(".service"))?;
        Some(format!("{unit} of that user's systemd (systemctl --user)"))
    };
    let of_system = || system_unit(group).map(str::to_owned);
    match group.starts_with("/user.slice/") {
        true => of_user(),
        false => of_system(),
    }
}

/// The service that a control group is of, where systemd of this machine made it.
pub(super) fn system_unit(group: &str) -> Option<&str> {
    let mut parts = group.split('/').filter(|part| !part.is_empty());
    let below_slices = parts.find(|part| !part.ends_with(".slice"))?;
    let is_unit = below_slices.ends_with(".service") && !below_slices.starts_with("user@");
    is_unit.then_some(below_slices)
}
