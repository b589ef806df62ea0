//! How a finding looks at the machine: every reading becomes evidence, and what is absent or
//! unreadable ends the look with the right state.

use std::collections::BTreeMap;
use std::io;

use punctual_record::cpu_list;
use punctual_record::finding::{
    FindingState, Item, NotApplicable, Portion, ReadResult, Reading, Seen, Source, Unknown,
};
use punctual_rt::cpulist;

use crate::check::CheckRequest;
use crate::config::Config;
use crate::isolated::isolated;
use crate::mask::lacking;
use crate::outcome::line_of;
pub(crate) use crate::outcome::{
    Looked, Outcome, bad, expected, information, information_that, lost, missing, not_applicable,
    ok, present, unknown, without,
};
use crate::parameter::CpuParameter;
use crate::root::{Root, absent, plain};
use crate::sample::Sample;
use crate::tasks::{Task, tasks};
use crate::version::Version;

/// The readings of one finding.
const READINGS: usize = 64;

/// A machine, with what several findings read.
pub(crate) struct Machine<'r> {
    pub(crate) root: &'r Root,
    pub(crate) release: String,
    pub(crate) version: Option<Version>,
    /// The parameters of the command line, in order; none where it can't be read.
    pub(crate) parameters: Option<Vec<String>>,
    pub(crate) config: Option<Config>,
    /// Whether the kernel is PREEMPT_RT; none where that can't be read.
    is_real_time: Option<bool>,
    pub(crate) online: Vec<usize>,
    /// The CPUs for real-time work.
    pub(crate) cpus: Vec<usize>,
    pub(crate) priority: u32,
    /// The directory of the program whose rights are read: `/proc/self`, `/proc/PID`.
    pub(crate) process: String,
    pub(crate) tasks: Vec<Task>,
    /// What was counted over a time, if that was asked for.
    pub(crate) sample: Option<Sample>,
    /// Whether these are all threads of the machine.
    has_all_tasks: bool,
}

impl<'r> Machine<'r> {
    pub(crate) fn read(root: &'r Root, request: &CheckRequest) -> Self {
        let text = |path: &str| root.text(path).unwrap_or_default();
        let list = |path: &str| cpulist::numbers(&text(path)).unwrap_or_default();
        let release = text("/proc/sys/kernel/osrelease");
        let (tasks, has_all_tasks) = tasks(root);
        let is_real_time = match root.text("/sys/kernel/realtime") {
            Ok(text) if text == "1" => Some(true),
            _ => root
                .text("/proc/sys/kernel/version")
                .ok()
                .map(|text| text.contains("PREEMPT_RT")),
        };
        Self {
            root,
            version: Version::parse(&release),
            parameters: root
                .text("/proc/cmdline")
                .ok()
                .map(|text| words_of_command_line(&text)),
            config: Config::read(root, &release).0,
            is_real_time,
            online: list("/sys/devices/system/cpu/online"),
            cpus: request.cpus.clone().unwrap_or_else(|| isolated(root)),
            priority: request.priority,
            process: request
                .pid
                .map_or_else(|| "/proc/self".to_owned(), |pid| format!("/proc/{pid}")),
            tasks,
            sample: Sample::of(root, request.sample),
            has_all_tasks,
            release,
        }
    }

    /// The CPUs that are not for real-time work.
    pub(crate) fn housekeeping(&self) -> Vec<usize> {
        lacking(&self.online, &self.cpus)
    }
}

/// The words of a command line: a value in quotes may hold blanks.
fn words_of_command_line(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in text.chars() {
        match character {
            '"' => quoted = !quoted,
            blank if blank.is_whitespace() && !quoted => words.push(String::new()),
            other => words
                .last_mut()
                .into_iter()
                .for_each(|word| word.push(other)),
        }
    }
    words.retain(|word| !word.is_empty());
    // What follows is for the first program: `parse_args` in kernel/params.c stops here.
    if let Some(end) = words.iter().position(|word| word == "--") {
        words.truncate(end);
    }
    words
}

/// One finding's look at the machine.
pub(crate) struct Look<'m> {
    pub(crate) machine: &'m Machine<'m>,
    readings: Vec<Reading>,
}

impl<'m> Look<'m> {
    pub(crate) fn new(machine: &'m Machine<'m>) -> Self {
        Self {
            machine,
            readings: Vec::new(),
        }
    }

    pub(crate) fn into_readings(self) -> Vec<Reading> {
        self.readings
    }

    /// Adds a text of the machine that was read otherwise.
    pub(crate) fn saw(&mut self, source: impl Into<Source>, value: &str) {
        self.add(source.into(), ReadResult::Value(line_of(value)));
    }

    /// Adds what was made of a text of the machine.
    pub(crate) fn seen(&mut self, source: impl Into<Source>, seen: Seen) {
        self.add(source.into(), ReadResult::Seen(seen));
    }

