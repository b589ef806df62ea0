//! The part of a run that a hop names.

use punctual_record::Run;
use punctual_record::budget::PartOfRun;
use punctual_record::text::one_line;

/// What a hop names of its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    pub cpu: Option<usize>,
    pub task: Option<&'a str>,
    pub chain: Option<&'a str>,
}

impl Wanted<'_> {
    /// The part of this run.
    ///
    /// # Errors
    /// Why the run has no such part.
    pub fn of(&self, run: &Run) -> Result<PartOfRun, String> {
        let tasks = run.tasks.as_ref();
        match (self.cpu, self.task, self.chain) {
            (cpu, None, None) => {
                if tasks.is_some() {
                    return Err(
                        "its run executed a task set: name a task or a chain of it".to_owned()
                    );
                }
                if let Some(imported) = &run.imported {
                    return Err(format!(
                        "its run is of another tool ({}), which says neither which periods were skipped nor \
                         when late wake-ups came: measure it with punctual, or give its points",
                        imported.format
                    ));
                }
                if run.gaps.is_some() {
                    return Err(
                        "its run looked for gaps: how often a cycle meets one is not known"
                            .to_owned(),
                    );
                }
                let is_there = |cpu: usize| run.threads.iter().any(|it| it.cpu == Some(cpu));
                match cpu.filter(|cpu| !is_there(*cpu)) {
                    Some(cpu) => Err(format!("its run has no thread on CPU {cpu}")),
                    None => Ok(PartOfRun::Threads { cpu }),
                }
            }
            (None, Some(name), None) => {
                let set = &tasks.ok_or_else(|| no_set("task"))?.set;
                let names = || set.tasks.iter().map(|task| task.name.as_str());
                let task = names().position(|it| it == name);
                let task = task.ok_or_else(|| no_such("task", name, names()))?;
                // Their response times are kept as they count against the shortest deadline.
                if (0..set.tasks[task].phases.len()).any(|phase| set.tasks[task].more_ns(phase) > 0)
                {
                    return Err(format!(
                        "task {}: its phases have deadlines of their own, and no one distribution of times: \
                         write deadline = in its task, and execute the set again",
                        set.tasks[task].name
                    ));
                }
                Ok(PartOfRun::Task { task })
            }
            (None, None, Some(name)) => {
                let tasks = tasks.ok_or_else(|| no_set("chain"))?;
                let names = || tasks.set.chains.iter().map(|chain| chain.name.as_str());
                let chain = names().position(|it| it == name);
                let chain = chain.ok_or_else(|| no_such("chain", name, names()))?;
                match tasks.chains.get(chain).map(|it| it.split.is_some()) {
                    Some(true) => Ok(PartOfRun::Chain { chain }),
                    _ => Err(format!(
                        "its run keeps no reactions of the chain {} over time: execute the set \
                         again, with at most {} tasks in the chain",
                        one_line(name),
                        punctual_record::taskset::SPLIT
                    )),
                }
            }
            _ => Err("expected one of cpu, task and chain".to_owned()),
        }
    }
}

fn no_set(what: &str) -> String {
    format!("its run executed no task set: leave out {what}")
}

fn no_such<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(one_line).collect();
    let there = match names.is_empty() {
        true => "there is none".to_owned(),
        false => format!("expected one of {}", names.join(", ")),
    };
    format!("its run has no {what} {}: {there}", one_line(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_record::run::{Interval, Request, Tool};
    use punctual_record::{Gaps, Method, Subject, SystemState};

    #[test]
    fn gaps_are_no_cycles_of_a_hop() {
        let request = Request {
            source: "nanosleep".into(),
            interval: Interval::Fixed {
                interval_ns: 1_000_000,
            },
            cpus: Vec::new(),
            policy: "fifo".to_owned(),
            priority: 80,
            duration_ns: None,
            loops: None,
            break_ns: None,
            load: String::new(),
            load_class: String::new(),
            requirements: Vec::new(),
            confidence: 0.95,
            as_deployed: false,
            best_effort: false,
        };
        let (started, system) = (String::new(), SystemState::default());
        let mut run = Run::begun(Tool::default(), "measure", started, request, system);
        let part = Wanted::default().of(&run);
        assert_eq!(part, Ok(PartOfRun::Threads { cpu: None }));
        let wanted = Wanted {
            cpu: Some(77),
            ..Wanted::default()
        };
        let why = wanted.of(&run).unwrap_err();
        assert!(why.contains("no thread on CPU 77"), "{why}");
        run.gaps = Some(Gaps {
            subject: Subject::Noise,
            method: Method::Polling,
            above_ns: 1_000,
            step_ns: 27,
            runtime_ns: 1_000_000_000,
            period_ns: 1_000_000_000,
            sifted: false,
            threads: Vec::new(),
        });
        for cpu in [None, Some(0)] {
            let wanted = Wanted {
                cpu,
                ..Wanted::default()
            };
            let why = wanted.of(&run).unwrap_err();
            assert!(why.contains("looked for gaps"), "{why}");
        }
    }
}
