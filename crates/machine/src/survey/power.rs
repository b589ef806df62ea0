//! Frequency and idle states.

use std::collections::BTreeMap;

use super::cpus::parse_kernel;
use crate::root::Reader;
use punctual_record::system::{IdleState, Power};

const CPU: &str = "/sys/devices/system/cpu";

/// Reads frequency and idle states.
pub(super) fn read(reader: &mut Reader<'_>, probed: &[usize]) -> Power {
    let idle_driver = reader
        .optional(&format!("{CPU}/cpuidle/current_driver"))
        .filter(|driver| !driver.is_empty() && driver != "none");
    let (frequency_driver, governors) = governors(reader);
    Power {
        frequency_driver,
        governors,
        idle_driver,
        idle_states: idle_states(reader, probed.first().copied().unwrap_or(0)),
        boost: boost(reader),
        cpu_dma_latency_held_us: None,
        cpu_dma_latency_watched: None,
    }
}

/// The driver, and the governors with the CPUs that they govern.
fn governors(reader: &mut Reader<'_>) -> (Option<String>, Vec<(String, Vec<usize>)>) {
    let directory = format!("{CPU}/cpufreq");
    let mut driver = None;
    let mut governors: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for policy in reader.root.numbered(&directory, "policy") {
        let policy = format!("{directory}/policy{policy}");
        if driver.is_none() {
            driver = reader.optional(&format!("{policy}/scaling_driver"));
        }
        let Some(governor) = reader.optional(&format!("{policy}/scaling_governor")) else {
            continue;
        };
        let cpus = reader
            .parsed(&format!("{policy}/affected_cpus"), |text| {
                parse_kernel(&text.split_whitespace().collect::<Vec<_>>().join(",")).ok()
            })
            .unwrap_or_default();
        governors.entry(governor).or_default().extend(cpus);
    }
    let governors = governors
        .into_iter()
        .map(|(governor, mut cpus)| {
            cpus.sort_unstable();
            cpus.dedup();
            (governor, cpus)
        })
        .collect();
    (driver, governors)
}

/// The governor of one CPU; absent without frequency scaling.
#[must_use]
pub fn governor(reader: &mut Reader<'_>, cpu: usize) -> Option<String> {
    reader.optional(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"))
}

fn idle_states(reader: &mut Reader<'_>, cpu: usize) -> Vec<IdleState> {
    let directory = format!("{CPU}/cpu{cpu}/cpuidle");
    reader
        .root
        .numbered(&directory, "state")
        .into_iter()
        .map(|state| {
            let state = format!("{directory}/state{state}");
            IdleState {
                name: reader
                    .optional(&format!("{state}/name"))
                    .unwrap_or_default(),
                exit_latency_us: reader.number(&format!("{state}/latency")).unwrap_or(0),
                disabled: reader
                    .number::<u64>(&format!("{state}/disable"))
                    .is_some_and(|disable| disable != 0),
            }
        })
        .collect()
}

/// Whether the processor may exceed its nominal frequency.
fn boost(reader: &mut Reader<'_>) -> Option<bool> {
    let flag = |text: &str| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    reader
        .parsed(&format!("{CPU}/intel_pstate/no_turbo"), flag)
        .map(|no_turbo| !no_turbo)
        .or_else(|| reader.parsed(&format!("{CPU}/cpufreq/boost"), flag))
}
