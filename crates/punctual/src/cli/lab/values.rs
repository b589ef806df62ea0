//! Values of the laboratory's flags, which an experiment's file has as well.

use std::error::Error;
use std::fmt;

use super::super::units;
use super::flags::{ColumnWords, MayGrow};
use punctual_lab::kernel::modules::is_file;

/// Why a value is refused: what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueError {
    /// Not one word of a kernel's command line.
    Parameter,
    /// A word of the kernel's command line that the laboratory sets.
    OwnParameter(&'static str),
    /// Neither a module's name nor a file.
    Module,
    /// A number outside its range.
    Range {
        /// What is counted.
        what: &'static str,
        /// The most; the least is 1.
        most: u64,
    },
    /// Not a size of memory.
    Memory,
    /// Not a time, or a load and a time.
    MayGrow,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter => {
                f.write_str("expected one word without spaces and quotes, such as preempt=full")
            }
            Self::OwnParameter(name) => {
                write!(f, "the laboratory sets {name} itself: leave it out")
            }
            Self::Module => f.write_str(
                "expected a module's name as lsmod shows it (null_blk), or a file (./mine.ko)",
            ),
            Self::Range { what, most } => write!(f, "expected a number of {what} from 1 to {most}"),
            Self::MayGrow => f.write_str("expected TIME or LOAD=TIME, such as 500ns or exit=20us"),
            Self::Memory => f.write_str("expected a size from 256M to 64G, such as 1G"),
        }
    }
}

impl Error for ValueError {}

/// One word that is passed to the kernel unchanged.
pub fn parameter(text: &str) -> Result<String, ValueError> {
    const OWN: [&str; 9] = [
        "console", "idle", "init", "initrd", "panic", "rdinit", "lab.seed", "icount", "root",
    ];
    let name = text.split('=').next().unwrap_or_default();
    let printable = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
    if !(1..=1024).contains(&text.len()) || text == "--" || !text.bytes().all(printable) {
        return Err(ValueError::Parameter);
    }
    match OWN.into_iter().find(|own| *own == name) {
        Some(own) => Err(ValueError::OwnParameter(own)),
        None => Ok(text.to_owned()),
    }
}

/// Words of a kernel's command line, separated by spaces.
pub fn column(text: &str) -> Result<ColumnWords, ValueError> {
    let words: Result<Vec<String>, ValueError> = text.split_whitespace().map(parameter).collect();
    match words? {
        words if words.is_empty() => Err(ValueError::Parameter),
        words => Ok(ColumnWords(words)),
    }
}

/// The name of a module, or the path of a module's file.
pub fn module(text: &str) -> Result<String, ValueError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_name = (1..=60).contains(&text.len()) && text.bytes().all(plain);
    match is_file(text) || is_name {
        true => Ok(text.to_owned()),
        false => Err(ValueError::Module),
    }
}

fn number(text: &str, most: u64, what: &'static str) -> Result<u64, ValueError> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or(ValueError::Range { what, most })
}

/// By how much figures may grow: a time, or one for a load.
pub fn may_grow(text: &str) -> Result<MayGrow, ValueError> {
    let (load, time) = match text.rsplit_once('=') {
        Some((load, time)) => (Some(load), time),
        None => (None, text),
    };
    let ns = match time.trim() {
        "0" => Some(0),
        time => units::latency(time).ok(),
    };
    let is_load = load.is_none_or(|load| (1..=256).contains(&load.len()));
    let ns = ns.filter(|_| is_load).ok_or(ValueError::MayGrow)?;
    let load = load.map(str::to_owned);
    Ok(MayGrow { load, ns })
}

pub fn cpus(text: &str) -> Result<usize, ValueError> {
    number(text, 64, "processors").map(|number| number as usize)
}

pub fn operations(text: &str) -> Result<u64, ValueError> {
    number(text, 1_000_000_000_000, "operations")
}

pub fn seeds(text: &str) -> Result<u64, ValueError> {
    number(text, 1000, "seeds")
}

pub fn jobs(text: &str) -> Result<usize, ValueError> {
    number(text, 1024, "guests").map(|number| number as usize)
}

/// MiB.
pub fn memory(text: &str) -> Result<u64, ValueError> {
    punctual_load::parameter::parse_number(text)
        .map(|bytes| bytes >> 20)
        .filter(|mib| (256..=65536).contains(mib))
        .ok_or(ValueError::Memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_parameter_is_one_word_that_the_laboratory_does_not_set() {
        for text in ["preempt=full", "isolcpus=1,2", "threadirqs", "a.b-c=1"] {
            assert_eq!(parameter(text), Ok(text.to_owned()));
        }
        for text in ["", "a b", "a\tb", "--", "a=\"b\"", "é"] {
            assert_eq!(parameter(text), Err(ValueError::Parameter), "{text}");
        }
        for (text, name) in [("init=/bin/sh", "init"), ("panic=0", "panic")] {
            let error = parameter(text).unwrap_err();
            assert_eq!(error, ValueError::OwnParameter(name), "{text}");
        }
    }

    #[test]
    fn numbers_have_a_range() {
        assert_eq!(memory("1G"), Ok(1024));
        assert_eq!(memory("512M"), Ok(512));
        for text in ["", "1", "255M", "65G", "-1G", "xG"] {
            assert!(memory(text).is_err(), "{text}");
        }
        assert!(cpus("0").is_err() && cpus("65").is_err() && cpus("x").is_err());
        assert_eq!(cpus("64"), Ok(64));
        assert!(seeds("0").is_err() && jobs("0").is_err());
    }

    #[test]
    fn a_module_is_a_name_or_a_file() {
        for text in ["null_blk", "./a", "../x.ko", "a.ko", "a b.ko.xz"] {
            assert_eq!(module(text), Ok(text.to_owned()));
        }
        for text in ["", "a.c", "..", "a b"] {
            assert!(module(text).is_err(), "{text}");
        }
    }
}
