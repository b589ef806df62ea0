//! Values that are one of a list of names.

use std::error::Error;
use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command};

use super::super::units;
use super::gaps::Probe;
use super::knob::{self, KnobArgument};
use super::values::ValueError;
use super::{IntervalKind, IntervalWord};
use crate::probe::kinds::{KINDS, Kind};
use punctual_load::{KERNEL_PATHS_NAME, LoadClass, LoadSpec, registry};
use punctual_record::Subject;
use punctual_record::finding::FindingId;
use punctual_record::laboratory::Architecture;
use punctual_record::ladder::Rung;
use punctual_record::path::Transport;
use punctual_report::formats::Format;
use punctual_stats::experiment::Measure;

/// Parses a word; the shells complete these names, and the nearest of them is suggested for a
/// misspelt word.
#[derive(Clone)]
pub struct Listed<T> {
    read: Reader<T>,
    names: fn() -> Vec<&'static str>,
}

/// Why a parser refuses a word.
type Refused = Box<dyn Error + Send + Sync>;

/// How a word is parsed.
#[derive(Clone)]
enum Reader<T> {
    /// By a parser whose error says what is expected.
    Word(fn(&str) -> Result<T, Refused>),
    /// As one of the names; the error lists them.
    Name(fn(&str) -> Option<T>),
    /// As one of the names, which are too many for an error: it says where they are listed.
    NameOfMany(fn(&str) -> Option<T>, &'static str),
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Listed<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let names = self.names;
        match self.read {
            Reader::Word(read) => read.parse_ref(command, argument, value),
            Reader::Name(read) => {
                let read = move |name: &str| {
                    read(name).ok_or_else(|| format!("expected {}", names().join(", ")))
                };
                read.parse_ref(command, argument, value)
            }
            Reader::NameOfMany(read, expected) => {
                let read = move |name: &str| read(name).ok_or(expected);
                read.parse_ref(command, argument, value)
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        completed(self.names)
    }
}

#[allow(clippy::unnecessary_wraps, reason = "what clap asks for")]
fn completed(
    names: fn() -> Vec<&'static str>,
) -> Option<Box<dyn Iterator<Item = PossibleValue> + 'static>> {
    Some(Box::new(names().into_iter().map(PossibleValue::new)))
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
        completed(self.0)
    }
}

/// Any text, with names that are completed.
pub fn text(names: fn() -> Vec<&'static str>) -> Listed<String> {
    Listed {
        read: Reader::Word(|text| Ok(text.to_owned())),
        names,
    }
}

/// `--load` and the LOAD of `load`.
pub fn load() -> Listed<LoadSpec> {
    Listed {
        read: Reader::Word(|text| Ok(LoadSpec::parse(text)?)),
        names: || [&["standard", "none", KERNEL_PATHS_NAME], &generators()[..]].concat(),
    }
}

/// The native loads.
pub fn generators() -> Vec<&'static str> {
    registry::ALL.iter().map(|load| load.name).collect()
}

/// `--load-class`.
pub fn load_class() -> Listed<LoadClass> {
    Listed {
        read: Reader::Word(|text| Ok(text.parse()?)),
        names: || vec!["other", "batch", "idle"],
    }
}

/// `--format`.
pub fn format() -> Listed<Format> {
    Listed {
        read: Reader::Name(|word| word.parse().ok()),
        names: || Format::ALL.into_iter().map(Format::name).collect(),
    }
}

/// `--arch`.
pub fn architecture() -> Listed<Architecture> {
    Listed {
        read: Reader::Name(Architecture::named),
        names: || {
            Architecture::ALL
                .into_iter()
                .map(Architecture::name)
                .collect()
        },
    }
}

/// `--interval`.
pub fn interval() -> Listed<IntervalWord> {
    Listed {
        read: Reader::Word(|text| match text {
            "fixed" => Ok(IntervalWord::Kind(IntervalKind::Fixed)),
            "primes" => Ok(IntervalWord::Kind(IntervalKind::Primes)),
            _ if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(IntervalWord::Every(units::interval(text)?))
            }
            _ => Err(ValueError::Interval.into()),
        }),
        names: || vec!["fixed", "primes"],
    }
}

const PATHS: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Raw];
const GAPS: [Subject; 2] = [Subject::Noise, Subject::Hardware];

fn sources() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.name).collect()
}

/// The wait sources.
pub fn source() -> Listed<Kind> {
    Listed {
        read: Reader::Name(Kind::named),
        names: sources,
    }
}

/// What `measure` measures.
pub fn probe() -> Listed<Probe> {
    Listed {
        read: Reader::Name(|name| {
            let gaps = GAPS.into_iter().find(|subject| subject.name() == name);
            let gaps = gaps.map(Probe::Gaps);
            let path = PATHS.into_iter().find(|over| over.name() == name);
            gaps.or_else(|| path.map(Probe::Path))
                .or_else(|| Kind::named(name).map(Probe::Wait))
        }),
        names: || {
            let gaps = GAPS.map(Subject::name).to_vec();
            [sources(), gaps, PATHS.map(Transport::name).to_vec()].concat()
        },
    }
}

/// KNOB of `prove` and `tune`.
pub fn knob() -> Listed<KnobArgument> {
    Listed {
        read: Reader::Word(|text| Ok(KnobArgument::parse(text)?)),
        names: knobs,
    }
}

/// KNOB of `tune restore`.
pub fn changed_knob() -> Listed<String> {
    Listed {
        read: Reader::Word(|text| Ok(knob::name(text)?)),
        names: knobs,
    }
}

fn knobs() -> Vec<&'static str> {
    let findings = FindingId::ALL.iter().map(|id| id.name());
    findings.chain(KnobArgument::names()).collect()
}

/// `--on`.
pub fn measure() -> Listed<Measure> {
    Listed {
        read: Reader::Name(|name| Measure::EVERY.into_iter().find(|it| it.name() == name)),
        names: || Measure::EVERY.map(Measure::name).to_vec(),
    }
}

/// `--rung`.
pub fn rung() -> Listed<Rung> {
    Listed {
        read: Reader::Name(Rung::by_name),
        names: || Rung::ALL.map(Rung::name).to_vec(),
    }
}

/// `--explain` of `check`, and the knobs of `tune`.
pub fn finding() -> Listed<FindingId> {
    Listed {
        read: Reader::NameOfMany(
            FindingId::by_name,
            "expected the name of a finding: `punctual check -v` and docs/findings.md list them",
        ),
        names: || FindingId::ALL.iter().map(|id| id.name()).collect(),
    }
}
