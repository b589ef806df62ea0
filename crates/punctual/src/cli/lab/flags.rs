//! The flags of `lab` as plain data.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::flags::names;
use super::super::units;
use super::experiment::shipped;
use punctual_lab::kernel::modules::is_file;
use punctual_load::KERNEL_PATHS_NAME;

/// Examples in the help.
pub const LAB_EXAMPLES: &str = "\
Examples:
  punctual lab                              rt beside standard, each native load by itself
  punctual lab --kernel rt --load files,hackbench -- measure nanosleep -D 5
  punctual lab --kernel ./bzImage --param preempt=full -- ./my_control_loop --rate 1000
  punctual lab run rt-vs-standard           four preemption models, all loads
  punctual lab compare A B                  which loads differ, by how many ns
  git bisect run punctual lab bisect --build 'make -j8' --kernel ./vmlinux -- qualify --deadline 50us
  punctual lab verify A                     runs it again: identical, or the first difference

Times are virtual: one instruction is one nanosecond, whatever the host does.";

/// Flags of `lab`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabFlags {
    /// What to do with what was recorded
    #[command(subcommand)]
    pub action: Option<LabAction>,
    /// What is made.
    #[command(flatten)]
    pub guest: GuestFlags,
}

/// Flags that say which guests run what.
#[derive(Debug, Args)]
pub struct GuestFlags {
    /// Boot these kernels: rt, standard, cloud, a version (6.12-rt), a package or an image; separated by commas
    #[arg(long, value_name = "KERNELS", default_value = DEFAULT_KERNELS, value_delimiter = ',', value_parser = names::text(|| vec!["rt", "standard", "cloud"]), hide_possible_values = true, help_heading = GUEST)]
    pub kernel: Vec<String>,
    /// Add a word to the kernel's command line; may be repeated
    #[arg(long, value_name = "WORD", value_parser = parameter, allow_hyphen_values = true, help_heading = GUEST)]
    pub param: Vec<String>,
    /// Load this module first, by its name or by its file, with those that it needs; may be repeated
    #[arg(long, value_name = "NAME|FILE.ko", value_parser = module, help_heading = GUEST)]
    pub module: Vec<String>,
    /// Bring this file or directory along to a path in the guest, a program with its libraries; may be repeated [default path: /lab/bin/NAME]
    #[arg(long, value_name = "FILE[=PATH]", help_heading = GUEST)]
    pub bring: Vec<PathBuf>,
    /// Run everything in this root file system: a directory, a tar (plain, gz, xz, zst) or an OCI layout [default: the program and what it needs]
    #[arg(long, value_name = "PATH", help_heading = GUEST)]
    pub rootfs: Option<PathBuf>,
    /// Run these loads, each in a guest by itself; files+net is both at once; idle is none, native each of the standard load, kernel-paths each of that set [default: idle,native; idle for a program]
    #[arg(long, value_name = "LOADS", value_parser = names::text(loads), hide_possible_values = true, help_heading = GUEST)]
    pub load: Option<String>,
    /// Give the guest this number of processors; with more than one, latencies are not valid
    #[arg(long, value_name = "N", default_value = "1", value_parser = cpus, allow_negative_numbers = true, help_heading = GUEST)]
    pub cpus: usize,
    /// Give the guest this memory, with M or G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory, allow_negative_numbers = true, help_heading = GUEST)]
    pub mem: u64,
    /// Run everything with seeds 1 to N: a maximum holds for one seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = seeds, allow_negative_numbers = true, help_heading = GUEST)]
    pub seeds: u64,
    /// How it is done on the host.
    #[command(flatten)]
    pub host: HostFlags,
    /// Run this in the guest: measure or qualify with their flags, or a program with its arguments [default: measure nanosleep -p 80 -i 1013 -l 4000]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Flags of whatever makes cells: what the host gives and gets.
#[derive(Debug, Args)]
pub struct HostFlags {
    /// Run this number of guests in parallel [default: the host's CPUs]
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true, help_heading = HOST)]
    pub jobs: Option<usize>,
    /// End a guest after this virtual time, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = units::duration, allow_negative_numbers = true, help_heading = HOST)]
    pub virtual_limit: u64,
    /// End a guest after this time of the host, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = units::duration, allow_negative_numbers = true, help_heading = HOST)]
    pub host_limit: u64,
    /// End a guest that takes this processor time of the host before its first process runs, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = units::duration, allow_negative_numbers = true, help_heading = HOST)]
    pub boot_limit: u64,
    /// Print the whole bill of each worst wake-up: the instructions in it, by the kernel's functions
    #[arg(long, conflicts_with = "no_explain", help_heading = OUTPUT)]
    pub explain: bool,
    /// Don't watch what the guests execute: somewhat faster, but no function beside the figures
    #[arg(long, help_heading = HOST)]
    pub no_explain: bool,
    /// Write all runs into this directory [default: punctual-lab-TIME here]
    #[arg(short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Write a test suite for CI as JUnit XML: a case for each kernel and load
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub junit: Option<PathBuf>,
    /// Print the table as JSON
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Print nothing but what a program in the guest prints
    #[arg(short, long, conflicts_with = "json", help_heading = OUTPUT)]
    pub quiet: bool,
}

/// What is booted if nothing is named.
pub const DEFAULT_KERNELS: &str = "rt,standard";

const GUEST: &str = "Guest";
const HOST: &str = "Host";
const OUTPUT: &str = "Output";

