//! Runtimes with marks of their own: what to mark in each, and what its threads are by their names.
//! Another runtime is one row of [`PRESETS`].

use punctual_record::watch::{Runtime, ThreadRole};

use super::spec::{self, Spec};

/// What is known of a runtime.
#[derive(Debug)]
pub struct Preset {
    /// Which.
    pub runtime: Runtime,
    /// Its name on the command line.
    pub name: &'static str,
    /// How the files begin whose code only a program with this runtime runs; none if the marks
    /// are in the program's own file, which shows it by having them.
    pub files: &'static [&'static str],
    /// Its marks, as `--mark` takes them. The first is measured from the start of a pause to its
    /// end: meanwhile no thread of the program continues.
    pub marks: &'static [&'static str],
    /// Whether each of the program's threads is a thread of the kernel that sleeps until the pause
    /// ends, so that its ticks can be followed.
    pub has_ticks: bool,
    /// What threads are by the beginning of their names (the kernel keeps 15 bytes); others run the
    /// program.
    pub roles: &'static [(&'static str, ThreadRole)],
    /// What to do if a program doesn't have this runtime.
    pub absent: &'static str,
    /// What to do if the runtime was built without the marks.
    pub unmarked: &'static str,
}

/// All of them.
pub static PRESETS: &[Preset] = &[
    Preset {
        runtime: Runtime::Jvm,
        name: "jvm",
        files: &["libjvm.so"],
        marks: &[
            "safepoint=usdt:hs_private:safepoint__begin..usdt:hs_private:safepoint__end",
            "gc=usdt:hotspot:gc__begin..usdt:hotspot:gc__end",
        ],
        has_ticks: true,
        roles: &[
            ("VM Thread", ThreadRole::Pauses),
            ("GC Thread#", ThreadRole::Collects),
            ("G1 ", ThreadRole::Collects),
            ("ZDirector", ThreadRole::Collects),
            ("ZDriver", ThreadRole::Collects),
            ("ZStat", ThreadRole::Collects),
            ("ZUncommitter", ThreadRole::Collects),
            ("ZUnmapper", ThreadRole::Collects),
            ("ZWorker", ThreadRole::Collects),
            ("RuntimeWorker", ThreadRole::Collects),
            ("Shenandoah", ThreadRole::Collects),
            ("C1 CompilerThre", ThreadRole::Compiles),
            ("C2 CompilerThre", ThreadRole::Compiles),
            ("JVMCI", ThreadRole::Compiles),
            ("Sweeper thread", ThreadRole::Serves),
            ("VM Periodic Tas", ThreadRole::Serves),
            ("Signal Dispatch", ThreadRole::Serves),
            ("Service Thread", ThreadRole::Serves),
            ("Monitor Deflati", ThreadRole::Serves),
            ("Notification Th", ThreadRole::Serves),
            ("Attach Listener", ThreadRole::Serves),
            ("Reference Handl", ThreadRole::Serves),
            ("Finalizer", ThreadRole::Serves),
            ("Common-Cleaner", ThreadRole::Serves),
        ],
        absent: "give the PID of the java process itself, not of a script that starts it",
        unmarked: "it was built without --enable-dtrace: use a JDK that has the probes, such as \
                   Debian's and Ubuntu's openjdk-17-jdk",
    },
    Preset {
        runtime: Runtime::Python,
        name: "python",
        files: &["python3", "libpython3"],
        marks: &["collection=usdt:python:gc__start..usdt:python:gc__done"],
        has_ticks: false,
        roles: &[],
        absent: "give the PID of the interpreter itself, not of a script that starts it",
        unmarked: "it was built without --with-dtrace: use an interpreter that has the probes, such \
                   as Debian's and Ubuntu's /usr/bin/python3",
    },
    Preset {
        runtime: Runtime::Go,
        name: "go",
        files: &[],
        marks: &["stop-the-world=runtime.stopTheWorldWithSema..runtime.startTheWorldWithSema"],
        has_ticks: false,
        roles: &[],
        absent: "",
        unmarked: "give the PID of a Go program that has its symbols (built without -ldflags=-s)",
    },
];

/// What is known of a runtime, by its name on the command line.
#[must_use]
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Its marks.
    #[must_use]
    pub fn specs(&self) -> Vec<Spec> {
        let marks = self.marks.iter();
        // A test parses every one of the table.
        marks.filter_map(|mark| spec::parse(mark).ok()).collect()
    }

    /// What a thread is, by its name.
    #[must_use]
    pub fn role(&self, thread: &str) -> ThreadRole {
        let known = self
            .roles
            .iter()
            .find(|(begin, _)| thread.starts_with(begin));
        known.map_or(ThreadRole::Program, |(_, role)| *role)
    }

    /// Whether a file of this name is the runtime's.
    pub(super) fn is_in(&self, file: &str) -> bool {
        self.files.iter().any(|begin| file.starts_with(begin))
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::MarkShape;
    use super::*;

    #[test]
    fn every_runtime_has_one_row_whose_marks_can_be_parsed_and_whose_first_is_a_pair() {
        for runtime in Runtime::ALL {
            let rows = PRESETS.iter().filter(|it| it.runtime == runtime);
            assert_eq!(rows.count(), 1, "{runtime:?}");
        }
        for preset in PRESETS {
            let specs = preset.specs();
            assert_eq!(specs.len(), preset.marks.len(), "{}", preset.name);
            assert!(matches!(specs[0].shape, MarkShape::Pair(..)));
            assert!(named(preset.name).is_some_and(|it| std::ptr::eq(it, preset)));
            assert!(preset.has_ticks || preset.roles.is_empty());
        }
    }

    #[test]
    fn threads_have_the_role_of_their_name_as_the_kernel_keeps_it() {
        let jvm = named("jvm").expect("a row");
        for (thread, role) in [
            ("VM Thread", ThreadRole::Pauses),
            ("GC Thread#1", ThreadRole::Collects),
            ("G1 Main Marker", ThreadRole::Collects),
            ("C2 CompilerThre", ThreadRole::Compiles),
            ("VM Periodic Tas", ThreadRole::Serves),
            ("ticker", ThreadRole::Program),
            ("java", ThreadRole::Program),
        ] {
            assert_eq!(jvm.role(thread), role, "{thread}");
        }
        for (begin, _) in jvm.roles {
            assert!(begin.len() <= 15, "{begin}: the kernel cuts it");
        }
    }
}
