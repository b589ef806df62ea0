//! Reads a `tar` as a root file system, or as a layer of one. Never panics, whatever the bytes: an entry
//! that leads out is refused, and memory is bounded by the guest's room.

use std::io::{self, Read};
use std::string::FromUtf8Error;

use punctual_record::text::shortened;
use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::super::room::Room;
use super::error::RootfsError;
use super::tree::{Node, Tree};

/// The longest name or header of extensions, in bytes.
const LONGEST_HEADER: u64 = 64 << 10;
/// The prefix with which an OCI layer removes an entry of a lower layer.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";
/// The most bytes of an unpacked tar, including those that are not kept.
const MOST_BYTES: u64 = 16 << 30;

/// What headers before an entry state about it.
#[derive(Default)]
struct Stated {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

/// Unpacks a tar over the existing entries; with whiteouts, if it is a layer.
///
/// # Errors
/// One line without the archive's name.
pub fn unpack(
    tar: impl Read,
    is_layer: bool,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), RootfsError> {
    let counted = Counted {
        tar: tar.take(MOST_BYTES),
        zeros: 0,
    };
    let mut archive = Archive::new(counted);
    // Raw, since the crate would read a long name of any length into memory.
    let entries = archive.entries().map_err(RootfsError::Unpack)?.raw(true);
    let mut stated = Stated::default();
    let mut headers = 0u32;
    for entry in entries {
        let mut entry = entry.map_err(RootfsError::Unpack)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => stated.path = Some(header(&mut entry)?),
            EntryType::GNULongLink => stated.target = Some(header(&mut entry)?),
            EntryType::XHeader => extensions(&header(&mut entry)?, &mut stated),
            EntryType::XGlobalHeader => {}
            _ => {
                headers = 0;
                add(
                    &mut entry,
                    std::mem::take(&mut stated),
                    is_layer,
                    tree,
                    room,
                )?;
                continue;
            }
        }
        headers += 1;
        if headers > 16 {
            return Err(RootfsError::Headers);
        }
    }
    let mut counted = archive.into_inner();
    if counted.tar.limit() == 0 {
        return Err(RootfsError::TooLong {
            most_gib: MOST_BYTES >> 30,
        });
    }
    if counted.zeros < 512 {
        return Err(RootfsError::Cut);
    }
    // The checksum follows the packed data.
    io::copy(&mut counted, &mut io::sink()).map_err(RootfsError::Unpack)?;
    Ok(())
}

/// Counts the zeros at the end: a complete tar ends with a block of them.
struct Counted<R> {
    tar: R,
    zeros: usize,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.tar.read(bytes)?;
        let zeros = bytes[..length].iter().rev().take_while(|it| **it == 0);
        let zeros = zeros.count();
        self.zeros = if zeros == length {
            self.zeros.saturating_add(zeros)
        } else {
            zeros
        };
        Ok(length)
    }
}

fn header(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, RootfsError> {
    let mut bytes = Vec::new();
    if entry.size() > LONGEST_HEADER {
        return Err(RootfsError::LongName);
    }
    entry.read_to_end(&mut bytes).map_err(RootfsError::Unpack)?;
    Ok(bytes)
}

fn extensions(bytes: &[u8], stated: &mut Stated) {
    for extension in PaxExtensions::new(bytes).flatten() {
        let value = extension.value_bytes().to_vec();
        match extension.key_bytes() {
            b"path" => stated.path = Some(value),
            b"linkpath" => stated.target = Some(value),
            // The content is a map of the file and its parts that are not zeros.
            key if key.starts_with(b"GNU.sparse.") => stated.is_sparse = true,
            b"size" => stated.size = extension.value().ok().and_then(|size| size.parse().ok()),
            _ => {}
        }
    }
}

fn add(
    entry: &mut Entry<'_, impl Read>,
    stated: Stated,
    is_layer: bool,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), RootfsError> {
    let is_sparse = stated.is_sparse;
    let path = stated
        .path
        .unwrap_or_else(|| entry.header().path_bytes().into_owned());
    let path = text(path).map_err(|error| {
        let path = String::from_utf8_lossy(error.as_bytes());
        RootfsError::Name.of(in_a_line(&path))
    })?;
    let wrong = |error: RootfsError| error.of(in_a_line(&path));
    let size = entry.size();
    if stated.size.is_some_and(|stated| stated != size) {
        return Err(wrong(RootfsError::Size));
    }
    let mode = entry.header().mode().unwrap_or(0o755);
    if is_layer {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if name == OPAQUE {
            return tree.hide_contents(above).map_err(wrong);
        }
        if let Some(name) = name.strip_prefix(WHITEOUT) {
            // Other such names are markers of a union file system.
            if name.is_empty() || name == "." || name == ".." || name.starts_with(".wh.") {
                return Ok(());
            }
            return tree.hide(&format!("{above}/{name}")).map_err(wrong);
        }
    }
    let target = stated
        .target
        .or_else(|| entry.link_name_bytes().map(|name| name.into_owned()));
    let target = text(target.unwrap_or_default()).map_err(|_| wrong(RootfsError::LinkedName))?;
    let done = match entry.header().entry_type() {
        EntryType::GNUSparse => Err(RootfsError::Sparse),
        _ if is_sparse => Err(RootfsError::Sparse),
        EntryType::Regular | EntryType::Continuous => {
            // Before it is read: a header may state any size.
            room.clone()
                .reserve(size)
                .map_err(|error| wrong(error.into()))?;
            let mut bytes = Vec::new();
            let read = entry.take(size).read_to_end(&mut bytes);
            match read {
                Ok(read) if read as u64 == size => {}
                Ok(_) => return Err(wrong(RootfsError::EndsWithin)),
                Err(error) => return Err(wrong(RootfsError::Read(error))),
            }
            tree.add(&path, mode, Node::File(bytes), room)
        }
        EntryType::Directory => tree.add(&path, mode, Node::Folder, room),
        EntryType::Symlink => tree.add(&path, mode, Node::Link(target), room),
        EntryType::Link => tree.add_name(&path, &target, room),
        // The guest has its own devices in /dev; programs make their own pipes.
        _ => Ok(()),
    };
    done.map_err(wrong)
}

/// The text before the first zero byte.
fn text(mut bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    String::from_utf8(bytes)
}

/// A name from an archive, as a message shows it.
pub fn in_a_line(name: &str) -> String {
    const LONGEST: usize = 200;
    shortened(name, LONGEST)
}
