//! What a thread leaves behind: a hang until it ends, and timers that are made anew.

use super::armed::planned;
use super::*;
use crate::conduct::watch::compose;
use crate::conduct::watch::paced::Served;
use punctual_trace::watch::PendingWake;

/// A hundred periods on time.
fn on_time() -> Followed {
    let mut thread = followed();
    for period in 1..100 {
        thread.add_wake_up(&wait(period, -500_000, 10_000));
    }
    thread
}

#[test]
fn a_thread_that_hangs_until_it_ends_may_have_been_late_until_then() {
    let mut thread = on_time();
    thread.sleeper.ended_ns = Some(BEGIN + 119 * PERIOD + DEADLINE);
    thread.gone = true;
    thread.end(BEGIN + 500 * PERIOD);
    assert_eq!((thread.tally.missed, thread.perhaps_late), (0, 20));
    // It ended when its loop was over.
    let mut thread = on_time();
    thread.sleeper.ended_ns = Some(BEGIN + 99 * PERIOD + 30_000);
    thread.end(u64::MAX);
    assert_eq!(thread.perhaps_late, 0);
}

#[test]
fn a_thread_is_not_missed_after_it_gave_up_its_priority() {
    // A watch goes on for up to 250 ms after its program has ended, or for as long as it was asked to.
    let given_up = |at_ns, ended_ns| {
        let mut thread = on_time();
        thread.sleeper.unfollowed_ns = Some(at_ns);
        thread.sleeper.ended_ns = ended_ns;
        thread.gone = ended_ns.is_some();
        thread.end(BEGIN + 10_000 * PERIOD);
        (thread.tally.missed, thread.perhaps_late)
    };
    let loop_over_ns = BEGIN + 99 * PERIOD + 30_000;
    // It ends soon after, as a thread of ordinary priority.
    assert_eq!(given_up(loop_over_ns, Some(BEGIN + 100 * PERIOD)), (0, 0));
    // It hung before.
    let hung_ns = BEGIN + 119 * PERIOD + DEADLINE;
    assert_eq!(given_up(hung_ns, Some(hung_ns + 30_000)), (0, 20));
    // Somebody took it away, and it goes on with its loop where nobody looks.
    assert_eq!(given_up(loop_over_ns, None), (0, 9_900));
    let much_later_ns = BEGIN + 599 * PERIOD + DEADLINE;
    assert_eq!(given_up(loop_over_ns, Some(much_later_ns)), (0, 500));
}

#[test]
fn a_thread_is_not_missed_after_its_program_left() {
    let left = |at_ns| {
        let mut thread = on_time();
        thread.sleeper.pending = Some(PendingWake {
            due_ns: Some(BEGIN + 100 * PERIOD),
            waking_ns: BEGIN + 100 * PERIOD,
        });
        thread.sleeper.asleep = true;
        thread.leave(at_ns);
        thread.end(BEGIN + 119 * PERIOD + DEADLINE);
        (thread.tally.late, thread.perhaps_late)
    };
    assert_eq!(left(Some(BEGIN + 99 * PERIOD + 500_000)), (0, 0));
    // If nobody knows since when, each that passed may have been late.
    assert_eq!(left(None), (0, 20));
}

#[test]
fn a_short_stop_in_a_hang_excuses_only_what_was_due_in_it() {
    let mut thread = on_time();
    thread.stops.add(BEGIN + 200 * PERIOD, BEGIN + 205 * PERIOD);
    thread.end(BEGIN + 1099 * PERIOD + DEADLINE);
    // Those from 100 to 1099, but six.
    assert!(
        (980..=995).contains(&thread.perhaps_late),
        "{}",
        thread.perhaps_late
    );
}

#[test]
fn a_hang_counts_though_the_thread_sleeps_more_often_without_a_period() {
    let mut thread = followed();
    for period in 1..100 {
        thread.add_wake_up(&wait(period, -500_000, 10_000));
        for part in 1..3 {
            let due_ns = BEGIN + period * PERIOD + part * 150_000 + period * 97;
            thread.add_wake_up(&Wake {
                due_ns: Some(due_ns),
                end_ns: due_ns + 10_000,
                waking_ns: due_ns + 5_000,
                armed_ns: Some(due_ns - 50_000),
                timer: Timer::Length(0),
                ..wait(period, 0, 0)
            });
        }
    }
    thread.end(BEGIN + 119 * PERIOD + DEADLINE);
    assert_eq!(
        (thread.period_ns(), thread.perhaps_late),
        (Some(PERIOD), 20)
    );
}

