//! The progress of a lab, and how long the rest takes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Which cells wait, run and are done, and for how long.
#[derive(Debug)]
pub struct Forecast {
    total: usize,
    jobs: usize,
    running: BTreeMap<usize, Instant>,
    took: Vec<Duration>,
}

impl Forecast {
    /// No cell has started.
    #[must_use]
    pub fn new(total: usize, jobs: usize) -> Self {
        Self {
            total,
            jobs: jobs.max(1),
            running: BTreeMap::new(),
            took: Vec::new(),
        }
    }

    /// A cell starts.
    pub fn begun(&mut self, index: usize, now: Instant) {
        self.running.insert(index, now);
    }

    /// A cell is done.
    pub fn done(&mut self, index: usize, now: Instant) {
        if let Some(begun) = self.running.remove(&index) {
            self.took.push(now.saturating_duration_since(begun));
        }
    }

    /// How many cells there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// How many are done.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.took.len()
    }

    /// How many run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// The time left, from the average time of a cell; none before the first is done.
    #[must_use]
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let count = u32::try_from(self.took.len())
            .ok()
            .filter(|count| *count > 0)?;
        let mean = self.took.iter().sum::<Duration>() / count;
        let rests = self.running.values();
        let rests: Vec<Duration> = rests
            .map(|begun| mean.saturating_sub(now.saturating_duration_since(*begun)))
            .collect();
        let waiting = self
            .total
            .saturating_sub(self.took.len() + self.running.len());
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        let work = mean.saturating_mul(waiting) + rests.iter().sum::<Duration>();
        let shared = work / u32::try_from(self.jobs).unwrap_or(u32::MAX);
        // The last cell takes its full time, however many run in parallel.
        let last = match (waiting, rests.iter().max()) {
            (0, Some(longest)) => *longest,
            (0, None) => Duration::ZERO,
            _ => mean,
        };
        Some(shared.max(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Cells of `lengths` seconds, `jobs` at a time; at each end of one what is said to be left
    /// and what is.
    fn made(lengths: &[u64], jobs: usize) -> Vec<(f64, f64)> {
        let begin = Instant::now();
        let mut forecast = Forecast::new(lengths.len(), jobs);
        let mut free = vec![0; jobs];
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            let worker = free.iter_mut().min().unwrap();
            events.push((*worker, true, index));
            *worker += length;
            events.push((*worker, false, index));
        }
        events.sort_unstable();
        let end = events.last().unwrap().0;
        let mut said = Vec::new();
        for (at, starts, index) in events {
            let now = begin + SECOND * u32::try_from(at).unwrap();
            if starts {
                forecast.begun(index, now);
            } else {
                forecast.done(index, now);
                let left = forecast.left(now).unwrap();
                said.push((left.as_secs_f64(), (end - at) as f64));
            }
        }
        assert_eq!(forecast.finished(), forecast.total());
        said
    }

    #[test]
    fn cells_of_one_length_are_told_to_the_second() {
        for jobs in 1..=5 {
            for (said, left) in made(&[10; 16], jobs) {
                // Those that are done in the same second are told one by one.
                assert!((said - left).abs() <= 10.0, "{jobs}: {said} for {left}");
            }
        }
        assert!(made(&[10; 16], 1).iter().all(|(said, left)| said == left));
    }

    #[test]
    fn with_lengths_that_differ_it_is_near() {
        let lengths = [5, 20, 9, 14, 5, 20, 9, 14, 5, 20, 9, 14, 5, 20, 9, 14];
        for (said, left) in made(&lengths, 2).into_iter().skip(3) {
            assert!((said - left).abs() <= 21.0, "{said} for {left}");
        }
    }
}
