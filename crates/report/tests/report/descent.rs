//! Threads that had ended when `/proc` was read: where they came from, and what to do about the next.

use punctual_record::Run;
use punctual_record::explanation::{Ancestor, Cause, Culprit, RowNote, Stage};
use punctual_report::explain::{bill_section, fix};
use punctual_report::facts::notes;
use punctual_report::style::Style;

use super::bills::bill_of;
use super::fixtures;

fn gzip() -> Cause {
    Cause::Thread {
        task: "gzip".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 91,
    }
}

/// A run of a probe with priority 30 on CPU 0; CPU 1 was not probed.
fn run_that_met(by: Culprit) -> Run {
    let mut run = fixtures::good();
    run.request.cpus = vec![0];
    run.request.priority = 30;
    run.system.processor.online = vec![0, 1];
    let mut bill = bill_of(0, 1, &[(Stage::Switch, gzip(), 5_000)]);
    bill.rows[0].by = vec![by];
    run.explanation.get_or_insert_default().bills = vec![bill];
    run
}

fn ancestor(name: &str, tid: u32, start: Option<u64>) -> Ancestor {
    Ancestor {
        name: name.to_owned(),
        tid: Some(tid),
        start,
    }
}

fn ended(group: Option<&str>, parents: Vec<Ancestor>) -> Culprit {
    Culprit {
        ns: 5_000,
        tid: 4713,
        policy: "SCHED_FIFO".to_owned(),
        priority: 91,
        pid: Some(4713),
        command: Some("gzip -9 a".to_owned()),
        group: group.map(str::to_owned),
        ended: true,
        parents,
        ..Culprit::default()
    }
}

#[test]
fn a_bill_names_the_descent_of_what_had_ended() {
    let line = |by: Culprit| {
        let said = bill_section(&run_that_met(by), 1, &Style::plain()).join(" ");
        let words: Vec<&str> = said.split_whitespace().collect();
        words.join(" ")
    };
    let parents = || {
        let unseen = Ancestor {
            tid: None,
            ..ancestor("cron", 0, None)
        };
        vec![ancestor("backup.sh", 4711, Some(77)), unseen]
    };
    let unit = Some("/system.slice/backup.service");
    let said = line(ended(unit, parents()));
    let whole = "PID 4713, SCHED_FIFO 91, in /system.slice/backup.service, started by \
                 cron → backup.sh (TID 4711): gzip -9 a (ended)";
    assert!(said.contains(whole), "{said}");
    let lives = Culprit {
        ended: false,
        start: Some(77),
        ..ended(unit, parents())
    };
    let said = line(lives);
    assert!(
        said.contains("gzip -9 a ") && !said.contains("ended"),
        "{said}"
    );
    let shares = Culprit {
        policy: "SCHED_OTHER".to_owned(),
        priority: 0,
        nice: Some(5),
        weight: Some(500),
        ..ended(Some("/app"), Vec::new())
    };
    let said = line(shares);
    let whole = "SCHED_OTHER, nice 5, in /app (cpu.weight 500): gzip -9 a (ended)";
    assert!(said.contains(whole), "{said}");
    let unknown = Culprit {
        command: None,
        ..ended(None, Vec::new())
    };
    let said = line(unknown);
    let whole = "PID 4713, SCHED_FIFO 91: it had ended when /proc was read";
    assert!(said.contains(whole), "{said}");
}

#[test]
fn advice_for_what_had_ended_is_for_its_unit_parent_or_group() {
    let advice = |by: Culprit| fix(&gzip(), &run_that_met(by)).expect("an advice");
    let shell = |start| vec![ancestor("backup.sh", 4711, start)];
    let unit = Some("/system.slice/backup.service/deeper");
    assert_eq!(
        advice(ended(unit, shell(Some(77)))),
        "move it: it had ended: CPUAffinity=1 in backup.service; or lower its priority below yours: \
         CPUSchedulingPolicy=fifo and CPUSchedulingPriority=29 in backup.service"
    );
    assert_eq!(
        advice(ended(Some("/app"), shell(Some(77)))),
        "move it: it had ended: move backup.sh (TID 4711), and with it what it starts from then on, which keeps \
         these CPUs: \
         `sudo punctual tune apply affinity@4711:77=1` (for good: let backup.sh (TID 4711) start it \
         with taskset -c 1); or lower its priority below yours: let backup.sh (TID 4711) start it \
         with chrt -f 29"
    );
    // Its parent had ended too.
    let by_group = "move it: it had ended: set cpuset.cpus of its control group /app to 1, or let \
                    backup.sh (TID 4711) start it with taskset -c 1; or lower its priority below \
                    yours: let backup.sh (TID 4711) start it with chrt -f 29";
    assert_eq!(advice(ended(Some("/app"), shell(None))), by_group);
    assert_eq!(
        advice(ended(None, Vec::new())),
        "move it: it had ended: start its program with taskset -c 1; or lower its priority below \
         yours: start its program with chrt -f 29"
    );
    // What is measured is not moved, nor its control group or unit: it is in them.
    for group in [Some("/app"), unit] {
        let mut run = run_that_met(ended(group, shell(Some(77))));
        run.threads[0].tid = 4711;
        let own = "move it: it had ended: your program started it: let it start it with taskset -c 1; \
                   or lower its priority below yours: your program started it: let it start it with \
                   chrt -f 29";
        assert_eq!(fix(&gzip(), &run).as_deref(), Some(own));
    }
}

