//! Settings as they were before a change, saved to disk before the change.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::write_setting;
use punctual_record::files::Folder;

/// The first line of a journal.
const HEAD: &str = "punctual tracer journal 1";
/// The suffix of a journal's name.
const END: &str = ".journal";

/// A tracing instance of ours, and the previous settings outside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    path: PathBuf,
    root: PathBuf,
    instance: String,
    before: Vec<(String, String)>,
}

impl Journal {
    /// An empty journal for an instance.
    #[must_use]
    pub fn new(folder: &Path, root: &Path, instance: &str) -> Self {
        Self {
            path: folder.join(format!("{instance}{END}")),
            root: root.to_owned(),
            instance: instance.to_owned(),
            before: Vec::new(),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes the current value of a setting.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn keep_original(&mut self, file: &str) -> io::Result<()> {
        let found = fs::read_to_string(self.root.join(file))?;
        // Of several choices, the one in brackets.
        let chosen = found
            .split_whitespace()
            .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        let value = chosen.unwrap_or(found.trim()).to_owned();
        self.before.push((file.to_owned(), value));
        Ok(())
    }

    /// Writes it atomically; it is on disk when this returns.
    ///
    /// # Errors
    /// The write error.
    pub fn write(&self) -> io::Result<()> {
        let mut text = format!("{HEAD}\n{}\n{}\n", self.root.display(), self.instance);
        for (file, value) in &self.before {
            text += &format!("{file} {value}\n");
        }
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // Root restores what it says: no other user may be able to change it.
        let folder = Folder::make_all(folder)?;
        if folder.fault()?.is_some() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "other users than root may change what is in it",
            ));
        }
        folder.replace(name, text.as_bytes())
    }

    /// Reads a journal.
    ///
    /// # Errors
    /// When there is none, or the file is not a journal.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let (root, instance, before) = parse(&text).ok_or_else(|| {
            let what = format!("{} is not a journal of tracers", path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        Ok(Self {
            path: path.to_owned(),
            root,
            instance,
            before,
        })
    }

    /// Ends the tracer and removes the instance. Both must wait for the last reader: a reader that is
    /// being killed takes a moment.
    fn end_instance(&self) -> io::Result<()> {
        let instance = self.root.join("instances").join(&self.instance);
        let mut tries = 100;
        loop {
            if !instance.exists() {
                return Ok(());
            }
            let ended = write_setting(&instance.join("tracing_on"), "0")
                .and(write_setting(&instance.join("current_tracer"), "nop"));
            match ended.and(fs::remove_dir(&instance)) {
                Ok(()) => return Ok(()),
                Err(error) if tries == 0 => return Err(error),
                Err(_) => tries -= 1,
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Ends the tracer, removes the instance, restores the settings, and then removes the
    /// journal. It may be called again.
    ///
    /// # Errors
    /// The first thing that failed; the journal still exists then.
    pub fn restore(&mut self) -> io::Result<()> {
        let mut failed = self.end_instance();
        let mut keep = |done: io::Result<()>| {
            let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            if failed.is_ok() && done.as_ref().err().is_some_and(|error| !absent(error)) {
                failed = done;
            }
        };
        // Some settings bound each other: so they are written twice, the last first.
        for (file, value) in self.before.iter().rev().chain(&self.before) {
            let _ = write_setting(&self.root.join(file), value);
        }
        for (file, value) in &self.before {
            let now = fs::read_to_string(self.root.join(file));
            keep(match now {
                Ok(now) if super::is_chosen(&now, value) => Ok(()),
                Ok(now) => Err(io::Error::other(format!("{file} reads {}", now.trim()))),
                Err(error) => Err(error),
            });
        }
        failed?;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

type Parsed = (PathBuf, String, Vec<(String, String)>);

fn parse(text: &str) -> Option<Parsed> {
    let mut lines = text.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let root = PathBuf::from(lines.next()?);
    let instance = lines.next()?;
    if !super::PLACES.contains(&root.to_str()?) || !is_instance(instance) {
        return None;
    }
    let mut before = Vec::new();
    for line in lines {
        let (file, value) = line.split_once(' ')?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !Path::new(file).components().all(plain) || before.len() >= 64 {
            return None;
        }
        before.push((file.to_owned(), value.to_owned()));
    }
    Some((root, instance.to_owned(), before))
}

/// `punctual-`, a process, a number.
fn is_instance(name: &str) -> bool {
    owner(name).is_some()
}

fn owner(instance: &str) -> Option<u32> {
    let (process, number) = instance.strip_prefix("punctual-")?.split_once('-')?;
    number.parse::<u32>().ok()?;
    process.parse().ok()
}

/// Whether a path is that of one of our journals.
pub(super) fn is_ours(path: &Path, folder: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent() == Some(folder)
        && name
            .and_then(|name| name.strip_suffix(END))
            .is_some_and(is_instance)
}

/// Restores what processes left behind that have ended, together with their guards.
///
/// # Errors
/// When the folder can't be read.
pub(super) fn restore_leftovers(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let process = name.and_then(|name| owner(name.strip_suffix(END)?));
        let gone = process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists());
        if gone && let Ok(mut journal) = Journal::read(&path) {
            let _ = journal.restore();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_as_it_was_written_or_refused_as_a_whole() {
        let place = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(
            place.path(),
            Path::new("/sys/kernel/tracing"),
            "punctual-12-0",
        );
        journal
            .before
            .push(("tracing_thresh".to_owned(), "0".to_owned()));
        journal.write().unwrap();
        assert_eq!(Journal::read(journal.path()).unwrap(), journal);
        assert!(is_ours(journal.path(), place.path()));
        let good = fs::read_to_string(journal.path()).unwrap();
        for (from, to) in [
            ("journal 1", "journal 2"),
            ("/sys/kernel/tracing", "/etc"),
            ("punctual-12-0", "../x"),
            ("punctual-12-0", "punctual-12-x"),
            ("tracing_thresh", "../../etc/passwd"),
            ("tracing_thresh 0", "/etc/passwd x"),
            ("tracing_thresh 0", "tracing_thresh"),
        ] {
            let bad = good.replace(from, to);
            assert!(bad != good && parse(&bad).is_none(), "{bad}");
        }
        for path in [
            "/etc/passwd",
            "/run/punctual/x.journal",
            "punctual-1-1.journal",
        ] {
            assert!(
                !is_ours(Path::new(path), Path::new("/run/punctual")),
                "{path}"
            );
        }
    }

    #[test]
    fn a_planted_link_is_not_followed_and_another_users_folder_is_refused() {
        use std::os::unix::fs::{chown, symlink};
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("journals");
        fs::create_dir(&folder).unwrap();
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let root = Path::new("/sys/kernel/tracing");
        let journal = Journal::new(&folder, root, "punctual-12-0");
        symlink(&victim, folder.join("punctual-12-0.journal.tmp")).unwrap();
        symlink(&victim, journal.path()).unwrap();
        journal.write().unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(Journal::read(journal.path()).unwrap(), journal);
        assert!(fs::symlink_metadata(journal.path()).unwrap().is_file());
        // Only root can change a folder's owner, and only root's folder matters.
        if chown(&folder, Some(65534), None).is_ok() {
            let refused = Journal::new(&folder, root, "punctual-12-1").write();
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
