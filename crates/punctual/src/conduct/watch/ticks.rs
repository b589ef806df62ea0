//! The ticks of a program whose runtime stops its threads: a thread that its timer wakes in a pause
//! sleeps again at once, and begins its tick when the pause lets it continue.

use std::collections::VecDeque;

use punctual_record::watch::TickTimes;
use punctual_trace::attribute::waits::common_ns;
use punctual_trace::capture::WakeUpPlace;
use punctual_trace::watch::Wake;

/// A pause is known when it has ended, which may be after the threads continue: the thread that
/// ends it may lose its CPU in between. A late tick waits this long for that.
const SETTLED_NS: u64 = 3_000_000_000;
/// Pauses that are kept for the ticks that wait.
const PAUSES: usize = 1 << 14;
/// Sleeps after a tick's wake-up that are looked at: pauses may follow one another.
const SLEEPS: usize = 8;
/// A thread that is woken checks for a pause within this time, before it returns to its own code: a
/// pause that begins meanwhile holds the tick too.
const RETURN_NS: u64 = 200_000;
/// Late ticks of a thread that wait at the same time.
const WAITING: usize = 1 << 12;

/// No thread of the program continued in this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause {
    pub from_ns: u64,
    pub to_ns: u64,
    /// How much of it the thread that ran it was ready and had no CPU.
    pub waited_ns: u64,
}

/// When a thread left its CPU, was made ready, and ran again.
#[derive(Debug, Clone, Copy)]
struct Sleep {
    left_ns: u64,
    waking_ns: u64,
    end_ns: u64,
    at: WakeUpPlace,
}

/// A tick whose next one is not known yet.
#[derive(Debug)]
struct Tick {
    due_ns: u64,
    woken: Sleep,
    after: Vec<Sleep>,
}

impl Tick {
    fn last(&self) -> &Sleep {
        self.after.last().unwrap_or(&self.woken)
    }
}

/// The ticks of one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadTicks {
    tid: u32,
    now: Option<Tick>,
    waiting: VecDeque<Tick>,
    pub count: u64,
    pub late: u64,
    pub held: u64,
    pub spent: TickTimes,
    pub worst_ns: u64,
    /// More, which may have been late, and were not examined for lack of space.
    pub beyond: u64,
}

/// A tick that began late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LateTick {
    /// The thread's place among those of the watch.
    pub thread: usize,
    pub tid: u32,
    pub at: WakeUpPlace,
    pub due_ns: u64,
    pub begun_ns: u64,
    pub spent: TickTimes,
    /// The pauses in between, in order.
    pub pauses: Vec<(u64, u64)>,
}

/// The ticks of all threads, and the pauses.
#[derive(Debug)]
pub(super) struct Ticks {
    above_ns: u64,
    /// In the order of the threads of the watch; those that aren't the program's stay empty.
    pub threads: Vec<ThreadTicks>,
    pauses: VecDeque<Pause>,
}

impl Ticks {
    pub(super) fn new(above_ns: u64) -> Self {
        Self {
            above_ns,
            threads: Vec::new(),
            pauses: VecDeque::new(),
        }
    }

    /// Adds a pause; they come in the order in which they end.
    pub(super) fn add_pause(&mut self, pause: Pause) {
        if self.pauses.len() >= PAUSES {
            self.pauses.pop_front();
        }
        self.pauses.push_back(pause);
    }

