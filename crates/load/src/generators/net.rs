//! TCP over loopback: small messages in both directions, and streams in one direction.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use crate::board::Slot;
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "net",
    unit: "round trips",
    also: &["stream bytes"],
    description: "TCP over loopback, ping-pong and bulk",
    parameters: &[
        Parameter {
            key: "pairs",
            description: "connections with small messages in both directions",
            default: Amount::PerCpu(1),
            least: 1,
            most: 1024,
        },
        Parameter {
            key: "streams",
            description: "connections that stream at full speed in one direction",
            default: Amount::PerCpu(1),
            least: 0,
            most: 1024,
        },
        Parameter {
            key: "message",
            description: "bytes in a small message",
            default: Amount::Fixed(256),
            least: 1,
            most: 1 << 20,
        },
        Parameter {
            key: "block",
            description: "bytes written to a stream at a time",
            default: Amount::Fixed(64 << 10),
            least: 1,
            most: 1 << 26,
        },
    ],
    scratch: false,
    memory: |values: &Values| {
        // The default maximum size of loopback's buffers.
        let buffers = 4 << 20;
        let streams = values["streams"].saturating_mul(buffers + 2 * values["block"]);
        let pairs = values["pairs"].saturating_mul((256 << 10) + 2 * values["message"]);
        streams.saturating_add(pairs)
    },
    run,
};

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let pairs = context.size("pairs");
    let connections = pairs + context.size("streams");
    context.crew(connections, 2, |index| {
        let is_pair = index < pairs;
        let (server, client) = connect().map_err(WorkError::advised(
            "connecting over 127.0.0.1 failed",
            "is the loopback interface up?",
        ))?;
        let slot = context.slot(index);
        context.threads(2, |side| {
            context.board().arrive();
            let done = match (is_pair, side) {
                (true, 0) => answer(&server, context.size("message")),
                (true, _) => ask(&client, context.size("message"), slot),
                (false, 0) => drink(&server, context.size("block"), slot),
                (false, _) => pour(&client, context.size("block")),
            };
            done.map_err(WorkError::system("a loopback connection broke"))
        })
    })
}

fn connect() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    // Connections of other processes are closed.
    loop {
        let (server, from) = listener.accept()?;
        if from == client.local_addr()? {
            server.set_nodelay(true)?;
            client.set_nodelay(true)?;
            return Ok((server, client));
        }
    }
}

fn ask(mut stream: &TcpStream, bytes: usize, slot: &Slot) -> io::Result<()> {
    let mut message = vec![b'?'; bytes];
    loop {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        slot.add(1);
    }
}

fn answer(mut stream: &TcpStream, bytes: usize) -> io::Result<()> {
    let mut message = vec![0; bytes];
    loop {
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
}

fn pour(mut stream: &TcpStream, bytes: usize) -> io::Result<()> {
    let block = vec![b'.'; bytes];
    loop {
        stream.write_all(&block)?;
    }
}

fn drink(mut stream: &TcpStream, bytes: usize, slot: &Slot) -> io::Result<()> {
    let mut block = vec![0; bytes];
    loop {
        match stream.read(&mut block)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => slot.add_also(0, read as u64),
        }
    }
}
