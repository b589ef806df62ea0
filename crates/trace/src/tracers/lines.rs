//! Parses the output of the kernel's tracers, line by line. Any input is read without a panic.

/// The longest line that is parsed.
const LONGEST: usize = 1 << 10;

/// A line of a tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// hwlat: a polling window with a gap above the threshold.
    Hwlat {
        /// Its CPU.
        cpu: usize,
        /// The longest gap within its loop, in ns.
        inner_ns: u64,
        /// The longest gap between two iterations of it, in ns.
        outer_ns: u64,
        /// When the longest one was, CLOCK_REALTIME in ns.
        at_real_ns: u64,
        /// Gaps in the window.
        count: u64,
        /// Non-maskable interrupts among them.
        nmi_count: u64,
    },
    /// timerlat: a wake-up, measured in its interrupt or in its thread.
    Timerlat {
        /// Its CPU.
        cpu: usize,
        /// Measured in the thread, not in the interrupt.
        thread: bool,
        /// The latency in ns.
        latency_ns: u64,
    },
    /// osnoise: one period.
    Osnoise {
        /// Its CPU.
        cpu: usize,
        /// Time polled, in µs.
        runtime_us: u64,
        /// Noise in it, in µs.
        noise_us: u64,
        /// The longest single interruption, in µs.
        max_us: u64,
    },
}

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    lost: u64,
}

impl Lines {
    /// Takes what was read, and calls `each` for every complete line.
    pub fn add_bytes(&mut self, bytes: &[u8], mut each: impl FnMut(Line)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + piece.len() <= LONGEST {
                self.rest.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let text = String::from_utf8_lossy(&self.rest);
                match parse(&text) {
                    Some(line) => each(line),
                    None => self.lost += lost_in(&text),
                }
                self.rest.clear();
            }
        }
    }

    /// Events that the kernel reports as overwritten.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// `CPU:0 [LOST 123 EVENTS]`.
fn lost_in(line: &str) -> u64 {
    let number = line
        .split_once("[LOST ")
        .and_then(|(_, rest)| rest.split_whitespace().next());
    number.map_or(0, |number| number.parse().unwrap_or(1))
}

/// Parses one line; `None` if it is not a tracer's.
#[must_use]
pub fn parse(line: &str) -> Option<Line> {
    // `task-pid [cpu] flags time: what`; a task's name may contain brackets, a CPU's number not.
    let (cpu, rest) = line.match_indices('[').find_map(|(at, _)| {
        let (number, rest) = line[at + 1..].split_once(']')?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| Some((number.parse::<usize>().ok()?, rest)))?
    })?;
    let (_, what) = rest.split_once(": ")?;
    hwlat(cpu, what)
        .or_else(|| timerlat(cpu, what))
        .or_else(|| osnoise(cpu, what))
}

/// `#1 inner/outer(us):   11/12    ts:1581527483.343962693 count:6 nmi-total:4 nmi-count:1`.
fn hwlat(cpu: usize, what: &str) -> Option<Line> {
    let (_, rest) = what.split_once("inner/outer(us):")?;
    let mut words = rest.split_whitespace();
    let (inner, outer) = words.next()?.split_once('/')?;
    let us = |text: &str| text.parse::<u64>().ok()?.checked_mul(1_000);
    let mut line = (None, 1, 0);
    for word in words {
        let (name, value) = word.split_once(':')?;
        match name {
            "ts" => {
                let (seconds, nanos) = value.split_once('.')?;
                let seconds = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
                line.0 = seconds.checked_add(nanos.parse().ok()?);
            }
            "count" => line.1 = value.parse().ok()?,
            "nmi-count" => line.2 = value.parse().ok()?,
            _ => {}
        }
    }
    Some(Line::Hwlat {
        cpu,
        inner_ns: us(inner)?,
        outer_ns: us(outer)?,
        at_real_ns: line.0?,
        count: line.1,
        nmi_count: line.2,
    })
}

