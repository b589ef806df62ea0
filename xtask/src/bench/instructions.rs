//! User-space instructions for each cycle: of ours one by one, exact whatever else runs; and beside
//! the peers' by the difference of two runs, one twice as long as the other, so that setting up
//! cancels out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::callgrind::{self, Thread};
use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

/// Cycles of the shorter run: enough for the peaks, which begin with every sample, to
/// be few.
const CYCLES: u64 = 50_000;
/// Rare enough that few periods are missed although valgrind makes all fifty times slower.
const INTERVAL_US: u64 = 500;
const TARGET: f64 = 70.0;
/// Functions that are shown.
const SHOWN: usize = 12;

/// What a cycle takes, and where.
struct Cost {
    /// Whole processes.
    process: f64,
    main: f64,
    others: Vec<(Thread, f64)>,
    functions: Vec<(String, f64)>,
}

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let count = |program: &PathBuf| tools::output(&mut Command::new(program));
    let mut rows = match (count(&tools.bench_cycle), count(&tools.bench_cycle_quick)) {
        (Ok(release), Ok(quick)) => {
            let mut rows = stepped(&release)?;
            rows.push(in_quick(&release, &quick)?);
            rows
        }
        (Err(reason), _) | (_, Err(reason)) => {
            vec![Row::not_measured("instructions per cycle", reason)]
        }
    };
    rows.extend(beside_peers(tools)?);
    Ok(rows)
}

/// What was counted one by one.
fn stepped(text: &str) -> Result<Vec<Row>, String> {
    let value = |name: &str| tools::value::<f64>(text, name);
    let probe = value("probe_instructions")?;
    let collector = value("collector_instructions")?;
    let vdso = value("probe_vdso_instructions")?;
    let both = probe + collector;
    let part = |name: &str, count: String| Row {
        ours: count,
        ..Row::new(name)
    };
    Ok(vec![
        Row {
            ours: format!("{both:.1}"),
            target: format!("at most {TARGET:.0}"),
            standing: Standing::of(both <= TARGET),
            exact: true,
            ..Row::new("instructions per cycle")
        },
        part("  probe thread", format!("{probe:.0}")),
        part("  collector", format!("{collector:.1}")),
        part(
            "  beside them: the kernel's clock (vDSO)",
            format!("{vdso:.0}"),
        ),
    ])
}

/// What `make` builds measures as the release does: the probe takes as many instructions, and the collector
/// at most one more.
fn in_quick(release: &str, quick: &str) -> Result<Row, String> {
    let of = |name: &str| -> Result<(f64, f64), String> {
        Ok((tools::value(release, name)?, tools::value(quick, name)?))
    };
    let (probe, probe_quick) = of("probe_instructions")?;
    let (collector, collector_quick) = of("collector_instructions")?;
    Ok(Row {
        ours: format!("probe {probe_quick:.0}, collector {collector_quick:.1}"),
        target: "the release's; the collector at most 1 more".to_owned(),
        standing: Standing::of(probe == probe_quick && collector_quick <= collector + 1.0),
        exact: true,
        ..Row::new("  the same in the profile quick")
    })
}

fn beside_peers(tools: &Tools) -> Result<Vec<Row>, String> {
    let ours = of_ours(tools);
    // Counting is exact whatever else runs.
    let (cyclictest, jitterdebugger) = std::thread::scope(|scope| {
        let cyclictest = scope.spawn(|| of_peer(tools, "cyclictest", "rt-tests"));
        let jitterdebugger = scope.spawn(|| of_peer(tools, "jitterdebugger", "jitterdebugger"));
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Cost, String>>| {
            let panicked = |_| Err("the counting failed".to_owned());
            thread.join().unwrap_or_else(panicked)
        };
        (join(cyclictest), join(jitterdebugger))
    });
    let ours = ours?;
    let by = |part: &str| -> f64 {
        let those = ours.others.iter().filter(|(thread, _)| thread.was_in(part));
        those.map(|(_, cost)| cost).sum()
    };
    let (probe, collector) = (by("cycle::run"), by("Collector::collect"));
    let both: f64 = ours.others.iter().map(|(_, cost)| cost).sum();
    let mut rows = Vec::new();
    for (name, peer) in [
        ("cyclictest", cyclictest),
        ("jitterdebugger", jitterdebugger),
    ] {
        let name_of_row = format!("under valgrind, beside {name}");
        rows.push(match peer {
            Ok(peer) => Row {
                ours: format!("{both:.1}"),
                peer: format!("{:.1} {name}", peer.process),
                ratio: Some(Spread::exactly(both / peer.process)),
                ..Row::new(name_of_row)
            },
            Err(reason) => Row::not_measured(name_of_row, reason),
        });
    }
    for (name, cost) in [("  probe thread", probe), ("  collector", collector)] {
        rows.push(Row {
            ours: format!("{cost:.1}"),
            ..Row::new(name)
        });
    }
    let most = ours.functions.iter().take(SHOWN);
    for (function, cost) in most.filter(|(_, cost)| *cost >= 0.5) {
        rows.push(Row {
            ours: format!("{cost:.1}"),
            ..Row::new(format!("    {function}"))
        });
    }
    let per_second = ours.main * 1e6 / INTERVAL_US as f64 / 1e6;
    rows.push(Row {
        ours: format!("{per_second:.2} million/s"),
        ..Row::new("  beside the cycles: watching and saving, main thread")
    });
    Ok(rows)
}

