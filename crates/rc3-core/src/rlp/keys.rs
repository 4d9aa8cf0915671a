//! The seam to the cryptography: seals and opens RLP datagrams (`docs/WIRE.md#protection`).
//!
//! Owns the keys of both directions, the packet numbers of the sending one and the replay window of the
//! receiving one. Invariant: no nonce is used twice with one key, and what fails to authenticate changes
//! nothing but a counter. Nothing here allocates for each packet. The only file of the RLP loop that knows
//! `ring`.

use std::{fmt, ops::Range};

use ring::{
    aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey, quic},
    hkdf::{self, HKDF_SHA256, Prk},
};
use thiserror::Error;

use super::replay::{ReplayWindow, Verdict};
#[cfg(feature = "simulation")]
use crate::simulation::tag::Tagger;
pub use crate::wire::header::{ReceiverId, receiver_id};
use crate::{
    units::Level,
    wire::header::{self, HEADER_LEN, Header, PACKET_NUMBER_END, SAMPLE_LEN, TAG_LEN},
};

/// Label of the TLS exporter (RFC 8446 §7.5) that yields the secrets.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-rc3/1";
/// Context of the exporter for what the client sends.
pub const EXPORTER_CONTEXT_CLIENT: &[u8] = b"client";
/// Context of the exporter for what the server sends.
pub const EXPORTER_CONTEXT_SERVER: &[u8] = b"server";
/// Length of an exported secret in bytes.
pub const SECRET_LEN: usize = 32;

/// How far keys may be used. Only tests have a reason to deviate from the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets sealed with one key before the next is taken into use; at least 1.
    pub packets_per_key: u64,
    /// Datagrams that may fail to authenticate in the life of the connection.
    pub failures_max: u64,
}

impl Default for Limits {
    /// The confidentiality and the integrity limit of AEAD_AES_128_GCM (RFC 9001 §6.6).
    fn default() -> Self {
        Self { packets_per_key: 1 << 23, failures_max: 1 << 52 }
    }
}

/// Both directions of one connection.
#[derive(Debug)]
pub struct RlpKeys {
    /// Seals what we send.
    pub seal: Sealer,
    /// Opens what we receive.
    pub open: Opener,
    /// The id we receive on.
    pub local_id: ReceiverId,
    /// The id we send to.
    pub remote_id: ReceiverId,
}

impl RlpKeys {
    /// The keys from the two exported secrets; `side_is_client` says which of them is ours to send with.
    pub fn new(
        client_secret: &[u8; SECRET_LEN],
        server_secret: &[u8; SECRET_LEN],
        side_is_client: bool,
    ) -> Self {
        Self::with_limits(client_secret, server_secret, side_is_client, Limits::default())
    }

    /// As [`Self::new`], with other limits than those of the AEAD.
    pub fn with_limits(
        client_secret: &[u8; SECRET_LEN],
        server_secret: &[u8; SECRET_LEN],
        side_is_client: bool,
        limits: Limits,
    ) -> Self {
        let (local, remote) =
            if side_is_client { (client_secret, server_secret) } else { (server_secret, client_secret) };
        let secret = |bytes| Secret::Prk(Prk::new_less_safe(HKDF_SHA256, bytes));
        Self::of(&secret(local), &secret(remote), limits)
    }

    /// Keys that protect nothing, for simulations: datagrams have the same lengths, stray ones are refused, forged
    /// ones are not.
    #[cfg(feature = "simulation")]
    pub fn simulated(
        client_secret: &[u8; SECRET_LEN],
        server_secret: &[u8; SECRET_LEN],
        side_is_client: bool,
    ) -> Self {
        let [client, server] =
            [client_secret, server_secret].map(|bytes| Secret::Simulated(Tagger::new(bytes)));
        let (local, remote) = if side_is_client { (client, server) } else { (server, client) };
        Self::of(&local, &remote, Limits::default())
    }

    fn of(local: &Secret, remote: &Secret, limits: Limits) -> Self {
        let seal = Sealer::new(local, limits);
        let open = Opener::new(remote, limits);
        Self { local_id: open.id, remote_id: seal.id, seal, open }
    }
}

/// Seals datagrams in the order they are finished, which is the order of their packet numbers.
pub struct Sealer {
    id: ReceiverId,
    mask: Mask,
    generation: Generation,
    key_phase: bool,
    packet_number: u64,
    /// How many packets `generation` may still seal.
    packets_left: u64,
    packets_per_key: u64,
}

