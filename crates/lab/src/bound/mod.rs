//! How late a wake-up could have been: a plugin of QEMU (`plugin/windows.c`) measures the windows in
//! which the guest's kernel could not have served one, each to the instruction.
//!
//! A latency has three parts: from the requested instant to the timer's interrupt, where interrupts are
//! enabled; the wait for a kernel that serves no interrupt or can't be preempted; and the service, which is
//! the interrupt's handler and the switch to the thread, up to the clock that it reads. The bound is the
//! sum of the longest of each on what the guest executed. The second is the longest window of all, whether
//! a wake-up met it or not: no other phase of the timer would have met a longer one. Another path through
//! the kernel, a cache, or another processor may.
//!
//! Another interrupt (the tick) makes a window longer, or the service. Both only where a second one came so
//! soon after such a window that it would have met the service.

pub mod file;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use punctual_record::laboratory::Architecture;
use punctual_stats::peaks::Peak;

use self::file::{NEAR, Preemption, Wake, Window, Windows};
use super::cell::{CellPlan, CellResult, Watcher, Work};
use super::error::LabError;
use super::kernel::{SymbolTables, Symbols, waiting};
use super::observer::{Observer, bill};
use super::plugin::for_version;
use punctual_record::Run;
use punctual_record::lab::{LabBound, LabWindow, NoBound};

/// The plugin, built with this tool; empty on other architectures.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/windows.so"));

/// Its file in a guest's folder.
const PLUGIN: &str = "windows.so";
/// The file that it leaves there.
const FOUND: &str = "windows.out";
/// The file that says what it recognises.
const TABLE: &str = "windows.table";
/// The largest size of its file.
const MOST_BYTES: u64 = 256 << 20;
/// Wake-ups that warm up; the plugin has the same number.
const WARM_UP: u64 = 16;
/// Windows that are kept of a cell.
const KEPT: usize = 8;

/// Measures the windows of guests.
#[derive(Debug, Default)]
pub struct Bounding {
    tables: SymbolTables,
}

impl Bounding {
    /// Whether this cell can have a bound: a probe in virtual time.
    #[must_use]
    pub fn suits(plan: &CellPlan<'_>) -> bool {
        let is_known = plan.kernel.architecture == Architecture::Amd64;
        is_known && Observer::suits(plan) && matches!(plan.work, Work::Own(_))
    }

    fn symbols(&self, plan: &CellPlan<'_>) -> Result<Arc<Symbols>, NoBound> {
        let found = self.tables.of(plan.kernel);
        found.map_err(|error| NoBound::Symbols {
            error: error.to_string(),
        })
    }

    fn bound(
        &self,
        plan: &CellPlan<'_>,
        folder: &Path,
        run: Option<&Run>,
    ) -> Result<LabBound, NoBound> {
        let run = run.ok_or(NoBound::NoProbe)?;
        if !["fifo", "rr"].contains(&run.request.policy.as_str()) {
            return Err(NoBound::Policy);
        }
        let [thread] = &run.threads[..] else {
            return Err(NoBound::Threads {
                threads: run.threads.len() as u64,
            });
        };
        let symbols = self.symbols(plan)?;
        // Why there was no table for the plugin.
        table(&symbols)?;
        let preemption = preemption(&run.system.kernel.preemption)?;
        let windows = Windows::parse(&read(&folder.join(FOUND))?, preemption)?;
        compose(&windows, thread.warm_up, &thread.peaks, &symbols)
    }
}

impl Watcher for Bounding {
    fn arguments(&self, plan: &CellPlan<'_>, folder: &Path) -> Result<Vec<OsString>, LabError> {
        // A kernel without symbols is an error only when its bound is made.
        let Ok(Ok(table)) = self.symbols(plan).map(|symbols| table(&symbols)) else {
            return Ok(Vec::new());
        };
        let plugin = for_version(EMBEDDED, &plan.qemu.version);
        for (name, bytes) in [(PLUGIN, &plugin[..]), (TABLE, table.as_bytes())] {
            let file = folder.join(name);
            fs::write(&file, bytes).map_err(|source| LabError::file(file, source))?;
        }
        let mib = plan.memory_mib;
        let bytes = mib << 20;
        // The same memory as without, but the plugin can read it too.
        Ok(vec![
            "-object".into(),
            format!("memory-backend-memfd,id=memory,size={mib}M,share=on").into(),
            "-machine".into(),
            "memory-backend=memory".into(),
            "-plugin".into(),
            format!("./{PLUGIN},out={FOUND},table={TABLE},ram={bytes}").into(),
        ])
    }

