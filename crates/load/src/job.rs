//! The job of one load, passed to its supervisor on the command line.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::class::LoadClass;
use crate::parameter::Values;

/// The verb with which the tool starts itself again for a load.
pub const VERB: &str = "__load";

/// The argument with which the fork load runs a program that does nothing. No load has this name.
pub const NOTHING: &str = "--nothing";

/// The name of a user's own command.
pub const COMMAND: &str = "command";

/// The job of one load: one argument of its supervisor, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// A generator's name, or [`COMMAND`].
    pub name: String,
    /// The class to run in.
    pub class: LoadClass,
    /// The CPUs to run on; `None` is all that are allowed.
    pub cpus: Option<Vec<usize>>,
    /// A directory to make and remove.
    #[serde(with = "path")]
    pub scratch: Option<PathBuf>,
    /// The command line, for [`COMMAND`].
    pub run: Option<String>,
    /// All of the generator's parameters.
    pub values: Values,
}

/// Why arguments are not a job.
#[derive(Debug)]
pub enum JobError {
    /// There is none.
    Missing,
    /// It is not text.
    NotText(OsString),
    /// It is not a job in JSON.
    Json(serde_json::Error),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no load is described"),
            Self::NotText(argument) => write!(f, "not text: {argument:?}"),
            Self::Json(error) => write!(f, "not a description of a load: {error}"),
        }
    }
}

impl Error for JobError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Missing | Self::NotText(_) => None,
        }
    }
}

impl Job {
    /// The job as the argument after [`VERB`].
    pub fn to_argument(&self) -> String {
        // Keys are text, and paths are text or bytes: this cannot fail.
        serde_json::to_string(self).expect("a job is JSON")
    }

    /// The job of a supervisor, from the arguments after [`VERB`].
    pub fn from_arguments(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, JobError> {
        let argument = arguments.next().ok_or(JobError::Missing)?;
        let text = argument.into_string().map_err(JobError::NotText)?;
        serde_json::from_str(&text).map_err(JobError::Json)
    }
}

/// A path as text, or as bytes if it is not text.
mod path {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Name {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        let name = path
            .clone()
            .map(|path| match path.into_os_string().into_string() {
                Ok(text) => Name::Text(text),
                Err(other) => Name::Bytes(other.into_vec()),
            });
        name.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let name = Option::<Name>::deserialize(from)?;
        Ok(name.map(|name| match name {
            Name::Text(text) => text.into(),
            Name::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn job() -> Job {
        Job {
            name: "files".into(),
            class: LoadClass::Idle,
            cpus: Some(vec![0, 3]),
            scratch: Some("/tmp/a b".into()),
            run: Some("echo 'x y' \"z\" \\ \n é".into()),
            values: [("readers".to_owned(), u64::MAX)].into(),
        }
    }

    fn again(job: &Job) -> Job {
        let argument = OsString::from(job.to_argument());
        Job::from_arguments([argument].into_iter()).expect("a job")
    }

    #[test]
    fn a_job_survives_the_command_line() {
        let job = job();
        assert_eq!(again(&job), job);
        let bare = Job {
            cpus: None,
            scratch: None,
            run: None,
            ..job
        };
        assert_eq!(again(&bare), bare);
    }

    #[test]
    fn a_path_that_is_no_text_survives_it_too() {
        let odd = OsString::from_vec(b"/tmp/\xff/a".to_vec());
        let job = Job {
            scratch: Some(odd.into()),
            ..job()
        };
        assert_eq!(again(&job), job);
    }

    #[test]
    fn nonsense_is_refused() {
        let whole = job().to_argument();
        let cut = &whole[..whole.len() - 1];
        let more = whole.replacen('{', "{\"more\":1,", 1);
        let class = whole.replace("idle", "fast");
        for argument in ["cpu", "", "{}", "[]", cut, &more, &class] {
            let error = Job::from_arguments([OsString::from(argument)].into_iter());
            let error = error.expect_err(argument).to_string();
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(Job::from_arguments(std::iter::empty()).is_err());
        let odd = OsString::from_vec(vec![0xff]);
        assert!(Job::from_arguments([odd].into_iter()).is_err());
    }
}
