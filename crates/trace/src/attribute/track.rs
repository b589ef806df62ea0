//! What each thread did at each instant, and where: it ran on a CPU, or stood in its queue; and who
//! held the locks that it waited for.

use std::collections::BTreeMap;

use super::event::{Event, FUTEX, Kind, Task};

/// A thread that is about to leave its CPU may be woken; the switch away follows.
pub const CROSSING_NS: u64 = 100_000;

/// Waits for futexes that are told apart: a window of a machine has far fewer.
const WAITS: usize = 4096;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Running,
    Ready,
    /// With the kernel's number for its state; absent if it slept before anything was seen of it: for what is
    /// not known.
    Asleep(Option<u64>),
}

/// From when on a thread does something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub from: u64,
    pub doing: Doing,
    /// The CPU that it runs on or whose queue it is in.
    pub cpu: u32,
    /// The wait for a futex that begins here, among all of them.
    pub wait: Option<usize>,
}

/// A thread slept for a futex.
#[derive(Debug, Clone, Copy)]
pub(super) struct FutexWait<'w> {
    pub address: u64,
    tid: u32,
    from: u64,
    /// Absent if that was not seen.
    to: Option<u64>,
    /// The holder as the kernel knows it: of a lock with priority inheritance.
    holder: Option<&'w Task>,
    /// The thread that ended the wait.
    waker: Option<&'w Task>,
}

/// A thread held a lock at least until an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenure<'w> {
    pub to: u64,
    pub holder: Option<&'w Task>,
}

/// The threads of a window.
#[derive(Debug, Default)]
pub(super) struct Tracks<'w> {
    threads: BTreeMap<u32, Vec<Turn>>,
    tasks: BTreeMap<u32, &'w Task>,
    waits: Vec<FutexWait<'w>>,
}

