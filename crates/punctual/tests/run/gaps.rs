//! `measure noise` and `measure hardware`: complete runs. The lengths of gaps here
//! are not checked; sums are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::alone::alone;
use crate::common::{Place, cpus, in_force, need, needs, read_json};
use punctual_record::{Cause, Gaps, Run, Subject};
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::task;
use punctual_rt::{affinity, clock};

fn last_cpu() -> usize {
    *cpus().last().expect("a CPU")
}

/// Properties of every run of gaps; returns its gaps.
fn sound(run: &Run) -> &Gaps {
    let gaps = run.gaps.as_ref().expect("gaps");
    assert_eq!(gaps.threads.len(), run.threads.len());
    for (watched, thread) in gaps.threads.iter().zip(&run.threads) {
        assert_eq!(
            watched.polled_ns + watched.gap_ns + watched.unwatched_ns,
            watched.span_ns
        );
        assert_eq!(thread.measured_ns, watched.span_ns);
        assert!(watched.polls > 0, "{watched:?}");
        assert_eq!((thread.missed, thread.early), (0, 0));
        if thread.lost == 0 {
            let latency = punctual_stats::Histogram::try_from(&thread.latency).expect("sound");
            assert_eq!(
                latency.sum() + u128::from(watched.set_aside_ns),
                u128::from(watched.gap_ns),
                "{watched:?}"
            );
        }
        if thread.latency.count > 0 {
            assert!(thread.latency.min_ns > gaps.above_ns);
        }
    }
    gaps
}

#[test]
fn share_watched_gaps_and_the_rest_add_up_at_any_duty() {
    let _alone = alone();
    for (flags, most) in [
        (&["--policy", "other"][..], 1.0),
        (&["--policy", "other", "--runtime", "20ms"], 0.35),
        // It is awake for 1 ms before.
        (&["--runtime", "1ms", "--period", "5ms"], 0.55),
    ] {
        let place = Place::new();
        let cpu = last_cpu().to_string();
        let fixed = [
            "measure",
            "noise",
            "-q",
            "-D",
            "1",
            "--best-effort",
            "-a",
            &cpu,
        ];
        place.run(&[&fixed[..], flags].concat()).expect(0);
        let run = place.run_of();
        let gaps = sound(&run);
        assert_eq!(gaps.subject, Subject::Noise);
        assert!(!gaps.sifted);
        let (span_ns, watched_ns) = gaps.spans_ns();
        assert!(span_ns >= 900_000_000, "{span_ns}");
        let share = watched_ns as f64 / span_ns as f64;
        assert!(share > 0.0 && share <= most, "{flags:?}: {share}");
    }
}

#[test]
fn a_thread_in_the_way_is_listed_by_name_as_often_as_it_ran() {
    let _alone = alone();
    need!(needs::rights());
    need!(needs::tracing());
    let cpu = last_cpu();
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let hog = std::thread::spawn(move || {
        let _ = task::name_current_thread("gap-hog");
        affinity::set_current(&[cpu]).expect("its CPU");
        sched::set_current(Policy::Fifo(99)).expect("a priority above the probe's");
        let mut stints = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            let from_ns = clock::now_ns();
            while clock::now_ns() < from_ns + 400_000 {
                std::hint::spin_loop();
            }
            stints.push((from_ns, clock::now_ns()));
            std::thread::sleep(Duration::from_millis(12));
        }
        stints
    });
    let place = Place::new();
    let cpu = cpu.to_string();
    let flags = [
        "--best-effort",
        "-a",
        &cpu,
        "--gap",
        "100",
        "--runtime",
        "100000",
    ];
    place.run(&[&["measure", "noise", "-q", "-D", "2"], &flags[..]].concat());
    over.store(true, Ordering::Relaxed);
    let stints = hog.join().expect("the hog");
    let run = place.run_of();
    let gaps = sound(&run);
    let (Some(start_ns), Some(explanation)) = (run.start_ns, &run.explanation) else {
        panic!("nothing was traced: {:?}", run.events);
    };
    let mut demands = run.demands.iter();
    let lacks = demands.find(|it| it.name() == "priority" && it.fix.is_some());
    assert!(lacks.is_none(), "{lacks:?}");
    // Watched without a pause, from the first reading on.
    let thread = &gaps.threads[0];
    let end_ns = start_ns + thread.span_ns;
    let first_ns = start_ns + thread.unwatched_ns;
    let inside = |stint: &&(u64, u64)| stint.0 > first_ns && stint.1 < end_ns;
    let came = stints.iter().filter(inside).count() as u64;
    assert!(came > 20, "{came}");
    let ranking = &explanation.ranking;
    // Both leave no CPU time: the kernel may throttle them for some 50 ms, a single
    // gap that hides the delays within it.
    let throttled = ranking
        .iter()
        .filter(|ranked| matches!(ranked.cause, Cause::Throttled { .. }))
        .map(|ranked| ranked.count)
        .sum::<u64>();
    let apart = came.saturating_sub(4 * throttled);
    assert!(
        run.threads[0].latency.count >= apart,
        "{came}, {ranking:#?}"
    );
    let named = ranking
        .iter()
        .find(|ranked| matches!(&ranked.cause, Cause::Thread { task, .. } if task == "gap-hog"));
    let Some(named) = named else {
        panic!("{ranking:#?}");
    };
    assert!(
        named.count + explanation.lost >= apart,
        "{came}, {ranking:#?}"
    );
    assert!(named.worst_ns >= 300_000, "{named:?}");
}

