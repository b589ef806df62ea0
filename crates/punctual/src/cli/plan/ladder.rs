//! The plan of `ladder`.

use punctual_machine::survey::cpus::{self, Place, Topology};
use punctual_machine::tune::changes_of;
use punctual_machine::{CheckRequest, Root, check, survey};
use punctual_record::finding::FindingId;
use punctual_record::ladder::{LadderDesign, NotPossible, Rung};
use punctual_record::tuning::Change;

use super::super::failure::Failure;
use super::super::flags::LadderFlags;
use super::seed_from_clock;
use crate::conduct::LoadPlan;
use crate::conduct::ladder::LadderPlan;
use punctual_load::LEAST_CPU_NS;

/// Length of a ladder without -D, in ns.
const LADDER_NS: u64 = 300_000_000_000;
/// Length of a single rung without -D, in ns.
const RUNG_NS: u64 = 10_000_000_000;
/// Memory that the work of a block writes at most.
const MOST_BYTES: u64 = 256 << 20;
/// Cycles of a block at most, each of which is kept until it ends.
const MOST_CYCLES: u64 = 1 << 24;

/// What quiets interrupts: device interrupts and unbound workqueues are moved to other CPUs.
const QUIET: [FindingId; 2] = [FindingId::IrqAffinity, FindingId::WorkqueueMask];

/// Makes the plan of `ladder`.
///
/// # Errors
/// Wrong usage: a CPU that can't be used, a block without cycles, or with more than there is room
/// for.
pub fn of_ladder(flags: &LadderFlags) -> Result<LadderPlan, Failure> {
    let root = Root::live();
    let place = Place::read(&root);
    let topology = survey::topology(&root);
    let cpu = pinned(flags, &topology, &place)?;
    let load_cpus = cpus::for_load(&topology, &place);
    let within_ns = match (flags.duration, flags.rung, flags.loops) {
        (Some(duration_ns), _, _) => duration_ns,
        (None, None, _) => LADDER_NS,
        (None, Some(_), None) => RUNG_NS,
        // Ten times what they take: a relative sleep is longer than its period.
        (None, Some(_), Some(loops)) => loops.saturating_mul(flags.interval).saturating_mul(10),
    };
    if flags.rung.is_none() {
        super::refuse_surest(flags.confidence)?;
    }
    let block_ns = match flags.rung {
        Some(_) => within_ns,
        None => flags.block,
    };
    let text = |path: &str| root.text(path).unwrap_or_default();
    let plan = LadderPlan {
        design: LadderDesign {
            seed: flags.seed.unwrap_or_else(seed_from_clock),
            interval_ns: flags.interval,
            block_ns,
            loops: flags.loops,
            settle_ns: flags.settle,
            rounds: 0,
            work_bytes: flags.work,
            deadline_ns: flags.deadline,
            confidence: flags.confidence,
            priority: flags.priority,
            cpu,
            cpus: place.inherited.clone(),
        },
        only: flags.rung,
        within_ns,
        load: LoadPlan {
            spec: flags.load.clone(),
            class: flags.load_class,
            cpus: load_cpus,
            least_cpu_ns: LEAST_CPU_NS,
        },
        quiet: quiet(flags, &root, cpu, &topology),
        state: flags.state().to_owned(),
        command: super::command(),
        hostname: text("/proc/sys/kernel/hostname"),
        kernel: text("/proc/sys/kernel/osrelease"),
    };
    check_size(&plan)?;
    Ok(plan)
}

/// The CPU of the rungs that have one.
fn pinned(flags: &LadderFlags, topology: &Topology, place: &Place) -> Result<usize, Failure> {
    let Some(list) = &flags.affinity else {
        let choice = cpus::default_probed(topology, place);
        return Ok(choice.probed.last().copied().unwrap_or(0));
    };
    let refused =
        |why: String| Failure::usage(format!("invalid value '{list}' for --affinity: {why}"));
    let choice = cpus::parse(list).and_then(|list| cpus::select(&list, topology, place));
    match choice.map_err(|error| refused(error.to_string()))?.probed[..] {
        [cpu] => Ok(cpu),
        _ => Err(refused(
            "expected one CPU: a ladder has one thread".to_owned(),
        )),
    }
}

/// What the highest rung switches.
fn quiet(
    flags: &LadderFlags,
    root: &Root,
    cpu: usize,
    topology: &Topology,
) -> Result<Vec<Change>, NotPossible> {
    if flags.rung.is_some_and(|rung| rung != Rung::QuietInterrupts) {
        return Ok(Vec::new());
    }
    if topology.online.len() < 2 {
        return Err(NotPossible::OneCpu);
    }
    // A check reads some hundred files.
    let request = CheckRequest::of_probes(root, &[cpu], flags.priority);
    Ok(changes_of(&check(root, &request), &QUIET))
}

/// Refuses a block without a cycle, or with more than there is memory for.
fn check_size(plan: &LadderPlan) -> Result<(), Failure> {
    let design = &plan.design;
    if design.block_ns < design.interval_ns {
        let flag = if plan.only.is_some() { "-D" } else { "--block" };
        return Err(Failure::usage(format!(
            "{flag} must be longer than the interval: a block has no cycle otherwise"
        )));
    }
    let (cycles, bytes) = plan.size_of_block();
    if bytes > MOST_BYTES || cycles > MOST_CYCLES {
        return Err(Failure::usage(format!(
            "a block of {cycles} cycles that write {} bytes each: more than {} million cycles or \
             {} MiB of memory; give a shorter {}, a longer -i, or less --work",
            design.work_bytes,
            MOST_CYCLES >> 20,
            MOST_BYTES >> 20,
            match plan.only {
                Some(_) => "-D",
                None => "--block",
            }
        )));
    }
    Ok(())
}
