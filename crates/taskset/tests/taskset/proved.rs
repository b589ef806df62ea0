//! What a bound that is too long proves.

use punctual_record::taskset::analysis::{
    AnalysisOutcome, ChainLatency, NoBound, Response, SetOverheads,
};

use crate::analysis::{analysed, on_one_cpu, run, task, with};

/// What is reserved, kept for ordinary tasks or done at other offsets need not come: too long a bound with that shows
/// nothing; what jobs execute does.
#[test]
fn a_bound_with_what_need_not_come_proves_no_miss() {
    let reserved = |name: &str, cpu: &str, rest: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\n{cpu}period = \"20ms\"\nruntime = \"7ms\"\n\
             dl-deadline = \"10ms\"\ndl-period = \"20ms\"\ndeadline = \"10ms\"\n{rest}\n"
        )
    };
    let three = |cpu: &str, rest: &str| -> String {
        ["x", "y", "z"]
            .map(|name| reserved(name, cpu, rest))
            .concat()
    };
    let outcome = |text: &str| analysed(text).outcome;
    assert_eq!(
        outcome(&three("", "work = \"2ms\"")),
        AnalysisOutcome::Unbounded
    );
    assert_eq!(
        outcome(&three("", "work = \"7ms\"")),
        AnalysisOutcome::NotMet
    );
    assert_eq!(
        outcome(&three("cpu = 0\n", "work = \"6ms\"")),
        AnalysisOutcome::NotMet
    );
    let command = "work = [{ command = [\"gzip\"] }]";
    assert_eq!(
        outcome(&three("cpu = 0\n", command)),
        AnalysisOutcome::Unbounded
    );
    // Above a task of fixed priority.
    let beside = reserved("cmd", "cpu = 0\n", command) + &task("b", 50, 4_000, &run(1_500));
    let analysis = analysed(&beside);
    assert_eq!(analysis.outcome, AnalysisOutcome::Unbounded);
    assert!(
        analysis.tasks.iter().all(|task| task.meets().is_none()),
        "{analysis:?}"
    );
    // More instants than are looked at: 60,000 jobs of one of them.
    let offset = |period_ms: u64| {
        task("loop", 80, 1_000, &run(400))
            + &task(
                "house",
                70,
                period_ms * 1_000,
                &format!("{}\noffset = \"500us\"\ndeadline = \"500us\"", run(450)),
            )
    };
    assert_eq!(outcome(&offset(3_000)), AnalysisOutcome::Met);
    assert_eq!(outcome(&offset(60_000)), AnalysisOutcome::Unbounded);
}

/// A relative timer begins when the job has ended: such a task takes what the others leave.
#[test]
fn tasks_with_relative_timers_overload_no_cpu() {
    let drifts = |name: &str, priority: u8| {
        let work = run(10_000);
        let rest = format!("{work}\ntimer = \"relative\"\ndeadline = \"1s\"");
        task(name, priority, 5_000, &rest)
    };
    let analysis = analysed(&(drifts("a", 20) + &drifts("b", 20)));
    assert_eq!(analysis.outcome, AnalysisOutcome::Unbounded);
    assert_eq!(analysis.loads[0].tasks_ppm, 2 * 666_666);
    let high = task("h", 30, 4_000, &run(2_000));
    let low = task("l", 10, 10_000, &run(1_000));
    let analysis = analysed(&(high + &drifts("a", 20) + &low));
    assert_eq!(analysis.outcome, AnalysisOutcome::Unbounded);
    // One that it releases comes as its jobs do.
    let after = "[[task]]\nname = \"c\"\npriority = 5\ncpu = 1\nafter = \"a\"\nwork = \"3ms\"\n";
    let analysis = analysed(&(drifts("a", 20) + after));
    assert_eq!(analysis.loads[1].tasks_ppm, 200_000);
}

