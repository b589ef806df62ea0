//! Kernels by name, from the system's package manager: finds and downloads them, without installing.

use std::cmp::Ordering;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use punctual_record::laboratory::Architecture;

use super::error::Error;
use super::fault::NoPackage;
use super::package::{Control, paragraph};
use super::wanted::{Flavour, PREFIX, Wanted, Which};
use super::{Tell, foreign};

/// A package that apt can fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub name: String,
    pub version: String,
    /// In hexadecimal, of the .deb.
    pub sha256: String,
    /// Its length in bytes.
    pub size: u64,
}

/// Why apt has no result.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It does not have the package, or cannot download it.
    Package(NoPackage),
    /// There is no space for it.
    NoSpace,
    /// The lists of another architecture cannot be kept.
    State {
        /// Where.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// apt's programs.
#[derive(Debug, Clone, Default)]
pub struct Apt {
    directory: Option<PathBuf>,
    /// A file for apt's package cache, if the system does not keep one.
    digest: Option<PathBuf>,
    /// A configuration of apt's, for another architecture than this system's.
    configuration: Option<PathBuf>,
}

impl Apt {
    /// Uses the programs of this directory, instead of those in PATH.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: Some(directory.into()),
            ..Self::default()
        }
    }

    /// Lets apt keep in this directory the lists of another architecture than this system's, and its
    /// package cache if the system keeps none, as in containers: otherwise each query takes seconds.
    pub(super) fn keeping(
        &self,
        directory: &Path,
        architecture: Architecture,
        tell: Tell<'_>,
    ) -> Result<Self, Refusal> {
        let mut apt = self.clone();
        if architecture != Architecture::OWN {
            let state = foreign::directory_of(directory, architecture);
            apt.configuration = Some(foreign::configured(self, &state, architecture, tell)?);
            return Ok(apt);
        }
        let is_kept = Path::new("/var/cache/apt/pkgcache.bin").exists();
        if self.directory.is_none() && !is_kept && directory.is_dir() {
            apt.digest = Some(directory.join(".apt"));
        }
        Ok(apt)
    }

    /// The package that apt would download for a name.
    pub(super) fn offer(&self, wanted: &Wanted) -> Result<Offer, Refusal> {
        let candidates = match &wanted.which {
            Which::Package(name) => vec![name.clone()],
            Which::Newest {
                version: None,
                flavour,
            } => vec![wanted.metapackage(*flavour, None)],
            Which::Newest {
                version: Some(version),
                flavour,
            } => {
                let names = self.names(&format!("{PREFIX}{version}"))?;
                let mut fitting: Vec<String> =
                    names.into_iter().filter(|name| wanted.fits(name)).collect();
                fitting.sort_by(|a, b| by_release(b, a));
                // Some series have a package that depends on its newest.
                let whole = wanted.metapackage(*flavour, Some(version));
                fitting.retain(|name| *name != whole);
                fitting.insert(0, whole);
                fitting
            }
        };
        // apt also knows names of packages that it cannot download.
        for name in candidates.iter().take(4) {
            if let Some(offer) = self.follow(name, wanted.architecture)? {
                return Ok(offer);
            }
        }
        Err(Refusal::Package(self.none_such(wanted)?))
    }

    /// Follows packages that only depend on another one, to a kernel.
    fn follow(&self, name: &str, architecture: Architecture) -> Result<Option<Offer>, Refusal> {
        let mut name = name.to_owned();
        for _ in 0..4 {
            let output = self.ask("apt-cache", &["show", "--no-all-versions", "--", &name])?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let control = paragraph(&text);
            if control.package.is_empty() {
                return Ok(None);
            }
            let mut depends = control.depends.iter();
            match depends.find(|depends| depends.starts_with(PREFIX)) {
                Some(next) => name.clone_from(next),
                None => return offer(&text, control, architecture).map(Some),
            }
        }
        Ok(None)
    }

    /// Downloads a package into a directory, and returns its path.
    pub(super) fn fetch(&self, offer: &Offer, directory: &Path) -> Result<PathBuf, Refusal> {
        let Offer { name, version, .. } = offer;
        let mut command = self.command("apt-get");
        command
            .current_dir(directory)
            .args(["-q", "-o", "Acquire::Retries=2"])
            .args([
                "-o",
                "Acquire::http::Timeout=30",
                "-o",
                "Acquire::https::Timeout=30",
            ])
            .args(["download", "--", &format!("{name}={version}")]);
        let output = run(&mut command)?;
        if !output.status.success() {
            return Err(refusal(&output));
        }
        let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let found = entries.find(|entry| entry.path().extension().is_some_and(|end| end == "deb"));
        let found = found.map(|entry| entry.path());
        found.ok_or(Refusal::Package(NoPackage::NoFile))
    }

    /// That the package does not exist, which ones do, and where there may be more.
    fn none_such(&self, wanted: &Wanted) -> Result<NoPackage, Refusal> {
        let names = self.names(PREFIX)?;
        if names.is_empty() {
            return Ok(match wanted.architecture {
                Architecture::OWN => NoPackage::NoKernels,
                architecture => NoPackage::NoKernelsFor { architecture },
            });
        }
        let flavour = match &wanted.which {
            Which::Newest { flavour, .. } => *flavour,
            Which::Package(name) if name.contains("-rt") => Flavour::Rt,
            Which::Package(name) if name.contains("-cloud") => Flavour::Cloud,
            Which::Package(_) => Flavour::Standard,
        };
        let mut fitting: Vec<&String> = names
            .iter()
            .filter(|name| {
                wanted
                    .release(flavour, name)
                    .is_some_and(|release| release.contains('-') || release.contains('+'))
            })
            .collect();
        fitting.sort_by(|a, b| by_release(b, a));
        // The newest of each series.
        fitting.dedup_by_key(|name| series(name));
        let has: Vec<String> = if fitting.is_empty() {
            let whole = names
                .iter()
                .filter(|name| !name.contains(|c: char| c.is_ascii_digit()));
            whole.take(6).cloned().collect()
        } else {
            fitting.into_iter().take(6).cloned().collect()
        };
        Ok(NoPackage::NoSuch {
            has,
            without_backports: self.without_backports(),
        })
    }

    /// The codename, if this is a Debian without backports.
    fn without_backports(&self) -> Option<String> {
        let policy = self.ask("apt-cache", &["policy"]).ok()?;
        if String::from_utf8_lossy(&policy.stdout).contains("-backports") {
            return None;
        }
        debian_of(&fs::read_to_string("/etc/os-release").ok()?)
    }

    /// The package names with this prefix that apt knows.
    fn names(&self, prefix: &str) -> Result<Vec<String>, Refusal> {
        let output = self.ask("apt-cache", &["pkgnames", "--", prefix])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Result<Output, Refusal> {
        let mut command = self.command(program);
        if let Some(digest) = &self.digest {
            let option = format!("Dir::Cache::pkgcache={}", digest.display());
            command.args(["-o", &option]);
        }
        run(command.args(arguments))
    }

    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = match &self.directory {
            Some(directory) => Command::new(directory.join(program)),
            None => Command::new(program),
        };
        if let Some(configuration) = &self.configuration {
            command.arg("-c").arg(configuration);
        }
        // Messages in English, and no questions.
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }
}

