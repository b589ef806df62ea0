//! When a thread of high priority did not run on a CPU: what a host, or the kernel itself, took of this
//! machine. No injection is judged by that time, whatever its bill says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use punctual_rt::clock;
use punctual_rt::sched::Policy;
use punctual_rt::thread::{Builder, Handle};

/// How often a witness wakes.
const EACH_NS: u64 = 1_000_000;
/// A witness that wakes so late saw a stall.
const LATE_NS: u64 = 2_000_000;

type Times = Arc<Mutex<Vec<(u64, u64)>>>;

/// Above all that is measured and injected.
pub const HIGHEST: u32 = 99;

/// A thread on each CPU, until it is dropped.
pub struct Witness {
    over: Arc<AtomicBool>,
    stalls: Times,
    threads: Mutex<Vec<Handle<()>>>,
}

impl Witness {
    /// With the highest priority it sees what the host takes; with a lower one also what threads above do.
    pub fn start(priority: u32, cpus: &[usize]) -> Self {
        let (over, stalls) = (Arc::new(AtomicBool::new(false)), Times::default());
        let watch = |cpu: &usize| {
            let (over, stalls) = (Arc::clone(&over), Arc::clone(&stalls));
            let builder = Builder::new()
                .name("witness")
                .policy(Policy::Fifo(priority));
            let watching = builder.cpus(&[*cpu]).spawn(move |_| watch(&over, &stalls));
            watching.expect("what is injected has a real-time priority too")
        };
        let threads = Mutex::new(cpus.iter().map(watch).collect());
        Self {
            over,
            stalls,
            threads,
        }
    }

    /// The stalls so far, of all CPUs.
    pub fn stalls(&self) -> Stalls {
        Stalls(self.stalls.lock().expect("nobody panicked").clone())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let threads = self.threads.get_mut().expect("nobody panicked");
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn watch(over: &AtomicBool, stalls: &Mutex<Vec<(u64, u64)>>) {
    let mut due_ns = clock::now_ns();
    while !over.load(Ordering::Relaxed) {
        due_ns += EACH_NS;
        let _ = clock::sleep_until(due_ns);
        let now_ns = clock::now_ns();
        if now_ns >= due_ns + LATE_NS {
            stalls
                .lock()
                .expect("nobody panicked")
                .push((due_ns, now_ns));
        }
        due_ns = due_ns.max(now_ns - now_ns % EACH_NS);
    }
}

/// Times in which a CPU was taken away.
pub struct Stalls(Vec<(u64, u64)>);

impl Stalls {
    /// Whether there was none between two instants.
    pub fn spared(&self, from_ns: u64, to_ns: u64) -> bool {
        // A stall begins up to a period before the wake-up that it delayed.
        let lies = |it: &(u64, u64)| it.0 - EACH_NS < to_ns && it.1 > from_ns;
        !self.0.iter().any(lies)
    }

    /// With further times that do not count.
    #[allow(dead_code, reason = "not every test knows some")]
    pub fn and(mut self, times: Vec<(u64, u64)>) -> Self {
        self.0.extend(times);
        self
    }

    /// Of all CPUs together.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().map(|it| it.1 - it.0).sum()
    }

    /// How many messages, of which one is sent each so many ns, they can have delayed.
    #[allow(dead_code, reason = "not every test asks")]
    pub fn messages(&self, each_ns: u64) -> u64 {
        let delayed = |it: &(u64, u64)| (it.1 - it.0 + EACH_NS).div_ceil(each_ns) + 1;
        self.0.iter().map(delayed).sum()
    }
}