    /// Notes that there is no such file.
    pub(crate) fn saw_none(&mut self, source: impl Into<Source>) {
        self.add(source.into(), ReadResult::Absent);
    }

    /// Ends a look at what is there and can't be read.
    pub(crate) fn unreadable<T>(
        &mut self,
        path: &str,
        error: &io::Error,
    ) -> Result<T, FindingState> {
        self.add(path.into(), ReadResult::Error(plain(error)));
        unknown(Unknown::Unreadable(path.to_owned()))
    }

    /// Adds a reading.
    pub(crate) fn add(&mut self, mut source: Source, result: ReadResult) {
        if let Source::Place(place) = &mut source {
            *place = line_of(place);
        }
        if self.readings.len() < READINGS {
            self.readings.push(Reading { source, result });
        }
    }

    /// The text of a file that a machine may lack.
    ///
    /// # Errors
    /// Unknown, if it is there and can't be read.
    pub(crate) fn optional(&mut self, path: &str) -> Result<Option<String>, FindingState> {
        match self.machine.root.text(path) {
            Ok(text) => {
                self.saw(path, &text);
                Ok(Some(text))
            }
            Err(error) if absent(&error) => {
                self.saw_none(path);
                Ok(None)
            }
            Err(error) => self.unreadable(path, &error),
        }
    }

    /// The text of a file without which the finding has no meaning.
    ///
    /// # Errors
    /// Not applicable where it is absent, unknown where it can't be read.
    pub(crate) fn feature(&mut self, path: &str) -> Result<String, FindingState> {
        match self.optional(path)? {
            Some(text) => Ok(text),
            None => without(path),
        }
    }

    /// The text of a file that every kernel has.
    ///
    /// # Errors
    /// Unknown, where it is absent or can't be read.
    pub(crate) fn required(&mut self, path: &str) -> Result<String, FindingState> {
        match self.optional(path)? {
            Some(text) => Ok(text),
            None => lost(path),
        }
    }

    /// The text of a file that every machine has, of which only a part is evidence: the caller
    /// notes it.
    ///
    /// # Errors
    /// Those of [`Look::required`].
    pub(crate) fn unshown(&mut self, path: &str) -> Result<String, FindingState> {
        match self.machine.root.text(path) {
            Ok(text) => Ok(text),
            // The error becomes evidence.
            Err(_) => self.required(path),
        }
    }

    /// The text of a file that a machine may lack, of which only a part is evidence: the caller
    /// notes it.
    ///
    /// # Errors
    /// Those of [`Look::optional`].
    pub(crate) fn optional_unshown(&mut self, path: &str) -> Result<Option<String>, FindingState> {
        match self.machine.root.text(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if absent(&error) => Ok(None),
            // The error becomes evidence.
            Err(_) => self.optional(path),
        }
    }

    /// The names in a directory without which the finding has no meaning.
    ///
    /// # Errors
    /// Not applicable where it is absent, unknown where it can't be read.
    pub(crate) fn directory(&mut self, path: &str) -> Result<Vec<String>, FindingState> {
        match self.machine.root.names(path) {
            Ok(names) => Ok(names),
            Err(error) if absent(&error) => {
                self.saw_none(path);
                without(path)
            }
            Err(error) => self.unreadable(path, &error),
        }
    }

