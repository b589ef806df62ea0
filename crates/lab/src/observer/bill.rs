//! Makes a bill: each instruction of a latency, by function.

use std::collections::BTreeMap;

use punctual_stats::peaks::Peak;

use super::super::kernel::Symbols;
use super::trail::Trail;
use punctual_record::lab::{LabBill, LabBillRow, NoBill};

/// Code of programs, and code that the kernel maps into them.
pub const USER: &str = "(user)";
/// Code of the kernel that is not in its own symbol table.
pub const MODULE: &str = "(module)";
/// Instructions older than everything that was kept.
pub const NOT_KEPT: &str = "(not kept)";

/// Code of the kernel is above this address.
const KERNEL: u64 = 1 << 63;
/// The allowed difference between the time and the instructions between two wake-ups: the variation of
/// the code between clock and mark, plus one part in this many, more than the error of a guest's clock.
const ALLOWED_NS: u64 = 1_000;
const ALLOWED_SHARE: u64 = 10_000;
/// An interrupt between clock and mark makes two differences larger: to that mark and from it. At most
/// one mark in this many may have one.
const STRAY_SHARE: usize = 50;
const STRAY_NS: u64 = 100_000;

/// The mark of each peak; `peaks` are ordered by time. A record says when a thread woke, not how many
/// wake-ups came before, so marks and peaks are aligned where time and instructions agree best.
///
/// # Errors
/// There is no such alignment, or there are too few peaks.
pub fn marks_of(marks: &[u64], peaks: &[Peak]) -> Result<Vec<u64>, NoBill> {
    let woke: Vec<u64> = peaks
        .iter()
        .map(|peak| peak.asked_ns.saturating_add(peak.latency_ns))
        .collect();
    let laid = (0..marks.len()).filter_map(|first| lay(marks, &woke, first));
    let best = laid.min_by_key(|(difference, _)| *difference);
    let known = peaks.len() > 1 || marks.len() == 1;
    match best {
        Some((_, found)) if known => Ok(found),
        _ => Err(NoBill::OtherMarks {
            marks: marks.len() as u64,
        }),
    }
}

/// Aligns the first instant with the mark `first`; returns the marks of all instants, and the sum of the
/// differences.
fn lay(marks: &[u64], woke: &[u64], first: usize) -> Option<(u64, Vec<u64>)> {
    let mut at = first;
    let mut found = vec![at as u64];
    let mut difference = 0_u64;
    let mut strays = 2 + woke.len() / STRAY_SHARE;
    for pair in woke.windows(2) {
        let apart = pair[1].checked_sub(pair[0])?;
        let expected = marks[at].checked_add(apart)?;
        let after = at + marks[at..].partition_point(|mark| *mark < expected);
        // The nearer of the two neighbours.
        let distance = |index: &usize| marks[*index].abs_diff(expected);
        at = [after.saturating_sub(1), after]
            .into_iter()
            .filter(|index| (at + 1..marks.len()).contains(index))
            .min_by_key(distance)?;
        if distance(&at) > ALLOWED_NS + apart / ALLOWED_SHARE {
            if distance(&at) > STRAY_NS {
                return None;
            }
            strays = strays.checked_sub(1)?;
        }
        difference = difference.saturating_add(distance(&at));
        found.push(at as u64);
    }
    Some((difference, found))
}

/// The bill of one wake-up: the last `latency_ns` instructions up to the one that read the clock. `None`
/// if the instructions before this mark were not kept, or if no instruction read the clock.
#[must_use]
pub fn bill(trail: &Trail, symbols: &Symbols, mark: u64, peak: &Peak) -> Option<LabBill> {
    let mut left = peak.latency_ns;
    let mut spent: BTreeMap<&str, u64> = BTreeMap::new();
    let mut clock_read = false;
    for step in trail.before(mark)? {
        let whole = step.executed == step.block.instructions;
        clock_read |= step.block.reads_clock && whole;
        if !clock_read {
            continue;
        }
        let part = u64::from(step.executed).min(left);
        *spent.entry(name(symbols, step.block.address)).or_default() += part;
        left -= part;
        if left == 0 {
            break;
        }
    }
    if !clock_read {
        return None;
    }
    if left > 0 {
        *spent.entry(NOT_KEPT).or_default() += left;
    }
    let row = |(name, instructions): (&str, u64)| LabBillRow {
        function: name.to_owned(),
        instructions,
    };
    let mut rows: Vec<_> = spent.into_iter().filter(|(_, n)| *n > 0).map(row).collect();
    // A stable order: by instructions, then by name.
    rows.sort_by_key(|row| std::cmp::Reverse(row.instructions));
    Some(LabBill {
        asked_ns: Some(peak.asked_ns),
        total_ns: peak.latency_ns,
        rows,
    })
}

