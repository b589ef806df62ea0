//! Wake-ups between two CPUs, by interrupts, and of threads that are moved: who is named, and which are seen.

use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use punctual_record::watch::WorstWakeUp;
use punctual_rt::affinity;
use punctual_rt::sched::{Policy, set_current};
use punctual_rt::sys::task;

use super::common::{Place, until};
use super::exact::{counted_but_for_unseen, thread};
use super::known::watch;

/// A thread that waits for a CPU behind another one, and is moved to a CPU that is free: who had the
/// first one was in the way.
pub fn the_thread_in_the_way_on_a_cpu_that_was_left_is_named(cpu: usize, other: usize) {
    let place = Place::new();
    let running = watch(&place, &["--system", "-q"]);
    let be = |priority: u32, cpu: usize| {
        set_current(Policy::Fifo(priority)).expect("root may");
        affinity::set_current(&[cpu]).expect("a CPU of ours");
        task::current_tid().unsigned_abs()
    };
    let (told, tids) = std::sync::mpsc::channel();
    let (wake, woken) = std::sync::mpsc::channel();
    let over = AtomicBool::new(false);
    let (victim, hog) = std::thread::scope(|scope| {
        let tell = told.clone();
        scope.spawn(move || {
            tell.send(be(20, cpu)).expect("somebody waits");
            woken.recv().expect("it is woken");
        });
        let victim = tids.recv().expect("its number");
        let over = &over;
        scope.spawn(move || {
            told.send(be(97, cpu)).expect("somebody waits");
            let begin = Instant::now();
            while !over.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(10) {}
        });
        let hog = tids.recv().expect("it spins");
        let asleep = || {
            let path = format!("/proc/self/task/{victim}/stat");
            fs::read_to_string(path).is_ok_and(|text| text.contains(") S "))
        };
        until("its sleep", asleep);
        wake.send(()).expect("it sleeps");
        std::thread::sleep(Duration::from_millis(60));
        affinity::set(victim as i32, &[other]).expect("it may go there");
        (victim, hog)
    });
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let worst = &run.watch.as_ref().expect("a watch").worst;
    let long = |it: &&WorstWakeUp| it.task.tid == victim && it.latency_ns > 40_000_000;
    let found: Vec<_> = worst.iter().filter(long).collect();
    let [found] = &found[..] else {
        panic!("{worst:?}");
    };
    let before = found.before.as_ref().map(|it| it.tid);
    assert_eq!(before, Some(hog), "{found:?}");
}

/// A thread whose waits the timer wheel ends, in a softirq over a thread that has nothing to do with it.
pub fn whom_an_interrupt_interrupted_wakes_nobody(cpu: usize) {
    const WAITS: u64 = 40;
    let place = Place::new();
    let own = std::process::id().to_string();
    let running = watch(&place, &[&own, "-q", "--no-explain"]);
    let over = AtomicBool::new(false);
    let be_there = || affinity::set_current(&[cpu]).expect("a CPU of ours");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            be_there();
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let waits = || {
            be_there();
            set_current(Policy::Fifo(20)).expect("root may");
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let most = Some(Duration::from_millis(4));
            socket.set_read_timeout(most).expect("a time-out");
            for _ in 0..WAITS {
                socket.recv(&mut [0]).expect_err("nobody sends");
            }
            over.store(true, Ordering::Relaxed);
        };
        let named = std::thread::Builder::new().name("wheel-waits".to_owned());
        named.spawn_scoped(scope, waits).expect("a thread");
    });
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let (_, watched) = thread(&run, "wheel-waits");
    let calls = &watched.calls;
    let waits = calls.iter().find(|it| it.name == "recvfrom".into());
    let waits = waits.unwrap_or_else(|| panic!("{calls:?}"));
    counted_but_for_unseen(waits.count, WAITS, watched);
    // With PREEMPT_RT a thread of the kernel's serves the softirq, and is who wakes.
    if !fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1") {
        let other = waits.other.as_ref().map(|it| &it.name);
        assert_eq!((waits.inversions, other), (0, None));
    }
}

/// Threads that another CPU wakes while they go to sleep, at each point of that.
///
/// What a kernel does not show comes in bursts; wake-ups that cross the switch come in each thread's turn.
pub fn wake_ups_that_cross_the_switch_are_seen(cpus: [usize; 2]) {
    const THREADS: usize = 8;
    const TURNS: u64 = 5_000;
    let place = Place::new();
    let own = std::process::id().to_string();
    let running = watch(&place, &[&own, "-q", "--no-explain"]);
    let be = |cpu: usize| {
        affinity::set_current(&[cpu]).expect("a CPU of ours");
        set_current(Policy::Fifo(20)).expect("root may");
    };
    let is_woken = |name: String| {
        let turn = &AtomicU64::new(0);
        let sleeps = || {
            be(cpus[0]);
            let before = nvcsw();
            for next in 1..=TURNS {
                turn.store(next, Ordering::Release);
                std::thread::park();
            }
            nvcsw() - before
        };
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name(name);
            let sleeper = named.spawn_scoped(scope, sleeps).expect("a thread");
            let other = sleeper.thread().clone();
            scope.spawn(move || {
                be(cpus[1]);
                for next in 1..=TURNS {
                    while turn.load(Ordering::Acquire) < next {
                        std::hint::spin_loop();
                    }
                    for _ in 0..next % 256 {
                        std::hint::spin_loop();
                    }
                    other.unpark();
                }
            });
            sleeper.join().expect("it ends")
        })
    };
    let name = |at: usize| format!("crossing-{at}");
    let slept: Vec<u64> = (0..THREADS).map(|at| is_woken(name(at))).collect();
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let lost = slept.iter().enumerate().map(|(at, slept)| {
        let (_, watched) = thread(&run, &name(at));
        let seen: u64 = watched.calls.iter().map(|it| it.count).sum();
        slept.saturating_sub(seen)
    });
    let lost: Vec<u64> = lost.collect();
    let least = lost.iter().min().expect("threads");
    assert!(least * 100 <= TURNS, "{lost:?} of {slept:?}");
}

fn nvcsw() -> u64 {
    let path = "/proc/thread-self/status";
    let text = fs::read_to_string(path).expect("its state");
    let line = text
        .lines()
        .find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|it| it.trim().parse().ok())
        .expect("a number")
}
