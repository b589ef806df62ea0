//! A user's root file system as the guest's userspace: a directory, a tar, an OCI layout.

pub mod archive;
mod error;
mod folder;
mod oci;
pub mod tree;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use punctual_record::laboratory::Architecture;

pub use self::error::RootfsError;
use self::tree::{Node, Tree};
use super::board::Board;
use super::error::LabError;
use super::initramfs::Initramfs;
use super::job::{IN_ROOT, JOB_FILE, ROOT, ROOT_PATH};
use super::kernel::unpack::Packing;
use super::libraries;
use super::room::Room;

/// Directories that the guest mounts over, and the one for results.
const PLACES: [&str; 6] = ["dev", "proc", "sys", "tmp", "run", "out"];

/// Reads a root file system in any of these forms.
///
/// # Errors
/// One line with its name: it cannot be read, leads out, or is too large for the guest.
pub fn read(path: &Path, board: &Board, room: &mut Room) -> Result<Tree, LabError> {
    let refused = |source: RootfsError| LabError::Rootfs {
        path: path.to_owned(),
        source,
    };
    let data = std::fs::metadata(path).map_err(|error| LabError::file(path, error))?;
    let mut tree = Tree::new();
    if data.is_dir() && oci::is_layout(path) {
        oci::unpack(path, board, &mut tree, room).map_err(refused)?;
    } else if data.is_dir() {
        folder::read(path, "", &mut tree, room).map_err(refused)?;
    } else if data.is_file() {
        let file = regular(path).map_err(|error| LabError::file(path, error))?;
        unpack_file(file, false, &mut tree, room).map_err(refused)?;
    } else {
        return Err(refused(RootfsError::Kind));
    }
    if tree.is_empty() {
        return Err(refused(RootfsError::Empty));
    }
    if tree.file("oci-layout").is_some() && tree.file("index.json").is_some() {
        return Err(refused(RootfsError::PackedLayout));
    }
    check_processor(&mut tree, board).map_err(refused)?;
    Ok(tree)
}

/// Adds files of the host below a directory of the guest.
///
/// # Errors
/// One line without the directory's name.
pub fn add_folder(
    from: &Path,
    under: &str,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), RootfsError> {
    folder::read(from, under, tree, room)
}

/// Prepares it, and puts it into the guest's files.
///
/// # Errors
/// There is no room for it.
pub fn put(mut tree: Tree, archive: &mut Initramfs, room: &mut Room) -> Result<(), RootfsError> {
    for place in PLACES {
        tree.need_folder(place, room)?;
    }
    // Mount points of this program and the job.
    tree.need_folder("lab", room)?;
    for file in [IN_ROOT, JOB_FILE] {
        tree.add(file, 0o755, Node::File(Vec::new()), room)?;
    }
    tree.put(archive, ROOT);
    Ok(())
}

/// Finds a command's program in it, as a shell does.
///
/// # Errors
/// There is none, or its interpreter is missing.
pub fn program(tree: &mut Tree, word: &str, board: &Board) -> Result<(), RootfsError> {
    if word.contains('/') && !word.starts_with('/') {
        let word = word.to_owned();
        return Err(RootfsError::Relative { word });
    }
    let paths: Vec<String> = if word.contains('/') {
        vec![word.to_owned()]
    } else {
        ROOT_PATH
            .split(':')
            .map(|folder| format!("{folder}/{word}"))
            .collect()
    };
    for path in &paths {
        let Some((place, bytes, mode)) = tree.file(path) else {
            continue;
        };
        if mode & 0o111 == 0 {
            return Err(RootfsError::NotExecutable { place });
        }
        let needed = match interpreter(bytes) {
            Some(interpreter) => Some(interpreter),
            None => match loader(bytes, board) {
                Ok(needed) => needed,
                Err(what) => return Err(RootfsError::Program { place, what }),
            },
        };
        let Some(needed) = needed else {
            return Ok(());
        };
        let Some((_, bytes, _)) = tree.file(&needed) else {
            return Err(RootfsError::NoInterpreter { place, needed });
        };
        return match loader(bytes, board) {
            Ok(_) => Ok(()),
            Err(what) => Err(RootfsError::Interpreter {
                place,
                needed,
                what,
            }),
        };
    }
    let word = word.to_owned();
    Err(if paths.len() == 1 {
        RootfsError::NoFile { path: word }
    } else {
        RootfsError::NoProgram { name: word }
    })
}

/// The loader that a program needs; the kernel decides about files that are not ELF.
fn loader(bytes: &[u8], board: &Board) -> Result<Option<String>, &'static str> {
    /// 32-bit programs, which x86-64 kernels also run.
    const I386: [u8; 2] = [3, 0];
    let is_elf = bytes.starts_with(b"\x7fELF");
    let is_i386 = bytes.get(4) == Some(&1) && bytes.get(18..20) == Some(&I386);
    if !is_elf || is_i386 && board.architecture == Architecture::Amd64 {
        return Ok(None);
    }
    let elf = libraries::parse(bytes)?;
    elf.runs_on(board)?;
    Ok(elf.interpreter)
}

/// Checks that its shell, if it has one, is for the guest's processor: an image for another processor is
/// refused before anything in it is used.
fn check_processor(tree: &mut Tree, board: &Board) -> Result<(), RootfsError> {
    let Some((place, bytes, _)) = tree.file("bin/sh") else {
        return Ok(());
    };
    match loader(bytes, board) {
        Ok(_) => Ok(()),
        Err(what) => Err(RootfsError::Shell {
            place,
            what,
            architecture: board.architecture,
        }),
    }
}

