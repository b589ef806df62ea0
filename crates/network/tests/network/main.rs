//! The account of messages: the bill of each, and the memory of all. It only computes. Whole sessions
//! are in `sessions`, and what is injected into a network is in `injected`: beside what computes here
//! they would miss instants.

mod allocated;
mod bill;
mod memory;
