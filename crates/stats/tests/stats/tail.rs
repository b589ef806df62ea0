//! Tails with a known truth: estimated for suitable distributions, refused for others.

use crate::support::{PERIOD, Rng};
use punctual_stats::tail::{RETURN_CYCLES, TailEstimate, TailRefusal, extrapolate};
use punctual_stats::{Peak, Peaks};

const CYCLES: u64 = 2_000_000;

fn run(rng: &mut Rng, latency: impl Fn(&mut Rng) -> f64) -> Peaks {
    let mut peaks = Peaks::new();
    for cycle in 0..CYCLES {
        peaks.offer(Peak::new(cycle, cycle * PERIOD, latency(rng) as u64));
    }
    peaks
}

fn tail(peaks: &Peaks) -> Result<TailEstimate, TailRefusal> {
    extrapolate(peaks, CYCLES, CYCLES * PERIOD, true, 0.95)
}

/// A generalised Pareto latency in ns.
fn pareto(rng: &mut Rng, shape: f64) -> f64 {
    5_000.0 + 4_000.0 * (rng.unit().powf(-shape) - 1.0) / shape
}

#[test]
fn the_level_of_a_known_tail_lies_within_its_interval() {
    // Most of these runs hold (5 % of fits are refused, 5 % of intervals miss).
    for shape in [-0.2, 0.001, 0.2] {
        let truth = 5_000.0 + 4_000.0 * (RETURN_CYCLES.powf(shape) - 1.0) / shape;
        let (mut held, mut fitted) = (0, 0);
        for seed in 0..8 {
            let peaks = run(&mut Rng::new(seed + 3), |rng| pareto(rng, shape));
            match tail(&peaks) {
                Ok(tail) => {
                    fitted += 1;
                    held += i32::from((tail.level_lower_ns..=tail.level_upper_ns).contains(&truth));
                    assert!(tail.level_lower_ns <= tail.level_ns);
                    assert!(tail.level_ns <= tail.level_upper_ns);
                    assert!((tail.shape - shape).abs() < 0.35, "{tail:?}");
                }
                Err(refusal) => assert!(
                    matches!(
                        refusal,
                        TailRefusal::PoorFit { .. } | TailRefusal::Unbounded { .. }
                    ),
                    "{refusal:?}"
                ),
            }
        }
        assert!(
            fitted >= 6 && held >= fitted - 2,
            "{shape}: {held} of {fitted}"
        );
    }
}

#[test]
fn a_tail_that_cannot_be_known_is_refused() {
    let heavy = run(&mut Rng::new(1), |rng| 3_000.0 * rng.unit().powf(-0.9));
    assert!(
        matches!(tail(&heavy), Err(TailRefusal::Unbounded { .. })),
        "{:?}",
        tail(&heavy)
    );

    // A tick of 4 µs: the highest values are few and far apart.
    let coarse = run(&mut Rng::new(2), |rng| {
        (pareto(rng, 0.001) / 4000.0).floor() * 4000.0
    });
    assert!(
        matches!(tail(&coarse), Err(TailRefusal::TooCoarse { .. })),
        "{:?}",
        tail(&coarse)
    );

    let mixed = run(&mut Rng::new(3), |rng| {
        // A second population just above the first.
        if rng.unit() < 5e-5 {
            500_000.0 + 1_000.0 * rng.unit()
        } else {
            pareto(rng, 0.001)
        }
    });
    // No distribution fits both populations, and the part above the gap is too heavy for one.
    let refusal = tail(&mixed).expect_err("two populations");
    assert!(
        matches!(
            refusal,
            TailRefusal::PoorFit { .. } | TailRefusal::Unbounded { .. }
        ),
        "{refusal:?}"
    );

    let fine = run(&mut Rng::new(4), |rng| pareto(rng, -0.1));
    let unsteady = extrapolate(&fine, CYCLES, CYCLES * PERIOD, false, 0.95);
    assert_eq!(unsteady, Err(TailRefusal::NotStationary));
    let short = extrapolate(&fine, 100_000, 100_000 * PERIOD, true, 0.95);
    assert!(matches!(short, Err(TailRefusal::TooFar { .. })));
    let empty = extrapolate(&Peaks::new(), CYCLES, CYCLES * PERIOD, true, 0.95);
    assert_eq!(empty, Err(TailRefusal::TooFewBursts { bursts: 0 }));
}
