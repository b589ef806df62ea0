//! What helps against a cause of late messages.

use super::bill::{MessageCause as Cause, MessageSide as Side, MessageStage as Stage};

/// Something that can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageFix {
    /// A real-time priority for the sending and receiving threads, above what ran instead.
    SenderPriority,
    /// The same for the responder's thread.
    ResponderPriority,
    /// Less work between receiving and replying.
    LessWork,
    /// A larger send buffer (`SO_SNDBUF`), or fewer bytes.
    SendBuffer,
    /// The other side reads faster, or has a larger receive buffer (`SO_RCVBUF`).
    ReceiveBuffer,
    /// `TCP_NODELAY`.
    NoDelay,
    /// One call for each message.
    OneCall,
    /// Acknowledgements without delay: `TCP_QUICKACK`, or `quickack 1` of the route.
    QuickAck,
    /// `tcp_slow_start_after_idle` off.
    SlowStartAfterIdle,
    /// A larger initial window of the route (`initcwnd`).
    InitialWindow,
    /// A permanent entry in the neighbour table.
    PermanentNeighbour,
    /// No limit of the rate, or a congestion control that does not pace.
    NoPacing,
    /// A higher priority in the queue (`SO_PRIORITY`) with a packet scheduler that knows it.
    QueuePriority,
    /// A limit of the bulk data's rate (`SO_MAX_PACING_RATE`), or a class of its own.
    BulkRate,
    /// A lower minimum of the retransmission time-out: `rto_min` of the route, or
    /// `TCP_RTO_MIN_US`.
    RtoMin,
    /// Small segments after the message, whose acknowledgement shows a loss of the last one.
    Padding,
    /// No loss on this path: cables, full duplex, queues of switches.
    NoLoss,
    /// The priority of the thread of NAPI.
    NapiPriority,
    /// NAPI in softirqs, not in threads.
    NapiInSoftirq,
    /// Interrupts of the network card on another CPU than what keeps its softirq waiting.
    ReceiveCpu,
    /// Time stamps of the network card, or the kernel's events, to see where the time went.
    LookCloser,
}

/// What helps against a cause, the most effective first.
#[must_use]
pub fn fixes(stage: Stage, cause: &Cause) -> &'static [MessageFix] {
    use MessageFix as F;
    match cause {
        Cause::NotScheduled { .. } if stage.side() == Side::Responder => &[F::ResponderPriority],
        Cause::NotScheduled { .. } => &[F::SenderPriority],
        Cause::Work => &[F::LessWork, F::ResponderPriority],
        Cause::SendBuffer => &[F::SendBuffer],
        Cause::ReceiveWindow => &[F::ReceiveBuffer, F::ResponderPriority],
        Cause::Nagle => &[F::NoDelay, F::OneCall],
        Cause::DelayedAck => &[F::NoDelay, F::QuickAck, F::OneCall],
        Cause::CongestionWindow => &[F::InitialWindow, F::NoLoss],
        Cause::IdleRestart => &[F::SlowStartAfterIdle, F::InitialWindow],
        Cause::Neighbour => &[F::PermanentNeighbour],
        Cause::Pacing => &[F::NoPacing],
        Cause::Queue => &[F::QueuePriority, F::BulkRate],
        Cause::Timeout | Cause::LossProbe | Cause::Retransmission => {
            &[F::NoLoss, F::Padding, F::RtoMin]
        }
        Cause::FastRetransmit => &[F::NoLoss],
        Cause::Softirq { .. } => &[F::ReceiveCpu],
        Cause::NapiThread { thread, .. } if thread.task.starts_with("napi/") => {
            &[F::NapiPriority, F::NapiInSoftirq]
        }
        Cause::NapiThread { .. } => &[F::ReceiveCpu],
        Cause::Way => &[F::LookCloser],
        Cause::Usual | Cause::Backlog | Cause::Other | Cause::Unexplained => &[],
    }
}
