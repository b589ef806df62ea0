//! Steal time: time that the host of a virtual machine took away; and how far the accounts of a
//! CPU have come.

#![expect(unsafe_code, reason = "sysconf")]

use std::collections::BTreeMap;

use crate::root::Root;

/// Steal time of each online CPU since boot, in nanoseconds, from `/proc/stat`.
/// Its resolution is a clock tick of the C library, mostly 10 ms. It is what the
/// host reports; time that this host's own host took is not included.
///
/// # Errors
/// If `/proc/stat` can't be read.
pub fn read(root: &Root) -> std::io::Result<BTreeMap<usize, u64>> {
    let accounts = accounts(root)?.into_iter();
    Ok(accounts.map(|(cpu, of)| (cpu, of.stolen_ns)).collect())
}

/// What the kernel accounted for a CPU since boot, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// The host took the CPU.
    pub stolen_ns: u64,
    /// All time that is accounted for: it advances with each tick, so it stands still while the
    /// host has the CPU. Each of its eight summands is rounded down.
    pub all_ns: u64,
}

/// The accounts of each online CPU, from `/proc/stat`, with the resolution of [`read`].
///
/// # Errors
/// If `/proc/stat` can't be read.
pub fn accounts(root: &Root) -> std::io::Result<BTreeMap<usize, Account>> {
    let text = root.text("/proc/stat")?;
    let tick = if root.is_live() { tick_ns() } else { USUAL_NS };
    Ok(parse(&text, tick))
}

fn parse(text: &str, tick: u64) -> BTreeMap<usize, Account> {
    text.lines()
        .take_while(|line| line.starts_with("cpu"))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let cpu = crate::root::decimal(words.next()?.strip_prefix("cpu")?)?;
            // user nice system idle iowait irq softirq steal; guest time is a part of user time
            let columns: Vec<u64> = words
                .take(8)
                .map(|word| word.parse().ok())
                .collect::<Option<_>>()?;
            let stolen = *columns.get(7)?;
            let all = columns
                .iter()
                .fold(0_u64, |all, of| all.saturating_add(*of));
            let account = Account {
                stolen_ns: stolen.saturating_mul(tick),
                all_ns: all.saturating_mul(tick),
            };
            Some((cpu, account))
        })
        .collect()
}

/// A tick of `/proc/stat` on a recorded machine.
const USUAL_NS: u64 = 10_000_000;

/// Length of a tick of `/proc/stat`.
#[must_use]
pub fn tick_ns() -> u64 {
    // SAFETY: sysconf takes no pointer.
    let rate = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100);
    1_000_000_000 / rate.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_of_a_cpu_are_all_of_it_but_the_time_of_guests_twice() {
        let text = "cpu  10 20 30 40 50 60 70 80 90 100\n\
                    cpu0 1 2 3 4 5 6 7 8 9 10\n\
                    cpu3 0 0 0 0 0 0 0 18446744073709551615 0 0\n\
                    cpu4 1 2 3 4 5 6 7\n\
                    cpu5 1 2 3 4 5 6 x 8\n\
                    intr 5\n\
                    cpu6 1 2 3 4 5 6 7 8\n";
        let account = |stolen_ns, all_ns| Account { stolen_ns, all_ns };
        let most = account(u64::MAX, u64::MAX);
        let expected = BTreeMap::from([(0, account(80, 360)), (3, most)]);
        assert_eq!(parse(text, 10), expected);
    }
}
