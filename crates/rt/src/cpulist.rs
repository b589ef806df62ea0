//! CPU lists as users and the kernel write them: `3-5,0`, `0-7:2`, `!1-2`, `all`.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::affinity::MAX_CPUS;
use crate::sys::task::{CPU_MASK_WORDS, CpuMask};

/// A CPU list that is not yet checked against a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuList {
    /// `all`: every CPU that may be used.
    All,
    /// `3-5,0`: these CPUs, ascending, without duplicates.
    Only(Vec<usize>),
    /// `!1-2`: all CPUs that may be used except these.
    Except(Vec<usize>),
}

/// Why a text is not a valid CPU list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuListError {
    /// It names no CPU.
    Empty,
    /// A part is not `N`, `N-M`, `N-M:STRIDE` or `N-M:USED/GROUP`.
    Malformed,
    /// A range ends before it begins.
    Backwards,
    /// The highest CPU number of a range is above the last possible CPU.
    TooLarge,
    /// The ranges together name more CPUs than the limit.
    TooLong,
    /// No CPU that may be used is left.
    NoneLeft,
    /// It names a CPU that may not be used: offline, or outside the cpuset.
    NotAllowed(usize),
    /// Not enough memory for this number of CPUs.
    NoMemory,
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the CPU list is empty"),
            Self::Malformed => write!(
                f,
                "not a CPU list: expected a list like 3, 0-2,5, 0-7:2, !1-2 or all"
            ),
            Self::Backwards => write!(f, "a range of the CPU list ends before it begins"),
            Self::TooLarge => write!(
                f,
                "the CPU list has a number above {}, the last possible CPU",
                MAX_CPUS - 1
            ),
            Self::TooLong => write!(f, "the CPU list is too long"),
            Self::NoneLeft => write!(
                f,
                "the CPU list selects none of the CPUs that this process may use"
            ),
            Self::NotAllowed(cpu) => write!(
                f,
                "CPU {cpu} may not be used: it is offline, or outside the cpuset"
            ),
            Self::NoMemory => write!(f, "no memory for the CPU list"),
        }
    }
}

impl std::error::Error for CpuListError {}

impl CpuListError {
    /// The number that the C functions put into `errno`. Real-time safe.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NoMemory => libc::ENOMEM,
            _ => libc::EINVAL,
        }
    }
}

/// Why a text is not a valid CPU list, and which part of it is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused<'a> {
    /// What is wrong.
    pub error: CpuListError,
    /// The part between two commas; the whole text where there is none.
    pub part: &'a str,
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        Self::parse(text).map_err(|refused| refused.error)
    }
}

impl CpuList {
    /// Parses a list as a user writes it, without checking it against a machine. For setting up:
    /// it allocates.
    ///
    /// # Errors
    /// All of [`CpuListError`] except those that depend on the machine.
    pub fn parse(text: &str) -> Result<Self, Refused<'_>> {
        let text = text.trim();
        if text == "all" {
            return Ok(Self::All);
        }
        let (list, make): (_, fn(Vec<usize>) -> Self) = match text.strip_prefix('!') {
            Some(rest) => (rest, Self::Except),
            None => (text, Self::Only),
        };
        match numbers(list)? {
            cpus if cpus.is_empty() => Err(Refused {
                error: CpuListError::Empty,
                part: list,
            }),
            cpus => Ok(make(cpus)),
        }
    }

    /// The CPUs that the list selects from `allowed` (ascending). For setting up: it allocates.
    ///
    /// # Errors
    /// [`CpuListError::NotAllowed`], [`CpuListError::NoneLeft`], [`CpuListError::NoMemory`].
    pub fn choose(&self, allowed: &[usize]) -> Result<Vec<usize>, CpuListError> {
        let chosen = match self {
            Self::All => collected(allowed.len(), allowed.iter().copied())?,
            Self::Only(cpus) => {
                if let Some(&cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                    return Err(CpuListError::NotAllowed(cpu));
                }
                collected(cpus.len(), cpus.iter().copied())?
            }
            Self::Except(cpus) => {
                let left = allowed.iter().filter(|cpu| !cpus.contains(cpu));
                collected(allowed.len(), left.copied())?
            }
        };
        if chosen.is_empty() {
            return Err(CpuListError::NoneLeft);
        }
        Ok(chosen)
    }
}

