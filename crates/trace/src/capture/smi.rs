//! How many system management interrupts a CPU has had, read now and then: no event shows them,
//! but the processor counts them.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use punctual_rt::clock;
use punctual_rt::sys::perf;

/// Where the kernel lists the counters that it reads from the processor's registers.
const PMU: &str = "/sys/bus/event_source/devices/msr";
/// Readings of one CPU that are kept: they cover more time than the kept events.
const KEPT: usize = 1024;

/// The counts of some CPUs.
pub struct SmiCounts {
    counters: Vec<Counter>,
}

struct Counter {
    cpu: u32,
    counter: OwnedFd,
    first: Option<u64>,
    /// When, and the count.
    readings: VecDeque<(u64, u64)>,
}

impl SmiCounts {
    /// Starts counting on these CPUs; `None` if the processor doesn't count them, or
    /// access is denied.
    #[must_use]
    pub fn open(cpus: &[u32]) -> Option<Self> {
        let (kind, config) = event(Path::new(PMU))?;
        let counter = |cpu: &u32| {
            Some(Counter {
                cpu: *cpu,
                counter: perf::count_on_cpu(kind, config, *cpu).ok()?,
                first: None,
                readings: VecDeque::with_capacity(KEPT),
            })
        };
        let counters: Option<Vec<Counter>> = cpus.iter().map(counter).collect();
        counters.map(|counters| Self { counters })
    }

    /// Reads all counts, if the last reading is at least this long ago; returns whether it did.
    /// Reading one interrupts its CPU for some µs.
    pub fn read(&mut self, apart_ns: u64) -> bool {
        let last = self.counters.first().and_then(|c| c.readings.back());
        if last.is_some_and(|(at, _)| clock::now_ns() < at.saturating_add(apart_ns)) {
            return false;
        }
        for counter in &mut self.counters {
            let Ok(count) = perf::hits(&counter.counter) else {
                continue;
            };
            counter.first.get_or_insert(count);
            if counter.readings.len() >= KEPT {
                counter.readings.pop_front();
            }
            counter.readings.push_back((clock::now_ns(), count));
        }
        true
    }

    /// The last reading of a CPU before an instant, and the first after another.
    #[must_use]
    pub fn readings_around(&self, cpu: u32, from_ns: u64, to_ns: u64) -> [Option<(u64, u64)>; 2] {
        let Some(counter) = self.counters.iter().find(|known| known.cpu == cpu) else {
            return [None; 2];
        };
        around(&counter.readings, from_ns, to_ns)
    }

    /// How many a CPU has had since the start.
    #[must_use]
    pub fn since_start(&self, cpu: u32) -> Option<u64> {
        let counter = self.counters.iter().find(|known| known.cpu == cpu)?;
        let (_, last) = counter.readings.back()?;
        Some(last.saturating_sub(counter.first?))
    }
}

fn around(readings: &VecDeque<(u64, u64)>, from_ns: u64, to_ns: u64) -> [Option<(u64, u64)>; 2] {
    let before = readings.partition_point(|(at, _)| *at <= from_ns);
    let after = readings.partition_point(|(at, _)| *at < to_ns);
    [
        before
            .checked_sub(1)
            .and_then(|index| readings.get(index).copied()),
        readings.get(after).copied(),
    ]
}

/// The kernel's numbers for the SMI counter, if it has one: the type of the PMU, and the event.
fn event(folder: &Path) -> Option<(u32, u64)> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let kind = read("type")?.trim().parse().ok()?;
    Some((kind, parse_event(&read("events/smi")?)?))
}

/// `event=0x04`.
fn parse_event(text: &str) -> Option<u64> {
    let number = text.trim().strip_prefix("event=")?;
    match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_description_of_the_counter_is_read() {
        assert_eq!(parse_event("event=0x04\n"), Some(4));
        assert_eq!(parse_event("event=12"), Some(12));
        for bad in [
            "",
            "event=",
            "event=0x",
            "event=0xg",
            "config=4",
            "event=4,umask=1",
        ] {
            assert_eq!(parse_event(bad), None, "{bad}");
        }
        assert_eq!(event(Path::new("/no/such/folder")), None);
    }

    #[test]
    fn a_stretch_lies_between_two_readings() {
        let readings: VecDeque<(u64, u64)> = [(100, 7), (200, 7), (300, 9)].into();
        assert_eq!(
            around(&readings, 210, 220),
            [Some((200, 7)), Some((300, 9))]
        );
        assert_eq!(
            around(&readings, 100, 300),
            [Some((100, 7)), Some((300, 9))]
        );
        assert_eq!(around(&readings, 50, 301), [None, None]);
        assert_eq!(around(&VecDeque::new(), 0, 1), [None, None]);
    }
}
