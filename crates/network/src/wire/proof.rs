//! Proofs that a side knows the token, which never passes the network.
//!
//! Each proof is an HMAC-SHA256 with the token as its key over the name of who proves what, both
//! nonces, and what was agreed on: a recorded proof is of no use for another connection, and that of
//! one side is none for the other.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::limits;

/// A random number that is used once.
pub type Nonce = [u8; 32];
/// A proof.
pub type Proof = [u8; 32];
/// The name of a session, which its data connection states.
pub type SessionId = [u8; 16];

/// What both sides must know.
#[derive(Clone)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// Its length is outside the limits.
    Length(usize),
    /// It has spaces, control characters or letters beyond ASCII.
    Letters,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(
                f,
                "a token of {length} letters: expected {} to {}",
                limits::LEAST_TOKEN_BYTES,
                limits::MOST_TOKEN_BYTES
            ),
            Self::Letters => f.write_str("a token has letters, digits and signs of ASCII only"),
        }
    }
}

impl std::error::Error for TokenError {}

impl fmt::Debug for Token {
    /// The token itself is in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads a token; white space around it does not count.
    ///
    /// # Errors
    /// It is too short, too long, or has other letters.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let length = text.len();
        if !(limits::LEAST_TOKEN_BYTES..=limits::MOST_TOKEN_BYTES).contains(&length) {
            return Err(TokenError::Length(length));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Letters);
        }
        Ok(Self(text.to_owned()))
    }

    /// A token from 128 random bits.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The token as text, to be shown to its owner.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn mac(&self, what: What, nonces: &Nonces, also: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).ok()?;
        mac.update(what.label());
        mac.update(&nonces.sender);
        mac.update(&nonces.responder);
        mac.update(also);
        Some(mac)
    }

    /// The proof of this side.
    #[must_use]
    pub fn prove(&self, what: What, nonces: &Nonces, also: &[u8]) -> Proof {
        // A key of any length is one.
        self.mac(what, nonces, also)
            .map_or([0; 32], |mac| mac.finalize().into_bytes().into())
    }

    /// Whether the other side's proof is right; takes the same time for any wrong one.
    #[must_use]
    pub fn accepts(&self, proof: &Proof, what: What, nonces: &Nonces, also: &[u8]) -> bool {
        self.mac(what, nonces, also)
            .is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

/// The random numbers of both sides in one connection of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonces {
    /// That of the sender.
    pub sender: Nonce,
    /// That of the responder.
    pub responder: Nonce,
}

/// What is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The sender knows the token.
    Sender,
    /// The responder knows it.
    Responder,
    /// This connection carries the data of a session.
    Data,
}

impl What {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Sender => b"punctual 1 sender",
            Self::Responder => b"punctual 1 responder",
            Self::Data => b"punctual 1 data",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCES: Nonces = Nonces {
        sender: [1; 32],
        responder: [2; 32],
    };

    #[test]
    fn a_proof_serves_for_one_token_side_and_connection_alone() {
        let token = Token::parse("0123456789abcdef").unwrap();
        let proof = token.prove(What::Sender, &NONCES, b"x");
        assert!(token.accepts(&proof, What::Sender, &NONCES, b"x"));
        let other = Nonces {
            responder: [3; 32],
            ..NONCES
        };
        assert!(!token.accepts(&proof, What::Sender, &other, b"x"));
        assert!(!token.accepts(&proof, What::Responder, &NONCES, b"x"));
        assert!(!token.accepts(&proof, What::Data, &NONCES, b"x"));
        assert!(!token.accepts(&proof, What::Sender, &NONCES, b"y"));
        let wrong = Token::parse("0123456789abcdeF").unwrap();
        assert!(!wrong.accepts(&proof, What::Sender, &NONCES, b"x"));
        assert!(!token.accepts(&[0; 32], What::Sender, &NONCES, b"x"));
    }

    #[test]
    fn a_token_is_of_printable_letters_and_neither_short_nor_long() {
        assert_eq!(Token::parse("short").err(), Some(TokenError::Length(5)));
        assert_eq!(
            Token::parse(&"x".repeat(257)).err(),
            Some(TokenError::Length(257))
        );
        for text in [
            "with space in it, so wrong",
            "line\nline line line line",
            "ümlautümlautümlaut",
        ] {
            assert_eq!(
                Token::parse(text).err(),
                Some(TokenError::Letters),
                "{text}"
            );
        }
        assert_eq!(
            Token::parse(" 0123456789abcdef\n").unwrap().reveal(),
            "0123456789abcdef"
        );
        assert_eq!(format!("{:?}", Token::from_random([7; 16])), "Token");
        assert_eq!(Token::from_random([0xa7; 16]).reveal(), "a7".repeat(16));
    }
}
