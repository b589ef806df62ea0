//! Programs that a signal ended.

use punctual_record::watch::KilledProgram;

use crate::words;

/// From 1 on, as Linux numbers them on every architecture that the tool runs on.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
/// Programs that are named.
const NAMED: usize = 3;

/// `rt-loop (312) was ended by SIGXCPU (RLIMIT_RTTIME or RLIMIT_CPU).`, if one was.
#[must_use]
pub fn killed(programs: &[KilledProgram]) -> Option<String> {
    let of = |it: &KilledProgram| {
        let program = words::clean(&it.program);
        format!("{program} ({}) was ended by {}", it.pid, signal(it.signal))
    };
    let more = programs.len().saturating_sub(NAMED) as u64;
    let mut said: Vec<String> = programs.iter().take(NAMED).map(of).collect();
    if more > 0 {
        said.push(format!(
            "{} ended by signals",
            words::plural(more, "more program was", "more programs were")
        ));
    }
    (!said.is_empty()).then(|| format!("{}.", said.join(", ")))
}

/// The name of a signal.
pub(super) fn signal_name(number: i32) -> String {
    let at = usize::try_from(number)
        .ok()
        .and_then(|it| it.checked_sub(1));
    match at.and_then(|at| SIGNALS.get(at)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

fn signal(number: i32) -> String {
    let why = match number {
        // A real-time thread that does not sleep gets SIGXCPU at the soft limit, SIGKILL at the hard one.
        9 => " (the hard RLIMIT_RTTIME, the OOM killer, or somebody)",
        24 => " (RLIMIT_RTTIME or RLIMIT_CPU)",
        _ => "",
    };
    signal_name(number) + why
}
