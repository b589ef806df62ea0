//! Random command lines, beside an independent reading of the kernel's rules: a finding is ok only where
//! what was requested is in force and shown, and bad only where it is not in force.
//!
//! The rules are those of Linux 6.1: `next_arg` in lib/cmdline.c, `parse_args` in kernel/params.c,
//! `bitmap_parselist` in lib/bitmap.c, `housekeeping_setup` and its two callers in
//! kernel/sched/isolation.c, `irq_affinity_setup` in kernel/irq/irqdesc.c.

use std::collections::BTreeSet;

use punctual_machine::{Root, Snapshot, check};
use punctual_record::finding::{FindingId, FindingState};

use super::tree::request;

type Cpus = BTreeSet<usize>;

/// CPUs of the machine.
const CPUS: usize = 4;

/// The words of a command line up to `--`, each with its value, as the kernel cuts them.
fn arguments(line: &str) -> Vec<(String, Option<String>)> {
    let letters: Vec<char> = line.chars().collect();
    let (mut at, mut found) = (0, Vec::new());
    while at < letters.len() {
        if letters[at] == ' ' {
            at += 1;
            continue;
        }
        let is_quoted = letters[at] == '"';
        let begin = at + usize::from(is_quoted);
        let (mut in_quote, mut equals, mut end) = (is_quoted, None, begin);
        while end < letters.len() && (in_quote || letters[end] != ' ') {
            if letters[end] == '=' && equals.is_none() && end > begin {
                equals = Some(end);
            }
            if letters[end] == '"' {
                in_quote = !in_quote;
            }
            end += 1;
        }
        let text = |from: usize, to: usize| letters[from..to.max(from)].iter().collect::<String>();
        let closed = |to: usize| to - usize::from(to > begin && letters[to - 1] == '"');
        let argument = match equals {
            None => {
                let end = if is_quoted { closed(end) } else { end };
                (text(begin, end), None)
            }
            Some(equals) => {
                let mut from = equals + 1;
                let mut to = end;
                if letters.get(from) == Some(&'"') {
                    from += 1;
                    to = closed(end);
                } else if is_quoted {
                    to = closed(end);
                }
                (text(begin, equals), Some(text(from, to)))
            }
        };
        if argument == ("--".to_owned(), None) {
            break;
        }
        found.push(argument);
        at = end;
    }
    found
}

