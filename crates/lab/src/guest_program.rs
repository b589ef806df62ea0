//! This program, as the first process of guests: itself, or its build for another architecture.

use std::fs;
use std::io;
use std::path::PathBuf;

use punctual_record::laboratory::Architecture;

use super::board::Board;
use super::error::LabError;
use super::libraries;
use super::program_error::ProgramError;

/// The variable that names the file of another architecture.
pub const VARIABLE: &str = "PUNCTUAL_GUEST";
/// This program's own file.
const OWN: &str = "/proc/self/exe";

/// What each build of this program contains, so that one of another version is known by it.
#[used]
static VERSION: &[u8] = concat!(
    "punctual for guests of the laboratory, version ",
    env!("CARGO_PKG_VERSION")
)
.as_bytes();

/// The program for guests of an architecture, as far as the kernel loads it: this program, or for another
/// architecture the file that [`VARIABLE`] names, or `punctual-ARCHITECTURE` beside this program.
///
/// # Errors
/// There is none, or it is not a static program of the same version for this architecture.
pub fn read(architecture: Architecture) -> Result<Vec<u8>, LabError> {
    let path = if architecture == Architecture::OWN {
        PathBuf::from(OWN)
    } else {
        let own = fs::read_link(OWN).map_err(|error| LabError::file(OWN, error))?;
        match std::env::var_os(VARIABLE) {
            Some(path) if !path.is_empty() => PathBuf::from(path),
            _ => own.with_file_name(format!("punctual-{architecture}")),
        }
    };
    let mut program = fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LabError::NoGuestProgram {
            architecture,
            path: path.clone(),
        },
        _ => LabError::file(&path, error),
    })?;
    check(&program, architecture).map_err(|source| LabError::Program { path, source })?;
    libraries::keep_loaded(&mut program);
    Ok(program)
}

/// Whether a program can be the first process of guests.
fn check(program: &[u8], architecture: Architecture) -> Result<(), ProgramError> {
    let elf = libraries::parse(program).map_err(ProgramError::Elf)?;
    elf.runs_on(Board::of(architecture))
        .map_err(ProgramError::Elf)?;
    if elf.interpreter.is_some() {
        return Err(ProgramError::OwnBuild { architecture });
    }
    match holds(program, VERSION) {
        true => Ok(()),
        false => Err(ProgramError::OtherVersion {
            version: env!("CARGO_PKG_VERSION"),
        }),
    }
}

/// Whether some bytes are in others. A program has tens of millions of bytes.
fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    let Some((first, rest)) = wanted.split_first() else {
        return true;
    };
    let mut left = bytes;
    while let Some(at) = left.iter().position(|byte| byte == first) {
        left = &left[at + 1..];
        if left.starts_with(rest) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_one_and_others_are_refused_in_a_line() {
        let own = fs::read(OWN).expect("this program");
        check(&own, Architecture::OWN).expect("it is one");
        let mut arm = own.clone();
        let other = Architecture::ALL
            .into_iter()
            .find(|it| *it != Architecture::OWN);
        let other = Board::of(other.expect("several"));
        arm[18..20].copy_from_slice(&other.elf_machine.to_le_bytes());
        check(&arm, other.architecture).expect("its header says so");
        let mut older = own.clone();
        let mut at = 0;
        while let Some(next) = older[at..]
            .windows(VERSION.len())
            .position(|it| it == VERSION)
        {
            at += next;
            older[at + VERSION.len() - 1] ^= 1;
        }
        let shell = fs::read("/bin/sh").expect("a shell");
        for (program, words) in [
            (&arm, "for another processor"),
            (&older, "another version"),
            (&shell, "not a static program"),
            (&b"text".to_vec(), "not an ELF file"),
        ] {
            let error = check(program, Architecture::OWN).expect_err(words);
            let line = error.to_string();
            assert!(line.contains(words) && !line.contains('\n'), "{line}");
        }
    }
}