#[test]
fn chains_have_bounds_where_arrivals_are_periodic() {
    let limited = |timer: &str, limits: &str| {
        task("a", 30, 1_000, &format!("{}\n{timer}", run(100)))
            + &task("b", 20, 1_000, &run(100))
            + &format!("[[chain]]\nname = \"c\"\ntasks = [\"a\", \"b\"]\n{limits}\n")
    };
    let two = |timer: &str| limited(timer, "reaction = \"2200us\"");
    let analysis = analysed(&two(""));
    // 1000 + 100 and 1000 + 200; the writer is above the reader, which never finds it half done.
    let expected = ChainLatency::Bounded {
        reaction_ns: 2_300_000,
        age_ns: 1_200_000,
    };
    assert_eq!(analysis.chains[0].latency, expected);
    // It takes 1.2 ms and 0.2 ms: that both come one after the other in each period no bound of a chain counts.
    for (limits, outcome) in [
        (
            "reaction = \"2300us\"\nage = \"1200us\"",
            AnalysisOutcome::Met,
        ),
        ("reaction = \"2299us\"", AnalysisOutcome::Unbounded),
        ("reaction = \"1200us\"", AnalysisOutcome::Unbounded),
        ("reaction = \"1199us\"", AnalysisOutcome::NotMet),
        ("age = \"200us\"", AnalysisOutcome::Unbounded),
        ("age = \"199us\"", AnalysisOutcome::NotMet),
    ] {
        assert_eq!(analysed(&limited("", limits)).outcome, outcome, "{limits}");
    }
    let relative = analysed(&two("timer = \"relative\""));
    assert_eq!(
        relative.chains[0].latency,
        ChainLatency::NotPeriodic { task: 0 }
    );
    assert_eq!(relative.outcome, AnalysisOutcome::Unbounded);
}

/// Job 0 of the reader ends at 15 ms, after the deadline of its second job, 11 ms: that one is skipped, and the third
/// reads at 20 ms and ends at 35 ms.
#[test]
fn a_chain_whose_jobs_may_be_skipped_has_no_bound() {
    let set = |deadline: &str| {
        task(
            "hog",
            90,
            20_000,
            &format!("{}\noffset = \"500us\"", run(13_000)),
        ) + &task(
            "reader",
            50,
            10_000,
            &format!("{}\ndeadline = \"{deadline}\"", run(2_000)),
        ) + "[[task]]\nname = \"out\"\npriority = 80\ncpu = 1\nperiod = \"1ms\"\nwork = \"100us\"\n\
               [[chain]]\nname = \"c\"\ntasks = [\"reader\", \"out\"]\nreaction = \"30ms\"\n"
    };
    let latency = |deadline: &str| analysed(&set(deadline)).chains[0].latency;
    assert_eq!(latency("1ms"), ChainLatency::Skips { task: 1 });
    assert!(matches!(latency("10ms"), ChainLatency::Bounded { .. }));
}

/// The job of `h` at 10 ms is always skipped: `l` ends after 15 ms.
#[test]
fn jobs_that_are_skipped_prove_no_miss_of_others() {
    let limited = |deadline: &str, us| format!("{}\ndeadline = \"{deadline}\"", run(us));
    let set = task("hog", 90, 20_000, &run(12_000))
        + &task("h", 50, 10_000, &limited("1ms", 2_000))
        + &task("l", 40, 20_000, &limited("16ms", 1_000));
    let analysis = analysed(&set);
    let met: Vec<_> = analysis.tasks.iter().map(|task| task.meets()).collect();
    assert_eq!(met, [Some(true), Some(false), None]);
}

/// The kernel gives `one` 30 % of the CPU, whatever its jobs need: `fixed` has what it needs.
#[test]
fn a_reservation_takes_no_more_than_its_share() {
    let set = "[[task]]\nname = \"one\"\npolicy = \"deadline\"\ncpu = 0\nruntime = \"3ms\"\n\
               dl-deadline = \"10ms\"\ndl-period = \"10ms\"\nperiod = \"10ms\"\nwork = \"9ms\"\n"
        .to_owned()
        + &task("fixed", 50, 1_000_000, &run(400_000));
    let analysis = analysed(&set);
    assert_ne!(analysis.tasks[1].meets(), Some(false), "{analysis:?}");
    assert_eq!(analysis.loads[0].tasks_ppm, 700_000);
}

/// 22 ms are all that the chain has.
#[test]
fn the_margin_is_that_of_chains_too() {
    let of = |name: &str, cpu: u32| {
        format!(
            "[[task]]\nname = \"{name}\"\npriority = 50\ncpu = {cpu}\nperiod = \"10ms\"\nwork = \"1ms\"\n"
        )
    };
    let chain = "[[chain]]\nname = \"c\"\ntasks = [\"a\", \"b\"]\nreaction = \"22ms\"\n";
    let analysis = analysed(&(of("a", 0) + &of("b", 1) + chain));
    assert_eq!(analysis.outcome, AnalysisOutcome::Met);
    assert_eq!(analysis.largest_factor_ppm, Some(1_000_000));
    let spare = analysis.tasks.iter().map(|it| it.may_take_longer_ns);
    assert_eq!(spare.collect::<Vec<_>>(), [Some(0), Some(0)]);
}

