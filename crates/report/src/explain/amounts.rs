//! Times of a bill as text, so that one can add its rows up.

use crate::words;
use punctual_record::Run;

/// Parts of a bill in µs, and their sum. To the nanosecond: `1,234.567`. Where a host may have taken
/// time in between, to a tenth of a µs; then each is rounded so that the printed ones still sum to
/// the printed sum, and is off by less than 0.1 µs.
pub(crate) fn amounts(run: &Run, parts: &[u64]) -> (Vec<String>, String) {
    let sum = |parts: &[u64]| parts.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    if !is_shared(run) {
        let each = parts.iter().map(|ns| exact(*ns)).collect();
        return (each, exact(sum(parts)));
    }
    let tenths = |ns: u64| ns.saturating_add(50) / 100;
    let (mut so_far, mut shown) = (0_u64, 0_u64);
    let each = parts.iter().map(|ns| {
        so_far = so_far.saturating_add(*ns);
        let part = tenths(so_far) - shown;
        shown = tenths(so_far);
        rounded(part)
    });
    (each.collect(), rounded(tenths(sum(parts))))
}

/// Whether a host runs other things on these processors. In the laboratory time stands still
/// meanwhile.
fn is_shared(run: &Run) -> bool {
    run.system.virtualisation.hypervisor.is_some() && run.laboratory.is_none()
}

fn exact(ns: u64) -> String {
    format!("{}.{:03}", words::count(ns / 1000), ns % 1000)
}

fn rounded(tenths: u64) -> String {
    format!("{}.{}", words::count(tenths / 10), tenths % 10)
}