/// The function of an address, or what it stands for without one.
#[must_use]
pub fn name(symbols: &Symbols, address: u64) -> &str {
    if address < KERNEL {
        return USER;
    }
    symbols.name(address).map_or(MODULE, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::super::trail::tests::file;
    use super::*;

    fn symbols() -> Symbols {
        Symbols::parse(
            b"ffffffff81000000 T poll\n\
              ffffffff81000100 T fget\n\
              ffffffff81001000 T _etext\n",
        )
    }

    const POLL: (u64, u32, u32) = (0xffff_ffff_8100_0000, 10, 0);
    const FGET: (u64, u32, u32) = (0xffff_ffff_8100_0120, 7, 0);
    const CLOCK: (u64, u32, u32) = (0x7f00_0000_0000, 3, 1);
    const MARK: (u64, u32, u32) = (0x7f00_0000_1000, 20, 0);

    fn peak(cycle: u64, asked_ns: u64, latency_ns: u64) -> Peak {
        Peak::new(cycle, asked_ns, latency_ns)
    }

    fn rows(bill: &LabBill) -> Vec<(&str, u64)> {
        let row = |row: &'_ LabBillRow| row.instructions;
        let names = bill.rows.iter().map(|row| row.function.as_str());
        names.zip(bill.rows.iter().map(row)).collect()
    }

    fn trail(blocks: &[(u64, u32, u32)], steps: &[(u32, u32)], end: u64) -> Trail {
        Trail::parse(&file(blocks, &[0, end], &[(1, steps)])).expect("a whole file")
    }

    #[test]
    fn the_rows_sum_to_the_latency_and_end_where_the_clock_is_read() {
        let blocks = [POLL, FGET, CLOCK, MARK];
        // poll, fget, poll, clock, and what comes between clock and mark.
        let trail = trail(
            &blocks,
            &[(0, 100), (1, 110), (0, 117), (2, 127), (3, 130)],
            145,
        );
        for (latency, expected) in [
            (1, vec![("(user)", 1)]),
            (13, vec![("poll", 10), ("(user)", 3)]),
            (25, vec![("poll", 15), ("fget", 7), ("(user)", 3)]),
            (
                40,
                vec![("poll", 20), ("(not kept)", 10), ("fget", 7), ("(user)", 3)],
            ),
        ] {
            let bill = bill(&trail, &symbols(), 1, &peak(0, 5, latency)).expect("kept");
            assert_eq!(rows(&bill), expected);
            let sum: u64 = bill.rows.iter().map(|row| row.instructions).sum();
            assert_eq!((sum, bill.total_ns), (latency, latency));
        }
    }

    #[test]
    fn without_a_clock_or_what_ran_there_is_no_bill() {
        let clockless = trail(&[POLL], &[(0, 0)], 10);
        assert_eq!(bill(&clockless, &symbols(), 1, &peak(0, 5, 9)), None);
        assert_eq!(bill(&clockless, &symbols(), 0, &peak(0, 5, 9)), None);
    }

    #[test]
    fn marks_are_found_where_the_guests_clock_is_somewhat_wrong() {
        let mut seed = 7_u64;
        let peaks: Vec<Peak> = (0..3000)
            .map(|cycle| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                peak(
                    cycle,
                    5_000_000 + cycle * 1_000_000,
                    3_500 + (seed >> 33) % 2_000,
                )
            })
            .collect();
        let woke = peaks.iter().map(|peak| peak.asked_ns + peak.latency_ns);
        // Warming up, then each a tenth of a microsecond off.
        let marks: Vec<u64> = (0..3)
            .map(|warm| warm * 900_000)
            .chain(
                woke.enumerate()
                    .map(|(at, ns)| ns - ns / 50_000 + at as u64 % 100),
            )
            .collect();
        let trail = Trail::parse(&file(&[], &marks, &[])).expect("a whole file");
        // Those that are told of are not all.
        let told: Vec<Peak> = peaks
            .into_iter()
            .filter(|peak| peak.cycle % 7 != 3)
            .collect();
        let expected: Vec<u64> = told.iter().map(|peak| peak.cycle + 3).collect();
        assert_eq!(marks_of(&trail.marks, &told).expect("a place"), expected);
    }

    #[test]
    fn marks_are_found_by_the_time_between_wake_ups() {
        let marks = [0, 1_000_100, 2_000_300, 7_000_210, 8_000_210, 9_001_000];
        let trail = Trail::parse(&file(&[], &marks, &[])).expect("a whole file");
        let peaks = [peak(0, 1_000_000, 5_000), peak(6, 7_000_000, 5_105)];
        assert_eq!(marks_of(&trail.marks, &peaks).expect("a place"), [1, 3]);
        // A period apart there are several places, and one that fits to the ns.
        let peaks = [peak(8, 50_000_000, 4_000), peak(9, 51_000_000, 4_790)];
        assert_eq!(marks_of(&trail.marks, &peaks).expect("a place"), [4, 5]);
        let others = [peak(0, 1_000_000, 5_000), peak(6, 7_500_000, 5_105)];
        assert!(marks_of(&trail.marks, &others).is_err(), "other instants");
        assert!(marks_of(&trail.marks, &others[..1]).is_err(), "one of many");
        assert!(marks_of(&trail.marks, &[]).is_err());
        let late = [peak(0, u64::MAX, u64::MAX), peak(0, 0, 0)];
        assert!(marks_of(&trail.marks, &late).is_err());
    }
}
