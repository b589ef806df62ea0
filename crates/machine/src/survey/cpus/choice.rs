//! Chooses the CPUs to probe.

use super::{CpuList, CpuListError, Place};
use punctual_record::Chosen;
use punctual_record::system::{Node, Siblings};

/// The facts that the choice of CPUs depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Online CPUs, ascending.
    pub online: Vec<usize>,
    /// CPUs excluded from the scheduler's load balancing (`isolcpus`, isolated partitions).
    pub isolated: Vec<usize>,
    /// CPUs without a tick (`nohz_full`).
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

/// The probed CPUs, and where the rest of the tool runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// One probe thread each, ascending.
    pub probed: Vec<usize>,
    /// Why these were chosen.
    pub chosen: Chosen,
    /// The CPU left free for the collector and the saver; absent if the
    /// machine is too small to spare one.
    pub housekeeping: Option<usize>,
}

/// At least this many CPUs must be usable before one is left out.
const SPARE_FROM: usize = 4;

/// The CPUs that are probed if none were named.
///
/// 1. If the program was started with an affinity (`taskset`): those CPUs. An affinity that lacks
///    only the isolated CPUs is what the kernel gives every program, and does not count.
/// 2. If some are isolated: those, because they were set aside for real-time work.
/// 3. If some have no tick (`nohz_full`): those, for the same reason.
/// 4. Otherwise all that it may use.
///
/// In the first and the last case, one is left out for housekeeping if there are at least four:
/// the first, in this order of preference, that
/// 1. is neither isolated nor without a tick;
/// 2. shares its core with no other usable CPU: what runs on it then slows down no probe;
/// 3. has the lowest number: CPU 0 serves most timers and interrupts anyway.
///
/// Only one is left out, also with SMT: its sibling is still measured, next to a
/// collector that sleeps nearly always, and the record names the siblings.
#[must_use]
pub fn default_probed(topology: &Topology, place: &Place) -> Choice {
    let reachable = usable(&topology.online, &place.reachable);
    let inherited = usable(&topology.online, &place.inherited);
    let set_apart = |these: &[usize]| -> Vec<usize> {
        let among = reachable.iter().copied();
        among.filter(|cpu| these.contains(cpu)).collect()
    };
    let isolated = set_apart(&topology.isolated);
    let narrowed = inherited != reachable && inherited != without(&reachable, &isolated);
    if narrowed && !inherited.is_empty() {
        return spare(topology, place, inherited, Chosen::Inherited);
    }
    let tickless = set_apart(&topology.nohz_full);
    for (cpus, chosen) in [(isolated, Chosen::Isolated), (tickless, Chosen::NohzFull)] {
        let left = without(&reachable, &cpus);
        if !cpus.is_empty() && !left.is_empty() {
            return Choice {
                probed: cpus,
                chosen,
                housekeeping: housekeeping(topology, place, &left),
            };
        }
    }
    let all_isolated = !reachable.is_empty() && without(&reachable, &topology.isolated).is_empty();
    let chosen = if all_isolated {
        Chosen::Isolated
    } else {
        Chosen::All
    };
    spare(topology, place, reachable, chosen)
}

/// All of these, except one for housekeeping if there are enough.
fn spare(topology: &Topology, place: &Place, cpus: Vec<usize>, chosen: Chosen) -> Choice {
    let housekeeping = (cpus.len() >= SPARE_FROM)
        .then(|| housekeeping(topology, place, &cpus))
        .flatten();
    Choice {
        probed: cpus
            .into_iter()
            .filter(|cpu| Some(*cpu) != housekeeping)
            .collect(),
        chosen,
        housekeeping,
    }
}

fn without(cpus: &[usize], these: &[usize]) -> Vec<usize> {
    let cpus = cpus.iter().copied();
    cpus.filter(|cpu| !these.contains(cpu)).collect()
}

/// CPUs for a load: those of the affinity that the program was started with, without the
/// isolated ones, as for other programs; the whole affinity if none is left.
#[must_use]
pub fn for_load(topology: &Topology, place: &Place) -> Vec<usize> {
    let inherited = usable(&topology.online, &place.inherited);
    let common = without(&inherited, &topology.isolated);
    if common.is_empty() { inherited } else { common }
}

/// Checks a list that a user wrote against the machine: it may name any CPU that the process
/// can move to, whatever affinity it was started with. The housekeeping CPU is the best of
/// the remaining ones, by the rule of [`default_probed`].
///
/// # Errors
/// If it names a CPU that is offline or not available, or excludes all CPUs.
pub fn select(list: &CpuList, topology: &Topology, place: &Place) -> Result<Choice, CpuListError> {
    let usable = usable(&topology.online, &place.reachable);
    let probed = match list {
        CpuList::All => usable.clone(),
        CpuList::Except(cpus) => without(&usable, cpus),
        CpuList::Only(cpus) => {
            for &cpu in cpus {
                if !topology.online.contains(&cpu) {
                    return Err(CpuListError::Offline {
                        cpu,
                        online: topology.online.clone(),
                        allowed: usable,
                    });
                }
                if !usable.contains(&cpu) {
                    return Err(CpuListError::Forbidden {
                        cpu,
                        online: topology.online.clone(),
                        place: Box::new(place.clone()),
                    });
                }
            }
            cpus.clone()
        }
    };
    if probed.is_empty() {
        return Err(CpuListError::NoneLeft { allowed: usable });
    }
    let left = without(&usable, &probed);
    Ok(Choice {
        housekeeping: housekeeping(topology, place, &left),
        chosen: Chosen::Named,
        probed,
    })
}

/// The CPUs that are online and allowed, ascending.
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

/// The best of `candidates` for everything that is not a probe; one of the initial
/// affinity is preferred to all others.
fn housekeeping(topology: &Topology, place: &Place, candidates: &[usize]) -> Option<usize> {
    candidates.iter().copied().min_by_key(|cpu| {
        let set_apart = topology.isolated.contains(cpu) || topology.nohz_full.contains(cpu);
        let shares_core = topology
            .siblings_of(*cpu)
            .iter()
            .any(|other| topology.online.contains(other));
        (set_apart, !place.inherited.contains(cpu), shares_core, *cpu)
    })
}
