//! Boot parameters get into the boot loader's configuration, and out of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use punctual_machine::Root;
use punctual_machine::tune::boot::{self, BootLoader, BootPlan};
use punctual_machine::tune::{BootError, Journal, RestoreRequest, TuneError, restore, status};
use punctual_record::finding::{Check, Fault, Finding, FindingFix, FindingId, FindingState};
use punctual_record::tuning::{Applied, BootParameter, BootState, Restored};
use tempfile::TempDir;

const GRUB: &str = "# If you change this file, run 'update-grub' afterwards.\nGRUB_DEFAULT=0\n\
    GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\nGRUB_CMDLINE_LINUX=\"console=ttyS0\"\n";
const DROP_IN: &str = "etc/default/grub.d/zz-punctual.cfg";

/// A machine's directory tree, and a place for the journal beside it.
pub struct Machine {
    pub folder: TempDir,
}

impl Machine {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("root")).expect("a folder");
        let machine = Self { folder };
        machine.put("proc/cmdline", "ro quiet splash console=ttyS0\n");
        for (path, text) in files {
            machine.put(path, text);
        }
        machine
    }

    pub fn grub() -> Self {
        let machine = Self::new(&[
            ("etc/default/grub", GRUB),
            (
                "usr/sbin/grub-mkconfig",
                "for x in /etc/default/grub.d/*.cfg\n",
            ),
        ]);
        machine.install("usr/sbin/update-grub");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    pub fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    /// A program of a boot loader: a link, so that nothing is executed that is open for writing.
    pub fn install(&self, path: &str) {
        let name = Path::new(path).file_name().expect("a name");
        let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tune/loaders");
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        symlink(there.join(name), path).expect("a link");
    }

    pub fn get(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    fn calls(&self) -> usize {
        self.get("calls").map_or(0, |text| text.lines().count())
    }

    fn root(&self) -> Root {
        Root::recorded(self.folder.path().join("root"))
    }

    fn journal(&self) -> Journal {
        crate::open_again(&self.folder)
    }

    fn plan(&self, parameters: &[&str]) -> Result<BootPlan, BootError> {
        let wanted: Vec<BootParameter> = parameters.iter().map(|it| wanted(it)).collect();
        let loader = BootLoader::find(&self.root()).expect("a boot loader");
        loader.plan(&self.root(), &wanted, self.journal().entries())
    }

    fn apply(&self, parameters: &[&str]) -> Result<(), TuneError> {
        let plan = self.plan(parameters)?;
        boot::apply(&mut self.journal(), &plan)
    }

    pub fn restore(&self) -> Vec<Restored> {
        let results = restore(&mut self.journal(), &RestoreRequest::default());
        let results = results.expect("a journal");
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Every file of the tree except what the programs wrote.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>, u32)> {
        let mut files = Vec::new();
        let mut folders = vec![self.path("etc"), self.path("boot/firmware")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let mode = entry.metadata().expect("it").permissions().mode();
                    files.push((path.clone(), fs::read(path).expect("it"), mode));
                }
            }
        }
        files.sort();
        files
    }
}

pub fn wanted(parameter: &str) -> BootParameter {
    BootParameter {
        knob: FindingId::IsolatedCpus,
        parameter: parameter.to_owned(),
    }
}

#[test]
fn of_each_finding_the_best_parameter_that_the_kernel_has_is_taken_once() {
    let finding = |id, state, fixes: &[&str]| Finding {
        id,
        state,
        readings: Vec::new(),
        fixes: fixes
            .iter()
            .map(|it| match *it {
                "" => FindingFix::ByHand,
                it => FindingFix::Boot {
                    parameter: it.to_owned(),
                },
            })
            .collect(),
    };
    let bad = || FindingState::Bad {
        fault: Fault::Below(1),
    };
    let information = FindingState::Information { fault: None };
    let mut check = Check {
        version: 1,
        hostname: String::new(),
        kernel: String::new(),
        cpus: vec![1],
        every_cpu: false,
        priority: 80,
        findings: vec![
            finding(FindingId::IsolatedCpus, bad(), &["isolcpus=1"]),
            finding(FindingId::ManagedIrqs, bad(), &["isolcpus=1"]),
            finding(FindingId::NohzFull, bad(), &["nohz_full=1"]),
            finding(
                FindingId::KthreadCpus,
                bad(),
                &["nohz_full=1", "kthread_cpus=0"],
            ),
            finding(FindingId::EfiRuntime, information, &["efi=noruntime"]),
            finding(FindingId::SkewTick, FindingState::Ok, &["skew_tick=1"]),
        ],
    };
    let names = |check: &Check, only: &[FindingId]| -> Vec<String> {
        let parameters = boot::parameters_of(check, only).into_iter();
        parameters.map(|it| it.parameter).collect()
    };
    assert_eq!(names(&check, &[]), ["isolcpus=1", "nohz_full=1"]);
    assert_eq!(names(&check, &[FindingId::EfiRuntime]), ["efi=noruntime"]);
    // CPU 0 keeps its tick, and the others lose it.
    check.findings[2] = finding(FindingId::NohzFull, bad(), &["nohz_full=1", ""]);
    assert_eq!(names(&check, &[]), ["isolcpus=1", "nohz_full=1"]);
    // A kernel without CONFIG_NO_HZ_FULL.
    check.findings[2] = finding(FindingId::NohzFull, bad(), &[""]);
    assert_eq!(names(&check, &[]), ["isolcpus=1", "kthread_cpus=0"]);
}

