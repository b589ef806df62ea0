//! Finds a kernel by name, as a package or as an image, and makes it ready to boot.

pub mod apt;
mod cache;
mod error;
mod fault;
mod file;
mod foreign;
pub mod idle_loop;
pub mod image;
pub mod kallsyms;
pub mod modules;
pub mod package;
mod parameters;
mod progress;
pub mod symbols;
pub mod unpack;
pub mod waiting;
pub mod wanted;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use punctual_record::laboratory::Architecture;

use serde::{Deserialize, Serialize};

use self::apt::{Apt, Refusal};
pub use self::cache::{Cache, EntryDamage};
pub use self::error::Error;
pub use self::fault::{Damage, NoPackage, Unfit};
use self::file::{banner, enters_guests, hash, open, read_part, seek, whole};
use self::image::{BzImage, Flat, Kind};
pub use self::progress::Progress;
pub use self::symbols::{SymbolTables, Symbols};
use self::unpack::Packing;
pub use self::waiting::Patch;
use self::wanted::{Wanted, Which};

/// A kernel, ready to boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The processors that it runs on.
    pub architecture: Architecture,
    /// The name that the user gave: `rt`, `standard`, `cloud`, `6.12-rt`, or a file's path.
    pub asked: String,
    /// Its release, as `uname -r` prints it: `6.1.0-49-rt-amd64`.
    pub release: String,
    /// Its package and the package's version, if it is from a package.
    pub package: Option<Package>,
    /// For x86-64 an uncompressed ELF image, which boots faster than a bzImage; or the bzImage, if QEMU
    /// cannot boot the ELF image (a kernel without `CONFIG_PVH`). For others a flat image.
    pub image: PathBuf,
    /// SHA-256 of `image`, in hexadecimal.
    pub sha256: String,
    /// Names and addresses of its functions, if the package has them.
    pub system_map: Option<PathBuf>,
    /// Its configuration, if the package has it.
    pub config: Option<PathBuf>,
    /// The directory `lib/modules/RELEASE` of its modules, if the package has them.
    pub modules: Option<PathBuf>,
    /// What takes the place of loops that take the emulator long, as far as they are known.
    pub patches: Vec<Patch>,
}

/// A Debian package of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// `linux-image-6.1.0-49-rt-amd64`.
    pub name: String,
    /// `6.1.172-1`.
    pub version: String,
}

/// Receives each step that takes time, and unexpected results.
pub type Tell<'a> = &'a mut dyn FnMut(&Progress);

/// The longest kernel or unpacked image, in bytes. Debian's have 8 and 40 million.
const LONGEST_IMAGE: u64 = 512 << 20;

/// The image in an entry of the cache.
const IMAGE: &str = "vmlinux";
/// The image in an entry whose kernel can only unpack itself.
const PACKED_IMAGE: &str = "vmlinuz";
const SYSTEM_MAP: &str = "System.map";
const CONFIG: &str = "config";
const MODULES: &str = "lib/modules/";
/// The path of a package while it is unpacked.
const DOWNLOAD: &str = "download";
/// The longest symbols or configuration, in bytes.
const LONGEST_TEXT: u64 = 64 << 20;

/// Finds a kernel, and makes it ready to boot.
///
/// `asked` is
/// - `rt`, `standard` or `cloud`: the newest of its kind that apt offers;
/// - a release or its beginning, `6.12`, `6.12-rt`, `6.1.0-49-rt-amd64`;
/// - a Debian package, `linux-image-6.1.0-49-rt-amd64` or `linux-image-rt-amd64`;
/// - a path to a bzImage, an ELF image or a Debian package; of another architecture than amd64 to an
///   `Image` or a Debian package.
///
/// Downloaded and unpacked files are kept in the cache, and verified at each use. If apt has no
/// result, the newest such kernel in the cache is used, and `tell` receives its name.
///
/// # Errors
/// See [`Error`]; each is one line. Nothing incomplete is left.
pub fn find(
    asked: &str,
    architecture: Architecture,
    cache: &Cache,
    tell: Tell<'_>,
) -> Result<Kernel, Error> {
    find_with(&Apt::default(), asked, architecture, cache, tell)
}