/// The interpreter of a script.
#[must_use]
pub fn interpreter(bytes: &[u8]) -> Option<String> {
    let line = bytes.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(4096)];
    let line = line.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    line.split_whitespace().next().map(str::to_owned)
}

/// A tar, packed or not.
fn unpack_file(
    file: File,
    is_layer: bool,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), RootfsError> {
    let mut packed = BufReader::with_capacity(1 << 16, file);
    let beginning = packed.fill_buf().map_err(RootfsError::Read)?;
    let packing = match Packing::detect_several(beginning) {
        Some(packing) => packing,
        None if is_tar(beginning) => Packing::Plain,
        None => return Err(RootfsError::NotTar),
    };
    let stream = packing.unpack_all(packed).map_err(RootfsError::Read)?;
    archive::unpack(stream, is_layer, tree, room)
}

/// Opens a regular file: not a pipe, which may never have a writer, nor a device.
fn regular(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("is not a regular file"));
    }
    Ok(file)
}

fn is_tar(beginning: &[u8]) -> bool {
    let magic = beginning.get(257..262);
    // An empty archive has only zeros.
    magic == Some(b"ustar")
        || beginning
            .get(..512)
            .is_some_and(|b| b.iter().all(|&b| b == 0))
}

/// The last part of a path.
fn shown(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rootfs/");

    #[test]
    fn streams_that_follow_each_other_are_one_archive() {
        let board = Board::of(Architecture::OWN);
        for name in ["two-streams.tar.xz", "two-frames.tar.zst"] {
            let path = format!("{DATA}{name}");
            let mut tree = read(Path::new(&path), board, &mut Room::for_memory(256)).expect(name);
            let (_, bytes, _) = tree.file("a/two").expect(name);
            assert_eq!(bytes, [b'x'; 3000], "{name}");
            // The second stream is not the end of a first that is cut short.
            let whole = std::fs::read(&path).expect("data");
            let folder = tempfile::tempdir().expect("a folder");
            let cut = folder.path().join(name);
            for length in [whole.len() - 1, whole.len() - 20, whole.len() / 2] {
                std::fs::write(&cut, &whole[..length]).expect("written");
                let error = read(&cut, board, &mut Room::for_memory(256))
                    .map(|_| ())
                    .expect_err(name);
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }

    /// A tree of these files, each executable.
    fn tree_of(files: &[(&str, &[u8])]) -> Tree {
        let (mut tree, mut room) = (Tree::new(), Room::for_memory(256));
        for (path, bytes) in files {
            let node = Node::File(bytes.to_vec());
            tree.add(path, 0o755, node, &mut room).expect(path);
        }
        tree
    }

    #[test]
    fn a_program_for_another_processor_or_without_its_loader_is_refused() {
        let shell = std::fs::read("/bin/sh").expect("a shell");
        let needed = libraries::parse(&shell).expect("a program").interpreter;
        let loader = needed.expect("a loader");
        let own = std::fs::read("/proc/self/exe").expect("this program");
        let mut arm = own.clone();
        arm[18] = 183;
        let script = b"#!/bin/sh\n";
        let board = Board::of(Architecture::OWN);
        let said = |files: &[(&str, &[u8])], word: &str| {
            program(&mut tree_of(files), word, board).map_err(|error| error.to_string())
        };
        assert_eq!(said(&[("bin/x", &own)], "x"), Ok(()));
        assert_eq!(said(&[("bin/x", &shell), (&loader, &own)], "x"), Ok(()));
        for (files, word, words) in [
            (&[("bin/x", &arm[..])][..], "x", "for another processor"),
            (
                &[("bin/x", &shell)],
                "x",
                "ld-linux-x86-64.so.2, which is not in it",
            ),
            (
                &[("bin/x", &shell), (&loader, &arm)],
                "x",
                "so.2, which is a program for another",
            ),
            (
                &[("bin/x", script), ("bin/sh", &arm)],
                "x",
                "/bin/sh, which is a program for another",
            ),
            (&[("bin/x", &shell[..70])], "x", "truncated"),
            (
                &[("bin/x", &own)],
                "./bin/x",
                "expected an absolute path, /bin/x",
            ),
            (
                &[("bin/x", &own)],
                "bin/x",
                "expected an absolute path, /bin/x",
            ),
        ] {
            let error = said(files, word).expect_err(words);
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn an_image_for_another_processor_is_refused_whatever_runs() {
        let mut shell = std::fs::read("/bin/sh").expect("a shell");
        let said = |tree: &mut Tree| {
            let checked = check_processor(tree, Board::of(Architecture::OWN));
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(said(&mut tree_of(&[("bin/sh", &shell)])), Ok(()));
        shell[18] = 183;
        let error = said(&mut tree_of(&[("bin/sh", &shell)])).expect_err("arm64");
        assert!(
            error.contains("/bin/sh in it") && error.contains("linux/amd64"),
            "{error}"
        );
        // Programs of 32 bits run as well.
        (shell[4], shell[18]) = (1, 3);
        assert_eq!(said(&mut tree_of(&[("bin/sh", &shell)])), Ok(()));
        assert_eq!(said(&mut Tree::new()), Ok(()));
    }
}
