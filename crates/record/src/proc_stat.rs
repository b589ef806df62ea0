//! A line of `/proc/PID/stat`, by proc_pid_stat(5)'s numbers of its fields.

/// What such a line says, not read any further yet.
#[derive(Debug, Clone)]
pub struct Stat<'a> {
    /// What the task calls itself.
    pub name: &'a str,
    /// The fields behind the name, from the third on.
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    /// The name stands in parentheses and may hold any character: the last one closes it.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let open = line.find('(')?;
        let close = line.rfind(')')?;
        Some(Stat {
            name: line.get(open + 1..close)?,
            fields: line.get(close + 1..)?.split_whitespace().collect(),
        })
    }

    /// The field of this number, from 3 on.
    #[must_use]
    pub fn field(&self, number: usize) -> Option<&'a str> {
        self.fields.get(number.checked_sub(3)?).copied()
    }

    /// The field of this number, which isn't negative.
    #[must_use]
    pub fn count(&self, number: usize) -> Option<u64> {
        self.field(number)?.parse().ok()
    }

    /// Its state: `R`, `S`, `D`, `Z` ...
    #[must_use]
    pub fn state(&self) -> Option<char> {
        self.field(3)?.chars().next()
    }

    /// Whether it has ended, or is about to: it may have no command line and no group any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        const PF_EXITING: u64 = 0x4;
        matches!(self.state(), Some('Z' | 'X'))
            || self.count(9).is_some_and(|flags| flags & PF_EXITING != 0)
    }

    /// Whether it is a thread of the kernel's own.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        const PF_KTHREAD: u64 = 0x0020_0000;
        self.count(9).is_some_and(|flags| flags & PF_KTHREAD != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_any_name() {
        let stat = Stat::parse("12 (a) b (c) S 7 -1\n").expect("a line");
        assert_eq!(stat.name, "a) b (c");
        assert_eq!(stat.field(3), Some("S"));
        assert_eq!((stat.count(4), stat.count(5)), (Some(7), None));
        for number in [0, 2, 6, usize::MAX] {
            assert_eq!(stat.field(number), None, "{number}");
        }
    }

    #[test]
    fn a_thread_of_the_kernel_is_one_by_its_flags() {
        let is_of_kernel = |line| Stat::parse(line).is_some_and(|stat| stat.is_of_kernel());
        assert!(is_of_kernel("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!is_of_kernel("77 (a) 2129984) Z 1 77 77 0 -1 4227084 0 0"));
        assert!(!is_of_kernel("") && !is_of_kernel("1 (x) S 0 0 0 0 -1 none"));
    }

    #[test]
    fn a_thread_that_ends_has_ended_before_it_is_a_zombie() {
        let has_ended = |line| Stat::parse(line).is_some_and(|stat| stat.has_ended());
        assert!(has_ended("77 (a) Z 1 77 77 0 -1 4227072 0 0"));
        assert!(has_ended("77 (a) X 1 77 77 0 -1 0 0 0"));
        assert!(has_ended("77 (Z) R 1 77 77 0 -1 4194308 0 0"));
        assert!(!has_ended("77 (Z) R 1 77 77 0 -1 4194304 0 0"));
    }

    #[test]
    fn what_is_no_such_line_is_none() {
        for line in ["", "12", "12 (a", "12 a)", ")(", "12 )a( S"] {
            assert!(Stat::parse(line).is_none(), "{line}");
        }
        let line = "7 (a) b (c)) S 1 7";
        for cut in 0..line.len() {
            let _ = Stat::parse(&line[..cut]);
        }
        let short = Stat::parse("12 ()").expect("a name, however short");
        assert_eq!((short.name, short.field(3)), ("", None));
    }
}
