//! Operations of two processes or two threads.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use punctual_record::lab::LabOperation;
use punctual_rt::clock::now_ns;
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::futex;

use super::Series;
use super::alone::spin;

/// A message that is to be answered.
const PING: u8 = 1;
/// The last one.
const END: u8 = 0;
/// Passes of the loop beside a thread that sleeps, each time before it counts.
const PASSES: u64 = 8;
/// How long the thread sleeps.
const SLEEP: Duration = Duration::from_micros(100);

/// One end of a channel between two processes.
trait End {
    fn send(&mut self, byte: u8) -> io::Result<()>;
    fn receive(&mut self) -> io::Result<u8>;
}

impl<R: Read, W: Write> End for (R, W) {
    fn send(&mut self, byte: u8) -> io::Result<()> {
        self.1.write_all(&[byte])
    }

    fn receive(&mut self) -> io::Result<u8> {
        let mut byte = [END];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }
}

impl End for UdpSocket {
    fn send(&mut self, byte: u8) -> io::Result<()> {
        UdpSocket::send(self, &[byte]).map(drop)
    }

    fn receive(&mut self) -> io::Result<u8> {
        let mut byte = [END];
        match self.recv(&mut byte)? {
            1 => Ok(byte[0]),
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A byte to another process and back.
fn round_trips(series: Series, mut own: impl End, mut other: impl End) -> io::Result<LabOperation> {
    let echo = || {
        let mut all = || loop {
            match other.receive()? {
                END => return Ok(()),
                byte => other.send(byte)?,
            }
        };
        let ended: io::Result<()> = all();
        i32::from(ended.is_err())
    };
    let child = punctual_load::fork_child(echo)?;
    let made = series.count(|| {
        own.send(PING)?;
        match own.receive()? {
            PING => Ok(()),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    })?;
    own.send(END)?;
    match punctual_load::wait(Some(child), true)? {
        Some(ended) if ended.success() => Ok(made),
        Some(ended) => Err(io::Error::other(format!(
            "the other process failed: {ended}"
        ))),
        None => Err(ErrorKind::NotFound.into()),
    }
}

/// Makes an operation with both sides at one real-time priority: the one that is woken runs when the other waits.
pub(super) fn at_one_priority(
    make: impl FnOnce() -> io::Result<LabOperation>,
) -> io::Result<LabOperation> {
    sched::set_current(Policy::Fifo(1))?;
    let made = make();
    sched::set_current(Policy::Other)?;
    made
}

pub(super) fn pipe(series: Series) -> io::Result<LabOperation> {
    let (there, back) = (io::pipe()?, io::pipe()?);
    round_trips(series, (back.0, there.1), (there.0, back.1))
}

pub(super) fn tcp(series: Series) -> io::Result<LabOperation> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    for stream in [&own, &other] {
        stream.set_nodelay(true)?;
    }
    round_trips(series, (&own, &own), (&other, &other))
}

pub(super) fn udp(series: Series) -> io::Result<LabOperation> {
    let bound = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (own, other) = (bound()?, bound()?);
    own.connect(other.local_addr()?)?;
    other.connect(own.local_addr()?)?;
    round_trips(series, own, other)
}

/// Both threads yield; each time one gets the processor, the other has given it away.
pub(super) fn yields(series: Series) -> io::Result<LabOperation> {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        let made = series.count(|| {
            thread::yield_now();
            Ok(())
        });
        ends.store(true, Ordering::Relaxed);
        made
    })
}

/// The first thread has the word while it is 0, the other while it is [`PING`].
pub(super) fn futex(series: Series) -> io::Result<LabOperation> {
    const OWN: u32 = 0;
    const OTHERS: u32 = 1;
    const OVER: u32 = 2;
    let word = AtomicU32::new(OWN);
    let give = |to: u32| {
        word.store(to, Ordering::Release);
        futex::wake(&word, 1);
    };
    let await_change = |from: u32| {
        loop {
            match word.load(Ordering::Acquire) {
                now if now == from => futex::wait(&word, from),
                now => return now,
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while await_change(OWN) == OTHERS {
                give(OWN);
            }
        });
        let made = series.count(|| {
            give(OTHERS);
            await_change(OTHERS);
            Ok(())
        });
        give(OVER);
        made
    })
}

/// A thread at a real-time priority sleeps, and a loop at an ordinary one counts: what the loop lacks is
/// what the sleeping took. How fast it counts, with ticks and all else that comes meanwhile, is measured
/// while the thread sleeps once as long.
pub(super) fn sleep(series: Series) -> io::Result<LabOperation> {
    let (ends, counter) = (AtomicBool::new(false), AtomicU64::new(0));
    let passed = |sleeps: u64, each: Duration| {
        let (begin, counted) = (now_ns(), counter.load(Ordering::Relaxed));
        for _ in 0..sleeps {
            thread::sleep(each);
        }
        let counted = counter.load(Ordering::Relaxed) - counted;
        (now_ns() - begin, counted)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                spin(PASSES);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let made = sched::set_current(Policy::Fifo(80)).and_then(|()| {
            series.count_batches(|sleeps| {
                let whole = SLEEP.saturating_mul(u32::try_from(sleeps).unwrap_or(u32::MAX));
                let alone = passed(1, whole);
                Ok(lacking(alone, passed(sleeps, SLEEP)))
            })
        });
        ends.store(true, Ordering::Relaxed);
        // Else the loop could not end before this thread sleeps.
        sched::set_current(Policy::Other)?;
        made
    })
}

/// The part of the second time in which the loop did not count: both are times with what it counted.
fn lacking(alone: (u64, u64), beside: (u64, u64)) -> u64 {
    let (alone_ns, alone) = alone;
    let (beside_ns, counted) = beside;
    let counting = u128::from(counted) * u128::from(alone_ns) / u128::from(alone.max(1));
    beside_ns.saturating_sub(u64::try_from(counting).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loop_lacks_is_what_the_sleeping_took() {
        // 1,000 in 10,000 ns alone; 700 in 10,000 ns beside the other thread.
        assert_eq!(lacking((10_000, 1_000), (10_000, 700)), 3_000);
        assert_eq!(lacking((10_000, 1_000), (10_000, 1_000)), 0);
        // It never is negative, and no count is no division by zero.
        assert_eq!(lacking((10_000, 1_000), (10_000, 1_100)), 0);
        assert_eq!(lacking((10_000, 0), (10_000, 0)), 10_000);
        assert_eq!(lacking((u64::MAX, 1), (u64::MAX, 1)), 0);
    }
}
