//! What the kernel admits to `SCHED_DEADLINE`, and what can meet its deadlines: not the same.
//!
//! The kernel checks each reservation (`__checkparam_dl`) and that the sum of runtime / period stays
//! below its limit times the CPUs of the root domain (`__dl_overflow`, kernel/sched/deadline.c). The
//! sum says nothing about deadlines shorter than periods, and on several CPUs not even with
//! deadlines at the period: there it bounds the lateness and no more (Devi, Anderson 2005).
//!
//! A task that may not use all CPUs of its root domain is refused with `EPERM`, which isn't modelled:
//! one CPU of its own needs an exclusive cpuset.

use crate::curve::Curve;
use crate::model::MAX_NS;
use crate::steps::Work;

/// The parameters of `sched_setattr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// `sched_runtime`.
    pub runtime_ns: u64,
    /// `sched_deadline`.
    pub deadline_ns: u64,
    /// `sched_period`; 0 stands for the deadline.
    pub period_ns: u64,
}

/// The kernel's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPUs of the root domain, all of full capacity, at least 1.
    pub cpus: u32,
    /// `kernel.sched_rt_runtime_us`; none where it is -1: all is admitted.
    pub rt_runtime_us: Option<u64>,
    /// `kernel.sched_rt_period_us`, at least 1.
    pub rt_period_us: u64,
    /// `kernel.sched_deadline_period_min_us`.
    pub period_min_us: u64,
    /// `kernel.sched_deadline_period_max_us`.
    pub period_max_us: u64,
    /// What the fair server of each CPU has reserved (Linux 6.12): runtime and period in ns.
    pub fair_server: Option<(u64, u64)>,
}

impl Limits {
    /// What kernels have where nobody changed it.
    #[must_use]
    pub fn usual(cpus: u32, fair_server: bool) -> Self {
        Limits {
            cpus,
            rt_runtime_us: Some(950_000),
            rt_period_us: 1_000_000,
            period_min_us: 100,
            period_max_us: 1 << 22,
            fair_server: fair_server.then_some((50_000_000, 1_000_000_000)),
        }
    }
}

/// What `sched_setattr` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 0.
    Admitted,
    /// `EINVAL`: not 1024 ns <= runtime <= deadline <= period, or a period out of the limits.
    Invalid,
    /// `EBUSY`: the sum of runtime / period would be too large.
    Busy,
}

/// What the kernel answers to each reservation, asked for in this order.
#[must_use]
pub fn admit(reservations: &[Reservation], limits: &Limits) -> Vec<Answer> {
    let cpus = u128::from(limits.cpus);
    let most = limits
        .rt_runtime_us
        .map(|runtime| ratio(runtime, limits.rt_period_us) * cpus);
    let server = limits
        .fair_server
        .map_or(0, |(runtime, period)| ratio(runtime, period));
    let mut used = server * cpus;
    let answer = |reservation: &Reservation| {
        let Some(period) = valid_period(reservation, limits) else {
            return Answer::Invalid;
        };
        let more = ratio(reservation.runtime_ns, period);
        if most.is_some_and(|most| used + more > most) {
            return Answer::Busy;
        }
        used += more;
        Answer::Admitted
    };
    reservations.iter().map(answer).collect()
}

/// The kernel's fixed-point fraction, `to_ratio`: 20 bits, rounded down.
fn ratio(runtime: u64, period: u64) -> u128 {
    (u128::from(runtime) << 20) / u128::from(period.max(1))
}

fn valid_period(of: &Reservation, limits: &Limits) -> Option<u64> {
    let period = if of.period_ns == 0 {
        of.deadline_ns
    } else {
        of.period_ns
    };
    let highest_bit = (of.deadline_ns | of.period_ns) >> 63 != 0;
    let least = limits.period_min_us.saturating_mul(1_000);
    let most = limits.period_max_us.saturating_mul(1_000);
    let ordered = of.runtime_ns >= 1 << 10 && of.runtime_ns <= of.deadline_ns;
    let fine = ordered && of.deadline_ns <= period && !highest_bit;
    (fine && (least..=most).contains(&period)).then_some(period)
}

/// Whether reservations on several CPUs that share one queue (global EDF) can meet their deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Global {
    /// All deadlines are met: there are no more tasks than CPUs, or the sum of runtime / deadline is
    /// small enough for the largest one (Goossens, Funk, Baruah 2003; Bertogna, Cirinei, Lipari
    /// 2005).
    Met,
    /// Some deadline is missed where all tasks use their runtimes and wake up at once, however they
    /// are scheduled.
    Impossible {
        /// In an interval of this length,
        interval_ns: u64,
        /// this much must be done, which is more than the CPUs have together, or than one job can
        /// get.
        demand_ns: u64,
    },
    /// Neither is proved: for one CPU, [`edf`](crate::demand::edf) decides.
    Unknown,
}

/// What is known of these reservations on `cpus` CPUs.
#[must_use]
pub fn global(reservations: &[Reservation], cpus: u32) -> Global {
    let mut curves = Vec::new();
    let (mut sum, mut largest) = (0u128, 0u128);
    for of in reservations {
        let period = if of.period_ns == 0 {
            of.deadline_ns
        } else {
            of.period_ns
        };
        let ordered = 0 < of.runtime_ns && of.runtime_ns <= of.deadline_ns;
        if !ordered || of.deadline_ns > period || period > MAX_NS {
            return Global::Unknown;
        }
        let density = (u128::from(of.runtime_ns) << 40).div_ceil(u128::from(of.deadline_ns));
        sum = sum.saturating_add(density);
        largest = largest.max(density);
        curves.push(Curve::Sporadic {
            cost_ns: of.runtime_ns,
            period_ns: period,
            jitter_ns: 0,
            deadline_ns: of.deadline_ns,
            first_ns: of.deadline_ns,
        });
    }
    let cpus = u128::from(cpus.max(1));
    let whole = 1u128 << 40;
    let own_cpu_each = curves.len() as u128 <= cpus;
    if own_cpu_each || sum <= cpus * whole - (cpus - 1) * largest.min(whole) {
        return Global::Met;
    }
    // More than there is, in an interval of few periods: looked at where something is due.
    let mut work = Work::new();
    for round in 0..8 {
        for of in reservations {
            if !work.take(curves.len()) {
                return Global::Unknown;
            }
            let period = if of.period_ns == 0 {
                of.deadline_ns
            } else {
                of.period_ns
            };
            let interval = of.deadline_ns.saturating_add(period.saturating_mul(round));
            let due = curves.iter().map(|curve| curve.due(interval));
            let due = due.fold(0, u64::saturating_add);
            if u128::from(due) > cpus * u128::from(interval) {
                return Global::Impossible {
                    interval_ns: interval,
                    demand_ns: due,
                };
            }
        }
    }
    Global::Unknown
}
