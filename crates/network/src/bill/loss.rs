//! A loss, and how TCP found it.

use punctual_record::path::bill::{Certainty, MessageCause as Cause, MessageEvidence as Evidence};

use super::sending::Sending;
use crate::exchange::TcpChange;

/// What TCP counted of a loss.
pub struct Loss<'a> {
    change: &'a TcpChange,
    /// The loss was of an earlier message, for which this one waited.
    earlier: bool,
}

/// The least that the timers' steps take from a time that is measured between two transmissions.
const TIMER_SHARE: (u64, u64) = (3, 4);

impl<'a> Loss<'a> {
    /// What was lost on this side while the message was under way.
    pub fn of(sending: &Sending<'a>) -> Option<Self> {
        let lost = |change: &&TcpChange| change.retransmits > 0;
        let own = sending.change.filter(lost);
        let own = own.filter(|_| sending.may_be_lost(sending.end_ns));
        let change = own.or_else(|| sending.earlier.filter(lost))?;
        Some(Self {
            change,
            earlier: own.is_none(),
        })
    }

    /// How the loss was found, from the time that it took.
    pub fn judge(
        &self,
        sending: &Sending<'_>,
        waited_ns: u64,
    ) -> (Cause, Certainty, Vec<Evidence>) {
        let change = self.change;
        let mut evidence = vec![Evidence::Retransmits {
            count: change.retransmits,
        }];
        if self.earlier {
            evidence.push(Evidence::EarlierData);
        }
        let rto_us = sending.before.map_or(change.state.rto_us, |it| it.rto_us);
        let rto_ns = u64::from(rto_us) * 1000;
        if change.timeouts.is_some_and(|count| count > 0) {
            evidence.push(Evidence::Timeouts {
                count: change.timeouts.unwrap_or(0).into(),
            });
            return (Cause::Timeout, Certainty::Certain, evidence);
        }
        if rto_us == 0 {
            return (Cause::Retransmission, Certainty::Certain, evidence);
        }
        evidence.push(Evidence::RetransmissionTimeout { us: rto_us });
        let counted = change.timeouts.is_some();
        if !counted {
            evidence.push(Evidence::TimeoutsNotCounted);
        }
        let is_timer = waited_ns >= rto_ns / TIMER_SHARE.1 * TIMER_SHARE.0;
        let rtt_ns = u64::from(change.state.rtt_us) * 1000;
        // A probe of one segment alone waits for the time-out; of several, two round trips and a
        // few ticks.
        let alone = !self.earlier && sending.is_alone(waited_ns);
        match (is_timer, counted) {
            // The time-out would have been counted, and nothing but these two waits so long.
            (true, true) => (Cause::LossProbe, Certainty::Certain, evidence),
            (true, false) => (Cause::Timeout, Certainty::Possible, evidence),
            (false, _) if alone => (Cause::LossProbe, Certainty::Likely, evidence),
            (false, _) if waited_ns < 2 * rtt_ns => {
                (Cause::FastRetransmit, Certainty::Certain, evidence)
            }
            (false, _) => (Cause::FastRetransmit, Certainty::Likely, evidence),
        }
    }
}
