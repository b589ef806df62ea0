//! The order in which cells run: the longest ones first, as far as that is known, so that at the end
//! no host's processor waits for a long one.

use std::collections::BTreeMap;
use std::time::Duration;

/// Cells that wait.
#[derive(Debug)]
pub struct Queue<'a> {
    /// Each with what it does; cells that do the same on other kernels take about as long.
    waiting: Vec<(usize, &'a str)>,
    took: BTreeMap<&'a str, Duration>,
}

impl<'a> Queue<'a> {
    /// All of them, each with what it does.
    pub fn new(cells: impl Iterator<Item = &'a str>) -> Self {
        Self {
            waiting: cells.enumerate().collect(),
            took: BTreeMap::new(),
        }
    }

    /// The next one: the first that does something new, else the one that probably takes longest.
    pub fn next(&mut self) -> Option<usize> {
        let length = |(_, work): &(usize, &str)| self.took.get(work).copied();
        let new = self.waiting.iter().position(|it| length(it).is_none());
        let longest = || {
            let places = 0..self.waiting.len();
            // Of equal ones the first.
            places.rev().max_by_key(|at| length(&self.waiting[*at]))
        };
        let at = new.or_else(longest)?;
        Some(self.waiting.remove(at).0)
    }

    /// A cell that did this is done.
    pub fn done(&mut self, work: &'a str, took: Duration) {
        self.took.insert(work, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_comes_in_its_order_and_then_the_longest() {
        let works = ["idle", "net", "fork", "idle", "net", "fork", "net"];
        let mut queue = Queue::new(works.into_iter());
        assert_eq!(queue.next(), Some(0));
        assert_eq!(queue.next(), Some(1));
        queue.done("idle", Duration::from_secs(10));
        assert_eq!(queue.next(), Some(2));
        queue.done("net", Duration::from_secs(40));
        // Nothing is known of the one that runs.
        assert_eq!(queue.next(), Some(5));
        queue.done("fork", Duration::from_secs(20));
        let rest: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(rest, [4, 6, 3]);
        assert_eq!(Queue::new(std::iter::empty()).next(), None);
    }
}
