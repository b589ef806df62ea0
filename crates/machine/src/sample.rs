//! Counters that say something only over a time: interrupts of each CPU, and system management
//! interrupts. They are read twice when that is asked for; a snapshot keeps the differences.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

use crate::root::{READ_LIMIT, Root, decimal};

/// The question that a snapshot keeps the answer to.
pub(crate) const QUESTION: &str = "two readings of /proc/interrupts and MSR_SMI_COUNT";
/// The register that counts system management interrupts on processors of Intel.
const MSR_SMI_COUNT: u64 = 0x34;

/// What was counted meanwhile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// For how long, in ms.
    pub(crate) length_ms: u64,
    /// By interrupt and CPU; those that did not come are left out.
    interrupts: BTreeMap<(usize, usize), u64>,
    /// Absent where the register can't be read.
    pub(crate) smis: Option<u64>,
}

impl Sample {
    /// Counts for this time on the live machine, or takes what a snapshot has.
    pub(crate) fn of(root: &Root, length: Option<Duration>) -> Option<Self> {
        if root.is_live() && length.is_none() {
            return None;
        }
        let count = || count(length.unwrap_or_default());
        Self::parse(&root.answer(QUESTION, count).ok()?)
    }

    /// How often an interrupt came to these CPUs.
    pub(crate) fn interrupts(&self, irq: usize, cpus: &[usize]) -> u64 {
        let counts = cpus
            .iter()
            .filter_map(|cpu| self.interrupts.get(&(irq, *cpu)));
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Lines `ms N`, `irq IRQ CPU COUNT`, `smi N`.
    fn parse(text: &str) -> Option<Self> {
        let mut sample = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["ms", length] => sample.length_ms = decimal(length)?,
                ["smi", count] => sample.smis = Some(decimal(count)?),
                ["irq", irq, cpu, count] => {
                    let place = (decimal(irq)?, decimal(cpu)?);
                    sample.interrupts.insert(place, decimal(count)?);
                }
                _ => return None,
            }
        }
        (sample.length_ms > 0).then_some(sample)
    }
}

fn count(length: Duration) -> io::Result<String> {
    let root = Root::live();
    let read = || Ok::<_, io::Error>((interrupts(&root)?, smi_count(&root)));
    let (before, smis_before) = read()?;
    sleep(length);
    let (after, smis_after) = read()?;
    let mut text = format!("ms {}\n", length.as_millis());
    for ((irq, cpu), count) in after {
        let grown = count.saturating_sub(before.get(&(irq, cpu)).copied().unwrap_or(0));
        if grown > 0 {
            text += &format!("irq {irq} {cpu} {grown}\n");
        }
    }
    if let Some((before, after)) = smis_before.zip(smis_after) {
        text += &format!("smi {}\n", after.wrapping_sub(before));
    }
    Ok(text)
}

/// Each numbered interrupt of each CPU since the machine was started. The table has a column for
/// each CPU: it is longer than other files.
fn interrupts(root: &Root) -> io::Result<BTreeMap<(usize, usize), u64>> {
    let path = root.path("/proc/interrupts");
    let mut text = String::new();
    io::Read::read_to_string(
        &mut io::Read::take(File::open(path)?, 64 * READ_LIMIT),
        &mut text,
    )?;
    Ok(table(&text))
}

fn table(text: &str) -> BTreeMap<(usize, usize), u64> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default().split_whitespace();
    let cpus: Vec<usize> = head
        .filter_map(|name| decimal(name.strip_prefix("CPU")?))
        .collect();
    let mut counts = BTreeMap::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let irq = words.next().and_then(|word| word.strip_suffix(':'));
        let Some(irq) = irq.and_then(decimal) else {
            continue;
        };
        for (cpu, word) in cpus.iter().zip(words) {
            let Some(count) = decimal(word) else { break };
            counts.insert((irq, *cpu), count);
        }
    }
    counts
}

/// The count of system management interrupts since the machine was started.
fn smi_count(root: &Root) -> Option<u64> {
    let cpuinfo = root.text("/proc/cpuinfo").ok()?;
    if !cpuinfo.contains("GenuineIntel") {
        return None;
    }
    let file = File::open("/dev/cpu/0/msr").ok()?;
    let mut value = [0; 8];
    file.read_exact_at(&mut value, MSR_SMI_COUNT).ok()?;
    // The upper half is reserved.
    Some(u64::from_le_bytes(value) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_by_its_head() {
        let text = "           CPU0       CPU2\n 24:          1          7   IO-APIC   5-edge\n\
                    NMI:          3          4   Non-maskable interrupts\n  9:          2\n";
        let expected = BTreeMap::from([((9, 0), 2), ((24, 0), 1), ((24, 2), 7)]);
        assert_eq!(table(text), expected);
        for garbage in ["", "CPU", " 24: 1", "CPU0\n99999999999999999999999: 1"] {
            assert_eq!(table(garbage), BTreeMap::new(), "{garbage}");
        }
    }

    #[test]
    fn what_a_snapshot_says_is_understood_or_refused() {
        let sample = Sample::parse("ms 1000\nirq 24 1 150\nirq 24 2 5\nsmi 3\n").expect("it");
        assert_eq!((sample.length_ms, sample.smis), (1000, Some(3)));
        assert_eq!(sample.interrupts(24, &[1, 2, 3]), 155);
        assert_eq!(sample.interrupts(25, &[1]), 0);
        for garbage in ["", "ms 0", "smi 3", "ms 1\nirq 1 2", "ms -1", "ms 1\nx"] {
            assert_eq!(Sample::parse(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn interrupts_of_the_live_machine_come_meanwhile() {
        let length = Duration::from_millis(20);
        let text = count(length).expect("/proc/interrupts");
        let sample = Sample::parse(&text).expect("its own form");
        assert_eq!(sample.length_ms, 20);
        assert_eq!(Sample::of(&Root::live(), None), None);
    }
}
