//! What can be read of QUIC packets without keys (RFC 9000 §17, RFC 8999), as the server's side of the path sees them.

use std::net::SocketAddrV4;

use data_encoding::HEXLOWER;
use kickass::packet::Ecn;
use serde::{Deserialize, Serialize};

/// A connection id of so many bytes that comes back proves the client's address (RFC 9000 §8.1).
const PROOF: usize = 8;
/// Headers of short packets that are recorded, by direction.
const SAMPLES_MAX: usize = 4000;
/// A sample begins so far behind the connection id: where a packet number of four bytes would end (RFC 9001 §5.4.2).
const SAMPLE_AT: usize = 4;
const SAMPLE: usize = 16;

/// Kinds of packets: the types of long headers, of which 1 is 0-RTT, and the short one.
const INITIAL: usize = 0;
const HANDSHAKE: usize = 2;
const RETRY: usize = 3;
const SHORT: usize = 4;

/// What was seen; pairs are of the client's packets and the server's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Bytes of packets by kind: Initial, 0-RTT, Handshake, Retry, 1-RTT.
    pub bytes: [[u64; 5]; 2],
    /// Datagrams by ECN mark: none, ECT(1), ECT(0), CE.
    pub ecn: [[u64; 4]; 2],
    /// The client's Initial packets.
    pub initials: u64,
    /// Those with a token.
    pub tokens: u64,
    /// Connection ids of servers in Handshake packets, and the bytes of these.
    pub handshakes: Vec<(String, u64)>,
    /// Client and server addresses that the server sent to and from, in order.
    pub paths: Vec<[SocketAddrV4; 2]>,
    /// Times a client came from, or went to, another address with the connection id that it used before.
    pub linkable: u64,
    /// Most bytes a server had sent to a client beyond three times what came from it, before its address was proven.
    pub amplified: i64,
    /// What came from it until then.
    pub unproven: i64,
    /// First bytes and samples of short packets, in hexadecimal.
    pub samples: [Vec<String>; 2],
    sampled: bool,
    /// Bytes that may yet be sent; `None` once the client's address is proven.
    allowance: Option<i64>,
    /// The server's ids in its Initial packets.
    offered: Vec<Vec<u8>>,
    /// Bytes of the ids that each side chose.
    id_len: [usize; 2],
    /// Addresses and id of the client's last short packet.
    last: Option<([SocketAddrV4; 2], Vec<u8>)>,
}

/// What a header says.
struct Head<'a> {
    kind: usize,
    to: &'a [u8],
    from: &'a [u8],
    has_token: bool,
}

impl Seen {
    pub(super) fn new(sampled: bool) -> Self {
        Self { sampled, allowance: Some(0), ..Self::default() }
    }

    /// Looks at a datagram between two addresses.
    pub(super) fn note(&mut self, from_server: bool, ecn: Ecn, ends: [SocketAddrV4; 2], datagram: &[u8]) {
        let side = usize::from(from_server);
        self.ecn[side][ecn as usize] += 1;
        let path = if from_server { [ends[1], ends[0]] } else { ends };
        if from_server && self.paths.last() != Some(&path) {
            self.paths.push(path);
        }
        let len = datagram.len() as i64;
        if let Some(left) = &mut self.allowance {
            *left += if from_server { -len } else { 3 * len };
            self.unproven += if from_server { 0 } else { len };
            self.amplified = self.amplified.max(-*left);
        }
        let mut rest = datagram;
        while !rest.is_empty() {
            let packet = rest;
            // A short packet is the last of its datagram; what is not QUIC is none.
            let Some(head) = head(&mut rest, self.id_len[1 - side]) else { return };
            let bytes = (packet.len() - rest.len()) as u64;
            self.bytes[side][head.kind] += bytes;
            if head.kind != SHORT {
                self.id_len[side] = head.from.len();
            }
            if from_server {
                self.note_server(&head, bytes);
            } else {
                self.note_client(&head, path);
            }
            if head.kind == SHORT && self.sampled && self.samples[side].len() < SAMPLES_MAX {
                let sample = packet.get(1 + head.to.len() + SAMPLE_AT..).and_then(|rest| rest.get(..SAMPLE));
                self.samples[side]
                    .extend(sample.map(|sample| HEXLOWER.encode(&[&packet[..1], sample].concat())));
            }
        }
    }

