use super::*;
use crate::probe::tally::Halves;
use punctual_record::StopCause;
use punctual_trace::watch::Other;

mod armed;
mod ends;

const PERIOD: u64 = 1_000_000;
const BEGIN: u64 = 1_000_000_000;
const DEADLINE: u64 = 100_000;

fn followed() -> Followed {
    limited(DEADLINE, &[DEADLINE])
}

/// With a deadline, and all that is limited.
fn limited(deadline_ns: u64, limits_ns: &[u64]) -> Followed {
    let sleeper = Sleeper {
        task: Other {
            tid: 7,
            name: "rt-loop".to_owned(),
            policy: 1,
            priority: 39,
        },
        started_ns: 1,
        cpu: Some(0),
        ended_ns: None,
        unfollowed_ns: None,
        killed_by: None,
        wake_ups: 0,
        switches: 0,
        preempted: 0,
        migrations: 0,
        minor_faults: 0,
        major_faults: 0,
        jobs: 0,
        late_jobs: 0,
        worst_job_ns: 0,
        postponed: 0,
        throttles: 0,
        throttled_ns: 0,
        worst_throttle_ns: 0,
        no_room: 0,
        unseen: 0,
        program: 7,
        asleep: false,
        stopped: None,
        pending: None,
    };
    let tally = Tally::new(BEGIN, deadline_ns, Halves::At(u64::MAX), 16);
    let limits = Limits::new(limits_ns.iter().copied());
    Followed::new(sleeper, 0, tally, limits)
}

/// A wait for an instant, armed and ended so long after it.
fn wait(period: u64, armed_after_ns: i64, latency_ns: u64) -> Wake {
    let due_ns = BEGIN + period * PERIOD;
    Wake {
        tid: 7,
        end_ns: due_ns + latency_ns,
        cpu: 0,
        due_ns: Some(due_ns),
        waking_ns: due_ns + latency_ns / 2,
        waking_cpu: 0,
        afresh: false,
        unseen: 0,
        armed_ns: due_ns.checked_add_signed(armed_after_ns),
        left_ns: None,
        timer: Timer::Instant,
        call: 230,
        slept: true,
        next_ns: None,
        rearmed: false,
        unsure: false,
    }
}

fn after(wakes: impl IntoIterator<Item = Wake>) -> Followed {
    followed_through(followed(), wakes)
}

fn followed_through(mut thread: Followed, wakes: impl IntoIterator<Item = Wake>) -> Followed {
    for wake in wakes {
        thread.add_wake_up(&wake);
    }
    let last_ns = thread.last_end_ns;
    thread.end(last_ns);
    assert_eq!(thread.skips.count(), thread.tally.missed);
    let late = thread.skips.later(thread.tally.deadline_ns());
    assert_eq!(late, (thread.tally.missed_late, thread.tally.missed_late));
    thread
}

#[test]
fn periods_that_are_skipped_are_not_on_time_also_before_the_period_is_known() {
    let periods = (1..100).filter(|period| !matches!(period, 3 | 50..=54));
    let thread = after(periods.map(|period| wait(period, -500_000, 10_000)));
    assert_eq!(thread.period_ns(), Some(PERIOD));
    assert_eq!((thread.tally.count(), thread.tally.missed), (93, 6));
    assert_eq!((thread.overruns, thread.tally.late), (0, 0));
    // It was woken in time, and began the next cycle so much later.
    assert_eq!((thread.tally.missed_late, thread.skipped_itself), (6, 6));
    let five = thread.skips.iter().nth(1).expect("two runs of them");
    assert_eq!((five.count, five.most_ns), (5, 5 * PERIOD + 10_000));
    assert_eq!(five.least_ns, PERIOD + 10_000);
    assert_eq!(thread.skips.later(3 * PERIOD), (3, 3));
    assert_eq!(thread.skips.later(5 * PERIOD + 10_000), (0, 0));
}

