//! How far a lab has come: "3 of 16 cells done, about 4 min left".

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Which cells wait, run and are done, and for how long.
#[derive(Debug)]
pub struct Progress {
    total: usize,
    jobs: usize,
    running: BTreeMap<usize, Instant>,
    took: Vec<Duration>,
}

impl Progress {
    /// Nothing is begun.
    pub fn new(total: usize, jobs: usize) -> Self {
        Self {
            total,
            jobs: jobs.max(1),
            running: BTreeMap::new(),
            took: Vec::new(),
        }
    }

    /// A cell runs from now on.
    pub fn begun(&mut self, index: usize, now: Instant) {
        self.running.insert(index, now);
    }

    /// A cell is done.
    pub fn done(&mut self, index: usize, now: Instant) {
        if let Some(begun) = self.running.remove(&index) {
            self.took.push(now.saturating_duration_since(begun));
        }
    }

    /// `3 of 16`.
    pub fn count(&self) -> String {
        format!("{} of {}", self.took.len(), self.total)
    }

    /// The status line.
    pub fn line(&self, now: Instant) -> String {
        let left = self.left(now).map_or_else(
            || format!("{} running", self.running.len()),
            |left| format!("{} left", about(left)),
        );
        format!("{} cells done, {left}", self.count())
    }

    /// What to say behind a cell that is done: the time left, unless it was the last.
    pub fn rest(&self, now: Instant) -> String {
        match self.left(now) {
            Some(left) if self.took.len() < self.total => format!("; {} left", about(left)),
            _ => String::new(),
        }
    }

    /// The time left by what a cell took so far on average; none before the first is done.
    fn left(&self, now: Instant) -> Option<Duration> {
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
        // The last of them takes its time, however many run beside it.
        let last = match (waiting, rests.iter().max()) {
            (0, Some(longest)) => *longest,
            (0, None) => Duration::ZERO,
            _ => mean,
        };
        Some(shared.max(last))
    }
}

/// A time that is a guess, in as many digits as a guess has.
fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..5 => "a few seconds".to_owned(),
        5..90 => format!("about {} s", seconds.next_multiple_of(5)),
        90..5400 => format!("about {} min", seconds.div_ceil(60)),
        _ => format!("about {} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The line that is redrawn in place, where standard error is a terminal.
#[derive(Debug)]
pub struct StatusLine {
    shown: bool,
    standing: bool,
}

impl StatusLine {
    /// Not where it is to be quiet.
    pub fn new(quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            shown: !quiet && !dumb && io::stderr().is_terminal(),
            standing: false,
        }
    }

    /// Draws it, cut to the terminal's width: a line that wraps can't be redrawn.
    pub fn draw(&mut self, text: &str) {
        if !self.shown {
            return;
        }
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0);
        let text: String = text
            .chars()
            .take(usize::from(width).saturating_sub(1))
            .collect();
        self.write(&format!("\r{text}\x1b[K"));
        self.standing = true;
    }

    /// Takes it away, for a line that stays.
    pub fn clear(&mut self) {
        if self.standing {
            self.write("\r\x1b[K");
            self.standing = false;
        }
    }

    fn write(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
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
        let mut progress = Progress::new(lengths.len(), jobs);
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
                progress.begun(index, now);
            } else {
                progress.done(index, now);
                let left = progress.left(now).unwrap();
                said.push((left.as_secs_f64(), (end - at) as f64));
            }
        }
        assert_eq!(progress.count(), format!("{0} of {0}", lengths.len()));
        assert_eq!(progress.rest(begin), "");
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

    #[test]
    fn nothing_is_guessed_before_a_cell_is_done() {
        let now = Instant::now();
        let mut progress = Progress::new(16, 2);
        progress.begun(0, now);
        progress.begun(1, now);
        assert_eq!(progress.line(now), "0 of 16 cells done, 2 running");
        progress.done(1, now + 30 * SECOND);
        assert_eq!(
            progress.line(now + 30 * SECOND),
            "1 of 16 cells done, about 4 min left"
        );
        // A cell that takes longer than those before is not told below nothing.
        assert_eq!(
            progress.line(now + 3000 * SECOND),
            "1 of 16 cells done, about 4 min left"
        );
    }

    #[test]
    fn a_guess_has_few_digits() {
        for (seconds, words) in [
            (0, "a few seconds"),
            (7, "about 10 s"),
            (89, "about 90 s"),
            (90, "about 2 min"),
            (601, "about 11 min"),
            (7300, "about 2 h 1 min"),
        ] {
            assert_eq!(about(SECOND * seconds), words);
        }
    }
}
