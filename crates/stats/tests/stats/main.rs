//! The figures of measurements, each compared with brute force, another implementation, or a truth
//! that the test knows. One program: it is linked once, and nothing here has state of the process.

mod advice;
mod alone;
mod binomial;
mod budget;
mod compare;
mod cost;
mod coverage;
mod episodes;
mod experiment;
mod experiment_recorded;
mod experiment_seeds;
mod extremal;
mod format;
mod gaps;
mod halves_and_sides;
mod histogram;
mod lengths;
mod matrix;
mod misses;
mod peaks;
mod skipped;
mod speed;
mod support;
mod tail;
mod unseen;
mod verdict;
