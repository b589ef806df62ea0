//! The commands in the report's advice, executed: each does to the threads that it names what
//! the advice says.

use crate::bills;
use std::process::Command;
use std::sync::mpsc;

use crate::common::needs::{self, Absent};
use crate::common::{cpus, need, skip};
use punctual_record::Run;
use punctual_record::explanation::{Cause, Stage};
use punctual_report::explain::fix;
use punctual_rt::sched::{self, Policy};

/// A run of a probe with priority 30 on CPU 0 that had a cause there; CPU 1 was not probed.
fn run_that_met(cause: &Cause) -> Run {
    let text = include_str!("../../../record/tests/data/run-2.json");
    let mut run: Run = serde_json::from_str(text).expect("a record");
    run.watch = None;
    run.request.cpus = vec![0];
    run.request.priority = 30;
    run.system.processor.online = vec![0, 1];
    let mut explanation = bills::explanation();
    explanation.bills = vec![bills::bill_of(
        0,
        1,
        &[(Stage::Switch, cause.clone(), 5_000)],
    )];
    run.explanation = Some(explanation);
    run
}

/// The commands in an advice: they follow a colon or a semicolon and begin with a program.
fn commands(advice: &str) -> Vec<String> {
    const PROGRAMS: &[&str] = &[
        "pgrep ",
        "echo ",
        "sysctl ",
        "taskset ",
        "chrt ",
        "cpupower ",
        "auditctl ",
        "cat ",
        "ps ",
        "systemctl ",
    ];
    // A loop is one command.
    let mut found = Vec::new();
    let mut rest = advice;
    while let Some((before, after)) = rest.split_once("for ") {
        rest = after;
        if before.ends_with(": ")
            && let Some((body, _)) = after.split_once("; done")
        {
            found.push(format!("for {body}; done"));
        }
    }
    let pieces = advice.split(": ").flat_map(|it| it.split("; "));
    found.extend(
        pieces
            .filter(|it| PROGRAMS.iter().any(|program| it.starts_with(program)))
            .map(|it| it.split(" (").next().unwrap_or(it))
            .map(|it| it.split(", ").next().unwrap_or(it))
            // A command within parentheses ends with them.
            .map(|it| {
                if it.contains('(') {
                    it
                } else {
                    it.split(')').next().unwrap_or(it)
                }
            })
            .map(str::to_owned),
    );
    found
}

fn advice(cause: &Cause) -> String {
    fix(cause, &run_that_met(cause)).expect("an advice")
}

#[test]
fn advice_lowers_or_moves_the_thread_in_the_way() {
    need!(needs::root());
    need!(needs::program("pgrep"));
    need!(needs::program("xargs"));
    need!(needs::program("chrt"));
    need!(needs::program("taskset"));
    if cpus() != [0, 1] {
        skip!(Absent::hardware("CPUs 0 and 1, and no others"));
    }
    // Threads, not programs, two of them, and a name that is not a valid regular expression.
    let name = "hog.of [it]'s*";
    let (ready, is_ready) = mpsc::channel();
    let mut stops = Vec::new();
    for _ in 0..2 {
        let (stop, stopped) = mpsc::channel::<()>();
        let ready = ready.clone();
        let body = move || {
            sched::set_current(Policy::Fifo(99)).expect("as root");
            // SAFETY: the call takes nothing and returns a number.
            ready
                .send(unsafe { libc::gettid() })
                .expect("somebody waits");
            let _ = stopped.recv();
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        stops.push((stop, thread.spawn(body).expect("a thread")));
    }
    let tids: Vec<i32> = (0..2).map(|_| is_ready.recv().expect("a thread")).collect();
    let cause = Cause::Thread {
        task: name.to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 99,
    };
    let advice = advice(&cause);
    let commands = commands(&advice);
    assert_eq!(commands.len(), 2, "{advice}");
    for command in &commands {
        let done = Command::new("sh")
            .args(["-c", command])
            .output()
            .expect("sh");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command}: {said}");
    }
    for tid in tids {
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).expect("it lives");
        assert!(status.contains("Cpus_allowed_list:\t1\n"), "{status}");
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives");
        let after = stat.rfind(") ").map_or("", |at| &stat[at + 2..]);
        // From the name on the 38th field is the real-time priority: number 41 in the manual.
        assert_eq!(
            after.split(' ').nth(37),
            Some("29"),
            "below the probe's 30: {stat}"
        );
    }
    for (stop, thread) in stops {
        drop(stop);
        thread.join().expect("it ends");
    }
}