/// As `high` sleeps, `mid` is in the lock again: `high` may wait in each of its four sections, each time for three ways
/// of 1 us, and that delays `low`.
#[test]
fn each_section_after_a_sleep_may_wait() {
    let overheads = SetOverheads {
        wake_and_sleep_ns: 1_000,
        ..SetOverheads::default()
    };
    let held = |us: u32| format!("{{ lock = \"m\", work = \"{us}us\" }}");
    let bound = |others: &str| {
        let sleep = "{ sleep = \"1ms\" }";
        let high = [
            held(100),
            others.to_owned(),
            others.to_owned(),
            others.to_owned(),
        ];
        let work = |all: &[String], between: &str| format!("work = [{}]", all.join(between));
        let set = "[[lock]]\nname = \"m\"\nprotocol = \"inherit\"\n".to_owned()
            + &task("high", 90, 20_000, &work(&high, &format!(", {sleep}, ")))
            + &task("mid", 50, 20_000, &work(&[held(900)], ", "))
            + &task("low", 40, 20_000, &run(1_000));
        match with(&set, overheads).tasks[2].response {
            Response::Bounded { response_ns, .. } => response_ns,
            ref other => panic!("{other:?}\n{set}"),
        }
    };
    let (all, one) = (bound(&held(100)), bound("{ run = \"100us\" }"));
    assert_eq!(all - one, 3 * 3 * 1_000);
}

