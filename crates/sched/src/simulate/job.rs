//! A job while it is executed, and what is kept of it.

use crate::model::TaskSet;
use crate::simulate::{Options, Random, Times};

/// One job that was executed, and where its time went. From arrival to finish the times sum up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// Index of its task.
    pub task: usize,
    /// When it arrived; for a released task, when the first task of its chain did.
    pub arrival_ns: u64,
    /// When it was released.
    pub release_ns: u64,
    /// When its first instruction was executed, and its input read.
    pub start_ns: u64,
    /// When its last instruction was executed, and its output written.
    pub finish_ns: u64,
    /// Waiting for the job before it of the same task.
    pub behind_ns: u64,
    /// Executing.
    pub executed_ns: u64,
    /// Suspended by itself.
    pub suspended_ns: u64,
    /// Without runtime of its reservation.
    pub throttled_ns: u64,
    /// Interference, the tick, and the interrupts of releases.
    pub interrupted_ns: u64,
    /// Other tasks at or above its rank, and how long.
    pub preempted: Vec<(usize, u64)>,
    /// Locks, their holders, and how long the holders held it up.
    pub blocked: Vec<(usize, usize, u64)>,
}

impl Job {
    /// From arrival to finish.
    #[must_use]
    pub fn response_ns(&self) -> u64 {
        self.finish_ns - self.arrival_ns
    }

    pub(super) fn preempt(&mut self, by: usize, ns: u64) {
        match self.preempted.iter_mut().find(|one| one.0 == by) {
            Some(one) => one.1 += ns,
            None => self.preempted.push((by, ns)),
        }
    }

    pub(super) fn block(&mut self, lock: usize, holder: usize, ns: u64) {
        match self
            .blocked
            .iter_mut()
            .find(|one| (one.0, one.1) == (lock, holder))
        {
            Some(one) => one.2 += ns,
            None => self.blocked.push((lock, holder, ns)),
        }
    }
}

/// What a job does next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    Compute(u64),
    Locked(usize, u64),
    Suspend(u64),
}

/// A job that isn't finished.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub job: Job,
    /// What is left to do, the next piece last.
    pub pieces: Vec<Piece>,
    pub holds: Option<usize>,
    pub suspended_until: Option<u64>,
    pub started: bool,
    /// Since when it stands in the queue of its rank.
    pub queued_ns: u64,
}

impl Running {
    /// The lock that it has or wants.
    pub fn lock(&self) -> Option<usize> {
        match self.pieces.last() {
            Some(Piece::Locked(lock, _)) => Some(*lock),
            _ => None,
        }
    }

    /// How long it can compute at once.
    pub fn left(&mut self) -> &mut u64 {
        match self.pieces.last_mut() {
            Some(Piece::Compute(left) | Piece::Locked(_, left) | Piece::Suspend(left)) => left,
            None => unreachable!("a job without pieces is finished"),
        }
    }
}

/// The pieces of a job, the first one last: sections, suspensions and what is between them, in
/// random order and, if the options say so, of random length.
pub(super) fn pieces(
    set: &TaskSet,
    task: usize,
    options: &Options,
    random: &mut Random,
) -> Vec<Piece> {
    let (it, of) = (&set.tasks[task], &set.overheads);
    let length = |most: u64, random: &mut Random| match options.execution {
        Times::Most => most,
        Times::Random => random.up_to(most),
    };
    let held: u64 = it.sections.iter().map(|section| section.length_ns).sum();
    let plain = length(it.execution_ns - held, random);
    let mut between: Vec<Piece> = Vec::new();
    for section in &it.sections {
        between.push(Piece::Locked(
            section.lock,
            length(section.length_ns, random).max(1),
        ));
    }
    let count = u64::from(it.suspension.count);
    for _ in 0..count.min(64) {
        between.push(Piece::Suspend(length(
            it.suspension.total_ns / count,
            random,
        )));
    }
    for at in (1..between.len()).rev() {
        between.swap(at, random.up_to(at as u64) as usize);
    }
    let mut cuts: Vec<u64> = between.iter().map(|_| random.up_to(plain)).collect();
    cuts.sort_unstable();
    cuts.push(plain);
    let mut pieces = vec![Piece::Compute(of.wake_ns)];
    let mut from = 0;
    for (at, cut) in cuts.into_iter().enumerate() {
        pieces.push(Piece::Compute(cut - from));
        from = cut;
        match between.get(at) {
            Some(piece @ Piece::Suspend(_)) => {
                pieces.extend([
                    Piece::Compute(of.sleep_ns),
                    *piece,
                    Piece::Compute(of.wake_ns),
                ]);
            }
            Some(piece) => pieces.push(*piece),
            None => {}
        }
    }
    pieces.push(Piece::Compute(of.sleep_ns));
    pieces.retain(|piece| match piece {
        Piece::Compute(ns) | Piece::Locked(_, ns) | Piece::Suspend(ns) => *ns > 0,
    });
    if pieces
        .iter()
        .all(|piece| matches!(piece, Piece::Suspend(_)))
    {
        pieces.push(Piece::Compute(1));
    }
    pieces.reverse();
    pieces
}
