//! The findings, a file for each group. A function looks at the machine and returns a state;
//! it reads through [`Look`], so that everything it read is evidence.

mod interrupts;
mod isolation;
mod kernel;
mod memory;
mod noise;
mod power;
mod rights;
mod scheduler;
mod topology;

pub use kernel::PARAMETERS;
use punctual_record::finding::FindingId;

use crate::look::{Look, Looked, information_that, ok, present};

/// Looks for one finding.
pub(crate) fn look_for(id: FindingId, look: &mut Look<'_>) -> Looked {
    match id {
        FindingId::RtKernel => kernel::rt_kernel(look),
        FindingId::PreemptMode => kernel::preempt_mode(look),
        FindingId::Threadirqs => kernel::threadirqs(look),
        FindingId::KernelConfig => kernel::kernel_config(look),
        FindingId::HighResolution => kernel::high_resolution(look),
        FindingId::NoHzFullSupport => kernel::support(look, "nohz_full", "NO_HZ_FULL"),
        FindingId::RcuNocbSupport => kernel::support(look, "rcu_nocbs", "RCU_NOCB_CPU"),
        FindingId::DebugOptions => kernel::debug_options(look),
        FindingId::Tracing => kernel::tracing(look),
        FindingId::UnknownParameter => kernel::unknown_parameter(look),
        FindingId::ParameterNotInForce => kernel::parameter_not_in_force(look),
        FindingId::Lockdown => kernel::lockdown(look),
        FindingId::Mitigations => kernel::mitigations(look),
        FindingId::KernelStackOffset => kernel::stack_offset(look),
        FindingId::KernelVersion => kernel::kernel_version(look),
        FindingId::DualKernel => kernel::dual_kernel(look),
        FindingId::IsolatedCpus => isolation::isolated_cpus(look),
        FindingId::NohzFull => isolation::nohz_full(look),
        FindingId::RcuNocbs => isolation::rcu_nocbs(look),
        FindingId::RcuThreads => isolation::rcu_threads(look),
        FindingId::NohzPatience => isolation::nohz_patience(look),
        FindingId::DefaultIrqAffinity => {
            isolation::masked(look, "/proc/irq/default_smp_affinity", Some("irqaffinity"))
        }
        FindingId::IrqAffinity => interrupts::irq_affinity(look, false),
        FindingId::ManagedIrqs => interrupts::irq_affinity(look, true),
        FindingId::Irqbalance => interrupts::irqbalance(look),
        FindingId::WorkqueueMask => {
            isolation::masked(look, "/sys/devices/virtual/workqueue/cpumask", None)
        }
        FindingId::BoundKworkers => isolation::bound_kworkers(look),
        FindingId::VmstatInterval => isolation::vmstat_interval(look),
        FindingId::TimerMigration => isolation::timer_migration(look),
        FindingId::ReceiveSteering => isolation::receive_steering(look),
        FindingId::WatchdogMask => isolation::watchdog_mask(look),
        FindingId::KthreadCpus => isolation::kthread_cpus(look),
        FindingId::UserThreads => isolation::user_threads(look),
        FindingId::SystemdSlices => isolation::systemd_slices(look),
        FindingId::SmtSiblings => topology::smt_siblings(look),
        FindingId::Resctrl => topology::resctrl(look),
        FindingId::Numa => topology::numa(look),
        FindingId::RtThrottling => scheduler::rt_throttling(look),
        FindingId::FairServer => scheduler::fair_server(look),
        FindingId::RtGroupSched => scheduler::rt_group_sched(look),
        FindingId::Autogroup => scheduler::autogroup(look),
        FindingId::CompetingPriorities => scheduler::competing_priorities(look),
        FindingId::SoftirqThreads => scheduler::softirq_threads(look),
        FindingId::IrqThreads => scheduler::irq_threads(look),
        FindingId::ThreadedNapi => scheduler::threaded_napi(look),
        FindingId::Uclamp => scheduler::uclamp(look),
        FindingId::SkewTick => scheduler::skew_tick(look),
        FindingId::DeadlineBandwidth => scheduler::deadline_bandwidth(look),
        FindingId::Stalld => scheduler::stalld(look),
        FindingId::SchedExt => scheduler::sched_ext(look),
        FindingId::Governor => power::governor(look),
        FindingId::EnergyPreference => power::energy_preference(look),
        FindingId::FrequencyRange => power::frequency_range(look),
        FindingId::PstateDriver => power::pstate_driver(look),
        FindingId::Uncore => power::uncore(look),
        FindingId::IdleStates => power::idle_states(look),
        FindingId::ResumeLatency => power::resume_latency(look),
        FindingId::Clocksource => power::clocksource(look),
        FindingId::Clockevent => power::clockevent(look),
        FindingId::Smi => power::smi(look),
        FindingId::EfiRuntime => power::efi_runtime(look),
        FindingId::FirmwareUpdates => programs(look, &["fwupd"]),
        FindingId::MachineCheckPolling => power::machine_check_polling(look),
        FindingId::Aspm => power::aspm(look),
        FindingId::DeviceRuntimePm => power::device_runtime_pm(look),
        FindingId::NvmePower => power::nvme_power(look),
        FindingId::UsbAutosuspend => power::usb_autosuspend(look),
        FindingId::ThermalThrottling => power::thermal_throttling(look),
        FindingId::Hypervisor => power::hypervisor(look),
        FindingId::ClockSteps => programs(look, power::CLOCK_PROGRAMS),
        FindingId::Swap => memory::swap(look),
        FindingId::Swappiness => memory::swappiness(look),
        FindingId::TransparentHugepages => memory::transparent_hugepages(look),
        FindingId::Ksm => memory::ksm(look),
        FindingId::NumaBalancing => memory::numa_balancing(look),
        FindingId::Compaction => memory::compaction(look),
        FindingId::MemoryScanners => memory::memory_scanners(look),
        FindingId::DirtyWriteback => memory::dirty_writeback(look),
        FindingId::MinFree => memory::min_free(look),
        FindingId::Hugepages => memory::hugepages(look),
        FindingId::MemoryLimit => memory::memory_limit(look),
        FindingId::Watchdogs => noise::watchdogs(look),
        FindingId::RcuExpedited => noise::rcu_expedited(look),
        FindingId::RcuStall => noise::rcu_stall(look),
        FindingId::SerialConsole => noise::serial_console(look),
        FindingId::Audit => noise::audit(look),
        FindingId::Kdump => noise::kdump(look),
        FindingId::PerfSampling => noise::perf_sampling(look),
        FindingId::TimerJobs => noise::timer_jobs(look),
        FindingId::SplitLock => noise::split_lock(look),
        FindingId::Filesystems => noise::filesystems(look),
        FindingId::BlockScheduler => noise::block_scheduler(look),
        FindingId::BusyPoll => noise::busy_poll(look),
        FindingId::OtherTuners => programs(look, noise::TUNERS),
        FindingId::RtprioLimit => rights::rtprio_limit(look),
        FindingId::MemlockLimit => rights::memlock_limit(look),
        FindingId::RttimeLimit => rights::rttime_limit(look),
        FindingId::Rtkit => programs(look, &["rtkit-daemon"]),
        FindingId::DmaLatencyAccess => rights::dma_latency_access(look),
        FindingId::Capabilities => rights::capabilities(look),
        FindingId::Affinity => rights::affinity(look),
        FindingId::PosixOptions => rights::posix_options(look),
    }
}

/// Programs that are worth knowing of.
fn programs(look: &mut Look<'_>, names: &[&str]) -> Looked {
    let running = look.programs(names)?;
    if running.is_empty() {
        ok()
    } else {
        information_that(present(running)).by_hand().end()
    }
}
