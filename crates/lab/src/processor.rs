//! How long a process ran on the host's processors, and how long it was runnable and did not run.

use std::fs;
use std::time::Duration;

use punctual_record::proc_stat::Stat;

/// USER_HZ: clock ticks per second in files under /proc.
const TICKS: u64 = 100;

/// How long a process ran; zero if that cannot be read.
pub fn run_time(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks = cpu_ticks(&text).unwrap_or(0);
    Duration::from_millis(ticks.saturating_mul(1000 / TICKS))
}

/// How long its threads were runnable and did not run, summed over all threads; zero if that cannot
/// be read, as on a kernel without CONFIG_SCHED_INFO.
pub fn wait_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let texts =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    let ns = texts.filter_map(|text| delay_ns(&text));
    Duration::from_nanos(ns.fold(0, u64::saturating_add))
}

/// The clock ticks that a process has run for, in user space and in the kernel.
fn cpu_ticks(text: &str) -> Option<u64> {
    const UTIME: usize = 14;
    const STIME: usize = 15;
    let stat = Stat::parse(text)?;
    stat.count(UTIME)?.checked_add(stat.count(STIME)?)
}

/// The second of three figures: time on a processor, time in the run queue, number of runs.
fn delay_ns(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_after_any_process_name() {
        let text = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1";
        assert_eq!(cpu_ticks(text), Some(300));
        for text in ["", "7 (a", "7 (a) R 1", "7 (a) R 1 2 3 4 5 6 7 8 9 10 x 1"] {
            assert_eq!(cpu_ticks(text), None, "{text}");
        }
        assert!(run_time(0).is_zero());
    }

    #[test]
    fn the_wait_in_the_run_queue_is_the_second_figure_of_schedstat() {
        assert_eq!(delay_ns("120 3400 5\n"), Some(3400));
        for text in ["", "1", "1 x 2", "1 -2 3"] {
            assert_eq!(delay_ns(text), None, "{text}");
        }
        assert!(wait_time(0).is_zero());
    }
}
