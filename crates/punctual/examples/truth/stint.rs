//! When a thread was on its CPU.

use punctual_rt::clock;
use punctual_rt::sys::time;

/// A thread's time on the CPU, with its way there and away, which no clock that it reads itself
/// can tell: the scheduler's account of its time does.
pub struct Stint {
    /// As long as it is mostly.
    way_ns: u64,
    /// Beginning and end by the clock, and the account at the end.
    before: Option<(u64, u64, u64)>,
}

fn used_ns() -> u64 {
    time::clock_now(libc::CLOCK_THREAD_CPUTIME_ID)
}

impl Stint {
    /// Learns how long the way is.
    pub fn new() -> Self {
        let mut ways: Vec<u64> = (0..21)
            .map(|_| {
                let before_ns = used_ns();
                let _ = time::sleep_for(2_000_000);
                (used_ns() - before_ns) / 2
            })
            .collect();
        ways.sort_unstable();
        Self {
            // Another culprit, already at work, may be in the way of every other one.
            way_ns: ways[ways.len() / 4],
            before: None,
        }
    }

    /// Spins, and says when it was there the time before.
    pub fn spin(&mut self, length_ns: u64) -> Option<(u64, u64)> {
        self.work(|| spin(length_ns))
    }

    /// Works from and to an instant, and says when it was there the time before.
    pub fn work(&mut self, work: impl FnOnce() -> (u64, u64)) -> Option<(u64, u64)> {
        let was = self.before.map(|(begin_ns, end_ns, before_ns)| {
            // Half of it is the way there, as far as one can tell. The kernel may count it from
            // when the thread was woken, and not from when it came: then it is too long.
            let way_ns = (used_ns() - before_ns) / 2;
            let way_ns = if way_ns > 2 * self.way_ns {
                self.way_ns
            } else {
                way_ns
            };
            (begin_ns - way_ns, end_ns + way_ns)
        });
        let (begin_ns, end_ns) = work();
        self.before = Some((begin_ns, end_ns, used_ns()));
        was
    }
}

/// Keeps the CPU, from when to when.
pub fn spin(length_ns: u64) -> (u64, u64) {
    let begin_ns = clock::now_ns();
    loop {
        let now_ns = clock::now_ns();
        if now_ns >= begin_ns + length_ns {
            return (begin_ns, now_ns);
        }
        std::hint::spin_loop();
    }
}
