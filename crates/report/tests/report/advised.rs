//! The first advice for causes that a rule once mistook for others.

use punctual_record::Run;
use punctual_record::explanation::{Cause, Culprit, Ranked, RowNote, Stage};
use punctual_report::explain::{fix, section};
use punctual_report::style::Style;

use super::bills::bill_of;
use super::fixtures;

/// A run of probes with priority 30 on CPUs 2 and 3 of four that had these causes there.
fn run_that_met(causes: &[Cause]) -> Run {
    let mut run = fixtures::good();
    run.request.cpus = vec![2, 3];
    run.request.priority = 30;
    run.system.processor.online = vec![0, 1, 2, 3];
    run.system.processor.isolated.clear();
    run.system.processor.nohz_full.clear();
    let rows = causes.iter().map(|it| (Stage::Switch, it.clone(), 5_000));
    let rows: Vec<_> = rows.collect();
    let explanation = run.explanation.get_or_insert_default();
    explanation.bills = vec![bill_of(2, 1, &rows)];
    explanation.ranking = causes
        .iter()
        .map(|cause| Ranked {
            cause: cause.general(),
            total_ns: 5_000,
            tail_ns: 5_000,
            worst_ns: 5_000,
            count: 1,
        })
        .collect();
    run
}

fn advice(causes: &[Cause]) -> String {
    fix(&causes[0], &run_that_met(causes)).expect("an advice")
}

fn thread(task: &str, policy: &str) -> Cause {
    Cause::Thread {
        task: task.to_owned(),
        policy: policy.to_owned(),
        priority: 50,
    }
}

fn interrupt(irq: u32, name: &str) -> Cause {
    Cause::Interrupt {
        irq,
        name: name.to_owned(),
    }
}

fn call(function: &str) -> Cause {
    Cause::Call {
        function: function.to_owned(),
    }
}

#[test]
fn a_worker_of_one_cpu_is_not_moved_with_the_unbound_ones() {
    let mask = "workqueue/cpumask";
    let of = |task: &str, work: Option<&str>| Cause::PreemptOff {
        task: task.to_owned(),
        work: work.map(str::to_owned),
    };
    for (task, work) in [("kworker/2:1", None), ("kworker/2:1-events", Some("a_fn"))] {
        assert!(!advice(&[of(task, work)]).contains(mask), "{task}");
    }
    let text = advice(&[of("kworker/2:1", Some("vmstat_update"))]);
    assert!(
        text.contains("`sudo punctual tune apply vm.stat_interval=120`"),
        "{text}"
    );
    assert!(advice(&[of("kworker/u8:1", None)]).contains(mask));
    // Rankings name them all by one name: the rows know which they were.
    let run = run_that_met(&[of("kworker/2:1", None), of("kworker/3:0", None)]);
    let text = fix(&of("kworker", None), &run).expect("an advice");
    assert!(!text.contains(mask), "{text}");
}

#[test]
fn disks_whose_queues_the_kernel_places_are_not_moved() {
    for name in [
        "megasas0-msix3",
        "mpt3sas0-msix12",
        "virtio3-req.1",
        "nvme0q2",
    ] {
        let text = advice(&[interrupt(77, name)]);
        assert!(!text.contains("smp_affinity_list"), "{name}: {text}");
    }
    let of_xen = advice(&[interrupt(9, "resched2")]);
    assert!(of_xen.contains("of that CPU alone"), "{of_xen}");
    assert!(advice(&[interrupt(36, "eth0")]).contains("/proc/irq/36/smp_affinity_list=0-1"));
}

#[test]
fn an_interrupts_thread_goes_where_its_interrupt_is_delivered() {
    let task = "irq/36-eth0".to_owned();
    for cause in [
        Cause::PreemptOff {
            task: task.clone(),
            work: None,
        },
        Cause::LateInterrupt { task: task.clone() },
        thread(&task, "SCHED_FIFO"),
    ] {
        let text = advice(&[cause]);
        assert!(
            text.contains("/proc/irq/36/smp_affinity_list=0-1"),
            "{text}"
        );
        assert!(!text.contains("affinity@"), "{text}");
    }
}

#[test]
fn softirqs_move_the_interrupts_that_may_raise_them() {
    let card = interrupt(24, "eth0");
    let block = advice(&[Cause::Softirq { number: 4 }, card.clone()]);
    assert!(!block.contains("/proc/irq/24"), "{block}");
    let served = |number: Option<u32>| {
        let mut run = run_that_met(&[thread("ksoftirqd/2", "SCHED_OTHER"), card.clone()]);
        let bills = &mut run.explanation.as_mut().expect("it").bills;
        let note = number.map(|number| RowNote::InSoftirq { number });
        bills[0].rows[0].notes = note.into_iter().collect();
        fix(&thread("ksoftirqd/2", "SCHED_OTHER"), &run).expect("an advice")
    };
    assert!(served(Some(3)).contains("/proc/irq/24"));
    assert!(!served(Some(4)).contains("/proc/irq/24"));
    assert!(!served(None).contains("/proc/irq/24"));
}

#[test]
fn only_expedited_grace_periods_are_made_ordinary_ones() {
    let knob = "/sys/kernel/rcu_normal=1";
    assert!(advice(&[call("rcu_exp_handler")]).contains(knob));
    let barrier = advice(&[call("rcu_barrier_handler")]);
    assert!(!barrier.contains(knob), "{barrier}");
    // On every CPU: isolation keeps it off none.
    let all = advice(&[call("do_flush_tlb_all")]);
    assert!(!all.contains("isolcpus"), "{all}");
    assert!(advice(&[call("flush_tlb_func")]).contains("isolcpus"));
}

#[test]
fn the_thread_of_the_governor_is_no_reservation_of_a_user() {
    let text = advice(&[thread("sugov:2", "SCHED_DEADLINE")]);
    assert!(
        text.contains("`sudo punctual tune apply governor`"),
        "{text}"
    );
    let user = advice(&[thread("camera", "SCHED_DEADLINE")]);
    assert!(user.contains("give it less runtime"), "{user}");
}

#[test]
fn limits_of_real_time_threads_are_not_lifted_for_a_reservation() {
    let cause = Cause::Throttled {
        task: "cc1".to_owned(),
    };
    let mut run = run_that_met(std::slice::from_ref(&cause));
    run.watch = None;
    run.request.policy = "deadline".to_owned();
    let text = fix(&cause, &run).expect("an advice");
    assert!(text.contains("reservation was used up"), "{text}");
    assert!(!text.contains('`'), "{text}");
}

/// What undoes advice names what it changes: a machine may have been tuned before.
#[test]
fn what_undoes_advice_undoes_nothing_else() {
    let cause = thread("hog", "SCHED_FIFO");
    let mut run = run_that_met(std::slice::from_ref(&cause));
    let by = Culprit {
        ns: 5_000,
        tid: 71,
        pid: Some(71),
        start: Some(99),
        command: Some("./hog".to_owned()),
        policy: "SCHED_FIFO".to_owned(),
        ..Culprit::default()
    };
    let bills = &mut run.explanation.as_mut().expect("it").bills;
    bills[0].rows[0].by = vec![by];
    let text = section(&run, &Style::plain(), None).join(" ");
    let words: Vec<&str> = text.split_whitespace().filter(|it| *it != "\\").collect();
    let text = words.join(" ");
    let whole = "undo: `sudo punctual tune restore affinity@71:99 scheduling@71:99`";
    assert!(text.contains(whole), "{text}");
}
