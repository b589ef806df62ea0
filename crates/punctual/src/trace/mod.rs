//! Who stole the time: what the kernel did while a probe was late.

pub mod attribute;
