//! What sending a message over a channel costs, compared with a plain write(2): the median of each,
//! in turns, kernel included.
//!
//! In the laboratory a ns is an instruction, so the figures are exact:
//! `punctual lab --kernel standard -- channel_bench`. On a real machine they are times.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use punctual_rt::channel::{Channel, HEADER, Options};
use punctual_rt::clock;

const ROUNDS: usize = 1001;

/// Two ends over the loopback device.
fn connected(listener: &TcpListener) -> Result<(TcpStream, TcpStream), Box<dyn Error>> {
    let one = TcpStream::connect(listener.local_addr()?)?;
    one.set_nodelay(true)?;
    Ok((one, listener.accept()?.0))
}

fn main() -> Result<(), Box<dyn Error>> {
    let sizes = [16, 256, 4096, 16_384];
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut plain, mut plain_peer) = connected(&listener)?;
    let channel = |pads| -> Result<(Channel, TcpStream), Box<dyn Error>> {
        let (one, peer) = connected(&listener)?;
        let options = Options {
            pads,
            pad_below: 16_384,
            ..Options::default()
        };
        Ok((Channel::over(OwnedFd::from(one), &options)?, peer))
    };
    let (mut ours, mut peer) = channel(0)?;
    let (mut padded, mut padded_peer) = channel(3)?;
    let mut sink = vec![0; 65_536];
    println!("bytes  write   send      with deadline  with 3 pads");
    for size in sizes {
        let message = vec![7; size];
        // A plain program delimits its messages too.
        let framed = vec![7; HEADER + size];
        let mut took = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            let begun = clock::now_ns();
            plain.write_all(&framed)?;
            took[0].push(clock::now_ns() - begun);
            plain_peer.read_exact(&mut sink[..framed.len()])?;
            for (place, deadline) in [(1, 0), (2, 1_000_000)] {
                let begun = clock::now_ns();
                ours.send(&message, deadline).map(drop)?;
                took[place].push(clock::now_ns() - begun);
                peer.read_exact(&mut sink[..framed.len()])?;
            }
            let begun = clock::now_ns();
            padded.send(&message, 0).map(drop)?;
            took[3].push(clock::now_ns() - begun);
            padded_peer.read_exact(&mut sink[..framed.len() + 3 * HEADER])?;
        }
        let medians = took.map(|mut all| {
            all.sort_unstable();
            all[ROUNDS / 2]
        });
        let [write, send, deadline, pads] = medians;
        let times = |ns: u64| ns as f64 / write as f64;
        println!(
            "{size:5}  {write:6}  {send:6} {:.2}x  {deadline:6} {:.2}x   {pads:6} {:.2}x",
            times(send),
            times(deadline),
            times(pads)
        );
    }
    Ok(())
}
