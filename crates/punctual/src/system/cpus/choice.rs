//! Which CPUs are probed.

use super::{CpuList, CpuListError};
use crate::record::system::{Node, Siblings};

/// What the choice of CPUs looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Online CPUs, ascending.
    pub online: Vec<usize>,
    /// CPUs kept from the scheduler's balancing (`isolcpus`, isolated partitions).
    pub isolated: Vec<usize>,
    /// CPUs without a tick.
    pub nohz_full: Vec<usize>,
    /// For each online CPU with SMT: the other threads of its core that are online.
    pub siblings: Vec<Siblings>,
    /// NUMA nodes that have CPUs.
    pub nodes: Vec<Node>,
}

impl Topology {
    /// The other threads of a CPU's core.
    #[must_use]
    pub fn siblings_of(&self, cpu: usize) -> &[usize] {
        self.siblings
            .iter()
            .find(|siblings| siblings.cpu == cpu)
            .map_or(&[], |siblings| &siblings.others)
    }

    /// The NUMA node of a CPU.
    #[must_use]
    pub fn node_of(&self, cpu: usize) -> Option<usize> {
        self.nodes
            .iter()
            .find(|node| node.cpus.contains(&cpu))
            .map(|node| node.node)
    }
}

/// The CPUs that are probed, and where everything else of the tool runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// One probe thread each, ascending.
    pub probed: Vec<usize>,
    /// The CPU left free for the collector and the saver; absent where the
    /// machine is too small to spare one.
    pub housekeeping: Option<usize>,
}

/// So many CPUs must be usable before one is left out.
const SPARE_FROM: usize = 4;

/// The CPUs that are probed where none were named: all that the process may use,
/// minus one for housekeeping where there are at least four.
///
/// The one that is left out is the first, in this order of preference, that
/// 1. is neither isolated nor without tick: those were set apart to be measured;
/// 2. shares its core with no other usable CPU: what runs on it then slows no probe;
/// 3. has the lowest number: CPU 0 serves most timers and interrupts anyway.
///
/// Only one is left out, also with SMT: its sibling is still measured, beside a
/// collector that sleeps nearly always, and the record names the siblings.
#[must_use]
pub fn default_probed(topology: &Topology, allowed: &[usize]) -> Choice {
    let usable = usable(&topology.online, allowed);
    if usable.len() < SPARE_FROM {
        return Choice {
            probed: usable,
            housekeeping: None,
        };
    }
    let housekeeping = housekeeping(topology, &usable);
    Choice {
        probed: usable
            .into_iter()
            .filter(|cpu| Some(*cpu) != housekeeping)
            .collect(),
        housekeeping,
    }
}

/// Holds a list that a person wrote against the machine. The housekeeping CPU is
/// the best of those that are left over, by the rule of [`default_probed`].
///
/// # Errors
/// When it names a CPU that is offline or forbidden, or leaves none.
pub fn select(
    list: &CpuList,
    topology: &Topology,
    allowed: &[usize],
) -> Result<Choice, CpuListError> {
    let usable = usable(&topology.online, allowed);
    let probed = match list {
        CpuList::All => usable.clone(),
        CpuList::Except(cpus) => usable
            .iter()
            .copied()
            .filter(|cpu| !cpus.contains(cpu))
            .collect(),
        CpuList::Only(cpus) => {
            for &cpu in cpus {
                if !topology.online.contains(&cpu) {
                    return Err(CpuListError::Offline {
                        cpu,
                        online: topology.online.clone(),
                        allowed: allowed.to_vec(),
                    });
                }
                if !allowed.contains(&cpu) {
                    return Err(CpuListError::Forbidden {
                        cpu,
                        online: topology.online.clone(),
                        allowed: allowed.to_vec(),
                    });
                }
            }
            cpus.clone()
        }
    };
    if probed.is_empty() {
        return Err(CpuListError::NoneLeft {
            allowed: allowed.to_vec(),
        });
    }
    let left: Vec<usize> = usable
        .into_iter()
        .filter(|cpu| !probed.contains(cpu))
        .collect();
    Ok(Choice {
        housekeeping: housekeeping(topology, &left),
        probed,
    })
}

/// Online and allowed, ascending.
fn usable(online: &[usize], allowed: &[usize]) -> Vec<usize> {
    let mut usable: Vec<usize> = online
        .iter()
        .copied()
        .filter(|cpu| allowed.contains(cpu))
        .collect();
    usable.sort_unstable();
    usable.dedup();
    usable
}

/// The best of `candidates` for everything that is not a probe.
fn housekeeping(topology: &Topology, candidates: &[usize]) -> Option<usize> {
    candidates.iter().copied().min_by_key(|cpu| {
        let set_apart = topology.isolated.contains(cpu) || topology.nohz_full.contains(cpu);
        let shares_core = topology
            .siblings_of(*cpu)
            .iter()
            .any(|other| topology.online.contains(other));
        (set_apart, shares_core, *cpu)
    })
}
