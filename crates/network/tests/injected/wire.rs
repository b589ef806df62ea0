//! A wire between two namespaces: it delays each frame by the same time, and drops what a rule says.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;

use punctual_rt::clock;
use punctual_rt::sched::Policy;
use punctual_rt::thread::Builder;

use crate::netns::Namespace;

/// What the rule of a wire sees of a frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame {
    /// It goes from the sender to the responder.
    pub there: bool,
    /// A request of ARP.
    pub is_arp: bool,
    /// Bytes of data of TCP.
    pub payload: usize,
    /// TCP's sequence number.
    pub sequence: u32,
}

/// Says whether a frame is lost.
pub type Rule = Arc<dyn Fn(&Frame) -> bool + Send + Sync>;

/// Two namespaces, connected.
pub struct Net {
    pub a: Namespace,
    pub b: Namespace,
    /// The responder's address.
    pub address: String,
    /// The network: no two nets have the same addresses.
    pub prefix: String,
}

impl Net {
    /// With a delay in each direction; the wire's threads run on this CPU.
    pub fn new(delay_ns: u64, cpu: usize, rule: Rule) -> std::io::Result<Self> {
        Self::with_napi(delay_ns, cpu, rule, false)
    }

    /// The same; with `napi` the sender's device receives by NAPI.
    pub fn with_napi(delay_ns: u64, cpu: usize, rule: Rule, napi: bool) -> std::io::Result<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let prefix = format!("10.77.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (a, b) = (Namespace::new()?, Namespace::new()?);
        let ends = [a.tap("ta", napi)?, b.tap("tb", false)?];
        carry(&ends[0], &ends[1], true, delay_ns, cpu, &rule)?;
        carry(&ends[1], &ends[0], false, delay_ns, cpu, &rule)?;
        for (side, number, device) in [(&a, 1, "ta"), (&b, 2, "tb")] {
            side.shell(&format!(
                "ip link set lo up
                 ip addr add {prefix}.{number}/24 dev {device}
                 ip link set {device} up"
            ));
        }
        // Some systems have one by default that paces.
        for side in [&a, &b] {
            side.shell("echo reno > /proc/sys/net/ipv4/tcp_congestion_control");
        }
        let address = format!("{prefix}.2");
        Ok(Self {
            a,
            b,
            address,
            prefix,
        })
    }

    /// No probe of a lost tail on either side: a message that only waits for a thread would be sent again,
    /// and its time stamps would be those of the copy.
    pub fn no_loss_probe(&self) {
        for side in [&self.a, &self.b] {
            side.shell("echo 0 > /proc/sys/net/ipv4/tcp_early_retrans");
        }
    }

    /// Shorter retransmission time-outs on both sides.
    pub fn rto_min(&self, ms: u32) {
        let prefix = &self.prefix;
        for (side, number, device) in [(&self.a, 1, "ta"), (&self.b, 2, "tb")] {
            side.shell(&format!(
                "ip route replace {prefix}.0/24 dev {device} src {prefix}.{number} rto_min {ms}ms"
            ));
        }
    }
}

/// Carries frames in one direction, until an end is closed.
fn carry(
    from: &File,
    to: &File,
    there: bool,
    delay_ns: u64,
    cpu: usize,
    rule: &Rule,
) -> std::io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    let rule = Arc::clone(rule);
    let (send, receive) = channel::<(u64, Vec<u8>)>();
    let thread = || {
        let builder = Builder::new().name("wire");
        builder.policy(Policy::Fifo(70)).cpus(&[cpu])
    };
    let reader = thread().spawn(move |_| {
        let mut bytes = [0u8; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            let frame = parse(&bytes[..count], there);
            if rule(&frame) {
                continue;
            }
            let due_ns = clock::now_ns() + delay_ns;
            if send.send((due_ns, bytes[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    let writer = thread().spawn(move |_| {
        for (due_ns, bytes) in receive {
            let _ = clock::sleep_until(due_ns);
            let _ = to.write(&bytes);
        }
    });
    for handle in [reader, writer] {
        handle.map_err(std::io::Error::other)?.detach();
    }
    Ok(())
}

fn parse(bytes: &[u8], there: bool) -> Frame {
    let mut frame = Frame {
        there,
        ..Frame::default()
    };
    let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    if bytes.len() < 54 {
        frame.is_arp = bytes.len() >= 22 && two(12) == 0x0806 && two(20) == 1;
        return frame;
    }
    if two(12) == 0x0800 && bytes[23] == 6 {
        let ip = usize::from(bytes[14] & 15) * 4;
        let tcp = 14 + ip;
        let header = ip + usize::from(bytes[tcp + 12] >> 4) * 4;
        frame.payload = usize::from(two(16)).saturating_sub(header);
        frame.sequence = u32::from_be_bytes(bytes[tcp + 4..tcp + 8].try_into().unwrap());
    }
    frame
}
