//! The JSON of rt-app: threads that run, sleep, wait for timers, hold mutexes and resume each other.
//!
//! A thread there is a loop of events; a task here waits for one thing and then executes a job. So each
//! `timer` or `suspend` begins a job, and where a thread has neither, each `sleep` does. What can't be
//! expressed so is refused by its keyword.

mod events;
mod jobs;
mod json;

use std::collections::BTreeMap;

use punctual_record::taskset::{
    Lock, LockProtocol, Means, TASKS, Task, TaskPolicy, TaskSet, Timer, Wake,
};

use crate::Read;
use crate::check::{Lines, TaskLines, check};
use crate::fault::Fault;
use crate::work::distance_ns;
use events::{Thread, integer, object, threads};
use jobs::{Jobs, Wait};
use json::{Kind, Member, Value, Word};

/// What `global` may say, without an effect here.
const IGNORED: &[&str] = &[
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "frag",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];

/// What `global` says.
#[derive(Default)]
struct Global {
    duration_ns: Option<u64>,
    policy: Option<(usize, String)>,
    inherit: bool,
}

pub(crate) fn read(text: &str, name: &str) -> Result<Read, Fault> {
    let root = json::parse(text)?;
    let members = object(&root, "the file")?;
    let mut global = Global::default();
    let mut notes = Vec::new();
    let mut described: Option<&Value> = None;
    for member in members {
        match member.name.as_str() {
            "global" => global = of_global(&member.value, &mut notes)?,
            "tasks" if described.is_none() => described = Some(&member.value),
            "resources" => notes.push(Fault::new(
                member.line,
                "resources: ignored: locks are made of the threads' own words",
            )),
            other => {
                let why = format!("'{other}': expected tasks, global or resources, once each");
                return Err(Fault::new(member.line, why));
            }
        }
    }
    let Some(described) = described else {
        return Err(Fault::new(1, "no tasks: expected \"tasks\" with a thread"));
    };
    let (policy_line, policy) = match &global.policy {
        Some((line, policy)) => (*line, policy.as_str()),
        None => (1, "SCHED_OTHER"),
    };
    let threads = threads(described, (policy_line, policy))?;
    let mut builder = Builder {
        set: TaskSet {
            name: name.to_owned(),
            duration_ns: global.duration_ns,
            ..TaskSet::default()
        },
        lines: Lines::default(),
        locks: BTreeMap::new(),
        protocol: match global.inherit {
            true => LockProtocol::Inherit,
            false => LockProtocol::Plain,
        },
        notes,
    };
    builder.build(&threads)?;
    check(&builder.set, &builder.lines)?;
    Ok(Read {
        set: builder.set,
        notes: builder.notes,
    })
}

/// What has no effect is noted.
fn of_global(value: &Value, notes: &mut Vec<Fault>) -> Result<Global, Fault> {
    let mut global = Global::default();
    for Member { line, name, value } in object(value, "global")? {
        match name.as_str() {
            "duration" => {
                let seconds = integer(value, "duration", -1..=315_360_000)?;
                let seconds = u64::try_from(seconds).ok().filter(|it| *it > 0);
                global.duration_ns = seconds.map(|it| it * 1_000_000_000);
            }
            "default_policy" => {
                let Kind::Text(policy) = &value.kind else {
                    return Err(Fault::new(*line, "default_policy: expected text"));
                };
                global.policy = Some((*line, policy.clone()));
            }
            "pi_enabled" => global.inherit = value.kind == Kind::Word(Word::True),
            ignored if IGNORED.contains(&ignored) => {
                if ignored == "calibration" {
                    let why = "calibration: ignored: the speed of run is measured at the start";
                    notes.push(Fault::new(*line, why));
                }
            }
            unknown => {
                let why = format!("global: unknown keyword '{unknown}'");
                return Err(Fault::new(*line, why));
            }
        }
    }
    Ok(global)
}

struct Builder {
    set: TaskSet,
    lines: Lines,
    locks: BTreeMap<String, usize>,
    protocol: LockProtocol,
    notes: Vec<Fault>,
}

impl Builder {
    fn build(&mut self, threads: &[Thread]) -> Result<(), Fault> {
        let jobs: Vec<Jobs> = threads
            .iter()
            .map(|thread| Jobs::of(thread, &mut |name, line| self.lock(name, line)))
            .collect::<Result<_, _>>()?;
        // The index of the first instance of each thread.
        let mut first = Vec::new();
        let mut count = 0;
        for thread in threads {
            first.push(count);
            count += thread.instances;
            if count > TASKS {
                let why = format!("too many threads: expected at most {TASKS}");
                return Err(Fault::new(thread.line, why));
            }
        }
        let mut longest = Some(0);
        for (index, (thread, jobs_of)) in threads.iter().zip(&jobs).enumerate() {
            let wake = match jobs_of.wait {
                Wait::Suspend => self.released(threads, &jobs, &first, index)?,
                Wait::Timer => self.timer(thread, jobs_of, Timer::Absolute)?,
                Wait::Sleep => self.timer(thread, jobs_of, Timer::Relative)?,
            };
            if jobs_of.wait != Wait::Suspend {
                let length = thread
                    .loops
                    .map(|loops| jobs_of.length_ns().saturating_mul(loops));
                longest = longest.zip(length).map(|(one, two)| one.max(two));
            }
            if thread.loops.is_some() {
                let why = format!(
                    "{}: its loops end in rt-app; here it repeats them until the set ends",
                    thread.name
                );
                self.notes.push(Fault::new(thread.line, why));
            }
            if jobs_of.wait == Wait::Sleep {
                let why = format!(
                    "{}: no timer: each of its jobs must end when the next one would begin if nothing delayed it",
                    thread.name
                );
                self.notes.push(Fault::new(jobs_of.line, why));
            }
            for instance in 0..thread.instances {
                let name = match thread.instances {
                    1 => thread.name.clone(),
                    _ => format!("{}-{instance}", thread.name),
                };
                self.add(thread, name, wake, jobs_of);
            }
        }
        for index in 0..self.set.tasks.len() {
            self.end_before_next_arrival(index);
        }
        self.nobody_is_missed(threads, &jobs)?;
        if self.set.duration_ns.is_none() {
            self.set.duration_ns = longest.filter(|ns| *ns > 0);
        }
        Ok(())
    }