#[test]
fn a_thread_that_catches_up_comes_late_for_each_instant_that_had_passed() {
    let stall = |period: u64| match period {
        // 3.5 periods of work after instant 50.
        51 => wait(51, 2_500_000, 2_510_000),
        52 => wait(52, 1_520_000, 1_530_000),
        53 => wait(53, 540_000, 550_000),
        other => wait(other, -500_000, 10_000),
    };
    let thread = after((1..100).map(stall));
    assert_eq!((thread.overruns, thread.worst_overrun_ns), (3, 2_490_000));
    assert_eq!((thread.tally.count(), thread.tally.missed), (99, 0));
    assert_eq!((thread.tally.late, thread.tally.missed_late), (3, 0));
    assert_eq!(
        (thread.skipped_itself, thread.by_timer.max()),
        (0, Some(2_510_000))
    );
}

/// An instant that passed while it was awake; it came back for it so much later.
fn awake(period: u64, after_ns: u64, next: u64) -> Wake {
    Wake {
        waking_ns: BEGIN + period * PERIOD + after_ns,
        slept: false,
        next_ns: Some(BEGIN + next * PERIOD),
        end_ns: BEGIN + period * PERIOD + after_ns,
        ..tick(period)
    }
}

/// A wait of the same timer.
fn tick(period: u64) -> Wake {
    Wake {
        timer: Timer::Object(5),
        rearmed: true,
        ..wait(period, -500_000, 10_000)
    }
}

#[test]
fn an_instant_that_passes_while_the_thread_is_awake_is_late_by_when_it_comes_back() {
    let ticks = |period: u64| match period {
        // A message took 30 µs; another one longer than the deadline.
        50 => awake(50, 30_000, 51),
        60 => awake(60, 150_000, 61),
        other => tick(other),
    };
    let thread = after((1..100).map(ticks));
    assert_eq!((thread.tally.count(), thread.tally.missed), (99, 0));
    assert_eq!((thread.tally.late, thread.perhaps_late), (1, 0));
    // One read takes four ticks: three got no cycle of their own, the last one is 20 µs late.
    let merged = (1..100).filter(|period| !matches!(period, 51..=53));
    let thread = after(merged.map(|period| match period {
        50 => awake(50, 3_020_000, 54),
        other => tick(other),
    }));
    assert_eq!((thread.tally.count(), thread.tally.missed), (96, 3));
    assert_eq!((thread.tally.late, thread.skipped_itself), (0, 3));
    let three = thread.skips.iter().next().expect("some");
    assert_eq!((three.most_ns, three.least_ns), (3_020_000, 1_020_000));
}

#[test]
fn a_late_wake_up_of_a_timer_that_is_read_takes_the_last_instant_that_passed() {
    // Woken 3.02 periods late, one read takes four ticks.
    let periods = (1..100).filter(|period| !matches!(period, 51..=53));
    let late = |period| match period {
        50 => Wake {
            end_ns: BEGIN + 53 * PERIOD + 20_000,
            ..tick(50)
        },
        54 => Wake {
            armed_ns: Some(BEGIN + 53 * PERIOD + 21_000),
            ..tick(54)
        },
        other => tick(other),
    };
    let thread = after(periods.clone().map(late));
    assert_eq!((thread.tally.count(), thread.tally.missed), (97, 2));
    assert_eq!((thread.tally.late, thread.skipped_itself), (1, 0));
    // A timer that the program arms for a later instant itself: all three are left out.
    let armed = |period| Wake {
        rearmed: false,
        ..late(period)
    };
    let thread = after(periods.map(armed));
    assert_eq!((thread.tally.count(), thread.tally.missed), (96, 3));
}

#[test]
fn a_program_that_works_before_it_reads_gave_the_last_instant_no_cycle() {
    // Woken on time, it works for 1.9 periods, and then one read takes two ticks: every second one.
    let wakes = (1..200).step_by(2).map(|period| Wake {
        armed_ns: Some(BEGIN + (period - 1) * PERIOD + 900_000),
        call: libc::SYS_epoll_pwait as u32,
        ..tick(period)
    });
    let even = |period| Wake {
        call: libc::SYS_epoll_pwait as u32,
        ..tick(period)
    };
    let odd = (1..40).map(even).chain(wakes.skip(20));
    let thread = after(odd);
    assert_eq!(thread.period_ns(), Some(PERIOD));
    assert_eq!((thread.tally.missed, thread.tally.late), (80, 0));
}

