//! The tables, read by gdb.
