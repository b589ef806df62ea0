//! Bounds and outliers in DuckDB, by simulation with known truth.

use punctual_record::{Run, analyse_record};
use serde_json::Value;

use crate::duckdb::{answer, query, saved};
use crate::engine;
use crate::made::{Random, run_of, thread};

const LIMIT_NS: u64 = 100_000;
const CYCLES: usize = 4_000;

/// A run of a machine whose cycles are late with this probability, several together.
fn run_on(machine: &str, probability: f64, together: usize, random: &mut Random) -> Run {
    let mut latencies = Vec::with_capacity(CYCLES);
    let start = probability / together as f64;
    while latencies.len() < CYCLES {
        let drawn = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let (count, base) = if drawn < start {
            (together, LIMIT_NS + 1)
        } else {
            (1, 5_000)
        };
        latencies.extend((0..count).map(|_| base + random.next() % 1_000));
    }
    latencies.truncate(CYCLES);
    let mut run = run_of(vec![thread(0, &latencies, 4_096)]);
    run.system.hostname = machine.to_owned();
    let analysis = analyse_record(&run).expect("an analysis");
    run.conclude(analysis);
    run
}

fn farm(
    machines: usize,
    bad: Option<(usize, f64)>,
    together: usize,
    random: &mut Random,
) -> Vec<Run> {
    let runs = (0..machines * 2).map(|number| {
        let machine = number % machines;
        let probability = match bad {
            Some((which, probability)) if which == machine => probability,
            _ => 0.002,
        };
        run_on(&format!("node{machine}"), probability, together, random)
    });
    runs.collect()
}

#[test]
fn a_bad_machine_is_named_and_chance_is_not() {
    let Some(engine) = engine() else { return };
    let mut random = Random(7);
    let names = |runs: &[Run]| -> Vec<String> {
        let place = saved(runs);
        let rows = answer(&engine, place.path(), query("outliers"));
        let name = |row: &Value| row["machine"].as_str().unwrap_or_default().to_owned();
        rows.iter().map(name).collect()
    };
    assert_eq!(names(&farm(8, Some((3, 0.02)), 1, &mut random)), ["node3"]);
    // At most 5 in 100 farms may have one; of 40 equal ones, six would have a probability of 1 %.
    let mut named = 0;
    for farm_number in 0..40 {
        let together = [1, 4][farm_number % 2];
        named += usize::from(!names(&farm(8, None, together, &mut random)).is_empty());
    }
    assert!(named <= 5, "{named} of 40 farms of equal machines");
}

#[test]
fn the_upper_bound_holds_in_nearly_all_farms() {
    let Some(engine) = engine() else { return };
    let mut random = Random(11);
    let (mut below, mut farms) = (0, 0);
    for number in 0..60 {
        let together = [1, 5][number % 2];
        let place = saved(&farm(3, None, together, &mut random));
        let rows = answer(&engine, place.path(), query("exceedance"));
        let row = rows
            .iter()
            .find(|row| row["limit_ns"] == LIMIT_NS)
            .expect("the limit");
        let upper = row["upper"].as_f64().expect("a bound");
        // With as many cycles it is no more than about three times the truth.
        assert!(upper < 0.02, "{upper}");
        farms += 1;
        below += usize::from(upper < 0.002);
    }
    assert!(below <= 5, "{below} of {farms} bounds were below the truth");
}

#[test]
fn a_kernel_that_is_worse_is_said_to_be_so_and_an_equal_one_is_not() {
    let Some(engine) = engine() else { return };
    let mut random = Random(23);
    let on = |kernel: &str, day: u32, probability: f64, random: &mut Random| -> Vec<Run> {
        let runs = (0..4).map(|number| {
            let mut run = run_on(&format!("node{number}"), probability, 1, random);
            run.system.kernel.release = kernel.to_owned();
            run.started = format!("2026-11-{day:02}T00:00:00Z");
            run
        });
        runs.collect()
    };
    // The third is named so that its order is by time and not by name.
    let releases = [
        ("6.1.9", 1, 0.002),
        ("6.1.10", 2, 0.002),
        ("6.1.11", 3, 0.02),
        ("6.1.2", 4, 0.002),
    ];
    let runs: Vec<Run> = releases
        .iter()
        .flat_map(|(kernel, day, probability)| on(kernel, *day, *probability, &mut random))
        .collect();
    let place = saved(&runs);
    let rows = answer(&engine, place.path(), query("changes"));
    let of_limit = rows.iter().filter(|row| row["limit_ns"] == LIMIT_NS);
    let words = |row: &Value| {
        ["before", "kernel", "change"].map(|name| row[name].as_str().unwrap_or_default().to_owned())
    };
    let found: Vec<[String; 3]> = of_limit.map(words).collect();
    assert_eq!(
        found,
        [
            ["6.1.9", "6.1.10", "not shown"],
            ["6.1.10", "6.1.11", "worse"],
            ["6.1.11", "6.1.2", "better"],
        ]
    );
}
