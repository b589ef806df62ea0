//! The running kernel's tables: of its types and its functions.

use punctual_trace::capture::layout;
use punctual_trace::capture::symbols::Symbols;

pub fn check(bytes: &[u8]) {
    let _ = layout::parse(bytes);
    let symbols = Symbols::parse(&String::from_utf8_lossy(bytes));
    for address in [0, 1, 0xffff_ffff_8100_0000, u64::MAX] {
        let _ = symbols.name(address);
    }
}
