//! How often bounds are wrong, over kinds of stalls and lengths of runs: simulated machines whose
//! truth is known.
#![allow(clippy::print_stdout, reason = "the table is what one runs this for")]

mod cells;

use std::sync::atomic::{AtomicUsize, Ordering};

use cells::cells;
use punctual_stats::miss::MissBound;

use crate::support::{PERIOD, Rng, Run};

const CONFIDENCE: f64 = 0.95;
const P: f64 = PERIOD as f64;
const S: f64 = 1e9;

/// How long a stall lasts beyond the deadline, in ns.
#[derive(Clone, Copy, Debug)]
enum Length {
    Constant(f64),
    Exponential(f64),
    /// From `least` on, up to the longest.
    Pareto {
        alpha: f64,
        least: f64,
    },
    Lognormal {
        median: f64,
        sigma: f64,
    },
    Weibull {
        shape: f64,
        scale: f64,
    },
    /// A share of them is of the second kind.
    Two(f64, f64, f64),
}

/// When they come.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    Poisson,
    /// A tenth of the time in a state that has nine tenths of them, so many ns long on average.
    Storms(f64),
    /// Each has this many followers on average, within a second.
    Cascade(f64),
    /// Five times as often at the end as at the start.
    Drift,
    /// At a fixed distance, to a tenth.
    Periodic,
    /// No stalls: the highest of all wake-ups, with a tail of that shape.
    Ordinary(f64),
    /// Two states of so many ns on average: in one they are ten times as long.
    States(f64),
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    name: &'static str,
    arrivals: Arrivals,
    length: Length,
    /// Expected in a run.
    bursts: f64,
    duration: f64,
    /// In ns.
    limit: f64,
}

impl Length {
    fn sample(self, rng: &mut Rng, longest: f64) -> f64 {
        let normal = |rng: &mut Rng| {
            (-2.0 * rng.unit().ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos()
        };
        let ns = match self {
            Length::Constant(ns) => ns,
            Length::Exponential(mean) => rng.exponential(mean),
            Length::Pareto { alpha, least } => least * rng.unit().powf(-1.0 / alpha),
            Length::Lognormal { median, sigma } => median * (sigma * normal(rng)).exp(),
            Length::Weibull { shape, scale } => scale * (-rng.unit().ln()).powf(1.0 / shape),
            Length::Two(share, first, second) => {
                let mean = if rng.unit() < share { second } else { first };
                rng.exponential(mean)
            }
        };
        ns.min(longest)
    }
}

/// Misses of a stall that lasts `beyond` ns longer than the deadline, over all phases.
fn misses(beyond: f64, limit: f64) -> f64 {
    if limit > P {
        return beyond / P;
    }
    (beyond / P).min(1.0) + ((limit + beyond) / P - 1.0).max(0.0)
}

/// Means over stalls.
#[derive(Default)]
struct Means {
    misses: f64,
    length: f64,
    late: f64,
    /// The share of the longest, which hold half of the misses.
    half: f64,
}

impl Cell {
    /// No stall is longer: 2 s in a minute.
    fn longest(&self) -> f64 {
        self.duration / 30.0
    }

    /// Means over stalls: misses, length, and the share that makes any wake-up late.
    fn means(&self) -> Means {
        let mut rng = Rng::new(4711);
        let mut sums = Means::default();
        const COUNT: usize = 100_000;
        let mut each = Vec::new();
        for number in 0..COUNT {
            let factor = match self.arrivals {
                Arrivals::States(_) if number % 2 == 0 => 10.0,
                _ => 1.0,
            };
            let ns = (factor * self.length.sample(&mut rng, self.longest())).min(self.longest());
            each.push(misses(ns, self.limit));
            sums.misses += misses(ns, self.limit) / COUNT as f64;
            sums.length += (self.limit + ns) / COUNT as f64;
            sums.late += (ns / P).min(1.0) / COUNT as f64;
        }
        each.sort_unstable_by(|a, b| b.total_cmp(a));
        let mut left = sums.misses * COUNT as f64 / 2.0;
        let longest = each.iter().take_while(|misses| {
            left -= **misses;
            left > 0.0
        });
        sums.half = longest.count() as f64 / COUNT as f64;
        sums
    }

    /// How often bounds may be wrong. Thirty stalls of a heavy tail look light by chance in more runs.
    fn most(&self) -> f64 {
        let looks_light = self.name == "Pareto 1.1" && self.bursts == 30.0;
        if looks_light { 0.11 } else { 0.06 }
    }

    /// Whether the stalls that hold half of the misses come in less than one of ten runs: no run tells of
    /// them.
    fn is_untold(&self, means: &Means) -> bool {
        let is_ordinary = matches!(self.arrivals, Arrivals::Ordinary(_));
        !is_ordinary && self.bursts / means.late * means.half < 0.1
    }

