//! The observer, which does not disturb the guest: a plugin of QEMU (`plugin/observer.c`) sees each
//! block of code that the guest executes; here its file becomes bills of the latest wake-ups.
//!
//! The probe marks each wake-up with an instruction that does nothing. In virtual time an
//! instruction is a nanosecond, so a latency of N ns is the N instructions before the one that
//! read the clock: which those were is counted, not sampled.

pub mod bill;
pub mod grid;
pub mod trail;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use punctual_record::laboratory::Architecture;
use punctual_stats::peaks::Peak;

use self::trail::Trail;
use super::cell::{CellPlan, CellResult, Watcher, Work};
use super::error::LabError;
use super::kernel::{Kernel, SymbolTables, Symbols, waiting};
use super::machine::Time;
use super::plugin::for_version;
use punctual_record::Run;
use punctual_record::lab::{LabBill, NoBill, NoResult};

/// The plugin, built with this tool; empty on other architectures.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/observer.so"));

/// Its file in a guest's folder.
const PLUGIN: &str = "observer.so";
/// The file that it leaves there.
const TRAIL: &str = "observer.out";
/// The largest size of that file: each of the few stretches has at most 32 MiB.
const MOST_BYTES: u64 = 1 << 30;
/// Bills per guest. The plugin keeps some more wake-ups, because it does not know exactly which are the
/// latest.
const BILLS: usize = 4;
/// The default interval of a probe.
const INTERVAL_NS: u64 = 1_000_000;

/// Observes a guest for its latest wake-ups.
#[derive(Debug, Default)]
pub struct Observer {
    tables: SymbolTables,
}

impl Observer {
    /// Whether there is anything to observe in this cell: a probe, or a program that may use a loop of
    /// `punctual-rt`, in virtual time. Jobs of a task set are no wake-ups of a probe.
    #[must_use]
    pub fn suits(plan: &CellPlan<'_>) -> bool {
        !EMBEDDED.is_empty()
            && plan.kernel.architecture != Architecture::Riscv64
            && Time::with_cpus(plan.cpus) == Time::Virtual
            && !plan.work.executes_tasks()
    }

    /// Runs a cell and observes it. If the worst wake-up was not kept, the cell runs once more, with the
    /// same result to the byte, and is observed for that wake-up.
    ///
    /// # Errors
    /// Those of [`CellPlan::make`].
    pub fn watch(
        &self,
        plan: &CellPlan<'_>,
        own: &[u8],
        ends: &dyn Fn() -> bool,
    ) -> Result<CellResult, NoResult> {
        let mut made = plan.make(own, Some(self), ends).map_err(|mut error| {
            if let NoResult::Broken { output, plugin, .. } = &mut error {
                // The text is QEMU's.
                *plugin = output.contains("plugin");
            }
            error
        })?;
        let Some(mark) = made.missed_mark.take() else {
            return Ok(made);
        };
        let observer = self;
        let again = plan.make(own, Some(&Again { observer, mark }), ends)?;
        let result = |made: &CellResult| made.laboratory.fingerprint.result_sha256.clone();
        if result(&again) != result(&made) {
            made.no_bill = Some(NoBill::OtherResult);
            return Ok(made);
        }
        made.took += again.took;
        made.no_bill = again.no_bill;
        made.bills.splice(0..0, again.bills);
        Ok(made)
    }

    fn symbols(&self, kernel: &Kernel) -> Result<Arc<Symbols>, NoBill> {
        self.tables.of(kernel).map_err(|error| NoBill::Symbols {
            error: error.to_string(),
        })
    }
}

/// Observes a guest that has run before for one wake-up.
#[derive(Debug)]
struct Again<'a> {
    observer: &'a Observer,
    mark: u64,
}

impl Watcher for Again<'_> {
    fn arguments(&self, plan: &CellPlan<'_>, folder: &Path) -> Result<Vec<OsString>, LabError> {
        let mut arguments = self.observer.arguments(plan, folder)?;
        if let Some(told) = arguments.last_mut() {
            told.push(format!(",at={}", self.mark));
        }
        Ok(arguments)
    }

    fn take(
        &self,
        plan: &CellPlan<'_>,
        folder: &Path,
        made: &mut CellResult,
    ) -> Result<(), LabError> {
        self.observer.take(plan, folder, made)
    }
}

impl Watcher for Observer {
    fn arguments(&self, plan: &CellPlan<'_>, folder: &Path) -> Result<Vec<OsString>, LabError> {
        let file = folder.join(PLUGIN);
        fs::write(&file, for_version(EMBEDDED, &plan.qemu.version))
            .map_err(|source| LabError::file(file, source))?;
        let period = match &plan.work {
            Work::Own(words) => period(words),
            Work::Program { .. } => 0,
        };
        let mut told = format!("./{PLUGIN},out={TRAIL},period={period}");
        // A kernel without symbols is an error only when its bill is made.
        if let Ok(symbols) = self.symbols(plan.kernel) {
            for entry in fault_entries(&symbols, plan.kernel.architecture) {
                told += &format!(",fault={entry:#x}");
            }
            if let Some((begin, end)) = symbols.range(waiting::IDLE_LOOP) {
                told += &format!(",idle={begin:#x},idle-end={end:#x}");
            }
        }
        Ok(vec!["-plugin".into(), told.into()])
    }