/// A list of CPUs; nothing where the kernel refuses it.
fn list(text: &str) -> Option<Cpus> {
    let number = |text: &str| match text {
        "N" => Some(CPUS - 1),
        digits => digits
            .parse::<usize>()
            .ok()
            .filter(|_| digits.bytes().all(|it| it.is_ascii_digit())),
    };
    let mut cpus = Cpus::new();
    for region in text.split([',', ' ']).filter(|region| !region.is_empty()) {
        let (range, group) = match region.split_once(':') {
            Some((range, group)) => {
                let (used, size) = group.split_once('/')?;
                (range, Some((number(used)?, number(size)?)))
            }
            None => (region, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range.eq_ignore_ascii_case("all") => (0, CPUS - 1),
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        let (used, size) = group.unwrap_or((1, 1));
        if first > last || last >= CPUS || used == 0 || used > size {
            return None;
        }
        cpus.extend((first..=last).filter(|cpu| (cpu - first) % size < used));
    }
    Some(cpus)
}

/// What the kernel makes of a command line.
#[derive(Debug, Default)]
struct Kernel {
    /// What is not housekeeping: of domains, of ticks, of managed interrupts.
    apart: [Option<Cpus>; 3],
    interrupts: Option<Cpus>,
    /// The parameters that it took, with their lists.
    taken: Vec<(String, Cpus)>,
    /// The lists of `rcu_nocbs=`, of which the last counts.
    callbacks: Vec<Option<Cpus>>,
    refused: bool,
    /// It took a parameter that no file shows.
    unshown: bool,
    /// The CPU that it boots on keeps the tick that it was to lose.
    boot_ticks: bool,
}

const DOMAIN: usize = 0;
const TICK: usize = 1;
const MANAGED: usize = 2;

impl Kernel {
    fn boot(line: &str) -> Self {
        let mut kernel = Self::default();
        for (name, value) in arguments(line) {
            let value = value.unwrap_or_default();
            let taken = match name.replace('-', "_").as_str() {
                "isolcpus" => kernel.isolcpus(&value),
                "rcu_nocbs" => {
                    kernel.callbacks.push(list(&value));
                    continue;
                }
                "nohz_full" => list(&value).filter(|cpus| kernel.set_apart(cpus, &[TICK])),
                "irqaffinity" => {
                    let cpus = list(&value);
                    // The CPU that it boots on is added, also to nothing.
                    let mut with_boot = cpus.clone().unwrap_or_default();
                    with_boot.insert(0);
                    kernel.interrupts = Some(with_boot);
                    cpus
                }
                _ => continue,
            };
            match taken {
                Some(cpus) => kernel.taken.push((name, cpus)),
                None => kernel.refused = true,
            }
        }
        kernel
    }

    fn isolcpus(&mut self, value: &str) -> Option<Cpus> {
        let mut rest = value;
        let mut kinds = Vec::new();
        while rest.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            let (flag, after) = rest.split_once(',')?;
            match flag {
                "nohz" => kinds.push(TICK),
                "domain" => kinds.push(DOMAIN),
                "managed_irq" => kinds.push(MANAGED),
                other
                    if other
                        .chars()
                        .all(|it| it.is_ascii_alphabetic() || it == '_') => {}
                _ => return None,
            }
            rest = after;
        }
        if kinds.is_empty() {
            kinds.push(DOMAIN);
        }
        self.unshown |= kinds == [MANAGED];
        let taken = list(rest).filter(|cpus| self.set_apart(cpus, &kinds));
        let has_boot = taken.as_ref().is_some_and(|cpus| cpus.contains(&0));
        self.boot_ticks |= has_boot && kinds.contains(&TICK);
        taken
    }

    /// A second list for the same kind must be the same.
    fn set_apart(&mut self, cpus: &Cpus, kinds: &[usize]) -> bool {
        let mut cpus = cpus.clone();
        if cpus.len() == CPUS {
            cpus.remove(&0);
        }
        let differs = |kind: &usize| {
            self.apart[*kind]
                .as_ref()
                .is_some_and(|known| *known != cpus)
        };
        if kinds.iter().any(differs) {
            return false;
        }
        for kind in kinds {
            self.apart[*kind] = Some(cpus.clone());
        }
        true
    }

    fn isolated(&self) -> Cpus {
        self.apart[DOMAIN].clone().unwrap_or_default()
    }

    fn without_tick(&self) -> Cpus {
        let mut cpus = self.apart[TICK].clone().unwrap_or_default();
        cpus.remove(&0);
        cpus
    }

    /// Whether all that was requested is in force, and nothing contradicts it.
    fn is_as_requested(&self) -> bool {
        let apart: Cpus = self
            .isolated()
            .union(&self.without_tick())
            .copied()
            .collect();
        let is_in_force = |(name, cpus): &(String, Cpus)| match name.replace('-', "_").as_str() {
            "nohz_full" => cpus.is_subset(&self.without_tick()),
            "irqaffinity" => {
                let mut with_boot = cpus.clone();
                with_boot.insert(0);
                self.interrupts.as_ref() == Some(&with_boot) && cpus.is_disjoint(&apart)
            }
            _ => self
                .apart
                .iter()
                .flatten()
                .any(|of_kind| cpus.is_subset(of_kind)),
        };
        !self.refused
            && !self.boot_ticks
            && self.callbacks.windows(2).all(|it| it[0] == it[1])
            && self
                .taken
                .iter()
                .all(|it| !it.1.is_empty() && is_in_force(it))
    }
}

/// A generator that gives the same each time.
struct Dice(u64);

impl Dice {
    fn one_of<'t>(&mut self, words: &[&'t str]) -> &'t str {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        words[(self.0 >> 33) as usize % words.len()]
    }
}

fn line(dice: &mut Dice) -> String {
    const NAMES: &[&str] = &[
        "isolcpus",
        "nohz_full",
        "nohz-full",
        "irqaffinity",
        "rcu_nocbs",
        "quiet",
    ];
    const FLAGS: &[&str] = &[
        "",
        "",
        "",
        "domain,",
        "managed_irq,",
        "nohz,",
        "domain,managed_irq,",
        "of_tomorrow,",
        "2x,",
    ];
    const LISTS: &[&str] = &[
        "2-3",
        "2-3",
        "1",
        "3",
        "0",
        "0-1",
        "0-3",
        "",
        "3-2",
        "8-9",
        "2,,3",
        ",2",
        "all",
        "N",
        "1-N",
        "2-N",
        "0-3:1/2",
        "2-",
        "-3",
        "x",
        "2-3,domain",
        "0-3:2",
        "2-9",
        "18446744073709551618",
    ];
    let mut words = Vec::new();
    for _ in 0..4 {
        let name = dice.one_of(NAMES);
        let flags = if name == "isolcpus" {
            dice.one_of(FLAGS)
        } else {
            ""
        };
        let value = format!("{flags}{}", dice.one_of(LISTS));
        words.push(
            match dice.one_of(&[
                "plain", "plain", "plain", "plain", "quoted", "whole", "blank", "end", "bare",
            ]) {
                "quoted" => format!("{name}=\"{value}\""),
                "whole" => format!("\"{name}={value}\""),
                "blank" => format!("{name}=\"{value} 3\""),
                "end" => format!("-- {name}={value}"),
                "bare" => name.to_owned(),
                _ => format!("{name}={value}"),
            },
        );
    }
    words.join(" ")
}