/// Like [`find`], with other apt programs.
///
/// # Errors
/// Those of [`find`].
pub fn find_with(
    apt: &Apt,
    asked: &str,
    architecture: Architecture,
    cache: &Cache,
    tell: Tell<'_>,
) -> Result<Kernel, Error> {
    let path = Path::new(asked);
    let wanted = Wanted::parse(asked, architecture).filter(|wanted| {
        // A file in the working directory, unless its name is one of the three short ones.
        matches!(wanted.which, Which::Newest { version: None, .. }) || !path.is_file()
    });
    let mut kernel = match wanted {
        Some(wanted) => by_name(apt, asked, &wanted, cache, tell),
        None if !asked.contains('/') && !path.exists() => Err(Error::Package {
            asked: asked.to_owned(),
            why: NoPackage::NotAName,
        }),
        None => from_file(asked, path, architecture, cache, tell),
    }?;
    kernel.patches = waiting::patches_of(&kernel);
    Ok(kernel)
}

fn by_name(
    apt: &Apt,
    asked: &str,
    wanted: &Wanted,
    cache: &Cache,
    tell: Tell<'_>,
) -> Result<Kernel, Error> {
    let architecture = wanted.architecture;
    let known = apt.keeping(cache.directory(), architecture, tell);
    let offered = known.and_then(|apt| Ok((apt.offer(wanted)?, apt)));
    let refused = match offered {
        Ok((offer, apt)) => {
            let key = format!("package-{}", offer.sha256);
            let mut is_refused = false;
            let made = cache.entry(&key, tell, |draft, tell| {
                let megabytes = offer.size.div_ceil(1_000_000);
                let package = Package {
                    name: offer.name.clone(),
                    version: offer.version.clone(),
                };
                tell(&Progress::Fetching { package, megabytes });
                let failed = |refusal: Refusal| {
                    is_refused = true;
                    foreign::forget(cache.directory(), architecture);
                    refusal.error(asked, cache.directory())
                };
                let directory = draft.folder(DOWNLOAD)?;
                let path = apt.fetch(&offer, &directory).map_err(failed)?;
                let (mut file, length) = open(&path)?;
                if hash(&path, length)? != offer.sha256 {
                    return Err(Error::damaged(&path, Damage::Hash));
                }
                let kernel = unpack_package(&path, &mut file, length, architecture, draft, tell)?;
                draft.forget_folder(DOWNLOAD)?;
                Ok(kernel)
            });
            match made {
                Ok(entry) => return Ok(from_entry(asked, architecture, &entry)),
                // Other errors than apt's would come again.
                Err(error) if !is_refused => return Err(error),
                Err(error) => error,
            }
        }
        Err(refusal) => refusal.error(asked, cache.directory()),
    };
    match newest(cache, wanted) {
        Some(entry) => {
            let package = entry.manifest.package.clone();
            tell(&Progress::FromCache { refused, package });
            Ok(from_entry(asked, architecture, &entry))
        }
        None => Err(refused),
    }
}

/// The newest kernel in the cache that matches the name.
fn newest(cache: &Cache, wanted: &Wanted) -> Option<cache::Entry> {
    let entries = cache.entries().into_iter().filter(|entry| {
        let package = entry.manifest.package.as_ref();
        package.is_some_and(|package| wanted.fits(&package.name))
    });
    entries.max_by(|a, b| apt::by_release(&a.manifest.release, &b.manifest.release))
}

fn from_file(
    asked: &str,
    path: &Path,
    architecture: Architecture,
    cache: &Cache,
    tell: Tell<'_>,
) -> Result<Kernel, Error> {
    let (mut file, length) = open(path)?;
    let beginning = read_part(path, &mut file, 0, image::BEGINNING as u64)?;
    let kernel = |release: String, image: PathBuf, sha256: String| Kernel {
        architecture,
        asked: asked.to_owned(),
        release,
        package: None,
        image,
        sha256,
        system_map: None,
        config: None,
        modules: None,
        patches: Vec::new(),
    };
    let kind = image::kind(&beginning);
    fits(path, &kind, architecture)?;
    match kind {
        Kind::Flat(flat) => {
            let release = flat_release(path, &mut file, &flat, length)?;
            let sha256 = hash(path, length)?;
            Ok(kernel(release, path.to_owned(), sha256))
        }
        Kind::Elf(elf) => {
            whole(path, &elf.parts, length)?;
            if !enters_guests(path, &mut file, &elf)? {
                return Err(Error::unfit(path, Unfit::NoPvh));
            }
            let release = banner(path, &mut file)?;
            let sha256 = hash(path, length)?;
            Ok(kernel(release, path.to_owned(), sha256))
        }
        Kind::BzImage(bz_image) => {
            let sha256 = hash(path, length)?;
            let entry = cache.entry(&format!("image-{sha256}"), tell, |draft, _| {
                let release = unpack_image(path, &mut file, length, &bz_image, draft)?;
                Ok((release, None))
            })?;
            if entry.manifest.files.contains_key(IMAGE) {
                return Ok(from_entry(asked, architecture, &entry));
            }
            // It can only unpack itself.
            let release = entry.manifest.release.clone();
            Ok(kernel(release, path.to_owned(), sha256))
        }
        Kind::Package => {
            let sha256 = hash(path, length)?;
            let entry = cache.entry(&format!("package-{sha256}"), tell, |draft, tell| {
                unpack_package(path, &mut file, length, architecture, draft, tell)
            })?;
            Ok(from_entry(asked, architecture, &entry))
        }
        Kind::Other(why) => Err(Error::unfit(path, why)),
    }
}

