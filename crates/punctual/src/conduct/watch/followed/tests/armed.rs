//! Timers that the program arms itself, each time or after it had stopped them.

use super::*;

#[test]
fn an_instant_that_the_program_leaves_by_arming_the_next_may_have_been_late() {
    let left = |period: u64, after_ns| Wake {
        timer: Timer::Length(0),
        rearmed: false,
        call: libc::SYS_ppoll as u32,
        ..awake(period, after_ns, period + 1)
    };
    let timeout = |period: u64| Wake {
        timer: Timer::Length(0),
        call: libc::SYS_ppoll as u32,
        // From the clock: the waits begin at any time.
        ..wait(period, -((period * 7919 % 97 * 5_000) as i64), 10_000)
    };
    let thread = after((1..200).map(|period| match period {
        150 => left(150, 30_000),
        160 => left(160, 150_000),
        other => timeout(other),
    }));
    assert_eq!(thread.period_ns(), Some(PERIOD));
    assert_eq!((thread.tally.count(), thread.tally.missed), (198, 0));
    assert_eq!((thread.tally.late, thread.perhaps_late), (0, 1));
    // A timeout that is on no grid was no instant of the program.
    let none = (1..50).map(|period| left(period, 30_000));
    assert_eq!(after(none).tally.count(), 0);
}

#[test]
fn what_passes_between_two_sleeps_from_the_clock_may_have_been_served_without_a_call() {
    let sleep = |period: u64, late_ns: u64, armed_after_ns: i64| Wake {
        timer: Timer::Length(0),
        ..wait(period, armed_after_ns, late_ns)
    };
    // Three jobs of 1.1 periods one after the other: each began in time, late by at most 300 µs.
    let burst = |limit_ns, woken_late_ns| {
        let wakes = (1..200).filter(|it| !(101..=103).contains(it));
        let wakes = wakes.map(move |period| match period {
            100 => sleep(100, woken_late_ns, -500_000),
            104 => sleep(104, 10_000, -700_000),
            other => sleep(other, 10_000, -((other * 7919 % 97 * 5_000) as i64)),
        });
        followed_through(limited(limit_ns, &[limit_ns]), wakes)
    };
    let thread = burst(100_000, 10_000);
    assert_eq!(thread.period_ns(), Some(PERIOD));
    assert_eq!((thread.tally.missed, thread.perhaps_late), (0, 3));
    // Woken 2.3 periods late, the first two had no cycle in time.
    let thread = burst(100_000, 2_300_000);
    assert_eq!((thread.tally.missed, thread.perhaps_late), (2, 1));
    assert_eq!(thread.unseen_most_ns(), Some(1_010_000));
}

#[test]
fn a_length_that_passes_while_it_works_may_have_been_late() {
    // `settime(1 ms); work; read`: now and then the work takes longer.
    let turn = |number: u64| {
        let late_ns = match number % 10 {
            3 => 400_000,
            6 => 30_000,
            _ => 10_000,
        };
        let due_ns = BEGIN + number * 1_500_000;
        let worked = matches!(number % 10, 3 | 6);
        Wake {
            end_ns: due_ns + late_ns,
            due_ns: Some(due_ns),
            armed_ns: Some(due_ns - PERIOD),
            next_ns: worked.then_some(due_ns + late_ns + PERIOD),
            timer: Timer::Length(77),
            call: 0,
            ..wait(number, 0, 0)
        }
    };
    let thread = after((1..101).map(turn));
    assert_eq!((thread.tally.count(), thread.tally.late), (90, 0));
    assert_eq!((thread.perhaps_late, thread.tally.missed), (10, 0));
}

