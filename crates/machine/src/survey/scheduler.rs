//! The scheduler's limits, and competing tasks.

use super::SurveyRequest;
use super::cgroup::Cgroups;
use super::tasks;
use crate::root::Reader;
use punctual_record::system::Scheduler;

/// Reads what limits real-time threads or competes with them.
pub(super) fn read(
    reader: &mut Reader<'_>,
    request: &SurveyRequest,
    cgroups: &Cgroups,
) -> Scheduler {
    let competitors = tasks::above(reader, &request.probed_cpus, request.priority);
    Scheduler {
        rt_period_us: reader.number("/proc/sys/kernel/sched_rt_period_us"),
        rt_runtime_us: reader.number("/proc/sys/kernel/sched_rt_runtime_us"),
        rt_group_runtime_us: cgroups.rt_group.as_ref().map(|(runtime, _)| *runtime),
        rt_group_file: cgroups.rt_group.as_ref().map(|(_, file)| file.clone()),
        timer_slack_ns: reader.number("/proc/self/timerslack_ns"),
        above: competitors.listed,
        above_count: competitors.count,
        above_kernel_count: competitors.kernel_count,
    }
}