/// A kernel that is in the cache.
fn from_entry(asked: &str, architecture: Architecture, entry: &cache::Entry) -> Kernel {
    let manifest = &entry.manifest;
    let file = |name: &str| {
        let known = manifest.files.get(name)?;
        Some((entry.directory.join(name), known.sha256.clone()))
    };
    let (image, sha256) = file(IMAGE)
        .or_else(|| file(PACKED_IMAGE))
        .unwrap_or_default();
    let path = |name: &str| file(name).map(|(path, _)| path);
    let modules = format!("{MODULES}{}", manifest.release);
    let holds_modules = manifest.files.keys().any(|name| name.starts_with(&modules));
    Kernel {
        architecture,
        asked: asked.to_owned(),
        release: manifest.release.clone(),
        package: manifest.package.clone(),
        image,
        sha256,
        system_map: path(SYSTEM_MAP),
        config: path(CONFIG),
        modules: holds_modules.then(|| entry.directory.join(&modules)),
        patches: Vec::new(),
    }
}

/// Refuses a kernel for other guests.
fn fits(path: &Path, kind: &Kind, wanted: Architecture) -> Result<(), Error> {
    match kind.architecture() {
        Some(found) if found != wanted => {
            Err(Error::unfit(path, Unfit::KernelFor { found, wanted }))
        }
        _ => Ok(()),
    }
}

/// The release of a flat image, which is checked to be whole.
fn flat_release(path: &Path, file: &mut File, flat: &Flat, length: u64) -> Result<String, Error> {
    whole(path, &flat.parts, length)?;
    banner(path, file)
}

