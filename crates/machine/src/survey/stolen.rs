//! Steal time: time that the host of a virtual machine took away.

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
    let text = root.text("/proc/stat")?;
    let tick = if root.is_live() { tick_ns() } else { USUAL_NS };
    Ok(parse(&text, tick))
}

fn parse(text: &str, tick: u64) -> BTreeMap<usize, u64> {
    text.lines()
        .take_while(|line| line.starts_with("cpu"))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let cpu = crate::root::decimal(words.next()?.strip_prefix("cpu")?)?;
            // user nice system idle iowait irq softirq steal
            let steal: u64 = words.nth(7)?.parse().ok()?;
            Some((cpu, steal.saturating_mul(tick)))
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
