//! Stacks that the kernel side took, without the frames of taking them.

use std::collections::BTreeMap;

use super::slot::Slot;
use super::symbols::Symbols;
use crate::attribute::event::{Event, Kind};

/// Stacks that are kept.
const KEPT: usize = 1024;

/// The last ones, by when they were taken and where.
#[derive(Debug, Default)]
pub(super) struct Stacks(BTreeMap<(u64, u32), Vec<u64>>);

impl Stacks {
    /// Keeps the stack that a slot refers to.
    pub(super) fn keep(&mut self, slot: &Slot, frames: Vec<u64>) {
        if self.0.len() >= KEPT {
            self.0.pop_first();
        }
        self.0.insert((slot.at_ns(), slot.cpu()), frames);
    }

    fn stack_of(&self, slot: &Slot) -> Option<Vec<u64>> {
        self.0.get(&(slot.at_ns(), slot.cpu())).cloned()
    }

    /// The stack of what an interrupt interrupted.
    pub(super) fn caught(&self, slot: &Slot) -> Option<Kind> {
        Some(Kind::Stack {
            tid: slot.d() as u32,
            cost_ns: slot.c(),
            frames: self.stack_of(slot)?,
        })
    }

    /// The stack with which a thread released the CPU, at that instant.
    pub(super) fn left(&self, slot: &Slot) -> Option<Event> {
        let call = (slot.d() >> 32) as u32;
        let kind = Kind::Left {
            tid: slot.d() as u32,
            // -1 outside system calls.
            call: (call as i32 >= 0).then_some(call),
            frames: self.stack_of(slot)?,
        };
        Some(Event {
            at_ns: slot.left_ns(),
            cpu: slot.cpu(),
            kind,
        })
    }
}

/// The cost of taking the stack of a thread that released the CPU: the tracer's own time.
pub(super) fn cost(slot: &Slot) -> Kind {
    Kind::Stack {
        tid: slot.d() as u32,
        cost_ns: slot.c(),
        frames: Vec::new(),
    }
}

/// Removes from stacks the frames of the interrupt that took one, and of the
/// scheduler through which a thread released the CPU.
pub(super) fn trim(events: &mut [Event], symbols: &Symbols) {
    for event in events {
        match &mut event.kind {
            Kind::Stack { frames, .. } => {
                let interrupt = |address: &u64| {
                    let name = symbols.name(*address);
                    name.is_some_and(|name| name.starts_with("asm_sysvec_"))
                };
                if let Some(at) = frames.iter().position(interrupt) {
                    frames.drain(..=at);
                }
            }
            Kind::Left { frames, .. } => {
                let name = |address: &u64| symbols.name(*address);
                let way_out = |address: &u64| name(address).is_some_and(|name| is_way_out(&name));
                let inner = frames.iter().take_while(|at| way_out(at)).count();
                frames.drain(..inner);
                let outer = |address: &u64| name(address).is_some_and(|name| is_entry(&name));
                if frames.iter().all(outer) {
                    frames.clear();
                }
            }
            _ => {}
        }
    }
}

/// The functions of a stack with which a thread left the CPU, innermost first: without the
/// scheduler and the tracer, and without the entry into the kernel.
#[must_use]
pub fn functions(frames: &[u64], symbols: &Symbols) -> Vec<String> {
    let name = |address: &u64| symbols.name(*address);
    let named = frames.iter();
    let named = named.map(|address| name(address).unwrap_or_else(|| format!("{address:#x}")));
    let mut functions: Vec<String> = named
        .skip_while(|name| name.starts_with("bpf_") || is_way_out(name))
        .collect();
    while functions.last().is_some_and(|name| is_entry(name)) {
        functions.pop();
    }
    functions
}

/// Whether a function only leads to the scheduler: from a preemption point, or
/// from an interrupt.
fn is_way_out(function: &str) -> bool {
    const PARTS: [&str; 9] = [
        "schedule",
        "cond_resched",
        "irqentry_exit",
        "sysvec_",
        "common_interrupt",
        "exit_to_user_mode",
        "preempt_count_sub",
        "traceiter_sched_switch",
        "bpf_trace_run",
    ];
    PARTS.iter().any(|part| function.contains(part))
}

/// Whether a function is the entry into the kernel, the same for every system call.
fn is_entry(function: &str) -> bool {
    const PARTS: [&str; 4] = [
        "entry_SYSCALL",
        "do_syscall_64",
        "x64_sys_call",
        "ret_from_fork",
    ];
    PARTS.iter().any(|part| function.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_frames_are_removed_from_a_stack() {
        for function in [
            "__schedule",
            "preempt_schedule_irq",
            "__cond_resched",
            "asm_sysvec_apic_timer_interrupt",
            "irqentry_exit_to_user_mode",
        ] {
            assert!(is_way_out(function), "{function}");
        }
        for function in ["zap_pte_range", "truncate_inode_pages_range", "do_poll"] {
            assert!(!is_way_out(function), "{function}");
        }
    }

    #[test]
    fn the_oldest_stack_of_any_cpu_is_dropped_first() {
        let mut stacks = Stacks::default();
        let slot = |at_ns: u64, cpu: u64| Slot([at_ns, cpu << 48, 0, 0, 0, 0, 0, 0]);
        for at_ns in 0..=KEPT as u64 {
            stacks.keep(&slot(at_ns, 1 - at_ns % 2), vec![at_ns]);
        }
        assert_eq!(stacks.stack_of(&slot(0, 1)), None);
        assert_eq!(stacks.stack_of(&slot(1, 0)), Some(vec![1]));
    }
}