/// Unpacks a package into an entry of the cache.
fn unpack_package(
    path: &Path,
    file: &mut File,
    length: u64,
    architecture: Architecture,
    draft: &mut cache::Draft,
    tell: Tell<'_>,
) -> Result<(String, Option<Package>), Error> {
    let failed = |error: io::Error| cache::unpacking(path, error);
    let members = package::members(file, length).map_err(failed)?;
    let control = {
        let tar = package::tar(file, &members, "control.tar").map_err(failed)?;
        package::control(tar).map_err(failed)?
    };
    if ![architecture.name(), "all"].contains(&control.architecture.as_str()) {
        let found = control.architecture;
        let wanted = architecture;
        return Err(Error::unfit(path, Unfit::PackageFor { found, wanted }));
    }
    let package = Package {
        name: control.package,
        version: control.version,
    };
    tell(&Progress::Unpacking {
        package: package.clone(),
    });
    let mut release = None;
    let tar = package::tar(file, &members, "data.tar").map_err(failed)?;
    package::files(tar, failed, |installed, from| {
        let below = installed.strip_prefix("usr/").unwrap_or(installed);
        let longest = if let Some(found) = below.strip_prefix("boot/vmlinuz-") {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+~-_".contains(&byte);
            if !found.bytes().all(plain) {
                let below = below.to_owned();
                return Err(Error::unfit(path, Unfit::KernelName { path: below }));
            }
            if release.replace(found.to_owned()).is_some() {
                return Err(Error::unfit(path, Unfit::SeveralKernels));
            }
            draft.keep(PACKED_IMAGE, from, LONGEST_IMAGE, path)?;
            return Ok(());
        } else if below.starts_with("boot/System.map-") {
            return draft.keep(SYSTEM_MAP, from, LONGEST_TEXT, path).map(|_| ());
        } else if below.starts_with("boot/config-") {
            return draft.keep(CONFIG, from, LONGEST_TEXT, path).map(|_| ());
        } else if let Some(module) = below.strip_prefix(MODULES) {
            match module.split_once('/') {
                Some((_, module)) if modules::is_kept(module) => modules::LONGEST,
                _ => return Ok(()),
            }
        } else {
            return Ok(());
        };
        draft.keep(below, from, longest, path).map(|_| ())
    })?;
    let Some(release) = release else {
        let mut depends = control.depends.into_iter();
        let depends = depends.find(|name| name.starts_with("linux-image-"));
        return Err(Error::unfit(path, Unfit::NoKernel { depends }));
    };
    let packed = draft.directory.join(PACKED_IMAGE);
    let (mut file, length) = open(&packed)?;
    let beginning = read_part(&packed, &mut file, 0, image::BEGINNING as u64)?;
    let kind = image::kind(&beginning);
    fits(&packed, &kind, architecture).map_err(|error| error.about(path))?;
    match kind {
        Kind::Flat(flat) => {
            flat_release(&packed, &mut file, &flat, length).map_err(|error| error.about(path))?;
        }
        Kind::BzImage(bz_image) => {
            unpack_image(&packed, &mut file, length, &bz_image, draft)
                .map_err(|error| error.about(path))?;
            if draft.holds(IMAGE) {
                draft.forget(PACKED_IMAGE)?;
            }
        }
        Kind::Other(why) => {
            let why = Box::new(why);
            return Err(Error::unfit(path, Unfit::Holds { release, why }));
        }
        _ => return Err(Error::unfit(path, Unfit::HoldsOther { release })),
    }
    // Debian's file says in one line that the real one is in another package.
    if draft.size(SYSTEM_MAP).is_some_and(|size| size < 4096) {
        draft.forget(SYSTEM_MAP)?;
    }
    Ok((release, Some(package)))
}

/// Unpacks a bzImage into an entry of the cache, and returns the kernel's release.
fn unpack_image(
    path: &Path,
    file: &mut File,
    length: u64,
    bz_image: &BzImage,
    draft: &mut cache::Draft,
) -> Result<String, Error> {
    let end = bz_image.payload.saturating_add(u64::from(bz_image.length));
    if end > length {
        let why = Damage::PackedEnd {
            offset: bz_image.payload,
            bytes: bz_image.length.into(),
            length,
        };
        return Err(Error::damaged(path, why));
    }
    let magic = read_part(path, file, bz_image.payload, 16)?;
    let Some(packing) = Packing::detect(&magic) else {
        return Err(Error::unfit(path, Unfit::Packing));
    };
    let trailer = read_part(path, file, end - 4, 4)?;
    let unpacked = image::u32_at(&trailer, 0).map_or(0, u64::from);
    if unpacked > LONGEST_IMAGE {
        return Err(Error::unfit(path, Unfit::LongKernel { bytes: unpacked }));
    }
    // gzip ends with that length; the kernel's build appends it to the others.
    let packed = match packing {
        Packing::Gzip => u64::from(bz_image.length),
        _ => u64::from(bz_image.length) - 4,
    };
    seek(path, file, bz_image.payload)?;
    let packed = BufReader::with_capacity(1 << 16, file.take(packed));
    let mut stream = packing
        .unpack(packed)
        .map_err(|error| cache::unpacking(path, error))?;
    let sum = draft.keep(IMAGE, &mut stream, unpacked, path)?;
    drop(stream);
    if sum.size != unpacked {
        let why = Damage::Unpacked {
            stated: unpacked,
            found: sum.size,
        };
        return Err(Error::damaged(path, why));
    }
    let image = draft.directory.join(IMAGE);
    let (mut file, length) = open(&image)?;
    let beginning = read_part(&image, &mut file, 0, image::BEGINNING as u64)?;
    let Kind::Elf(elf) = image::kind(&beginning) else {
        return Err(Error::unfit(path, Unfit::NoElf));
    };
    whole(path, &elf.parts, length)?;
    let release = match &bz_image.release {
        Some(release) => release.clone(),
        None => banner(&image, &mut file)?,
    };
    if !enters_guests(&image, &mut file, &elf)? {
        draft.forget(IMAGE)?;
    }
    Ok(release)
}