#[test]
fn a_timer_that_is_armed_after_its_instant_is_late_by_that_at_least() {
    let armed = |period: u64, after_ns: i64, next_ns: u64| Wake {
        timer: Timer::Object(5),
        armed_ns: (BEGIN + period * PERIOD).checked_add_signed(after_ns),
        rearmed: false,
        ..awake(period, next_ns, period + 1)
    };
    let thread = after((1..100).map(|period| match period {
        // Armed in time, it came for it some time in 2.5 periods of work; for the next ones it came
        // after it had armed the timer.
        50 => armed(50, -900_000, 2_500_000),
        51 => armed(51, 1_500_000, 1_600_000),
        52 => armed(52, 600_000, 700_000),
        other => Wake {
            rearmed: false,
            ..tick(other)
        },
    }));
    assert_eq!((thread.tally.late, thread.perhaps_late), (2, 1));
    assert_eq!(
        (thread.by_timer.max(), thread.tally.missed),
        (Some(1_500_000), 0)
    );
}

#[test]
fn a_periodic_timer_that_is_stopped_and_armed_again_skips_nothing_meanwhile() {
    let stopped = |passed: bool| {
        let ticks = (0..8).flat_map(move |rest| {
            // Forty ticks, then a rest of sixty periods; every second time on the same grid.
            let first = BEGIN + rest * 100 * PERIOD + rest % 2 * 300_000;
            let due = move |number: u64| first + number * PERIOD;
            let ticks = (0..40).map(move |number| Wake {
                due_ns: Some(due(number)),
                end_ns: due(number) + 10_000,
                armed_ns: Some(due(number) - PERIOD + 10_000),
                rearmed: number > 0,
                ..tick(0)
            });
            // One that passes before it is stopped.
            ticks.chain(passed.then(|| Wake {
                due_ns: Some(due(40)),
                end_ns: due(99),
                armed_ns: Some(due(39) + 10_000),
                rearmed: false,
                slept: false,
                next_ns: Some(due(100)),
                ..tick(0)
            }))
        });
        after(ticks)
    };
    let thread = stopped(false);
    assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 0));
    assert_eq!((thread.tally.count(), thread.perhaps_late), (320, 0));
    // Each instant until it is armed again may have been.
    let thread = stopped(true);
    assert_eq!((thread.tally.count(), thread.tally.missed), (320, 0));
    assert_eq!(thread.perhaps_late, 8 * 60);
}

/// Instants so many periods after the beginning, each armed when its work of so many parts of a period is done.
pub(super) fn planned(instants: impl IntoIterator<Item = (u64, u64)>) -> Followed {
    let mut done_ns = 0;
    let wakes = instants.into_iter().map(|(period, work)| {
        let due_ns = BEGIN + period * PERIOD;
        let begun_ns = done_ns;
        let end_ns = due_ns.max(begun_ns) + 10_000;
        done_ns = end_ns + work * PERIOD / 100;
        Wake {
            end_ns,
            waking_ns: end_ns - 5_000,
            armed_ns: Some(begun_ns),
            left_ns: Some(begun_ns + 1_000),
            slept: begun_ns < due_ns,
            ..wait(period, 0, 0)
        }
    });
    after(wakes.collect::<Vec<_>>())
}

#[test]
fn what_a_program_leaves_out_by_its_plan_may_have_been_skipped() {
    // Two instants, then a rest until ten periods later, of which work takes three and a half.
    let pairs = (0..40).flat_map(|turn| [(10 * turn + 1, 20), (10 * turn + 2, 350)]);
    let thread = planned(pairs);
    assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 0));
    assert_eq!((thread.tally.late, thread.perhaps_late), (0, 3 * 39));
    // Two timers, of two and three periods, in one loop that takes each of their instants, if late.
    let timers = (1..200).filter(|it| it % 2 == 0 || it % 3 == 0);
    let thread = planned(timers.map(|it| (it, 130)));
    assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 0));
    // One that skips takes the next.
    let skipping = (1..400).filter(|it| !matches!(it % 20, 6..=8));
    let thread = planned(skipping.map(|it| (it, if it % 20 == 5 { 350 } else { 20 })));
    assert_eq!((thread.tally.missed, thread.perhaps_late), (60, 0));
}

