//! The frames of a connection of control: length, kind, content.

use punctual_record::path::ResponderReport;

use super::bytes::{Reader, Writer};
use super::delays::{self, PeerDelay};
use super::proof::{Nonce, Proof, SessionId};
use super::session::{Accepted, Ready, Refusal, Request, read_report, write_report};
use super::{PROTOCOL, WireError, limits};

/// The first bytes of every connection, after the frame's head; those of later versions too.
const MAGIC: [u8; 8] = *b"PUNCTUAL";
/// Bytes of a frame before its content: the length of kind and content, then the kind.
pub const HEAD_BYTES: usize = 3;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The sender begins.
    Hello {
        /// Its version of the protocol.
        protocol: u16,
        /// The version of its punctual.
        version: String,
        /// Its random number.
        nonce: Nonce,
    },
    /// The responder answers; its proof comes after that of the sender.
    Challenge {
        /// The version of its punctual.
        version: String,
        /// Its random number.
        nonce: Nonce,
    },
    /// The sender knows the token.
    Proof(Proof),
    /// The responder knows it too.
    Welcome(Proof),
    /// The responder refuses, and ends the connection.
    Refused(Refusal),
    /// The sender asks for a session.
    Request(Request),
    /// The responder agrees.
    Accepted(Accepted),
    /// The first frame of a connection of data.
    Join {
        /// Its session.
        session: SessionId,
        /// The proof, over the name of the session and the nonces of its connection of control.
        proof: Proof,
    },
    /// The connection of data belongs to its session.
    Joined,
    /// The responder waits for messages.
    Ready(Box<Ready>),
    /// The sender has ended.
    End,
    /// What delayed the responder's thread: before its report, if it looked.
    Delays(Vec<PeerDelay>),
    /// What the responder saw.
    Report(Box<ResponderReport>),
}

impl Frame {
    /// The bytes of the frame.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.u16(0);
        match self {
            Self::Hello {
                protocol,
                version,
                nonce,
            } => {
                to.u8(0).bytes(&MAGIC).u16(*protocol);
                to.text(version).bytes(nonce);
            }
            Self::Challenge { version, nonce } => {
                to.u8(1).text(version).bytes(nonce);
            }
            Self::Proof(proof) => {
                to.u8(2).bytes(proof);
            }
            Self::Welcome(proof) => {
                to.u8(3).bytes(proof);
            }
            Self::Refused(refusal) => {
                to.u8(4);
                refusal.write(&mut to);
            }
            Self::Request(request) => {
                to.u8(5);
                request.write(&mut to);
            }
            Self::Accepted(accepted) => {
                to.u8(6);
                accepted.write(&mut to);
            }
            Self::Join { session, proof } => {
                to.u8(7).bytes(&MAGIC).bytes(session).bytes(proof);
            }
            Self::Joined => {
                to.u8(8);
            }
            Self::Ready(ready) => {
                to.u8(9);
                ready.write(&mut to);
            }
            Self::End => {
                to.u8(10);
            }
            Self::Report(report) => {
                to.u8(11);
                write_report(&mut to, report);
            }
            Self::Delays(delays) => {
                to.u8(12);
                delays::write(&mut to, delays);
            }
        }
        let length = to.0.len() - 2;
        // No frame is longer than the limit: texts are cut, lists are short.
        to.0[..2].copy_from_slice(&(length.min(limits::FRAME_BYTES) as u16).to_be_bytes());
        to.0
    }

    /// How many bytes follow these first two of a frame.
    ///
    /// # Errors
    /// Another program, which begins with other bytes.
    pub fn length(first: [u8; 2]) -> Result<usize, WireError> {
        let length = usize::from(u16::from_be_bytes(first));
        match length {
            0 => Err(WireError::Truncated),
            1..=limits::FRAME_BYTES => Ok(length),
            // Text of another protocol, most likely.
            _ => Err(WireError::TooLong { length }),
        }
    }

    /// Reads a frame after its length.
    ///
    /// # Errors
    /// It is none of this protocol.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader::new(bytes);
        let frame = match from.u8()? {
            0 => {
                magic(&mut from)?;
                let protocol = from.u16()?;
                if protocol != PROTOCOL {
                    // What follows is not known.
                    return Ok(Self::Hello {
                        protocol,
                        version: String::new(),
                        nonce: [0; 32],
                    });
                }
                Self::Hello {
                    protocol,
                    version: from.text()?,
                    nonce: from.array()?,
                }
            }
            1 => Self::Challenge {
                version: from.text()?,
                nonce: from.array()?,
            },
            2 => Self::Proof(from.array()?),
            3 => Self::Welcome(from.array()?),
            4 => Self::Refused(Refusal::read(&mut from)?),
            5 => Self::Request(Request::read(&mut from)?),
            6 => Self::Accepted(Accepted::read(&mut from)?),
            7 => {
                magic(&mut from)?;
                Self::Join {
                    session: from.array()?,
                    proof: from.array()?,
                }
            }
            8 => Self::Joined,
            9 => Self::Ready(Box::new(Ready::read(&mut from)?)),
            10 => Self::End,
            11 => Self::Report(Box::new(read_report(&mut from)?)),
            12 => Self::Delays(delays::read(&mut from)?),
            value => {
                return Err(WireError::Unknown {
                    value: value.into(),
                });
            }
        };
        from.end()?;
        Ok(frame)
    }
}

fn magic(from: &mut Reader<'_>) -> Result<(), WireError> {
    match from.array()? {
        MAGIC => Ok(()),
        _ => Err(WireError::Foreign),
    }
}