#[test]
fn a_late_wake_up_just_before_the_next_instant_is_one_miss_if_one_call_took_both() {
    // Woken 0.99 periods late; when it takes the ticks, 30 µs later, there are two.
    let late = |call| {
        move |period| match period {
            50 => Wake {
                call,
                end_ns: BEGIN + 50 * PERIOD + 990_000,
                ..tick(50)
            },
            52 => Wake {
                call,
                armed_ns: Some(BEGIN + 51 * PERIOD + 20_000),
                ..tick(52)
            },
            other => tick(other),
        }
    };
    let periods = || (1..100).filter(|period| *period != 51);
    // The call that waited took them.
    let thread = after(periods().map(late(libc::SYS_rt_sigtimedwait as u32)));
    assert_eq!((thread.tally.count(), thread.tally.missed), (99, 0));
    assert_eq!((thread.tally.late, thread.perhaps_late), (1, 0));
    // Another call took them: it may have worked in between.
    let thread = after(periods().map(late(libc::SYS_epoll_pwait as u32)));
    assert_eq!((thread.tally.count(), thread.tally.missed), (98, 0));
    assert_eq!((thread.tally.late, thread.perhaps_late), (1, 1));
}

#[test]
fn instants_while_a_thread_was_not_followed_are_not_skipped() {
    let periods = || (1..100).chain(500..600);
    let again = |afresh| {
        move |period| Wake {
            afresh: afresh && period == 500,
            ..wait(period, -500_000, 10_000)
        }
    };
    let thread = after(periods().map(again(true)));
    assert_eq!((thread.tally.count(), thread.tally.missed), (199, 0));
    assert_eq!(thread.period_ns(), Some(PERIOD));
    let thread = after(periods().map(again(false)));
    assert_eq!((thread.tally.count(), thread.tally.missed), (199, 400));
}

#[test]
fn instants_of_a_timer_that_others_serve_too_are_not_skipped() {
    let mut thread = followed();
    thread.share(5);
    for period in (1..100).step_by(3) {
        thread.add_wake_up(&tick(period));
    }
    thread.end(BEGIN + 100 * PERIOD);
    assert_eq!((thread.tally.count(), thread.tally.missed), (33, 0));
    assert_eq!(thread.perhaps_late, 0);
}

#[test]
fn instants_before_the_end_for_which_a_thread_did_not_come_may_be_late() {
    let mut thread = followed();
    for period in 1..100 {
        thread.add_wake_up(&wait(period, -500_000, 10_000));
    }
    // The last one was due at 99 periods. Those due at 100 to 119 are over by 100 µs, their deadline.
    thread.end(BEGIN + 119 * PERIOD + DEADLINE);
    assert_eq!((thread.tally.missed, thread.perhaps_late), (0, 20));
    let mut ended = followed();
    for period in 1..100 {
        ended.add_wake_up(&wait(period, -500_000, 10_000));
    }
    ended.gone = true;
    ended.end(BEGIN + 200 * PERIOD);
    assert_eq!(ended.perhaps_late, 0);
}

#[test]
fn what_one_read_leaves_out_counts_before_the_period_is_known_too() {
    // Fifteen instants are too few for a period.
    let one = awake(3, 30_000, 4);
    let more = awake(8, 2_050_000, 11);
    let ticks = [
        tick(1),
        tick(2),
        one,
        tick(4),
        tick(5),
        tick(6),
        tick(7),
        more,
    ];
    let thread = after(ticks.into_iter().chain((11..15).map(tick)));
    assert_eq!(thread.period_ns(), None);
    assert_eq!((thread.tally.missed, thread.skipped_itself), (2, 2));
    assert_eq!((thread.tally.count(), thread.tally.late), (12, 0));
    // Where it becomes known later, they do not count again.
    let thread = after(
        [
            tick(1),
            tick(2),
            awake(3, 30_000, 4),
            tick(4),
            tick(5),
            tick(6),
            tick(7),
            awake(8, 2_050_000, 11),
        ]
        .into_iter()
        .chain((11..60).map(tick)),
    );
    assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 2));
}