    fn add(&mut self, thread: &Thread, name: String, wake: Wake, jobs: &Jobs) {
        self.lines.tasks.push(TaskLines {
            task: thread.line,
            wake: jobs.line,
            execution: thread.line,
        });
        self.set.tasks.push(Task {
            name,
            policy: thread.policy,
            cpus: thread.cpus.clone(),
            wake,
            deadline_ns: 0,
            jitter_ns: 0,
            execution_ns: None,
            phases: jobs.phases.clone(),
        });
    }

    /// Requires that each job ends before the next one arrives; of a loop that only sleeps, before that one would
    /// arrive if the job took no longer than its work says. A sleep is no period.
    fn end_before_next_arrival(&mut self, index: usize) {
        let Some((first, times)) = self.set.timer_of(index) else {
            return;
        };
        let each = first.phases.iter();
        let each = each.map(|phase| distance_ns(first, phase).saturating_mul(times));
        let each: Vec<u64> = each.collect();
        let least_ns = each.iter().copied().min().unwrap_or(0);
        let task = &mut self.set.tasks[index];
        task.deadline_ns = least_ns;
        if let Wake::Timer { .. } = task.wake {
            for (phase, own_ns) in task.phases.iter_mut().zip(each) {
                phase.deadline_ns = Some(own_ns).filter(|it| *it > least_ns);
            }
        }
    }

    fn lock(&mut self, name: &str, line: usize) -> usize {
        if let Some(known) = self.locks.get(name) {
            return *known;
        }
        let index = self.set.locks.len();
        self.locks.insert(name.to_owned(), index);
        self.lines.locks.push(line);
        self.set.locks.push(Lock {
            name: name.to_owned(),
            protocol: self.protocol,
        });
        index
    }

    fn timer(&self, thread: &Thread, jobs: &Jobs, timer: Timer) -> Result<Wake, Fault> {
        if let TaskPolicy::Deadline { .. } = thread.policy
            && thread.instances > 1
            && thread.delay_ns > 0
        {
            let why = format!("{}: delay with several instances", thread.name);
            return Err(Fault::new(thread.line, why));
        }
        Ok(Wake::Timer {
            timer,
            period_ns: jobs.period_ns,
            offset_ns: thread.delay_ns,
        })
    }

    /// Of a thread that suspends itself: who resumes it?
    fn released(
        &self,
        threads: &[Thread],
        jobs: &[Jobs],
        first: &[usize],
        index: usize,
    ) -> Result<Wake, Fault> {
        let (thread, own) = (&threads[index], &jobs[index]);
        let refuse = |why: String| Err(Fault::new(own.line, format!("{}: {why}", thread.name)));
        if thread.instances != 1 {
            return refuse("suspend in several instances: expected one".to_owned());
        }
        let name = own.suspends.as_deref().unwrap_or(&thread.name);
        let same = jobs.iter().zip(threads).filter(|(jobs, thread)| {
            jobs.wait == Wait::Suspend && jobs.suspends.as_deref().unwrap_or(&thread.name) == name
        });
        if same.count() > 1 {
            return refuse(format!("suspend '{name}' in several threads: expected one"));
        }
        let mut resumers = jobs
            .iter()
            .enumerate()
            .filter_map(|(other, jobs)| Some((other, *jobs.resumes.get(name)?)));
        let (Some((other, resumed)), None) = (resumers.next(), resumers.next()) else {
            return refuse(format!(
                "suspend '{name}': expected one thread with resume '{name}'"
            ));
        };
        let all = jobs[other].count;
        if threads[other].instances != 1 {
            return refuse(format!(
                "resume '{name}' in several instances of {}: expected one",
                threads[other].name
            ));
        }
        if resumed != all && resumed != 1 {
            return refuse(format!(
                "resume '{name}' in {resumed} of {all} jobs of {}: expected it in all, or in one",
                threads[other].name
            ));
        }
        Ok(Wake::After {
            task: first[other],
            every: u32::try_from(all / resumed).unwrap_or(u32::MAX),
            means: Means::Condvar,
        })
    }

    /// A resume of a name that no thread waits by has no effect there, and is likely an error.
    fn nobody_is_missed(&self, threads: &[Thread], jobs: &[Jobs]) -> Result<(), Fault> {
        let waits = |name: &str| {
            jobs.iter().zip(threads).any(|(jobs, thread)| {
                jobs.wait == Wait::Suspend
                    && jobs.suspends.as_deref().unwrap_or(&thread.name) == name
            })
        };
        for (jobs, thread) in jobs.iter().zip(threads) {
            if let Some(name) = jobs.resumes.keys().find(|name| !waits(name)) {
                let why = format!(
                    "{}: resume '{name}': expected a thread that suspends itself by this name",
                    thread.name
                );
                return Err(Fault::new(jobs.line, why));
            }
        }
        Ok(())
    }
}
