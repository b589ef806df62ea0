//! The watched programs: one, or several that start and end.

use std::collections::BTreeSet;

use super::Target;
use punctual_machine::Root;
use punctual_machine::survey::process::{self, Process};
use punctual_record::event::Gone;
use punctual_record::watch::{Following, Subject, WatchedProgram};
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::watch::{ActiveWatch, JoinRules, Programs};

/// Programs that are named in the record; others are counted.
const NAMED: usize = WatchedProgram::MOST;

/// A program that is or was watched.
struct Member {
    pid: u32,
    name: String,
    /// Absent if it ended before it could be read.
    process: Option<Process>,
    /// Its ID in the kernel.
    kernels: u32,
    /// Whether it is no longer watched: it has ended, or has left.
    gone: bool,
}

/// The programs of a watch.
pub(super) struct Members<'a> {
    target: &'a Target,
    root: Root,
    list: Vec<Member>,
    unnamed: u64,
    /// The largest numbers of children, and of threads without real-time priority, that are not followed.
    children: u64,
    ordinary: u64,
    /// Programs of a control group that are not visible from here.
    hidden: u64,
}

impl<'a> Members<'a> {
    pub fn new(target: &'a Target) -> Self {
        Self {
            target,
            root: Root::live(),
            list: Vec::new(),
            unnamed: 0,
            children: 0,
            ordinary: 0,
            hidden: 0,
        }
    }

    /// The selection for the BPF programs.
    pub fn programs(&self, numbers: &Numbers) -> Programs {
        let joining = JoinRules {
            children: true,
            name: [0; 16],
            group: None,
        };
        match self.target {
            Target::Program {
                process,
                children: false,
            } => Programs::One(numbers.kernels(process.pid)),
            Target::Program { .. } => Programs::Several(joining),
            Target::Named(name) => {
                let mut padded = [0; 16];
                let kept = process::kept(name);
                padded[..kept.len()].copy_from_slice(kept);
                Programs::Several(JoinRules {
                    name: padded,
                    ..joining
                })
            }
            Target::Group { group, .. } => Programs::Several(JoinRules {
                group: Some((group.id, group.hierarchy)),
                ..joining
            }),
        }
    }

    /// Whether it is exactly one program.
    fn is_one(&self) -> bool {
        matches!(
            self.target,
            Target::Program {
                children: false,
                ..
            }
        )
    }

    /// Registers the existing programs with the BPF programs. Repeats until it finds no more: from
    /// then on, new ones are seen in the kernel.
    pub fn begin(&mut self, watching: &mut ActiveWatch, numbers: &mut Numbers) {
        loop {
            let before = self.list.len();
            let there = match self.target {
                Target::Program { process, children } => {
                    let mut all = vec![process.clone()];
                    if *children {
                        all.extend(process::descendants(&self.root, process.pid));
                    }
                    all
                }
                Target::Named(name) => process::named(&self.root, name).unwrap_or_default(),
                Target::Group { .. } => {
                    self.look_into_group(watching, numbers);
                    Vec::new()
                }
            };
            self.add(there, watching, numbers);
            if self.list.len() == before || self.is_one() {
                return;
            }
        }
    }

    fn add(&mut self, there: Vec<Process>, watching: &mut ActiveWatch, numbers: &mut Numbers) {
        let is_one = self.is_one();
        for process in there {
            let known = |it: &Member| !it.gone && it.process.as_ref() == Some(&process);
            if self.list.iter().any(known) {
                continue;
            }
            if numbers.kernels(process.pid) == 0 {
                numbers.refresh();
            }
            let kernels = numbers.kernels(process.pid);
            if kernels == 0 {
                // It has ended.
                continue;
            }
            if !is_one {
                watching.follow(kernels);
            }
            self.meet(Member {
                pid: process.pid,
                name: process.name.clone(),
                process: Some(process),
                kernels,
                gone: false,
            });
        }
    }

    fn meet(&mut self, member: Member) {
        if self.list.len() >= NAMED {
            self.unnamed += 1;
        } else {
            self.list.push(member);
        }
    }

    /// Finds which programs have started, left and ended. `named` knows the names of seen threads.
    pub fn look(
        &mut self,
        watching: &mut ActiveWatch,
        numbers: &mut Numbers,
        named: impl Fn(u32) -> Option<String>,
    ) {
        if self.is_one() {
            return;
        }
        self.look_into_group(watching, numbers);
        let mut followed: BTreeSet<u32> = watching.followed().into_iter().collect();
        for member in self.list.iter_mut().filter(|it| !it.gone) {
            let runs = |it: &Process| it.runs(&self.root);
            let runs = member.process.as_ref().is_some_and(runs);
            member.gone = !runs || !followed.contains(&member.kernels);
            if member.gone && followed.remove(&member.kernels) {
                watching.unfollow(member.kernels);
            }
        }
        for kernels in followed {
            if self.list.iter().any(|it| !it.gone && it.kernels == kernels) {
                continue;
            }
            numbers.add_thread(kernels);
            let pid = numbers.visible_number(kernels);
            // A program outside our PID namespace is not in our /proc.
            let seen = numbers.in_proc(kernels);
            let process = seen.and_then(|pid| process::read(&self.root, pid));
            // It may have started and ended between two readings: its main thread has its name.
            let name = match &process {
                Some(process) => Some(process.name.clone()),
                None => named(kernels),
            };
            let gone = process.is_none();
            if gone {
                watching.unfollow(kernels);
            }
            match name {
                Some(name) => self.meet(Member {
                    pid,
                    name,
                    process,
                    kernels,
                    gone,
                }),
                None => self.unnamed += 1,
            }
        }
    }

