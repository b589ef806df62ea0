//! Boot parameters: where this machine's boot loader takes them from, and how they are added.

use std::path::Path;

use punctual_record::finding::{Check, FindingFix, FindingId, StateKind};
use punctual_record::tuning::{BootParameter, BootState, Entry, Setting};
use punctual_rt::cpulist;

use super::boot_file::{self, WITH, content, content_of, value_of};
use super::journal::Intent;
use super::setting::{is_same, read, write};
use super::{BootError, Journal, TuneError};
use crate::kernel_log::unknown_parameters;
use crate::look::same_name;
use crate::parameter::CpuParameter;
use crate::root::Root;

/// The comment of the file that is ours alone.
const HEADER: &str = "# Written by punctual tune apply --boot; punctual tune restore removes it.";

/// Where parameters are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootLoader {
    /// Debian's and Ubuntu's GRUB: a file of our own beside `/etc/default/grub`.
    Grub {
        /// `update-grub`.
        update: String,
    },
    /// Fedora's and Red Hat's grubby, and `/etc/kernel/cmdline` for kernels installed later.
    Grubby {
        /// The program.
        grubby: String,
    },
    /// The Raspberry Pi's firmware: a line in this file.
    RaspberryPi {
        /// `cmdline.txt`.
        path: String,
    },
    /// Debian's u-boot-menu: `/etc/default/u-boot`.
    UBootMenu {
        /// `u-boot-update`.
        update: String,
        /// The parameters that it uses where none are configured.
        default: String,
    },
}

/// What is to be written so that the next boot has parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootPlan {
    /// The parameters that are added; empty if the configuration has them already.
    pub parameters: Vec<BootParameter>,
    /// The settings and their new values.
    pub changes: Vec<(Setting, String)>,
    /// The findings, separated by commas, as the journal has them.
    knobs: String,
    /// What the boot loader's program generates, and must have the parameters.
    result: Option<String>,
}

/// The parameters that fix the bad findings of a check at the next boot; of these findings alone,
/// if some are named. Of a finding the first counts, which is the best. Each is named once.
#[must_use]
pub fn parameters_of(check: &Check, only: &[FindingId]) -> Vec<BootParameter> {
    // A kernel that was built without it ignores the parameter.
    let nohz_full = check.finding(FindingId::NohzFull);
    let has_no_nohz_full = nohz_full.is_some_and(|it| {
        let boots = |fix: &FindingFix| matches!(fix, FindingFix::Boot { .. });
        it.fixes.contains(&FindingFix::ByHand) && !it.fixes.iter().any(boots)
    });
    let mut parameters: Vec<BootParameter> = Vec::new();
    for finding in &check.findings {
        let is_bad = finding.state.kind() == StateKind::Bad;
        if !(only.is_empty() && is_bad || only.contains(&finding.id)) {
            continue;
        }
        let best = finding.fixes.iter().find_map(|fix| match fix {
            FindingFix::Boot { parameter }
                if !(has_no_nohz_full && parameter.starts_with("nohz_full=")) =>
            {
                Some(parameter)
            }
            _ => None,
        });
        if let Some(parameter) = best
            && parameters.iter().all(|it| it.parameter != *parameter)
        {
            parameters.push(BootParameter {
                knob: finding.id,
                parameter: parameter.clone(),
            });
        }
    }
    parameters
}

