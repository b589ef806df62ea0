//! Boot parameters that mean nothing in the laboratory, and why.

use std::error::Error;
use std::fmt;

use super::super::nearest::nearest;
use punctual_machine::REAL_TIME_PARAMETERS;

/// Why a parameter means nothing in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It distributes work, interrupts or memory over several processors.
    OneProcessor,
    /// It is about a processor that idles.
    NeverIdle,
    /// It is about hardware that QEMU's machine doesn't have.
    NoHardware,
    /// The laboratory sets it, and more than `--param` refuses: with it twice nothing would change.
    OfLaboratory,
    /// It is a setting of the running kernel.
    AtRunTime,
}

/// Parameters by name, `-` as `_`; `name.` means all of a module.
const MEANINGLESS: &[(Why, &[&str])] = &[
    (
        Why::OneProcessor,
        &[
            "acpi_irq_nobalance",
            "irqaffinity",
            "isolcpus",
            "kthread_cpus",
            "maxcpus",
            "noirqbalance",
            "nohz_full",
            "nosmp",
            "nosmt",
            "nr_cpus",
            "numa",
            "numa_balancing",
            "possible_cpus",
            "rcu_nocb_poll",
            "rcu_nocbs",
            "rcutree.nohz_full_patience_delay",
            "relax_domain_level",
            "skew_tick",
            "workqueue.default_affinity_scope",
            "workqueue.disable_numa",
            "workqueue.unbound_cpus",
        ],
    ),
    (
        Why::NeverIdle,
        &[
            "cpuidle.",
            "cpuidle_sysfs_switch",
            "haltpoll.",
            "idle",
            "intel_idle.",
            "max_cstate",
            "processor.",
        ],
    ),
    (
        Why::NoHardware,
        &[
            "amd_iommu",
            "amd_prefcore",
            "amd_pstate",
            "cpufreq.",
            "efi",
            "intel_iommu",
            "intel_pstate",
            "iommu",
            "mce",
            "nmi_watchdog",
            "nvme_core.",
            "pcie_aspm",
            "pcie_port_pm",
            "split_lock_detect",
            "usbcore.",
        ],
    ),
    (
        Why::OfLaboratory,
        &["kaslr", "lab.", "nokaslr", "norandmaps", "quiet"],
    ),
    (Why::AtRunTime, &["sysctl."]),
];

/// A parameter that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaningless {
    word: String,
    why: Why,
}

impl fmt::Display for Meaningless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = &self.word;
        match self.why {
            Why::OneProcessor => write!(
                f,
                "{word}: means nothing on one processor, and with more the lab shows no latencies: \
                 measure a machine with it and without, `punctual compare A B`"
            ),
            Why::NeverIdle => write!(
                f,
                "{word}: means nothing in the lab, whose processor never idles: measure a machine \
                 with it and without, `punctual compare A B`"
            ),
            Why::NoHardware => write!(
                f,
                "{word}: is about hardware that the lab's machine doesn't have: measure a machine \
                 with it and without, `punctual compare A B`"
            ),
            Why::OfLaboratory => write!(f, "{word}: the laboratory sets it itself: leave it out"),
            Why::AtRunTime => {
                let (name, value) = word.split_once('=').unwrap_or((word, "VALUE"));
                let file = name.trim_start_matches("sysctl.").replace('.', "/");
                write!(
                    f,
                    "{word}: can be set at run time: `punctual prove /proc/sys/{file}={value}` on a \
                     machine"
                )
            }
        }
    }
}

impl Error for Meaningless {}

/// The name of a parameter as the kernel compares it.
fn name_of(word: &str) -> String {
    word.split('=').next().unwrap_or(word).replace('-', "_")
}

/// Whether a parameter means something in a guest.
///
/// # Errors
/// Why not.
pub fn check(word: &str) -> Result<(), Meaningless> {
    let name = name_of(word);
    let is_it = |known: &&&str| match known.ends_with('.') {
        true => name.starts_with(**known),
        false => name == **known,
    };
    let found = MEANINGLESS
        .iter()
        .find(|(_, names)| names.iter().any(|known| is_it(&known)));
    match found {
        Some((why, _)) => Err(Meaningless {
            word: word.to_owned(),
            why: *why,
        }),
        None => Ok(()),
    }
}

/// "; did you mean NAME?", or nothing.
pub fn meant(word: &str) -> String {
    let listed = MEANINGLESS.iter().flat_map(|(_, names)| names.iter());
    let listed = listed.filter(|name| !name.ends_with('.'));
    let known = REAL_TIME_PARAMETERS.iter().chain(listed).copied();
    let name = name_of(word);
    let found = nearest(&name, known).filter(|found| *found != name);
    found.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_emulated_processor_cannot_show_is_refused_with_the_reason() {
        for (word, reason) in [
            ("isolcpus=1-3", "one processor"),
            ("isolcpus", "one processor"),
            ("nohz_full=1", "one processor"),
            ("rcu-nocbs=1", "one processor"),
            ("nosmt", "one processor"),
            ("numa_balancing=disable", "one processor"),
            ("skew_tick=1", "one processor"),
            ("idle=poll", "never idles"),
            ("intel_idle.max_cstate=1", "never idles"),
            ("processor.max_cstate=1", "never idles"),
            ("intel_pstate=disable", "hardware"),
            ("nmi_watchdog=0", "hardware"),
            ("mce=off", "hardware"),
            ("quiet", "sets it itself"),
            ("lab.seed=3", "sets it itself"),
            (
                "sysctl.kernel.sched_rt_runtime_us=-1",
                "`punctual prove /proc/sys/kernel/sched_rt_runtime_us=-1`",
            ),
        ] {
            let line = check(word).expect_err(word).to_string();
            assert!(line.contains(reason), "{line}");
            assert!(line.starts_with(word) && !line.contains('\n'), "{line}");
        }
        for word in [
            "preempt=full",
            "threadirqs",
            "mitigations=off",
            "rcutree.kthread_prio=2",
            "rcupdate.rcu_expedited=1",
            "nohz=off",
            "idler",
            "transparent_hugepage=never",
        ] {
            assert_eq!(check(word), Ok(()));
        }
    }

    #[test]
    fn a_misspelt_parameter_resembles_one() {
        assert_eq!(meant("thredirqs"), "; did you mean threadirqs?");
        assert_eq!(meant("isolcpu=1"), "; did you mean isolcpus?");
        // The name is right: its value is not.
        assert_eq!(meant("preempt=ful"), "");
        assert_eq!(meant("zzz"), "");
    }

    #[test]
    fn every_parameter_is_listed_once_as_the_kernel_compares_it() {
        let mut all: Vec<&str> = MEANINGLESS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        assert!(all.iter().all(|name| name_of(name) == *name));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
