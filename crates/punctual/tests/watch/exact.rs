//! The required counts of a watch of programs with known behaviour, wherever they run: on this
//! machine, and in the laboratory on its kernels.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_record::watch::{
    BudgetWindow, OffCpuPlace, OffCpuWhy, Subject, WatchedThread, WorstWakeUp,
};
use punctual_record::{Run, State};
use punctual_rt::affinity;
use punctual_rt::sched::{Policy, set_current};
use punctual_rt::sys::task;
use punctual_stats::histogram::Histogram;

use super::common::needs::Absent;
use super::common::{Place, until};
use super::known::{Known, watch, watched as program};

fn is_preempt_rt() -> bool {
    fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1")
}

/// A thread with a name, as in any run, and as in a watch.
pub fn thread<'r>(run: &'r Run, name: &str) -> (&'r punctual_record::Thread, &'r WatchedThread) {
    let threads = &run.watch.as_ref().expect("a watch").threads;
    let at = threads.iter().position(|thread| thread.task.name == name);
    let at = at.unwrap_or_else(|| panic!("no {name} among {threads:?}"));
    (&run.threads[at], &threads[at])
}

/// Checks a count that is exact except for wake-ups that the kernel did not show: some kernels show
/// none while a hypervisor's agent runs.
#[track_caller]
pub fn counted_but_for_unseen(found: u64, expected: u64, thread: &WatchedThread) {
    let least = expected.saturating_sub(thread.unseen);
    assert!(
        (least..=expected).contains(&found),
        "{found} of {expected}, {} unseen",
        thread.unseen
    );
}

/// How often a thread slept in a call.
pub fn times(thread: &WatchedThread, call: &str) -> u64 {
    let found = thread.calls.iter().find(|known| known.name == call.into());
    found.map_or(0, |call| call.count)
}

/// Sleeps, faults, preemptions, reads and locks of the program, compared with its output and
/// with /proc.
///
/// Returns how often it slept in `read`.
pub fn its_actions_are_counted(flags: &[&str]) -> u64 {
    let place = Place::new();
    let mut known = Known::start(
        program(),
        &[
            "cycles", "500", "stalls", "10", "pages", "500", "reads", "20", "locks", "7",
        ],
    );
    let number = known.pid.to_string();
    // Instants for which the loop, being over, does not come within the deadline would count as unseen.
    let words = [&number, "--deadline", "30s", "--miss", "0.5", "-q"];
    let running = watch(&place, &[&words, flags].concat());
    let before = (
        known.proc("voluntary_ctxt_switches"),
        known.proc("nonvoluntary_ctxt_switches"),
    );
    let did = known.go();
    // It has finished, and sleeps for good: no more events follow.
    let pause = || {
        let path = format!("/proc/{}/task/{}/syscall", known.pid, known.tid);
        fs::read_to_string(path)
            .is_ok_and(|text| text.starts_with(&format!("{} ", libc::SYS_pause)))
    };
    until("its pause", pause);
    let after = (
        known.proc("voluntary_ctxt_switches"),
        known.proc("nonvoluntary_ctxt_switches"),
    );
    running.signal(libc::SIGINT);
    let ended = running.end();
    let run = place.run_of();
    assert_eq!(run.state, State::Finished, "that is how a watch ends");
    let (counted, watched) = thread(&run, "rt-loop");
    assert_eq!(counted.lost, 0);
    assert_eq!((&*watched.task.policy, watched.task.priority), ("fifo", 60));
    assert_eq!(watched.period_ns, Some(1_000_000));
    assert!(did["skipped"] >= 30);
    counted_but_for_unseen(counted.missed, did["skipped"], watched);
    let faults = counted.faults.expect("faults");
    // Between its own count and its last sleep it printed: that may fault too.
    assert!(
        (did["minor"]..did["minor"] + 16).contains(&faults.minor),
        "{faults:?} {did:?}"
    );
    assert_eq!(faults.major, did["major"]);
    assert_eq!(counted.preemptions, Some(after.1 - before.1));
    let nanosleeps = times(watched, "clock_nanosleep") + unslept(watched);
    counted_but_for_unseen(nanosleeps, 500, watched);
    // The call that it was in when the watch began is not counted. On PREEMPT_RT the writer
    // may still hold the pipe's lock, so it sleeps once more for that: also after that first call.
    let read = times(watched, "read");
    let most = if is_preempt_rt() { 41 } else { 20 };
    let least = 20_u64.saturating_sub(watched.unseen);
    assert!((least..=most).contains(&read), "{read}");
    counted_but_for_unseen(times(watched, "futex LOCK_PI"), 7, watched);
    // /proc counts sleeps when they begin; the last one continues.
    let sleeps: u64 = watched.calls.iter().map(|call| call.count).sum();
    // Every unseen sleep is counted as unseen.
    assert_eq!(sleeps + watched.unseen + 1, after.0 - before.0);
    let locks = watched
        .calls
        .iter()
        .find(|call| call.name == "futex LOCK_PI".into())
        .expect("locks");
    let holder = locks.other.as_ref().expect("a holder");
    assert_eq!(
        (&*holder.name, &*holder.policy, holder.priority),
        ("low-holder", "fifo", 10)
    );
    assert!(locks.held);
    assert_eq!(locks.inversions, locks.count);
    let reads = watched
        .calls
        .iter()
        .find(|call| call.name == "read".into())
        .expect("reads");
    assert_eq!(
        reads.other.as_ref().map(|other| &*other.policy),
        Some("other")
    );
    // Each wake-up is a sample of one kind or the other.
    assert_eq!(
        counted.latency.count,
        watched.by_timer.count + watched.by_others.count
    );
    assert!(ended.status.success() || run.verdict.is_some());
    read
}

