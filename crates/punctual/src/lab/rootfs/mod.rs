//! A root file system of the user's as the guest's userspace: a directory, a tar, an OCI layout.

pub mod archive;
mod folder;
mod oci;
pub mod tree;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use self::tree::{Node, Tree};
use super::error::LabError;
use super::initramfs::Initramfs;
use super::job::{IN_ROOT, JOB_FILE, ROOT, ROOT_PATH};
use super::kernel::unpack::Packing;
use super::room::Room;

/// Directories that the guest mounts over, and one for what the work leaves.
const PLACES: [&str; 6] = ["dev", "proc", "sys", "tmp", "run", "out"];

/// Reads a root file system, whatever holds it.
///
/// # Errors
/// One line with its name: it can't be read, leads out, or is larger than the guest takes.
pub fn read(path: &Path, room: &mut Room) -> Result<Tree, LabError> {
    let refused = |reason: String| LabError::Program {
        path: path.to_owned(),
        reason,
    };
    let data = std::fs::metadata(path).map_err(|error| LabError::file(path, error))?;
    let mut tree = Tree::new();
    if data.is_dir() && oci::is_layout(path) {
        oci::unpack(path, &mut tree, room).map_err(refused)?;
    } else if data.is_dir() {
        folder::read(path, "", &mut tree, room).map_err(refused)?;
    } else if data.is_file() {
        unpack_file(path, false, &mut tree, room).map_err(refused)?;
    } else {
        let what = "is neither a directory nor a tar nor an OCI layout";
        return Err(refused(what.to_owned()));
    }
    if tree.is_empty() {
        return Err(refused("is empty".to_owned()));
    }
    if tree.file("oci-layout").is_some() && tree.file("index.json").is_some() {
        let what = "holds an OCI layout: unpack it, and give the directory";
        return Err(refused(what.to_owned()));
    }
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
) -> Result<(), String> {
    folder::read(from, under, tree, room)
}

/// Makes it fit to work in, and puts it into the guest's files.
///
/// # Errors
/// There is no room for it.
pub fn put(mut tree: Tree, archive: &mut Initramfs, room: &mut Room) -> Result<(), String> {
    for place in PLACES {
        tree.need_folder(place, room)?;
    }
    // What is mounted over: this program, and what the guest has to do.
    tree.need_folder("lab", room)?;
    for file in [IN_ROOT, JOB_FILE] {
        tree.add(file, 0o755, Node::File(Vec::new()), room)?;
    }
    tree.put(archive, ROOT);
    Ok(())
}

/// The program in it that a command means, as a shell finds it.
///
/// # Errors
/// There is none, or its interpreter isn't there: in a few words.
pub fn program(tree: &mut Tree, word: &str) -> Result<(), String> {
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
            return Err(format!("/{place} in it is not executable: chmod +x"));
        }
        let Some(interpreter) = interpreter(bytes) else {
            return Ok(());
        };
        if tree.file(&interpreter).is_none() {
            return Err(format!(
                "/{place} in it wants {}, which is not in it",
                archive::in_a_line(&interpreter)
            ));
        }
        return Ok(());
    }
    let word = archive::in_a_line(word);
    Err(if paths.len() == 1 {
        format!("there is no file {word} in it")
    } else {
        format!("there is no program {word} in it (in {ROOT_PATH})")
    })
}

/// What a script is run by.
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
    path: &Path,
    is_layer: bool,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), String> {
    let shown = shown(path);
    let wrong = |reason: String| {
        if is_layer {
            format!("{shown}: {reason}")
        } else {
            reason
        }
    };
    let plain = |error: std::io::Error| wrong(error.to_string());
    let file = regular(path).map_err(plain)?;
    let mut packed = BufReader::with_capacity(1 << 16, file);
    let beginning = packed.fill_buf().map_err(plain)?;
    let packing = match Packing::of(beginning) {
        Some(packing) => packing,
        None if is_tar(beginning) => Packing::Plain,
        None => {
            let what = "is no tar, neither plain nor packed with gzip, xz or zstd";
            return Err(wrong(what.to_owned()));
        }
    };
    let stream: Box<dyn std::io::Read> = match packing {
        // Several files in one: tools that pack in parallel or by chunks write such.
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        packing => packing.unpack(packed).map_err(plain)?,
    };
    archive::unpack(stream, is_layer, tree, room).map_err(wrong)
}

/// Opens a file that ends: no pipe, which may never have a writer, and no device.
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
    // An empty archive is zeros alone.
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