#[test]
fn grub_gets_a_file_of_our_own_and_a_restore_removes_it() {
    let machine = Machine::grub();
    machine.put("etc/default/grub.d/50-cloud.cfg", "GRUB_TIMEOUT=0\n");
    let before = machine.files();
    machine
        .apply(&["isolcpus=domain,1", "skew_tick=1"])
        .expect("configured");
    let ours = machine.get(DROP_IN).expect("our file");
    let line = "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=domain,1 \
                skew_tick=1\"";
    assert_eq!(ours.lines().last(), Some(line), "{ours}");
    let generated = machine.get("boot/grub/grub.cfg").expect("generated");
    assert!(
        generated.ends_with("console=ttyS0 quiet splash isolcpus=domain,1 skew_tick=1\n"),
        "{generated}"
    );
    assert_eq!(machine.calls(), 1);
    assert_eq!(machine.restore(), [Restored::Written]);
    assert_eq!(machine.files(), before);
    let generated = machine.get("boot/grub/grub.cfg").expect("generated");
    assert!(
        generated.ends_with("console=ttyS0 quiet splash\n"),
        "{generated}"
    );
    assert_eq!(machine.calls(), 2);
    assert!(machine.restore().is_empty());
}

#[test]
fn a_second_plan_adds_to_the_first_and_replaces_its_values() {
    let machine = Machine::grub();
    let before = machine.files();
    machine.apply(&["isolcpus=1", "nosmt"]).expect("configured");
    machine
        .apply(&["isolcpus=2-3", "skew_tick=1"])
        .expect("configured");
    machine.apply(&["skew_tick=1"]).expect("as before");
    let ours = machine.get(DROP_IN).expect("our file");
    assert!(
        ours.ends_with("LINUX_DEFAULT nosmt isolcpus=2-3 skew_tick=1\"\n"),
        "{ours}"
    );
    assert_eq!(machine.journal().entries().len(), 1);
    assert_eq!(machine.restore(), [Restored::Written]);
    assert_eq!(machine.files(), before);
}

#[test]
fn a_parameter_that_is_configured_elsewhere_is_not_added_or_refused() {
    let elsewhere = |machine: &Machine, wanted: &[&str]| {
        let files = machine.files();
        match machine.plan(wanted) {
            Err(BootError::Elsewhere { there, .. }) => {
                assert_eq!(machine.files(), files);
                there
            }
            other => panic!("{other:?}"),
        }
    };
    let machine = Machine::grub();
    for line in [
        "GRUB_CMDLINE_LINUX=\"console=ttyS0 isolcpus=3\"",
        "GRUB_CMDLINE_LINUX='isolcpus=3'",
        "GRUB_CMDLINE_LINUX=isolcpus=3",
        "GRUB_CMDLINE_LINUX_DEFAULT+=\" isolcpus=3\"",
        "export GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=3",
    ] {
        machine.put("etc/default/grub", format!("{GRUB}{line}\n"));
        assert_eq!(elsewhere(&machine, &["isolcpus=1"]), "isolcpus=3", "{line}");
        let plan = machine.plan(&["isolcpus=3"]).expect("it is there");
        assert!(
            plan.parameters.is_empty() && plan.changes.is_empty(),
            "{plan:?}"
        );
    }
    // A comment configures nothing.
    machine.put("etc/default/grub", format!("{GRUB}# isolcpus=3\n"));
    machine.plan(&["isolcpus=1"]).expect("free");
    machine.put(
        "etc/default/grub.d/10-other.cfg",
        "GRUB_CMDLINE_LINUX=rcu-nocbs=3\n",
    );
    assert_eq!(elsewhere(&machine, &["rcu_nocbs=1"]), "rcu-nocbs=3");
    fs::remove_file(machine.path("etc/default/grub.d/10-other.cfg")).expect("removed");
    // Nor does a file know it: a boot loader's environment, a hypervisor.
    machine.put("proc/cmdline", "ro isolcpus=3\n");
    assert_eq!(elsewhere(&machine, &["isolcpus=1"]), "isolcpus=3");
    // A value that was ours until this boot is replaced.
    machine.put("proc/cmdline", "ro\n");
    machine.apply(&["isolcpus=3"]).expect("configured");
    machine.put("proc/cmdline", "ro isolcpus=3\n");
    machine.apply(&["isolcpus=1"]).expect("ours");
    // A parameter that a shell would read differently.
    for odd in ["x=$(reboot)", "a b", "quote=\"", "new\nline", ""] {
        assert!(
            matches!(machine.plan(&[odd]), Err(BootError::Odd { .. })),
            "{odd:?}"
        );
    }
}