#[test]
fn gaps_of_the_kernel_do_not_count_as_the_hardwares() {
    let _alone = alone();
    need!(needs::tracing());
    let place = Place::new();
    let cpu = last_cpu().to_string();
    place.run(&[
        "measure", "hardware", "-q", "-D", "2", "-a", &cpu, "--gap", "2",
    ]);
    let run = place.run_of();
    let gaps = sound(&run);
    assert_eq!((gaps.subject, gaps.above_ns), (Subject::Hardware, 2_000));
    let explanation = run.explanation.as_ref();
    let explanation = explanation.unwrap_or_else(|| panic!("nothing was traced: {:?}", run.events));
    assert!(gaps.sifted);
    // The tick alone runs a hundred times a second.
    assert!(gaps.threads[0].set_aside > 50, "{gaps:?}");
    for ranked in &explanation.ranking {
        let platform = matches!(
            ranked.cause,
            Cause::Platform | Cause::Steal | Cause::Smi | Cause::Blind
        );
        assert!(platform, "{ranked:?}");
    }
}

#[test]
fn a_limit_gives_a_verdict_and_a_run_without_a_gap_passes() {
    let _alone = alone();
    let cpu = last_cpu().to_string();
    let flags = ["-D", "1", "--best-effort", "--policy", "other", "-a", &cpu];
    let place = Place::new();
    let verb = [
        "measure", "noise", "-o", "calm", "--gap", "900ms", "--max", "950ms",
    ];
    let ended = place.run(&[&verb[..], &flags].concat()).expect(0);
    assert!(ended.stdout.contains("PASS: no gap in"), "{}", ended.stdout);
    let run = place.run_of_path("calm");
    assert_eq!(run.threads[0].latency.count, 0);
    sound(&run);
    let verb = [
        "measure", "noise", "-o", "short", "--max", "1us", "--gap", "1us",
    ];
    let ended = place.run(&[&verb[..], &flags].concat()).expect(2);
    assert!(ended.stdout.contains("none may be"), "{}", ended.stdout);
    for words in ["latency", "wake-up", "missed"] {
        let rest = ended.stdout.replace("cpu_dma_latency", "");
        assert!(!rest.contains(words), "{words}: {}", ended.stdout);
    }
    // Our reader reads it, and exports it.
    for arguments in [
        &["report", "short"][..],
        &["compare", "short", "calm"],
        &["export", "short", "--format", "openmetrics"],
        &["export", "short", "--format", "junit"],
        &["merge", "short", "calm", "-o", "sum", "-q", "--force"],
        &["explain", "short"],
    ] {
        let ended = place.run(arguments);
        assert!(
            ended
                .status
                .code()
                .is_some_and(|code| code != 1 && code != 64),
            "{}",
            ended.stderr
        );
    }
    let sum = place.run_of_path("sum");
    let spans = sound(&sum).spans_ns().0;
    let parts = ["short", "calm"].map(|name| sound(&place.run_of_path(name)).spans_ns().0);
    assert_eq!(spans, parts[0] + parts[1]);
}

#[test]
fn ctrl_c_and_the_break_value_end_a_run_and_everything_is_kept() {
    let _alone = alone();
    let cpu = last_cpu().to_string();
    let place = Place::new();
    let mut running = place.start(&["measure", "noise", "-q", "-a", &cpu, "-o", "run"]);
    running.await_probes(1);
    std::thread::sleep(Duration::from_millis(700));
    running.signal(libc::SIGINT);
    running.end();
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["state"]["reason"], "interrupt");
    sound(&place.run_of_path("run"));
    // The rest takes a priority.
    need!(needs::rights());
    assert!(in_force(&record, "priority"), "{}", record["demands"]);
    let flags = [
        "-D", "60", "-b", "3us", "--gap", "1us", "-o", "broke", "-a", &cpu,
    ];
    let ended = place.run(&[&["measure", "noise", "-q"], &flags[..]].concat());
    assert!(
        ended.stderr.contains("a gap above 3 µs ended the run"),
        "{}",
        ended.stderr
    );
    let run = place.run_of_path("broke");
    assert!(sound(&run).threads[0].span_ns < 60_000_000_000);
    assert!(run.threads[0].latency.max_ns > 3_000);
}

#[test]
fn flags_without_a_meaning_for_gaps_are_refused_in_one_line() {
    let _alone = alone();
    let place = Place::new();
    for (flags, words) in [
        (&["noise", "-i", "100"][..], "-i has no meaning"),
        (
            &["noise", "--interval", "primes"],
            "--interval has no meaning",
        ),
        (&["noise", "-l", "5"], "-l has no meaning"),
        (&["noise", "--miss", "0.1"], "--miss has no meaning"),
        (
            &["hardware", "--percentile", "99=5us"],
            "--percentile has no meaning",
        ),
        (&["hardware", "-b", "5"], "-b has no meaning"),
        (
            &["noise", "--runtime", "2ms", "--period", "1ms"],
            "longer than the period",
        ),
        (&["noise", "--gap", "1ns"], "the loop's own step"),
        (
            &["noise", "--gap", "50", "--max", "20"],
            "is below the threshold of a gap",
        ),
        (&["noise", "-t", "4096"], "two threads"),
        (&["nanosleep", "--gap", "5"], "--gap: only measure noise"),
        (&["futex", "--period", "5"], "--period: only measure noise"),
        (
            &["noise", "--method", "polling"],
            "--method: only measure hardware",
        ),
        (
            &["futex", "--method", "hwlat"],
            "--method: only measure hardware has it, not futex",
        ),
        (&["hardware", "--method", "rtla"], "hwlat, polling"),
        (&["nois"], "noise, hardware"),
    ] {
        let ended = place.run(&[&["measure"], flags].concat()).expect(64);
        assert!(ended.stderr.contains(words), "{flags:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    assert!(place.entries().is_empty(), "{:?}", place.entries());
}
