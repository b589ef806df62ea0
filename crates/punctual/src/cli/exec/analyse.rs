//! `exec --analyse`: what can be said of a set without running it.

use std::process::ExitCode;

use punctual_machine::root::{Reader, Root};
use punctual_machine::survey;
use punctual_record::taskset::analysis::{Admission, ServerTime, SetAnalysis, SetOverheads};
use punctual_record::taskset::{TaskPolicy, TaskSet};
use punctual_report::exec as words;
use punctual_report::summary_json::printed;
use punctual_rt::affinity;
use punctual_rt::sys::task::{self, SchedAttr};
use punctual_taskset::analyse::{Limits, Machine, analyse};

use super::super::check::online;
use super::super::failure::Failure;
use super::super::flags::{ExecFlags, Overheads};
use super::super::out;
use crate::conduct::overheads;

/// Analyses a set, and prints what comes out.
pub(super) fn run(flags: &ExecFlags, set: &TaskSet) -> Result<ExitCode, Failure> {
    let analysis = analysed(flags, set)?;
    if flags.json {
        let sentence = words::analysis_sentence(&analysis);
        out::print(&printed(&analysis, &[("sentence", sentence.as_str())]));
    } else {
        out::print(&words::analysis(&analysis, &out::style()));
    }
    Ok(ExitCode::from(analysis.outcome.exit_code()))
}

/// What can be said of a set on this machine without running it.
pub(super) fn analysed(flags: &ExecFlags, set: &TaskSet) -> Result<SetAnalysis, Failure> {
    let root = Root::live();
    let times = survey::ordinary_times(&root, overheads::tick_period_ns());
    let machine = Machine {
        limits: limits(&root, times.fair_server),
        // Not an overhead: also where the kernel takes no time, it keeps some for others.
        overheads: SetOverheads {
            fair_server: times.fair_server,
            rt_throttling: times.rt_throttling,
            ..match flags.overheads {
                Overheads::None => SetOverheads::default(),
                Overheads::Measured => measured(set)?,
            }
        },
    };
    let mut analysis = analyse(set, &machine);
    for task in &mut analysis.tasks {
        if task.admission == Some(Admission::Admitted) && is_refused_on(&task.cpus) {
            task.admission = Some(Admission::Bound);
        }
    }
    Ok(analysis)
}

/// Whether the kernel refuses a reservation to a thread because it is bound to these CPUs: asked with a small
/// one, which a thread without a binding gets.
fn is_refused_on(cpus: &[usize]) -> bool {
    let refusal = |bound: bool| {
        let cpus = cpus.to_vec();
        let asked = std::thread::spawn(move || {
            if bound {
                affinity::set(0, &cpus).ok()?;
            }
            let smallest = SchedAttr {
                policy: libc::SCHED_DEADLINE as u32,
                runtime: 10_000,
                deadline: 1_000_000_000,
                period: 1_000_000_000,
                ..SchedAttr::default()
            };
            task::set_scheduling(0, &smallest).err()?.raw_os_error()
        });
        asked.join().ok().flatten()
    };
    !cpus.is_empty() && refusal(true) == Some(libc::EPERM) && refusal(false).is_none()
}

/// Measures on a CPU of the set that may be used, or else on the last one.
fn measured(set: &TaskSet) -> Result<SetOverheads, Failure> {
    let allowed = affinity::get(0).map_err(Failure::setup)?;
    let real_time = set
        .tasks
        .iter()
        .filter(|task| !matches!(task.policy, TaskPolicy::Other { .. }));
    let mut bound = real_time.filter_map(|task| match task.cpus[..] {
        [cpu] => Some(cpu),
        _ => None,
    });
    let own = bound.find(|cpu| allowed.contains(cpu));
    let Some(cpu) = own.or(allowed.last().copied()) else {
        return Err(Failure::setup("this process may use no CPU"));
    };
    overheads::measure(cpu).map_err(|error| {
        Failure::setup(format!(
            "the kernel's overheads can't be measured on CPU {cpu}: {error}; without them: \
             --overheads none"
        ))
    })
}

/// What the kernel admits, as its files say; where one can't be read, what kernels have by default.
fn limits(root: &Root, fair_server: Option<ServerTime>) -> Limits {
    let mut reader = Reader::new(root);
    let cpus = u32::try_from(online(root).len()).unwrap_or(1).max(1);
    let usual = Limits::usual(cpus, false);
    let file = |name: &str| format!("/proc/sys/kernel/{name}");
    let runtime: Option<i64> = reader.number(&file("sched_rt_runtime_us"));
    Limits {
        rt_runtime_us: match runtime {
            Some(us) => u64::try_from(us).ok(),
            None => usual.rt_runtime_us,
        },
        rt_period_us: reader
            .number(&file("sched_rt_period_us"))
            .unwrap_or(usual.rt_period_us),
        period_min_us: reader
            .number(&file("sched_deadline_period_min_us"))
            .unwrap_or(usual.period_min_us),
        period_max_us: reader
            .number(&file("sched_deadline_period_max_us"))
            .unwrap_or(usual.period_max_us),
        fair_server: fair_server.map(|of| (of.runtime_ns, of.period_ns)),
        cpus,
    }
}
