//! The emulator: finds it, checks its version, hashes its files.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use punctual_record::laboratory::Architecture;

use super::board::Board;
use super::channel::hexadecimal;
use super::error::LabError;

/// The oldest version that the laboratory was tested with.
pub const OLDEST: (u32, u32) = (7, 2);

/// An emulator that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    /// The architecture of its guests.
    pub architecture: Architecture,
    /// The program.
    pub path: PathBuf,
    /// As QEMU prints it: `7.2.22`.
    pub version: String,
    /// SHA-256 of the program.
    pub sha256: String,
    /// SHA-256 of each file of firmware.
    pub firmware: BTreeMap<String, String>,
}

/// Why QEMU cannot be used; the text follows its path.
#[derive(Debug)]
#[non_exhaustive]
pub enum QemuFault {
    /// It cannot be asked for its version.
    NotAsked(io::Error),
    /// It cannot be started.
    NotStarted(io::Error),
    /// It prints no version.
    NoVersion {
        /// What it should be.
        program: &'static str,
    },
    /// It emulates other processors.
    OtherProcessor {
        /// What it should be.
        program: &'static str,
        /// The processor that it should emulate.
        processor: &'static str,
    },
    /// It is too old.
    TooOld {
        /// Its version, as it prints it.
        version: String,
    },
}

impl fmt::Display for QemuFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked(error) => error.fmt(f),
            Self::NotStarted(error) => write!(f, "cannot be started: {error}"),
            Self::NoVersion { program } => {
                write!(f, "does not print QEMU's version: is it {program}?")
            }
            Self::OtherProcessor { program, processor } => {
                write!(
                    f,
                    "does not emulate {processor}: give a {program} in PUNCTUAL_QEMU, or unset it"
                )
            }
            Self::TooOld { version } => {
                let (major, minor) = OLDEST;
                write!(
                    f,
                    "QEMU {version} is too old: the laboratory needs {major}.{minor} or later"
                )
            }
        }
    }
}

impl Error for QemuFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotAsked(error) | Self::NotStarted(error) => Some(error),
            Self::NoVersion { .. } | Self::OtherProcessor { .. } | Self::TooOld { .. } => None,
        }
    }
}

impl Qemu {
    /// Finds it in PATH, or at `PUNCTUAL_QEMU`.
    ///
    /// # Errors
    /// There is none, it cannot be run, it is too old, or it emulates another architecture.
    pub fn find(architecture: Architecture) -> Result<Self, LabError> {
        let board = Board::of(architecture);
        let program = board.emulator;
        let path = match std::env::var_os("PUNCTUAL_QEMU") {
            Some(path) if !path.is_empty() => PathBuf::from(path),
            _ => in_path(program).ok_or(LabError::NoQemu {
                program,
                package: board.package,
            })?,
        };
        let refused = |why: QemuFault| LabError::Qemu {
            path: path.clone(),
            why,
        };
        let not_asked = |error| refused(QemuFault::NotAsked(error));
        let said = ask(&path, &["--version"]).map_err(not_asked)?;
        let (version, number) =
            version(&said).ok_or_else(|| refused(QemuFault::NoVersion { program }))?;
        if number < OLDEST {
            return Err(refused(QemuFault::TooOld { version }));
        }
        let processor = board.cpu.split(',').next().unwrap_or_default();
        let known = ask(&path, &["-cpu", "help"]).map_err(not_asked)?;
        if !known.split_whitespace().any(|word| word == processor) {
            return Err(refused(QemuFault::OtherProcessor { program, processor }));
        }
        let folders = ask(&path, &["-L", "help"]).map_err(not_asked)?;
        let sha256 = hash(&path).map_err(|error| LabError::file(&path, error))?;
        Ok(Self {
            architecture,
            firmware: firmware(&folders, board.firmware),
            version,
            sha256,
            path,
        })
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn ask(path: &Path, question: &[&str]) -> io::Result<String> {
    let output = Command::new(path)
        .args(question)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `QEMU emulator version 7.2.22 (Debian ...)`: the version as it stands, and its numbers.
fn version(said: &str) -> Option<(String, (u32, u32))> {
    let rest = said
        .lines()
        .find_map(|line| line.strip_prefix("QEMU emulator version "))?;
    let word = rest.split_whitespace().next()?;
    let mut numbers = word.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit());
        part[..digits.unwrap_or(part.len())].parse().ok()
    });
    let number = (numbers.next()??, numbers.next()??);
    Some((word.chars().take(32).collect(), number))
}

fn firmware(folders: &str, names: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in names {
        let file = folders
            .lines()
            .map(|folder| Path::new(folder.trim()).join(name))
            .find(|file| file.is_file());
        if let Some(sum) = file.and_then(|file| hash(&file).ok()) {
            found.insert((*name).to_owned(), sum);
        }
    }
    found
}

/// SHA-256 of a file, in pieces.
pub fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(fs::canonicalize(path)?)?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok(hexadecimal(&digest.finalize()));
        }
        digest.update(&piece[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright\n";
        assert_eq!(version(debian), Some(("7.2.22".to_owned(), (7, 2))));
        let plain = "QEMU emulator version 10.0.0-rc1\n";
        assert_eq!(version(plain), Some(("10.0.0-rc1".to_owned(), (10, 0))));
        for text in [
            "",
            "cat 9.1",
            "QEMU emulator version x.y",
            "QEMU emulator version 9",
        ] {
            assert_eq!(version(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_hashes_as_sha256sum_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        fs::write(&file, "abc").unwrap();
        assert_eq!(
            hash(&file).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
