//! An OCI image layout: a directory with `index.json`, and manifests and layers named by digest.

use std::fs::File;
use std::io::{BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::board::Board;
use super::super::channel::sha256;
use super::super::kernel::unpack;
use super::super::room::Room;
use super::error::RootfsError;
use super::tree::Tree;

/// The longest manifest or index, in bytes.
const LONGEST_JSON: u64 = 4 << 20;
/// The most layers of an image.
const MOST_LAYERS: usize = 128;
/// The most images and indices that are searched.
const MOST_MANIFESTS: usize = 64;

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    digest: String,
    #[serde(default)]
    media_type: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

/// Whether a directory is such a layout.
#[must_use]
pub fn is_layout(directory: &Path) -> bool {
    directory.join("index.json").is_file() && directory.join("blobs").is_dir()
}

/// Unpacks an image's layers.
///
/// # Errors
/// One line without the layout's name.
pub fn unpack(
    directory: &Path,
    board: &Board,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), RootfsError> {
    let index: Index = json("index.json", &slurp(directory, "index.json")?)?;
    let mut seen = 0;
    let Some(layers) = image(directory, index, board, &mut seen)? else {
        return Err(RootfsError::NoImage {
            architecture: board.architecture,
        });
    };
    if layers.len() > MOST_LAYERS {
        return Err(RootfsError::Layers { most: MOST_LAYERS });
    }
    for layer in layers {
        if !layer.media_type.is_empty() && !layer.media_type.contains("tar") {
            let kind = layer.media_type;
            return Err(RootfsError::LayerKind { kind });
        }
        let path = blob(directory, &layer.digest)?;
        let shown = super::shown(&path);
        let wrong = |error: RootfsError| error.of(shown.clone());
        let mut file = open(&path)?.into_inner();
        let sum = unpack::hash(&mut file).map_err(|error| wrong(RootfsError::Read(error)))?;
        if Some(&*sum) != layer.digest.strip_prefix("sha256:") {
            return Err(wrong(RootfsError::Damaged));
        }
        // The file that was hashed: its name may refer to another file now.
        file.rewind()
            .map_err(|error| wrong(RootfsError::Read(error)))?;
        tree.next_layer();
        super::unpack_file(file, true, tree, room).map_err(wrong)?;
    }
    Ok(())
}

/// The layers of the image for the guest that an index leads to.
fn image(
    directory: &Path,
    index: Index,
    board: &Board,
    seen: &mut usize,
) -> Result<Option<Vec<Descriptor>>, RootfsError> {
    if !index.layers.is_empty() {
        return Ok(Some(index.layers));
    }
    for manifest in index.manifests {
        let fits = manifest.platform.as_ref().is_none_or(|platform| {
            platform.architecture == board.architecture.name()
                && ["linux", ""].contains(&&*platform.os)
        });
        if !fits {
            continue;
        }
        *seen += 1;
        if *seen > MOST_MANIFESTS {
            return Err(RootfsError::Images {
                most: MOST_MANIFESTS,
            });
        }
        let path = blob(directory, &manifest.digest)?;
        let name = path.strip_prefix(directory).unwrap_or(&path).to_owned();
        let bytes = slurp(directory, &name.to_string_lossy())?;
        if Some(&*sha256(&bytes)) != manifest.digest.strip_prefix("sha256:") {
            return Err(RootfsError::Damaged.of(super::shown(&path)));
        }
        let inner = json(&super::shown(&path), &bytes)?;
        if let Some(layers) = image(directory, inner, board, seen)? {
            return Ok(Some(layers));
        }
    }
    Ok(None)
}

/// The file of a digest; refuses one that would lead elsewhere.
fn blob(directory: &Path, digest: &str) -> Result<PathBuf, RootfsError> {
    let digits = digest.strip_prefix("sha256:").filter(|digits| {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        digits.len() == 64 && digits.bytes().all(is_hex)
    });
    match digits {
        Some(digits) => Ok(directory.join("blobs/sha256").join(digits)),
        None => Err(RootfsError::Digest {
            digest: digest.to_owned(),
        }),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, RootfsError> {
    let file =
        super::regular(path).map_err(|error| RootfsError::Read(error).of(super::shown(path)))?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

fn slurp(directory: &Path, name: &str) -> Result<Vec<u8>, RootfsError> {
    let mut bytes = Vec::new();
    let mut file = open(&directory.join(name))?.take(LONGEST_JSON + 1);
    file.read_to_end(&mut bytes)
        .map_err(|error| RootfsError::Read(error).of(name))?;
    if bytes.len() as u64 > LONGEST_JSON {
        return Err(RootfsError::LongJson.of(name));
    }
    Ok(bytes)
}

/// Never panics: serde_json stops at a depth of 128.
fn json<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, RootfsError> {
    serde_json::from_slice(bytes).map_err(|error| RootfsError::Json(error).of(name))
}