fn shown(cpus: &Cpus) -> String {
    let cpus: Vec<usize> = cpus.iter().copied().collect();
    format!("{}\n", punctual_record::cpu_list(&cpus))
}

fn state(line: &str, kernel: &Kernel) -> FindingState {
    let mask: Vec<usize> = match &kernel.interrupts {
        Some(cpus) => cpus.iter().copied().collect(),
        None => (0..CPUS).collect(),
    };
    let read = |text: String| serde_json::json!({"read": ["text", text]});
    let snapshot = serde_json::json!({
        "version": 1,
        "files": {
            "/proc/cmdline": read(format!("{line}\n")),
            "/proc/sys/kernel/osrelease": read("6.1.0-20-rt-amd64\n".to_owned()),
            "/sys/devices/system/cpu/online": read("0-3\n".to_owned()),
            "/sys/devices/system/cpu/possible": read("0-3\n".to_owned()),
            "/sys/devices/system/cpu/isolated": read(shown(&kernel.isolated())),
            "/sys/devices/system/cpu/nohz_full": read(shown(&kernel.without_tick())),
            "/proc/irq/default_smp_affinity": read(punctual_record::cpu_mask(&mask)),
        },
        "links": {}, "names": {}, "present": {}, "answers": {},
    });
    let snapshot = Snapshot::parse(snapshot.to_string().as_bytes()).expect("a snapshot");
    let check = check(&Root::of_snapshot(snapshot), &request());
    let finding = check.finding(FindingId::ParameterNotInForce).expect("each");
    finding.state.clone()
}

/// `PUNCTUAL_TEST_LINES=10000` for more.
#[test]
fn a_request_at_boot_is_ok_only_in_force_and_bad_only_if_not() {
    let lines = std::env::var("PUNCTUAL_TEST_LINES").ok();
    let lines: usize = lines.map_or(1_500, |text| text.parse().expect("a number"));
    let mut dice = Dice(20_261_130);
    let mut ok = 0;
    for _ in 0..lines {
        let line = line(&mut dice);
        let kernel = Kernel::boot(&line);
        match state(&line, &kernel) {
            FindingState::Ok => {
                assert!(kernel.is_as_requested(), "{line}\n{kernel:?}");
                assert!(!kernel.taken.is_empty(), "{line}");
                assert!(!kernel.unshown, "{line}");
                ok += 1;
            }
            FindingState::Bad { .. } => assert!(!kernel.is_as_requested(), "{line}\n{kernel:?}"),
            _ => {}
        }
    }
    // It is no answer to know nothing.
    assert!(ok > lines / 100, "{ok} of {lines}");
}

#[test]
fn the_model_reads_what_the_kernel_is_known_to_read() {
    let cut = |line| {
        let words = arguments(line).into_iter();
        words
            .map(|(name, value)| format!("{name}:{}", value.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        cut("a=1 \"b=2 3\" c=\"4 5\" d -- e=6"),
        ["a:1", "b:2 3", "c:4 5", "d:"]
    );
    for (text, cpus) in [
        ("1-N", Some(&[1, 2, 3][..])),
        ("all", Some(&[0, 1, 2, 3])),
        ("0-3:1/2", Some(&[0, 2])),
        (",2,,3", Some(&[2, 3])),
        ("", Some(&[])),
        ("3-2", None),
        ("4", None),
        ("2-", None),
    ] {
        assert_eq!(
            list(text),
            cpus.map(|cpus| cpus.iter().copied().collect()),
            "{text}"
        );
    }
    let twice = Kernel::boot("isolcpus=2-3 isolcpus=managed_irq,2 nohz_full=0,3");
    assert_eq!(twice.isolated(), Cpus::from([2, 3]));
    assert_eq!(twice.without_tick(), Cpus::from([3]));
    assert!(!twice.refused);
    assert!(Kernel::boot("nohz_full=2 isolcpus=nohz,3").refused);
}
