//! What a process had of the host's processors.

use std::fs;
use std::time::Duration;

/// The kernel's clock ticks in a second, as it tells them to programs.
const TICKS: u64 = 100;

/// How long a process ran; nothing where that can't be read.
pub fn ran(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks = stat_ticks(&text).unwrap_or(0);
    Duration::from_millis(ticks.saturating_mul(1000 / TICKS))
}

/// How long its threads were ready to run and did not, all together; nothing where that can't be
/// read, as of a kernel without CONFIG_SCHED_INFO.
pub fn waited(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let texts =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    let ns = texts.filter_map(|text| delay_ns(&text));
    Duration::from_nanos(ns.fold(0, u64::saturating_add))
}

/// The ticks in user space and in the kernel. A process's name may hold anything, so the fields are
/// counted from the last bracket on.
fn stat_ticks(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    ticks()?.checked_add(ticks()?)
}

/// Of a thread's time on a processor, its time in the queue, and how often it ran: the second.
fn delay_ns(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let text = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1";
        assert_eq!(stat_ticks(text), Some(300));
        for text in ["", "7 (a", "7 (a) R 1", "7 (a) R 1 2 3 4 5 6 7 8 9 10 x 1"] {
            assert_eq!(stat_ticks(text), None, "{text}");
        }
        assert!(ran(0).is_zero());
    }

    #[test]
    fn who_waits_for_a_processor_is_told_from_who_sleeps() {
        assert_eq!(delay_ns("120 3400 5\n"), Some(3400));
        for text in ["", "1", "1 x 2", "1 -2 3"] {
            assert_eq!(delay_ns(text), None, "{text}");
        }
        assert!(waited(0).is_zero());
    }
}
