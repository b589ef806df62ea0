//! When a culprit was there, and when something interrupted it.

use punctual_rt::clock;
use punctual_rt::sys::time;
use serde::Serialize;

/// Gaps that are kept of one stint.
pub const GAPS: usize = 32;
/// A shorter time between two readings of the clock is not a gap.
const GAP_NS: u64 = 1_000;
/// Leaving the CPU takes no longer. The probe, which runs next, reads the clock and bounds it.
pub const AWAY_NS: u64 = 50_000;
/// A thread that needs the CPU for a while gives up after this multiple of it.
const PATIENCE: u64 = 5;

/// When something interrupted a culprit, by the clock that it read all the time: the gaps between
/// two readings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gaps {
    count: usize,
    spans: [(u64, u64); GAPS],
}

impl Gaps {
    pub fn of(count: usize, spans: [(u64, u64); GAPS]) -> Self {
        Self { count, spans }
    }

    pub fn push(&mut self, from_ns: u64, to_ns: u64) {
        if let Some(span) = self.spans.get_mut(self.count) {
            *span = (from_ns, to_ns);
        }
        self.count += 1;
    }

    /// All of them; `None` if there were more than could be kept.
    pub fn all(&self) -> Option<&[(u64, u64)]> {
        self.spans.get(..self.count)
    }
}

/// When a culprit was there. Certainly from `begin_ns` to `end_ns`; possibly from
/// `first_ns` to `last_ns`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Was {
    pub first_ns: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub last_ns: u64,
    /// The thread that it was, by the kernel's number; 0 if that isn't known.
    pub by: u32,
    #[serde(skip)]
    pub gaps: Gaps,
}

impl Was {
    /// With exact bounds.
    pub fn between(begin_ns: u64, end_ns: u64) -> Self {
        Self {
            first_ns: begin_ns,
            begin_ns,
            end_ns,
            last_ns: end_ns,
            by: 0,
            gaps: Gaps::default(),
        }
    }
}

/// A thread's time on the CPU. The time to get there and away can't be measured with a clock that it
/// reads itself; the scheduler's account says how long both are together.
pub struct Stint {
    /// Usually half of that.
    way_ns: u64,
    /// The previous stint, and the account at its end.
    before: Option<(Was, u64)>,
}

fn used_ns() -> u64 {
    time::clock_now(libc::CLOCK_THREAD_CPUTIME_ID)
}

impl Stint {
    /// Learns how long that takes.
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
            // Another culprit may already delay every other one.
            way_ns: ways[ways.len() / 4],
            before: None,
        }
    }

    /// Uses the CPU for this long, and returns when it was there the previous time.
    pub fn spin(&mut self, length_ns: u64) -> Option<Was> {
        self.work(|| spin(length_ns))
    }

    /// Works, and returns when it was there the previous time.
    pub fn work(&mut self, work: impl FnOnce() -> Was) -> Option<Was> {
        let was = self.before.map(|(was, before_ns)| {
            let way_ns = (used_ns() - before_ns) / 2;
            // The kernel may count from when the thread was woken, not from when it ran:
            // then it is too long.
            let way_ns = if way_ns > 2 * self.way_ns {
                self.way_ns
            } else {
                way_ns
            };
            Was {
                first_ns: was.begin_ns - 2 * way_ns,
                last_ns: was.end_ns + AWAY_NS.max(2 * way_ns),
                ..was
            }
        });
        let now = work();
        self.before = Some((now, used_ns()));
        was
    }
}

/// Keeps the CPU until it had it for this long, not counting interruptions.
pub fn spin(length_ns: u64) -> Was {
    let begin_ns = clock::now_ns();
    let (mut last_ns, mut left_ns) = (begin_ns, length_ns);
    let mut gaps = Gaps::default();
    loop {
        let now_ns = clock::now_ns();
        match now_ns - last_ns {
            passed_ns @ ..=GAP_NS => left_ns = left_ns.saturating_sub(passed_ns),
            _ => gaps.push(last_ns, now_ns),
        }
        last_ns = now_ns;
        if left_ns == 0 || now_ns - begin_ns > PATIENCE * length_ns {
            let was = Was::between(begin_ns, now_ns);
            return Was { gaps, ..was };
        }
        std::hint::spin_loop();
    }
}

/// Reads the clock until something else had the CPU for this long, or until an instant; returns
/// from when to when that was.
pub fn spin_until_held_up(least_ns: u64, until_ns: u64) -> Option<(u64, u64)> {
    let mut last_ns = clock::now_ns();
    while last_ns < until_ns {
        let now_ns = clock::now_ns();
        if now_ns - last_ns >= least_ns {
            return Some((last_ns, now_ns));
        }
        last_ns = now_ns;
        std::hint::spin_loop();
    }
    None
}

/// Keeps the CPU until an instant.
pub fn spin_until(until_ns: u64) -> Was {
    let begin_ns = clock::now_ns();
    let mut last_ns = begin_ns;
    let mut gaps = Gaps::default();
    loop {
        let now_ns = clock::now_ns();
        if now_ns - last_ns > GAP_NS {
            gaps.push(last_ns, now_ns);
        }
        last_ns = now_ns;
        if now_ns >= until_ns {
            let was = Was::between(begin_ns, now_ns);
            return Was { gaps, ..was };
        }
        std::hint::spin_loop();
    }
}
