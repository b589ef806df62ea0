//! The commands in the report's advice, executed: each does to the threads that it names what
//! the advice says.

use crate::bills;
use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::mpsc;

use crate::common::mounts::in_own_mounts;
use crate::common::needs::{self, Absent};
use crate::common::{Place, cpus, need, program, skip};
use punctual_machine::tune::find_thread;
use punctual_record::Run;
use punctual_record::explanation::{Cause, Culprit, Stage};
use punctual_record::run::Load;
use punctual_report::explain::fix;
use punctual_rt::sched::{self, Policy};

/// A run of a probe with priority 30 on CPU 0 that had a cause there, and who it was; CPU 1 was not
/// probed.
pub fn run_that_met(cause: &Cause, by: &[Culprit]) -> Run {
    let text = include_str!("../../../record/tests/data/run-2.json");
    let mut run: Run = serde_json::from_str(text).expect("a record");
    run.watch = None;
    run.loads.clear();
    run.request.cpus = vec![0];
    run.request.priority = 30;
    run.system.processor.online = vec![0, 1];
    let mut explanation = bills::explanation();
    let mut bill = bills::bill_of(0, 1, &[(Stage::Switch, cause.clone(), 5_000)]);
    bill.rows[0].by = by.to_vec();
    explanation.bills = vec![bill];
    run.explanation = Some(explanation);
    run
}

/// A thread of a program that lived when it was looked up.
pub fn alive(tid: u32, start: u64) -> Culprit {
    Culprit {
        ns: 5_000,
        tid,
        pid: Some(tid),
        start: Some(start),
        command: Some("./hog --hard".to_owned()),
        ..Culprit::default()
    }
}

/// The commands in an advice: they stand between backquotes.
pub fn commands(advice: &str) -> Vec<String> {
    let pieces = advice.split('`').skip(1).step_by(2);
    pieces.map(str::to_owned).collect()
}

/// A command as root executes it here, with a journal of its own.
pub fn executed(place: &Place, command: &str) -> Output {
    let command = command.replacen("sudo punctual", "\"$PUNCTUAL\"", 1) + " --state state";
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).current_dir(place.path());
    shell.env("PUNCTUAL", program()).output().expect("sh")
}

/// Policy, priority and CPUs of a thread, as the kernel has them.
fn state(tid: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives");
    let after = stat.rfind(") ").map_or("", |at| &stat[at + 2..]);
    // Numbers 40 and 41 in the manual: real-time priority and policy.
    let fields: Vec<&str> = after.split(' ').skip(37).take(2).collect();
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).expect("it lives");
    let cpus = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list"));
    format!("{fields:?} {}", cpus.unwrap_or_default())
}