#[test]
fn instants_of_a_timer_in_whose_place_another_one_is_made_may_have_been_late() {
    let renewed = |goes_on: bool| {
        let mut thread = followed();
        for turn in 0..6_u64 {
            let timer = if goes_on && turn % 2 == 0 {
                1
            } else {
                turn + 2
            };
            for number in 1..41 {
                // Forty ticks, then thirty periods of work.
                let period = turn * 70 + number;
                thread.add_wake_up(&Wake {
                    timer: Timer::Object(timer as u32),
                    rearmed: number > 1,
                    ..wait(period, -500_000, 10_000)
                });
            }
        }
        thread.end(BEGIN + 391 * PERIOD);
        thread
    };
    let thread = renewed(false);
    assert_eq!((thread.tally.missed, thread.period_ns()), (0, Some(PERIOD)));
    // Of those that passed in each of five pauses the last one was over by less than the deadline.
    assert_eq!(thread.perhaps_late, 5 * 30);
}

#[test]
fn a_program_that_makes_a_timer_for_each_instant_may_have_skipped_some() {
    let mut thread = followed();
    let mut done_ns = BEGIN;
    for period in (1..400_u64).filter(|it| !matches!(it % 20, 6..=8)) {
        let wake = Wake {
            timer: Timer::Object(period as u32),
            armed_ns: Some(done_ns),
            ..wait(period, 0, 10_000)
        };
        thread.add_wake_up(&wake);
        done_ns = wake.end_ns + if period % 20 == 5 { 3_500_000 } else { 20_000 };
    }
    thread.end(BEGIN + 400 * PERIOD);
    assert_eq!((thread.tally.missed, thread.period_ns()), (0, None));
    assert!(
        (57..=60).contains(&thread.perhaps_late),
        "{}",
        thread.perhaps_late
    );
}

#[test]
fn a_timer_has_a_period_however_many_there_were_before() {
    let mut thread = followed();
    for number in 0..20 {
        thread.add_wake_up(&Wake {
            timer: Timer::Object(100 + number),
            ..wait(1 + u64::from(number), -500_000, 10_000)
        });
    }
    for period in (30..400).filter(|it| it % 20 != 6) {
        thread.add_wake_up(&Wake {
            armed_ns: Some(BEGIN + period * PERIOD - 300_000),
            ..tick(period)
        });
    }
    thread.end(BEGIN + 400 * PERIOD);
    // It came back for each of those that passed, late.
    assert_eq!((thread.period_ns(), thread.tally.late), (Some(PERIOD), 18));
}

#[test]
fn the_waits_of_one_cycle_are_no_grid_that_the_next_one_leaves() {
    // At 0 and 3 of ten periods, at 0 and 2: 4 periods of work after the second.
    for second in [3, 2] {
        let cycles = (1..100).flat_map(|cycle| [(10 * cycle, 10), (10 * cycle + second, 400)]);
        let thread = planned(cycles);
        assert_eq!((thread.tally.late, thread.tally.missed), (0, 0), "{second}");
    }
    // Also where the work takes a little longer than all but one of these.
    let work = |cycle: u64| if cycle.is_multiple_of(3) { 400 } else { 650 };
    let thread = planned((1..100).flat_map(|it| [(10 * it, 10), (10 * it + 2, work(it))]));
    assert_eq!((thread.tally.late, thread.tally.missed), (0, 0));
}

#[test]
fn late_jobs_that_end_with_a_yield_may_be_late_wake_ups() {
    let with = |jobs, late_jobs, worst_job_ns| {
        let mut thread = on_time();
        (thread.sleeper.jobs, thread.sleeper.late_jobs) = (jobs, late_jobs);
        thread.sleeper.worst_job_ns = worst_job_ns;
        thread.end(BEGIN + 99 * PERIOD);
        thread.perhaps_late
    };
    // Ninety-nine jobs began with a wake-up.
    assert_eq!(with(199, 120, 5 * PERIOD), 100);
    assert_eq!(with(199, 7, 5 * PERIOD), 7);
    assert_eq!(with(99, 7, 5 * PERIOD), 0);
    assert_eq!(with(199, 7, 1), 0);
}

#[test]
fn what_nobody_took_of_a_timer_that_several_threads_serve_may_have_been_late() {
    let mut served = Served::by(0);
    let mut came = |period: u64| {
        let wake = wait(period, -500_000, 10_000);
        served.instants.add_wake_up(&wake, DEADLINE, BEGIN);
        served.instants.leaps
    };
    // Both in turn, each in time.
    assert_eq!((1..200).map(&mut came).last(), Some(0));
    // One worked for 31 periods and held the other off: the kernel armed it again at 230.5.
    assert_eq!(came(231), 31);
    assert_eq!((232..300).map(&mut came).last(), Some(31));
    // The last one was due at 299, and then both hang.
    let mut thread = followed();
    thread.count_left(&served.instants, BEGIN + 319 * PERIOD + DEADLINE, true);
    assert_eq!(thread.perhaps_late, 31 + 20);
}

#[test]
fn a_hang_of_a_thread_that_shares_a_timer_counts_by_its_other_timers() {
    let hang = |timer| {
        let mut thread = followed();
        thread.share(5);
        for period in 1..100 {
            thread.add_wake_up(&Wake {
                timer,
                ..wait(period, -500_000, 10_000)
            });
        }
        thread.end(BEGIN + 119 * PERIOD + DEADLINE);
        thread.perhaps_late
    };
    assert_eq!(hang(Timer::Instant), 20);
    // What nobody takes of the shared one is counted once, for all who share it.
    assert_eq!(hang(Timer::Object(5)), 0);
}

