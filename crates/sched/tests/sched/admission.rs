//! What the kernel admits, beside what can meet its deadlines.

use punctual_sched::admission::{Answer, Global, Limits, Reservation, admit, global};

const MS: u64 = 1_000_000;

fn reservation(runtime_ms: u64, deadline_ms: u64, period_ms: u64) -> Reservation {
    Reservation {
        runtime_ns: runtime_ms * MS,
        deadline_ns: deadline_ms * MS,
        period_ns: period_ms * MS,
    }
}

fn admitted(reservations: &[Reservation], limits: &Limits) -> usize {
    let answers = admit(reservations, limits);
    answers
        .iter()
        .filter(|answer| **answer == Answer::Admitted)
        .count()
}

#[test]
fn the_sum_of_shares_is_all_that_counts() {
    // As observed on two CPUs with a fair server each: a share of 0.1 18 times, 1.80 in all.
    let tenth = vec![reservation(10, 100, 100); 30];
    assert_eq!(admitted(&tenth, &Limits::usual(2, true)), 18);
    assert_eq!(admitted(&tenth, &Limits::usual(2, false)), 19);
    assert_eq!(admit(&tenth, &Limits::usual(2, true))[18], Answer::Busy);
    let unlimited = Limits {
        rt_runtime_us: None,
        ..Limits::usual(2, true)
    };
    assert_eq!(admitted(&tenth, &unlimited), 30);
    // A smaller one still fits after one that didn't.
    let mixed = [
        reservation(90, 100, 100),
        reservation(90, 100, 100),
        reservation(4, 100, 100),
    ];
    let one = Limits::usual(1, false);
    assert_eq!(
        admit(&mixed, &one),
        [Answer::Admitted, Answer::Busy, Answer::Admitted]
    );
}

#[test]
fn tasks_that_cannot_meet_their_deadlines_are_admitted() {
    // 33 times 5 ms, all due 5 ms after the wake-up, on two CPUs.
    let dense = vec![reservation(5, 5, 100); 33];
    assert_eq!(admitted(&dense, &Limits::usual(2, true)), 33);
    let impossible = Global::Impossible {
        interval_ns: 5 * MS,
        demand_ns: 165 * MS,
    };
    assert_eq!(global(&dense, 2), impossible);
    assert_eq!(global(&dense[..2], 2), Global::Met);
    assert_eq!(global(&dense[..3], 3), Global::Met);
    // Dhall, Liu 1978: little load, one heavy task, and no test on the sum can promise it.
    let dhall = [
        reservation(1, 10, 10),
        reservation(1, 10, 10),
        reservation(10, 11, 11),
    ];
    assert_eq!(admitted(&dhall, &Limits::usual(2, false)), 3);
    assert_eq!(global(&dhall, 2), Global::Unknown);
}

#[test]
fn parameters_are_checked_as_the_kernel_does() {
    let one = Limits::usual(1, false);
    let invalid = |runtime_ns, deadline_ns, period_ns| {
        let it = Reservation {
            runtime_ns,
            deadline_ns,
            period_ns,
        };
        assert_eq!(admit(&[it], &one), [Answer::Invalid], "{it:?}");
        assert_eq!(global(&[it], 0), global(&[it], 1));
    };
    invalid(1_023, MS, MS);
    invalid(MS, 0, MS);
    invalid(2 * MS, MS, 3 * MS);
    invalid(MS, 3 * MS, 2 * MS);
    invalid(50_000, 99_999, 99_999);
    invalid(MS, MS, 5_000 * MS);
    invalid(MS, 1 << 63, 0);
    invalid(MS, MS, 1 << 63);
    invalid(u64::MAX, u64::MAX, u64::MAX);
    let implicit = Reservation {
        runtime_ns: 1_024,
        deadline_ns: 100_000,
        period_ns: 0,
    };
    assert_eq!(admit(&[implicit], &one), [Answer::Admitted]);
    let zero = Limits {
        rt_period_us: 0,
        cpus: 0,
        ..one
    };
    assert_eq!(admit(&[implicit], &zero), [Answer::Busy]);
}
