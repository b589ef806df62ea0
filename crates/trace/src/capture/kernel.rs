//! Common to all our BPF programs: loading, attaching, and the error
//! if the kernel refuses.

use std::fs;
use std::os::fd::AsFd;

use aya::maps::{Map, MapData};
use aya::programs::{BtfTracePoint, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf, EbpfLoader};

use punctual_record::{TracingPart, TracingStep};

use super::layout::{self, Layout};
use super::shared::Shared;
use super::unavailable::{BTF, Unavailable};

/// The step that the kernel refused, with its own reason.
pub fn refused(step: TracingStep, error: &dyn std::error::Error) -> Unavailable {
    // The innermost error is the kernel's own; a verifier's log has many lines.
    let mut reason = error.to_string();
    let mut next = error.source();
    while let Some(inner) = next {
        reason = inner.to_string();
        next = inner.source();
    }
    let line = reason
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Unavailable::Refused {
        step,
        error: line.trim().to_owned(),
    }
}

/// A compiled program lacks this map or program.
pub fn incomplete(part: &str) -> Unavailable {
    Unavailable::Incomplete {
        part: part.to_owned(),
    }
}

/// The step of attaching to a tracepoint.
pub fn attach(tracepoint: &str) -> TracingStep {
    TracingStep::Attach {
        tracepoint: tracepoint.to_owned(),
    }
}

/// The step of mapping a map.
pub fn map_memory(name: &str) -> TracingStep {
    TracingStep::MapMemory {
        map: name.to_owned(),
    }
}

/// Where the running kernel has what the programs read of a CPU.
pub fn read_layout() -> Layout {
    layout::parse(&fs::read(BTF).unwrap_or_default())
}

/// Tells programs that include `percpu.h` where a CPU's preemption count is.
pub fn locate_preempt_count<'a>(loader: &mut EbpfLoader<'a>, layout: &'a Layout) {
    loader
        .override_global("runqueues_at", &layout.runqueues, true)
        .override_global("preempt_count_at", &layout.preempt_count, true);
}

/// The step of loading programs.
pub fn load(programs: TracingPart) -> TracingStep {
    TracingStep::Load { programs }
}

pub fn map<'a>(programs: &'a Ebpf, name: &str) -> Result<&'a MapData, Unavailable> {
    match programs.map(name) {
        Some(Map::Array(data) | Map::HashMap(data)) => Ok(data),
        _ => Err(incomplete(name)),
    }
}

pub fn shared(programs: &Ebpf, name: &str, words: usize) -> Result<Shared, Unavailable> {
    Shared::map(map(programs, name)?.fd().as_fd(), words)
        .map_err(|error| refused(map_memory(name), &error))
}

pub fn absent(name: &str) -> ProgramError {
    let error = std::io::Error::new(std::io::ErrorKind::NotFound, format!("no program {name}"));
    ProgramError::IOError(error)
}

pub fn attach_typed(
    programs: &mut Ebpf,
    name: &str,
    tracepoint: &str,
    btf: &Btf,
) -> Result<(), ProgramError> {
    let program = programs.program_mut(name).ok_or_else(|| absent(name))?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, btf)?;
    program.attach()?;
    Ok(())
}

pub fn attach_raw(programs: &mut Ebpf, name: &str, tracepoint: &str) -> Result<(), ProgramError> {
    let program = programs.program_mut(name).ok_or_else(|| absent(name))?;
    let program: &mut RawTracePoint = program.try_into()?;
    program.load()?;
    program.attach(tracepoint)?;
    Ok(())
}

/// The number of CPUs that may ever be present.
pub fn possible_cpus() -> u32 {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().unwrap_or_default();
    last.parse::<u32>()
        .map_or(1, |last| last.saturating_add(1))
        .min(4096)
}

pub fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|digits| digits.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= (major, minor)
}
