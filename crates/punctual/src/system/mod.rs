//! What a run asks of the machine, whether it is in force, and what changes meanwhile.
//!
//! The machine itself is read by [`punctual_machine::survey`]. Nothing here prints, and
//! only [`dma_latency::DmaLatency`] changes anything.

pub mod demands;
pub mod dma_latency;
pub mod monitor;

pub use dma_latency::DmaLatency;

/// The path of our executable, for commands in advice.
#[must_use]
pub fn executable() -> String {
    std::env::current_exe().map_or_else(
        |_| "./punctual".to_owned(),
        |path| path.to_string_lossy().into_owned(),
    )
}
