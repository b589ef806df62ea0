//! The clock with which everything is measured.

#![expect(unsafe_code, reason = "clock_getres")]

use crate::root::Reader;
use punctual_record::system::Clock;

/// Reads the clock.
pub(super) fn read(reader: &mut Reader<'_>, probed: &[usize]) -> Clock {
    let sources = "/sys/devices/system/clocksource/clocksource0";
    let cpu = probed.first().copied().unwrap_or(0);
    let device = format!("/sys/devices/system/clockevents/clockevent{cpu}/current_device");
    Clock {
        source: source(reader).unwrap_or_default(),
        available: reader
            .text(&format!("{sources}/available_clocksource"))
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        resolution_ns: resolution(reader),
        event_device: reader.optional(&device).filter(|name| !name.is_empty()),
    }
}

/// The current clock source.
#[must_use]
pub fn source(reader: &mut Reader<'_>) -> Option<String> {
    reader.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The resolution of CLOCK_MONOTONIC; 0 if it is unknown.
fn resolution(reader: &mut Reader<'_>) -> u64 {
    if !reader.root.is_live() {
        return recorded_resolution(reader).unwrap_or(0);
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that outlives the call.
    if unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut time) } != 0 {
        reader.note_error("clock_getres", &std::io::Error::last_os_error());
        return 0;
    }
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// `  .resolution: 1 nsecs` of `/proc/timer_list`, which only root can read.
fn recorded_resolution(reader: &mut Reader<'_>) -> Option<u64> {
    let text = reader.text("/proc/timer_list")?;
    text.lines()
        .find_map(|line| line.trim().strip_prefix(".resolution:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}
