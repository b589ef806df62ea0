//! One line of a recording in text form. Total: a line that is no event gives `None`.

use super::super::attribute::event::Vector;

/// Positions in a line that are tried for its CPU: a name has 15 bytes.
const PLACES: usize = 16;

/// An event as a line states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The thread that ran.
    pub name: &'a str,
    /// Its number.
    pub tid: u32,
    /// On which CPU.
    pub cpu: u32,
    /// Whether it happened in an interrupt or a softirq, if that is stated.
    pub in_interrupt: bool,
    /// When, by the recording's own clock.
    pub at_ns: u64,
    /// The event's name without its system's.
    pub event: &'a str,
    /// The text after the name.
    pub payload: &'a str,
    /// Name and payload.
    pub rest: &'a str,
}

impl<'a> Line<'a> {
    /// `  comm-12 [003] d..2. 1.234567: event: ...`, as tracefs and trace-cmd print it, or
    /// `  comm 12/12 [003] 1.234567890: system:event: ...`, as perf prints it.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_end();
        if text.trim_start().starts_with('#') {
            return None;
        }
        // A thread's name may contain `[1]`: the CPU is between the thread's number and the time.
        let places = text.match_indices('[').take(PLACES);
        places
            .into_iter()
            .find_map(|(at, _)| Self::at_position(text, at))
    }

    /// The event of a line whose CPU is at a given position.
    fn at_position(text: &'a str, place: usize) -> Option<Self> {
        let (cpu, behind) = cpu_of(&text[place + 1..])?;
        let (name, tid) = task_of(text[..place].trim())?;
        let mut in_interrupt = false;
        let (mut word, mut rest) = first_word(behind)?;
        // irqs-off, need-resched, hardirq or softirq, preempt-depth.
        if !word.ends_with(':') {
            if word.len() > 8 || word.contains(['[', '-']) {
                return None;
            }
            // The third of them, or the fourth if need-resched-lazy has a column of its own.
            in_interrupt = word.chars().skip(2).take(2).any(|c| "hHsZz".contains(c));
            (word, rest) = first_word(rest)?;
        }
        let at_ns = seconds(word.strip_suffix(':')?)?;
        let (event, payload) = match rest.split_once(": ") {
            Some((event, payload)) => (event, payload.trim_start()),
            None => (rest.trim_end_matches(':'), ""),
        };
        let event = event.rsplit(':').next().unwrap_or(event);
        Some(Self {
            name,
            tid,
            cpu,
            in_interrupt,
            at_ns,
            event,
            payload,
            rest,
        })
    }

    /// The word after `key=` or `key:`.
    #[must_use]
    pub fn word(&self, key: &str) -> Option<&'a str> {
        word_of(self.payload, key)
    }

    /// The same as a number, in decimal.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        let word = match key.strip_suffix(':') {
            Some(_) => {
                let at = self.payload.find(key)? + key.len();
                self.payload[at..].split_whitespace().next()?
            }
            None => self.word(key)?,
        };
        word.trim_end_matches(',').parse().ok()
    }

    /// The same as an address, in hexadecimal.
    #[must_use]
    pub fn address(&self, key: &str) -> Option<u64> {
        let word = self.word(key)?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    }
}

fn word_of<'a>(payload: &'a str, key: &str) -> Option<&'a str> {
    payload
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// The first word, and the text after it.
fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let (word, rest) = text.split_at(text.find(char::is_whitespace)?);
    Some((word, rest.trim_start()))
}

/// The number in `003] ...`, and the text after it.
fn cpu_of(text: &str) -> Option<(u32, &str)> {
    let (digits, behind) = text.split_once(']')?;
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let cpu = digits.parse().ok().filter(|cpu| all && *cpu < 1 << 13)?;
    Some((cpu, behind))
}

/// `comm-12`, `comm-12 (  12)`, `comm 12/12` and `comm 12`; a name may contain any of these.
fn task_of(text: &str) -> Option<(&str, u32)> {
    let text = match text.rfind('(') {
        Some(at) if text.ends_with(')') => text[..at].trim_end(),
        _ => text,
    };
    // A name may end with a multi-byte character.
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if before.is_empty() {
        return None;
    }
    let tid = text[before.len()..].parse().ok()?;
    let name = match before.strip_suffix('/') {
        // The process's number is before the thread's.
        Some(before) => before.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => before,
    };
    Some((name.strip_suffix('-').unwrap_or(name).trim(), tid))
}

/// `12.345678` and `12.345678901` in ns.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - part.len() as u32);
    let part = part.parse::<u64>().ok()?.checked_mul(scale)?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(part)
}

/// The CPU on which events were lost, if a line says so.
#[must_use]
pub fn lost_on(text: &str) -> Option<u32> {
    let text = text.trim();
    let (cpu, rest) = text.strip_prefix("CPU:")?.split_once(' ')?;
    (rest.contains("LOST") || rest.contains("DROPPED")).then(|| cpu.parse().ok())?
}

