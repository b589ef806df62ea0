//! Programs whose packages start services: they are unpacked, not installed (`scripts/need`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::common::needs::Absent;

/// Where packages are unpacked.
fn unpacked() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools")
}

/// Where programs are searched.
fn places() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.extend(["usr/bin", "usr/sbin"].map(|folder| unpacked().join(folder)));
    places
}

/// The file of a program that has one of these names.
///
/// # Errors
/// It is neither installed nor unpacked.
pub fn find(names: &[&str], package: &str) -> Result<PathBuf, Absent> {
    let files = names
        .iter()
        .flat_map(|name| places().into_iter().map(move |place| place.join(name)));
    files
        .into_iter()
        .find(|file| file.is_file())
        .and_then(|file| file.canonicalize().ok())
        .ok_or_else(|| Absent::program(format!("{} (package {package})", names[0])))
}

/// A folder of libraries, installed or unpacked, that has this file.
pub fn library_folder(file: &str) -> Option<PathBuf> {
    let roots = [PathBuf::from("/usr/lib"), unpacked().join("usr/lib")];
    let folders = roots
        .into_iter()
        .flat_map(|root| std::fs::read_dir(root).into_iter().flatten().flatten());
    folders
        .map(|entry| entry.path())
        .find(|folder| folder.join(file).is_file())
        .and_then(|folder| folder.canonicalize().ok())
}

/// The path of programs, with those that are unpacked.
pub fn path() -> OsString {
    std::env::join_paths(places()).expect("a path")
}

/// Where unpacked programs find their libraries.
pub fn library_path() -> OsString {
    let mut folders: Vec<PathBuf> = Vec::new();
    for file in ["slurm-wlm/libslurmfull.so", "libmunge.so.2", "libwrap.so.0"] {
        if let Some(folder) = library_folder(file) {
            folders.push(folder.join("slurm-wlm"));
            folders.push(folder);
        }
    }
    std::env::join_paths(folders).expect("a path")
}