    fn take(
        &self,
        plan: &CellPlan<'_>,
        folder: &Path,
        made: &mut CellResult,
    ) -> Result<(), LabError> {
        match self.bound(plan, folder, made.run.as_ref()) {
            Ok(bound) => made.bound = Some(bound),
            // The figures are valid without a bound: the reason is stored with them.
            Err(why) => made.no_bound = Some(why),
        }
        Ok(())
    }
}

fn read(file: &Path) -> Result<String, NoBound> {
    let unreadable = |error: std::io::Error| NoBound::Unreadable {
        error: error.to_string(),
    };
    let length = fs::metadata(file).map_err(unreadable)?.len();
    if length > MOST_BYTES {
        return Err(NoBound::Unreadable {
            error: format!("it has {} MiB", length >> 20),
        });
    }
    fs::read_to_string(file).map_err(unreadable)
}

/// Where a kernel of this model is preempted.
fn preemption(model: &str) -> Result<Preemption, NoBound> {
    match model {
        // With `lazy`, threads with a real-time priority preempt at once.
        "rt" | "full" | "lazy" => Ok(Preemption::Full),
        "voluntary" | "none" => Ok(Preemption::Points),
        _ => Err(NoBound::Preemption {
            model: model.to_owned(),
        }),
    }
}

/// What the plugin recognises by its address, a line each.
fn table(symbols: &Symbols) -> Result<String, NoBound> {
    let mut table = String::new();
    let missing = |name: &str| NoBound::NoSymbol {
        name: name.to_owned(),
    };
    let mut add = |word: &str, address: u64| {
        let _ = writeln!(table, "{word} {address:x}");
    };
    let mut devices = 0;
    for (start, word) in [
        ("asm_exc_", "fault"),
        ("asm_sysvec_", "device"),
        ("asm_common_interrupt", "device"),
        ("asm_spurious_interrupt", "device"),
    ] {
        for (name, address) in symbols.beginning(start) {
            // Not its variants in other sections.
            if !name.contains('.') && !name.starts_with("asm_exc_xen") {
                devices += u32::from(word == "device");
                add(word, address);
            }
        }
    }
    if devices == 0 {
        return Err(missing("asm_sysvec_apic_timer_interrupt"));
    }
    let system_call = "entry_SYSCALL_64";
    add(
        "syscall",
        symbols
            .address(system_call)
            .ok_or_else(|| missing(system_call))?,
    );
    for other in [
        "entry_SYSCALL_compat",
        "entry_SYSENTER_compat",
        "entry_INT80_compat",
        "asm_int80_emulation",
    ] {
        if let Some(address) = symbols.address(other) {
            add("syscall", address);
        }
    }
    // Kernels that can't ask whether to be preempted have none.
    if let Some(address) = symbols.address("__cond_resched") {
        add("point", address);
    }
    for (name, word) in [
        ("__schedule", "choice"),
        ("__switch_to_asm", "switch"),
        ("update_process_times", "tick"),
    ] {
        let (address, _) = symbols.range(name).ok_or_else(|| missing(name))?;
        add(word, address);
    }
    // Linux 6.2 to 6.14 keep it behind the pointer to the current thread.
    let count = symbols.variable("__preempt_count");
    let count = count.or_else(|| symbols.variable("pcpu_hot")?.checked_add(8));
    add("count", count.ok_or_else(|| missing("__preempt_count"))?);
    let idle = symbols.range(waiting::IDLE_LOOP);
    let (begin, end) = idle.ok_or_else(|| missing(waiting::IDLE_LOOP))?;
    let _ = writeln!(table, "idle {begin:x} {end:x}");
    Ok(table)
}

