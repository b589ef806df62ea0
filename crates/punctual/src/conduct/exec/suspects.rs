//! Sends late jobs, and the longest so far, to the thread that explains them.

use punctual_rt::ring::Consumer;

use crate::conduct::explain::{JobFeed, JobSeen};
use crate::probe::collector::SampleSink;
use crate::probe::cycle::Sample;
use punctual_exec::Job;
use punctual_record::taskset::TaskSet;
use punctual_trace::attribute::JobInstants;

/// A sink that has nothing to do with samples: it is asked whenever they are collected, at the
/// instants at which the explaining thread can still see what happened.
pub struct Suspects {
    tasks: Vec<(Consumer<Job>, u64)>,
    feed: JobFeed,
}

impl Suspects {
    pub fn new(set: &TaskSet, jobs: Vec<Consumer<Job>>, feed: JobFeed) -> Self {
        let deadlines = set.tasks.iter().map(|task| task.deadline_ns);
        Self {
            tasks: jobs.into_iter().zip(deadlines).collect(),
            feed,
        }
    }
}

impl SampleSink for Suspects {
    fn take(&mut self, _: usize, _: i32, _: &[Sample]) {}

    fn collected(&mut self) {
        let mut seen = Vec::new();
        for (task, (jobs, deadline_ns)) in self.tasks.iter_mut().enumerate() {
            jobs.drain(|job| {
                seen.push(JobSeen {
                    task,
                    at: JobInstants {
                        arrival_ns: job.arrival_ns,
                        released_ns: job.released_ns,
                        started_ns: job.started_ns,
                        ended_ns: job.ended_ns,
                        more_ns: job.more_ns,
                        waited: job.waited,
                    },
                    late: job.response_ns() > *deadline_ns,
                });
            });
        }
        self.feed.send(seen);
    }
}