/// `low` has a timer: what releases another task that delays it is not what it lacks.
#[test]
fn who_lacks_a_bound_is_named_and_not_what_releases_that_one() {
    let set = task("b1", 90, 10_000, &run(6_000))
        + &task(
            "b2",
            80,
            4_000,
            &format!("{}\ntimer = \"relative\"", run(3_000)),
        )
        + "[[task]]\nname = \"follow\"\npriority = 95\ncpu = 1\nafter = \"b2\"\nwork = \"100us\"\n\
           [[task]]\nname = \"low\"\npriority = 50\ncpu = 1\nperiod = \"10ms\"\nwork = \"1ms\"\n";
    let analysis = analysed(&set);
    let why = |task: usize| match analysis.tasks[task].response {
        Response::Unbounded { why } => why,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(why(2), NoBound::After { task: 1 });
    assert_eq!(why(3), NoBound::Interferer { task: 2 });
}

/// Each sleep within a job ends by an interrupt of its own, which delays every task of the CPU.
#[test]
fn the_interrupts_that_end_sleeps_are_charged() {
    let overheads = SetOverheads {
        release_interrupt_ns: 14_000,
        wake_and_sleep_ns: 8_000,
        ..SetOverheads::default()
    };
    let bound = |text: &str, task: usize| match with(text, overheads).tasks[task].response {
        Response::Bounded { response_ns, .. } => response_ns / 1_000,
        ref other => panic!("{other:?}\n{text}"),
    };
    let steps = "{ run = \"200us\" }, { sleep = \"100us\" }, ".repeat(8);
    let work = format!("work = [{steps}]");
    let alone = task("sleeps", 50, 10_000, &work);
    // It executes 1,600 and 9 paths, sleeps 800, and is interrupted 1 + 8 times.
    assert_eq!(bound(&alone, 0), 1_600 + 9 * 8 + 800 + 9 * 14);
    let below = alone.clone() + &task("below", 10, 10_000, &run(100));
    assert_eq!(bound(&below, 1), 1_600 + 9 * 8 + 8 * 14 + 108 + 2 * 14);
    let above = alone + &task("above", 80, 10_000, &run(100));
    assert_eq!(bound(&above, 1), 108 + 2 * 14 + 8 * 14);
    // When an ordinary one sleeps isn't known: three jobs of it may do so.
    let ordinary = format!(
        "[[task]]\nname = \"log\"\ncpu = 0\nperiod = \"10ms\"\n{work}\n{}",
        task("above", 80, 10_000, &run(100))
    );
    assert_eq!(bound(&ordinary, 1), 108 + 2 * 14 + 3 * 8 * 14);
}

/// Which interrupts come within a job nobody knows: a deadline is missed for certain where it is without them.
#[test]
fn what_is_late_without_interrupts_is_late() {
    let overheads = SetOverheads {
        release_interrupt_ns: 14_000,
        ..SetOverheads::default()
    };
    let outcome = |deadline_us: u64| {
        let own = format!("work = [{{ run = \"500us\" }}]\ndeadline = \"{deadline_us}us\"");
        let text = format!(
            "[[task]]\nname = \"log\"\ncpu = 0\nperiod = \"10ms\"\nwork = [{{ sleep = \"1ms\" }}]\n{}",
            task("control", 80, 10_000, &own)
        );
        with(&text, overheads).outcome
    };
    // Its execution, one interrupt for each task, and up to three that end sleeps.
    assert_eq!(outcome(570), AnalysisOutcome::Met);
    assert_eq!(outcome(569), AnalysisOutcome::Unbounded);
    assert_eq!(outcome(500), AnalysisOutcome::Unbounded);
    assert_eq!(outcome(499), AnalysisOutcome::NotMet);
}

/// All arrivals are at whole milliseconds: a job that comes up to 0.5 ms late ends before the next of the others.
#[test]
fn releases_that_come_late_need_not_come_together() {
    let three = |offset: &str| {
        let own = "jitter = \"500us\"\ndeadline = \"1ms\"\n".to_owned() + &run(300);
        let above = offset.to_owned() + &run(300);
        let text = task("own", 10, 101_000, &own)
            + &task("first", 30, 103_000, &above)
            + &task("second", 20, 107_000, &above);
        analysed(&text).outcome
    };
    assert_eq!(three(""), AnalysisOutcome::Unbounded);
    // Now they do.
    assert_eq!(three("offset = \"500us\"\n"), AnalysisOutcome::NotMet);
}

/// The job of a reservation may end at any time before the reservation's deadline.
#[test]
fn a_reservations_bound_proves_a_miss_only_of_what_is_executed() {
    let one = |cpu: &str, work: &str, more: &str| {
        let text = format!(
            "[[task]]\nname = \"ctl\"\n{cpu}runtime = \"7ms\"\ndl-deadline = \"10ms\"\n\
             dl-period = \"10ms\"\nperiod = \"10ms\"\ndeadline = \"5ms\"\nwork = \"{work}\"\n{more}"
        );
        analysed(&text).outcome
    };
    for cpu in ["cpu = 0\n", ""] {
        assert_eq!(one(cpu, "1ms", ""), AnalysisOutcome::Unbounded);
        assert_eq!(
            one(cpu, "1ms", "jitter = \"100us\"\n"),
            AnalysisOutcome::Unbounded
        );
        assert_eq!(one(cpu, "6ms", ""), AnalysisOutcome::NotMet);
    }
    // Its jobs may come together: the whole runtime is counted, of which they need a part.
    let below = "[[task]]\nname = \"d\"\ncpu = 0\nruntime = \"5ms\"\ndl-deadline = \"10ms\"\n\
                 dl-period = \"10ms\"\nperiod = \"10ms\"\ndeadline = \"20ms\"\njitter = \"100us\"\n\
                 work = \"1ms\"\n"
        .to_owned()
        + &task("f", 50, 10_000, "deadline = \"7ms\"\nwork = \"3ms\"");
    assert_eq!(analysed(&below).outcome, AnalysisOutcome::Unbounded);
}

/// On one CPU a task has no other, whether that is written or not.
#[test]
fn a_machine_with_one_cpu_has_it_for_each_task() {
    let set = |cpu: &str| {
        let a = format!(
            "[[task]]\nname = \"a\"\npriority = 80\n{cpu}period = \"3ms\"\nwork = \"1ms\"\n"
        );
        let b = format!(
            "[[task]]\nname = \"b\"\npriority = 70\n{cpu}period = \"12ms\"\ndeadline = \"4700us\"\n\
             work = [{{ run = \"500us\" }}, {{ sleep = \"2ms\" }}, {{ run = \"500us\" }}]\n"
        );
        on_one_cpu(&(a + &b))
    };
    let [bound, free] = ["cpu = 0\n", ""].map(set);
    assert_eq!(bound.outcome, AnalysisOutcome::Unbounded);
    assert_eq!((free.outcome, &free.loads), (bound.outcome, &bound.loads));
    assert!(free.tasks[0].cpus.is_empty());
}
