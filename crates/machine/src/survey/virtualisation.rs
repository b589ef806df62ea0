//! Whether this is a virtual machine, and whether we are in a container.

use super::cgroup::Cgroups;
use crate::root::Reader;
use punctual_record::Hypervisor;
use punctual_record::system::{Kernel, Virtualisation};
use punctual_record::text::shortened;

/// A hypervisor of which nothing is known.
const UNKNOWN: Hypervisor = Hypervisor::Unknown {
    signature: None,
    firmware: None,
};

/// Reads hypervisor and container. The monitor fills in the steal time.
pub(super) fn read(reader: &mut Reader<'_>, kernel: &Kernel, cgroups: &Cgroups) -> Virtualisation {
    Virtualisation {
        hypervisor: hypervisor(reader, kernel),
        container: container(reader, cgroups),
        stolen_ns: None,
        stolen_share: None,
        stolen_grain_ns: None,
    }
}

/// The name of the hypervisor. On x86 the processor itself says whether there is
/// one: from firmware names alone, a cloud's bare metal would count as a guest.
fn hypervisor(reader: &mut Reader<'_>, kernel: &Kernel) -> Option<Hypervisor> {
    let information = reader.root.text("/proc/cpuinfo").unwrap_or_default();
    let flags = information
        .lines()
        .find(|line| line.starts_with("flags"))
        .map(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    let x86 = flags.is_some() || matches!(kernel.machine.as_str(), "x86_64" | "i686");
    let named = reader
        .optional("/sys/hypervisor/type")
        .filter(|name| !name.is_empty() && name != "none")
        .map(|name| {
            let known = if name == "xen" { "Xen" } else { &name };
            Hypervisor::from(known)
        });
    if x86 {
        let flagged = flags.unwrap_or(false);
        let signature = signature(reader);
        if named.is_none() && signature.is_none() && !flagged {
            return user_mode(&information);
        }
        let firmware = firmware(reader);
        return Some(match (named.or(signature), firmware) {
            (Some(Hypervisor::Name(name)), Some(product)) if !name.starts_with(&product) => {
                Hypervisor::Name(format!("{name} ({product})"))
            }
            (Some(Hypervisor::Unknown { signature, .. }), firmware) => Hypervisor::Unknown {
                signature,
                firmware,
            },
            (Some(name), _) => name,
            (None, Some(product)) => Hypervisor::Name(product),
            (None, None) => UNKNOWN,
        });
    }
    named
        .or_else(|| device_tree(reader))
        .or_else(|| firmware(reader).map(Hypervisor::Name))
        .or_else(|| user_mode(&information))
}

/// User Mode Linux runs as a process.
fn user_mode(information: &str) -> Option<Hypervisor> {
    let name = "User Mode Linux";
    information.contains(name).then(|| name.into())
}

/// The name that the processor reports (`cpuid`, leaf 0x4000_0000).
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the cpuid instruction")]
fn signature(reader: &Reader<'_>) -> Option<Hypervisor> {
    use std::arch::x86_64::__cpuid;
    if !reader.root.is_live() {
        return None;
    }
    // Every x86-64 processor has this leaf; bit 31 of ecx is set by hypervisors.
    #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
    // SAFETY: x86-64 always has the instruction.
    let features = unsafe { __cpuid(1) };
    if features.ecx >> 31 == 0 {
        return None;
    }
    #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
    // SAFETY: x86-64 always has the instruction; a hypervisor answers this leaf.
    let leaf = unsafe { __cpuid(0x4000_0000) };
    let mut bytes = Vec::with_capacity(12);
    for register in [leaf.ebx, leaf.ecx, leaf.edx] {
        bytes.extend_from_slice(&register.to_le_bytes());
    }
    Some(vendor(&bytes))
}

#[cfg(not(target_arch = "x86_64"))]
fn signature(_reader: &Reader<'_>) -> Option<Hypervisor> {
    None
}

/// The hypervisor of a signature of twelve bytes.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only x86-64 names its hypervisor")
)]
fn vendor(signature: &[u8]) -> Hypervisor {
    let known: &[(&[u8], &str)] = &[
        (b"KVMKVMKVM", "KVM"),
        (b"Linux KVM Hv", "KVM"),
        (b"TCGTCGTCGTCG", "QEMU TCG"),
        (b"VMwareVMware", "VMware"),
        (b"Microsoft Hv", "Hyper-V"),
        (b"XenVMMXenVMM", "Xen"),
        (b"VBoxVBoxVBox", "VirtualBox"),
        (b"bhyve bhyve ", "bhyve"),
        (b"ACRNACRNACRN", "ACRN"),
        (b"Jailhouse", "Jailhouse"),
        (b"QNXQVMBSQG", "QNX"),
        (b"SRESRESRESRE", "Bochs or SRE"),
        (b" lrpepyh  vr", "Parallels"),
        (b"prl hyperv  ", "Parallels"),
    ];
    known
        .iter()
        .find(|(bytes, _)| signature.starts_with(bytes))
        .map_or_else(
            || {
                let text: String = String::from_utf8_lossy(signature)
                    .chars()
                    .filter(|c| c.is_ascii_graphic())
                    .collect();
                Hypervisor::Unknown {
                    signature: (!text.is_empty()).then_some(text),
                    firmware: None,
                }
            },
            |(_, name)| (*name).into(),
        )
}

