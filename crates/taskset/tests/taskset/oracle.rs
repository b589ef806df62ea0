//! Whole files compared with other programs: sets are written as TOML, read, and analysed. What SimSo
//! says of them is recorded in `crates/sched/tests/data`, with the script that made it; the crate
//! `response-time-analysis` implements what PROSA has proved.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use punctual_record::taskset::analysis::{Response, SetOverheads};
use punctual_sched::simulate::Random;
use punctual_taskset::analyse::Limits;
use punctual_taskset::{Format, Machine, analyse, read};
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::fixed_priority::floating_nonpreemptive::{
    TaskUnderAnalysis, dedicated_uniproc_rta,
};
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet;

/// A task as it is written, in us; of `SCHED_DEADLINE` without a priority.
#[derive(Debug, Clone, Copy)]
struct Written {
    priority: Option<u64>,
    cost: u64,
    period: u64,
    offset: u64,
    jitter: u64,
}

/// The set as a file, in units and keys that vary.
fn file(tasks: &[Written], timer: &str) -> String {
    let mut text = String::from("name = \"oracle\"\n");
    for (at, task) in tasks.iter().enumerate() {
        let (cost, period) = (task.cost, task.period);
        let _ = write!(text, "[[task]]\nname = \"t{at}\"\ncpu = 0\ndeadline = ");
        let _ = match task.priority {
            Some(priority) => writeln!(text, "\"1h\"\npriority = {priority}"),
            None => writeln!(text, "\"{period}\"\nruntime = \"{cost}\""),
        };
        let _ = match at % 2 {
            0 => writeln!(text, "period = \"{period}\"\nwork = \"{cost}us\""),
            _ => writeln!(
                text,
                "period = \"{}ns\"\nwork = [{{ run = \"{cost}\" }}]",
                period * 1_000
            ),
        };
        if task.offset > 0 {
            let _ = writeln!(text, "offset = \"{}us\"", task.offset);
        }
        if task.jitter > 0 {
            let _ = writeln!(text, "jitter = \"{}\"", task.jitter);
        }
        let _ = writeln!(text, "{timer}");
    }
    // One of unknown time, elsewhere: then nobody asks how much longer jobs may take.
    text.push_str(
        "[[task]]\nname = \"x\"\ncpu = 1\npriority = 1\nperiod = \"1s\"\nwork = [{ calls = 1 }]\n",
    );
    text
}

/// The bounds of a file, in us.
fn bounds(text: &str) -> Vec<Option<u64>> {
    let machine = Machine {
        limits: Limits::usual(2, false),
        overheads: SetOverheads::default(),
    };
    let read = read(text, "oracle", Format::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let of = |response: &Response| match response {
        Response::Bounded { response_ns, .. } => Some(response_ns / 1_000),
        _ => None,
    };
    let analysis = analyse(&read.set, &machine);
    analysis
        .tasks
        .iter()
        .map(|task| of(&task.response))
        .collect()
}

#[test]
fn files_are_bounded_as_simso_executes_them() {
    let mut sets: BTreeMap<u32, Vec<(Written, u64)>> = BTreeMap::new();
    let recorded = include_str!("../../../sched/tests/data/simso-responses.csv");
    for line in recorded.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        let task = Written {
            priority: (fields[1] == "FP").then(|| number(6)),
            cost: number(3),
            period: number(4),
            offset: number(5),
            jitter: 0,
        };
        let set = sets.entry(number(0) as u32).or_default();
        set.push((task, number(7)));
    }
    let (mut fixed, mut exact, mut reserved) = (0, 0, 0);
    for (number, set) in &sets {
        let (tasks, observed): (Vec<_>, Vec<_>) = set.iter().copied().unzip();
        let text = file(&tasks, "");
        let together = bounds(&file(&tasks, "timer = \"relative\""));
        for (at, (bound, observed)) in bounds(&text).into_iter().zip(observed).enumerate() {
            let bound = bound.unwrap_or_else(|| panic!("set {number} task {at}\n{text}"));
            assert!(
                observed <= bound,
                "set {number} task {at}: {observed} {bound}\n{text}"
            );
            assert!(
                Some(bound) <= together[at],
                "set {number} task {at}\n{text}"
            );
            if tasks[at].priority.is_some() {
                fixed += 1;
                // It executed two common multiples of the periods, at the offsets.
                exact += usize::from(observed == bound);
            } else {
                reserved += 1;
            }
        }
    }
    assert!(fixed > 150 && reserved > 150, "{fixed} {reserved}");
    assert_eq!(exact, fixed, "bounds at offsets that are not what happens");
}

#[test]
fn files_are_bounded_as_another_analysis_has_it() {
    let (mut equal, mut beyond) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let count = 2 + random.up_to(4);
        let tasks: Vec<Written> = (0..count)
            .map(|_| {
                let period = 50 + random.up_to(1_950);
                Written {
                    priority: Some(1 + random.up_to(4)),
                    cost: 1 + random.up_to(2 * period / (count + 1)),
                    period,
                    offset: random.up_to(period),
                    jitter: random.up_to(1) * random.up_to(2 * period),
                }
            })
            .collect();
        let text = file(&tasks, "timer = \"relative\"");
        let request = |task: &Written| {
            let (period, jitter) = (Duration::from(task.period), Duration::from(task.jitter));
            let cost = wcet::Scalar::new(Service::from(task.cost));
            RBF::new(Sporadic::new(period, jitter), cost)
        };
        for (at, (task, bound)) in tasks.iter().zip(bounds(&text)).enumerate() {
            // It counts from the release.
            if task.jitter > 0 {
                continue;
            }
            let above = tasks.iter().enumerate();
            let above = above.filter(|(other, it)| *other != at && it.priority >= task.priority);
            let above: Vec<_> = above.map(|(_, it)| request(it)).collect();
            let rbf = request(task);
            let own = TaskUnderAnalysis {
                rbf: &rbf,
                blocking_bound: Service::from(0),
            };
            match dedicated_uniproc_rta(&own, &above, Duration::from(10_000_000)) {
                Ok(expected) => {
                    let found = bound.map(Duration::from);
                    assert_eq!(found, Some(expected), "task {at} of\n{text}");
                    equal += 1;
                }
                // More than the CPU has.
                Err(_) => {
                    assert!(bound.is_none_or(|bound| bound > 5_000_000), "{text}");
                    beyond += 1;
                }
            }
        }
    }
    assert!(equal > 300 && beyond > 10, "{equal} {beyond}");
}