    /// Adds a wake-up of a thread; `due_ns` is the instant of a new wait for its timer.
    pub(super) fn add_wake_up(&mut self, thread: usize, wake: &Wake, due_ns: Option<u64>) {
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, ThreadTicks::default);
        }
        let sleep = Sleep {
            left_ns: wake.left_ns.unwrap_or(wake.waking_ns),
            waking_ns: wake.waking_ns,
            end_ns: wake.end_ns,
            at: WakeUpPlace {
                waking: wake.waking_cpu,
                running: wake.cpu,
            },
        };
        let ticks = &mut self.threads[thread];
        ticks.tid = wake.tid;
        if wake.due_ns.is_none() {
            let now = ticks.now.as_mut();
            if let Some(now) = now.filter(|now| now.after.len() < SLEEPS) {
                now.after.push(sleep);
            }
            return;
        }
        ticks.close(self.above_ns);
        ticks.now = due_ns.map(|due_ns| Tick {
            due_ns,
            woken: sleep,
            after: Vec::new(),
        });
    }

    /// The late ticks of which everything is known by now; at the end, all of them.
    pub(super) fn settle(&mut self, now_ns: u64, end: bool) -> Vec<LateTick> {
        let known_ns = self.pauses.back().map_or(0, |pause| pause.to_ns);
        let known_ns = known_ns.max(now_ns.saturating_sub(SETTLED_NS));
        let mut late = Vec::new();
        for (index, ticks) in self.threads.iter_mut().enumerate() {
            if end {
                ticks.close(self.above_ns);
            }
            while let Some(tick) = ticks.waiting.front() {
                if !end && tick.last().end_ns > known_ns {
                    break;
                }
                let begun = begun(tick, &self.pauses);
                let late_ns = begun.end_ns.saturating_sub(tick.due_ns);
                ticks.worst_ns = ticks.worst_ns.max(late_ns);
                if late_ns > self.above_ns {
                    let found = examined(tick, begun, &self.pauses, (index, ticks.tid));
                    ticks.late += 1;
                    ticks.held += u64::from(begun.end_ns > tick.woken.end_ns);
                    ticks.spent.add(&found.spent);
                    late.push(found);
                }
                ticks.waiting.pop_front();
            }
        }
        let waiting = self.threads.iter().filter_map(|it| {
            let first = it.waiting.front().or(it.now.as_ref())?;
            Some(first.due_ns)
        });
        let oldest_ns = waiting.min().unwrap_or(now_ns).min(now_ns);
        while self
            .pauses
            .front()
            .is_some_and(|pause| pause.to_ns.saturating_add(SETTLED_NS) < oldest_ns)
        {
            self.pauses.pop_front();
        }
        late
    }
}

impl ThreadTicks {
    /// Counts the last tick. It waits only if it may be late.
    fn close(&mut self, above_ns: u64) {
        let Some(tick) = self.now.take() else {
            return;
        };
        let may_be_late = tick.last().end_ns.saturating_sub(tick.due_ns) > above_ns;
        if may_be_late && self.waiting.len() >= WAITING {
            self.beyond += 1;
            return;
        }
        self.count += 1;
        if may_be_late {
            self.waiting.push_back(tick);
        } else {
            let late_ns = tick.woken.end_ns.saturating_sub(tick.due_ns);
            self.worst_ns = self.worst_ns.max(late_ns);
        }
    }
}

/// The wake-up with which a tick began: the timer's, or, if that was in a pause, the one with which
/// the pause let the thread continue. The next pause may have begun by then.
fn begun<'t>(tick: &'t Tick, pauses: &VecDeque<Pause>) -> &'t Sleep {
    let mut begun = &tick.woken;
    for sleep in &tick.after {
        let returns_ns = begun.end_ns.saturating_add(RETURN_NS);
        // The threads are woken before the pause ends.
        let lets_continue = |pause: &Pause| {
            (pause.from_ns <= begun.end_ns || sleep.left_ns <= returns_ns)
                && (pause.from_ns..=pause.to_ns).contains(&sleep.left_ns)
                && sleep.waking_ns <= pause.to_ns
        };
        if !pauses.iter().rev().any(lets_continue) {
            break;
        }
        begun = sleep;
    }
    begun
}

