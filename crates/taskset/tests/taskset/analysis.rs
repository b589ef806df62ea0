//! Analyses of sets as they are written: bounds by hand, and why there is none.

use punctual_record::taskset::analysis::{
    Admission, AnalysisOutcome, BoundSource, NoBound, Response, ServerTime, SetAnalysis,
    SetOverheads, TickOverhead, UntimedStep,
};
use punctual_taskset::analyse::Limits;
use punctual_taskset::{Format, Machine, analyse, read};

fn machine(overheads: SetOverheads) -> Machine {
    Machine {
        limits: Limits::usual(2, false),
        overheads,
    }
}

pub fn with(text: &str, overheads: SetOverheads) -> SetAnalysis {
    let read = read(text, "file", Format::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    analyse(&read.set, &machine(overheads))
}

pub fn analysed(text: &str) -> SetAnalysis {
    with(text, SetOverheads::default())
}

pub fn on_one_cpu(text: &str) -> SetAnalysis {
    let read = read(text, "file", Format::Toml).expect("a set");
    let machine = Machine {
        limits: Limits::usual(1, false),
        overheads: SetOverheads::default(),
    };
    analyse(&read.set, &machine)
}

/// A task of CPU 0: name, priority, period in us, and more lines.
pub fn task(name: &str, priority: u8, period_us: u64, more: &str) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\npriority = {priority}\ncpu = 0\nperiod = \"{period_us}us\"\n{more}\n"
    )
}

pub fn run(us: u64) -> String {
    format!("work = \"{us}us\"")
}

/// Bounds in us, of the tasks that have one.
fn bounds(analysis: &SetAnalysis) -> Vec<Option<u64>> {
    let of = |response: &Response| match response {
        Response::Bounded { response_ns, .. } => Some(response_ns / 1_000),
        _ => None,
    };
    analysis
        .tasks
        .iter()
        .map(|task| of(&task.response))
        .collect()
}

