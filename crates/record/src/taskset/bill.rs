//! Who took the time of a job.

use serde::{Deserialize, Serialize};

use crate::explanation::{BillRow, Cause, Picture};
use crate::is_zero;

/// The bill of a job. Instants are CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobBill {
    /// Its arrival.
    pub arrival_ns: u64,
    /// Its release.
    pub released_ns: u64,
    /// When its thread ran.
    pub started_ns: u64,
    /// When it had done its work.
    pub ended_ns: u64,
    /// How much longer than the task's deadline its phase allows it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_ns: u64,
    /// Events that were lost meanwhile.
    pub lost: u64,
    /// Who took how much of the time from the arrival to the end, the dearest first.
    pub rows: Vec<BillRow>,
    /// What ran when on the CPUs of the set: only of the longest job of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

/// Time that a cause took of the late jobs of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobCause {
    /// The cause.
    pub cause: Cause,
    /// In how many late jobs.
    pub jobs: u64,
    /// Of all of them together.
    pub total_ns: u64,
}

/// Who took the time of the jobs of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobBills {
    /// Late jobs that have a bill.
    pub explained: u64,
    /// Late jobs whose events were lost, or that came too fast.
    pub unexplained: u64,
    /// What took the time of those with a bill, the dearest first.
    pub causes: Vec<JobCause>,
    /// The bills of the longest jobs, the longest first.
    pub worst: Vec<JobBill>,
}

impl JobBill {
    /// How long it executed, if that is more than its task's declared longest by more than what measuring adds.
    #[must_use]
    pub fn beyond_declared(&self, execution_ns: Option<u64>) -> Option<u64> {
        let declared_ns = execution_ns?;
        let own = self.rows.iter().filter(|row| row.cause == Cause::Work);
        let own_ns = own.fold(0_u64, |sum, row| sum.saturating_add(row.ns));
        let more = own_ns.saturating_sub(declared_ns);
        (more > (declared_ns / 20).max(Self::MEASURING_NS)).then_some(own_ns)
    }

    /// What measuring and calling add to a job's own work at most.
    const MEASURING_NS: u64 = 50_000;

    /// Joins the rows that took least, of each stage, where there are more than are kept: a job that waits for
    /// hundreds of tasks has a row for each of them.
    fn fold(&mut self) {
        if self.rows.len() <= Self::ROWS {
            return;
        }
        let (own, others) = (self.rows.split_off(Self::ROWS).into_iter())
            .partition::<Vec<_>, _>(|row| matches!(row.cause, Cause::Work | Cause::WakePath));
        let mut joined: Vec<BillRow> = Vec::new();
        for row in others {
            match joined.iter_mut().find(|it| it.stage == row.stage) {
                Some(known) => known.ns = known.ns.saturating_add(row.ns),
                None => joined.push(BillRow {
                    stage: row.stage,
                    cause: Cause::Other,
                    ns: row.ns,
                    stack: Vec::new(),
                    by: Vec::new(),
                    notes: Vec::new(),
                }),
            }
        }
        self.rows.extend(own.into_iter().chain(joined));
        self.rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
    }

    /// Rows that are kept, besides one for the others of each stage.
    const ROWS: usize = 64;

    /// From the arrival to the end.
    #[must_use]
    pub fn taken_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.arrival_ns)
    }

    /// The same as it counts against the task's deadline.
    #[must_use]
    pub fn response_ns(&self) -> u64 {
        self.taken_ns().saturating_sub(self.more_ns)
    }
}

impl JobBill {
    /// What took most of it, but the job's own work and the way to it.
    #[must_use]
    pub fn taken_by(&self) -> Option<&BillRow> {
        let own = |cause: &Cause| matches!(cause, Cause::Work | Cause::WakePath);
        self.rows.iter().find(|row| !own(&row.cause))
    }
}

impl JobBills {
    /// Bills that are kept of a task.
    pub const WORST: usize = 4;
    /// Causes that are kept of a task; what they have no room for is [`Cause::Other`].
    pub const CAUSES: usize = 64;

    /// Whether a bill of this length would be kept.
    #[must_use]
    pub fn would_keep(&self, response_ns: u64) -> bool {
        let least = self
            .worst
            .last()
            .filter(|_| self.worst.len() >= Self::WORST);
        least.is_none_or(|least| response_ns > least.response_ns())
    }

    /// Whether a bill of this length would be that of the longest job: the one whose picture is kept.
    #[must_use]
    pub fn would_be_first(&self, response_ns: u64) -> bool {
        let first = self.worst.first();
        first.is_none_or(|first| response_ns > first.response_ns())
    }

    /// Counts a bill, and keeps it while it is among the longest.
    pub fn add(&mut self, mut bill: JobBill, late: bool) {
        if late {
            self.explained += 1;
            let mut counted: Vec<Cause> = Vec::new();
            for row in &bill.rows {
                let cause = row.cause.general();
                let known = self.causes.iter().position(|it| it.cause == cause);
                let index = known.unwrap_or_else(|| self.room_for(cause));
                let entry = &mut self.causes[index];
                entry.total_ns = entry.total_ns.saturating_add(row.ns);
                if !counted.contains(&entry.cause) {
                    entry.jobs += 1;
                    counted.push(entry.cause.clone());
                }
            }
        }
        let response_ns = bill.response_ns();
        if self.would_keep(response_ns) {
            bill.fold();
            let at = self
                .worst
                .partition_point(|it| it.response_ns() >= response_ns);
            self.worst.insert(at, bill);
            self.worst.truncate(Self::WORST);
            for bill in self.worst.iter_mut().skip(1) {
                bill.picture = None;
            }
        }
    }

    fn room_for(&mut self, cause: Cause) -> usize {
        let cause = match self.causes.len() + 1 < Self::CAUSES {
            true => cause,
            false => Cause::Other,
        };
        let known = self.causes.iter().position(|it| it.cause == cause);
        known.unwrap_or_else(|| {
            self.causes.push(JobCause {
                cause,
                jobs: 0,
                total_ns: 0,
            });
            self.causes.len() - 1
        })
    }

    /// The same with the dearest causes first.
    #[must_use]
    pub fn ranked(mut self) -> Self {
        self.causes.sort_by(|a, b| {
            let order = b.total_ns.cmp(&a.total_ns);
            order.then_with(|| a.cause.cmp(&b.cause))
        });
        self
    }
}
