//! Flags of `measure tcp`, `measure udp`, `measure raw`, `qualify --path`, and `respond`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::units;
use super::values::{burst, cpu_list, message_size, priority};
use super::{CONDITIONS, PATH, PolicyName};
use punctual_record::path::Transport;

pub(super) const RESPOND_EXAMPLES: &str = "\
Examples:
  punctual respond 10.0.0.2                 prints a token; on the other machine:
  PUNCTUAL_TOKEN=... punctual measure tcp 10.0.0.2
  punctual respond 10.0.0.2 --token-file /etc/punctual/token -a 3
  punctual respond 127.0.0.1:7000 --once    ends after one session";

/// What goes to the other machine, and how.
#[derive(Debug, Args)]
pub struct PathFlags {
    /// Send messages of this length in bytes, replies as long; of several, 64,1400, one after the other [default: 256]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = message_size, allow_hyphen_values = true, help_heading = PATH)]
    pub size: Vec<u32>,
    /// Send this number of messages at each instant [default: 1]
    #[arg(long, value_name = "N", value_parser = burst, allow_hyphen_values = true, help_heading = PATH)]
    pub burst: Option<u32>,
    /// Pass each message to the kernel this long before its instant, in us or with a unit; a queueing discipline, fq or etf with offload, sends it then (SO_TXTIME); not over TCP
    #[arg(long, value_name = "TIME", value_parser = units::latency, allow_hyphen_values = true, help_heading = PATH)]
    pub txtime: Option<u64>,
    /// Count a message as lost if its reply takes longer than this, in s or with a unit [default: 1, or 10 deadlines if that is longer]
    #[arg(long, value_name = "TIME", value_parser = units::duration, allow_hyphen_values = true, help_heading = PATH)]
    pub timeout: Option<u64>,
    /// Read the token of the responder from this file [default: the variable PUNCTUAL_TOKEN]
    #[arg(long, value_name = "FILE", help_heading = PATH)]
    pub token_file: Option<PathBuf>,
    /// Don't use the kernel's time stamps, nor its events: late messages are not explained
    #[arg(long, help_heading = PATH)]
    pub no_stamps: bool,
}

impl PathFlags {
    /// The first of these flags that was given.
    #[must_use]
    pub fn first_given(&self) -> Option<&'static str> {
        [
            ("--size", !self.size.is_empty()),
            ("--burst", self.burst.is_some()),
            ("--txtime", self.txtime.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--token-file", self.token_file.is_some()),
            ("--no-stamps", self.no_stamps),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}

/// Flags of `respond`.
#[derive(Debug, Args)]
pub struct RespondFlags {
    /// Listen on this address of this machine, at port 7380 if none is given; 0.0.0.0 or [::] for all of its addresses
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Read the token that senders must know from this file [default: the variable PUNCTUAL_TOKEN, else a random one, which is printed]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Answer Ethernet frames too, for measure raw; keeps the capability CAP_NET_RAW
    #[arg(long)]
    pub raw: bool,
    /// End after the first session
    #[arg(long)]
    pub once: bool,
    /// Name at the end of a session what had the CPU while messages waited for the thread that replies, or to be received: the sender's bills name it; needs -a with one CPU, and keeps the capabilities CAP_BPF and CAP_PERFMON
    #[arg(long)]
    pub explain: bool,
    /// Refuse messages longer than this, in bytes
    #[arg(long, value_name = "BYTES", default_value = "65536", value_parser = message_size, allow_hyphen_values = true)]
    pub most_bytes: u32,
    /// Refuse sessions longer than this, in s or with a unit: 60, 5m, 1h, 1d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = units::duration, allow_hyphen_values = true)]
    pub most_time: u64,

    /// Set the real-time priority of the thread that replies, 1 to 99 [default: 80; none with --policy other]
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_hyphen_values = true, help_heading = CONDITIONS)]
    pub priority: Option<u32>,
    /// Set its scheduling policy
    #[arg(long, value_name = "POLICY", default_value = "fifo", help_heading = CONDITIONS)]
    pub policy: PolicyName,
    /// Let it use these CPUs: 3-5,0 or !1-2 [default: all allowed]
    #[arg(short, long, value_name = "CPUS", value_parser = cpu_list, allow_hyphen_values = true, help_heading = CONDITIONS)]
    pub affinity: Option<String>,
    /// Leave the machine as it is: do not set cpu_dma_latency
    #[arg(long, help_heading = CONDITIONS)]
    pub as_deployed: bool,

    /// Print nothing but errors, and the token if it is a random one
    #[arg(short, long)]
    pub quiet: bool,
}

/// Over what messages go, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TransportName {
    /// One TCP connection
    Tcp,
    /// Datagrams of UDP
    Udp,
    /// Ethernet frames, to a machine on the same Ethernet
    Raw,
}

impl From<TransportName> for Transport {
    fn from(name: TransportName) -> Self {
        match name {
            TransportName::Tcp => Self::Tcp,
            TransportName::Udp => Self::Udp,
            TransportName::Raw => Self::Raw,
        }
    }
}