fn examined(
    tick: &Tick,
    begun: &Sleep,
    pauses: &VecDeque<Pause>,
    (thread, tid): (usize, u32),
) -> LateTick {
    let (due_ns, begun_ns) = (tick.due_ns, begun.end_ns);
    let first = pauses.partition_point(|pause| pause.to_ns <= due_ns);
    let within = pauses.range(first..);
    let within: Vec<&Pause> = within.take_while(|it| it.from_ns < begun_ns).collect();
    let spans: Vec<(u64, u64)> = within.iter().map(|it| (it.from_ns, it.to_ns)).collect();
    let waited = within.iter().map(|pause| {
        let seen_ns = common_ns((due_ns, begun_ns), &[(pause.from_ns, pause.to_ns)]);
        let unseen_ns = pause.to_ns.saturating_sub(pause.from_ns) - seen_ns;
        pause.waited_ns.saturating_sub(unseen_ns).min(seen_ns)
    });
    let waited_ns = waited.sum();
    let outside =
        |from: u64, to: u64| to.saturating_sub(from) - common_ns((from, to.max(from)), &spans);
    let sleeps = std::iter::once(&tick.woken).chain(&tick.after);
    let until = sleeps.take_while(|sleep| sleep.end_ns <= begun_ns);
    let ready = until.map(|sleep| outside(sleep.waking_ns.max(due_ns), sleep.end_ns));
    let late_ns = begun_ns.saturating_sub(due_ns);
    let paused_ns = common_ns((due_ns, begun_ns), &spans);
    // Whatever the events say, no part counts twice.
    let ready_ns = ready.sum::<u64>().min(late_ns - paused_ns);
    LateTick {
        thread,
        tid,
        at: begun.at,
        due_ns,
        begun_ns,
        spent: TickTimes {
            paused_ns,
            pause_waited_ns: waited_ns,
            ready_ns,
            rest_ns: late_ns - paused_ns - ready_ns,
        },
        pauses: spans,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_trace::watch::Timer;

    const MS: u64 = 1_000_000;

    /// Left, made ready, ran again; in ms.
    fn wake(left: u64, waking: u64, end: u64, due: Option<u64>) -> Wake {
        Wake {
            tid: 7,
            end_ns: end * MS,
            cpu: 1,
            due_ns: due.map(|it| it * MS),
            waking_ns: waking * MS,
            waking_cpu: 0,
            afresh: false,
            unseen: 0,
            armed_ns: None,
            left_ns: Some(left * MS),
            timer: Timer::Instant,
            call: 202,
            slept: true,
            next_ns: None,
            rearmed: false,
            unsure: false,
        }
    }

    fn tick(ticks: &mut Ticks, left: u64, waking: u64, end: u64, due: u64) {
        let wake = wake(left, waking, end, Some(due));
        ticks.add_wake_up(0, &wake, Some(due * MS));
    }

    fn pause(ticks: &mut Ticks, from: u64, to: u64, waited: u64) {
        ticks.add_pause(Pause {
            from_ns: from * MS,
            to_ns: to * MS,
            waited_ns: waited * MS,
        });
    }

    fn times(paused: u64, waited: u64, ready: u64, rest: u64) -> TickTimes {
        TickTimes {
            paused_ns: paused * MS,
            pause_waited_ns: waited * MS,
            ready_ns: ready * MS,
            rest_ns: rest * MS,
        }
    }

    #[test]
    fn a_tick_that_wakes_in_a_pause_begins_when_the_pause_lets_it_continue() {
        let mut ticks = Ticks::new(MS);
        // Due at 100, in a pause from 90 to 150 of which 20 without a CPU; it goes to sleep at 102,
        // is made ready at 148 and runs at 155.
        tick(&mut ticks, 50, 100, 101, 100);
        ticks.add_wake_up(0, &wake(102, 148, 155, None), None);
        pause(&mut ticks, 90, 150, 20);
        // The next one ends it.
        tick(&mut ticks, 160, 200, 200, 200);
        let late = ticks.settle(200 * MS, false);
        assert!(late.is_empty(), "the pause before 155 may be another");
        pause(&mut ticks, 210, 211, 0);
        let late = ticks.settle(220 * MS, false);
        assert_eq!(late.len(), 1);
        assert_eq!((late[0].due_ns, late[0].begun_ns), (100 * MS, 155 * MS));
        // 10 ms of the pause came before: of its 20 without a CPU at least 10 came after.
        assert_eq!(late[0].spent, times(50, 10, 5, 0));
        assert_eq!(late[0].pauses, [(90 * MS, 150 * MS)]);
        assert_eq!(late[0].spent.total_ns(), 55 * MS);
        let _ = ticks.settle(300 * MS, true);
        let thread = &ticks.threads[0];
        assert_eq!((thread.count, thread.late, thread.held), (2, 1, 1));
        assert_eq!((thread.worst_ns, thread.spent), (55 * MS, late[0].spent));
    }

    #[test]
    fn a_pause_that_begins_in_the_work_of_a_tick_does_not_make_it_late() {
        let mut ticks = Ticks::new(MS);
        tick(&mut ticks, 50, 100, 100, 100);
        pause(&mut ticks, 103, 150, 0);
        ticks.add_wake_up(0, &wake(104, 149, 151, None), None);
        assert!(ticks.settle(500 * MS, true).is_empty());
        let thread = &ticks.threads[0];
        assert_eq!((thread.count, thread.late, thread.worst_ns), (1, 0, 0));
    }

    #[test]
    fn a_pause_that_begins_before_the_thread_returns_to_its_code_holds_its_tick() {
        let mut ticks = Ticks::new(MS);
        tick(&mut ticks, 50, 100, 100, 100);
        ticks.add_pause(Pause {
            from_ns: 100 * MS + 20_000,
            to_ns: 150 * MS,
            waited_ns: 0,
        });
        let mut held = wake(100, 149, 151, None);
        held.left_ns = Some(100 * MS + RETURN_NS);
        ticks.add_wake_up(0, &held, None);
        assert_eq!(ticks.settle(500 * MS, true).len(), 1);
        assert_eq!(
            (ticks.threads[0].held, ticks.threads[0].worst_ns),
            (1, 51 * MS)
        );
    }

    #[test]
    fn a_sleep_that_the_pause_did_not_end_is_the_programs_own() {
        let mut ticks = Ticks::new(MS);
        tick(&mut ticks, 50, 100, 100, 100);
        pause(&mut ticks, 90, 120, 0);
        // Woken long after the pause: it waited for something else.
        ticks.add_wake_up(0, &wake(101, 400, 401, None), None);
        assert!(ticks.settle(500 * MS, true).is_empty());
        assert_eq!(ticks.threads[0].late, 0);
    }

    #[test]
    fn pauses_that_follow_one_another_hold_a_tick_together_and_count_once_each() {
        let mut ticks = Ticks::new(MS);
        tick(&mut ticks, 50, 110, 115, 100);
        ticks.add_wake_up(0, &wake(116, 130, 141, None), None);
        pause(&mut ticks, 105, 131, 26);
        pause(&mut ticks, 140, 170, 0);
        ticks.add_wake_up(0, &wake(142, 168, 172, None), None);
        let late = ticks.settle(500 * MS, true);
        // Up to 105 its timer was late; from 131 to 140 and from 170 on it had no CPU.
        assert_eq!(late[0].spent, times(26 + 30, 26, 9 + 2, 5));
        assert_eq!(late[0].pauses.len(), 2);
        assert_eq!(ticks.threads[0].held, 1);
    }

    #[test]
    fn a_tick_without_a_pause_is_late_for_lack_of_a_cpu() {
        let mut ticks = Ticks::new(MS);
        tick(&mut ticks, 50, 102, 109, 100);
        tick(&mut ticks, 110, 200, 200, 200);
        // No pause comes that says so: after a while none will.
        assert!(ticks.settle(210 * MS, false).is_empty());
        let late = ticks.settle(110 * MS + SETTLED_NS, false);
        assert_eq!(late[0].spent, times(0, 0, 7, 2));
        assert_eq!(ticks.threads[0].held, 0);
    }

    #[test]
    fn memory_stays_bounded_and_what_had_no_room_is_counted() {
        let mut ticks = Ticks::new(MS);
        let made = PAUSES as u64 + 11;
        for at in 0..made {
            tick(&mut ticks, at * 10, at * 10 + 9, at * 10 + 9, at * 10 + 5);
            for _ in 0..2 * SLEEPS {
                ticks.add_wake_up(0, &wake(at * 10 + 9, at * 10 + 9, at * 10 + 9, None), None);
            }
            pause(&mut ticks, at, at + 1, 0);
        }
        let thread = &ticks.threads[0];
        assert_eq!(
            (thread.waiting.len(), ticks.pauses.len()),
            (WAITING, PAUSES)
        );
        let last = thread.now.as_ref().expect("the last one");
        assert_eq!(last.after.len(), SLEEPS);
        assert_eq!(thread.count, WAITING as u64);
        assert_eq!(thread.count + thread.beyond + 1, made, "each is counted");
    }
}
