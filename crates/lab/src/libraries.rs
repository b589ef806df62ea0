//! The files that a program needs: itself, its loader, its libraries, and their libraries.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{self, Dyn64, FileHeader64, ProgramHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, ReadRef as _};

use punctual_record::laboratory::Architecture;

use super::board::Board;
use super::error::LabError;
use super::initramfs::Initramfs;
use super::job::{LIBRARIES, PROGRAMS};
use super::program_error::ProgramError;
use super::room::Room;

/// Bytes of a program's file.
const MOST_BYTES: u64 = 512 << 20;
/// Libraries of one program.
const MOST_LIBRARIES: usize = 500;

/// What an ELF file states for its loader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    /// The processor that it is for.
    pub architecture: Architecture,
    /// The loader, for a program that is not static.
    pub interpreter: Option<String>,
    /// Names of libraries.
    pub needed: Vec<String>,
    /// Folders to look for them in.
    pub folders: Vec<String>,
}

type Header = FileHeader64<LittleEndian>;

/// Names may overlap in the file: only a limit bounds their memory.
const MOST_NAMES: usize = 4096;

impl Elf {
    /// Checks that it is for the processor of a guest.
    ///
    /// # Errors
    /// What it is instead, in a few words.
    pub fn runs_on(&self, board: &Board) -> Result<(), &'static str> {
        match self.architecture == board.architecture {
            true => Ok(()),
            false => Err(board.other_processor),
        }
    }
}

/// Parses an ELF file for a processor that guests may have; never panics, whatever the bytes.
///
/// # Errors
/// What it is instead, in a few words.
pub fn parse(bytes: &[u8]) -> Result<Elf, &'static str> {
    if bytes.starts_with(b"#!") {
        return Err("a script: give its interpreter as the program instead");
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Err("not a program: it is not an ELF file");
    }
    let cut = "a truncated program";
    let header = bytes.read_at::<Header>(0).map_err(|()| cut)?;
    let is_64 = header.is_class_64() && header.is_little_endian();
    let machine = header.e_machine(LittleEndian);
    let mut boards = Architecture::ALL.iter().map(|it| Board::of(*it));
    let Some(board) = boards.find(|it| is_64 && it.elf_machine == machine) else {
        return Err("a program for another processor: guests are amd64, arm64 or riscv64");
    };
    let parts = header.program_headers(LittleEndian, bytes);
    let parts = parts.map_err(|_| cut)?;
    let mut found = Elf {
        architecture: board.architecture,
        ..Elf::default()
    };
    // A program has one of each at most: more would be read again and again.
    let part = |kind| parts.iter().find(|part| part.p_type(LittleEndian) == kind);
    if let Some(part) = part(elf::PT_INTERP) {
        let text = part.data(LittleEndian, bytes).map_err(|()| cut)?;
        found.interpreter = Some(text_of(text));
    }
    if let Some(part) = part(elf::PT_DYNAMIC) {
        let entries = part.data_as_array(LittleEndian, bytes).map_err(|()| cut)?;
        read_dynamic(bytes, parts, entries, &mut found).ok_or(cut)?;
        if found.needed.len() > MOST_NAMES || found.folders.len() > MOST_NAMES {
            return Err("a program that names too many libraries");
        }
    }
    Ok(found)
}

/// Cuts a program down to what the kernel loads: its symbols and what debuggers read lie behind that. A
/// guest unpacks the rest in its memory, instruction by instruction. What is no program stays as it is.
pub fn keep_loaded(program: &mut Vec<u8>) {
    // Where an ELF file says that it has sections, how many, and where their names are.
    const SECTIONS: [std::ops::Range<usize>; 2] = [40..48, 60..64];
    let end = program
        .as_slice()
        .read_at::<Header>(0)
        .ok()
        .and_then(|header| {
            let parts = header.program_headers(LittleEndian, &**program).ok()?;
            let ends = parts.iter().map(|part| {
                let (offset, size) = part.file_range(LittleEndian);
                offset.checked_add(size)
            });
            let headers = size_of_val(parts) as u64;
            let headers = header.e_phoff(LittleEndian).checked_add(headers);
            let end = ends
                .chain([headers])
                .try_fold(0, |end, it| Some(end.max(it?)));
            usize::try_from(end?).ok()
        });
    if let Some(end) = end.filter(|end| *end < program.len() && *end >= size_of::<Header>()) {
        program.truncate(end);
        for range in SECTIONS {
            program[range].fill(0);
        }
    }
}

