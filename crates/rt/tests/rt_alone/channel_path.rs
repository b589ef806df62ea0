//! The path of a message: no allocation, no page fault, exactly the stated system calls, constant
//! memory.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::fs;
use std::process::Command;
use std::thread;

use crate::channel_support::{LONG, in_time, pair, watchdog};
use crate::counting::calls;
use crate::needs::{self, need};
use crate::stack_support::{alone, faults};
use punctual_rt::channel::{Channel, Counts, Options, Sent, WhenFull};

fn padded() -> Options {
    Options {
        pads: 3,
        ..Options::default()
    }
}

/// A message of each kind there and back: small, padded, too large to be copied, with and without a
/// deadline, and the errors of a channel that has nothing.
fn once(one: &mut Channel, other: &mut Channel, large: &[u8]) {
    for (message, deadline) in [
        (&large[..100], 0),
        (&large[..100], 1_000),
        (large, 1_000_000_000),
    ] {
        assert_eq!(one.send(message, deadline).unwrap(), Sent::Whole);
        assert_eq!(
            one.halves().0.send_more(message, deadline).unwrap(),
            Sent::Whole
        );
        for _ in 0..2 {
            let received = other.receive(in_time(LONG)).unwrap();
            assert_eq!(received.payload.len(), message.len());
        }
    }
    let nothing = one.receive(0).expect_err("nobody sends");
    assert_eq!(nothing.raw_os_error(), Some(libc::EAGAIN));
}

#[test]
fn a_message_makes_no_allocation_and_takes_no_page_fault() {
    let _alone = alone();
    let _watchdog = watchdog();
    for options in [Options::default(), padded()] {
        let (mut one, mut other) = pair(&options);
        let large = vec![3; 50_000];
        // The pages of the code are faulted in by its first use, since nothing is locked here.
        once(&mut one, &mut other, &large);
        let (called, faulted) = (calls(), faults());
        for _ in 0..500 {
            once(&mut one, &mut other, &large);
        }
        assert_eq!(calls() - called, 0, "calls of the allocator");
        assert_eq!(faults() - faulted, 0, "page faults");
    }
}

const ROUNDS: usize = 200;

/// Between two marks: each round a message is sent and received. A child of the next test runs it.
#[test]
#[ignore = "a part of the next test"]
fn rounds_under_strace() {
    let way = std::env::var("CHANNEL_WAY").expect("run by the next test");
    let options = Options {
        pads: if way == "padded" { 3 } else { 0 },
        when_full: WhenFull::Wait,
        ..Options::default()
    };
    let (mut one, mut other) = pair(&options);
    let large = [1; 20_000];
    let message = if way == "large" {
        &large[..]
    } else {
        &large[..64]
    };
    let mark = || {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call fills a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    };
    mark();
    for _ in 0..ROUNDS {
        one.send(message, 1_000_000_000).map(drop).unwrap();
        let until = match way.as_str() {
            "instant" => in_time(LONG),
            _ => u64::MAX,
        };
        let received = other.receive(until).unwrap();
        assert_eq!(received.payload.len(), message.len());
        if way == "try" {
            let nothing = other.receive(0).expect_err("nothing more");
            assert_eq!(nothing.raw_os_error(), Some(libc::EAGAIN));
        }
    }
    mark();
}

#[test]
fn a_message_makes_exactly_the_stated_system_calls() {
    let _alone = alone();
    need!(needs::program("strace"));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("channel");
    fs::create_dir_all(&folder).unwrap();
    for (way, expected) in [
        ("plain", &[("recvfrom", 1), ("sendto", 1)][..]),
        ("large", &[("recvfrom", 1), ("sendmmsg", 1)]),
        ("instant", &[("ppoll", 1), ("recvfrom", 1), ("sendto", 1)]),
        ("try", &[("recvfrom", 2), ("sendto", 1)]),
        ("padded", &[("recvfrom", 1), ("sendmmsg", 1)]),
    ] {
        let trace = folder.join(format!("{way}-{}", std::process::id()));
        let traced = Command::new("strace")
            .args(["-f", "-o"])
            .arg(&trace)
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "channel_path::rounds_under_strace"])
            .env("CHANNEL_WAY", way)
            .output()
            .unwrap();
        assert!(traced.status.success(), "{way}: {traced:?}");
        let text = fs::read_to_string(&trace).unwrap();
        fs::remove_file(&trace).unwrap();
        let mark = "clock_gettime(CLOCK_THREAD_CPUTIME_ID";
        let marked = text.lines().find(|line| line.contains(mark));
        let tid = marked
            .and_then(|line| line.split(' ').next())
            .expect("a mark");
        let own = text.lines().filter_map(|line| line.strip_prefix(tid));
        let own = own
            .map(str::trim_start)
            .filter(|call| !call.starts_with("<..."));
        let between = own.skip_while(|call| !call.starts_with(mark)).skip(1);
        let calls: Vec<&str> = between.take_while(|call| !call.starts_with(mark)).collect();
        let count = |name: &str| {
            let begin = format!("{name}(");
            calls.iter().filter(|call| call.starts_with(&begin)).count()
        };
        let mut all = 0;
        for &(name, each) in expected {
            let counted = count(name);
            all += counted;
            // Segments, and with them padding and parts of a large message, may arrive one by one.
            let split = matches!(way, "padded" | "large") && name == "recvfrom";
            let most = if split { 10 * ROUNDS } else { each * ROUNDS };
            assert!(
                (each * ROUNDS..=most).contains(&counted),
                "{way}: {name}: {counted}"
            );
        }
        assert_eq!(calls.len(), all, "{way}: other calls: {calls:#?}");
    }
}

/// Resident memory of the process, in kB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_million_messages_need_constant_memory_and_are_counted_exactly() {
    let _alone = alone();
    const MANY: u64 = 1_000_000;
    let _watchdog = watchdog();
    let options = Options {
        when_full: WhenFull::Wait,
        ..Options::default()
    };
    let (one, other) = pair(&options);
    let (mut sender, _) = one.split();
    let (_, mut receiver) = other.split();
    let sending = thread::spawn(move || {
        let before = calls();
        for number in 0..MANY {
            // With a deadline that no message can miss, each 16th.
            let deadline = if number % 16 == 0 {
                3_600_000_000_000
            } else {
                0
            };
            sender
                .send(&number.to_ne_bytes(), deadline)
                .map(drop)
                .unwrap();
        }
        sender.flush(u64::MAX).unwrap();
        (sender.counts(), calls() - before)
    });
    let mut at_first = 0;
    for number in 0..MANY {
        let message = receiver.receive(u64::MAX).unwrap();
        assert_eq!(message.payload, number.to_ne_bytes());
        if number == MANY / 10 {
            at_first = resident();
        }
    }
    let grown = resident().saturating_sub(at_first);
    let (sent, calls) = sending.join().unwrap();
    assert_eq!(
        sent,
        Counts {
            sent: MANY,
            ..Counts::default()
        }
    );
    assert_eq!(calls, 0, "calls of the allocator");
    let received = receiver.counts();
    assert_eq!(
        (received.received, received.late, received.not_judged),
        (MANY, 0, 0)
    );
    // Other threads of this process allocate too.
    assert!(grown < 2_000, "{grown} kB");
}
