//! What a picture of a wake-up shows, in words.

use punctual_record::explanation::{MarkLabel, SpanLabel, softirq_name};

/// What took a while.
#[must_use]
pub fn span_label(label: &SpanLabel) -> String {
    let text = match label {
        SpanLabel::Vector { vector } => return vector.clone(),
        SpanLabel::Handler { irq, name } => return format!("IRQ {irq} {name}"),
        SpanLabel::Call { function } => return format!("call of {function}"),
        SpanLabel::Timer { function } => return format!("timer {function}"),
        SpanLabel::Softirq { number } => return format!("softirq {}", softirq_name(*number)),
        SpanLabel::Thread {
            name,
            tid,
            priority: 0,
        } => return format!("{name} [{tid}]"),
        SpanLabel::Thread {
            name,
            tid,
            priority,
        } => return format!("{name} [{tid}] priority {priority}"),
        SpanLabel::LockWait { lock, holder } => {
            let by = holder.as_ref().map(|holder| format!(" held by {holder}"));
            return format!("waits for lock {lock}{}", by.unwrap_or_default());
        }
        SpanLabel::Earlier { text } => return text.clone(),
        SpanLabel::Hypervisor => "hypervisor",
        SpanLabel::Host => "host",
        SpanLabel::Smi => "system management",
        SpanLabel::Nmi => "NMI",
        SpanLabel::Tracer => "tracer",
        SpanLabel::ProbeTimer => "the probe's timer",
        SpanLabel::Idle => "idle",
    };
    text.to_owned()
}

/// What happened at an instant.
#[must_use]
pub fn mark_label(label: &MarkLabel) -> String {
    let text = match label {
        MarkLabel::Moved { to_cpu } => return format!("moved to CPU {to_cpu}"),
        MarkLabel::LockWait { lock } => return format!("waits for {lock}"),
        MarkLabel::Earlier { text } => return text.clone(),
        MarkLabel::Callback => "callback",
        MarkLabel::Waking => "waking",
        MarkLabel::PageFault => "page fault",
        MarkLabel::StackCaught => "stack caught",
    };
    text.to_owned()
}