#[test]
fn a_boot_loader_that_fails_or_loses_a_parameter_leaves_everything_as_before() {
    let machine = Machine::grub();
    let before = machine.files();
    machine.put("broken", "");
    let error = machine.apply(&["isolcpus=1"]).expect_err("it fails");
    assert!(
        error.to_string().contains("update-grub: no space left"),
        "{error}"
    );
    assert_eq!(machine.files(), before);
    // Its configuration is torn: the shell that reads it fails.
    fs::remove_file(machine.path("broken")).expect("removed");
    machine.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\nGRUB_DEF");
    let error = machine.apply(&["isolcpus=1"]).expect_err("torn");
    assert!(
        matches!(error, TuneError::Boot(BootError::NotWritten { .. })),
        "{error}"
    );
    assert_eq!(machine.get(DROP_IN), None);
    // Bytes that are no text don't hide what follows them.
    let bytes = [
        &[0xff, 0xfe, b'\n'],
        b"GRUB_CMDLINE_LINUX=isolcpus=3\n".as_slice(),
    ]
    .concat();
    machine.put("etc/default/grub", bytes);
    let error = machine.apply(&["isolcpus=1"]).expect_err("it is there");
    assert!(
        matches!(error, TuneError::Boot(BootError::Elsewhere { .. })),
        "{error}"
    );
    // A later file drops what earlier ones set.
    machine.put("etc/default/grub", GRUB);
    machine.put(
        "etc/default/grub.d/zzz.cfg",
        "GRUB_CMDLINE_LINUX_DEFAULT=\n",
    );
    let error = machine.apply(&["isolcpus=1"]).expect_err("it is dropped");
    assert!(
        matches!(error, TuneError::Boot(BootError::NotGenerated { .. })),
        "{error}"
    );
    assert_eq!(machine.get(DROP_IN), None);
    let results = machine.restore();
    assert!(results.iter().all(Restored::is_done), "{results:?}");
    // A restore that fails stays in the journal.
    fs::remove_file(machine.path("etc/default/grub.d/zzz.cfg")).expect("removed");
    machine.apply(&["isolcpus=1"]).expect("configured");
    machine.put("broken", "");
    assert!(matches!(machine.restore()[..], [Restored::Failed(_)]));
    fs::remove_file(machine.path("broken")).expect("removed");
    // The file is as before already, and its reader runs nevertheless.
    let calls = machine.calls();
    assert_eq!(machine.restore(), [Restored::Written]);
    assert_eq!(machine.calls(), calls + 1);
    assert_eq!(machine.files(), before);
}

