//! What one load has to do, as its supervisor is told on its command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::class::LoadClass;
use crate::parameter::Values;

/// The verb by which the tool starts itself again for a load.
pub const VERB: &str = "__load";

/// What the fork load runs by this verb: a program that does nothing. No load is called so.
pub const NOTHING: &str = "--nothing";

/// The name that a user's own command goes by.
pub const COMMAND: &str = "command";

/// What one load has to do, as told on the command line of its supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// A generator's name, or [`COMMAND`].
    pub name: String,
    /// The class to run in.
    pub class: LoadClass,
    /// The CPUs to run on; `None` is all that are allowed.
    pub cpus: Option<Vec<usize>>,
    /// A directory to be made and removed.
    pub scratch: Option<PathBuf>,
    /// The command line, for [`COMMAND`].
    pub run: Option<OsString>,
    /// All of the generator's parameters.
    pub values: Values,
}

impl Job {
    pub fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from(VERB), self.name.clone().into()];
        let mut add = |key: &str, value: OsString| {
            arguments.push(format!("--{key}").into());
            arguments.push(value);
        };
        add("class", self.class.to_string().into());
        if let Some(cpus) = &self.cpus {
            let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
            add("cpus", cpus.join(",").into());
        }
        if let Some(scratch) = &self.scratch {
            add("scratch", scratch.into());
        }
        if let Some(run) = &self.run {
            add("run", run.clone());
        }
        for (key, value) in &self.values {
            add(key, value.to_string().into());
        }
        arguments
    }

    pub fn from_arguments(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let text = |value: OsString| value.into_string().map_err(|v| format!("not text: {v:?}"));
        let name = text(arguments.next().ok_or("no name of a load")?)?;
        let mut job = Job {
            name,
            class: LoadClass::Other,
            cpus: None,
            scratch: None,
            run: None,
            values: BTreeMap::new(),
        };
        while let Some(key) = arguments.next() {
            let key = text(key)?;
            let value = arguments.next().ok_or_else(|| format!("{key}: no value"))?;
            match key
                .strip_prefix("--")
                .ok_or_else(|| format!("{key}: no option"))?
            {
                "class" => job.class = text(value)?.parse()?,
                "cpus" => {
                    let numbers = text(value)?;
                    let numbers: Result<_, _> = numbers.split(',').map(str::parse).collect();
                    job.cpus = Some(numbers.map_err(|error| format!("--cpus: {error}"))?);
                }
                "scratch" => job.scratch = Some(value.into()),
                "run" => job.run = Some(value),
                key => {
                    let number = text(value)?.parse();
                    let number = number.map_err(|error| format!("--{key}: {error}"))?;
                    job.values.insert(key.to_owned(), number);
                }
            }
        }
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_command_line() {
        let job = Job {
            name: "files".into(),
            class: LoadClass::Idle,
            cpus: Some(vec![0, 3]),
            scratch: Some("/tmp/a b".into()),
            run: Some("echo 'x y'".into()),
            values: [("readers".to_owned(), 7)].into(),
        };
        let mut arguments = job.to_arguments().into_iter();
        assert_eq!(arguments.next(), Some(VERB.into()));
        assert_eq!(Job::from_arguments(arguments), Ok(job));
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in [
            &["cpu", "--class"][..],
            &["cpu", "x", "y"],
            &["cpu", "--cpus", "a"],
            &[],
        ] {
            let arguments = arguments.iter().map(OsString::from);
            assert!(Job::from_arguments(arguments).is_err());
        }
    }
}
