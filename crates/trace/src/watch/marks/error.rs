//! Why the places of a mark are not known.

use std::error::Error;
use std::fmt;
use std::io;

use super::image::ImageError;
use super::preset::Preset;

/// Why the places of the marks are not known.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotFound {
    /// A mark's place does not exist.
    Place {
        /// The mark's name.
        mark: String,
        /// What is wrong with it.
        source: PlaceError,
    },
    /// The program's files can't be looked up.
    Program {
        /// The file in /proc that can't be read.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The program does not have the runtime.
    NoRuntime {
        /// The requested runtime.
        preset: &'static Preset,
        /// The program's file.
        program: String,
    },
    /// The runtime does not have its marks.
    Unmarked {
        /// The requested runtime.
        preset: &'static Preset,
        /// The runtime's file.
        file: String,
    },
}

/// Why a place does not exist.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlaceError {
    /// The file can't be opened.
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file has no places.
    Image {
        /// The file.
        path: String,
        /// Why.
        source: ImageError,
    },
    /// The program has mapped no such file as code.
    NoFile {
        /// The requested file.
        wanted: String,
        /// The names of some files that it has mapped.
        mapped: String,
    },
    /// The program has mapped several files of that name.
    SeveralFiles {
        /// The requested name.
        wanted: String,
        /// Some of their paths.
        paths: String,
    },
    /// A return can't be marked where stacks move.
    MovingStacks {
        /// The file.
        path: String,
    },
    /// The offset is outside the file's code.
    NoCode {
        /// The file.
        path: String,
        /// The requested offset.
        offset: u64,
    },
    /// The file lacks the function, or doesn't have it just once.
    Function {
        /// The file.
        path: String,
        /// Why.
        source: FunctionError,
    },
    /// None of the files has the probe.
    NoProbe {
        /// The requested probe.
        wanted: String,
        /// Similar names, or else some of the names in the files.
        known: SimilarNames,
    },
    /// The probe is at too many places.
    TooManyPlaces {
        /// How many there are.
        found: usize,
        /// How many can be marked.
        most: usize,
    },
}

/// Names that may be the requested one.
#[derive(Debug, PartialEq, Eq)]
pub enum SimilarNames {
    /// There is none at all.
    None,
    /// Similar ones.
    Near(String),
    /// None is similar: some of those there are.
    Some(String),
}

/// Why a file has no single place for a function's name.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionError {
    /// It only selects the function that is called (IFUNC).
    Selects {
        /// The requested name.
        wanted: String,
    },
    /// Other names are similar.
    Near {
        /// The requested name.
        wanted: String,
        /// The similar ones.
        near: String,
    },
    /// Another file of the program has it.
    Elsewhere {
        /// The requested name.
        wanted: String,
        /// The name of the other file.
        file: String,
    },
    /// It may be among the functions beyond the limits of memory.
    Omitted {
        /// The requested name.
        wanted: String,
        /// The number of functions without an entry.
        functions: u64,
    },
    /// The symbol table does not have it.
    Absent {
        /// The requested name.
        wanted: String,
    },
    /// The file was stripped, and doesn't export it.
    Stripped {
        /// The requested name.
        wanted: String,
    },
    /// Several functions have this name.
    Several {
        /// The requested name.
        wanted: String,
        /// The number of them.
        functions: usize,
        /// Some of their offsets.
        offsets: String,
    },
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { mark, source } => write!(f, "--mark {mark}: {source}"),
            Self::Program { file, source } => {
                write!(
                    f,
                    "the program's files could not be looked up ({file}: {source}): "
                )?;
                // Root of a container has no right to ptrace a process of others.
                f.write_str("that needs root, and CAP_SYS_PTRACE for this process")
            }
            Self::NoRuntime { preset, program } => write!(
                f,
                "--runtime {}: {program} runs no {}*: {}",
                preset.name,
                preset.files.join("* or "),
                preset.absent
            ),
            Self::Unmarked { preset, file } => {
                let marks: Vec<&str> = preset.marks.iter().map(|mark| marked(mark)).collect();
                write!(
                    f,
                    "--runtime {}: {file} does not have {}: {}",
                    preset.name,
                    marks.join(" and "),
                    preset.unmarked
                )
            }
        }
    }
}

/// The place of a mark, without its name.
fn marked(mark: &str) -> &str {
    mark.split_once('=').map_or(mark, |(_, place)| place)
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(
                f,
                "{path} could not be read ({source}); if it was replaced since the program began, \
                 restart the program"
            ),
            Self::Image { path, source } => write!(f, "{path} {source}"),
            Self::NoFile { wanted, mapped } => write!(
                f,
                "the program runs no code of a file '{wanted}': expected one of {mapped}"
            ),
            Self::SeveralFiles { wanted, paths } => write!(
                f,
                "the program runs code of several files '{wanted}': give the path ({paths})"
            ),
            Self::MovingStacks { path } => write!(
                f,
                "{path} is written in Go, whose stacks move: a probe on a return would crash it; \
                 mark two places instead"
            ),
            Self::NoCode { path, offset } => write!(
                f,
                "{path} has no code at +{offset:#x}: expected the file offset of an instruction"
            ),
            Self::Function { path, source } => write!(f, "{path} {source}"),
            Self::NoProbe { wanted, known } => match known {
                SimilarNames::None => write!(
                    f,
                    "no probe '{wanted}': neither the program nor its libraries have USDT probes; \
                     mark a function"
                ),
                SimilarNames::Near(near) => write!(f, "no probe '{wanted}'; near: {near}"),
                SimilarNames::Some(some) => {
                    write!(f, "no probe '{wanted}': expected one of {some}")
                }
            },
            Self::TooManyPlaces { found, most } => write!(
                f,
                "the probe is at {found} places, and at most {most} can be marked: mark a function"
            ),
        }
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selects { wanted } => write!(
                f,
                "has a function '{wanted}' that only selects the function to call (IFUNC): mark \
                 the selected function"
            ),
            Self::Near { wanted, near } => {
                write!(f, "has no function '{wanted}'; near: {near}")
            }
            Self::Elsewhere { wanted, file } => write!(
                f,
                "has no function '{wanted}', but {file} has: {file}:{wanted}"
            ),
            Self::Omitted { wanted, functions } => write!(
                f,
                "has no function '{wanted}' among those that were read; {functions} functions were \
                 omitted, because there are too many or their names are too long: mark +OFFSET"
            ),
            Self::Absent { wanted } => write!(
                f,
                "has no function '{wanted}' (it may be inlined); `nm` lists the functions"
            ),
            Self::Stripped { wanted } => write!(
                f,
                "exports no function '{wanted}', and its symbol table was stripped: run a program \
                 that is not stripped, or mark +OFFSET or usdt:PROVIDER:PROBE"
            ),
            Self::Several {
                wanted,
                functions,
                offsets,
            } => write!(
                f,
                "has {functions} functions '{wanted}': mark one by its offset ({offsets})"
            ),
        }
    }
}

impl Error for NotFound {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Place { source, .. } => Some(source),
            Self::Program { source, .. } => Some(source),
            Self::NoRuntime { .. } | Self::Unmarked { .. } => None,
        }
    }
}

impl Error for PlaceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Image { source, .. } => Some(source),
            Self::Function { source, .. } => Some(source),
            Self::NoFile { .. }
            | Self::SeveralFiles { .. }
            | Self::MovingStacks { .. }
            | Self::NoCode { .. }
            | Self::NoProbe { .. }
            | Self::TooManyPlaces { .. } => None,
        }
    }
}

impl Error for FunctionError {}
