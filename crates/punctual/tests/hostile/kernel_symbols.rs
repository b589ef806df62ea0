//! Names of functions: as text, and in the kernel's format.

use punctual_lab::kernel::{Symbols, kallsyms};

pub fn check(bytes: &[u8]) {
    for symbols in [Some(Symbols::parse(bytes)), kallsyms::symbols(bytes)] {
        let Some(symbols) = symbols else { continue };
        for address in [0, 0xffff_ffff_8100_0000, u64::MAX] {
            if let Some((name, offset)) = symbols.name(address) {
                assert!(offset <= address);
                assert!(symbols.address(name).is_some());
            }
        }
    }
}