#[test]
fn a_shell_parses_every_advised_command() {
    let mut read = 0;
    for cause in bills::causes() {
        let run = run_that_met(&cause);
        let Some(advice) = fix(&cause, &run) else {
            continue;
        };
        for command in commands(&advice) {
            let done = Command::new("sh").args(["-n", "-c", &command]).output();
            assert!(done.expect("sh").status.success(), "{command}");
            read += 1;
        }
    }
    assert!(read >= 8, "{read} commands");
}

#[test]
fn advice_is_about_the_cpus_of_the_bills() {
    let cause = Cause::PreemptOff {
        task: "cc1".to_owned(),
        work: None,
    };
    let mut run = run_that_met(&cause);
    run.request.cpus = vec![0, 1];
    let text = fix(&cause, &run).expect("an advice");
    assert!(
        text.contains("off CPU 0: ") && text.contains("taskset -pc 1"),
        "{text}"
    );
    run.explanation.as_mut().expect("bills").bills[0].cpu = 1;
    let text = fix(&cause, &run).expect("an advice");
    assert!(
        text.contains("off CPU 1: ") && text.contains("taskset -pc 0"),
        "{text}"
    );
}

#[test]
fn no_advice_lowers_a_thread_below_a_probe_of_lowest_priority() {
    let cause = Cause::Thread {
        task: "hog".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 50,
    };
    for (own, wanted) in [
        (0, None),
        (1, None),
        (2, Some(1)),
        (30, Some(29)),
        (50, Some(49)),
        // It is below already.
        (99, None),
    ] {
        let mut run = run_that_met(&cause);
        run.request.priority = own;
        let text = fix(&cause, &run).expect("an advice");
        let found = text.contains("chrt -f -p").then(|| {
            let after = text.split("chrt -f -p ").nth(1).unwrap_or_default();
            after
                .split(';')
                .next()
                .and_then(|it| it.parse::<u32>().ok())
        });
        assert_eq!(found.flatten(), wanted, "{own}: {text}");
    }
}

/// All causes that name a thread, naming this one.
fn accused(task: &str) -> Vec<Cause> {
    let task = task.to_owned();
    let thread = |policy: &str, priority| Cause::Thread {
        task: task.clone(),
        policy: policy.to_owned(),
        priority,
    };
    vec![
        Cause::PreemptOff {
            task: task.clone(),
            work: None,
        },
        Cause::IrqsOff {
            function: "spin_unlock_irq".to_owned(),
            task: task.clone(),
        },
        Cause::LateInterrupt { task: task.clone() },
        Cause::FairShare { task: task.clone() },
        thread("SCHED_FIFO", 99),
        thread("SCHED_OTHER", 0),
    ]
}

/// No affinity moves per-CPU kernel threads, a softirq or an unknown thread; a user's program is
/// not one of ours because of its name.
#[test]
fn no_advice_moves_threads_that_cannot_be_moved() {
    for task in [
        "ksoftirqd/1",
        "kworker/1:2",
        "migration/1",
        "irq_work/1",
        "softirq NET_RX",
        "",
    ] {
        for cause in accused(task) {
            let text = fix(&cause, &run_that_met(&cause)).unwrap_or_default();
            assert!(!text.contains("taskset"), "{cause:?}: {text}");
            assert!(!text.contains("pgrep"), "{cause:?}: {text}");
        }
    }
    for cause in accused("load-balancer") {
        let text = fix(&cause, &run_that_met(&cause)).unwrap_or_default();
        assert!(text.contains("load-balancer"), "{cause:?}: {text}");
        assert!(!text.contains("punctual's own"), "{cause:?}: {text}");
    }
}

