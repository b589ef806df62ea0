//! A device whose interrupt can be triggered, and the available CPUs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;

const BLOCK: usize = 4096;

/// CPUs that may be used, read before any thread was pinned.
pub fn cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| punctual_machine::survey::allowed(&punctual_machine::Root::live()))
}

/// The way to trigger the interrupt.
enum Means {
    /// Reading a file without the page cache.
    Disk(File),
    /// The serial line interrupts when it has sent its data.
    Serial(File),
}

/// A device with its interrupt.
pub struct Device {
    pub irq: u32,
    means: Means,
    /// The CPU that it interrupts.
    pub cpu: usize,
}

impl Device {
    /// A device whose interrupt always goes to the same CPU.
    pub fn find() -> Result<Self, String> {
        let means = Self::disk()
            .or_else(Self::serial)
            .ok_or("no device to be interrupted by")?;
        let mut device = Self {
            irq: 0,
            means,
            cpu: 0,
        };
        let before = interrupts();
        for _ in 0..20 {
            device.trigger();
        }
        let moved = |(irq, count): &(u32, u64)| {
            let was = before.iter().find(|(known, _)| known == irq);
            (count - was.map_or(0, |(_, count)| *count), *irq)
        };
        let (times, irq) = interrupts().iter().map(moved).max().unwrap_or((0, 0));
        if times < 10 {
            return Err("no device's interrupts can be asked for".to_owned());
        }
        device.irq = irq;
        let path = format!("/proc/irq/{irq}/effective_affinity_list");
        let text = fs::read_to_string(&path).unwrap_or_default();
        device.cpu = text.trim().parse().map_err(|_| format!("{path}: {text}"))?;
        Ok(device)
    }

    fn disk() -> Option<Means> {
        let path = std::env::temp_dir().join(format!("truth-{}", std::process::id()));
        let written = fs::write(&path, vec![0; 16 * BLOCK]);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path);
        let _ = fs::remove_file(&path);
        written.ok()?;
        let file = file.ok()?;
        file.sync_all().ok()?;
        read_block(&file).then_some(Means::Disk(file))
    }

    fn serial() -> Option<Means> {
        let file = OpenOptions::new().write(true).open("/dev/ttyS0").ok()?;
        Some(Means::Serial(file))
    }

    /// Triggers an interrupt.
    pub fn trigger(&self) {
        match &self.means {
            Means::Disk(file) => {
                read_block(file);
            }
            Means::Serial(file) => {
                let mut file = file;
                let _ = file.write_all(b" ");
            }
        }
    }
}

fn read_block(file: &File) -> bool {
    #[repr(align(4096))]
    struct Block([u8; BLOCK]);
    let mut block = Block([0; BLOCK]);
    let to = block.0.as_mut_ptr().cast();
    // SAFETY: the buffer has at least BLOCK bytes.
    let read = unsafe { libc::pread(file.as_raw_fd(), to, BLOCK, 0) };
    read == BLOCK as isize
}

/// Interrupts with a number, and how often each occurred.
fn interrupts() -> Vec<(u32, u64)> {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let irq = words.next()?.strip_suffix(':')?.parse().ok()?;
            let counts = words.map_while(|word| word.parse::<u64>().ok());
            Some((irq, counts.sum()))
        })
        .collect()
}
