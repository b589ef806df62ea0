//! The set of loads that distinguish kernels: each takes one path through the kernel whose length
//! grows with its parameters, and on which some kernels disable preemption.

use crate::item::LoadItem;
use crate::parameter::Values;

/// The name of the set in `--load`.
pub const KERNEL_PATHS_NAME: &str = "kernel-paths";

/// The loads of the set, with the defaults of each.
pub const KERNEL_PATHS: &[&str] = &[
    "poll",
    "exit",
    "munmap",
    "mprotect",
    "hugepages",
    "vmread",
    "kill",
    "truncate",
    "proc",
    "timers",
];

/// The set as items of a list.
pub(crate) fn items() -> Vec<LoadItem> {
    let item = |name: &&str| LoadItem {
        name: (*name).to_owned(),
        set: Values::new(),
    };
    KERNEL_PATHS.iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn the_set_fits_into_half_of_a_small_guest() {
        for (cpus, available) in [(1, 860_u64 << 20), (2, 1 << 30), (64, 16 << 30)] {
            let memory = |item: LoadItem| {
                let generator = registry::find(&item.name).expect("a generator of this name");
                let loads = KERNEL_PATHS.len();
                (generator.memory)(&generator.resolve(&item.set, cpus, available, loads))
            };
            let total: u64 = items().into_iter().map(memory).sum();
            assert!(total < available / 2, "{} MiB on {cpus} CPUs", total >> 20);
        }
    }

    #[test]
    fn alone_each_has_its_whole_size_in_a_small_guest() {
        for name in KERNEL_PATHS {
            let generator = registry::find(name).expect("a generator of this name");
            let [small, large] = [860_u64 << 20, 1 << 40]
                .map(|available| generator.resolve(&Values::new(), 1, available, 1));
            assert_eq!(small, large, "{name}");
        }
    }
}