#[test]
fn a_thread_of_a_process_was_not_started_by_that_process_parent() {
    let of_java = Culprit {
        pid: Some(4700),
        ..ended(None, vec![ancestor("java", 4700, Some(77))])
    };
    let text = fix(&gzip(), &run_that_met(of_java)).expect("an advice");
    let whole = "move it: it had ended: start its program with taskset -c 1; or lower its priority \
                 below yours: start its program with chrt -f 29";
    assert_eq!(text, whole);
}

#[test]
fn no_advice_confines_a_session_or_asks_a_shell_or_a_worker() {
    let whole = "move it: it had ended: start its program with taskset -c 1; or lower its priority \
                 below yours: start its program with chrt -f 29";
    for group in [
        "/user.slice/user-1000.slice/session-3.scope",
        "/user.slice/user-1000.slice/user@1000.service/app.slice/vte.scope",
        "/system.slice/session-3.scope",
    ] {
        for parent in ["bash", "sshd-session", "kworker/u8:3"] {
            let by = ended(Some(group), vec![ancestor(parent, 4711, None)]);
            let text = fix(&gzip(), &run_that_met(by));
            assert_eq!(text.as_deref(), Some(whole), "{group} {parent}");
        }
    }
    // A unit of that user can be changed.
    let unit = "/user.slice/user-1000.slice/user@1000.service/app.slice/app.service";
    let text = fix(&gzip(), &run_that_met(ended(Some(unit), Vec::new())));
    let text = text.expect("an advice");
    assert!(
        text.contains("CPUAffinity=1 in app.service of that user's systemd"),
        "{text}"
    );
    // The units of another systemd, in a container, are not this machine's.
    for group in [
        "/lxc.payload.web/system.slice/cron.service",
        "/system.slice/docker-0123.scope/system.slice/cron.service",
    ] {
        let text = fix(&gzip(), &run_that_met(ended(Some(group), Vec::new())));
        let text = text.expect("an advice");
        assert!(!text.contains(" in cron.service"), "{text}");
    }
}

/// Names are any program's.
#[test]
fn no_name_of_a_parent_or_a_group_looks_like_a_command() {
    for start in [None, Some(77)] {
        let parents = vec![ancestor("`reboot`", 4711, start)];
        let text = fix(&gzip(), &run_that_met(ended(Some("/`halt`"), parents)));
        let text = text.expect("an advice");
        let commands: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        let wanted = "sudo punctual tune apply affinity@4711:77=1";
        let wanted = start.map(|_| wanted);
        assert_eq!(commands, wanted.into_iter().collect::<Vec<_>>(), "{text}");
        assert!(text.contains("'reboot' (TID 4711)"), "{text}");
    }
}

/// What it was is known, and there is nothing to say about where it is started.
#[test]
fn a_kernel_thread_that_had_ended_has_no_program_to_start() {
    let of_kernel = Culprit {
        command: Some(String::new()),
        ..ended(None, vec![ancestor("kthreadd", 2, None)])
    };
    let said = fix(&gzip(), &run_that_met(of_kernel));
    assert_eq!(said.as_deref(), Some("move it: it had ended"));
}

#[test]
fn a_stop_names_its_signal_and_its_sender_or_the_debugger() {
    let stop = |signal| {
        let sender = Culprit {
            name: Some("pkill".to_owned()),
            command: Some("pkill -STOP app".to_owned()),
            ..ended(None, vec![ancestor("backup.sh", 4711, None)])
        };
        let thread = Some(Box::new(sender));
        notes(&[RowNote::StoppedBy { signal, thread }]).expect("a note")
    };
    let sender = "PID 4713, SCHED_FIFO 91, started by backup.sh (TID 4711): pkill -STOP app \
                  (ended)";
    assert_eq!(stop(Some(19)), format!("SIGSTOP by pkill, {sender}"));
    assert_eq!(stop(Some(20)), format!("SIGTSTP by pkill, {sender}"));
    assert_eq!(stop(None), format!("traced by pkill, {sender}"));
    let by_terminal = RowNote::StoppedBy {
        signal: Some(20),
        thread: None,
    };
    let said = notes(&[by_terminal]);
    assert_eq!(said.as_deref(), Some("SIGTSTP by the terminal"));
}