#[test]
fn odd_files_are_refused_and_stay() {
    let machine = Machine::grub();
    fs::create_dir_all(machine.path("etc/default/grub.d")).expect("a folder");
    symlink("/etc/passwd", machine.path(DROP_IN)).expect("a link");
    let error = machine.plan(&["isolcpus=1"]).expect_err("a link");
    assert!(error.to_string().contains("not a regular file"), "{error}");
    fs::remove_file(machine.path(DROP_IN)).expect("removed");
    machine.put(DROP_IN, vec![b'#'; (1 << 20) + 1]);
    let error = machine.plan(&["isolcpus=1"]).expect_err("large");
    assert!(error.to_string().contains("larger"), "{error}");
    machine.put(DROP_IN, [0xff, 0xfe]);
    assert!(matches!(
        machine.plan(&["isolcpus=1"]),
        Err(BootError::Malformed { .. })
    ));
    // Somebody's file of this name gets a line, and is restored with its mode.
    machine.put(DROP_IN, "GRUB_TIMEOUT=7");
    fs::set_permissions(machine.path(DROP_IN), fs::Permissions::from_mode(0o600)).expect("set");
    let before = machine.files();
    machine.apply(&["isolcpus=1"]).expect("configured");
    let now = machine.get(DROP_IN).expect("it");
    assert!(now.starts_with("GRUB_TIMEOUT=7\nGRUB_CMDLINE"), "{now}");
    assert_eq!(machine.restore(), [Restored::Written]);
    assert_eq!(machine.files(), before);
    // What somebody edited since is left alone.
    machine.apply(&["isolcpus=1"]).expect("configured");
    machine.put(DROP_IN, "GRUB_TIMEOUT=8\n");
    assert!(matches!(
        machine.plan(&["nosmt"]),
        Err(BootError::Edited { .. })
    ));
    assert!(matches!(machine.restore()[..], [Restored::Conflict(_)]));
    assert_eq!(machine.get(DROP_IN).as_deref(), Some("GRUB_TIMEOUT=8\n"));
}

#[test]
fn grubby_adds_to_every_kernel_and_to_those_that_come_later() {
    let kernels = "ro root=/dev/sda1 quiet\nro root=/dev/sda1 rescue\n";
    let machine = Machine::new(&[
        ("etc/default/grub", "GRUB_CMDLINE_LINUX=quiet\n"),
        ("etc/kernel/cmdline", "root=/dev/sda1 ro quiet\n"),
        ("kernels", kernels),
    ]);
    machine.install("usr/bin/grubby");
    let before = machine.files();
    machine.apply(&["isolcpus=1", "nosmt"]).expect("configured");
    let now = machine.get("kernels").expect("it");
    assert_eq!(
        now,
        "ro root=/dev/sda1 quiet isolcpus=1 nosmt\nro root=/dev/sda1 rescue isolcpus=1 nosmt\n"
    );
    assert_eq!(
        machine.get("etc/kernel/cmdline").as_deref(),
        Some("root=/dev/sda1 ro quiet isolcpus=1 nosmt\n")
    );
    let again = machine.plan(&["isolcpus=1"]).expect("it is there");
    assert!(again.changes.is_empty(), "{again:?}");
    assert!(matches!(
        machine.plan(&["isolcpus=3"]),
        Err(BootError::Elsewhere { .. })
    ));
    assert_eq!(machine.restore(), [Restored::Written, Restored::Written]);
    assert_eq!(machine.get("kernels").as_deref(), Some(kernels));
    assert_eq!(machine.files(), before);
    machine.put("kernels", "ro nosmt\nro\n");
    assert!(matches!(
        machine.plan(&["nosmt"]),
        Err(BootError::OfSomeKernels { .. })
    ));
}

#[test]
fn the_raspberry_pis_line_stays_one_line() {
    for place in ["boot/firmware/cmdline.txt", "boot/cmdline.txt"] {
        let line = "console=serial0,115200 root=PARTUUID=1-02 rootwait";
        let machine = Machine::new(&[("proc/device-tree/model", "Raspberry Pi 5 Model B\0")]);
        machine.put(place, line);
        machine.apply(&["isolcpus=3"]).expect("configured");
        machine
            .apply(&["isolcpus=2-3", "nosmt"])
            .expect("configured");
        let now = machine.get(place).expect("it");
        assert_eq!(now, format!("{line} isolcpus=2-3 nosmt\n"));
        assert_eq!(machine.restore(), [Restored::Written]);
        assert_eq!(
            machine.get(place).as_deref(),
            Some(line),
            "without a line break, as before"
        );
        machine.put(place, "ro -- --for-init\n");
        machine.apply(&["isolcpus=3"]).expect("configured");
        assert_eq!(
            machine.get(place).as_deref(),
            Some("ro isolcpus=3 -- --for-init\n")
        );
        machine.restore();
        for odd in ["one\ntwo\n", "", " \n"] {
            machine.put(place, odd);
            assert!(matches!(
                machine.plan(&["nosmt"]),
                Err(BootError::Malformed { .. })
            ));
        }
    }
}