impl Sealer {
    /// What a datagram is longer than its payload, in bytes: header and tag.
    pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

    fn new(secret: &Secret, limits: Limits) -> Self {
        let packets_per_key = limits.packets_per_key.max(1);
        Self {
            id: secret.id(),
            mask: secret.mask(),
            generation: secret.generation(),
            key_phase: false,
            packet_number: 0,
            packets_left: packets_per_key,
            packets_per_key,
        }
    }

    /// Starts a datagram at the end of `buf`, which may hold finished ones already (a GSO batch). The caller
    /// then appends the payload and calls [`Self::finish`]; or truncates `buf` to what it was and drops the
    /// [`Sealing`], and no packet number is spent.
    ///
    /// `level` must not be the primary's: no receiver would take the datagram.
    pub fn begin(&mut self, level: Level, buf: &mut Vec<u8>) -> Sealing {
        debug_assert!(!level.is_primary(), "level 0 belongs to the primary loop");
        let start = buf.len();
        buf.extend_from_slice(&[0; HEADER_LEN]);
        Sealing { start, level }
    }

    /// Seals the datagram from where `sealing` began to the end of `buf`, and returns its packet number.
    ///
    /// # Panics
    /// When `buf` has been cut to before the payload, or after 2^62 packets.
    pub fn finish(&mut self, sealing: Sealing, buf: &mut Vec<u8>) -> u64 {
        if self.packets_left == 0 {
            self.generation = self.generation.next();
            self.key_phase = !self.key_phase;
            self.packets_left = self.packets_per_key;
        }
        let packet_number = self.packet_number;
        assert!(packet_number < PACKET_NUMBER_END, "the packet numbers of this connection are used up");
        let mut header = Header {
            key_phase: self.key_phase,
            reserved: false,
            level: sealing.level,
            receiver: self.id,
            packet_number: packet_number as u32,
        }
        .emit();

        let tag = self.generation.seal(packet_number, &header, &mut buf[sealing.start + HEADER_LEN..]);
        buf.extend_from_slice(&tag);
        let (place, sealed) = buf[sealing.start..].split_at_mut(HEADER_LEN);
        let mask = self.mask.of(&sealed[..SAMPLE_LEN]).expect("the sample has the length of a block");
        header::apply_mask(&mut header, mask);
        place.copy_from_slice(&header);

        self.packet_number += 1;
        self.packets_left -= 1;
        packet_number
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("id", &self.id)
            .field("packet_number", &self.packet_number)
            .field("key_phase", &self.key_phase)
            .finish_non_exhaustive()
    }
}

/// A datagram that has been begun: see [`Sealer::begin`].
#[derive(Debug)]
#[must_use = "the datagram is not sealed before `Sealer::finish`"]
pub struct Sealing {
    start: usize,
    level: Level,
}

/// Opens datagrams in whatever order they come, each once.
///
/// The generation of keys is chosen by key phase and packet number alone, so each datagram costs one attempt,
/// and all keys that can be chosen are there beforehand: a forged key phase costs what any other forgery
/// does.
pub struct Opener {
    id: ReceiverId,
    mask: Mask,
    /// For packets that were overtaken by the key update.
    previous: Option<Generation>,
    current: Generation,
    /// Moves up when the first packet sealed with it has authenticated.
    next: Generation,
    /// The key phase of `current`.
    key_phase: bool,
    /// Also knows the highest packet number authenticated, which is always one of `current`'s.
    replay: ReplayWindow,
    failures: u64,
    failures_max: u64,
}

impl Opener {
    fn new(secret: &Secret, limits: Limits) -> Self {
        let current = secret.generation();
        Self {
            id: secret.id(),
            mask: secret.mask(),
            previous: None,
            next: current.next(),
            current,
            key_phase: false,
            replay: ReplayWindow::new(),
            failures: 0,
            failures_max: limits.failures_max,
        }
    }