/// With real-time priority, where that may be had, fewer periods are missed.
fn scheduling(otherwise: &str) -> String {
    match tools::may_be_real_time() {
        Ok(()) => "-p 80".to_owned(),
        Err(_) => otherwise.to_owned(),
    }
}

fn of_ours(tools: &Tools) -> Result<Cost, String> {
    let scheduling = scheduling("--policy other");
    difference(tools, "punctual", CYCLES, |cycles| {
        let place = tools.place(&format!("counted-{cycles}"));
        let line = format!(
            "measure -q -i {INTERVAL_US} --interval fixed -l {cycles} -a {} {scheduling} \
             --best-effort --no-explain -o",
            tools.cpu
        );
        let mut arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        arguments.push(place.display().to_string());
        (tools.punctual.clone(), arguments)
    })
}

fn of_peer(tools: &Tools, name: &str, package: &str) -> Result<Cost, String> {
    tools::peer(name, package)?;
    let scheduling = scheduling("--policy other");
    difference(tools, name, CYCLES / 2, |cycles| {
        let cpu = tools.cpu;
        let line = match name {
            "cyclictest" => format!(
                "-q -i {INTERVAL_US} -l {cycles} -a {cpu} -t 1 {scheduling} --default-system"
            ),
            _ => format!("-i {INTERVAL_US} -l {cycles} -a {cpu}"),
        };
        let arguments = line.split_whitespace().map(str::to_owned).collect();
        (PathBuf::from(name), arguments)
    })
}

/// Both runs at once, and what lies between them.
fn difference(
    tools: &Tools,
    name: &str,
    cycles: u64,
    line: impl Fn(u64) -> (PathBuf, Vec<String>) + Sync,
) -> Result<Cost, String> {
    let count = |cycles: u64| {
        let (program, arguments) = line(cycles);
        let profile = tools.directory.join(format!("{name}-{cycles}"));
        callgrind::count(&profile, &program, &arguments)
    };
    let (short, long) = std::thread::scope(|scope| {
        let short = scope.spawn(|| count(cycles));
        (short.join(), count(2 * cycles))
    });
    let short = short.unwrap_or_else(|_| Err("the counting failed".to_owned()))?;
    between(&short, &long?, cycles)
}

fn between(short: &[Thread], long: &[Thread], cycles: u64) -> Result<Cost, String> {
    if short.len() != long.len() || short.is_empty() {
        return Err("two runs differ in their threads".to_owned());
    }
    let each = |short: u64, long: u64| (long as f64 - short as f64) / cycles as f64;
    let cost = |(short, long): (&Thread, &Thread)| each(short.total, long.total);
    let pairs = || short.iter().zip(long);
    let mut functions: BTreeMap<&str, f64> = BTreeMap::new();
    for (short, long) in pairs().skip(1) {
        for (name, total) in &long.functions {
            let before = short.functions.get(name).copied().unwrap_or(0);
            *functions.entry(name).or_default() += each(before, *total);
        }
    }
    let mut functions: Vec<(String, f64)> = functions
        .into_iter()
        .map(|(name, cost)| (name.to_owned(), cost))
        .collect();
    functions.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Ok(Cost {
        process: pairs().map(cost).sum(),
        main: pairs().take(1).map(cost).sum(),
        others: pairs()
            .skip(1)
            .map(|pair| (pair.1.clone(), cost(pair)))
            .collect(),
        functions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_apart_and_the_rest_has_a_target() {
        let text = |collector| {
            format!(
                "probe_instructions 45\nprobe_vdso_instructions 61\n\
                 collector_instructions {collector}\n"
            )
        };
        let rows = stepped(&text("25.00")).unwrap();
        assert_eq!(
            (rows[0].ours.as_str(), &rows[0].standing),
            ("70.0", &Standing::Met)
        );
        assert_eq!(rows[3].ours, "61");
        let rows = stepped(&text("25.01")).unwrap();
        assert_eq!(rows[0].standing, Standing::NotMet);
        assert!(rows[0].exact && stepped("probe_instructions 45\n").is_err());
    }

    #[test]
    fn the_quick_profile_has_the_releases_probe() {
        let text = |probe, collector| {
            format!("probe_instructions {probe}\ncollector_instructions {collector}\n")
        };
        let standing = |quick: &str| in_quick(&text(45, "24.89"), quick).unwrap().standing;
        assert_eq!(standing(&text(45, "25.35")), Standing::Met);
        assert_eq!(standing(&text(46, "24.89")), Standing::NotMet);
        assert_eq!(standing(&text(45, "58.58")), Standing::NotMet);
        assert!(in_quick("", "").is_err());
    }

    #[test]
    fn what_both_runs_do_once_cancels_out() {
        let thread = |once: u64, cycles: u64| Thread {
            total: once + cycles * 70,
            functions: [("f".to_owned(), cycles * 60), ("g".to_owned(), cycles * 10)].into(),
        };
        let run = |cycles| vec![thread(5_000, 0), thread(1_000, cycles)];
        let cost = between(&run(CYCLES), &run(2 * CYCLES), CYCLES).unwrap();
        assert_eq!((cost.process, cost.main), (70.0, 0.0));
        assert_eq!(cost.others[0].1, 70.0);
        assert_eq!(cost.functions[0], ("f".to_owned(), 60.0));
        assert!(between(&run(1)[..1], &run(2), 1).is_err());
    }
}
