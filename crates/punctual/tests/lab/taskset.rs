//! Task sets in virtual time: the same figures again, beside their bounds, on both kernels.

use punctual_record::Document;
use std::fs;
use std::process::Command;

use punctual_record::lab::{ChainTime, Lab, LabCell, LabTask};
use punctual_record::taskset::TaskRun;
use punctual_stats::verdict::Outcome;

use super::common::{Place, need, needs};
use super::input::refused;
use super::{flat, lab, ready};

/// The same three tasks twice: with a plain lock, and with one whose holder inherits. Beside them two
/// above all others, which are a chain.
fn inversions() -> String {
    let mut text = "[[task]]\nname = \"beat\"\npriority = 90\ncpu = 0\nperiod = \"5ms\"\n\
        offset = \"4ms\"\nwork = \"100us\"\n\
        [[task]]\nname = \"next\"\npriority = 85\ncpu = 0\nafter = \"beat\"\nwork = \"50us\"\n\
        [[chain]]\nname = \"through\"\ntasks = [\"beat\", \"next\"]\nage = \"1ms\"\nreaction = \"9ms\"\n"
        .to_owned();
    for (lock, begin_ms) in [("plain", 5), ("inherit", 15)] {
        let at = |ms: u32| format!("offset = \"{}ms\"\nperiod = \"20ms\"", begin_ms + ms);
        text += &format!(
            "[[task]]\nname = \"high {lock}\"\npriority = 70\ncpu = 0\n{}\nwork = [{{ run = \"200us\" \
             }}, {{ lock = \"{lock}\", work = \"100us\" }}]\n\
             [[task]]\nname = \"middle {lock}\"\npriority = 60\ncpu = 0\n{}\nwork = \"1500us\"\n\
             [[task]]\nname = \"low {lock}\"\npriority = 50\ncpu = 0\n{}\nwork = [{{ lock = \
             \"{lock}\", work = \"2ms\" }}]\n\
             [[lock]]\nname = \"{lock}\"\nprotocol = \"{lock}\"\n",
            at(1),
            at(1),
            at(0)
        );
    }
    text
}

fn task<'a>(cell: &'a LabCell, name: &str) -> &'a LabTask {
    let task = cell.tasks.iter().find(|task| task.name == name);
    task.unwrap_or_else(|| panic!("{name}: {:?}", cell.tasks))
}

fn worst_ns(cell: &LabCell, name: &str) -> u64 {
    task(cell, name).figures.expect("jobs").max_ns
}