/// The bound of what was measured: the sum of the longest of each part.
///
/// # Errors
/// The file is not that of these wake-ups, or one of them was later than the bound.
pub fn compose(
    windows: &Windows,
    warm_up: u64,
    peaks: &[Peak],
    symbols: &Symbols,
) -> Result<LabBound, NoBound> {
    let wakes = &windows.wakes;
    let marks: Vec<u64> = wakes.iter().map(|wake| wake.mark).collect();
    let others = || NoBound::OtherMarks {
        marks: marks.len() as u64,
    };
    let found = bill::marks_of(&marks, peaks).map_err(|_| others())?;
    let at = |mark: &u64| wakes.get(usize::try_from(*mark).ok()?);
    let met = found.iter().filter_map(at).zip(peaks);
    let timer = |(wake, peak): (&Wake, &Peak)| timer_of(wake, peak.latency_ns);
    let timer_ns = met.filter_map(timer).max().unwrap_or(0);
    // Those between the first and the last are measured, too.
    let measured = match (found.first(), found.last()) {
        (Some(first), Some(last)) => wakes.get(*first as usize..=*last as usize),
        _ => None,
    };
    let measured = measured.ok_or_else(others)?;
    let served = Served::of(measured);
    let mut sorted = windows.late.clone();
    if warm_up < WARM_UP {
        sorted.extend(&windows.early);
    }
    let rank = |window: &Window, served: &Served| {
        let whole = window.length.saturating_add(served.after(window));
        (std::cmp::Reverse(whole), window.start, window.end)
    };
    sorted.sort_by_key(|window| rank(window, &served));
    let whole = sorted
        .first()
        .map_or(0, |it| it.length.saturating_add(served.after(it)));
    // Or else two interrupts may meet one wake-up.
    let served = match windows.apart > whole.saturating_add(timer_ns) {
        true => served,
        false => served.near(),
    };
    sorted.sort_by_key(|window| rank(window, &served));
    let name = |address| bill::name(symbols, address).to_owned();
    let bound = LabBound {
        window_ns: sorted.first().map_or(0, |window| window.length),
        timer_ns,
        served_ns: sorted.first().map_or(0, |window| served.after(window)),
        windows: sorted
            .iter()
            .take(KEPT)
            .map(|window| LabWindow {
                length_ns: window.length,
                opened_by: name(window.start),
                closed_by: name(window.end),
                then: (window.then != 0).then(|| name(window.then)),
                times: window.times,
            })
            .collect(),
        interrupts: windows.interrupts,
        wake_ups: measured.len() as u64,
    };
    let latest = peaks.iter().map(|peak| peak.latency_ns).max().unwrap_or(0);
    if latest > bound.total_ns() {
        return Err(NoBound::Exceeded {
            latency_ns: latest,
            bound_ns: bound.total_ns(),
        });
    }
    Ok(bound)
}

/// How long wake-ups were served at most, from their interrupt to the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Served {
    /// Those that no other interrupt met.
    alone: u64,
    /// All.
    any: u64,
    /// Whether a second interrupt may come after a window that has one.
    near: bool,
}

impl Served {
    fn of(wakes: &[Wake]) -> Self {
        let approach = wakes.iter().map(|wake| wake.approach).max().unwrap_or(0);
        let whole = |wake: &Wake| {
            let approach = match wake.approach {
                0 => approach,
                known => known,
            };
            wake.handler
                .saturating_add(approach)
                .saturating_add(wake.path)
        };
        let any = wakes.iter().map(whole).max().unwrap_or(0);
        let alone = wakes.iter().filter(|wake| !wake.mixed).map(whole).max();
        Self {
            alone: alone.unwrap_or(any),
            any,
            near: false,
        }
    }

    /// After a window. An interrupt that is a part of it does not come again, and a second one only where
    /// one came so soon.
    fn after(&self, window: &Window) -> u64 {
        let second = self.near && (window.crowded || self.alone >= NEAR);
        match window.interrupted && !second {
            true => self.alone,
            false => self.any,
        }
    }

    fn near(self) -> Self {
        Self { near: true, ..self }
    }
}