#[test]
fn a_wait_that_begins_late_after_a_late_wake_up_has_not_overrun() {
    // Woken 1.8 periods late, it makes up for it in two cycles of half a period's work.
    let late = |period: u64| match period {
        50 => wait(50, -500_000, 1_800_000),
        51 => wait(51, 1_300_000, 1_310_000),
        52 => wait(52, 810_000, 820_000),
        53 => wait(53, 320_000, 330_000),
        other => wait(other, -500_000, 10_000),
    };
    let thread = after((1..100).map(late));
    assert_eq!((thread.overruns, thread.skipped_itself), (0, 0));
    // As late, and then it works for two periods: one of them made it late by itself, and the
    // cycle after would have caught up with that.
    let both = |period: u64| match period {
        50 => wait(50, -500_000, 1_800_000),
        51 => wait(51, 2_800_000, 2_810_000),
        52 => wait(52, 1_900_000, 1_910_000),
        53 => wait(53, 1_000_000, 1_010_000),
        54 => wait(54, 100_000, 110_000),
        other => wait(other, -500_000, 10_000),
    };
    let thread = after((1..100).map(both));
    assert_eq!((thread.overruns, thread.worst_overrun_ns), (2, 1_000_000));
}

#[test]
fn a_wait_that_begins_late_after_a_stop_has_not_overrun() {
    // Stopped from 0.2 periods after instant 50 on for 300, then each wait takes 0.05: those for the next
    // 315 instants begin late.
    let mut thread = followed();
    let (from_ns, to_ns) = (BEGIN + 50_200_000, BEGIN + 350_200_000);
    for period in 1..500 {
        if period == 51 {
            thread.add_stop(&StoppedThread {
                tid: 7,
                from_ns,
                to_ns,
                end_ns: to_ns + 1_000,
                cause: StopCause::Signal,
            });
        }
        let late = 300_200_000 - 950_000 * (period as i64 - 50);
        thread.add_wake_up(&match late {
            1.. if period > 50 => wait(period, late, late.unsigned_abs() + 40_000),
            _ => wait(period, -500_000, 10_000),
        });
    }
    thread.end(0);
    // It came late for instants that were due after the stop because of it, and not by itself.
    assert_eq!((thread.tally.late, thread.tally.missed), (15, 0));
    assert_eq!(thread.stops.cycles + thread.tally.count(), 499);
    assert_eq!((thread.overruns, thread.skipped_itself), (0, 0));
    assert_eq!(thread.worst_overrun_ns, 0);
}

#[test]
fn a_late_wake_up_skips_periods_that_the_thread_is_not_to_blame_for() {
    let periods = (1..100).filter(|period| !matches!(period, 51..=54));
    let late = |period| match period {
        50 => wait(50, -500_000, 4_300_000),
        other => wait(other, -500_000, 10_000),
    };
    let thread = after(periods.map(late));
    assert_eq!((thread.tally.late, thread.tally.missed), (1, 4));
    assert_eq!(thread.skipped_itself, 0);
    // As late as it woke: 3.3, 2.3, 1.3 and 0.3 ms.
    assert_eq!(thread.skips.later(2 * PERIOD), (2, 2));
    assert_eq!(thread.tally.missed_late, 4);
}

#[test]
fn a_period_whose_wake_up_went_unseen_is_not_skipped() {
    let periods = (1..100).filter(|period| !matches!(period, 50 | 60 | 61));
    let thread = after(periods.map(|period| Wake {
        // Of the two before 62 one went unseen.
        unseen: u64::from(matches!(period, 51 | 62)),
        ..wait(period, -500_000, 10_000)
    }));
    assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 1));
    // Another wake-up came first.
    let mut thread = followed();
    for period in (1..100).filter(|period| *period != 50) {
        if period == 51 {
            thread.add_wake_up(&Wake {
                due_ns: None,
                unseen: 1,
                ..wait(50, 0, 500_000)
            });
        }
        thread.add_wake_up(&wait(period, -500_000, 10_000));
    }
    thread.end(0);
    assert_eq!((thread.tally.count(), thread.tally.missed), (99, 0));
}