#[test]
fn a_set_repeats_exactly_tells_jobs_beyond_bounds_and_a_plain_lock_inverts_priorities() {
    need!(ready());
    let place = Place::new();
    fs::write(place.path().join("set.toml"), inversions()).expect("written");
    let words = [
        "-o", "a", "--", "exec", "set.toml", "-D", "400ms", "--miss", "0",
    ];
    let shown = flat(&lab(&place, &words).expect(0).stdout);
    for words in ["idle: rt PASS, standard PASS", "beat", "bound", "reaction"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let record = Lab::read(&place.path().join("a")).expect("a lab");
    assert_eq!(record.cells.len(), 2);
    let mut beyond = 0;
    for cell in &record.cells {
        assert_eq!((cell.tasks.len(), cell.status), (8, Some(0)));
        assert!(cell.figures.is_none());
        // Each arrival is a job: of the beat, 4 ms after the start and then every 5 ms.
        for (name, jobs) in [
            ("beat", 80),
            ("next", 80),
            ("low plain", 20),
            ("high inherit", 20),
        ] {
            let task = task(cell, name);
            assert_eq!(task.figures.expect("jobs").samples, jobs, "{name}");
            assert_eq!(task.late, 0, "{name}");
        }
        // None is shorter than its work.
        for (name, least_ns) in [
            ("beat", 100_000),
            ("next", 150_000),
            ("low plain", 3_800_000),
        ] {
            let figures = task(cell, name).figures.expect("jobs");
            assert!(figures.min_ns >= least_ns, "{name}: {figures:?}");
        }
        let bounded = cell
            .tasks
            .iter()
            .filter_map(|it| Some((&it.name, it.bound_ns?)));
        let bounded: Vec<_> = bounded.collect();
        assert_eq!(bounded.len(), 4, "{:?}", cell.tasks);
        // The kernel's costs are those that 95 % of its gaps don't exceed: a job that meets a rarer one
        // is beyond its bound, and the table says so.
        for (name, bound_ns) in bounded {
            let worst_ns = worst_ns(cell, name);
            assert!(worst_ns < bound_ns + 20_000, "{name}: {:?}", cell.tasks);
            beyond += usize::from(worst_ns > bound_ns);
        }
        // No other task delays these two: what the kernel takes for them is less than 30 us.
        assert!(worst_ns(cell, "beat") < 130_000, "{:?}", cell.tasks);
        // 200 us, then what is left of the 2 ms for which low holds the lock, then 100 us; with the
        // plain one middle comes in between.
        let within = |name, from_us: u64| {
            let (worst_ns, from_ns) = (worst_ns(cell, name), from_us * 1000);
            assert!(
                (from_ns..from_ns + 60_000).contains(&worst_ns),
                "{}, {name}: {worst_ns}",
                cell.kernel
            );
        };
        within("high plain", 2800);
        within("high inherit", 1300);
        within("middle plain", 1700);
        within("middle inherit", 2800);
        assert!(task(cell, "high plain").bound_ns.is_none());
        let age = cell.chains.iter().find(|it| it.of == ChainTime::Age);
        let age = age.expect("its age");
        assert_eq!(
            (age.count, age.longer, age.limit_ns),
            (80, 0, Some(1_000_000))
        );
        assert_eq!(age.max_ns, Some(worst_ns(cell, "next")));
    }
    let told = shown.matches(" where the analysis allows ").count();
    assert_eq!(told, beyond, "{shown}");
    // Both kernels schedule the same, and neither takes the same time for it.
    let beats: Vec<u64> = record.cells.iter().map(|it| worst_ns(it, "beat")).collect();
    assert_ne!(beats[0], beats[1]);

    let shown = lab(&place, &["verify", "a"]).expect(0).stdout;
    assert_eq!(shown.matches(": identical").count(), 2, "{shown}");
    let shown = lab(&place, &["compare", "a", "a"]).expect(0).stdout;
    assert!(flat(&shown).contains("All cells are identical"), "{shown}");
    assert!(shown.contains("rt, idle: high plain"), "{shown}");
    let shown = place.run(&["report", "a/rt/idle"]).expect(0).stdout;
    assert!(flat(&shown).contains("through reaction"), "{shown}");
    let page = fs::read_to_string(place.path().join("a/lab.html")).expect("a page");
    assert!(
        page.contains("high plain") && page.contains("through"),
        "no tasks"
    );
}

#[test]
fn libraries_and_commands_come_along_and_jobs_are_explained_if_that_is_requested() {
    need!(ready());
    need!(needs::program("cc"));
    let place = Place::new();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).expect("written");
    write(
        "step.c",
        "static int n; int step(void **p) { n++; *p = &n; return n > 1000; }\n",
    );
    fs::create_dir(place.path().join("lib")).expect("a folder");
    let compiled = Command::new("cc")
        .current_dir(place.path())
        .args(["-shared", "-fPIC", "-o", "lib/step.so", "step.c"])
        .status();
    assert!(compiled.expect("cc").success());
    write(
        "set.toml",
        "[[task]]\nname = \"calls\"\npriority = 60\ncpu = 0\nperiod = \"10ms\"\n\
         work = [{ library = \"./lib/step.so\", function = \"step\" }, { run = \"2ms\" }]\n\
         [[task]]\nname = \"above\"\npriority = 70\ncpu = 0\nperiod = \"10ms\"\noffset = \"1ms\"\n\
         work = \"500us\"\n\
         [[task]]\nname = \"starts\"\ncpu = 0\nperiod = \"50ms\"\ndeadline = \"80ms\"\n\
         work = [{ command = [\"true\"] }]\n",
    );
    let lab_words = ["--kernel", "rt", "--explain", "-o", "a", "--"];
    let words = ["exec", "set.toml", "-D", "300ms", "--miss", "0"];
    lab(&place, &[&lab_words[..], &words].concat()).expect(0);
    let run = place.run_of_path("a/rt/idle");
    assert_eq!(
        run.verdict.as_ref().map(|it| it.outcome),
        Some(Outcome::Pass)
    );
    let tasks: &TaskRun = run.tasks.as_ref().expect("tasks");
    for (task, jobs) in [(0, 30), (1, 30), (2, 6)] {
        assert_eq!(tasks.tasks[task].jobs.latency.count, jobs, "{task}");
        assert!(tasks.tasks[task].fault.is_none());
    }
    let bills = tasks.tasks[0].bills.as_ref().expect("bills");
    assert!(!bills.worst.is_empty());
    for bill in &bills.worst {
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.taken_ns());
    }
    let shown = place.run(&["report", "-v", "a/rt/idle"]).expect(0).stdout;
    assert!(
        flat(&shown).contains("preempted by the task above"),
        "{shown}"
    );
}

