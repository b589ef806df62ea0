//! The archive's own kernels, where apt reaches it.

use std::path::Path;

use punctual_lab::kernel::{self, Cache};

use super::needs::{self, Absent, need, skip};
use punctual_record::laboratory::Architecture;

#[test]
fn the_archives_kernels_are_found_with_all_that_a_guest_needs() {
    need!(needs::program("apt-get"));
    // Kept from one run of the tests to the next.
    let cache = Cache::at(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels"));
    for (asked, is_rt) in [("rt", true), ("standard", false)] {
        let mut told = Vec::new();
        let found = kernel::find(asked, Architecture::Amd64, &cache, &mut |step| {
            told.push(step.to_string())
        });
        let kernel = match found {
            Ok(kernel) => kernel,
            Err(error @ kernel::Error::Package { .. }) => skip!(Absent::program(error)),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(kernel.release.contains("-rt-"), is_rt, "{kernel:?}");
        let package = kernel.package.as_ref().expect("a package");
        assert_eq!(package.name, format!("linux-image-{}", kernel.release));
        let config = std::fs::read_to_string(kernel.config.as_ref().expect("one")).expect("text");
        assert_eq!(config.contains("CONFIG_PREEMPT_RT=y"), is_rt);

        let names = |module: &str| -> Vec<String> {
            let modules = kernel.module(module).expect(module).into_iter();
            modules.map(|module| module.name).collect()
        };
        assert_eq!(names("veth"), ["veth"]);
        assert_eq!(names("null_blk"), ["configfs", "null_blk"]);
        for module in kernel.module("null_blk").expect("modules") {
            assert!(module.bytes.starts_with(b"\x7fELF"));
        }

        let symbols = kernel.symbols().expect("symbols");
        assert!(symbols.len() > 50_000, "{}", symbols.len());
        for name in [
            "do_sys_poll",
            "schedule",
            "__free_one_page",
            "hrtimer_interrupt",
        ] {
            let address = symbols.address(name).unwrap_or_else(|| panic!("no {name}"));
            assert_eq!(symbols.name(address + 1), Some((name, 1)));
        }
        // The kernel's text begins where the linker puts it.
        let text = symbols.name(0xffff_ffff_8100_0000);
        assert!(
            text.is_some_and(|(_, offset)| offset == 0),
            "{text:?} {told:?}"
        );
    }
}