#[test]
fn a_wake_up_that_has_not_ended_is_late_by_the_end_at_least() {
    let starved = |due_ns: Option<u64>, asleep| {
        let mut thread = followed();
        for period in 1..51 {
            thread.add_wake_up(&Wake {
                due_ns,
                armed_ns: None,
                ..wait(period, 0, 10_000)
            });
        }
        thread.sleeper.asleep = asleep;
        let waking_ns = BEGIN + 60 * PERIOD;
        thread.sleeper.pending = Some(PendingWake { due_ns, waking_ns });
        thread
    };
    let figures = |mut thread: Followed, end_ns| {
        thread.end(end_ns);
        (thread.tally.late, thread.perhaps_late)
    };
    let end_ns = BEGIN + 1000 * PERIOD;
    assert_eq!(figures(starved(None, true), end_ns), (1, 0));
    // It may run: its timer expired before it had gone to sleep, or the kernel does not show all.
    assert_eq!(figures(starved(None, false), end_ns), (0, 1));
    let mut hidden = starved(None, true);
    hidden.sleeper.unseen = 3;
    assert_eq!(figures(hidden, end_ns), (0, 1));
    // Not later than the limit yet; or it ran after the counts were read.
    let soon_ns = BEGIN + 60 * PERIOD + DEADLINE;
    assert_eq!(figures(starved(None, true), soon_ns), (0, 0));
    let mut ran = starved(None, true);
    ran.add_wake_up(&Wake {
        due_ns: None,
        ..wait(60, 0, 20_000)
    });
    assert_eq!(figures(ran, end_ns), (0, 0));
    // A stop is no latency.
    let mut stopped = starved(None, true);
    stopped.stops.add(BEGIN + 60 * PERIOD, end_ns);
    assert_eq!(figures(stopped, end_ns), (0, 0));
    // Of a periodic thread it is the first of those that passed.
    let mut thread = on_time();
    thread.sleeper.asleep = true;
    thread.sleeper.pending = Some(PendingWake {
        due_ns: Some(BEGIN + 100 * PERIOD),
        waking_ns: BEGIN + 100 * PERIOD + 5_000,
    });
    thread.end(BEGIN + 119 * PERIOD + DEADLINE);
    assert_eq!((thread.tally.late, thread.perhaps_late), (1, 19));
    let by = (thread.by_timer.count(), thread.by_timer.max());
    assert_eq!(by, (100, Some(19 * PERIOD + DEADLINE)));
}

#[test]
fn what_may_have_been_late_by_no_more_than_a_time_says_so() {
    // An instant that passed while it was awake, and a timer that it then armed itself.
    let late = |armed_after_ns| {
        let mut thread = limited(5 * PERIOD, &[DEADLINE, 5 * PERIOD]);
        for period in 1..100 {
            thread.add_wake_up(&match period {
                50 => Wake {
                    rearmed: false,
                    ..awake(50, armed_after_ns, 51)
                },
                other => Wake {
                    rearmed: false,
                    ..tick(other)
                },
            });
        }
        thread
    };
    let mut thread = late(600_000);
    assert_eq!(
        (thread.perhaps_late, thread.unseen_most_ns()),
        (1, Some(600_000))
    );
    // It comes no more: 20 instants, the first of them 19.1 ms before the end.
    thread.end(BEGIN + 119 * PERIOD + DEADLINE);
    let most_ns = Some(19 * PERIOD + DEADLINE);
    assert_eq!(
        (thread.perhaps_late, thread.unseen_most_ns()),
        (21, most_ns)
    );
    // What the kernel did not show may have been as late as it likes.
    thread.sleeper.unseen = 1;
    assert_eq!(thread.unseen_most_ns(), None);
    assert_eq!(late(30_000).unseen_most_ns(), None);
}

#[test]
fn what_is_written_after_the_rings_were_emptied_is_not_lost() {
    let mut thread = on_time();
    thread.sleeper.wake_ups = 99;
    thread.await_written();
    // Counted since.
    thread.sleeper.wake_ups = 107;
    assert_eq!((thread.lost(), thread.has_arrived()), (0, false));
    thread.await_written();
    assert_eq!(thread.lost(), 8);
    // One that takes its row in the meantime has lost none of its own.
    let mut ended = on_time();
    ended.sleeper.wake_ups = 99;
    ended.sleeper.ended_ns = Some(BEGIN + 100 * PERIOD);
    ended.await_written();
    let numbers = punctual_trace::capture::numbers::Numbers::default();
    let watched = compose::watched(&ended, None, &numbers);
    let next = followed().sleeper;
    assert_eq!(ended.succeed(watched, next, 0).lost(), 0);
}
