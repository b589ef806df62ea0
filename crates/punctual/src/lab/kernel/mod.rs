//! Finds a kernel and makes it ready to boot: by name, as a package, as an image.

use std::path::PathBuf;

/// A kernel, ready to boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// What it was asked for as: `rt`, `standard`, `6.12-rt`, or a file's path.
    pub asked: String,
    /// Its release, as `uname -r` will say it: `6.1.0-49-rt-amd64`.
    pub release: String,
    /// The package that it came from and that package's version, where it came from one.
    pub package: Option<Package>,
    /// An uncompressed ELF image, which boots faster than a bzImage.
    pub image: PathBuf,
    /// SHA-256 of `image`, in hexadecimal.
    pub sha256: String,
    /// Names and addresses of its functions, where the package holds them.
    pub system_map: Option<PathBuf>,
    /// Its configuration, where the package holds it.
    pub config: Option<PathBuf>,
    /// The directory `lib/modules/RELEASE` of its modules, where the package holds them.
    pub modules: Option<PathBuf>,
}

/// A Debian package of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// `linux-image-6.1.0-49-rt-amd64`.
    pub name: String,
    /// `6.1.172-1`.
    pub version: String,
}
