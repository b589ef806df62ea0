//! Runs with the kernel's own tracers: hwlat instead of a polling thread, timerlat and osnoise for
//! comparison with our own figures.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_rt::clock;
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::time::clock_now;
use punctual_stats::histogram::Histogram;

use super::plan::{LoadPlan, ProbePlan};
use super::setup;
use crate::conduct::error::ConductError;
use crate::conduct::observer::{Observed, Observer};
use crate::conduct::signals::Signals;
use crate::probe::gaps::GapFeed;
use punctual_record::live::Step;
use punctual_record::{
    CrossCheck, CrossCheckFault, CrossFigure, CrossFigureName, Gaps, KernelTracer, Method, Run,
    State,
};
use punctual_trace::tracers::lines::Line;
use punctual_trace::tracers::{Setup, Tracer};

/// How often a tracer's lines are read: its buffer holds many seconds of them.
const NAP: Duration = Duration::from_millis(100);

/// What the hwlat tracer finds, by CPU.
#[derive(Debug)]
pub struct Hwlat(Mutex<Found>);

#[derive(Debug)]
struct Found {
    tracer: Tracer,
    /// Start and length of gaps that are not read yet.
    waiting: BTreeMap<usize, Vec<(u64, u64)>>,
}

impl Hwlat {
    /// Starts it if the plan says so.
    ///
    /// # Errors
    /// The tracer is not available.
    pub fn begin(plan: &ProbePlan) -> Result<Option<Self>, ConductError> {
        let hwlat = |gaps: &&Gaps| gaps.method == Method::Hwlat;
        let Some(gaps) = plan.gaps.as_ref().filter(hwlat) else {
            return Ok(None);
        };
        let us = |ns: u64| (ns / 1_000).max(1).to_string();
        let setup = Setup {
            tracer: "hwlat",
            cpus: plan.cpus.clone(),
            settings: vec![
                ("tracing_thresh", us(gaps.above_ns)),
                ("hwlat_detector/window", us(gaps.period_ns)),
                ("hwlat_detector/width", us(gaps.runtime_ns)),
                ("hwlat_detector/mode", "per-cpu".to_owned()),
            ],
        };
        let tracer = Tracer::start(&setup).map_err(ConductError::Tracer)?;
        Ok(Some(Self(Mutex::new(Found {
            tracer,
            waiting: BTreeMap::new(),
        }))))
    }
}

impl GapFeed for Hwlat {
    fn take(&self, cpu: usize, each: &mut dyn FnMut(u64, u64)) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Found { tracer, waiting } = &mut *found;
        // Its times are CLOCK_REALTIME.
        let ahead_ns = i128::from(clock_now(libc::CLOCK_REALTIME)) - i128::from(clock::now_ns());
        tracer.read_lines(|line| {
            if let Line::Hwlat {
                cpu,
                inner_ns,
                outer_ns,
                at_real_ns,
                ..
            } = line
            {
                let at_ns = u64::try_from(i128::from(at_real_ns) - ahead_ns).unwrap_or(0);
                let gap = (at_ns, inner_ns.max(outer_ns));
                waiting.entry(cpu).or_default().push(gap);
            }
        });
        for (from_ns, length_ns) in waiting.remove(&cpu).unwrap_or_default() {
            each(from_ns, length_ns);
        }
    }
}

/// Measures a second time with the kernel's own tracer: after the run, on the same CPUs, under the
/// same load, for the same time.
pub fn cross_check(
    probes: &ProbePlan,
    load: &LoadPlan,
    run: &Run,
    progress: &mut dyn Observer,
) -> CrossCheck {
    let tracer = if probes.gaps.is_some() {
        KernelTracer::Osnoise
    } else {
        KernelTracer::Timerlat
    };
    let mut check = CrossCheck {
        tracer,
        missing: None,
        measured_ns: 0,
        samples: 0,
        lost: 0,
        figures: Vec::new(),
    };
    if run.state != State::Finished {
        check.missing = Some(CrossCheckFault::RunEndedEarly);
        return check;
    }
    check.missing = measure((probes, load), run, progress, tracer.name(), &mut check).err();
    check
}

/// What a tracer reported.
#[derive(Default)]
struct Reported {
    latency: Histogram,
    runtime_us: u64,
    noise_us: u64,
    max_us: u64,
    samples: u64,
}