#[test]
fn sleeps_for_a_length_of_time_have_no_period_though_they_repeat() {
    let wakes = (1..200).map(|period| {
        let long = if period > 150 { 40 } else { 0 };
        Wake {
            timer: Timer::Length(0),
            ..wait(period + long, -900_000, 10_000)
        }
    });
    let thread = after(wakes);
    assert_eq!(
        (thread.period_ns(), thread.timing()),
        (None, Timing::Lengths)
    );
    assert_eq!((thread.tally.count(), thread.tally.missed), (199, 0));
}

#[test]
fn instants_on_no_grid_have_no_period_and_none_is_skipped() {
    // Until a length after the clock's reading: absolute, and no rhythm.
    let mut at = 0;
    let wakes = (1..400_u64).map(|turn| {
        at += 1_050_000 + turn * turn % 2_003 + if turn % 50 == 7 { 30_000_000 } else { 0 };
        let due_ns = BEGIN + at;
        Wake {
            due_ns: Some(due_ns),
            end_ns: due_ns + 10_000,
            armed_ns: Some(due_ns - 1_000_000),
            ..wait(1, 0, 0)
        }
    });
    let thread = after(wakes.collect::<Vec<_>>());
    assert_eq!(
        (thread.period_ns(), thread.timing()),
        (None, Timing::Irregular)
    );
    assert_eq!(thread.tally.missed, 0);
}

#[test]
fn a_thread_that_rests_on_purpose_skips_nothing() {
    // 1 ms while there is work, and 100 ms while there is none.
    let resting = (0..50).map(|turn| wait(200 + 100 * turn, -99_500_000, 10_000));
    let thread = after((1..101).map(|it| wait(it, -500_000, 10_000)).chain(resting));
    assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 0));
}

#[test]
fn two_timers_that_one_call_waits_for_are_told_apart() {
    let each = |number: u32, every: u64| {
        let due = move |turn: u64| wait(turn * every, -1, 10_000 + u64::from(number));
        (1..400 / every).map(move |turn| Wake {
            timer: Timer::Object(number),
            armed_ns: None,
            ..due(turn)
        })
    };
    let mut wakes: Vec<Wake> = each(1, 3).chain(each(2, 7)).collect();
    wakes.sort_by_key(|wake| wake.end_ns);
    wakes.dedup_by_key(|wake| wake.due_ns);
    wakes.retain(|wake| wake.due_ns.is_some_and(|it| it % 21 != 0));
    let thread = after(wakes);
    assert_eq!(thread.period_ns(), Some(3 * PERIOD));
}

#[test]
fn other_wake_ups_are_samples_of_their_own_kind_and_the_order_stays() {
    let wakes = (1..60).flat_map(|period| {
        let timed = wait(period, -500_000, 10_000);
        let other = Wake {
            due_ns: None,
            armed_ns: None,
            waking_ns: timed.end_ns + 200_000,
            end_ns: timed.end_ns + 230_000,
            call: 0,
            ..timed
        };
        [timed, other]
    });
    let thread = after(wakes);
    assert_eq!(
        (thread.by_timer.count(), thread.by_others.count()),
        (59, 59)
    );
    assert_eq!((thread.tally.count(), thread.tally.missed), (118, 0));
    assert_eq!(thread.by_others.max(), Some(30_000));
}

#[test]
fn a_wait_for_what_it_had_before_is_none_and_memory_stays_bounded() {
    let mut thread = followed();
    for _ in 0..10_000 {
        thread.add_wake_up(&wait(1, -1, 10_000));
    }
    thread.end(0);
    assert_eq!((thread.tally.count(), thread.received), (1, 10_000));
    for number in 0..1000 {
        let mut wake = wait(2 + number, -1, 10_000);
        wake.call = number as u32;
        thread.add_wake_up(&wake);
    }
    assert!(thread.rhythms.len() <= RHYTHMS);
    assert!(thread.rhythms.values().all(|it| it.gaps.len() <= GAPS));
}
