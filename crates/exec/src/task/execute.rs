//! The loop of a task: wait, work, tell.

use std::sync::Arc;

use punctual_record::taskset::Wake;
use punctual_rt::clock;
use punctual_rt::memory::Disturbances;
use punctual_rt::sys::time::clock_now;

use super::{Ended, Fault, Outcome, Own, PreparedTask, timer_of};
use crate::call::Used;
use crate::chain::Origin;
use crate::end::End;
use crate::job::{Job, Sink};
use crate::leave::Way;
use crate::release::{Release, Released};
use crate::sys::signal;
use crate::timer::TaskTimer;

/// A task at work in its thread.
pub(super) struct Executor<S> {
    task: PreparedTask,
    timer: Option<TaskTimer>,
    end: Arc<End>,
    way: Arc<Way>,
    sink: S,
    /// Jobs that were executed.
    jobs: u64,
    /// Jobs that were never started.
    dropped: u64,
    /// When the job before, and what it set off, was over.
    over_ns: u64,
    /// The phase, and how many jobs of it are left.
    phase: (usize, u64),
    /// The state of the generator of jitter.
    random: u64,
}

/// When the next job is due.
struct Due {
    arrival_ns: u64,
    released_ns: u64,
    /// The job of the task before it that released it.
    by: u64,
}

