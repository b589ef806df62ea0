//! Versions of the kernel.

/// A kernel's version, as far as features depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

impl Version {
    /// The first two numbers of `uname -r`.
    pub(crate) fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        Some(Self(next()?, next()?))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_of_a_release_are_its_version() {
        for (release, version) in [
            ("6.1.0-56-rt-amd64", Some(Version(6, 1))),
            ("6.18", Some(Version(6, 18))),
            ("7.2-rc1+", Some(Version(7, 2))),
            ("6", None),
            ("", None),
            ("x.y", None),
            ("99999999999.1", None),
        ] {
            assert_eq!(Version::parse(release), version, "{release}");
        }
        assert!(Version(6, 9) < Version(6, 12) && Version(6, 12) < Version(7, 0));
    }
}
