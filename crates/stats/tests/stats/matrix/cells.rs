//! The machines of the matrix.

use super::{Arrivals, Cell, Length, S};

pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let minute = 60.0 * S;
    let hour = 3600.0 * S;
    let ms = 1e6;
    let mut add = |name, arrivals, length, bursts: &[f64], duration: f64, limit: f64| {
        for bursts in bursts {
            cells.push(Cell {
                name,
                arrivals,
                length,
                bursts: *bursts,
                duration,
                limit,
            });
        }
    };
    use Arrivals::{Cascade, Drift, Periodic, Poisson, States, Storms};
    use Length::{Constant, Exponential, Lognormal, Pareto, Two, Weibull};
    let few: &[f64] = &[3.0, 8.0, 30.0, 100.0, 300.0, 900.0];
    let many: &[f64] = &[30.0, 100.0, 300.0];
    for (duration, limit) in [(minute, 0.1 * ms), (hour, 0.1 * ms), (minute, 10.0 * ms)] {
        add(
            "constant",
            Poisson,
            Constant(2.0 * ms),
            few,
            duration,
            limit,
        );
        add(
            "exponential",
            Poisson,
            Exponential(3.0 * ms),
            few,
            duration,
            limit,
        );
        add(
            "periodic",
            Periodic,
            Exponential(3.0 * ms),
            few,
            duration,
            limit,
        );
        add("drift", Drift, Exponential(3.0 * ms), few, duration, limit);
        add(
            "storms of T/60",
            Storms(duration / 60.0),
            Exponential(3.0 * ms),
            many,
            duration,
            limit,
        );
        add(
            "cascades",
            Cascade(3.0),
            Exponential(3.0 * ms),
            many,
            duration,
            limit,
        );
        add(
            "two states of T/20",
            States(duration / 20.0),
            Exponential(1.0 * ms),
            many,
            duration,
            limit,
        );
        add(
            "two lengths",
            Poisson,
            Two(0.1, ms, 20.0 * ms),
            few,
            duration,
            limit,
        );
        for (name, alpha) in [
            ("Pareto 1.5", 1.5),
            ("Pareto 1.1", 1.1),
            ("Pareto 0.8", 0.8),
            ("Pareto 0.6", 0.6),
        ] {
            add(
                name,
                Poisson,
                Pareto {
                    alpha,
                    least: 0.2 * ms,
                },
                few,
                duration,
                limit,
            );
        }
        add(
            "lognormal 2",
            Poisson,
            Lognormal {
                median: ms,
                sigma: 2.0,
            },
            few,
            duration,
            limit,
        );
        add(
            "Weibull 0.35",
            Poisson,
            Weibull {
                shape: 0.35,
                scale: ms,
            },
            few,
            duration,
            limit,
        );
        add(
            "Pareto 1.1 cascades",
            Cascade(3.0),
            Pareto {
                alpha: 1.1,
                least: 0.2 * ms,
            },
            many,
            duration,
            limit,
        );
    }
    // Deadlines of one interval and of fifty.
    for limit in [ms, 50.0 * ms] {
        add(
            "exponential",
            Poisson,
            Exponential(3.0 * ms),
            &[8.0, 30.0, 100.0],
            minute,
            limit,
        );
        add(
            "Pareto 1.1",
            Poisson,
            Pareto {
                alpha: 1.1,
                least: 0.2 * ms,
            },
            &[8.0, 30.0, 100.0],
            minute,
            limit,
        );
    }
    for (name, shape) in [("ordinary, exponential", 0.0), ("ordinary, shape 0.2", 0.2)] {
        add(
            name,
            Arrivals::Ordinary(shape),
            Exponential(1.0),
            few,
            hour,
            0.1 * ms,
        );
    }
    for giants in [3.0, 5.0, 10.0] {
        let share = giants / (60.0 + giants);
        add(
            "60 and rare giants",
            Poisson,
            Two(share, 0.5 * ms, 100.0 * ms),
            &[60.0 + giants],
            minute,
            0.1 * ms,
        );
    }
    cells
}
