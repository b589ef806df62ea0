//! A thread of high priority that takes a CPU, and says when it did.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use punctual_rt::clock;
use punctual_rt::sched::Policy;
use punctual_rt::thread::Builder;

/// Instants at which something was injected.
pub type Truth = Arc<Mutex<Vec<(u64, u64)>>>;

/// What the kernel calls the thread.
pub const NAME: &str = "hog";
/// Its priority.
pub const PRIORITY: u32 = 90;

/// Spins on a CPU for 25 ms of each 110, above everything else, until it is done.
pub fn hog(cpu: usize, truth: &Truth, done: &AtomicBool) {
    const MS: u64 = 1_000_000;
    let (truth, over) = (Arc::clone(truth), Arc::new(AtomicBool::new(false)));
    let its_over = Arc::clone(&over);
    let builder = Builder::new().name(NAME).policy(Policy::Fifo(PRIORITY));
    let hogging = builder.cpus(&[cpu]).spawn(move |_| {
        let mut next_ns = clock::now_ns();
        while !its_over.load(Ordering::Relaxed) {
            next_ns += 110 * MS;
            let _ = clock::sleep_until(next_ns);
            let begin_ns = clock::now_ns();
            while clock::now_ns() < begin_ns + 25 * MS {
                std::hint::spin_loop();
            }
            truth.lock().unwrap().push((begin_ns, clock::now_ns()));
            next_ns = next_ns.max(begin_ns);
        }
    });
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    over.store(true, Ordering::Relaxed);
    hogging.unwrap().join().unwrap();
}
