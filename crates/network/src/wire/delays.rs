//! What delayed messages on the responder's machine: it says so at the end of a session.

use punctual_record::path::bill::{MessageCause as Cause, Runner};

use super::bytes::{Reader, Writer};
use super::{WireError, limits};

/// A message that waited on the responder's machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerDelay {
    /// Its number.
    pub sequence: u64,
    /// The thread took it together with later ones: it may have waited as long as the thread was ready,
    /// which is longer than its time stamp says.
    pub read_with_later: bool,
    /// What had the thread's CPU meanwhile, and for how long, in ns.
    pub by: Vec<(Runner, u64)>,
    /// What may have kept it from being received, before.
    pub reception: Option<Reception>,
}

/// What keeps packets from being received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reception {
    /// The thread that was to receive them, and did not run; absent for a softirq.
    pub thread: Option<Runner>,
    /// What ran instead; absent if it is not known.
    pub by: Option<Runner>,
    /// For how long at most, in ns: a packet may have come at any moment of that time.
    pub ns: u64,
}

impl Reception {
    /// Of a cause that is about the reception of packets.
    #[must_use]
    pub fn of(cause: Cause, ns: u64) -> Option<Self> {
        let (thread, by) = match cause {
            Cause::NapiThread { thread, by } => (Some(thread), by),
            Cause::Softirq { by } => (None, by),
            _ => return None,
        };
        Some(Self { thread, by, ns })
    }

    /// The cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        let by = self.by.clone();
        match self.thread.clone() {
            Some(thread) => Cause::NapiThread { thread, by },
            None => Cause::Softirq { by },
        }
    }

    fn write<'a>(&self, to: &'a mut Writer) -> &'a mut Writer {
        to.optional(self.thread.as_ref(), write_runner);
        to.optional(self.by.as_ref(), write_runner).u64(self.ns)
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            thread: from.optional(read_runner)?,
            by: from.optional(read_runner)?,
            ns: from.u64()?,
        })
    }
}

fn write_runner<'a>(to: &'a mut Writer, runner: &Runner) -> &'a mut Writer {
    to.text(&runner.task).text(&runner.policy);
    to.u32(runner.priority).u32(runner.tid)
}

fn read_runner(from: &mut Reader<'_>) -> Result<Runner, WireError> {
    Ok(Runner {
        task: from.text()?,
        policy: from.text()?,
        priority: from.u32()?,
        tid: from.u32()?,
    })
}

impl PeerDelay {
    /// All times together.
    #[must_use]
    pub fn ns(&self) -> u64 {
        let reception = self.reception.as_ref().map_or(0, |it| it.ns);
        reception.saturating_add(self.asleep_ns())
    }

    /// For how long the thread waited, as far as it is known.
    #[must_use]
    pub fn asleep_ns(&self) -> u64 {
        let times = self.by.iter().map(|(_, ns)| *ns);
        times.fold(0, u64::saturating_add)
    }

    fn write(&self, to: &mut Writer) {
        let by = &self.by[..self.by.len().min(limits::MOST_RUNNERS)];
        to.u64(self.sequence).flag(self.read_with_later);
        to.u8(by.len() as u8);
        for (runner, ns) in by {
            write_runner(to, runner).u64(*ns);
        }
        to.optional(self.reception.as_ref(), |to, it| it.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let (sequence, read_with_later) = (from.u64()?, from.flag()?);
        let count = usize::from(from.u8()?);
        if count > limits::MOST_RUNNERS {
            return Err(WireError::Unknown {
                value: count as u64,
            });
        }
        let by = (0..count).map(|_| Ok((read_runner(from)?, from.u64()?)));
        let by = by.collect::<Result<_, WireError>>()?;
        Ok(Self {
            sequence,
            read_with_later,
            by,
            reception: from.optional(Reception::read)?,
        })
    }
}

/// Delays in groups that fit into a frame each.
#[must_use]
pub fn frames_of(delays: Vec<PeerDelay>) -> Vec<Vec<PeerDelay>> {
    let mut frames: Vec<Vec<PeerDelay>> = Vec::new();
    let mut room = 0;
    for delay in delays {
        let mut bytes = Writer::default();
        delay.write(&mut bytes);
        let length = bytes.0.len();
        match frames.last_mut() {
            Some(last) if length <= room && last.len() < usize::from(u8::MAX) => {
                room -= length;
                last.push(delay);
            }
            _ => {
                // The kind and the number of delays come before them.
                room = (limits::FRAME_BYTES - 2).saturating_sub(length);
                frames.push(vec![delay]);
            }
        }
    }
    frames
}

pub(super) fn write(to: &mut Writer, delays: &[PeerDelay]) {
    to.u8(delays.len().min(u8::MAX.into()) as u8);
    for delay in delays.iter().take(u8::MAX.into()) {
        delay.write(to);
    }
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<Vec<PeerDelay>, WireError> {
    let count = from.u8()?;
    (0..count).map(|_| PeerDelay::read(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::control::Frame;
    use super::*;

    fn delay(sequence: u64, task: &str) -> PeerDelay {
        let runner = Runner {
            task: task.to_owned(),
            policy: "SCHED_FIFO".to_owned(),
            priority: 90,
            tid: 77,
        };
        PeerDelay {
            sequence,
            read_with_later: sequence.is_multiple_of(2),
            by: vec![(runner.clone(), 5_000_000); limits::MOST_RUNNERS],
            reception: (!sequence.is_multiple_of(5)).then(|| Reception {
                thread: sequence.is_multiple_of(3).then(|| runner.clone()),
                by: sequence.is_multiple_of(7).then_some(runner),
                ns: sequence,
            }),
        }
    }

    #[test]
    fn every_delay_is_in_a_frame_that_can_be_read() {
        let long = "n".repeat(limits::TEXT_BYTES);
        let delays: Vec<PeerDelay> = (0..1_000)
            .map(|it| delay(it, if it % 3 == 0 { &long } else { "hog" }))
            .collect();
        let mut read = Vec::new();
        for group in frames_of(delays.clone()) {
            let bytes = Frame::Delays(group).to_bytes();
            let length = Frame::length([bytes[0], bytes[1]]).unwrap();
            assert_eq!(length, bytes.len() - 2);
            match Frame::parse(&bytes[2..]) {
                Ok(Frame::Delays(group)) => read.extend(group),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read, delays);
        assert!(frames_of(Vec::new()).is_empty());
    }

    #[test]
    fn a_reception_has_a_cause_of_its_own_and_no_other() {
        let by = Some(delay(1, "hog").by[0].0.clone());
        let thread = Runner::default();
        for cause in [
            Cause::Softirq { by: None },
            Cause::Softirq { by: by.clone() },
            Cause::NapiThread { thread, by },
        ] {
            assert_eq!(Reception::of(cause.clone(), 7).unwrap().cause(), cause);
        }
        assert_eq!(Reception::of(Cause::Way, 7), None);
        let mut waited = delay(7, "hog");
        assert_eq!((waited.ns(), waited.asleep_ns()), (30_000_007, 30_000_000));
        waited.reception.as_mut().unwrap().ns = u64::MAX;
        assert_eq!(waited.ns(), u64::MAX);
    }

    #[test]
    fn more_runners_than_a_delay_has_are_refused() {
        let mut to = Writer::default();
        to.u8(1)
            .u64(1)
            .flag(false)
            .u8(limits::MOST_RUNNERS as u8 + 1);
        let bytes = [to.0, vec![0; 200]].concat();
        assert!(read(&mut Reader::new(&bytes)).is_err());
    }
}
