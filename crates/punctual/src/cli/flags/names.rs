//! Values that are one of a few names.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};

use super::gaps::Probe;
use crate::probe::kinds::{KINDS, Kind};
use crate::record::Subject;

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
        let read = move |name: &str| {
            read(name).ok_or_else(|| format!("accepted are {}", names().join(", ")))
        };
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
