//! For each finding: the files that make it fine, the change, and what is found then.

use punctual_record::finding::{Fault, FindingFix, FindingId, Item, StateKind};

use super::tree::Policy;

mod isolation;
mod kernel;
mod others;
mod power;
mod scheduler;

/// A step towards a machine.
#[derive(Clone)]
pub enum Step {
    File(&'static str, &'static str),
    Gone(&'static str),
    /// Thread, name, of the kernel, policy, CPUs.
    Thread(u32, &'static str, bool, Policy, &'static str),
}

pub struct Case {
    pub id: FindingId,
    pub before: Vec<Step>,
    pub starts: StateKind,
    pub change: Vec<Step>,
    pub ends: StateKind,
    pub fault: Fault,
    /// The first fix.
    pub fix: Option<FindingFix>,
}

pub fn cases() -> Vec<Case> {
    [
        kernel::cases(),
        isolation::cases(),
        scheduler::cases(),
        power::cases(),
        others::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A finding that is ok at first, and bad after a change.
fn bad(id: FindingId, before: Vec<Step>, change: Vec<Step>, fault: Fault) -> Case {
    Case {
        id,
        before,
        starts: StateKind::Ok,
        change,
        ends: StateKind::Bad,
        fault,
        fix: None,
    }
}

/// A finding that is ok at first, and information after a change.
fn information(id: FindingId, before: Vec<Step>, change: Vec<Step>, fault: Fault) -> Case {
    Case {
        ends: StateKind::Information,
        ..bad(id, before, change, fault)
    }
}

impl Case {
    fn starts(self, starts: StateKind) -> Self {
        Self { starts, ..self }
    }

    /// A change: the file is gone.
    fn gone(mut self, path: &'static str) -> Self {
        self.change.push(Step::Gone(path));
        self
    }

    fn fix(self, fix: FindingFix) -> Self {
        let fix = Some(fix);
        Self { fix, ..self }
    }

    fn by_hand(self) -> Self {
        self.fix(FindingFix::ByHand)
    }

    fn write(self, path: &str, value: &str) -> Self {
        self.fix(FindingFix::Write {
            path: path.to_owned(),
            value: value.to_owned(),
        })
    }

    fn boot(self, parameter: &str) -> Self {
        self.fix(FindingFix::Boot {
            parameter: parameter.to_owned(),
        })
    }
}

/// A file that says `one` at first and `other` then; its fault; the fix writes `value` to it.
fn file(
    id: FindingId,
    path: &'static str,
    [good, bad_text, value]: [&'static str; 3],
    fault: Fault,
) -> Case {
    let before = vec![Step::File(path, good)];
    bad(id, before, vec![Step::File(path, bad_text)], fault).write(path, value)
}

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn expected(values: &[&str]) -> Fault {
    Fault::Expected(strings(values))
}

fn present<I: Clone + Into<Item>>(items: &[I]) -> Fault {
    Fault::Present(items.iter().cloned().map(Into::into).collect())
}

fn missing<I: Clone + Into<Item>>(items: &[I]) -> Fault {
    Fault::Missing(items.iter().cloned().map(Into::into).collect())
}

fn thread_at(thread: &str, policy: &str, priority: u32) -> Item {
    Item::ThreadAt {
        thread: thread.to_owned(),
        policy: policy.to_owned(),
        priority,
    }
}

fn interrupt(number: usize, action: &str) -> Item {
    Item::Interrupt {
        number,
        actions: vec![action.to_owned()],
        counted: None,
    }
}

fn misspelt(parameter: &str, known: &str) -> Item {
    Item::Misspelt {
        parameter: parameter.to_owned(),
        known: known.to_owned(),
    }
}

fn program(name: &'static str) -> Step {
    Step::Thread(900, name, false, Policy::Other, "0-1")
}

fn kernels(tid: u32, name: &'static str, policy: Policy, cpus: &'static str) -> Step {
    Step::Thread(tid, name, true, policy, cpus)
}
