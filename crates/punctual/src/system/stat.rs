//! A line of `/proc/PID/stat`, with the field numbers of proc_pid_stat(5).

/// Such a line, split but not parsed.
pub(super) struct Stat<'a> {
    /// The task's name.
    pub name: &'a str,
    /// The fields after the name, from the third on.
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    /// The name is in parentheses and may contain any character: the last parenthesis closes it.
    pub fn parse(line: &'a str) -> Option<Self> {
        let open = line.find('(')?;
        let close = line.rfind(')')?;
        Some(Stat {
            name: line.get(open + 1..close)?,
            fields: line.get(close + 1..)?.split_whitespace().collect(),
        })
    }

    /// The field with this number, from 3 on.
    pub fn field(&self, number: usize) -> Option<&'a str> {
        self.fields.get(number.checked_sub(3)?).copied()
    }

    /// The field with this number, as a non-negative number.
    pub fn count(&self, number: usize) -> Option<u64> {
        self.field(number)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_any_name() {
        let stat = Stat::parse("12 (a) b (c) S 7 -1\n").expect("a line");
        assert_eq!(stat.name, "a) b (c");
        assert_eq!(stat.field(3), Some("S"));
        assert_eq!((stat.count(4), stat.count(5)), (Some(7), None));
        for number in [0, 2, 6, usize::MAX] {
            assert_eq!(stat.field(number), None, "{number}");
        }
    }

    #[test]
    fn a_malformed_line_gives_none() {
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