/// Waits whose timer expired before the thread had gone to sleep.
fn unslept(thread: &WatchedThread) -> u64 {
    let slept: u64 = thread.calls.iter().map(|call| call.by_timer).sum();
    thread.by_timer.count.saturating_sub(slept)
}

/// Stalls of a program that catches up.
pub fn late_waits_and_skipped_instants_are_counted() {
    let place = Place::new();
    let mut known = Known::start(
        program(),
        &["cycles", "500", "stalls", "5", "catch-up", "1"],
    );
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q", "--no-explain"]);
    let did = known.go();
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let (counted, watched) = thread(&run, "rt-loop");
    assert_eq!(counted.lost, 0);
    assert!(did["late"] >= 15, "{did:?}");
    // An instant may pass between its reading of the clock and the arming of the timer; a wait that
    // began late because of the host is not the program's fault.
    assert!(
        (5..did["late"] + 5).contains(&watched.overruns),
        "{} of {did:?}",
        watched.overruns
    );
    assert!(watched.worst_overrun_ns >= 1_000_000);
    // A stall of 3.5 periods: it comes late for three instants, and skips none.
    assert!(counted.missed <= watched.unseen, "{}", counted.missed);
    let by_timer = Histogram::try_from(&watched.by_timer).expect("sound");
    let late = by_timer.count_above(400_000);
    assert!(late + watched.unseen >= 15, "{late}");
    counted_but_for_unseen(watched.by_timer.count + counted.missed, 500, watched);
}

/// A watch of a program with a thread under SCHED_DEADLINE, and the program's output; or why such a
/// thread is not possible here.
fn of_deadline_jobs(what: &[&str]) -> Result<(Run, BTreeMap<String, u64>), Absent> {
    let place = Place::new();
    let mut known = Known::start(program(), what);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q", "--no-explain"]);
    let did = known.go();
    running.signal(libc::SIGINT);
    running.end();
    match did.get("refused") {
        Some(error) => {
            let error = std::io::Error::from_raw_os_error(*error as i32);
            Err(Absent::refused("SCHED_DEADLINE", error))
        }
        None => Ok((place.run_of(), did)),
    }
}