    fn take(
        &self,
        plan: &CellPlan<'_>,
        folder: &Path,
        made: &mut CellResult,
    ) -> Result<(), LabError> {
        let symbols = self.symbols(plan.kernel);
        let bills = symbols.and_then(|symbols| match &plan.work {
            Work::Own(_) => bills(&symbols, folder, made.run.as_ref()),
            Work::Program { .. } => bills_of_program(&symbols, folder),
        });
        match bills {
            Ok((bills, missed)) => {
                made.bills = bills;
                made.missed_mark = missed;
                made.no_bill = missed.map(|_| NoBill::NotTheWorst);
            }
            // The figures are valid without a bill: the reason is stored with them.
            Err(why) => made.no_bill = Some(why),
        }
        Ok(())
    }
}

/// Where a kernel begins after a page fault. On arm64 all synchronous exceptions have the same vectors, one
/// for those of the kernel and one for those of programs.
fn fault_entries(symbols: &Symbols, architecture: Architecture) -> Vec<u64> {
    let (name, offsets): (_, &[u64]) = match architecture {
        Architecture::Amd64 => ("asm_exc_page_fault", &[0]),
        Architecture::Arm64 => ("vectors", &[0x200, 0x400]),
        Architecture::Riscv64 => return Vec::new(),
    };
    let begin = symbols.address(name).into_iter();
    begin
        .flat_map(|begin| offsets.iter().map(move |offset| begin + offset))
        .collect()
}

/// The bills of the kept peaks, the latest first; and the mark of the worst, if it was not kept.
fn bills(
    symbols: &Symbols,
    folder: &Path,
    run: Option<&Run>,
) -> Result<(Vec<LabBill>, Option<u64>), NoBill> {
    let threads = run.map_or(&[][..], |run| &run.threads);
    let [thread] = threads else {
        return Err(NoBill::Threads {
            threads: threads.len() as u64,
        });
    };
    let trail = trail(folder)?;
    let marks = bill::marks_of(&trail.marks, &thread.peaks)?;
    let all = thread.peaks.iter().copied().zip(marks).collect();
    Ok(bills_of(&trail, symbols, all))
}

/// The file of the plugin.
fn trail(folder: &Path) -> Result<Trail, NoBill> {
    let file = folder.join(TRAIL);
    let unreadable = |error: std::io::Error| NoBill::TrailUnreadable {
        error: error.to_string(),
    };
    let length = fs::metadata(&file).map_err(unreadable)?.len();
    if length > MOST_BYTES {
        return Err(NoBill::TrailTooLarge);
    }
    Trail::parse(&fs::read(&file).map_err(unreadable)?)
}

/// The bills of the kept wake-ups, the latest first; and the mark of the worst, if it was not kept.
fn bills_of(
    trail: &Trail,
    symbols: &Symbols,
    all: Vec<(Peak, u64)>,
) -> (Vec<LabBill>, Option<u64>) {
    let mut bills: Vec<LabBill> = all
        .iter()
        .filter_map(|(peak, mark)| bill::bill(trail, symbols, *mark, peak))
        .collect();
    bills.sort_by_key(|bill| std::cmp::Reverse(bill.total_ns));
    let worst = all.iter().max_by_key(|(peak, _)| peak.latency_ns);
    let missed = worst.filter(|(peak, _)| {
        let found = bills.first().map(|bill| bill.total_ns);
        found != Some(peak.latency_ns)
    });
    let missed = missed.map(|(_, mark)| *mark);
    bills.truncate(BILLS);
    (bills, missed)
}

/// The same for a program with a periodic loop of `punctual-rt`: bills of how much later than on time it
/// woke.
fn bills_of_program(
    symbols: &Symbols,
    folder: &Path,
) -> Result<(Vec<LabBill>, Option<u64>), NoBill> {
    let trail = trail(folder)?;
    if trail.marks.is_empty() {
        // No loop of `punctual-rt`.
        return Ok((Vec::new(), None));
    }
    let mut all: Vec<(Peak, u64)> = (0_u64..)
        .zip(grid::lateness(&trail.marks)?)
        .map(|(cycle, latency_ns)| (Peak::new(cycle, 0, latency_ns), cycle))
        .collect();
    all.sort_by_key(|(peak, _)| std::cmp::Reverse(peak.latency_ns));
    // The latest one; the others if they were kept.
    let kept: Vec<u64> = trail.kept().collect();
    let mut first = true;
    all.retain(|(peak, mark)| {
        let worst = std::mem::replace(&mut first, false);
        peak.latency_ns > 0 && (worst || kept.contains(mark))
    });
    let (mut bills, missed) = bills_of(&trail, symbols, all);
    for bill in &mut bills {
        bill.asked_ns = None;
    }
    Ok((bills, missed))
}

/// The probe's interval in instructions, 0 if it is not known: then the observer assumes that the
/// longest waits are the latest wake-ups.
fn period(words: &[String]) -> u64 {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = if word == "-i" || word == "--interval" {
            words.next().map(String::as_str)
        } else {
            word.strip_prefix("--interval=")
                .or_else(|| word.strip_prefix("-i"))
        };
        if let Some(value) = value {
            let (digits, unit_ns) = match value {
                _ if value.ends_with("us") => (&value[..value.len() - 2], 1000),
                _ if value.ends_with("ms") => (&value[..value.len() - 2], 1_000_000),
                _ => (value, 1000),
            };
            let number = digits.parse::<u64>().ok();
            return number
                .and_then(|number| number.checked_mul(unit_ns))
                .unwrap_or(0);
        }
    }
    INTERVAL_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_as_the_probe_takes_them() {
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            period(&words)
        };
        assert_eq!(of("measure nanosleep -l 5000"), 1_000_000);
        assert_eq!(of("measure nanosleep -i 250"), 250_000);
        assert_eq!(of("measure -i2ms"), 2_000_000);
        assert_eq!(of("measure --interval=100us"), 100_000);
        assert_eq!(of("measure -i 1-2"), 0);
    }
}