impl BootLoader {
    /// The boot loader of a machine, if it is one that is known here.
    #[must_use]
    pub fn find(root: &Root) -> Option<Self> {
        let program = |name: &str| {
            let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
            let paths = folders.iter().map(|folder| format!("{folder}/{name}"));
            paths
                .map(|path| shown(root, &path))
                .find(|path| Path::new(path).exists())
        };
        // Only Debian's reads files beside /etc/default/grub.
        let reads_folder = |path: String| {
            let script = content(Path::new(&path)).ok().flatten();
            script.is_some_and(|it| String::from_utf8_lossy(&it).contains("default/grub.d"))
        };
        if root.exists("/etc/default/grub")
            && let Some(update) = program("update-grub")
            && program("grub-mkconfig").is_some_and(reads_folder)
        {
            return Some(Self::Grub { update });
        }
        if let Some(grubby) = program("grubby") {
            return Some(Self::Grubby { grubby });
        }
        let model = root.text("/proc/device-tree/model").unwrap_or_default();
        let lines = ["/boot/firmware/cmdline.txt", "/boot/cmdline.txt"];
        if model.contains("Raspberry Pi")
            && let Some(path) = lines.iter().find(|path| root.exists(path))
        {
            let path = shown(root, path);
            return Some(Self::RaspberryPi { path });
        }
        let update = program("u-boot-update")?;
        let script = content(Path::new(&update)).ok()??;
        let default = u_boot_default(&String::from_utf8_lossy(&script))?;
        Some(Self::UBootMenu { update, default })
    }

    /// Plans these parameters, beside those that the journal's entries added before.
    ///
    /// # Errors
    /// [`BootError`]: the parameter is configured elsewhere with another value, or a file is not
    /// as expected.
    pub fn plan(
        &self,
        root: &Root,
        wanted: &[BootParameter],
        entries: &[Entry],
    ) -> Result<BootPlan, BootError> {
        if let Some(odd) = wanted.iter().find(|it| !is_plain(&it.parameter)) {
            return Err(BootError::Odd {
                parameter: odd.parameter.clone(),
            });
        }
        let file = |path: &str, update: Option<&String>| Setting::BootFile {
            path: shown(root, path),
            update: update.cloned(),
        };
        let mut plan = Planning {
            root,
            entries,
            wanted: wanted.to_vec(),
            ours: Vec::new(),
        };
        let mut result = None;
        let changes = match self {
            Self::Grub { update } => {
                result = Some(shown(root, "/boot/grub/grub.cfg"));
                let own = file("/etc/default/grub.d/zz-punctual.cfg", Some(update));
                let base = plan.base(&own)?;
                plan.check_elsewhere("/etc/default/grub")?;
                for name in root.names("/etc/default/grub.d").unwrap_or_default() {
                    if name.ends_with(".cfg") && name != "zz-punctual.cfg" {
                        plan.check_elsewhere(&format!("/etc/default/grub.d/{name}"))?;
                    }
                }
                let base = base.unwrap_or_else(|| format!("{HEADER}\n"));
                plan.check_text(&shown(root, "/etc/default/grub.d/zz-punctual.cfg"), &base)?;
                plan.check_running()?;
                let line = format!(
                    "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {}\"",
                    plan.all()
                );
                vec![(own, with_line(&base, &line))]
            }
            Self::Grubby { grubby } => plan.grubby(grubby, file("/etc/kernel/cmdline", None))?,
            Self::RaspberryPi { path } => {
                let own = Setting::BootFile {
                    path: path.clone(),
                    update: None,
                };
                let base = plan.base(&own)?.unwrap_or_default();
                plan.check_text(path, &base)?;
                plan.check_running()?;
                vec![(own, in_one_line(path, &base, &plan.all())?)]
            }
            Self::UBootMenu { update, default } => {
                result = Some(shown(root, "/boot/extlinux/extlinux.conf"));
                let own = file("/etc/default/u-boot", Some(update));
                let base = plan.base(&own)?.unwrap_or_default();
                plan.check_text(&shown(root, "/etc/default/u-boot"), &base)?;
                for folder in ["/usr/share/u-boot-menu/conf.d", "/etc/u-boot-menu/conf.d"] {
                    for name in root.names(folder).unwrap_or_default() {
                        plan.check_elsewhere(&format!("{folder}/{name}"))?;
                    }
                }
                plan.check_running()?;
                let line = format!(
                    "U_BOOT_PARAMETERS=\"${{U_BOOT_PARAMETERS:-{default}}} {}\"",
                    plan.all()
                );
                vec![(own, with_line(&base, &line))]
            }
        };
        let text = |value: String| value_of(Some(value.as_bytes()));
        let changes = changes.into_iter().map(|(setting, value)| match setting {
            Setting::BootFile { .. } => (setting, text(value)),
            _ => (setting, value),
        });
        let changes = if plan.wanted.is_empty() {
            Vec::new()
        } else {
            changes.collect()
        };
        let of_settings = |entry: &&Entry| changes.iter().any(|it| it.0 == entry.setting);
        let before = entries.iter().filter(of_settings);
        let mut knobs: Vec<&str> = before.flat_map(|entry| entry.knob.split(',')).collect();
        knobs.extend(plan.wanted.iter().map(|it| it.knob.name()));
        knobs.sort_unstable();
        knobs.dedup();
        Ok(BootPlan {
            knobs: knobs.join(","),
            parameters: plan.wanted,
            changes,
            result,
        })
    }
}