    /// Authenticates and decrypts `datagram` in place, and refuses what has been opened before.
    ///
    /// # Errors
    /// See [`OpenError`]. The content of `datagram` is then unspecified.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        if self.failures >= self.failures_max {
            return Err(OpenError::IntegrityLimit);
        }
        if receiver_id(datagram) != Some(self.id) {
            return Err(OpenError::NotForUs);
        }
        let (header, sealed) = datagram.split_first_chunk_mut::<HEADER_LEN>().ok_or(OpenError::NotForUs)?;
        let sample = sealed.get(..SAMPLE_LEN).ok_or(OpenError::NotForUs)?;
        let mask = self.mask.of(sample).ok_or(OpenError::NotForUs)?;
        header::apply_mask(header, mask);
        let fields = Header::parse(header);
        let packet_number = header::expand_packet_number(fields.packet_number, self.replay.next());

        let era = self.era(fields.key_phase, packet_number);
        let generation = match era {
            Era::Previous => self.previous.as_ref(),
            Era::Current => Some(&self.current),
            Era::Next => Some(&self.next),
        };
        let payload_len = generation.and_then(|generation| generation.open(packet_number, header, sealed));
        let Some(payload_len) = payload_len else {
            self.failures += 1;
            let is_last = self.failures >= self.failures_max;
            return Err(if is_last { OpenError::IntegrityLimit } else { OpenError::Unauthentic });
        };

        // From here on the peer speaks.
        if era == Era::Next {
            let following = self.next.next();
            self.previous =
                Some(std::mem::replace(&mut self.current, std::mem::replace(&mut self.next, following)));
            self.key_phase = fields.key_phase;
        }
        match self.replay.check(packet_number) {
            Verdict::New => self.replay.insert(packet_number),
            Verdict::Duplicate => return Err(OpenError::Duplicate),
            Verdict::TooOld => return Err(OpenError::TooOld),
        }
        if fields.reserved {
            return Err(OpenError::ReservedBit);
        }
        if fields.level.is_primary() {
            return Err(OpenError::PrimaryLevel);
        }
        Ok(Opened { level: fields.level, packet_number, payload: HEADER_LEN..HEADER_LEN + payload_len })
    }

    /// Which keys an honest sender has sealed the packet with (RFC 9001 §6.5): it never goes back to older
    /// ones, so the other key phase means newer keys above the highest packet number, and older ones below.
    fn era(&self, key_phase: bool, packet_number: u64) -> Era {
        if key_phase == self.key_phase {
            Era::Current
        } else if packet_number >= self.replay.next() {
            Era::Next
        } else {
            Era::Previous
        }
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("id", &self.id)
            .field("key_phase", &self.key_phase)
            .field("replay", &self.replay)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

/// A datagram that authenticated, for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The level it was sent at, 1 to 15.
    pub level: Level,
    /// Its packet number, below 2^62.
    pub packet_number: u64,
    /// Where in the datagram its frames lie, in the clear now.
    pub payload: Range<usize>,
}

/// Why a datagram was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No RLP datagram, or one with another receiver id. Drop it.
    #[error("not an rlp datagram of this connection")]
    NotForUs,
    /// Forged, damaged, or sealed with keys long gone. Drop it.
    #[error("an rlp datagram did not authenticate")]
    Unauthentic,
    /// Opened before. Drop it.
    #[error("an rlp datagram came twice")]
    Duplicate,
    /// So late that it may have been opened before. Drop it.
    #[error("an rlp datagram came too late to tell whether it came before")]
    TooOld,
    /// The peer set a bit that rc3/1 reserves.
    #[error("an rlp datagram has its reserved bit set")]
    ReservedBit,
    /// The peer claims to have sent an RLP datagram at level 0.
    #[error("an rlp datagram names the level of the primary loop")]
    PrimaryLevel,
    /// So many datagrams did not authenticate that the next could be a lucky forgery (RFC 9001 §6.6): this
    /// and all further ones are refused.
    #[error("too many rlp datagrams did not authenticate, stop using these keys")]
    IntegrityLimit,
}

impl OpenError {
    /// Whether the datagram was the peer's and the peer broke the protocol: the connection must be closed.
    /// Everything else may be a third party's doing and is dropped in silence.
    pub const fn is_peer_fault(self) -> bool {
        matches!(self, Self::ReservedBit | Self::PrimaryLevel)
    }
}

/// Which of an opener's generations to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Previous,
    Current,
    Next,
}

/// What the keys of one direction are derived from.
enum Secret {
    Prk(Prk),
    #[cfg(feature = "simulation")]
    Simulated(Tagger),
}

