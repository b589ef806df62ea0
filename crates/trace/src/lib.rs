//! Explains why a wake-up was late: records what the kernel did meanwhile, and attributes the time.

pub mod attribute;
pub mod calls;
pub mod capture;
pub mod foreign;
pub mod tracers;
pub mod watch;
pub mod windows;