    /// The instants of stalls in ns of running time, of which a run has `horizon`, and how many times as
    /// long they are.
    fn starts(&self, rng: &mut Rng, rate: f64, horizon: f64) -> Vec<(f64, f64)> {
        let (mut starts, mut at) = (Vec::new(), 0.0);
        match self.arrivals {
            Arrivals::Ordinary(_) => {}
            Arrivals::Poisson => loop {
                at += rng.exponential(1.0 / rate);
                if at > self.duration {
                    break;
                }
                starts.push((at, 1.0));
            },
            Arrivals::Periodic => {
                at = -rng.unit() / rate;
                while at < self.duration {
                    at += 1.0 / rate;
                    starts.push(((at + 0.1 * (rng.unit() - 0.5) / rate).max(0.0), 1.0));
                }
            }
            Arrivals::Drift => loop {
                // Thinned.
                at += rng.exponential(1.0 / (rate * 1.7));
                if at > self.duration {
                    break;
                }
                let now = (1.0 + 4.0 * (at / horizon).min(1.0)) / 3.0;
                if rng.unit() < now / 1.7 {
                    starts.push((at, 1.0));
                }
            },
            Arrivals::Cascade(followers) => {
                at = -2.0 * S;
                loop {
                    at += rng.exponential((1.0 + followers) / rate);
                    if at > self.duration {
                        break;
                    }
                    starts.push((at, 1.0));
                    while rng.unit() < followers / (1.0 + followers) {
                        starts.push((at + S * rng.unit(), 1.0));
                    }
                }
                starts.retain(|(at, _)| (0.0..self.duration).contains(at));
                starts.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
            Arrivals::Storms(length) => {
                let mut bad = rng.unit() < 0.1;
                let mut until = 0.0;
                while at < self.duration {
                    until += rng.exponential(if bad { length } else { 9.0 * length });
                    let here = rate * if bad { 9.0 } else { 1.0 / 9.0 };
                    loop {
                        at += rng.exponential(1.0 / here);
                        if at > until.min(self.duration) {
                            at = until;
                            break;
                        }
                        starts.push((at, 1.0));
                    }
                    bad = !bad;
                }
            }
            Arrivals::States(length) => {
                let mut slow = rng.unit() < 0.5;
                let mut until = rng.exponential(length);
                loop {
                    at += rng.exponential(1.0 / rate);
                    if at > self.duration {
                        break;
                    }
                    while at > until {
                        until += rng.exponential(length);
                        slow = !slow;
                    }
                    starts.push((at, if slow { 10.0 } else { 1.0 }));
                }
            }
        }
        starts
    }

    fn ordinary(&self, rng: &mut Rng, shape: f64) -> Run {
        const HIGHEST: f64 = 1_000.0;
        let scale = self.limit / 10.0;
        let above = |share: f64| {
            if shape == 0.0 {
                -share.ln()
            } else {
                (share.powf(-shape) - 1.0) / shape
            }
        };
        let least = self.limit - scale * above(self.bursts / HIGHEST);
        let cycles = (self.duration / P) as u64;
        // Latencies of several intervals are too rare to count.
        let mut run = Run::new(self.limit as u64, self.bursts / cycles as f64);
        let mut wakes: Vec<(u64, u64)> = (0..HIGHEST as u64)
            .map(|_| {
                let latency = least + scale * above(rng.unit());
                (
                    (rng.unit() * self.duration) as u64,
                    latency.clamp(0.0, 0.9 * P) as u64,
                )
            })
            .collect();
        wakes.sort_unstable();
        for (asked, latency) in wakes {
            run.wake(asked, latency, 0);
        }
        run.samples = cycles;
        run.duration_ns = self.duration as u64;
        run
    }

    fn run(&self, rng: &mut Rng, means: &Means) -> Run {
        if let Arrivals::Ordinary(shape) = self.arrivals {
            return self.ordinary(rng, shape);
        }
        // Per running time, so that about as many late ones as are expected come.
        let stalls = self.bursts / means.late;
        let rate = stalls / (self.duration - stalls * means.length).max(self.duration / 2.0);
        let truth = rate * means.misses / (1.0 + rate * means.length) * P;
        let mut run = Run::new(self.limit as u64, truth);
        let cycles = (self.duration / P) as u64;
        let mut wakes: Vec<(u64, u64, u64)> = Vec::new();
        let (mut shift, mut free) = (0.0, 0.0);
        for (start, factor) in self.starts(rng, rate, stalls / rate) {
            let start = f64::max(start + shift, free);
            let beyond = (factor * self.length.sample(rng, self.longest())).min(self.longest());
            let end = start + self.limit + beyond;
            shift += end - start;
            free = end;
            let cycle = (start / P).ceil();
            let asked = cycle * P;
            if asked >= end || cycle as u64 >= cycles {
                continue;
            }
            let latency = (end - asked) as u64;
            let skipped = (latency / PERIOD).min(cycles - 1 - cycle as u64);
            wakes.push((asked as u64, latency, skipped));
            free = free.max((cycle + skipped as f64 + 1.0) * P);
        }
        // Ordinary wake-ups, of the highest.
        for _ in 0..1_000 {
            let latency = (3_000.0 + rng.exponential(2_000.0)).min(self.limit * 0.9) as u64;
            wakes.push(((rng.unit() * self.duration) as u64, latency, 0));
        }
        wakes.sort_unstable();
        for (asked, latency, skipped) in wakes {
            run.wake(asked, latency, skipped);
        }
        run.samples = cycles - run.skipped;
        run.duration_ns = self.duration as u64;
        run
    }
}

/// What came out of the runs of a cell with a miss, as shares.
#[derive(Default)]
struct Found {
    wrong_pass: f64,
    wrong_fail: f64,
    /// Upper bounds on episodes below their mean number, or lower bounds above it: the worse of both.
    wrong_episodes: f64,
    /// PASS at twice the truth, of the runs with 30 bursts or more; none of a cell that has few of these.
    at_twice: Option<f64>,
    /// The median of upper bound and truth.
    width: f64,
    /// Whether nothing is required: [`Cell::is_untold`].
    untold: bool,
}

fn found(cell: &Cell, runs: u64) -> Found {
    let means = cell.means();
    let each =
        (0..runs).map(|seed| cell.run(&mut Rng::new(seed * 7919 + cell.bursts as u64), &means));
    let bounds: Vec<_> = each
        .map(|run| (run.late, run.truth, run.evidence().bound(CONFIDENCE)))
        .collect();
    let episodes = || bounds.iter().filter_map(|(_, _, bound)| bound.episodes);
    let mean = episodes().map(|it| it.seen as f64).sum::<f64>() / runs as f64;
    let with: Vec<_> = bounds.iter().filter(|(late, ..)| *late > 0).collect();
    let share = |is: &dyn Fn(f64, &MissBound) -> bool, least: u64| {
        let of = with.iter().filter(|(late, ..)| *late >= least);
        let all = of.clone().count();
        (
            of.filter(|(_, truth, bound)| is(*truth, bound)).count() as f64 / all as f64,
            all,
        )
    };
    let mut widths: Vec<f64> = with
        .iter()
        .map(|(_, truth, bound)| bound.upper / truth)
        .collect();
    widths.sort_unstable_by(f64::total_cmp);
    let (at_twice, of) = share(&|truth, bound| bound.upper <= 2.0 * truth, 30);
    Found {
        // An allowance just below the truth.
        wrong_pass: share(&|truth, bound| bound.upper <= truth * 0.999, 1).0,
        wrong_fail: share(&|truth, bound| bound.lower > truth, 1).0,
        wrong_episodes: {
            let below = episodes().filter(|it| it.upper < mean).count();
            let above = episodes().filter(|it| it.lower > mean).count();
            below.max(above) as f64 / runs as f64
        },
        at_twice: (of * 4 >= bounds.len()).then_some(at_twice),
        width: widths[widths.len() / 2],
        untold: cell.is_untold(&means),
    }
}

/// The rows of the table, and what is wrong too often.
fn table(cells: &[Cell], runs: u64) -> (Vec<String>, Vec<String>) {
    // In truth at most: 3.1 standard deviations more by chance.
    let within = |most: f64| most + 3.1 * (most * (1.0 - most) / runs as f64).sqrt();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(at) else {
                return done;
            };
            done.push((at, found(cell, runs)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let own = work();
        own.into_iter()
            .chain(other.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    let mut wrong = Vec::new();
    let mut row = |(at, found): &(usize, Found)| {
        let cell = &cells[*at];
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let row = format!(
            "| {}{} | {} s | {} ms | {} | {} | {} | {} | {} | {:.1} |",
            cell.name,
            if found.untold { " *" } else { "" },
            cell.duration / S,
            cell.limit / 1e6,
            cell.bursts,
            percent(found.wrong_pass),
            percent(found.wrong_fail),
            percent(found.wrong_episodes),
            found.at_twice.map_or("".to_owned(), percent),
            found.width,
        );
        let most = within(cell.most());
        if !found.untold
            && [found.wrong_pass, found.wrong_fail, found.wrong_episodes]
                .iter()
                .any(|share| *share > most)
        {
            wrong.push(row.clone());
        }
        println!("{row}");
        row
    };
    let rows = all.iter().map(&mut row).collect();
    (rows, wrong)
}

#[test]
fn bounds_are_wrong_as_seldom_as_they_state_in_a_part_of_the_matrix() {
    let cells: Vec<Cell> = cells().into_iter().step_by(14).collect();
    let (_, wrong) = table(&cells, 60);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With PUNCTUAL_BLESS=1 its table is written into docs/results.
#[test]
fn every_cell_of_the_matrix() {
    let (rows, wrong) = table(&cells(), 400);
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        let page = include_str!("matrix.md").replace("{rows}", &rows.join("\n"));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/bounds.md");
        std::fs::write(path, page).expect("the folder of results");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
