//! What ran when, as spans to draw.

use std::collections::BTreeMap;

use super::amounts::Amount;
use super::event::{Event, Kind, Task, Window};
use super::naming;
use super::stages::WakeUpStages;
use super::timeline::{CpuTimeline, Frame, Layer, ThreadRun};
use punctual_record::explanation::{self, Cause, Mark, MarkLabel, Picture, Span, SpanLabel};

/// What a picture is made from.
pub(super) struct PictureSource<'a, 'w> {
    pub window: &'w Window,
    pub events: &'a [&'w Event],
    pub stages: &'a WakeUpStages<'w>,
    pub amounts: &'a [Amount],
    /// Where the wake-up happened.
    pub cpus: Vec<u32>,
    pub shown: Shown,
}

/// What a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// A wake-up on its CPUs.
    WakeUp,
    /// A job, and all CPUs; an idle CPU is empty.
    Job,
    /// All that the window holds.
    Everything,
}

impl<'w> PictureSource<'_, 'w> {
    /// The picture, with a limited number of spans and marks.
    pub(super) fn picture(
        &self,
        lanes: &BTreeMap<u32, CpuTimeline<'w>>,
        most: Option<(usize, usize)>,
    ) -> Picture {
        let (from, to) = self.range();
        let mut spans = Vec::new();
        let concerned = |cpu: u32| self.shown != Shown::WakeUp || self.cpus.contains(&cpu);
        for (cpu, lane) in lanes.iter().filter(|(cpu, _)| concerned(**cpu)) {
            for frame in &lane.frames {
                let lane = match frame.layer {
                    Layer::Softirq(_) => explanation::Lane::Softirq,
                    _ => explanation::Lane::Interrupt,
                };
                let end = frame.to.unwrap_or(frame.from);
                if let Some(label) = self.frame(frame) {
                    self.add(&mut spans, (*cpu, lane), (frame.from, end), label);
                }
            }
            let drawn = |run: &&ThreadRun<'_>| self.shown != Shown::Job || run.thread.tid != 0;
            for run in lane.thread_runs.iter().filter(drawn) {
                let lane = if run.thread.tid == self.window.probe.tid {
                    explanation::Lane::Probe
                } else {
                    explanation::Lane::Thread
                };
                let label = thread(run.thread);
                self.add(&mut spans, (*cpu, lane), (run.from, run.to), label);
            }
        }
        spans.retain(|span| span.from_ns < to && span.to_ns >= from);
        for span in &mut spans {
            span.from_ns = span.from_ns.max(from);
            span.to_ns = span.to_ns.min(to).max(span.from_ns);
        }
        self.draw_host(&mut spans, (from, to));
        let mut left_out = 0;
        if let Some((most, _)) = most
            && spans.len() > most
        {
            left_out = (spans.len() - most) as u64;
            spans.sort_by(|a, b| {
                let length = |span: &Span| span.to_ns.saturating_sub(span.from_ns);
                length(b).cmp(&length(a)).then_with(|| order(a, b))
            });
            spans.truncate(most);
        }
        let causes = self.in_the_way();
        for span in &mut spans {
            span.in_the_way = span.lane == explanation::Lane::Host
                || causes.iter().any(|amount| {
                    let (from, to) = (self.since_due(amount.from), self.since_due(amount.to));
                    amount.cpu == span.cpu
                        && from < span.to_ns
                        && span.from_ns < to
                        && lane_of(&amount.cause) == Some(span.lane)
                });
        }
        spans.sort_by(order);
        let mut marks = self.marks();
        marks.retain(|mark| mark.at_ns >= from && mark.at_ns <= to);
        marks.truncate(most.map_or(usize::MAX, |(_, marks)| marks));
        Picture {
            spans,
            marks,
            left_out,
        }
    }

    /// Draws time that was taken from below the kernel over what it was taken from: that did not run.
    fn draw_host(&self, spans: &mut Vec<Span>, (from, to): (i64, i64)) {
        let mut taken: Vec<(u32, i64, i64, SpanLabel)> = self
            .amounts
            .iter()
            .filter(|amount| amount.ns > 0)
            .filter_map(|amount| {
                let label = match amount.cause {
                    Cause::Steal => SpanLabel::Hypervisor,
                    Cause::Host { .. } => SpanLabel::Host,
                    Cause::Smi => SpanLabel::Smi,
                    _ => return None,
                };
                // Its place within the stretch is unknown; it ends with the event that could only come
                // after it.
                let end = self.since_due(amount.to);
                let length = i64::try_from(amount.ns).unwrap_or(i64::MAX);
                Some((amount.cpu, end.saturating_sub(length), end, label))
            })
            .collect();
        taken.sort_unstable();
        for (cpu, begin, end, label) in taken {
            let (begin, end) = (begin.max(from), end.min(to));
            if begin >= end {
                continue;
            }
            let mut rests = Vec::new();
            spans.retain_mut(|span| {
                let over = span.cpu == cpu && span.from_ns < end && begin < span.to_ns;
                if !over || span.lane == explanation::Lane::Host {
                    return true;
                }
                if span.to_ns > end {
                    rests.push(Span {
                        from_ns: end,
                        ..span.clone()
                    });
                }
                span.to_ns = begin.max(span.from_ns);
                span.from_ns < span.to_ns
            });
            spans.append(&mut rests);
            spans.push(Span {
                lane: explanation::Lane::Host,
                cpu,
                from_ns: begin,
                to_ns: end,
                label,
                in_the_way: true,
            });
        }
    }

    /// The time that is shown: a little before and after, or everything.
    fn range(&self) -> (i64, i64) {
        let latency = self.window.woken_ns.saturating_sub(self.window.due_ns);
        let part = match self.shown {
            Shown::Everything => return (i64::MIN, i64::MAX),
            Shown::WakeUp => latency / 4,
            Shown::Job => latency / 16,
        };
        let margin = i64::try_from(part).unwrap_or(i64::MAX).max(10_000);
        let end = i64::try_from(latency).unwrap_or(i64::MAX);
        (-margin, end.saturating_add(margin))
    }

    fn add(
        &self,
        spans: &mut Vec<Span>,
        (cpu, lane): (u32, explanation::Lane),
        (from, to): (u64, u64),
        label: SpanLabel,
    ) {
        spans.push(Span {
            lane,
            cpu,
            from_ns: self.since_due(from),
            to_ns: self.since_due(to.max(from)),
            in_the_way: false,
            label,
        });
    }

    /// The largest rows of the bill that can be drawn.
    fn in_the_way(&self) -> Vec<&Amount> {
        const MOST: usize = 64;
        let mut amounts: Vec<&Amount> = self
            .amounts
            .iter()
            .filter(|amount| amount.ns > 0 && lane_of(&amount.cause).is_some())
            .collect();
        amounts.sort_by_key(|amount| (std::cmp::Reverse(amount.ns), amount.from));
        amounts.truncate(MOST);
        amounts
    }

    fn since_due(&self, at: u64) -> i64 {
        let difference = i128::from(at) - i128::from(self.window.due_ns);
        difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    fn frame(&self, frame: &Frame<'_>) -> Option<SpanLabel> {
        Some(match frame.layer {
            Layer::Nmi => SpanLabel::Nmi,
            Layer::Tracer => SpanLabel::Tracer,
            Layer::Vector(vector) => SpanLabel::Vector {
                vector: naming::vector(vector),
            },
            Layer::Handler(irq, name) => SpanLabel::Handler {
                irq,
                name: naming::bounded(name),
            },
            Layer::Call(function) => SpanLabel::Call {
                function: naming::function(self.window, function),
            },
            Layer::Timer { of_probe: true, .. } => SpanLabel::ProbeTimer,
            Layer::Timer { function, .. } => SpanLabel::Timer {
                function: naming::function(self.window, function),
            },
            Layer::Softirq(number) => SpanLabel::Softirq { number },
            Layer::Thread => return None,
        })
    }

    fn marks(&self) -> Vec<Mark> {
        let instants = &self.stages.instants;
        let mut marks = Vec::new();
        for (label, at) in [
            (MarkLabel::Callback, instants.callback_ns),
            (MarkLabel::Waking, instants.waking_ns),
        ] {
            if let Some(at) = at {
                marks.push(Mark {
                    at_ns: self.since_due(at),
                    cpu: self.window.cpu,
                    label,
                });
            }
        }
        for event in self.events {
            let label = match &event.kind {
                Kind::Fault { .. } => MarkLabel::PageFault,
                Kind::Migrate { tid, to_cpu, .. } if *tid == self.window.probe.tid => {
                    MarkLabel::Moved { to_cpu: *to_cpu }
                }
                Kind::Stack { frames, .. } if !frames.is_empty() => MarkLabel::StackCaught,
                Kind::LockWait { lock, .. } => MarkLabel::LockWait {
                    lock: naming::symbol(self.window, *lock),
                },
                _ => continue,
            };
            marks.push(Mark {
                at_ns: self.since_due(event.at_ns),
                cpu: event.cpu,
                label,
            });
        }
        marks.sort_by(|a, b| (a.at_ns, a.cpu, &a.label).cmp(&(b.at_ns, b.cpu, &b.label)));
        marks
    }
}