#[test]
fn a_set_that_a_guest_cannot_execute_is_refused_in_one_line() {
    let place = Place::new();
    let set = |name: &str, cpu: usize, work: &str| {
        let text = format!(
            "[[task]]\nname = \"a\"\npriority = 5\ncpu = {cpu}\nperiod = \"1ms\"\nwcet = \"1ms\"\n\
             work = [{{ {work} }}]\n"
        );
        fs::write(place.path().join(name), text).expect("written");
    };
    set("two.toml", 1, "run = \"10us\"");
    set("lost.toml", 0, "library = \"./lost.so\", function = \"f\"");
    fs::create_dir(place.path().join("below")).expect("a folder");
    fs::write(place.path().join("up.so"), "").expect("written");
    set(
        "below/up.toml",
        0,
        "library = \"../up.so\", function = \"f\"",
    );
    set("none.toml", 0, "command = [\"no-such-program\"]");
    set("here.toml", 0, "command = [\"./here\"]");
    fs::write(place.path().join("lost"), "#!/bin/sh\n").expect("written");
    let script = place.path().join("lost").display().to_string();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).expect("its mode");
    set("script.toml", 0, &format!("command = [\"{script}\"]"));
    for (words, code, said) in [
        (
            &["two.toml"][..],
            64,
            "two.toml: task a: the guest has no CPU 1, it has 0",
        ),
        (&["two.toml", "--cpu", "3"], 64, "the guest has no CPU 3"),
        (
            &["two.toml", "--cpu", "x"],
            64,
            "expected the number of a CPU",
        ),
        (&["nowhere.toml"], 1, "nowhere.toml: No such file"),
        (
            &["lost.toml"],
            1,
            "lost.toml: library ./lost.so: No such file",
        ),
        (&["none.toml"], 127, "none.toml: no-such-program"),
        (
            &["below/up.toml"],
            64,
            "library ../up.so: expected one below",
        ),
        (
            &["here.toml"],
            64,
            "command ./here: expected a name or an absolute path",
        ),
        (&["script.toml"], 64, "it is a script"),
        (
            &["rt-exec"],
            64,
            "rt-exec: task task2: the guest has no CPU 1",
        ),
        (&["two.toml", "-o", "x"], 64, "-o before --"),
        (&["two.toml", "--analyse"], 64, "--analyse after --"),
        (
            &["two.toml", "--cpu", "0", "--load", "make -j8"],
            64,
            "no shell",
        ),
    ] {
        let words = [&["--", "exec"], words].concat();
        refused(&place, &[], &words, code, said);
    }
    let words = [
        "prove",
        "threadirqs",
        "--",
        "exec",
        "two.toml",
        "--cpu",
        "0",
    ];
    refused(&place, &[], &words, 64, "lab prove compares latencies");
    fs::write(
        place.path().join("max.toml"),
        "command = [\"exec\", \"rt-exec\", \"--cpu\", \"0\"]\nloads = \"idle\"\n\
         [[machine]]\nname = \"a\"\nkernel = \"rt\"\nmax = \"1ms\"\n",
    )
    .expect("written");
    refused(
        &place,
        &[],
        &["run", "max.toml"],
        64,
        "not a program or a task set",
    );
}