/// From the requested instant to the interrupt, if interrupts were enabled all the time between.
fn timer_of(wake: &Wake, latency_ns: u64) -> Option<u64> {
    let requested = wake.clock.checked_sub(latency_ns)?;
    let is_clean = wake.entry > 0 && wake.ready <= requested;
    is_clean.then(|| wake.entry.checked_sub(requested))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0xffff_ffff_8100_0000;

    fn symbols() -> Symbols {
        let mut text = String::new();
        for (at, name) in [
            "asm_exc_page_fault",
            "asm_sysvec_apic_timer_interrupt",
            "asm_common_interrupt",
            "entry_SYSCALL_64",
            "__cond_resched",
            "__schedule",
            "__switch_to_asm",
            "update_process_times",
            "cpu_idle_poll.isra.0",
            "zap_pte_range",
        ]
        .iter()
        .enumerate()
        {
            let _ = writeln!(text, "{:x} T {name}", CODE + 0x100 * at as u64);
        }
        text += "000000000001fbc0 D __preempt_count\n";
        Symbols::parse(text.as_bytes())
    }

    #[test]
    fn the_table_names_each_place_or_what_is_missing() {
        let table = table(&symbols()).unwrap();
        for line in [
            "fault ffffffff81000000",
            "device ffffffff81000100",
            "device ffffffff81000200",
            "syscall ffffffff81000300",
            "point ffffffff81000400",
            "choice ffffffff81000500",
            "switch ffffffff81000600",
            "tick ffffffff81000700",
            "idle ffffffff81000800 ffffffff81000900",
            "count 1fbc0",
        ] {
            assert!(table.lines().any(|it| it == line), "{line}: {table}");
        }
        let none = super::table(&Symbols::default());
        let name = "asm_sysvec_apic_timer_interrupt".to_owned();
        assert_eq!(none, Err(NoBound::NoSymbol { name }));
    }

    /// Wake-ups each millisecond whose interrupts come 70 ns after the instant.
    fn wakes(served: &[(u64, bool)]) -> Vec<Wake> {
        let wake = |(at, (served, mixed)): (usize, &(u64, bool))| {
            let entry = 1_000_070 * (at as u64 + 1);
            Wake {
                mark: entry + served + 20,
                clock: entry + served,
                entry,
                ready: entry - 900,
                handler: served / 2,
                approach: served / 4,
                path: served / 4,
                mixed: *mixed,
            }
        };
        served.iter().enumerate().map(wake).collect()
    }

    fn window(length: u64, interrupted: bool) -> Window {
        Window {
            length,
            start: CODE + 0x900,
            end: CODE + 0x400,
            then: 0,
            interrupted,
            crowded: false,
            times: 1,
        }
    }

    fn composed(windows: Vec<Window>, apart: u64, extra_ns: u64) -> Result<LabBound, NoBound> {
        let wakes = wakes(&[(4_000, false), (8_000, true), (4_400, false)]);
        let peaks = wakes.iter().enumerate().map(|(cycle, wake)| {
            let latency_ns = wake.clock - wake.entry + 70 + extra_ns;
            Peak::new(cycle as u64, wake.clock - latency_ns, latency_ns)
        });
        let peaks: Vec<Peak> = peaks.collect();
        let of = Windows {
            late: windows,
            early: vec![window(1_000_000, false)],
            wakes,
            interrupts: 5,
            apart,
        };
        compose(&of, WARM_UP, &peaks, &symbols())
    }

    #[test]
    fn a_tick_is_in_the_window_or_in_the_service_and_not_in_both() {
        let both = vec![window(5_000, true), window(3_000, false)];
        // 5,000 + 4,400 with the tick in the window; 3,000 + 8,000 with it in the service.
        let bound = composed(both.clone(), 4_000_000, 0).unwrap();
        assert_eq!((bound.window_ns, bound.served_ns), (3_000, 8_000));
        assert_eq!((bound.timer_ns, bound.total_ns()), (70, 11_070));
        assert_eq!(bound.windows[0].opened_by, "zap_pte_range");
        assert_eq!(bound.windows[0].closed_by, "__cond_resched");
        let bound = composed(
            vec![window(9_000, true), window(3_000, false)],
            4_000_000,
            0,
        );
        assert_eq!(bound.unwrap().total_ns(), 70 + 9_000 + 4_400);
        // Two may come within a bound, but only after a window where they did.
        let bound = composed(both.clone(), 11_000, 0).unwrap();
        assert_eq!((bound.window_ns, bound.served_ns), (3_000, 8_000));
        let [mut crowded, other] = both.try_into().unwrap();
        crowded.crowded = true;
        let bound = composed(vec![crowded, other], 11_000, 0).unwrap();
        assert_eq!((bound.window_ns, bound.served_ns), (5_000, 8_000));
        let bound = composed(vec![crowded, other], 4_000_000, 0).unwrap();
        assert_eq!((bound.window_ns, bound.served_ns), (3_000, 8_000));
    }

    #[test]
    fn a_wake_up_later_than_its_parts_has_no_bound() {
        let late = composed(vec![window(3_000, false)], 4_000_000, 700_000);
        assert!(matches!(late, Err(NoBound::Exceeded { .. })), "{late:?}");
        let none = composed(Vec::new(), 4_000_000, 0).map(|bound| bound.total_ns());
        assert!(none.is_err(), "{none:?}");
    }
}