impl<S: Sink> Executor<S> {
    pub fn new(task: PreparedTask, own: &Own, sink: S) -> Self {
        let jobs = task.task.phases.first().map_or(1, |phase| phase.jobs);
        // The same set has the same jitter in each run.
        let seed = task.task.name.bytes();
        let random = seed.fold(0x9e37_79b9_7f4a_7c15, |seed: u64, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        Self {
            task,
            timer: None,
            end: Arc::clone(&own.end),
            way: Arc::clone(&own.way),
            sink,
            jobs: 0,
            dropped: 0,
            over_ns: 0,
            phase: (0, jobs),
            random,
        }
    }

    /// Opens what it waits by, and does all its work once.
    pub fn set_up(&mut self) -> Result<(), Fault> {
        self.timer = timer_of(&self.task.task).map_err(Fault::Wait)?;
        if self.timer.is_some() {
            signal::become_interruptible().map_err(Fault::Wait)?;
        }
        if let Some(released) = &self.task.released {
            released.belong_to_caller().map_err(Fault::Wait)?;
        }
        for (phase, work) in self.task.work.iter_mut().enumerate() {
            work.warm_up().map_err(|step| Fault::Step(phase, step))?;
        }
        Ok(())
    }

    /// Executes jobs until the end, and says what that took.
    pub fn observed(mut self, start_ns: u64, own: &Own) -> Outcome {
        let elsewhere = self.used();
        let before = Disturbances::of_this_thread();
        let cpu_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
        let done = match self.task.task.wake {
            Wake::Timer {
                period_ns,
                offset_ns,
                ..
            } => self.by_timer(start_ns.saturating_add(offset_ns), period_ns),
            Wake::After { .. } => self.by_release(),
        };
        let cpu_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(cpu_ns);
        let after = Disturbances::of_this_thread();
        let disturbances = before.ok().zip(after.ok());
        let elsewhere = self.used().since(&elsewhere);
        if done.is_err() {
            // The others would wait for it, or go on without it.
            self.end.now();
            own.leave.now();
        }
        if self.task.released.is_none() {
            own.leave.wait(&own.way);
        }
        for (releaser, _) in &mut self.task.releases {
            // The thread may have ended by a fault of its own.
            let _ = releaser.end();
        }
        Outcome {
            ended: done.map_or_else(Ended::Failed, |()| Ended::Completed),
            jobs: self.jobs,
            dropped: self.dropped,
            most_pending: self.task.released.as_ref().map_or(0, Released::most),
            disturbances: disturbances.map(|(before, after)| {
                let here = Used {
                    cpu_ns,
                    disturbances: after.since(&before),
                };
                here.and(&elsewhere).disturbances
            }),
            cpu_ns: cpu_ns.saturating_add(elsewhere.cpu_ns),
        }
    }

    /// What its code of the user's own has taken on other threads.
    fn used(&self) -> Used {
        let phases = self.task.work.iter();
        phases.fold(Used::default(), |sum, work| sum.and(&work.used()))
    }

    fn by_timer(&mut self, first_ns: u64, period_ns: u64) -> Result<(), Fault> {
        let Some(mut timer) = self.timer.take() else {
            return Ok(());
        };
        let done = self.until_end(&mut timer, first_ns, period_ns);
        // It is closed when the time of the jobs was read.
        self.timer = Some(timer);
        done
    }

    fn until_end(
        &mut self,
        timer: &mut TaskTimer,
        first_ns: u64,
        of_task_ns: u64,
    ) -> Result<(), Fault> {
        let mut arrival_ns = first_ns;
        loop {
            if self.end.is_reached(arrival_ns) {
                return Ok(());
            }
            self.way.waits_for(arrival_ns, self.due_ns(arrival_ns));
            let released_ns = arrival_ns.saturating_add(self.jitter());
            let is_off = || self.end.is_reached(arrival_ns);
            let waited = timer.wait_until(released_ns, is_off);
            waited.map_err(Fault::Wait)?;
            if self.end.is_reached(arrival_ns) {
                // The end has become earlier meanwhile.
                return Ok(());
            }
            let period_ns = self.period_ns(of_task_ns);
            let due = Due {
                arrival_ns,
                released_ns,
                by: 0,
            };
            let (mut job, after_ns) = self.execute(&due)?;
            if matches!(timer, TaskTimer::Relative) {
                // It sleeps for its period after each job, as naive programs do.
                arrival_ns = after_ns.saturating_add(period_ns);
            } else {
                arrival_ns = arrival_ns.saturating_add(period_ns);
                (job.skipped, arrival_ns) = self.left_out(job.ended_ns, arrival_ns, of_task_ns);
            }
            self.sink.job(job);
        }
    }

    /// The jobs from an arrival on whose deadline had passed by an instant: how many, and when the next one arrives.
    fn left_out(&mut self, by_ns: u64, mut arrival_ns: u64, of_task_ns: u64) -> (u64, u64) {
        if self.task.task.phases.len() == 1 {
            let period_ns = self.period_ns(of_task_ns).max(1);
            let late_ns = by_ns.saturating_sub(self.due_ns(arrival_ns));
            let left_out = late_ns.div_ceil(period_ns);
            let left_out = left_out.min(self.end.left(arrival_ns, period_ns));
            return (
                left_out,
                arrival_ns.saturating_add(left_out.saturating_mul(period_ns)),
            );
        }
        let mut left_out = 0;
        while by_ns > self.due_ns(arrival_ns) && !self.end.is_reached(arrival_ns) {
            left_out += 1;
            arrival_ns = arrival_ns.saturating_add(self.period_ns(of_task_ns).max(1));
            self.next_phase();
        }
        (left_out, arrival_ns)
    }

    /// The deadline of the next job if it arrives at an instant.
    fn due_ns(&self, arrival_ns: u64) -> u64 {
        let task = &self.task.task;
        let allowed_ns = task.deadline_ns.saturating_add(task.more_ns(self.phase.0));
        arrival_ns.saturating_add(allowed_ns)
    }

    fn by_release(&mut self) -> Result<(), Fault> {
        let Some(mut released) = self.task.released.take() else {
            return Ok(());
        };
        let done = self.until_released_no_more(&mut released);
        self.task.released = Some(released);
        done
    }

    fn until_released_no_more(&mut self, released: &mut Released) -> Result<(), Fault> {
        let mut last_ns = 0;
        loop {
            let release = released.wait().map_err(Fault::Wait)?;
            let refused = released.take_refused();
            if refused > 0 {
                let at_ns = release.map_or(last_ns, |release| release.arrival_ns);
                self.dropped += refused;
                self.sink.dropped(at_ns, refused);
            }
            let Some(release) = release else {
                return Ok(());
            };
            last_ns = release.arrival_ns;
            if self.end.is_reached(self.over_ns) && self.over_ns > self.due_ns(last_ns) {
                // All that wait may take far longer than the set, and none can be in time any more.
                self.sink.dropped(last_ns, 1);
                self.next_phase();
                continue;
            }
            self.way.waits_for(last_ns, self.due_ns(last_ns));
            let released_ns = release.released_ns.saturating_add(self.jitter());
            if released_ns > release.released_ns {
                let waited = TaskTimer::Absolute.wait_until(released_ns, || false);
                waited.map_err(Fault::Wait)?;
            }
            let due = Due {
                arrival_ns: release.arrival_ns,
                released_ns,
                by: release.job,
            };
            let (job, _) = self.execute(&due)?;
            self.sink.job(job);
        }
    }

    /// One job, and what it sets off; also returns the instant after that.
    #[inline]
    fn execute(&mut self, due: &Due) -> Result<(Job, u64), Fault> {
        let started_ns = clock::now_ns();
        let number = self.jobs;
        let own = Origin {
            job: number,
            arrival_ns: due.arrival_ns,
            read_ns: started_ns,
        };
        for link in &mut self.task.links {
            link.begin(own, due.by);
        }
        let phase = self.phase.0;
        self.task.work[phase]
            .job()
            .map_err(|step| Fault::Step(phase, step))?;
        let ended_ns = clock::now_ns();
        self.way.has_ended();
        for link in &mut self.task.links {
            if let Some(passed) = link.end(number, ended_ns) {
                self.sink.passed(passed);
            }
        }
        self.jobs += 1;
        let mut after_ns = ended_ns;
        for (releaser, every) in &mut self.task.releases {
            if self.jobs.is_multiple_of(u64::from(*every)) {
                // Each is released when it is released: the one before it took a system call.
                let release = Release {
                    arrival_ns: due.arrival_ns,
                    released_ns: after_ns,
                    job: number,
                };
                releaser.release(release).map_err(Fault::Release)?;
                after_ns = clock::now_ns();
            }
        }
        let more_ns = self.task.task.more_ns(phase);
        self.next_phase();
        let job = Job {
            arrival_ns: due.arrival_ns,
            released_ns: due.released_ns,
            started_ns,
            ended_ns,
            more_ns,
            waited: self.over_ns < due.released_ns,
            skipped: 0,
        };
        self.over_ns = after_ns;
        Ok((job, after_ns))
    }

    /// The distance to the next arrival.
    fn period_ns(&self, of_task: u64) -> u64 {
        let phase = self.task.task.phases.get(self.phase.0);
        phase.and_then(|phase| phase.period_ns).unwrap_or(of_task)
    }

    #[inline]
    fn next_phase(&mut self) {
        self.phase.1 -= 1;
        if self.phase.1 == 0 {
            let phases = &self.task.task.phases;
            let next = (self.phase.0 + 1) % phases.len();
            self.phase = (next, phases[next].jobs);
        }
    }

    /// How much later than its arrival, or than the end of the job that releases it, the next job is released.
    #[inline]
    fn jitter(&mut self) -> u64 {
        match self.task.task.jitter_ns {
            0 => 0,
            most => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                self.random % (most + 1)
            }
        }
    }
}
