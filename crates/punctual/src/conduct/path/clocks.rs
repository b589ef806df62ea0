//! Whether this machine's clock is synchronised, by what, and how wrong it may be.

use punctual_machine::Root;
use punctual_network::sys::clock_error;
use punctual_record::path::ClockState;

/// Programs that discipline a clock.
const DISCIPLINES: [&str; 6] = [
    "ptp4l",
    "phc2sys",
    "chronyd",
    "ntpd",
    "ntpsec",
    "systemd-timesyn",
];

/// The state of the clock now.
pub fn state(root: &Root) -> ClockState {
    let by = running(root);
    match clock_error() {
        Ok(error) => ClockState {
            synchronised: error.synchronised,
            max_error_ns: error.max_us.saturating_mul(1000),
            estimated_error_ns: error.estimated_us.saturating_mul(1000),
            by,
        },
        Err(_) => ClockState {
            max_error_ns: u64::MAX,
            estimated_error_ns: u64::MAX,
            by,
            ..ClockState::default()
        },
    }
}

/// The program that runs here and disciplines the clock.
fn running(root: &Root) -> Option<String> {
    let processes = root.names("/proc").ok()?;
    let numbers = processes
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let names = numbers.filter_map(|pid| root.text(&format!("/proc/{pid}/comm")).ok());
    let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    let found = DISCIPLINES
        .into_iter()
        .find(|wanted| names.iter().any(|name| name == wanted))?;
    Some(match found {
        "systemd-timesyn" => "systemd-timesyncd".to_owned(),
        name => name.to_owned(),
    })
}