/// An interrupt vector, from the name of its entry or exit event.
#[must_use]
pub fn vector(event: &str) -> Option<(Vector, bool)> {
    let (name, is_entry) = match event.strip_suffix("_entry") {
        Some(name) => (name, true),
        None => (event.strip_suffix("_exit")?, false),
    };
    let vector = match name {
        "local_timer" => Vector::LocalTimer,
        "reschedule" => Vector::Reschedule,
        "call_function" => Vector::CallFunction,
        "call_function_single" => Vector::CallFunctionSingle,
        "irq_work" => Vector::IrqWork,
        "x86_platform_ipi" => Vector::Platform,
        "thermal_apic" => Vector::Thermal,
        "threshold_apic" => Vector::Threshold,
        _ => return None,
    };
    Some((vector, is_entry))
}

/// A thread as an event states it: number, name, the kernel's priority.
type Stated<'a> = (u32, &'a str, i32);

/// What `sched_switch` states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch<'a> {
    /// The thread that leaves.
    pub from: Stated<'a>,
    /// The thread that runs next.
    pub to: Stated<'a>,
    /// The state in which it leaves, and whether it was preempted.
    pub state: (u64, bool),
}

impl<'a> Switch<'a> {
    /// `prev_comm=a prev_pid=1 prev_prio=2 prev_state=R+ ==> next_comm=b ...`.
    #[must_use]
    pub fn parse(payload: &'a str) -> Option<Self> {
        let (before, behind) = payload.split_once(" ==> ")?;
        let (from, rest) = stated(before, "prev_comm=", " prev_pid=", " prev_prio=")?;
        let (to, _) = stated(behind, "next_comm=", " next_pid=", " next_prio=")?;
        let state = word_of(rest, "prev_state")?;
        let state = match state.as_bytes().first()? {
            b'R' => (0, state.ends_with('+')),
            b'S' => (1, false),
            b'D' => (2, false),
            b'T' => (4, false),
            b't' => (8, false),
            b'X' => (16, false),
            b'Z' => (32, false),
            b'I' => (1026, false),
            _ => (1, false),
        };
        Some(Self { from, to, state })
    }
}

/// The thread that a `sched_waking` wakes: `comm=a pid=1 prio=2 target_cpu=003`.
#[must_use]
pub fn woken(payload: &str) -> Option<Stated<'_>> {
    Some(stated(payload, "comm=", " pid=", " prio=")?.0)
}

fn stated<'a>(
    text: &'a str,
    comm: &str,
    pid: &str,
    priority: &str,
) -> Option<(Stated<'a>, &'a str)> {
    let text = text.trim_start().strip_prefix(comm)?;
    let (name, text) = text.split_once(pid)?;
    let (tid, text) = text.split_once(priority)?;
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    Some((
        (tid.trim().parse().ok()?, name, text[..end].parse().ok()?),
        &text[end..],
    ))
}

/// What osnoise says of one interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noise<'a> {
    /// `local_timer`, `RCU`, a thread's name; empty for an NMI.
    pub name: &'a str,
    /// The interrupt's, softirq's or thread's number.
    pub number: u32,
    /// When it began.
    pub from_ns: u64,
    /// How long it took, without what interrupted it itself.
    pub ns: u64,
}

impl<'a> Noise<'a> {
    /// `local_timer:236 start 1.234567890 duration 123 ns`.
    #[must_use]
    pub fn parse(payload: &'a str) -> Option<Self> {
        let (who, rest) = match payload.strip_prefix("start ") {
            Some(rest) => ("", rest),
            None => payload.split_once(" start ")?,
        };
        let (name, number) = who.trim().rsplit_once(':').unwrap_or((who.trim(), "0"));
        let mut words = rest.split_whitespace();
        let from_ns = seconds(words.next()?)?;
        let ns = words.nth(1)?.parse().ok()?;
        Some(Self {
            name: name.trim(),
            number: number.trim().parse().ok()?,
            from_ns,
            ns,
        })
    }
}

/// What timerlat says of one wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timerlat {
    /// The activation's number.
    pub number: u64,
    /// Where it was measured.
    pub context: TimerlatContext,
    /// The latency.
    pub ns: u64,
}

/// Where timerlat measures a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerlatContext {
    /// In the timer's interrupt.
    Interrupt,
    /// In its thread.
    Thread,
    /// As its thread in user space returns there.
    User,
}

impl Timerlat {
    /// `#123 context thread timer_latency 4567 ns`; `irq` and `user-ret` as well.
    #[must_use]
    pub fn parse(rest: &str) -> Option<Self> {
        let mut words = rest.strip_prefix('#')?.split_whitespace();
        let number = words.next()?.parse().ok()?;
        if words.next()? != "context" {
            return None;
        }
        let context = match words.next()? {
            "irq" => TimerlatContext::Interrupt,
            "thread" => TimerlatContext::Thread,
            "user-ret" => TimerlatContext::User,
            _ => return None,
        };
        if words.next()? != "timer_latency" {
            return None;
        }
        let ns = words.next()?.parse().ok()?;
        Some(Self {
            number,
            context,
            ns,
        })
    }
}
