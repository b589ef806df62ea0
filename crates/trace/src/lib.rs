//! Why a wake-up was late: what the kernel did meanwhile, and what it means.

pub mod attribute;
pub mod calls;
pub mod capture;
pub mod foreign;
pub mod tracers;
pub mod watch;
pub mod windows;
