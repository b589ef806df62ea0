//! Files of the host that are copied into a guest, each to its path.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::board::Board;
use super::error::LabError;
use super::initramfs::Initramfs;
use super::job::{LIBRARIES, OURSELVES, PROGRAMS};
use super::libraries;
use super::program_error::ProgramError;
use super::room::Room;
use super::rootfs::tree::{Node, Tree};
use super::rootfs::{self, RootfsError};

/// Paths that the guest mounts over, or that hold the laboratory's own files.
const TAKEN: [&str; 10] = [
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "out",
    "init",
    "lab/job.json",
    "lab/modules",
    "lab/root",
];

/// A file to copy: `FILE`, or `FILE=GUESTPATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// A file or a directory of the host.
    pub from: PathBuf,
    /// Its path in the guest, without the leading slash.
    pub to: String,
    /// Whether that path was given.
    pub is_placed: bool,
}

impl Brought {
    /// Parses the value of `--bring`. If a file with the whole name exists, a `=` in it is part of
    /// the name.
    ///
    /// # Errors
    /// The path in the guest is not allowed.
    pub fn parse(asked: &Path) -> Result<Self, LabError> {
        let refused = |source: ProgramError| LabError::Program {
            path: asked.to_owned(),
            source,
        };
        let bytes = asked.as_os_str().as_bytes();
        let split = bytes.windows(2).rposition(|two| two == b"=/");
        let (from, to) = match split {
            Some(at) if fs::symlink_metadata(asked).is_err() => {
                let to = std::str::from_utf8(&bytes[at + 1..])
                    .map_err(|_| refused(ProgramError::PathNotUtf8))?;
                (
                    Path::new(std::ffi::OsStr::from_bytes(&bytes[..at])),
                    Some(to),
                )
            }
            _ => (asked, None),
        };
        let name = || {
            // "." and ".." name no directory.
            let name = fs::canonicalize(from)
                .ok()?
                .file_name()?
                .to_str()?
                .to_owned();
            Some(
                from.file_name()
                    .and_then(|name| name.to_str())
                    .map_or(name, str::to_owned),
            )
        };
        let name = || {
            name().ok_or_else(|| match fs::metadata(from) {
                Err(error) => LabError::file(from, error),
                Ok(_) => refused(ProgramError::NoName),
            })
        };
        let parts = |text: &str| -> Vec<String> {
            let parts = text
                .split('/')
                .filter(|part| !part.is_empty() && *part != ".");
            parts.map(str::to_owned).collect()
        };
        let mut place = parts(to.unwrap_or(PROGRAMS));
        if to.is_none_or(|to| to.ends_with('/')) {
            place.push(name()?);
        }
        if place.iter().any(|part| part == "..") || place.concat().contains('\0') {
            return Err(refused(ProgramError::PathLeadsOut));
        }
        let place = place.join("/");
        let above = |taken: &&&str| {
            let rest = taken.strip_prefix(&*place);
            place.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
        };
        if TAKEN.iter().any(|taken| above(&taken)) {
            return Err(refused(ProgramError::HoldsReserved { place }));
        }
        let taken = |taken: &&&str| {
            place
                .strip_prefix(**taken)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some(taken) = TAKEN.iter().find(taken) {
            return Err(refused(ProgramError::Reserved { place: taken }));
        }
        Ok(Self {
            from: from.to_owned(),
            to: place,
            is_placed: to.is_some(),
        })
    }

    fn refused(&self, source: ProgramError) -> LabError {
        LabError::Program {
            path: self.from.clone(),
            source,
        }
    }

    fn unfit(&self, source: RootfsError) -> LabError {
        let path = self.from.clone();
        LabError::Rootfs { path, source }
    }

    /// Copies it into a guest without a root file system: a program with its libraries, anything
    /// else unchanged.
    ///
    /// # Errors
    /// It cannot be read, its path is in use, there is no room, or a library was not found.
    pub fn add(
        &self,
        archive: &mut Initramfs,
        board: &Board,
        room: &mut Room,
    ) -> Result<(), LabError> {
        if archive.holds(&self.to) && self.to.starts_with(LIBRARIES.trim_start_matches('/')) {
            // A program before it needs it too.
            return Ok(());
        }
        if archive.holds(&self.to) {
            return Err(self.refused(ProgramError::PathInUse {
                place: self.to.clone(),
            }));
        }
        if let Some(file) = archive.file_above(&self.to) {
            let file = file.to_owned();
            return Err(self.refused(ProgramError::BelowFile { file }));
        }
        let data = self.metadata()?;
        if data.is_dir() {
            let mut tree = Tree::new();
            rootfs::add_folder(&self.from, "", &mut tree, room)
                .map_err(|source| self.unfit(source))?;
            tree.put(archive, &self.to);
            return Ok(());
        }
        let bytes = self.read(room)?;
        if bytes.starts_with(b"\x7fELF") {
            libraries::add_needed(archive, &self.from, &bytes, board, room)?;
        }
        archive.file_with_mode(&self.to, bytes, data.permissions().mode() & 0o7777);
        Ok(())
    }

    /// Copies it unchanged into a root file system.
    ///
    /// # Errors
    /// It cannot be read, its path is in use, or there is no room.
    pub fn add_to(&self, tree: &mut Tree, room: &mut Room) -> Result<(), LabError> {
        let data = self.metadata()?;
        let done = if data.is_dir() {
            tree.add(&self.to, data.permissions().mode(), Node::Folder, room)
                .and_then(|()| rootfs::add_folder(&self.from, &self.to, tree, room))
        } else {
            let bytes = self.read(&mut room.clone())?;
            tree.add(&self.to, data.permissions().mode(), Node::File(bytes), room)
        };
        done.map_err(|source| self.unfit(source))
    }

    fn metadata(&self) -> Result<fs::Metadata, LabError> {
        let data = fs::metadata(&self.from).map_err(|error| LabError::file(&self.from, error))?;
        if data.is_file() || data.is_dir() {
            Ok(data)
        } else {
            Err(self.refused(ProgramError::Kind))
        }
    }

    fn read(&self, room: &mut Room) -> Result<Vec<u8>, LabError> {
        let failed = |error| LabError::file(&self.from, error);
        let file = File::open(&self.from).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        room.reserve_for(&self.from, length)?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }
}

/// Adds a script with its interpreter, and with the program that `env` finds.
///
/// # Errors
/// Its interpreter is not installed.
pub fn script(
    archive: &mut Initramfs,
    file: &Path,
    board: &Board,
    room: &mut Room,
) -> Result<Option<String>, LabError> {
    let script = Brought::parse(file)?;
    let bytes = script.read(room)?;
    let Some(interpreter) = rootfs::interpreter(&bytes) else {
        return Ok(None);
    };
    let words = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
    let line = words.lines().next().unwrap_or_default();
    let missing = |what: &str| {
        script.refused(ProgramError::NoInterpreter {
            needed: what.to_owned(),
        })
    };
    let mut programs = vec![(PathBuf::from(&interpreter), interpreter.clone())];
    if Path::new(&interpreter)
        .file_name()
        .is_some_and(|name| name == "env")
    {
        let name = line
            .split_whitespace()
            .skip(1)
            .find(|word| !word.starts_with('-'));
        let name = name.unwrap_or_default();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
        let found = found.find(|path| !name.is_empty() && path.is_file());
        programs.push((
            found.ok_or_else(|| missing(name))?,
            format!("{PROGRAMS}/{name}"),
        ));
    }
    for (from, to) in programs {
        if archive.holds(&to) {
            continue;
        }
        if !from.is_file() || !to.starts_with('/') || to == OURSELVES {
            return Err(missing(&to));
        }
        let brought = Brought {
            from,
            to: to.trim_start_matches('/').to_owned(),
            is_placed: true,
        };
        brought.add(archive, board, room)?;
    }
    archive.file_with_mode(&script.to, bytes, 0o755);
    Ok(Some(format!("/{}", script.to)))
}

#[cfg(test)]
mod tests {
    use punctual_record::laboratory::Architecture;