#[test]
fn a_rest_before_another_grid_is_no_skipping_and_work_is() {
    let bursts = |work: u64| {
        // Twenty periods, then thirty and a third.
        let burst = move |turn: u64| {
            let first = BEGIN + turn * 50 * PERIOD + turn * PERIOD / 3;
            (0..20).map(move |number| {
                let due_ns = first + number * PERIOD;
                let begun_ns = match number {
                    0 => due_ns - 500_000,
                    _ => due_ns - 900_000,
                };
                let woken = Wake {
                    due_ns: Some(due_ns),
                    end_ns: due_ns + 10_000,
                    waking_ns: due_ns + 5_000,
                    armed_ns: Some(begun_ns),
                    left_ns: Some(begun_ns + 1_000),
                    ..wait(0, 0, 0)
                };
                // A command came, for which it had waited since the end of the burst before.
                let command = Wake {
                    due_ns: None,
                    armed_ns: None,
                    end_ns: begun_ns - 10_000,
                    waking_ns: begun_ns - 20_000,
                    left_ns: Some(begun_ns - 29 * PERIOD),
                    call: 0,
                    ..woken
                };
                let rests = number == 0 && turn > 0 && work == 0;
                rests.then_some(command).into_iter().chain([woken])
            })
        };
        after((0..6).flat_map(burst).flatten())
    };
    let thread = bursts(0);
    assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 0));
    assert!(thread.perhaps_late >= 5 * 29, "{}", thread.perhaps_late);
    let thread = bursts(1);
    assert!(thread.tally.missed >= 5 * 29, "{}", thread.tally.missed);
}

#[test]
fn a_thread_with_few_instants_may_have_skipped_some() {
    // Nine of twelve: too few for a period.
    let few = |gap: std::ops::Range<u64>| {
        let instants = (1..13).filter(move |it| !gap.contains(it));
        planned(instants.map(|it| (it, if it == 5 { 350 } else { 20 })))
    };
    let thread = few(6..9);
    assert_eq!((thread.period_ns(), thread.tally.missed), (None, 0));
    assert_eq!((thread.tally.count(), thread.perhaps_late), (9, 3));
    // It left them out while it had nothing to do.
    let rests = planned((1..13).filter(|it| !(6..9).contains(it)).map(|it| (it, 20)));
    assert_eq!((rests.tally.count(), rests.perhaps_late), (9, 0));
}

/// A timeout that a program left by arming the next, so long after its instant; and one that was armed so late.
fn left(period: u64, armed_after_ns: i64, after_ns: u64) -> Wake {
    Wake {
        timer: Timer::Object(5),
        armed_ns: (BEGIN + period * PERIOD).checked_add_signed(armed_after_ns),
        rearmed: false,
        ..awake(period, after_ns, period + 1)
    }
}

#[test]
fn a_lateness_with_two_bounds_is_compared_with_each_limit() {
    let thread = |limits_ns: &[u64], armed_after_ns, after_ns| {
        let wakes = (1..200).map(|period| match period {
            150 => left(150, armed_after_ns, after_ns),
            other => Wake {
                rearmed: false,
                ..tick(other)
            },
        });
        let thread = followed_through(limited(1_000_000, limits_ns), wakes);
        (thread.perhaps_late, thread.by_timer.max())
    };
    let deadline_and_percentile = [1_000_000, 100_000];
    // In time for the deadline; nobody knows whether in time for the percentile.
    let known = thread(&deadline_and_percentile, -900_000, 600_000);
    assert_eq!(known, (1, Some(10_000)));
    // Late for the percentile at least; nobody knows whether for the deadline.
    let known = thread(&deadline_and_percentile, 200_000, 1_500_000);
    assert_eq!(known, (1, Some(200_000)));
    let known = thread(&deadline_and_percentile, 200_000, 600_000);
    assert_eq!(known, (0, Some(200_000)));
    // The break value is a limit too, and without a limit it is a figure.
    let known = thread(&[500_000], -900_000, 600_000);
    assert_eq!(known, (1, Some(10_000)));
    assert_eq!(thread(&[], -900_000, 600_000), (0, Some(600_000)));
}

