//! What the name of a kernel requests: a package, or the newest of a kind.

use punctual_record::laboratory::Architecture;

/// The prefix of Debian's kernel packages.
pub(super) const PREFIX: &str = "linux-image-";

/// A kernel for guests of an architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The guests' architecture.
    pub architecture: Architecture,
    /// Which.
    pub which: Which,
}

/// What a name requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// A package by its own name, perhaps with `=VERSION`.
    Package(String),
    /// The newest kernel of a kind.
    Newest {
        /// The start of its release, if one was given: `6.12`.
        version: Option<String>,
        /// Which kind.
        flavour: Flavour,
    },
}

/// Debian's kinds of kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// `PREEMPT_RT`.
    Rt,
    /// The standard kernel.
    Standard,
    /// The kernel for virtual machines of cloud providers: fewer drivers.
    Cloud,
}

impl Wanted {
    /// What a name requests; `None` if it is not the name of a kernel.
    #[must_use]
    pub fn parse(asked: &str, architecture: Architecture) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+~-:=_".contains(&byte);
        if !asked.bytes().all(plain) {
            return None;
        }
        let wanted = |which| {
            Some(Self {
                architecture,
                which,
            })
        };
        let newest = |version: Option<&str>, flavour| {
            let version = version.map(str::to_owned);
            wanted(Which::Newest { version, flavour })
        };
        match asked {
            "rt" => return newest(None, Flavour::Rt),
            "standard" => return newest(None, Flavour::Standard),
            "cloud" => return newest(None, Flavour::Cloud),
            _ if asked.starts_with(PREFIX) => return wanted(Which::Package(asked.to_owned())),
            _ if !asked.starts_with(|first: char| first.is_ascii_digit()) => return None,
            _ => {}
        }
        let own = asked.strip_suffix(architecture.name());
        let version = own.and_then(|it| it.strip_suffix('-')).unwrap_or(asked);
        if let Some(version) = version.strip_suffix("-rt") {
            return newest(Some(version), Flavour::Rt);
        }
        if let Some(version) = version.strip_suffix("-cloud") {
            return newest(Some(version), Flavour::Cloud);
        }
        let version = version.strip_suffix("-standard").unwrap_or(version);
        newest(Some(version), Flavour::Standard)
    }

    /// Whether a package is the requested one.
    pub(super) fn fits(&self, package: &str) -> bool {
        match &self.which {
            Which::Package(name) => {
                let name = name.split(['=', ':']).next().unwrap_or(name);
                let whole = Flavour::ALL
                    .iter()
                    .find(|flavour| name == self.metapackage(**flavour, None));
                package == name
                    || whole.is_some_and(|flavour| self.release(*flavour, package).is_some())
            }
            Which::Newest { version, flavour } => {
                let Some(release) = self.release(*flavour, package) else {
                    return false;
                };
                version.as_deref().is_none_or(|version| {
                    let rest = release.strip_prefix(version);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
                })
            }
        }
    }

    /// The package that only depends on the newest of a kind.
    pub(super) fn metapackage(&self, flavour: Flavour, version: Option<&str>) -> String {
        let version = version.map_or_else(String::new, |version| format!("{version}-"));
        let kind = match flavour {
            Flavour::Rt => "rt-",
            Flavour::Standard => "",
            Flavour::Cloud => "cloud-",
        };
        format!("{PREFIX}{version}{kind}{}", self.architecture)
    }

    /// `6.1.0-49` of `linux-image-6.1.0-49-rt-amd64`, where it is a kernel of this kind.
    pub(super) fn release<'a>(&self, flavour: Flavour, package: &'a str) -> Option<&'a str> {
        let release = package.strip_prefix(PREFIX)?;
        let release = release.strip_suffix(self.architecture.name())?;
        let release = release.strip_suffix('-')?;
        let release = match flavour {
            Flavour::Rt => release.strip_suffix("-rt")?,
            Flavour::Standard => release,
            Flavour::Cloud => release.strip_suffix("-cloud")?,
        };
        let has_kind = ["-rt", "-cloud"].iter().any(|kind| release.ends_with(kind));
        (release.starts_with(|first: char| first.is_ascii_digit()) && !has_kind).then_some(release)
    }
}

impl Flavour {
    pub(super) const ALL: [Self; 3] = [Self::Rt, Self::Standard, Self::Cloud];
}