impl Secret {
    fn id(&self) -> ReceiverId {
        match self {
            Self::Prk(secret) => {
                let mut id = [0; 8];
                expand_into(secret, b"rc3 id", &mut id);
                ReceiverId(id)
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => ReceiverId(tagger.key().to_be_bytes()),
        }
    }

    fn mask(&self) -> Mask {
        match self {
            Self::Prk(secret) => {
                let key = secret.expand(&[b"rc3 hp"], &quic::AES_128).expect("hkdf can yield 16 bytes");
                Mask::Aes(Box::new(key.into()))
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Mask::Simulated,
        }
    }

    fn generation(&self) -> Generation {
        match self {
            Self::Prk(secret) => Generation::Aead(Box::new(AeadGeneration::new(secret.clone()))),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => Generation::Simulated(*tagger),
        }
    }
}

/// Header protection.
enum Mask {
    Aes(Box<quic::HeaderProtectionKey>),
    /// None: headers go in the clear.
    #[cfg(feature = "simulation")]
    Simulated,
}

impl Mask {
    fn of(&self, sample: &[u8]) -> Option<[u8; 5]> {
        match self {
            Self::Aes(key) => key.new_mask(sample).ok(),
            #[cfg(feature = "simulation")]
            Self::Simulated => Some([0; 5]),
        }
    }
}

/// What protects datagrams between two key updates.
enum Generation {
    Aead(Box<AeadGeneration>),
    #[cfg(feature = "simulation")]
    Simulated(Tagger),
}

impl Generation {
    /// The generation after this one.
    fn next(&self) -> Self {
        match self {
            Self::Aead(aead) => Self::Aead(Box::new(aead.next())),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => Self::Simulated(tagger.next()),
        }
    }

    fn seal(&self, packet_number: u64, header: &[u8; HEADER_LEN], payload: &mut [u8]) -> [u8; TAG_LEN] {
        match self {
            Self::Aead(aead) => aead.seal(packet_number, header, payload),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => tagger.tag(packet_number, header, payload.len()),
        }
    }

    /// Decrypts `sealed`, ciphertext and tag, and returns the length of the payload.
    fn open(&self, packet_number: u64, header: &[u8; HEADER_LEN], sealed: &mut [u8]) -> Option<usize> {
        match self {
            Self::Aead(aead) => aead.open(packet_number, header, sealed),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => tagger.check(packet_number, header, sealed),
        }
    }
}

/// The AEAD between two key updates.
struct AeadGeneration {
    secret: Prk,
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl AeadGeneration {
    fn new(secret: Prk) -> Self {
        let mut iv = [0; NONCE_LEN];
        expand_into(&secret, b"rc3 iv", &mut iv);
        let key = secret.expand(&[b"rc3 key"], &AES_128_GCM).expect("hkdf can yield 16 bytes");
        Self { key: LessSafeKey::new(UnboundKey::from(key)), iv, secret }
    }

    fn next(&self) -> Self {
        let secret = self.secret.expand(&[b"rc3 ku"], HKDF_SHA256).expect("hkdf can yield 32 bytes");
        Self::new(Prk::from(secret))
    }

    fn seal(&self, packet_number: u64, header: &[u8; HEADER_LEN], payload: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(packet_number), Aad::from(header), payload)
            .expect("datagrams are far shorter than AES-GCM can seal");
        *tag.as_ref().first_chunk().expect("the tag has the length of a block")
    }

    fn open(&self, packet_number: u64, header: &[u8; HEADER_LEN], sealed: &mut [u8]) -> Option<usize> {
        let payload = self.key.open_in_place(self.nonce(packet_number), Aad::from(header), sealed).ok()?;
        Some(payload.len())
    }

    /// RFC 9001 §5.3.
    fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        let (_, low) = nonce.split_at_mut(NONCE_LEN - size_of::<u64>());
        for (byte, number) in low.iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// HKDF-Expand (RFC 5869 §2.3) of as many bytes as `out` has.
fn expand_into(secret: &Prk, info: &[u8], out: &mut [u8]) {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let infos = [info];
    let okm = secret.expand(&infos, Len(out.len())).expect("hkdf can yield a few bytes");
    okm.fill(out).expect("the length is the one asked for");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        units::Span,
        wire::{
            document::documented,
            frame::{DataHeader, Frame, Frames},
            sack,
        },
    };

    impl Generation {
        fn aead(&self) -> &AeadGeneration {
            match self {
                Self::Aead(aead) => aead,
                #[cfg(feature = "simulation")]
                Self::Simulated(_) => unreachable!("only RlpKeys::simulated makes these"),
            }
        }
    }

    fn secrets() -> ([u8; 32], [u8; 32]) {
        (std::array::from_fn(|i| i as u8), std::array::from_fn(|i| 0x20 + i as u8))
    }

    fn pair(limits: Limits) -> (RlpKeys, RlpKeys) {
        let (client, server) = secrets();
        let keys = |side_is_client| RlpKeys::with_limits(&client, &server, side_is_client, limits);
        (keys(true), keys(false))
    }

    fn pair_updating_every(packets_per_key: u64) -> (RlpKeys, RlpKeys) {
        pair(Limits { packets_per_key, ..Limits::default() })
    }

    fn seal(sealer: &mut Sealer, level: u8, payload: &[u8]) -> Vec<u8> {
        let mut buf = Vec::new();
        let sealing = sealer.begin(Level::new(level).unwrap(), &mut buf);
        buf.extend(payload);
        sealer.finish(sealing, &mut buf);
        buf
    }

    fn open(opener: &mut Opener, datagram: &[u8]) -> Result<(u64, Vec<u8>), OpenError> {
        let mut datagram = datagram.to_vec();
        let opened = opener.open(&mut datagram)?;
        Ok((opened.packet_number, datagram[opened.payload].to_vec()))
    }

    /// Seals with fields no honest sender would write.
    fn seal_header(keys: &RlpKeys, generations: u32, header: Header, packet_number: u64) -> Vec<u8> {
        let mut generation = AeadGeneration::new(keys.seal.generation.aead().secret.clone());
        for _ in 0..generations {
            generation = generation.next();
        }
        let mut bytes = header.emit();
        let mut payload = b"payload".to_vec();
        let tag = generation.seal(packet_number, &bytes, &mut payload);
        payload.extend(tag.as_ref());
        header::apply_mask(&mut bytes, keys.seal.mask.of(&payload[..SAMPLE_LEN]).unwrap());
        [&bytes[..], &payload].concat()
    }

    fn header(keys: &RlpKeys, packet_number: u64) -> Header {
        Header {
            key_phase: false,
            reserved: false,
            level: Level::FIRST,
            receiver: keys.remote_id,
            packet_number: packet_number as u32,
        }
    }

    fn expanded(secret: &[u8], info: &[u8], len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        expand_into(&Prk::new_less_safe(HKDF_SHA256, secret), info, &mut out);
        out
    }

    #[test]
    fn the_worked_example_of_the_document_is_what_we_seal() {
        let (mut client, mut server) = pair(Limits::default());
        let secret = documented("client secret");
        assert_eq!(
            (secret.clone(), documented("server secret")),
            (secrets().0.to_vec(), secrets().1.to_vec())
        );
        assert_eq!(documented("client key"), expanded(&secret, b"rc3 key", 16));
        assert_eq!(documented("client iv"), client.seal.generation.aead().iv);
        assert_eq!(documented("client hp"), expanded(&secret, b"rc3 hp", 16));
        assert_eq!(documented("client id"), client.remote_id.0);
        assert_eq!(documented("client next"), expanded(&secret, b"rc3 ku", 32));
        assert_eq!(documented("server id"), client.local_id.0);

        let mut payload = Vec::new();
        sack::emit(1, [Span::new(0, 10), Span::new(100, 400)], 100, &mut payload);
        let data = DataHeader { stream: 4, offset: 1_000, final_size: Some(1_003), explicit_len: None };
        data.emit(&mut payload);
        payload.extend(b"rc3");
        assert_eq!(documented("payload"), payload);

        client.seal.packet_number = 0x0102;
        let datagram = seal(&mut client.seal, 2, &payload);
        let mask = client.seal.mask.of(&datagram[HEADER_LEN..][..SAMPLE_LEN]).unwrap();
        assert_eq!(documented("mask"), mask);
        let mut header = *datagram.first_chunk().unwrap();
        header::apply_mask(&mut header, mask);
        assert_eq!(documented("header"), header);
        assert_eq!(documented("nonce"), client.seal.generation.aead().nonce(0x0102).as_ref());
        assert_eq!(documented("datagram"), datagram);
        assert_eq!(open(&mut server.open, &datagram), Ok((0x0102, payload)));

        client.seal.packets_left = 0;
        assert_eq!(documented("datagram after key update"), seal(&mut client.seal, 15, &[0]));
    }

    #[test]
    fn a_batch_opens_datagram_by_datagram() {
        let (mut client, mut server) = pair(Limits::default());
        let mut buf = b"in front".to_vec();
        let mut borders = vec![buf.len()];
        for number in 0..3_u8 {
            let sealing = client.seal.begin(Level::new(number + 1).unwrap(), &mut buf);
            buf.extend([number; 20]);
            assert_eq!(client.seal.finish(sealing, &mut buf), u64::from(number));
            borders.push(buf.len());
        }
        assert!(buf.starts_with(b"in front"));
        for (number, border) in borders.windows(2).enumerate() {
            let datagram = &mut buf[border[0]..border[1]];
            assert_eq!(datagram.len(), 20 + Sealer::OVERHEAD);
            assert_eq!(receiver_id(datagram), Some(server.local_id));
            let opened = server.open.open(datagram).unwrap();
            assert_eq!((opened.level.index(), opened.packet_number), (number + 1, number as u64));
            assert_eq!(datagram[opened.payload], [number as u8; 20]);
        }
    }

    #[test]
    fn an_empty_payload_is_sealed_and_opened() {
        let (mut client, mut server) = pair(Limits::default());
        let datagram = seal(&mut client.seal, 1, &[]);
        assert_eq!(datagram.len(), Sealer::OVERHEAD);
        assert_eq!(open(&mut server.open, &datagram), Ok((0, vec![])));
    }

    #[test]
    fn a_dropped_sealing_spends_no_packet_number() {
        let (mut client, _) = pair(Limits::default());
        let mut buf = Vec::new();
        drop(client.seal.begin(Level::FIRST, &mut buf));
        buf.clear();
        let sealing = client.seal.begin(Level::FIRST, &mut buf);
        assert_eq!(client.seal.finish(sealing, &mut buf), 0);
    }

    #[test]
    fn directions_do_not_open_each_other() {
        let (mut client, mut server) = pair(Limits::default());
        assert_ne!(client.local_id, client.remote_id);
        assert_eq!((client.local_id, client.remote_id), (server.remote_id, server.local_id));
        let datagram = seal(&mut client.seal, 1, b"to the server");
        assert_eq!(open(&mut client.open, &datagram), Err(OpenError::NotForUs));
        let mut reflected = datagram.clone();
        reflected[1..9].copy_from_slice(&client.local_id.0);
        assert_eq!(open(&mut client.open, &reflected), Err(OpenError::Unauthentic));
        assert!(open(&mut server.open, &datagram).is_ok());
    }

    #[test]
    fn replay_is_refused() {
        let (mut client, mut server) = pair_updating_every(2);
        let datagrams: Vec<_> = (0..4).map(|i| seal(&mut client.seal, 1, &[i])).collect();
        for order in [[3, 1, 2, 0], [0, 1, 2, 3]] {
            for number in order {
                let _ = open(&mut server.open, &datagrams[number]);
                // Packet 1 was opened with the previous keys, 2 and 3 with the current.
                assert_eq!(open(&mut server.open, &datagrams[number]), Err(OpenError::Duplicate), "{number}");
            }
        }
    }

    #[test]
    fn packets_behind_the_window_are_too_old() {
        let (mut client, mut server) = pair(Limits::default());
        let old = seal(&mut client.seal, 1, b"old");
        client.seal.packet_number = crate::rlp::replay::WINDOW;
        let new = seal(&mut client.seal, 1, b"new");
        assert!(open(&mut server.open, &new).is_ok());
        assert_eq!(open(&mut server.open, &old), Err(OpenError::TooOld));
    }

    #[test]
    fn packet_numbers_expand_past_32_bits() {
        let (mut client, mut server) = pair(Limits::default());
        // Each step is below 2^31, as is the number of packets an honest sender may lose in a row.
        for number in [0x6000_0000, 0xc000_0000, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001, 0x1_7000_0000] {
            client.seal.packet_number = number;
            let datagram = seal(&mut client.seal, 1, b"far");
            assert_eq!(open(&mut server.open, &datagram), Ok((number, b"far".to_vec())));
        }
    }

    #[test]
    fn late_packets_of_the_previous_keys_open_until_the_update_after() {
        let (mut client, mut server) = pair_updating_every(3);
        let datagrams: Vec<_> = (0..9).map(|i| seal(&mut client.seal, 1, &[i])).collect();
        for (number, result) in [
            (4, Ok(())),
            (1, Ok(())),
            (3, Ok(())),
            (0, Ok(())),
            (5, Ok(())),
            (7, Ok(())),
            // Two generations back: the same key phase as now, but not the same keys.
            (2, Err(OpenError::Unauthentic)),
            (6, Ok(())),
            (8, Ok(())),
        ] {
            let opened = open(&mut server.open, &datagrams[number]);
            assert_eq!(opened.map(|(opened, _)| assert_eq!(opened, number as u64)), result, "{number}");
        }
    }

    #[test]
    fn the_first_packet_may_be_of_the_second_key() {
        let (mut client, mut server) = pair_updating_every(1);
        let lost = seal(&mut client.seal, 1, b"late");
        let first = seal(&mut client.seal, 1, b"first");
        assert_eq!(open(&mut server.open, &first), Ok((1, b"first".to_vec())));
        assert_eq!(open(&mut server.open, &lost), Ok((0, b"late".to_vec())));
    }

    #[test]
    fn spoofed_key_phases_change_nothing() {
        let (mut client, mut server) = pair_updating_every(50);
        let mut failures = 0;
        for number in 0..200_u64 {
            let datagram = seal(&mut client.seal, 1, b"honest");
            // The mask is an exclusive or: a bit flipped on the wire flips below it.
            let mut spoofed = datagram.clone();
            spoofed[0] ^= 0x20;
            let phase = server.open.key_phase;
            assert_eq!(open(&mut server.open, &spoofed), Err(OpenError::Unauthentic));
            failures += 1;
            assert_eq!((server.open.key_phase, server.open.failures), (phase, failures));
            assert_eq!(server.open.replay.next(), number);
            assert_eq!(open(&mut server.open, &datagram), Ok((number, b"honest".to_vec())));
        }
    }

    #[test]
    fn only_the_peer_can_be_at_fault() {
        let (client, mut server) = pair(Limits::default());
        let honest = header(&client, 0);
        for (number, header, error) in [
            (0, Header { reserved: true, ..honest }, OpenError::ReservedBit),
            (1, Header { level: Level::PRIMARY, packet_number: 1, ..honest }, OpenError::PrimaryLevel),
        ] {
            let datagram = seal_header(&client, 0, header, number);
            let mut forged = datagram.clone();
            *forged.last_mut().unwrap() ^= 1;
            assert_eq!(open(&mut server.open, &forged), Err(OpenError::Unauthentic));
            assert_eq!(open(&mut server.open, &datagram), Err(error));
            assert!(error.is_peer_fault() && !OpenError::Unauthentic.is_peer_fault());
            assert_eq!(open(&mut server.open, &datagram), Err(OpenError::Duplicate));
        }
    }

    #[test]
    fn newer_keys_below_the_highest_number_do_not_open() {
        let (mut client, mut server) = pair(Limits::default());
        let overtaken = seal_header(&client, 1, Header { key_phase: true, ..header(&client, 3) }, 3);
        client.seal.packet_number = 5;
        let datagram = seal(&mut client.seal, 1, b"highest");
        assert!(open(&mut server.open, &datagram).is_ok());
        assert_eq!(open(&mut server.open, &overtaken), Err(OpenError::Unauthentic));
        assert!(!server.open.key_phase);
    }

    #[test]
    fn past_the_integrity_limit_nothing_opens() {
        let (mut client, mut server) = pair(Limits { failures_max: 2, ..Limits::default() });
        let datagram = seal(&mut client.seal, 1, b"honest");
        let mut forged = datagram.clone();
        forged[20] ^= 1;
        assert_eq!(open(&mut server.open, &forged), Err(OpenError::Unauthentic));
        assert_eq!(open(&mut server.open, &[0; 40]), Err(OpenError::NotForUs), "no attempt, no failure");
        assert_eq!(open(&mut server.open, &forged), Err(OpenError::IntegrityLimit));
        assert_eq!(open(&mut server.open, &datagram), Err(OpenError::IntegrityLimit));
    }

    #[test]
    fn debug_does_not_print_keys() {
        let (client, _) = pair(Limits::default());
        let printed = format!("{client:?} {client:#?}");
        assert!(printed.contains("packet_number"));
        for secret in [&client.seal.generation.aead().iv[..], &client.open.current.aead().iv, &[0, 1, 2, 3]] {
            let bytes: Vec<_> = secret[..4].iter().map(u8::to_string).collect();
            assert!(!printed.contains(&bytes.join(", ")));
            let hex: String = secret[..4].iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(!printed.contains(&hex));
        }
    }

    proptest! {
        #[test]
        fn open_undoes_seal(level in 1..16_u8, number in 0..1_u64 << 31, payload: Vec<u8>) {
            let (mut client, mut server) = pair(Limits::default());
            client.seal.packet_number = number;
            let mut datagram = seal(&mut client.seal, level, &payload);
            prop_assert_eq!(datagram[0] & 0xc0, 0);
            let opened = server.open.open(&mut datagram).unwrap();
            prop_assert_eq!((opened.level.get(), opened.packet_number), (level, number));
            prop_assert_eq!(&datagram[opened.payload], &payload[..]);
        }

        #[test]
        fn mutated_datagrams_never_open(
            payload in prop::collection::vec(any::<u8>(), 0..50),
            at: prop::sample::Index,
            flip in 1..=u8::MAX,
            cut in any::<bool>(),
        ) {
            let (mut client, mut server) = pair(Limits::default());
            let datagram = seal(&mut client.seal, 1, &payload);
            let at = at.index(datagram.len());
            let mut mutated = datagram.clone();
            if cut { mutated.truncate(at) } else { mutated[at] ^= flip }
            let error = open(&mut server.open, &mutated).unwrap_err();
            prop_assert!(matches!(error, OpenError::Unauthentic | OpenError::NotForUs), "{:?}", error);
            prop_assert!(open(&mut server.open, &datagram).is_ok());
        }

        #[test]
        fn garbage_never_opens(garbage: Vec<u8>, routed in any::<bool>()) {
            let (_, mut server) = pair(Limits::default());
            let mut garbage = garbage;
            if routed && garbage.len() >= 9 {
                garbage[0] &= 0x3f;
                garbage[1..9].copy_from_slice(&server.local_id.0);
            }
            prop_assert!(open(&mut server.open, &garbage).is_err());
        }

        /// Packets are lost, doubled and displaced by up to 8 places, with an update every 8: never further
        /// than into the generation before.
        #[test]
        fn key_updates_survive_reordering_both_ways(
            displacements in prop::collection::vec((0..8_usize, 0..3_usize), 1..120),
        ) {
            let (mut client, mut server) = pair_updating_every(8);
            let mut flight: Vec<_> = Vec::new();
            for (number, &(displacement, copies)) in displacements.iter().enumerate() {
                let datagram = seal(&mut client.seal, 1, &[number as u8]);
                // A whole generation must not get lost, or the direction falls silent: see docs/WIRE.md.
                let copies = if number % 4 == 0 { copies.max(1) } else { copies };
                for _ in 0..copies {
                    flight.push((number + displacement, number, datagram.clone()));
                }
            }
            flight.sort_by_key(|&(place, ..)| place);
            let mut seen = BTreeSet::new();
            for (_, number, datagram) in flight {
                let result = open(&mut server.open, &datagram);
                if seen.insert(number) {
                    prop_assert_eq!(result, Ok((number as u64, vec![number as u8])));
                } else {
                    prop_assert_eq!(result, Err(OpenError::Duplicate));
                }
            }
        }

        #[test]
        fn what_was_framed_comes_out_framed(data in prop::collection::vec(any::<u8>(), 0..1200)) {
            let (mut client, mut server) = pair(Limits::default());
            let mut payload = Vec::new();
            DataHeader { stream: 8, offset: 9, final_size: None, explicit_len: None }.emit(&mut payload);
            payload.extend(&data);
            let mut datagram = seal(&mut client.seal, 3, &payload);
            let opened = server.open.open(&mut datagram).unwrap();
            let payload = &datagram[opened.payload];
            let Some(Ok(Frame::Data(frame))) = Frames::new(payload).next() else { panic!("not data") };
            prop_assert_eq!(&payload[frame.data], &data[..]);
        }
    }
}
