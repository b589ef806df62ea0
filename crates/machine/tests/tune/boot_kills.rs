//! Boot parameters are configured and restored, and killed meanwhile: files, and what the boot
//! loader's program makes of them, are as before.

use std::path::Path;
use std::time::Instant;

use punctual_machine::Root;
use punctual_machine::tune::boot::{self, BootLoader};
use punctual_machine::tune::{Journal, RestoreRequest, restore};

use crate::boot::{Machine, wanted};
use crate::{FOLDER, RESTORES, Random, child_of, helper, kill_after, open_again};

#[test]
#[ignore = "a helper of another test, which is killed"]
fn child_configures_or_restores() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let mut journal = Journal::open(folder).expect("a journal");
    if std::env::var_os(RESTORES).is_some() {
        restore(&mut journal, &RestoreRequest::default()).expect("restored");
        return;
    }
    let root = Root::recorded(folder.join("root"));
    let parameters = [wanted("isolcpus=1"), wanted("skew_tick=1")];
    let loader = BootLoader::find(&root).expect("a boot loader");
    let plan = loader.plan(&root, &parameters, journal.entries());
    boot::apply(&mut journal, &plan.expect("a plan")).expect("configured");
}

/// Kills that many; `generated` is what the boot loader's program writes.
fn kill_often(machine: &Machine, kills: u32, generated: &str) {
    const CHILD: &str = "boot_kills::child_configures_or_restores";
    let folder = machine.folder.path();
    let configure = || child_of(CHILD, folder);
    let begin = Instant::now();
    configure().wait().expect("it ends");
    let whole = begin.elapsed().mul_f64(1.2);
    machine.restore();
    let before = (machine.files(), machine.get(generated));
    let now = || (machine.files(), machine.get(generated));
    let journal = folder.join("journal.jsonl");
    let is_intended = || journal.metadata().is_ok_and(|it| it.len() > 0);
    let mut random = Random(0x2545_f491);
    let (mut changed, mut unchanged) = (0, 0);
    for kill in 0..kills {
        let mut child = configure();
        // A third of the kills come soon, a third when the journal is written, the others later.
        let span = match kill % 3 {
            0 => whole / 8,
            1 => {
                while !is_intended() && child.try_wait().is_ok_and(|it| it.is_none()) {
                    std::thread::yield_now();
                }
                whole / 3
            }
            _ => whole,
        };
        kill_after(child, random.part_of(span));
        *if now() == before {
            &mut unchanged
        } else {
            &mut changed
        } += 1;
        if kill % 2 == 0 {
            let mut command = helper(CHILD, folder);
            let child = command.env(RESTORES, "1").spawn().expect("a child");
            kill_after(child, random.part_of(whole));
        }
        let results = restore(&mut open_again(&machine.folder), &RestoreRequest::default());
        let results = results.expect("a journal");
        assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
        assert_eq!(now(), before, "after kill {kill}: {results:?}");
        // What a killed one started has ended: the restore waited for it.
        if let (Some(calls), Some(ended)) = (machine.get("calls"), machine.get("ended")) {
            let counts = (calls.lines().count(), ended.lines().count());
            assert_eq!(counts.0, counts.1, "after kill {kill}");
        }
        assert!(machine.restore().is_empty(), "nothing is left");
    }
    println!("killed with files changed {changed}, with none {unchanged}");
    assert!(changed > 0 && unchanged > 0, "{changed} {unchanged}");
}

#[test]
fn after_a_kill_the_configuration_of_grub_is_restored() {
    let machine = Machine::grub();
    machine.put("slow", "");
    kill_often(&machine, 160, "boot/grub/grub.cfg");
}

#[test]
fn after_a_kill_the_arguments_of_each_kernel_are_restored() {
    let machine = Machine::new(&[
        ("etc/default/grub", "GRUB_CMDLINE_LINUX=quiet\n"),
        ("etc/kernel/cmdline", "root=/dev/sda1 ro quiet\n"),
        ("kernels", "ro quiet\nro rescue\n"),
    ]);
    machine.install("usr/bin/grubby");
    kill_often(&machine, 60, "kernels");
}

#[test]
fn after_a_kill_the_raspberry_pis_line_is_restored() {
    let machine = Machine::new(&[
        ("proc/device-tree/model", "Raspberry Pi 5 Model B\0"),
        ("boot/firmware/cmdline.txt", "root=PARTUUID=1-02 rootwait"),
    ]);
    kill_often(&machine, 60, "boot/firmware/cmdline.txt");
}
