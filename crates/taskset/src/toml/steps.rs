//! The work of jobs.

use punctual_record::taskset::{NESTED, Step};
use toml::Spanned;

use super::Reader;
use super::written::{WrittenStep, WrittenWork};
use crate::fault::Fault;

impl Reader<'_> {
    pub fn work(&self, work: &Spanned<WrittenWork>, depth: usize) -> Result<Vec<Step>, Fault> {
        match work.get_ref() {
            WrittenWork::Time(ns) => Ok(vec![Step::Run { ns: *ns }]),
            WrittenWork::Steps(steps) => {
                if depth > NESTED {
                    let why = format!("locks within each other: expected at most {NESTED}");
                    return Err(self.refuse(work, why));
                }
                steps.iter().map(|step| self.step(step, depth)).collect()
            }
        }
    }

    /// The line of a step, with those within locks counted too.
    pub fn line_of_step(&self, work: &Spanned<WrittenWork>, mut index: usize) -> Option<usize> {
        let WrittenWork::Steps(steps) = work.get_ref() else {
            return Some(self.line(work));
        };
        for step in steps {
            let own = self.step(step, 0).ok()?;
            match index.checked_sub(counted(std::slice::from_ref(&own))) {
                Some(left) => index = left,
                None => return Some(self.line(step)),
            }
        }
        None
    }

    fn step(&self, step: &Spanned<WrittenStep>, depth: usize) -> Result<Step, Fault> {
        let it = step.get_ref();
        if (it.work.is_some() && it.lock.is_none())
            || (it.function.is_some() != it.library.is_some())
        {
            let why = "a step of work: expected lock with work, and library with function";
            return Err(self.refuse(step, why));
        }
        let mut all = Vec::new();
        all.extend(it.run.as_ref().map(|time| Step::Run { ns: time.0 }));
        all.extend(it.sleep.as_ref().map(|time| Step::Sleep { ns: time.0 }));
        all.extend(
            it.memory
                .as_ref()
                .map(|area| Step::Memory { bytes: area.0 }),
        );
        for (number, is_calls) in [(&it.calls, true), (&it.instructions, false)] {
            if let Some(number) = number {
                let count = u64::try_from(number.get_ref().0).unwrap_or(0);
                if !(1..=1_000_000_000_000).contains(&count) {
                    let why = "calls and instructions: expected 1 to 10^12";
                    return Err(self.refuse(number, why));
                }
                all.push(match is_calls {
                    true => Step::Calls { count },
                    false => Step::Instructions { count },
                });
            }
        }
        if let Some(is_asked) = &it.yields {
            if !is_asked.get_ref() {
                return Err(self.refuse(is_asked, "yield = false: expected true, or no such step"));
            }
            all.push(Step::Yield);
        }
        if let Some(name) = &it.lock {
            let Some(&lock) = self.locks.get(name.get_ref().as_str()) else {
                let why = format!(
                    "lock '{}': expected the name of a [[lock]] of this file",
                    name.get_ref()
                );
                return Err(self.refuse(name, why));
            };
            let Some(work) = &it.work else {
                return Err(self.refuse(name, "a step with lock: expected work within it"));
            };
            let work = self.work(work, depth + 1)?;
            all.push(Step::Lock { lock, work });
        }
        if let (Some(path), Some(function)) = (&it.library, &it.function) {
            let named = |text: &str| !text.is_empty() && !text.contains('\0');
            if !named(path.get_ref()) || !named(function) {
                return Err(self.refuse(path, "library: expected a path and a function's name"));
            }
            all.push(Step::Library {
                path: path.get_ref().into(),
                function: function.clone(),
            });
        }
        if let Some(command) = &it.command {
            let words = command.get_ref();
            let named = words.first().is_some_and(|program| !program.is_empty());
            if !named || words.iter().any(|word| word.contains('\0')) {
                return Err(self.refuse(command, "command: expected a program and its arguments"));
            }
            all.push(Step::Command {
                command: words.clone(),
            });
        }
        match <[Step; 1]>::try_from(all) {
            Ok([step]) => Ok(step),
            Err(_) => Err(self.refuse(
                step,
                "a step of work: expected one of run, lock, sleep, memory, calls, instructions, \
                 yield, library and command",
            )),
        }
    }
}

/// How many steps there are, with those within locks.
fn counted(steps: &[Step]) -> usize {
    let each = steps.iter().map(|step| match step {
        Step::Lock { work, .. } => 1 + counted(work),
        _ => 1,
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use crate::{Format, line_of_step};

    #[test]
    fn the_line_of_a_step_is_found_behind_what_is_within_locks() {
        let text = r#"[[task]]
name = "a"
period = "1ms"
work = "10us"
[[task]]
name = "b"
period = "1ms"
work = [
    { run = "1us" },
    { lock = "m", work = [{ run = "1us" }, { yield = true }] },
    { library = "l.so", function = "f" },
]
[[lock]]
name = "m"
"#;
        let line = |task, step| line_of_step(text, Format::Toml, task, 0, step);
        assert_eq!(line(0, 0), Some(4));
        let lines: Vec<_> = (0..6).map(|step| line(1, step)).collect();
        let (lock, after) = (Some(10), Some(11));
        assert_eq!(lines, [Some(9), lock, lock, lock, after, None]);
        assert_eq!(line(2, 0), None);
        assert_eq!(line_of_step(text, Format::RtApp, 0, 0, 0), None);
    }
}
