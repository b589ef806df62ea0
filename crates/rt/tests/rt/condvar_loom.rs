//! Checks every interleaving of waiting and notifying threads of the condition variable with
//! loom. A lost wake-up is a deadlock here, because no wait has a time limit.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use punctual_rt::sync::{Futex, Notices};

/// The sleeping threads, first in, first out.
#[derive(Default)]
struct Queue {
    /// How many ever slept, and how many of them were woken.
    asleep: u32,
    woken: u32,
    /// No wait continues after this.
    over: bool,
}

/// A futex like the kernel's: checking the word and joining the queue are one step for a waking
/// thread.
#[derive(Clone)]
struct Watched(Arc<Word>);

struct Word {
    value: AtomicU32,
    queue: Mutex<Queue>,
    bell: Condvar,
}

impl Watched {
    fn new() -> Self {
        Self(Arc::new(Word {
            value: AtomicU32::new(0),
            queue: Mutex::new(Queue::default()),
            bell: Condvar::new(),
        }))
    }

    /// The time limit of all sleeping threads is reached.
    fn time_passes(&self) {
        self.0.queue.lock().unwrap().over = true;
        self.0.bell.notify_all();
    }
}

impl Futex for Watched {
    fn load(&self) -> u32 {
        self.0.value.load(Ordering::Relaxed)
    }

    fn add(&self, value: u32) {
        self.0.value.fetch_add(value, Ordering::Relaxed);
    }

    fn wait(&self, expected: u32, _: u64) -> io::Result<()> {
        let mut queue = self.0.queue.lock().unwrap();
        if self.load() != expected {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        queue.asleep += 1;
        let place = queue.asleep;
        while queue.woken < place {
            if queue.over {
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            queue = self.0.bell.wait(queue).unwrap();
        }
        Ok(())
    }

    fn wake(&self, count: u32) {
        let mut queue = self.0.queue.lock().unwrap();
        queue.woken = queue.asleep.min(queue.woken.saturating_add(count));
        self.0.bell.notify_all();
    }
}

struct Model {
    /// How many threads may continue.
    tokens: Mutex<u32>,
    notices: Notices<Watched>,
    number: Watched,
    waiting: Watched,
}

impl Model {
    fn new() -> Arc<Self> {
        let (number, waiting) = (Watched::new(), Watched::new());
        Arc::new(Self {
            tokens: Mutex::new(0),
            notices: Notices::new(number.clone(), waiting.clone()),
            number,
            waiting,
        })
    }

    /// The loop around `Condvar::wait_until`.
    fn take(&self) {
        let mut tokens = self.tokens.lock().unwrap();
        while *tokens == 0 {
            let seen = self.notices.enlist();
            drop(tokens);
            let _ = self.notices.sleep(seen, u64::MAX);
            tokens = self.tokens.lock().unwrap();
        }
        *tokens -= 1;
    }

    fn give(&self, tokens: u32) {
        *self.tokens.lock().unwrap() += tokens;
        self.notices.notify(tokens);
    }
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

#[test]
fn a_notification_is_never_lost() {
    loom::model(|| {
        let model = Model::new();
        let waiting = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.take())
        };
        model.give(1);
        waiting.join().unwrap();
        assert_eq!(
            model.waiting.load(),
            0,
            "else each notification is a system call"
        );
    });
}

/// Two threads wait, and each is released.
fn two_go_on(notify: fn(&Model)) {
    bounded(2).check(move || {
        let model = Model::new();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.take())
            })
            .collect();
        notify(&model);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(model.waiting.load(), 0);
    });
}

#[test]
fn each_notification_releases_one_thread() {
    two_go_on(|model| {
        model.give(1);
        model.give(1);
    });
}

#[test]
fn a_notification_to_all_releases_all_threads() {
    two_go_on(|model| model.give(2));
}

#[test]
fn loom_finds_the_lost_wake_up_of_a_check_without_the_mutex() {
    static SLEPT_THROUGH: AtomicBool = AtomicBool::new(false);
    loom::model(|| {
        let model = Model::new();
        let waiting = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                let held = *model.tokens.lock().unwrap();
                if held == 0 {
                    let seen = model.notices.enlist();
                    let slept = model.notices.sleep(seen, u64::MAX);
                    if slept.is_err_and(|error| error.raw_os_error() == Some(libc::ETIMEDOUT)) {
                        SLEPT_THROUGH.store(true, Ordering::Relaxed);
                    }
                }
            })
        };
        model.give(1);
        model.number.time_passes();
        waiting.join().unwrap();
    });
    assert!(SLEPT_THROUGH.load(Ordering::Relaxed));
}