fn read_dynamic(
    bytes: &[u8],
    parts: &[ProgramHeader64<LittleEndian>],
    entries: &[Dyn64<LittleEndian>],
    found: &mut Elf,
) -> Option<()> {
    let entries = entries
        .iter()
        .map(|entry| (entry.tag(LittleEndian), entry.val(LittleEndian)))
        .take_while(|(tag, _)| *tag != elf::DT_NULL);
    let Some((_, address)) = entries.clone().find(|(tag, _)| *tag == elf::DT_STRTAB) else {
        return Some(());
    };
    let strings = parts.iter().find_map(|part| {
        let within = address.checked_sub(part.p_vaddr(LittleEndian))?;
        let (offset, size) = part.file_range(LittleEndian);
        let is_it = part.p_type(LittleEndian) == elf::PT_LOAD && within < size;
        is_it.then(|| offset.checked_add(within))
    })??;
    let text = |at: u64| -> Option<String> {
        let begin = usize::try_from(strings.checked_add(at)?).ok()?;
        Some(text_of(bytes.get(begin..)?))
    };
    for (tag, value) in entries {
        if found.needed.len() > MOST_NAMES || found.folders.len() > MOST_NAMES {
            break;
        }
        match tag {
            elf::DT_NEEDED => found.needed.push(text(value)?),
            elf::DT_RPATH | elf::DT_RUNPATH => {
                let folders = text(value)?;
                found.folders.extend(folders.split(':').map(str::to_owned));
            }
            _ => {}
        }
    }
    Some(())
}

/// The text up to its zero byte, at most as long as a path.
fn text_of(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(4096)];
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// Adds a program with everything that it needs; returns its path in the guest.
///
/// # Errors
/// It is not a program for the guest, or a library was not found.
pub fn bring(
    archive: &mut Initramfs,
    program: &Path,
    board: &Board,
    room: &mut Room,
) -> Result<String, LabError> {
    if let Some(place) = super::bring::script(archive, program, board, room)? {
        return Ok(place);
    }
    let bytes = read(program)?;
    add_needed(archive, program, &bytes, board, room)?;
    let name = program
        .file_name()
        .map_or("program".into(), |name| name.to_string_lossy());
    let inside = format!("{PROGRAMS}/{name}");
    archive.file(&inside, bytes, true);
    Ok(inside)
}

/// Adds what a program needs: its loader and its libraries.
///
/// # Errors
/// It is not a program for the guest, or a library was not found.
pub fn add_needed(
    archive: &mut Initramfs,
    program: &Path,
    bytes: &[u8],
    board: &Board,
    room: &mut Room,
) -> Result<(), LabError> {
    let refused = |source: ProgramError| LabError::Program {
        path: program.to_owned(),
        source,
    };
    let elf = parse(bytes).and_then(|elf| elf.runs_on(board).map(|()| elf));
    let elf = elf.map_err(|what| refused(ProgramError::Elf(what)))?;
    let mut add = |archive: &mut Initramfs, path: &str, bytes: Vec<u8>| {
        if !archive.holds(path) {
            room.reserve_for(program, bytes.len() as u64)?;
            archive.file(path, bytes, true);
        }
        Ok::<(), LabError>(())
    };
    if let Some(interpreter) = &elf.interpreter {
        let path = board.here(Path::new(interpreter));
        let loader = read(&path).map_err(|error| ProgramError::Loader(Box::new(error)));
        let bytes = loader.map_err(refused)?;
        add(archive, interpreter, bytes)?;
    }
    let mut todo = vec![(program.to_owned(), elf)];
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    while let Some((of, elf)) = todo.pop() {
        for name in &elf.needed {
            if found.contains_key(name) {
                continue;
            }
            let Some((path, bytes, library)) = find(name, &of, &elf.folders, board) else {
                return Err(refused(ProgramError::NoLibrary {
                    name: name.clone(),
                    named_by: of,
                }));
            };
            if found.len() >= MOST_LIBRARIES {
                return Err(refused(ProgramError::TooManyLibraries {
                    most: MOST_LIBRARIES,
                }));
            }
            add(archive, &format!("{LIBRARIES}/{}", plain(name)), bytes)?;
            found.insert(name.clone(), path.clone());
            todo.push((path, library));
        }
    }
    Ok(())
}

/// What `--bring` copies so that programs in the guest find a library by its name.
#[must_use]
pub fn to_bring(name: &str, board: &Board) -> Option<PathBuf> {
    let (path, ..) = find(name, Path::new("/"), &[], board)?;
    let mut text = path.into_os_string();
    text.push(format!("={LIBRARIES}/{}", plain(name)));
    Some(PathBuf::from(text))
}

