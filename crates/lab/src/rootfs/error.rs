//! Why a root file system cannot be used; the text follows its name.

use std::error::Error;
use std::fmt;
use std::io;

use punctual_record::laboratory::Architecture;

use super::super::job::ROOT_PATH;
use super::super::room::RoomError;
use super::archive::in_a_line;

/// Why a root file system, or something in it, cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum RootfsError {
    /// The guest has no room for it.
    Room(RoomError),
    /// It cannot be read.
    Read(io::Error),
    /// It cannot be unpacked.
    Unpack(io::Error),
    /// A JSON file of the layout is not valid.
    Json(serde_json::Error),
    /// It is neither a directory nor an archive.
    Kind,
    /// It is a file, but not a known archive.
    NotTar,
    /// It is empty.
    Empty,
    /// It is an archive of a layout.
    PackedLayout,
    /// An archive with headers without a file.
    Headers,
    /// An archive that never ends.
    TooLong {
        /// What it may have, in GiB.
        most_gib: u64,
    },
    /// A truncated archive.
    Cut,
    /// A name in an archive that is too long.
    LongName,
    /// A name that is not text.
    Name,
    /// The target of a link is not text.
    Target,
    /// The name to which an entry links is not text.
    LinkedName,
    /// A size that no guest has room for.
    Size,
    /// An archive that ends within a file.
    EndsWithin,
    /// A sparse file in an archive.
    Sparse,
    /// A path that is too long.
    LongPath,
    /// A path that is too long, or has a zero byte.
    BadPath,
    /// A link whose target is too long, or has a zero byte.
    BadTarget,
    /// A path with `..`.
    LeadsOut,
    /// A path through something that is not a directory.
    Through {
        /// What it is.
        path: String,
    },
    /// A hard link to nothing.
    LinkToNothing {
        /// What it names.
        target: String,
    },
    /// A hard link to a directory.
    LinkToFolder {
        /// What it names.
        target: String,
    },
    /// A loop of symbolic links.
    Circle {
        /// One of them.
        at: String,
    },
    /// Links that would take hours to follow.
    Entangled,
    /// A layout without an image for the guest.
    NoImage {
        /// The guest's architecture.
        architecture: Architecture,
    },
    /// An image of too many layers.
    Layers {
        /// How many it may have.
        most: usize,
    },
    /// A layout of too many images.
    Images {
        /// How many it may have.
        most: usize,
    },
    /// A layer that is not a tar.
    LayerKind {
        /// Its stated type.
        kind: String,
    },
    /// A file of a layout whose hash differs from its name.
    Damaged,
    /// Not a digest.
    Digest {
        /// What it is.
        digest: String,
    },
    /// A JSON file of a layout that is too long.
    LongJson,
    /// A program with a relative path.
    Relative {
        /// The path.
        word: String,
    },
    /// A program without the permission to run.
    NotExecutable {
        /// The program.
        place: String,
    },
    /// A program that the guest cannot run.
    Program {
        /// The program.
        place: String,
        /// What it is.
        what: &'static str,
    },
    /// A program whose interpreter is missing.
    NoInterpreter {
        /// The program.
        place: String,
        /// Its interpreter.
        needed: String,
    },
    /// A program whose interpreter the guest cannot run.
    Interpreter {
        /// The program.
        place: String,
        /// Its interpreter.
        needed: String,
        /// What it is.
        what: &'static str,
    },
    /// There is no such file.
    NoFile {
        /// Its path.
        path: String,
    },
    /// There is no such program.
    NoProgram {
        /// Its name.
        name: String,
    },
    /// Its shell is for another processor.
    Shell {
        /// The shell.
        place: String,
        /// What it is.
        what: &'static str,
        /// The guest's architecture.
        architecture: Architecture,
    },
    /// An error about an entry.
    Of {
        /// Its name.
        name: String,
        /// The error.
        error: Box<RootfsError>,
    },
}

impl RootfsError {
    /// The same error about an entry of this name.
    #[must_use]
    pub fn of(self, name: impl Into<String>) -> Self {
        Self::Of {
            name: name.into(),
            error: Box::new(self),
        }
    }
}

impl From<RoomError> for RootfsError {
    fn from(error: RoomError) -> Self {
        Self::Room(error)
    }
}

