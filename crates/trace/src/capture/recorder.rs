//! The recorder's kernel side: loaded, attached, and read.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use aya::maps::{HashMap, MapData};
use aya::programs::{Program, ProgramError, SchedClassifier};
use aya::{Btf, Ebpf, EbpfLoader};

use punctual_record::explanation::{NoBlockedStacks, NotSeen};
use punctual_record::{TracingPart, TracingStep};

use super::Options;
use super::kernel::{
    absent, attach, attach_raw, attach_typed, incomplete, kernel_is_at_least, load,
    locate_preempt_count, possible_cpus, read_layout, refused, shared,
};
use super::origins;
use super::rings::{RingLayout, Rings};
use super::shared::{Shared, run_once};
use super::slot::Slot;
use super::unavailable::Unavailable;

/// The compiled program.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/recorder.bpf.o"));

/// Tracepoints without which nothing can be explained.
const NEEDED: &[&str] = &[
    "hrtimer_start",
    "hrtimer_expire_entry",
    "sched_waking",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "sched_migrate_task",
];
/// The same of the CPU's own interrupts. On other processors they are handlers like any other.
const NEEDED_OF_CPU: &[&str] = if cfg!(target_arch = "x86_64") {
    &["local_timer_entry", "local_timer_exit"]
} else {
    &[]
};
/// Tracepoints of the CPU's own interrupts that a kernel may lack.
#[cfg(not(target_arch = "x86_64"))]
const WELCOME_OF_CPU: &[&str] = &["ipi_entry", "ipi_exit"];
#[cfg(target_arch = "x86_64")]
const WELCOME_OF_CPU: &[&str] = &[
    "reschedule_entry",
    "reschedule_exit",
    "call_function_entry",
    "call_function_exit",
    "call_function_single_entry",
    "call_function_single_exit",
    "irq_work_entry",
    "irq_work_exit",
    "x86_platform_ipi_entry",
    "x86_platform_ipi_exit",
    "thermal_apic_entry",
    "thermal_apic_exit",
    "threshold_apic_entry",
    "threshold_apic_exit",
    "nmi_handler",
];
/// Tracepoints that a kernel may lack.
const WELCOME: &[&str] = &[
    "cpu_idle",
    "workqueue_execute_start",
    "contention_begin",
    "contention_end",
    "page_fault_user",
    "task_rename",
    "sched_process_fork",
    "sched_process_exec",
    "signal_generate",
];
/// Tracepoints whose arguments a typed program may not access.
const WELCOME_RAW: &[&str] = &["csd_function_entry", "csd_function_exit", "csd_queue_cpu"];

/// Slots of the lane for events on other CPUs.
const OTHERS: usize = 4096;
/// Absolute, pinned timers can be armed since this kernel.
const SENTINELS_SINCE: (u32, u32) = (6, 7);

/// The kernel lacks a tracepoint.
fn lacking(tracepoint: &str) -> NotSeen {
    NotSeen::Tracepoint {
        tracepoint: tracepoint.to_owned(),
    }
}

/// Stacks of each CPU, and the addresses in one.
const STACKS: usize = 64;
const FRAMES: usize = 32;

/// The running recorder. When it is dropped, it is removed from the kernel.
pub struct Recorder {
    // Owns programs, links and maps by descriptors: however this process ends, they end with it.
    programs: Ebpf,
    rings: Rings,
    stacks: Shared,
    origins: Shared,
    missing: Vec<NotSeen>,
}

