//! Values that are one of a few names.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command};

use super::super::units;
use super::gaps::Probe;
use super::{IntervalKind, IntervalWord};
use crate::load::{KERNEL_PATHS_NAME, LoadClass, LoadSpec, generator};
use crate::probe::kinds::{KINDS, Kind};
use crate::record::Subject;
use crate::report::formats::Format;

/// Reads a word with a parser that says itself what is expected; the shells complete the names
/// that most people mean, and a slip is held against them.
#[derive(Clone)]
pub struct Listed<T> {
    read: fn(&str) -> Result<T, String>,
    names: fn() -> Vec<&'static str>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Listed<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.read.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = (self.names)().into_iter();
        Some(Box::new(names.map(PossibleValue::new)))
    }
}

/// A path, or one of a few names.
#[derive(Clone)]
pub struct PathOr(pub fn() -> Vec<&'static str>);

impl TypedValueParser for PathOr {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PathBuf, clap::Error> {
        PathBufValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// Any text, with names that are completed.
pub fn text(names: fn() -> Vec<&'static str>) -> Listed<String> {
    Listed {
        read: |text| Ok(text.to_owned()),
        names,
    }
}

/// `--load` and the LOAD of `load`.
pub fn load() -> Listed<LoadSpec> {
    Listed {
        read: LoadSpec::parse,
        names: || [&["standard", "none", KERNEL_PATHS_NAME], &generators()[..]].concat(),
    }
}

/// The loads that run by themselves.
pub fn generators() -> Vec<&'static str> {
    generator::ALL.iter().map(|load| load.name).collect()
}

/// `--load-class`.
pub fn load_class() -> Listed<LoadClass> {
    Listed {
        read: str::parse,
        names: || vec!["other", "batch", "idle"],
    }
}

/// `--format`.
pub fn format() -> Listed<Format> {
    Listed {
        read: |word| {
            let all = Format::ALL.map(Format::name).join(", ");
            word.parse().map_err(|_| format!("expected {all}"))
        },
        names: || Format::ALL.into_iter().map(Format::name).collect(),
    }
}

/// `--interval`.
pub fn interval() -> Listed<IntervalWord> {
    Listed {
        read: |text| match text {
            "fixed" => Ok(IntervalWord::Kind(IntervalKind::Fixed)),
            "primes" => Ok(IntervalWord::Kind(IntervalKind::Primes)),
            _ if text.starts_with(|c: char| c.is_ascii_digit()) => {
                units::interval(text).map(IntervalWord::Every)
            }
            _ => Err("expected fixed, primes, or an interval such as 1000 or 250us".to_owned()),
        },
        names: || vec!["fixed", "primes"],
    }
}

/// Reads a name and says itself which there are; the shells complete them.
#[derive(Clone)]
pub struct Named<T> {
    read: fn(&str) -> Option<T>,
    names: fn() -> Vec<&'static str>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let Self { read, names } = *self;
        let read =
            move |name: &str| read(name).ok_or_else(|| format!("expected {}", names().join(", ")));
        read.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = (self.names)().into_iter();
        Some(Box::new(names.map(PossibleValue::new)))
    }
}

const GAPS: [Subject; 2] = [Subject::Noise, Subject::Hardware];

fn sources() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.name).collect()
}

/// The wait sources.
pub fn source() -> Named<Kind> {
    Named {
        read: Kind::named,
        names: sources,
    }
}

/// What `measure` measures.
pub fn probe() -> Named<Probe> {
    Named {
        read: |name| {
            let gaps = GAPS.into_iter().find(|subject| subject.name() == name);
            let gaps = gaps.map(Probe::Gaps);
            gaps.or_else(|| Kind::named(name).map(Probe::Wait))
        },
        names: || [sources(), GAPS.map(Subject::name).to_vec()].concat(),
    }
}
