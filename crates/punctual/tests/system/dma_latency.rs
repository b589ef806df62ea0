//! The limit of idle states: what a watched program holds, and what a run does.

use punctual_record::Standing;
use punctual_record::system::SystemState;
use punctual_tool::system::{DmaLatency, demands, dma_latency};

use crate::support::Machine;

use crate::needs::{Absent, skip};

#[test]
fn a_process_that_keeps_cpu_dma_latency_open_is_found() {
    let machine = Machine::empty();
    assert_eq!(dma_latency::watched(&machine.root, 7), None);
    machine.link("/proc/7/fd/0", "/dev/null");
    let found = || dma_latency::watched(&machine.root, 7).unwrap();
    assert!(!found().open);
    machine.link("/proc/7/fd/5", "/dev/cpu_dma_latency");
    assert!(found().open);
}

#[test]
fn the_limit_of_idle_states_is_set_and_removed() {
    let free = match DmaLatency::hold(i32::MAX) {
        Ok(held) => held.in_force_us().unwrap(),
        Err(error) => skip!(Absent::refused("/dev/cpu_dma_latency", error)),
    };
    let held = DmaLatency::hold(7).unwrap();
    let in_force = held.in_force_us().unwrap();
    let demand = demands::dma_latency(7, Some(&Ok(in_force)), &SystemState::default());
    assert_eq!(demand.standing, Standing::InForce);
    drop(held);
    let after = DmaLatency::hold(i32::MAX).unwrap().in_force_us().unwrap();
    assert_eq!(after, free);
}
