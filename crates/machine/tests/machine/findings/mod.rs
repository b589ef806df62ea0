//! Every finding, on made-up machines: the setting that makes it bad, the words of the kernel
//! that can't be read, whole machines, and files that hold anything.

mod answers;
mod command_lines;
mod flips;
mod golden;
mod hostile;
mod proposals;
mod table;
mod tree;
mod unknown;