/// The name in the firmware, if only a virtual machine has it.
fn firmware(reader: &mut Reader<'_>) -> Option<String> {
    let mut field = |name: &str| {
        reader
            .optional(&format!("/sys/class/dmi/id/{name}"))
            .unwrap_or_default()
    };
    let vendor = field("sys_vendor");
    let product = field("product_name");
    let board = field("board_vendor");
    let bios = field("bios_vendor");
    let known = [
        ("QEMU", "QEMU"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("innotek GmbH", "VirtualBox"),
        ("VirtualBox", "VirtualBox"),
        ("Xen", "Xen"),
        ("Bochs", "Bochs"),
        ("Parallels", "Parallels"),
        ("BHYVE", "bhyve"),
        ("Apple Virtualization", "Apple Virtualization"),
        ("Google Compute Engine", "Google Compute Engine"),
        ("OpenStack", "OpenStack"),
        ("DigitalOcean", "DigitalOcean"),
    ];
    for text in [&product, &vendor, &board, &bios] {
        let found = known.iter().find(|(prefix, _)| text.starts_with(prefix));
        if let Some((_, name)) = found {
            return Some((*name).to_owned());
        }
    }
    if vendor == "Microsoft Corporation" && product == "Virtual Machine" {
        return Some("Hyper-V".to_owned());
    }
    if vendor == "Amazon EC2" && !product.contains("metal") {
        return Some("Amazon EC2".to_owned());
    }
    None
}

/// The name in the device tree.
fn device_tree(reader: &mut Reader<'_>) -> Option<Hypervisor> {
    if let Some(compatible) = reader.optional("/proc/device-tree/hypervisor/compatible") {
        let known = [("xen", "Xen"), ("linux,kvm", "KVM"), ("vmware", "VMware")];
        let known = known.iter().find(|(word, _)| compatible.contains(word));
        return Some(known.map_or(UNKNOWN, |(_, name)| (*name).into()));
    }
    let machine = reader.optional("/proc/device-tree/compatible")?;
    (machine.contains("linux,dummy-virt") || machine.contains("qemu,")).then(|| "QEMU".into())
}

/// The kind of the container.
fn container(reader: &mut Reader<'_>, cgroups: &Cgroups) -> Option<String> {
    // Every process of a container can read what its manager put there.
    if let Some(manager) = reader.optional("/run/host/container-manager") {
        return Some(first_line(&manager));
    }
    if let Some(manager) = reader.optional("/run/systemd/container") {
        return Some(first_line(&manager));
    }
    // Only root may read it: a refusal is normal, so it is not noted.
    let environment = reader.root.text("/proc/1/environ").unwrap_or_default();
    let named = environment
        .split('\0')
        .find_map(|variable| variable.strip_prefix("container="))
        .filter(|name| !name.is_empty());
    if let Some(name) = named {
        return Some(first_line(name));
    }
    let path = |word: &str| cgroups.paths.iter().any(|path| path.contains(word));
    let by_path = [
        ("/kubepods", "kubernetes"),
        ("/docker/", "docker"),
        ("/docker-", "docker"),
        ("/libpod-", "podman"),
        ("/lxc/", "lxc"),
        ("/lxc.payload", "lxc"),
        ("/crio-", "cri-o"),
        ("/cri-containerd-", "containerd"),
    ]
    .iter()
    .find(|(word, _)| path(word));
    if let Some((_, name)) = by_path {
        return Some((*name).to_owned());
    }
    // Images contain these files also when they boot as a machine's own root, and there any user
    // may unshare a namespace: they count only together with what a container's manager mounts.
    let marker = [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")]
        .iter()
        .find(|(file, _)| reader.root.exists(file));
    match marker {
        Some((_, name)) if !first_namespaces(reader) && mounted_by_manager(reader) => {
            Some((*name).to_owned())
        }
        _ => None,
    }
}

/// Whether files are mounted that container managers put over an image's own.
fn mounted_by_manager(reader: &Reader<'_>) -> bool {
    const FILES: [&str; 4] = [
        "/etc/hostname",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/run/.containerenv",
    ];
    let mounts = reader.root.text("/proc/self/mountinfo").unwrap_or_default();
    let mut places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    places.any(|place| FILES.contains(&place))
}

/// Whether we are in the kernel's initial namespaces. Their inode
/// numbers are fixed (`include/linux/proc_ns.h`).
fn first_namespaces(reader: &Reader<'_>) -> bool {
    [
        ("pid", "pid:[4026531836]"),
        ("cgroup", "cgroup:[4026531835]"),
        ("user", "user:[4026531837]"),
        ("uts", "uts:[4026531838]"),
    ]
    .iter()
    .all(|(name, first)| {
        reader
            .root
            .link(&format!("/proc/self/ns/{name}"))
            .is_ok_and(|link| link == *first)
    })
}

fn first_line(text: &str) -> String {
    shortened(text.lines().next().unwrap_or_default(), 64)
}