/// A plan in the making.
struct Planning<'p> {
    root: &'p Root,
    entries: &'p [Entry],
    /// Those that are not configured yet.
    wanted: Vec<BootParameter>,
    /// Those that we added before.
    ours: Vec<String>,
}

impl Planning<'_> {
    /// The content of a file without what we added before, which is noted.
    fn base(&mut self, setting: &Setting) -> Result<Option<String>, BootError> {
        let Setting::BootFile { path, .. } = setting else {
            return Ok(None);
        };
        let unreadable = |source| BootError::Unreadable {
            path: path.clone(),
            source,
        };
        let now = boot_file::read(Path::new(path)).map_err(unreadable)?;
        let entry = self.entries.iter().find(|entry| entry.setting == *setting);
        let base = match entry {
            Some(entry) if is_same(setting, &now, &entry.value) => &entry.original,
            Some(entry) if !is_same(setting, &now, &entry.original) => {
                return Err(BootError::Edited { path: path.clone() });
            }
            _ => &now,
        };
        let text = |value: &str| -> Result<Option<String>, BootError> {
            let bytes = content_of(value).map_err(unreadable)?;
            bytes
                .map(String::from_utf8)
                .transpose()
                .map_err(|_| BootError::Malformed { path: path.clone() })
        };
        let base = text(base)?;
        let before = words(base.as_deref().unwrap_or_default());
        let mut added = words(&text(&now)?.unwrap_or_default());
        added.retain(|word| !before.contains(word));
        self.ours.extend(added);
        Ok(base)
    }

    /// A parameter that a file has already is not added; one with another value is refused.
    fn check_elsewhere(&mut self, path: &str) -> Result<(), BootError> {
        let bytes = content(&self.root.path(path)).map_err(|source| BootError::Unreadable {
            path: shown(self.root, path),
            source,
        })?;
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        self.check_text(&shown(self.root, path), &text)
    }

    fn check_text(&mut self, place: &str, text: &str) -> Result<(), BootError> {
        for word in words(text) {
            let other = self.wanted.iter().find(|it| is_other(&it.parameter, &word));
            if let Some(other) = other {
                return Err(BootError::Elsewhere {
                    place: place.to_owned(),
                    there: word,
                    parameter: other.parameter.clone(),
                });
            }
            self.wanted.retain(|it| it.parameter != word);
        }
        Ok(())
    }

    /// What the running kernel was booted with and no file has comes from elsewhere.
    fn check_running(&self) -> Result<(), BootError> {
        let running = command_line(self.root);
        for word in words(&running) {
            let is_ours = self.ours.contains(&word);
            let other = self.wanted.iter().find(|it| is_other(&it.parameter, &word));
            if let Some(other) = other
                && !is_ours
                && !self.ours.iter().any(|it| is_other(it, &word))
            {
                return Err(BootError::Elsewhere {
                    place: shown(self.root, "/proc/cmdline"),
                    there: word,
                    parameter: other.parameter.clone(),
                });
            }
        }
        Ok(())
    }

    /// Ours and the wanted ones; a new value replaces ours.
    fn all(&self) -> String {
        let wanted = || self.wanted.iter().map(|it| it.parameter.as_str());
        let ours = self.ours.iter().map(String::as_str);
        let stays = |word: &&str| wanted().all(|it| it != *word && !is_other(it, word));
        let all: Vec<&str> = ours.filter(stays).chain(wanted()).collect();
        all.join(" ")
    }

    fn grubby(
        &mut self,
        grubby: &str,
        later: Setting,
    ) -> Result<Vec<(Setting, String)>, BootError> {
        let failed = |source| BootError::Unreadable {
            path: grubby.to_owned(),
            source,
        };
        let kernels = boot_file::kernels(grubby).map_err(failed)?;
        for wanted in self.wanted.clone() {
            let has = |kernel: &&String| words(kernel).contains(&wanted.parameter);
            let count = kernels.iter().filter(has).count();
            if count > 0 && count < kernels.len() {
                // A restore could not know which had it.
                return Err(BootError::OfSomeKernels {
                    parameter: wanted.parameter,
                });
            }
        }
        for kernel in &kernels {
            self.check_text(grubby, kernel)?;
        }
        self.check_running()?;
        let given: Vec<&str> = self.wanted.iter().map(|it| it.parameter.as_str()).collect();
        let arguments = Setting::KernelArguments {
            grubby: grubby.to_owned(),
            parameters: given.join(" "),
        };
        let mut changes = vec![(arguments, WITH.to_owned())];
        let wanted = self.wanted.clone();
        if let Some(base) = self.base(&later)?
            && let Setting::BootFile { path, .. } = &later
        {
            self.check_text(path, &base)?;
            changes.push((later.clone(), in_one_line(path, &base, &self.all())?));
        }
        self.wanted = wanted;
        Ok(changes)
    }
}

