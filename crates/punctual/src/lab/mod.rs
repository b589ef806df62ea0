//! The laboratory: real kernels in virtual time, where figures repeat bit for bit.

pub mod kernel;
