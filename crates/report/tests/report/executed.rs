//! Executed task sets in words, as a page, as JSON, and while they run.

use punctual_record::explanation::{Cause, Meanwhile};
use punctual_record::live::{LiveTask, LiveTasks};
use punctual_record::taskset::analysis::Response;
use punctual_record::taskset::{TaskFault, TaskPolicy};
use punctual_record::{Run, analyse_record};
use punctual_report::explain::name;
use punctual_report::live::{TaskOrder, tasks_lines, tasks_plain_line};
use punctual_report::style::Style;
use punctual_report::{html, summary_json, terminal};
use serde_json::Value;

use crate::tasksets::{executed, failed, undecided};

fn summary(run: &Run, width: usize) -> String {
    let style = Style {
        width,
        ..Style::plain()
    };
    let text = terminal::summary(run, &style);
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{line}");
    }
    text
}

/// The text on one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_summary_names_tasks_chains_and_who_took_the_time() {
    let text = flat(&summary(&executed(), 80));
    for words in [
        "FAIL: The reaction of sensor to actuator was longer than 3 ms in 1 of 3 outputs (the \
         longest 3.2 ms); none may be.",
        "round: its longest job with a bill took 1.2 ms, 150 µs more than its deadline",
        "700 µs preempted by the task control, SCHED_FIFO 80",
        "140 µs blocked on lock log held by logger: preempted by control",
        "100 µs its jitter",
        "sensor to actuator reaction 3",
        "turns of a loop, per µs 2000.0 on CPU 0",
    ] {
        let words = flat(words);
        assert!(text.contains(&words), "{words}: {text}");
    }
    // Narrow terminals give up columns, not rows.
    let narrow = summary(&executed(), 50);
    for task in ["control", "round", "reserved", "logger", "after Pipe"] {
        assert!(narrow.contains(task), "{task}: {narrow}");
    }
}

