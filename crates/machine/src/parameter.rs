//! Boot parameters, as the kernel reads their values.

use punctual_rt::cpulist;

use crate::version::Version;

/// A boot parameter with a list of CPUs: `isolcpus=[flags,]LIST`, `nohz_full=LIST`, `irqaffinity=LIST`.
pub(crate) struct CpuParameter {
    /// The CPUs of the list; absent for the forms that only the kernel knows (`all`, `N`, groups).
    pub(crate) cpus: Option<Vec<usize>>,
    /// What it sets these CPUs apart from, by the flags of `isolcpus=`; empty for a parameter that sets
    /// none apart.
    kinds: Vec<&'static str>,
    /// The files in `/sys/devices/system/cpu` that show what is in force.
    pub(crate) files: Vec<&'static str>,
}

impl CpuParameter {
    /// Reads the value of the parameter with this name. `housekeeping_isolcpus_setup` in
    /// kernel/sched/isolation.c: flags come first, unknown ones are skipped, and without a known one
    /// `domain` is meant.
    pub(crate) fn parse(name: &str, value: &str) -> Self {
        let is_flag =
            |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic()) && *word != "all";
        let is_isolcpus = name == "isolcpus";
        let words = value.split(',');
        let (flags, list): (Vec<&str>, Vec<&str>) = if is_isolcpus {
            let flags = words.clone().take_while(is_flag).collect();
            (flags, words.skip_while(is_flag).collect())
        } else {
            (Vec::new(), words.collect())
        };
        let mut kinds = vec!["domain", "nohz", "managed_irq"];
        kinds.retain(|kind| flags.contains(kind));
        match name {
            "isolcpus" if kinds.is_empty() => kinds.push("domain"),
            "nohz_full" => kinds.push("nohz"),
            _ => {}
        }
        // No file shows the CPUs of `managed_irq`.
        let file = |kind: &&str| match *kind {
            "domain" => Some("isolated"),
            "nohz" => Some("nohz_full"),
            _ => None,
        };
        Self {
            // The kernel takes a blank for a comma, but not within a range.
            cpus: match value.contains(char::is_whitespace) {
                true => None,
                false => cpulist::numbers(&list.join(",")).ok(),
            },
            files: kinds.iter().filter_map(file).collect(),
            kinds,
        }
    }

    /// Whether it sets CPUs apart, and no file shows them.
    pub(crate) fn is_unshown(&self) -> bool {
        !self.kinds.is_empty() && self.files.is_empty()
    }

    /// Whether the kernel takes the later one of these two only with the same CPUs. `housekeeping_setup`
    /// in kernel/sched/isolation.c merges the flags of all `isolcpus=` and `nohz_full=`: each flag has
    /// a mask from Linux 5.18 on, and before it all have the same.
    pub(crate) fn must_match(&self, other: &Self, version: Option<Version>) -> bool {
        let has_masks = version.is_none_or(|it| it >= Version(5, 18));
        let is_set_by_both = |kind| !has_masks || other.kinds.contains(kind);
        !other.kinds.is_empty() && self.kinds.iter().any(is_set_by_both)
    }
}

/// `kstrtobool` in lib/kstrtox.c; absent for words that it refuses, with which a parameter changes
/// nothing.
pub(crate) fn boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_bytes() {
        [b'y' | b't' | b'1', ..] | [b'o', b'n', ..] => Some(true),
        [b'n' | b'f' | b'0', ..] | [b'o', b'f', ..] => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_isolcpus_say_which_files_show_it() {
        for (name, value, files) in [
            ("isolcpus", "2-3", &["isolated"][..]),
            ("isolcpus", "domain,managed_irq,2-3", &["isolated"]),
            ("isolcpus", "managed_irq,2-3", &[]),
            ("isolcpus", "nohz,2-3", &["nohz_full"]),
            ("isolcpus", "nohz,domain,2-3", &["isolated", "nohz_full"]),
            ("isolcpus", "of_tomorrow,2-3", &["isolated"]),
            ("nohz_full", "2-3", &["nohz_full"]),
            ("irqaffinity", "2-3", &[]),
        ] {
            let read = CpuParameter::parse(name, value);
            assert_eq!(read.cpus, Some(vec![2, 3]), "{name}={value}");
            assert_eq!(read.files, files, "{name}={value}");
        }
        for value in ["1-N", "all", "domain,all", "2-3,domain", "2- 3"] {
            let read = CpuParameter::parse("isolcpus", value);
            assert_eq!(read.cpus, None, "{value}");
        }
    }

    #[test]
    fn two_parameters_must_match_where_the_kernel_has_one_mask_for_both() {
        let parse = |text: &str| {
            let (name, value) = text.split_once('=').expect("a value");
            CpuParameter::parse(name, value)
        };
        for (one, other, with_masks, before) in [
            ("isolcpus=2", "isolcpus=domain,3", true, true),
            ("isolcpus=2", "isolcpus=managed_irq,3", false, true),
            ("isolcpus=2", "nohz_full=3", false, true),
            ("isolcpus=nohz,2", "nohz_full=3", true, true),
            ("irqaffinity=2", "isolcpus=3", false, false),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                let (first, second) = (parse(one), parse(other));
                let must_match = |version| first.must_match(&second, Some(version));
                assert_eq!(must_match(Version(5, 18)), with_masks, "{one} {other}");
                assert_eq!(must_match(Version(5, 17)), before, "{one} {other}");
            }
        }
    }

    #[test]
    fn a_boolean_is_read_by_its_first_letters() {
        for (word, value) in [
            ("1", Some(true)),
            ("Yes", Some(true)),
            ("true", Some(true)),
            ("ON", Some(true)),
            ("0", Some(false)),
            ("no", Some(false)),
            ("False", Some(false)),
            ("off", Some(false)),
            ("", None),
            ("o", None),
            ("2", None),
        ] {
            assert_eq!(boolean(word), value, "{word:?}");
        }
    }
}
