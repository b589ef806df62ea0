//! The interface of a wait source: a way for a probe thread to be woken.

use std::io;

use punctual_rt::clock;

/// A way of being woken at an instant, and the clock that measures it.
pub trait WaitSource {
    /// Waits until `due_ns`. May return EINTR, and is then called again
    /// with the same instant.
    ///
    /// # Errors
    /// The kernel's errno.
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()>;

    /// The time now, on the clock of `due_ns`.
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
}

/// Counts the expirations of a periodic timer up to the one that is due, so that
/// a late thread does not mistake an old expiration for the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Expirations {
    period_ns: u64,
    /// The instant of the last expiration that was read.
    reached_ns: u64,
    armed: bool,
}

impl Expirations {
    pub(crate) fn every(period_ns: u64) -> Self {
        Self {
            period_ns,
            reached_ns: 0,
            armed: false,
        }
    }

    /// Waits until the expiration at `due_ns`. `arm` takes an instant and a period,
    /// `wait` returns how many expirations there were.
    #[inline]
    pub(crate) fn reach(
        &mut self,
        due_ns: u64,
        arm: impl FnOnce(u64, u64) -> io::Result<()>,
        wait: impl Fn() -> io::Result<u64>,
    ) -> io::Result<()> {
        if self.period_ns == 0 {
            arm(due_ns, 0)?;
            return wait().map(drop);
        }
        if !self.armed {
            arm(due_ns, self.period_ns)?;
            self.reached_ns = due_ns - self.period_ns;
            self.armed = true;
        }
        while self.reached_ns < due_ns {
            self.reached_ns += wait()? * self.period_ns;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn accumulated_expirations_are_not_mistaken_for_the_next_one() {
        let mut expirations = Expirations::every(100);
        let armed = RefCell::new(Vec::new());
        // Each call of wait returns the number that a real timer would have accumulated.
        let piles = RefCell::new(vec![1, 3, 1, 1]);
        let mut reach = |due| {
            expirations
                .reach(
                    due,
                    |at, period| {
                        armed.borrow_mut().push((at, period));
                        Ok(())
                    },
                    || Ok(piles.borrow_mut().remove(0)),
                )
                .unwrap();
        };
        reach(1_000);
        // Late by three periods: 1,100 to 1,300 passed, and 1,400 is due.
        reach(1_400);
        assert_eq!(*piles.borrow(), [1]);
        reach(1_500);
        assert_eq!(*armed.borrow(), [(1_000, 100)]);
    }
}