    /// The text of a file of a file system that need not be mounted; none where it is mounted
    /// and has no such file.
    ///
    /// # Errors
    /// Unknown, where the file system is not mounted or the file can't be read.
    pub(crate) fn mounted(
        &mut self,
        path: &str,
        filesystem: &str,
        place: &str,
    ) -> Result<Option<String>, FindingState> {
        if let Some(text) = self.optional(path)? {
            return Ok(Some(text));
        }
        let mounts = self.unshown("/proc/mounts")?;
        let is_it = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            words.next() == Some(place) && words.next() == Some(filesystem)
        };
        if mounts.lines().any(is_it) {
            Ok(None)
        } else {
            unknown(Unknown::NotMounted {
                filesystem: filesystem.to_owned(),
                place: place.to_owned(),
            })
        }
    }

    /// All threads of the machine.
    ///
    /// # Errors
    /// Unknown where some are hidden.
    pub(crate) fn threads(&self) -> Result<&'m [Task], FindingState> {
        if self.machine.has_all_tasks {
            Ok(&self.machine.tasks)
        } else {
            unknown(Unknown::HiddenThreads)
        }
    }

    /// The kernel's threads that match.
    ///
    /// # Errors
    /// Those of [`Look::threads`].
    pub(crate) fn kernel_threads(
        &self,
        matches: impl Fn(&Task) -> bool,
    ) -> Result<Vec<&'m Task>, FindingState> {
        let matching = |task: &&Task| task.is_of_kernel && matches(task);
        Ok(self.threads()?.iter().filter(matching).collect())
    }

    /// The programs of these names that run, by the names of their threads: the kernel cuts them
    /// at 15 bytes.
    ///
    /// # Errors
    /// Those of [`Look::threads`].
    pub(crate) fn programs(&mut self, names: &[&str]) -> Result<Vec<String>, FindingState> {
        let threads = self.threads()?.iter();
        let mut running: Vec<String> = threads
            .filter(|task| !task.is_of_kernel && names.contains(&task.name.as_str()))
            .map(|task| task.name.clone())
            .collect();
        running.sort_unstable();
        running.dedup();
        if running.is_empty() {
            self.seen(Source::Programs {}, none_of(names));
        } else {
            self.saw(Source::Programs {}, &running.join(", "));
        }
        Ok(running)
    }

    /// Whether the kernel is PREEMPT_RT.
    ///
    /// # Errors
    /// Unknown where that can't be read.
    pub(crate) fn is_real_time(&mut self) -> Result<bool, FindingState> {
        match self.machine.is_real_time {
            Some(is_real_time) => Ok(is_real_time),
            None => self.required("/proc/sys/kernel/version").map(|_| false),
        }
    }

    /// The CPUs that are online.
    ///
    /// # Errors
    /// Unknown where they can't be read.
    pub(crate) fn online(&mut self) -> Result<&'m [usize], FindingState> {
        let path = "/sys/devices/system/cpu/online";
        if self.machine.online.is_empty() {
            self.required(path)?;
            return unknown(Unknown::NotUnderstood(path.to_owned()));
        }
        Ok(&self.machine.online)
    }

    /// A number in a file that every kernel has.
    ///
    /// # Errors
    /// Those of [`Look::required`] and [`Look::parsed`].
    pub(crate) fn required_number(&mut self, path: &str) -> Result<i64, FindingState> {
        let text = self.required(path)?;
        Self::parsed(path, text.trim().parse().ok())
    }

    /// Reads a value out of a text of `path`.
    ///
    /// # Errors
    /// Unknown, where the text is not understood.
    pub(crate) fn parsed<T>(path: &str, value: Option<T>) -> Result<T, FindingState> {
        value.map_or_else(|| unknown(Unknown::NotUnderstood(path.to_owned())), Ok)
    }

    /// A number in a file without which the finding has no meaning.
    ///
    /// # Errors
    /// Those of [`Look::feature`] and [`Look::parsed`].
    pub(crate) fn number(&mut self, path: &str) -> Result<i64, FindingState> {
        let text = self.feature(path)?;
        Self::parsed(path, text.trim().parse().ok())
    }

    /// The same file of each CPU in `cpus` (`{}` stands for its number), without which the finding
    /// has no meaning. CPUs with the same text share a reading.
    ///
    /// # Errors
    /// Not applicable where no CPU has it, unknown where one can't be read or only some have it.
    pub(crate) fn per_cpu(
        &mut self,
        pattern: &str,
        cpus: &[usize],
    ) -> Result<Vec<(usize, String)>, FindingState> {
        let mut values = Vec::new();
        let mut by_text: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut lacking = None;
        for cpu in cpus {
            let path = pattern.replacen("{}", &cpu.to_string(), 1);
            match self.machine.root.text(&path) {
                Ok(text) => {
                    by_text.entry(text.clone()).or_default().push(*cpu);
                    values.push((*cpu, text));
                }
                Err(error) if absent(&error) => lacking = Some(path),
                Err(error) => return self.unreadable(&path, &error),
            }
        }
        if values.is_empty() {
            let all = pattern.replacen("{}", "*", 1);
            self.saw_none(all.clone());
            return without(all);
        }
        for (text, cpus) in by_text {
            self.saw(pattern.replacen("{}", &cpu_list(&cpus), 1), &text);
        }
        match lacking {
            None => Ok(values),
            Some(path) => {
                self.saw_none(path.clone());
                lost(path)
            }
        }
    }

    /// [`Look::per_cpu`] of the CPUs that are online.
    ///
    /// # Errors
    /// Those of [`Look::per_cpu`] and [`Look::online`].
    pub(crate) fn per_online_cpu(
        &mut self,
        pattern: &str,
    ) -> Result<Vec<(usize, String)>, FindingState> {
        let online = self.online()?;
        self.per_cpu(pattern, online)
    }

    /// The CPUs for real-time work.
    ///
    /// # Errors
    /// Not applicable without any.
    pub(crate) fn real_time_cpus(&self) -> Result<&'m [usize], FindingState> {
        if self.machine.cpus.is_empty() {
            not_applicable(NotApplicable::CpusNotNamed)
        } else {
            Ok(&self.machine.cpus)
        }
    }

    /// The value of a boot parameter, the last one if there are several: empty for one without
    /// a value. A dash is an underscore, as for the kernel.
    ///
    /// # Errors
    /// Those of [`Look::parameters`].
    pub(crate) fn parameter(&mut self, name: &str) -> Result<Option<&'m str>, FindingState> {
        let found = self.parameters()?.iter().rev().find_map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            (same_name(key, name)).then_some((word, value))
        });
        match found {
            Some((word, _)) => self.saw("/proc/cmdline", word),
            None => self.seen("/proc/cmdline", none_of(&[name])),
        }
        Ok(found.map(|(_, value)| value))
    }

    /// The values of these boot parameters, each as often as it was given, in the order of the command
    /// line.
    ///
    /// # Errors
    /// Those of [`Look::parameters`].
    pub(crate) fn values(
        &mut self,
        names: &[&'static str],
    ) -> Result<Vec<(&'static str, &'m str)>, FindingState> {
        let mut values = Vec::new();
        for word in self.parameters()? {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if let Some(name) = names.iter().find(|name| same_name(key, name)) {
                self.saw("/proc/cmdline", word);
                values.push((*name, value));
            }
        }
        let absent = |name: &&str| values.iter().all(|(given, _)| given != name);
        let absent: Vec<&str> = names.iter().copied().filter(absent).collect();
        if !absent.is_empty() {
            self.seen("/proc/cmdline", none_of(&absent));
        }
        Ok(values)
    }

    /// Whether `isolcpus=managed_irq` was given with these CPUs.
    ///
    /// # Errors
    /// Unknown where the command line can't be read.
    pub(crate) fn keeps_managed_irqs(&mut self, cpus: &[usize]) -> Result<bool, FindingState> {
        let given = self.values(&["isolcpus"])?;
        let keeps = |(name, value): &(&str, &str)| {
            let has_flag = value.split(',').any(|word| word == "managed_irq");
            let named = CpuParameter::parse(name, value).cpus.unwrap_or_default();
            has_flag && cpus.iter().all(|cpu| named.contains(cpu))
        };
        Ok(given.iter().any(keeps))
    }

    /// The parameters of the command line.
    ///
    /// # Errors
    /// Unknown where it can't be read.
    pub(crate) fn parameters(&mut self) -> Result<&'m [String], FindingState> {
        match &self.machine.parameters {
            Some(parameters) => Ok(parameters),
            None => self.required("/proc/cmdline").map(|_| [].as_slice()),
        }
    }

    /// The kernel's configuration.
    ///
    /// # Errors
    /// Unknown without one.
    pub(crate) fn config(&self) -> Result<&'m Config, FindingState> {
        match &self.machine.config {
            Some(config) => Ok(config),
            None => unknown(Unknown::NoConfiguration),
        }
    }

    /// Whether an option of the kernel's configuration is `y`.
    ///
    /// # Errors
    /// Unknown without a configuration.
    pub(crate) fn option(&mut self, option: &str) -> Result<bool, FindingState> {
        let config = self.config()?;
        match config.value(option) {
            Some(value) => self.saw(&config.source, &format!("CONFIG_{option}={value}")),
            None => self.seen(&config.source, Seen::NotSet(option.to_owned())),
        }
        Ok(config.is_set(option))
    }

    /// Only kernels from this version on have it.
    ///
    /// # Errors
    /// Not applicable before it; unknown where the kernel's version is.
    pub(crate) fn require_version(&self, from: Version) -> Result<(), FindingState> {
        if self.version()? >= from {
            Ok(())
        } else {
            not_applicable(NotApplicable::KernelBefore(from.to_string()))
        }
    }

    /// The kernel's version.
    ///
    /// # Errors
    /// Unknown where it can't be read.
    pub(crate) fn version(&self) -> Result<Version, FindingState> {
        Self::parsed("/proc/sys/kernel/osrelease", self.machine.version)
    }
}

/// That none of these names was found.
pub(crate) fn none_of(names: &[&str]) -> Seen {
    Seen::NoneOf(owned(names))
}

/// So many of all.
pub(crate) fn part(count: usize, all: usize, of: Option<Portion>) -> Seen {
    Seen::Part {
        count: count as u64,
        all: all as u64,
        of,
    }
}

/// The kernel's threads with names of these patterns.
pub(crate) fn threads_of(patterns: &[&str]) -> Source {
    Source::Threads(owned(patterns))
}

/// The same, where they are absent.
pub(crate) fn no_threads(patterns: &[&str]) -> Item {
    Item::Threads(owned(patterns))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Whether two names of boot parameters are the same for the kernel.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    one.replace('-', "_") == other.replace('-', "_")
}

/// The chosen word of a list like `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}