    fn note_server(&mut self, head: &Head<'_>, bytes: u64) {
        match head.kind {
            INITIAL if head.from.len() >= PROOF => self.offered.push(head.from.to_vec()),
            HANDSHAKE => {
                let id = HEXLOWER.encode(head.from);
                match self.handshakes.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, sum)) => *sum += bytes,
                    None => self.handshakes.push((id, bytes)),
                }
            }
            _ => {}
        }
    }

    fn note_client(&mut self, head: &Head<'_>, path: [SocketAddrV4; 2]) {
        if head.kind == INITIAL {
            self.initials += 1;
            self.tokens += u64::from(head.has_token);
        }
        if head.kind == HANDSHAKE || self.offered.iter().any(|id| id == head.to) {
            self.allowance = None;
        }
        if head.kind == SHORT {
            let now = (path, head.to.to_vec());
            let moved = self.last.replace(now.clone());
            self.linkable += u64::from(moved.is_some_and(|(path, id)| path != now.0 && id == now.1));
        }
    }
}

/// The next header, whose packet is taken; ids in short packets have `id_len` bytes.
fn head<'a>(rest: &mut &'a [u8], id_len: usize) -> Option<Head<'a>> {
    let first = take(rest, 1)?[0];
    if first & 0x80 == 0 {
        let head = Head { kind: SHORT, to: take(rest, id_len)?, from: &[], has_token: false };
        *rest = &[];
        return Some(head);
    }
    let version = take(rest, 4)?;
    let [to, from] = [id(rest)?, id(rest)?];
    if version == [0; 4] {
        return None;
    }
    let kind = usize::from(first >> 4 & 0b11);
    let token = if kind == INITIAL { number(rest)? } else { 0 };
    take(rest, token)?;
    let len = if kind == RETRY { rest.len() } else { number(rest)? };
    take(rest, len)?;
    Some(Head { kind, to, from, has_token: token > 0 })
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

/// A connection id with its length.
fn id<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take(rest, 1)?[0];
    take(rest, usize::from(len))
}

/// A variable-length integer (RFC 9000 §16).
fn number(rest: &mut &[u8]) -> Option<usize> {
    let len = 1 << (rest.first()? >> 6);
    let bytes = take(rest, len)?;
    Some(bytes[1..].iter().fold(usize::from(bytes[0] & 0x3f), |sum, byte| sum << 8 | usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long packet of version 1 from the id `from` to an id of eight bytes.
    fn long(kind: u8, from: &[u8], body: &[u8]) -> Vec<u8> {
        let lengths = [&[0xc0 | kind << 4, 0, 0, 0, 1, 8][..], &[7; 8], &[from.len() as u8], from].concat();
        [lengths, body.to_vec()].concat()
    }

    #[test]
    fn packets_of_a_handshake_are_told_apart() {
        let [client, server] = [5000, 443].map(|port| SocketAddrV4::new([10, 93, 0, 1].into(), port));
        let mut seen = Seen::new(true);
        // A token of two bytes, and a length of three.
        seen.note(false, Ecn::Ect0, [client, server], &long(0, &[1; 4], &[2, 9, 9, 3, 0, 0, 0]));
        let both = [long(0, &[3; 8], &[0, 1, 0]), long(2, &[3; 8], &[0x40, 100]), vec![0; 100]].concat();
        seen.note(true, Ecn::Ce, [server, client], &both);
        assert_eq!((seen.initials, seen.tokens, seen.ecn[0][2], seen.ecn[1][3]), (1, 1, 1, 1));
        assert_eq!(seen.handshakes, [("03".repeat(8), 125)]);
        // 26 bytes came, 151 went.
        assert_eq!(seen.amplified, both.len() as i64 - 3 * 26);
        let short = [&[0x40][..], &[3; 8], &[0; 30]].concat();
        seen.note(false, Ecn::Ect0, [client, server], &short);
        assert!(seen.allowance.is_none() && seen.samples[0].len() == 1);
        let elsewhere = SocketAddrV4::new(*client.ip(), 5001);
        seen.note(false, Ecn::Ect0, [elsewhere, server], &short);
        assert_eq!(seen.linkable, 1);
    }

    #[test]
    fn bytes_that_are_not_quic_are_none() {
        let [client, server] = [5000, 443].map(|port| SocketAddrV4::new([10, 93, 0, 1].into(), port));
        let whole = long(0, &[1; 4], &[0x7f, 0xff, 9, 3, 0, 0, 0]);
        for len in 0..whole.len() {
            let mut seen = Seen::new(true);
            seen.note(false, Ecn::NotEct, [client, server], &whole[..len]);
            assert_eq!(seen.initials, 0);
        }
    }
}
