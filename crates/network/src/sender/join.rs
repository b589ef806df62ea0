//! Brings together what both threads report of each message: pure, and fed in any order within a
//! message's time.
//!
//! What became of messages comes out in the order in which they were sent. The worst exchanges are
//! kept with their stages.

mod drops;
mod kept;
mod launched;
mod replies;

use std::collections::VecDeque;

use punctual_record::path::bill::MessageBills;
use punctual_record::path::{Lateness, LaunchCounts, OneWay, PathCounts};
use punctual_stats::histogram::Histogram;

use super::{Launch, Reading, Received, Sent, Stamped};
use crate::ancillary::SentStage;
use crate::bill::{self, Keeper};
use crate::exchange::{Exchange, SentStages, TcpCounters};
use crate::wire::delays::PeerDelay;
use crate::wire::limits::LEAST_INTERVAL_NS;
use drops::Drops;
pub use kept::Kept;

/// Messages whose fate or stages may be unknown at a time; more are given up.
const MOST_PENDING: usize = 1 << 17;
/// What is not joined yet may be that old: a round of joining may come late.
const UNJOINED_NS: u64 = 100_000_000;
/// A message's stages are complete when so many later ones have replies, or after [`SETTLE_NS`].
const LATER: u64 = 3;
/// As [`LATER`].
const SETTLE_NS: u64 = 2_000_000_000;
/// Lost messages that are remembered, to recognise a reply after the time-out.
const REMEMBERED: usize = 1 << 12;
/// How long after its time-out the reply to a lost message may yet come, and be dropped.
const LATE_REPLY_NS: u64 = 5_000_000_000;
/// A change of CLOCK_REALTIME below this is the cost of reading it.
const STEP_NS: u64 = 100_000;

/// The longest time-out for which there is room, of messages that are sent in bursts: all that are sent while one waits
/// for its reply wait with it. An eighth of the room is kept for what comes late. No thread sends more than one each µs.
#[must_use]
pub fn longest_timeout_ns(interval_ns: u64, burst: u32) -> u64 {
    let (room, burst) = (MOST_PENDING as u64 / 8 * 7, u64::from(burst.max(1)));
    let interval_ns = interval_ns.max(burst * LEAST_INTERVAL_NS);
    let room_ns = room.saturating_mul(interval_ns) / burst;
    room_ns.saturating_sub(UNJOINED_NS)
}

/// A message that was lost, whose reply may yet come.
struct Lost {
    sequence: u64,
    requested_ns: u64,
    /// Whether it is of the measurement, and not of its warm-up.
    counts: bool,
    /// Whether its reply is taken to be among those that the socket dropped.
    is_dropped: bool,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// The instant at which it was to be sent.
    pub requested_ns: u64,
    /// When its reply was in user space; absent if it is lost.
    pub replied_ns: Option<u64>,
    /// Messages that were skipped after it.
    pub skipped_after: u64,
    /// Its reply came, and this machine dropped it: how late it was is not known, and the path lost nothing.
    pub dropped_here: bool,
}

struct Pending {
    exchange: Exchange,
    id: u32,
    skipped_after: u64,
    is_lost: bool,
    dropped_here: bool,
}

impl Pending {
    fn is_decided(&self) -> bool {
        self.is_lost || self.exchange.reply.is_some()
    }

    fn stamp(&mut self, stamped: &Stamped) {
        let requested_ns = self.exchange.requested_ns;
        let sent = &mut self.exchange.sent;
        match stamped.stage {
            _ if stamped.is_hardware => sent.hardware_ns = Some(stamped.at_ns),
            SentStage::Software => sent.software.add(stamped.at_ns),
            // With a launch time it is there before its time begins.
            SentStage::Scheduled => sent.scheduled.add(stamped.at_ns.max(requested_ns)),
            SentStage::Acknowledged => sent.acknowledged_ns = Some(stamped.at_ns),
        }
    }
}

