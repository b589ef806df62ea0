//! Files of a boot loader's configuration, and the programs that read them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use punctual_record::text::shortened;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

use super::boot::words;
use super::journal::lock_within;

/// The values of kernel arguments.
pub(super) const WITH: &str = "with";
pub(super) const WITHOUT: &str = "without";

/// The value of a file that does not exist.
const ABSENT: &str = "absent";
/// The largest file that is read.
const LIMIT: u64 = 1 << 20;
/// How long a program that runs already is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest line of a program that is shown.
const LINE: usize = 200;

/// A file's content as a value.
pub(super) fn value_of(content: Option<&[u8]>) -> String {
    match content.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => ABSENT.to_owned(),
        Some((_, Ok(text))) => format!("text:{text}"),
        Some((bytes, Err(_))) => format!("base64:{}", BASE64.encode(bytes)),
    }
}

/// The content that a value stands for: none if the file is absent.
///
/// # Errors
/// If it stands for none.
pub(super) fn content_of(value: &str) -> io::Result<Option<Vec<u8>>> {
    if value == ABSENT {
        Ok(None)
    } else if let Some(text) = value.strip_prefix("text:") {
        Ok(Some(text.as_bytes().to_vec()))
    } else if let Some(coded) = value.strip_prefix("base64:") {
        let bytes = BASE64.decode(coded);
        bytes
            .map(Some)
            .map_err(|_| io::ErrorKind::InvalidData.into())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// The content of a file; none if it is absent.
pub(super) fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let kind = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !kind.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(Some(bytes))
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    Ok(value_of(content(path)?.as_deref()))
}

/// The rights of a new file.
const RIGHTS: u32 = 0o644;
/// Those of one that was removed and comes back: nobody knows who might read it.
pub(super) const PRIVATE: u32 = 0o600;

/// [`write_as`] with the rights of a configuration.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    write_as(path, value, RIGHTS)
}

/// Replaces a file at once: after a crash it has its old or its new content. Without a file, the new one
/// gets these rights.
pub(super) fn write_as(path: &Path, value: &str, rights: u32) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let new = unfinished_name(path)?;
    let Some(bytes) = content_of(value)? else {
        remove(path)?;
        remove(&new)?;
        return sync_folder(folder);
    };
    fs::create_dir_all(folder)?;
    remove(&new)?;
    let old = match File::open(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // Nobody reads it before it has the rights of the old one.
    let mode = if old.is_some() { PRIVATE } else { rights };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&new)?;
    let written = (|| {
        file.write_all(&bytes)?;
        if let Some(old) = &old {
            copy_attributes(old, &file)?;
        }
        file.sync_all()?;
        fs::rename(&new, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written?;
    sync_folder(folder)
}

/// The largest list of names of extended attributes, and the largest value (linux/limits.h:
/// `XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
const ATTRIBUTE: usize = 1 << 16;
/// What the kernel derives from the content and sets by itself: it is not that of another content.
const DERIVED: [&[u8]; 2] = [b"security.ima", b"security.evm"];

/// The list of access rights (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// Gives a file the owner, the rights and the extended attributes of another one.
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let (old, new) = (from.metadata()?, to.metadata()?);
    // A change of the owner removes capabilities and the bits for another user: it comes first (chown(2)).
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        std::os::unix::fs::fchown(to, Some(old.uid()), Some(old.gid()))?;
    }
    to.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    let (mut names, mut value) = (vec![0; ATTRIBUTE], vec![0; ATTRIBUTE]);
    let length = match flistxattr(from, &mut names[..]) {
        Err(Errno::NOTSUP) => 0,
        length => length?,
    };
    let names = names[..length].split(|byte| *byte == 0);
    // One that the folder gives to new files.
    if !names.clone().any(|name| name == ACL.as_bytes()) {
        match fremovexattr(to, ACL) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for name in names.filter(|name| !name.is_empty() && !DERIVED.contains(name)) {
        let named = |error: Errno| {
            let name = String::from_utf8_lossy(name);
            let error = crate::root::plain(&error.into());
            io::Error::other(format!("its extended attribute {name}: {error}"))
        };
        let length = fgetxattr(from, name, &mut value[..]).map_err(named)?;
        // A new file has labels of security modules already, and not each may be set.
        let mut present = vec![0; length + 1];
        if fgetxattr(to, name, &mut present[..]) == Ok(length)
            && present[..length] == value[..length]
        {
            continue;
        }
        fsetxattr(to, name, &value[..length], XattrFlags::empty()).map_err(named)?;
    }
    Ok(())
}

/// The name of a file until it is complete: no program reads one of this name.
fn unfinished_name(path: &Path) -> io::Result<PathBuf> {
    let mut name = path
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_owned();
    name.push(".punctual-new");
    Ok(path.with_file_name(name))
}

/// What has the name of a file until it is complete: a kill has left it, or it is another program's.
pub(super) fn unfinished(path: &Path) -> Option<PathBuf> {
    let new = unfinished_name(path).ok()?;
    fs::symlink_metadata(&new).is_ok().then_some(new)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The program's file, locked as long as it is open anywhere: a program that outlives a punctual
/// which was killed must not run beside the next one. A read of it gives nothing.
fn locked(program: &str) -> io::Result<File> {
    let mut file = File::open(program)?;
    lock_within(&file, PATIENCE).map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other(
            "it still runs for a punctual that was killed: wait until it has ended",
        ),
        TryLockError::Error(error) => error,
    })?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

/// Runs a program of the boot loader, and returns what it printed. Waits for one that runs already.
///
/// # Errors
/// If it can't be started or fails: with its last line.
pub(super) fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let named =
        |error: io::Error| io::Error::other(format!("{program}: {}", crate::root::plain(&error)));
    let ended = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(locked(program).map_err(named)?)
        .output()
        .map_err(named)?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let last = shortened(last.unwrap_or("it printed nothing").trim(), LINE);
    Err(io::Error::other(format!(
        "{program} failed ({}): {last}",
        ended.status
    )))
}

/// The arguments of each installed kernel.
pub(super) fn kernels(grubby: &str) -> io::Result<Vec<String>> {
    let said = run(grubby, &["--info=ALL"])?;
    let lines = said.lines().filter_map(|line| line.strip_prefix("args="));
    let kernels: Vec<String> = lines.map(str::to_owned).collect();
    if kernels.is_empty() {
        return Err(io::Error::other(format!(
            "{grubby} --info=ALL names no kernel"
        )));
    }
    Ok(kernels)
}

/// For each installed kernel whether it has any of these parameters.
pub(super) fn kernels_with(grubby: &str, parameters: &str) -> io::Result<Vec<bool>> {
    let has = |kernel: &String| {
        let given = words(kernel);
        let mut parameters = parameters.split_whitespace();
        parameters.any(|parameter| given.iter().any(|word| word == parameter))
    };
    Ok(kernels(grubby)?.iter().map(has).collect())
}

pub(super) fn write_arguments(grubby: &str, parameters: &str, value: &str) -> io::Result<()> {
    let flag = match value {
        WITH => "--args",
        WITHOUT => "--remove-args",
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let all = format!("{flag}={parameters}");
    run(grubby, &["--update-kernel=ALL", &all])?;
    if value == WITH && !kernels_with(grubby, parameters)?.iter().all(|has| *has) {
        return Err(io::Error::other(format!(
            "{grubby} did not give the parameters to each kernel"
        )));
    }
    Ok(())
}
