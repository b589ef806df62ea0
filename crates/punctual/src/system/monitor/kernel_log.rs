//! What the kernel's log says about time during a run.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use punctual_machine::root::Root;
use punctual_record::event::{Event, Happening, Throttling};

/// The number of records that are read at one look; the rest at the next.
const RECORDS: usize = 256;

/// The kernel's log from now on; empty if we may not read it.
#[derive(Debug)]
pub(super) struct KernelLog {
    file: Option<File>,
}

impl KernelLog {
    /// Opens the log after its last record.
    pub(super) fn open(root: &Root) -> Self {
        let file = root
            .is_live()
            .then(|| {
                OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_NONBLOCK)
                    .open("/dev/kmsg")
            })
            .and_then(Result::ok)
            .and_then(|mut file| file.seek(SeekFrom::End(0)).is_ok().then_some(file));
        Self { file }
    }

    /// The new records since the last look that matter to a measurement of time.
    pub(super) fn poll(&mut self, at_ns: u64) -> Vec<Event> {
        let Some(file) = &mut self.file else {
            return Vec::new();
        };
        let mut events = Vec::new();
        // A record is at most 8 KiB, and a read returns exactly one.
        let mut record = [0; 8192];
        for _ in 0..RECORDS {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => {
                    let record = String::from_utf8_lossy(&record[..length]);
                    events.extend(notable(&record, at_ns));
                }
                // The oldest records were overwritten: the next read continues.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => break,
            }
        }
        events
    }
}

/// The event in a record `priority,sequence,time,flags;text`, if it is one.
fn notable(record: &str, at_ns: u64) -> Option<Event> {
    let (prefix, text) = record.split_once(';')?;
    // The bits above 7 are the facility; programs may write to the log as well, but never as 0.
    let priority: u64 = prefix.split(',').next()?.parse().ok()?;
    if priority >> 3 != 0 {
        return None;
    }
    let text = text.lines().next()?.trim();
    let message = || text.chars().take(200).collect::<String>();
    let what = if text.contains("RT throttling activated")
        || text.contains("DL replenish lagged too much")
    {
        Happening::Throttled {
            seen: Throttling::KernelLog { message: message() },
        }
    } else if [
        "hrtimer: interrupt took",
        "marking clocksource",
        "marked unstable",
        "perf: interrupt took too long",
        "soft lockup",
        "hard LOCKUP",
        "self-detected stall",
        "detected stalls",
        "mce: [Hardware Error]",
        "temperature above threshold",
        "clock throttled",
        "clocksource: Long readout interval",
    ]
    .iter()
    .any(|words| text.contains(words))
    {
        Happening::KernelMessage { message: message() }
    } else {
        return None;
    };
    Some(Event::new(at_ns, what))
}

#[cfg(test)]
mod tests {
    use super::{Happening, Throttling, notable};

    #[test]
    fn only_records_about_time_are_events() {
        let throttled = notable("4,812,5140900,-;sched: RT throttling activated\n", 7).unwrap();
        assert_eq!(throttled.kind(), "throttled");
        assert_eq!(throttled.at_ns, 7);
        let message = "sched: RT throttling activated".to_owned();
        let seen = Throttling::KernelLog { message };
        assert_eq!(throttled.what, Happening::Throttled { seen });
        assert!(notable("6,813,5140901,-;eth0: link up\n", 7).is_none());
        assert_eq!(
            notable("4,1,2,-;hrtimer: interrupt took 312345 ns\n SUBSYSTEM=x", 0)
                .unwrap()
                .kind(),
            "kernel-message"
        );
    }

    #[test]
    fn records_that_programs_write_are_not_the_kernels() {
        assert!(notable("12,814,5140902,-;sched: RT throttling activated\n", 0).is_none());
        for garbage in ["", ";", "x;RT throttling activated", "4", "4,;\n"] {
            assert!(notable(garbage, 0).is_none(), "{garbage:?}");
        }
    }
}
