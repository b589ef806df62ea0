//! The processor and its topology.
#![expect(unsafe_code, reason = "sysconf")]

use super::cpus::{Topology, parse_kernel};
use crate::isolated::BY_KERNEL;
use crate::root::{Reader, Root};
use punctual_record::system::{Node, Processor, Siblings};

const CPU: &str = "/sys/devices/system/cpu";

/// Online CPUs. On the live machine the C library is asked if `/sys`
/// is missing, so that there is always at least CPU 0.
#[must_use]
pub fn online(root: &Root) -> Vec<usize> {
    let listed = root
        .text(&format!("{CPU}/online"))
        .ok()
        .and_then(|text| parse_kernel(&text).ok())
        .filter(|cpus| !cpus.is_empty());
    if let Some(cpus) = listed {
        return cpus;
    }
    let mut cpus = super::stolen::read(root)
        .map(|stolen| stolen.into_keys().collect::<Vec<_>>())
        .unwrap_or_default();
    if cpus.is_empty() && root.is_live() {
        // SAFETY: sysconf takes no pointer.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        cpus = (0..usize::try_from(count).unwrap_or(1).max(1)).collect();
    }
    cpus
}

/// The facts that the choice of CPUs depends on.
#[must_use]
pub fn topology(root: &Root) -> Topology {
    read_topology(&mut Reader::new(root))
}

fn read_topology(reader: &mut Reader<'_>) -> Topology {
    let online = online(reader.root);
    let siblings = online
        .iter()
        .filter_map(|&cpu| {
            let others = siblings_of(reader, cpu, &online);
            (!others.is_empty()).then_some(Siblings { cpu, others })
        })
        .collect();
    // Our own groups may be mounted elsewhere.
    let groups = super::cgroup::read(&mut Reader::new(reader.root));
    let mut isolated = reader.cpus(BY_KERNEL).unwrap_or_default();
    isolated.extend(crate::isolated::isolated(reader.root));
    isolated.extend(groups.isolated);
    if groups.partition.is_some() {
        isolated.extend(groups.cpuset.into_iter().flat_map(|set| set.cpus));
    }
    isolated.sort_unstable();
    isolated.dedup();
    Topology {
        isolated,
        nohz_full: nohz_full(reader),
        siblings,
        nodes: nodes(reader),
        online,
    }
}

/// Reads the processor; siblings are those of the probed CPUs.
pub(super) fn read(reader: &mut Reader<'_>, probed: &[usize]) -> Processor {
    let topology = read_topology(reader);
    if !reader.root.exists(&format!("{CPU}/online")) {
        let absent = std::io::Error::from_raw_os_error(libc::ENOENT);
        reader.note_error(&format!("{CPU}/online"), &absent);
    }
    let information = reader.text("/proc/cpuinfo").unwrap_or_default();
    Processor {
        model: model(reader, &information),
        microcode: field(&information, &["microcode"]).map(str::to_owned),
        allowed: super::limits::allowed(reader.root),
        smt_active: reader.parsed(&format!("{CPU}/smt/active"), |text| match text {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        }),
        siblings: probed
            .iter()
            .map(|&cpu| Siblings {
                cpu,
                others: topology.siblings_of(cpu).to_vec(),
            })
            .collect(),
        online: topology.online,
        isolated: topology.isolated,
        nohz_full: topology.nohz_full,
        nodes: topology.nodes,
    }
}

/// CPUs without a tick. Kernels print `(null)` if the option was not given.
fn nohz_full(reader: &mut Reader<'_>) -> Vec<usize> {
    reader
        .parsed(&format!("{CPU}/nohz_full"), |text| match text {
            "(null)" => Some(Vec::new()),
            list => parse_kernel(list).ok(),
        })
        .unwrap_or_default()
}

/// The other threads of a CPU's core that are online.
fn siblings_of(reader: &mut Reader<'_>, cpu: usize, online: &[usize]) -> Vec<usize> {
    // The older name has the same contents and exists on every supported kernel.
    reader
        .cpus(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"))
        .unwrap_or_default()
        .into_iter()
        .filter(|other| *other != cpu && online.contains(other))
        .collect()
}

/// NUMA nodes that have CPUs.
fn nodes(reader: &mut Reader<'_>) -> Vec<Node> {
    let directory = "/sys/devices/system/node";
    reader
        .root
        .numbered(directory, "node")
        .into_iter()
        .filter_map(|node| {
            let cpus = reader.cpus(&format!("{directory}/node{node}/cpulist"))?;
            (!cpus.is_empty()).then_some(Node { node, cpus })
        })
        .collect()
}

/// The model: x86 has it in cpuinfo, boards in the device tree, and a bare Arm
/// core is identified by its implementer and part numbers.
fn model(reader: &mut Reader<'_>, information: &str) -> String {
    let named = field(information, &["model name", "cpu model", "cpu", "uarch"]);
    let board = field(information, &["Model", "machine"])
        .map(str::to_owned)
        .or_else(|| reader.optional("/proc/device-tree/model"))
        .filter(|text| !text.is_empty());
    let arm = || {
        let implementer = field(information, &["CPU implementer"])?;
        let part = field(information, &["CPU part"])?;
        Some(match arm_core(implementer, part) {
            Some(name) => name.to_owned(),
            None => format!("Arm core {implementer}:{part}"),
        })
    };
    let core = named.map(str::to_owned).or_else(arm);
    match (core, board) {
        (Some(core), Some(board)) if board != core => format!("{core} ({board})"),
        (Some(core), _) => core,
        (None, Some(board)) => board,
        (None, None) => String::new(),
    }
}

/// The first non-empty value of one of these keys in `/proc/cpuinfo`.
fn field<'t>(information: &'t str, keys: &[&str]) -> Option<&'t str> {
    keys.iter().find_map(|key| {
        information.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            (name.trim() == *key && !value.is_empty()).then_some(value)
        })
    })
}

/// Arm's own cores in small computers and servers.
fn arm_core(implementer: &str, part: &str) -> Option<&'static str> {
    if implementer != "0x41" {
        return None;
    }
    Some(match part {
        "0xd03" => "Cortex-A53",
        "0xd04" => "Cortex-A35",
        "0xd05" => "Cortex-A55",
        "0xd07" => "Cortex-A57",
        "0xd08" => "Cortex-A72",
        "0xd09" => "Cortex-A73",
        "0xd0a" => "Cortex-A75",
        "0xd0b" => "Cortex-A76",
        "0xd0c" => "Neoverse-N1",
        "0xd40" => "Neoverse-V1",
        "0xd41" => "Cortex-A78",
        "0xd49" => "Neoverse-N2",
        "0xd4f" => "Neoverse-V2",
        _ => return None,
    })
}