fn corpus() -> Vec<Cause> {
    let table = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let lines = table.lines().filter_map(|line| {
        let (irq, rest) = line.split_once(':')?;
        let irq: u32 = irq.trim().parse().ok()?;
        Some((irq, rest.split_whitespace().last()?.to_owned()))
    });
    let mut corpus = bills::causes();
    corpus.retain(|cause| {
        !matches!(
            cause,
            Cause::Interrupt { .. } | Cause::GroupThrottled { .. }
        )
    });
    corpus.extend(lines.map(|(irq, name)| Cause::Interrupt { irq, name }));
    corpus.extend((0..10).map(|number| Cause::Softirq { number }));
    for (group, file) in [
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
        ("/sys/fs/cgroup/cpu", "cpu.rt_runtime_us"),
    ] {
        corpus.push(Cause::GroupThrottled {
            group: group.to_owned(),
            file: file.to_owned(),
        });
    }
    for task in [
        "ksoftirqd/1",
        "kworker/1:2",
        "ktimers/1",
        "rcu_preempt",
        "cc1",
    ] {
        corpus.extend(accused(task));
    }
    for task in [
        "migration/1",
        "irq_work/1",
        "rcuc/1",
        "cpuhp/0",
        "softirq NET_RX",
        "softirq SCHED",
        "load-balancer",
        "",
    ] {
        corpus.extend(accused(task));
    }
    for function in ["flush_tlb_func", "do_sync_core", "ipi_mb", "nobody_knows"] {
        let function = function.to_owned();
        corpus.push(Cause::Call { function });
    }
    for vector in [
        "reschedule",
        "local timer",
        "call function single",
        "irq work",
    ] {
        let vector = vector.to_owned();
        corpus.push(Cause::CpuInterrupt { vector });
    }
    for policy in ["SCHED_OTHER", "SCHED_FIFO", "SCHED_DEADLINE"] {
        corpus.push(Cause::Thread {
            task: "hog".to_owned(),
            policy: policy.to_owned(),
            priority: u32::from(policy == "SCHED_FIFO") * 60,
        });
    }
    corpus
}

/// Words that are placeholders which the reader would have to replace.
fn placeholder(advice: &str) -> Option<&str> {
    let words = advice.split(|c: char| c.is_whitespace() || "/()=;,".contains(c));
    let mut words = words.filter(|word| !word.is_empty());
    words.find(|word| ["N", "DEV", "PID", "PROGRAM", "cpuN", "GROUP"].contains(word))
}

#[test]
fn all_advice_parses_and_names_existing_files() {
    let (mut commanded, mut named) = (0, 0);
    let corpus = corpus();
    for with_devices in [false, true] {
        for cause in &corpus {
            let mut run = run_that_met(cause);
            let explanation = run.explanation.as_mut().expect("bills");
            explanation
                .ranking
                .retain(|it| !matches!(it.cause, Cause::Interrupt { .. }));
            if with_devices {
                let of_device = corpus
                    .iter()
                    .filter(|it| matches!(it, Cause::Interrupt { .. }));
                let first = explanation.ranking[0].clone();
                explanation.ranking.extend(of_device.map(|cause| {
                    punctual_record::explanation::Ranked {
                        cause: cause.clone(),
                        ..first.clone()
                    }
                }));
            }
            let Some(advice) = fix(cause, &run) else {
                continue;
            };
            assert_eq!(placeholder(&advice), None, "{cause:?}: {advice}");
            let to_ordinary = advice.contains("chrt -f -p")
                && matches!(cause, Cause::Thread { policy, .. } if policy == "SCHED_OTHER");
            assert!(!to_ordinary, "{advice}");
            for command in commands(&advice) {
                let done = Command::new("sh").args(["-n", "-c", &command]).output();
                assert!(done.expect("sh").status.success(), "{cause:?}: {command}");
                commanded += 1;
                for path in paths(&command) {
                    // Drivers that this machine need not have, and a directory that debugfs may hide.
                    let optional = ["/sys/kernel/", "/sys/devices/virtual/workqueue"];
                    if optional.iter().any(|begin| path.starts_with(begin)) {
                        continue;
                    }
                    let shown = Command::new("sh")
                        .args(["-c", &format!("ls -d {path} >/dev/null 2>&1")])
                        .status();
                    let here = shown.is_ok_and(|it| it.success());
                    // A machine may lack a disk or a network card.
                    assert!(here || path.contains('*'), "{cause:?}: {path}");
                    named += 1;
                }
            }
        }
    }
    assert!(commanded >= 40 && named >= 20, "{commanded} {named}");
}

/// Files below /proc and /sys that a command names.
fn paths(command: &str) -> Vec<String> {
    let words = command.split(|c: char| c.is_whitespace() || ";'\"".contains(c));
    let is_path = |word: &&str| word.starts_with("/proc/") || word.starts_with("/sys/");
    words.filter(is_path).map(str::to_owned).collect()
}

/// Our own load is intended to interfere: the advice says what it represents, not how to move it.
#[test]
fn no_advice_is_given_against_our_own_load() {
    for kind in [
        "hackbench",
        "mmap",
        "fork",
        "files",
        "net",
        "cpu",
        "timers",
        "poll",
    ] {
        let task = format!("load-{kind}");
        for cause in [
            Cause::PreemptOff {
                task: task.clone(),
                work: None,
            },
            Cause::FairShare { task },
        ] {
            let advice = advice(&cause);
            assert!(advice.contains("own load, which stands for"), "{advice}");
            assert!(
                !advice.contains("taskset") && !advice.contains("pgrep"),
                "{advice}"
            );
        }
    }
}
