//! Many knobs at once: each is on in half of the blocks, at random, so that every block says
//! something about every knob.

use serde::{Deserialize, Serialize};

use super::{BlockLatencies, Measure, differences, known_measures};
use crate::compare::{p_of_student, ratio_interval};

/// Two blocks that followed each other, with opposite knobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ScreeningPair {
    /// Which knobs were on in the first block; in the second, all others were.
    pub on_first: Vec<bool>,
    /// The first block.
    pub first: BlockLatencies,
    /// The second.
    pub second: BlockLatencies,
}

/// The effect of one knob on one measure, whatever the others were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MainEffect {
    /// The measure.
    pub measure: Measure,
    /// On by off.
    pub ratio: f64,
    /// Its interval at the experiment's confidence, for this one alone.
    pub interval: (f64, f64),
    /// How often chance alone gives such a ratio, for this one alone: it decides what is
    /// looked at more closely, and nothing else.
    pub p: f64,
}

/// A knob after a screening.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Screened {
    /// Pairs of blocks.
    pub pairs: usize,
    /// Its main effects; empty where the pairs don't tell the knobs apart.
    pub effects: Vec<MainEffect>,
}

impl Screened {
    /// The smallest of its p-values, as if it were one of as many tests as it has measures.
    #[must_use]
    pub fn p(&self) -> f64 {
        let smallest = self
            .effects
            .iter()
            .map(|effect| effect.p)
            .fold(1.0, f64::min);
        (smallest * self.effects.len().max(1) as f64).min(1.0)
    }
}

/// The main effect of every knob, by least squares over the pairs.
#[must_use]
pub fn screen(pairs: &[ScreeningPair], confidence: f64) -> Vec<Screened> {
    let knobs = pairs.first().map_or(0, |pair| pair.on_first.len());
    let mut screened = vec![
        Screened {
            pairs: pairs.len(),
            effects: Vec::new(),
        };
        knobs
    ];
    // On in the first block and off in the second: the difference has the effect reversed.
    let sign = |on: &bool| if *on { -1.0 } else { 1.0 };
    let rows: Vec<Vec<f64>> = pairs
        .iter()
        .map(|pair| pair.on_first.iter().map(sign).collect())
        .collect();
    let Some(inverse) = inverse_of_squares(&rows, knobs) else {
        return screened;
    };
    let freedom = (pairs.len() - knobs) as f64;
    let measures = known_measures(pairs.iter().flat_map(|pair| [&pair.first, &pair.second]));
    for (at, measure) in measures.iter().enumerate() {
        let values: Vec<f64> = pairs
            .iter()
            .map(|pair| differences(&pair.first, &pair.second, &measures)[at])
            .collect();
        let products: Vec<f64> = (0..knobs)
            .map(|knob| rows.iter().zip(&values).map(|(row, y)| row[knob] * y).sum())
            .collect();
        let effects: Vec<f64> = inverse.iter().map(|row| dot(row, &products)).collect();
        let left = rows.iter().zip(&values);
        let squares: f64 = left.map(|(row, y)| (y - dot(row, &effects)).powi(2)).sum();
        let variance = squares / freedom;
        for (knob, effect) in effects.iter().enumerate() {
            let error2 = variance * inverse[knob][knob];
            screened[knob].effects.push(MainEffect {
                measure: *measure,
                ratio: effect.exp(),
                interval: ratio_interval(*effect, error2, freedom, confidence),
                p: p_of_student(*effect, error2, freedom),
            });
        }
    }
    screened
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// The inverse of X'X by Gauss and Jordan; `None` if the knobs were always switched alike, or
/// there are no more pairs than knobs.
fn inverse_of_squares(rows: &[Vec<f64>], size: usize) -> Option<Vec<Vec<f64>>> {
    if size == 0 || rows.len() <= size {
        return None;
    }
    let mut matrix: Vec<Vec<f64>> = (0..size)
        .map(|i| {
            let square = |j: usize| rows.iter().map(|row| row[i] * row[j]).sum();
            let identity = (0..size).map(|j| f64::from(u8::from(i == j)));
            (0..size).map(square).chain(identity).collect()
        })
        .collect();
    for column in 0..size {
        let rest = column..size;
        let pivot = rest.max_by(|a, b| {
            let of = |row: usize| matrix[row][column].abs();
            of(*a).total_cmp(&of(*b))
        })?;
        matrix.swap(column, pivot);
        let divisor = matrix[column][column];
        if divisor.abs() < 1e-9 {
            return None;
        }
        matrix[column]
            .iter_mut()
            .for_each(|value| *value /= divisor);
        let pivot_row = matrix[column].clone();
        for (at, row) in matrix.iter_mut().enumerate() {
            let factor = row[column];
            if at != column {
                let both = row.iter_mut().zip(&pivot_row);
                both.for_each(|(value, pivot)| *value -= factor * pivot);
            }
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}
