//! What arrived at one of several endpoints on a port and is for none of its connections, perhaps for those of another.
//!
//! Invariant: bounded, whatever arrives. What finds no room is dropped, as if the network had lost it.

use std::collections::VecDeque;

use bytes::BytesMut;

use crate::{
    datagram_meta::DatagramMeta,
    wire::header::{has_long_header, is_rlp},
};

/// Most RLP datagrams: as many as arrive in one batch.
const DATAGRAMS_MAX: usize = 1024;

/// Most stateless resets.
const RESETS_MAX: usize = 64;

/// Length of the token at the end of a stateless reset, and of the shortest one (RFC 9000 §10.3).
const RESET_TOKEN_LEN: usize = 16;
const RESET_LEN_MIN: usize = 21;

/// The first byte of a QUIC packet with a short header (RFC 9000 §17.3).
const SHORT_HEADER: u8 = 0x40;

/// The end of a stateless reset.
pub(super) type ResetToken = [u8; RESET_TOKEN_LEN];

/// What waits for others to take it.
#[derive(Debug, Default)]
pub(super) struct Strays {
    pub(super) datagrams: VecDeque<(DatagramMeta, BytesMut)>,
    pub(super) resets: VecDeque<(DatagramMeta, ResetToken)>,
}

impl Strays {
    /// Adds an RLP datagram.
    pub(super) fn push(&mut self, meta: DatagramMeta, datagram: BytesMut) {
        if self.datagrams.len() < DATAGRAMS_MAX {
            self.datagrams.push_back((meta, datagram));
        }
    }

    /// Adds what may be a stateless reset.
    pub(super) fn push_reset(&mut self, meta: DatagramMeta, token: ResetToken) {
        if self.resets.len() < RESETS_MAX {
            self.resets.push_back((meta, token));
        }
    }
}

/// The last bytes of a packet with a short header, if it is long enough for a stateless reset.
pub(super) fn reset_token(datagram: &[u8]) -> Option<ResetToken> {
    let is_short = !is_rlp(datagram) && !has_long_header(datagram);
    (is_short && datagram.len() >= RESET_LEN_MIN).then(|| datagram.last_chunk().copied()).flatten()
}

/// The shortest reset with this token, which is never answered by one.
pub(super) fn reset_of(token: ResetToken) -> BytesMut {
    let mut datagram = BytesMut::from(&[0; RESET_LEN_MIN - RESET_TOKEN_LEN][..]);
    datagram.extend_from_slice(&token);
    datagram[0] = SHORT_HEADER;
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: ResetToken = [7; RESET_TOKEN_LEN];

    fn meta() -> DatagramMeta {
        let remote = ([192, 0, 2, 1], 9).into();
        DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None }
    }

    #[test]
    fn a_reset_keeps_its_token() {
        let reset = reset_of(TOKEN);
        assert_eq!(reset_token(&reset), Some(TOKEN));
        assert_eq!(reset_token(&reset[..reset.len() - 1]), None, "too short");
        assert_eq!(reset_token(&[0xc0; RESET_LEN_MIN]), None, "a long header");
        assert_eq!(reset_token(&[]), None);
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut strays = Strays::default();
        for _ in 0..2 * DATAGRAMS_MAX {
            strays.push(meta(), BytesMut::new());
            strays.push_reset(meta(), TOKEN);
        }
        assert_eq!((strays.datagrams.len(), strays.resets.len()), (DATAGRAMS_MAX, RESETS_MAX));
    }
}