#[test]
fn u_boot_menu_keeps_the_parameters_that_it_would_have_without_ours() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tune/loaders/u-boot-update");
    assert!(script.exists());
    for (config, expected) in [
        (None, "ro quiet isolcpus=1"),
        (Some("#U_BOOT_PARAMETERS=\"x\"\n"), "ro quiet isolcpus=1"),
        (
            Some("U_BOOT_PARAMETERS=\"ro debug\""),
            "ro debug isolcpus=1",
        ),
    ] {
        let machine = Machine::new(&[]);
        // Its content is read through no link.
        machine.put("usr/sbin/u-boot-update", fs::read(&script).expect("it"));
        let program = machine.path("usr/sbin/u-boot-update");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("set");
        if let Some(config) = config {
            machine.put("etc/default/u-boot", config);
        }
        let before = machine.files();
        crate::retry_busy(|| machine.apply(&["isolcpus=1"])).expect("configured");
        let menu = machine
            .get("boot/extlinux/extlinux.conf")
            .expect("generated");
        assert!(menu.ends_with(&format!(" {expected}\n")), "{menu}");
        assert_eq!(machine.restore(), [Restored::Written]);
        assert_eq!(machine.files(), before);
    }
}

#[test]
fn without_a_known_boot_loader_nothing_is_planned() {
    assert_eq!(BootLoader::find(&Machine::new(&[]).root()), None);
    // GRUB that reads no files beside its own, as Arch's.
    let machine = Machine::new(&[
        ("etc/default/grub", GRUB),
        ("usr/sbin/grub-mkconfig", ". /etc/default/grub\n"),
    ]);
    machine.install("usr/sbin/update-grub");
    assert_eq!(BootLoader::find(&machine.root()), None);
}

#[test]
fn after_a_reboot_the_status_tells_what_the_kernel_was_booted_with() {
    let machine = Machine::grub();
    machine
        .apply(&["isolcpus=domain,1", "nosmt", "nohz_full=1"])
        .expect("configured");
    let journal = machine.journal();
    let (entry, applied) = status(&journal).pop().expect("an entry");
    // This kernel was not booted with them, and was not rebooted.
    let Applied::Configured(states) = applied else {
        panic!("{applied:?}");
    };
    assert!(
        states.iter().all(|(_, state)| *state == BootState::NotYet),
        "{states:?}"
    );
    machine.put("proc/cmdline", "ro isolcpus=domain,1 nohz_full=1\n");
    machine.put("sys/devices/system/cpu/isolated", "1\n");
    machine.put("sys/devices/system/cpu/nohz_full", "(null)\n");
    let named = |it: &str| it.to_owned();
    assert_eq!(
        boot::states(&machine.root(), entry, true),
        [
            (named("isolcpus=domain,1"), BootState::InForce),
            (named("nosmt"), BootState::Dropped),
            (named("nohz_full=1"), BootState::Ignored),
        ]
    );
    drop(journal);
    // Another boot: a restore is not bound to it.
    let file = machine.folder.path().join("journal.jsonl");
    let text = fs::read_to_string(&file).expect("a journal");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    fs::write(&file, text.replace(boot.trim(), "another-boot")).expect("written");
    machine
        .apply(&["skew_tick=1"])
        .expect("beside those of another boot");
    assert_eq!(machine.journal().entries().len(), 1);
    assert_eq!(machine.restore(), [Restored::Written]);
    assert_eq!(machine.get(DROP_IN), None);
    assert!(!Journal::is_in(machine.folder.path()));
}

/// `isolcpus=managed_irq,` isolates nothing from balancing: no file shows it.
#[test]
fn the_flags_of_isolcpus_decide_which_file_shows_it_in_force() {
    for (parameter, isolated, nohz_full, state) in [
        ("isolcpus=managed_irq,1", "", "", BootState::InForce),
        ("isolcpus=nohz,1", "", "1\n", BootState::InForce),
        ("isolcpus=nohz,1", "1\n", "(null)\n", BootState::Ignored),
        ("isolcpus=1", "", "1\n", BootState::Ignored),
    ] {
        let machine = Machine::grub();
        machine.apply(&[parameter]).expect("configured");
        machine.put("proc/cmdline", format!("ro {parameter}\n"));
        machine.put("sys/devices/system/cpu/isolated", isolated);
        machine.put("sys/devices/system/cpu/nohz_full", nohz_full);
        let journal = machine.journal();
        let (entry, _) = status(&journal).pop().expect("an entry");
        let states = boot::states(&machine.root(), entry, true);
        assert_eq!(states, [(parameter.to_owned(), state)]);
    }
}