/// Writes a plan: the journal first. If the boot loader's program fails, or its result lacks a
/// parameter, the files are put back.
///
/// # Errors
/// [`TuneError`]: nothing is configured then.
pub fn apply(journal: &mut Journal, plan: &BootPlan) -> Result<(), TuneError> {
    let before = write_all(journal, &plan.changes, &plan.knobs)?;
    if let Some(path) = &plan.result
        && let Ok(Some(text)) = content(Path::new(path))
    {
        let generated = words(&String::from_utf8_lossy(&text));
        let lost = plan
            .parameters
            .iter()
            .find(|it| !generated.contains(&it.parameter));
        if let Some(lost) = lost {
            put_back(&plan.changes, &before);
            return Err(BootError::NotGenerated {
                path: path.clone(),
                parameter: lost.parameter.clone(),
            }
            .into());
        }
    }
    Ok(())
}

/// Writes settings that outlive a reboot, the journal first, and returns the values before. If one
/// can't be written, the ones before it are put back.
///
/// # Errors
/// [`TuneError`]: nothing is changed then.
pub(super) fn write_all(
    journal: &mut Journal,
    changes: &[(Setting, String)],
    knobs: &str,
) -> Result<Vec<String>, TuneError> {
    let mut before = Vec::new();
    for (setting, _) in changes {
        before.push(read(setting).map_err(|source| TuneError::Unreadable {
            setting: setting.clone(),
            source,
        })?);
    }
    if changes.is_empty() {
        return Ok(before);
    }
    let intents = changes.iter().zip(&mut before);
    let intents = intents.map(|((setting, value), now)| Intent {
        knob: knobs,
        setting,
        value,
        now,
    });
    journal.intend_all(intents, None)?;
    for (done, (setting, value)) in changes.iter().enumerate() {
        if let Err(source) = write(setting, value) {
            put_back(&changes[..=done], &before);
            return Err(BootError::NotWritten {
                setting: setting.clone(),
                source,
            }
            .into());
        }
    }
    Ok(before)
}

fn put_back(changes: &[(Setting, String)], before: &[String]) {
    for ((setting, _), before) in changes.iter().zip(before).rev() {
        // The first error is reported; the journal has the originals.
        let _ = write(setting, before);
    }
}