pub(super) fn run(command: &mut Command) -> Result<Output, Refusal> {
    command.output().map_err(|error| {
        Refusal::Package(match error.kind() {
            ErrorKind::NotFound => NoPackage::NoApt,
            _ => NoPackage::NotRun(error),
        })
    })
}

fn offer(text: &str, control: Control, wanted: Architecture) -> Result<Offer, Refusal> {
    let field = |name: &str| {
        let mut lines = text.lines().take_while(|line| !line.trim().is_empty());
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.trim()))
    };
    let Control {
        package: name,
        version,
        architecture,
        ..
    } = control;
    if architecture != wanted.name() {
        return Err(Refusal::Package(NoPackage::Architecture {
            name,
            architecture,
            wanted,
        }));
    }
    let is_hash =
        |text: &&str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some(sha256) = field("SHA256").filter(is_hash) else {
        return Err(Refusal::Package(NoPackage::InstalledOnly { name, version }));
    };
    Ok(Offer {
        sha256: sha256.to_ascii_lowercase(),
        size: field("Size")
            .and_then(|size| size.parse().ok())
            .unwrap_or(0),
        name,
        version,
    })
}

/// apt's own error; its warnings come before it.
fn refusal(output: &Output) -> Refusal {
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("No space left") || text.contains("enough free space") {
        return Refusal::NoSpace;
    }
    let mut errors = text.lines().filter_map(|line| line.strip_prefix("E: "));
    let error = errors.next().unwrap_or_default();
    let output = error.split_whitespace().collect::<Vec<_>>().join(" ");
    Refusal::Package(NoPackage::Refused { output })
}

/// `os-release` of a Debian -> its codename.
fn debian_of(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = os_release.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    if field("ID").as_deref() != Some("debian") {
        return None;
    }
    field("VERSION_CODENAME")
}

/// By the numbers in their names, 6.1.0-9 before 6.1.0-10.
pub(super) fn by_release(a: &str, b: &str) -> Ordering {
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

fn series(name: &str) -> Vec<u64> {
    numbers(name).into_iter().take(2).collect()
}

fn numbers(name: &str) -> Vec<u64> {
    let digits = name.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

impl Refusal {
    pub(super) fn error(self, asked: &str, cache: &Path) -> Error {
        match self {
            Self::NoSpace => Error::cache(cache, io::Error::from(ErrorKind::StorageFull)),
            Self::State { path, error } => Error::cache(&path, error),
            Self::Package(why) => Error::Package {
                asked: asked.to_owned(),
                why,
            },
        }
    }
}