impl Recorder {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn start(options: &Options) -> Result<Self, Unavailable> {
        let btf = Btf::from_sys_fs().map_err(|error| refused(TracingStep::ReadTypes, &error))?;
        let layout = read_layout();
        let cpus = possible_cpus();
        let plan = RingLayout::new(cpus, &options.cpus, options.ring_events).with_others(OTHERS);
        let one_each = options.targets.iter().all(|(_, cpu)| {
            options
                .targets
                .iter()
                .filter(|(_, other)| other == cpu)
                .count()
                == 1
        });
        let (major, minor) = SENTINELS_SINCE;
        let sentinel_on =
            u32::from(options.interrupt_above_ns > 0 && kernel_is_at_least(major, minor));
        let several =
            u32::from(options.targets.is_empty() || !options.roaming.is_empty() || !one_each);
        let all_wakings = u32::from(options.all_wakings);
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("cpus", &cpus, true)
            .override_global("several", &several, true)
            .override_global("all_wakings", &all_wakings, true)
            .override_global("threshold_ns", &options.interrupt_above_ns, true)
            .override_global("sentinel_on", &sentinel_on, true)
            .override_global("irq_regs_at", &layout.irq_regs, true)
            .override_global("steal_at", &layout.steal_time, true)
            .map_max_entries("sentinels", cpus)
            .map_max_entries("stacks", cpus * STACKS as u32);
        locate_preempt_count(&mut loader, &layout);
        plan.size(&mut loader);
        let mut programs = loader
            .load(OBJECT)
            .map_err(|error| refused(load(TracingPart::Recorder), &error))?;
        let stacks = shared(&programs, "stacks", cpus as usize * STACKS * FRAMES)?;
        let origins = shared(&programs, "origins", origins::THREADS * origins::WORDS)?;
        let rings = plan.map(&programs)?;
        // A CPU with several targets searches all of them.
        for (tid, cpu) in options.targets.iter().rev() {
            rings.set_target(*cpu, *tid);
        }
        let mut targets = targets(&mut programs)?;
        let bound = options.targets.iter().map(|(tid, _)| tid);
        for tid in bound.chain(&options.roaming) {
            targets
                .insert(tid, 0, 0)
                .map_err(|error| refused(TracingStep::AddThread, &error))?;
        }
        let mut recorder = Self {
            programs,
            rings,
            stacks,
            origins,
            missing: Vec::new(),
        };
        recorder.attach(&btf, sentinel_on != 0, options.interrupt_above_ns)?;
        Ok(recorder)
    }

    fn attach(
        &mut self,
        btf: &Btf,
        sentinel: bool,
        interrupt_above_ns: u64,
    ) -> Result<(), Unavailable> {
        let programs = &mut self.programs;
        if !sentinel && interrupt_above_ns > 0 {
            let (major, minor) = SENTINELS_SINCE;
            let why = NoBlockedStacks::KernelBefore { major, minor };
            self.missing.push(NotSeen::BlockedStacks { why });
        }
        if sentinel {
            // Without it, stacks are taken in the interrupts that come anyway.
            if let Err(why) = make_sentinels(programs) {
                self.missing.push(NotSeen::BlockedStacks { why });
            }
        }
        attach_typed(programs, "on_sched_switch", "sched_switch", btf)
            .or_else(|_| attach_typed(programs, "on_sched_switch_of_old", "sched_switch", btf))
            .map_err(|error| refused(attach("sched_switch"), &error))?;
        for tracepoint in NEEDED_OF_CPU.iter().chain(NEEDED) {
            attach_typed(programs, &format!("on_{tracepoint}"), tracepoint, btf)
                .map_err(|error| refused(attach(tracepoint), &error))?;
        }
        for tracepoint in WELCOME_OF_CPU.iter().chain(WELCOME) {
            // If a kernel lacks the tracepoint of such an interrupt, it lacks the interrupt itself.
            let absent_itself = tracepoint.contains("_apic_");
            let attached = attach_typed(programs, &format!("on_{tracepoint}"), tracepoint, btf);
            if attached.is_err() && !absent_itself {
                self.missing.push(lacking(tracepoint));
            }
        }
        for tracepoint in WELCOME_RAW {
            if attach_raw(programs, &format!("on_{tracepoint}"), tracepoint).is_err() {
                self.missing.push(lacking(tracepoint));
            }
        }
        Ok(())
    }