/// How messages are judged.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Without a reply for so long, a message is lost; absent where nothing gets lost on the way.
    pub timeout_ns: Option<u64>,
    /// Exchanges that took longer are kept before others.
    pub late_ns: u64,
    /// The responder's CLOCK_REALTIME minus its CLOCK_MONOTONIC, and the errors of both clocks
    /// together; absent where they are not known to be synchronised.
    pub peer_clock: Option<(i64, u64)>,
    /// Messages have launch times.
    pub launch: Option<Launch>,
    /// What holds for every message, for the bills of late ones.
    pub connection: bill::Context,
}

/// The state of the joining.
pub struct Joiner {
    rules: Rules,
    /// Messages that were to be sent earlier are a warm-up, and are not counted.
    from_ns: u64,
    /// In the order in which they were sent; the first has the number `first`.
    pending: VecDeque<Pending>,
    first: u64,
    /// How many of them came out.
    told: usize,
    /// Replies of messages that are not known yet.
    early: VecDeque<Received>,
    counts: PathCounts,
    highest: u64,
    /// Messages that were lost, in their order.
    lost: VecDeque<Lost>,
    counters: Option<TcpCounters>,
    real_offset_ns: Option<i64>,
    send_lateness: Histogram,
    there: Histogram,
    back: Histogram,
    kept: Kept,
    keeper: Keeper,
    /// A message and its reply had time stamps of the card.
    has_hardware_stamps: bool,
    launched: LaunchCounts,
    /// Messages that were given up for want of memory.
    given_up: u64,
    /// Messages that are neither replied nor lost.
    undecided: u32,
    drops: Drops,
}