#[test]
fn what_is_too_little_and_what_failed_is_said() {
    let text = flat(&summary(&undecided(), 80));
    assert!(text.starts_with("FAIL: The reaction"), "{text}");
    let mut without = undecided();
    if let Some(tasks) = &mut without.tasks {
        tasks.set.chains.clear();
        tasks.chains.clear();
    }
    without.conclude(analyse_record(&without).unwrap());
    let text = flat(&summary(&without, 80));
    assert!(
        text.starts_with("FAIL: round: 1 of 1,000 jobs missed 1 ms")
            || text.starts_with("INCONCLUSIVE: round: 1 of 1,000 jobs missed 1 ms"),
        "{text}"
    );
    let text = flat(&summary(&failed(), 80));
    for words in [
        "INVALID: the task control could not wait for its next job: it is gone",
        "the task round could not release the next task: it is gone",
        "the task reserved failed at step 3 of phase 1: it is gone",
        "the task logger did not end in time",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_task_that_did_not_end_is_named_with_the_failure_that_is_shown() {
    let mut run = executed();
    run.tasks.as_mut().unwrap().tasks[3].fault = Some(TaskFault::StillBusy {});
    run.conclude(analyse_record(&run).unwrap());
    let text = flat(&summary(&run, 80));
    assert!(text.starts_with("FAIL: The reaction"), "{text}");
    assert!(
        text.contains("Also, the task logger did not end in time."),
        "{text}"
    );
}

#[test]
fn a_job_beyond_its_bound_is_said_with_what_took_the_time() {
    let mut run = executed();
    let mut analysis = crate::exec::whole();
    if let Some(tasks) = &mut run.tasks {
        let bounded = analysis.tasks[0].clone();
        analysis.tasks = vec![bounded; tasks.set.tasks.len()];
        analysis.chains.truncate(1);
        tasks.analysis = Some(analysis);
    }
    let text = flat(&summary(&run, 80));
    assert!(
        text.contains("Bounds jobs took longer than any can by the analysis"),
        "{text}"
    );
    assert!(
        text.contains(
            "round: 1.2 ms where the analysis allows 300 µs (thread control, SCHED_FIFO 80: 700 µs)"
        ),
        "{text}"
    );
    assert!(text.contains("9 tasks more"), "{text}");
}

#[test]
fn a_job_of_a_longer_phase_counts_in_full_against_its_bound() {
    let mut run = executed();
    let mut analysis = crate::exec::whole();
    let tasks = run.tasks.as_mut().unwrap();
    let mut bounded = analysis.tasks[0].clone();
    let Response::Bounded { response_ns, .. } = &mut bounded.response else {
        panic!("{bounded:?}");
    };
    *response_ns = 9_000_000;
    analysis.tasks = vec![bounded; tasks.set.tasks.len()];
    analysis.chains.truncate(1);
    tasks.analysis = Some(analysis);
    assert!(tasks.beyond_bounds().is_empty());
    // Less what its phase allows more, it is within the bound.
    tasks.tasks[1].longest_ns = 18_000_000;
    assert_eq!(tasks.beyond_bounds(), [1]);
    let beyond = punctual_report::exec::beyond(tasks);
    // The bill of the record is that of another job.
    assert_eq!(beyond, ["round: 18 ms where the analysis allows 9 ms"]);
}

#[test]
fn what_the_holder_of_a_lock_did_is_said() {
    let lock = |lock: &str, meanwhile| Cause::Lock {
        lock: lock.to_owned(),
        holder: Some("low".to_owned()),
        meanwhile,
    };
    let behind = Meanwhile::Preempted {
        task: "middle".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 60,
    };
    let blocked = Meanwhile::Blocked {
        lock: "n".to_owned(),
        holder: Some("deep".to_owned()),
    };
    let slept = Meanwhile::Slept {
        state: "asleep".to_owned(),
    };
    let earlier = Meanwhile::Slept {
        state: "earlier".to_owned(),
    };
    for (did, words) in [
        (None, "lock m held by low"),
        (Some(Meanwhile::Ran), "lock m held by low: it ran"),
        (Some(behind), "lock m held by low: preempted by middle"),
        (
            Some(blocked),
            "lock m held by low: it waited for lock n held by deep",
        ),
        (Some(slept), "lock m held by low: it slept (asleep)"),
        (
            Some(earlier),
            "lock m held by low: it slept (since earlier, for what is not known)",
        ),
    ] {
        assert_eq!(name(&lock("m", did.clone())), words);
        let inversion = Cause::Inversion {
            lock: "m".to_owned(),
            holder: "low".to_owned(),
            meanwhile: did,
        };
        let words = words.replace("by low", "by low of lower priority");
        assert_eq!(name(&inversion), words);
    }
    // In the table there is less room; an address of a lock says nothing.
    let mut run = executed();
    if let Some(bills) = &mut run.tasks.as_mut().unwrap().tasks[1].bills {
        bills.worst[0].rows[0].cause = lock("0x7f001000", Some(Meanwhile::Ran));
    }
    let wide = summary(&run, 120);
    let row = wide.lines().find(|line| line.contains(" round "));
    assert!(row.unwrap().ends_with(" a lock held by low"), "{wide}");
}

#[test]
fn the_job_and_all_cpus_are_drawn_in_characters_and_on_the_page() {
    let run = executed();
    let style = Style {
        verbose: true,
        ..Style::plain()
    };
    let text = terminal::summary(&run, &style);
    let line = |name: &str| {
        let begin = format!("    {name:>10} ");
        let found = text.lines().find(|line| line.starts_with(&begin));
        found.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    let count = |line: &str, letter: char| line.chars().filter(|it| *it == letter).count();
    // Of 65 columns for 1.35 ms.
    let job = line("round");
    assert!((11..=13).contains(&count(&job, '█')), "{job}");
    assert!((6..=8).contains(&count(&job, '▚')), "{job}");
    assert!((34..=39).contains(&count(&job, '░')), "{job}");
    let cpu = line("CPU 0");
    let letters = ['a', 'b', 'c', 'H'].map(|letter| count(&cpu, letter));
    assert!((35..=40).contains(&letters[0]), "{cpu}");
    assert!((11..=13).contains(&letters[1]), "{cpu}");
    assert!((6..=8).contains(&letters[2]), "{cpu}");
    assert!((4..=6).contains(&letters[3]), "{cpu}");
    let cpu = line("CPU 1");
    assert!(count(&cpu, '+') > 20 && count(&cpu, '~') >= 1, "{cpu}");
    for words in ["a control", "c logger", "D deadline", "H hypervisor"] {
        assert!(flat(&text).contains(words), "{words}: {text}");
    }
    let ascii = Style {
        unicode: false,
        ..style
    };
    let text = terminal::summary(&run, &ascii);
    assert!(text.contains("x blocked on a lock"), "{text}");
    let page = html::page(&run);
    for words in [
        "The longest job of round",
        "lock log held by logger: 140",
        "id=\"job-1-wide-hatch\"",
        "url(#job-1-narrow-hatch)",
        "Response times against deadlines",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_json_has_quantiles_and_names_and_nothing_large() {
    let text = summary_json::summary(&executed());
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(!value["tasks"].to_string().contains("encoded"), "{text}");
    let task = &value["tasks"]["tasks"][1];
    assert_eq!(task["name"], "round");
    assert_eq!(task["jobs"]["latency"]["max_ns"], 1_200_000);
    assert!(task["jobs"]["latency"]["p50_ns"].as_u64().unwrap() >= 300_000);
    assert!(task["timeline"].get("rows").is_none());
    let bill = &task["bills"]["worst"][0];
    assert!(bill["rows"].as_array().is_some() && bill.get("picture").is_none());
    assert_eq!(value["tasks"]["chains"][0]["name"], "sensor to actuator");
    assert_eq!(value["verdict"]["tasks"][1]["name"], "round");
}

#[test]
fn the_page_shows_the_set_and_hostile_names_stay_text() {
    let mut run = executed();
    if let Some(tasks) = &mut run.tasks {
        tasks.set.tasks[1].name = "<script>alert(1)</script>\u{1b}[2J".to_owned();
        tasks.set.chains[0].name = "<img src=x>".to_owned();
    }
    let page = html::page(&run);
    for words in [
        "<h2 id=\"tasks\">",
        "Who took the time of the longest jobs",
        "control",
        "Response times of the jobs",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for words in ["<script>alert", "<img src=x", "\u{1b}"] {
        assert!(!page.contains(words), "{words}");
    }
    let text = summary(&run, 80);
    assert!(!text.contains('\u{1b}'), "{text}");
}

fn live(name: &str, deadline_ns: u64, worst_ns: u64, late: u64) -> LiveTask {
    LiveTask {
        name: name.to_owned(),
        policy: TaskPolicy::Fifo { priority: 50 },
        cpus: vec![1],
        deadline_ns,
        jobs: 1000,
        current_ns: Some(40_000),
        best_ns: Some(30_000),
        p999_ns: None,
        worst_ns: Some(worst_ns),
        bound_ns: None,
        wake_up_ns: Some(9_000),
        late,
        skipped: 0,
        taken_by: None,
    }
}

#[test]
fn rows_of_a_running_set_are_sorted_as_a_key_asks() {
    let view = LiveTasks {
        name: "robot".to_owned(),
        elapsed_ns: 5_000_000_000,
        total_ns: Some(10_000_000_000),
        tasks: vec![
            live("a", 1_000_000, 400_000, 0),
            live("b", 9_000_000, 7_000_000, 3),
            live("c", 500_000, 490_000, 7),
        ],
        notes: Vec::new(),
    };
    let order = |key: u8| -> String {
        let order = TaskOrder::of_key(key).unwrap();
        let lines = tasks_lines(&view, order, true, &Style::plain());
        assert!(lines[0].contains("exec robot"), "{lines:?}");
        assert!(lines.last().unwrap().contains("sort by"), "{lines:?}");
        lines[2..5]
            .iter()
            .map(|line| line.trim_start().chars().next().unwrap())
            .collect()
    };
    assert_eq!(
        (order(b'n'), order(b's')),
        ("abc".to_owned(), "cab".to_owned())
    );
    assert_eq!(
        (order(b'w'), order(b'l')),
        ("bca".to_owned(), "cba".to_owned())
    );
    assert_eq!(TaskOrder::of_key(b'x'), None);
    let small = Style {
        height: 6,
        ..Style::plain()
    };
    let lines = tasks_lines(&view, TaskOrder::Set, false, &small);
    assert!(
        lines.iter().any(|line| line.contains("and 1 more task")),
        "{lines:?}"
    );
    assert_eq!(
        tasks_plain_line(&view),
        "0:05  3,000 jobs, 10 late, nearest to its deadline: c with 490 µs of 500 µs"
    );
}
