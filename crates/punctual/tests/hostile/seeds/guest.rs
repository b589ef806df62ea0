//! Seeds of what the laboratory reads of guests: their kernels' symbols, what plugins of QEMU leave.

use punctual_lab::bound::file::{Preemption, Windows};
use punctual_lab::kernel::{Symbols, kallsyms};
use punctual_lab::observer::{bill::bill, trail::Trail};
use punctual_stats::peaks::Peak;

use super::seed;

pub fn kernel_symbols() {
    const FIRST: u64 = 0xffff_ffff_8100_0000;
    let map = Symbols::parse(&seed("kernel_symbols/system-map"));
    assert_eq!(map.name(FIRST + 4), Some(("first", 4)));
    assert_eq!(map.address("second"), Some(FIRST + 0x100));
    for name in ["kallsyms-6.1", "kallsyms-6.6"] {
        let image = seed(&format!("kernel_symbols/{name}"));
        let symbols = kallsyms::symbols(&image).expect("tables");
        assert_eq!(symbols.len(), 3, "{name}");
        for (number, function) in (0..).zip(["first", "second", "third"]) {
            let address = FIRST + 0x100 * number;
            assert_eq!(symbols.address(function), Some(address), "{name}");
        }
        // The same of a kernel that relocates itself: 0 in the base's place, which a table names.
        let image = relocating(&image, FIRST);
        assert_eq!(kallsyms::symbols(&image), Some(symbols), "{name}");
    }
}

/// An image whose base is in a table of relocations, beside the last place that is relocated.
fn relocating(image: &[u8], base: u64) -> Vec<u8> {
    let mut image = image.to_vec();
    let words = image.as_chunks::<8>().0;
    let place = words
        .iter()
        .position(|word| u64::from_le_bytes(*word) == base);
    let place = place.expect("a base") * 8;
    image[place..place + 8].fill(0);
    image.resize(image.len().next_multiple_of(8), 0);
    let length = image.len() as u64 + 48;
    for (at, address) in [(base + place as u64, base), (base + length - 8, base + 8)] {
        for word in [at, 0x403, address] {
            image.extend(word.to_le_bytes());
        }
    }
    image
}

pub fn lab_bound() {
    let text = seed("lab_bound/small");
    let text = std::str::from_utf8(&text).expect("text");
    let windows = |model| Windows::parse(text, model).expect("windows");
    let (full, points) = (windows(Preemption::Full), windows(Preemption::Points));
    let longest = |of: &Windows| of.late.iter().map(|it| it.length).max();
    assert_eq!(longest(&full), Some(5_000));
    assert_eq!(longest(&points), Some(90_000));
    assert_eq!((full.interrupts, full.apart), (20, 4_000_000));
    assert_eq!(full.wakes.len(), 3);
    assert_eq!((full.wakes[0].entry, points.wakes[0].entry), (400, 401));
}

pub fn lab_observer() {
    let trail = Trail::parse(&seed("lab_observer/small")).expect("a trail");
    assert_eq!(trail.marks, [0, 100, 5_000]);
    assert_eq!(trail.kept().collect::<Vec<_>>(), [1, 2]);
    let executed: Vec<u32> = trail.before(2).expect("kept").map(|s| s.executed).collect();
    assert_eq!(executed, [5_000 - 4_990, 4_990 - 4_000, 4_000 - 100]);
    // The clock's block was executed whole: 3 of a program, after 5 of the kernel's.
    let trail = Trail::parse(&seed("lab_observer/wraps")).expect("a trail");
    let symbols = Symbols::parse(b"ffffffff81000000 T first\n");
    let bill = bill(&trail, &symbols, 1, &Peak::new(1, 0, 10)).expect("a bill");
    let mut rows: Vec<(&str, u64)> = bill
        .rows
        .iter()
        .map(|row| (row.function.as_str(), row.instructions))
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [("(not kept)", 2), ("(user)", 3), ("first", 5)]);
}