/// Jobs of a deadline thread, some of them too long; or why such a thread is not possible here.
pub fn late_jobs_are_counted() -> Result<(), Absent> {
    let (run, did) = of_deadline_jobs(&["cycles", "100", "jobs", "25"])?;
    let (_, watched) = thread(&run, "dl-loop");
    assert_eq!(watched.task.policy, "deadline");
    let jobs = watched.jobs.expect("jobs");
    // The first yield also ends one, before its jobs begin. A job whose end the kernel did not show is
    // in neither count.
    let seen = jobs.count..=jobs.count + watched.unseen;
    assert!(
        (25..=27).any(|done| seen.contains(&done)),
        "{jobs:?} {} {did:?}",
        watched.unseen
    );
    let least = 5_u64.saturating_sub(watched.unseen.max(1));
    assert!(
        jobs.late >= least && jobs.late <= did["late-jobs"] + 2,
        "{jobs:?} {did:?}"
    );
    assert!(jobs.worst_ns >= 1_500_000, "{jobs:?}");
    // 12 ms of work do not fit into a runtime of 5.
    assert!(jobs.postponed >= least, "{jobs:?}");
    Ok(())
}

/// The budget that jobs use; or why such a thread is not possible here.
pub fn the_budget_that_jobs_use_is_counted() -> Result<(), Absent> {
    const JOBS: u64 = 25;
    const LONG: u64 = JOBS / 5;
    let (run, did) = of_deadline_jobs(&["cycles", "100", "budget", "25"])?;
    let (counted, watched) = thread(&run, "dl-budget");
    assert_eq!(counted.lost, 0);
    let jobs = watched.jobs.expect("jobs");
    let [budget] = &watched.budgets[..] else {
        panic!("{:?}", watched.budgets);
    };
    let lengths = (budget.runtime_ns, budget.deadline_ns, budget.period_ns);
    assert_eq!(lengths, (5_000_000, 10_000_000, 20_000_000));
    // The first yield may also end one, before its jobs begin.
    assert!((JOBS..=JOBS + 1).contains(&budget.used.count) || watched.unseen > 0);
    let used = Histogram::try_from(&budget.used).expect("sound");
    let total_ns: u64 = budget.windows.iter().map(|it| it.used_ns).sum();
    // At most the thread's CPU time, and at least its work: exactly, unless the kernel
    // subtracts less from the budget while the processor is slow.
    assert!(total_ns <= did["budget-cpu"], "{total_ns} {did:?}");
    let scaled = fs::read_to_string("/proc/cpuinfo").is_ok_and(|it| it.contains("aperfmperf"));
    let worked_ns = did["budget-worked"] >> u32::from(scaled);
    let hidden_ns = watched.unseen * 12_000_000;
    assert!(
        total_ns + hidden_ns >= worked_ns,
        "{total_ns} {did:?} {budget:?} {watched:?}"
    );
    if watched.unseen == 0 && !scaled {
        assert_eq!(budget.over, LONG, "{budget:?}");
        assert!(used.max() >= Some(12_000_000) && used.quantile(0.5) < Some(5_000_000));
        // 12 ms do not fit into 5: each of these jobs is throttled at least once.
        assert!(budget.throttled >= LONG, "{budget:?}");
        assert!(jobs.throttled_ns >= jobs.worst_throttled_ns && jobs.worst_throttled_ns > 0);
    }
    assert!(jobs.throttled >= budget.throttled, "{jobs:?}");
    let in_windows = |of: fn(&BudgetWindow) -> u64| budget.windows.iter().map(of).sum::<u64>();
    assert_eq!(in_windows(|it| it.jobs), budget.used.count);
    assert_eq!(in_windows(|it| it.over), budget.over);
    assert_eq!(in_windows(|it| it.throttled), budget.throttled);
    Ok(())
}