    use super::*;

    fn archive_of(asked: &[&str]) -> Result<Initramfs, String> {
        let (mut archive, mut room) = (Initramfs::new(), Room::for_memory(1024));
        for asked in asked {
            let brought = Brought::parse(Path::new(asked)).map_err(|error| error.to_string())?;
            let added = brought.add(&mut archive, Board::of(Architecture::OWN), &mut room);
            added.map_err(|error| error.to_string())?;
        }
        Ok(archive)
    }

    #[test]
    fn each_file_comes_to_its_place_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for (name, mode) in [("data", 0o640), ("tool.sh", 0o750), ("odd=/name", 0)] {
            if mode > 0 {
                fs::write(path(name), name).unwrap();
                fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        fs::create_dir_all(path("tree/below")).unwrap();
        fs::write(path("tree/below/leaf"), "leaf").unwrap();
        std::os::unix::fs::symlink("below/leaf", path("tree/link")).unwrap();
        let archive = archive_of(&[
            &path("data"),
            &format!("{}=/etc/app/data.bin", path("data")),
            &format!("{}=/etc/", path("tool.sh")),
            &path("tree"),
            &format!("{}=/srv", path("tree")),
        ])
        .unwrap();
        for (place, mode) in [
            ("lab/bin/data", 0o100_640),
            ("etc/app/data.bin", 0o100_640),
            ("etc/tool.sh", 0o100_750),
            ("lab/bin/tree/below/leaf", 0o100_644),
            ("srv/below", 0o040_755),
            ("srv/link", 0o120_777),
        ] {
            assert_eq!(archive.mode(place), Some(mode), "{place}");
        }
        let twice = archive_of(&[&path("data"), &path("data")]).unwrap_err();
        assert!(twice.contains("already used by another file"), "{twice}");
        let through = [
            format!("{}=/srv", path("tree")),
            format!("{}=/srv/link/x", path("data")),
        ];
        let through = archive_of(&[&through[0], &through[1]]).unwrap_err();
        assert!(
            through.contains("/srv/link in the guest is not a directory"),
            "{through}"
        );
    }

    #[test]
    fn a_place_that_is_none_is_refused() {
        for (asked, words) in [
            (
                "/etc/hosts=/proc/x",
                "/proc in the guest is reserved for the laboratory",
            ),
            ("/etc/hosts=/init", "/init in the guest"),
            ("/etc=/.", "contains files of the laboratory"),
            ("/etc/hosts=/lab", "contains files of the laboratory"),
            ("/etc/hosts=/a/../../b", "'..'"),
            ("/nowhere/a", "/nowhere/a"),
            ("/nowhere/a=/b", "/nowhere/a"),
            ("/dev/null=/b", "neither a file nor a directory"),
        ] {
            let error = archive_of(&[asked]).unwrap_err();
            assert!(
                error.contains(words) && !error.contains('\n'),
                "{asked}: {error}"
            );
        }
    }

    #[test]
    fn more_than_the_guest_takes_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        File::create(&large).unwrap().set_len(410 << 20).unwrap();
        let error = archive_of(&[large.to_str().unwrap()]).unwrap_err();
        let words = "a guest with 1024 MiB of memory has room for 308 MiB of files";
        assert!(error.contains(words) && error.contains("--mem"), "{error}");
    }

    #[test]
    fn a_script_comes_with_what_runs_it() {
        let folder = tempfile::tempdir().unwrap();
        for (line, interpreter) in [
            ("#!/bin/sh -e", "bin/sh"),
            ("#!/usr/bin/env sh", "lab/bin/sh"),
        ] {
            let path = folder.path().join("script");
            fs::write(&path, format!("{line}\necho\n")).unwrap();
            let (mut archive, mut room) = (Initramfs::new(), Room::for_memory(1024));
            let place =
                script(&mut archive, &path, Board::of(Architecture::OWN), &mut room).unwrap();
            assert_eq!(place.as_deref(), Some("/lab/bin/script"));
            assert!(archive.holds(interpreter) && archive.holds("lab/lib/libc.so.6"));
            assert_eq!(archive.mode("lab/bin/script"), Some(0o100_755));
        }
        let path = folder.path().join("lost");
        fs::write(&path, "#!/no/such/sh\n").unwrap();
        let error = script(
            &mut Initramfs::new(),
            &path,
            Board::of(Architecture::OWN),
            &mut Room::for_memory(1024),
        )
        .unwrap_err();
        assert!(error.to_string().contains("needs /no/such/sh"), "{error}");
    }
}
