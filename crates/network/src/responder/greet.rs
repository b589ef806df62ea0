//! The handshake of one connection, in a thread of its own.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Counted, Rejection, Server, session};
use crate::framed;
use crate::wire::PROTOCOL;
use crate::wire::control::Frame;
use crate::wire::proof::{Nonce, Nonces, Proof, SessionId, What};
use crate::wire::session::Refusal;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long writing a frame may take: the other side may read nothing.
pub(super) const WRITE: Duration = Duration::from_secs(2);

/// Greets a connection, and serves its session if it asks for one.
pub(super) fn greet(
    server: &Arc<Server>,
    stream: &TcpStream,
    peer: SocketAddr,
    counted: Counted<'_>,
) -> Result<(), Rejection> {
    let until = Instant::now() + HANDSHAKE;
    stream.set_nonblocking(false).map_err(Rejection::Local)?;
    stream.set_nodelay(true).map_err(Rejection::Local)?;
    match framed::read(stream, until)? {
        Frame::Hello {
            protocol, nonce, ..
        } if protocol == PROTOCOL => {
            let nonces = prove(server, stream, nonce, until)?;
            let Frame::Request(request) = framed::read(stream, until)? else {
                return Err(Rejection::Order);
            };
            // From now on it is a session, of which there is one at a time.
            drop(counted);
            session::serve(server, stream, peer, nonces, request)
        }
        Frame::Hello { .. } => Err(refuse(stream, Refusal::Protocol { spoken: PROTOCOL })),
        Frame::Join { session, proof } => join(server, stream, peer, session, &proof),
        _ => Err(Rejection::Order),
    }
}

/// Both sides prove that they know the token: the sender first, so that nobody gets a proof to
/// guess a token from.
fn prove(
    server: &Server,
    stream: &TcpStream,
    sender: Nonce,
    until: Instant,
) -> Result<Nonces, Rejection> {
    let responder = framed::random().map_err(Rejection::Local)?;
    let nonces = Nonces { sender, responder };
    let challenge = Frame::Challenge {
        version: server.config.version.clone(),
        nonce: responder,
    };
    framed::write(stream, &challenge, WRITE)?;
    let Frame::Proof(proof) = framed::read(stream, until)? else {
        return Err(Rejection::Order);
    };
    let token = &server.config.token;
    if !token.accepts(&proof, What::Sender, &nonces, &[]) {
        return Err(refuse(stream, Refusal::Token));
    }
    let own = token.prove(What::Responder, &nonces, &[]);
    framed::write(stream, &Frame::Welcome(own), WRITE)?;
    Ok(nonces)
}

/// Passes a connection of data to its session.
fn join(
    server: &Server,
    stream: &TcpStream,
    peer: SocketAddr,
    session: SessionId,
    proof: &Proof,
) -> Result<(), Rejection> {
    let mut current = server.current();
    let token = &server.config.token;
    let of_it = current.as_mut().filter(|current| {
        current.session == session
            && current.peer == peer.ip()
            && token.accepts(proof, What::Data, &current.nonces, &session)
    });
    let taken = of_it.map(|current| {
        let copy = stream.try_clone().map_err(Rejection::Local)?;
        // A second one for the same session finds no room.
        current.data.try_send(copy).map_err(|_| Rejection::Order)
    });
    drop(current);
    match taken {
        Some(taken) => taken,
        None => Err(refuse(stream, Refusal::Token)),
    }
}

/// Says why, and ends the connection.
pub(super) fn refuse(stream: &TcpStream, why: Refusal) -> Rejection {
    let _ = framed::write(stream, &Frame::Refused(why.clone()), WRITE);
    Rejection::Refused(why)
}