/// `#1 context thread timer_latency     11700 ns`.
fn timerlat(cpu: usize, what: &str) -> Option<Line> {
    let (_, rest) = what.split_once("context")?;
    let mut words = rest.split_whitespace();
    let context = words.next()?;
    let thread = match context {
        "irq" => false,
        "thread" => true,
        _ => return None,
    };
    (words.next()? == "timer_latency").then_some(())?;
    let latency_ns = words.next()?.parse().ok()?;
    (words.next()? == "ns").then_some(Line::Timerlat {
        cpu,
        thread,
        latency_ns,
    })
}

/// `1000000 190  99.98100  9  18  0  1007  18  1`: runtime, noise, share, the longest, counts.
fn osnoise(cpu: usize, what: &str) -> Option<Line> {
    let words: Vec<&str> = what.split_whitespace().take(10).collect();
    let [runtime, noise, share, max, ..] = words.as_slice() else {
        return None;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    (words.len() >= 8 && share.contains('.')).then_some(Line::Osnoise {
        cpu,
        runtime_us: number(runtime)?,
        noise_us: number(noise)?,
        max_us: number(max)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in the kernel's documentation, and as the kernels of the laboratory print it.
    const HWLAT: &str = "           <...>-1729  [001] d..1.   678.473449: #1     inner/outer(us):   11/12    ts:1581527483.343962693 count:6 nmi-total:4 nmi-count:1";
    const TIMERLAT: &str = "           <...>-867   [003] .....    54.030328: #2     context thread timer_latency     11700 ns";
    const OSNOISE: &str = "           <...>-859   [000] .....    81.637220: 1000000        190  99.98100       9     18      0     1007      18       1";

    #[test]
    fn the_kernels_lines_are_read() {
        assert_eq!(
            parse(HWLAT),
            Some(Line::Hwlat {
                cpu: 1,
                inner_ns: 11_000,
                outer_ns: 12_000,
                at_real_ns: 1_581_527_483_343_962_693,
                count: 6,
                nmi_count: 1,
            })
        );
        assert_eq!(
            parse(TIMERLAT),
            Some(Line::Timerlat {
                cpu: 3,
                thread: true,
                latency_ns: 11_700,
            })
        );
        let irq = TIMERLAT.replace("thread", "   irq");
        assert!(matches!(
            parse(&irq),
            Some(Line::Timerlat { thread: false, .. })
        ));
        assert_eq!(
            parse(OSNOISE),
            Some(Line::Osnoise {
                cpu: 0,
                runtime_us: 1_000_000,
                noise_us: 190,
                max_us: 9,
            })
        );
    }

    #[test]
    fn a_task_may_have_any_name() {
        let line = TIMERLAT.replace("<...>", "[x] a: [y");
        assert!(matches!(parse(&line), Some(Line::Timerlat { cpu: 3, .. })));
    }

    #[test]
    fn other_and_damaged_lines_are_ignored_without_a_panic() {
        for line in [
            "",
            "# tracer: hwlat",
            "CPU:0 [LOST 9 EVENTS]",
            "[0]",
            "[1] x: ",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
        for whole in [HWLAT, TIMERLAT, OSNOISE] {
            for end in 0..whole.len() {
                let _ = parse(&whole[..end]);
                let mut bytes = whole.as_bytes().to_vec();
                for bent in [b'9', b'[', b':', 0xff] {
                    bytes[end] = bent;
                    let _ = parse(&String::from_utf8_lossy(&bytes));
                }
            }
        }
        let huge = TIMERLAT.replace("11700", "99999999999999999999999");
        assert_eq!(parse(&huge), None);
    }

    #[test]
    fn lines_are_complete_however_the_stream_is_split() {
        let text = format!(
            "{TIMERLAT}\nCPU:0 [LOST 7 EVENTS]\n{}\n{OSNOISE}\n",
            "x".repeat(5_000)
        );
        for size in [1, 7, 100, 10_000] {
            let mut lines = Lines::default();
            let mut count = 0;
            for piece in text.as_bytes().chunks(size) {
                lines.add_bytes(piece, |_| count += 1);
            }
            assert_eq!((count, lines.lost()), (2, 7), "{size}");
        }
    }
}
