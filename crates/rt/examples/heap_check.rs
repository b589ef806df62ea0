//! Checks whether a prepared heap takes page faults: allocates small and large blocks on a new
//! thread and counts.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use punctual_rt::heap::{self, FaultMark};
use punctual_rt::thread::Builder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First, because the heap that is kept is the first thread's.
    heap::keep(16 << 20)?;
    let worker = Builder::new().spawn(|_| {
        let mark = FaultMark::now()?;
        for round in 0..200_usize {
            let small: Vec<_> = (0..50).map(|_| Box::new([round as u8; 100])).collect();
            // Without `heap::keep`, malloc would map a block of this size separately.
            let large = vec![1_u8; 3 << 20];
            std::hint::black_box((small, large));
        }
        mark.since()
    })?;
    let since = worker.join().map_err(|_| "the worker panicked")??;
    println!("{} page faults", since.minor_faults + since.major_faults);
    Ok(())
}
