//! Messages between the ends and their rendezvous, on one stream of a QUIC connection, in the form of
//! [`crate::transfer::message`].
//!
//! The host opens a room and gets its number; the guest joins it. What either says goes to the other: first what
//! [`super::secret`] needs, then one sealed message.

use std::{collections::HashSet, net::SocketAddr};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::transfer::{
    addresses::{canonical, single_host},
    ticket::{ADDRESSES_MAX, FINGERPRINT_BYTES, SECRET_BYTES},
};

/// Version of these messages; part of the protocol's name.
pub const VERSION: u16 = 2;
/// Application protocol.
pub(super) const ALPN: &[u8] = b"rc3-meet/2";
/// Most bytes of a message.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;
/// Bytes by which a relay knows an end.
pub(super) const TOKEN_BYTES: usize = 16;

/// What shows a relay where an end is.
pub(super) type Token = [u8; TOKEN_BYTES];

/// To the rendezvous.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FromParty {
    /// First, from the host.
    Open,
    /// First, from the guest: the room with this number.
    Join(u32),
    /// For the other end.
    Say(Bytes),
    /// From the host: the guest knows the words.
    Trusted,
}

/// From the rendezvous.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FromRendezvous {
    /// The host's room has this number.
    Opened { number: u32 },
    /// Both ends are there.
    Joined {
        /// The address that this end is seen from.
        seen: SocketAddr,
        /// That of the guest, for the host.
        guest: Option<SocketAddr>,
        relay: Option<Pass>,
    },
    /// From the other end.
    Said(Bytes),
    /// The room is closed.
    Ended(Why),
}

/// Allows an end to use the relay at this UDP port of the rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pass {
    pub(super) port: u16,
    pub(super) token: Token,
}

/// Why a room is closed, or was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Why {
    /// There are too many, in all or of this site.
    Full,
    /// There is none of this number, or it has a guest.
    NoSuchRoom,
    /// This site has guessed too often.
    Guesses,
    /// Nobody used it for long.
    Expired,
    /// The other end has left.
    Left,
    /// This end has said what it may not.
    Nonsense,
}

/// What the host seals.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) fingerprint: [u8; FINGERPRINT_BYTES],
    pub(super) secret: [u8; SECRET_BYTES],
    pub(super) ends: Candidates,
}

/// Where an end may be reached: as the rendezvous sees it, where its gateway takes packets for it, and its own addresses.
/// What the guest seals.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Candidates(pub(super) Vec<SocketAddr>);

impl Candidates {
    /// Each of them once, a few at most, and only single hosts. Loopback is one if the rendezvous is there.
    pub(super) fn addresses(&self, is_local: bool) -> Vec<SocketAddr> {
        let of_one_host = |at: &SocketAddr| {
            let at = canonical(*at);
            if is_local && at.ip().is_loopback() && at.port() != 0 { Some(at) } else { single_host(at) }
        };
        let mut found: Vec<_> = self.0.iter().take(ADDRESSES_MAX).filter_map(of_one_host).collect();
        let mut seen = HashSet::new();
        found.retain(|at| seen.insert(*at));
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transfer::message::decode;

    #[test]
    fn candidates_are_few_single_hosts() {
        let seen = "198.51.100.7:9".parse().unwrap();
        let lies =
            ["127.0.0.1", "::1", "::ffff:127.0.0.1", "224.0.0.1", "ff02::1", "0.0.0.0", "198.51.100.7"];
        let of = |seen, own: &[&str]| {
            let own = own.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 9));
            Candidates([seen].into_iter().chain(own).collect())
        };
        assert_eq!(of(seen, &lies).addresses(false), [seen]);
        let local = "127.0.0.1:9".parse().unwrap();
        assert_eq!(of(local, &[]).addresses(true), [local]);
        assert!(of(local, &[]).addresses(false).is_empty());
        assert!(of("127.0.0.1:0".parse().unwrap(), &[]).addresses(true).is_empty());
        let many: Vec<String> = (1..100).map(|nth| format!("192.0.2.{nth}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(of(seen, &many).addresses(false).len(), ADDRESSES_MAX);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_a_message_or_refused(bytes: Vec<u8>) {
            let _ = (decode::<FromParty>(&bytes), decode::<FromRendezvous>(&bytes), decode::<Offer>(&bytes));
        }
    }
}
