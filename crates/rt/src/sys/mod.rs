//! The raw system calls of this crate; nothing outside `sys` talks to the kernel by number.
pub mod map;
