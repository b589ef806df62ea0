//! Computes: integers, floating point, sequential memory access, and random access that misses every
//! cache.

use std::hint::black_box;

use crate::board::scatter;
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "cpu",
    unit: "rounds",
    also: &[],
    description: "integer and floating-point work, memory streams and cache misses",
    parameters: &[
        Parameter {
            key: "workers",
            description: "processes that compute",
            default: Amount::PerCpu(1),
            least: 1,
            most: 4096,
        },
        Parameter {
            key: "bytes",
            description: "memory that each process reads and writes",
            default: Amount::Memory(16 << 20),
            least: 4096,
            most: 1 << 40,
        },
    ],
    scratch: false,
    memory: |values: &Values| values["workers"].saturating_mul(values["bytes"]),
    run,
};

/// Steps of each kind in one round: the four take about 0.1 ms each.
const INTEGER_STEPS: u32 = 50_000;
const FLOAT_STEPS: u32 = 25_000;
const STREAM_WORDS: usize = 64 << 10;
const CHASE_STEPS: usize = 2_000;

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let words = context.size("bytes") / size_of::<u64>();
    context.crew(context.size("workers"), 1, |index| {
        let mut memory: Vec<u64> = (0..words as u64).map(scatter).collect();
        let slot = context.slot(index);
        let mut state = context.board().seed(index as u64 + 1);
        let mut at = 0;
        context.board().arrive();
        loop {
            state = integers(state);
            state ^= floats(state).to_bits();
            at = stream(&mut memory, at);
            state ^= chase(&memory, state as usize);
            slot.add(1);
        }
    })
}

fn integers(seed: u64) -> u64 {
    (0..INTEGER_STEPS).fold(black_box(seed), |state, _| scatter(state))
}

fn floats(seed: u64) -> f64 {
    let start = (black_box(seed) >> 11) as f64 / (1_u64 << 53) as f64;
    // Newton's iteration for a square root: each division depends on the one before.
    (0..FLOAT_STEPS).fold(start + 1.0, |x, step| 0.5 * (x + f64::from(step + 2) / x))
}

/// Reads and writes the next piece of memory; returns where the next one begins.
fn stream(memory: &mut [u64], at: usize) -> usize {
    let end = (at + STREAM_WORDS).min(memory.len());
    for word in &mut memory[at..end] {
        *word = word.wrapping_mul(3).rotate_left(7);
    }
    if end == memory.len() { 0 } else { end }
}

/// Follows pointers through memory: no prefetcher helps.
fn chase(memory: &[u64], start: usize) -> u64 {
    (0..CHASE_STEPS).fold(black_box(start) as u64, |at, _| {
        at.rotate_left(1) ^ memory[at as usize % memory.len()]
    })
}