    /// The number of lanes: one for each recorded CPU, and one for the others.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.rings.count()
    }

    /// Calls `take` with the new slots of a lane in their order, and returns how many
    /// events were overwritten before them.
    pub fn drain(&mut self, index: usize, take: impl FnMut(Slot)) -> u64 {
        self.rings.drain(index, take)
    }

    /// Sets how late a target must be for the stack of the thread that released its CPU to be
    /// taken.
    pub fn stacks_above(&self, above_ns: u64) {
        self.rings.stacks_above(above_ns);
    }

    /// The number of stacks that a lane has taken so far.
    pub fn stacks(&self, index: usize) -> u64 {
        self.rings.stacks(index)
    }

    /// Tells the kernel side that this many of them were read.
    pub fn stacks_read(&self, index: usize, count: u64) {
        self.rings.stacks_read(index, count);
    }

    /// A stack that was taken, innermost first, unless it has been overwritten.
    #[must_use]
    pub fn stack(&self, index: u64, bytes: u64) -> Vec<u64> {
        let frames = (bytes as i64).clamp(0, FRAMES as i64 * 8) as usize / 8;
        let at = (index as usize).saturating_mul(FRAMES);
        self.stacks
            .words()
            .get(at..at + frames)
            .unwrap_or_default()
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .take_while(|address| *address != 0)
            .collect()
    }

    /// What is kept of the origin of a thread, or of another one in its place; nothing while it is
    /// being written.
    #[must_use]
    pub fn origin(&self, tid: u32) -> Vec<u64> {
        let at = tid as usize % origins::THREADS * origins::WORDS;
        let kept = self.origins.words().get(at..at + origins::WORDS);
        let kept = kept.unwrap_or_default();
        let copy: Vec<u64> = kept.iter().map(|it| it.load(Ordering::Acquire)).collect();
        // Another program that it executed has a later time.
        let is_same = |at: usize| {
            let now = kept.get(at).map(|it| it.load(Ordering::Acquire));
            now == copy.get(at).copied()
        };
        let is_whole = is_same(0) && is_same(origins::SINCE);
        if is_whole { copy } else { Vec::new() }
    }

    /// Follows one more thread.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn follow(&mut self, tid: u32) -> Result<(), Unavailable> {
        targets(&mut self.programs)?
            .insert(tid, 0, 0)
            .map_err(|error| refused(TracingStep::AddThread, &error))
    }

    /// Stops following a thread.
    pub fn forget(&mut self, tid: u32) {
        if let Ok(mut targets) = targets(&mut self.programs) {
            let _ = targets.remove(&tid);
        }
    }

    /// What this kernel lacks.
    #[must_use]
    pub fn missing(&self) -> &[NotSeen] {
        &self.missing
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.rings.events()
    }
}

fn targets(programs: &mut Ebpf) -> Result<HashMap<&mut MapData, u32, u64>, Unavailable> {
    let map = programs
        .map_mut("targets")
        .ok_or_else(|| incomplete("targets"))?;
    HashMap::try_from(map).map_err(|error| refused(TracingStep::AddThread, &error))
}

/// Gives every CPU its sentinel timer.
fn make_sentinels(programs: &mut Ebpf) -> Result<(), NoBlockedStacks> {
    let not_loaded = |error: ProgramError| {
        // If the verifier prints nothing, only its heading is left.
        let text = error.to_string();
        let text = text.trim_end().trim_end_matches("Verifier output:");
        NoBlockedStacks::Refused {
            error: text.trim_end().to_owned(),
        }
    };
    let name = "make_sentinels";
    let program = programs.program_mut(name);
    let program = program.ok_or_else(|| not_loaded(absent(name)))?;
    let program: &mut SchedClassifier = <&mut Program>::try_into(program).map_err(not_loaded)?;
    program.load().map_err(not_loaded)?;
    let fd = program.fd().map_err(not_loaded)?;
    let not_run = |error: std::io::Error| NoBlockedStacks::Refused {
        error: error.to_string(),
    };
    match run_once(fd.as_fd()).map_err(not_run)? {
        0 => Ok(()),
        step => Err(NoBlockedStacks::Timers { step }),
    }
}

#[cfg(test)]
mod tests {
    use super::OBJECT;

    #[test]
    fn the_bpf_object_does_not_depend_on_where_it_is_built() {
        let here = env!("CARGO_MANIFEST_DIR").as_bytes();
        let found = OBJECT.windows(here.len()).any(|bytes| bytes == here);
        assert!(!found, "it holds the path of its sources");
    }
}