fn why(analysis: &SetAnalysis, task: usize) -> NoBound {
    match analysis.tasks[task].response {
        Response::Unbounded { why } => why,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn priorities_jitter_and_late_jobs_are_bounded_as_by_hand() {
    // Lehoczky 1990: the worst job of the lower task is its fifth.
    let low = format!("{}\ndeadline = \"200us\"", run(62));
    let analysis = analysed(&(task("high", 20, 70, &run(26)) + &task("low", 10, 100, &low)));
    assert_eq!(bounds(&analysis), [Some(26), Some(118)]);
    let Response::Bounded { job, parts, .. } = &analysis.tasks[1].response else {
        panic!()
    };
    assert_eq!(*job, 4);
    // Five jobs of its own and 8 of the other: 518, of which 400 passed before it arrived.
    let expected = [
        (BoundSource::Itself, 310_000),
        (BoundSource::Task { task: 0 }, 208_000),
    ];
    let parts: Vec<(BoundSource, u64)> = parts.iter().map(|part| (part.source, part.ns)).collect();
    assert_eq!(parts, expected);
    assert_eq!(analysis.outcome, AnalysisOutcome::Met);
    let late = analysed(&(task("high", 20, 70, &run(26)) + &task("low", 10, 100, &run(62))));
    assert_eq!(late.outcome, AnalysisOutcome::NotMet);
    assert_eq!(late.tasks[1].meets(), Some(false));
    // A jitter of the task above brings two of its jobs.
    let jitter = format!("{}\njitter = \"40us\"\ndeadline = \"1ms\"", run(20));
    let low = format!("{}\ntimer = \"relative\"", run(50));
    let low = analysed(&(task("high", 20, 100, &jitter) + &task("low", 10, 1_000, &low)));
    assert_eq!(bounds(&low), [Some(60), Some(90)]);
    // One that arrives with it, at 0: the other one's next job is released at 100 at the earliest.
    let low = analysed(&(task("high", 20, 100, &jitter) + &task("low", 10, 1_000, &run(50))));
    assert_eq!(bounds(&low), [Some(60), Some(70)]);
}

#[test]
fn the_worst_phase_counts_and_the_shortest_period() {
    let phases = "[[task.phase]]\njobs = 9\nwork = \"10us\"\n[[task.phase]]\nperiod = \"500us\"\nwork = [{run=\"70us\"},{sleep=\"30us\"}]";
    let analysis = analysed(&(task("a", 20, 1_000, phases) + &task("b", 10, 1_000, &run(300))));
    assert_eq!(analysis.tasks[0].execution_ns, Some(70_000));
    assert_eq!(analysis.tasks[0].period_ns, 500_000);
    // The sleep counts as execution for the task itself; for the one below it is a jitter of 30.
    assert_eq!(bounds(&analysis), [Some(100), Some(370)]);
}

#[test]
fn a_task_that_every_fourth_job_releases_has_the_releases_response_as_jitter() {
    let after = "[[task]]\nname = \"b\"\npriority = 30\ncpu = 1\nafter = \"a\"\nevery = 4\nwork = \"50us\"\n";
    let analysis = analysed(&(task("a", 20, 1_000, &run(100)) + after));
    assert_eq!(bounds(&analysis), [Some(100), Some(150)]);
    assert_eq!(analysis.tasks[1].period_ns, 4_000_000);
    assert_eq!(
        analysis
            .loads
            .iter()
            .map(|load| load.tasks_ppm)
            .collect::<Vec<_>>(),
        [100_000, 12_500]
    );
}

#[test]
fn what_the_kernel_takes_is_charged_as_by_hand() {
    let overheads = SetOverheads {
        measured: None,
        release_interrupt_ns: 2_000,
        wake_and_sleep_ns: 5_000,
        tick: Some(TickOverhead {
            period_ns: 4_000_000,
            execution_ns: 1_000,
        }),
        ..SetOverheads::default()
    };
    let elsewhere = "[[task]]\nname = \"log\"\nperiod = \"1ms\"\nwork = []\n";
    let text = task("a", 20, 1_000, &run(100)) + &task("b", 10, 1_000, &run(200)) + elsewhere;
    // Each: its execution and 5, one tick, three interrupts of 2 (the logger may be here too).
    let analysis = with(&text, overheads);
    assert_eq!(
        bounds(&analysis),
        [Some(105 + 1 + 6), Some(205 + 105 + 1 + 6), None]
    );
    assert_eq!(analysis.tasks[2].response, Response::BestEffort);
    assert_eq!(analysis.loads[0].tasks_ppm, 300_000);
    assert_eq!(analysis.loads[0].all_ppm, 300_000 + 14_000 + 250);
}

#[test]
fn offsets_count_where_timers_keep_them() {
    let at = |timer: &str, more: &str| {
        let first = task("a", 30, 4_000, &run(2_000));
        let second = format!(
            "{}\noffset = \"2ms\"\n{timer}\ndeadline = \"1s\"{more}",
            run(2_000)
        );
        bounds(&analysed(&(first + &task("b", 20, 4_000, &second))))
    };
    for timer in [
        "",
        "timer = \"absolute\"",
        "timer = \"timerfd\"",
        "timer = \"signal\"",
    ] {
        assert_eq!(at(timer, ""), [Some(2_000), Some(2_000)], "{timer}");
    }
    assert_eq!(at("timer = \"relative\"", ""), [Some(2_000), Some(4_000)]);
    // Phases of other periods, and of the same one.
    let phases = |period: &str| {
        let phase = format!("[[task.phase]]\njobs = 2\n{period}\nwork = \"2ms\"\n");
        let second = format!("offset = \"2ms\"\ndeadline = \"1s\"\n{phase}{phase}");
        bounds(&analysed(
            &(task("a", 30, 4_000, &run(2_000)) + &task("b", 20, 4_000, &second)),
        ))[1]
    };
    assert_eq!(phases("period = \"5ms\""), Some(4_000));
    assert_eq!(phases("period = \"4ms\""), Some(2_000));
    assert_eq!(phases(""), Some(2_000));
    let analysis = analysed(
        &(task("a", 30, 4_000, &run(2_000))
            + &task(
                "b",
                20,
                8_000,
                &format!("{}\noffset = \"2ms\"\ndeadline = \"1s\"", run(3_000)),
            )),
    );
    // From 2 ms on: 2 of it, 2 of the other, 1 of it.
    let Response::Bounded {
        response_ns,
        arrival_in_window_ns,
        ..
    } = analysis.tasks[1].response
    else {
        panic!()
    };
    assert_eq!((response_ns, arrival_in_window_ns), (5_000_000, Some(0)));
    assert_eq!(analysis.tasks[0].meets(), Some(true));
}

#[test]
fn the_fair_server_is_counted_where_real_time_tasks_leave_it_too_little() {
    let server = ServerTime {
        runtime_ns: 50_000_000,
        period_ns: 1_000_000_000,
        overrun_ns: 4_000_000,
        assumed: false,
    };
    let overheads = SetOverheads {
        fair_server: Some(server),
        ..SetOverheads::default()
    };
    let case = |text: &str| {
        let analysis = with(text, overheads);
        let of_cpu = analysis
            .loads
            .first()
            .and_then(|load| load.ordinary.first());
        (
            bounds(&analysis),
            of_cpu.map(|one| (one.may_run, one.taken_ns)),
        )
    };
    let work = |us: u64| task("a", 30, 100_000, &format!("{}\ndeadline = \"1s\"", run(us)));
    let spared = case(&work(50_000));
    assert_eq!(
        spared,
        (vec![Some(50_000)], Some((false, Some(500_000_000))))
    );
    // 930 ms of a second would leave it 70; with jobs that may bunch, it may be short.
    let late = work(93_000).replace("work", "jitter = \"93ms\"\nwork");
    let (found, of_cpu) = case(&late);
    assert!(of_cpu.is_some_and(|of| of.0), "{of_cpu:?}");
    assert!(found[0] >= Some(93_000 + 93_000 + 2 * 54_000), "{found:?}");
    // One of unknown time.
    let untimed = work(50_000) + &task("b", 20, 100_000, "work = [{calls=1}]");
    let (found, of_cpu) = case(&untimed);
    assert_eq!(
        (found, of_cpu),
        (vec![Some(158_000), None], Some((true, None)))
    );
    // Beyond its deadline: what is missing is the other one's time.
    let short = untimed.replace("deadline = \"1s\"", "deadline = \"60ms\"");
    let found = with(&short, overheads);
    assert_eq!(why(&found, 0), NoBound::OrdinaryTasks { task: 1 });
    assert_eq!(found.outcome, AnalysisOutcome::Unbounded);
    // They leave it 80 ms of each second: that it runs nevertheless is only not excluded.
    let pair = task("a", 80, 100_000, &run(60_000)) + &task("b", 70, 100_000, &run(32_000));
    assert!(with(&pair, overheads).tasks[0].is_open());
    // Tasks that share CPUs are limited by their reservations.
    let small = reserved("d", [2_000, 8_000, 10_000, 1_000], "");
    assert_eq!(case(&small).0, [Some(8_000)]);
    let large = reserved("d", [9_500, 10_000, 10_000, 1_000], "");
    assert_eq!(why(&with(&large, overheads), 0), NoBound::FairServer);
}

#[test]
fn releases_that_may_find_no_place_leave_no_bound() {
    let released = |means: &str| {
        let sensor = task("sensor", 80, 1_000, &run(50)).replace("cpu = 0", "cpu = 1");
        let writer = format!(
            "[[task]]\nname = \"writer\"\npriority = 30\ncpu = 0\nafter = \"sensor\"\nby = \"{means}\"\n\
             deadline = \"50ms\"\n{}\n",
            run(50)
        );
        sensor + &writer + &task("planner", 60, 100_000, &run(30_000))
    };
    // While the planner runs, 30 releases come.
    let found = analysed(&released("pipe"));
    assert_eq!(why(&found, 1), NoBound::ReleasesSkipped { pending: 9 });
    assert_eq!(found.outcome, AnalysisOutcome::Unbounded);
    assert_eq!(found.tasks[2].may_take_longer_ns, None);
    let found = analysed(&released("futex"));
    assert_eq!(found.outcome, AnalysisOutcome::Met);
    assert!(bounds(&found)[1].is_some_and(|us| us > 30_000));
    // Where there is room, jobs may only take so much longer that there still is.
    let short = released("pipe").replace("30000us", "8000us");
    let found = analysed(&short);
    assert_eq!(found.outcome, AnalysisOutcome::Met);
    let longer_ns = found.tasks[2].may_take_longer_ns.unwrap();
    assert!(longer_ns < 1_000_000, "{longer_ns}");
}

const M: &str = "[[lock]]\nname = \"m\"\n";

#[test]
fn a_lock_delays_by_the_longest_section_below() {
    let holds = |us: u64| format!("work = [{{run=\"10us\"}},{{lock=\"m\",work=\"{us}us\"}}]");
    let three = task("a", 30, 1_000, &holds(5))
        + &task("b", 20, 1_000, &run(100))
        + &task("c", 10, 1_000, &holds(40));
    // a waits for c; b, which uses no lock, for c with a's priority.
    assert_eq!(
        bounds(&analysed(&(three.clone() + M))),
        [Some(55), Some(155), Some(165)]
    );
    let protect = "protocol = \"protect\"\nceiling = 30\n";
    assert_eq!(
        bounds(&analysed(&(three.clone() + M + protect))),
        [Some(55), Some(155), Some(165)]
    );
    let plain = analysed(&(three.clone() + M + "protocol = \"plain\"\n"));
    assert_eq!(why(&plain, 0), NoBound::PlainLock { lock: 0 });
    assert_eq!(bounds(&plain)[2], Some(165));
    // An ordinary task that holds it, on this CPU and on another one.
    let ordinary = three.replace("priority = 10\n", "");
    assert_eq!(
        bounds(&analysed(&(ordinary.clone() + M))),
        [Some(55), Some(155), None]
    );
    let moved = ordinary.replacen(
        "cpu = 0\nperiod = \"1000us\"\nwork = [{run=\"10us\"},{lock=\"m\",work=\"40us\"",
        "cpu = 1\nperiod = \"1000us\"\nwork = [{run=\"10us\"},{lock=\"m\",work=\"40us\"",
        1,
    );
    assert_ne!(moved, ordinary);
    assert_eq!(
        why(&analysed(&(moved + M)), 0),
        NoBound::LockAcrossCpus { lock: 0 }
    );
}

#[test]
fn sections_that_cannot_be_bounded_leave_those_that_wait_without_a_bound() {
    let user = task("a", 30, 1_000, "work = [{lock=\"m\",work=\"5us\"}]");
    let below = |work: &str| {
        analysed(&(user.clone() + &task("b", 20, 1_000, work) + M + "[[lock]]\nname = \"n\"\n"))
    };
    let sleeps = below("work = [{lock=\"m\",work=[{sleep=\"5us\"}]}]");
    assert_eq!(why(&sleeps, 0), NoBound::SleepsInLock { lock: 0, task: 1 });
    let nested = below("work = [{lock=\"n\",work=[{lock=\"m\",work=\"1us\"}]}]");
    assert_eq!(why(&nested, 0), NoBound::NestedLocks { lock: 1, task: 1 });
    let untimed = below("work = [{lock=\"m\",work=[{calls=1}]}]");
    assert_eq!(why(&untimed, 0), NoBound::LockUser { lock: 0, task: 1 });
    assert_eq!(
        why(&untimed, 1),
        NoBound::Untimed {
            step: UntimedStep::Calls
        }
    );
    // With a bound on the whole job, that is the section's.
    let known = below("wcet = \"40us\"\nwork = [{lock=\"m\",work=[{calls=1}]}]");
    assert_eq!(bounds(&known), [Some(45), Some(45)]);
    // Outside of the lock, it doesn't matter to those above.
    let outside = below("work = [{calls=1},{lock=\"m\",work=\"7us\"}]");
    assert_eq!(bounds(&outside), [Some(12), None]);
    // Nested ceilings are one section.
    let both = "[[lock]]\nname = \"m\"\nprotocol = \"protect\"\nceiling = 30\n[[lock]]\nname = \"n\"\nprotocol = \"protect\"\nceiling = 20\n";
    let work = "work = [{lock=\"n\",work=[{run=\"3us\"},{lock=\"m\",work=\"4us\"}]}]";
    let nested = analysed(&(user.clone() + &task("b", 20, 1_000, work) + both));
    assert_eq!(bounds(&nested), [Some(12), Some(12)]);
}

#[test]
fn a_lock_within_another_one_and_one_without_work_have_their_users() {
    let both = "[[lock]]\nname = \"a\"\nprotocol = \"protect\"\nceiling = 90\n[[lock]]\nname = \"b\"\nprotocol = \"protect\"\nceiling = 50\n";
    let nested = "work = [{lock=\"a\",work=[{lock=\"b\",work=\"50ms\"}]}]";
    let other = task("y", 50, 10_000, "work = [{lock=\"b\",work=\"100us\"}]");
    let text = task("x", 40, 100_000, nested) + &other.replace("cpu = 0", "cpu = 1") + both;
    let analysis = analysed(&text);
    assert_eq!(why(&analysis, 1), NoBound::LockAcrossCpus { lock: 1 });
    assert_eq!(why(&analysis, 0), NoBound::LockAcrossCpus { lock: 1 });
    // Who takes a lock and gives it back waits for it too.
    let taken = task("x", 30, 1_000, "work = [{lock=\"m\",work=[]}]");
    let holder = task("y", 20, 1_000, "work = [{lock=\"m\",work=\"40us\"}]");
    let text = taken + &holder + M;
    assert_eq!(bounds(&analysed(&text)), [Some(40), Some(40)]);
    let apart = text.replacen("cpu = 0", "cpu = 1", 1);
    assert_eq!(
        why(&analysed(&apart), 0),
        NoBound::LockAcrossCpus { lock: 0 }
    );
}

#[test]
fn a_task_of_unknown_time_takes_the_bound_of_those_below_but_not_of_those_above() {
    for (step, untimed) in [
        ("{calls=1}", UntimedStep::Calls),
        ("{memory=\"1KiB\"}", UntimedStep::Memory),
        ("{instructions=5}", UntimedStep::Instructions),
        ("{yield=true}", UntimedStep::Yield),
        ("{library=\"a.so\",function=\"f\"}", UntimedStep::Library),
        ("{command=[\"true\"]}", UntimedStep::Command),
    ] {
        let middle = task("middle", 20, 1_000, &format!("work = [{step}]"));
        let text = task("high", 30, 1_000, &run(10)) + &middle + &task("low", 10, 1_000, &run(10));
        let after =
            "[[task]]\nname = \"after\"\npriority = 40\ncpu = 1\nafter = \"middle\"\nwork = []\n";
        let analysis = analysed(&(text.clone() + after));
        assert_eq!(bounds(&analysis)[0], Some(10));
        assert_eq!(why(&analysis, 1), NoBound::Untimed { step: untimed });
        assert_eq!(why(&analysis, 2), NoBound::Interferer { task: 1 });
        assert_eq!(why(&analysis, 3), NoBound::After { task: 1 });
        assert_eq!(analysis.outcome, AnalysisOutcome::Unbounded);
        assert_eq!(
            (analysis.loads[0].unknown, analysis.largest_factor_ppm),
            (1, None)
        );
        let told =
            analysed(&text.replace("name = \"middle\"", "name = \"middle\"\nwcet = \"100us\""));
        assert_eq!(bounds(&told), [Some(10), Some(110), Some(120)]);
    }
}

#[test]
fn a_task_of_several_cpus_takes_the_bound_of_those_below_on_all() {
    let roams = task("roams", 20, 1_000, &run(10)).replace("cpu = 0", "cpus = \"0-1\"");
    let text = task("high", 30, 1_000, &run(10)) + &roams + &task("low", 10, 1_000, &run(10));
    let analysis = analysed(&text);
    assert_eq!(bounds(&analysis)[0], Some(10));
    assert_eq!(why(&analysis, 1), NoBound::SeveralCpus);
    assert_eq!(why(&analysis, 2), NoBound::Interferer { task: 1 });
    // Elsewhere it doesn't matter.
    let away = text.replace("0-1", "1-2");
    assert_eq!(bounds(&analysed(&away)), [Some(10), None, Some(20)]);
}

/// A reservation: name, runtime, deadline, period and work in us, and a CPU or none.
fn reserved(name: &str, times: [u64; 4], cpu: &str) -> String {
    let [runtime, deadline, period, work] = times;
    format!(
        "[[task]]\nname = \"{name}\"\nruntime = \"{runtime}us\"\ndeadline = \"{deadline}us\"\n{cpu}\n\
         period = \"{period}us\"\nwork = \"{work}us\"\n"
    )
}

#[test]
fn what_the_kernel_admits_is_no_guarantee() {
    // Each needs its whole deadline: two CPUs can't serve three of them. The kernel admits all 33.
    let many: String = (0..33)
        .map(|n| reserved(&format!("t{n}"), [5_000, 5_000, 100_000, 4_000], ""))
        .collect();
    let analysis = analysed(&many);
    assert!(
        analysis
            .tasks
            .iter()
            .all(|task| task.admission == Some(Admission::Admitted))
    );
    assert_eq!(analysis.outcome, AnalysisOutcome::NotMet);
    assert!(matches!(why(&analysis, 0), NoBound::Demand { .. }));
    // More than the kernel admits.
    let full: String = (0..3)
        .map(|n| reserved(&format!("t{n}"), [9_000, 10_000, 10_000, 100], ""))
        .collect();
    let answers: Vec<_> = analysed(&full)
        .tasks
        .iter()
        .map(|task| task.admission)
        .collect();
    assert_eq!(
        answers,
        [
            Some(Admission::Admitted),
            Some(Admission::Admitted),
            Some(Admission::Busy)
        ]
    );
    let short = analysed(&reserved("a", [50, 50, 50, 10], ""));
    assert_eq!(short.tasks[0].admission, Some(Admission::Invalid));
}

#[test]
fn reservations_on_all_cpus_are_bounded_by_their_deadlines() {
    let two = reserved("a", [2_000, 8_000, 10_000, 1_000], "")
        + &reserved("b", [5_000, 20_000, 20_000, 5_000], "");
    let analysis = analysed(&two);
    assert_eq!(bounds(&analysis), [Some(8_000), Some(20_000)]);
    assert_eq!(analysis.outcome, AnalysisOutcome::Met);
    // A job that is longer than its runtime, and one below all of them.
    let long = analysed(&two.replace("work = \"1000us\"", "work = \"2100us\""));
    assert_eq!(
        why(&long, 0),
        NoBound::Throttled {
            needed_ns: 2_100_000
        }
    );
    assert_eq!(why(&long, 1), NoBound::Interferer { task: 0 });
    let below = analysed(&(two.clone() + &task("low", 10, 1_000, &run(10))));
    assert_eq!(why(&below, 2), NoBound::Interferer { task: 0 });
    assert_eq!(below.outcome, AnalysisOutcome::Unbounded);
    // Charged with what the kernel takes: 5 us of it leave no room.
    let overheads = SetOverheads {
        wake_and_sleep_ns: 5_000,
        ..SetOverheads::default()
    };
    assert_eq!(
        why(&with(&two, overheads), 1),
        NoBound::Throttled {
            needed_ns: 5_005_000
        }
    );
}

#[test]
fn a_reservation_of_one_cpu_limits_what_an_untimed_task_takes() {
    let text = reserved("a", [100, 1_000, 1_000, 1], "cpu = 0")
        .replace("work = \"1us\"", "work = [{calls=1}]");
    let analysis = analysed(&(text + &task("low", 10, 10_000, &run(100))));
    assert_eq!(
        why(&analysis, 0),
        NoBound::Untimed {
            step: UntimedStep::Calls
        }
    );
    // As bunched as can be: two runtimes in the first millisecond.
    assert_eq!(bounds(&analysis)[1], Some(300));
}

#[test]
fn a_reservation_with_a_section_that_cannot_be_modelled_is_no_limit() {
    let lock = "[[lock]]\nname = \"m\"\n";
    let text = reserved("a", [100, 1_000, 1_000, 1], "cpu = 0").replace(
        "work = \"1us\"",
        "work = [{lock=\"m\",work=[{sleep=\"1us\"}]}]",
    );
    let analysis = analysed(&(text + &task("low", 10, 10_000, &run(100)) + lock));
    assert_eq!(
        why(&analysis, 0),
        NoBound::SleepsInLock { lock: 0, task: 0 }
    );
    assert_eq!(why(&analysis, 1), NoBound::Interferer { task: 0 });
}

#[test]
fn releases_of_unknown_lateness_matter_only_where_interrupts_are_counted() {
    let roams = "[[task]]\nname = \"log\"\nafter = \"a\"\nwork = []\n";
    let text = task("a", 20, 1_000, &run(100)) + roams;
    assert_eq!(bounds(&analysed(&text)), [Some(100), None]);
    let overheads = SetOverheads {
        release_interrupt_ns: 1_000,
        ..SetOverheads::default()
    };
    assert_eq!(
        why(&with(&text, overheads), 0),
        NoBound::Interferer { task: 1 }
    );
    // Bound to another CPU, it interrupts there; on this one it is counted with the jitter that it has.
    let bound = |cpu: u8| text.replace("name = \"log\"", &format!("name = \"log\"\ncpu = {cpu}"));
    assert_eq!(bounds(&with(&bound(1), overheads)), [Some(101), None]);
    assert_eq!(bounds(&with(&bound(0), overheads)), [Some(102), None]);
}

#[test]
fn an_overload_by_interrupts_is_named_and_not_what_follows_from_it() {
    let overheads = SetOverheads {
        release_interrupt_ns: 500_000,
        ..SetOverheads::default()
    };
    let after = "[[task]]\nname = \"b\"\npriority = 10\ncpu = 0\nafter = \"a\"\nwork = \"1us\"\n";
    let analysis = with(&(task("a", 20, 1_000, &run(100)) + after), overheads);
    assert_eq!(why(&analysis, 0), NoBound::Overload);
    assert_eq!(why(&analysis, 1), NoBound::After { task: 0 });
    assert_eq!(analysis.outcome, AnalysisOutcome::NotMet);
}

#[test]
fn the_margin_is_the_largest_that_still_meets_all_deadlines() {
    let analysis = analysed(&(task("a", 30, 1_000, &run(100)) + &task("b", 20, 1_000, &run(300))));
    assert_eq!(analysis.largest_factor_ppm, Some(2_500_000));
    let spare: Vec<_> = analysis
        .tasks
        .iter()
        .map(|task| task.may_take_longer_ns)
        .collect();
    assert_eq!(spare, [Some(600_000), Some(600_000)]);
    let nothing = analysed("[[task]]\nname = \"a\"\nperiod = \"1ms\"\nwork = []\n");
    assert_eq!(nothing.outcome, AnalysisOutcome::Unbounded);
    assert_eq!(nothing.largest_factor_ppm, None);
}

#[test]
fn a_bound_that_counts_what_need_not_come_together_proves_no_miss() {
    let phases = |first: &str| {
        format!(
            "[[task]]\nname = \"a\"\npriority = 20\ncpu = 0\nperiod = \"20ms\"\n\
             [[task.phase]]\njobs = 1\nperiod = \"20ms\"\nwork = \"{first}\"\n\
             [[task.phase]]\njobs = 10\nperiod = \"2ms\"\nwork = \"500us\"\n"
        )
    };
    // 5.5 ms of 40 ms, though 2.5 ms of work each 2 ms would be an overload.
    let analysis = analysed(&phases("2500us"));
    assert_eq!(why(&analysis, 0), NoBound::Overload);
    assert_eq!(analysis.tasks[0].meets(), None);
    assert_eq!(analysis.outcome, AnalysisOutcome::Unbounded);
    assert_eq!(analysis.loads[0].tasks_ppm, 187_500);
    // A bound beyond the deadline of a task below: no more is known of it.
    let below = task("b", 10, 4_000, &run(1_900));
    let analysis = analysed(&(phases("1500us") + &below));
    assert_eq!(analysis.outcome, AnalysisOutcome::Unbounded);
    assert!(analysis.tasks[1].is_open() && !analysis.tasks[0].is_open());
    // Sleeps count as execution: 1.2 ms of 2 ms.
    let sleeps = "work = [{ run = \"600us\" }, { sleep = \"1ms\" }, { run = \"600us\" }]";
    let analysis = analysed(&task("a", 20, 2_000, sleeps));
    assert_eq!(why(&analysis, 0), NoBound::Overload);
    assert_eq!(analysis.outcome, AnalysisOutcome::Unbounded);
    // Jobs that are all alike, and longer than their deadline.
    let two = task("a", 20, 4_000, &run(1_900)) + &task("b", 10, 4_000, &run(1_900));
    let analysis = analysed(&(two + "deadline = \"3ms\"\n"));
    assert_eq!(analysis.outcome, AnalysisOutcome::NotMet);
}
