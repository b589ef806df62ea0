//! The output of the observer's plugin, and bills made from it.

use punctual_lab::kernel::Symbols;
use punctual_lab::observer::bill::bill;
use punctual_lab::observer::grid;
use punctual_lab::observer::trail::Trail;
use punctual_stats::peaks::Peak;

pub fn check(bytes: &[u8]) {
    let Ok(trail) = Trail::parse(bytes) else {
        return;
    };
    let _ = grid::lateness(&trail.marks);
    let symbols = Symbols::parse(b"ffffffff81000000 T first\nffffffff81000100 T second\n");
    for mark in trail.kept() {
        for latency_ns in [0, 1, 5_000, u64::MAX] {
            let peak = Peak::new(mark, 0, latency_ns);
            let Some(bill) = bill(&trail, &symbols, mark, &peak) else {
                continue;
            };
            let sum = bill
                .rows
                .iter()
                .map(|row| u128::from(row.instructions))
                .sum::<u128>();
            assert_eq!(sum, u128::from(latency_ns));
        }
    }
}
