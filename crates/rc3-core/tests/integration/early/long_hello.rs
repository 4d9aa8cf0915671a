//! A ClientHello that takes two datagrams: of a client that offers X25519MLKEM768 (1216 bytes of keys), and, for every
//! provider of cryptography, of one with many long protocol names.

use rc3_core::crypto_provider;
use rc3_sim::identity::{tls, tls_with};
use rustls::NamedGroup;

use super::*;

/// A round trip, and the moment in which packets pass the link.
const RTT: Duration = Duration::from_millis(101);
/// RFC 9002 §6.2.2: the first probe timeout, before the round trip is known.
const PROBE: Duration = Duration::from_secs(1);
const BYTES: u64 = 300_000;

type Identity = (rustls::ClientConfig, rustls::ServerConfig);

/// Long names; with the feature `aws-lc-rs` also keys of ML-KEM.
fn identities() -> Vec<Identity> {
    let names: Vec<String> = (0..3).map(|nth| nth.to_string().repeat(200)).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.insert(0, "sim");
    let mut identities = vec![tls(&names)];
    if crypto_provider().kx_groups[0].name() == NamedGroup::X25519MLKEM768 {
        identities.push(tls_with(crypto_provider(), &["sim"], 0));
    }
    identities
}

/// What becomes of the two datagrams.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Whole,
    Reordered,
    FirstLost,
    SecondLost,
}

const FATES: [Fate; 4] = [Fate::Whole, Fate::Reordered, Fate::FirstLost, Fate::SecondLost];

impl Fate {
    /// Has it befall the next two datagrams with Initial packets that the client sends. Returns those held back.
    fn befall(self, pair: &mut Pair) -> Arc<Mutex<Vec<Vec<u8>>>> {
        let held = Arc::new(Mutex::new(Vec::new()));
        let (ours, mut count) = (held.clone(), 0);
        pair.client.set_tamper(Box::new(move |_, datagram| {
            count += usize::from(is_initial(&datagram.contents));
            let hit = match self {
                Self::Whole => false,
                Self::Reordered | Self::FirstLost => count == 1,
                Self::SecondLost => count == 2,
            };
            let hit = hit && is_initial(&datagram.contents);
            if hit && self == Self::Reordered {
                ours.lock().unwrap().push(datagram.contents.clone());
            }
            usize::from(!hit)
        }));
        held
    }

    /// The time that it may cost.
    fn cost(self) -> Duration {
        match self {
            Self::Whole => Duration::ZERO,
            Self::Reordered => Duration::from_millis(2),
            // The server acknowledges the other one, so that the loss shows at the first probe at the latest.
            Self::FirstLost | Self::SecondLost => PROBE + RTT,
        }
    }
}

/// Delivers what was held back, a moment after the rest.
fn deliver(pair: &mut Pair, held: &Mutex<Vec<Vec<u8>>>) {
    pair.drive_until(DELAY + Duration::from_millis(1), |_| false);
    let from = pair.client.address();
    for datagram in held.lock().unwrap().drain(..) {
        pair.server.inject(from, &datagram);
    }
}

#[test]
fn a_handshake_takes_one_round_trip_whatever_becomes_of_its_first_two_datagrams() {
    for identity in identities() {
        for fate in FATES {
            let mut pair = world();
            pair.set_identity(identity.clone());
            let held = fate.befall(&mut pair);
            let start = pair.now;
            let client = pair.connect();
            deliver(&mut pair, &held);
            let up = |pair: &mut Pair| !pair.client.connection(client).unwrap().is_handshaking();
            assert!(pair.drive_until(Duration::from_secs(5), up), "{fate:?}");
            let took = pair.now - start;
            assert!(took < RTT + fate.cost(), "{fate:?}: {took:?}");
            assert!(pair.client.connection(client).unwrap().is_rc3());
            // No second attempt waits at the server.
            assert_eq!((pair.server.accepted.len(), pair.server.endpoint().incoming_stats().waiting), (1, 0));
        }
    }
}

#[test]
fn early_data_arrives_whatever_becomes_of_the_first_two_datagrams() {
    for identity in identities() {
        for fate in FATES {
            let mut pair = world();
            pair.set_identity(identity.clone());
            meet(&mut pair);
            let held = fate.befall(&mut pair);
            let start = pair.now;
            let client = resume(&mut pair);
            let id = write(&mut pair, client, BYTES);
            deliver(&mut pair, &held);
            let server = accept(&mut pair, id);
            let first = pair.now - start;
            // quinn-proto drops 0-RTT packets that come before the whole ClientHello (RFC 9001 §5.7 lets it), so they are
            // sent again when the handshake is complete.
            let again = if fate == Fate::Reordered { RTT } else { Duration::ZERO };
            assert!(first < DELAY + Duration::from_millis(2) + fate.cost() + again, "{fate:?}: {first:?}");
            if fate == Fate::Whole {
                // RLP's first flight does not wait for the handshake.
                let stats = pair.server.connection(server).unwrap().stats();
                assert!(pair.server.connection(server).unwrap().is_handshaking());
                assert!(stats.received.rlp_datagrams > 10, "{stats:?}");
            }
            read(&mut pair, server, id, BYTES);
            let took = pair.now - start;
            // With them goes the secret of early RLP data, as in `without_the_secret_all_arrives_later`.
            assert!(took < 3 * RTT + fate.cost() + 3 * again, "{fate:?}: {took:?}");
            let stats = pair.client.connection(client).unwrap().stats();
            assert!(pair.client.connection(client).unwrap().is_early_accepted(), "{fate:?}");
            assert!(stats.sent.early_bytes > 10_000, "{fate:?}: {stats:?}");
        }
    }
}
