//! Boot parameters, as the kernel reads their values.

use punctual_rt::cpulist;

/// A boot parameter with a list of CPUs: `isolcpus=[flags,]LIST`, `nohz_full=LIST`, `irqaffinity=LIST`.
pub(crate) struct CpuParameter {
    /// The CPUs of the list; absent for the forms that only the kernel knows (`all`, `N`, groups).
    pub(crate) cpus: Option<Vec<usize>>,
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
        let has = |flag: &str| flags.contains(&flag);
        let mut files = Vec::new();
        if is_isolcpus && (has("domain") || !has("nohz") && !has("managed_irq")) {
            files.push("isolated");
        }
        if is_isolcpus && has("nohz") || name == "nohz_full" {
            files.push("nohz_full");
        }
        Self {
            cpus: cpulist::numbers(&list.join(",")).ok(),
            files,
        }
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
        for value in ["1-N", "all", "domain,all", "2-3,domain"] {
            let read = CpuParameter::parse("isolcpus", value);
            assert_eq!(read.cpus, None, "{value}");
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