    /// Finds programs that were created in a group and never moved into it.
    fn look_into_group(&mut self, watching: &mut ActiveWatch, numbers: &mut Numbers) {
        let Target::Group { group, .. } = self.target else {
            return;
        };
        let before = watching.followed();
        let members = group.members(&self.root);
        self.hidden = self
            .hidden
            .max(members.iter().filter(|it| **it == 0).count() as u64);
        let there: Vec<Process> = members
            .iter()
            .filter_map(|pid| process::read(&self.root, *pid))
            .collect();
        self.add(there, watching, numbers);
        let inside: BTreeSet<u32> = members.iter().map(|it| numbers.kernels(*it)).collect();
        for kernels in before {
            // A program that was followed before the group was read, and is not in it. Programs that
            // were never seen come first.
            let is_known = self.list.iter().any(|it| it.kernels == kernels);
            if is_known && !inside.contains(&kernels) {
                watching.unfollow(kernels);
            }
        }
    }

    /// Counts what belongs to the programs and is not followed.
    pub fn look_beside(&mut self, every: bool) {
        if let Target::Program {
            process,
            children: false,
        } = self.target
        {
            let children = process::descendants(&self.root, process.pid).len();
            self.children = self.children.max(children as u64);
        }
        if !every {
            let alive = self.list.iter().filter(|it| !it.gone);
            let threads = alive.filter_map(|it| it.process.as_ref());
            let threads = threads.map(|it| it.ordinary_threads(&self.root));
            self.ordinary = self.ordinary.max(threads.sum());
        }
    }

    /// Why there is nothing left to watch, if so. Programs by name and by group may still start.
    pub fn is_over(&self) -> Option<Gone> {
        match self.target {
            Target::Program { process, children } => {
                let over = match children {
                    false => !process.runs(&self.root),
                    true => self.list.iter().all(|it| it.gone),
                };
                over.then(|| Gone::Program {
                    program: process.name.clone(),
                    children: *children,
                })
            }
            Target::Named(_) => None,
            Target::Group { group, .. } => (!group.exists(&self.root)).then(|| Gone::Group {
                directory: group.directory.clone(),
            }),
        }
    }

    /// The program of a thread, by its ID in the kernel; absent if there is only one program.
    pub fn program_of(&self, kernels: u32, numbers: &Numbers) -> Option<u32> {
        (!self.is_one() && kernels != 0).then(|| numbers.visible_number(kernels))
    }

    /// Whether a program, by its ID in the kernel, is no longer watched.
    pub fn has_left(&self, kernels: u32) -> bool {
        let last = self.list.iter().rfind(|it| it.kernels == kernels);
        last.is_some_and(|it| it.gone)
    }

    /// `killed_by`: the signal that ended a program, by its ID in the kernel.
    pub fn subject(
        &self,
        every: bool,
        refused: u64,
        killed_by: impl Fn(Option<u32>) -> Option<i32>,
    ) -> Subject {
        let (following, wanted) = match self.target {
            Target::Program {
                process,
                children: false,
            } => {
                return Subject::Program {
                    pid: process.pid,
                    name: process.name.clone(),
                    command: process.command.clone(),
                    all_threads: every,
                    ended: !process.runs(&self.root),
                    killed_by: killed_by(None),
                };
            }
            Target::Program { process, .. } => (
                Following::Children,
                format!("{} ({})", process.name, process.pid),
            ),
            Target::Named(name) => (Following::Name, name.clone()),
            Target::Group { group, .. } => (Following::Cgroup, group.directory.clone()),
        };
        let programs = self.list.iter().map(|it| WatchedProgram {
            pid: it.pid,
            name: it.name.clone(),
            gone: it.gone,
            killed_by: killed_by(Some(it.kernels)),
        });
        Subject::Programs {
            following,
            wanted,
            programs: programs.collect(),
            unnamed: self.unnamed,
            refused: refused.saturating_add(self.hidden),
            all_threads: every,
        }
    }

    /// Children, and threads without real-time priority, that were seen and are not followed.
    pub fn beside(&self) -> (u64, u64) {
        (self.children, self.ordinary)
    }
}