/// Where a thread sleeps, by its stacks.
pub fn off_cpu_times_are_counted_by_stack() {
    const CYCLES: u64 = 300;
    let place = Place::new();
    let mut known = Known::start(program(), &["cycles", "300", "threads", "3"]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q", "--no-explain", "--off-cpu"]);
    known.go();
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let watch = run.watch.as_ref().expect("a watch");
    let off_cpu = watch.off_cpu.as_ref().expect("places");
    assert_eq!((off_cpu.no_room.count, off_cpu.beyond.count), (0, 0));
    let threads = &watch.threads;
    let name = |place: &OffCpuPlace| &*threads[place.thread as usize].task.name;
    let holds = |stack: &[String], part: &str| stack.iter().any(|it| it.contains(part));
    let in_cycle = |place: &&OffCpuPlace| {
        name(place) == "rt-loop"
            && place.why == OffCpuWhy::Asleep
            && holds(&place.kernel, "nanosleep")
            && holds(&place.user, "wait_for_cycle")
    };
    let count: u64 = off_cpu
        .places
        .iter()
        .filter(in_cycle)
        .map(|it| it.count)
        .sum();
    let (_, watched) = thread(&run, "rt-loop");
    // A sleep whose stack's slot was taken by another stack is listed elsewhere.
    let hidden = off_cpu.stackless + unslept(watched) + watched.unseen;
    assert!(
        (CYCLES - hidden..=CYCLES).contains(&count),
        "{count} {off_cpu:?}"
    );
    // All time off the CPU was a sleep, a preemption, or a stop.
    for (index, thread) in threads.iter().enumerate() {
        let own = |it: &&OffCpuPlace| it.thread as usize == index;
        let slept =
            |it: &&OffCpuPlace| matches!(it.why, OffCpuWhy::Asleep | OffCpuWhy::Uninterruptible);
        let own = off_cpu.places.iter().filter(own);
        let (count, total_ns) = own.clone().filter(slept).fold((0, 0), |(count, ns), it| {
            (count + it.count, ns + it.total_ns)
        });
        let calls = thread.calls.iter();
        let sums = calls.fold((0, 0), |(n, ns), it| (n + it.count, ns + it.total_ns));
        // The calls omit sleeps without a recorded waking.
        assert!(
            count >= sums.0 && count <= sums.0 + thread.unseen,
            "{thread:?} {off_cpu:?}"
        );
        assert!(total_ns >= sums.1, "{thread:?} {off_cpu:?}");
        for place in own {
            assert!(place.longest_ns <= place.total_ns && place.count > 0);
            assert!(!holds(&place.kernel, "bpf_") && !holds(&place.kernel, "schedule"));
        }
    }
    // Threads that have ended are not forgotten: ten sleeps each.
    let brief = off_cpu.places.iter().filter(|it| name(it) == "rt-brief");
    let slept: u64 = brief.map(|it| it.count).sum();
    let unseen: u64 = threads.iter().map(|it| it.unseen).sum();
    assert!((30 - unseen..=40).contains(&slept), "{slept} {off_cpu:?}");
}

/// How long a thread that a timer wakes, and one that is always ready, wait for a CPU that another
/// thread has for 40 ms at a time.
pub fn run_queue_latencies_are_counted(cpu: usize, of_system: bool) {
    const TURNS: u64 = 8;
    const HELD: Duration = Duration::from_millis(40);
    let place = Place::new();
    let own = std::process::id().to_string();
    let subject = if of_system { "--system" } else { &own };
    let running = watch(&place, &[subject, "-q", "--run-queue"]);
    let be = |priority: u32| {
        // The priority first: on that CPU it might wait for a thread that spins.
        set_current(Policy::Fifo(priority)).expect("root may");
        affinity::set_current(&[cpu]).expect("a CPU of ours");
    };
    let over = AtomicBool::new(false);
    // On one CPU the thread that spins would keep another from getting its priority.
    let ready = Barrier::new(3);
    let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
    std::thread::scope(|scope| {
        let sleeps = || {
            be(20);
            ready.wait();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let spins = || {
            ready.wait();
            be(10);
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        named("queue-sleeps")
            .spawn_scoped(scope, sleeps)
            .expect("a thread");
        named("queue-spins")
            .spawn_scoped(scope, spins)
            .expect("a thread");
        let hogs = || {
            be(97);
            ready.wait();
            for _ in 0..TURNS {
                let begin = Instant::now();
                while begin.elapsed() < HELD {}
                std::thread::sleep(Duration::from_millis(50));
            }
            over.store(true, Ordering::Relaxed);
        };
        named("queue-hogs")
            .spawn_scoped(scope, hogs)
            .expect("a thread");
    });
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let watch = run.watch.as_ref().expect("a watch");
    let queue = watch.run_queue.as_ref().expect("run queues");
    assert_eq!(queue.lost, 0);
    let of = |name: &str| {
        let found = queue.threads.iter().find(|it| it.task.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {queue:?}"))
    };
    // It waits for each turn of the hog from start to end; the kernel may not show some.
    let held_ns = HELD.as_nanos() as u64;
    let least_ns = (TURNS - 1) * held_ns;
    let spins = of("queue-spins");
    assert_eq!(spins.task.priority, 10);
    assert!(spins.preempted.lengths.count >= TURNS - 1, "{spins:?}");
    // It may have been moved to that CPU during a turn, and was woken into the rest of it.
    let waited_ns = spins.preempted.total_ns + spins.woken.total_ns;
    assert!(waited_ns >= least_ns, "{spins:?}");
    assert!(spins.preempted.lengths.max_ns >= held_ns, "{spins:?}");
    // It never sleeps, except at its start.
    assert!(spins.woken.lengths.count <= 4, "{spins:?}");
    // Its timer expires within some 2 ms of the start of the hog's turn.
    let sleeps = of("queue-sleeps");
    assert!(
        sleeps.woken.lengths.max_ns >= held_ns - 10_000_000,
        "{sleeps:?}"
    );
    assert!(sleeps.woken.total_ns >= least_ns / 2, "{sleeps:?}");
    let hogs = of("queue-hogs");
    assert!(hogs.woken.lengths.count >= TURNS - 1, "{hogs:?}");
    for times in [&spins.preempted, &sleeps.woken, &hogs.woken] {
        let lengths = Histogram::try_from(&times.lengths).expect("sound");
        // A bucket is at most a sixteenth too long; the sum is exact.
        let sum_ns = lengths.mean().expect("some") * lengths.count() as f64;
        let total_ns = times.total_ns as f64;
        assert!(
            sum_ns >= total_ns * 0.999 && sum_ns <= total_ns * 1.07,
            "{times:?}"
        );
    }
    // For a whole system every thread, including ordinary ones.
    let ordinary = queue.threads.iter().any(|it| it.task.policy == "other");
    assert_eq!(ordinary, of_system, "{queue:?}");
}

/// A thread that wakes up each ms, and one above it that keeps the CPU for 40 ms at a time.
pub fn the_thread_in_the_way_is_named(cpu: usize) {
    let place = Place::new();
    let running = watch(&place, &["--system", "-q"]);
    let be = |priority: u32| {
        // The priority first: on that CPU it might wait for a thread that spins.
        set_current(Policy::Fifo(priority)).expect("root may");
        affinity::set_current(&[cpu]).expect("a CPU of ours");
        task::current_tid().unsigned_abs()
    };
    let over = AtomicBool::new(false);
    let (victim, hog) = std::thread::scope(|scope| {
        let victim = scope.spawn(|| {
            let tid = be(20);
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            tid
        });
        let hog = scope.spawn(|| {
            let tid = be(97);
            for _ in 0..8 {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(40) {}
                std::thread::sleep(Duration::from_millis(50));
            }
            over.store(true, Ordering::Relaxed);
            tid
        });
        (
            victim.join().expect("it ends"),
            hog.join().expect("it ends"),
        )
    });
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let watch = run.watch.as_ref().expect("a watch");
    assert_eq!(watch.subject, Subject::System);
    let of_hog = |task: &punctual_record::watch::WatchedTask| task.tid == hog;
    // A timer that expires just before the hog goes to sleep gives a short wake-up.
    let is_long = |worst: &&WorstWakeUp| worst.latency_ns > 10_000_000;
    let of_victim = |worst: &&WorstWakeUp| worst.task.tid == victim;
    let named: Vec<_> = watch
        .worst
        .iter()
        .filter(is_long)
        .filter(of_victim)
        .filter(|worst| worst.before.as_ref().is_some_and(of_hog))
        .collect();
    let by_timer = named.iter().filter(|worst| worst.by_timer).count();
    assert!(by_timer >= 3, "{:?}", watch.worst);
    // The stopper wakes the victim once, when it has moved it to that CPU.
    assert!(named.len() - by_timer <= 1, "{:?}", watch.worst);
    for worst in named {
        assert_eq!(worst.before.as_ref().map(|task| task.priority), Some(97));
    }
    let cost = watch.cost.expect("its cost");
    assert!(cost.calls > 0 && cost.spent_ns > 0 && cost.measured_ns > 0);
    for thread in &run.threads {
        let longest = thread.latency.max_ns;
        assert!(thread.peaks.iter().all(|peak| peak.latency_ns <= longest));
    }
}
