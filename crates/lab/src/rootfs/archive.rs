//! A `tar` as a root file system, or as a layer of one. Total, whatever the bytes: an entry that
//! leads out is refused, and no more is kept in memory than the guest takes.

use std::io::{self, Read};
use std::string::FromUtf8Error;

use punctual_record::text::shortened;
use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::super::room::Room;
use super::error::RootfsError;
use super::tree::{Node, Tree};

/// A name or a header of extensions, in bytes.
const LONGEST_HEADER: u64 = 64 << 10;
/// How an OCI layer says that something of a lower one is gone.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";
/// Bytes of a tar that is unpacked, with what isn't kept of it.
const MOST_BYTES: u64 = 16 << 30;

/// What headers before an entry say of it.
#[derive(Default)]
struct Said {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

/// Unpacks a tar over what is there; with whiteouts, where it is a layer.
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
    let mut said = Said::default();
    let mut headers = 0u32;
    for entry in entries {
        let mut entry = entry.map_err(RootfsError::Unpack)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => said.path = Some(header(&mut entry)?),
            EntryType::GNULongLink => said.target = Some(header(&mut entry)?),
            EntryType::XHeader => extensions(&header(&mut entry)?, &mut said),
            EntryType::XGlobalHeader => {}
            _ => {
                headers = 0;
                add(&mut entry, std::mem::take(&mut said), is_layer, tree, room)?;
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
    // The checksum of what was packed stands behind it.
    io::copy(&mut counted, &mut io::sink()).map_err(RootfsError::Unpack)?;
    Ok(())
}

/// Counts the zeros that came last: a whole tar ends with a block of them.
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

fn extensions(bytes: &[u8], said: &mut Said) {
    for extension in PaxExtensions::new(bytes).flatten() {
        let value = extension.value_bytes().to_vec();
        match extension.key_bytes() {
            b"path" => said.path = Some(value),
            b"linkpath" => said.target = Some(value),
            // What follows is a map of the file and those parts of it that aren't zeros.
            key if key.starts_with(b"GNU.sparse.") => said.is_sparse = true,
            b"size" => said.size = extension.value().ok().and_then(|size| size.parse().ok()),
            _ => {}
        }
    }
}

fn add(
    entry: &mut Entry<'_, impl Read>,
    said: Said,
    is_layer: bool,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), RootfsError> {
    let is_sparse = said.is_sparse;
    let path = said
        .path
        .unwrap_or_else(|| entry.header().path_bytes().into_owned());
    let path = text(path).map_err(|error| {
        let path = String::from_utf8_lossy(error.as_bytes());
        RootfsError::Name.of(in_a_line(&path))
    })?;
    let wrong = |error: RootfsError| error.of(in_a_line(&path));
    let size = entry.size();
    if said.size.is_some_and(|said| said != size) {
        return Err(wrong(RootfsError::Size));
    }
    let mode = entry.header().mode().unwrap_or(0o755);
    if is_layer {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if name == OPAQUE {
            return tree.hide_contents(above).map_err(wrong);
        }
        if let Some(name) = name.strip_prefix(WHITEOUT) {
            // Others of that kind are marks of a union file system.
            if name.is_empty() || name == "." || name == ".." || name.starts_with(".wh.") {
                return Ok(());
            }
            return tree.hide(&format!("{above}/{name}")).map_err(wrong);
        }
    }
    let target = said
        .target
        .or_else(|| entry.link_name_bytes().map(|name| name.into_owned()));
    let target = text(target.unwrap_or_default()).map_err(|_| wrong(RootfsError::LinkedName))?;
    let done = match entry.header().entry_type() {
        EntryType::GNUSparse => Err(RootfsError::Sparse),
        _ if is_sparse => Err(RootfsError::Sparse),
        EntryType::Regular | EntryType::Continuous => {
            // Before it is read: a header may state any size.
            room.clone()
                .take(size)
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
        // The guest has devices of its own in /dev; pipes are made by who needs them.
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