impl<'w> Tracks<'w> {
    /// From events in order. `probe`: a thread that is known to run on a CPU at an instant; what it
    /// did before is left out.
    pub(super) fn from_events(events: &[&'w Event], probe: u32, (cpu, at): (u32, u64)) -> Self {
        let mut tracks = Self::default();
        tracks.begin(probe, 0, Doing::Running, cpu);
        let earlier = |tid: u32, at_ns: u64| tid == probe && at_ns < at;
        // A thread that goes to sleep for a futex reports that just before it leaves its CPU.
        let mut pending: BTreeMap<u32, (u64, Option<&Task>)> = BTreeMap::new();
        let mut early: BTreeMap<u32, u64> = BTreeMap::new();
        for event in events {
            let (at, cpu) = (event.at_ns, event.cpu);
            match &event.kind {
                Kind::LockWait {
                    lock,
                    holder,
                    flags,
                } if flags & FUTEX != 0 => {
                    pending.insert(cpu, (*lock, holder.as_ref()));
                }
                Kind::Switch {
                    from,
                    from_state,
                    preempted,
                    to,
                } => {
                    let futex = pending.remove(&cpu);
                    if from.tid != 0 && !earlier(from.tid, at) {
                        tracks.tasks.entry(from.tid).or_insert(from);
                        let woken = early.remove(&from.tid);
                        let crossed = woken.is_some_and(|it| it.saturating_add(CROSSING_NS) >= at);
                        let doing = match *from_state {
                            0 => Doing::Ready,
                            _ if *preempted || crossed => Doing::Ready,
                            state => Doing::Asleep(Some(state)),
                        };
                        tracks.leave(from.tid, at, cpu, doing, futex);
                    }
                    if to.tid != 0 && !earlier(to.tid, at) {
                        tracks.tasks.insert(to.tid, to);
                        if !tracks.threads.contains_key(&to.tid) {
                            tracks.begin(to.tid, 0, Doing::Ready, cpu);
                        }
                        tracks.begin(to.tid, at, Doing::Running, cpu);
                    }
                }
                Kind::Waking { tid, .. } | Kind::Migrate { tid, .. } if earlier(*tid, at) => {}
                Kind::Waking { tid, by } => match tracks.last(*tid).map(|turn| turn.doing) {
                    Some(Doing::Running) => {
                        early.insert(*tid, at);
                    }
                    Some(Doing::Ready) => {}
                    Some(Doing::Asleep(_)) => tracks.wake(*tid, at, by.as_ref()),
                    None => {
                        tracks.begin(*tid, 0, Doing::Asleep(None), cpu);
                        tracks.begin(*tid, at, Doing::Ready, cpu);
                    }
                },
                Kind::Migrate { tid, to_cpu, .. } => {
                    if let Some(last) = tracks.last(*tid).copied()
                        && last.doing != Doing::Running
                    {
                        let moved = Turn {
                            from: at,
                            cpu: *to_cpu,
                            ..last
                        };
                        tracks.threads.entry(*tid).or_default().push(moved);
                    }
                }
                _ => {}
            }
        }
        tracks
    }

    fn last(&self, tid: u32) -> Option<&Turn> {
        self.threads.get(&tid)?.last()
    }

    fn begin(&mut self, tid: u32, from: u64, doing: Doing, cpu: u32) {
        let turn = Turn {
            from,
            doing,
            cpu,
            wait: None,
        };
        self.threads.entry(tid).or_default().push(turn);
    }

    fn leave(
        &mut self,
        tid: u32,
        at: u64,
        cpu: u32,
        doing: Doing,
        futex: Option<(u64, Option<&'w Task>)>,
    ) {
        if !self.threads.contains_key(&tid) {
            self.begin(tid, 0, Doing::Running, cpu);
        }
        let asleep = matches!(doing, Doing::Asleep(_));
        let known = asleep && self.waits.len() < WAITS;
        let wait = futex.filter(|_| known).map(|(address, holder)| {
            self.waits.push(FutexWait {
                address,
                tid,
                from: at,
                to: None,
                holder,
                waker: None,
            });
            self.waits.len() - 1
        });
        let turn = Turn {
            from: at,
            doing,
            cpu,
            wait,
        };
        self.threads.entry(tid).or_default().push(turn);
    }

    fn wake(&mut self, tid: u32, at: u64, by: Option<&'w Task>) {
        let Some(last) = self.last(tid).copied() else {
            return;
        };
        if let Some(wait) = last.wait.and_then(|wait| self.waits.get_mut(wait)) {
            (wait.to, wait.waker) = (Some(at), by.filter(|by| by.tid != tid));
        }
        self.begin(tid, at, Doing::Ready, last.cpu);
    }

    /// What a thread did between two instants, in order and without a gap: from when to when, and
    /// what. Empty if it was never seen.
    pub(super) fn between(&self, tid: u32, from: u64, to: u64) -> Vec<(u64, u64, Turn)> {
        let turns = self.threads.get(&tid).map_or(&[][..], |turns| turns);
        let first = turns.partition_point(|turn| turn.from <= from);
        let Some(first) = first.checked_sub(1) else {
            return Vec::new();
        };
        let mut stretches = Vec::new();
        for (index, turn) in turns.iter().enumerate().skip(first) {
            let begin = turn.from.max(from);
            let end = turns.get(index + 1).map_or(to, |next| next.from).min(to);
            if begin < end {
                stretches.push((begin, end, *turn));
            }
            if end >= to {
                break;
            }
        }
        stretches
    }

    /// The wait that a turn belongs to.
    pub(super) fn wait(&self, turn: &Turn) -> Option<&FutexWait<'w>> {
        self.waits.get(turn.wait?)
    }

    /// Who held the lock of a wait, one after the other, up to its end or an instant. A thread that
    /// wakes one of those that wait has just released the lock; between two such wakings it belonged
    /// to the second of them.
    pub(super) fn tenures(&self, wait: &FutexWait<'w>, until: u64) -> Vec<Tenure<'w>> {
        let end = wait.to.unwrap_or(until);
        let handed = self.waits.iter().filter(|other| {
            other.address == wait.address
                && other.tid != wait.tid
                && other.to.is_some_and(|to| wait.from < to && to < end)
        });
        let mut handed: Vec<&FutexWait<'w>> = handed.collect();
        handed.sort_by_key(|other| other.to);
        let mut tenures = Vec::new();
        let mut next = wait.holder;
        for other in handed {
            tenures.push(Tenure {
                to: other.to.unwrap_or(end),
                holder: match tenures.is_empty() {
                    true => next.or(other.waker),
                    false => other.waker.or(next),
                },
            });
            next = self.tasks.get(&other.tid).copied();
        }
        tenures.push(Tenure {
            to: end.max(until),
            holder: match tenures.is_empty() {
                true => next.or(wait.waker),
                false => wait.waker.or(next),
            },
        });
        tenures
    }

    /// Who holds the lock of a wait at an instant.
    pub(super) fn holder(&self, wait: &FutexWait<'w>, at: u64) -> Option<&'w Task> {
        let tenures = self.tenures(wait, at);
        tenures
            .iter()
            .find(|it| at < it.to)
            .or(tenures.last())?
            .holder
    }
}