/// The lane in which a cause is drawn, if it is drawn.
fn lane_of(cause: &Cause) -> Option<explanation::Lane> {
    match cause {
        Cause::Nmi
        | Cause::Interrupt { .. }
        | Cause::CpuInterrupt { .. }
        | Cause::Call { .. }
        | Cause::TimerCallback { .. } => Some(explanation::Lane::Interrupt),
        Cause::Softirq { .. } => Some(explanation::Lane::Softirq),
        Cause::IrqsOff { .. }
        | Cause::PreemptOff { .. }
        | Cause::Thread { .. }
        | Cause::Throttled { .. }
        | Cause::GroupThrottled { .. } => Some(explanation::Lane::Thread),
        Cause::Fault | Cause::Lock { .. } => Some(explanation::Lane::Probe),
        _ => None,
    }
}

fn thread(task: &Task) -> SpanLabel {
    if task.tid == 0 {
        return SpanLabel::Idle;
    }
    SpanLabel::Thread {
        name: naming::bounded(&task.name),
        tid: task.tid,
        priority: naming::priority(task),
    }
}

fn order(a: &Span, b: &Span) -> std::cmp::Ordering {
    let key = |span: &Span| (span.from_ns, span.cpu, span.lane, span.to_ns);
    key(a).cmp(&key(b)).then_with(|| a.label.cmp(&b.label))
}
