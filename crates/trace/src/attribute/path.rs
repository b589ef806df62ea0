//! Where the time of a job is looked for: on the CPU on which its thread runs or is queued; while it
//! waits for a lock, on the CPU of the thread that holds it.

use super::classify::{Attribution, Context, asleep, lock_cause};
use super::event::{Event, Task, Window};
use super::naming;
use super::stages::{ProbeHistory, ProbeState};
use super::timeline::{Layer, Slice};
use super::track::{Doing, Tracks, Turn};
use punctual_record::explanation::{Cause, Meanwhile, SLEPT_EARLIER, SpanLabel};

/// What decides a stretch of a job's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum On<'w> {
    /// What ran on the CPU of its thread.
    Itself,
    /// Its thread was on a CPU that isn't known.
    Unseen,
    /// What ran on the CPU of the thread that holds the lock it waits for.
    Holder(Held<'w>),
    /// One cause, whatever ran.
    Fixed(Cause),
}

/// A lock that the thread waits for, and who holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held<'w> {
    lock: u64,
    holder: &'w Task,
}

/// A stretch of a job's time.
#[derive(Debug, Clone)]
pub(super) struct Stretch<'w> {
    pub from: u64,
    pub to: u64,
    pub cpu: u32,
    pub on: On<'w>,
}

/// The stretches of a job in order, without a gap.
pub(super) fn of_job<'w>(
    window: &'w Window,
    events: &[&'w Event],
    history: &ProbeHistory<'w>,
) -> Vec<Stretch<'w>> {
    let (from, to) = (window.due_ns, window.woken_ns.max(window.due_ns));
    let probe = window.probe.tid;
    let whole = Stretch {
        from,
        to,
        cpu: window.cpu,
        on: On::Itself,
    };
    // Where events are missing, what is known of other threads may be wrong.
    if window.lost > 0 {
        return vec![whole];
    }
    let tracks = Tracks::from_events(events, probe, (window.cpu, from));
    let mut stretches: Vec<Stretch<'w>> = Vec::new();
    for (from, to, turn) in tracks.between(probe, from, to) {
        let own = Stretch {
            from,
            to,
            cpu: turn.cpu,
            on: On::Itself,
        };
        match (turn.doing, tracks.wait(&turn)) {
            (Doing::Asleep(_), Some(_)) => blocked(window, &tracks, &turn, own, &mut stretches),
            (Doing::Asleep(_), None) => {
                // Its own sleep, a fault, a lock of the kernel.
                let on = match history.state_at(from).0 {
                    Some(ProbeState::Asleep(sleep)) => On::Fixed(asleep(sleep, window).0),
                    _ => On::Itself,
                };
                stretches.push(Stretch { on, ..own });
            }
            _ => stretches.push(own),
        }
    }
    match stretches.is_empty() {
        true => vec![whole],
        false => stretches,
    }
}

/// It waits for a lock: its holders one after the other, and what each of them did.
fn blocked<'w>(
    window: &'w Window,
    tracks: &Tracks<'w>,
    turn: &Turn,
    own: Stretch<'w>,
    stretches: &mut Vec<Stretch<'w>>,
) {
    let Some(wait) = tracks.wait(turn) else {
        return;
    };
    let mut at = own.from;
    for tenure in tracks.tenures(wait, own.to) {
        let until = tenure.to.min(own.to);
        if at >= until {
            continue;
        }
        let seen = tenure
            .holder
            .map(|holder| (holder, tracks.between(holder.tid, at, until)));
        let Some((holder, seen)) = seen.filter(|(_, seen)| !seen.is_empty()) else {
            stretches.push(Stretch {
                from: at,
                to: until,
                cpu: own.cpu,
                on: On::Fixed(lock_cause(wait.address, tenure.holder, window)),
            });
            at = until;
            continue;
        };
        // It was seen from some instant on.
        for (from, to, doing) in seen {
            let on = match (doing.doing, tracks.wait(&doing)) {
                (Doing::Running | Doing::Ready, _) => On::Holder(Held {
                    lock: wait.address,
                    holder,
                }),
                (Doing::Asleep(_), Some(other)) => {
                    let by = tracks.holder(other, from);
                    let meanwhile = Meanwhile::Blocked {
                        lock: naming::symbol(window, other.address),
                        holder: by.map(|by| naming::bounded(&by.name)),
                    };
                    On::Fixed(with(
                        lock_cause(wait.address, Some(holder), window),
                        meanwhile,
                    ))
                }
                (Doing::Asleep(state), None) => {
                    let meanwhile = Meanwhile::Slept {
                        state: match state {
                            Some(_) => naming::sleep(state),
                            // Perhaps for another lock.
                            None => SLEPT_EARLIER.to_owned(),
                        },
                    };
                    On::Fixed(with(
                        lock_cause(wait.address, Some(holder), window),
                        meanwhile,
                    ))
                }
            };
            stretches.push(Stretch {
                from,
                to,
                cpu: doing.cpu,
                on,
            });
        }
        at = until;
    }
}

/// The waits for locks of a job: from when to when, for which, and who held it.
pub(super) fn lock_waits(window: &Window, path: &[Stretch<'_>]) -> Vec<(u64, u64, SpanLabel)> {
    let mut waits: Vec<(u64, u64, SpanLabel)> = Vec::new();
    for stretch in path {
        let (lock, holder) = match &stretch.on {
            On::Holder(held) => (
                naming::symbol(window, held.lock),
                Some(naming::bounded(&held.holder.name)),
            ),
            On::Fixed(Cause::Lock { lock, holder, .. }) => (lock.clone(), holder.clone()),
            On::Fixed(Cause::Inversion { lock, holder, .. }) => {
                (lock.clone(), Some(holder.clone()))
            }
            On::Fixed(_) | On::Itself | On::Unseen => continue,
        };
        let label = SpanLabel::LockWait { lock, holder };
        match waits.last_mut() {
            Some(last) if last.1 == stretch.from && last.2 == label => last.1 = stretch.to,
            _ => waits.push((stretch.from, stretch.to, label)),
        }
    }
    waits
}

/// A lock as a cause, with what its holder did.
fn with(cause: Cause, did: Meanwhile) -> Cause {
    match cause {
        Cause::Inversion { lock, holder, .. } => Cause::Inversion {
            lock,
            holder,
            meanwhile: Some(did),
        },
        Cause::Lock { lock, holder, .. } => Cause::Lock {
            lock,
            holder,
            meanwhile: Some(did),
        },
        other => other,
    }
}

/// The cause of a stretch of the holder's CPU.
pub(super) fn classify_held<'w>(
    context: &Context<'_, 'w>,
    slice: &Slice<'w>,
    held: &Held<'w>,
) -> Attribution {
    let window = context.window;
    let waits = || lock_cause(held.lock, Some(held.holder), window);
    if slice.blind {
        // That it waited is known from its own CPU.
        return (waits(), Vec::new());
    }
    let thread = match slice.layer {
        Layer::Thread => slice.thread,
        Layer::Softirq(_) if window.preempt_rt => slice.thread,
        layer => match naming::interrupt(window, layer) {
            Some(cause) => return (cause, Vec::new()),
            None => slice.thread,
        },
    };
    let did = match thread {
        Some(thread) if thread.tid == held.holder.tid => Meanwhile::Ran,
        Some(thread) if thread.tid != 0 => Meanwhile::Preempted {
            task: naming::bounded(&thread.name),
            policy: naming::policy(thread),
            priority: naming::priority(thread),
        },
        _ => return (waits(), Vec::new()),
    };
    (with(waits(), did), Vec::new())
}
