//! The file of the plugin (`plugin/windows.c`): lines of words and numbers.

use punctual_record::lab::NoBound;

/// Its first line.
const BEGIN: &str = "punctual-windows 2";
/// An interrupt that comes so soon after a window, in instructions; the plugin has the same number.
pub const NEAR: u64 = 20_000;
/// The longest windows of each model that are read.
const MOST_WINDOWS: usize = 256;
/// Wake-ups that are read.
const MOST_WAKES: usize = 1 << 18;

/// Where a kernel can be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// Wherever interrupts are enabled and the count of preemption is 0.
    Full,
    /// Only where it asks.
    Points,
}

/// A window between two places of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The longest of them, in instructions.
    pub length: u64,
    /// The address where it begins.
    pub start: u64,
    /// The address where it ends.
    pub end: u64,
    /// Where the interrupt begins that is a part of it though it came soon after; 0 for none.
    pub then: u64,
    /// Whether it includes an interrupt that is not a wake-up's.
    pub interrupted: bool,
    /// Whether another one came within [`NEAR`] of its end.
    pub crowded: bool,
    /// How often such a one was among the longest.
    pub times: u64,
}

/// What was seen of one wake-up; instructions are counted from the first mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wake {
    /// When it was marked.
    pub mark: u64,
    /// When the clock was read before.
    pub clock: u64,
    /// When its interrupt came; 0 if none did.
    pub entry: u64,
    /// Since when interrupts had been enabled then.
    pub ready: u64,
    /// The length of the interrupt's handler.
    pub handler: u64,
    /// From its end, or from where the kernel could be preempted, to the choice of the thread; 0 where
    /// that is not known.
    pub approach: u64,
    /// From there to the clock.
    pub path: u64,
    /// Whether another interrupt, or the tick, came before the clock was read.
    pub mixed: bool,
}

/// What a file says, for one model of preemption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    /// While the first wake-ups warmed up, in any order.
    pub early: Vec<Window>,
    /// Later, in any order.
    pub late: Vec<Window>,
    /// In order.
    pub wakes: Vec<Wake>,
    /// Interrupts.
    pub interrupts: u64,
    /// The least time between two of them that were not wake-ups'.
    pub apart: u64,
}

/// The numbers of a line; hexadecimal where `hex` says so.
fn numbers<const N: usize>(words: &[&str], hex: &[usize]) -> Option<[u64; N]> {
    let mut found = [0; N];
    if words.len() != N {
        return None;
    }
    for (at, (word, number)) in words.iter().zip(&mut found).enumerate() {
        let base = if hex.contains(&at) { 16 } else { 10 };
        *number = u64::from_str_radix(word, base).ok()?;
    }
    Some(found)
}

impl Windows {
    /// Parses a file. Never panics, and uses at most a few times its size of memory.
    ///
    /// # Errors
    /// It is damaged or cut off, or the plugin met what it does not understand.
    pub fn parse(text: &str, preemption: Preemption) -> Result<Self, NoBound> {
        let mine = match preemption {
            Preemption::Full => "full",
            Preemption::Points => "points",
        };
        let mut all = Self::default();
        let mut ended = false;
        let mut last = 0;
        for (line, text) in (1..).zip(text.lines()) {
            last = line;
            let words: Vec<&str> = text.split(' ').collect();
            let read = match *words.as_slice() {
                _ if ended => None,
                _ if line == 1 => (text == BEGIN).then_some(()),
                ["checks", ..] => {
                    let checks = numbers(&words[1..], &[]);
                    match checks {
                        Some([0, 0, 0, 0]) | None => {}
                        Some([disabled, popped, returned, unread]) => {
                            return Err(NoBound::NotUnderstood {
                                interrupted_while_disabled: disabled,
                                flags_popped: popped,
                                returned_with_count: returned,
                                count_unread: unread,
                            });
                        }
                    }
                    checks.map(drop)
                }
                ["interrupts", ..] => numbers(&words[1..], &[]).map(|[interrupts, apart]| {
                    (all.interrupts, all.apart) = (interrupts, apart);
                }),
                ["window", model, when, ..] => window(&words[3..]).and_then(|window| {
                    let to = match when {
                        "early" => &mut all.early,
                        "late" => &mut all.late,
                        _ => return None,
                    };
                    to.extend((model == mine).then_some(window));
                    (to.len() <= MOST_WINDOWS).then_some(())
                }),
                ["wake", ..] => wake(&words[1..], preemption).and_then(|wake| {
                    all.wakes.push(wake);
                    (all.wakes.len() <= MOST_WAKES).then_some(())
                }),
                ["end"] => {
                    ended = true;
                    Some(())
                }
                _ => None,
            };
            if read.is_none() {
                return Err(NoBound::Damaged { line });
            }
        }
        if ended {
            Ok(all)
        } else {
            Err(NoBound::Damaged { line: last + 1 })
        }
    }
}