impl Joiner {
    /// Without any message.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            from_ns: 0,
            pending: VecDeque::new(),
            first: 1,
            told: 0,
            early: VecDeque::new(),
            counts: PathCounts::default(),
            highest: 0,
            lost: VecDeque::new(),
            counters: None,
            real_offset_ns: None,
            send_lateness: Histogram::allocated(),
            there: Histogram::allocated(),
            back: Histogram::allocated(),
            kept: Kept::new(rules.late_ns),
            keeper: Keeper::new(rules.late_ns, rules.connection),
            has_hardware_stamps: false,
            launched: LaunchCounts::default(),
            given_up: 0,
            undecided: 0,
            drops: Drops::default(),
        }
    }

    /// Messages that were to be sent before this instant are a warm-up: they are not counted.
    pub fn count_from(&mut self, from_ns: u64) {
        self.from_ns = from_ns;
    }

    /// A message was sent.
    pub fn sent(&mut self, sent: &Sent) {
        if sent.requested_ns >= self.from_ns {
            self.counts.sent += u64::from(sent.refused == 0);
            self.counts.refused += u64::from(sent.refused != 0);
            self.counts.skipped += sent.skipped_after;
            self.counts.blocked += u64::from(sent.blocked);
            let lead_ns = self.rules.launch.map_or(0, |launch| launch.lead_ns);
            let due_ns = sent.requested_ns.saturating_sub(lead_ns);
            self.send_lateness
                .record(sent.begin_ns.saturating_sub(due_ns));
        }
        // With a launch time the call comes before the message's time begins.
        let within = |at_ns: u64| at_ns.max(sent.requested_ns);
        let is_refused = sent.refused != 0;
        self.pending.push_back(Pending {
            exchange: Exchange {
                sequence: sent.sequence,
                size: sent.size,
                requested_ns: sent.requested_ns,
                sent: SentStages {
                    call_begin_ns: within(sent.begin_ns),
                    call_end_ns: within(sent.end_ns),
                    blocked: sent.blocked,
                    ..SentStages::default()
                },
                outstanding: self.undecided,
                ..Exchange::default()
            },
            id: sent.id,
            skipped_after: sent.skipped_after,
            is_lost: false,
            dropped_here: false,
        });
        self.undecided = self.undecided.saturating_add(1);
        if is_refused {
            self.lose(self.pending.len() - 1, true);
        }
    }

    /// A reply came.
    pub fn received(&mut self, received: &Received) {
        self.early.push_back(*received);
    }

    /// A stamp of a sent message came.
    pub fn stamped(&mut self, stamped: &Stamped) {
        if stamped.missed {
            self.missed(stamped.at_ns);
            return;
        }
        // Ids grow from message to message, and wrap around.
        let Some(first) = self.pending.front().map(|it| it.id) else {
            return;
        };
        let from_first = stamped.id.wrapping_sub(first);
        let after = self
            .pending
            .partition_point(|it| it.id.wrapping_sub(first) <= from_first);
        let Some(index) = after.checked_sub(1) else {
            return;
        };
        if self.pending.get(index).is_none_or(|it| it.id != stamped.id) {
            return;
        }
        self.pending[index].stamp(stamped);
        self.check_launch(index, stamped);
        if !self.rules.connection.tcp || stamped.is_hardware {
            return;
        }
        // TCP may put several messages into one segment, which has one stamp: of the last of them.
        // And bytes are sent in their order. What reached the packet scheduler by itself was a segment
        // of its own: if no driver had it, it was dropped there.
        let of_last = self.pending[index].exchange.sent;
        let scheduled = of_last.scheduled.first();
        for earlier in self.pending.range_mut(..index).rev() {
            let sent = &earlier.exchange.sent;
            let is_scheduled = sent.scheduled.count > 0;
            let is_apart = is_scheduled && sent.scheduled.first() != scheduled;
            if stamped.stage == SentStage::Software && is_apart {
                break;
            }
            let (known, of_segment) = match stamped.stage {
                SentStage::Software => (sent.software.count, of_last.software.count),
                SentStage::Scheduled => (sent.scheduled.count, of_last.scheduled.count),
                SentStage::Acknowledged => (u32::from(sent.acknowledged_ns.is_some()), 1),
            };
            // The same segment again is theirs as well.
            let is_again = is_scheduled && !is_apart && known + 1 == of_segment;
            if known > 0 && !is_again {
                break;
            }
            earlier.stamp(stamped);
        }
    }

    /// Counters were read.
    pub fn read(&mut self, reading: &Reading) {
        let change = match (&reading.tcp, &self.counters) {
            (Some(now), Some(before)) => Some(now.since(before)),
            _ => None,
        };
        let step_ns = self
            .real_offset_ns
            .map_or(0, |before| reading.real_offset_ns.wrapping_sub(before));
        let step_ns = match step_ns.unsigned_abs() >= STEP_NS {
            true => step_ns,
            false => 0,
        };
        let newest_ns = self.pending.back().map_or(0, |it| it.exchange.requested_ns);
        let timeout_ns = self.rules.timeout_ns.unwrap_or(0);
        let from_ns = newest_ns.saturating_sub(timeout_ns.saturating_add(LATE_REPLY_NS));
        let on_their_way = self
            .lost
            .iter_mut()
            .rev()
            .take_while(|it| it.requested_ns >= from_ns);
        let open = on_their_way.filter(|it| !it.is_dropped);
        self.drops
            .read(reading.dropped, open.map(|it| &mut it.is_dropped));
        self.counters = reading.tcp.or(self.counters);
        self.real_offset_ns = Some(reading.real_offset_ns);
        // The exchanges since the reading before share what was counted.
        let upto = (reading.sequence + 1).saturating_sub(self.first);
        let upto = usize::try_from(upto).unwrap_or(0).min(self.pending.len());
        for pending in self.pending.range_mut(..upto).rev() {
            if pending.exchange.tcp.is_some() {
                break;
            }
            pending.exchange.tcp = change;
            pending.exchange.clock_step_ns = step_ns;
            if change.is_none() {
                break;
            }
        }
    }

    /// For how many datagrams this machine had no room so far, all sockets together ([`crate::room::no_room`]): the first
    /// time in a session at its beginning. What the socket dropped beyond the rise since then was dropped for another
    /// reason, such as a wrong checksum, and excuses no message. Without it the socket's own count is used.
    pub fn no_room(&mut self, total: Option<u64>) {
        self.drops.no_room(total);
    }

    /// Whether the socket dropped more than there was no room for, by what was said last: it is to be said again.
    #[must_use]
    pub fn has_unexplained_drops(&self) -> bool {
        self.drops.are_unexplained()
    }

    /// Decides what can be decided: all replies that came before `now_ns` were fed.
    pub fn settle(&mut self, now_ns: u64, mut tell: impl FnMut(Fate)) {
        self.match_replies();
        if let Some(timeout_ns) = self.rules.timeout_ns {
            self.time_out(now_ns.saturating_sub(timeout_ns));
        }
        while self.pending.len() - self.told > MOST_PENDING {
            self.given_up += 1;
            self.lose(self.told, false);
            self.told += 1;
            // Those after it have their replies.
            self.tell(&mut tell);
            self.close(now_ns);
        }
        self.tell(&mut tell);
        self.close(now_ns);
    }

    /// Decides everything: nothing more comes.
    pub fn finish(&mut self, mut tell: impl FnMut(Fate)) {
        self.match_replies();
        self.counts.foreign += self.early.len() as u64;
        self.early.clear();
        self.time_out(u64::MAX);
        self.tell(&mut tell);
        self.close(u64::MAX);
        self.keeper.finish();
    }

    /// The messages that follow are those of another session, which numbers them from 1. What was
    /// counted stays. To be called after [`Joiner::finish`].
    pub fn begin_session(&mut self) {
        self.pending.clear();
        self.told = 0;
        self.first = 1;
        self.highest = 0;
        self.undecided = 0;
        self.drops = Drops::default();
        self.lost.clear();
        self.counters = None;
        self.real_offset_ns = None;
    }

    /// Whether every message that was sent has its reply, or is lost.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.early.is_empty() && self.undecided == 0
    }

    /// What became of the messages so far.
    #[must_use]
    pub fn counts(&self) -> PathCounts {
        self.counts
    }

    /// What became of launch times.
    #[must_use]
    pub fn launched(&self) -> LaunchCounts {
        self.launched
    }

    /// Messages that were given up for want of memory.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// How late messages were sent.
    #[must_use]
    pub fn send_lateness(&self) -> Option<Lateness> {
        figures(&self.send_lateness)
    }

    /// Latencies in one direction, if they could be measured.
    #[must_use]
    pub fn one_way(&self) -> Option<OneWay> {
        let (_, error_ns) = self.rules.peer_clock?;
        Some(OneWay {
            there: figures(&self.there)?,
            back: figures(&self.back)?,
            error_ns,
        })
    }

    /// Whether the card has stamped a message and its reply.
    #[must_use]
    pub fn has_hardware_stamps(&self) -> bool {
        self.has_hardware_stamps
    }

    /// The exchanges that were kept, in order of time.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.kept.in_order()
    }

    /// The bills of late messages so far.
    #[must_use]
    pub fn bills(&self) -> MessageBills {
        self.keeper.bills()
    }

    /// Bills in which the responder's thread was late wait for what the responder says of them.
    pub fn await_peer(&mut self) {
        self.keeper.await_peer();
    }

    /// What the responder says at the end of a session. To be called after [`Joiner::finish`].
    pub fn explain_peer(&mut self, delays: &[PeerDelay]) {
        self.keeper.explain_peer(delays);
    }

    /// Divides the bills of late messages further.
    pub fn refine_by(&mut self, refine: bill::Refine) {
        self.keeper.refine_by(refine);
    }

    /// Messages that were to be sent before this are lost if they have no reply.
    fn time_out(&mut self, before_ns: u64) {
        for index in self.told..self.pending.len() {
            let pending = &self.pending[index];
            if pending.exchange.requested_ns >= before_ns {
                break;
            }
            if !pending.is_decided() {
                self.lose(index, false);
            }
        }
    }

    /// It has no reply in time; `refused`: it was not sent.
    fn lose(&mut self, index: usize, refused: bool) {
        let Some(pending) = self.pending.get_mut(index) else {
            return;
        };
        if std::mem::replace(&mut pending.is_lost, true) {
            return;
        }
        let counts = u64::from(pending.exchange.requested_ns >= self.from_ns);
        let unanswered = pending.exchange.reply.is_none();
        pending.dropped_here = unanswered && !refused && self.drops.excuse();
        if pending.dropped_here {
            self.undecided = self.undecided.saturating_sub(1);
            self.counts.dropped_here += counts;
            return;
        }
        self.counts.lost += counts;
        if unanswered {
            self.undecided = self.undecided.saturating_sub(1);
        }
        // To one that was not sent no reply comes.
        if unanswered && !refused {
            if self.lost.len() >= REMEMBERED {
                self.lost.pop_front();
            }
            self.lost.push_back(Lost {
                sequence: pending.exchange.sequence,
                requested_ns: pending.exchange.requested_ns,
                counts: counts > 0,
                is_dropped: false,
            });
        }
    }

    fn tell(&mut self, tell: &mut impl FnMut(Fate)) {
        while let Some(pending) = self.pending.get(self.told) {
            if !pending.is_decided() {
                break;
            }
            let reply = pending.exchange.reply.filter(|_| !pending.is_lost);
            tell(Fate {
                requested_ns: pending.exchange.requested_ns,
                replied_ns: reply.map(|reply| reply.woke_ns),
                skipped_after: pending.skipped_after,
                dropped_here: pending.dropped_here,
            });
            self.told += 1;
        }
    }

    /// Takes out messages whose stages are complete.
    fn close(&mut self, now_ns: u64) {
        while self.told > 0 {
            let Some(pending) = self.pending.front() else {
                return;
            };
            let is_followed = self.highest >= pending.exchange.sequence.saturating_add(LATER);
            let settled_ns = pending.exchange.requested_ns.saturating_add(SETTLE_NS);
            if !is_followed && now_ns < settled_ns && self.pending.len() < MOST_PENDING {
                return;
            }
            let Some(pending) = self.pending.pop_front() else {
                return;
            };
            self.first += 1;
            self.told -= 1;
            self.measure_directions(&pending.exchange);
            let reply = pending.exchange.reply.and_then(|it| it.rx_hardware_ns);
            let sent = pending.exchange.sent.hardware_ns;
            self.has_hardware_stamps |= sent.is_some() && reply.is_some();
            if pending.exchange.requested_ns >= self.from_ns {
                self.keeper.take(&pending.exchange);
                let is_lost = pending.is_lost && !pending.dropped_here;
                self.kept.offer(pending.exchange, is_lost);
            }
        }
    }

    fn measure_directions(&mut self, exchange: &Exchange) {
        let (Some((peer_offset_ns, _)), Some(offset_ns)) =
            (self.rules.peer_clock, self.real_offset_ns)
        else {
            return;
        };
        let (Some(peer), Some(reply)) = (&exchange.peer, &exchange.reply) else {
            return;
        };
        let here = |ns: u64| ns.wrapping_add_signed(offset_ns).cast_signed();
        let far = |ns: u64| ns.wrapping_add_signed(peer_offset_ns).cast_signed();
        let took = |from: i64, to: i64| to.wrapping_sub(from).max(0).cast_unsigned();
        if let (Some(sent), Some(got)) = (exchange.sent.software.first(), peer.rx_software_ns) {
            self.there.record(took(here(sent), far(got)));
        }
        if let (Some(sent), Some(got)) = (peer.software.first(), reply.rx_software_ns) {
            self.back.record(took(far(sent), here(got)));
        }
    }
}

/// The figures of a distribution, if there is one.
#[must_use]
pub fn figures(of: &Histogram) -> Option<Lateness> {
    let at = |quantile| of.quantile(quantile).unwrap_or(0);
    Some(Lateness {
        count: of.count(),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: of.max()?,
    })
}

#[cfg(test)]
mod tests;