/// The limit of CPUs that all parts of a list may name together, duplicates included: a hostile
/// list repeats a wide range for a megabyte.
const MOST: usize = 8 * MAX_CPUS;

/// Parses a list as the kernel writes it (`0-3,8`; an empty list names no CPU), with the strides
/// that `taskset` (`0-7:2`) and the kernel (`0-31:2/8`: the first 2 of each 8) accept. The result
/// is ascending, without duplicates. Not real-time safe (allocates).
///
/// # Errors
/// [`CpuListError::Malformed`], [`CpuListError::Backwards`], [`CpuListError::TooLarge`],
/// [`CpuListError::TooLong`], [`CpuListError::NoMemory`].
pub fn numbers(text: &str) -> Result<Vec<usize>, Refused<'_>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut named: CpuMask = [0; CPU_MASK_WORDS];
    let mut passed = 0;
    for part in text.split(',') {
        let part = part.trim();
        let refused = |error| Refused { error, part };
        let range = Range::parse(part).map_err(refused)?;
        passed += range.last - range.first + 1;
        if passed > MOST {
            return Err(refused(CpuListError::TooLong));
        }
        range
            .cpus()
            .for_each(|cpu| named[cpu / 64] |= 1 << (cpu % 64));
    }
    from_mask(&named).map_err(|error| Refused { error, part: text })
}

/// The CPUs of a mask, in ascending order. For setting up: it allocates.
///
/// # Errors
/// [`CpuListError::NoMemory`].
pub fn from_mask(mask: &CpuMask) -> Result<Vec<usize>, CpuListError> {
    let count = mask.iter().map(|word| word.count_ones() as usize).sum();
    // Most of the mask is 0: testing 8,192 single bits would take as long as starting a thread.
    let words = mask.iter().enumerate().filter(|(_, word)| **word != 0);
    let cpus = words.flat_map(|(at, word)| {
        (0..64).filter_map(move |bit| (word >> bit & 1 == 1).then_some(at * 64 + bit))
    });
    collected(count, cpus)
}

/// Collects at most `most` CPUs. With thousands of CPUs the allocation must be fallible: a
/// library may not abort its program.
fn collected(most: usize, cpus: impl Iterator<Item = usize>) -> Result<Vec<usize>, CpuListError> {
    let mut all = Vec::new();
    all.try_reserve_exact(most)
        .map_err(|_| CpuListError::NoMemory)?;
    all.extend(cpus);
    Ok(all)
}

/// One part of a list: `N`, `N-M`, `N-M:STRIDE` or `N-M:USED/GROUP`.
struct Range {
    first: usize,
    last: usize,
    /// Selects the first `used` CPUs of each group.
    used: usize,
    group: usize,
}

impl Range {
    fn parse(part: &str) -> Result<Self, CpuListError> {
        let (range, stride) = match part.split_once(':') {
            Some((range, stride)) => (range, Some(stride)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None if stride.is_some() => return Err(CpuListError::Malformed),
            None => (number(range)?, number(range)?),
        };
        if last < first {
            return Err(CpuListError::Backwards);
        }
        let (used, group) = match stride.map(|stride| stride.split_once('/').ok_or(stride)) {
            None => (1, 1),
            Some(Ok((used, group))) => (number(used)?, number(group)?),
            Some(Err(stride)) => (1, number(stride)?),
        };
        if used == 0 || used > group {
            return Err(CpuListError::Malformed);
        }
        Ok(Self {
            first,
            last,
            used,
            group,
        })
    }

    fn cpus(&self) -> impl Iterator<Item = usize> {
        (self.first..=self.last).filter(|cpu| (cpu - self.first) % self.group < self.used)
    }
}

/// A number below [`MAX_CPUS`].
fn number(text: &str) -> Result<usize, CpuListError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CpuListError::Malformed);
    }
    match text.parse() {
        Ok(number) if number < MAX_CPUS => Ok(number),
        _ => Err(CpuListError::TooLarge),
    }
}

/// CPU numbers separated by commas, which the kernel accepts in any order.
pub(crate) fn joined(cpus: &[usize]) -> Result<String, CpuListError> {
    let mut text = String::new();
    for (at, cpu) in cpus.iter().enumerate() {
        // A comma and the digits of the largest number.
        text.try_reserve(21).map_err(|_| CpuListError::NoMemory)?;
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string doesn't fail.
        let _ = write!(text, "{comma}{cpu}");
    }
    Ok(text)
}