/// Three threads share a name: an ordinary one, the culprit, and the one that is late.
#[test]
fn advice_changes_the_culprit_alone_and_one_command_undoes_it() {
    need!(needs::root());
    if cpus() != [0, 1] {
        skip!(Absent::hardware("CPUs 0 and 1, and no others"));
    }
    let (ready, is_ready) = mpsc::channel();
    let mut stops = Vec::new();
    for policy in [Policy::Other, Policy::Fifo(90), Policy::Fifo(30)] {
        let (stop, stopped) = mpsc::channel::<()>();
        let ready = ready.clone();
        let body = move || {
            sched::set_current(policy).expect("as root");
            // SAFETY: the call takes nothing and returns a number.
            ready
                .send(unsafe { libc::gettid() })
                .expect("somebody waits");
            let _ = stopped.recv();
        };
        let thread = std::thread::Builder::new().name("hog.of [it]'s*".to_owned());
        stops.push((
            stop,
            thread.spawn(body).expect("a thread"),
            is_ready.recv().expect("it runs"),
        ));
    }
    let tids: Vec<i32> = stops.iter().map(|(.., tid)| *tid).collect();
    let before: Vec<String> = tids.iter().map(|tid| state(*tid)).collect();
    let culprit = find_thread(tids[1]).expect("it lives");
    let cause = Cause::Thread {
        task: culprit.name.clone(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 90,
    };
    let by = alive(culprit.tid as u32, culprit.start);
    let advice = fix(&cause, &run_that_met(&cause, &[by])).expect("an advice");
    let commands = commands(&advice);
    assert_eq!(commands.len(), 2, "{advice}");
    let place = Place::new();
    for command in &commands {
        let done = executed(&place, command);
        assert!(done.status.success(), "{command}: {done:?}");
    }
    let now: Vec<String> = tids.iter().map(|tid| state(*tid)).collect();
    assert_eq!((&now[0], &now[2]), (&before[0], &before[2]), "{advice}");
    // Below the probe's 30, and away from its CPU.
    assert_eq!(now[1], "[\"29\", \"1\"] Cpus_allowed_list:\t1");
    let undone = executed(&place, "sudo punctual tune restore");
    assert!(undone.status.success(), "{undone:?}");
    let again: Vec<String> = tids.iter().map(|tid| state(*tid)).collect();
    assert_eq!(again, before);
    for (stop, thread, _) in stops {
        drop(stop);
        thread.join().expect("it ends");
    }
    // Its number may be another thread's by now.
    for command in &commands {
        let done = executed(&place, command);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{command}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn advice_for_a_thread_that_is_known_no_longer_has_no_command() {
    let cause = Cause::Thread {
        task: "hog".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 90,
    };
    let ended = Culprit {
        ended: true,
        start: None,
        group: Some("/system.slice/backup.service".to_owned()),
        ..alive(4711, 0)
    };
    let text = fix(&cause, &run_that_met(&cause, &[ended])).expect("an advice");
    assert_eq!(commands(&text), [""; 0], "{text}");
    assert!(text.contains("CPUAffinity=1 in backup.service"), "{text}");
    assert!(
        text.contains("CPUSchedulingPolicy=fifo and CPUSchedulingPriority=29 in backup.service"),
        "{text}"
    );
    let unknown = fix(&cause, &run_that_met(&cause, &[])).expect("an advice");
    assert_eq!(commands(&unknown), [""; 0], "{unknown}");
}

/// Its name is any program's: what counts is whose process it is.
#[test]
fn a_program_with_the_name_of_one_of_ours_or_of_the_kernels_is_a_program() {
    for task in [
        "collector",
        "tracer",
        "punctual",
        "load-cpu",
        "watchdog",
        "rcu_x",
        "kworker/9:1",
    ] {
        let cause = Cause::PreemptOff {
            task: task.to_owned(),
            work: None,
        };
        let run = run_that_met(&cause, &[alive(4711, 812_345)]);
        let text = fix(&cause, &run).expect("an advice");
        let wanted = "sudo punctual tune apply affinity@4711:812345=1";
        assert_eq!(commands(&text), [wanted], "{task}: {text}");
        let own = Culprit {
            own: true,
            ..alive(4711, 812_345)
        };
        let mut run = run_that_met(&cause, &[own]);
        run.request.cpus = vec![0, 1];
        let text = fix(&cause, &run).unwrap_or_default();
        assert_eq!(commands(&text), [""; 0], "{task}: {text}");
    }
}

/// Every file that an advice writes, on a machine that has it: the value is there afterwards, and
/// the former one after a restore.
#[test]
fn every_setting_that_is_advised_is_made_and_undone() {
    need!(needs::root());
    need!(needs::mounts());
    let mut settings: BTreeSet<String> = BTreeSet::new();
    for cause in corpus() {
        let run = run_that_met(&cause, &[]);
        for command in commands(&fix(&cause, &run).unwrap_or_default()) {
            let words = command.strip_prefix("sudo punctual tune apply ");
            let words = words.unwrap_or_else(|| panic!("{cause:?}: {command}"));
            settings.extend(
                words
                    .split(' ')
                    .filter(|it| it.contains('='))
                    .map(str::to_owned),
            );
        }
    }
    assert!(settings.len() > 12, "{settings:?}");
    let mut script = String::new();
    for (at, setting) in settings.iter().enumerate() {
        let (name, value) = setting.split_once('=').expect("a setting");
        let path = match name.starts_with('/') {
            true => name.to_owned(),
            false => format!("/proc/sys/{}", name.replace('.', "/")),
        };
        // As long as the value: these files keep the rest of a longer one, which the kernel's don't.
        let old = "x".repeat(value.len());
        script += &format!(
            "path={path}; echo {old} > old-{at}
             if [ ! -e $path ]; then
                 top=$path; while [ ! -d $top ]; do top=$(dirname $top); done
                 mount -t tmpfs none $top || exit 77
                 mkdir -p $(dirname $path) && cp old-{at} $path
             else
                 cp old-{at} file-{at} && mount --bind file-{at} $path || exit 77
             fi
             \"$PUNCTUAL\" tune apply '{setting}' --state state-{at} || exit 1
             grep -qxe '{value}' $path || {{ echo \"$path has $(cat $path)\"; exit 1; }}
             \"$PUNCTUAL\" tune restore --state state-{at} || exit 1
             [ \"$(cat $path)\" = \"$(cat old-{at})\" ] || {{ echo \"$path is $(cat $path)\"; exit 1; }}
             "
        );
    }
    let place = Place::new();
    let done = in_own_mounts(&place, &script).expect("mounts");
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_shell_parses_every_advised_command() {
    let mut read = 0;
    for cause in bills::causes() {
        let run = run_that_met(&cause, &[alive(4711, 812_345)]);
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
    let mut run = run_that_met(&cause, &[alive(4711, 812_345)]);
    run.request.cpus = vec![0, 1];
    let text = fix(&cause, &run).expect("an advice");
    assert!(
        text.contains("off CPU 0: ") && text.contains("affinity@4711:812345=1"),
        "{text}"
    );
    run.explanation.as_mut().expect("bills").bills[0].cpu = 1;
    let text = fix(&cause, &run).expect("an advice");
    assert!(
        text.contains("off CPU 1: ") && text.contains("affinity@4711:812345=0"),
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
        let mut run = run_that_met(&cause, &[alive(4711, 812_345)]);
        run.request.priority = own;
        let text = fix(&cause, &run).expect("an advice");
        let (_, after) = text.split_once("=fifo:").unwrap_or_default();
        let found = after
            .split('`')
            .next()
            .and_then(|it| it.parse::<u32>().ok());
        assert_eq!(found, wanted, "{own}: {text}");
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

/// No affinity moves per-CPU kernel threads, a softirq or an unknown thread, under the name that a
/// bill has and under that of a ranking.
#[test]
fn no_advice_moves_threads_that_cannot_be_moved() {
    for task in [
        "ksoftirqd/1",
        "ksoftirqd",
        "kworker/1:2",
        "kworker",
        "migration/1",
        "irq_work/1",
        "rcuc",
        "cpuhp",
        "softirq NET_RX",
        "",
    ] {
        for cause in accused(task) {
            let of_kernel = Culprit {
                command: Some(String::new()),
                ..alive(17, 5)
            };
            let text = fix(&cause, &run_that_met(&cause, &[of_kernel])).unwrap_or_default();
            assert!(!text.contains("affinity@"), "{cause:?}: {text}");
        }
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
            let mut run = run_that_met(cause, &[alive(4711, 812_345)]);
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
            let to_ordinary = advice.contains("scheduling@")
                && matches!(cause, Cause::Thread { policy, .. } if policy == "SCHED_OTHER");
            assert!(!to_ordinary, "{advice}");
            for command in commands(&advice) {
                let done = Command::new("sh").args(["-n", "-c", &command]).output();
                assert!(done.expect("sh").status.success(), "{cause:?}: {command}");
                commanded += 1;
                for path in paths(&command) {
                    // Drivers that this machine need not have, and a directory that debugfs may hide.
                    let optional = [
                        "/sys/kernel/",
                        "/sys/devices/virtual/workqueue",
                        "/sys/fs/cgroup",
                    ];
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
    let words = command.split(|c: char| c.is_whitespace() || ";='\"".contains(c));
    let is_path = |word: &&str| word.starts_with("/proc/") || word.starts_with("/sys/");
    words.filter(is_path).map(str::to_owned).collect()
}

fn load(name: &str) -> Load {
    Load {
        name: name.to_owned(),
        parameters: std::collections::BTreeMap::new(),
        processes: 1,
        work: 1,
        unit: "messages".to_owned(),
        rate: 1.0,
        failed: None,
        check: None,
        idle_run: None,
    }
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
            // Looked up, or ended before.
            let own = Culprit {
                own: true,
                ..alive(4711, 812_345)
            };
            let mut ran = run_that_met(&cause, &[]);
            ran.loads = vec![load(kind)];
            for run in [run_that_met(&cause, &[own]), ran] {
                let advice = fix(&cause, &run).expect("an advice");
                assert!(advice.contains("own load, which stands for"), "{advice}");
                assert_eq!(commands(&advice), [""; 0], "{advice}");
            }
        }
    }
}
