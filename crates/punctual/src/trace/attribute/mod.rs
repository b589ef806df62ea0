//! From events to causes. Pure: a window of events in, a bill out.

pub mod event;

pub use crate::record::explanation::{
    Bill, BillRow, Cause, Explanation, Instants, Ledger, Stage, StageTimes,
};

use event::Window;

/// The bill of one wake-up. It is total: whatever the window holds, the rows sum to the
/// latency, and so do the stages.
#[must_use]
pub fn bill(window: &Window) -> Bill {
    let latency_ns = window.woken_ns.saturating_sub(window.due_ns);
    Bill {
        cpu: window.cpu,
        due_ns: window.due_ns,
        latency_ns,
        lost: window.lost,
        stages: StageTimes::between(&Instants {
            due_ns: window.due_ns,
            woken_ns: window.woken_ns,
            ..Instants::default()
        }),
        rows: vec![BillRow {
            stage: Stage::User,
            cause: Cause::Unexplained,
            ns: latency_ns,
            stack: Vec::new(),
            note: None,
        }],
        picture: None,
    }
}