/// Whether the kernel has the parameters that an entry of the journal added.
#[must_use]
pub fn states(root: &Root, entry: &Entry, rebooted: bool) -> Vec<(String, BootState)> {
    let text = |value: &str| {
        let bytes = content_of(value).ok().flatten().unwrap_or_default();
        words(&String::from_utf8_lossy(&bytes))
    };
    let added: Vec<String> = match &entry.setting {
        Setting::KernelArguments { parameters, .. } => words(parameters),
        _ => {
            let before = text(&entry.original);
            let mut added = text(&entry.value);
            added.retain(|word| !before.contains(word));
            added
        }
    };
    let running = words(&command_line(root));
    let state = |parameter: &String| match (running.contains(parameter), rebooted) {
        (true, _) if is_ignored(root, parameter) => BootState::Ignored,
        (true, _) => BootState::InForce,
        (false, false) => BootState::NotYet,
        (false, true) => BootState::Dropped,
    };
    added.iter().map(|it| (it.clone(), state(it))).collect()
}

/// Whether the kernel said that it doesn't know the parameter, or its list of such CPUs lacks one
/// that the parameter names.
fn is_ignored(root: &Root, parameter: &str) -> bool {
    let unknown = unknown_parameters(root).unwrap_or_default();
    if unknown.iter().any(|word| word == parameter) {
        return true;
    }
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    let requested = CpuParameter::parse(name, value);
    let named = requested.cpus.unwrap_or_default();
    requested.files.iter().any(|file| {
        let text = root.text(&format!("/sys/devices/system/cpu/{file}"));
        let there = cpulist::numbers(&text.unwrap_or_default()).unwrap_or_default();
        named.iter().any(|cpu| !there.contains(cpu))
    })
}

/// What the kernel read of its command line: the rest is for the first program.
fn command_line(root: &Root) -> String {
    let text = root.text("/proc/cmdline").unwrap_or_default();
    text.split(" -- ").next().unwrap_or_default().to_owned()
}

/// The boot parameters in a text: words of shell assignments, of a command line, of a generated
/// menu. Comments and the names of variables are left out.
#[must_use]
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.starts_with('#')) {
        for word in line.split(|c: char| c.is_whitespace() || "\"'`;".contains(c)) {
            let is_variable = |name: &str| {
                let name = name.strip_suffix('+').unwrap_or(name);
                name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            };
            let word = match word.split_once('=') {
                Some((name, rest)) if is_variable(name) => rest,
                _ => word,
            };
            let is_expansion = word.starts_with('$') || word.ends_with('}');
            if !word.is_empty() && !is_expansion {
                words.push(word.to_owned());
            }
        }
    }
    words
}

/// Whether two words are the same parameter with different values.
fn is_other(one: &str, other: &str) -> bool {
    let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    one != other && same_name(&name(one), &name(other))
}

/// Whether a parameter needs no quotes anywhere.
fn is_plain(parameter: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:=/".contains(c);
    !parameter.is_empty() && parameter.chars().all(is_plain)
}

/// A path in a tree, as the system has it.
fn shown(root: &Root, path: &str) -> String {
    root.path(path).display().to_string()
}

/// A text and a line after it.
fn with_line(base: &str, line: &str) -> String {
    let end = if base.is_empty() || base.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{base}{end}{line}\n")
}

/// A file of one line with more parameters, before what is for the first process.
fn in_one_line(path: &str, base: &str, parameters: &str) -> Result<String, BootError> {
    let mut lines = base.lines().filter(|line| !line.trim().is_empty());
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Err(BootError::Malformed {
            path: path.to_owned(),
        });
    };
    let line = line.trim();
    Ok(match line.split_once(" -- ") {
        Some((kernel, first_process)) => {
            format!("{kernel} {parameters} -- {first_process}\n")
        }
        None => format!("{line} {parameters}\n"),
    })
}

/// The parameters that u-boot-menu's program has for a configuration without any.
fn u_boot_default(script: &str) -> Option<String> {
    let (_, rest) = script.split_once("${U_BOOT_PARAMETERS:-")?;
    let (default, _) = rest.split_once('}')?;
    let default = default.trim_matches('"');
    let is_plain = |c: char| c == ' ' || is_plain(&c.to_string());
    default.chars().all(is_plain).then(|| default.to_owned())
}