#[test]
fn a_step_of_the_clock_forward_makes_the_waits_late_until_it_has_caught_up() {
    let mut thread = followed();
    for period in 0..100 {
        thread.add_wake_up(&wait(period, -500_000, 10_000));
    }
    // CLOCK_REALTIME is set forward by forty periods: all of these instants have passed.
    for period in 60..100 {
        let at_ns = BEGIN + 100 * PERIOD + (period - 60) * 15_000;
        thread.add_wake_up(&Wake {
            armed_ns: Some(at_ns),
            waking_ns: at_ns + 5_000,
            end_ns: at_ns + 10_000,
            ..wait(period, 0, 0)
        });
    }
    thread.end(BEGIN + 100 * PERIOD);
    assert_eq!((thread.tally.count(), thread.tally.late), (140, 40));
    assert_eq!((thread.tally.missed, thread.period_ns()), (0, Some(PERIOD)));
    // By more than the machine has run: its instants are before time began.
    let before = (-5_i64 * PERIOD as i64) as u64;
    thread.add_wake_up(&Wake {
        due_ns: Some(before),
        ..wait(101, -500_000, 10_000)
    });
    assert_eq!((thread.tally.count(), thread.perhaps_late), (140, 1));
    thread.add_wake_up(&wait(102, -500_000, 10_000));
    assert_eq!(thread.tally.count(), 141);
}

#[test]
fn an_instant_of_a_timer_that_never_woke_the_thread_may_have_been_late() {
    let passed = |period, after_ns| Wake {
        unsure: true,
        ..awake(period, after_ns, period + 1)
    };
    // Overloaded since before the watch: each expires while the thread works.
    let thread = after((1..101).map(|period| passed(period, 700_000)));
    assert_eq!((thread.tally.count(), thread.perhaps_late), (0, 100));
    let thread = after((1..101).map(|period| passed(period, 70_000)));
    assert_eq!((thread.tally.count(), thread.perhaps_late), (0, 0));
}

#[test]
fn what_another_thread_arms_and_a_busy_one_takes_may_have_been_late() {
    let woken = |period: u64, late_ns: u64| Wake {
        timer: Timer::Object(5),
        armed_ns: None,
        rearmed: false,
        ..wait(period, 0, late_ns)
    };
    let at = |late_ns: u64| {
        let wakes = (1..200).filter(|it| !(101..=103).contains(it));
        after(wakes.map(move |it| woken(it, if it == 100 { late_ns } else { 10_000 })))
    };
    let thread = at(10_000);
    assert_eq!(thread.period_ns(), Some(PERIOD));
    assert_eq!((thread.tally.missed, thread.perhaps_late), (0, 3));
    // Woken 2.3 periods late, it was late for the first two.
    let thread = at(2_300_000);
    assert_eq!((thread.tally.missed, thread.perhaps_late), (2, 1));
    // In a stop, and soon after it, it has no instants.
    let mut stopped = followed();
    for period in (1..200).filter(|it| !(101..=103).contains(it)) {
        if period == 104 {
            let instant = |period| BEGIN + period * PERIOD;
            stopped
                .stops
                .add(instant(101) - 100_000, instant(103) - 100_000);
        }
        stopped.add_wake_up(&woken(period, 10_000));
    }
    stopped.end(BEGIN + 199 * PERIOD);
    assert_eq!((stopped.tally.missed, stopped.perhaps_late), (0, 0));
}

#[test]
fn a_thread_that_takes_every_third_instant_of_a_periodic_timer_skips_the_others() {
    // `poll`; work of two and a half periods; `read`.
    let overloaded = |rearmed| {
        let mut thread = followed();
        thread.add_interval(&RepeatingTimer {
            tid: 7,
            at_ns: BEGIN,
            timer: 5,
            interval_ns: PERIOD,
        });
        let third = |turn: u64| Wake {
            call: libc::SYS_ppoll as u32,
            rearmed,
            ..tick(1 + 3 * turn)
        };
        followed_through(thread, (0..60).map(third))
    };
    let thread = overloaded(true);
    assert_eq!(
        (thread.period_ns(), thread.timing()),
        (Some(PERIOD), Timing::Periodic)
    );
    assert_eq!((thread.tally.missed, thread.perhaps_late), (118, 0));
    // One that arms each itself waits for no others.
    let thread = overloaded(false);
    assert_eq!(
        (thread.period_ns(), thread.tally.missed),
        (Some(3 * PERIOD), 0)
    );
}
