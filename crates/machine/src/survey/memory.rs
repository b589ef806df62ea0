//! Memory: how much there is, and what moves it.

use crate::root::{READ_LIMIT, Reader, Root};
use punctual_record::system::Memory;

const INFORMATION: &str = "/proc/meminfo";

/// Reads memory.
pub(super) fn read(reader: &mut Reader<'_>) -> Memory {
    let information = reader.text(INFORMATION).unwrap_or_default();
    let flag = |text: &str| text.parse::<i64>().ok();
    Memory {
        total_bytes: kilobytes(&information, "MemTotal").unwrap_or(0),
        swap_bytes: kilobytes(&information, "SwapTotal").unwrap_or(0),
        transparent_huge_pages: reader.parsed(
            "/sys/kernel/mm/transparent_hugepage/enabled",
            |text| {
                text.split_whitespace()
                    .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
                    .map(str::to_owned)
            },
        ),
        numa_balancing: reader
            .parsed("/proc/sys/kernel/numa_balancing", flag)
            .map(|mode| mode != 0),
        ksm: reader
            .parsed("/sys/kernel/mm/ksm/run", flag)
            .map(|mode| mode == 1),
    }
}

/// Memory that a program can still get without swapping; absent if the kernel
/// doesn't report it.
#[must_use]
pub fn memory_available(root: &Root) -> Option<u64> {
    kilobytes(&root.text(INFORMATION).ok()?, "MemAvailable")
}

/// A line `Key:  123 kB` of `/proc/meminfo`, `/proc/PID/status` or `smaps`, in bytes.
pub(super) fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let number = rest.trim().strip_suffix("kB")?.trim_end();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// How much of this process's memory is locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockedMemory {
    /// Bytes in locked mappings (`VmLck`).
    pub locked_bytes: u64,
    /// Bytes resident (`VmRSS`).
    pub resident_bytes: u64,
    /// Resident bytes of mappings that are not locked and that the kernel could
    /// take away; absent where `/proc/self/smaps` can't be read whole.
    pub loose_bytes: Option<u64>,
}

/// Reads back how much of this process's memory is locked.
#[must_use]
pub fn locked_memory(root: &Root) -> LockedMemory {
    let status = root.text("/proc/self/status").unwrap_or_default();
    LockedMemory {
        locked_bytes: kilobytes(&status, "VmLck").unwrap_or(0),
        resident_bytes: kilobytes(&status, "VmRSS").unwrap_or(0),
        // Half a table would give half the sum.
        loose_bytes: root
            .text("/proc/self/smaps")
            .ok()
            .filter(|text| !text.is_empty() && text.len() + 1 < READ_LIMIT as usize)
            .map(|text| loose(&text)),
    }
}

/// Resident bytes of the mappings in a `smaps` that are not locked, but could be.
///
/// Mappings of devices and of the kernel (`io`, `pf`: vdso, vvar, rings of perf)
/// can't be locked and are not reclaimed; huge pages are never swapped (`ht`).
fn loose(smaps: &str) -> u64 {
    let mut total = 0_u64;
    let mut resident = 0;
    let mut special = false;
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let fixed = flags
                .split_whitespace()
                .any(|flag| matches!(flag, "lo" | "io" | "pf" | "ht" | "de"));
            if !fixed && !special {
                total = total.saturating_add(resident);
            }
            resident = 0;
        } else if line.starts_with("Rss:") {
            resident = kilobytes(line, "Rss").unwrap_or(0);
        } else if line.starts_with(|c: char| c.is_ascii_digit() || ('a'..='f').contains(&c)) {
            special = ["[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]"]
                .iter()
                .any(|name| line.ends_with(name));
        }
    }
    total
}
