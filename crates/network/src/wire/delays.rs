//! What delayed the responder's thread: the responder says it at the end of a session.

use punctual_record::path::bill::Runner;

use super::bytes::{Reader, Writer};
use super::{WireError, limits};

/// A message that waited for the responder's thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerDelay {
    /// Its number.
    pub sequence: u64,
    /// The thread took it together with later ones: it may have waited as long as the thread was ready,
    /// which is longer than its time stamp says.
    pub read_with_later: bool,
    /// What had the thread's CPU meanwhile, and for how long, in ns.
    pub by: Vec<(Runner, u64)>,
}

impl PeerDelay {
    /// All times together.
    #[must_use]
    pub fn ns(&self) -> u64 {
        let times = self.by.iter().map(|(_, ns)| *ns);
        times.fold(0, u64::saturating_add)
    }

    fn write(&self, to: &mut Writer) {
        let by = &self.by[..self.by.len().min(limits::MOST_RUNNERS)];
        to.u64(self.sequence).flag(self.read_with_later);
        to.u8(by.len() as u8);
        for (runner, ns) in by {
            to.text(&runner.task).text(&runner.policy);
            to.u32(runner.priority).u32(runner.tid).u64(*ns);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let (sequence, read_with_later) = (from.u64()?, from.flag()?);
        let count = usize::from(from.u8()?);
        if count > limits::MOST_RUNNERS {
            return Err(WireError::Unknown {
                value: count as u64,
            });
        }
        let by = (0..count).map(|_| {
            let runner = Runner {
                task: from.text()?,
                policy: from.text()?,
                priority: from.u32()?,
                tid: from.u32()?,
            };
            Ok((runner, from.u64()?))
        });
        Ok(Self {
            sequence,
            read_with_later,
            by: by.collect::<Result<_, WireError>>()?,
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
            by: vec![(runner, 5_000_000); limits::MOST_RUNNERS],
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