fn window(words: &[&str]) -> Option<Window> {
    let [length, start, end, then, interrupted, crowded, times] = numbers(words, &[1, 2, 3])?;
    Some(Window {
        length,
        start,
        end,
        then,
        interrupted: interrupted != 0,
        crowded: crowded != 0,
        times,
    })
}

fn wake(words: &[&str], preemption: Preemption) -> Option<Wake> {
    let numbers = numbers::<14>(words, &[])?;
    let [mark, clock, ..] = numbers;
    let mine = match preemption {
        Preemption::Full => &numbers[2..8],
        Preemption::Points => &numbers[8..],
    };
    let &[entry, ready, handler, approach, path, mixed] = mine else {
        return None;
    };
    Some(Wake {
        mark,
        clock,
        entry,
        ready,
        handler,
        approach,
        path,
        mixed: mixed != 0,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const FILE: &str = "punctual-windows 2\n\
        checks 0 0 0 0\n\
        interrupts 20 4000000\n\
        window full early 9000 ffffffff81000010 ffffffff81000120 0 0 0 3\n\
        window full late 5000 ffffffff81000010 ffffffff81000120 0 0 0 3\n\
        window full late 300 ffffffff81000020 ffffffff81000120 ffffffff81000040 1 0 9\n\
        window points late 90000 ffffffff81000030 ffffffff81000130 0 1 1 1\n\
        wake 2000 1990 400 390 900 30 690 0 401 391 901 31 691 1\n\
        end\n";

    #[test]
    fn each_model_of_preemption_has_its_windows() {
        let full = Windows::parse(FILE, Preemption::Full).unwrap();
        let points = Windows::parse(FILE, Preemption::Points).unwrap();
        let lengths = |of: &[Window]| of.iter().map(|it| it.length).collect::<Vec<_>>();
        assert_eq!(lengths(&full.early), [9_000]);
        assert_eq!(lengths(&full.late), [5_000, 300]);
        assert_eq!(full.late[1].then, 0xffff_ffff_8100_0040);
        assert_eq!(lengths(&points.late), [90_000]);
        assert_eq!((full.interrupts, full.apart), (20, 4_000_000));
        let wake = Wake {
            mark: 2_000,
            clock: 1_990,
            entry: 400,
            ready: 390,
            handler: 900,
            approach: 30,
            path: 690,
            mixed: false,
        };
        assert_eq!(full.wakes, [wake]);
        let wake = points.wakes[0];
        assert_eq!((wake.entry, wake.approach, wake.path), (401, 31, 691));
        assert!(wake.mixed && points.late[0].interrupted && full.late[1].interrupted);
        assert!(points.late[0].crowded && !full.late[1].crowded);
    }

    #[test]
    fn a_file_that_is_cut_off_or_damaged_is_refused() {
        let whole = FILE.trim_end();
        for cut in 0..whole.len() {
            let of = Windows::parse(&whole[..cut], Preemption::Full);
            assert!(of.is_err(), "{cut}: {of:?}");
        }
        for (from, to) in [
            ("interrupts 20", "interrupts -20"),
            ("window full late 300", "window full soon 300"),
            ("full late 5000", "full late 99999999999999999999"),
            ("wake 2000", "wake"),
            ("end\n", "end\nend\n"),
            ("punctual-windows 2", "punctual-windows 1"),
        ] {
            let bad = FILE.replace(from, to);
            let of = Windows::parse(&bad, Preemption::Full);
            assert!(matches!(of, Err(NoBound::Damaged { .. })), "{to}: {of:?}");
        }
        let not = FILE.replace("checks 0 0 0 0", "checks 1 2 3 4");
        assert_eq!(
            Windows::parse(&not, Preemption::Full),
            Err(NoBound::NotUnderstood {
                interrupted_while_disabled: 1,
                flags_popped: 2,
                returned_with_count: 3,
                count_unread: 4,
            })
        );
    }
}