fn measure(
    (plan, load): (&ProbePlan, &LoadPlan),
    run: &Run,
    progress: &mut dyn Observer,
    tracer: &'static str,
    check: &mut CrossCheck,
) -> Result<(), CrossCheckFault> {
    let cpus = punctual_record::cpu_list(&plan.cpus);
    let us = |ns: u64| (ns / 1_000).max(1).to_string();
    let mut settings = vec![("osnoise/cpus", cpus)];
    match &plan.gaps {
        None => settings.push((
            "osnoise/timerlat_period_us",
            us(plan.interval.nominal_ns().max(100_000)),
        )),
        Some(gaps) => settings.extend([
            ("tracing_thresh", us(gaps.above_ns)),
            ("osnoise/period_us", us(gaps.period_ns)),
            ("osnoise/runtime_us", us(gaps.runtime_ns)),
        ]),
    }
    let setup = Setup {
        tracer,
        cpus: plan.cpus.clone(),
        settings,
    };
    // Before the loads: without the tracer, no load needs to start.
    punctual_trace::tracers::tracefs_offering(tracer).map_err(failed)?;
    let signals = Signals::listen().map_err(failed)?;
    let loads = setup::start_loads(load, &signals, progress).map_err(failed)?;
    let length = Duration::from_nanos(run.measured_ns);
    progress.observe(Observed::Step(&Step::CrossCheck {
        tracer: check.tracer,
        length_ns: run.measured_ns,
    }));
    let mut tracing = Tracer::start(&setup).map_err(failed)?;
    set_policy(tracer, &plan.cpus, plan.policy);
    let begin = Instant::now();
    let mut reported = Reported::default();
    while begin.elapsed() < length && signals.end().is_none() {
        std::thread::sleep(NAP.min(length.saturating_sub(begin.elapsed())));
        tracing.read_lines(|line| reported.add(line));
    }
    check.measured_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    check.lost = tracing.lost();
    drop(tracing);
    drop(loads);
    check.samples = reported.samples;
    if reported.samples == 0 {
        return Err(CrossCheckFault::NoSamples);
    }
    check.figures = figures(run, &reported);
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> CrossCheckFault {
    CrossCheckFault::Failed {
        error: error.to_string(),
    }
}

impl Reported {
    fn add(&mut self, line: Line) {
        match line {
            Line::Timerlat {
                thread: true,
                latency_ns,
                ..
            } => self.latency.record(latency_ns),
            Line::Osnoise {
                runtime_us,
                noise_us,
                max_us,
                ..
            } => {
                self.runtime_us = self.runtime_us.saturating_add(runtime_us);
                self.noise_us = self.noise_us.saturating_add(noise_us);
                self.max_us = self.max_us.max(max_us);
            }
            _ => return,
        }
        self.samples += 1;
    }
}

fn figures(run: &Run, theirs: &Reported) -> Vec<CrossFigure> {
    let ours = run
        .threads
        .iter()
        .filter_map(|thread| Histogram::try_from(&thread.latency).ok());
    let ours = Histogram::merged(&ours.collect::<Vec<_>>());
    let max_ns = ours.max().unwrap_or(0) as f64;
    if let Some(gaps) = &run.gaps {
        let (_, watched_ns) = gaps.spans_ns();
        let ppm = |part: f64, whole: f64| 1e6 * part / whole.max(1.0);
        return vec![
            CrossFigure::new(
                CrossFigureName::Noise,
                ppm(ours.sum() as f64, watched_ns as f64),
                ppm(theirs.noise_us as f64, theirs.runtime_us as f64),
            ),
            CrossFigure::new(CrossFigureName::Maximum, max_ns, theirs.max_us as f64 * 1e3),
        ];
    }
    let at = |histogram: &Histogram, quantile| histogram.quantile(quantile).unwrap_or(0) as f64;
    let mut figures: Vec<CrossFigure> =
        [(CrossFigureName::Median, 0.5), (CrossFigureName::P99, 0.99)]
            .map(|(name, q)| CrossFigure::new(name, at(&ours, q), at(&theirs.latency, q)))
            .into();
    let their_max = theirs.latency.max().unwrap_or(0) as f64;
    figures.push(CrossFigure::new(
        CrossFigureName::Maximum,
        max_ns,
        their_max,
    ));
    figures
}

/// Gives the tracer's threads the policy of our own, so that the figures are comparable.
fn set_policy(tracer: &str, cpus: &[usize], policy: Policy) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let of_tracer = name
            .trim()
            .strip_prefix(tracer)
            .and_then(|rest| rest.strip_prefix('/')?.parse().ok())
            .is_some_and(|cpu: usize| cpus.contains(&cpu));
        let id = entry.file_name().to_str().and_then(|id| id.parse().ok());
        if let (true, Some(id)) = (of_tracer, id) {
            // An error shows in the figures.
            let _ = sched::set(id, policy);
        }
    }
}
