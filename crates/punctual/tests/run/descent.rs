//! Culprits that have ended: who started them, and the advice about what these start next.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::advice::{alive, commands, executed, run_that_met};
use crate::alone::alone;
use crate::common::groups::{Group, join, real_time_groups};
use crate::common::needs::{self, Absent};
use crate::common::{Place, copy_program, cpus, need, skip};
use crate::culprits::measure_for_bills;
use punctual_machine::tune::find_thread;
use punctual_record::explanation::{Ancestor, Cause, Culprit};
use punctual_report::explain::{bill_section, fix};
use punctual_report::style::Style;

/// A file that the shell executes: its name is the program's.
fn script(place: &Place, name: &str, text: &str) {
    let path = place.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, executable).expect("it is ours");
}

/// A shell in a group starts one program after the other that is in the way, and ends.
#[test]
fn a_bill_names_who_started_a_culprit_that_has_ended() {
    need!(real_time_groups());
    let _alone = alone();
    let files = [("cpu.rt_runtime_us", "300000")];
    let group = Group::with("launcher", &files).expect("a group");
    let cpu = cpus()[0];
    let place = Place::new();
    // Some 10 ms.
    script(
        &place,
        "brief",
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done",
    );
    let text =
        format!("while [ ! -e over ]; do chrt -f 91 taskset -c {cpu} ./brief -x; sleep 0.15; done");
    script(&place, "launcher", &text);
    let mut launcher = place.command(place.path().join("launcher"));
    join(&mut launcher, &group.0);
    let mut launcher = launcher.spawn().expect("a shell");
    let ran = measure_for_bills(&place, cpu);
    let run = place.run_of();
    let explanation = run.explanation.as_ref().expect("it was traced");
    let cause = |cause: &Cause| matches!(cause, Cause::Thread { task, .. } if task == "brief");
    let bills = explanation.bills.iter().enumerate();
    let its: Vec<(usize, &Culprit)> = bills
        .flat_map(|(index, bill)| bill.rows.iter().map(move |row| (index + 1, row)))
        .filter(|(_, row)| cause(&row.cause))
        .flat_map(|(number, row)| row.by.iter().map(move |by| (number, by)))
        .collect();
    let ended = its.iter().filter(|(_, by)| by.ended).count();
    assert!(ended > 1, "{ran:?} {explanation:?}");
    let group_name = group.0.file_name().expect("a name").to_string_lossy();
    for (number, by) in &its {
        let (pid, parent) = (launcher.id(), &by.parents[0]);
        assert_eq!((by.pid, by.priority), (Some(by.tid), 91), "{by:?}");
        assert_eq!((&*parent.name, parent.tid), ("launcher", Some(pid)));
        assert_eq!(parent.start.is_some(), by.ended, "{by:?}");
        let command = by.command.as_deref().unwrap_or_default();
        assert_eq!(command, "/bin/sh ./brief -x", "{by:?}");
        let its = by.group.as_deref().unwrap_or_default();
        assert!(its.ends_with(&*group_name), "{by:?}");
        let said = bill_section(&run, *number, &Style::plain()).join(" ");
        let said: Vec<&str> = said.split_whitespace().collect();
        let said = said.join(" ");
        assert!(said.contains(&format!("launcher (TID {pid})")), "{said}");
    }
    // The advice is about what starts it.
    let (_, by) = its.iter().find(|(_, by)| by.ended).expect("one ended");
    let cause = Cause::Thread {
        task: "brief".to_owned(),
        policy: by.policy.clone(),
        priority: by.priority,
    };
    let advice = fix(&cause, &run).expect("an advice");
    if cpus().len() > 1 {
        let wanted = format!("sudo punctual tune apply affinity@{}:", launcher.id());
        assert!(advice.contains(&wanted), "{advice}");
    }
    assert_eq!(advice.matches("had ended").count(), 1, "{advice}");
    std::fs::write(place.path().join("over"), "").expect("a file");
    launcher.wait().expect("it ends");
}

/// What it starts from then on inherits its CPUs.
#[test]
fn advice_about_what_had_ended_moves_what_its_parent_starts() {
    need!(needs::root());
    if cpus() != [0, 1] {
        skip!(Absent::hardware("CPUs 0 and 1, and no others"));
    }
    // A shell by its name starts programs of every kind, and is not to be moved.
    let place = Place::new();
    let script = place.path().join("backup");
    copy_program(Path::new("/bin/sh"), &script);
    let mut shell = Command::new(&script);
    let grep = "grep Cpus_allowed_list /proc/self/status";
    shell.args(["-c", &format!("while read go; do {grep}; done")]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("sh");
    let mut asks = shell.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(shell.stdout.take().expect("a pipe"));
    let mut cpus_of_child = || {
        writeln!(asks, "go").expect("it reads");
        let mut line = String::new();
        answers.read_line(&mut line).expect("it answers");
        line
    };
    let before = cpus_of_child();
    let found = find_thread(i32::try_from(shell.id()).expect("small")).expect("it lives");
    let cause = Cause::Thread {
        task: "hog".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 90,
    };
    let ended = Culprit {
        ended: true,
        start: None,
        parents: vec![Ancestor {
            name: found.name,
            tid: Some(shell.id()),
            start: Some(found.start),
        }],
        ..alive(4711, 0)
    };
    let advice = fix(&cause, &run_that_met(&cause, &[ended])).expect("an advice");
    let commands = commands(&advice);
    assert_eq!(commands.len(), 1, "{advice}");
    let done = executed(&place, &commands[0]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(cpus_of_child(), "Cpus_allowed_list:\t1\n", "{advice}");
    let undone = executed(&place, "sudo punctual tune restore");
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(cpus_of_child(), before);
    drop(asks);
    shell.wait().expect("it ends");
}