impl fmt::Display for RootfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Room(error) => error.fmt(f),
            Self::Read(error) => f.write_str(&in_a_line(&error.to_string())),
            Self::Unpack(error) => {
                write!(f, "cannot be unpacked: {}", in_a_line(&error.to_string()))
            }
            Self::Json(error) => f.write_str(&in_a_line(&error.to_string())),
            Self::Kind => f.write_str("is neither a directory nor a tar nor an OCI layout"),
            Self::NotTar => {
                f.write_str("is not a tar, neither plain nor packed with gzip, xz or zstd")
            }
            Self::Empty => f.write_str("is empty"),
            Self::PackedLayout => {
                f.write_str("holds an OCI layout: unpack it, and give the directory")
            }
            Self::Headers => f.write_str("cannot be unpacked: it has headers without files"),
            Self::TooLong { most_gib } => write!(f, "is longer than {most_gib} GiB"),
            Self::Cut => f.write_str("is truncated: it ends without the end mark of a tar"),
            Self::LongName => f.write_str("cannot be unpacked: a name in it is longer than 64 KiB"),
            Self::Name => f.write_str("its name is not UTF-8"),
            Self::Target => f.write_str("its target is not UTF-8"),
            Self::LinkedName => f.write_str("the name that it links to is not UTF-8"),
            Self::Size => f.write_str("its size is too large for a guest"),
            Self::EndsWithin => f.write_str("the archive ends within it"),
            Self::Sparse => f.write_str(
                "is a sparse file, which is not unpacked here: make the archive without --sparse",
            ),
            Self::LongPath => f.write_str("its path is too long"),
            Self::BadPath => f.write_str("its path is too long or has a zero byte"),
            Self::BadTarget => f.write_str("its target is too long or has a zero byte"),
            Self::LeadsOut => f.write_str("its path leads out of the root file system (..)"),
            Self::Through { path } => {
                write!(
                    f,
                    "leads through {}, which is not a directory",
                    in_a_line(path)
                )
            }
            Self::LinkToNothing { target } => {
                let target = in_a_line(target);
                write!(f, "is a hard link to {target}, which does not exist")
            }
            Self::LinkToFolder { target } => {
                let target = in_a_line(target);
                write!(f, "is a hard link to {target}, which is a directory")
            }
            Self::Circle { at } => {
                write!(f, "its symbolic links form a loop ({})", in_a_line(at))
            }
            Self::Entangled => f.write_str("has too many links to follow"),
            Self::NoImage { architecture } => {
                write!(f, "index.json names no image for linux/{architecture}")
            }
            Self::Layers { most } => write!(f, "its image has more than {most} layers"),
            Self::Images { most } => write!(f, "it names more than {most} images"),
            Self::LayerKind { kind } => {
                write!(f, "a layer is {}, expected a tar", in_a_line(kind))
            }
            Self::Damaged => f.write_str("is damaged: its SHA-256 differs from its name"),
            Self::Digest { digest } => {
                write!(f, "{}: expected a SHA-256 digest", in_a_line(digest))
            }
            Self::LongJson => f.write_str("is longer than 4 MiB"),
            Self::Relative { word } => {
                let word = in_a_line(word);
                let path = word.trim_start_matches("./");
                write!(
                    f,
                    "{word}: expected an absolute path, /{path}: the command runs in /out"
                )
            }
            Self::NotExecutable { place } => {
                write!(f, "/{place} in it is not executable: chmod +x")
            }
            Self::Program { place, what } => write!(f, "/{place} in it is {what}"),
            Self::NoInterpreter { place, needed } => {
                let needed = in_a_line(needed);
                write!(f, "/{place} in it needs {needed}, which is not in it")
            }
            Self::Interpreter {
                place,
                needed,
                what,
            } => {
                let needed = in_a_line(needed);
                write!(f, "/{place} in it needs {needed}, which is {what}")
            }
            Self::NoFile { path } => write!(f, "there is no file {} in it", in_a_line(path)),
            Self::NoProgram { name } => {
                let name = in_a_line(name);
                write!(f, "there is no program {name} in it (in {ROOT_PATH})")
            }
            Self::Shell {
                place,
                what,
                architecture,
            } => write!(
                f,
                "/{place} in it is {what}: give a root file system for linux/{architecture}"
            ),
            Self::Of { name, error } => write!(f, "{name}: {error}"),
        }
    }
}

impl Error for RootfsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Room(error) => Some(error),
            Self::Read(error) | Self::Unpack(error) => Some(error),
            Self::Json(error) => Some(error),
            Self::Of { error, .. } => Some(error),
            _ => None,
        }
    }
}