/// The last part of a library's name, which may be a path.
fn plain(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn find(
    name: &str,
    of: &Path,
    folders: &[String],
    board: &Board,
) -> Option<(PathBuf, Vec<u8>, Elf)> {
    let origin = fs::canonicalize(of)
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .unwrap_or_default();
    let origin = origin.to_string_lossy();
    let named = folders.iter().map(|folder| {
        let folder = folder.replace("${ORIGIN}", &origin);
        PathBuf::from(folder.replace("$ORIGIN", &origin))
    });
    let set = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        named
            .chain(std::env::split_paths(&set).filter(|path| !path.as_os_str().is_empty()))
            .chain(configured(Path::new("/etc/ld.so.conf"), 0))
            .chain(board.folders().map(PathBuf::from))
            .map(|folder| folder.join(name))
            .collect()
    };
    candidates.into_iter().find_map(|path| {
        let bytes = read(&path).ok()?;
        let elf = parse(&bytes).ok()?;
        // As a loader does: a library for another processor is skipped.
        elf.runs_on(board).ok()?;
        Some((path, bytes, elf))
    })
}

/// The directories in ld.so.conf, and in the `*.conf` files that it includes.
fn configured(file: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(file) else {
        return Vec::new();
    };
    let mut folders = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(pattern) = line.strip_prefix("include ") {
            let parent = Path::new(pattern.trim()).parent().unwrap_or(Path::new("/"));
            let mut files: Vec<PathBuf> = fs::read_dir(parent)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|end| end == "conf"))
                .collect();
            files.sort();
            if depth < 2 {
                folders.extend(files.iter().flat_map(|file| configured(file, depth + 1)));
            }
        } else if line.starts_with('/') {
            folders.push(PathBuf::from(line));
        }
    }
    folders
}

fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    let error = |source| LabError::file(path, source);
    let data = fs::metadata(path).map_err(error)?;
    if !data.is_file() || data.len() > MOST_BYTES {
        return Err(LabError::Program {
            path: path.to_owned(),
            source: ProgramError::NotAProgram,
        });
    }
    fs::read(path).map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_of_a_program_is_kept_and_nothing_else() {
        let mut program = fs::read("/proc/self/exe").expect("our own file");
        let whole = program.len();
        keep_loaded(&mut program);
        assert!(program.len() < whole, "it has symbols");
        let parsed = parse(&program).expect("still a program");
        assert_eq!(parsed, parse(&fs::read("/proc/self/exe").unwrap()).unwrap());
        let mut again = program.clone();
        keep_loaded(&mut again);
        assert_eq!(again, program);
        for cut in 0..256 {
            let mut short = program[..cut].to_vec();
            keep_loaded(&mut short);
            assert!(short.len() <= cut);
        }
        let mut other = b"#!/bin/sh\n".to_vec();
        keep_loaded(&mut other);
        assert_eq!(other, b"#!/bin/sh\n");
    }

    #[test]
    fn a_dynamic_program_names_its_loader_and_libraries() {
        let elf = parse(&fs::read("/bin/sh").unwrap()).unwrap();
        assert!(elf.interpreter.unwrap().contains("ld-linux"));
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")));
        // The tests are linked as the tool is: statically.
        let own = parse(&fs::read("/proc/self/exe").unwrap()).unwrap();
        assert_eq!(own.interpreter, None);
        assert!(own.needed.is_empty());
    }

    #[test]
    fn a_program_comes_with_all_that_it_needs() {
        let mut archive = Initramfs::new();
        assert_eq!(
            bring(
                &mut archive,
                Path::new("/bin/sh"),
                Board::of(Architecture::OWN),
                &mut Room::for_memory(1024)
            )
            .unwrap(),
            "/lab/bin/sh"
        );
        assert!(archive.holds("lab/bin/sh"));
        assert!(archive.holds("lab/lib/libc.so.6"));
        assert!(archive.holds("lib64/ld-linux-x86-64.so.2"));
    }

    #[test]
    fn what_is_no_program_is_refused_in_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut lost = fs::read("/bin/sh").unwrap();
        let at = lost.windows(9).position(|w| w == b"libc.so.6").unwrap();
        lost[at + 3] = b'q';
        let mut other = fs::read("/bin/sh").unwrap();
        other[18] = 183;
        for (bytes, words) in [
            (lost, "library libq.so.6"),
            (other, "another processor"),
            (b"#!/no/such/sh\n".to_vec(), "the script needs"),
            (b"text".to_vec(), "not an ELF file"),
            (fs::read("/bin/sh").unwrap()[..70].to_vec(), "truncated"),
        ] {
            let path = folder.path().join("program");
            fs::write(&path, bytes).unwrap();
            let error = bring(
                &mut Initramfs::new(),
                &path,
                Board::of(Architecture::OWN),
                &mut Room::for_memory(1024),
            )
            .unwrap_err();
            let error = error.to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn broken_files_are_read_without_a_panic() {
        let mut bytes = fs::read("/bin/sh").unwrap();
        for length in 0..2048 {
            let _ = parse(&bytes[..length]);
        }
        for index in 0..0x400 {
            let kept = std::mem::replace(&mut bytes[index], 0xff);
            let _ = parse(&bytes);
            bytes[index] = kept;
        }
    }
}