/// What `lab` does with records.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Run an experiment: machines and loads as a file names them
    Run(LabRunFlags),
    /// Compare two labs: which loads differ, by how many ns
    Compare(LabCompareFlags),
    /// Run it again: identical, or the first difference
    Verify(LabVerifyFlags),
    /// Judge a commit for `git bisect run`: exit with 0 for PASS, 1 for FAIL, 125 where neither can be told
    Bisect(LabBisectFlags),
}

/// Flags of `lab run`.
#[derive(Debug, Args)]
pub struct LabRunFlags {
    /// Run this experiment: a file in TOML, or one that is shipped: rt-vs-standard, peers, ladder, kernels
    #[arg(value_name = "EXPERIMENT", value_parser = names::PathOr(shipped), hide_possible_values = true)]
    pub experiment: PathBuf,
    /// Run these loads, in the place of those that the file names
    #[arg(long, value_name = "LOADS", value_parser = names::text(loads), hide_possible_values = true, help_heading = GUEST)]
    pub load: Option<String>,
    /// Run everything with seeds 1 to N, in the place of those that the file names
    #[arg(long, value_name = "N", value_parser = seeds, allow_negative_numbers = true, help_heading = GUEST)]
    pub seeds: Option<u64>,
    /// How it is done on the host.
    #[command(flatten)]
    pub host: HostFlags,
}

/// Flags of `lab compare`.
#[derive(Debug, Args)]
pub struct LabCompareFlags {
    /// Compare this lab: its directory
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Compare it with this lab
    #[arg(value_name = "B")]
    pub second: PathBuf,
}

/// Flags of `lab bisect`.
#[derive(Debug, Args)]
pub struct LabBisectFlags {
    /// Run this command of the shell first, in the working directory, to build what is booted; if it fails, the commit is skipped [default: build nothing]
    #[arg(long, value_name = "COMMAND", help_heading = GUEST)]
    pub build: Option<String>,
    /// What is made.
    #[command(flatten)]
    pub guest: GuestFlags,
}

/// Flags of `lab verify`.
#[derive(Debug, Args)]
pub struct LabVerifyFlags {
    /// Verify this: the directory of a lab, or of one of its runs
    #[arg(value_name = "RECORD")]
    pub record: PathBuf,
    /// Run this number of guests in parallel [default: the host's CPUs]
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    pub jobs: Option<usize>,
}

/// What `--load` takes here, for the shells to complete.
pub fn loads() -> Vec<&'static str> {
    let sets = ["idle", "native", KERNEL_PATHS_NAME, "standard"];
    [&sets[..], &names::generators()].concat()
}

/// One word that the kernel takes as it is.
pub fn parameter(text: &str) -> Result<String, String> {
    const OURS: [&str; 8] = [
        "console", "init", "initrd", "panic", "rdinit", "lab.seed", "icount", "root",
    ];
    let name = text.split('=').next().unwrap_or_default();
    if text.is_empty()
        || text.len() > 1024
        || text == "--"
        || !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'"')
    {
        return Err("expected one word without spaces and quotes, such as preempt=full".to_owned());
    }
    if OURS.contains(&name) {
        return Err(format!("the laboratory itself says what {name} is"));
    }
    Ok(text.to_owned())
}

/// The name of a module, or the path of a module's file.
pub fn module(text: &str) -> Result<String, String> {
    if is_file(text) {
        return Ok(text.to_owned());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=60).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected a module's name as lsmod has it (null_blk), or a file (./mine.ko)".to_owned())
    }
}

fn number(text: &str, least: u64, most: u64, what: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected {what} from {least} to {most}")),
    }
}

fn cpus(text: &str) -> Result<usize, String> {
    number(text, 1, 64, "a number of processors").map(|number| number as usize)
}

fn seeds(text: &str) -> Result<u64, String> {
    number(text, 1, 1000, "a number of seeds")
}

fn jobs(text: &str) -> Result<usize, String> {
    number(text, 1, 1024, "a number of machines").map(|number| number as usize)
}

/// MiB.
pub fn memory(text: &str) -> Result<u64, String> {
    punctual_load::parameter::parse_number(text)
        .map(|bytes| bytes >> 20)
        .filter(|mib| (256..=65536).contains(mib))
        .ok_or_else(|| "expected a size from 256M to 64G, such as 1G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_the_kernel_are_one_word_and_not_ours() {
        for text in ["preempt=full", "isolcpus=1,2", "threadirqs", "a.b-c=1"] {
            assert_eq!(parameter(text), Ok(text.to_owned()));
        }
        for text in [
            "",
            "a b",
            "a\tb",
            "--",
            "init=/bin/sh",
            "a=\"b\"",
            "é",
            "panic=0",
        ] {
            assert!(parameter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_have_a_range() {
        assert_eq!(memory("1G"), Ok(1024));
        assert_eq!(memory("512M"), Ok(512));
        for text in ["", "1", "255M", "65G", "-1G", "xG"] {
            assert!(memory(text).is_err(), "{text}");
        }
        assert!(cpus("0").is_err() && cpus("65").is_err() && cpus("x").is_err());
        assert_eq!(cpus("64"), Ok(64));
        for text in ["null_blk", "./a", "../x.ko", "a.ko", "a b.ko.xz"] {
            assert_eq!(module(text), Ok(text.to_owned()));
        }
        for text in ["", "a.c", "..", "a b"] {
            assert!(module(text).is_err(), "{text}");
        }
        assert!(seeds("0").is_err() && jobs("0").is_err());
    }
}