/// Formats CPUs, ascending and without duplicates, as the kernel does. Not real-time safe
/// (allocates).
///
/// # Errors
/// [`CpuListError::NoMemory`].
pub fn text(cpus: &[usize]) -> Result<String, CpuListError> {
    // Four digits and a comma. A number above the last CPU is formatted too, and may need more.
    let mut text = String::new();
    text.try_reserve(5 * cpus.len())
        .map_err(|_| CpuListError::NoMemory)?;
    let _ = write!(text, "{}", Listed(cpus));
    Ok(text)
}

/// Formats CPUs, ascending and without duplicates, as the kernel does: `0-3,8`.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'a>(pub &'a [usize]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        for (position, run) in runs.enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                _ => write!(f, "{comma}{}", run[0])?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn only(text: &str) -> Vec<usize> {
        match text.parse() {
            Ok(CpuList::Only(cpus)) => cpus,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_list_is_parsed() {
        assert_eq!(only("3-5,0"), [0, 3, 4, 5]);
        assert_eq!(only(" 1 , 1-2"), [1, 2]);
        assert_eq!(only("0-7:3"), [0, 3, 6]);
        assert_eq!(only("0-15:2/8"), [0, 1, 8, 9]);
        assert_eq!(numbers(" \n"), Ok(vec![]));
        assert_eq!("all".parse(), Ok(CpuList::All));
        assert_eq!("!1-2".parse(), Ok(CpuList::Except(vec![1, 2])));
    }

    #[test]
    fn an_invalid_list_is_refused_with_its_reason() {
        for (text, error) in [
            ("", CpuListError::Empty),
            ("!", CpuListError::Empty),
            ("1,,2", CpuListError::Malformed),
            ("-1", CpuListError::Malformed),
            ("1-", CpuListError::Malformed),
            ("+1", CpuListError::Malformed),
            ("1:2", CpuListError::Malformed),
            ("0-4:0", CpuListError::Malformed),
            ("0-4:0/0", CpuListError::Malformed),
            ("0-7:3/2", CpuListError::Malformed),
            ("!!1", CpuListError::Malformed),
            ("5-3", CpuListError::Backwards),
            ("8192", CpuListError::TooLarge),
            ("99999999999999999999999", CpuListError::TooLarge),
        ] {
            assert_eq!(text.parse::<CpuList>(), Err(error), "{text:?}");
        }
        let wide = vec!["0-8191"; 100_000].join(",");
        assert_eq!(wide.parse::<CpuList>(), Err(CpuListError::TooLong));
        let refused = CpuList::parse("!1, x ,5-3").unwrap_err();
        assert_eq!(
            (refused.error, refused.part),
            (CpuListError::Malformed, "x")
        );
    }

    #[test]
    fn a_list_selects_from_the_allowed_cpus() {
        let choose = |text: &str| text.parse::<CpuList>().unwrap().choose(&[0, 2, 3]);
        assert_eq!(choose("all"), Ok(vec![0, 2, 3]));
        assert_eq!(choose("2-3"), Ok(vec![2, 3]));
        assert_eq!(choose("!2"), Ok(vec![0, 3]));
        assert_eq!(choose("1-2"), Err(CpuListError::NotAllowed(1)));
        assert_eq!(choose("!0-5"), Err(CpuListError::NoneLeft));
    }

    #[test]
    fn a_list_of_every_possible_cpu_is_parsed_and_formatted() {
        let all: Vec<usize> = (0..MAX_CPUS).collect();
        assert_eq!(numbers("0-8191"), Ok(all.clone()));
        assert_eq!(from_mask(&[u64::MAX; CPU_MASK_WORDS]), Ok(all));
        assert_eq!(from_mask(&[0; CPU_MASK_WORDS]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn a_formatted_list_parses_to_the_same_cpus(cpus in proptest::collection::btree_set(0..300_usize, 1..40)) {
            let cpus: Vec<usize> = cpus.into_iter().collect();
            prop_assert_eq!(only(&Listed(&cpus).to_string()), cpus);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[-0-9,:! al]{0,24}") {
            let _ = text.parse::<CpuList>().map(|list| list.choose(&[0, 1]));
        }
    }
}
