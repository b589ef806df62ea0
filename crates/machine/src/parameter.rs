//! Boot parameters, as the kernel reads their values.

use crate::version::Version;

/// A boot parameter with a list of CPUs: `isolcpus=[flags,]LIST`, `nohz_full=LIST`, `irqaffinity=LIST`.
pub(crate) struct CpuParameter {
    /// The CPUs of the list; absent for the forms that only the kernel knows (`all`, `N`), and where it
    /// refuses the list.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Whether the kernel refuses the list as a whole: then it sets nothing, and `rcu_nocbs=` all CPUs.
    pub(crate) is_refused: bool,
    /// What it sets these CPUs apart from, by the flags of `isolcpus=`; empty for a parameter that sets
    /// none apart.
    kinds: Vec<&'static str>,
    /// The files in `/sys/devices/system/cpu` that show what is in force.
    pub(crate) files: Vec<&'static str>,
}

impl CpuParameter {
    /// Reads the value of the parameter with this name. `housekeeping_isolcpus_setup` in
    /// kernel/sched/isolation.c: flags come first, unknown ones of letters are skipped (`all` is one),
    /// others end it, and without a known one `domain` is meant.
    pub(crate) fn parse(name: &str, value: &str) -> Self {
        let is_flag = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
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
        let is_word = |flag: &&str| flag.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        let read = match flags.iter().all(is_word) {
            // The kernel takes a blank for a comma, but not within a range.
            _ if value.contains(char::is_whitespace) => BootList::Unclear,
            false => BootList::Refused,
            // It reads on behind the end of the value.
            true if !flags.is_empty() && list.is_empty() => BootList::Unclear,
            true => BootList::parse(&list),
        };
        Self {
            is_refused: read == BootList::Refused,
            cpus: match read {
                BootList::Named(cpus) => Some(cpus),
                BootList::Refused | BootList::Unclear => None,
            },
            files: kinds.iter().filter_map(file).collect(),
            kinds,
        }
    }

    /// The same on a machine with these possible CPUs: from Linux 6.3 on, a number above the last of
    /// them makes the kernel refuse the list (`bitmap_check_region` in lib/bitmap.c, where `nbits` is
    /// `nr_cpu_ids`); before, that depends on how it was built.
    pub(crate) fn on(mut self, possible: &[usize], version: Option<Version>) -> Self {
        let last = possible.iter().max();
        let is_above = |cpu: &usize| last.is_some_and(|last| cpu > last);
        let has_above = self.cpus.iter().flatten().any(is_above);
        if has_above {
            self.cpus = None;
            self.is_refused = version.is_some_and(|it| it >= Version(6, 3));
        }
        self
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

/// What the kernel makes of a list at boot.
#[derive(PartialEq)]
enum BootList {
    Named(Vec<usize>),
    Refused,
    /// Only the kernel knows: `N` is its last CPU.
    Unclear,
}

/// More CPUs than any kernel is built for.
const MOST_CPUS: usize = 1 << 16;

impl BootList {
    /// `bitmap_parselist` in lib/bitmap.c: regions `N`, `N-M` or `N-M:USED/GROUP`, empty ones between
    /// commas too. One that is not understood makes it refuse all.
    fn parse(regions: &[&str]) -> Self {
        let mut cpus = Vec::new();
        let mut is_clear = true;
        for region in regions.iter().filter(|region| !region.is_empty()) {
            match Self::region(region) {
                Self::Named(some) => cpus.extend(some),
                Self::Refused => return Self::Refused,
                Self::Unclear => is_clear = false,
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        match is_clear {
            true => Self::Named(cpus),
            false => Self::Unclear,
        }
    }

    fn region(text: &str) -> Self {
        let (range, pattern) = match text.split_once(':') {
            Some((range, pattern)) => (range, Some(pattern)),
            None => (text, None),
        };
        if range
            .get(..3)
            .is_some_and(|it| it.eq_ignore_ascii_case("all"))
            || range.contains('N')
        {
            return Self::Unclear;
        }
        let number = |text: &str| match text.bytes().all(|it| it.is_ascii_digit()) {
            true => text.parse().ok().filter(|it| *it < MOST_CPUS),
            false => None,
        };
        let ends = match range.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)),
            // A single CPU has no pattern.
            None if pattern.is_some() => None,
            None => number(range).map(|cpu| (cpu, cpu)),
        };
        let groups = match pattern {
            None => Some((1, 1)),
            Some(pattern) => pattern
                .split_once('/')
                .and_then(|(used, group)| number(used).zip(number(group))),
        };
        match (ends, groups) {
            (Some((first, last)), Some((used, group)))
                if first <= last && group > 0 && used <= group =>
            {
                let is_used = |cpu: &usize| (cpu - first) % group < used;
                Self::Named((first..=last).filter(is_used).collect())
            }
            _ => Self::Refused,
        }
    }
}

/// `kstrtobool` in lib/kstrtox.c; absent for words that it refuses, with which a parameter changes
/// nothing. From Linux 6.15 on it knows `enable` and `disable`.
pub(crate) fn boolean(word: &str, version: Option<Version>) -> Option<bool> {
    let has_able = version.is_some_and(|it| it >= Version(6, 15));
    match word.to_ascii_lowercase().as_bytes() {
        [b'y' | b't' | b'1', ..] | [b'o', b'n', ..] => Some(true),
        [b'n' | b'f' | b'0', ..] | [b'o', b'f', ..] => Some(false),
        [b'e', ..] if has_able => Some(true),
        [b'd', ..] if has_able => Some(false),
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
        for (value, is_refused) in [
            ("1-N", false),
            ("all", false),
            ("domain,all", false),
            ("domain", false),
            ("2- 3", false),
            ("2-3,domain", true),
            ("2x,3", true),
            ("x2,3", true),
            ("0-7:2", true),
            ("0-7:3/2", true),
            ("0-7:1/0", true),
            ("3-2", true),
            ("2:1/2", true),
            ("2-", true),
            ("18446744073709551618", true),
        ] {
            let read = CpuParameter::parse("isolcpus", value);
            assert_eq!((read.cpus, read.is_refused), (None, is_refused), "{value}");
        }
        for (value, cpus) in [
            ("1,,2", vec![1, 2]),
            (",2,", vec![2]),
            ("0-7:2/4", vec![0, 1, 4, 5]),
            ("0-7:0/4", vec![]),
            ("", vec![]),
        ] {
            let read = CpuParameter::parse("nohz_full", value);
            assert_eq!(read.cpus, Some(cpus), "{value}");
        }
    }

    #[test]
    fn a_list_above_the_last_cpu_is_refused_from_6_3_on() {
        let read = |minor| {
            let parameter = CpuParameter::parse("rcu_nocbs", "2-9");
            let parameter = parameter.on(&[0, 1, 2, 3], Some(Version(6, minor)));
            (parameter.is_refused, parameter.cpus)
        };
        assert_eq!(read(3), (true, None));
        assert_eq!(read(2), (false, None));
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
        assert_eq!(boolean("disable", Some(Version(6, 14))), None);
        for (word, value) in [
            ("1", Some(true)),
            ("Yes", Some(true)),
            ("true", Some(true)),
            ("ON", Some(true)),
            ("0", Some(false)),
            ("no", Some(false)),
            ("False", Some(false)),
            ("off", Some(false)),
            ("Disable", Some(false)),
            ("enabled", Some(true)),
            ("", None),
            ("o", None),
            ("2", None),
        ] {
            assert_eq!(boolean(word, Some(Version(6, 15))), value, "{word:?}");
        }
    }
}
